"""Random Protobuf schemas and messages, and what their columns must show."""

from __future__ import annotations

import itertools
import json
from typing import Any

from google.protobuf import (
    descriptor_pb2,
    duration_pb2,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from hypothesis import strategies as st

FIELD = descriptor_pb2.FieldDescriptorProto
INTS = {
    FIELD.TYPE_INT32: (-(2**31), 2**31 - 1),
    FIELD.TYPE_SINT32: (-(2**31), 2**31 - 1),
    FIELD.TYPE_SFIXED32: (-(2**31), 2**31 - 1),
    FIELD.TYPE_UINT32: (0, 2**32 - 1),
    FIELD.TYPE_FIXED32: (0, 2**32 - 1),
    FIELD.TYPE_INT64: (-(2**63), 2**63 - 1),
    FIELD.TYPE_SINT64: (-(2**63), 2**63 - 1),
    FIELD.TYPE_SFIXED64: (-(2**63), 2**63 - 1),
    FIELD.TYPE_UINT64: (0, 2**64 - 1),
    FIELD.TYPE_FIXED64: (0, 2**64 - 1),
}
KEYS = [*INTS, FIELD.TYPE_BOOL, FIELD.TYPE_STRING]
SCALARS = [*KEYS, FIELD.TYPE_BYTES, FIELD.TYPE_FLOAT, FIELD.TYPE_DOUBLE]
KNOWN = [
    "Timestamp",
    "Duration",
    "Int32Value",
    "UInt64Value",
    "BoolValue",
    "StringValue",
    "BytesValue",
    "DoubleValue",
    "Struct",
    "Value",
    "ListValue",
]
BUILTIN_FILES = [
    each.DESCRIPTOR for each in (timestamp_pb2, duration_pb2, wrappers_pb2, struct_pb2)
]
JSON_TYPES = {f"google.protobuf.{name}" for name in ("Struct", "Value", "ListValue")}
TEXT = st.characters(codec="utf-8")
IMPLICIT = descriptor_pb2.FeatureSet.IMPLICIT


# --- schemas ---


@st.composite
def files(draw: st.DrawFn) -> Any:
    """Return the FileDescriptorProto of a random schema, whose first message is ``M0``."""
    syntax = draw(st.sampled_from(["proto2", "proto3", "editions"]))
    file = descriptor_pb2.FileDescriptorProto(name="random.proto", package="p")
    file.dependency.extend(each.name for each in BUILTIN_FILES)
    if syntax != "proto2":
        file.syntax = syntax
    if syntax == "editions":
        file.edition = descriptor_pb2.EDITION_2023
    enum = file.enum_type.add(name="E")
    if syntax == "proto2":  # an enum without zero can't be the value of a map
        file.enum_type.add(name="Three").value.add(name="THREE", number=3)
    numbers = [0, *draw(st.lists(st.integers(-3, 2000).filter(bool), unique=True, max_size=4))]
    for index, number in enumerate(dict.fromkeys(numbers)):
        enum.value.add(name=f"E{index}", number=number)
    if syntax == "editions" and draw(st.booleans()):
        enum.options.features.enum_type = descriptor_pb2.FeatureSet.CLOSED
    count = draw(st.integers(1, 3))
    for index in range(count):
        _message(draw, file, index, range(index + 1, count))
    return file


def _message(draw: st.DrawFn, file: Any, index: int, others: range) -> None:
    message = file.message_type.add(name=f"M{index}")
    numbers = draw(
        st.lists(
            st.one_of(st.integers(1, 40), st.integers(1, 18999), st.just(2**29 - 1)),
            min_size=1,
            max_size=6,
            unique=True,
        )
    )
    for place, number in enumerate(numbers):
        _field(draw, file, message, f"f{place}", number, others)
    members = [
        each
        for each in message.field
        if each.label == FIELD.LABEL_OPTIONAL
        and not each.proto3_optional
        and not each.HasField("default_value")
        and not each.HasField("options")
        and draw(st.integers(0, 2)) == 0
    ]
    if members:
        message.oneof_decl.add(name="choice")
        for each in members:
            each.oneof_index = 0
    for each in message.field:
        if each.proto3_optional:
            each.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{each.name}")


def _field(draw: st.DrawFn, file: Any, message: Any, name: str, number: int, others: range) -> None:
    is_proto2, is_proto3 = not file.syntax, file.syntax == "proto3"
    each = message.field.add(name=name, number=number, label=FIELD.LABEL_OPTIONAL)
    kind = draw(st.sampled_from(["scalar", "scalar", "enum", "message", "known", "map"]))
    if kind == "map":
        _map(draw, file, message, each, others)
        return
    _type(draw, file, each, kind, others)
    label = draw(st.sampled_from(["plain", "plain", "repeated", "special"]))
    if label == "repeated":
        each.label = FIELD.LABEL_REPEATED
        if each.type not in (FIELD.TYPE_STRING, FIELD.TYPE_BYTES, FIELD.TYPE_MESSAGE):
            _pack(draw, file, each)
    elif label == "special" and is_proto3:
        each.proto3_optional = True
    elif label == "special" and is_proto2 and each.type in INTS:
        each.default_value = "7"
    elif label == "special" and is_proto2 and each.type == FIELD.TYPE_STRING:
        each.default_value = "unset"
    elif label == "special" and is_proto2:
        each.label = FIELD.LABEL_REQUIRED
    elif label == "special" and kind == "scalar":
        each.options.features.field_presence = IMPLICIT
    elif label == "special" and kind == "message":
        each.options.features.message_encoding = descriptor_pb2.FeatureSet.DELIMITED


def _pack(draw: st.DrawFn, file: Any, each: Any) -> None:
    is_packed = draw(st.booleans())
    if file.syntax == "editions":
        features = descriptor_pb2.FeatureSet
        each.options.features.repeated_field_encoding = (
            features.PACKED if is_packed else features.EXPANDED
        )
    else:
        each.options.packed = is_packed


def _type(draw: st.DrawFn, file: Any, each: Any, kind: str, others: range) -> None:
    if kind == "enum":
        is_three = not file.syntax and each.name != "value" and draw(st.booleans())
        each.type, each.type_name = FIELD.TYPE_ENUM, ".p.Three" if is_three else ".p.E"
    elif kind == "message" and others:
        index = draw(st.sampled_from(list(others)))
        each.type, each.type_name = FIELD.TYPE_MESSAGE, f".p.M{index}"
    elif kind == "known":
        name = draw(st.sampled_from(KNOWN))
        each.type, each.type_name = FIELD.TYPE_MESSAGE, f".google.protobuf.{name}"
    else:
        each.type = draw(st.sampled_from(SCALARS))


def _map(draw: st.DrawFn, file: Any, message: Any, each: Any, others: range) -> None:
    entry = message.nested_type.add(name=f"{each.name.title()}Entry")
    entry.options.map_entry = True
    entry.field.add(
        name="key", number=1, label=FIELD.LABEL_OPTIONAL, type=draw(st.sampled_from(KEYS))
    )
    value = entry.field.add(name="value", number=2, label=FIELD.LABEL_OPTIONAL)
    _type(draw, file, value, draw(st.sampled_from(["scalar", "enum", "message", "known"])), others)
    each.label, each.type = FIELD.LABEL_REPEATED, FIELD.TYPE_MESSAGE
    each.type_name = f".p.{message.name}.{entry.name}"


def class_of(file: Any) -> Any:
    """Return the class of the first message."""
    pool = DescriptorPool()
    for each in BUILTIN_FILES:
        pool.AddSerializedFile(each.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName("p.M0"))


# --- messages ---


def scalars(draw: st.DrawFn, each: Any) -> Any:
    """Return a value of a field that isn't a message."""
    if each.type in INTS:
        low, high = INTS[each.type]
        return draw(st.one_of(st.integers(low, high), st.integers(0, min(300, high))))
    if each.type == FIELD.TYPE_BOOL:
        return draw(st.booleans())
    if each.type == FIELD.TYPE_STRING:
        return draw(st.text(TEXT, max_size=30))
    if each.type == FIELD.TYPE_BYTES:
        return draw(st.binary(max_size=30))
    if each.type == FIELD.TYPE_ENUM:
        known = [value.number for value in each.enum_type.values]
        others = [] if each.enum_type.is_closed else [77777, -5]
        return draw(st.sampled_from(known + others))
    return draw(st.floats(width=32 if each.type == FIELD.TYPE_FLOAT else 64, allow_nan=False))


def fill(draw: st.DrawFn, message: Any, chance: int = 3) -> None:
    """Set random fields of a message."""
    name = message.DESCRIPTOR.full_name
    if name == "google.protobuf.Timestamp":
        message.seconds = draw(st.integers(-(9 * 10**9), 9 * 10**9))
        message.nanos = draw(st.integers(0, 999_999_999))
        return
    if name == "google.protobuf.Duration":
        # The parts of a duration have one sign. Two durations that are merged must agree.
        message.seconds = draw(st.integers(0, 9 * 10**9))
        message.nanos = draw(st.integers(0, 999_999_999))
        return
    if name in JSON_TYPES:
        _fill_json(draw, message, 2)
        return
    for each in message.DESCRIPTOR.fields:
        if not each.is_required and draw(st.integers(0, chance)) == 0:
            continue
        count = draw(st.integers(0, 3)) if each.is_repeated else 1
        for _ in range(count):
            _set(draw, message, each)


def _fill_json(draw: st.DrawFn, message: Any, depth: int) -> None:
    """Set a Struct, Value or ListValue."""
    name = message.DESCRIPTOR.name
    if name != "Value":
        for _ in range(draw(st.integers(0, 3))):
            if name == "Struct":
                _fill_json(draw, message.fields[draw(st.text(TEXT, max_size=2))], depth)
            else:
                _fill_json(draw, message.values.add(), depth)
        return
    kind = draw(st.integers(0, 6 if depth else 4))
    if kind == 0:
        message.null_value = 0
    elif kind == 1:
        # Numbers of few digits, for which Python and C choose the same text.
        whole = st.integers(-(10**14), 10**14).map(float)
        eighths = st.integers(-(10**9), 10**9).map(lambda number: number / 8)
        message.number_value = draw(st.one_of(whole, eighths, st.sampled_from([1e300, -0.0])))
    elif kind == 2:
        message.string_value = draw(st.text(TEXT, max_size=20))
    elif kind == 3:
        message.bool_value = draw(st.booleans())
    elif kind == 5:
        message.struct_value.SetInParent()
        _fill_json(draw, message.struct_value, depth - 1)
    elif kind == 6:
        message.list_value.SetInParent()
        _fill_json(draw, message.list_value, depth - 1)


def _set(draw: st.DrawFn, message: Any, each: Any) -> None:
    target = getattr(message, each.name)
    if each.message_type is not None and each.message_type.GetOptions().map_entry:
        key = scalars(draw, each.message_type.fields_by_number[1])
        value = each.message_type.fields_by_number[2]
        if value.message_type is None:
            target[key] = scalars(draw, value)
        else:
            fill(draw, target[key])
    elif each.message_type is not None:
        target = target.add() if each.is_repeated else target
        target.SetInParent()
        fill(draw, target)
    elif each.is_repeated:
        target.append(scalars(draw, each))
    else:
        setattr(message, each.name, scalars(draw, each))


# --- bytes in another order ---


def split(data: bytes) -> list[bytes]:
    """Return the fields of a message, each with its tag."""
    found, at = [], 0
    while at < len(data):
        end = _end_of_field(data, at)
        found.append(data[at:end])
        at = end
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in itertools.count(0, 7):
        value |= (data[at] & 0x7F) << shift
        at += 1
        if data[at - 1] < 0x80:
            return value, at
    raise AssertionError


def _end_of_field(data: bytes, at: int) -> int:
    tag, at = _varint(data, at)
    if tag & 7 == 3:
        while _varint(data, at)[0] != tag + 1:
            at = _end_of_field(data, at)
        return _varint(data, at)[1]
    if tag & 7 == 0:
        return _varint(data, at)[1]
    if tag & 7 == 2:
        size, at = _varint(data, at)
        return at + size
    return at + (8 if tag & 7 == 1 else 4)


def varint(value: int) -> bytes:
    """Return a number as a varint."""
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


UNKNOWN = [
    varint(18999 << 3) + b"\x05",
    varint(18998 << 3 | 1) + bytes(8),
    varint(18997 << 3 | 5) + bytes(4),
    varint(18996 << 3 | 2) + b"\x02\xff\xff",
    varint(18995 << 3 | 3) + b"\x08\x01\x13\x14" + varint(18995 << 3 | 4),
]


def shuffled(draw: st.DrawFn, descriptor: Any, data: bytes) -> bytes:
    """Return a message with its fields in another order, also in its messages, and unknown ones."""
    pieces = []
    for piece in split(data):
        tag, at = _varint(piece, 0)
        each = descriptor.fields_by_number.get(tag >> 3)
        inner = None if each is None else each.message_type
        if inner is not None and tag & 7 == 2 and not inner.GetOptions().map_entry:
            _, at = _varint(piece, at)
            body = shuffled(draw, inner, piece[at:])
            pieces.append(varint(tag) + varint(len(body)) + body)
        else:
            pieces.append(piece)
    pieces += draw(st.lists(st.sampled_from(UNKNOWN), max_size=2))
    return b"".join(draw(st.permutations(pieces)))


# --- what the columns must show ---


def shown(message: Any, wanted: Any = None) -> dict[str, Any]:
    """Return a message as its row, with times in nanoseconds and maps as sorted lists."""
    return {
        each.name: _shown_field(message, each)
        for each in message.DESCRIPTOR.fields
        if wanted is None or each.name in wanted
    }


def _shown_field(message: Any, each: Any) -> Any:
    value = getattr(message, each.name)
    if each.message_type is not None and each.message_type.GetOptions().map_entry:
        outer, inner = (each.message_type.fields_by_number[number] for number in (1, 2))
        entries = [(shown_value(outer, key), shown_value(inner, value[key])) for key in value]
        return sorted(entries, key=first_repr)
    if each.is_repeated:
        return [shown_value(each, item) for item in value]
    has_default = each.has_default_value and len(getattr(each.containing_oneof, "fields", ())) < 2
    if each.has_presence and not message.HasField(each.name) and not has_default:
        return None
    return shown_value(each, value)


def first_repr(entry: tuple[Any, Any]) -> str:
    """Return a key by which the entries of a map are sorted."""
    return repr(entry[0])


def shown_value(each: Any, value: Any) -> Any:
    """Return one value of a field as in its column."""
    if each.type == FIELD.TYPE_ENUM:
        found = each.enum_type.values_by_number.get(value)
        return None if found is None else found.name
    if each.type == FIELD.TYPE_STRING and isinstance(value, bytes):
        return value.decode()  # it raises: proto2 allows strings that aren't UTF-8
    if each.message_type is None:
        return value
    name = each.message_type.full_name
    if name in ("google.protobuf.Timestamp", "google.protobuf.Duration"):
        return value.seconds * 10**9 + value.nanos
    if name in JSON_TYPES:
        return json_text(value)
    if name.startswith("google.protobuf.") and name.endswith("Value"):
        return value.value
    return shown(value)


class JsonText(str):
    """JSON text. It equals another text of the same values, as a number may have several texts."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and json.loads(self) == json.loads(other)

    def __hash__(self) -> int:
        return 0


def json_text(message: Any) -> JsonText:
    """Return a Struct, Value or ListValue as its text."""
    text = json.dumps(
        json_value(message), sort_keys=True, separators=(",", ":"), ensure_ascii=False
    )
    return JsonText(text)


def json_value(message: Any) -> Any:
    """Return a Struct, Value or ListValue as Python's json has it."""
    if message.DESCRIPTOR.name == "Struct":
        return {key: json_value(message.fields[key]) for key in message.fields}
    if message.DESCRIPTOR.name == "ListValue":
        return [json_value(each) for each in message.values]
    kind = message.WhichOneof("kind")
    if kind in (None, "null_value"):
        return None
    value = getattr(message, kind)
    if kind in ("struct_value", "list_value"):
        return json_value(value)
    is_whole = kind == "number_value" and abs(value) < 1e15 and value == int(value)
    return int(value) if is_whole and str(value) != "-0.0" else value
