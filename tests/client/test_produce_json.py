"""produce_arrow(value=Json(...)): typed columns become JSON records, with and without a registry."""

from __future__ import annotations

import asyncio
import datetime
import decimal
import json
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient as OtherRegistryClient
from confluent_kafka.schema_registry.json_schema import JSONDeserializer as OtherDeserializer
from confluent_kafka.serialization import MessageField as OtherField
from confluent_kafka.serialization import SerializationContext as OtherContext

from kafka_native import OFFSET_BEGINNING, Message
from kafka_native._native import codec_core
from kafka_native.aio import AIOProducer
from kafka_native.codecs import EncodeError, Json, JsonDecoder, SchemaError
from kafka_native.mock import MockSchemaRegistry
from kafka_native.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from kafka_native.schema_registry.error import SchemaRegistryError
from kafka_native.schema_registry.json_schema import JSONDeserializer
from kafka_native.serialization import MessageField, SerializationContext
from tests.waiting import WAIT_S

from .support import Client, partitions_of, read_all
from .typed_support import sent

pytestmark = pytest.mark.skipif(
    not codec_core.HAS_JSON, reason="this build has no simdjson (libsimdjson-dev)"
)
PAYMENT = {
    "title": "Payment",
    "type": "object",
    "properties": {"id": {"type": "integer"}, "who": {"type": ["string", "null"]}},
    "required": ["id", "who"],
}
ROWS = [{"id": 1, "who": "ann"}, {"id": 2, "who": None}, {"id": 3, "who": 'b"b'}]
UTC = datetime.timezone.utc


def read_by_all(
    server: MockSchemaRegistry, registry: SchemaRegistryClient, messages: list[Message]
) -> list[Any]:
    """Return what the deserializers read, confluent_kafka's and ours, which must be the same."""
    with OtherRegistryClient({"url": server.url}) as client:
        theirs = OtherDeserializer(None, schema_registry_client=client)
        ours = JSONDeserializer(None, schema_registry_client=registry)
        found = []
        for each in messages:
            topic = str(each.topic())
            found.append(theirs(each.value(), OtherContext(topic, OtherField.VALUE)))
            assert found[-1] == ours(each.value(), SerializationContext(topic, MessageField.VALUE))
        return found


def test_values_are_read_by_deserializers(
    client: Client, server: MockSchemaRegistry, registry: SchemaRegistryClient
) -> None:
    topic = client.topic()
    messages = sent(
        client,
        pa.Table.from_pylist(ROWS),
        3,
        topic,
        value=Json(registry, schema=PAYMENT),
        value_columns=["id", "who"],
        key=Json(registry, schema=json.dumps({"type": "integer"})),
        key_columns="id",
    )
    assert read_by_all(server, registry, messages) == ROWS
    keys = [each.key() for each in messages]
    assert [json.loads((each or b"")[5:]) for each in keys] == [1, 2, 3]
    assert registry.get_subjects() == [f"{topic}-key", f"{topic}-value"]
    assert json.loads(registry.get_latest_version(f"{topic}-value").schema.schema_str or "") == (
        PAYMENT
    )


def typed_table() -> pa.Table:
    row = {
        "int": 5,
        "big": (1 << 64) - 1,
        "real": 1.5,
        "text": "x",
        "blob": b"\xff",
        "flag": True,
        "day": datetime.date(2026, 11, 28),
        "time": datetime.time(1, 2, 3, 4000),
        "at": datetime.datetime(2026, 11, 28, 1, 2, 3, 4000, UTC),
        "price": decimal.Decimal("12.34"),
        "list": [1, None],
        "inner": {"a": 1, "b": {"c": "y"}},
    }
    kinds = pa.schema(
        [
            ("int", pa.int16()),
            ("big", pa.uint64()),
            ("real", pa.float32()),
            pa.field("text", pa.string(), nullable=False),
            ("blob", pa.binary()),
            ("flag", pa.bool_()),
            ("day", pa.date32()),
            ("time", pa.time64("us")),
            ("at", pa.timestamp("us", "UTC")),
            ("price", pa.decimal128(9, 2)),
            ("list", pa.list_(pa.int32())),
            ("inner", pa.struct([("a", pa.int8()), ("b", pa.struct([("c", pa.string())]))])),
        ]
    )
    return pa.Table.from_pylist([row, {"text": ""}], kinds)


