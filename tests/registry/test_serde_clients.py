"""Serializers of the schema registry in the clients, with the mock cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from kafka_native import DeserializingConsumer, SerializingProducer
from kafka_native.aio import AsyncDeserializingConsumer, AsyncSerializingProducer
from kafka_native.mock import MockCluster
from kafka_native.schema_registry import avro, header_schema_id_serializer, json_schema, protobuf
from tests.registry.memory_registry import MemoryRegistry
from tests.registry.test_avro import ADA, TEXT
from tests.registry.test_json_schema import TEXT as JSON_TEXT
from tests.registry.test_protobuf import ADA as MESSAGE
from tests.registry.test_protobuf import User


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    with MockCluster() as cluster:
        yield cluster


def consumer_conf(cluster: MockCluster, **more: Any) -> dict[str, Any]:
    conf = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g"}
    return {**conf, "auto.offset.reset": "earliest", **more}


def test_producers_and_consumers_convert(cluster: MockCluster) -> None:
    registry = MemoryRegistry()
    client = registry.client()
    in_headers = {"schema.id.serializer": header_schema_id_serializer}
    conf = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "key.serializer": json_schema.JSONSerializer('{"type": "integer"}', client),
        "value.serializer": avro.AvroSerializer(client, TEXT, conf=in_headers),
    }
    with SerializingProducer(conf) as producer:
        producer.produce("users", key=7, value=ADA, headers=[])
        producer.flush()
    own = consumer_conf(
        cluster,
        **{
            "key.deserializer": json_schema.JSONDeserializer(None, schema_registry_client=client),
            "value.deserializer": avro.AvroDeserializer(client),
        },
    )
    with DeserializingConsumer(own) as consumer:
        consumer.subscribe(["users"])
        message = None
        while message is None:
            message = consumer.poll(1)
        assert (message.key(), message.value()) == (7, ADA)
        assert [name for name, _ in message.headers() or []] == ["__value_schema_id"]
    assert sorted(registry.subjects) == ["users-key", "users-value"]


def test_asyncio_clients_convert(cluster: MockCluster) -> None:
    registry = MemoryRegistry()

    async def main() -> Any:
        client = registry.async_client()
        serializer = await protobuf.AsyncProtobufSerializer(User, client)
        conf = {"bootstrap.servers": cluster.bootstrap_servers, "value.serializer": serializer}
        async with await AsyncSerializingProducer(conf) as producer:
            await (await producer.produce("users", value=MESSAGE))
        deserializer = await protobuf.AsyncProtobufDeserializer(User, None, client)
        own = consumer_conf(cluster, **{"value.deserializer": deserializer})
        async with await AsyncDeserializingConsumer(own) as consumer:
            await consumer.subscribe(["users"])
            message = None
            while message is None:
                message = await consumer.poll(1)
            return message.value()

    assert asyncio.run(main()) == MESSAGE


def test_builders_make_what_the_clients_close(cluster: MockCluster) -> None:
    registry = MemoryRegistry()
    client = registry.client()
    made: list[avro.AvroSerializer] = []
    builder = (
        avro.AvroSerializerBuilder()
        .set_schema_registry_client(client)
        .set_schema(TEXT)
        .set_serializer_config({"normalize.schemas": True})
        .set_serializer_init(made.append)
    )
    conf = {"bootstrap.servers": cluster.bootstrap_servers, "value.serializer.builder": builder}
    with SerializingProducer(conf) as producer:
        producer.produce("users", value=ADA)
        producer.flush()
        made[0].own_schema_registry_client()
    assert client.closed == 1
    assert registry.calls == ["register users-value"]


BUILDERS = [
    avro.AvroSerializerBuilder({"url": "http://127.0.0.1:9"}, schema=TEXT),
    avro.AvroDeserializerBuilder({"url": "http://127.0.0.1:9"}, schema=TEXT),
    json_schema.JSONSerializerBuilder({"url": "http://127.0.0.1:9"}, schema=JSON_TEXT),
    json_schema.JSONDeserializerBuilder({"url": "http://127.0.0.1:9"}, schema=JSON_TEXT),
    protobuf.ProtobufSerializerBuilder({"url": "http://127.0.0.1:9"}, message_type=User),
    protobuf.ProtobufDeserializerBuilder({"url": "http://127.0.0.1:9"}, message_type=User),
]


@pytest.mark.parametrize("builder", BUILDERS, ids=lambda each: type(each).__name__)
def test_a_builder_makes_a_client_of_its_own(builder: Any) -> None:
    serde, rest = builder.build({"client.id": "x"}, False)
    assert rest == {"client.id": "x"}
    client = serde._registry
    assert client.config()["url"] == "http://127.0.0.1:9"
    serde.close()
    builder.set_schema_registry_client(client)
    with pytest.raises(ValueError, match="not both"):
        builder.build({}, False)


def test_an_init_that_raises_closes_the_client() -> None:
    built: list[Any] = []

    def init(serde: Any) -> None:
        built.append(serde)
        raise RuntimeError("init")

    conf = {"url": "http://127.0.0.1:9"}
    builder = avro.AvroSerializerBuilder(conf, schema=TEXT, serializer_init=init)
    with pytest.raises(RuntimeError, match="init"):
        builder.build({}, False)
    assert built[0]._owns_registry is False
    with pytest.raises(ValueError, match="set_message_type"):
        protobuf.ProtobufSerializerBuilder(conf).build({}, False)


def test_asyncio_builders() -> None:
    async def main() -> None:
        registry = MemoryRegistry()
        made: list[Any] = []

        async def init(serde: Any) -> None:
            made.append(serde)

        builders: list[Any] = [
            avro.AsyncAvroSerializerBuilder(schema=TEXT, serializer_init=init),
            avro.AsyncAvroDeserializerBuilder(deserializer_init=init),
            json_schema.AsyncJSONSerializerBuilder(schema=JSON_TEXT, serializer_init=init),
            json_schema.AsyncJSONDeserializerBuilder(deserializer_init=init),
            protobuf.AsyncProtobufSerializerBuilder(message_type=User, serializer_init=init),
            protobuf.AsyncProtobufDeserializerBuilder(message_type=User, deserializer_init=init),
        ]
        for builder in builders:
            builder.set_schema_registry_client(registry.async_client())
            serde, rest = await builder.build({"a": 1}, True)
            assert (made.pop(), rest) == (serde, {"a": 1})
            await serde.aclose()

    asyncio.run(main())
