"""The declarations against two other clients: aiokafka for old, kafka-python for flexible versions.

Kafka's definitions no longer contain the versions that Kafka 4 dropped (Produce 0-2, Fetch 0-3 and
others). For these the tests compare with aiokafka's handwritten schemas.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any

import aiokafka.protocol
import kafka.protocol
import pytest
from aiokafka.protocol.types import Int32, Schema
from kafka.protocol.api_message import ApiMessage
from message_filling import EVERY_VERSION, examples, version_id

from kafka_native.protocol import registry
from kafka_native.protocol.schema import Message, Struct
from kafka_native.protocol.versions import ApiVersionsResponse


def _modules(package: Any) -> Iterator[Any]:
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if ".old" not in found.name and "generate" not in found.name:
            yield importlib.import_module(found.name)


def _aiokafka_structs() -> dict[tuple[int, int, bool], Any]:
    """Return aiokafka's classes by API key, version and whether they are requests."""
    found = {}
    for module in _modules(aiokafka.protocol):
        for name, value in vars(module).items():
            if (
                isinstance(value, type)
                and isinstance(getattr(value, "SCHEMA", None), Schema)
                and "_v" in name
            ):
                key, version = getattr(value, "API_KEY", None), getattr(value, "API_VERSION", None)
                if isinstance(key, int) and isinstance(version, int):
                    found[key, version, "Request" in name] = value
    return found


AIOKAFKA = _aiokafka_structs()
# aiokafka 0.14 writes current_leader_epoch as 64 bits here, Kafka as 32.
AIOKAFKA_IS_WRONG = {("ListOffsetsRequest", 4), ("ListOffsetsRequest", 5)}
OLD = [
    (cls, version)
    for cls, version in EVERY_VERSION
    if not cls.flexible.has(version)
    and (cls.api_key, version, cls.__name__.endswith("Request")) in AIOKAFKA
    and (cls.__name__, version) not in AIOKAFKA_IS_WRONG
]
# Versions that only aiokafka has. All of them must be compared.
DROPPED_BY_KAFKA = {
    "ProduceRequest": (0, 1, 2),
    "ProduceResponse": (0, 1, 2),
    "FetchRequest": (0, 1, 2, 3),
    "FetchResponse": (0, 1, 2, 3),
    "ListOffsetsRequest": (0,),
    "ListOffsetsResponse": (0,),
    "OffsetCommitRequest": (0, 1),
    "OffsetCommitResponse": (0, 1),
    "OffsetFetchRequest": (0,),
    "OffsetFetchResponse": (0,),
    "CreateTopicsRequest": (0, 1),
    "CreateTopicsResponse": (0, 1),
    "DeleteTopicsRequest": (0,),
    "DeleteTopicsResponse": (0,),
    "DescribeConfigsRequest": (0,),
    "DescribeConfigsResponse": (0,),
}


def _flat(schema: Schema) -> list[Any]:
    """Return the fields of a schema, with those of nested schemas in their places."""
    return [
        inner
        for kind in schema.fields
        for inner in (_flat(kind) if isinstance(kind, Schema) else [kind])
    ]


def _encode(value: Any, kind: Any, version: int) -> bytes:
    """Encode a value as aiokafka's types do. A struct of one field may be a bare value there."""
    if isinstance(value, list):
        length: bytes = Int32.encode(len(value))
        return length + b"".join(_encode(item, kind.array_of, version) for item in value)
    if not isinstance(value, Struct):
        encoded: bytes = kind.encode(value)
        return encoded
    held = [getattr(value, field.name) for field in value.fields if field.versions.has(version)]
    kinds = _flat(kind) if isinstance(kind, Schema) else [kind]
    return b"".join(_encode(item, inner, version) for item, inner in zip(held, kinds, strict=True))


@pytest.mark.parametrize(("cls", "version"), OLD, ids=version_id)
def test_old_versions_are_aiokafkas(cls: type[Message], version: int) -> None:
    witness = AIOKAFKA[cls.api_key, version, cls.__name__.endswith("Request")]
    for message in [cls(), *examples(cls, version, 6)]:
        assert message.encode(version) == _encode(message, witness.SCHEMA, version)


def test_every_version_that_kafka_dropped_has_a_witness() -> None:
    compared = {(cls.__name__, version) for cls, version in OLD}
    assert {
        (name, version) for name, versions in DROPPED_BY_KAFKA.items() for version in versions
    } <= compared


def _kafka_python_messages() -> dict[str, Any]:
    return {
        name: value
        for module in _modules(kafka.protocol)
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, ApiMessage) and value is not ApiMessage
    }


KAFKA_PYTHON = _kafka_python_messages()
FLEXIBLE = [
    (cls, version)
    for cls, version in EVERY_VERSION
    if cls.flexible.has(version)
    and cls.__name__ in KAFKA_PYTHON
    and version <= KAFKA_PYTHON[cls.__name__].max_version
]


@pytest.mark.parametrize(("cls", "version"), FLEXIBLE, ids=version_id)
def test_flexible_versions_are_kafka_pythons(cls: type[Message], version: int) -> None:
    witness = KAFKA_PYTHON[cls.__name__]
    for message in [cls(), *examples(cls, version, 6)]:
        if isinstance(message, ApiVersionsResponse):
            message.error_code = 0  # it reads an error as version 0
        body = message.encode(version)
        read = witness.decode(body, version=version, header=False)
        # its decoder leaves this unset without a header, and its encoder needs it
        read._header = None
        assert read.encode(version=version, header=False) == body


def test_the_witnesses_know_most_messages() -> None:
    assert len(OLD) > 80
    assert len(FLEXIBLE) > 100
    assert {cls.__name__ for cls, _ in FLEXIBLE} >= {
        "ProduceRequest",
        "FetchResponse",
        "MetadataResponse",
    }
    assert registry.request(0).__name__ in KAFKA_PYTHON