def test_a_schema_is_made_from_the_columns_and_reads_them(
    client: Client, server: MockSchemaRegistry, registry: SchemaRegistryClient
) -> None:
    table, topic = typed_table(), client.topic()
    messages = sent(client, table, 2, topic, value=Json(registry))
    read = read_by_all(server, registry, messages)
    assert read[0]["at"] == "2026-11-28T01:02:03.004Z"
    assert read[1] == {"text": ""}
    schema = json.loads(registry.get_latest_version(f"{topic}-value").schema.schema_str or "")
    assert schema["title"] == topic
    assert schema["required"] == ["text"]
    assert schema["properties"]["int"] == {"type": "integer", "connect.type": "int16"}
    assert schema["properties"]["list"]["items"]["type"] == ["integer", "null"]
    records = [(each.value() or b"")[5:] for each in messages]
    found = pa.Table.from_struct_array(pa.array(JsonDecoder(schema).decode(records)))
    assert found.to_pylist() == table.to_pylist()
    assert found.schema.types == table.schema.types


def test_an_arrow_schema_is_registered_as_json_schema(
    client: Client, server: MockSchemaRegistry, registry: SchemaRegistryClient
) -> None:
    topic = client.topic()
    schema = pa.schema(
        [
            ("m", pa.map_(pa.string(), pa.list_(pa.float64()))),
            ("u", pa.dense_union([pa.field("a", pa.int64()), pa.field("b", pa.string())])),
        ]
    )
    union = pa.UnionArray.from_dense(
        pa.array([0, 1], pa.int8()),
        pa.array([0, 0], pa.int32()),
        [pa.array([7]), pa.array(["x"])],
        ["a", "b"],
    )
    maps = pa.array([[("k", [1.0, None])], None], schema.field("m").type)
    codec = Json(registry)
    messages = sent(client, pa.table([maps, union], names=["m", "u"]), 2, topic, value=codec)
    assert read_by_all(server, registry, messages) == [
        {"m": {"k": [1.0, None]}, "u": 7},
        {"u": "x"},
    ]
    flat = pa.schema([("id", pa.int32())])
    sent(
        client,
        pa.table({"id": [1]}),
        1,
        client.topic(),
        value=Json(registry, subject="s", schema=flat),
    )
    registered = json.loads(registry.get_latest_version("s").schema.schema_str or "")
    assert registered["properties"] == {"id": {"type": "integer", "connect.type": "int32"}}
    assert "title" not in registered


def test_references_of_the_latest_version(
    client: Client, server: MockSchemaRegistry, registry: SchemaRegistryClient
) -> None:
    place = json.dumps({"type": "object", "properties": {"zip": {"type": "integer"}}})
    registry.register_schema("place", Schema(place, "JSON"))
    schema = json.dumps({"type": "object", "properties": {"place": {"$ref": "place.json"}}})
    references = [SchemaReference("place.json", "place", 1)]
    registry.register_schema("orders", Schema(schema, "JSON", references))
    codec = Json(registry, subject="orders", use_latest_version=True)
    table = pa.table({"place": [{"zip": 5}]})
    messages = sent(client, table, 1, client.topic(), value=codec)
    assert [json.loads((each.value() or b"")[5:]) for each in messages] == [{"place": {"zip": 5}}]
    other = Json(registry, subject="orders", use_latest_version=True)
    bad = pa.table({"place": [{"zip": "x"}]})
    with pytest.raises(SchemaError, match=r"place.zip: a column of string can't be encoded"):
        sent(client, bad, 1, client.topic(), value=other)


