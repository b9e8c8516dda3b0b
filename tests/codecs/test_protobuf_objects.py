"""Protobuf messages as Python objects: dicts of random messages, and classes."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import gc
import random
import sys
import typing
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from google.protobuf import json_format
from google.protobuf.message import DecodeError as ParseError
from google.protobuf.message_factory import GetMessageClass
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafka_native._native.protobuf_objects import (
    WIRE_CODES,
    WIRE_SHAPES,
    MessageProgram,
    Unplain,
)
from kafka_native.codecs import SchemaError
from kafka_native.codecs.protobuf_descriptors import message_of
from kafka_native.codecs.protobuf_objects import MessageReader, UnfitValueError
from tests.codecs import protobuf_schemas as schemas

SOURCE = """
syntax = "proto3";
import "google/protobuf/duration.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
enum Color { RED = 0; BLUE = 5; }
message Item { string sku = 1; Color color = 2; Item part = 3; }
message Order {
  int64 id = 1;
  optional string note = 2;
  Item main = 3;
  repeated Item items = 4;
  map<string, Item> by_name = 5;
  repeated string tags = 6;
  Color color = 7;
  google.protobuf.Timestamp at = 8;
  google.protobuf.Duration takes = 9;
  google.protobuf.Struct more = 10;
  google.protobuf.Value any = 11;
  google.protobuf.DoubleValue price = 12;
  oneof payment { string card = 13; int32 cash = 14; }
  float weight = 15;
  bytes raw = 16;
  message Nothing {}
  Nothing nothing = 17;
}
"""
DESCRIPTOR = message_of(SOURCE, "Order", None)
Order: Any = GetMessageClass(DESCRIPTOR)
UTC = datetime.timezone.utc


def order() -> Any:
    message = Order(id=7, tags=["a", "b"], cash=0, color=5, weight=0.5, raw=b"\xff")
    message.items.add(sku="x", color=5).part.sku = "y"
    message.by_name["k"].sku = "z"
    message.at.FromDatetime(datetime.datetime(2026, 1, 2, 3, 4, 5, 6, UTC))
    message.takes.FromTimedelta(datetime.timedelta(seconds=-1.5))
    message.more.update({"a": [1, None]})
    message.any.list_value.values.add(string_value="v")
    message.price.value = 0
    message.nothing.SetInParent()
    return message


def read(message: Any, type: Any = dict, *, is_plain: bool = True) -> Any:
    """Return the object of a message, which both ways make equally.

    :param is_plain: Whether the program reads the message.
    """
    reader = MessageReader(message.__class__, type)
    expected = reader.convert(message)
    encoded = message.SerializePartialToString()
    assert reader._program is not None
    found = reader._program.read(encoded)
    assert found == (expected if is_plain else Unplain)
    assert reader.read(encoded) == expected
    return expected


# --- dicts ---


def value_of(each: Any, value: Any) -> Any:
    """Return the Python object of one value, read in the slow way."""
    if each.enum_type is not None:
        known = each.enum_type.values_by_number.get(value)
        return value if known is None else known.name
    if each.message_type is None:
        return value
    name = each.message_type.full_name
    if name == "google.protobuf.Timestamp":
        return value.ToDatetime(UTC)
    if name == "google.protobuf.Duration":
        return value.ToTimedelta()
    if name in schemas.JSON_TYPES:
        return json_format.MessageToDict(value)
    if name.startswith("google.protobuf."):
        return value.value
    return dict_of(value)


def dict_of(message: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for each in message.DESCRIPTOR.fields:
        value = getattr(message, each.name)
        if each.message_type is not None and each.message_type.GetOptions().map_entry:
            inner = each.message_type.fields_by_name["value"]
            found[each.name] = {key: value_of(inner, value[key]) for key in value}
        elif each.is_repeated:
            found[each.name] = [value_of(each, item) for item in value]
        elif each.has_presence and not message.HasField(each.name):
            found[each.name] = None
        else:
            found[each.name] = value_of(each, value)
    return found


@st.composite
def messages(draw: st.DrawFn) -> Any:
    message = schemas.class_of(draw(schemas.files()))()
    schemas.fill(draw, message)
    return message


QUIET = settings(
    deadline=None,
    max_examples=80,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@QUIET
@given(messages())
def test_a_dict_has_each_value(message: Any) -> None:
    reader = MessageReader(message.__class__)
    expected = dict_of(message)
    assert repr(reader.convert(message)) == repr(expected)
    encoded = message.SerializePartialToString()
    assert repr(ordered(reader.read(encoded))) == repr(ordered(expected))


def ordered(value: Any) -> Any:
    """Return a value with sorted maps: google.protobuf has no order of their keys."""
    if isinstance(value, dict):
        return [(key, ordered(value[key])) for key in sorted(value, key=repr)]
    return list(map(ordered, value)) if isinstance(value, list) else value


@st.composite
def encodings(draw: st.DrawFn) -> tuple[Any, bytes]:
    """Return a class, and bytes that aren't always a message of it."""
    class_ = schemas.class_of(draw(schemas.files()))
    data = b""
    for _ in range(draw(st.sampled_from([1, 1, 2, 3]))):
        message = class_()
        schemas.fill(draw, message)
        data += message.SerializePartialToString()
    damage = draw(st.sampled_from(["none", "order", "cut", "byte", "insert"]))
    place = draw(st.integers(0, len(data)))
    if damage == "order":
        data = schemas.shuffled(draw, class_.DESCRIPTOR, data)
    elif damage == "cut":
        data = data[:place]
    elif damage == "byte":
        data = data[:place] + draw(st.binary(min_size=1, max_size=1)) + data[place + 1 :]
    elif damage == "insert":
        unknown = st.sampled_from(schemas.UNKNOWN)
        data = data[:place] + draw(st.one_of(st.binary(max_size=4), unknown)) + data[place:]
    return class_, data


