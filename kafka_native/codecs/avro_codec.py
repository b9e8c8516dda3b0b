"""Avro: keys or values in Avro, for the columns of consumers."""

from __future__ import annotations

from collections.abc import Iterable

from kafka_native.codecs.avro import AvroDecoder, Schema
from kafka_native.codecs.codec import Codec, FoundSchema, Registry
from kafka_native.codecs.columns import ColumnDecoder

__all__ = ["Avro"]


class Avro(Codec):
    """Avro records, for ``consume_arrow(value=...)`` and ``arrow_stream(value=...)``.

        avro = Avro("http://localhost:8081", fields=["id", "customer.city"])
        batch = consumer.consume_arrow(100_000, timeout=1.0, value=avro)

    Each record names its writer's schema by an id or a GUID, in front of the record or in a header.
    Its schema is looked up once, and resolved against the schema of the result.

    Parameters
    ----------
    registry : SchemaRegistryClient or str, optional
        A client of the schema registry, or its URL. None: the records have no framing, and all
        have the schema ``schema``.
    subject : str, optional
        The subject whose latest version is the schema of the result. Default: ``<topic>-value`` or
        ``<topic>-key``, if the consumer reads one topic. The version is looked up once.
    schema : str, dict or list, optional
        The schema of the result, in place of the registry's: JSON text, or the parsed JSON.
    fields : sequence of str, optional
        Only these fields of the result's schema, as of `AvroDecoder`.

    Raises
    ------
    ValueError
        There is neither a registry nor a schema, or a subject and a schema.
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
        schema: Schema | None = None,
        fields: Iterable[str] | None = None,
    ) -> None:
        if isinstance(fields, str):
            raise TypeError("fields must be a sequence of names, not one str")
        super().__init__(registry, subject=subject, schema=schema)
        self._fields = None if fields is None else list(fields)

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
        )
