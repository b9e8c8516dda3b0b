"""Deserializers ask the registry once for each schema in a topic, and read the rest at once."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import pytest

from kafka_native._native.conversions import LastConversion, Unknown
from kafka_native.schema_registry import avro, json_schema, protobuf, rule_types, serdes
from kafka_native.schema_registry.rule_registry import RuleRegistry
from kafka_native.schema_registry.schema_ids import (
    SchemaId,
    dual_schema_id_deserializer,
    prefix_schema_id_deserializer,
)
from kafka_native.serialization import MessageField, SerializationContext, SerializationError
from tests.registry.memory_registry import MemoryRegistry
from tests.registry.test_avro import ADA, TEXT, raised
from tests.registry.test_json_schema import TEXT as JSON_TEXT
from tests.registry.test_protobuf import ADA as MESSAGE
from tests.registry.test_protobuf import Deep, User

KEY, VALUE = MessageField.KEY, MessageField.VALUE
NAME = '{"type": "record", "name": "N", "fields": [{"name": "name", "type": "string"}]}'


class Counting:
    """A client that counts its calls."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.count = 0

    def __getattr__(self, name: str) -> Any:
        if name != "config":
            self.count += 1
        return getattr(self._client, name)


@pytest.fixture
def registry() -> MemoryRegistry:
    return MemoryRegistry()


@pytest.fixture
def client(registry: MemoryRegistry) -> Counting:
    return Counting(registry.client())


def context(topic: str = "users", field: Any = VALUE, headers: Any = None) -> SerializationContext:
    return SerializationContext(topic, field, headers)


def made(registry: MemoryRegistry, name: str, client: Any, **conf: Any) -> tuple[Any, bytes, Any]:
    """Return a deserializer of a format, data and their object."""
    own = registry.client()
    if name == "avro":
        data = avro.AvroSerializer(own, TEXT)(ADA, context())
        return avro.AvroDeserializer(client, conf=conf), data or b"", ADA
    if name == "json":
        data = json_schema.JSONSerializer(JSON_TEXT, own)({"name": "Ada"}, context())
        return json_schema.JSONDeserializer(None, None, client, conf), data or b"", {"name": "Ada"}
    data = protobuf.ProtobufSerializer(User, own)(MESSAGE, context())
    return protobuf.ProtobufDeserializer(User, conf, client), data or b"", MESSAGE


FORMATS = ["avro", "json", "protobuf"]


@pytest.mark.parametrize("name", FORMATS)
def test_each_schema_of_a_topic_is_asked_for_once(
    registry: MemoryRegistry, client: Counting, name: str
) -> None:
    reader, data, expected = made(registry, name, client)
    for topic, field in (("users", VALUE), ("users", KEY), ("others", VALUE)):
        before = client.count
        assert reader(data, context(topic, field)) == expected
        asked = client.count
        assert asked > before
        for _ in range(3):
            assert reader(data, context(topic, field)) == expected
            assert reader(data, context(topic, str(field.value))) == expected
        assert client.count == asked
    assert reader(data) == reader(data) == expected
    assert reader(None, context()) is None


def test_messages_of_several_schemas_and_topics_in_turn(
    registry: MemoryRegistry, client: Counting
) -> None:
    writer = registry.client()
    users = avro.AvroSerializer(writer, TEXT)(ADA, context())
    names = avro.AvroSerializer(writer, NAME)({"name": "Ben"}, context("names"))
    reader = avro.AvroDeserializer(client)
    turns = [
        (users, context(), ADA),
        (names, context(), {"name": "Ben"}),
        (names, context("names"), {"name": "Ben"}),
        (users, context("names", KEY), ADA),
        (users, context(headers=[("a", b"b")]), ADA),
    ]
    for data, ctx, expected in turns * 3:
        assert reader(data, ctx) == reader(data, ctx) == expected
    asked = client.count
    for data, ctx, expected in turns:
        assert reader(data, ctx) == expected
    assert client.count == asked


