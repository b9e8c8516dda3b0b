"""The functions ``variant()`` and ``variants.*`` of rules.

A variant is a Protobuf message ``confluent.type.Variant``, or an Avro record of the two byte
fields ``metadata`` and ``value``. A part that doesn't exist is null in CEL. A part that is null is
a variant, for which ``variants.isNull()`` is true.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from celpy import celtypes

from kafka_native.schema_registry.rules.cel.calls import kind_of, returning_errors
from kafka_native.schema_registry.rules.cel.values import VARIANT, MessageMap, to_cel
from kafka_native.schema_registry.variants import Variant, VariantError, parse_json

SCALARS: Final = ("string", "int", "double", "boolean", "decimal", "timestamp", "bytes")
"""The kinds that `variants.as` returns. CEL has no values of the others."""
OTHERS: Final = ("object", "array", "null", "date", "time", "uuid")
INDEX_MAX: Final = 2**31 - 1
SEGMENT: Final = re.compile(
    r"""\.([^\W\d]\w*)|\[(\d{1,10})\]|\["((?:[^"\\]|\\["\\])*)"\]|\['((?:[^'\\]|\\['\\])*)'\]"""
)


def to_variant(value: Any) -> Variant | None:
    """Return a value of CEL as a variant, or None for null and for a variant that isn't set.

    :raises ValueError: The value is no variant.
    """
    if value is None or isinstance(value, Variant):
        return value
    if isinstance(value, MessageMap) and value.message.DESCRIPTOR.full_name == VARIANT:
        return _of_bytes(value.message.value, value.message.metadata)
    if isinstance(value, dict) and not isinstance(value, MessageMap):
        data, metadata = (dict.get(value, name) for name in ("value", "metadata"))
        if isinstance(data, bytes) and isinstance(metadata, bytes):
            return _of_bytes(bytes(data), bytes(metadata))
    advice = "; variants.parseJson() reads a text" if isinstance(value, str) else ""
    raise ValueError(f"{kind_of(value)} is no variant{advice}")


def _of_bytes(value: bytes, metadata: bytes) -> Variant | None:
    return Variant(metadata, value) if metadata else None


def _variant(value: Any, *metadata: Any) -> Variant | None:
    if not metadata:
        return to_variant(value)
    [given] = metadata
    if not isinstance(value, bytes) or not isinstance(given, bytes):
        raise ValueError("two values of bytes are expected")
    return Variant(bytes(given), bytes(value))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"a string is expected, not {kind_of(value)}")
    return str(value)


def _try_parse_json(text: Any) -> Variant | None:
    checked = _text(text)
    try:
        return parse_json(checked)
    except VariantError:
        return None


def _kind(value: Any) -> Any:
    found = to_variant(value)
    return None if found is None else celtypes.StringType(found.kind)


def _is_null(value: Any) -> celtypes.BoolType:
    try:
        found = to_variant(value)
        return celtypes.BoolType(found is not None and found.kind == "null")
    except ValueError:
        return celtypes.BoolType(False)


def _field(value: Any, name: Any) -> Variant | None:
    wanted = _text(name)
    found = to_variant(value)
    return None if found is None else found.field(wanted)


def _index(value: Any, index: Any) -> Variant | None:
    if not isinstance(index, int) or isinstance(index, (celtypes.BoolType, celtypes.UintType)):
        raise ValueError(f"an int is expected, not {kind_of(index)}")
    found = to_variant(value)
    return None if found is None else found.item(int(index))


def _path(value: Any, path: Any) -> Variant | None:
    segments = parsed_path(_text(path))
    found = to_variant(value)
    for segment in segments:
        if found is not None:
            found = found.item(segment) if isinstance(segment, int) else found.field(segment)
    return found


@lru_cache(maxsize=1000)
def parsed_path(path: str) -> tuple[str | int, ...]:
    """Return the names and indices of a path such as ``$.lines[0]["unit price"]``.

    :raises ValueError: The path has another form.
    """
    found: list[str | int] = []
    place = 1
    while path.startswith("$") and place < len(path):
        match = SEGMENT.match(path, place)
        if match is None or int(match[2] or 0) > INDEX_MAX:
            break
        place = match.end()
        if match[2] is not None:
            found.append(int(match[2]))
        else:
            quoted = match[3] if match[3] is not None else match[4]
            found.append(match[1] or re.sub(r"\\(.)", r"\1", quoted))
    if not path.startswith("$") or place < len(path):
        raise ValueError(
            f"the path {path!r} isn't like $.name[0]['other name'], from character {place} on"
        )
    return tuple(found)


def _as(value: Any, kind: Any, *, or_null: bool = False) -> Any:
    wanted = _text(kind)
    found = to_variant(value)
    if found is None:
        return None
    if wanted in OTHERS:
        raise ValueError(f"CEL has no values of the kind {wanted}; the kinds are {_known()}")
    try:
        if wanted == found.kind:
            return to_cel(found.scalar())
        if wanted not in SCALARS:
            raise ValueError(f"there is no kind {wanted!r}, only {_known()}")
        raise ValueError(f"the variant is of the kind {found.kind}, not {wanted}")
    except ValueError:
        if or_null:
            return None
        raise


def _known() -> str:
    return ", ".join(SCALARS)


def _to_json(value: Any) -> Any:
    found = to_variant(value)
    return None if found is None else celtypes.StringType(found.to_json())


_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "variant": _variant,
    "variants.parseJson": lambda text: parse_json(_text(text)),
    "variants.tryParseJson": _try_parse_json,
    "variants.type": _kind,
    "variants.isNull": _is_null,
    "variants.field": _field,
    "variants.index": _index,
    "variants.path": _path,
    "variants.as": lambda value, kind: _as(value, kind),
    "variants.tryAs": lambda value, kind: _as(value, kind, or_null=True),
    "variants.toJson": _to_json,
}
FUNCTIONS: Final = {name: returning_errors(name, call) for name, call in _FUNCTIONS.items()}
