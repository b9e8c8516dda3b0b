"""Avro serializers and deserializers: bytes, values and errors, beside confluent_kafka's."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import decimal
import json
import struct
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka.schema_registry import avro as theirs
from confluent_kafka.schema_registry import header_schema_id_serializer as their_header_serializer
from confluent_kafka.serialization import SerializationContext as TheirContext
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_native.schema_registry import avro as ours
from kafka_native.schema_registry import (
    header_schema_id_serializer,
    record_subject_name_strategy,
)
from kafka_native.schema_registry.schemas import Schema, SchemaReference
from kafka_native.serialization import MessageField, SerializationContext, SerializationError
from tests.registry.memory_registry import MemoryRegistry

USER = {
    "type": "record",
    "name": "User",
    "namespace": "com.example",
    "fields": [
        {"name": "name", "type": "string"},
        {"name": "age", "type": ["null", "int"], "default": None},
        {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []},
        {
            "name": "address",
            "type": {
                "type": "record",
                "name": "Address",
                "fields": [
                    {"name": "street", "type": "string"},
                    {"name": "numbers", "type": {"type": "map", "values": "long"}},
                ],
            },
        },
    ],
}
ADA = {
    "name": "Ada",
    "age": 36,
    "tags": ["a", "b"],
    "address": {"street": "Long Acre", "numbers": {"door": 7}},
}
CONTEXT = SerializationContext("users", MessageField.VALUE)
TEXT = json.dumps(USER)


@pytest.fixture
def registry() -> MemoryRegistry:
    return MemoryRegistry()


def raised(call: Callable[[], Any]) -> str:
    """Return the text of the SerializationError that a call raises."""
    with pytest.raises(SerializationError) as caught:
        call()
    return str(caught.value)


def both(registry: MemoryRegistry, schema: str, value: Any, **conf: Any) -> bytes:
    """Serialize with both packages, check that the bytes are equal, and return them."""
    own = ours.AvroSerializer(registry.client(), schema, conf=conf)(value, CONTEXT)
    other = theirs.AvroSerializer(registry.confluent_client(), schema, conf=conf)(
        value, TheirContext("users", "value")
    )
    assert own is not None
    assert own == other
    return own


VALUES = [
    (TEXT, ADA),
    ('"string"', "text"),
    ('"long"', 2**40),
    ('"bytes"', b"\x00raw"),
    ('{"type": "bytes"}', b"raw"),
    ('["null", "string"]', "x"),
    ('{"type": "enum", "name": "E", "symbols": ["A", "B"]}', "B"),
    ('{"type": "fixed", "name": "F", "size": 3}', b"abc"),
    (
        (
            '{"type": "record", "name": "D", "fields": [{"name": "d", "type": '
            '{"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}}]}'
        ),
        {"d": decimal.Decimal("12.34")},
    ),
    (
        (
            '{"type": "record", "name": "T", "fields": [{"name": "t", "type": '
            '{"type": "long", "logicalType": "timestamp-millis"}}]}'
        ),
        {"t": datetime.datetime(2024, 5, 6, 7, 8, 9, tzinfo=datetime.timezone.utc)},
    ),
    (
        (
            '{"type": "record", "name": "Node", "fields": [{"name": "v", "type": "int"}, '
            '{"name": "next", "type": ["null", "Node"]}]}'
        ),
        {"v": 1, "next": {"v": 2, "next": None}},
    ),
]


@pytest.mark.parametrize(("schema", "value"), VALUES, ids=range(len(VALUES)))
def test_bytes_and_values_are_those_of_confluent_kafka(
    registry: MemoryRegistry, schema: str, value: Any
) -> None:
    data = both(registry, schema, value)
    assert data[:5] == struct.pack(">bI", 0, 1)
    own = ours.AvroDeserializer(registry.client())(data, CONTEXT)
    other = theirs.AvroDeserializer(registry.confluent_client())
    assert own == other(data, TheirContext("users", "value")) == value


LEAVES = {
    '"string"': st.text(),
    '"int"': st.integers(-(2**31), 2**31 - 1),
    '"long"': st.integers(-(2**63), 2**63 - 1),
    '"double"': st.floats(allow_nan=False),
    '"boolean"': st.booleans(),
    '"bytes"': st.binary(),
    '["null", "long"]': st.none() | st.integers(-(2**63), 2**63 - 1),
    '{"type": "array", "items": "string"}': st.lists(st.text(), max_size=3),
    '{"type": "map", "values": "int"}': st.dictionaries(st.text(), st.integers(0, 9), max_size=3),
}


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_random_records_are_written_and_read_as_by_confluent_kafka(data: st.DataObject) -> None:
    types = data.draw(st.lists(st.sampled_from(sorted(LEAVES)), min_size=1, max_size=6))
    fields = ", ".join(f'{{"name": "f{i}", "type": {type_}}}' for i, type_ in enumerate(types))
    schema = f'{{"type": "record", "name": "R", "fields": [{fields}]}}'
    value = {f"f{i}": data.draw(LEAVES[type_]) for i, type_ in enumerate(types)}
    registry = MemoryRegistry()
    payload = both(registry, schema, value)
    own = ours.AvroDeserializer(registry.client())(payload, CONTEXT)
    other = theirs.AvroDeserializer(registry.confluent_client())
    assert own == value == other(payload, TheirContext("users", "value"))


_LINE = {"type": "record", "name": "Line", "fields": [{"name": "count", "type": "int"}]}
_TREE = {
    "type": "record",
    "name": "Tree",
    "fields": [{"name": "size", "type": "int"}, {"name": "next", "type": ["null", "Tree"]}],
}


@pytest.mark.parametrize(
    ("type_", "make", "path"),
    [
        ("int", lambda n: n, "x"),
        ({"type": "array", "items": "int"}, lambda n: [1, n], "x[1]"),
        ({"type": "map", "values": "int"}, lambda n: {"a": n}, "x['a']"),
        (_LINE, lambda n: {"count": n}, "x.count"),
        ({"type": "array", "items": _LINE}, lambda n: ({"count": n},), "x[0].count"),
        (["null", _LINE], lambda n: ("Line", {"count": n}), "x.count"),
        (_TREE, lambda n: {"size": 1, "next": ("Tree", {"size": n})}, "x.next.size"),
    ],
)
def test_an_int_beyond_32_bits_is_refused(
    registry: MemoryRegistry, type_: Any, make: Callable[[int], Any], path: str
) -> None:
    """No reader could read it."""
    fields = [{"name": "flag", "type": "int"}, {"name": "x", "type": type_}]
    schema = json.dumps({"type": "record", "name": "R", "fields": fields})
    serializer = ours.AvroSerializer(registry.client(), schema)
    reader = ours.AvroDeserializer(registry.client())
    for number in (2**31 - 1, -(2**31)):
        reader(serializer({"flag": True, "x": make(number)}, CONTEXT), CONTEXT)
    for number in (2**31, -(2**31) - 1, 2**40):
        text = raised(lambda n=number: serializer({"flag": True, "x": make(n)}, CONTEXT))
        assert text == f"topic users, value, schema id 1: {path}: {number} isn't a valid int"
    date = ours.AvroSerializer(registry.client(), '{"type": "int", "logicalType": "date"}')
    assert raised(lambda: date(2**31, CONTEXT)).endswith("the value: 2147483648 isn't a valid int")


_KIND = {"type": "enum", "name": "Kind", "symbols": ["P"]}
_BOX = {
    "type": "record",
    "name": "Box",
    "namespace": "n",
    "fields": [{"name": "kind", "type": _KIND}, {"name": "line", "type": ["null", _LINE]}],
}


@pytest.mark.parametrize(
    ("referenced", "types", "value"),
    [
        (_BOX, ["n.Box", "n.Kind"], [{"kind": "P", "line": {"count": 1}}, "P"]),
        (_BOX, ["n.Line", "n.Box"], [{"count": 2}, {"kind": "P", "line": {"count": 1}}]),
        (_BOX, ["n.Kind", {"type": "n.Kind"}], ["P", "P"]),
        ([_LINE, _KIND], ["Kind", {"type": "array", "items": "Line"}], ["P", [{"count": 3}]]),
    ],
)
def test_types_inside_of_a_reference_can_be_used_anywhere(
    registry: MemoryRegistry, referenced: Any, types: list[Any], value: list[Any]
) -> None:
    registry.register("box", {"schema": json.dumps(referenced)})
    fields = [{"name": f"f{index}", "type": each} for index, each in enumerate(types)]
    text = json.dumps({"type": "record", "name": "R", "fields": fields})
    schema = Schema(text, "AVRO", [SchemaReference("n.Box", "box", 1)])
    record = {f"f{index}": each for index, each in enumerate(value)}
    data = ours.AvroSerializer(registry.client(), schema)(record, CONTEXT)
    assert ours.AvroDeserializer(registry.client())(data, CONTEXT) == record


def test_a_schema_can_be_the_name_of_a_reference(registry: MemoryRegistry) -> None:
    registry.register("box", {"schema": json.dumps(_BOX)})
    schema = Schema('"n.Box"', "AVRO", [SchemaReference("n.Box", "box", 1)])
    box = {"kind": "P", "line": None}
    data = ours.AvroSerializer(registry.client(), schema)(box, CONTEXT)
    assert ours.AvroDeserializer(registry.client())(data, CONTEXT) == box


def test_none_stays_none(registry: MemoryRegistry) -> None:
    assert ours.AvroSerializer(registry.client(), TEXT)(None, CONTEXT) is None
    assert ours.AvroDeserializer(registry.client())(None, CONTEXT) is None


def test_the_schema_is_registered_once_a_subject(registry: MemoryRegistry) -> None:
    serializer = ours.AvroSerializer(registry.client(), TEXT)
    for topic in ("users", "people", "users"):
        serializer(ADA, SerializationContext(topic, MessageField.VALUE))
    assert registry.calls == ["register users-value", "register people-value"]


def test_without_auto_register_the_schema_must_exist(registry: MemoryRegistry) -> None:
    serializer = ours.AvroSerializer(registry.client(), TEXT, conf={"auto.register.schemas": False})
    with pytest.raises(Exception, match="not found"):
        serializer(ADA, CONTEXT)
    registry.register("users-value", {"schema": TEXT})
    assert serializer(ADA, CONTEXT)
    assert registry.calls == ["lookup users-value"] * 2


def test_the_guid_travels_in_a_header(registry: MemoryRegistry) -> None:
    headers: list[tuple[str, str | bytes | None]] = []
    context = SerializationContext("users", MessageField.KEY, headers)
    conf = {"schema.id.serializer": header_schema_id_serializer}
    payload = ours.AvroSerializer(registry.client(), TEXT, conf=conf)(ADA, context)
    assert headers == [("__key_schema_id", b"\x01" + uuid.UUID(int=1).bytes)]
    their_headers: list[Any] = []
    their_conf = {"schema.id.serializer": their_header_serializer}
    their_payload = theirs.AvroSerializer(registry.confluent_client(), TEXT, conf=their_conf)(
        ADA, TheirContext("users", "key", their_headers)
    )
    assert (payload, headers) == (their_payload, their_headers)
    assert ours.AvroDeserializer(registry.client())(payload, context) == ADA


def test_a_reader_schema_converts(registry: MemoryRegistry) -> None:
    payload = both(registry, TEXT, ADA)
    reader = json.dumps(
        {
            "type": "record",
            "name": "User",
            "namespace": "com.example",
            "fields": [
                {"name": "age", "type": ["null", "long"]},
                {"name": "city", "type": "string", "default": "London"},
            ],
        }
    )
    own = ours.AvroDeserializer(registry.client(), reader)(payload, CONTEXT)
    assert own == {"age": 36, "city": "London"}
    other = theirs.AvroDeserializer(registry.confluent_client(), reader)
    assert own == other(payload, TheirContext("users", "value"))


def test_the_latest_version_can_be_the_schema(registry: MemoryRegistry) -> None:
    registry.register("users-value", {"schema": TEXT})
    newer = {**USER, "fields": [*USER["fields"], {"name": "x", "type": "int", "default": 5}]}  # type: ignore[misc]
    registry.register("users-value", {"schema": json.dumps(newer)})
    conf = {"auto.register.schemas": False, "use.latest.version": True}
    payload = both(registry, TEXT, ADA, **conf)
    assert payload[:5] == struct.pack(">bI", 0, 2)
    older = ours.AvroSerializer(
        registry.client(), TEXT, conf={"auto.register.schemas": False, "use.schema.id": 1}
    )(ADA, CONTEXT)
    assert older is not None
    assert older[:5] == struct.pack(">bI", 0, 1)
    reader = ours.AvroDeserializer(registry.client(), conf={"use.latest.version": True})
    assert reader(older, CONTEXT) == {**ADA, "x": 5}


def test_metadata_chooses_the_schema(registry: MemoryRegistry) -> None:
    metadata = {"properties": {"major": "1"}}
    registry.register("users-value", {"schema": TEXT, "metadata": metadata})
    registry.register("users-value", {"schema": '"string"'})
    conf = {"auto.register.schemas": False, "use.latest.with.metadata": {"major": "1"}}
    assert both(registry, TEXT, ADA, **conf)[:5] == struct.pack(">bI", 0, 1)


@pytest.mark.parametrize("diamond", [False, True])
def test_references_of_references(registry: MemoryRegistry, diamond: bool) -> None:
    registry.register(
        "city",
        {
            "schema": '{"type": "record", "name": "a.City", "fields": [{"name": "n", "type": "string"}]}'
        },
    )
    city = SchemaReference("a.City", "city", 1)
    registry.register(
        "home",
        {
            "schema": '{"type": "record", "name": "a.Home", "fields": [{"name": "c", "type": "a.City"}]}',
            "references": [city.to_dict()],
        },
    )
    home = SchemaReference("a.Home", "home", 1)
    work = ', {"name": "w", "type": "a.City"}' if diamond else ""
    schema = Schema(
        f'{{"type": "record", "name": "P", "fields": [{{"name": "h", "type": "a.Home"}}{work}]}}',
        "AVRO",
        [home, city] if diamond else [home],
    )
    value: dict[str, Any] = {"h": {"c": {"n": "Rome"}}}
    if diamond:
        value["w"] = {"n": "Bonn"}
    payload = ours.AvroSerializer(registry.client(), schema)(value, CONTEXT)
    assert ours.AvroDeserializer(registry.client())(payload, CONTEXT) == value
    other = theirs.AvroDeserializer(registry.confluent_client())
    assert other(payload, TheirContext("users", "value")) == value


def test_references_may_form_a_cycle(registry: MemoryRegistry) -> None:
    for name, other in (("A", "B"), ("B", "A")):
        text = (
            f'{{"type": "record", "name": "{name}", "fields": '
            f'[{{"name": "x", "type": ["null", "{other}"]}}]}}'
        )
        reference = SchemaReference(other, other, 1).to_dict()
        registry.register(name, {"schema": text, "references": [reference]})
    schema = registry.client().get_version("A", 1).schema
    value = {"x": {"x": {"x": None}}}
    payload = ours.AvroSerializer(registry.client(), schema)(value, CONTEXT)
    assert ours.AvroDeserializer(registry.client())(payload, CONTEXT) == value


def test_deep_nesting_is_refused(registry: MemoryRegistry) -> None:
    schema = (
        '{"type": "record", "name": "N", "fields": [{"name": "n", "type": ["null", "N", '
        '{"type": "array", "items": "N"}]}]}'
    )
    serializer = ours.AvroSerializer(registry.client(), schema)
    reader = ours.AvroDeserializer(registry.client())
    value: dict[str, Any] = {"n": None}
    for _ in range(99):
        value = {"n": value}
    payload = serializer(value, CONTEXT)
    assert payload == b"\0\0\0\0\1" + b"\2" * 99 + b"\0"
    assert reader(payload, CONTEXT) == value
    for _ in range(10_000):
        value = {"n": value}
    assert "nested deeper than 100 levels" in raised(lambda: serializer(value, CONTEXT))
    for hostile in (b"\2" * 300_000, b"\4\2" * 300_000):
        text = raised(lambda hostile=hostile: reader(b"\0\0\0\0\1" + hostile, CONTEXT))
        assert text.startswith("topic users, value, schema id 1: field n")
        assert text.endswith(": values are nested deeper than 100 levels")


EMPTY = ['"null"', '{"type": "record", "name": "E", "fields": []}']
EMPTY += ['{"type": "fixed", "name": "F", "size": 0}']


@pytest.mark.parametrize("items", EMPTY)
def test_a_few_bytes_cannot_announce_many_items(registry: MemoryRegistry, items: str) -> None:
    inner = f'{{"type": "array", "items": {items}}}'
    registry.register("t", {"schema": f'{{"type": "array", "items": {inner}}}'})
    reader = ours.AvroDeserializer(registry.client())
    head = b"\0\0\0\0\1"
    assert len(reader(head + b"\2\6\0\0", CONTEXT)[0]) == 3
    many = b"\x80\x89\x7a"  # a million
    for payload in (b"\2\xfe\xff\xff\xff\xff\x7f\0\0", b"\4" + (many + b"\0") * 2 + b"\0"):
        text = raised(lambda payload=payload: reader(head + payload, CONTEXT))
        assert "the record has more than 1000000 values without bytes" in text


def test_functions_convert_objects(registry: MemoryRegistry) -> None:
    payload = ours.AvroSerializer(
        registry.client(), '"string"', lambda obj, ctx: f"{obj} of {ctx.topic}"
    )(5, CONTEXT)
    reader = ours.AvroDeserializer(registry.client(), None, lambda text, ctx: (text, ctx.field))
    assert reader(payload, CONTEXT) == ("5 of users", MessageField.VALUE)


def test_record_names_can_be_returned(registry: MemoryRegistry) -> None:
    record = '{"type": "record", "name": "R%d", "fields": [{"name": "x", "type": "int"}]}'
    payload = both(registry, f"[{record % 1}, {record % 2}]", ("R2", {"x": 1}))
    reader = ours.AvroDeserializer(registry.client(), return_record_name=True)
    assert reader(payload, CONTEXT) == ("R2", {"x": 1})


def test_the_record_name_strategy_needs_no_context(registry: MemoryRegistry) -> None:
    conf = {"subject.name.strategy": record_subject_name_strategy}
    payload = ours.AvroSerializer(registry.client(), TEXT, conf=conf)(ADA)
    assert registry.calls == ["register com.example.User"]
    assert ours.AvroDeserializer(registry.client(), conf=conf)(payload) == ADA


WRONG = [
    ({**ADA, "name": 5}, "name: 5 isn't a valid string"),
    ({**ADA, "tags": ["a", None]}, "tags[1]: None isn't a valid string"),
    (
        {**ADA, "address": {"street": "s", "numbers": {"door": "7"}}},
        "address.numbers['door']: '7' isn't a valid long",
    ),
    ({**ADA, "address": {"street": "s"}}, "address.numbers: the value is missing, and the schema "),
    ({**ADA, "age": 2**40}, "age: 1099511627776 isn't a valid null or int"),
    ([], "the value: [] isn't a valid com.example.User"),
]


@pytest.mark.parametrize(("value", "problem"), WRONG, ids=range(len(WRONG)))
def test_wrong_data_is_refused_with_its_path(
    registry: MemoryRegistry, value: Any, problem: str
) -> None:
    serializer = ours.AvroSerializer(registry.client(), TEXT)
    text = raised(lambda: serializer(value, CONTEXT))
    assert text.startswith(f"topic users, value, schema id 1: {problem}")


FRAMINGS = [
    (b"", "the payload has no schema framing: it is empty. The producer may not use"),
    (b'{"a": 1}', "its first byte is 0x7b, and a schema's id begins with 0x00 or 0x01. The prod"),
    (b"\x00\x00\x00", "it has 3 bytes, and a schema's id after the first byte 0x00 needs 5. The"),
    (b"\x01abc", "it has 4 bytes, and a schema's id after the first byte 0x01 needs 17. The"),
]


@pytest.mark.parametrize(("data", "problem"), FRAMINGS, ids=range(len(FRAMINGS)))
def test_data_without_framing(registry: MemoryRegistry, data: bytes, problem: str) -> None:
    text = raised(lambda: ours.AvroDeserializer(registry.client())(data, CONTEXT))
    assert text.startswith("topic users, value: the payload has no schema framing: ")
    assert problem in text


def test_an_unknown_schema(registry: MemoryRegistry) -> None:
    data = struct.pack(">bI", 0, 77) + b"x"
    text = raised(lambda: ours.AvroDeserializer(registry.client())(data, CONTEXT))
    assert text.startswith("topic users, value, schema id 77: the registry doesn't know this schem")
    data = b"\x01" + uuid.UUID(int=78).bytes
    text = raised(lambda: ours.AvroDeserializer(registry.client())(data, CONTEXT))
    assert f"schema {uuid.UUID(int=78)}: the registry doesn't know" in text


def test_each_truncated_payload_names_the_field(registry: MemoryRegistry) -> None:
    payload = both(registry, TEXT, ADA)
    reader = ours.AvroDeserializer(registry.client())
    fields = []
    for size in range(5, len(payload)):
        text = raised(lambda size=size: reader(payload[:size], CONTEXT))
        assert text.startswith("topic users, value, schema id 1: field ")
        fields.append(text.split("field ")[1].split(" ")[0])
    assert sorted(set(fields), key=fields.index) == [
        "name",
        "age",
        "tags",
        "tags[]",
        "address.street",
        "address.numbers",
        "address.numbers[]",
    ]


def test_an_invalid_schema(registry: MemoryRegistry) -> None:
    for text in ("{", '{"type": "unknown"}', ""):
        assert "the Avro schema can't be parsed" in raised(
            lambda text=text: ours.AvroSerializer(registry.client(), text)
        )
    with pytest.raises(TypeError, match="must be a str or a Schema, not int"):
        ours.AvroSerializer(registry.client(), 5)  # type: ignore[arg-type]


def test_a_serializer_without_schema(registry: MemoryRegistry) -> None:
    text = raised(lambda: ours.AvroSerializer(registry.client())(ADA, CONTEXT))
    assert "the serializer has no schema: pass one, or set use.latest.version" in text


def test_a_strategy_without_subject(registry: MemoryRegistry) -> None:
    conf = {"subject.name.strategy": lambda ctx, name: None}
    text = raised(lambda: ours.AvroSerializer(registry.client(), TEXT, conf=conf)(ADA, CONTEXT))
    assert "the subject name strategy returned no subject" in text


PROPERTIES: list[dict[str, Any]] = [
    {"auto.register.schemas": "yes"},
    {"normalize.schemas": 1},
    {"use.schema.id": "5"},
    {"use.latest.version": None},
    {"use.latest.version": True},
    {"use.latest.with.metadata": "x"},
    {"subject.name.strategy": "x"},
    {"subject.name.strategy.type": "x"},
    {"subject.name.strategy.type": "NONE"},
    {"schema.id.serializer": None},
    {"validate.strict": 0},
    {"validate.strict.allow.default": 0},
    {"unknown": 0},
]


@pytest.mark.parametrize("conf", PROPERTIES, ids=str)
def test_an_invalid_property(registry: MemoryRegistry, conf: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(conf))):
        ours.AvroSerializer(registry.client(), TEXT, conf=conf)
    with pytest.raises(ValueError, match=r"[a-z]"):
        theirs.AvroSerializer(registry.confluent_client(), TEXT, conf=conf)


def test_strict_records(registry: MemoryRegistry) -> None:
    strict = {"validate.strict": True}
    text = raised(
        lambda: ours.AvroSerializer(registry.client(), TEXT, conf=strict)(
            {**ADA, "more": 1}, CONTEXT
        )
    )
    assert "schema id 1: the value doesn't fit the schema: " in text
    assert "more" in text


def test_asyncio_makes_the_same_bytes(registry: MemoryRegistry) -> None:
    async def main() -> Any:
        serializer = await ours.AsyncAvroSerializer(registry.async_client(), TEXT)
        payload = await serializer(ADA, CONTEXT)
        not_awaited = ours.AsyncAvroSerializer(registry.async_client(), TEXT)
        assert await not_awaited(ADA, CONTEXT) == payload
        deserializer = await ours.AsyncAvroDeserializer(registry.async_client())
        with pytest.raises(SerializationError, match="no schema framing"):
            await deserializer(b"", CONTEXT)
        return payload, await deserializer(payload, CONTEXT)

    assert asyncio.run(main()) == (both(registry, TEXT, ADA), ADA)


def test_closing_closes_an_owned_client_once(registry: MemoryRegistry) -> None:
    client = registry.client()
    serializer = ours.AvroSerializer(client, TEXT)
    serializer.close()
    assert client.closed == 0
    serializer.own_schema_registry_client()
    serializer.close()
    serializer.close()
    assert client.closed == 1


def test_parsed_schemas_are_limited(registry: MemoryRegistry) -> None:
    reader = ours.AvroDeserializer(registry.client())
    for number in range(1005):
        registry.by_id[number] = {"schema": f'{{"type": "fixed", "name": "F", "size": {number}}}'}
        reader(struct.pack(">bI", 0, number) + b"x" * number, CONTEXT)
    assert len(reader._parsed) == 1000


def test_a_schema_of_another_type(registry: MemoryRegistry) -> None:
    registry.register("users-value", {"schema": "{}", "schemaType": "JSON"})
    text = raised(lambda: ours.AvroDeserializer(registry.client())(b"\0\0\0\0\1{}", CONTEXT))
    problem = "the schema is of type JSON, and the deserializer reads AVRO"
    assert text == f"topic users, value, schema id 1: {problem}"


def test_an_invalid_reference(registry: MemoryRegistry) -> None:
    registry.register("bad", {"schema": "{"})
    reference = SchemaReference("Bad", "bad", 1).to_dict()
    registry.register("users-value", {"schema": '"Bad"', "references": [reference]})
    text = raised(lambda: ours.AvroDeserializer(registry.client())(b"\0\0\0\0\2", CONTEXT))
    start = "topic users, value, schema id 2: the Avro schema can't be parsed: its reference Bad: "
    assert text.startswith(start)


def test_records_in_unions_with_their_names_are_read_by_fastavro(registry: MemoryRegistry) -> None:
    """The limits of nesting and of empty items hold there too."""
    schema = (
        '{"type": "record", "name": "N", "fields": [{"name": "n", "type": ["null", "N", '
        '{"type": "array", "items": "null"}]}]}'
    )
    payload = ours.AvroSerializer(registry.client(), schema)({"n": {"n": None}}, CONTEXT)
    reader = ours.AvroDeserializer(registry.client(), return_record_name=True)
    assert reader(payload, CONTEXT) == {"n": ("N", {"n": None})}
    for hostile, problem in (
        (b"\2" * 300_000, "records that contain themselves are nested deeper than 100 levels"),
        (b"\4\xfe\xff\xff\xff\xff\x7f\0", "more than 1000000 items without bytes"),
    ):
        text = raised(lambda hostile=hostile: reader(b"\0\0\0\0\1" + hostile, CONTEXT))
        assert problem in text


def test_readers_that_only_fastavro_reads_alike(registry: MemoryRegistry) -> None:
    """The results stay those of confluent_kafka where the specification has others."""
    number = '{"type": "record", "name": "R", "fields": [{"name": "x", "type": "int"}]}'
    payload = both(registry, number, {"x": 5})
    fields = (
        '{"name": "x", "type": ["double", "int"]}',
        '{"name": "x", "type": "int"}, {"name": "b", "type": "bytes", "default": "a"}',
        '{"name": "x", "type": {"type": "int", "logicalType": "date"}}',
    )
    for each in fields:
        reader = f'{{"type": "record", "name": "R", "fields": [{each}]}}'
        own = ours.AvroDeserializer(registry.client(), reader)(payload, CONTEXT)
        other = theirs.AvroDeserializer(registry.confluent_client(), reader)(
            payload, TheirContext("users", "value")
        )
        assert repr(own) == repr(other)


def test_a_program_is_compiled_once_for_a_pair_of_schemas(registry: MemoryRegistry) -> None:
    writer = ours.parse(Schema(TEXT, "AVRO"), {})
    reader = ours.parse(Schema(TEXT, "AVRO"), {})
    assert writer.program_for(None) is writer.program_for(writer) is writer.program_for(None)
    assert writer.program_for(reader) is not writer.program_for(None)
    assert writer.program_for(reader) is writer.program_for(reader)
    for _ in range(ours.PROGRAMS_MAX + 1):
        writer.program_for(ours.parse(Schema(TEXT, "AVRO"), {}))
    assert len(writer._programs) <= ours.PROGRAMS_MAX


@dataclasses.dataclass
class Address:
    street: str
    numbers: dict[str, int]


@dataclasses.dataclass
class User:
    name: str
    address: Address
    age: int | None = None


ADA_USER = User("Ada", Address("Long Acre", {"door": 7}), 36)


def test_classes_instead_of_dicts(registry: MemoryRegistry) -> None:
    payload = both(registry, TEXT, ADA)
    reader = ours.AvroDeserializer(registry.client(), type=User)
    assert [reader(payload, CONTEXT) for _ in range(3)] == [ADA_USER] * 3
    builder = ours.AvroDeserializerBuilder(schema_registry_client=registry.client()).set_type(User)
    built, _ = builder.build({}, False)
    assert built(payload, CONTEXT) == ADA_USER

    async def read() -> Any:
        return await ours.AsyncAvroDeserializer(registry.async_client(), type=User)(
            payload, CONTEXT
        )

    assert asyncio.run(read()) == ADA_USER


def test_a_class_that_does_not_fit(registry: MemoryRegistry) -> None:
    payload = both(registry, TEXT, ADA)
    reader = ours.AvroDeserializer(registry.client(), type=Address)
    for _ in range(2):
        assert raised(lambda: reader(payload, CONTEXT)) == (
            "topic users, value, schema id 1: the schema doesn't fit Address: street: Address needs "
            "this field, which the schema of User lacks"
        )
    for wrong in ({"from_dict": lambda value, ctx: value}, {"return_record_name": True}):
        with pytest.raises(ValueError, match="type excludes from_dict"):
            ours.AvroDeserializer(registry.client(), type=User, **wrong)


@pytest.mark.parametrize("kind", ["domainRules", "migrationRules"])
def test_rules_need_dicts(registry: MemoryRegistry, kind: str) -> None:
    payload = both(registry, TEXT, ADA)
    rule = {"name": "r", "kind": "TRANSFORM", "mode": "UPDOWN", "type": "ANY"}
    rule["mode"] = "READ" if kind == "domainRules" else "UPGRADE"
    registry.register("users-value", {"schema": TEXT, "ruleSet": {kind: [rule]}})
    conf = {"use.latest.version": True}
    reader = ours.AvroDeserializer(registry.client(), conf=conf, type=User)
    text = f"{kind.removesuffix('Rules')} rules need dicts, not User"
    assert text in raised(lambda: reader(payload, CONTEXT))
