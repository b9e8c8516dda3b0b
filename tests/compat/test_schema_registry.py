"""The installed confluent_kafka.schema_registry on top of kafka_native, with its mock registry."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.compat.sides import installed
from tests.waiting import PROGRAM_S

ROOT = Path(__file__).resolve().parents[2]
START = """
import kafka_native, kafka_native.compat
from kafka_native.mock import MockCluster
kafka_native.compat.install()
import sys
from confluent_kafka import DeserializingConsumer, SerializingProducer, TopicPartition
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.serialization import MessageField, SerializationContext, Serializer

def round_trip(serializer, deserializer, sent):
    assert isinstance(serializer, Serializer)
    with MockCluster(brokers=1) as cluster:
        cluster.create_topic("records", 1)
        producer = SerializingProducer({"bootstrap.servers": cluster.bootstrap_servers, "value.serializer": serializer})
        producer.produce("records", key=b"k", value=sent)
        assert producer.flush(60) == 0
        producer.close()
        consumer = DeserializingConsumer(
            {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g", "value.deserializer": deserializer}
        )
        consumer.assign([TopicPartition("records", 0, 0)])
        message = consumer.poll(60)
        consumer.close()
    return message.value()

registry = SchemaRegistryClient.new_client({"url": "mock://"})
"""
END = """
assert issubclass(sys.modules["confluent_kafka.cimpl"].Consumer, kafka_native.Consumer)
print("subjects", registry.get_subjects())
"""

AVRO = """
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
fields = '[{"name": "name", "type": "string"}, {"name": "age", "type": "int"}]'
schema = '{"type": "record", "name": "User", "fields": ' + fields + "}"
got = round_trip(AvroSerializer(registry, schema), AvroDeserializer(registry), {"name": "ada", "age": 36})
assert got == {"name": "ada", "age": 36}, got
"""
JSON = """
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
schema = '{"title": "User", "type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}'
got = round_trip(JSONSerializer(schema, registry), JSONDeserializer(schema), {"name": "ada"})
assert got == {"name": "ada"}, got
from confluent_kafka.error import ValueSerializationError
try:
    round_trip(JSONSerializer(schema, registry), JSONDeserializer(schema), {"name": 3})
    raise AssertionError("a value that its schema doesn't allow")
except ValueSerializationError as error:
    assert error.name == "_VALUE_SERIALIZATION"
"""
PROTOBUF = """
from google.protobuf import wrappers_pb2
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
conf = {"use.deprecated.format": False}
kind = wrappers_pb2.StringValue
sent = kind(value="ada")
got = round_trip(ProtobufSerializer(kind, registry, conf), ProtobufDeserializer(kind, conf), sent)
assert got == sent, got
"""

ASYNC_AVRO = """
import asyncio
from confluent_kafka.aio import AsyncDeserializingConsumer, AsyncSerializingProducer
from confluent_kafka.schema_registry import AsyncSchemaRegistryClient
from confluent_kafka.schema_registry.avro import AsyncAvroDeserializer, AsyncAvroSerializer
schema = '{"type": "record", "name": "User", "fields": [{"name": "name", "type": "string"}]}'

async def main(servers):
    registry = AsyncSchemaRegistryClient.new_client({"url": "mock://"})
    producer = await AsyncSerializingProducer(
        {"bootstrap.servers": servers, "value.serializer": await AsyncAvroSerializer(registry, schema)}
    )
    async with producer:
        await producer.produce("records", value={"name": "ada"})
    consumer = await AsyncDeserializingConsumer(
        {"bootstrap.servers": servers, "group.id": "g", "value.deserializer": await AsyncAvroDeserializer(registry)}
    )
    async with consumer:
        await consumer.assign([TopicPartition("records", 0, 0)])
        message = await consumer.poll(60)
    assert message.value() == {"name": "ada"}, message.value()
    return await registry.get_subjects()

with MockCluster(brokers=1) as cluster:
    cluster.create_topic("records", 1)
    print("subjects", asyncio.run(main(cluster.bootstrap_servers)))
"""


@pytest.mark.parametrize(
    ("needs", "program"),
    [
        (("fastavro",), AVRO + END),
        (("jsonschema",), JSON + END),
        (("google.protobuf",), PROTOBUF + END),
        (("fastavro",), ASYNC_AVRO),
    ],
    ids=["Avro", "JSON Schema", "Protobuf", "Avro and asyncio"],
)
def test_records_with_a_schema_are_serialized_and_deserialized(
    needs: tuple[str, ...], program: str
) -> None:
    missing = [name for name in ("authlib", *needs) if not installed(name)]
    if missing:
        pytest.skip(
            "confluent-kafka[schemaregistry,avro,json,protobuf] isn't whole: no "
            f"{', '.join(missing)}"
        )
    done = subprocess.run(
        [sys.executable, "-c", START + program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PROGRAM_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "subjects ['records-value']"
