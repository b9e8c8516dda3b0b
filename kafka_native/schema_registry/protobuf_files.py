"""The Protobuf files that each schema may import, and pools of descriptors."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from kafka_native.codecs.errors import SchemaError
from kafka_native.serialization import SerializationError

try:
    from google.protobuf import descriptor_pb2, json_format
    from google.protobuf.descriptor import FieldDescriptor
    from google.protobuf.empty_pb2 import Empty
    from google.protobuf.message import DecodeError, Message
    from google.protobuf.message_factory import GetMessageClass
except ImportError as error:
    raise ImportError(
        "Protobuf serializers need protobuf: pip install 'kafka-native[protobuf]'"
    ) from error

from kafka_native.codecs import protobuf_descriptors
from kafka_native.codecs.protobuf_descriptors import ROOT_FILE, is_builtin, meta_field

__all__ = [
    "ROOT_FILE",
    "DecodeError",
    "Empty",
    "FieldDescriptor",
    "GetMessageClass",
    "Message",
    "is_builtin",
    "json_format",
    "meta_of",
    "pool_of",
    "proto_of",
    "text_of",
]


def text_of(file: Any) -> str:
    """Return the text of a file's descriptor as the registry stores it: base64."""
    return base64.b64encode(file.serialized_pb).decode("ascii")


def proto_of(name: str, text: str) -> Any:
    """Return the FileDescriptorProto of the registry's text, under a file name."""
    proto = descriptor_pb2.FileDescriptorProto()
    try:
        proto.ParseFromString(base64.b64decode(text, validate=True))
    except (binascii.Error, DecodeError, ValueError) as error:
        raise SerializationError(
            f"the Protobuf schema {name} isn't a serialized descriptor in base64: {error}. The "
            "registry has to support ?format=serialized"
        ) from error
    proto.name = name
    return proto


def pool_of(root: Any, references: Mapping[str, Any]) -> Any:
    """Return a pool that has a file and all files that it imports.

    :param references: The files that the schema refers to, by name.
    :raises SerializationError: A file is missing or invalid.
    """
    try:
        return protobuf_descriptors.pool_of(root, references)
    except SchemaError as error:
        raise SerializationError(str(error)) from error


def _options_class() -> Any:
    """Return a message that reads the registry's part of the options of any descriptor."""
    meta = meta_field("meta")
    options = descriptor_pb2.DescriptorProto(name="Options", field=[meta])
    file = descriptor_pb2.FileDescriptorProto(
        name=ROOT_FILE,
        syntax="proto3",
        dependency=["confluent/meta.proto"],
        message_type=[options],
    )
    return GetMessageClass(pool_of(file, {}).FindMessageTypeByName("Options"))


_Options = _options_class()


def meta_of(descriptor: Any) -> Any:
    """Return the ``confluent.Meta`` of a descriptor, which has its tags."""
    return _Options.FromString(descriptor.GetOptions().SerializeToString()).meta
