"""At least once: the consumer commits an offset only after its message has been processed."""

from __future__ import annotations

import os

from kafka_native import Consumer, KafkaError, TopicPartition


def committed(error: KafkaError | None, partitions: list[TopicPartition]) -> None:
    """Print the result of a commit."""
    print("committed:", error or sum(each.offset for each in partitions))


conf = {
    "bootstrap.servers": os.environ.get("BOOTSTRAP", "localhost:9092"),
    "group.id": "example-commits",
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "on_commit": committed,  # the next poll() calls it for each commit
}
with Consumer(conf) as consumer:
    consumer.subscribe(["greetings"])
    for count, message in enumerate(consumer, start=1):
        _ = message.value()  # ... process it ...
        if count % 250 == 0:
            consumer.commit(message=message)  # also commits all before it; doesn't wait
        if count == 1000:
            break
    done = consumer.commit(offsets=consumer.position(consumer.assignment()), asynchronous=False)
    print("partitions committed and waited for:", len(done or []))

# Auto-commit of only the processed messages: enable.auto.offset.store=false and store_offsets().
conf = {**conf, "enable.auto.commit": True, "enable.auto.offset.store": False}
with Consumer(conf) as consumer:
    consumer.on_commit = None
    where = TopicPartition("greetings", 0)
    consumer.assign([TopicPartition("greetings", 0, 0)])
    for message in consumer.consume(10, timeout=10):
        consumer.store_offsets(message=message)
    consumer.unassign()  # commits the stored offsets; so does close()
    print(
        "offset of the tenth message, plus one:", consumer.committed([where], timeout=10)[0].offset
    )
