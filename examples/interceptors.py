"""Interceptors: a header for every message, and counts of delivered and consumed messages."""

from __future__ import annotations

import os
from collections import Counter

from kafka_native import (
    OFFSET_BEGINNING,
    Consumer,
    ConsumerInterceptor,
    KafkaError,
    Message,
    Producer,
    ProducerInterceptor,
    ProducerRecord,
    TopicPartition,
)

servers = os.environ.get("BOOTSTRAP", "localhost:9092")


class Origin(ProducerInterceptor):
    """Adds the origin to each message, and counts the outcomes."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()

    def on_send(self, record: ProducerRecord) -> None:
        """Adds a header."""
        record.headers = [*(record.headers or []), ("origin", "examples")]

    def on_acknowledgement(self, error: KafkaError | None, message: Message) -> None:
        """Counts."""
        self.outcomes["delivered" if error is None else error.name()] += 1


class Sizes(ConsumerInterceptor):
    """Counts consumed messages."""

    value_bytes = 0

    def on_consume(self, messages: list[Message]) -> None:
        """Adds up."""
        self.value_bytes += sum(len(message.value()) for message in messages)


origin, sizes = Origin(), Sizes()
with Producer(
    {"bootstrap.servers": servers, "interceptors": [origin], "message.max.bytes": 2000}
) as producer:
    for number in range(100):
        producer.produce("intercepted", f"message {number:02}", partition=0)
    try:
        producer.produce("intercepted", "x" * 3000, partition=0)
    except Exception as error:
        print(f"refused: {type(error).__name__}")
print(sorted(origin.outcomes.items()))

with Consumer({"bootstrap.servers": servers, "interceptors": [sizes]}) as consumer:
    consumer.assign([TopicPartition("intercepted", 0, OFFSET_BEGINNING)])
    messages = consumer.consume(100, timeout=10)
print(messages[0].headers(), sizes.value_bytes, "bytes")
