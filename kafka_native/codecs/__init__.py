"""Decoders and encoders of typed records and Arrow columns, without the interpreter."""

from __future__ import annotations

from kafka_native.codecs.avro import AvroDecoder
from kafka_native.codecs.avro_encoder import AvroEncoder
from kafka_native.codecs.errors import DecodeError, EncodeError, SchemaError
from kafka_native.codecs.protobuf_encoder import ProtobufEncoder

__all__ = [
    "AvroDecoder",
    "AvroEncoder",
    "DecodeError",
    "EncodeError",
    "ProtobufEncoder",
    "SchemaError",
]
