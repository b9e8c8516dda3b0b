"""Schema ids and subject names are those of confluent_kafka, byte for byte."""

from __future__ import annotations

import asyncio
import io
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kafka_native.schema_registry as ours
from kafka_native.schema_registry import serde
from kafka_native.schema_registry.error import SchemaRegistryError
from kafka_native.schema_registry.schemas import Association
from kafka_native.serialization import MessageField, SerializationContext, SerializationError
from tests.registry.client.conftest import Caller
from tests.registry.client.server import Answer, Server

theirs = pytest.importorskip("confluent_kafka.schema_registry")
their_serde = pytest.importorskip("confluent_kafka.schema_registry.serde")
their_serialization = pytest.importorskip("confluent_kafka.serialization")

IDS = st.integers(0, 2**32 - 1)
GUIDS = st.uuids().map(str)
INDEXES = st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=8)
TYPES = st.sampled_from(["AVRO", "JSON", "PROTOBUF"])


def both(*args: Any) -> tuple[Any, Any]:
    return serde.SchemaId(*args), their_serde.SchemaId(*args)


def facts(schema_id: Any) -> tuple[Any, ...]:
    return schema_id.schema_type, schema_id.id, schema_id.guid, schema_id.message_indexes


@given(number=IDS, guid=GUIDS, indexes=INDEXES, payload=st.binary(max_size=20))
def test_bytes_are_those_of_confluent_kafka(
    number: int, guid: str, indexes: list[int], payload: bytes
) -> None:
    for kind, path in (("PROTOBUF", indexes), ("PROTOBUF", [0]), ("AVRO", None)):
        own, other = both(kind, number, guid, path)
        for framing in (own.id_to_bytes(), own.guid_to_bytes()):
            assert framing in (other.id_to_bytes(), other.guid_to_bytes())
            read, witness = both(kind)
            rest = read.from_bytes(io.BytesIO(framing + payload))
            witness.from_bytes(io.BytesIO(framing + payload))
            assert facts(read) == facts(witness)
            assert rest.read() == payload


@given(data=st.binary(max_size=40), kind=TYPES)
def test_any_bytes_are_read_or_refused(data: bytes, kind: str) -> None:
    own, other = both(kind)
    try:
        rest = own.from_bytes(io.BytesIO(data)).read()
    except SerializationError:
        return
    assert other.from_bytes(io.BytesIO(data)).read() == rest
    assert facts(own) == facts(other)


@pytest.mark.parametrize(
    ("data", "kind", "text"),
    [
        (b"", "AVRO", "no schema framing"),
        (b'{"a": 1}', "JSON", "its first byte is 0x7b"),
        (b"\x00\x00\x00", "AVRO", "it has 3 bytes, and a .* needs 5"),
        (b"\x01abc", "AVRO", "it has 4 bytes, and a .* needs 17"),
        (b"\x00\x00\x00\x00\x07", "PROTOBUF", "ends within the message indexes"),
        (b"\x00\x00\x00\x00\x07\x04\x02", "PROTOBUF", "ends within the message indexes"),
        (b"\x00\x00\x00\x00\x07\x01", "PROTOBUF", "isn't a 31-bit number"),
        (b"\x00\x00\x00\x00\x07" + b"\xff" * 20, "PROTOBUF", "isn't a 31-bit number"),
        (b"\x00\x00\x00\x00\x07" + b"\xfe\xff\xff\xff\x0f", "PROTOBUF", "2147483647 message"),
    ],
)
def test_wrong_framing_is_explained(data: bytes, kind: str, text: str) -> None:
    with pytest.raises(SerializationError, match=text):
        serde.SchemaId(kind).from_bytes(io.BytesIO(data))


@pytest.mark.parametrize(
    ("schema_id", "write", "text"),
    [
        (serde.SchemaId("AVRO"), "id_to_bytes", "has no id"),
        (serde.SchemaId("AVRO"), "guid_to_bytes", "has no GUID"),
        (serde.SchemaId("AVRO", -1), "id_to_bytes", "doesn't fit"),
        (serde.SchemaId("AVRO", 2**32), "id_to_bytes", "doesn't fit"),
        (serde.SchemaId("PROTOBUF", 1, None, []), "id_to_bytes", "is empty"),
        (serde.SchemaId("PROTOBUF", 1, None, [2**31]), "id_to_bytes", "31-bit"),
        (serde.SchemaId("PROTOBUF", 1, None, [-1]), "id_to_bytes", "31-bit"),
    ],
)
def test_a_useless_id_is_refused(schema_id: serde.SchemaId, write: str, text: str) -> None:
    with pytest.raises(SerializationError, match=text):
        getattr(schema_id, write)()


