"""Kafka's own message definitions from the kafka-clients jar, and an encoder that runs them.

The encoder shares no code with ``kafka_native.protocol``. It is short, slow and written only from
the definitions, so that tests can compare bytes for every message and version.
"""

from __future__ import annotations

import json
import re
import struct
import zipfile
from pathlib import Path
from typing import Any

from tests.broker import java

Definition = dict[str, Any]


class NoMaven(Exception):
    """There is no jar, and no Maven to fetch it."""


def find_jar() -> Path:
    """Return the kafka-clients jar, from those of the test brokers."""
    if why := java.missing():
        raise NoMaven(f"kafka-clients' definitions are fetched by Maven: {why}")
    return java.jars() / f"kafka-clients-{java.KAFKA_VERSION}.jar"


def load(jar: Path) -> dict[str, Definition]:
    """Return every definition in the jar by its name."""
    found = {}
    with zipfile.ZipFile(jar) as archive:
        for name in archive.namelist():
            if name.startswith("common/message/") and name.endswith(".json"):
                definition = json.loads(_without_comments(archive.read(name).decode()))
                found[definition["name"]] = definition
    return found


def _without_comments(text: str) -> str:
    # A string, or a comment outside of one.
    return re.sub(r'("(?:[^"\\]|\\.)*")|//[^\n]*', lambda match: match.group(1) or "", text)


def in_range(text: str, version: int) -> bool:
    """Return whether a version is in a range of the definitions' syntax."""
    if text == "none":
        return False
    if text.endswith("+"):
        return version >= int(text[:-1])
    first, _, last = text.partition("-")
    return int(first) <= version <= int(last or first)


def snake(name: str) -> str:
    """Return ``V3AndBelowTopics`` as ``v3_and_below_topics``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def children(definition: Definition, field: Definition) -> list[Definition] | None:
    """Return the fields of a struct or of an array's structs, or None for a plain type."""
    kind = field["type"].removeprefix("[]")
    if not kind[0].isupper():
        return None
    common = {entry["name"]: entry["fields"] for entry in definition.get("commonStructs", [])}
    fields: list[Definition] = field["fields"] if "fields" in field else common[kind]
    return fields


def default(definition: Definition, field: Definition) -> Any:
    """Return the default value of a field, with dicts for structs."""
    text, kind = field.get("default"), field["type"]
    if text == "null" or kind == "records":
        return None
    if kind.startswith("[]"):
        return []
    if kind[0].isupper():
        fields = children(definition, field) or []
        return {snake(child["name"]): default(definition, child) for child in fields}
    if kind == "string":
        return text or ""
    if kind == "bytes":
        return b""
    if kind == "uuid":
        return bytes(16)
    if kind == "bool":
        return str(text).lower() == "true"
    if kind == "float64":
        return float(text or 0)
    return int(str(text or 0), 0)


_FIXED = {
    "bool": ">?",
    "int8": ">b",
    "int16": ">h",
    "int32": ">i",
    "int64": ">q",
    "uint16": ">H",
    "float64": ">d",
}


def encode(definition: Definition, version: int, values: dict[str, Any]) -> bytes:
    """Return a body of this version.

    ``values`` has an entry for every field, with dicts for structs.
    """
    flexible = in_range(definition["flexibleVersions"], version)
    return _encode_fields(definition, definition["fields"], version, flexible, values)


def _encode_fields(
    definition: Definition,
    fields: list[Definition],
    version: int,
    flexible: bool,
    values: dict[str, Any],
) -> bytes:
    body, tagged = b"", {}
    for field in fields:
        if not in_range(field["versions"], version):
            continue
        value = values[snake(field["name"])]
        compact = flexible and in_range(field.get("flexibleVersions", "0+"), version)
        if "tag" in field and in_range(field["taggedVersions"], version):
            if value != default(definition, field):
                tagged[field["tag"]] = _encode_value(definition, field, version, compact, value)
        else:
            body += _encode_value(definition, field, version, compact, value)
    if flexible:
        body += _varint(len(tagged))
        for tag in sorted(tagged):
            body += _varint(tag) + _varint(len(tagged[tag])) + tagged[tag]
    return body


def _encode_value(
    definition: Definition, field: Definition, version: int, compact: bool, value: Any
) -> bytes:
    kind = field["type"]
    if value is None and not in_range(field.get("nullableVersions", "none"), version):
        raise ValueError(f"null {field['name']} in version {version}")
    if kind.startswith("[]"):
        if value is None:
            return b"\0" if compact else b"\xff\xff\xff\xff"
        element = {**field, "type": kind[2:], "nullableVersions": "none"}
        length = _varint(len(value) + 1) if compact else struct.pack(">i", len(value))
        return length + b"".join(
            _encode_value(definition, element, version, compact, item) for item in value
        )
    if kind in _FIXED:
        return struct.pack(_FIXED[kind], value)
    if kind == "uuid":
        return bytes(value)
    if kind in ("string", "bytes", "records"):
        wide = ">h" if kind == "string" else ">i"
        if value is None:
            return b"\0" if compact else struct.pack(wide, -1)
        raw = value.encode() if kind == "string" else bytes(value)
        return (_varint(len(raw) + 1) if compact else struct.pack(wide, len(raw))) + raw
    fields = children(definition, field)
    assert fields is not None
    nullable = in_range(field.get("nullableVersions", "none"), version)
    if value is None:
        return b"\xff"
    body = _encode_fields(definition, fields, version, compact, value)
    return b"\x01" + body if nullable else body


def _varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])
