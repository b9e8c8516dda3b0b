"""produce_arrow(value=Protobuf(...)): messages with the registry's framing, read by others."""

from __future__ import annotations

import asyncio
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient as OtherRegistryClient
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, timestamp_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import MessageToDict
from google.protobuf.message_factory import GetMessageClass

from kafka_native import OFFSET_BEGINNING, Message
from kafka_native.aio import AIOProducer
from kafka_native.codecs import EncodeError, Protobuf, SchemaError
from kafka_native.mock import MockSchemaRegistry
from kafka_native.schema_registry import (
    Rule,
    RuleKind,
    RuleMode,
    RuleSet,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    SchemaRegistryError,
)
from kafka_native.schema_registry.protobuf import ProtobufSerializer
from tests.waiting import WAIT_S

from .support import Client, partitions_of, read_all
from .typed_support import sent

FIELDS = descriptor_pb2.FieldDescriptorProto
CITY_TEXT = 'syntax = "proto3"; package shop; message City { string name = 1; }'


def add_fields(message: Any, *fields: tuple[str, Any]) -> None:
    """Add fields, numbered from 1 on. A type is a FieldDescriptorProto.Type or a message's name."""
    for number, (name, kind) in enumerate(fields, 1):
        field = message.field.add(name=name, number=number, label=FIELDS.LABEL_OPTIONAL)
        if isinstance(kind, str):
            field.type, field.type_name = FIELDS.TYPE_MESSAGE, kind
        else:
            field.type = kind


def make_pool() -> DescriptorPool:
    """Return a pool with shop.proto, which imports city.proto and a file of Protobuf."""
    city = descriptor_pb2.FileDescriptorProto(name="city.proto", package="shop", syntax="proto3")
    add_fields(city.message_type.add(name="City"), ("name", FIELDS.TYPE_STRING))
    shop = descriptor_pb2.FileDescriptorProto(
        name="shop.proto",
        package="shop",
        syntax="proto3",
        dependency=["city.proto", "google/protobuf/timestamp.proto"],
    )
    add_fields(shop.message_type.add(name="Refund"), ("id", FIELDS.TYPE_INT64))
    order = shop.message_type.add(name="Order")
    add_fields(order.nested_type.add(name="Note"), ("text", FIELDS.TYPE_STRING))
    add_fields(order.nested_type.add(name="Line"), ("count", FIELDS.TYPE_INT32))
    add_fields(
        order,
        ("id", FIELDS.TYPE_INT64),
        ("city", ".shop.City"),
        ("line", ".shop.Order.Line"),
        ("at", ".google.protobuf.Timestamp"),
    )
    pool = DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(city.SerializeToString())
    pool.AddSerializedFile(shop.SerializeToString())
    return pool


POOL = make_pool()
REFUND, ORDER, LINE = (
    GetMessageClass(POOL.FindMessageTypeByName(f"shop.{name}"))
    for name in ("Refund", "Order", "Order.Line")
)
ROWS = [
    {"id": "1", "city": {"name": "Bern"}, "line": {"count": 2}, "at": "1970-01-01T00:00:01Z"},
    {"id": "2"},
]
TABLE = pa.table(
    {
        "id": [1, 2],
        "city": [{"name": "Bern"}, None],
        "line": [{"count": 2}, None],
        "at": pa.array([1000, None], pa.timestamp("ms", "UTC")),
    }
)


def read_by_others(
    server: MockSchemaRegistry, class_: Any, topic: str, values: list[bytes | None]
) -> list[Any]:
    """Return what confluent_kafka's deserializer reads."""
    with OtherRegistryClient({"url": server.url}) as client:
        deserialize = ProtobufDeserializer(class_, {"use.deprecated.format": False}, client)
        context = SerializationContext(topic, MessageField.VALUE)
        return [MessageToDict(deserialize(each, context)) for each in values]


def test_messages_are_read_by_confluent_kafka(
    client: Client, server: MockSchemaRegistry, registry: SchemaRegistryClient
) -> None:
    topic = client.topic()
    codec = Protobuf(registry, schema=ORDER)
    messages = sent(client, TABLE, 2, topic, value=codec)
    values = [each.value() for each in messages]
    assert read_by_others(server, ORDER, topic, values) == ROWS
    assert sorted(registry.get_subjects()) == ["city.proto", f"{topic}-value"]
    registered = registry.get_latest_version(f"{topic}-value")
    references = registered.schema.references or []
    assert [(each.name, each.subject, each.version) for each in references] == [
        ("city.proto", "city.proto", 1)
    ]
    asked = len(server.requests)
    with client.producer() as producer:
        assert producer.produce_arrow(topic, TABLE, value=codec) == 2
    assert len(server.requests) == asked


