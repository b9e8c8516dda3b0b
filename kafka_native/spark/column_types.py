"""The types of decoded columns in Spark, and the conversion of Arrow columns to them.

PySpark takes an Arrow batch only if its schema is exactly the one that it makes from the Spark
types. So decoded columns get other field names and nullability, and some get another type. Most
conversions take no copy.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql import types as spark_types
from pyspark.sql.types import DataType, StructField, StructType

from kafka_native.codecs.errors import SchemaError

__all__ = ["BASE_TYPES", "HEADERS", "SparkColumn", "arrow_type", "conform", "spark_column"]

HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
"""The type of a column of headers."""
DECIMAL_DIGITS_MAX: Final = 38
"""The digits of Spark's decimals."""


@dataclass(frozen=True)
class SparkColumn:
    """A column's type: Spark's, and the Arrow type that PySpark makes from it."""

    spark: DataType
    arrow: pa.DataType


_LEAVES: Final[Mapping[str, SparkColumn]] = {
    "bool": SparkColumn(spark_types.BooleanType(), pa.bool_()),
    "int8": SparkColumn(spark_types.ByteType(), pa.int8()),
    "int16": SparkColumn(spark_types.ShortType(), pa.int16()),
    "int32": SparkColumn(spark_types.IntegerType(), pa.int32()),
    "int64": SparkColumn(spark_types.LongType(), pa.int64()),
    "float": SparkColumn(spark_types.FloatType(), pa.float32()),
    "double": SparkColumn(spark_types.DoubleType(), pa.float64()),
    "string": SparkColumn(spark_types.StringType(), pa.string()),
    "binary": SparkColumn(spark_types.BinaryType(), pa.binary()),
    "date": SparkColumn(spark_types.DateType(), pa.date32()),
    "timestamp": SparkColumn(spark_types.TimestampType(), pa.timestamp("us", tz="UTC")),
    "local timestamp": SparkColumn(spark_types.TimestampNTZType(), pa.timestamp("us")),
    "duration": SparkColumn(spark_types.DayTimeIntervalType(), pa.duration("us")),
    "null": SparkColumn(spark_types.NullType(), pa.null()),
}

_HEADER: Final = [("key", _LEAVES["string"]), ("value", _LEAVES["binary"])]
BASE_TYPES: Final[Mapping[str, SparkColumn]] = {
    "binary": _LEAVES["binary"],
    "string": _LEAVES["string"],
    "int": _LEAVES["int32"],
    "bigint": _LEAVES["int64"],
    "timestamp": _LEAVES["timestamp"],
    "array<struct<key:string,value:binary>>": SparkColumn(
        spark_types.ArrayType(
            StructType([StructField(name, kind.spark) for name, kind in _HEADER])
        ),
        pa.list_(pa.field("element", pa.struct([(name, kind.arrow) for name, kind in _HEADER]))),
    ),
}
"""The types of the source's other columns, by their names in Spark."""

_LEAF_RULES: Final[tuple[tuple[Callable[[pa.DataType], bool], str], ...]] = (
    (pa.types.is_boolean, "bool"),
    (pa.types.is_int8, "int8"),
    (lambda kind: pa.types.is_int16(kind) or pa.types.is_uint8(kind), "int16"),
    (
        lambda kind: (
            pa.types.is_int32(kind) or pa.types.is_uint16(kind) or pa.types.is_time32(kind)
        ),
        "int32",
    ),
    (
        lambda kind: (
            pa.types.is_int64(kind) or pa.types.is_uint32(kind) or pa.types.is_time64(kind)
        ),
        "int64",
    ),
    (lambda kind: pa.types.is_float16(kind) or pa.types.is_float32(kind), "float"),
    (pa.types.is_float64, "double"),
    (lambda kind: pa.types.is_string(kind) or pa.types.is_dictionary(kind), "string"),
    (lambda kind: pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind), "binary"),
    (pa.types.is_date32, "date"),
    (lambda kind: pa.types.is_timestamp(kind) and kind.unit == "ns", "int64"),
    (lambda kind: pa.types.is_timestamp(kind) and kind.tz is not None, "timestamp"),
    (pa.types.is_timestamp, "local timestamp"),
    (pa.types.is_duration, "duration"),
    (pa.types.is_null, "null"),
)
"""Unsigned numbers become the next larger type. Times become numbers of their unit,
because Spark refuses its type TIME unless a setting allows it. Nanoseconds since 1970 become
numbers, because Spark's timestamps have microseconds."""


