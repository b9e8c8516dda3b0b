"""The Protobuf files that each schema may import, and pools of descriptors."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

from kafka_native.serialization import SerializationError

try:
    from google.protobuf import descriptor_pb2, json_format
    from google.protobuf.descriptor import FieldDescriptor
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message import DecodeError, Message
    from google.protobuf.message_factory import GetMessageClass
except ImportError as error:
    raise ImportError(
        "Protobuf serializers need protobuf: pip install 'kafka-native[protobuf]'"
    ) from error

__all__ = [
    "ROOT_FILE",
    "DecodeError",
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

ROOT_FILE = "default"
"""The name of a schema's own file in its pool."""

_META_FIELD = 1088
_TYPES = descriptor_pb2.FieldDescriptorProto


def is_builtin(name: str) -> bool:
    """Return whether a file belongs to Protobuf or to the registry, so that nobody registers it."""
    return name.startswith(("google/protobuf/", "google/type/", "confluent/"))


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
    pool = DescriptorPool()
    _add(pool, root, references, set())
    return pool


def _add(pool: Any, proto: Any, references: Mapping[str, Any], added: set[str]) -> None:
    added.add(proto.name)
    for name in proto.dependency:
        if name in added:
            continue
        file = references.get(name) or _builtin(name)
        if file is None:
            raise SerializationError(
                f"the Protobuf schema imports {name}, which is not among its references"
            )
        _add(pool, file, references, added)
    try:
        pool.AddSerializedFile(proto.SerializeToString())
    except TypeError as error:
        raise SerializationError(f"the Protobuf schema is invalid: {error}") from error


def _builtin(name: str) -> Any:
    """Return the FileDescriptorProto of a file that needs no reference, or None."""
    if name in _CONFLUENT_FILES:
        return _CONFLUENT_FILES[name]
    if not is_builtin(name):
        return None
    try:
        module = import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
    except ImportError:
        return None
    proto = descriptor_pb2.FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(proto)
    return proto


def _field(name: str, number: int, type_: int, message: str = "", repeated: bool = False) -> Any:
    label = _TYPES.LABEL_REPEATED if repeated else _TYPES.LABEL_OPTIONAL
    field = _TYPES(name=name, number=number, type=type_, label=label)
    if message:
        field.type_name = message
    return field


def _texts(*names: str) -> list[Any]:
    return [_field(name, i, _TYPES.TYPE_STRING) for i, name in enumerate(names, 1)]


def _meta_file() -> Any:
    """Return ``confluent/meta.proto``: tags and rules of files, messages, fields and enums."""
    message = descriptor_pb2.DescriptorProto
    entry = message(name="ParamsEntry", field=_texts("key", "value"))
    entry.options.map_entry = True
    meta = message(
        name="Meta",
        field=[
            _field("doc", 1, _TYPES.TYPE_STRING),
            _field("params", 2, _TYPES.TYPE_MESSAGE, ".confluent.Meta.ParamsEntry", True),
            _field("tags", 3, _TYPES.TYPE_STRING, "", True),
            _field("rules", 4, _TYPES.TYPE_MESSAGE, ".confluent.Rule", True),
        ],
        nested_type=[entry],
    )
    rule = message(name="Rule", field=_texts("name", "doc", "expr", "sql"))
    return descriptor_pb2.FileDescriptorProto(
        name="confluent/meta.proto",
        package="confluent",
        syntax="proto3",
        dependency=["google/protobuf/descriptor.proto"],
        message_type=[meta, rule],
        extension=list(_meta_extensions()),
    )


def _meta_extensions() -> Iterator[Any]:
    for name in ("file", "message", "field", "enum", "enum_value"):
        field = _field(f"{name}_meta", _META_FIELD, _TYPES.TYPE_MESSAGE, ".confluent.Meta")
        options = name.title().replace("_", "")
        field.extendee = f".google.protobuf.{options}Options"
        yield field


def _type_file(name: str, fields: list[Any]) -> Any:
    message = descriptor_pb2.DescriptorProto(name=name, field=fields)
    return descriptor_pb2.FileDescriptorProto(
        name=f"confluent/type/{name.lower()}.proto",
        package="confluent.type",
        syntax="proto3",
        message_type=[message],
    )


def _confluent_files() -> dict[str, Any]:
    decimal = _type_file(
        "Decimal",
        [
            _field("value", 1, _TYPES.TYPE_BYTES),
            _field("precision", 2, _TYPES.TYPE_UINT32),
            _field("scale", 3, _TYPES.TYPE_INT32),
        ],
    )
    fields = [_field("metadata", 1, _TYPES.TYPE_BYTES), _field("value", 2, _TYPES.TYPE_BYTES)]
    variant = _type_file("Variant", fields)
    old_decimal = descriptor_pb2.FileDescriptorProto(
        name="confluent/types/decimal.proto",
        syntax="proto3",
        dependency=[decimal.name],
        public_dependency=[0],
    )
    return {file.name: file for file in (_meta_file(), decimal, variant, old_decimal)}


_CONFLUENT_FILES = _confluent_files()


def _options_class() -> Any:
    """Return a message that reads the registry's part of the options of any descriptor."""
    meta = _field("meta", _META_FIELD, _TYPES.TYPE_MESSAGE, ".confluent.Meta")
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
