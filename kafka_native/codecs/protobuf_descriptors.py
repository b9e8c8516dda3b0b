"""Descriptors of Protobuf messages, from what users have: classes, descriptor sets, schemas."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

from kafka_native import protobuf_parser
from kafka_native.codecs.errors import SchemaError

try:
    from google.protobuf import descriptor_pb2
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message import DecodeError
except ImportError as error:
    raise ImportError(
        "Protobuf columns need protobuf: pip install 'kafka-native[protobuf]'"
    ) from error

__all__ = [
    "ROOT_FILE",
    "indexes_of",
    "is_builtin",
    "message_of",
    "meta_field",
    "pool_of",
    "read_file",
]

ROOT_FILE = "default"
"""The name of a schema's own file in its pool."""

_META_FIELD = 1088
_TYPES = descriptor_pb2.FieldDescriptorProto


def message_of(
    schema: Any, message: str | Sequence[int] | None, references: Mapping[str, str] | None
) -> Any:
    """Return the descriptor of a message.

    :param schema: A message class, a message's descriptor, a serialized FileDescriptorSet, or the
        text of a registry's schema.
    :param message: A full name, or message indexes in the last file.
    :param references: The texts of the files that a schema's text imports, by name.
    :raises SchemaError: The schema is malformed, or has no such message.
    """
    descriptor = getattr(schema, "DESCRIPTOR", schema)
    if references is not None and not isinstance(schema, str):
        raise TypeError("only the text of a schema has references")
    if hasattr(descriptor, "fields_by_number"):
        if message is not None:
            raise TypeError("only a descriptor set or the text of a schema has several messages")
        return descriptor
    if isinstance(schema, str):
        files = {name: read_file(name, text) for name, text in (references or {}).items()}
        pool = pool_of(read_file(ROOT_FILE, schema), files)
        return _message_in(pool, pool.FindFileByName(ROOT_FILE), message)
    if isinstance(schema, bytes):
        return _message_in(*_pool_of_set(schema), message)
    raise TypeError(
        "a Protobuf schema is a message class, a descriptor, the bytes of a descriptor set or the "
        f"text of a schema, not {type(schema).__name__}"
    )


def indexes_of(descriptor: Any) -> list[int]:
    """Return the position of a message in its file, from the outermost message inwards."""
    indexes: list[int] = []
    while descriptor.containing_type is not None:
        siblings = [each.full_name for each in descriptor.containing_type.nested_types]
        indexes.insert(0, siblings.index(descriptor.full_name))
        descriptor = descriptor.containing_type
    outermost = list(descriptor.file.message_types_by_name)
    return [outermost.index(descriptor.name), *indexes]


def read_file(name: str, text: str) -> Any:
    """Return the FileDescriptorProto of a .proto file's text, or of a descriptor in base64."""
    try:
        file = descriptor_pb2.FileDescriptorProto()
        file.ParseFromString(base64.b64decode(text.strip(), validate=True))
    except (binascii.Error, DecodeError, ValueError):
        try:
            file = protobuf_parser.parse(text, descriptor_pb2)
        except protobuf_parser.ProtoSyntaxError as error:
            raise SchemaError(f"the Protobuf schema {name} is malformed: {error}") from None
    file.name = name
    return file


def _pool_of_set(data: bytes) -> tuple[Any, Any]:
    """Return the pool of a descriptor set, and its last file."""
    found = descriptor_pb2.FileDescriptorSet()
    try:
        found.ParseFromString(data)
    except DecodeError as error:
        raise SchemaError(f"the bytes aren't a descriptor set: {error}") from None
    if not found.file:
        raise SchemaError("the descriptor set has no files")
    pool = DescriptorPool()
    files = {each.name: each for each in found.file}
    added: set[str] = set()
    for each in found.file:
        if each.name not in added:
            _add(pool, each, files, added)
    return pool, pool.FindFileByName(found.file[-1].name)


def _message_in(pool: Any, file: Any, message: str | Sequence[int] | None) -> Any:
    if isinstance(message, str):
        try:
            return pool.FindMessageTypeByName(message)
        except KeyError:
            raise SchemaError(f"the schema has no message {message}") from None
    found = None
    messages = list(file.message_types_by_name.values())
    for index in message or [0]:
        if not 0 <= index < len(messages):
            raise SchemaError(
                f"the message indexes {list(message or [0])} point at no message of the schema: "
                f"{index} isn't below {len(messages)}"
            )
        found = messages[index]
        messages = list(found.nested_types)
    return found


# --- pools ---


def is_builtin(name: str) -> bool:
    """Return whether a file belongs to Protobuf or to the registry, so that nobody registers it."""
    return name.startswith(("google/protobuf/", "google/type/", "confluent/"))


def pool_of(root: Any, references: Mapping[str, Any]) -> Any:
    """Return a pool that has a file and all files that it imports.

    :param root: The FileDescriptorProto.
    :param references: The FileDescriptorProtos that it may import, by name.
    :raises SchemaError: A file is missing or invalid.
    """
    pool = DescriptorPool()
    _add(pool, root, references, set())
    return pool


def _add(pool: Any, proto: Any, references: Mapping[str, Any], added: set[str]) -> None:
    added.add(proto.name)
    for name in proto.dependency:
        if not isinstance(name, str):
            raise SchemaError("the name of an imported file isn't UTF-8")
        if name in added:
            continue
        file = references.get(name) or _builtin(name)
        if file is None:
            raise SchemaError(
                f"the Protobuf schema imports {name}, which is not among its references"
            )
        _add(pool, file, references, added)
    _check_entries(proto.message_type)
    try:
        pool.AddSerializedFile(proto.SerializeToString())
    except TypeError as error:
        raise SchemaError(f"the Protobuf schema is invalid: {error}") from error


def _check_entries(messages: Iterable[Any]) -> None:
    """Check that the entries of maps have a key and a value, which not all pools do."""
    for each in messages:
        numbers = sorted(field.number for field in each.field)
        if each.options.map_entry and numbers != [1, 2]:
            raise SchemaError(f"the map entry {each.name} has other fields than 1 and 2")
        _check_entries(each.nested_type)


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


def meta_field(name: str) -> Any:
    """Return a field with the registry's tags and rules."""
    return _field(name, _META_FIELD, _TYPES.TYPE_MESSAGE, ".confluent.Meta")


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
        field = meta_field(f"{name}_meta")
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