FIELDS = ["key", "value"]


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("make", [list, dict])
def test_headers_are_those_of_confluent_kafka(field: str, make: Callable[[], Any]) -> None:
    args = ("PROTOBUF", 7, "0b3a4e24-8c1c-4b26-9a94-1cbb9f2d8a11", [2, 1])
    own, other = both(*args)
    context = SerializationContext("t", MessageField(field), make())
    witness = their_serialization.SerializationContext(
        "t", their_serialization.MessageField(field), make()
    )
    assert ours.header_schema_id_serializer(b"x", context, own) == b"x"
    theirs.header_schema_id_serializer(b"x", witness, other)
    assert context.headers == witness.headers
    read = serde.SchemaId("PROTOBUF")
    assert ours.dual_schema_id_deserializer(b"x", context, read).read() == b"x"
    assert (str(read.guid), read.message_indexes) == (args[2], [2, 1])
    # The other field of the message has no header: its id is in the payload.
    swapped = MessageField("value" if field == "key" else "key")
    framed = ours.prefix_schema_id_serializer(b"x", None, own)
    read = serde.SchemaId("PROTOBUF")
    other_field = SerializationContext("t", swapped, context.headers)
    assert ours.dual_schema_id_deserializer(framed, other_field, read).read() == b"x"
    assert (read.id, read.message_indexes) == (7, [2, 1])


@pytest.mark.parametrize("headers", [None, (), "text"])
def test_a_header_needs_a_place(headers: Any) -> None:
    one = serde.SchemaId("AVRO", 7, "0b3a4e24-8c1c-4b26-9a94-1cbb9f2d8a11")
    with pytest.raises(SerializationError, match="a list or a dict"):
        ours.header_schema_id_serializer(
            b"", SerializationContext("t", MessageField.KEY, headers), one
        )
    with pytest.raises(SerializationError, match="needs a SerializationContext"):
        ours.header_schema_id_serializer(b"", None, one)


def test_a_header_of_another_schema_is_replaced() -> None:
    """The headers may be those of a message that is passed on."""
    old, new = (serde.SchemaId("AVRO", 1, str(uuid.UUID(int=number))) for number in (1, 2))
    for headers in ([("a", b"b"), ("__value_schema_id", old.guid_to_bytes())], {}):
        context: Any = SerializationContext("t", MessageField.VALUE, headers)
        for schema_id in (old, new):
            ours.header_schema_id_serializer(b"x", context, schema_id)
        found = [value for name, value in dict(headers).items() if name == "__value_schema_id"]
        assert found == [new.guid_to_bytes()]
        assert len(headers) == len(dict(headers))


def test_the_last_header_names_the_schema() -> None:
    """Other clients may have added one to those of a message that they passed on."""
    guids = [uuid.UUID(int=number) for number in (1, 2)]
    headers: Any = [("__value_schema_id", b"\1" + guid.bytes) for guid in guids]
    schema_id = serde.SchemaId("AVRO")
    context = SerializationContext("t", MessageField.VALUE, headers)
    ours.dual_schema_id_deserializer(b"x", context, schema_id)
    assert schema_id.guid == guids[1]


def test_a_header_must_be_bytes() -> None:
    context = SerializationContext("t", MessageField.KEY, {"__key_schema_id": "text"})
    with pytest.raises(SerializationError, match="must be bytes"):
        ours.dual_schema_id_deserializer(b"", context, serde.SchemaId("AVRO"))


def test_without_headers_the_payload_is_read() -> None:
    for context in (None, SerializationContext("t", MessageField.KEY)):
        read = serde.SchemaId("AVRO")
        framed = b"\x00\x00\x00\x00\x09rest"
        assert ours.dual_schema_id_deserializer(framed, context, read).read() == b"rest"
        assert ours.prefix_schema_id_deserializer(framed, context, read).read() == b"rest"
        assert read.id == 9
        assert "schema_id=9" in repr(read)