@pytest.mark.parametrize("name", FORMATS)
def test_guids_in_headers_and_payloads(
    registry: MemoryRegistry, client: Counting, name: str
) -> None:
    reader, data, expected = made(registry, name, client)
    size = 5 + (2 if name == "protobuf" else 0)
    guid = b"\1" + uuid.UUID(int=int.from_bytes(data[1:5], "big")).bytes + data[5:size]
    headers = [("a", b"b"), ("__value_schema_id", guid)]
    for given in (headers, dict(headers)):
        for payload, ctx in (
            (data[size:], context(headers=given)),
            (guid + data[size:], context()),
        ):
            assert reader(payload, ctx) == expected
            asked = client.count
            assert reader(payload, ctx) == expected
            assert client.count == asked
    # other headers don't matter, and a bad one is reported
    assert reader(data, context(headers=[("x", b"\1")])) == expected
    assert "has no schema framing" in raised(
        lambda: reader(data, context(headers=[("__value_schema_id", b"\7")]))
    )
    text = raised(lambda: reader(data, context(headers=[("__value_schema_id", "text")])))
    assert text.startswith("topic users, value: the schema's id can't be read")
    assert (
        reader(data[size:], context(headers=[("__value_schema_id", bytearray(guid))])) == expected
    )
    prefix = {"schema.id.deserializer": prefix_schema_id_deserializer}
    other, _, _ = made(registry, name, client, **prefix)
    for _ in range(2):
        assert other(data, context(headers=[("__value_schema_id", b"\7")])) == expected


@pytest.mark.parametrize("name", FORMATS)
def test_errors_are_the_same_for_the_first_message_and_later_ones(
    registry: MemoryRegistry, client: Counting, name: str
) -> None:
    reader, data, expected = made(registry, name, client)
    bad = [b"", b"\0", b"\0\0\0\0\x63x", b"{}", data[:4], data[:5], data[:7], data[:-1] + b"\xff"]
    fresh = [made(registry, name, registry.client())[0] for _ in bad]
    first = [outcome(each, part) for each, part in zip(fresh, bad, strict=True)]
    assert reader(data, context()) == expected
    for _ in range(2):
        assert [outcome(reader, part) for part in bad] == first
    assert reader(data, context()) == expected


def outcome(reader: Any, data: bytes) -> Any:
    try:
        return reader(data, context())
    except SerializationError as error:
        return str(error)


def test_the_error_of_a_function_has_the_place(registry: MemoryRegistry, client: Counting) -> None:
    def refuse(value: Any, ctx: SerializationContext) -> Any:
        raise SerializationError("not this one")

    _, data, _ = made(registry, "avro", client)
    reader = avro.AvroDeserializer(client, from_dict=refuse)
    for _ in range(2):
        assert raised(lambda: reader(data, context())) == (
            "topic users, value, schema id 1: not this one"
        )
    json_reader, good, _ = made(registry, "json", client)
    assert json_reader(good, context())
    bad = good[:5] + b'{"name": 5}'
    assert "schema id 2: $.name: 5 is not of type" in raised(lambda: json_reader(bad, context()))


def test_functions_decide_for_each_message(registry: MemoryRegistry, client: Counting) -> None:
    _, data, _ = made(registry, "avro", client)
    calls = []

    def strategy(ctx: Any, name: str | None) -> str:
        calls.append(name)
        return "users-value"

    reader = avro.AvroDeserializer(client, conf={"subject.name.strategy": strategy})
    assert [reader(data, context()) for _ in range(3)] == [ADA] * 3
    assert len(calls) == 3

    def by_hand(data: bytes, ctx: Any, schema_id: SchemaId) -> Any:
        calls.append(None)
        return dual_schema_id_deserializer(data, ctx, schema_id)

    reader = avro.AvroDeserializer(client, conf={"schema.id.deserializer": by_hand})
    assert [reader(data, context()) for _ in range(3)] == [ADA] * 3
    assert len(calls) == 6


class Caching(Counting):
    """A client that returns the same latest version until it is forgotten."""

    latest: Any = None

    def get_latest_version(self, subject: str, fmt: str | None = None) -> Any:
        self.latest = self.latest or self._client.get_latest_version(subject, fmt)
        return self.latest

    def get_latest_with_metadata(
        self, subject: str, metadata: Any, deleted: bool = False, fmt: str | None = None
    ) -> Any:
        return self.get_latest_version(subject, fmt)


