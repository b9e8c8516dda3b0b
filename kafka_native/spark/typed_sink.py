"""Typed columns of sinks: the driver finds or registers the schemas, the tasks encode with them.

An `Encoding` has the whole schema and its framing. So the tasks ask no schema registry.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import DataType, StructField, StructType

from kafka_native._native.encode_core import ColumnInput
from kafka_native.codecs import EncodeError, SchemaError
from kafka_native.codecs.codec import FoundSchema
from kafka_native.codecs.column_encoder import ColumnEncoder
from kafka_native.spark.column_types import arrow_type, conform
from kafka_native.spark.errors import OptionError
from kafka_native.spark.typed_columns import (
    Decoding,
    TypedOptions,
    codec_type,
    registry_client,
    writer_schema,
)
from kafka_native.spark.worker_cache import WorkerCache
from kafka_native.spark.written_types import avro_type, written_type

__all__ = [
    "OTHERS",
    "Encoding",
    "Encodings",
    "PinnedCodec",
    "close_idle",
    "codecs_of",
    "find_encodings",
    "record_columns",
]

OTHERS: Final = ("key", "topic", "partition", "headers")
"""Columns that aren't part of an encoded value."""
_CODECS_MAX: Final = 16


@dataclass(frozen=True)
class Encoding:
    """How the keys or the values are encoded. It can be pickled."""

    name: str
    """``key`` or ``value``."""
    format: str
    message: str = ""
    """Protobuf: the full name of the message type; empty: the first one."""
    schema: Any = None
    """The schema as its codec takes it; None: values are written as their columns' types say."""
    references: tuple[tuple[str, str], ...] = ()
    """The names and texts of the schemas that it refers to, each behind those that it refers to."""
    prefix: bytes = b""
    """The framing of the schema registry; empty: records have none."""


@dataclass(frozen=True)
class Encodings:
    """The encoded columns of a sink. It can be pickled."""

    columns: tuple[Encoding, ...]

    def has(self, name: str) -> bool:
        """Whether the key or the value is encoded."""
        return any(each.name == name for each in self.columns)


def find_encodings(
    typed: TypedOptions, topic: str | None, schema: StructType, others: Sequence[str]
) -> Encodings:
    """Find or register the schemas, on the driver, and check that the columns fit.

    Without a schema in the options it is the latest version of the subject. If there is none, the
    schema is made from the columns and registered.

    :param topic: The topic of all rows; None: each row names its topic.
    :param others: The names of columns that aren't part of the value.
    :raises OptionError: The columns don't fit, or the registry refuses the schema.
    """
    client = registry_client(typed) if typed.registry else None
    try:
        return Encodings(
            tuple(
                _found(each, client, topic, _type_of(each.name, schema, others))
                for each in typed.decodings
            )
        )
    finally:
        if client is not None:
            client.close()


def record_columns(names: Sequence[str], others: Sequence[str]) -> list[str]:
    """The columns that are the fields of the value, in a frame without a column ``value``."""
    return [name for name in names if name not in others]


def _type_of(name: str, schema: StructType, others: Sequence[str]) -> DataType:
    if name in schema.fieldNames():
        return schema[name].dataType
    if name == "key":
        raise OptionError("key.format", "there is no column key: select what to encode AS key")
    wanted = record_columns(schema.fieldNames(), others)
    if not wanted:
        raise OptionError("value.format", "there is no column to encode: select some")
    return StructType([StructField(each, schema[each].dataType) for each in wanted])


def _found(decoding: Decoding, client: Any, topic: str | None, kind: DataType) -> Encoding:
    try:
        column_type = arrow_type(kind)
        if client is None:
            return _unregistered(decoding, topic, column_type)
        return _registered(decoding, client, topic, column_type)
    except SchemaError as error:
        raise OptionError(f"{decoding.name}.format", f"the columns don't fit: {error}") from None
    except (OptionError, ImportError, NotImplementedError):
        raise
    except Exception as error:
        raise OptionError(f"{decoding.name}.subject", f"no schema is found: {error}") from error


def _unregistered(decoding: Decoding, topic: str | None, column_type: pa.DataType) -> Encoding:
    """Check that the columns fit the schema of the options."""
    found = Encoding(decoding.name, decoding.format, decoding.message, writer_schema(decoding))
    codec = PinnedCodec(found)
    codec.encoder(topic, decoding.name, _description(codec.column(pa.nulls(0, column_type))))
    return found


