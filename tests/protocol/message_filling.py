"""Messages filled with values, for the tests to encode."""

from __future__ import annotations

import random
from typing import Any, TypeVar

from kafka_native.protocol.registry import messages
from kafka_native.protocol.schema import Field, Message, Struct

S = TypeVar("S", bound=Struct)

_BITS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63, "uint16": 16, "uint32": 32}
_TEXTS = ("", "a", "topic-1", "žluťoučký kůň", "\U0001f980" * 3, "x" * 127, "y" * 128, "z" * 300)
EVERY_VERSION = [
    (cls, version) for cls in messages() for version in range(cls.min_version, cls.max_version + 1)
]


def version_id(value: Any) -> str:
    """Return test ids such as ``FetchRequest`` and ``v12``."""
    return value.__name__ if isinstance(value, type) else f"v{value}"


def filled(cls: type[S], version: int, pick: random.Random) -> S:
    """Return an instance with random values, including edge cases, in every field of the
    version.
    """
    values = {
        field.name: _value(field, version, pick)
        for field in cls.fields
        if field.versions.has(version)
    }
    return cls(**values)


def _value(field: Field, version: int, pick: random.Random) -> Any:
    if field.nullable.has(version) and pick.random() < 0.2:
        return None
    if field.kind == "array":
        return [
            _plain(field.item or "", field, version, pick)
            for _ in range(pick.choice((0, 1, 1, 2, 3)))
        ]
    return _plain(field.kind, field, version, pick)


def _plain(kind: str, field: Field, version: int, pick: random.Random) -> Any:
    if kind == "struct":
        assert field.struct is not None
        return filled(field.struct, version, pick)
    if kind == "bool":
        return pick.random() < 0.5
    if kind == "string":
        return pick.choice(_TEXTS)
    if kind == "uuid":
        return pick.choice((bytes(16), pick.randbytes(16)))
    if kind in ("bytes", "records"):
        return pick.randbytes(pick.choice((0, 1, 60, 127, 128, 400)))
    if kind == "float64":
        return pick.uniform(-1e300, 1e300)
    top = 1 << _BITS[kind]
    bottom = 0 if kind.startswith("u") else -top
    return pick.choice((0, 1, bottom, top - 1, pick.randrange(bottom, top)))


def as_dict(value: Any) -> Any:
    """Return structs as dicts of every field, recursively."""
    if isinstance(value, Struct):
        return {field.name: as_dict(getattr(value, field.name)) for field in value.fields}
    return [as_dict(item) for item in value] if isinstance(value, list) else value


def examples(cls: type[Message], version: int, count: int, seed: int = 0) -> list[Message]:
    """Return the same random messages in every run with the same seed."""
    pick = random.Random(f"{cls.__name__} {version} {seed or ''}".rstrip())
    return [filled(cls, version, pick) for _ in range(count)]
