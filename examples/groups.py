"""Two members of a group share a topic; callbacks report assigned and revoked partitions."""

from __future__ import annotations

import os

from kafka_native import Consumer, TopicPartition

conf = {
    "bootstrap.servers": os.environ.get("BOOTSTRAP", "localhost:9092"),
    "group.id": "example-groups",
    "auto.offset.reset": "earliest",
}
names: dict[Consumer, str] = {}


def numbers(partitions: list[TopicPartition]) -> list[int]:
    """Return their numbers, in order."""
    return sorted(each.partition for each in partitions)


def on_assign(consumer: Consumer, partitions: list[TopicPartition]) -> None:
    """Print the newly assigned partitions."""
    print(names[consumer], "has got", numbers(partitions))


def on_revoke(consumer: Consumer, partitions: list[TopicPartition]) -> None:
    """Print the partitions that another member gets."""
    # The last chance to commit. enable.auto.commit commits the stored offsets anyway.
    print(names[consumer], "gives up", numbers(partitions))


def join(name: str) -> Consumer:
    """Create one more member."""
    consumer = Consumer(conf)
    names[consumer] = name
    consumer.subscribe(["greetings"], on_assign=on_assign, on_revoke=on_revoke)
    return consumer


count = 0
first = join("first")
while not first.assignment():
    count += len(first.consume(100, timeout=0.1))
second = join("second")
while len(first.assignment()) != 2 or len(second.assignment()) != 2:
    for member in (first, second):
        count += len(member.consume(100, timeout=0.1))  # this call runs the callbacks

second.close()  # leaves at once: the first continues at the second's committed offsets
while len(first.assignment()) != 4 or sum(lag or 0 for lag in first.lag().values()) > 0:
    count += len(first.consume(100, timeout=0.1))
print(f"{count} messages read by two members")
first.close()
