"""Produces a hundred thousand messages in a few calls, and a few dicts as with confluent_kafka."""

from __future__ import annotations

import os
from typing import Any

from kafka_native import KafkaError, Message, Producer

delivered = 0


def on_delivery(error: KafkaError | None, message: Message) -> None:
    """poll() and flush() call this once for each message."""
    global delivered
    delivered += error is None


values = [f"hello {number}" for number in range(99_998)]
keys = [f"user-{number % 10}" for number in range(99_998)]

with Producer(
    {"bootstrap.servers": os.environ.get("BOOTSTRAP", "localhost:9092"), "linger.ms": 5}
) as producer:
    # Columns are the fastest way. The call queues the messages that fit and returns their number.
    done = 0
    while done < len(values):
        try:
            done += producer.produce_many(
                "greetings",
                values[done : done + 10_000],
                keys[done : done + 10_000],
                on_delivery=on_delivery,
            )
        except BufferError:
            producer.poll(0.1)  # the queue is full: serve reports until there is room
        producer.poll(0)

    # Dicts: each message has its own settings, and an unqueued message has its error.
    messages: list[dict[str, Any]] = [
        {"value": "a value", "key": "a key", "headers": {"kind": "small"}},
        {"value": b"x" * 2_000_000},
        {"value": None, "key": "gone", "partition": 0},
    ]
    producer.flush()
    producer.produce_batch("greetings", messages, on_delivery=on_delivery)
    refused = [message["_error"].name() for message in messages if "_error" in message]

print(f"{delivered} messages delivered, {len(refused)} could not be queued: {', '.join(refused)}")
