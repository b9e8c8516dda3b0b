"""Reads every partition of a topic from its beginning to its end, without a group."""

from __future__ import annotations

import os

from kafka_native import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

conf = {
    "bootstrap.servers": os.environ.get("BOOTSTRAP", "localhost:9092"),
    "enable.partition.eof": True,
}
count = 0
with Consumer(conf) as consumer:
    partitions = consumer.list_topics("greetings", timeout=10).topics["greetings"].partitions
    consumer.assign(
        [TopicPartition("greetings", number, OFFSET_BEGINNING) for number in partitions]
    )
    unfinished = set(partitions)
    while unfinished:
        for message in consumer.consume(1000, timeout=1.0):
            error = message.error()
            if error is None:
                count += 1
                if count <= 3:
                    print(
                        message.partition(),
                        message.offset(),
                        message.key(),
                        message.value(),
                        message.headers(),
                    )
            elif error.code() == KafkaError._PARTITION_EOF:
                unfinished.discard(message.partition())
            else:
                raise SystemExit(f"can't go on: {error.str()}")

print(f"{count} messages read")
