"""The types of columns as formats write them: for Spark's types that stand for another type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from kafka_native.codecs.avro_schema import AvroType, parse_schema
from kafka_native.codecs.codec import FoundSchema

__all__ = ["avro_type", "written_type"]

INT64_DIGITS: Final = 18
"""The digits that every int64 can have."""
UINT64_DIGITS: Final = 20
"""The digits of the largest uint64."""
_AVRO_NUMBERS: Final[Mapping[tuple[str | None, str], pa.DataType]] = {
    ("time-millis", "int32"): pa.time32("ms"),
    ("time-micros", "int64"): pa.time64("us"),
    ("timestamp-nanos", "int64"): pa.timestamp("ns", "UTC"),
    ("local-timestamp-nanos", "int64"): pa.timestamp("ns"),
}
"""Avro's logical types that are numbers in Spark, see `spark_column`."""


def written_type(format_: str, kind: pa.DataType, avro: AvroType | None) -> pa.DataType:
    """Return the type that a column is converted to before it is encoded, usually its own.

    It undoes what `spark_column` does for the source:

    - Protobuf has no decimals. Those without a fraction become integers, such as uint64.
    - Numbers become Avro's times and timestamps with nanoseconds.
    - Structs of ``member0`` and so on become Avro's unions.

    :param avro: The schema; None: another format, or the schema is made from the columns.
    """
    if format_ == "protobuf":
        return _whole_decimals(kind)
    return kind if avro is None else _as_avro(kind, avro)


def avro_type(format_: str, found: FoundSchema | None) -> AvroType | None:
    """Return the parsed schema for `written_type`.

    :raises SchemaError: It is malformed.
    """
    if format_ != "avro" or found is None:
        return None
    return parse_schema(found.schema, found.references.values())


def _whole_decimals(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_decimal(kind) and kind.scale == 0 and kind.precision <= UINT64_DIGITS:
        return pa.int64() if kind.precision <= INT64_DIGITS else pa.uint64()
    return _with_children(kind, lambda _, child: _whole_decimals(child))


def _as_avro(kind: pa.DataType, avro: AvroType) -> pa.DataType:
    if avro.kind == "union":
        return _as_union(kind, [each for each in avro.branches if each.kind != "null"])
    number = _AVRO_NUMBERS.get((avro.logical, str(kind)))
    if number is not None:
        return number
    fields = {each.name: each.type for each in avro.fields}

    def child_type(name: str | None, child: pa.DataType) -> pa.DataType:
        below = avro.item if name is None else fields.get(name)
        return child if below is None else _as_avro(child, below)

    return _with_children(kind, child_type)


def _as_union(kind: pa.DataType, branches: list[AvroType]) -> pa.DataType:
    if len(branches) == 1:
        return _as_avro(kind, branches[0])
    members = [f"member{number}" for number in range(len(branches))]
    if not pa.types.is_struct(kind) or [each.name for each in kind] != members:
        return kind
    return pa.struct(
        [
            pa.field(branch.label, _as_avro(child.type, branch))
            for branch, child in zip(branches, kind, strict=True)
        ]
    )


def _with_children(kind: pa.DataType, child_type: Any) -> pa.DataType:
    """A nested type with other children.

    ``child_type`` gets the name of a struct's field, or None for items, and the child's type.
    """
    if pa.types.is_struct(kind):
        return pa.struct([each.with_type(child_type(each.name, each.type)) for each in kind])
    if pa.types.is_map(kind):
        item = kind.item_field
        return pa.map_(kind.key_field, item.with_type(child_type(None, item.type)))
    if pa.types.is_list(kind):
        item = kind.value_field
        return pa.list_(item.with_type(child_type(None, item.type)))
    return kind
