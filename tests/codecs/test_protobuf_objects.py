"""Protobuf messages as Python objects: dicts of random messages, and classes."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import typing
from typing import Any

import msgspec
import pytest
from google.protobuf import json_format
from google.protobuf.message_factory import GetMessageClass
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafka_native.codecs import SchemaError
from kafka_native.codecs.protobuf_descriptors import message_of
from kafka_native.codecs.protobuf_objects import UnfitValueError, converter_of
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


@settings(
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(messages())
def test_a_dict_has_each_value(message: Any) -> None:
    assert repr(converter_of(message.DESCRIPTOR)(message)) == repr(dict_of(message))


def test_the_values_of_a_dict() -> None:
    assert converter_of(DESCRIPTOR)(order()) == {
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
    assert converter_of(DESCRIPTOR, OrderData)(order()) == OrderData(
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
    found = converter_of(DESCRIPTOR, Struct)(order())
    assert found == Struct(main=Item("", Color.RED), color=5, number=7)
    assert converter_of(DESCRIPTOR, Tuple)(order()) == Tuple(0.5, 7)
    assert converter_of(DESCRIPTOR, Typed)(order()) == {"raw": b"\xff", "color": "BLUE"}
    assert converter_of(DESCRIPTOR, Single)(order()) == Single(None)
    assert converter_of(DESCRIPTOR, Single)(Order(note="")) == Single("")
    assert converter_of(DESCRIPTOR, Empty)(order()) == Empty()


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
        converter_of(DESCRIPTOR, fields(**annotations))
        return
    with pytest.raises(SchemaError, match=text):
        converter_of(DESCRIPTOR, fields(**annotations))


def test_values_that_no_object_stands_for() -> None:
    message = Order(color=9)
    assert converter_of(DESCRIPTOR)(message)["color"] == 9
    for kind in (str, Color):
        with pytest.raises(UnfitValueError, match="the enum Color has no name for the number 9"):
            converter_of(DESCRIPTOR, fields(color=kind))(message)
    message.at.seconds = 2**50
    with pytest.raises(UnfitValueError, match="a timestamp is outside of the years 1 to 9999"):
        converter_of(DESCRIPTOR)(message)
    message.ClearField("at")
    message.takes.seconds = 2**60
    with pytest.raises(UnfitValueError, match="a duration is too long"):
        converter_of(DESCRIPTOR)(message)
    message.ClearField("takes")
    message.any.number_value = float("nan")
    with pytest.raises(UnfitValueError, match="a value has no form in JSON"):
        converter_of(DESCRIPTOR)(message)
