"""consume_arrow(value=Avro(...)): typed columns from several schemas, projected and flattened."""

from __future__ import annotations

import asyncio
import json
import threading
import uuid
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pytest

from kafka_native import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from kafka_native._native.arrow_consumer import take_columns
from kafka_native.arrow import ColumnRequest, Decode
from kafka_native.codecs import Avro, SchemaError
from kafka_native.mock import MockSchemaRegistry
from kafka_native.schema_registry import AsyncSchemaRegistryClient, Schema, SchemaRegistryClient
from tests.codecs.consume_support import (
    CITY,
    ID,
    NAME,
    ORDER,
    WIDE,
    FakeRegistry,
    Topic,
    encoded,
    framed,
    guid_of,
    orders,
    record,
    reference,
    table_of,
    values_of,
)
from tests.harness.libraries import polars_or_skip
from tests.waiting import WAIT_S, wait_for

VALUE = ["value"]


def rows(*ids: int) -> list[dict[str, Any]]:
    return [{"id": each, "name": f"n{each}"} for each in ids]


# --- values and schemas ---


def test_a_registry_over_http(topic: Topic) -> None:
    with MockSchemaRegistry() as registry:
        with SchemaRegistryClient({"url": registry.url}) as client:
            number = client.register_schema(f"{topic.name}-value", Schema(json.dumps(ORDER)))
        topic.produce(*orders(number, *range(300)), None)
        codec = Avro(registry.url)
        with topic.consumer() as consumer:
            first = consumer.consume_arrow(150, WAIT_S, value=codec)
            second = consumer.consume_arrow(151, WAIT_S, value=codec, columns=VALUE)
        codec.close()
    assert table_of(first).schema.field("value").type == pa.struct(
        [pa.field("id", pa.int64(), False), pa.field("name", pa.string())]
    )
    assert first.column_names == ["topic", "partition", "offset", "timestamp", "key", "value"]
    assert values_of(first) == rows(*range(150))
    assert values_of(second) == [*rows(*range(150, 300)), None]
    assert second.nbytes >= 150 * (8 + 4 + 2)


def test_several_schemas_in_one_batch_have_the_readers_columns(
    topic: Topic, registry: FakeRegistry
) -> None:
    old = record({"name": "id", "type": "int"})
    numbers = [registry.add(each, f"{topic.name}-value") for each in (old, WIDE, ORDER)]
    expected = []
    for number in range(200):
        which = numbers[number % 3]
        schema = registry.schemas[which].schema_str
        city = {"zip": "z", "size": number}
        value = encoded(json.loads(schema or ""), which, id=number, name="x", city=city)
        topic.produce(value)
        expected.append({"id": number, "name": None if which == numbers[0] else "x"})
    with topic.consumer() as consumer:
        batch = consumer.consume_arrow(200, WAIT_S, columns=VALUE, value=Avro(registry))
    assert values_of(batch) == expected
    assert sorted(map(str, registry.asked)) == sorted(map(str, [f"{topic.name}-value", *numbers]))


def test_the_result_may_be_another_subject_or_a_schema(
    topic: Topic, registry: FakeRegistry
) -> None:
    number = registry.add(ORDER, f"{topic.name}-value")
    registry.add(record(NAME), "names")
    topic.produce(*orders(number, 1, 2))
    with topic.consumer() as consumer:
        by_subject = Avro(registry, subject="names")
        batch = consumer.consume_arrow(1, WAIT_S, columns=VALUE, value=by_subject)
        assert values_of(batch) == [{"name": "n1"}]
        by_schema = Avro(registry, schema=record({"name": "id", "type": "double"}))
        batch = consumer.consume_arrow(1, WAIT_S, columns=VALUE, value=by_schema)
        assert values_of(batch) == [{"id": 2.0}]


def test_only_the_chosen_fields_are_columns(topic: Topic, registry: FakeRegistry) -> None:
    number = registry.add(WIDE, f"{topic.name}-value")
    topic.produce(encoded(WIDE, number, id=1, city={"zip": "z", "size": 3}, name="n"))
    codec = Avro(registry, fields=["city.size"])
    with topic.consumer() as consumer:
        batch = consumer.consume_arrow(1, WAIT_S, columns=VALUE, value=codec)
    assert values_of(batch) == [{"city": {"size": 3}}]


def test_records_without_framing(topic: Topic) -> None:
    topic.produce(*[each[5:] for each in orders(0, 1, 2)], None)
    with topic.consumer() as consumer:
        batch = consumer.consume_arrow(3, WAIT_S, columns=VALUE, value=Avro(schema=ORDER))
    assert values_of(batch) == [*rows(1, 2), None]


