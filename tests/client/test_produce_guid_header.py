"""produce_arrow() with guid_header=True: a header names the schema, and the record has no framing."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient as OtherRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from kafka_native import OFFSET_BEGINNING
from kafka_native.codecs import Avro, Protobuf, SchemaError
from kafka_native.mock import MockSchemaRegistry
from kafka_native.schema_registry import RegisteredSchema, SchemaRegistryClient
from tests.codecs.consume_support import FakeRegistry
from tests.waiting import WAIT_S

from .support import Client, partitions_of
from .typed_support import sent

VALUE_HEADER, KEY_HEADER = "__value_schema_id", "__key_schema_id"
PROTO = 'syntax = "proto3"; message First {} message Second { int64 id = 1; }'


def guid_of(registry: SchemaRegistryClient, subject: str) -> bytes:
    """Return the header's value for the latest version of a subject."""
    guid = registry.get_latest_version(subject).guid
    return b"\1" + uuid.UUID(guid).bytes


def test_each_value_and_key_has_its_header(
    client: Client, server: MockSchemaRegistry, registry: SchemaRegistryClient
) -> None:
    topic = client.topic()
    table = pa.table(
        {
            "value": pa.array([{"name": "abcdefgh"}, None, {"name": "ijklmnop"}, None]),
            "key": pa.array([b"", None, b"k", b"l"]),
            "headers": pa.array(
                [[("h", b"1"), ("i", None)], [("j", b"")], None, []],
                pa.map_(pa.string(), pa.binary()),
            ),
        }
    )
    avro = Avro(registry, guid_header=True)
    arguments = {"value": avro, "key": avro, "headers": "headers"}
    messages = sent(client, table, 4, topic, **arguments)
    value = (VALUE_HEADER, guid_of(registry, f"{topic}-value"))
    key = (KEY_HEADER, guid_of(registry, f"{topic}-key"))
    assert [each.headers() or [] for each in messages] == [
        [("h", b"1"), ("i", None), key, value],
        [("j", b"")],
        [key, value],
        [key],
    ]
    assert [each.value() for each in messages] == [b"\2\x10abcdefgh", None, b"\2\x10ijklmnop", None]
    with OtherRegistryClient({"url": server.url}) as others:
        deserialize = AvroDeserializer(others)
        context = SerializationContext(topic, MessageField.VALUE, messages[2].headers())
        assert deserialize(messages[2].value(), context) == {"name": "ijklmnop"}
    with client.consumer(**{"group.id": topic}) as consumer:
        consumer.assign(partitions_of(topic, 1, OFFSET_BEGINNING))
        batch = pa.table(consumer.consume_arrow(4, timeout=WAIT_S, value=avro, key=avro))
    assert batch["value"].to_pylist() == table["value"].to_pylist()
    assert batch["key"].to_pylist() == table["key"].to_pylist()


def test_rows_without_headers_of_their_own(client: Client, registry: SchemaRegistryClient) -> None:
    """Many rows: more than the memory for the headers of one run."""
    topic = client.topic()
    count = 20_000
    codec = Avro(registry, schema="long", guid_header=True)
    messages = sent(client, pa.array(range(count)), count, topic, value=codec)
    header = (VALUE_HEADER, guid_of(registry, f"{topic}-value"))
    assert all(each.headers() == [header] for each in messages)
    assert messages[-1].value() == b"\xbe\xb8\2"


def test_the_header_of_protobuf_has_message_indexes(
    client: Client, registry: SchemaRegistryClient
) -> None:
    topic = client.topic()
    codec = Protobuf(registry, schema=PROTO, message="Second", guid_header=True)
    [message] = sent(client, pa.table({"id": [5]}), 1, topic, value=codec)
    expected = guid_of(registry, f"{topic}-value") + b"\2\2"
    assert (message.headers(), message.value()) == ([(VALUE_HEADER, expected)], b"\x08\5")
    with client.consumer(**{"group.id": topic}) as consumer:
        consumer.assign(partitions_of(topic, 1, OFFSET_BEGINNING))
        batch = pa.table(consumer.consume_arrow(1, timeout=WAIT_S, value=codec))
    assert batch["value"].to_pylist() == [{"id": 5}]


def test_other_ways_to_choose_the_schema(client: Client, registry: SchemaRegistryClient) -> None:
    first = Avro(registry, subject="s", schema="int", guid_header=True)
    number = pa.array([1])
    sent(client, number, 1, client.topic(), value=first)
    registered = registry.get_latest_version("s")
    for options in ({"use_latest_version": True}, {"schema_id": registered.schema_id}):
        codec = Avro(registry, subject="s", guid_header=True, **options)
        [message] = sent(client, number, 1, client.topic(), value=codec)
        assert message.headers() == [(VALUE_HEADER, guid_of(registry, "s"))]


class OldRegistry(FakeRegistry):
    """A registry of a version without GUIDs."""

    def get_latest_version(self, subject_name: str, fmt: str | None = None) -> RegisteredSchema:
        found = super().get_latest_version(subject_name, fmt)
        return replace(found, guid=None)


def test_a_registry_without_guids_is_refused(client: Client) -> None:
    old = OldRegistry()
    old.add("long", "s")
    codec = Avro(old, subject="s", use_latest_version=True, guid_header=True)
    with client.producer() as producer:
        with pytest.raises(SchemaError, match="subject s: the registry returns no GUID"):
            producer.produce_arrow("topic", pa.array([1]), value=codec)
        assert len(producer) == 0
    with pytest.raises(ValueError, match="guid_header needs a schema registry"):
        Avro(None, schema="long", guid_header=True)