NAMES = [
    "topic_subject_name_strategy",
    "topic_record_subject_name_strategy",
    "record_subject_name_strategy",
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("record", ["a.B", None])
def test_subjects_are_those_of_confluent_kafka(name: str, field: str, record: str | None) -> None:
    expected = getattr(theirs, name)(
        their_serialization.SerializationContext("t", their_serialization.MessageField(field)),
        record,
    )
    context = SerializationContext("t", MessageField(field))
    assert getattr(ours, name)(context, record) == expected
    if name == "record_subject_name_strategy":
        assert ours.record_subject_name_strategy(None, record) == record
    else:
        with pytest.raises(ValueError, match="needs a SerializationContext"):
            getattr(ours, name)(None, record)


def test_the_subject_of_a_reference() -> None:
    assert ours.reference_subject_name_strategy(None, ours.SchemaReference("a", "b", 1)) == "a"


def association(subject: str) -> dict[str, str]:
    return {"subject": subject, "resourceName": "t"}


class Strategy:
    """Either strategy, with the client of its kind."""

    def __init__(self, caller: Caller, resolver: Callable[[], Any] | None = None) -> None:
        self.caller = caller
        is_async = isinstance(caller.client, ours.AsyncSchemaRegistryClient)
        self.own: Any = (
            serde.AsyncAssociatedNameStrategy() if is_async else serde.AssociatedNameStrategy()
        )
        if resolver is not None and is_async:

            async def resolve() -> Any:
                return resolver()

            self.own.set_async_cluster_id_resolver(resolve)
        elif resolver is not None:
            self.own.set_cluster_id_resolver(resolver)

    def __call__(
        self,
        conf: dict[str, Any] | None = None,
        record_name: str | None = "a.B",
        *,
        field: MessageField = MessageField.VALUE,
    ) -> str | None:
        context = SerializationContext("t", field)
        return self._result(self.own(context, record_name, self.caller.client, conf))

    def clear(self) -> None:
        self._result(self.own.clear_cache())

    def _result(self, found: Any) -> Any:
        loop = getattr(self.caller, "loop", None)
        return found if loop is None else loop.run_until_complete(found)


Connect = Callable[..., Caller]


def test_an_associated_subject(server: Server, connect: Connect) -> None:
    server.answer(Answer(body=[association("other")]))
    strategy = Strategy(connect())
    assert [strategy(), strategy(), strategy(field=MessageField.KEY)] == ["other"] * 3
    assert [(each.path, each.query) for each in server.requests] == [
        (
            "/associations/resources/-/t",
            (("resourceType", "topic"), ("associationType", field)),
        )
        for field in ("value", "key")
    ]
    strategy.clear()
    strategy()
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("fallback", "expected"),
    [
        (None, "t-value"),
        ("topic", "t-value"),
        ("RECORD", "a.B"),
        (serde.SubjectNameStrategyType.TOPIC_RECORD, "t-a.B"),
    ],
)
@pytest.mark.parametrize("status", [200, 404])
def test_a_topic_without_association(
    server: Server, connect: Connect, status: int, fallback: Any, expected: str
) -> None:
    body: Any = [] if status == 200 else {"error_code": 40401, "message": "none"}
    server.answer(Answer(status, body))
    conf = None if fallback is None else {serde.FALLBACK_TYPE: fallback}
    assert Strategy(connect())(conf) == expected


def test_a_topic_without_association_is_asked_for_once_a_record_name(
    server: Server, connect: Connect
) -> None:
    """A deserializer doesn't know the record name at first."""
    server.answer(Answer(body=[]))
    strategy = Strategy(connect())
    conf = {serde.FALLBACK_TYPE: "RECORD"}
    for _ in range(3):
        assert (strategy(conf, None), strategy(conf)) == (None, "a.B")
    assert len(server.requests) == 2


def test_an_association_can_be_necessary(server: Server, connect: Connect) -> None:
    server.answer(Answer(body=[]))
    with pytest.raises(SerializationError, match="t has no associated subject"):
        Strategy(connect())({serde.FALLBACK_TYPE: "NONE"})
    server.answer(Answer(body=[association("a"), association("b")]))
    with pytest.raises(SerializationError, match="t has several subjects: a, b"):
        Strategy(connect())()
    server.answer(Answer(403, {"error_code": 40301, "message": "denied"}))
    with pytest.raises(SchemaRegistryError, match="denied"):
        Strategy(connect())()
    for wrong in ("ASSOCIATED", "else", serde.SubjectNameStrategyType.ASSOCIATED):
        with pytest.raises(ValueError, match="must be one of NONE, TOPIC, RECORD, TOPIC_RECORD"):
            Strategy(connect())({serde.FALLBACK_TYPE: wrong})


def test_the_clusters_id_is_the_namespace(server: Server, connect: Connect) -> None:
    server.answer(Answer(body=[association("a")]))
    Strategy(connect(), lambda: "resolved")()
    Strategy(connect(), lambda: "resolved")({serde.KAFKA_CLUSTER_ID: "given"})
    assert [each.path.split("/")[3] for each in server.requests] == ["resolved", "given"]


def test_a_cluster_without_an_id(server: Server, connect: Connect) -> None:
    def fail() -> str:
        raise RuntimeError("no broker")

    with pytest.raises(SerializationError, match="no broker") as caught:
        Strategy(connect(), fail)()
    assert isinstance(caught.value.__cause__, RuntimeError)
    with pytest.raises(SerializationError, match=r"set subject\.name\.strategy"):
        Strategy(connect(), lambda: "")()
    assert server.requests == []


def test_strategies_without_a_client_or_a_context() -> None:
    context = SerializationContext("t", MessageField.KEY)
    assert serde.AssociatedNameStrategy()(context, None, None) == "t-key"
    assert asyncio.run(serde.AsyncAssociatedNameStrategy()(context, None, None)) == "t-key"
    with pytest.raises(ValueError, match="AssociatedNameStrategy needs"):
        serde.AssociatedNameStrategy()(None, None, None)
    nameless: Any = SerializationContext(None, MessageField.KEY)  # type: ignore[arg-type]
    assert serde.AssociatedNameStrategy()(nameless, None, None) is None


def test_a_client_of_another_kind_is_refused() -> None:
    class Client:
        async def get_associations_by_resource_name(self, **options: Any) -> list[Association]:
            return []

    client: Any = Client()
    context = SerializationContext("t", MessageField.KEY)
    with pytest.raises(TypeError, match="needs the asyncio client or strategy"):
        serde.AssociatedNameStrategy()(context, None, client)
