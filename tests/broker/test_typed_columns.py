"""Typed columns on a real Apache Kafka: confluent_kafka's serializers write, our decoders read."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient as TheirClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from kafka_native import AcknowledgeType, Consumer, ShareConsumer, TopicPartition
from kafka_native._native import codec_core
from kafka_native.aio import AIOConsumer
from kafka_native.codecs import Avro, Json, MessageDecodeError, Protobuf
from kafka_native.mock import MockSchemaRegistry
from tests.broker.cluster import Cluster, quiet
from tests.broker.support import (
    CODECS,
    TopicMaker,
    flush,
    our_consumer,
    our_producer,
    read,
    their_consumer,
    their_producer,
)
from tests.broker.test_share_kafka import Tool, group_at_start
from tests.codecs.test_consume_formats import CITY, ID, NAME, classes_of, message
from tests.waiting import WAIT_S

Serialize = Callable[[dict[str, Any]], bytes]
VALUE = ["value"]
BAD = b"\0\0\0\0\x63bad"
"""A record whose schema the registry doesn't know. It is no JSON either."""


# --- one topic, two versions of its schema ---


def avro_schema(*optional: str) -> str:
    """Return the schema of orders. The optional fields are null by default."""
    fields: list[Any] = [{"name": "id", "type": "long"}, {"name": "name", "type": "string"}]
    fields += [{"name": name, "type": ["null", "string"], "default": None} for name in optional]
    return json.dumps({"type": "record", "name": "Order", "fields": fields})


def json_schema(*optional: str) -> str:
    """Return the same schema in JSON Schema."""
    texts = {name: {"type": "string"} for name in ("name", *optional)}
    properties = {"id": {"type": "integer"}, **texts}
    rest: dict[str, Any] = {"required": ["id", "name"], "additionalProperties": False}
    return json.dumps({"type": "object", "title": "Order", "properties": properties, **rest})


PROTOBUF = [classes_of(message("Order", ID, NAME, *more))[0] for more in ((), (CITY,))]


def avro_writers(client: TheirClient, context: SerializationContext) -> list[Serialize]:
    """Return confluent_kafka's serializers of the old and the new version."""
    made = [AvroSerializer(client, avro_schema(*more)) for more in ((), ("city",))]
    return [lambda row, each=each: each(row, context) for each in made]


def json_writers(client: TheirClient, context: SerializationContext) -> list[Serialize]:
    made = [JSONSerializer(json_schema(*more), client) for more in ((), ("city",))]
    return [lambda row, each=each: each(row, context) for each in made]


def protobuf_writers(client: TheirClient, context: SerializationContext) -> list[Serialize]:
    conf = {"use.deprecated.format": False}
    made = [(kind, ProtobufSerializer(kind, client, conf)) for kind in PROTOBUF]
    return [lambda row, kind=kind, each=each: each(kind(**row), context) for kind, each in made]


@dataclass(frozen=True)
class Format:
    """A format: its codec, confluent_kafka's serializers, and the city of an old record."""

    codec: Callable[..., Any]
    writers: Callable[[TheirClient, SerializationContext], list[Serialize]]
    no_city: str | None


FORMATS = {
    "avro": Format(Avro, avro_writers, None),
    "protobuf": Format(Protobuf, protobuf_writers, ""),
    "json": Format(Json, json_writers, None),
}


@pytest.fixture(params=FORMATS)
def kind(request: pytest.FixtureRequest) -> Format:
    if request.param == "json" and not codec_core.HAS_JSON:
        pytest.skip("this build has no simdjson: JSON columns raise")
    return FORMATS[request.param]


@pytest.fixture(scope="module")
def registry() -> Iterator[MockSchemaRegistry]:
    with MockSchemaRegistry() as running:
        yield running


@pytest.fixture(scope="module")
def their_client(registry: MockSchemaRegistry) -> TheirClient:
    return TheirClient({"url": registry.url})