def _registered(
    decoding: Decoding, client: Any, topic: str | None, column_type: pa.DataType
) -> Encoding:
    """Find or register the schema. It is registered only if the columns fit."""
    made, name = codec_type(decoding.format), decoding.name
    subject, options = decoding.subject or None, _message(decoding)
    schema = writer_schema(decoding)
    registered = None
    if decoding.version is not None:
        registered = client.get_version(subject, decoding.version)
        options["schema_id"] = registered.schema_id
    elif schema is None:
        registered = _latest(client, subject)
        options["use_latest_version"] = registered is not None
        if decoding.format == "protobuf" and registered is None:
            raise OptionError(
                f"{name}.schema",
                f"{subject} has no versions, and Protobuf makes no schema from columns: write "
                "the text of a .proto file, or the path of a file",
            )
    codec = made(client, subject=subject, schema=schema, **options)
    known = None
    if registered is not None:
        known = codec.complete(registered.schema, "the writer's schema")
    elif schema is not None:
        known = FoundSchema(schema, {}, "the writer's schema")
    column_type = written_type(decoding.format, column_type, avro_type(decoding.format, known))
    encoder = codec.encoder(topic, name, _description(pa.nulls(0, column_type)))
    number = int.from_bytes(encoder.prefix[1:5], "big")
    found = codec.complete(client.get_schema(number, subject, made.text_format), "")
    references = tuple(found.references.items())
    return Encoding(
        name, decoding.format, decoding.message, found.schema, references, encoder.prefix
    )


def _description(column: pa.Array) -> tuple[Any, ...]:
    found: tuple[Any, ...] = ColumnInput(column).description
    return found


def _message(column: Decoding | Encoding) -> dict[str, Any]:
    """The codec's argument for the message type."""
    return {"message": column.message} if column.message else {}


def _latest(client: Any, subject: str | None) -> Any:
    """The latest version of a subject; None: it has none."""
    from kafka_native.schema_registry import SchemaRegistryError

    try:
        return client.get_latest_version(subject)
    except SchemaRegistryError as error:
        if error.http_status_code != 404:
            raise
        return None


# --- in a task ---


class PinnedCodec:
    """Encodes a column with the schema that the driver has found, for `Producer.produce_arrow`."""

    def __init__(self, encoding: Encoding) -> None:
        self._format = encoding.format
        schema = encoding.schema
        if schema is not None:
            schema = FoundSchema(schema, dict(encoding.references), "the writer's schema")
        self._avro = avro_type(encoding.format, schema)
        self._codec = codec_type(encoding.format)(None, schema=schema, **_message(encoding))
        self._prefix = encoding.prefix

    def encoder(self, topic: str | None, field: str, column_type: tuple[Any, ...]) -> ColumnEncoder:
        """Return the encoder of a column.

        :raises SchemaError: The column's type doesn't fit the schema.
        """
        found: ColumnEncoder = self._codec.encoder(topic, field, column_type)
        found.prefix = self._prefix
        return found

    def column(self, array: pa.Array) -> pa.Array:
        """Return a column as the format encodes it, usually the column itself.

        :raises ValueError: A number is out of range.
        """
        return conform(array, written_type(self._format, array.type, self._avro))

    def encoded(
        self, topic: str | None, field: str, array: pa.Array
    ) -> tuple[pa.Array, list[EncodeError]]:
        """Encode a column: a binary column with a row for each row.

        Rows that don't fit the schema are nulls, and their errors are returned. Their paths begin
        with ``key`` or ``value``, as for `Producer.produce_arrow`.

        :raises ValueError: A number is out of range.
        """
        column = self.column(array)
        encoder = self.encoder(topic, field, _description(column))
        found, errors = encoder.encode_each(column)
        errors = [
            EncodeError(
                each.problem, row=each.row, path=f"{field}.{each.path}" if each.path else field
            )
            for each in errors
        ]
        return pa.chunked_array(found).combine_chunks(), errors


_codecs: Final = WorkerCache[Encodings, Mapping[str, PinnedCodec]](_CODECS_MAX)


def codecs_of(encodings: Encodings) -> Mapping[str, PinnedCodec]:
    """The codecs by column. The worker keeps them for its next tasks."""
    return _codecs.get(
        encodings, lambda: {each.name: PinnedCodec(each) for each in encodings.columns}
    )


def close_idle() -> None:
    """Forget the kept codecs, while no task writes."""
    _codecs.clear()
