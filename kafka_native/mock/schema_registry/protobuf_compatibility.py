"""Whether a newer Protobuf schema reads the data of an older one.

The rules are those of Confluent's registry: field numbers, kinds of types, labels, oneofs and
packages count. Names of fields, and values of enums, don't.
"""

from __future__ import annotations

from typing import Any, Final

from kafka_native.mock.schema_registry.protobuf import Schema
from kafka_native.protobuf_parser import LABELS, SCALARS, TYPE_GROUP, TYPE_MESSAGE

_TYPE_ENUM: Final = 14
# The types of one group have the same form on the wire, and values that fit both.
_GROUPS: Final = (
    {"int32", "uint32", "int64", "uint64", "bool"},
    {"sint32", "sint64"},
    {"string", "bytes"},
    {"fixed32", "sfixed32"},
    {"fixed64", "sfixed64"},
)
_GROUP_OF: Final = {
    **{SCALARS[name]: number for number, group in enumerate(_GROUPS) for name in group},
    _TYPE_ENUM: 0,
}
_REQUIRED: Final = LABELS["required"]
_REPEATED: Final = LABELS["repeated"]


def incompatibilities(new: Schema, old: Schema) -> list[str]:
    """Return why ``new`` doesn't read the data of ``old``: none, or one text each."""
    comparison = _Comparison(new, old)
    comparison.compare_files()
    return comparison.found


def _kind(each: Any) -> str:
    return "message" if each.type in (TYPE_MESSAGE, TYPE_GROUP) else "scalar"


def _is_map(schema: Schema, each: Any) -> bool:
    target = schema.types.get(each.type_name[1:]) if each.type == TYPE_MESSAGE else None
    return target is not None and target.options.map_entry


class _Comparison:
    def __init__(self, new: Schema, old: Schema) -> None:
        self._new = new
        self._old = old
        self._open: set[tuple[str, str]] = set()
        self.found: list[str] = []

    def _report(self, kind: str, path: str) -> None:
        words = kind.lower().replace("_", " ")
        self.found.append(f"{{errorType:'{kind}', description:'{words} at path {path}'}}")

    def compare_files(self) -> None:
        """Compare the two files, and report each incompatible difference."""
        old, new = self._old.file, self._new.file
        if old.package != new.package:
            self._report("PACKAGE_CHANGED", "#/")
            return
        self._compare_messages(old.message_type, new.message_type, old.package, "#/")

    def _compare_messages(self, before: Any, after: Any, scope: str, path: str) -> None:
        newer = {each.name: each for each in after}
        prefix = f"{scope}." if scope else ""
        for old in before:
            if old.options.map_entry:
                continue
            place = f"{path}{old.name}"
            if old.name not in newer:
                self._report("MESSAGE_REMOVED", place)
                continue
            name = f"{prefix}{old.name}"
            self._compare_message(old, newer[old.name], (name, name), place + "/")
            self._compare_messages(old.nested_type, newer[old.name].nested_type, name, place + "/")

    def _compare_message(self, old: Any, new: Any, names: tuple[str, str], path: str) -> None:
        if names in self._open:
            return  # compared already, or a recursive message
        self._open.add(names)
        before = {each.number: each for each in old.field}
        after = {each.number: each for each in new.field}
        for number, each in before.items():
            place = f"{path}{number}"
            if number in after:
                self._compare_field(each, after[number], place)
            elif each.label == _REQUIRED:
                self._report("REQUIRED_FIELD_REMOVED", place)
        for number, each in after.items():
            if number not in before and each.label == _REQUIRED:
                self._report("REQUIRED_FIELD_ADDED", f"{path}{number}")
        self._compare_oneofs(old, new, path)

    def _compare_oneofs(self, old: Any, new: Any, path: str) -> None:
        before, after = _oneofs(old), _oneofs(new)
        numbers = {each.number for each in old.field}
        in_any = {number for members in before.values() for number in members}
        for name, members in before.items():
            if name in after:
                remaining = {each.number for each in new.field}
                for number in sorted(members - after[name]):
                    if number not in remaining:
                        self._report("ONEOF_FIELD_REMOVED", f"{path}{name}/{number}")
        for name, members in after.items():
            moved = sorted((members & numbers) - in_any)
            if name in before and moved:
                self._report("FIELD_MOVED_TO_EXISTING_ONEOF", f"{path}{name}")
            elif len(moved) > 1:
                self._report("MULTIPLE_FIELDS_MOVED_TO_ONEOF", f"{path}{name}")

    def _compare_field(self, old: Any, new: Any, path: str) -> None:
        is_map = _is_map(self._old, old), _is_map(self._new, new)
        if _kind(old) != _kind(new) or is_map[0] != is_map[1]:
            self._report("FIELD_KIND_CHANGED", path)
        elif _kind(old) == "scalar":
            self._compare_scalars(old, new, path)
        elif any(is_map):
            entries = self._old.types[old.type_name[1:]], self._new.types[new.type_name[1:]]
            for before, after in zip(entries[0].field, entries[1].field, strict=True):
                self._compare_field(before, after, f"{path}/{before.name}")
        else:
            self._compare_named(old, new, path)

    def _compare_scalars(self, old: Any, new: Any, path: str) -> None:
        if old.type != new.type:
            group = _GROUP_OF.get(old.type)
            if group is None or group != _GROUP_OF.get(new.type):
                self._report("FIELD_SCALAR_KIND_CHANGED", path)
                return
        if (old.label == _REPEATED) != (new.label == _REPEATED):
            is_text = new.type in (SCALARS["string"], SCALARS["bytes"])
            # A parser takes the last of many strings. Packed numbers are another wire type.
            if not is_text:
                self._report("FIELD_NUMERIC_LABEL_CHANGED", path)
        elif (old.label == _REQUIRED) != (new.label == _REQUIRED):
            self._report(
                "REQUIRED_FIELD_REMOVED" if old.label == _REQUIRED else "REQUIRED_FIELD_ADDED",
                path,
            )

    def _compare_named(self, old: Any, new: Any, path: str) -> None:
        before, after = old.type_name[1:], new.type_name[1:]
        if before.rpartition(".")[2] != after.rpartition(".")[2]:
            self._report("FIELD_NAMED_TYPE_CHANGED", path)
            return
        types = self._old.types.get(before), self._new.types.get(after)
        if types[0] is not None and types[1] is not None:
            self._compare_message(types[0], types[1], (before, after), f"{path}/")


def _oneofs(message: Any) -> dict[str, set[int]]:
    """Return the numbers of the fields in each oneof, without those of optional fields."""
    found: dict[str, set[int]] = {}
    for each in message.field:
        if each.HasField("oneof_index") and not each.proto3_optional:
            found.setdefault(message.oneof_decl[each.oneof_index].name, set()).add(each.number)
    return found