@pytest.mark.parametrize(
    "conf", [{"use.latest.version": True}, {"use.latest.with.metadata": {"a": "b"}}]
)
def test_the_latest_version_is_asked_for_each_message(registry: MemoryRegistry, conf: Any) -> None:
    client = Caching(registry.client())
    _, data, _ = made(registry, "avro", client)
    reader = avro.AvroDeserializer(client, conf=conf)
    assert reader(data, context()) == ADA
    asked = client.count
    assert [reader(data, context()) for _ in range(3)] == [ADA] * 3
    assert client.count == asked
    newer = json.loads(TEXT)
    newer["fields"].append({"name": "new", "type": "int", "default": 4})
    registry.register("users-value", {"schema": json.dumps(newer)})
    assert reader(data, context()) == ADA
    client.latest = None
    assert [reader(data, context()) for _ in range(3)] == [{**ADA, "new": 4}] * 3
    # a version in between with migration rules needs the steps for each message
    rule = {"name": "up", "kind": "TRANSFORM", "mode": "UPGRADE", "type": "UPPER"}
    content = {"schema": json.dumps(newer), "ruleSet": {"migrationRules": [rule]}}
    registry.register("users-value", content)
    registry.register("users-value", {"schema": json.dumps({**newer, "doc": "newest"})})
    client.latest = None
    rules = RuleRegistry()
    rules.register_executor(Upper())
    reader = avro.AvroDeserializer(client, conf=conf, rule_registry=rules)
    assert [reader(data, context()) for _ in range(3)] == [{"name": "ADA"}] * 3


def test_the_latest_version_with_asyncio(registry: MemoryRegistry) -> None:
    _, data, _ = made(registry, "avro", registry.client())

    async def read() -> None:
        conf = {"use.latest.version": True}
        reader = avro.AsyncAvroDeserializer(registry.async_client(), conf=conf)
        for _ in range(3):
            assert await reader(data, context()) == ADA

    asyncio.run(read())


class Upper(rule_types.RuleExecutor):
    """Writes the name in capital letters."""

    def type(self) -> str:
        return "UPPER"

    def transform(self, ctx: Any, message: Any) -> Any:
        return {"name": message["name"].upper()}


def test_rules_run_for_each_message(registry: MemoryRegistry, client: Counting) -> None:
    rule = {"name": "up", "kind": "TRANSFORM", "mode": "READ", "type": "UPPER"}
    content = {"schema": NAME, "ruleSet": {"domainRules": [rule]}}
    number = registry.register("users-value", content)["id"]
    rules = RuleRegistry()
    rules.register_executor(Upper())
    reader = avro.AvroDeserializer(client, rule_registry=rules)
    data = b"\0" + number.to_bytes(4, "big") + b"\6Ada"
    assert [reader(data, context()) for _ in range(3)] == [{"name": "ADA"}] * 3


def test_the_key_is_kept_for_the_rules_of_the_value(
    registry: MemoryRegistry, client: Counting
) -> None:
    reader, data, _ = made(registry, "avro", client)
    for _ in range(3):
        reader(data, context(field=KEY))
        assert rule_types.get_original_key() == data
        reader(data, context())
        assert rule_types.get_original_key() is None


def test_the_number_of_conversions_has_a_limit(
    registry: MemoryRegistry, client: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serdes, "CONVERSIONS_MAX", 5)
    reader, data, _ = made(registry, "avro", client)
    for number in range(12):
        assert reader(data, context(f"topic {number}")) == ADA
        assert 1 <= len(reader._conversions) <= 5


def test_without_a_registry() -> None:
    reader = json_schema.JSONDeserializer(JSON_TEXT)
    for number in (1, 2, 1):
        data = b"\0" + number.to_bytes(4, "big") + b'{"name": "Ada"}'
        assert reader(data, context()) == {"name": "Ada"}
    messages = protobuf.ProtobufDeserializer(User)
    data = b"\0\0\0\0\1\0" + MESSAGE.SerializeToString()
    assert messages(data, context()) == messages(data, context()) == MESSAGE


def test_message_indexes_of_any_length(registry: MemoryRegistry, client: Counting) -> None:
    deep = Deep(d=1.5)
    data = protobuf.ProtobufSerializer(Deep, registry.client())(deep, context()) or b""
    reader = protobuf.ProtobufDeserializer(Deep, None, client)
    assert reader(data, context()) == deep
    asked = client.count
    assert reader(data, context()) == deep
    assert client.count == asked
    other = data[:5] + b"\2\x7e" + data[9:]
    text = raised(lambda: reader(other, context()))
    assert "point at no message of the schema" in text
    for cut in (data[:5], data[:6], data[:5] + b"\2", data[:5] + b"\2" + b"\xff" * 6):
        assert "the schema's id can't be read" in raised(lambda cut=cut: reader(cut, context()))


def serializer(name: str, client: Any, **conf: Any) -> tuple[Any, Any]:
    """Return a serializer of a format, and an object."""
    if name == "avro":
        return avro.AvroSerializer(client, TEXT, conf=conf), ADA
    if name == "json":
        return json_schema.JSONSerializer(JSON_TEXT, client, conf=conf), {"name": "Ada"}
    return protobuf.ProtobufSerializer(User, client, conf), MESSAGE


