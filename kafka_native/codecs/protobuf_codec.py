"""Protobuf: keys or values in Protobuf, for the columns of consumers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafka_native.codecs.codec import Codec, FoundSchema, Registry
from kafka_native.codecs.column_decoder import ColumnDecoder
from kafka_native.codecs.errors import SchemaError
from kafka_native.codecs.framing import FRAMING_SIZES, read_indexes
from kafka_native.codecs.protobuf_decoder import Names, ProtobufDecoder, TimeUnit

__all__ = ["Protobuf"]


class Protobuf(Codec):
    """Protobuf messages, for ``consume_arrow(value=...)`` and ``arrow_stream(value=...)``.

        batch = consumer.consume_arrow(value=Protobuf("http://localhost:8081"))
        batch = consumer.consume_arrow(value=Protobuf(schema=Order, fields=["id", "customer.city"]))

    Fields match by number, as in every Protobuf library. So the reader's schema decodes messages of
    all its versions. A message of another type is an error of the record.

    Parameters
    ----------
    registry : SchemaRegistryClient or str, optional
        A client of the schema registry, or its URL. The messages have its framing. None: they have
        no framing.
    subject : str, optional
        The subject whose latest version is the reader's schema. It is looked up once. Default:
        ``<topic>-value`` or ``<topic>-key``, if the consumer reads one topic.
    schema : message class, descriptor or bytes, optional
        The reader's schema, as in `ProtobufDecoder`. Default: the one of ``subject``.
    message : str, optional
        The full name of the message type, if the schema has several. Default: the first one.
    fields : sequence of str, optional
        Only these fields, as in `ProtobufDecoder`.
    enums, time_unit : str
        As in `ProtobufDecoder`.

    Raises
    ------
    ValueError
        There is neither a registry nor a schema, or a subject without a registry.
    TypeError
        ``registry`` is an asyncio client, or ``fields`` is one str.
    ImportError
        ``registry`` is a URL, and httpx2 isn't installed.
    """

    schema_type = "PROTOBUF"
    registry_framing = "indexes"
    text_format = "serialized"

    def __init__(
        self,
        registry: Registry | str | None = None,
        *,
        subject: str | None = None,
        schema: Any | None = None,
        message: str | None = None,
        fields: Iterable[str] | None = None,
        enums: Names = "names",
        time_unit: TimeUnit = "ns",
    ) -> None:
        if isinstance(fields, str):
            raise TypeError("fields must be a sequence of names, not one str")
        super().__init__(registry, subject=subject, schema=schema)
        self._message = message
        self._fields = None if fields is None else list(fields)
        self._enums: Names = enums
        self._time_unit: TimeUnit = time_unit

    def _result_decoder(self, result: FoundSchema) -> ColumnDecoder:
        return ProtobufDecoder(
            self._descriptor_of(result),
            fields=self._fields,
            enums=self._enums,
            time_unit=self._time_unit,
        )

    def _decoder_for(
        self, key: bytes, result: FoundSchema, result_decoder: ColumnDecoder
    ) -> ColumnDecoder:
        wanted = self._descriptor_of(result).full_name
        indexes, _ = read_indexes(key, FRAMING_SIZES[key[0]])
        written = _descriptor(self.find(key), indexes).full_name
        if written != wanted:
            raise SchemaError(f"the message is a {written}, not a {wanted}")
        return result_decoder

    def _descriptor_of(self, result: FoundSchema) -> Any:
        """Return the descriptor of the result's message."""
        return _descriptor(result, self._message)


def _descriptor(found: FoundSchema, message: str | list[int] | None) -> Any:
    """Return the descriptor of a message in a schema.

    :raises SchemaError: The schema is invalid, lacks an imported file, or has no such message.
    """
    # Here, because it needs protobuf
    from kafka_native.codecs import protobuf_descriptors

    references = found.references if isinstance(found.schema, str) else None
    return protobuf_descriptors.message_of(found.schema, message, references)