def test_guids_in_headers_and_in_front(topic: Topic, registry: FakeRegistry) -> None:
    number = registry.add(ORDER, f"{topic.name}-value")
    guid = b"\1" + uuid.UUID(guid_of(number)).bytes
    plain = [each[5:] for each in orders(number, 1, 2)]
    topic.produce(plain[0], headers=[("other", b"x"), ("__value_schema_id", guid)])
    topic.produce(guid + plain[1])
    topic.produce(plain[0], headers=[("__value_schema_id", framed(number, b""))])
    with topic.consumer() as consumer:
        batch = consumer.consume_arrow(3, WAIT_S, columns=VALUE, value=Avro(registry))
    assert values_of(batch) == rows(1, 2, 1)


def test_of_several_schema_headers_the_last_counts(topic: Topic, registry: FakeRegistry) -> None:
    """As in Java. A message that is passed on may have the header of its first schema, too."""
    number = registry.add(ORDER, f"{topic.name}-value")
    first, last = (b"\1" + uuid.UUID(each).bytes for each in (str(uuid.uuid4()), guid_of(number)))
    name = "__value_schema_id"
    topic.produce(orders(number, 1)[0][5:], headers=[(name, first), (name, last)])
    with topic.consumer() as consumer:
        batch = consumer.consume_arrow(1, WAIT_S, columns=VALUE, value=Avro(registry))
    assert values_of(batch) == rows(1)


def test_keys_and_values(topic: Topic, registry: FakeRegistry) -> None:
    of_value = registry.add(ORDER, f"{topic.name}-value")
    of_key = registry.add("string", f"{topic.name}-key")
    topic.produce(orders(of_value, 1)[0], key=encoded_text(of_key, "k"))
    topic.produce(orders(of_value, 2)[0], key=None)
    topic.produce(orders(of_value, 3)[0], key=b"bad")
    codec = Avro(registry)
    with topic.consumer() as consumer:
        batch = consumer.consume_arrow(
            3, WAIT_S, columns=["value", "key"], value=codec, key=codec, on_error="column"
        )
    assert batch.column_names == ["value", "value_error", "key", "key_error"]
    assert values_of(batch) == rows(1, 2, 3)
    assert values_of(batch, "key") == ["k", None, None]
    errors = values_of(batch, "key_error")
    assert errors[:2] == [None, None]
    assert "no schema framing" in errors[2]
    assert values_of(batch, "value_error") == [None, None, None]


def encoded_text(schema_id: int, text: str) -> bytes:
    return framed(schema_id, bytes([2 * len(text)]) + text.encode())


def test_schemas_that_refer_to_others(topic: Topic, registry: FakeRegistry) -> None:
    registry.add(CITY["type"], "city")
    refers = record(ID, {"name": "city", "type": "City"})
    number = registry.add(refers, f"{topic.name}-value", references=[reference("City", "city")])
    newer = {**CITY["type"], "fields": [{"name": "zip", "type": "string"}]}
    registry.add(newer, "city")
    second = registry.add(refers, f"{topic.name}-value", references=[reference("City", "city", 2)])
    whole = record(ID, CITY)
    topic.produce(encoded(whole, number, id=1, city={"zip": "z", "size": 3}))
    small = record(ID, {"name": "city", "type": newer})
    topic.produce(encoded(small, second, id=2, city={"zip": "y"}))
    with topic.consumer() as consumer:
        batch = consumer.consume_arrow(2, WAIT_S, columns=VALUE, value=Avro(registry))
    assert values_of(batch) == [{"id": 1, "city": {"zip": "z"}}, {"id": 2, "city": {"zip": "y"}}]


def test_what_produce_arrow_has_sent(topic: Topic) -> None:
    table = pa.table({"id": [1, 2], "name": ["a", None], "tags": [["x", "y"], []]})
    with MockSchemaRegistry() as registry:
        bootstrap = {"bootstrap.servers": topic.cluster.bootstrap_servers}
        with Avro(registry.url) as codec, Producer(bootstrap) as producer:
            producer.produce_arrow(topic.name, table, value=codec)
            producer.flush()
            with topic.consumer() as consumer:
                batch = consumer.consume_arrow(2, WAIT_S, columns=VALUE, value=codec, flatten=True)
    assert table_of(batch).to_pylist() == table.to_pylist()


