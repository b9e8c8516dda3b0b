"""Exactly once: one transaction has the messages made from another topic, and their offsets."""

from __future__ import annotations

import os

from kafka_native import Consumer, KafkaException, Producer
from kafka_native.eos import process

where = {"bootstrap.servers": os.environ.get("BOOTSTRAP", "localhost:9092")}
source, target = "payments", "receipts"

with Producer({**where, "transactional.id": "till-1"}) as till:
    till.init_transactions(30)
    with till.transaction():
        for number in range(3):
            till.produce(source, str(number), partition=0)
    try:
        with till.transaction():
            till.produce(source, "never seen", partition=0)
            raise ValueError("the till is short")
    except ValueError as error:
        print("aborted:", error)
    try:
        till.produce(source, "outside")
    except KafkaException as error:
        print("refused:", error.args[0].name())

reading = {
    "isolation.level": "read_committed",
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
}
with (
    Consumer({**where, **reading, "group.id": "office"}) as consumer,
    Producer({**where, "transactional.id": "office-1"}) as producer,
):
    consumer.subscribe([source])
    done = process(
        consumer,
        producer,
        lambda payment: [{"topic": target, "value": b"paid " + payment.value()}],
        until=lambda progress: progress.messages >= 3,
    )
    print("processed:", done.messages)

with Consumer({**where, **reading, "group.id": "owner"}) as owner:
    owner.subscribe([target])
    print("receipts:", sorted(receipt.value().decode() for receipt in owner.consume(3, 30)))
