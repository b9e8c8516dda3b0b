"""Typed columns: the options ``value.format`` and ``key.format``, and the schemas that they find.

The driver asks the schema registry once for the reader's schema (`resolve`). The result,
`TypedColumns`, travels to the tasks. So all tasks of a query have the same columns, and no task
asks for the latest version. A Python worker keeps the codecs for its next tasks (`codecs_of`), with
the writers' schemas that they have looked up.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import pyarrow as pa
from pyspark.sql.types import StructField, StructType

from kafka_native.codecs import Codec, SchemaError
from kafka_native.codecs.avro_schema import AvroType, parse_schema
from kafka_native.codecs.codec import FoundSchema
from kafka_native.spark.column_types import (
    BASE_TYPES,
    SparkColumn,
    arrow_type,
    spark_column,
)
from kafka_native.spark.columns import COLUMNS
from kafka_native.spark.errors import OptionError
from kafka_native.spark.worker_cache import WorkerCache

__all__ = [
    "FORMAT_NAMES",
    "NAMES",
    "REGISTRY_PREFIX",
    "Decoding",
    "TypedColumns",
    "TypedOptions",
    "close_idle",
    "codec_type",
    "codecs_of",
    "parse_typed",
    "registry_client",
    "resolve",
    "writer_schema",
]

Mode = Literal["FAILFAST", "PERMISSIVE", "DROPMALFORMED"]

REGISTRY_PREFIX: Final = "schema.registry."
"""The prefix of options that are properties of the schema registry's client."""
FORMATS: Final = ("avro", "protobuf", "json")
MODES: Final[tuple[Mode, ...]] = ("FAILFAST", "PERMISSIVE", "DROPMALFORMED")
DEFAULT_MODES: Final[Mapping[str, Mode]] = {
    "avro": "FAILFAST",
    "protobuf": "FAILFAST",
    "json": "PERMISSIVE",
}
"""The defaults of Spark's from_avro, from_protobuf and from_json."""
FIELDS: Final = ("value", "key")
_PARTS: Final = ("format", "subject", "schema", "message", "schema.upgrade")
FORMAT_NAMES: Final = tuple(f"{name}.{part}" for name in FIELDS for part in _PARTS)
"""The options of the formats and their schemas, of sources and sinks."""
NAMES: Final = (
    *FORMAT_NAMES,
    "mode",
    "columnNameOfCorruptRecord",
    "flatten",
)
"""The options of typed columns besides ``schema.registry.*``."""

_NUMBERS: Final = frozenset(
    {
        "cache.capacity",
        "cache.latest.ttl.sec",
        "max.retries",
        "retries.max.wait.ms",
        "retries.wait.ms",
        "timeout",
    }
)
"""Properties of the registry's client that are numbers. Spark passes texts."""
_AVRO_LOGICAL_TYPES: Final = frozenset(
    {
        "date",
        "decimal",
        "local-timestamp-micros",
        "local-timestamp-millis",
        "timestamp-micros",
        "timestamp-millis",
    }
)
"""Avro's logical types that Spark has. Others count as the type below, as in from_avro."""
_JSON_FORMATS: Final = frozenset({"time", "uuid"})
"""Formats of JSON strings that stay strings in Spark."""
_CODECS_MAX: Final = 16


@dataclass(frozen=True)
class Decoding:
    """How the keys or the values are decoded, as the options say."""

    name: str
    """``key`` or ``value``."""
    format: str
    """One of `FORMATS`."""
    subject: str = ""
    """The subject of the reader's schema; empty: there is a schema."""
    version: int | None = None
    """The version of the subject; None: the latest one."""
    schema: str | bytes = ""
    """The reader's schema itself, or the content of its file."""
    message: str = ""
    """Protobuf: the full name of the message type; empty: the first one."""
    is_upgrade: bool = False
    """Whether a stream moves to the latest version of the subject."""
    fields: tuple[str, ...] | None = None
    """Only these fields are decoded; None: all."""


@dataclass(frozen=True)
class TypedOptions:
    """The options of typed columns. It can be pickled. Its repr hides secrets."""

    decodings: tuple[Decoding, ...]
    registry: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """The properties of the schema registry's client."""
    mode: Mode = "FAILFAST"
    corrupt_name: str = "_corrupt_record"
    """The column of records that don't decode, with ``PERMISSIVE``."""
    is_flat: bool = False
    """Whether the fields of decoded records are columns of their own."""

    @property
    def error_columns(self) -> dict[str, tuple[str, str]]:
        """The columns about records that don't decode: their field, and ``bytes`` or ``error``."""
        if self.mode != "PERMISSIVE":
            return {}
        found = {}
        for each in self.decodings:
            name = self.corrupt_name if each.name == "value" else f"{self.corrupt_name}_key"
            found[name] = (each.name, "bytes")
            found[f"{name}_reason"] = (each.name, "error")
        return found


