"""Protobuf: keys or values in Protobuf, for the columns of consumers and producers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafka_native.codecs.codec import FoundSchema, Registry
from kafka_native.codecs.column_decoder import ColumnDecoder, field_names
from kafka_native.codecs.column_encoder import ColumnEncoder
from kafka_native.codecs.encoding_codec import EncodeOptions, EncodingCodec
from kafka_native.codecs.errors import SchemaError
from kafka_native.codecs.framing import FRAMING_SIZES, read_indexes
from kafka_native.codecs.protobuf_decoder import Names, ProtobufDecoder, Recursive, TimeUnit
from kafka_native.codecs.protobuf_encoder import ProtobufEncoder

__all__ = ["Protobuf"]


class Protobuf(EncodingCodec):
    """Protobuf messages, for the ``value=`` and ``key=`` of Arrow columns.

        batch = consumer.consume_arrow(value=Protobuf("http://localhost:8081"))
        batch = consumer.consume_arrow(value=Protobuf(schema=Order, fields=["id", "customer.city"]))
        producer.produce_arrow("orders", table, value=Protobuf(registry, schema=Order))

    `Consumer.consume_arrow` and `Consumer.arrow_stream`: fields match by number, as in every
    Protobuf library. So the reader's schema decodes messages of all its versions. A message of
    another type is an error of the record.

    `Producer.produce_arrow`: fields and columns match by name, as in `ProtobufEncoder`. The codec
    registers or looks up the schema once, after the files that it imports. It writes the schema's
    id and the position of the message type before each message.

    Parameters
    ----------
    registry : SchemaRegistryClient or str, optional
        A client of the schema registry, or its URL. The messages have its framing. None: they have
        no framing.
    subject : str, optional
        Consumers: the subject whose latest version is the reader's schema. It is looked up once.
        Producers: the subject of the messages' schema. Default: ``<topic>-value`` or
        ``<topic>-key``. A consumer must read one topic then.
    schema : message class, descriptor, bytes, str or Schema, optional
        A message class and the others as in `ProtobufDecoder`, or a Schema of the registry's
        client. Consumers: the reader's schema. Default: the one of ``subject``. Producers: the
        schema of the messages. They need it, ``use_latest_version`` or ``schema_id``.
    message : str, optional
        The full name of the message type, if the schema has several. Default: the first one.
    fields : sequence of str, optional
        Consumers: only these fields, as in `ProtobufDecoder`.
    enums, time_unit, recursive : str
        Consumers: as in `ProtobufDecoder`.
    auto_register : bool
        Producers: register the schema and the files that it imports. False: the subjects must have
        them already. The subject of an imported file is its name.
    normalize : bool
        Producers: let the registry normalize the schemas.
    use_latest_version : bool
        Producers: encode with the latest version of the subject.
    schema_id : int, optional
        Producers: encode with the schema of this id, which the subject must have.
    guid_header : bool
        Producers: write the schema's GUID to the header ``__value_schema_id`` or
        ``__key_schema_id``, and no id before the record.
    ignore_extra : bool
        Producers: leave out columns that the message has no field for.

    Raises
    ------
    ValueError
        There is neither a registry nor a schema, or a subject without a registry; or two options
        choose different schemas.
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
        recursive: Recursive = "raise",
        auto_register: bool = True,
        normalize: bool = False,
        use_latest_version: bool = False,
        schema_id: int | None = None,
        guid_header: bool = False,
        ignore_extra: bool = False,
    ) -> None:
        options = EncodeOptions(
            auto_register, normalize, use_latest_version, ignore_extra, schema_id, guid_header
        )
        super().__init__(registry, subject=subject, schema=schema, options=options)
        self._message = message
        self._fields = field_names(fields)
        self._enums: Names = enums
        self._time_unit: TimeUnit = time_unit
        self._recursive: Recursive = recursive

    # --- decoding ---

    def _result_decoder(self, result: FoundSchema) -> ColumnDecoder:
        return ProtobufDecoder(
            self._descriptor_of(result),
            fields=self._fields,
            enums=self._enums,
            time_unit=self._time_unit,
            recursive=self._recursive,
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

    # --- encoding ---

    def _column_encoder(self, schema: FoundSchema) -> ProtobufEncoder:
        descriptor = _descriptor(schema, self._message)
        return ProtobufEncoder(descriptor, ignore_extra=self._options.ignore_extra)

    def _message_indexes(self, encoder: ColumnEncoder) -> list[int]:
        assert isinstance(encoder, ProtobufEncoder)
        return encoder.message_indexes

    def _own_schema(self, topic: str | None, field: str, column_type: tuple[Any, ...]) -> Any:
        """Return the given schema. The files that it imports are registered later."""
        if self._schema is None:
            return super()._own_schema(topic, field, column_type)  # refused
        return self._schema

    def _registered(self, subject: str, schema: Any) -> Any:
        """Register or look up a schema, after the files that it imports."""
        from kafka_native.schema_registry import protobuf, serdes
        from kafka_native.schema_registry.schemas import Schema

        if isinstance(schema, str):
            schema = Schema(schema, "PROTOBUF")
        elif not hasattr(schema, "schema_str"):
            file = _descriptor(FoundSchema(schema, {}, ""), self._message).file
            schema = serdes.run(
                protobuf.schema_to_register(
                    self._registry,
                    file,
                    lambda imported: imported.name,
                    auto_register=self._options.auto_register,
                    normalize=self._options.normalize,
                )
            )
        return super()._registered(subject, schema)


def _descriptor(found: FoundSchema, message: str | list[int] | None) -> Any:
    """Return the descriptor of a message in a schema.

    :raises SchemaError: The schema is invalid, lacks an imported file, or has no such message.
    """
    # Here, because it needs protobuf
    from kafka_native.codecs import protobuf_descriptors

    references = found.references if isinstance(found.schema, str) else None
    return protobuf_descriptors.message_of(found.schema, message, references)