def outcome(call: Callable[[bytes], Any], data: bytes) -> str:
    try:
        return repr(ordered(call(data)))
    except (ParseError, UnfitValueError) as error:
        return type(error).__name__


def check_each_encoding(case: tuple[Any, bytes]) -> None:
    class_, data = case
    reader = MessageReader(class_)
    expected = outcome(lambda data: reader.convert(class_.FromString(data)), data)
    assert outcome(reader.read, data) == expected


@QUIET
@given(encodings())
def test_programs_read_what_google_reads(case: tuple[Any, bytes]) -> None:
    check_each_encoding(case)


@pytest.mark.slow
@settings(QUIET, max_examples=1000)
@given(encodings())
def test_programs_read_what_google_reads_of_many_schemas(case: tuple[Any, bytes]) -> None:
    check_each_encoding(case)


@pytest.mark.parametrize("depth", [1, 50, 89, 90, 91, 99, 100, 101, 200])
def test_messages_in_each_other(depth: int) -> None:
    data = b"\x0a\x01x"
    for _ in range(depth):
        data = b"\x1a" + schemas.varint(len(data)) + data
    class_ = GetMessageClass(message_of(SOURCE, "Item", None))
    check_each_encoding((class_, data))
    if depth <= 90:
        assert MessageReader(class_).read(data)["part"] is not None


UNPLAIN = {
    "a field twice": b"\x08\x01\x08\x02",
    "two of a oneof": b"\x6a\x01a\x70\x01",
    "two parts of a message": b"\x1a\x03\x0a\x01a\x1a\x02\x10\x05",
    "an entry without a key": b"\x2a\x05\x12\x03\x0a\x01z",
    "an entry without a value": b"\x2a\x03\x0a\x01k",
    "an unknown field in an entry": b"\x2a\x07\x0a\x01k\x12\x00\x18\x01",
    "an entry with two values": b"\x2a\x0a\x0a\x01k\x12\x03\x0a\x01z\x12\x00",
    "another wire type": b"\x0d\x01\x00\x00\x00",
    "an enum's number without a name": b"\x38\x09",
    "no UTF-8": b"\x12\x01\xff",
    "a cut number": b"\x08\xff",
    "a cut text": b"\x12\x05a",
    "a cut float": b"\x7d\x00",
    "field 0": b"\x00\x00",
    "an open group": b"\xa3\x06",
    "a list of another wire type": b"\x35\x00\x00\x00\x00",
}


