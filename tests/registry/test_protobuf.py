"""Protobuf serializers and deserializers: bytes, values and errors, beside confluent_kafka's."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import struct
from typing import Any

import pytest
from confluent_kafka.schema_registry import protobuf as theirs
from confluent_kafka.serialization import SerializationContext as TheirContext
from google.protobuf import descriptor_pb2, text_format, timestamp_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_native.codecs import SchemaError
from kafka_native.codecs.protobuf_objects import MessageReader
from kafka_native.schema_registry import protobuf as ours
from kafka_native.schema_registry import record_subject_name_strategy
from kafka_native.serialization import MessageField, SerializationContext, SerializationError
from tests.registry.memory_registry import MemoryRegistry
from tests.registry.test_avro import raised

FILES = [
    """name: "common/city.proto" package: "common" syntax: "proto3"
    message_type { name: "City" field { name: "name" number: 1 type: TYPE_STRING } }""",
    """name: "user.proto" package: "example" syntax: "proto3"
    dependency: "common/city.proto" dependency: "google/protobuf/timestamp.proto"
    message_type { name: "Other" field { name: "x" number: 1 type: TYPE_INT32 } }
    message_type {
      name: "User"
      field { name: "name" number: 1 type: TYPE_STRING }
      field { name: "id" number: 2 type: TYPE_SINT64 }
      field { name: "tags" number: 3 type: TYPE_STRING label: LABEL_REPEATED }
      field { name: "city" number: 4 type: TYPE_MESSAGE type_name: ".common.City" }
      field { name: "born" number: 5 type: TYPE_MESSAGE type_name: ".google.protobuf.Timestamp" }
      field { name: "raw" number: 6 type: TYPE_BYTES }
      nested_type { name: "First" }
      nested_type {
        name: "Inner" field { name: "n" number: 1 type: TYPE_INT32 }
        nested_type { name: "Deep" field { name: "d" number: 1 type: TYPE_DOUBLE } }
      }
    }""",
    """name: "old.proto" package: "old" syntax: "proto2"
    message_type { name: "Strict" field { name: "a" number: 1 type: TYPE_INT32 label: LABEL_REQUIRED } }""",
]


def pool() -> Any:
    """Return a pool with the files above."""
    made = DescriptorPool()
    made.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    for text in FILES:
        file = text_format.Parse(text, descriptor_pb2.FileDescriptorProto())
        made.AddSerializedFile(file.SerializeToString())
    return made


POOL = pool()
User, Other, Inner, Deep, Strict = (
    GetMessageClass(POOL.FindMessageTypeByName(name))
    for name in (
        "example.User",
        "example.Other",
        "example.User.Inner",
        "example.User.Inner.Deep",
        "old.Strict",
    )
)
ADA = User(name="Ada", id=-5, tags=["a", "b"], city={"name": "Rome"}, raw=b"\0")
CONTEXT = SerializationContext("users", MessageField.VALUE)
THEIR_CONTEXT = TheirContext("users", "value")


@pytest.fixture
def registry() -> MemoryRegistry:
    return MemoryRegistry()


def both(registry: MemoryRegistry, message: Any) -> bytes:
    """Serialize with both packages, check that the bytes are equal, and return them."""
    own = ours.ProtobufSerializer(type(message), registry.client())(message, CONTEXT)
    other = theirs.ProtobufSerializer(type(message), registry.confluent_client())
    assert own is not None
    assert own == other(message, THEIR_CONTEXT)
    return own


def read_both(registry: MemoryRegistry, data: bytes, class_: Any) -> Any:
    """Deserialize with both packages, check that the messages are equal, and return one."""
    own = ours.ProtobufDeserializer(class_, schema_registry_client=registry.client())
    other = theirs.ProtobufDeserializer(class_, schema_registry_client=registry.confluent_client())
    message = own(data, CONTEXT)
    assert message == other(data, THEIR_CONTEXT)
    return message


INDEXES = [
    (Other(x=5), b"\0"),
    (ADA, b"\2\2"),
    (Inner(n=7), b"\4\2\2"),
    (Deep(d=0.5), b"\6\2\2\0"),
    (Strict(a=1), b"\0"),
]


@pytest.mark.parametrize(("message", "indexes"), INDEXES, ids=range(len(INDEXES)))
def test_bytes_and_messages_are_those_of_confluent_kafka(
    registry: MemoryRegistry, message: Any, indexes: bytes
) -> None:
    data = both(registry, message)
    number = len(registry.by_id)
    assert data == struct.pack(">bI", 0, number) + indexes + message.SerializeToString()
    assert read_both(registry, data, type(message)) == message


@given(
    st.builds(
        User,
        name=st.text(),
        id=st.integers(-(2**63), 2**63 - 1),
        tags=st.lists(st.text(), max_size=3),
        raw=st.binary(),
    )
)
@settings(max_examples=40, deadline=None)
def test_random_messages_are_written_and_read_as_by_confluent_kafka(message: Any) -> None:
    registry = MemoryRegistry()
    assert read_both(registry, both(registry, message), User) == message


def test_imported_files_are_registered_once(registry: MemoryRegistry) -> None:
    serializer = ours.ProtobufSerializer(User, registry.client())
    for _ in range(2):
        serializer(ADA, CONTEXT)
    assert registry.calls == [
        "register common/city.proto",
        "lookup common/city.proto",
        "register users-value",
    ]
    references = registry.subjects["users-value"][0]["references"]
    subject = "common/city.proto"
    assert references == [{"name": subject, "subject": subject, "version": 1}]


def test_known_types_can_be_registered(registry: MemoryRegistry) -> None:
    conf = {"skip.known.types": False}
    ours.ProtobufSerializer(User, registry.client(), conf)(ADA, CONTEXT)
    assert "register google/protobuf/timestamp.proto" in registry.calls


def test_the_indexes_are_those_of_the_registered_schema(registry: MemoryRegistry) -> None:
    file = descriptor_pb2.FileDescriptorProto()
    User.DESCRIPTOR.file.CopyToProto(file)
    file.message_type.reverse()
    text = base64.b64encode(file.SerializeToString()).decode()
    city = {"name": "common/city.proto", "subject": "city", "version": 1}
    city_text = base64.b64encode(User.DESCRIPTOR.file.dependencies[0].serialized_pb).decode()
    registry.register("city", {"schema": city_text, "schemaType": "PROTOBUF"})
    registry.register(
        "users-value", {"schema": text, "schemaType": "PROTOBUF", "references": [city]}
    )
    conf = {"auto.register.schemas": False, "use.latest.version": True}
    data = ours.ProtobufSerializer(User, registry.client(), conf)(ADA, CONTEXT)
    assert data == b"\0\0\0\0\2" + b"\0" + ADA.SerializeToString()
    assert read_both(registry, data, User) == ADA


def test_without_a_registry_id_and_indexes_are_skipped(registry: MemoryRegistry) -> None:
    data = both(registry, ADA)
    assert ours.ProtobufDeserializer(User)(data, CONTEXT) == ADA
    assert ours.ProtobufDeserializer(User)(data) == ADA
    assert ours.ProtobufDeserializer(User)(None) is None


def test_the_message_name_is_the_record_name(registry: MemoryRegistry) -> None:
    conf = {"subject.name.strategy": record_subject_name_strategy}
    data = ours.ProtobufSerializer(Inner, registry.client(), conf)(Inner(n=1))
    assert registry.calls[-1] == "register example.User.Inner"
    reader = ours.ProtobufDeserializer(Inner, conf, registry.client())
    assert reader(data) == Inner(n=1)


def test_wrong_messages_are_refused(registry: MemoryRegistry) -> None:
    serializer = ours.ProtobufSerializer(User, registry.client())
    text = "topic users, value: the message must be of type example.User, not Other"
    assert raised(lambda: serializer(Other(), CONTEXT)) == text
    strict = ours.ProtobufSerializer(Strict, registry.client())
    assert raised(lambda: strict(Strict(), CONTEXT)).endswith(
        "schema id 1: required fields are not set: a"
    )


def test_each_truncated_payload(registry: MemoryRegistry) -> None:
    data = both(registry, User(name="Ada"))
    reader = ours.ProtobufDeserializer(User, schema_registry_client=registry.client())
    text = "topic users, value, schema id 2: the payload of {} bytes isn't a message example.User"
    for size in range(8, len(data)):
        assert text.format(size - 7) in raised(lambda size=size: reader(data[:size], CONTEXT))
    for size in (5, 6):
        assert "the schema's id can't be read from the payload" in raised(
            lambda size=size: reader(data[:size], CONTEXT)
        )
    assert "no schema framing" in raised(lambda: reader(b"\x0a\x03Ada", CONTEXT))


def test_indexes_that_point_nowhere(registry: MemoryRegistry) -> None:
    both(registry, ADA)
    reader = ours.ProtobufDeserializer(User, schema_registry_client=registry.client())
    for indexes, shown in ((b"\2\4", "[2]"), (b"\4\2\x0a", "[1, 5]")):
        text = raised(lambda indexes=indexes: reader(b"\0\0\0\0\2" + indexes, CONTEXT))
        assert text.startswith(f"topic users, value, schema id 2: the message indexes {shown} poin")


def test_an_invalid_schema(registry: MemoryRegistry) -> None:
    reader = ours.ProtobufDeserializer(User, schema_registry_client=registry.client())
    lonely = descriptor_pb2.FileDescriptorProto(name="x", dependency=["missing.proto"])
    problems = {
        'syntax = "proto3";': "isn't a serialized descriptor in base64",
        "AAAA": "isn't a serialized descriptor in base64",
        base64.b64encode(
            lonely.SerializeToString()
        ).decode(): "imports missing.proto, which is not",
    }
    for number, (text, problem) in enumerate(problems.items(), 1):
        registry.by_id[number] = {"schema": text, "schemaType": "PROTOBUF"}
        data = struct.pack(">bI", 0, number) + b"\0"
        assert problem in raised(lambda data=data: reader(data, CONTEXT))


@pytest.mark.parametrize(
    "conf",
    [
        {"skip.known.types": 1},
        {"use.deprecated.format": True},
        {"use.deprecated.format": 1},
        {"reference.subject.name.strategy": 1},
        {"unknown": 1},
    ],
    ids=str,
)
def test_an_invalid_property(registry: MemoryRegistry, conf: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(conf))):
        ours.ProtobufSerializer(User, registry.client(), conf)
    if "skip.known.types" not in conf:
        with pytest.raises(ValueError, match=next(iter(conf))):
            ours.ProtobufDeserializer(User, conf, registry.client())


def test_asyncio_makes_the_same_bytes(registry: MemoryRegistry) -> None:
    async def main() -> Any:
        serializer = await ours.AsyncProtobufSerializer(User, registry.async_client())
        data = await serializer(ADA, CONTEXT)
        reader = await ours.AsyncProtobufDeserializer(User, None, registry.async_client())
        with pytest.raises(SerializationError, match="no schema framing"):
            await reader(b"", CONTEXT)
        return data, await reader(data, CONTEXT)

    assert asyncio.run(main()) == (both(registry, ADA), ADA)


def test_indexes_that_point_nowhere_by_record_name(registry: MemoryRegistry) -> None:
    both(registry, ADA)
    conf = {"subject.name.strategy": record_subject_name_strategy}
    reader = ours.ProtobufDeserializer(User, conf, registry.client())
    text = raised(lambda: reader(b"\0\0\0\0\2\2\4", CONTEXT))
    assert text.startswith("topic users, value, schema id 2: the message indexes [2] point at no")


@dataclasses.dataclass
class Person:
    name: str


def test_classes_instead_of_messages(registry: MemoryRegistry) -> None:
    data = ours.ProtobufSerializer(User, registry.client())(ADA, CONTEXT)
    kinds: list[tuple[Any, Any]] = [
        (Person, Person(ADA.name)),
        (dict, MessageReader(User).convert(ADA)),
        (None, ADA),
    ]
    for kind, expected in kinds:
        reader = ours.ProtobufDeserializer(User, {}, registry.client(), type=kind)
        assert [reader(data, CONTEXT) for _ in range(3)] == [expected] * 3
        assert ours.ProtobufDeserializer(User, {}, type=kind)(data, CONTEXT) == expected
    builder = ours.ProtobufDeserializerBuilder(
        schema_registry_client=registry.client(), message_type=User
    )
    built, _ = builder.set_type(Person).build({}, False)
    assert built(data, CONTEXT) == Person(ADA.name)

    async def read() -> Any:
        client = registry.async_client()
        return await ours.AsyncProtobufDeserializer(User, {}, client, type=Person)(data, CONTEXT)

    assert asyncio.run(read()) == Person(ADA.name)


def test_a_class_that_does_not_fit() -> None:
    wrong = dataclasses.make_dataclass("Wrong", [("name", int)])
    with pytest.raises(SchemaError, match="name: the annotation int has no room for str"):
        ours.ProtobufDeserializer(User, type=wrong)


def test_a_value_that_no_object_stands_for(registry: MemoryRegistry) -> None:
    late = User(born={"seconds": 2**50})
    data = ours.ProtobufSerializer(User, registry.client())(late, CONTEXT)
    reader = ours.ProtobufDeserializer(User, {}, registry.client(), type=dict)
    for _ in range(2):
        assert raised(lambda: reader(data, CONTEXT)) == (
            "topic users, value, schema id 2: the message can't become a dict: a timestamp is "
            "outside of the years 1 to 9999"
        )