def test_without_a_registry_the_records_have_no_framing(client: Client) -> None:
    table = pa.Table.from_pylist(ROWS)
    topic = client.topic()
    messages = sent(client, table, 3, topic, value=Json())
    assert [each.value() for each in messages] == [
        b'{"id":1,"who":"ann"}', b'{"id":2}', b'{"id":3,"who":"b\\"b"}'
    ]  # fmt: skip
    messages = sent(client, table, 3, client.topic(), value=Json(schema=PAYMENT))
    assert messages[1].value() == b'{"id":2,"who":null}'
    assert [json.loads(each.value() or b"") for each in messages] == ROWS


def test_records_need_not_have_the_framing_of_the_registry(
    client: Client, registry: SchemaRegistryClient
) -> None:
    topic = client.topic()
    messages = sent(client, pa.table({"id": [1]}), 1, topic, value=Json(registry, framed=False))
    assert [each.value() for each in messages] == [b'{"id":1}']
    assert registry.get_subjects() == [f"{topic}-value"]


def test_what_does_not_fit_registers_and_queues_nothing(
    client: Client, registry: SchemaRegistryClient
) -> None:
    topic = client.topic()
    with client.producer() as producer:
        for table, error, text in [
            (pa.table({"id": ["x"], "who": ["y"]}), SchemaError, "id: a column of string can't be"),
            (pa.table({"id": [1], "x": [1]}), SchemaError, "x: the schema has no such field"),
        ]:
            with pytest.raises(error, match=text) as caught:
                producer.produce_arrow(topic, table, value=Json(registry, schema=PAYMENT))
            assert getattr(caught.value, "queued", None) == 0
        assert registry.get_subjects() == []
        real = pa.table({"real": [1.0, float("nan")]})
        with pytest.raises(EncodeError, match=r"row 1, field value.real: JSON has neither NaN"):
            producer.produce_arrow(topic, real, value=Json(registry))
        missing = Json(registry, subject="none", auto_register=False)
        with pytest.raises(SchemaRegistryError):
            producer.produce_arrow(topic, pa.table({"id": [1]}), value=missing)
        assert producer.flush(WAIT_S) == 0
        assert len(producer) == 0


def test_options_that_contradict_each_other(client: Client, registry: SchemaRegistryClient) -> None:
    with pytest.raises(ValueError, match="guid_header is a framing"):
        Json(registry, guid_header=True, framed=False)
    with pytest.raises(ValueError, match="use_latest_version needs a schema registry"):
        Json(use_latest_version=True)
    table = pa.table({"id": [1]})
    with client.producer() as producer:
        for codec, error, text in [
            (Json(framed=True), ValueError, "need a schema registry"),
            (Json(schema=JsonDecoder(PAYMENT)), TypeError, "pass its schema"),
        ]:
            with pytest.raises(error, match=text):
                producer.produce_arrow(client.topic(), table, value=codec)
    with client.consumer() as consumer, pytest.raises(ValueError, match="Json needs a schema reg"):
        consumer.consume_arrow(1, 0, value=Json())


def test_a_consumer_reads_what_the_same_codec_wrote(
    client: Client, registry: SchemaRegistryClient
) -> None:
    table = typed_table()
    for codec in (Json(registry), Json(registry, guid_header=True), Json(schema=table.schema)):
        topic = client.topic()
        messages = sent(client, table, 2, topic, value=codec)
        assert (messages[0].headers() is not None) == codec._options.guid_header
        with client.consumer() as consumer:
            consumer.assign(partitions_of(topic, 1, OFFSET_BEGINNING))
            batch = pa.table(consumer.consume_arrow(2, WAIT_S, value=codec))
        assert batch["value"].to_pylist() == table.to_pylist()


def test_asyncio_encodes_in_a_thread(client: Client, registry: SchemaRegistryClient) -> None:
    topic = client.topic()

    async def produce() -> None:
        async with AIOProducer({"bootstrap.servers": client.bootstrap}) as producer:
            codec = Json(registry, schema=PAYMENT)
            await producer.produce_arrow(topic, pa.Table.from_pylist(ROWS), value=codec)

    asyncio.run(produce())
    messages = read_all(client, topic, 3)
    assert {json.loads((each.value() or b"")[5:])["id"] for each in messages} == {1, 2, 3}
