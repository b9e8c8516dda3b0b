"""consume_arrow(value=Protobuf(...)) and value=Json(...): what the registry's serializers wrote."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from kafka_native._native import codec_core
from kafka_native.codecs import Avro, Json, JsonDecoder, MessageDecodeError, Protobuf, SchemaError
from kafka_native.mock import MockSchemaRegistry
from kafka_native.schema_registry import (
    SchemaRegistryClient,
    header_schema_id_serializer,
)
from kafka_native.schema_registry.json_schema import JSONSerializer
from kafka_native.schema_registry.protobuf import ProtobufSerializer
from kafka_native.serialization import MessageField, SerializationContext
from tests.codecs.consume_support import FakeRegistry, Topic, framed, table_of, values_of
from tests.waiting import WAIT_S

VALUE = ["value"]
FIELDS = descriptor_pb2.FieldDescriptorProto
needs_simdjson = pytest.mark.skipif(
    not codec_core.HAS_JSON, reason="this build has no simdjson: JSON columns raise"
)


def message(name: str, *fields: tuple[str, int], nested: tuple[Any, ...] = ()) -> Any:
    """Return a message of proto3 with these fields, numbered from 1 on."""
    return descriptor_pb2.DescriptorProto(
        name=name,
        nested_type=nested,
        field=[
            FIELDS(name=each, number=number, type=kind, label=FIELDS.LABEL_OPTIONAL)
            for number, (each, kind) in enumerate(fields, 1)
        ],
    )


def classes_of(*messages: Any) -> list[Any]:
    """Return the classes of the messages of a file, each followed by those in it."""
    pool = DescriptorPool()
    file = descriptor_pb2.FileDescriptorProto(
        name="shop.proto", package="shop", syntax="proto3", message_type=messages
    )
    pool.AddSerializedFile(file.SerializeToString())
    found = []
    for each in pool.FindFileByName("shop.proto").message_types_by_name.values():
        found += [GetMessageClass(each), *map(GetMessageClass, each.nested_types)]
    return found


ID, NAME = ("id", FIELDS.TYPE_INT64), ("name", FIELDS.TYPE_STRING)
LINE_TYPE = message("Line", ("count", FIELDS.TYPE_INT32))
REFUND_TYPE = message("Refund", NAME)
ORDER, LINE, REFUND = classes_of(message("Order", ID, NAME, nested=(LINE_TYPE,)), REFUND_TYPE)
CITY = ("city", FIELDS.TYPE_STRING)
NEWER = classes_of(message("Order", ID, NAME, CITY, nested=(LINE_TYPE,)), REFUND_TYPE)[0]


@pytest.fixture(scope="module")
def client() -> Iterator[SchemaRegistryClient]:
    with (
        MockSchemaRegistry() as registry,
        SchemaRegistryClient({"url": registry.url}) as client,
    ):
        yield client


def produce(topic: Topic, serialize: Any, *values: Any) -> None:
    context = SerializationContext(topic.name, MessageField.VALUE)
    topic.produce(*[serialize(each, context) for each in values])


# --- Protobuf ---


def test_protobuf_messages_of_two_versions(topic: Topic, client: SchemaRegistryClient) -> None:
    produce(topic, ProtobufSerializer(ORDER, client), ORDER(id=1, name="a"), ORDER(id=2))
    produce(topic, ProtobufSerializer(NEWER, client), NEWER(id=3, city="c"))
    topic.produce(None)
    with topic.consumer() as consumer:
        batch = consumer.consume_arrow(4, WAIT_S, columns=VALUE, value=Protobuf(client))
    assert values_of(batch) == [
        {"id": 1, "name": "a", "city": ""},
        {"id": 2, "name": "", "city": ""},
        {"id": 3, "name": "", "city": "c"},
        None,
    ]


def test_protobuf_messages_of_other_types(topic: Topic, client: SchemaRegistryClient) -> None:
    produce(topic, ProtobufSerializer(ORDER, client), ORDER(id=1))
    produce(topic, ProtobufSerializer(REFUND, client), REFUND(name="r"))
    produce(topic, ProtobufSerializer(LINE, client), LINE(count=2))
    how: dict[str, Any] = {"columns": VALUE, "on_error": "column"}
    with topic.consumer() as consumer:
        batch = consumer.consume_arrow(3, WAIT_S, value=Protobuf(client), **how)
    assert values_of(batch) == [{"id": 1, "name": ""}, None, None]
    errors = values_of(batch, "value_error")
    assert errors[0] is None
    assert "the message is a shop.Refund, not a shop.Order" in errors[1]
    assert "the message is a shop.Order.Line, not a shop.Order" in errors[2]
    with topic.consumer() as consumer:
        codec = Protobuf(client, message="shop.Order.Line", fields=["count"])
        batch = consumer.consume_arrow(3, WAIT_S, value=codec, **how)
    assert values_of(batch) == [None, None, {"count": 2}]
    with topic.consumer() as consumer, pytest.raises(SchemaError, match=r"no message shop\.No"):
        consumer.consume_arrow(1, 0, value=Protobuf(client, message="shop.No"))


def test_protobuf_by_a_class(topic: Topic, client: SchemaRegistryClient) -> None:
    produce(topic, ProtobufSerializer(ORDER, client), ORDER(id=1, name="a"))
    with topic.consumer() as consumer:
        batch = consumer.consume_arrow(
            1, WAIT_S, columns=VALUE, value=Protobuf(client, schema=NEWER), flatten=True
        )
    assert table_of(batch).to_pylist() == [{"id": 1, "name": "a", "city": ""}]


def test_protobuf_without_framing(topic: Topic) -> None:
    topic.produce(ORDER(id=1).SerializeToString(), b"", b"\x0a\x05")
    codec = Protobuf(schema=ORDER)
    with topic.consumer() as consumer:
        batch = consumer.consume_arrow(3, WAIT_S, columns=VALUE, value=codec)
        assert values_of(batch) == [{"id": 1, "name": ""}, {"id": 0, "name": ""}]
        with pytest.raises(MessageDecodeError, match=r"\[0\] at offset 2") as caught:
            consumer.consume_arrow(1, WAIT_S, columns=VALUE, value=codec)
    assert caught.value.schema_id is None


def test_a_protobuf_message_in_itself(topic: Topic) -> None:
    tree = message("Tree", ("value", FIELDS.TYPE_INT32))
    tree.field.add(
        name="next",
        number=2,
        type=FIELDS.TYPE_MESSAGE,
        label=FIELDS.LABEL_OPTIONAL,
        type_name=".shop.Tree",
    )
    (kind,) = classes_of(tree)
    inner = kind(value=2, next=kind(value=3))
    topic.produce(kind(value=1, next=inner).SerializeToString())
    with topic.consumer() as consumer:
        with pytest.raises(SchemaError, match=r"shop\.Tree contains itself"):
            consumer.consume_arrow(1, 0, value=Protobuf(schema=kind))
        codec = Protobuf(schema=kind, recursive="bytes")
        batch = consumer.consume_arrow(1, WAIT_S, columns=VALUE, value=codec)
    assert values_of(batch) == [{"value": 1, "next": inner.SerializeToString()}]
    with topic.consumer() as consumer, pytest.raises(ValueError, match="recursive must be"):
        consumer.consume_arrow(1, 0, value=Protobuf(schema=kind, recursive="x"))  # type: ignore[arg-type]


def test_bad_protobuf_framings(topic: Topic, client: SchemaRegistryClient) -> None:
    produce(topic, ProtobufSerializer(ORDER, client), ORDER(id=1))
    number = client.get_latest_version(f"{topic.name}-value").schema_id
    assert number is not None
    topic.produce(
        framed(number, b""), framed(number, b"\x02\x0e"), framed(number, b"\x04\x00\x00\x08\x07")
    )
    with topic.consumer() as consumer:
        batch = consumer.consume_arrow(
            4, WAIT_S, columns=VALUE, value=Protobuf(client), on_error="column"
        )
    assert values_of(batch) == [{"id": 1, "name": ""}, None, None, None]
    errors = values_of(batch, "value_error")
    assert "message indexes" in errors[1]
    assert "the message indexes [7] point at no message" in errors[2]
    assert "the message is a shop.Order.Line" in errors[3]


# --- JSON ---

SCHEMA = {
    "type": "object",
    "title": "Order",
    "properties": {"id": {"type": "integer"}, "name": {"type": "string"}},
    "required": ["id"],
}


@needs_simdjson
def test_json_records(topic: Topic, client: SchemaRegistryClient) -> None:
    serialize = JSONSerializer(json.dumps(SCHEMA), client)
    produce(topic, serialize, {"id": 1, "name": "a"}, {"id": 2})
    topic.produce(None, framed(99, b'{"id": 3, "more": []}'))
    with topic.consumer() as consumer:
        batch = consumer.consume_arrow(4, WAIT_S, columns=VALUE, value=Json(client))
        assert values_of(batch) == [
            {"id": 1, "name": "a"},
            {"id": 2, "name": None},
            None,
            {"id": 3, "name": None},
        ]
        topic.produce(b"{}", framed(1, b'{"id": "x"}'))
        with pytest.raises(MessageDecodeError, match=r"offset 4: .*no schema framing"):
            consumer.consume_arrow(2, WAIT_S, columns=VALUE, value=Json(client))
        batch = consumer.consume_arrow(
            2, WAIT_S, columns=VALUE, value=Json(client, fields=["id"]), on_error="column"
        )
    assert values_of(batch) == [None, None]
    assert "schema id 1, field id, byte " in values_of(batch, "value_error")[1]


@needs_simdjson
def test_json_with_the_schema_in_a_header(topic: Topic, client: SchemaRegistryClient) -> None:
    conf = {"schema.id.serializer": header_schema_id_serializer}
    serialize = JSONSerializer(json.dumps(SCHEMA), client, conf=conf)
    headers: list[Any] = []
    context = SerializationContext(topic.name, MessageField.VALUE, headers)
    topic.produce(serialize({"id": 1}, context), headers=headers)
    with topic.consumer() as consumer:
        batch = consumer.consume_arrow(1, WAIT_S, columns=VALUE, value=Json(client))
    assert values_of(batch) == [{"id": 1, "name": None}]


@needs_simdjson
def test_json_without_a_registry(topic: Topic) -> None:
    topic.produce(b'{"id": 1}', framed(5, b'{"id": 2}'))
    schema = pa.schema([("id", pa.int16())])
    with topic.consumer() as consumer:
        for codec, expected in [
            (Json(schema=schema), {"id": 1}),
            (Json(schema=schema, framed=True), {"id": 2}),
        ]:
            batch = consumer.consume_arrow(1, WAIT_S, columns=VALUE, value=codec)
            assert table_of(batch).schema.field("value").type == pa.struct([("id", pa.int16())])
            assert values_of(batch) == [expected]


@needs_simdjson
def test_json_with_inferred_columns(topic: Topic) -> None:
    topic.produce(b'{"id": 1}', b'{"id": 2.5, "name": "x"}')
    with topic.consumer() as consumer:
        sample = pa.table(consumer.consume_arrow(1, WAIT_S, columns=VALUE))
        codec = Json(schema=JsonDecoder.infer(sample["value"]))
        with pytest.raises(MessageDecodeError, match=r"offset 1: .*field id"):
            consumer.consume_arrow(1, WAIT_S, columns=VALUE, value=codec)
        sample = pa.table(consumer.consume_arrow(1, WAIT_S, columns=VALUE))
    with topic.consumer() as consumer:
        codec = Json(schema=JsonDecoder.infer(sample["value"]))
        batch = consumer.consume_arrow(2, WAIT_S, columns=VALUE, value=codec)
    assert values_of(batch) == [{"id": 1.0, "name": None}, {"id": 2.5, "name": "x"}]


@needs_simdjson
def test_the_fields_of_a_json_decoder_are_its_own() -> None:
    with pytest.raises(TypeError, match="belongs to the JsonDecoder"):
        Json(schema=JsonDecoder(SCHEMA), fields=["id"])


# --- codecs of one format for a topic of another ---


def test_another_format(topic: Topic, registry: FakeRegistry) -> None:
    registry.add({"type": "record", "name": "R", "fields": []}, f"{topic.name}-value")
    for codec in (Protobuf(registry), Json(registry)):
        with topic.consumer() as consumer, pytest.raises(SchemaError, match="of type AVRO, not"):
            consumer.consume_arrow(1, 0, value=codec)
    with pytest.raises(ValueError, match="needs a schema registry, or schema="):
        Protobuf()
    with topic.consumer() as consumer, pytest.raises(ValueError, match="needs a schema registry"):
        consumer.consume_arrow(1, 0, value=Json())  # only producers need no schema
    for format in (Protobuf, Json):
        with pytest.raises(TypeError, match="not one str"):
            format(registry, fields="id")


# --- confluent_kafka as the writer ---


def test_what_confluent_kafka_has_written(topic: Topic, client: SchemaRegistryClient) -> None:
    from confluent_kafka.schema_registry import SchemaRegistryClient as TheirClient
    from confluent_kafka.schema_registry.avro import AvroSerializer as TheirAvro
    from confluent_kafka.schema_registry.json_schema import JSONSerializer as TheirJson
    from confluent_kafka.schema_registry.protobuf import ProtobufSerializer as TheirProtobuf
    from confluent_kafka.serialization import SerializationContext as TheirContext

    avro = {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": "string"}],
    }
    theirs = TheirClient({"url": client.config()["url"]})
    cases: list[tuple[Any, Any, Any]] = [
        (TheirAvro(theirs, json.dumps(avro)), {"id": 1, "name": "a"}, Avro),
        (
            TheirProtobuf(ORDER, theirs, {"use.deprecated.format": False}),
            ORDER(id=1, name="a"),
            Protobuf,
        ),
    ]
    if codec_core.HAS_JSON:
        cases.append((TheirJson(json.dumps(SCHEMA), theirs), {"id": 1, "name": "a"}, Json))
    for number, (serialize, value, codec) in enumerate(cases):
        name = f"{topic.name}-{number}"
        topic.cluster.create_topic(name, 1)
        made = Topic(topic.cluster, name)
        made.produce(serialize(value, TheirContext(name, MessageField.VALUE)))
        with made.consumer() as consumer:
            batch = consumer.consume_arrow(1, WAIT_S, columns=VALUE, value=codec(client))
        assert values_of(batch) == [{"id": 1, "name": "a"}]
