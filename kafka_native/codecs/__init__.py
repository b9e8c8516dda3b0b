"""Codecs, decoders and encoders of typed records: Arrow columns and Python objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_native.lazy import lazy_names

if TYPE_CHECKING:
    from kafka_native.codecs.avro_codec import Avro
    from kafka_native.codecs.avro_decoder import AvroDecoder
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
    from kafka_native.codecs.json_codec import Json
    from kafka_native.codecs.json_decoder import JsonDecoder
    from kafka_native.codecs.json_encoder import JsonEncoder
    from kafka_native.codecs.protobuf_codec import Protobuf
    from kafka_native.codecs.protobuf_decoder import ProtobufDecoder
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
    "JsonEncoder",
    "MessageDecodeError",
    "Protobuf",
    "ProtobufDecoder",
    "ProtobufEncoder",
    "SchemaError",
    "SchemaLookupError",
]

# Consumers import this package. The first access to a name imports its module.
_MODULES = {
    "Avro": "avro_codec",
    "AvroDecoder": "avro_decoder",
    "AvroEncoder": "avro_encoder",
    "AvroReader": "avro_reader",
    "Codec": "codec",
    "DecodeError": "errors",
    "EncodeError": "errors",
    "Json": "json_codec",
    "JsonDecoder": "json_decoder",
    "JsonEncoder": "json_encoder",
    "MessageDecodeError": "errors",
    "Protobuf": "protobuf_codec",
    "ProtobufDecoder": "protobuf_decoder",
    "ProtobufEncoder": "protobuf_encoder",
    "SchemaError": "errors",
    "SchemaLookupError": "errors",
}


__getattr__, __dir__ = lazy_names(__name__, _MODULES)
