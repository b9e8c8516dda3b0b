"""Avro: keys or values in Avro, for the columns of consumers and producers."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from kafka_native.codecs.avro_decoder import AvroDecoder, ColumnTypes, Enums, Schema, Unions, Uuids
from kafka_native.codecs.avro_encoder import AvroEncoder
from kafka_native.codecs.avro_from_arrow import avro_schema_of
from kafka_native.codecs.codec import Codec, FoundSchema, Registry, SchemaOfClient
from kafka_native.codecs.column_decoder import ColumnDecoder
from kafka_native.codecs.column_encoder import ColumnEncoder
from kafka_native.codecs.errors import SchemaError

__all__ = ["Avro"]

ENCODERS_MAX = 1000
"""How many encoders a codec keeps."""
MAGIC_BYTE_ID = b"\0"


class Avro(Codec):
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
    _registry: Any  # encoding makes more calls than decoding

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
        ignore_extra: bool = False,
    ) -> None:
        if isinstance(fields, str):
            raise TypeError("fields must be a sequence of names, not one str")
        super().__init__(registry, subject=subject, schema=schema)
        if use_latest_version and schema is not None:
            raise ValueError("use_latest_version takes the registry's schema: don't pass schema=")
        if use_latest_version and registry is None:
            raise ValueError("use_latest_version needs a schema registry")
        self._auto_register = auto_register
        self._normalize = normalize
        self._use_latest_version = use_latest_version
        self._ignore_extra = ignore_extra
        self._encoders: dict[Any, AvroEncoder] = {}
        self._fields = None if fields is None else list(fields)
        self._types = ColumnTypes(enums, unions, uuids)

    # --- decoding ---

    def _result_decoder(self, result: FoundSchema) -> AvroDecoder:
        return self._decoder(result, result)

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

    def encoder(self, topic: str | None, field: str, column_type: tuple[Any, ...]) -> ColumnEncoder:
        """Return the encoder of a topic's keys or values.

        The first call for a subject and a schema asks the registry. Without a schema, the subject's
        latest version is used if ``use_latest_version`` is set, else one made from the columns.

        :param topic: None if each row names its topic. Then the codec needs a subject.
        :param field: ``"key"`` or ``"value"``.
        :param column_type: The type of the columns, as `ColumnInput.description`.
        :raises SchemaError: The schema is malformed, or the columns have no Avro type.
        :raises ValueError: There is neither a topic nor a subject.
        :raises SchemaRegistryError: The registry refuses the schema, or doesn't have it.
        """
        subject = self._subject or f"{topic}-{field}"
        if self._registry is not None and self._subject is None and topic is None:
            raise ValueError("each row names its topic: pass subject= to the codec")
        is_derived = self._schema is None and not self._use_latest_version
        key = subject, field, column_type if is_derived else None
        found = self._encoders.get(key)
        if found is None:
            found = self._made(subject, topic, field, column_type)
            if len(self._encoders) >= ENCODERS_MAX:
                self._encoders.clear()
            self._encoders[key] = found
        return found

    def _made(
        self, subject: str, topic: str | None, field: str, column_type: tuple[Any, ...]
    ) -> AvroEncoder:
        """Return an encoder. Its schema is registered after the columns were found to fit."""
        schema_id = None
        schema = None if self._use_latest_version else self._own_schema(topic, field, column_type)
        if schema is None:
            registered = self._registry.get_latest_version(subject)
            schema, schema_id = registered.schema, registered.schema_id
        rules = getattr(schema, "rule_set", None)
        if rules is not None and (rules.domain_rules or rules.encoding_rules):
            raise SchemaError(
                f"subject {subject} has data-contract rules, which don't run for columns: "
                "use an AvroSerializer"
            )
        if isinstance(schema, str):
            made = AvroEncoder(schema, ignore_extra=self._ignore_extra)
        else:
            try:
                found = self._complete(schema, "the writer's schema")
            except SchemaError as error:
                raise SchemaError(f"subject {subject}: {error.problem}", error.path) from None
            references = found.references.values()
            made = AvroEncoder(found.schema, references, ignore_extra=self._ignore_extra)
        made.program_for(column_type)
        if self._registry is not None:
            if schema_id is None:
                schema_id = self._registered_id(subject, schema)
            made.prefix = _framing(schema_id)
        return made

    def _registered_id(self, subject: str, schema: Any) -> int:
        registry = self._registry
        call = (
            registry.register_schema_full_response
            if self._auto_register
            else registry.lookup_schema
        )
        registered = call(subject, schema, normalize_schemas=self._normalize)
        schema_id: int = registered.schema_id
        return schema_id

    def _own_schema(self, topic: str | None, field: str, column_type: tuple[Any, ...]) -> Any:
        """Return the schema as the registry's client takes it; without a registry as text."""
        schema = self._schema
        if schema is None:
            name = topic or self._subject or "record"
            schema = avro_schema_of(column_type, name if field == "value" else f"{name}_{field}")
        if hasattr(schema, "schema_str"):
            return schema
        text = schema if isinstance(schema, str) else json.dumps(schema)
        if text.strip()[:1] not in ("{", "["):
            text = json.dumps({"type": text.strip(' "')})
        if self._registry is None:
            return text
        from kafka_native.schema_registry.schemas import Schema

        return Schema(text, "AVRO")


def _framing(schema_id: int) -> bytes:
    return MAGIC_BYTE_ID + schema_id.to_bytes(4, "big")
