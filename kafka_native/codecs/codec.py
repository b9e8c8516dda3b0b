"""Codecs: how the keys or values of a topic are encoded, for the columns of consumers.

A `Codec` knows the schema registry, the framing and the reader's schema. A `RecordReader` has the
decoders of one column: one for each writer's schema, all with the columns of the reader's schema.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar

from kafka_native._native.arrow_decoding import SchemaDecoder
from kafka_native._native.codec_core import Layout
from kafka_native.codecs.column_decoder import ColumnDecoder
from kafka_native.codecs.errors import MessageDecodeError, SchemaError, SchemaLookupError
from kafka_native.codecs.framing import schema_of
from kafka_native.codecs.references import found_now, referenced_schemas

__all__ = ["Codec", "FoundSchema", "RecordReader", "Registry", "SchemaOfClient"]

C = TypeVar("C", bound="Codec")

DECODERS_MAX = 1000
"""How many decoders of a column are kept."""
NOT_FOUND_CODES = (40401, 40402, 40403)
"""Codes of registries that don't have the subject, version or schema."""


class Registry(Protocol):
    """The calls to a schema registry that codecs make. SchemaRegistryClient has them."""

    def get_schema(
        self, schema_id: int, subject_name: str | None = ..., fmt: str | None = ...
    ) -> Any:
        """Return the schema of an id."""

    def get_schema_by_guid(self, guid: str, fmt: str | None = ...) -> Any:
        """Return the schema of a GUID."""

    def get_latest_version(self, subject_name: str, fmt: str | None = ...) -> Any:
        """Return the latest version of a subject."""

    def get_version(
        self, subject_name: str, version: Any, deleted: bool = ..., fmt: str | None = ...
    ) -> Any:
        """Return a version of a subject."""


class SchemaOfClient(Protocol):
    """A Schema of the registry's client."""

    @property
    def schema_str(self) -> str | None:
        """The schema in its own language, such as JSON for Avro."""


@dataclass(frozen=True)
class FoundSchema:
    """A schema with all schemas that it refers to.

    Attributes
    ----------
    schema : object
        The schema's text. A schema that the application gave may have another type.
    references : dict of str
        The texts of the referenced schemas, by the names of the references. Each comes after those
        that it refers to.
    label : str
        The schema's name in errors.
    written : object, optional
        A reader's schema: the text of the schema that records without framing were written with,
        if it is another one. It refers to no others.
    """

    schema: Any
    references: dict[str, str]
    label: str
    written: Any = None


class Codec:
    """The encoding of a topic's keys or values: the base of `Avro`, `Protobuf` and `Json`.

    Several consumers and threads may use one codec.
    """

    schema_type: ClassVar[str]
    """The format, as the registry calls it."""
    registry_framing: ClassVar[str] = "id"
    """What stands before a record that was written with a registry: a key of ``FRAMINGS``."""
    encodes_without_schema: ClassVar[bool] = False
    """Whether producers need neither a registry nor a schema."""
    text_format: ClassVar[str | None] = None
    """The ``format`` in which the registry returns schemas."""

    def __init__(
        self, registry: Registry | str | None, *, subject: str | None, schema: Any | None
    ) -> None:
        """See `Avro`.

        :raises ValueError: There is neither a registry nor a schema, or a subject without registry.
        :raises TypeError: The registry's calls are coroutines.
        """
        self._owned: Any = None
        if isinstance(registry, str):
            from kafka_native.schema_registry.client import SchemaRegistryClient

            registry = self._owned = SchemaRegistryClient({"url": registry})
        if registry is None and schema is None and not self.encodes_without_schema:
            raise self._needs_schema()
        if subject is not None and registry is None:
            raise ValueError("subject= needs a schema registry")
        if inspect.iscoroutinefunction(getattr(registry, "get_schema", None)):
            raise TypeError(
                "the registry must be a SchemaRegistryClient, also with asyncio: "
                "coroutines look schemas up in a thread"
            )
        self._registry = registry
        self._subject = subject
        self._schema = schema
        self._readers: dict[tuple[str, str], RecordReader] = {}

    @property
    def framing(self) -> str:
        """What stands before a record: a key of ``FRAMINGS``."""
        return "none" if self._registry is None else self.registry_framing

    def close(self) -> None:
        """Close the registry client that the codec made from a URL."""
        if self._owned is not None:
            self._owned.close()

    def __enter__(self: C) -> C:
        """Return the object itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the registry client that the codec made from a URL."""
        self.close()

    def reader(self, field: str, topics: Callable[[], Collection[str]]) -> RecordReader:
        """Return the decoders of a column. The reader's schema is looked up once.

        :param field: ``"key"`` or ``"value"``.
        :param topics: Returns the topics that the consumer reads.
        :raises ValueError: The subject is unclear, as the consumer reads no topic, or several.
        :raises SchemaError: The reader's schema has no columns.
        :raises SchemaLookupError: The registry doesn't return the schema.
        """
        subject = ""
        if self._schema is None and self._registry is None:
            raise self._needs_schema()
        if self._schema is None:
            subject = self._subject or self._subject_of(field, topics())
        found = self._readers.get((field, subject))
        if found is None:
            found = RecordReader(self, field, self._result_schema(subject))
            self._readers[field, subject] = found
        return found

    def _result_decoder(self, result: FoundSchema) -> ColumnDecoder:
        """Return the decoder of records whose writer's schema is the reader's schema.

        :raises SchemaError: The schema has no columns.
        """
        raise NotImplementedError

    def _decoder_for(
        self, key: bytes, result: FoundSchema, result_decoder: ColumnDecoder
    ) -> ColumnDecoder:
        """Return the decoder of a framing, with the columns of ``result_decoder``.

        :raises SchemaError: The schemas don't resolve.
        """
        raise NotImplementedError

    def _needs_schema(self) -> ValueError:
        return ValueError(f"{type(self).__name__} needs a schema registry, or schema=")

    def _subject_of(self, field: str, topics: Collection[str]) -> str:
        if len(topics) == 1:
            return f"{next(iter(topics))}-{field}"
        read = f"{len(topics)} topics" if topics else "no topic yet"
        raise ValueError(
            f"the subject of the reader's schema is unclear, because the consumer reads {read}: "
            f"pass subject= or schema= to {type(self).__name__}"
        )

    def _result_schema(self, subject: str) -> FoundSchema:
        if isinstance(self._schema, FoundSchema):
            return self._schema
        if hasattr(self._schema, "schema_str"):
            return self.complete(self._schema, "the reader's schema")
        if self._schema is not None:
            return FoundSchema(self._schema, {}, "the reader's schema")
        assert self._registry is not None
        try:
            registered = self._registry.get_latest_version(subject, self.text_format)
            place = f"{subject} version {registered.version}"
            label = f"the reader's schema id {registered.schema_id} ({place})"
            return self.complete(registered.schema, label)
        except MemoryError:
            raise
        except SchemaError as error:
            raise SchemaError(f"subject {subject}: {error.problem}", error.path) from None
        except Exception as error:
            raise SchemaLookupError(f"the latest schema of subject {subject}: {error}") from error

    def find(self, key: bytes) -> FoundSchema:
        """Ask the registry for the schema of a framing. The registry's client has a cache."""
        assert self._registry is not None
        schema = schema_of(key)
        if isinstance(schema, int):
            found = self._registry.get_schema(schema, None, self.text_format)
            return self.complete(found, f"schema id {schema}")
        found = self._registry.get_schema_by_guid(schema, self.text_format)
        return self.complete(found, f"schema {schema}")

    def complete(self, schema: Any, label: str) -> FoundSchema:
        """Return a schema with all schemas that it refers to. A codec takes it as ``schema=``.

        :param schema: A Schema of the registry's client.
        :param label: The schema's name in errors.
        :raises SchemaError: It has another format.
        """
        kind = schema.schema_type or "AVRO"
        if kind != self.schema_type:
            raise SchemaError(f"it is a schema of type {kind}, not {self.schema_type}")
        if getattr(schema, "references", None) and self._registry is None:
            raise SchemaError("a schema that refers to others needs a schema registry")
        steps = referenced_schemas(schema, self._registry, text_format=self.text_format)
        references = {name: each.schema_str or "" for name, each in found_now(steps)}
        return FoundSchema(schema.schema_str, references, label)


