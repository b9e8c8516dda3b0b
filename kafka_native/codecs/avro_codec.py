"""Avro: keys or values in Avro, for the columns of consumers and producers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from kafka_native.codecs.avro import AvroDecoder, Schema
from kafka_native.codecs.avro_encoding import AvroEncoding
from kafka_native.codecs.codec import FoundSchema, Registry
from kafka_native.codecs.columns import ColumnDecoder

__all__ = ["Avro"]


class RegistrySchema(Protocol):
    """A Schema of the registry's client."""

    schema_str: str | None


class Avro(AvroEncoding):
    """Avro records, for `consume_arrow()`, `arrow_stream()` and `produce_arrow()`.

        avro = Avro("http://localhost:8081", fields=["id", "customer.city"])
        batch = consumer.consume_arrow(100_000, timeout=1.0, value=avro)
        producer.produce_arrow("orders", table, value=Avro("http://localhost:8081"))

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
    schema : str, dict, list or Schema, optional
        The schema of the result, in place of the registry's: JSON text, or the parsed JSON. For
        producers: the schema of the records. A Schema of the registry's client may have references.
    fields : sequence of str, optional
        Only these fields of the result's schema, as of `AvroDecoder`.
    auto_register : bool
        For producers: register the schema under the subject. False: it must be registered already.
    normalize : bool
        For producers: let the registry normalize the schema.
    use_latest_version : bool
        For producers: encode with the latest version of the subject. Default: with ``schema``, else
        with a schema made from the columns.
    ignore_extra : bool
        For producers: leave out columns that the schema has no field for.

    Raises
    ------
    ValueError
        There is neither a registry nor a schema, or a subject without a registry.
    TypeError
        ``registry`` is an asyncio client, or ``fields`` is one str.
    ImportError
        ``registry`` is a URL, and httpx2 isn't installed.
    """

    def __init__(
        self,
        registry: Registry | str | None = None,
        *,
        subject: str | None = None,
        schema: Schema | RegistrySchema | None = None,
        fields: Iterable[str] | None = None,
        auto_register: bool = True,
        normalize: bool = False,
        use_latest_version: bool = False,
        ignore_extra: bool = False,
    ) -> None:
        if isinstance(fields, str):
            raise TypeError("fields must be a sequence of names, not one str")
        super().__init__(registry, subject=subject, schema=schema)
        self._fields = None if fields is None else list(fields)
        self._init_encoding(
            auto_register=auto_register,
            normalize=normalize,
            use_latest_version=use_latest_version,
            ignore_extra=ignore_extra,
        )

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