@dataclass(frozen=True)
class PinnedSchema:
    """A reader's schema with the schemas that it refers to. It can be pickled and compared."""

    schema: str | bytes
    references: tuple[tuple[str, str], ...] = ()
    label: str = "the reader's schema"
    """The schema's name in errors."""

    def found(self, format_: str) -> FoundSchema:
        """The schema as codecs take it."""
        references = dict(self.references)
        if format_ == "avro":
            schema = spark_avro_schema(loaded(self.schema))
            texts = {
                name: json.dumps(spark_avro_schema(loaded(text)))
                for name, text in references.items()
            }
            # Without a registry, the records have the schema itself, with its unions.
            written = None if texts else json.dumps(loaded(self.schema))
            return FoundSchema(json.dumps(schema), texts, self.label, written)
        if format_ == "json":
            return FoundSchema(_json_reader(self.schema), references, self.label)
        return FoundSchema(self.schema, references, self.label)

    def unions(self, format_: str) -> frozenset[str]:
        """The paths of the unions, for `spark_column`."""
        if format_ != "avro":
            return frozenset()
        found = self.found(format_)
        return frozenset(_union_paths(parse_schema(found.schema, found.references.values()), ""))


@dataclass(frozen=True)
class TypedColumns:
    """The typed columns of a query: the options, and the schemas that the driver has found."""

    options: TypedOptions
    schemas: tuple[PinnedSchema, ...]
    """One for each of the options' `Decoding` items."""

    def decoded_fields(self, columns: Iterable[str]) -> list[str]:
        """Which of key and value these columns need decoded."""
        wanted = set(columns)
        for name, (field_, _) in self.options.error_columns.items():
            if name in wanted:
                wanted.add(field_)
        return [each.name for each in self.options.decodings if each.name in wanted]

    def keeps_bytes(self, columns: Iterable[str]) -> bool:
        """Whether these columns have the bytes of records that don't decode."""
        errors = self.options.error_columns
        return any(name in errors and errors[name][1] == "bytes" for name in columns)

    def output(self, columns: Iterable[str]) -> list[tuple[str, SparkColumn]]:
        """The columns of the frame, in their order: names and types.

        :param columns: The source's columns, of which some are decoded.
        :raises OptionError: Two columns have one name, or Spark has no such type.
        """
        decoded = {each.name for each in self.options.decodings}
        found: list[tuple[str, SparkColumn]] = []
        for name in columns:
            if name in self.options.error_columns:
                kind = "binary" if self.options.error_columns[name][1] == "bytes" else "string"
                found.append((name, BASE_TYPES[kind]))
            elif name not in decoded:
                found.append((name, BASE_TYPES[COLUMNS[name]]))
            elif self.options.is_flat:
                found += flat_fields(self.column(name))
            else:
                found.append((name, self.column(name)))
        names = [name.lower() for name, _ in found]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise OptionError(
                "flatten",
                f"two columns are named {', '.join(twice)}: leave one out by columns=",
            )
        return found

    def struct(self, columns: Iterable[str]) -> StructType:
        """The columns of the frame as Spark's type, see `output`."""
        return StructType([StructField(name, kind.spark) for name, kind in self.output(columns)])

    def column(self, name: str) -> SparkColumn:
        """The type of the decoded column ``key`` or ``value``.

        :raises OptionError: Spark has no such type.
        """
        for decoding, pinned in zip(self.options.decodings, self.schemas, strict=True):
            if decoding.name == name:
                return _column_of(self, decoding, pinned)
        raise KeyError(name)


