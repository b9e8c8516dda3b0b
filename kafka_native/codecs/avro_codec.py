"""Avro: keys or values in Avro, for the columns of consumers and producers."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from kafka_native.codecs.avro_decoder import AvroDecoder, ColumnTypes, Enums, Schema, Unions, Uuids
from kafka_native.codecs.avro_encoder import AvroEncoder
from kafka_native.codecs.avro_from_arrow import avro_schema_of
from kafka_native.codecs.codec import FoundSchema, Registry, SchemaOfClient
from kafka_native.codecs.column_decoder import ColumnDecoder, field_names
from kafka_native.codecs.encoding_codec import EncodeOptions, EncodingCodec

__all__ = ["Avro"]


class Avro(EncodingCodec):
    """Avro records, for the ``value=`` and ``key=`` of Arrow columns.

        avro = Avro("http://localhost:8081", fields=["id", "customer.city"])
        batch = consumer.consume_arrow(100_000, timeout=1.0, value=avro)
        producer.produce_arrow("orders", table, value=Avro("http://localhost:8081"))

    `Consumer.consume_arrow` and `Consumer.arrow_stream`: the framing of each record (an id or a
    GUID before it, or in a header) names the writer's schema. The codec looks it up once, and
    resolves it against the reader's schema, which has the columns.

    `Producer.produce_arrow`: the codec registers or looks up the schema of the records once, and
    writes its id before each record.

    Parameters
    ----------
    registry : SchemaRegistryClient or str, optional
        A client of the schema registry, or its URL. None: the records have no framing, and all
        have the schema ``schema``.
    subject : str, optional
        Consumers: the subject whose latest version is the reader's schema. It is looked up once.
        Producers: the subject of the records' schema. Default: ``<topic>-value`` or
        ``<topic>-key``. A consumer must read one topic then.
    schema : str, dict, list or Schema, optional
        JSON text, the parsed JSON, or a Schema of the registry's client. Consumers: the reader's
        schema. Default: the one of ``subject``. Producers: the schema of the records. Default: it
        is made from the columns.
    fields : sequence of str, optional
        Consumers: only these fields of the reader's schema, as in `AvroDecoder`.
    enums, unions, uuids : str
        Consumers: the columns of these types, as in `AvroDecoder`.
    auto_register : bool
        Producers: register the schema. False: the subject must have it already.
    normalize : bool
        Producers: let the registry normalize the schema.
    use_latest_version : bool
        Producers: encode with the latest version of the subject.
    schema_id : int, optional
        Producers: encode with the schema of this id, which the subject must have.
    guid_header : bool
        Producers: write the schema's GUID to the header ``__value_schema_id`` or
        ``__key_schema_id``, and no id before the record.
    ignore_extra : bool
        Producers: leave out columns that the schema has no field for.

    Raises
    ------
    ValueError
        There is neither a registry nor a schema, or a subject without a registry; or an option has
        another value.
    TypeError
        ``registry`` is an asyncio client, or ``fields`` is one str.
    ImportError
        ``registry`` is a URL, and httpx2 isn't installed.
    """

    schema_type = "AVRO"

    def __init__(
        self,
        registry: Registry | str | None = None,
        *,
        subject: str | None = None,
        schema: Schema | SchemaOfClient | None = None,
        fields: Iterable[str] | None = None,
        enums: Enums = "dictionary",
        unions: Unions = "dense",
        uuids: Uuids = "binary",
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
        self._fields = field_names(fields)
        self._types = ColumnTypes(enums, unions, uuids)

    # --- decoding ---

    def _result_decoder(self, result: FoundSchema) -> AvroDecoder:
        if result.written is None:
            return self._decoder(result, result)
        return self._decoder(FoundSchema(result.written, {}, "the writer's schema"), result)

    def _decoder_for(
        self, key: bytes, result: FoundSchema, result_decoder: ColumnDecoder
    ) -> AvroDecoder:
        return self._decoder(self.find(key), result)

    def _decoder(self, writer: FoundSchema, reader: FoundSchema) -> AvroDecoder:
        return AvroDecoder(
            writer.schema,
            reader.schema,
            fields=self._fields,
            references=writer.references.values(),
            reader_references=reader.references.values(),
            enums=self._types.enums,
            unions=self._types.unions,
            uuids=self._types.uuids,
        )

    # --- encoding ---

    def _column_encoder(self, schema: FoundSchema) -> AvroEncoder:
        return AvroEncoder(
            self._schema_text(schema.schema),
            schema.references.values(),
            ignore_extra=self._options.ignore_extra,
        )

    def _schema_of_columns(self, column_type: tuple[Any, ...], name: str) -> Any:
        return avro_schema_of(column_type, name)

    def _schema_text(self, schema: Schema) -> str:
        text = schema if isinstance(schema, str) else json.dumps(schema)
        is_json = text.strip()[:1] in ("{", "[")
        return text if is_json else json.dumps({"type": text.strip(' "')})