@pytest.mark.parametrize("data", UNPLAIN.values(), ids=UNPLAIN.keys())
def test_google_reads_unusual_messages(data: bytes) -> None:
    program = MessageReader(Order)._program
    assert program is not None
    assert program.read(data) is Unplain
    assert program.read(bytearray()) is Unplain  # type: ignore[arg-type]
    check_each_encoding((Order, data))


def test_types_that_only_google_reads() -> None:
    groups = 'syntax = "proto2"; message G { optional group Part = 1 { optional int32 n = 2; } }'
    class_ = GetMessageClass(message_of(groups, "G", None))
    message = class_(part={"n": 3})
    reader = MessageReader(class_)
    assert reader._program is None
    assert reader.read(message.SerializeToString()) == {"part": {"n": 3}}
    # A field of a oneof that the class lacks unsets the one that it has.
    card = MessageReader(Order, fields(card=str | None))
    assert card._program is None
    assert card.read(b"\x6a\x01a\x70\x01").card is None


def test_a_key_of_proto2_that_is_no_utf_8_does_not_fit() -> None:
    source = 'syntax = "proto2"; message M { map<string, int32> counts = 5; }'
    reader = MessageReader(GetMessageClass(message_of(source, "M", None)))
    data = b"\x2a\x06\x0a\x02\xff\xfe\x10\x00"
    with pytest.raises(UnfitValueError, match=r"a text isn't UTF-8: .*0xff"):
        reader.read(data)


def test_a_wrong_program_is_refused() -> None:
    good = (1, WIRE_CODES["INT32"], WIRE_SHAPES["single"], 0, -1, -1, None, None, (0,))
    assert MessageProgram([([good], None, ("a",), 0)]).read(b"\x08\x05") == {"a": 5}
    wrong: list[Any] = [
        [],
        [([good], None, (), 0)],
        [([good], None, ("a",), -1)],
        [([(0, *good[1:])], None, ("a",), 0)],
        [([(1, 99, *good[2:])], None, ("a",), 0)],
        [([(*good[:2], 3, *good[3:])], None, ("a",), 0)],
        [([(*good[:3], 1, *good[4:])], None, ("a",), 0)],
        [([(*good[:4], 64, *good[5:])], None, ("a",), 0)],
        [([(*good[:5], 1, *good[6:])], None, ("a",), 0)],
        [([(*good[:5], 0, *good[6:])], None, ("a",), 0)],
        [([(1, WIRE_CODES["ENUM"], *good[2:])], None, ("a",), 0)],
        [([(1, WIRE_CODES["CALL"], *good[2:])], None, ("a",), 0)],
        [([(1, WIRE_CODES["MESSAGE"], 2, 0, -1, 0, *good[6:])], None, ("a",), 0)],
        [([good, good], None, ("a", "b"), 0)],
        [([good], None, (), 1)],  # a dict has no positional values
        [([good], dict, ("a",), sys.maxsize)],
        [([good], "dict", ("a",), 0)],
        [([good], dict, (1,), 0)],
        [([(*good[:8], ())], None, ("a",), 0)],
        [([(*good[:7], 5, None)], None, ("a",), 0)],
        [([(*good[:7], list, None)], None, ("a",), 0)],  # only a list becomes something else
    ]
    for types in wrong:
        with pytest.raises(ValueError, match=r"wrong|needs types|needs a name"):
            MessageProgram(types)


