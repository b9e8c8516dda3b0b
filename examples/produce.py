"""Produces a thousand messages with keys and headers, and counts the delivery reports."""

from __future__ import annotations

import os

from kafka_native import KafkaError, Message, Producer

delivered = 0


def on_delivery(error: KafkaError | None, message: Message) -> None:
    """poll() and flush() call this once for each message."""
    global delivered
    if error is not None:
        print(f"not delivered: {error.str()}")
    else:
        delivered += 1


conf = {
    "bootstrap.servers": os.environ.get("BOOTSTRAP", "localhost:9092"),
    "compression.codec": "lz4",
    "linger.ms": 5,
    "acks": "all",
}
with Producer(conf) as producer:
    for number in range(1000):
        while True:
            try:
                producer.produce(
                    "greetings",
                    f"hello {number}",
                    key=f"user-{number % 10}",
                    headers=[("number", str(number))],
                    on_delivery=on_delivery,
                )
                break
            except BufferError:
                producer.poll(0.1)  # the queue is full: serve reports until there is room
        producer.poll(0)

print(f"{delivered} messages delivered")