def test_a_schema_of_the_registrys_client(topic: Topic, registry: FakeRegistry) -> None:
    registry.add(CITY["type"], "city")
    whole = record(ID, CITY)
    number = registry.add(whole)
    topic.produce(encoded(whole, number, id=1, city={"zip": "z", "size": 3}))
    text = json.dumps(record({"name": "city", "type": "City"}))
    wanted = Schema(text, "AVRO", [reference("City", "city")])
    with topic.consumer() as consumer:
        codec = Avro(registry, schema=wanted)
        batch = consumer.consume_arrow(1, WAIT_S, columns=VALUE, value=codec)
        assert values_of(batch) == [{"city": {"zip": "z", "size": 3}}]
        with pytest.raises(SchemaError, match="refers to others needs a schema registry"):
            consumer.consume_arrow(1, 0, value=Avro(schema=wanted))


# --- flat columns ---


def test_fields_become_columns(topic: Topic, registry: FakeRegistry) -> None:
    schema = record(ID, NAME, CITY, {"name": "kind", "type": {
        "type": "enum", "name": "Kind", "symbols": ["A", "B"]}})  # fmt: skip
    number = registry.add(schema, f"{topic.name}-value")
    city = {"zip": "z", "size": 3}
    topic.produce(
        encoded(schema, number, id=1, name=None, city=city, kind="B"), None, framed(number, b"")
    )
    with topic.consumer() as consumer:
        batch = consumer.consume_arrow(
            3,
            WAIT_S,
            columns=["offset", "value"],
            value=Avro(registry),
            flatten=True,
            on_error="column",
        )
    assert batch.column_names == ["offset", "id", "name", "city", "kind", "value_error"]
    nothing = {"id": None, "name": None, "city": None, "kind": None}
    found = table_of(batch).to_pylist()
    assert found[0] == {
        "offset": 0, "id": 1, "name": None, "city": city, "kind": "B", "value_error": None
    }  # fmt: skip
    assert found[1] == {"offset": 1, **nothing, "value_error": None}
    assert found[2] == {
        "offset": 2,
        **nothing,
        "value_error": "schema id 1, field id, byte 5: the record ends too early",
    }


def test_two_columns_may_not_have_one_name(topic: Topic, registry: FakeRegistry) -> None:
    registry.add(record(ID, {"name": "offset", "type": "long"}), f"{topic.name}-value")
    registry.add("long", "number")
    with topic.consumer() as consumer:
        with pytest.raises(ValueError, match="two columns are named offset: leave one out"):
            consumer.consume_arrow(1, 0, value=Avro(registry), flatten=True)
        with pytest.raises(ValueError, match="flatten=True needs a value that is a record"):
            consumer.consume_arrow(1, 0, value=Avro(registry, subject="number"), flatten=True)


# --- libraries ---


def test_libraries_take_it(topic: Topic, registry: FakeRegistry) -> None:
    number = registry.add(WIDE, f"{topic.name}-value")
    for each in range(100):
        topic.produce(encoded(WIDE, number, id=each, city={"zip": "z", "size": each}, name="n"))
    with topic.consumer() as consumer:
        batch = consumer.consume_arrow(
            100, WAIT_S, columns=VALUE, value=Avro(registry), flatten=True
        )
    frame = polars_or_skip().DataFrame(batch)
    assert frame["id"].sum() == 4950
    assert frame["city"].struct.field("size").sum() == 4950
    table = pa.table(batch)
    connection = duckdb.connect()
    connection.register("orders", table)
    assert connection.sql("select sum(city.size), count(name) from orders").fetchall() == [
        (4950, 100)
    ]
    assert isinstance(table.to_pandas(), pd.DataFrame)
    assert table.to_pandas()["id"].sum() == 4950


def test_columns_are_shared_and_outlive_the_consumer(topic: Topic, registry: FakeRegistry) -> None:
    number = registry.add(ORDER, f"{topic.name}-value")
    topic.produce(*orders(number, 1, 2))
    consumer = topic.consumer()
    batch = consumer.consume_arrow(2, WAIT_S, columns=VALUE, value=Avro(registry))
    consumer.close()
    one, two = pa.record_batch(batch), pa.record_batch(batch)
    assert address_of(one) == address_of(two)
    del batch, consumer
    assert one.column(0).to_pylist() == two.column(0).to_pylist() == rows(1, 2)


def address_of(batch: pa.RecordBatch) -> int:
    buffer = batch.column(0).field(0).buffers()[1]
    assert buffer is not None
    return int(buffer.address)


