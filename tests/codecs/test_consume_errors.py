"""consume_arrow(value=Avro(...)) and bad input: each error has its place, and no message is lost."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from kafka_native import TopicPartition
from kafka_native.arrow import OnError
from kafka_native.codecs import Avro, MessageDecodeError, SchemaLookupError
from kafka_native.mock import MockSchemaRegistry
from kafka_native.schema_registry import Schema, SchemaRegistryClient, SchemaRegistryError
from tests.codecs.consume_support import (
    CITY,
    ID,
    NAME,
    ORDER,
    FakeRegistry,
    Topic,
    encoded,
    framed,
    orders,
    record,
    values_of,
)
from tests.waiting import WAIT_S

VALUE = ["value"]
OTHER = record(ID, {"name": "name", "type": "int"})
LIST = record({"name": "cities", "type": {"type": "array", "items": CITY["type"]}})


def cut_off(registry: FakeRegistry) -> tuple[bytes, str]:
    return orders(1, 7)[0][:-1], r"schema id 1, field name, byte \d+: the record ends too early"


def unknown_id(registry: FakeRegistry) -> tuple[bytes, str]:
    return framed(77, b"\2"), "schema id 77: the registry doesn't have it: there is no schema 77"


def without_framing(registry: FakeRegistry) -> tuple[bytes, str]:
    return b'{"id": 1}', "there is no schema framing"


def incompatible(registry: FakeRegistry) -> tuple[bytes, str]:
    number = registry.add(OTHER)
    text = (
        rf"schema id {number}: it doesn't resolve against the reader's schema id 1 \(.*-value "
        "version 1\\): name: the reader's string can't read the writer's int"
    )
    return encoded(OTHER, number, id=1, name=2), text


def of_another_format(registry: FakeRegistry) -> tuple[bytes, str]:
    number = registry.add({"type": "object"}, kind="JSON")
    return framed(number, b"{}"), f"schema id {number}: .*it is a schema of type JSON, not AVRO"


def broken_schema(registry: FakeRegistry) -> tuple[bytes, str]:
    number = registry.add({"type": "record"})
    return framed(number, b""), f"schema id {number}: .*'name' is missing"


BAD: list[Callable[[FakeRegistry], tuple[bytes, str]]] = [
    cut_off,
    unknown_id,
    without_framing,
    incompatible,
    of_another_format,
    broken_schema,
]


@pytest.mark.parametrize("bad", BAD)
def test_a_bad_message_ends_the_batch_and_then_raises(
    topic: Topic, registry: FakeRegistry, bad: Any
) -> None:
    registry.add(ORDER, f"{topic.name}-value")
    value, text = bad(registry)
    topic.produce(*orders(1, 0, 1), value, *orders(1, 3))
    codec = Avro(registry)
    with topic.consumer() as consumer:
        batch = consumer.consume_arrow(10, WAIT_S, columns=VALUE, value=codec)
        assert [each["id"] for each in values_of(batch)] == [0, 1]
        assert batch.positions == {(topic.name, 0): 2}
        place = (
            rf"{topic.name} \[0\] at offset 2: its value doesn't decode: {text}.*seek to offset 3"
        )
        for _ in range(2):
            with pytest.raises(MessageDecodeError, match=place) as caught:
                consumer.consume_arrow(10, WAIT_S, columns=VALUE, value=codec)
        error = caught.value
        assert (error.topic, error.partition, error.offset, error.field) == (
            topic.name, 0, 2, "value"
        )  # fmt: skip
        assert error.schema_id == (int.from_bytes(value[1:5], "big") if value[0] == 0 else None)
        raw = consumer.consume_arrow(1, WAIT_S, columns=VALUE)
        assert values_of(raw) == [value]
        assert values_of(consumer.consume_arrow(1, WAIT_S, columns=VALUE, value=codec))
        consumer.seek(TopicPartition(topic.name, 0, error.offset + 1))
        batch = consumer.consume_arrow(1, WAIT_S, columns=VALUE, value=codec)
        assert [each["id"] for each in values_of(batch)] == [3]


@pytest.mark.parametrize("bad", BAD)
def test_a_bad_message_may_be_null_with_a_reason(
    topic: Topic, registry: FakeRegistry, bad: Any
) -> None:
    registry.add(ORDER, f"{topic.name}-value")
    value, text = bad(registry)
    topic.produce(*orders(1, 0), value, None, *orders(1, 3))
    codec = Avro(registry)
    with topic.consumer() as consumer:
        batch = consumer.consume_arrow(
            4, WAIT_S, columns=VALUE, value=codec, on_error="column", flatten=True
        )
        assert values_of(batch, "id") == [0, None, None, 3]
        errors = values_of(batch, "value_error")
        assert [each is None for each in errors] == [True, False, True, True]
        assert re.search(text, errors[1])
        consumer.seek(TopicPartition(topic.name, 0, 0))
        batch = consumer.consume_arrow(
            4, WAIT_S, columns=["value", "offset"], value=codec, on_error="bytes"
        )
        assert batch.column_names == ["value", "value_error", "value_bytes", "offset"]
        assert values_of(batch, "value_error") == errors
        assert values_of(batch, "value_bytes") == [None, value, None, None]
        consumer.seek(TopicPartition(topic.name, 0, 0))
        batch = consumer.consume_arrow(4, WAIT_S, columns=VALUE, value=codec, on_error="split")
        assert [each and each["id"] for each in values_of(batch)] == [0, None, 3]
        assert batch.malformed is not None
        assert values_of(batch.malformed, "error") == errors[1:2]
        assert values_of(batch.malformed, "value") == [value]
        consumer.seek(TopicPartition(topic.name, 0, 0))
        batch = consumer.consume_arrow(4, WAIT_S, columns=VALUE, value=codec, on_error="null")
        assert batch.column_names == VALUE
        assert [each is None for each in values_of(batch)] == [False, True, True, False]


def test_nested_fields_and_defaults_have_their_path(topic: Topic, registry: FakeRegistry) -> None:
    number = registry.add(LIST, f"{topic.name}-value")
    whole = encoded(LIST, number, cities=[{"zip": "z", "size": 1}, {"zip": "y", "size": 2}])
    topic.produce(whole[:-2])
    with topic.consumer() as consumer, pytest.raises(MessageDecodeError) as caught:
        consumer.consume_arrow(1, WAIT_S, columns=VALUE, value=Avro(registry))
    error = caught.value
    assert (error.path, error.position) == ("cities[].size", len(whole) - 2)
    assert error.problem in str(error)


def test_a_bad_key(topic: Topic, registry: FakeRegistry) -> None:
    registry.add("string", f"{topic.name}-key")
    topic.produce(b"v", key=framed(1, b"\6ab"))
    with (
        topic.consumer() as consumer,
        pytest.raises(MessageDecodeError, match=r"its key doesn't decode: schema id 1, byte 5"),
    ):
        consumer.consume_arrow(1, WAIT_S, key=Avro(registry))


def test_bytes_behind_a_record_are_ignored(topic: Topic, registry: FakeRegistry) -> None:
    registry.add(ORDER, f"{topic.name}-value")
    topic.produce(orders(1, 1)[0] + b"more")
    with topic.consumer() as consumer:
        batch = consumer.consume_arrow(1, WAIT_S, columns=VALUE, value=Avro(registry))
    assert values_of(batch) == [{"id": 1, "name": "n1"}]


def test_thousands_of_unknown_ids(topic: Topic, registry: FakeRegistry) -> None:
    registry.add(ORDER, f"{topic.name}-value")
    topic.produce(*[framed(number, b"\2") for number in range(2, 5002)], *orders(1, 1))
    with topic.consumer() as consumer:
        batch = consumer.consume_arrow(
            5001, WAIT_S, columns=VALUE, value=Avro(registry), on_error="null"
        )
    found = values_of(batch)
    assert found[:5000] == [None] * 5000
    assert found[5000] == {"id": 1, "name": "n1"}


def test_an_unknown_id_may_be_registered_later(topic: Topic, registry: FakeRegistry) -> None:
    registry.add(ORDER, f"{topic.name}-value")
    topic.produce(*orders(2, 1))
    codec = Avro(registry)
    with topic.consumer() as consumer:
        with pytest.raises(MessageDecodeError, match="the registry doesn't have it"):
            consumer.consume_arrow(1, WAIT_S, columns=VALUE, value=codec)
        registry.add(record(ID, NAME, CITY))
        registry.schemas[2] = registry.schemas[1]
        batch = consumer.consume_arrow(1, WAIT_S, columns=VALUE, value=codec)
    assert values_of(batch) == [{"id": 1, "name": "n1"}]


# --- the consumer is closed ---


def test_a_stream_of_a_closed_consumer_ends(topic: Topic, registry: FakeRegistry) -> None:
    with topic.consumer() as consumer:
        stream = consumer.arrow_stream(value=Avro(registry))
    assert list(stream) == []
    with pytest.raises(StopAsyncIteration):
        asyncio.run(_first_of(stream))
    with pytest.raises(RuntimeError, match="Consumer closed"):
        stream.column_names  # noqa: B018
    assert registry.asked == []


def test_another_thread_closes_the_consumer_at_the_start_of_a_call(
    topic: Topic, registry: FakeRegistry
) -> None:
    class Closes(Avro):
        def reader(self, field: str, topics: Any) -> Any:
            consumer.close()
            return super().reader(field, topics)

    consumer = topic.consumer()
    with pytest.raises(RuntimeError, match="Consumer closed"):
        consumer.consume_arrow(1, 0, value=Closes(registry))


# --- the registry is down ---


@pytest.mark.parametrize("on_error", ["raise", "null", "column"])
def test_a_registry_that_is_down(topic: Topic, on_error: OnError) -> None:
    with MockSchemaRegistry() as registry:
        conf = {"url": registry.url, "max.retries": 0}
        with SchemaRegistryClient(conf) as maker:
            first = maker.register_schema(f"{topic.name}-value", Schema(json.dumps(ORDER)))
            second = maker.register_schema("other", Schema(json.dumps(record(NAME, ID))))
        topic.produce(*orders(first, 0, 1), encoded(record(NAME, ID), second, id=2, name="n2"))
        with SchemaRegistryClient(conf) as client, topic.consumer() as consumer:
            codec = Avro(client)

            def take(count: int = 10) -> list[Any]:
                batch = consumer.consume_arrow(
                    count, WAIT_S, columns=VALUE, value=codec, on_error=on_error
                )
                return [each["id"] for each in values_of(batch)]

            registry.faults.fail(503, count=1)
            with pytest.raises(SchemaLookupError, match=f"subject {topic.name}-value"):
                take()
            codec.reader("value", lambda: [topic.name])
            client.get_schema(first)
            registry.faults.fail(503, count=2)
            assert take() == [0, 1]
            place = rf"{topic.name} \[0\] at offset 2: schema id {second} of its value can't be"
            with pytest.raises(SchemaLookupError, match=place) as caught:
                take()
            assert isinstance(caught.value.__cause__, SchemaRegistryError)
            assert take(1) == [2]


async def _first_of(stream: Any) -> Any:
    return await anext(stream)


def test_a_registry_that_is_down_and_coroutines(topic: Topic, registry: FakeRegistry) -> None:
    registry.add(ORDER, f"{topic.name}-value")
    topic.produce(*orders(1, 1))

    def fail() -> None:
        raise SchemaRegistryError(503, -1, "down")

    with topic.consumer() as consumer:
        stream = consumer.arrow_stream(columns=VALUE, value=Avro(registry))
        registry.hook = fail
        with pytest.raises(SchemaLookupError, match=f"subject {topic.name}-value: down"):
            asyncio.run(_first_of(stream))
        registry.hook = lambda: None
        assert stream.column_names == VALUE
        registry.hook = fail
        with pytest.raises(SchemaLookupError, match="at offset 0: schema id 1 of its value"):
            asyncio.run(_first_of(stream))
        registry.hook = lambda: None
        batch = asyncio.run(_first_of(stream))
    assert values_of(batch) == [{"id": 1, "name": "n1"}]


def test_memory_that_runs_out_in_a_lookup(topic: Topic, registry: FakeRegistry) -> None:
    """A registry isn't the reason, so the error is Python's. The next call goes on."""
    registry.add(ORDER, f"{topic.name}-value")
    topic.produce(*orders(1, 1, 2))

    def fail() -> None:
        raise MemoryError

    def take(call: Callable[[], Any]) -> Any:
        registry.hook = fail
        with pytest.raises(MemoryError):
            call()
        registry.hook = lambda: None

    codec = Avro(registry)
    with topic.consumer() as consumer:
        stream = consumer.arrow_stream(columns=VALUE, value=codec)
        take(lambda: asyncio.run(_first_of(stream)))  # the latest schema
        assert stream.column_names == VALUE
        take(lambda: asyncio.run(_first_of(stream)))  # that of the record
        take(lambda: consumer.consume_arrow(1, WAIT_S, columns=VALUE, value=codec))
        found = values_of(consumer.consume_arrow(1, WAIT_S, columns=VALUE, value=codec))
        assert [each["id"] for each in found] == [1]
        assert [each["id"] for each in values_of(asyncio.run(_first_of(stream)))] == [2]


def test_unknown_ids_and_coroutines(topic: Topic, registry: FakeRegistry) -> None:
    registry.add(ORDER, f"{topic.name}-value")
    topic.produce(framed(77, b""), framed(78, b""), *orders(1, 1))

    async def read() -> list[Any]:
        found: list[Any] = []
        with topic.consumer() as consumer:
            codec = Avro(registry)
            async for batch in consumer.arrow_stream(columns=VALUE, value=codec, on_error="null"):
                found += values_of(batch)
                if len(found) == 3:
                    break
        return found

    assert asyncio.run(read()) == [None, None, {"id": 1, "name": "n1"}]
