"""How to test an application with the mock registry. Run it with pytest.

Needs `pip install 'confluent-kafka[schemaregistry,avro]'`.
"""

from __future__ import annotations

import json

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, SchemaRegistryError
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from kafka_native.mock import MockSchemaRegistry


def order(*fields: dict[str, object]) -> str:
    """Return the Avro schema of an order with these fields behind its id."""
    every = [{"name": "id", "type": "long"}, *fields]
    return json.dumps({"type": "record", "name": "Order", "fields": every})


def test_my_consumer_reads_what_an_older_producer_wrote() -> None:
    """A new field has a default, so old messages stay readable."""
    where = SerializationContext("orders", MessageField.VALUE)
    with MockSchemaRegistry() as registry:
        client = SchemaRegistryClient({"url": registry.url})
        data = AvroSerializer(client, order())({"id": 7}, where)
        newer = order({"name": "note", "type": "string", "default": ""})
        client.register_schema("orders-value", Schema(newer, "AVRO"))
        assert AvroDeserializer(client, newer)(data, where) == {"id": 7, "note": ""}


def test_my_release_is_refused_if_it_breaks_consumers() -> None:
    """A new field without a default is incompatible."""
    with MockSchemaRegistry() as registry:
        client = SchemaRegistryClient({"url": registry.url})
        client.register_schema("orders-value", Schema(order(), "AVRO"))
        broken = Schema(order({"name": "price", "type": "double"}), "AVRO")
        assert not client.test_compatibility("orders-value", broken)
        with pytest.raises(SchemaRegistryError, match="READER_FIELD_MISSING_DEFAULT_VALUE"):
            client.register_schema("orders-value", broken)


def test_my_application_survives_a_registry_that_is_restarted() -> None:
    """The first answer is an error, and the second URL is down."""
    with MockSchemaRegistry(listeners=2) as registry:
        registry.listener_down(1)
        registry.faults.fail(503, message="starting")
        client = SchemaRegistryClient({"url": ",".join(registry.urls)})
        assert client.register_schema("orders-value", Schema(order(), "AVRO")) == 1
