"""Produces with idempotence: brokers write each message once and in order, also after retries."""

from __future__ import annotations

import os

from kafka_native import KafkaError, KafkaException, Message, Producer

BOOTSTRAP = os.environ.get("BOOTSTRAP", "localhost:9092")

offsets: list[int] = []


def on_delivery(error: KafkaError | None, message: Message) -> None:
    """Collect the offset, or print the error. The client never writes a failed message later."""
    if error is not None:
        print(f"{message.value()!r} was not delivered: {error}")
    elif (offset := message.offset()) is not None:
        offsets.append(offset)


# Idempotence sets acks=all and at most five requests in flight.
with Producer({"bootstrap.servers": BOOTSTRAP, "enable.idempotence": True}) as producer:
    for number in range(1000):
        producer.produce("ledger", str(number), partition=0, on_delivery=on_delivery)
        producer.poll(0)

print(f"{len(offsets)} messages delivered, in order: {offsets == sorted(offsets)}")

# The constructor refuses properties that contradict each other.
try:
    Producer({"bootstrap.servers": BOOTSTRAP, "enable.idempotence": True, "acks": 1})
except KafkaException as error:
    print(error)
