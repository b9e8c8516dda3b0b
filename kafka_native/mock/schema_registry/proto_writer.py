"""Writes protobuf's FileDescriptorProto as the text of a .proto file, in one form."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

from kafka_native.protobuf_parser import (
    FIELD_NUMBER_MAX,
    LABELS,
    SCALARS,
    TYPE_GROUP,
)

_NAMES: Final = {number: name for name, number in SCALARS.items()}
_LABEL_NAMES: Final = {number: name for name, number in LABELS.items()}
TYPE_STRING: Final = SCALARS["string"]
TYPE_BYTES: Final = SCALARS["bytes"]


def resolved(name: str, scope: str, types: dict[str, Any]) -> str | None:
    """Return the full name of a type, as the language resolves it, or None.

    The innermost scope in which the first part of the name exists decides.
    """
    if name.startswith("."):
        return name[1:] if name[1:] in types else None
    first = name.partition(".")[0]
    parts = scope.split(".") if scope else []
    for count in range(len(parts), -1, -1):
        prefix = ".".join([*parts[:count], ""]) if count else ""
        if prefix + name in types:
            return prefix + name
        if first != name and prefix + first in types:
            return None
    return None


def text_of(file: Any, types: dict[str, Any], normalize: bool = False) -> str:
    """Return the text of a file. With ``normalize`` declarations are sorted."""
    return "\n".join(_Writer(file, types, normalize).lines()) + "\n"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


class _Writer:
    def __init__(self, file: Any, types: dict[str, Any], normalize: bool) -> None:
        self._file = file
        self._types = types
        self._normalize = normalize

    def lines(self) -> Iterator[str]:
        """Yield the lines of the file."""
        file = self._file
        if file.syntax == "editions":
            editions = {value.number: value.name for value in _edition_values(file)}
            yield f"edition = {_quoted(editions[file.edition].removeprefix('EDITION_'))};"
        else:
            yield f"syntax = {_quoted(file.syntax or 'proto2')};"
        if file.package:
            yield f"package {file.package};"
        if file.dependency:
            yield ""
            yield from self._imports()
        if options := list(_options(file.options)):
            yield ""
            yield from (f"option {each};" for each in self._sorted(options))
        for message in self._sorted(file.message_type):
            yield ""
            yield from self._message(message, _scope("", file.package), "")
        for enum in self._sorted(file.enum_type):
            yield ""
            yield from self._enum(enum, "")
        for each in file.extension:
            yield ""
            yield from self._extend(each, file.package, "")
        for service in file.service:
            yield ""
            yield from self._service(service)

    def _imports(self) -> Iterator[str]:
        found = []
        for number, name in enumerate(self._file.dependency):
            word = "public " if number in self._file.public_dependency else ""
            word = "weak " if number in self._file.weak_dependency else word
            found.append(f"import {word}{_quoted(name)};")
        yield from self._sorted(found)

    def _sorted(self, items: Iterable[Any]) -> list[Any]:
        found = list(items)
        if not self._normalize:
            return found
        return sorted(found, key=lambda each: each if isinstance(each, str) else each.name)

    def _type(self, each: Any, scope: str) -> str:
        if not each.type_name:
            return _NAMES[each.type]
        return self._type_name(each.type_name, scope)

    def _type_name(self, full: str, scope: str) -> str:
        """Return the shortest name that resolves to a type."""
        plain = full.removeprefix(".")
        package = f"{self._file.package}." if self._file.package else ""
        if not self._normalize:
            names = {plain.removeprefix(f"{scope}."), plain.removeprefix(package), plain}
            for name in sorted(names, key=len):
                if resolved(name, scope, self._types) == plain:
                    return name
        return f".{plain}"

    def _message(self, message: Any, outer: str, indent: str) -> Iterator[str]:
        yield f"{indent}message {message.name} {{"
        yield from self._body(message, f"{outer}{message.name}", indent + "  ")
        yield f"{indent}}}"

    def _body(self, message: Any, scope: str, indent: str) -> Iterator[str]:
        for each in self._sorted(_options(message.options)):
            if not each.startswith("map_entry "):
                yield f"{indent}option {each};"
        if message.reserved_range:
            yield f"{indent}reserved {_ranges(message.reserved_range, 1)};"
        if message.reserved_name:
            yield f"{indent}reserved {', '.join(map(_quoted, message.reserved_name))};"
        groups = {each.type_name for each in message.field if each.type == TYPE_GROUP}
        written: set[int] = set()
        fields = list(message.field)
        if self._normalize:
            fields.sort(key=lambda each: each.number)
        for each in fields:
            if not each.HasField("oneof_index") or each.proto3_optional:
                yield from self._field(each, message, scope, indent)
            elif each.oneof_index not in written:
                written.add(each.oneof_index)
                yield from self._oneof(each.oneof_index, fields, message, scope, indent)
        if message.extension_range:
            yield f"{indent}extensions {_ranges(message.extension_range, 1)};"
        for each in message.extension:
            yield from self._extend(each, scope, indent)
        for nested in self._sorted(message.nested_type):
            if not nested.options.map_entry and f".{scope}.{nested.name}" not in groups:
                yield from self._message(nested, f"{scope}.", indent)
        for enum in self._sorted(message.enum_type):
            yield from self._enum(enum, indent)

    def _oneof(
        self, number: int, fields: list[Any], message: Any, scope: str, indent: str
    ) -> Iterator[str]:
        oneof = message.oneof_decl[number]
        yield f"{indent}oneof {oneof.name} {{"
        yield from (f"{indent}  option {option};" for option in _options(oneof.options))
        for each in fields:
            if each.HasField("oneof_index") and each.oneof_index == number:
                yield from self._field(each, message, scope, indent + "  ", label="")
        yield f"{indent}}}"

    def _field(
        self, each: Any, message: Any, scope: str, indent: str, label: str | None = None
    ) -> Iterator[str]:
        entry = self._types.get(each.type_name[1:]) if each.type_name else None
        if entry is not None and hasattr(entry, "field") and entry.options.map_entry:
            key, value = (self._type(part, scope) for part in entry.field)
            yield f"{indent}map<{key}, {value}> {each.name} = {each.number}{_brackets(each)};"
            return
        if label is None:
            label = _LABEL_NAMES.get(each.label, "") + " "
            is_bare = self._file.syntax in ("proto3", "editions") and not each.proto3_optional
            if is_bare and label == "optional ":
                label = ""
        if each.type == TYPE_GROUP:
            name = each.type_name.rpartition(".")[2]
            yield f"{indent}{label}group {name} = {each.number}{_brackets(each)} {{"
            group = self._types[each.type_name[1:]]
            yield from self._body(group, each.type_name[1:], indent + "  ")
            yield f"{indent}}}"
            return
        kind = self._type(each, scope)
        yield f"{indent}{label}{kind} {each.name} = {each.number}{_brackets(each)};"

    def _extend(self, each: Any, scope: str, indent: str) -> Iterator[str]:
        yield f"{indent}extend {self._type_name(each.extendee, scope)} {{"
        yield from self._field(each, None, scope, indent + "  ")
        yield f"{indent}}}"

    def _enum(self, enum: Any, indent: str) -> Iterator[str]:
        yield f"{indent}enum {enum.name} {{"
        yield from (f"{indent}  option {each};" for each in _options(enum.options))
        if enum.reserved_range:
            yield f"{indent}  reserved {_ranges(enum.reserved_range, 0)};"
        if enum.reserved_name:
            yield f"{indent}  reserved {', '.join(map(_quoted, enum.reserved_name))};"
        values = list(enum.value)
        if self._normalize:
            values.sort(key=lambda each: (each.number != 0, each.number, each.name))
        for value in values:
            yield f"{indent}  {value.name} = {value.number}{_brackets(value)};"
        yield f"{indent}}}"

    def _service(self, service: Any) -> Iterator[str]:
        yield f"service {service.name} {{"
        yield from (f"  option {each};" for each in _options(service.options))
        for method in service.method:
            scope = self._file.package
            request = "stream " * method.client_streaming + self._type_name(
                method.input_type, scope
            )
            answer = "stream " * method.server_streaming + self._type_name(
                method.output_type, scope
            )
            options = [f"    option {each};" for each in _options(method.options)]
            yield f"  rpc {method.name} ({request}) returns ({answer}){' {' if options else ';'}"
            if options:
                yield from [*options, "  }"]
        yield "}"


def _scope(name: str, package: str) -> str:
    return f"{package}.{name}" if package else name


def _edition_values(file: Any) -> Any:
    return file.DESCRIPTOR.fields_by_name["edition"].enum_type.values


def _ranges(ranges: Any, past_end: int) -> str:
    texts = []
    for each in ranges:
        end = each.end - past_end
        top = FIELD_NUMBER_MAX if past_end else (1 << 31) - 1
        last = "max" if end == top else str(end)
        texts.append(str(each.start) if end == each.start else f"{each.start} to {last}")
    return ", ".join(texts)


def _brackets(each: Any) -> str:
    found = []
    if "default_value" in each.DESCRIPTOR.fields_by_name and each.HasField("default_value"):
        value = each.default_value
        if each.type == TYPE_STRING:
            value = _quoted(value)
        elif each.type == TYPE_BYTES:  # descriptors have bytes escaped already
            value = f'"{value}"'
        found.append(f"default = {value}")
    if (
        "json_name" in each.DESCRIPTOR.fields_by_name
        and each.HasField("json_name")
        and each.json_name != _json_name(each.name)
    ):
        found.append(f"json_name = {_quoted(each.json_name)}")
    found += _options(each.options)
    return f" [{', '.join(found)}]" if found else ""


def _json_name(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)


def _options(options: Any, prefix: str = "") -> Iterator[str]:
    """Yield the options as ``name = value``."""
    for known, value in options.ListFields():
        name = f"{prefix}{known.name}"
        if known.name == "uninterpreted_option":
            yield from map(_kept, value)
        elif known.enum_type is not None and isinstance(value, int):
            yield f"{name} = {known.enum_type.values_by_number[value].name}"
        elif known.message_type is not None:
            if hasattr(value, "ListFields"):
                yield from _options(value, f"{name}.")
        elif isinstance(value, bool):
            yield f"{name} = {str(value).lower()}"
        elif isinstance(value, str):
            yield f"{name} = {_quoted(value)}"
        elif isinstance(value, int):
            yield f"{name} = {value}"


def _kept(option: Any) -> str:
    parts = [f"({part.name_part})" if part.is_extension else part.name_part for part in option.name]
    if option.HasField("string_value"):
        value = _quoted(option.string_value.decode())
    elif option.HasField("aggregate_value"):
        value = f"{{ {option.aggregate_value} }}"
    else:
        value = option.identifier_value
    return f"{'.'.join(parts)} = {value}"