def test_the_framing_is_that_of_the_serializer(
    client: Client, registry: SchemaRegistryClient
) -> None:
    """The message indexes: of the first, the second and a nested message."""
    cases = [
        (REFUND, {"id": [7]}, REFUND(id=7)),
        (ORDER, {"id": [7]}, ORDER(id=7)),
        (LINE, {"count": pa.array([5], pa.int32())}, LINE(count=5)),
    ]
    for class_, columns, message in cases:
        topic = client.topic()
        context = SerializationContext(topic, MessageField.VALUE)
        expected = ProtobufSerializer(class_, registry)(message, context)  # type: ignore[arg-type]
        [found] = sent(client, pa.table(columns), 1, topic, value=Protobuf(registry, schema=class_))
        assert found.value() == expected


def test_keys_and_nulls(client: Client, registry: SchemaRegistryClient) -> None:
    topic = client.topic()
    column = pa.array([{"id": 1}, None])
    table = pa.table({"value": column, "key": pa.array([{"count": 3}, {"count": 0}])})
    arguments = {
        "value": Protobuf(registry, schema=REFUND),
        "key": Protobuf(registry, schema=LINE),
    }
    messages = sent(client, table, 2, topic, **arguments)
    assert [each.value() for each in messages][1] is None
    assert [(each.key() or b"")[5:] for each in messages] == [b"\4\2\2\x08\3", b"\4\2\2"]
    assert registry.get_subjects() == ["city.proto", f"{topic}-key", f"{topic}-value"]
    plain = Protobuf(schema=REFUND)
    messages = sent(client, column, 2, client.topic(), value=plain)
    assert [each.value() for each in messages] == [b"\x08\1", None]


def test_schemas_of_the_registry(
    client: Client, server: MockSchemaRegistry, registry: SchemaRegistryClient
) -> None:
    registry.register_schema("city", Schema(CITY_TEXT, "PROTOBUF"))
    text = (
        'syntax = "proto3"; package shop; import "town.proto";'
        "message Other {} message Visit { City city = 1; int32 days = 2; }"
    )
    schema = Schema(text, "PROTOBUF", [SchemaReference("town.proto", "city", 1)])
    number = registry.register_schema("visits", schema)
    newer = text.replace("days = 2", "days = 2; int32 cost = 3")
    registry.register_schema("visits", Schema(newer, "PROTOBUF", schema.references))
    table = pa.table({"city": [{"name": "Bern"}], "days": pa.array([3], pa.int32())})
    named: dict[str, Any] = {"subject": "visits", "message": "shop.Visit"}
    for options in (
        {"use_latest_version": True},
        {"schema_id": number},
        {"schema": schema},
        {"schema": schema, "auto_register": False},
    ):
        topic = client.topic()
        [message] = sent(client, table, 1, topic, value=Protobuf(registry, **named, **options))
        value = message.value() or b""
        latest = registry.get_latest_version("visits").schema_id
        expected = latest if "use_latest_version" in options else number
        assert (value[0], int.from_bytes(value[1:5], "big")) == (0, expected)
        assert value[5:7] == b"\2\2", "the second message"
        with client.consumer(**{"group.id": topic}) as consumer:
            consumer.assign(partitions_of(topic, 1, OFFSET_BEGINNING))
            batch = consumer.consume_arrow(1, timeout=WAIT_S, value=Protobuf(registry, **named))
        row = {"city": {"name": "Bern"}, "days": 3, "cost": 0}
        assert pa.table(batch)["value"].to_pylist() == [row]


def test_texts_and_descriptor_sets(
    client: Client, server: MockSchemaRegistry, registry: SchemaRegistryClient
) -> None:
    table = pa.table({"name": ["Bern"]})
    topic = client.topic()
    [message] = sent(client, table, 1, topic, value=Protobuf(registry, schema=CITY_TEXT))
    assert (message.value() or b"")[5:] == b"\0\x0a\4Bern"
    files = descriptor_pb2.FileDescriptorSet()
    for name in ("google/protobuf/timestamp.proto", "city.proto", "shop.proto"):
        POOL.FindFileByName(name).CopyToProto(files.file.add())
    codec = Protobuf(registry, schema=files.SerializeToString(), message="shop.Order.Line")
    topic = client.topic()
    lines = pa.table({"count": pa.array([5], pa.int32())})
    [message] = sent(client, lines, 1, topic, value=codec)
    assert read_by_others(server, LINE, topic, [message.value()]) == [{"count": 5}]


