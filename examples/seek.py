"""Positions, watermarks, seeking and pausing."""

from __future__ import annotations

import os

from kafka_native import Consumer, Producer, TopicPartition

bootstrap = os.environ.get("BOOTSTRAP", "localhost:9092")
with Producer({"bootstrap.servers": bootstrap}) as producer:
    for number in range(100):
        producer.produce("numbers", str(number), partition=0)

where = TopicPartition("numbers", 0)
with Consumer({"bootstrap.servers": bootstrap}) as consumer:
    low, high = consumer.get_watermark_offsets(where, timeout=10)
    print(f"offsets {low} to {high}")

    consumer.assign([TopicPartition("numbers", 0, high - 100)])
    print("first:", [message.value() for message in consumer.consume(3, timeout=10)])
    print("position:", consumer.position([where])[0].offset - high)

    consumer.seek(TopicPartition("numbers", 0, high - 10))
    print("after seek:", [message.value() for message in consumer.consume(3, timeout=10)])

    consumer.pause([where])
    print("paused:", consumer.poll(timeout=0.2))
    consumer.resume([where])
    message = consumer.poll(timeout=10)
    print("resumed:", message.value() if message else None)