def spark_column(kind: pa.DataType, unions: Collection[str] = (), path: str = "") -> SparkColumn:
    """Return the type of a decoded column in Spark. All fields and items are nullable.

    :param kind: The decoder's Arrow type.
    :param unions: The paths of structs in place of unions. Their fields become ``member0`` and so
        on. A path has ``.`` before a field, ``[]`` for items, and ``|`` before a union's branch.
    :param path: The path of the column.
    :raises SchemaError: Spark has no such type.
    """
    if pa.types.is_struct(kind):
        return _struct(kind, unions, path)
    if pa.types.is_map(kind):
        item = spark_column(kind.item_type, unions, f"{path}[]")
        key = spark_column(kind.key_type, unions, path)
        return SparkColumn(
            spark_types.MapType(key.spark, item.spark),
            pa.map_(pa.field("key", key.arrow, nullable=False), pa.field("value", item.arrow)),
        )
    if pa.types.is_list(kind):
        item = spark_column(kind.value_type, unions, f"{path}[]")
        return SparkColumn(
            spark_types.ArrayType(item.spark), pa.list_(pa.field("element", item.arrow))
        )
    if pa.types.is_uint64(kind):
        return _decimal(20, 0)
    if pa.types.is_decimal(kind):
        if kind.precision > DECIMAL_DIGITS_MAX:
            raise SchemaError(
                f"a decimal of {kind.precision} digits: Spark has {DECIMAL_DIGITS_MAX} at most",
                _shown(path),
            )
        return _decimal(kind.precision, kind.scale)
    for is_kind, name in _LEAF_RULES:
        if is_kind(kind):
            return _LEAVES[name]
    raise SchemaError(f"Spark has no type for {kind}", _shown(path))


def _struct(kind: pa.DataType, unions: Collection[str], path: str) -> SparkColumn:
    is_union = path in unions
    fields, arrow = [], []
    for number in range(kind.num_fields):
        child = kind.field(number)
        below = f"{path}|{child.name}" if is_union else f"{path}.{child.name}".lstrip(".")
        column = spark_column(child.type, unions, below)
        name = f"member{number}" if is_union else child.name
        fields.append(StructField(name, column.spark))
        arrow.append(pa.field(name, column.arrow))
    if not fields:
        raise SchemaError("a record without fields has no column", _shown(path))
    return SparkColumn(StructType(fields), pa.struct(arrow))


def arrow_type(kind: DataType, path: str = "") -> pa.DataType:
    """Return the Arrow type of a type of Spark's.

    :raises SchemaError: JSON records have no such values.
    """
    if isinstance(kind, StructType):
        fields = [
            (each.name, arrow_type(each.dataType, f"{path}.{each.name}".lstrip(".")))
            for each in kind.fields
        ]
        return pa.struct(fields)
    if isinstance(kind, spark_types.ArrayType):
        return pa.list_(arrow_type(kind.elementType, f"{path}[]"))
    if isinstance(kind, spark_types.MapType):
        return pa.map_(arrow_type(kind.keyType, path), arrow_type(kind.valueType, f"{path}[]"))
    if isinstance(kind, spark_types.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    for leaf in _LEAVES.values():
        if type(leaf.spark) is type(kind):
            return leaf.arrow
    raise SchemaError(f"no column can be {kind.simpleString()}", path)


def _decimal(precision: int, scale: int) -> SparkColumn:
    return SparkColumn(spark_types.DecimalType(precision, scale), pa.decimal128(precision, scale))


def _shown(path: str) -> str:
    return path.replace("|", ".")


# --- columns ---


def conform(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Return a decoded column with the Arrow type of its `SparkColumn`.

    :raises ValueError: A value doesn't fit, such as a timestamp beyond Spark's range.
    """
    kind = array.type
    if kind == target:
        return array
    if pa.types.is_struct(kind):
        children = [
            conform(array.field(number), target.field(number).type)
            for number in range(kind.num_fields)
        ]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(target), mask=mask)
    if pa.types.is_map(kind):
        pairs = [conform(array.keys, target.key_type), conform(array.items, target.item_type)]
        entries = pa.StructArray.from_arrays(pairs, fields=[target.key_field, target.item_field])
        return _with_child(array, target, entries)
    if pa.types.is_list(kind):
        return _with_child(array, target, conform(array.values, target.value_type))
    if pa.types.is_dictionary(kind):
        array = array.dictionary_decode()
    return array.cast(target)


def _with_child(array: pa.Array, target: pa.DataType, child: pa.Array) -> pa.Array:
    """A list or map with another child. Its offsets are shared."""
    return pa.Array.from_buffers(
        target, len(array), array.buffers()[:2], offset=array.offset, children=[child]
    )
