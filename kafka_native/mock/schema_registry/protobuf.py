"""Protobuf schemas: reading .proto files and descriptors, and writing them in one form.

Inside, a schema is protobuf's own FileDescriptorProto: ``pip install 'kafka-native[protobuf]'``.
"""

from __future__ import annotations

import base64
import binascii
import importlib
from dataclasses import dataclass, field
from typing import Any, Final

from kafka_native import protobuf_parser
from kafka_native.mock.schema_registry import proto_writer
from kafka_native.mock.schema_registry.errors import InvalidSchemaError, RegistryError

WELL_KNOWN: Final = {
    f"google/protobuf/{name}.proto": f"google.protobuf.{name}_pb2"
    for name in (
        "any", "api", "descriptor", "duration", "empty", "field_mask", "source_context", "struct",
        "timestamp", "type", "wrappers",
    )
}  # fmt: skip
# Every registry knows these files. Their types are accepted without a look at them.
_BUILT_IN: Final = {"google/type/": "google.type.", "confluent/": "confluent."}


@dataclass
class Schema:
    """A file with the types that it can refer to."""

    file: Any
    types: dict[str, Any] = field(default_factory=dict)
    """Full name -> the descriptor of a message or an enum, also of imported files."""


def descriptor_module() -> Any:
    """Return protobuf's module of descriptors. Raises ``RegistryError`` if it is missing."""
    try:
        return importlib.import_module("google.protobuf.descriptor_pb2")
    except ImportError:
        raise RegistryError(
            501,
            "The mock registry needs protobuf for Protobuf schemas: "
            "pip install 'kafka-native[protobuf]'",
        ) from None


def parse(text: str, references: dict[str, str] | None = None) -> Schema:
    """Read a file, as text or as a descriptor in base64, and the files that it imports.

    Raises ``InvalidSchemaError``.
    """
    references = references or {}
    schema = Schema(_read(text))
    for name in _imports(schema.file, references):
        if name in references:
            imported = _read(references[name])
        elif name in WELL_KNOWN:
            imported = descriptor_module().FileDescriptorProto()
            importlib.import_module(WELL_KNOWN[name]).DESCRIPTOR.CopyToProto(imported)
        elif name.startswith(tuple(_BUILT_IN)):
            continue
        else:
            raise InvalidSchemaError(f"the import {name!r} is not among the references")
        schema.types |= _types_of(imported)
    own = _types_of(schema.file)
    if repeated := own.keys() & schema.types.keys():
        raise InvalidSchemaError(f"{min(repeated)} is declared twice")
    schema.types |= own
    _Resolver(schema).resolve()
    return schema


def text_of(schema: Schema, normalize: bool = False) -> str:
    """Return a file in one form. With ``normalize`` declarations are sorted."""
    return proto_writer.text_of(schema.file, schema.types, normalize)


def _read(text: str) -> Any:
    module = descriptor_module()
    try:
        data = base64.b64decode(text.strip(), validate=True)
        file = module.FileDescriptorProto.FromString(data)
    except (binascii.Error, ValueError):
        try:
            return protobuf_parser.parse(text, module)
        except protobuf_parser.ProtoSyntaxError as error:
            raise InvalidSchemaError(str(error)) from None
    except Exception as error:  # protobuf's DecodeError, which has no common module
        raise InvalidSchemaError(f"the descriptor can't be decoded: {error}") from None
    file.ClearField("name")
    file.ClearField("source_code_info")
    return file


def _imports(file: Any, references: dict[str, str]) -> list[str]:
    """Return the imported files, and those that they import publicly."""
    found = list(file.dependency)
    for name in found:
        if name in references:
            other = _read(references[name])
            public = [other.dependency[number] for number in other.public_dependency]
            found += [each for each in public if each not in found]
    return found


def _types_of(file: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}

    def add(messages: Any, enums: Any, prefix: str) -> None:
        for each in (*messages, *enums):
            name = f"{prefix}{each.name}"
            if name in found:
                raise InvalidSchemaError(f"{name} is declared twice")
            found[name] = each
        for each in messages:
            add(each.nested_type, each.enum_type, f"{prefix}{each.name}.")

    add(file.message_type, file.enum_type, f"{file.package}." if file.package else "")
    return found


class _Resolver:
    """Replaces names of types by full names, and checks numbers and names."""

    def __init__(self, schema: Schema) -> None:
        self._file = schema.file
        self._types = schema.types
        self._field = descriptor_module().FieldDescriptorProto

    def resolve(self) -> None:
        """Resolve every name of the file. Raises ``InvalidSchemaError``."""
        package = self._file.package
        for message in self._file.message_type:
            self._message(message, f"{package}.{message.name}" if package else message.name)
        for each in self._file.extension:
            self._resolve(each, package)
            each.extendee = self._full(each.extendee, package, each.name)
        for enum in self._file.enum_type:
            self._enum(enum)
        for service in self._file.service:
            for method in service.method:
                method.input_type = self._full(method.input_type, package, method.name)
                method.output_type = self._full(method.output_type, package, method.name)

    def _message(self, message: Any, scope: str) -> None:
        numbers: set[int] = set()
        names: set[str] = set()
        for each in message.field:
            if each.number in numbers or each.name in names:
                raise InvalidSchemaError(f"{scope}.{each.name}: the number or the name is taken")
            if not 1 <= each.number < 1 << 29 or 19_000 <= each.number < 20_000:
                raise InvalidSchemaError(f"{scope}.{each.name}: {each.number} is no field number")
            numbers.add(each.number)
            names.add(each.name)
            self._resolve(each, scope)
        for each in message.extension:
            self._resolve(each, scope)
            each.extendee = self._full(each.extendee, scope, each.name)
        for nested in message.nested_type:
            self._message(nested, f"{scope}.{nested.name}")
        for enum in message.enum_type:
            self._enum(enum)

    def _enum(self, enum: Any) -> None:
        if not enum.value:
            raise InvalidSchemaError(f"the enum {enum.name} has no value")
        numbers = [each.number for each in enum.value]
        if len(set(numbers)) < len(numbers) and not enum.options.allow_alias:
            raise InvalidSchemaError(f"the enum {enum.name} has a number twice")
        if self._file.syntax == "proto3" and numbers[0] != 0:
            raise InvalidSchemaError(f"the first value of the enum {enum.name} is not 0")

    def _resolve(self, each: Any, scope: str) -> None:
        if not each.type_name:
            return
        each.type_name = self._full(each.type_name, scope, each.name)
        target = self._types.get(each.type_name[1:])
        if target is not None and each.type != self._field.TYPE_GROUP:
            is_enum = target.DESCRIPTOR.name == "EnumDescriptorProto"
            each.type = self._field.TYPE_ENUM if is_enum else self._field.TYPE_MESSAGE

    def _full(self, name: str, scope: str, where: str) -> str:
        found = proto_writer.resolved(name, scope, self._types)
        if found is None:
            plain = name.removeprefix(".")
            prefixes = [
                prefix
                for path, prefix in _BUILT_IN.items()
                if any(each.startswith(path) for each in self._file.dependency)
            ]
            if plain.startswith(tuple(prefixes)):
                return f".{plain}"
            raise InvalidSchemaError(f"{scope}.{where}: unknown type {name}")
        return f".{found}"