# --- streams ---


def test_a_stream(topic: Topic, registry: FakeRegistry) -> None:
    number = registry.add(ORDER, f"{topic.name}-value")
    topic.produce(*orders(number, *range(250)))
    with topic.consumer() as consumer:
        stream = consumer.arrow_stream(100, timeout=1.0, columns=VALUE, value=Avro(registry))
        assert registry.asked == []
        assert stream.column_names == VALUE
        batches = [next(stream), next(stream)]
        assert [len(each) for each in batches] == [100, 100]
        reader = pa.RecordBatchReader.from_stream(stream)
        assert reader.schema.names == VALUE
        assert reader.read_next_batch().column(0).to_pylist() == rows(*range(200, 250))
        reader.close()


def test_coroutines_run_while_the_registry_is_asked(topic: Topic, registry: FakeRegistry) -> None:
    number = registry.add(ORDER, f"{topic.name}-value")
    topic.produce(*orders(number, 1, 2))
    others = threading.Semaphore(0)

    def hook() -> None:
        assert others.acquire(timeout=WAIT_S), "no other coroutine ran during the look-up"

    async def release() -> None:
        for count in (1, 2):
            while len(registry.asked) < count:
                await asyncio.sleep(0.002)
            others.release()

    async def main() -> list[Any]:
        helper = asyncio.create_task(release())
        with topic.consumer() as consumer:
            stream = consumer.arrow_stream(columns=VALUE, value=Avro(registry))
            found: list[Any] = []
            async for batch in stream:
                found += values_of(batch)
                if len(found) == 2:
                    break
        await helper
        return found

    registry.hook = hook
    assert asyncio.run(main()) == rows(1, 2)
    assert registry.asked == [f"{topic.name}-value", number]


# --- other calls in between ---


def test_a_seek_while_the_registry_is_asked(topic: Topic, registry: FakeRegistry) -> None:
    first = registry.add(ORDER, f"{topic.name}-value")
    second = registry.add(ORDER)
    topic.produce(*orders(first, *range(100)), *orders(second, *range(100, 200)))
    with topic.consumer() as consumer:

        def hook() -> None:
            if registry.asked[-1] == second:
                consumer.seek(TopicPartition(topic.name, 0, 150))

        registry.hook = hook
        batch = consumer.consume_arrow(150, WAIT_S, columns=VALUE, value=Avro(registry))
    assert values_of(batch) == rows(*range(100), *range(150, 200))


def test_wakeup_and_close_while_the_registry_is_asked(topic: Topic, registry: FakeRegistry) -> None:
    number = registry.add(ORDER, f"{topic.name}-value")
    topic.produce(*orders(number, 1, 2))
    with topic.consumer() as consumer:
        codec = Avro(registry, schema=ORDER)
        registry.hook = consumer.wakeup
        assert len(consumer.consume_arrow(2, WAIT_S, columns=VALUE, value=codec)) == 0
        registry.hook = lambda: None
        batch = consumer.consume_arrow(2, WAIT_S, columns=VALUE, value=codec)
        assert values_of(batch) == rows(1, 2)
    with topic.consumer() as consumer:
        registry.hook = consumer.close
        batch = consumer.consume_arrow(2, WAIT_S, value=Avro(registry, schema=ORDER))
        assert len(batch) == 0


def test_an_interrupted_lookup_gives_its_rows_back(topic: Topic, registry: FakeRegistry) -> None:
    first = registry.add(ORDER, f"{topic.name}-value")
    second = registry.add(ORDER)
    topic.produce(*orders(first, 0, 1), *orders(second, 2, 3))

    def hook() -> None:
        if registry.asked[-1] == second:
            registry.hook = lambda: None
            raise KeyboardInterrupt

    registry.hook = hook
    codec = Avro(registry)
    with topic.consumer() as consumer:
        with pytest.raises(KeyboardInterrupt):
            consumer.consume_arrow(4, WAIT_S, columns=VALUE, value=codec)
        batch = consumer.consume_arrow(4, WAIT_S, columns=VALUE, value=codec)
    assert values_of(batch) == rows(0, 1, 2, 3)


