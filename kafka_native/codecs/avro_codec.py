"""Avro: keys or values in Avro, for the columns of consumers and producers."""

from __future__ import annotations

from collections.abc import Iterable

from kafka_native.codecs.avro import AvroDecoder, ColumnTypes, Enums, Schema, Unions, Uuids
from kafka_native.codecs.avro_encoding import AvroEncoding
from kafka_native.codecs.codec import FoundSchema, Registry, SchemaOfClient
from kafka_native.codecs.columns import ColumnDecoder

__all__ = ["Avro"]


class Avro(AvroEncoding):
    """Avro records, for the ``value=`` and ``key=`` of Arrow columns.

        avro = Avro("http://localhost:8081", fields=["id", "customer.city"])
        batch = consumer.consume_arrow(100_000, timeout=1.0, value=avro)
        producer.produce_arrow("orders", table, value=Avro("http://localhost:8081"))

    `Consumer.consume_arrow` and `Consumer.arrow_stream`: each record names its writer's schema by
    an id or a GUID, in front of the record or in a header. This schema is looked up once, and
    resolved against the schema of the result.

    `Producer.produce_arrow`: the schema of the records is registered or looked up once, and its id
    stands in front of each record.

    Parameters
    ----------
    registry : SchemaRegistryClient or str, optional
        A client of the schema registry, or its URL. None: the records have no framing, and all
        have the schema ``schema``.
    subject : str, optional
        The subject. Its latest version is the schema of a consumer's result. A producer registers
        its schema there. Default: ``<topic>-value`` or ``<topic>-key``, if a consumer reads one
        topic. The version is looked up once.
    schema : str, dict, list or Schema, optional
        The schema of a consumer's result, in place of the registry's, or of a producer's records:
        JSON text, the parsed JSON, or a Schema of the registry's client. Default of a producer: a
        schema that is made from the columns.
    fields : sequence of str, optional
        Only these fields of the result's schema, as of `AvroDecoder`. Producers ignore them.
    enums, unions, uuids : str
        The columns of these types, as of `AvroDecoder`.
    auto_register : bool
        Producers register the schema. False: it must be registered already.
    normalize : bool
        The registry normalizes a producer's schema first.
    use_latest_version : bool
        Producers encode with the latest version of the subject.
    ignore_extra : bool
        Producers leave out columns that the schema has no field for.

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
        ignore_extra: bool = False,
    ) -> None:
        if isinstance(fields, str):
            raise TypeError("fields must be a sequence of names, not one str")
        super().__init__(registry, subject=subject, schema=schema)
        self._init_encoding(
            auto_register=auto_register,
            normalize=normalize,
            use_latest_version=use_latest_version,
            ignore_extra=ignore_extra,
        )
        self._fields = None if fields is None else list(fields)
        self._types = ColumnTypes(enums, unions, uuids)

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
