"""consume_arrow(on_error="split"): the records that decode, and the malformed ones beside them."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from kafka_native import Consumer, Producer, ShareConsumer, TopicPartition
from kafka_native._native import codec_core
from kafka_native.aio import AIOConsumer
from kafka_native.arrow import ArrowBatch
from kafka_native.codecs import Avro, Json, Protobuf, SchemaLookupError
from tests.codecs.consume_support import ORDER, FakeRegistry, Topic, framed, orders, table_of
from tests.waiting import WAIT_S

WIDER = {**ORDER, "fields": [*ORDER["fields"], {"name": "more", "type": "int", "default": 0}]}
PROTOBUF = 'syntax = "proto3"; message Order { int64 id = 1; string name = 2; }'
JSON_SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
COLUMNS = ["headers", "key", "value", "offset", "timestamp", "topic"]
needs_simdjson = pytest.mark.skipif(
    not codec_core.HAS_JSON, reason="this build has no simdjson: JSON columns raise"
)


def avro(chance: random.Random, registry: FakeRegistry) -> tuple[Any, Callable[[int], bytes]]:
    """Return a codec, and a function that makes records of two writers' schemas."""
    numbers = [registry.add(ORDER, "orders-value"), registry.add(WIDER)]

    def make(row: int) -> bytes:
        number = chance.choice(numbers)
        return orders(number, row)[0] + (b"\2" if number == numbers[1] else b"")

    return Avro(registry, subject="orders-value", schema=json.dumps(ORDER)), make


def protobuf(chance: random.Random, registry: FakeRegistry) -> tuple[Any, Callable[[int], bytes]]:
    return Protobuf(schema=PROTOBUF), lambda row: bytes([8, row % 100, 18, 3]) + b"abc"


def json_lines(chance: random.Random, registry: FakeRegistry) -> tuple[Any, Callable[[int], bytes]]:
    return Json(schema=JSON_SCHEMA), lambda row: b'{"id": %d, "name": "n"}' % row


def spoiled(record: bytes, chance: random.Random) -> bytes | None:
    """Return a record that may not decode, a null, or the record itself."""
    kind = chance.randrange(10)
    if kind == 0:
        return None
    if kind == 1:
        return record[: chance.randrange(len(record))]
    if kind == 2:
        at = chance.randrange(len(record))
        return record[:at] + bytes([chance.randrange(256)]) + record[at + 1 :]
    return record


def rows_of(batch: Any, *columns: str) -> list[dict[str, Any]]:
    table = table_of(batch)
    return table.select(columns or table.schema.names).to_pylist()


def check_split(split: ArrowBatch, by_column: ArrowBatch) -> None:
    """Check the result of on_error="split" against that of on_error="bytes"."""
    rows = rows_of(by_column)
    bad = [each for each in rows if each["value_error"] or each["key_error"]]
    good = [each for each in rows if each not in bad]
    assert rows_of(split) == [{name: each[name] for name in COLUMNS} for each in good]
    assert split.malformed is not None
    found = rows_of(split.malformed)
    assert [each["offset"] for each in found] == [each["offset"] for each in bad]
    for made, expected in zip(found, bad, strict=True):
        field = "value" if expected["value_error"] else "key"
        assert (made["field"], made["error"]) == (field, expected[f"{field}_error"])
        assert made[field] == expected[f"{field}_bytes"]
        for name in ("headers", "topic", "timestamp"):
            assert made[name] == expected[name]
    assert split.positions == by_column.positions


@pytest.mark.parametrize(
    "make_codec", [avro, protobuf, pytest.param(json_lines, marks=needs_simdjson)]
)
@pytest.mark.parametrize("seed", range(3))
def test_the_result_is_that_of_a_filter(
    topic: Topic, registry: FakeRegistry, make_codec: Any, seed: int
) -> None:
    chance = random.Random(seed)
    codec, make = make_codec(chance, registry)
    with Producer({"bootstrap.servers": topic.cluster.bootstrap_servers}) as producer:
        for row in range(500):
            key, value = (spoiled(make(row), chance) for _ in range(2))
            headers = [("h", b"%d" % row)] * chance.randrange(3)
            producer.produce(topic.name, value, key, partition=0, headers=headers)
    with topic.consumer() as consumer, topic.consumer() as other:
        how: dict[str, Any] = {"columns": COLUMNS, "key": codec, "value": codec}
        count = 0
        while count < 500:
            wanted = chance.randrange(1, 200)
            taken = min(wanted, 500 - count)
            split = consumer.consume_arrow(taken, WAIT_S, on_error="split", **how)
            by_column = other.consume_arrow(taken, WAIT_S, on_error="bytes", **how)
            check_split(split, by_column)
            assert split.malformed is not None
            assert split.num_rows + split.malformed.num_rows == taken
            count += taken


