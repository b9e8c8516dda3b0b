"""At least once: an offset is committed when its message has been dealt with, and not before."""

from __future__ import annotations

import os

from kafka_native import Consumer, KafkaError, TopicPartition


def committed(error: KafkaError | None, partitions: list[TopicPartition]) -> None:
    """A commit is through."""
    print("committed:", error or sum(each.offset for each in partitions))


conf = {
    "bootstrap.servers": os.environ.get("BOOTSTRAP", "localhost:9092"),
    "group.id": "example-commits",
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "on_commit": committed,  # told of each commit, by the next poll()
}
with Consumer(conf) as consumer:
    consumer.subscribe(["greetings"])
    for count, message in enumerate(consumer, start=1):
        _ = message.value()  # ... deal with it ...
        if count % 250 == 0:
            consumer.commit(message=message)  # it and all before it in its partition; doesn't wait
        if count == 1000:
            break
    done = consumer.commit(offsets=consumer.position(consumer.assignment()), asynchronous=False)
    print("partitions committed and waited for:", len(done or []))

# By itself, but only what is said to be done: enable.auto.offset.store=false and store_offsets().
conf = {**conf, "enable.auto.commit": True, "enable.auto.offset.store": False}
with Consumer(conf) as consumer:
    consumer.on_commit = None
    where = TopicPartition("greetings", 0)
    consumer.assign([TopicPartition("greetings", 0, 0)])
    for message in consumer.consume(10, timeout=10):
        consumer.store_offsets(message=message)
    consumer.unassign()  # commits what is stored; so does close()
    print("offset of the tenth message, plus one:", consumer.committed([where], timeout=10)[0].offset)
