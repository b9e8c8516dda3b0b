"""Produces with idempotence: each message is written once and in order, whatever has to be sent again."""

from __future__ import annotations

import os

from kafka_native import KafkaError, KafkaException, Message, Producer

BOOTSTRAP = os.environ.get("BOOTSTRAP", "localhost:9092")

offsets: list[int] = []


def on_delivery(error: KafkaError | None, message: Message) -> None:
    """A failed message leaves a gap; it is never written later."""
    if error is not None:
        print(f"{message.value()!r} was not delivered: {error}")
    elif (offset := message.offset()) is not None:
        offsets.append(offset)


# Sets acks=all and at most five requests in flight by itself.
with Producer({"bootstrap.servers": BOOTSTRAP, "enable.idempotence": True}) as producer:
    for number in range(1000):
        producer.produce("ledger", str(number), partition=0, on_delivery=on_delivery)
        producer.poll(0)

print(f"{len(offsets)} messages delivered, in order: {offsets == sorted(offsets)}")

# What doesn't go together is refused at once.
try:
    Producer({"bootstrap.servers": BOOTSTRAP, "enable.idempotence": True, "acks": 1})
except KafkaException as error:
    print(error)