@pytest.mark.parametrize("bad", [{0}, {99}, {0, 63, 64, 99}, set(range(100)), set()])
def test_the_edges_of_blocks(topic: Topic, registry: FakeRegistry, bad: set[int]) -> None:
    number = registry.add(ORDER, f"{topic.name}-value")
    values = orders(number, *range(100))
    topic.produce(*[b"x" if row in bad else value for row, value in enumerate(values)])
    with topic.consumer() as consumer:
        batch = consumer.consume_arrow(
            100, WAIT_S, columns=["offset", "value"], value=Avro(registry), on_error="split"
        )
        assert batch.malformed is not None
        assert [each["offset"] for each in rows_of(batch)] == sorted(set(range(100)) - bad)
        found = rows_of(batch.malformed, "offset", "value", "key", "field")
        assert found == [
            {"offset": each, "value": b"x", "key": None, "field": "value"} for each in sorted(bad)
        ]
        assert batch.positions == {(topic.name, 0): 100}


def test_projections_and_flat_columns(topic: Topic, registry: FakeRegistry) -> None:
    number = registry.add(ORDER, f"{topic.name}-value")
    topic.produce(*orders(number, 1), b"x", None, *orders(number, 3))
    with topic.consumer() as consumer:
        batch = consumer.consume_arrow(
            4,
            WAIT_S,
            columns=["value"],
            value=Avro(registry, fields=["name"]),
            on_error="split",
            flatten=True,
        )
        assert rows_of(batch) == [{"name": "n1"}, {"name": None}, {"name": "n3"}]
        assert batch.malformed is not None
        assert repr(batch.malformed).startswith("<MalformedRecords 1 rows: topic, partition")


def test_without_split_there_are_no_malformed_records(topic: Topic, registry: FakeRegistry) -> None:
    number = registry.add(ORDER, f"{topic.name}-value")
    topic.produce(*orders(number, 1))
    with topic.consumer() as consumer:
        assert consumer.consume_arrow(1, WAIT_S, columns=["value"]).malformed is None


def test_a_registry_that_fails_loses_no_record(topic: Topic, registry: FakeRegistry) -> None:
    number = registry.add(ORDER, f"{topic.name}-value")
    topic.produce(b"x", *orders(number, 1), b"y")
    codec = Avro(registry, schema=json.dumps(ORDER))

    def fail() -> None:
        raise OSError("no registry")

    how: dict[str, Any] = {"columns": ["value"], "value": codec, "on_error": "split"}
    with topic.consumer() as consumer:
        registry.hook = fail
        first = consumer.consume_arrow(3, WAIT_S, **how)
        assert first.num_rows == 0
        assert first.malformed is not None
        assert rows_of(first.malformed, "value") == [{"value": b"x"}]
        with pytest.raises(SchemaLookupError, match="no registry"):
            consumer.consume_arrow(2, WAIT_S, **how)
        registry.hook = lambda: None
        rest = consumer.consume_arrow(2, WAIT_S, **how)
        assert rows_of(rest) == [{"value": {"id": 1, "name": "n1"}}]
        assert rest.malformed is not None
        assert rows_of(rest.malformed, "value") == [{"value": b"y"}]


def test_streams_and_coroutines(topic: Topic, registry: FakeRegistry) -> None:
    number = registry.add(ORDER, f"{topic.name}-value")
    topic.produce(framed(number, b""), b"x")  # no record decodes
    codec = Avro(registry, schema=json.dumps(ORDER))
    how: dict[str, Any] = {"columns": ["value"], "value": codec, "on_error": "split"}

    def count(batch: ArrowBatch) -> int:
        assert batch.malformed is not None
        return batch.malformed.num_rows

    async def read(consumer: Consumer) -> int:
        async for batch in consumer.arrow_stream(2, WAIT_S, **how):
            return count(batch)
        return 0

    async def consume() -> int:
        conf = {"bootstrap.servers": topic.cluster.bootstrap_servers}
        async with AIOConsumer(conf) as consumer:
            await consumer.assign([TopicPartition(topic.name, 0, 0)])
            return count(await consumer.consume_arrow(2, WAIT_S, **how))

    with topic.consumer() as consumer:
        assert count(next(consumer.arrow_stream(2, WAIT_S, **how))) == 2
        consumer.seek(TopicPartition(topic.name, 0, 0))
        assert asyncio.run(read(consumer)) > 0
        with pytest.raises(ValueError, match='on_error="split" loses the records'):
            pa.RecordBatchReader.from_stream(consumer.arrow_stream(**how))
    assert asyncio.run(consume()) == 2


def test_share_groups_have_no_split(topic: Topic, registry: FakeRegistry) -> None:
    conf = {"bootstrap.servers": topic.cluster.bootstrap_servers, "group.id": topic.name}
    with (
        ShareConsumer(conf) as consumer,
        pytest.raises(ValueError, match='on_error="split" isn\'t for share groups'),
    ):
        consumer.consume_arrow(value=Avro(registry), on_error="split")
