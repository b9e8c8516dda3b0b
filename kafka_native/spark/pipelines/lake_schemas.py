"""The columns of a lake's files, and how they may change.

The files of a topic may get further columns and fields, as the schemas of its records do. A column
never changes its type. So all files can be read together, with nulls in place of what a file lacks.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

from kafka_native.spark.column_types import HEADERS
from kafka_native.spark.pipelines.session import PipelineError

__all__ = [
    "COLUMNS",
    "NAMES",
    "SCHEMA",
    "merged",
    "packed",
    "refused_changes",
    "schema_id",
    "unpacked",
]

COLUMNS: Final = ("partition", "offset", "timestamp", "timestampType", "key", "value", "headers")
"""The source's columns in a lake, in the order of `SCHEMA`. The folder's name has the topic."""

NAMES: Final[Mapping[str, str]] = {"timestampType": "timestamp_type"}
"""The names in a lake of those source columns that have another one there."""

SCHEMA: Final = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestamp_type", pa.int32()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS),
    ]
)
"""The columns of files whose keys and values aren't decoded."""


def schema_id(schema: pa.Schema) -> str:
    """The name of columns in manifests; empty: they are those of `SCHEMA`."""
    if schema.equals(SCHEMA):
        return ""
    described = json.dumps([[each.name, str(each.type)] for each in schema])
    return hashlib.sha256(described.encode()).hexdigest()[:16]


def packed(schema: pa.Schema) -> dict[str, Any]:
    """The columns as JSON: as texts for people, and exactly."""
    return {
        "columns": {each.name: str(each.type) for each in schema},
        "arrow": base64.b64encode(schema.serialize().to_pybytes()).decode(),
    }


def unpacked(content: Mapping[str, Any], name: str) -> pa.Schema:
    """Parse the result of `packed`.

    :param name: The name of the file, for the error.
    :raises PipelineError: It is damaged.
    """
    try:
        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(content["arrow"])))
    except (KeyError, TypeError, ValueError, OSError) as error:
        raise PipelineError(f"{name} is damaged: {type(error).__name__} {error}") from error


def refused_changes(before: pa.Schema, after: pa.Schema) -> list[str]:
    """The columns and fields that go or change their type, as texts. Added ones are allowed."""
    return list(_refused(pa.struct(list(before)), pa.struct(list(after)), ""))


def _refused(before: pa.DataType, after: pa.DataType, path: str) -> Iterator[str]:
    if before == after:
        return
    if pa.types.is_struct(before) and pa.types.is_struct(after):
        for each in before:
            below = f"{path}.{each.name}".lstrip(".")
            number = after.get_field_index(each.name)
            if number < 0:
                yield f"{below} goes"
            else:
                yield from _refused(each.type, after.field(number).type, below)
    elif pa.types.is_map(before) and pa.types.is_map(after):
        yield from _refused(before.key_type, after.key_type, f"{path}[key]")
        yield from _refused(before.item_type, after.item_type, f"{path}[]")
    elif pa.types.is_list(before) and pa.types.is_list(after):
        yield from _refused(before.value_type, after.value_type, f"{path}[]")
    else:
        yield f"{path} changes from {before} to {after}"


def merged(schemas: Iterable[pa.Schema]) -> pa.Schema:
    """The columns and fields of all schemas.

    :raises PipelineError: The types of a column differ: it belongs to several topics.
    """
    found: pa.DataType | None = None
    for each in schemas:
        columns = pa.struct(list(each))
        found = columns if found is None else _merged(found, columns, "")
    if found is None:
        raise ValueError("there are no schemas")
    return pa.schema(list(found))


def _merged(one: pa.DataType, other: pa.DataType, path: str) -> pa.DataType:
    if one == other:
        return one
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        fields = {each.name: each.type for each in one}
        for each in other:
            kind = fields.get(each.name, each.type)
            fields[each.name] = _merged(kind, each.type, f"{path}.{each.name}".lstrip("."))
        return pa.struct(list(fields.items()))
    if pa.types.is_map(one) and pa.types.is_map(other) and one.key_type == other.key_type:
        item = _merged(one.item_type, other.item_type, f"{path}[]")
        return pa.map_(one.key_field, one.item_field.with_type(item))
    if pa.types.is_list(one) and pa.types.is_list(other):
        item = _merged(one.value_type, other.value_type, f"{path}[]")
        return pa.list_(one.value_field.with_type(item))
    raise PipelineError(f"the files have no common columns: {path} is {one} or {other}")
