"""Decoders of typed records into Arrow columns, without the interpreter."""

from __future__ import annotations

from kafka_native.codecs.avro import AvroDecoder
from kafka_native.codecs.avro_codec import Avro
from kafka_native.codecs.codec import Codec
from kafka_native.codecs.errors import (
    DecodeError,
    MessageDecodeError,
    SchemaError,
    SchemaLookupError,
)
from kafka_native.codecs.json import JsonDecoder
from kafka_native.codecs.json_codec import Json
from kafka_native.codecs.protobuf import ProtobufDecoder
from kafka_native.codecs.protobuf_codec import Protobuf

__all__ = [
    "Avro",
    "AvroDecoder",
    "Codec",
    "DecodeError",
    "Json",
    "JsonDecoder",
    "MessageDecodeError",
    "Protobuf",
    "ProtobufDecoder",
    "SchemaError",
    "SchemaLookupError",
]
