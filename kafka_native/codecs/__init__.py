"""Decoders of typed records into Arrow columns, without the interpreter."""

from __future__ import annotations

from kafka_native.codecs.avro import AvroDecoder
from kafka_native.codecs.errors import DecodeError, SchemaError
from kafka_native.codecs.json import JsonDecoder

__all__ = ["AvroDecoder", "DecodeError", "JsonDecoder", "SchemaError"]