@dataclass
class Orders:
    """Records of a topic: even ones have the old schema, odd ones the new schema."""

    topic: str
    format: Format
    write: list[Serialize]

    def record(self, number: int) -> bytes:
        """Return the record of confluent_kafka's serializer."""
        city = {"city": f"c{number}"} if number % 2 else {}
        return self.write[number % 2]({"id": number, "name": f"n{number}", **city})

    def rows(self, numbers: Iterable[int]) -> list[dict[str, Any]]:
        """Return the rows of these records, read with the new schema."""
        cities = {0: lambda _: self.format.no_city, 1: lambda number: f"c{number}"}
        return [
            {"id": each, "name": f"n{each}", "city": cities[each % 2](each)} for each in numbers
        ]


def orders_of(kind: Format, client: TheirClient, topic: str, field: str = "value") -> Orders:
    """Return the records of a topic, after both versions were registered."""
    made = Orders(topic, kind, kind.writers(client, SerializationContext(topic, field)))
    for number in (0, 1):
        made.record(number)
    return made


@pytest.fixture
def orders(
    kafka: Cluster, new_topic: TopicMaker, their_client: TheirClient, kind: Format
) -> Orders:
    """The records of a new topic of one partition."""
    return orders_of(kind, their_client, new_topic(kafka))


@pytest.fixture
def codec(registry: MockSchemaRegistry, kind: Format) -> Iterator[Any]:
    """The codec of the records, for the newest schema."""
    with kind.codec(registry.url) as made:
        yield made


def produce(cluster: Cluster, topic: str, records: Iterable[Any], **conf: Any) -> None:
    """Produce values, or pairs of key and value, with confluent_kafka."""
    producer = their_producer(cluster, **conf)
    for each in records:
        key, value = each if isinstance(each, tuple) else (None, each)
        producer.produce(topic, value, key, partition=0)
    flush(producer)


def at_start(cluster: Cluster, topic: str, **conf: Any) -> Consumer:
    """Return a consumer at the beginning of the topic's only partition."""
    consumer = our_consumer(cluster, group_id=topic, **conf)
    consumer.assign([TopicPartition(topic, 0, 0)])
    return consumer


def taken(consumer: Consumer, count: int, **how: Any) -> pa.Table:
    """Return the next records as one table."""
    batches: list[Any] = []
    rows = 0
    while rows < count:
        batch = consumer.consume_arrow(count - rows, WAIT_S, **how)
        assert len(batch), f"{rows} of {count} records in {WAIT_S} s"
        rows += len(batch)
        batches.append(pa.record_batch(batch))
        batches[-1].validate(full=True)
    return pa.Table.from_batches(batches)


# --- reading ---


def test_compressed_batches_of_two_schemas(
    kafka: Cluster, registry: MockSchemaRegistry, orders: Orders, codec: Any
) -> None:
    numbers = iter(range(250))
    for compression in CODECS:
        values = [orders.record(each) for each in itertools.islice(numbers, 50)]
        produce(kafka, orders.topic, [*values, None], compression_type=compression)
    with (
        orders.format.codec(registry.url, fields=["city"]) as chosen,
        at_start(kafka, orders.topic) as consumer,
    ):
        found = taken(consumer, 255, columns=["value", "offset"], value=codec, flatten=True)
        consumer.seek(TopicPartition(orders.topic, 0, 0))
        cities = taken(consumer, 255, columns=VALUE, value=chosen, flatten=True)
    assert found["offset"].to_pylist() == list(range(255))
    rows = found.drop_columns(["offset"]).to_pylist()
    assert rows[50::51] == [{"id": None, "name": None, "city": None}] * 5
    del rows[50::51]
    assert rows == orders.rows(range(250))
    assert cities.column_names == ["city"]
    assert cities["city"].to_pylist() == found["city"].to_pylist()


