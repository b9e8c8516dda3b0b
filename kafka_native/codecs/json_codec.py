"""Json: keys or values in JSON, for the columns of consumers and producers."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Literal

from kafka_native._native.codec_core import read_arrow_schema
from kafka_native.codecs.codec import FoundSchema, Registry
from kafka_native.codecs.column_decoder import ColumnDecoder, field_names
from kafka_native.codecs.column_encoder import ColumnEncoder
from kafka_native.codecs.encoding_codec import EncodeOptions, EncodingCodec
from kafka_native.codecs.json_decoder import JsonDecoder
from kafka_native.codecs.json_encoder import JsonEncoder
from kafka_native.codecs.json_from_arrow import json_schema_of

__all__ = ["Json"]


class Json(EncodingCodec):
    """JSON records, for the ``value=`` and ``key=`` of Arrow columns.

        batch = consumer.consume_arrow(value=Json("http://localhost:8081"))
        batch = consumer.consume_arrow(value=Json(schema=pyarrow.schema([("id", "int64")])))
        producer.produce_arrow("orders", table, value=Json("http://localhost:8081"))
        producer.produce_arrow("orders", table, value=Json())

    `Consumer.consume_arrow` and `Consumer.arrow_stream`: all records are read with the reader's
    schema. The registry isn't asked for the schemas of the records.

    `Producer.produce_arrow`: the codec registers or looks up the schema of the records once, and
    writes its id before each record. Without a registry the records have no framing.

    Parameters
    ----------
    registry : SchemaRegistryClient or str, optional
        A client of the schema registry, or its URL. The records have its framing. None: the records
        have no framing, unless ``framed`` says so.
    subject : str, optional
        Consumers: the subject whose latest version is the reader's schema. It is looked up once.
        Producers: the subject of the records' schema. Default: ``<topic>-value`` or
        ``<topic>-key``. A consumer must read one topic then.
    schema : Arrow schema, str, bytes, dict, Schema or JsonDecoder, optional
        A JSON Schema, an Arrow schema, or a Schema of the registry's client. Consumers: the
        reader's schema, as in `JsonDecoder`, or a decoder such as ``JsonDecoder.infer(records)``.
        Default: the one of ``subject``. Producers: the schema of the records, as in `JsonEncoder`.
        Default: it is made from the columns.
    fields : sequence of str, optional
        Consumers: only these fields, as in `JsonDecoder`.
    timestamp_unit : str
        Consumers: as in `JsonDecoder`.
    framed : bool, optional
        Whether the records have a framing (a schema id or GUID). Default: with a registry.
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
        A subject comes without a registry, or options contradict each other. Consumers: there is
        neither a registry nor a schema.
    TypeError
        ``registry`` is an asyncio client, ``fields`` is one str, or there are ``fields`` and a
        `JsonDecoder`.
    ImportError
        ``registry`` is a URL, and httpx2 isn't installed.
    """

    schema_type = "JSON"
    encodes_without_schema = True

    def __init__(
        self,
        registry: Registry | str | None = None,
        *,
        subject: str | None = None,
        schema: Any | None = None,
        fields: Iterable[str] | None = None,
        timestamp_unit: Literal["s", "ms", "us", "ns"] = "us",
        framed: bool | None = None,
        auto_register: bool = True,
        normalize: bool = False,
        use_latest_version: bool = False,
        schema_id: int | None = None,
        guid_header: bool = False,
        ignore_extra: bool = False,
    ) -> None:
        if isinstance(schema, JsonDecoder) and fields is not None:
            raise TypeError("fields= belongs to the JsonDecoder")
        if guid_header and framed is False:
            raise ValueError("guid_header is a framing: don't pass framed=False")
        options = EncodeOptions(
            auto_register, normalize, use_latest_version, ignore_extra, schema_id, guid_header
        )
        super().__init__(registry, subject=subject, schema=schema, options=options)
        self._fields = field_names(fields)
        self._timestamp_unit = timestamp_unit
        self._framed = registry is not None if framed is None else framed

    @property
    def framing(self) -> str:
        """What stands before a record: a key of ``FRAMINGS``."""
        return "id" if self._framed else "none"

    # --- decoding ---

    def _result_decoder(self, result: FoundSchema) -> ColumnDecoder:
        if isinstance(result.schema, JsonDecoder):
            return result.schema
        return JsonDecoder(
            result.schema,
            fields=self._fields,
            references=result.references,
            timestamp_unit=self._timestamp_unit,
        )

    def _decoder_for(
        self, key: bytes, result: FoundSchema, result_decoder: ColumnDecoder
    ) -> ColumnDecoder:
        return result_decoder

    # --- encoding ---

    def encoder(self, topic: str | None, field: str, column_type: tuple[Any, ...]) -> ColumnEncoder:
        """Return the encoder of a topic's keys or values, as the other codecs do.

        :raises ValueError: The records have a framing, but no registry gives the schema's id.
        :raises TypeError: The schema is a `JsonDecoder`.
        """
        if self._framed and self._registry is None:
            raise ValueError("producers of records with a framing need a schema registry")
        if isinstance(self._schema, JsonDecoder):
            raise TypeError("a JsonDecoder has no schema for producers: pass its schema")
        return super().encoder(topic, field, column_type)

    def _column_encoder(self, schema: FoundSchema) -> JsonEncoder:
        return JsonEncoder(
            schema.schema, schema.references, ignore_extra=self._options.ignore_extra
        )

    def _schema_of_columns(self, column_type: tuple[Any, ...], name: str) -> Any:
        # Without a registry the columns say more than a JSON Schema could.
        return None if self._registry is None else json_schema_of(column_type, name)

    def _schema_text(self, schema: Any) -> str:
        if hasattr(schema, "__arrow_c_schema__"):
            schema = json_schema_of(read_arrow_schema(schema))
        if isinstance(schema, bytes):
            return schema.decode()
        return schema if isinstance(schema, str) else json.dumps(schema, ensure_ascii=False)

    def _add_framing(self, encoder: ColumnEncoder, subject: str, registered: Any) -> None:
        if self._framed:
            super()._add_framing(encoder, subject, registered)