def test_the_producer_of_asyncio(client: Client, server: MockSchemaRegistry) -> None:
    topic = client.topic()

    async def produce() -> None:
        with Protobuf(server.url, schema=ORDER) as codec:
            async with AIOProducer({"bootstrap.servers": client.bootstrap}) as producer:
                delivery = await producer.produce_arrow(topic, TABLE, value=codec)
                assert (await delivery).delivered == 2

    asyncio.run(produce())
    values = [each.value() for each in sorted(read_all(client, topic, 2), key=Message.offset)]
    assert read_by_others(server, ORDER, topic, values) == ROWS


def test_what_does_not_fit_registers_and_queues_nothing(
    client: Client, registry: SchemaRegistryClient
) -> None:
    codec = Protobuf(registry, schema=ORDER)
    unknown = Protobuf(registry, schema=CITY_TEXT, message="shop.No")
    big = pa.table({"line": [{"count": 1}, {"count": 1 << 31}]})
    with client.producer() as producer:
        with pytest.raises(SchemaError, match="id: a column of string can't be") as caught:
            producer.produce_arrow("topic", pa.table({"id": ["x"]}), value=codec)
        assert caught.value.queued == 0  # type: ignore[attr-defined]
        with pytest.raises(SchemaError, match="other: the message has no such field"):
            producer.produce_arrow("topic", pa.table({"other": ["x"]}), value=codec)
        with pytest.raises(SchemaError, match=r"Protobuf makes no schema from columns: pass"):
            producer.produce_arrow("topic", TABLE, value=Protobuf(registry))
        with pytest.raises(SchemaError, match=r"no message shop\.No"):
            producer.produce_arrow("topic", TABLE, value=unknown)
        assert registry.get_subjects() == []
        with pytest.raises(EncodeError, match=r"row 1, field value.line.count: the number is out"):
            producer.produce_arrow("topic", big, value=codec)
        assert len(producer) == 0


def test_a_registry_without_the_schema(client: Client, registry: SchemaRegistryClient) -> None:
    registry.register_schema("odd", Schema('{"type": "object"}', "JSON"))
    kind, mode = RuleKind.TRANSFORM, RuleMode.WRITE
    rule = Rule("r", None, kind, mode, "ENCRYPT", ["PII"], None, None, None, None, False)
    contract = Schema(CITY_TEXT, "PROTOBUF", [], None, RuleSet(None, [rule]))
    number = registry.register_schema("contract", contract)
    cases: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"schema": ORDER, "auto_register": False}, SchemaRegistryError, "40[34]"),
        ({"use_latest_version": True}, SchemaRegistryError, "40[34]"),
        ({"schema_id": 77}, SchemaRegistryError, "40[34]"),
        ({"schema_id": number, "subject": "odd"}, SchemaRegistryError, "40[34]"),
        ({"use_latest_version": True, "subject": "odd"}, SchemaError, "type JSON, not PROTOBUF"),
        ({"schema": contract, "subject": "contract"}, SchemaError, "has data-contract rules"),
        ({"schema_id": number, "subject": "contract"}, SchemaError, "has data-contract rules"),
    ]
    with client.producer() as producer:
        for options, error, text in cases:
            with pytest.raises(error, match=text):
                producer.produce_arrow("topic", TABLE, value=Protobuf(registry, **options))
        assert len(producer) == 0
    assert sorted(registry.get_subjects()) == ["contract", "odd"]


def test_options_that_contradict_each_other(registry: SchemaRegistryClient) -> None:
    with pytest.raises(ValueError, match="schema_id takes the registry's schema"):
        Protobuf(registry, schema=ORDER, schema_id=1)
    with pytest.raises(ValueError, match="use_latest_version and schema_id choose different"):
        Protobuf(registry, use_latest_version=True, schema_id=1)
    with pytest.raises(ValueError, match="schema_id needs a schema registry"):
        Protobuf(schema_id=1)