def test_a_full_column_ends_the_batch(topic: Topic, registry: FakeRegistry) -> None:
    number = registry.add(ORDER, f"{topic.name}-value")
    topic.produce(*orders(number, *range(100, 200)))
    plan = ColumnRequest(VALUE, Decode(Avro(registry))).plan(lambda: [topic.name])
    with topic.consumer() as consumer:
        memory = consumer._column_memory
        sizes: list[int] = []
        while sum(sizes) < 100:
            left = 100 - sum(sizes)
            sizes.append(len(take_columns(consumer, plan, memory, left, WAIT_S, bytes_max=130)))
        assert sizes == [32, 32, 32, 4]
        consumer.seek(TopicPartition(topic.name, 0, OFFSET_BEGINNING))
        with pytest.raises(ValueError, match="ask for fewer fields"):
            take_columns(consumer, plan, memory, 100, WAIT_S, bytes_max=3)


def test_two_threads_share_a_codec(topic: Topic, registry: FakeRegistry) -> None:
    number = registry.add(ORDER, f"{topic.name}-value")
    topic.produce(*orders(number, *range(50)))
    codec = Avro(registry)
    found: list[Any] = []

    def read() -> None:
        with topic.consumer() as consumer:
            for _ in range(50):
                found.extend(values_of(consumer.consume_arrow(1, WAIT_S, value=codec)))

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert sorted(each["id"] for each in found) == sorted(list(range(50)) * 3)


# --- bad arguments ---


def test_bad_arguments(topic: Topic, registry: FakeRegistry) -> None:
    registry.add(ORDER, f"{topic.name}-value")
    codec = Avro(registry)
    with topic.consumer() as consumer:
        for more, error, text in [
            ({"value": registry}, TypeError, "value must be a codec"),
            ({"value": codec, "on_error": "skip"}, ValueError, "on_error must be"),
            ({"on_error": "null"}, ValueError, "need a codec"),
            ({"flatten": True}, ValueError, "need a codec"),
            ({"value": codec, "columns": ["offset"]}, ValueError, "which columns= doesn't name"),
            ({"key": codec, "columns": {"key": "string"}}, ValueError, "can't be 'string'"),
        ]:
            for call in (consumer.consume_arrow, consumer.arrow_stream):
                with pytest.raises(error, match=text):
                    call(1, 0, **more)  # type: ignore[operator]
        batch = consumer.consume_arrow(1, 0, value=codec, columns={"value": None})
        assert len(batch) == 0
        assert table_of(batch).schema.field("value").type.names == ["id", "name"]


def test_bad_codecs(registry: FakeRegistry) -> None:
    for arguments, error, text in [
        ({}, ValueError, "needs a schema registry, or schema="),
        ({"subject": "s"}, ValueError, "needs a schema registry"),
        ({"subject": "s", "schema": ORDER}, ValueError, "subject= needs"),
        ({"schema": ORDER, "fields": "id"}, TypeError, "not one str"),
    ]:
        with pytest.raises(error, match=text):
            Avro(**arguments)  # type: ignore[arg-type]
    client = AsyncSchemaRegistryClient({"url": "http://localhost:1"})
    with pytest.raises(TypeError, match="must be a SchemaRegistryClient"):
        Avro(client)  # type: ignore[arg-type]


def test_an_unclear_subject(topic: Topic, registry: FakeRegistry) -> None:
    conf = {"bootstrap.servers": topic.cluster.bootstrap_servers, "group.id": topic.name}
    with Consumer(conf) as consumer:
        with pytest.raises(
            ValueError, match=r"reads no topic yet: pass subject= or schema= to Avro"
        ):
            consumer.consume_arrow(1, 0, value=Avro(registry))
        consumer.subscribe([topic.name, "another"])
        with pytest.raises(ValueError, match="reads 2 topics"):
            consumer.consume_arrow(1, 0, value=Avro(registry))
        registry.add(ORDER, f"{topic.name}-value")
        consumer.subscribe([topic.name])
        wait_for(lambda: consumer.subscription() == [topic.name])
        assert len(consumer.consume_arrow(1, 0, value=Avro(registry))) == 0


def test_a_result_without_columns(topic: Topic, registry: FakeRegistry) -> None:
    registry.add({"type": "record", "name": "Tree", "fields": [
        {"name": "left", "type": ["null", "Tree"]}]}, f"{topic.name}-value")  # fmt: skip
    registry.add({"type": "object"}, f"{topic.name}-key", kind="JSON")
    with topic.consumer() as consumer:
        with pytest.raises(SchemaError, match="contains itself"):
            consumer.consume_arrow(1, 0, value=Avro(registry))
        with pytest.raises(SchemaError, match="schema of type JSON, not AVRO"):
            consumer.consume_arrow(1, 0, key=Avro(registry))