def test_the_values_of_a_dict() -> None:
    assert read(order()) == {
        "id": 7,
        "note": None,
        "main": None,
        "items": [
            {"sku": "x", "color": "BLUE", "part": {"sku": "y", "color": "RED", "part": None}}
        ],
        "by_name": {"k": {"sku": "z", "color": "RED", "part": None}},
        "tags": ["a", "b"],
        "color": "BLUE",
        "at": datetime.datetime(2026, 1, 2, 3, 4, 5, 6, UTC),
        "takes": datetime.timedelta(seconds=-1.5),
        "more": {"a": [1.0, None]},
        "any": ["v"],
        "price": 0.0,
        "card": None,
        "cash": 0,
        "weight": 0.5,
        "raw": b"\xff",
        "nothing": {},
    }


# --- classes ---


class Color(enum.Enum):
    RED = 0
    BLUE = 5


class Name(str, enum.Enum):
    R = "RED"
    B = "BLUE"


@dataclasses.dataclass
class Item:
    sku: str
    color: Color
    part: Item | None = None


@dataclasses.dataclass
class OrderData:
    id: int
    items: tuple[Item, ...]
    by_name: dict[str, Item]
    tags: frozenset[str]
    color: Name
    at: datetime.datetime | None
    takes: datetime.timedelta | None
    more: dict[str, Any] | None
    any: Any
    price: float | None
    card: str | None
    cash: int | None
    main: Item | None
    own: str = "own"
    note: str = "-"
    nothing: dict[str, Any] | None = dataclasses.field(default=None, kw_only=True)


ITEM = Item("x", Color.BLUE, Item("y", Color.RED))


def test_a_dataclass() -> None:
    assert read(order(), OrderData) == OrderData(
        id=7,
        items=(ITEM,),
        by_name={"k": Item("z", Color.RED)},
        tags=frozenset({"a", "b"}),
        color=Name.B,
        at=datetime.datetime(2026, 1, 2, 3, 4, 5, 6, UTC),
        takes=datetime.timedelta(seconds=-1.5),
        more={"a": [1.0, None]},
        any=["v"],
        price=0.0,
        card=None,
        cash=0,
        main=None,
        note="",  # without None in the annotation it is Protobuf's default
        nothing={},
    )


class Struct(msgspec.Struct, kw_only=True):
    main: Item  # not set: an empty message
    color: int = 3
    number: int = msgspec.field(name="id")


class Tuple(typing.NamedTuple):
    weight: float
    id: int


class Typed(typing.TypedDict):
    raw: bytes
    color: str


class Single(typing.NamedTuple):
    note: str | None


class Empty(typing.NamedTuple):
    pass


def test_other_classes() -> None:
    found = read(order(), Struct, is_plain=False)
    assert found == Struct(main=Item("", Color.RED), color=5, number=7)
    assert read(order(), Tuple) == Tuple(0.5, 7)
    assert read(order(), Typed) == {"raw": b"\xff", "color": "BLUE"}
    assert read(order(), Single) == Single(None)
    assert read(Order(note=""), Single) == Single("")
    assert read(order(), Empty) == Empty()


def fields(**annotations: Any) -> Any:
    return dataclasses.make_dataclass("Made", list(annotations.items()))


class OnlyRed(enum.Enum):
    RED = "RED"


@pytest.mark.parametrize(
    ("annotations", "text"),
    [
        ({"id": str}, "id: the annotation str has no room for int"),
        ({"weight": int}, "weight: the annotation int has no room for float"),
        ({"note": bytes}, "note: the annotation bytes has no room for str"),
        ({"other": int}, "other: Made needs this field, which the schema of Order lacks"),
        ({"items": Item}, "items: the annotation Item has no room for an array"),
        ({"by_name": list}, "by_name: the annotation list has no room for a map"),
        ({"by_name": dict[int, Item]}, r"by_name\[\]: the annotation int has no room for str"),
        ({"main": int}, "main: the annotation int has no room for the record Item"),
        ({"items": list[fields(sku=int)]}, r"items\[\].sku: the annotation int has no room"),
        ({"at": int}, "at: the annotation int has no room for datetime"),
        ({"takes": str}, "takes: the annotation str has no room for timedelta"),
        ({"more": list[Any]}, "more: the annotation .* has no room for a map"),
        ({"any": dict}, "any: a google.protobuf.Value needs the annotation Any"),
        ({"price": str}, "price: the annotation str has no room for float"),
        ({"color": OnlyRed}, "color: OnlyRed has no member for BLUE = 5"),
        ({"color": float | bytes}, None),
    ],
)
def test_annotations_that_do_not_fit(annotations: dict[str, Any], text: str | None) -> None:
    if text is None:
        MessageReader(Order, fields(**annotations))
        return
    with pytest.raises(SchemaError, match=text):
        MessageReader(Order, fields(**annotations))


