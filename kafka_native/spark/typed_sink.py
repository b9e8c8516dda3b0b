"""Typed columns of sinks: the driver finds or registers the schemas, the tasks encode with them."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import DataType, StructField, StructType

from kafka_native._native.encode_core import ColumnInput
from kafka_native.codecs import SchemaError
from kafka_native.spark.column_types import arrow_type
from kafka_native.spark.errors import OptionError
from kafka_native.spark.typed_columns import Decoding, TypedOptions, codec_type, registry_client

__all__ = ["Encoding", "Encodings", "close_idle", "codecs_of", "find_encodings"]

_CODECS_MAX: Final = 16


@dataclass(frozen=True)
class Encoding:
    """How the keys or the values are encoded. It can be pickled."""

    name: str
    """``key`` or ``value``."""
    format: str
    subject: str | None
    """None: the default one of the topic."""
    schema: Any
    """The registered Schema; without a registry the schema's text."""
    message: str = ""


@dataclass(frozen=True)
class Encodings:
    """The encoded columns of a sink. It can be pickled. Its repr hides secrets."""

    columns: tuple[Encoding, ...]
    typed: TypedOptions = field(repr=False)

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
            ),
            typed,
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
    made: Any = codec_type(decoding.format)
    if not hasattr(made, "encoder"):
        raise OptionError(f"{decoding.name}.format", f"{decoding.format} can't be written")
    subject = decoding.subject or None
    schema: Any = decoding.schema or None
    options: dict[str, Any] = {"message": decoding.message} if decoding.message else {}
    try:
        description = ColumnInput(pa.nulls(0, arrow_type(kind))).description
        if client is None:
            made(None, schema=schema, **options).encoder(topic, decoding.name, description)
            return Encoding(decoding.name, decoding.format, None, schema, decoding.message)
        if decoding.version is not None:
            schema = client.get_version(subject, decoding.version).schema
        elif schema is None:
            options["use_latest_version"] = _has_versions(client, subject)
        codec = made(client, subject=subject, schema=schema, **options)
        encoder = codec.encoder(topic, decoding.name, description)
        number = int.from_bytes(encoder.prefix[1:5], "big")
        registered = client.get_schema(number)
    except SchemaError as error:
        raise OptionError(f"{decoding.name}.format", f"the columns don't fit: {error}") from None
    except OptionError:
        raise
    except Exception as error:
        raise OptionError(f"{decoding.name}.subject", f"no schema is found: {error}") from error
    return Encoding(decoding.name, decoding.format, subject, registered, decoding.message)


def _has_versions(client: Any, subject: str | None) -> bool:
    from kafka_native.schema_registry import SchemaRegistryError

    try:
        client.get_latest_version(subject)
    except SchemaRegistryError as error:
        if error.http_status_code != 404:
            raise
        return False
    return True


# --- in a task ---


_codecs: Final[list[tuple[Encodings, Mapping[str, Any], Any]]] = []
"""Of the last sinks: the options, the codecs by column, and their registry client."""
_lock = threading.Lock()
"""Guards _codecs."""


def _forget() -> None:
    """Forget the codecs in a forked child: their connections belong to the parent."""
    global _lock
    _lock = threading.Lock()
    _codecs.clear()


os.register_at_fork(after_in_child=_forget)


def codecs_of(encodings: Encodings) -> Mapping[str, Any]:
    """The codecs by column. The worker keeps them for its next tasks."""
    with _lock:
        for known, codecs, _ in _codecs:
            if known == encodings:
                return codecs
        while len(_codecs) >= _CODECS_MAX:
            _close(_codecs.pop(0)[2])
        client = registry_client(encodings.typed) if encodings.typed.registry else None
        made = {each.name: _codec(each, client) for each in encodings.columns}
        _codecs.append((encodings, made, client))
        return made


def _codec(encoding: Encoding, client: Any) -> Any:
    options: dict[str, Any] = {"message": encoding.message} if encoding.message else {}
    if client is not None:
        options["auto_register"] = False
    return codec_type(encoding.format)(
        client, subject=encoding.subject, schema=encoding.schema, **options
    )


def _close(client: Any) -> None:
    if client is not None:
        client.close()


def close_idle() -> None:
    """Close the kept codecs, while no task writes."""
    with _lock:
        for _, _, client in _codecs:
            _close(client)
        _codecs.clear()
