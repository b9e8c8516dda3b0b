"""The codec: round trips of every message and version, and comparisons with foreign bytes."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from kafka_definitions import Definition
from kafka_definitions import encode as reference_encode
from message_filling import EVERY_VERSION, as_dict, examples, version_id

from kafka_native.protocol import ProtocolError
from kafka_native.protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from kafka_native.protocol.headers import RequestHeader, ResponseHeader
from kafka_native.protocol.registry import messages
from kafka_native.protocol.schema import Field, Message, Struct

every_version = pytest.mark.parametrize(("cls", "version"), EVERY_VERSION, ids=version_id)


@every_version
def test_encoded_messages_are_decoded(cls: type[Message], version: int) -> None:
    for message in [cls(), *examples(cls, version, 12)]:
        body = message.encode(version)
        again = cls.decode(body, version)
        assert again == message
        assert again.encode(version) == body
        assert cls.decode(memoryview(b"head" + body), version, 4) == message
        assert cls.decode(bytearray(body), version) == message


@every_version
def test_bytes_are_those_of_kafkas_definitions(
    cls: type[Message], version: int, definitions: dict[str, Definition]
) -> None:
    definition = definitions[cls.__name__]
    if version < int(definition["validVersions"].partition("-")[0]):
        definition = _with_older_fields(cls, definition)
    for message in [cls(), *examples(cls, version, 6)]:
        assert message.encode(version) == reference_encode(definition, version, as_dict(message))


def _with_older_fields(cls: type[Struct], definition: Definition) -> Definition:
    """Return Kafka's definition with the fields that it no longer has, in their places."""

    def walk(fields: list[Definition], cls: type[Struct]) -> list[Definition]:
        by_name = {_flat(field["name"]): field for field in fields}
        out = []
        for field in cls.fields:
            theirs = by_name.get(_flat(field.name))
            if theirs is None:
                kind = f"[]{field.item}" if field.kind == "array" else field.kind
                theirs = {"name": field.name, "type": kind, "versions": str(field.versions)}
            elif field.struct is not None and "fields" in theirs:
                theirs = {**theirs, "fields": walk(theirs["fields"], field.struct)}
            out.append(theirs)
        return out

    return {**definition, "fields": walk(definition["fields"], cls)}


def _flat(name: str) -> str:
    return name.replace("_", "").lower()


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("client_id", [None, "", "žluť"])
def test_request_header_is_kafkas(
    version: int, client_id: str | None, definitions: dict[str, Definition]
) -> None:
    header = RequestHeader(
        request_api_key=3, request_api_version=12, correlation_id=-7, client_id=client_id
    )
    assert header.encode(version) == reference_encode(
        definitions["RequestHeader"], version, as_dict(header)
    )
    assert RequestHeader.decode(header.encode(version), version) == header


@pytest.mark.parametrize("version", [0, 1])
def test_response_header_is_kafkas(version: int, definitions: dict[str, Definition]) -> None:
    header = ResponseHeader(correlation_id=1 << 30)
    assert header.encode(version) == reference_encode(
        definitions["ResponseHeader"], version, as_dict(header)
    )


def _structs(cls: type[Struct]) -> list[type[Struct]]:
    return [
        cls,
        *(inner for field in cls.fields if field.struct for inner in _structs(field.struct)),
    ]


def _annotation(field: Field, annotations: dict[str, Any]) -> str:
    return str(annotations[field.name])


@pytest.mark.parametrize("cls", list(messages()), ids=version_id)
def test_annotations_match_the_codecs_values(cls: type[Message]) -> None:
    for inner in _structs(cls):
        assert inner.__doc__
        for field in inner.fields:
            assert _annotation(field, inner.__annotations__) == field.type_name, (
                f"{inner.__qualname__}.{field.name}"
            )


def _subscription() -> ConsumerProtocolSubscription:
    owned = ConsumerProtocolSubscription.OwnedPartitions(topic="a", partitions=[1])
    return ConsumerProtocolSubscription(
        topics=["a", "b"], user_data=b"", owned_partitions=[owned], generation_id=4, rack_id="r"
    )


@pytest.mark.parametrize("version", range(4))
def test_consumer_protocol_is_kafkas(version: int, definitions: dict[str, Definition]) -> None:
    assigned = ConsumerProtocolAssignment.AssignedPartitions(topic="a", partitions=[0, 7])
    for message in (_subscription(), ConsumerProtocolAssignment(assigned_partitions=[assigned])):
        packed = message.pack(version)
        body = reference_encode(definitions[type(message).__name__], version, as_dict(message))
        assert packed == struct.pack(">h", version) + body
        assert type(message).unpack(packed).pack(version) == packed


def test_a_newer_consumer_protocol_is_read_as_the_newest_known() -> None:
    packed = b"\0\x09" + _subscription().pack(3)[2:] + b"what version 9 appends"
    assert ConsumerProtocolSubscription.unpack(packed) == _subscription()


@pytest.mark.parametrize("raw", [b"", b"\0", b"\xff\xff", b"\0\3", b"\0\0\x7f\xff\xff\xff"])
def test_a_broken_consumer_protocol_is_a_protocol_error(raw: bytes) -> None:
    with pytest.raises(ProtocolError, match="ConsumerProtocolSubscription"):
        ConsumerProtocolSubscription.unpack(raw)