def test_values_that_no_object_stands_for() -> None:
    message = Order(color=9)
    assert MessageReader(Order).convert(message)["color"] == 9
    for kind in (str, Color):
        with pytest.raises(UnfitValueError, match="the enum Color has no name for the number 9"):
            MessageReader(Order, fields(color=kind)).convert(message)
    message.at.seconds = 2**50
    with pytest.raises(UnfitValueError, match="a timestamp is outside of the years 1 to 9999"):
        MessageReader(Order).convert(message)
    message.ClearField("at")
    message.takes.seconds = 2**60
    with pytest.raises(UnfitValueError, match="a duration is too long"):
        MessageReader(Order).convert(message)
    message.ClearField("takes")
    message.any.number_value = float("nan")
    with pytest.raises(UnfitValueError, match="a value has no form in JSON"):
        MessageReader(Order).convert(message)


# --- damage ---


@pytest.fixture
def one_thread() -> Iterator[None]:
    """No other thread of Python runs, so no other thread meets a failed allocation."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(3600)
    yield
    sys.setswitchinterval(before)


def live(kind: type) -> int:
    gc.collect()
    return sum(type(each) is kind for each in gc.get_objects())


@pytest.mark.usefixtures("one_thread")
def test_a_failed_allocation_leaves_no_half_made_object() -> None:
    testcapi = pytest.importorskip("_testcapi", reason="this Python lacks its own test module")
    message = order()
    for name in ("at", "takes", "more", "any", "price"):
        message.ClearField(name)  # google.protobuf reads it, and crashes
    for number in range(20):
        message.items.add(sku=f"item {number}").part.sku = f"part {number}"
    data, program = message.SerializeToString(), MessageReader(Order, OrderData)._program
    assert program is not None
    expected = program.read(data)
    for _ in range(2):  # the second time nothing is made that stays
        before, failed, found = sys.getallocatedblocks(), 0, None
        while found is None:
            failed += 1
            testcapi.set_nomemory(failed, failed + 1)
            try:
                found = program.read(data)
            except MemoryError:
                assert program.read(data) == expected
            finally:
                testcapi.remove_mem_hooks()
        assert found == expected
        # Python 3.14 and later allocate less
        assert failed > (100 if sys.version_info < (3, 14) else 50)
        del found
        assert live(OrderData) == 1  # that of `expected`
        assert sys.getallocatedblocks() - before < failed  # a leak has one a failure


@pytest.mark.parametrize("type", [dict, OrderData])
def test_changed_bytes_give_what_google_makes(type: Any) -> None:
    data, chance = order().SerializeToString(), random.Random(7)
    reader, plain = MessageReader(Order, type), 0
    program = reader._program
    assert program is not None
    for _ in range(1500):
        changed = bytearray(data)
        for _ in range(chance.choice([1, 1, 2, 5])):
            at = chance.randrange(len(changed))
            match chance.randrange(4):
                case 0:
                    changed[at] ^= 1 << chance.randrange(8)
                case 1:
                    changed[at] = chance.choice([0, 1, 0x7F, 0x80, 0xFF])
                case 2:
                    changed[at:at] = chance.randbytes(chance.randrange(4))
                case _:
                    del changed[at : at + chance.randrange(4)]
        case = bytes(changed)
        plain += program.read(case) is not Unplain
        expected = outcome(lambda data: reader.convert(Order.FromString(data)), case)
        assert outcome(reader.read, case) == expected
    assert 100 < plain < 1400  # both ways were taken