def parse_typed(
    given: Mapping[str, str],
    topics: tuple[str, ...],
    fields: Mapping[str, tuple[str, ...]] | None,
) -> TypedOptions | None:
    """Parse the options of typed columns. None: keys and values stay bytes.

    :param given: Options with lower-case names.
    :param topics: The topics that the query names; empty: unknown.
    :param fields: The fields of ``columns=``, such as ``customer`` of ``value.customer``. None: the
        options are those of a sink.
    :raises OptionError: An option is invalid.
    """
    registry = _registry(given)
    decodings = tuple(
        found
        for name in FIELDS
        if (found := _decoding(given, name, topics, fields, bool(registry))) is not None
    )
    if not decodings:
        for name in (*NAMES, *(REGISTRY_PREFIX + each for each, _ in registry)):
            if name.lower() in given:
                raise OptionError(name, "it needs value.format or key.format")
        return None
    if any(each.subject for each in decodings) and not registry:
        raise OptionError(
            f"{REGISTRY_PREFIX}url", "it is missing: write it, or the schema as value.schema"
        )
    corrupt_name = given.get("columnnameofcorruptrecord", "_corrupt_record").strip()
    if not corrupt_name:
        raise OptionError("columnNameOfCorruptRecord", "it is empty: write a column's name")
    return TypedOptions(
        decodings,
        registry,
        _mode(given, decodings),
        corrupt_name,
        _flag(given, "flatten"),
    )


def _decoding(
    given: Mapping[str, str],
    name: str,
    topics: tuple[str, ...],
    fields: Mapping[str, tuple[str, ...]] | None,
    has_registry: bool,
) -> Decoding | None:
    format_ = given.get(f"{name}.format", "").strip().lower()
    if not format_:
        for part in _PARTS[1:]:
            if f"{name}.{part}" in given:
                raise OptionError(f"{name}.{part}", f"it needs {name}.format")
        return None
    if format_ not in FORMATS:
        raise OptionError(
            f"{name}.format",
            f"{given[f'{name}.format']!r} isn't valid: write {' or '.join(FORMATS)}",
        )
    message = given.get(f"{name}.message", "").strip()
    if message and format_ != "protobuf":
        raise OptionError(f"{name}.message", "only Protobuf has messages")
    is_sink = fields is None
    chosen = None if fields is None else fields.get(name)
    made = Decoding(name, format_, message=message, fields=chosen)
    is_upgrade = _flag(given, f"{name}.schema.upgrade")
    text = given.get(f"{name}.schema", "").strip()
    subject = given.get(f"{name}.subject", "").strip()
    if text and not text.isdigit():
        if subject and not is_sink:
            raise OptionError(
                f"{name}.subject", f"{name}.schema has the schema already: write one of them"
            )
        schema = _given_schema(f"{name}.schema", text, format_)
        return dataclasses.replace(made, schema=schema, subject=subject)
    if is_sink and format_ == "json" and not (text or subject or has_registry):
        return made  # values are written as their columns' types say
    if not subject and len(topics) != 1:
        raise OptionError(
            f"{name}.subject",
            f"the query doesn't name exactly one topic: write the subject, or {name}.schema",
        )
    return dataclasses.replace(
        made,
        subject=subject or f"{topics[0]}-{name}",
        version=int(text) if text else None,
        is_upgrade=is_upgrade,
    )


def _given_schema(option: str, text: str, format_: str) -> str | bytes:
    """The schema of an option, or of the file that it names."""
    if text[0] in '{["' or (format_ == "protobuf" and "{" in text):
        return text
    try:
        with open(text, "rb") as file:
            content = file.read()
    except OSError as error:
        raise OptionError(
            option, f"it is neither a schema, a version nor a file that can be read: {error}"
        ) from None
    if format_ == "protobuf" and not text.endswith(".proto"):
        return content
    return content.decode("utf-8", "replace")


def _mode(given: Mapping[str, str], decodings: tuple[Decoding, ...]) -> Mode:
    text = given.get("mode", "").strip().upper()
    if not text:
        return DEFAULT_MODES[decodings[0].format]
    for mode in MODES:
        if text == mode:
            return mode
    raise OptionError("mode", f"{given['mode']!r} isn't valid: write {' or '.join(MODES)}")


def _flag(given: Mapping[str, str], name: str) -> bool:
    text = given.get(name.lower(), "false").strip().lower()
    if text not in ("true", "false"):
        raise OptionError(name, f"{text!r} isn't valid: write true or false")
    return text == "true"