def test_a_bad_record_each_way(kafka: Cluster, orders: Orders, codec: Any) -> None:
    values = [orders.record(0), orders.record(1), BAD, orders.record(3)]
    produce(kafka, orders.topic, values, compression_type="zstd")
    with at_start(kafka, orders.topic) as consumer:
        how: dict[str, Any] = {"columns": VALUE, "value": codec}
        before = taken(consumer, 2, **how)
        with pytest.raises(
            MessageDecodeError, match=rf"{orders.topic} \[0\] at offset 2"
        ) as caught:
            consumer.consume_arrow(10, WAIT_S, **how)
        assert caught.value.offset == 2
        assert taken(consumer, 1, columns=VALUE)["value"].to_pylist() == [BAD]
        after = taken(consumer, 1, **how)
        assert before["value"].to_pylist() == orders.rows([0, 1])
        assert after["value"].to_pylist() == orders.rows([3])
        expected = [*orders.rows([0, 1]), None, *orders.rows([3])]
        for on_error in ("null", "column"):
            consumer.seek(TopicPartition(orders.topic, 0, 0))
            found = taken(consumer, 4, on_error=on_error, **how)
            assert found["value"].to_pylist() == expected
        assert [each is None for each in found["value_error"].to_pylist()] == [
            True, True, False, True
        ]  # fmt: skip


@pytest.mark.slow
def test_aborted_records_are_not_decoded(kafka: Cluster, orders: Orders, codec: Any) -> None:
    producer = their_producer(kafka, transactional_id=orders.topic)
    producer.init_transactions(WAIT_S)
    for first, end in ((0, "commit"), (10, "abort"), (20, "commit")):
        producer.begin_transaction()
        for number in range(first, first + 10):
            value = BAD if end == "abort" else orders.record(number)
            producer.produce(orders.topic, value, partition=0)
        flush(producer)
        getattr(producer, f"{end}_transaction")(WAIT_S)
    how: dict[str, Any] = {"columns": ["offset", "value"], "value": codec}
    with at_start(kafka, orders.topic, isolation_level="read_committed") as consumer:
        found = taken(consumer, 20, **how)
    with at_start(kafka, orders.topic, isolation_level="read_uncommitted") as consumer:
        everything = taken(consumer, 30, on_error="null", **how)
    assert found["value"].to_pylist() == orders.rows([*range(10), *range(20, 30)])
    assert found["offset"].to_pylist() == [*range(10), *range(22, 32)]
    assert everything["value"].to_pylist()[10:20] == [None] * 10


@pytest.mark.slow
def test_keys_and_values_of_different_formats(
    kafka: Cluster,
    registry: MockSchemaRegistry,
    their_client: TheirClient,
    orders: Orders,
    codec: Any,
) -> None:
    keys = orders_of(FORMATS["avro"], their_client, orders.topic, "key")
    pairs = [(keys.record(each), orders.record(each)) for each in range(40)]
    produce(kafka, orders.topic, [*pairs, (None, None)], compression_type="lz4")
    columns = ["key", "value"]
    with Avro(registry.url) as of_key, at_start(kafka, orders.topic) as consumer:
        how: dict[str, Any] = {"columns": columns, "value": codec, "key": of_key}
        found = taken(consumer, 41, on_error="column", **how)
        assert found.column_names == ["key", "key_error", "value", "value_error"]
        consumer.seek(TopicPartition(orders.topic, 0, 0))
        with pytest.raises(ValueError, match="id"):  # both have it
            consumer.consume_arrow(41, WAIT_S, flatten=True, **how)
        with (
            orders.format.codec(registry.url, fields=["city"]) as cities,
            Avro(registry.url, fields=["id"]) as ids,
        ):
            how = {"columns": columns, "value": cities, "key": ids}
            flat = taken(consumer, 41, flatten=True, **how)
    assert found["key"].to_pylist() == [*keys.rows(range(40)), None]
    assert found["value"].to_pylist() == [*orders.rows(range(40)), None]
    assert found["key_error"].null_count == found["value_error"].null_count == 41
    assert flat.column_names == ["id", "city"]
    assert flat["id"].to_pylist() == [*range(40), None]
    assert flat["city"].to_pylist()[:-1] == [each["city"] for each in orders.rows(range(40))]


# --- streams, groups, asyncio ---


