"""Decoders of typed records into Arrow columns, without the interpreter."""

from __future__ import annotations

from kafka_native.codecs.avro import AvroDecoder
from kafka_native.codecs.errors import DecodeError, SchemaError

__all__ = ["AvroDecoder", "DecodeError", "SchemaError"]