def _registry(given: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    found = {
        name.removeprefix(REGISTRY_PREFIX): value
        for name, value in given.items()
        if name.startswith(REGISTRY_PREFIX)
    }
    # Java's clients need this property; here the user and the password are enough.
    if found.get("basic.auth.credentials.source", "").strip().upper() == "USER_INFO":
        del found["basic.auth.credentials.source"]
    if found and "url" not in found:
        raise OptionError(f"{REGISTRY_PREFIX}url", "it is missing: write the registry's URL")
    return tuple(sorted(found.items()))


# --- the schemas, on the driver ---


def resolve(options: TypedOptions, kept: Mapping[str, PinnedSchema] | None = None) -> TypedColumns:
    """Find the reader's schemas, on the driver. The registry is asked for subjects only.

    :param kept: The schemas by column that a restarted stream keeps.
    :raises OptionError: There is no such schema, it is malformed, or Spark lacks one of its types.
    """
    made = []
    client = None
    try:
        for each in options.decodings:
            known = None if kept is None or each.is_upgrade else kept.get(each.name)
            if known is None and each.subject and client is None:
                client = registry_client(options)
            made.append(known or _pinned(each, client))
    finally:
        if client is not None:
            client.close()
    found = TypedColumns(options, tuple(made))
    for decoding in options.decodings:
        column = found.column(decoding.name)
        if options.is_flat and not isinstance(column.spark, StructType):
            raise OptionError(
                "flatten", f"the {decoding.name} has no fields: its schema isn't a record"
            )
    return found


def registry_client(options: TypedOptions) -> Any:
    """Make a client of the schema registry.

    :raises OptionError: A property is invalid.
    """
    from kafka_native.schema_registry import SchemaRegistryClient

    conf: dict[str, Any] = dict(options.registry)
    try:
        for name in _NUMBERS & conf.keys():
            conf[name] = float(conf[name]) if "." in conf[name] else int(conf[name])
        return SchemaRegistryClient(conf)
    except (TypeError, ValueError) as error:
        raise OptionError(f"{REGISTRY_PREFIX}*", str(error)) from None


def _pinned(decoding: Decoding, client: Any) -> PinnedSchema:
    if not decoding.subject:
        return PinnedSchema(decoding.schema)
    kind = codec_type(decoding.format)
    version = "latest" if decoding.version is None else decoding.version
    try:
        registered = (
            client.get_latest_version(decoding.subject, kind.text_format)
            if decoding.version is None
            else client.get_version(decoding.subject, version, fmt=kind.text_format)
        )
        place = f"{decoding.subject} version {registered.version}"
        label = f"the reader's schema id {registered.schema_id} ({place})"
        found = kind(client, schema=registered.schema).complete(registered.schema, label)
    except SchemaError as error:
        raise OptionError(f"{decoding.name}.format", f"{decoding.subject}: {error}") from None
    except Exception as error:
        raise OptionError(
            f"{decoding.name}.subject",
            f"the registry doesn't return {decoding.subject} version {version}: {error}",
        ) from error
    return PinnedSchema(found.schema, tuple(found.references.items()), label)


# --- codecs and their columns ---


def flat_fields(column: SparkColumn) -> list[tuple[str, SparkColumn]]:
    """The fields of a struct as columns of their own."""
    assert isinstance(column.spark, StructType)
    return [
        (each.name, SparkColumn(each.dataType, column.arrow.field(number).type))
        for number, each in enumerate(column.spark.fields)
    ]


def codec_type(format_: str) -> Any:
    """The class of a format's codec."""
    from kafka_native import codecs

    return {"avro": codecs.Avro, "protobuf": codecs.Protobuf, "json": codecs.Json}[format_]


def _codec(decoding: Decoding, pinned: PinnedSchema, client: Any) -> Codec:
    """The codec of a column.

    :raises OptionError: The schema is malformed.
    """
    arguments: dict[str, Any] = {"fields": decoding.fields}
    if decoding.format == "avro":
        arguments |= {"enums": "string", "unions": "struct"}
    elif decoding.format == "protobuf":
        arguments |= {"message": decoding.message or None, "time_unit": "us"}
    try:
        made: Codec = codec_type(decoding.format)(
            client, schema=pinned.found(decoding.format), **arguments
        )
        made.reader(decoding.name, tuple)
    except SchemaError as error:
        raise OptionError(f"{decoding.name}.schema", str(error)) from None
    return made


@dataclass(frozen=True)
class _Codecs:
    """The codecs of a query in a Python worker, and the registry client that they share."""

    by_column: dict[str, Codec]
    client: Any

    def close(self) -> None:
        if self.client is not None:
            self.client.close()


_columns: Final = WorkerCache[tuple[TypedColumns, str], SparkColumn](_CODECS_MAX)
_codecs: Final = WorkerCache[TypedColumns, _Codecs](_CODECS_MAX, _Codecs.close)


def _column_of(typed: TypedColumns, decoding: Decoding, pinned: PinnedSchema) -> SparkColumn:
    def make() -> SparkColumn:
        reader = _codec(decoding, pinned, None).reader(decoding.name, tuple)
        try:
            kind = pa.field(reader.layout).type
            return spark_column(kind, pinned.unions(decoding.format))
        except SchemaError as error:
            raise OptionError(
                "columns", f"{decoding.name}: {error}; leave the field out by columns="
            ) from None

    return _columns.get((typed, decoding.name), make)


def codecs_of(typed: TypedColumns) -> Mapping[str, Codec]:
    """The codecs by column, in a task. The worker keeps them, and their registry client."""
    return _codecs.get(typed, lambda: _made_codecs(typed)).by_column


def _made_codecs(typed: TypedColumns) -> _Codecs:
    client = registry_client(typed.options) if typed.options.registry else None
    codecs = {
        decoding.name: _codec(decoding, pinned, client)
        for decoding, pinned in zip(typed.options.decodings, typed.schemas, strict=True)
    }
    return _Codecs(codecs, client)


def close_idle() -> None:
    """Close the kept codecs, while no task reads."""
    _codecs.clear()


# --- schemas as Spark reads them ---


def loaded(schema: str | bytes) -> Any:
    """Parse the JSON of a schema. A name of a type may lack its quotes.

    :raises SchemaError: It is malformed.
    """
    text = schema.decode("utf-8", "replace") if isinstance(schema, bytes) else schema
    try:
        return json.loads(text)
    except ValueError as error:
        if text.strip().isidentifier():
            return text.strip()
        raise SchemaError(f"the schema is no JSON: {error}") from None


def spark_avro_schema(schema: Any) -> Any:
    """Change an Avro schema so that its columns are those of Spark's from_avro.

    Logical types that Spark lacks go, so their numbers, strings or bytes stay. A union of int and
    long is long, one of float and double is double.
    """
    if isinstance(schema, list):
        return _spark_union([spark_avro_schema(each) for each in schema])
    if not isinstance(schema, dict):
        return schema
    made = {name: value for name, value in schema.items() if name != "logicalType"}
    if schema.get("logicalType") in _AVRO_LOGICAL_TYPES:
        made["logicalType"] = schema["logicalType"]
    for name in ("type", "items", "values"):
        if isinstance(made.get(name), (list, dict)):
            made[name] = spark_avro_schema(made[name])
    if isinstance(made.get("fields"), list):
        made["fields"] = [spark_avro_schema(each) for each in made["fields"]]
    return made


def _spark_union(branches: list[Any]) -> list[Any]:
    others = {each if isinstance(each, str) else "" for each in branches} - {"null"}
    for narrow, wide in (("int", "long"), ("float", "double")):
        if others == {narrow, wide}:
            kept = [wide if each == narrow else each for each in branches]
            return list(dict.fromkeys(kept))
    return branches


def _union_paths(kind: AvroType, path: str) -> Iterable[str]:
    """The paths of unions of several types, as `spark_column` writes paths."""
    others = [each for each in kind.branches if each.kind != "null"]
    if kind.kind == "union" and len(others) == 1:
        yield from _union_paths(others[0], path)
    elif kind.kind == "union" and others:
        yield path
        for each in others:
            yield from _union_paths(each, f"{path}|{each.label}")
    elif kind.item is not None:
        yield from _union_paths(kind.item, f"{path}[]")
    for member in kind.fields:
        yield from _union_paths(member.type, f"{path}.{member.name}".lstrip("."))


def writer_schema(decoding: Decoding) -> Any:
    """The schema of the options as the format's codec takes it for producers. None: there is none.

    :raises SchemaError: It is malformed.
    """
    if decoding.format != "json" or not decoding.schema:
        return decoding.schema or None
    content = loaded(decoding.schema)
    if isinstance(content, dict) and content.get("type") == "struct":
        return _arrow_schema(StructType.fromJson(content))
    return decoding.schema


def _json_reader(schema: str | bytes) -> Any:
    """The reader's schema of JSON records: an Arrow schema of Spark's types, or a JSON Schema."""
    content = loaded(schema)
    if isinstance(content, dict) and content.get("type") == "struct":
        return _arrow_schema(StructType.fromJson(content))
    return json.dumps(_spark_json_schema(content))


def _spark_json_schema(schema: Any) -> Any:
    """Leave out formats that Spark has no type for: the values stay strings."""
    if isinstance(schema, list):
        return [_spark_json_schema(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: _spark_json_schema(value)
        for name, value in schema.items()
        if name != "format" or not (isinstance(value, str) and value in _JSON_FORMATS)
    }


def _arrow_schema(schema: StructType) -> Any:
    """The Arrow schema of Spark's types."""
    return pa.schema(list(arrow_type(schema)))
