"""Serializers with the registry's own client and the mock registry, over HTTP."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient as TheirClient
from confluent_kafka.schema_registry import avro as their_avro
from confluent_kafka.schema_registry import json_schema as their_json
from confluent_kafka.schema_registry import protobuf as their_protobuf
from confluent_kafka.serialization import SerializationContext as TheirContext

from kafka_native.mock import MockSchemaRegistry
from kafka_native.schema_registry import (
    AsyncSchemaRegistryClient,
    SchemaRegistryClient,
    SchemaRegistryError,
    avro,
    header_schema_id_serializer,
    json_schema,
    protobuf,
)
from kafka_native.serialization import MessageField, SerializationContext, SerializationError
from tests.registry.test_avro import ADA, TEXT
from tests.registry.test_json_schema import ADA as JSON_ADA
from tests.registry.test_json_schema import TEXT as JSON_TEXT
from tests.registry.test_protobuf import ADA as MESSAGE
from tests.registry.test_protobuf import User

CONTEXT = SerializationContext("t", MessageField.VALUE)
THEIR_CONTEXT = TheirContext("t", "value")
LATEST = {"use.latest.version": True}


@pytest.fixture
def url() -> Iterator[str]:
    with MockSchemaRegistry() as registry:
        yield registry.url


@pytest.fixture
def client(url: str) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": url, "max.retries": 0}) as client:
        yield client


@pytest.fixture
def theirs(url: str) -> TheirClient:
    return TheirClient({"url": url})


def test_avro(client: SchemaRegistryClient, theirs: TheirClient) -> None:
    data = avro.AvroSerializer(client, TEXT)(ADA, CONTEXT)
    assert avro.AvroDeserializer(client)(data, CONTEXT) == ADA
    assert avro.AvroDeserializer(client, conf=LATEST)(data, CONTEXT) == ADA
    assert their_avro.AvroDeserializer(theirs)(data, THEIR_CONTEXT) == ADA
    assert their_avro.AvroSerializer(theirs, TEXT)(ADA, THEIR_CONTEXT) == data


def test_json(client: SchemaRegistryClient, theirs: TheirClient) -> None:
    data = json_schema.JSONSerializer(JSON_TEXT, client)(JSON_ADA, CONTEXT)
    assert json_schema.JSONDeserializer(None, None, client)(data, CONTEXT) == JSON_ADA
    assert json_schema.JSONDeserializer(None, None, client, LATEST)(data, CONTEXT) == JSON_ADA
    reader: Any = their_json.JSONDeserializer(None, None, theirs)
    assert reader(data, THEIR_CONTEXT) == JSON_ADA
    assert their_json.JSONSerializer(JSON_TEXT, theirs)(JSON_ADA, THEIR_CONTEXT) == data


def test_protobuf(client: SchemaRegistryClient, theirs: TheirClient) -> None:
    data = protobuf.ProtobufSerializer(User, client)(MESSAGE, CONTEXT)
    assert protobuf.ProtobufDeserializer(User, None, client)(data, CONTEXT) == MESSAGE
    assert protobuf.ProtobufDeserializer(User, LATEST, client)(data, CONTEXT) == MESSAGE
    reader: Any = their_protobuf.ProtobufDeserializer(User, None, theirs)
    assert reader(data, THEIR_CONTEXT) == MESSAGE
    assert their_protobuf.ProtobufSerializer(User, theirs)(MESSAGE, THEIR_CONTEXT) == data


def test_guids_in_headers(client: SchemaRegistryClient) -> None:
    headers: list[tuple[str, str | bytes | None]] = []
    context = SerializationContext("t", MessageField.VALUE, headers)
    conf = {"schema.id.serializer": header_schema_id_serializer}
    data = protobuf.ProtobufSerializer(User, client, conf)(MESSAGE, context)
    assert data == MESSAGE.SerializeToString()
    assert protobuf.ProtobufDeserializer(User, None, client)(data, context) == MESSAGE
    headers.clear()
    data = avro.AvroSerializer(client, TEXT, conf=conf)(
        ADA, SerializationContext("u", MessageField.VALUE, headers)
    )
    assert avro.AvroDeserializer(client)(data, context) == ADA


def test_a_chosen_schema_needs_no_schema_of_its_own(client: SchemaRegistryClient) -> None:
    data = avro.AvroSerializer(client, TEXT)(ADA, CONTEXT)
    for more in ({"use.schema.id": 1}, LATEST):
        serializer = avro.AvroSerializer(client, conf={"auto.register.schemas": False, **more})
        assert serializer(ADA, CONTEXT) == data


def test_an_unknown_schema_and_a_refused_registration(client: SchemaRegistryClient) -> None:
    with pytest.raises(SerializationError, match="schema id 999: the registry doesn't know this"):
        avro.AvroDeserializer(client)(struct.pack(">bI", 0, 999) + b"x", CONTEXT)
    avro.AvroSerializer(client, TEXT)(ADA, CONTEXT)
    with pytest.raises(SchemaRegistryError) as caught:
        avro.AvroSerializer(client, '"long"')(5, CONTEXT)
    assert caught.value.http_status_code == 409


def test_a_registry_that_is_down() -> None:
    with MockSchemaRegistry() as registry:
        url = registry.url
    with SchemaRegistryClient({"url": url, "max.retries": 0}) as client:
        with pytest.raises(SchemaRegistryError, match=url):
            avro.AvroSerializer(client, TEXT)(ADA, CONTEXT)
        with pytest.raises(SchemaRegistryError, match=url):
            avro.AvroDeserializer(client)(b"\0\0\0\0\1x", CONTEXT)


def test_many_tasks_at_once(url: str) -> None:
    async def main() -> None:
        async with AsyncSchemaRegistryClient({"url": url}) as client:
            serializer = await protobuf.AsyncProtobufSerializer(User, client)
            topics = [SerializationContext(f"t{i % 4}", MessageField.VALUE) for i in range(20)]
            payloads = await asyncio.gather(*(serializer(MESSAGE, topic) for topic in topics))
            assert len(set(payloads)) == 1
            reader = await protobuf.AsyncProtobufDeserializer(User, None, client)
            messages = await asyncio.gather(*(reader(data, CONTEXT) for data in payloads))
            assert messages == [MESSAGE] * 20

    asyncio.run(main())
