"""Json: keys or values in JSON, for the columns of consumers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from kafka_native.codecs.codec import Codec, FoundSchema, Registry
from kafka_native.codecs.column_decoder import ColumnDecoder
from kafka_native.codecs.json_decoder import JsonDecoder

__all__ = ["Json"]


class Json(Codec):
    """JSON records, for ``consume_arrow(value=...)`` and ``arrow_stream(value=...)``.

        batch = consumer.consume_arrow(value=Json("http://localhost:8081"))
        batch = consumer.consume_arrow(value=Json(schema=pyarrow.schema([("id", "int64")])))

    All records are read with the reader's schema. The registry isn't asked for the schemas of the
    records.

    Parameters
    ----------
    registry : SchemaRegistryClient or str, optional
        A client of the schema registry, or its URL. The records have its framing. None: the records
        have no framing, unless ``framed`` says so.
    subject : str, optional
        The subject whose latest version is the reader's schema. It is looked up once. Default:
        ``<topic>-value`` or ``<topic>-key``, if the consumer reads one topic.
    schema : Arrow schema, str, bytes, dict or JsonDecoder, optional
        The reader's schema, as in `JsonDecoder`, or a decoder such as
        ``JsonDecoder.infer(records)``. Default: the one of ``subject``.
    fields : sequence of str, optional
        Only these fields, as in `JsonDecoder`.
    timestamp_unit : str
        As in `JsonDecoder`.
    framed : bool, optional
        Whether the records have a framing (a schema id or GUID). Default: with a registry.

    Raises
    ------
    ValueError
        There is neither a registry nor a schema, or a subject without a registry.
    TypeError
        ``registry`` is an asyncio client, ``fields`` is one str, or there are ``fields`` and a
        `JsonDecoder`.
    ImportError
        ``registry`` is a URL, and httpx2 isn't installed.
    """

    schema_type = "JSON"

    def __init__(
        self,
        registry: Registry | str | None = None,
        *,
        subject: str | None = None,
        schema: Any | None = None,
        fields: Iterable[str] | None = None,
        timestamp_unit: Literal["s", "ms", "us", "ns"] = "us",
        framed: bool | None = None,
    ) -> None:
        if isinstance(fields, str):
            raise TypeError("fields must be a sequence of names, not one str")
        if isinstance(schema, JsonDecoder) and fields is not None:
            raise TypeError("fields= belongs to the JsonDecoder")
        super().__init__(registry, subject=subject, schema=schema)
        self._fields = None if fields is None else list(fields)
        self._timestamp_unit = timestamp_unit
        self._framed = registry is not None if framed is None else framed

    @property
    def framing(self) -> str:
        """What stands before a record: a key of ``FRAMINGS``."""
        return "id" if self._framed else "none"

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
