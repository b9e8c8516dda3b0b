"""Decoders of typed records: into Arrow columns, without the interpreter, or into objects."""

from __future__ import annotations

from kafka_native.codecs.avro import AvroDecoder
from kafka_native.codecs.avro_codec import Avro
from kafka_native.codecs.avro_reader import AvroReader
from kafka_native.codecs.codec import Codec
from kafka_native.codecs.errors import (
    DecodeError,
    MessageDecodeError,
    SchemaError,
    SchemaLookupError,
)
from kafka_native.codecs.json import JsonDecoder
from kafka_native.codecs.protobuf import ProtobufDecoder

__all__ = [
    "Avro",
    "AvroDecoder",
    "AvroReader",
    "Codec",
    "DecodeError",
    "JsonDecoder",
    "MessageDecodeError",
    "ProtobufDecoder",
    "SchemaError",
    "SchemaLookupError",
]
