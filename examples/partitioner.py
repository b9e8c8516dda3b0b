"""Your own partitioner: a function gets topic, key and number of partitions, and returns one."""

from __future__ import annotations

import os

from kafka_native import Message, Producer

URGENT = b"urgent:"
counts: dict[int, int] = {}


def choose(topic: str, key: bytes | None, partition_count: int) -> int:
    """Return partition 0 for urgent messages; the others share the rest."""
    if partition_count == 1 or (key or b"").startswith(URGENT):
        return 0
    return 1 + sum(key or b"") % (partition_count - 1)


def count(error: object, message: Message) -> None:
    """Count the partition of the delivery report."""
    counts[message.partition()] = counts.get(message.partition(), 0) + 1


with Producer(
    {"bootstrap.servers": os.environ.get("BOOTSTRAP", "localhost:9092"), "partitioner_cb": choose},
    on_delivery=count,
) as producer:
    for number in range(1000):
        kind = "urgent" if number % 10 == 0 else "usual"
        producer.produce("greetings", f"number {number}", key=f"{kind}:{number}")

print(
    f"{counts[0]} urgent messages in partition 0, {sum(counts.values()) - counts[0]} in the others"
)
