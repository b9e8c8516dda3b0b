"""Decoders and encoders of typed records: Arrow columns without the interpreter, and objects."""

from __future__ import annotations

from kafka_native.codecs.avro import AvroDecoder
from kafka_native.codecs.avro_codec import Avro
from kafka_native.codecs.avro_encoder import AvroEncoder
from kafka_native.codecs.avro_reader import AvroReader
from kafka_native.codecs.codec import Codec
from kafka_native.codecs.errors import (
    DecodeError,
    EncodeError,
    MessageDecodeError,
    SchemaError,
    SchemaLookupError,
)
from kafka_native.codecs.json import JsonDecoder
from kafka_native.codecs.json_codec import Json
from kafka_native.codecs.protobuf import ProtobufDecoder
from kafka_native.codecs.protobuf_codec import Protobuf
from kafka_native.codecs.protobuf_encoder import ProtobufEncoder

__all__ = [
    "Avro",
    "AvroDecoder",
    "AvroEncoder",
    "AvroReader",
    "Codec",
    "DecodeError",
    "EncodeError",
    "Json",
    "JsonDecoder",
    "MessageDecodeError",
    "Protobuf",
    "ProtobufDecoder",
    "ProtobufEncoder",
    "SchemaError",
    "SchemaLookupError",
]
