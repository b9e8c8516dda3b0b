"""Typed messages: Avro with a schema registry, a newer reader, and what wrong data look like.

Needs `pip install 'kafka-native[registry,avro]'`.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass

from kafka_native import DeserializingConsumer, SerializingProducer
from kafka_native.error import ValueSerializationError
from kafka_native.mock import MockSchemaRegistry
from kafka_native.schema_registry import SchemaRegistryClient
from kafka_native.schema_registry.avro import AvroDeserializer, AvroSerializer
from kafka_native.serialization import MessageField, SerializationContext

bootstrap = os.environ.get("BOOTSTRAP", "localhost:9092")


@dataclass
class Payment:
    """A payment, whatever its currency is."""

    id: int
    amount: float


def payment(*fields: dict[str, object]) -> str:
    """Return the Avro schema of a payment with these fields behind its amount."""
    every = [{"name": "id", "type": "long"}, {"name": "amount", "type": "double"}, *fields]
    return json.dumps({"type": "record", "name": "Payment", "fields": every})


with contextlib.ExitStack() as stack:
    url = os.environ.get("SCHEMA_REGISTRY_URL")
    if url is None:  # without a registry of your own, the mock registry serves
        url = stack.enter_context(MockSchemaRegistry()).url
    registry = stack.enter_context(SchemaRegistryClient({"url": url}))

    conf = {"bootstrap.servers": bootstrap, "value.serializer": AvroSerializer(registry, payment())}
    with SerializingProducer(conf) as producer:
        producer.produce("invoices", value={"id": 1, "amount": 9.5})
        try:
            producer.produce("invoices", value={"id": 2, "amount": "a lot"})
        except ValueSerializationError as error:
            print("refused:", error.exception or error)
        producer.flush()
    print("registered:", registry.get_latest_version("invoices-value").version)

    newer = payment({"name": "currency", "type": "string", "default": "EUR"})
    conf = {
        "bootstrap.servers": bootstrap,
        "group.id": "typed-messages",
        "auto.offset.reset": "earliest",
        "value.deserializer": AvroDeserializer(registry, newer),
    }
    with DeserializingConsumer(conf) as consumer:
        consumer.subscribe(["invoices"])
        message = None
        while message is None:
            message = consumer.poll(1.0)
        print("read:", message.value())

    # The same schema as a class, which has no field for the currency.
    read = AvroDeserializer(registry, newer, type=Payment)
    context = SerializationContext("invoices", MessageField.VALUE)
    payload = AvroSerializer(registry, payment())({"id": 3, "amount": 1.5}, context)
    print("object:", read(payload, context))