class RecordReader:
    """The decoders of one column, by the framing of the records.

    Attributes
    ----------
    layout : Layout
        The type of the column.
    framing : str
        The framing of the records.
    """

    def __init__(self, codec: Codec, field: str, result: FoundSchema) -> None:
        self.field = field
        self._codec = codec
        self._result = result
        self._main = codec._result_decoder(result)
        self.layout: Layout = self._main.program.layout
        self._decoders: dict[bytes, SchemaDecoder] = {}
        self._prepared: dict[bytes, SchemaDecoder] = {}
        self.framing = codec.framing
        if self.framing == "none":
            self._decoders[b""] = SchemaDecoder(self._main.program, self._main.paths)

    def known(self, key: bytes) -> SchemaDecoder | None:
        """Return the decoder of a framing if it was looked up before."""
        return self._decoders.get(key) or self._prepared.pop(key, None)

    def prepare(self, key: bytes) -> None:
        """Look a decoder up for the next `known()`. An unknown schema is asked for again later."""
        if len(self._prepared) == DECODERS_MAX:
            self._prepared.clear()
        self._prepared[key] = self.look_up(key)

    def look_up(self, key: bytes) -> SchemaDecoder:
        """Return the decoder of a framing, or the reason why its records can't be decoded.

        It raises the errors of a registry that doesn't answer.
        """
        try:
            made = self._codec._decoder_for(key, self._result, self._main)
            if not made.program.layout.is_equal(self.layout):
                raise SchemaError("its columns aren't those of the reader's schema")
            decoder = SchemaDecoder(made.program, made.paths)
        except SchemaError as error:
            reason = f"it doesn't resolve against {self._result.label}: {error}"
            decoder = SchemaDecoder(reason=reason)
        except Exception as error:
            if getattr(error, "error_code", None) not in NOT_FOUND_CODES:
                raise
            return SchemaDecoder(reason=f"the registry doesn't have it: {error}")
        while len(self._decoders) >= DECODERS_MAX:
            self._decoders.pop(next(iter(self._decoders)), None)
        self._decoders[key] = decoder
        return decoder

    def decode_error(
        self,
        topic: str,
        partition: int,
        offset: int,
        key: bytes,
        path: str,
        position: int,
        text: str,
    ) -> MessageDecodeError:
        """Return the exception for a message that doesn't decode."""
        return MessageDecodeError(
            text,
            topic=topic,
            partition=partition,
            offset=offset,
            field=self.field,
            schema=schema_of(key) if key else None,
            path=path,
            position=position,
        )

    def lookup_error(
        self, topic: str, partition: int, offset: int, key: bytes, error: Exception
    ) -> SchemaLookupError:
        """Return the exception for a registry that doesn't answer."""
        schema = schema_of(key)
        name = f"schema id {schema}" if isinstance(schema, int) else f"schema {schema}"
        return SchemaLookupError(
            f"{topic} [{partition}] at offset {offset}: {name} of its {self.field} can't be looked "
            f"up, nothing is lost: {error}"
        )