@pytest.mark.parametrize("name", FORMATS)
def test_serializers_ask_once_for_each_subject(client: Counting, name: str) -> None:
    writer, value = serializer(name, client)
    expected = []
    for topic, field in (("users", VALUE), ("users", KEY), ("others", VALUE)):
        before = client.count
        expected.append(writer(value, context(topic, field)))
        asked = client.count
        assert asked > before
        for _ in range(3):
            assert writer(value, context(topic, field)) == expected[-1]
            assert writer(value, context(topic, str(field.value))) == expected[-1]
            assert writer(None, context(topic, field)) is None
            assert rule_types.get_original_key() is None
        assert client.count == asked
    writer(value, context(field=KEY))
    assert rule_types.get_original_key() == value
    assert len(set(expected)) == 1
    for _ in range(2):
        assert "topic users, value" in raised(lambda: writer(object(), context()))


def test_subjects_of_serializers_that_are_not_kept(
    registry: MemoryRegistry, client: Counting
) -> None:
    calls = []

    def strategy(ctx: Any, name: str | None) -> str:
        calls.append(name)
        return f"subject {len(calls)}"

    writer, value = serializer("avro", client, **{"subject.name.strategy": strategy})
    for _ in range(3):
        writer(value, context())
    assert len(calls) == 3
    latest = {"use.latest.version": True, "auto.register.schemas": False}
    registry.register("users-value", {"schema": NAME})
    writer = avro.AvroSerializer(client, conf=latest)
    first = writer({"name": "x"}, context())
    newer = {"schema": NAME.replace('"string"', '["null", "string"]')}
    registry.register("users-value", newer)
    assert writer({"name": "x"}, context()) != first
    number = registry.register("pinned-value", {"schema": TEXT})["id"]
    pinned = {"use.schema.id": number, "auto.register.schemas": False}
    writer = avro.AvroSerializer(client, conf=pinned)
    for _ in range(2):
        before = client.count
        assert writer(ADA, context("pinned"))[:5] == b"\0" + number.to_bytes(4, "big")
        assert client.count > before


def test_the_number_of_kept_subjects_has_a_limit(
    client: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serdes, "SUBJECTS_MAX", 5)
    writer, value = serializer("avro", client)
    for number in range(12):
        assert writer(value, context(f"topic {number}"))
        assert 1 <= len(writer._subjects) <= 5


def test_asyncio(registry: MemoryRegistry) -> None:
    data = avro.AvroSerializer(registry.client(), TEXT)(ADA, context())
    client = Counting(registry.async_client())

    async def read() -> Iterator[int]:
        reader = avro.AsyncAvroDeserializer(client)
        counts = []
        for _ in range(3):
            assert await reader(data, context()) == ADA
            counts.append(client.count)
        return iter(counts)

    first, second, third = asyncio.run(read())
    assert 0 < first == second == third


def test_a_payload_that_is_not_bytes(registry: MemoryRegistry, client: Counting) -> None:
    reader, data, _ = made(registry, "avro", client)
    for _ in range(2):
        assert reader(data, context()) == ADA
        assert reader(bytearray(data), context()) == ADA  # type: ignore[arg-type]


def test_data_that_only_begins_like_the_last_message() -> None:
    key: ContextVar[Any] = ContextVar("key", default=None)
    for is_key, field in ((True, KEY), (False, VALUE)):
        last = LastConversion("users", field, b"\0\0\0\0\1", bytes.decode, key, is_key=is_key)
        assert last.object_of(b"\0\0\0\0\1Ada", context(field=field)) == "Ada"
        assert key.get() == (b"\0\0\0\0\1Ada" if is_key else None)
        assert last.object_of(b"\0\0\0\0\1", context(field=field)) == ""
        others = [
            (b"", context(field=field)),
            (b"\0\0\0\0", context(field=field)),
            (b"\0\0\0\0\2Ada", context(field=field)),
            (bytearray(b"\0\0\0\0\1Ada"), context(field=field)),
            (None, context(field=field)),
            (b"\0\0\0\0\1Ada", None),
            (b"\0\0\0\0\1Ada", context("others", field)),
            (b"\0\0\0\0\1Ada", context(field=VALUE if is_key else KEY)),
            (b"\0\0\0\0\1Ada", context(field=field, headers=[("a", b"b")])),
            (b"\0\0\0\0\1\xff", context(field=field)),  # the function raises
        ]
        assert [last.object_of(*each) for each in others] == [Unknown] * len(others)