@pytest.mark.slow
def test_a_stream_in_a_group_goes_on_after_the_commit(
    kafka: Cluster, orders: Orders, codec: Any
) -> None:
    produce(kafka, orders.topic, map(orders.record, range(1000)), compression_type="snappy")
    found: list[Any] = []
    for end in (400, 1000):
        with our_consumer(kafka, group_id=orders.topic, enable_auto_commit=False) as consumer:
            consumer.subscribe([orders.topic])
            for batch in consumer.arrow_stream(100, columns=VALUE, value=codec):
                found += pa.record_batch(batch).column("value").to_pylist()
                if len(found) >= end:
                    break
            place = TopicPartition(orders.topic, 0, len(found))
            consumer.commit(offsets=[place], asynchronous=False)
    assert found == orders.rows(range(1000))


@pytest.mark.slow
def test_asyncio(kafka: Cluster, orders: Orders, codec: Any) -> None:
    produce(kafka, orders.topic, map(orders.record, range(500)), compression_type="gzip")

    async def main() -> list[Any]:
        found: list[Any] = []
        conf = kafka.conf(**{"group.id": orders.topic})
        async with AIOConsumer(conf) as consumer:
            await consumer.assign([TopicPartition(orders.topic, 0, 0)])
            batch = await consumer.consume_arrow(100, WAIT_S, columns=VALUE, value=codec)
            found += pa.record_batch(batch).column("value").to_pylist()
            async for batch in consumer.arrow_stream(100, columns=VALUE, value=codec):
                found += pa.record_batch(batch).column("value").to_pylist()
                if len(found) >= 500:
                    return found
        raise AssertionError("the stream has ended")

    assert asyncio.run(main()) == orders.rows(range(500))


@pytest.mark.slow
def test_a_share_group_rejects_the_bad_record(
    kafka: Cluster, orders: Orders, codec: Any, tool: Tool
) -> None:
    group = group_at_start(kafka, orders.topic, tool)
    values = [BAD if each == 7 else orders.record(each) for each in range(20)]
    produce(kafka, orders.topic, values, compression_type="zstd")
    conf = {"bootstrap.servers": kafka.bootstrap, "group.id": group}
    conf["share.acknowledgement.mode"] = "explicit"
    found: list[Any] = []
    rejected: list[int] = []
    with ShareConsumer(quiet(conf)) as consumer:
        consumer.subscribe([orders.topic])
        while len(found) < 20:
            columns = ["offset", "value"]
            batch = consumer.consume_arrow(WAIT_S, columns=columns, value=codec, on_error="column")
            table = pa.record_batch(batch)
            mask = [each is not None for each in table.column("value_error").to_pylist()]
            offsets = table.column("offset").to_pylist()
            rejected += itertools.compress(offsets, mask)
            found += table.column("value").to_pylist()
            consumer.acknowledge_arrow(batch)
            consumer.acknowledge_arrow(batch, AcknowledgeType.REJECT, mask=mask)
            consumer.commit_sync()
    assert rejected == [7]
    assert found == [*orders.rows(range(7)), None, *orders.rows(range(8, 20))]


# --- writing ---


@pytest.mark.slow
@pytest.mark.parametrize("compression", CODECS)
def test_confluent_kafka_reads_what_produce_arrow_wrote(
    kafka: Cluster,
    new_topic: TopicMaker,
    registry: MockSchemaRegistry,
    their_client: TheirClient,
    compression: str,
) -> None:
    topic = new_topic(kafka)
    rows = [{"id": each, "tags": [f"t{each}", "x"] * (each % 3)} for each in range(2000)]
    table = pa.Table.from_pylist(rows)
    with Avro(registry.url) as avro:
        producer = our_producer(kafka, compression_type=compression, transactional_id=topic)
        with producer:
            producer.init_transactions(WAIT_S)
            for end in (producer.abort_transaction, producer.commit_transaction):
                producer.begin_transaction()
                assert producer.produce_arrow(topic, table, value=avro) == 2000
                end(WAIT_S)
        with at_start(kafka, topic, isolation_level="read_committed") as consumer:
            ours = taken(consumer, 2000, columns=VALUE, value=avro, flatten=True)
    assert ours.to_pylist() == rows
    deserialize = AvroDeserializer(their_client)
    context = SerializationContext(topic, MessageField.VALUE)
    witness = their_consumer(kafka)
    records = read(witness, topic, [0], 2000)
    witness.close()
    assert [deserialize(each.value, context) for each in records] == rows
