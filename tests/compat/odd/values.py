"""Odd arguments: each has a name and is made anew for each call."""

from __future__ import annotations

import datetime
import decimal
import fractions
import functools
import pathlib
import types
import uuid
from collections import UserDict, UserList, deque
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Lib = Any
READ = "odd"
"""The topic of consumers. Partition 0 has messages, partition 1 has none."""
HELD = 10
"""The number of these messages."""
WRITTEN = "written"
"""The topic of producers."""
IN_TRANSACTIONS = "transactions"
"""The topic of producers in a transaction. An open one hides later messages from consumers."""


class Env(NamedTuple):
    """What values and clients are made of."""

    lib: Lib
    servers: str
    topic: str
    group: str


Make = Callable[[Env], Any]


class Str(str):
    """A subclass of str."""


class Int(int):
    """A subclass of int."""


class Float(float):
    """A subclass of float."""


class Bytes(bytes):
    """A subclass of bytes."""


class List(list[Any]):
    """A subclass of list."""


class Dict(dict[Any, Any]):
    """A subclass of dict."""


class Index:
    """An object that is an integer by `__index__`."""

    def __index__(self) -> int:
        return 1


class AsFloat:
    """An object that is a number by `__float__`."""

    def __float__(self) -> float:
        return 0.0


class AsInt:
    """An object that is a number by `__int__` only."""

    def __int__(self) -> int:
        return 1


class AsText:
    """An object with a text."""

    def __str__(self) -> str:
        return "text"


class NoText:
    """An object whose text raises."""

    def __str__(self) -> str:
        raise ZeroDivisionError("no text")

    __repr__ = __str__


class NoTruth:
    """An object without a truth value."""

    def __bool__(self) -> bool:
        raise ZeroDivisionError("no truth")


class NoOrder:
    """An object that raises when it is compared."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise ZeroDivisionError("no equality")


class FailingIndex:
    """An object whose `__index__` raises."""

    def __index__(self) -> int:
        raise ZeroDivisionError("no index")


def _raises(*args: Any, **kwargs: Any) -> Any:
    raise ZeroDivisionError("called back")


ANY: dict[str, Make] = {
    "None": lambda env: None,
    "True": lambda env: True,
    "False": lambda env: False,
    "0": lambda env: 0,
    "1": lambda env: 1,
    "-1": lambda env: -1,
    "-2": lambda env: -2,
    "2**31-1": lambda env: 2**31 - 1,
    "2**31": lambda env: 2**31,
    "-2**31-1": lambda env: -(2**31) - 1,
    "2**63-1": lambda env: 2**63 - 1,
    "2**63": lambda env: 2**63,
    "10**30": lambda env: 10**30,
    "-10**30": lambda env: -(10**30),
    "0.0": lambda env: 0.0,
    "0.1": lambda env: 0.1,
    "-0.1": lambda env: -0.1,
    "1e10": lambda env: 1e10,
    "1e300": lambda env: 1e300,
    "nan": lambda env: float("nan"),
    "inf": lambda env: float("inf"),
    "-inf": lambda env: float("-inf"),
    "''": lambda env: "",
    "'x'": lambda env: "x",
    "'0'": lambda env: "0",
    "'ä'": lambda env: "ä",
    "'a\\0b'": lambda env: "a\0b",
    "surrogate": lambda env: "\ud800",
    "300 letters": lambda env: "x" * 300,
    "70000 letters": lambda env: "x" * 70_000,
    "b''": lambda env: b"",
    "b'x'": lambda env: b"x",
    "b'\\xff\\0'": lambda env: b"\xff\0",
    "bytearray": lambda env: bytearray(b"x"),
    "memoryview": lambda env: memoryview(b"x"),
    "[]": lambda env: [],
    "[None]": lambda env: [None],
    "[1]": lambda env: [1],
    "['x']": lambda env: ["x"],
    "()": lambda env: (),
    "('x',)": lambda env: ("x",),
    "(0, 1)": lambda env: (0, 1),
    "{}": lambda env: {},
    "{'x': 1}": lambda env: {"x": 1},
    "set()": lambda env: set(),
    "generator": lambda env: (each for each in ["x"]),
    "range": lambda env: range(2),
    "deque": lambda env: deque(["x"]),
    "UserList": lambda env: UserList(["x"]),
    "UserDict": lambda env: UserDict({"x": 1}),
    "List": lambda env: List(["x"]),
    "Dict": lambda env: Dict({"x": 1}),
    "object()": lambda env: object(),
    "Index": lambda env: Index(),
    "FailingIndex": lambda env: FailingIndex(),
    "AsFloat": lambda env: AsFloat(),
    "AsInt": lambda env: AsInt(),
    "AsText": lambda env: AsText(),
    "NoText": lambda env: NoText(),
    "NoTruth": lambda env: NoTruth(),
    "NoOrder": lambda env: NoOrder(),
    "Str": lambda env: Str("x"),
    "Int": lambda env: Int(1),
    "Float": lambda env: Float(0.1),
    "Bytes": lambda env: Bytes(b"x"),
    "np.int64": lambda env: np.int64(1),
    "np.float64": lambda env: np.float64(0.1),
    "np.float32": lambda env: np.float32(0.5),
    "np.bool": lambda env: np.bool_(True),
    "np.str": lambda env: np.str_("x"),
    "np.array": lambda env: np.array([1, 2]),
    "Decimal": lambda env: decimal.Decimal("0.1"),
    "Fraction": lambda env: fractions.Fraction(1, 10),
    "complex": lambda env: 1j,
    "UUID": lambda env: uuid.UUID(int=1),
    "Path": lambda env: pathlib.Path("x"),
    "timedelta": lambda env: datetime.timedelta(seconds=0),
    "datetime": lambda env: datetime.datetime(2024, 1, 1),
    "function": lambda env: lambda *args: None,
    "function()": lambda env: lambda: None,
    "raises": lambda env: _raises,
    "partial": lambda env: functools.partial(_raises),
    "type": lambda env: int,
    "Ellipsis": lambda env: ...,
    "module": lambda env: types,
    "exception": lambda env: ValueError("x"),
    "TopicPartition": lambda env: env.lib.TopicPartition(env.topic, 0),
    "Message": lambda env: env.lib.Message(topic=env.topic, partition=0, offset=3, value=b"x"),
    "KafkaError": lambda env: env.lib.KafkaError(1),
    "Uuid": lambda env: env.lib.Uuid(1, 2),
    "NewTopic": lambda env: env.lib.cimpl.NewTopic("x"),
}
"""Arguments for every parameter."""

FEW = (
    "None",
    "True",
    "-1",
    "2**63",
    "nan",
    "inf",
    "'x'",
    "b'x'",
    "[]",
    "['x']",
    "{'x': 1}",
    "object()",
    "Index",
    "function",
    "TopicPartition",
    "Message",
)
"""Those of `ANY` for the less important states."""


def _at(env: Env, partition: Any = 0, *rest: Any, **more: Any) -> Any:
    return env.lib.TopicPartition(env.topic, partition, *rest, **more)


def _sub(env: Env) -> Any:
    return type("Sub", (env.lib.TopicPartition,), {})(env.topic, 0, 5)


def _changed(env: Env, **attributes: Any) -> Any:
    made = _at(env)
    for name, value in attributes.items():
        setattr(made, name, value)
    return made


PARTITIONS: dict[str, Make] = {
    "[at]": lambda env: [_at(env)],
    "[at 5]": lambda env: [_at(env, 0, 5)],
    "[both]": lambda env: [_at(env), _at(env, 1)],
    "[at, at]": lambda env: [_at(env), _at(env)],
    "[at 1, at 2]": lambda env: [_at(env, 0, 1), _at(env, 0, 2)],
    "(at,)": lambda env: (_at(env),),
    "{at}": lambda env: {_at(env)},
    "at for": lambda env: (each for each in [_at(env)]),
    "{at: 1}": lambda env: {_at(env): 1},
    "[at, None]": lambda env: [_at(env), None],
    "[at, 1]": lambda env: [_at(env), 1],
    "[[at]]": lambda env: [[_at(env)]],
    "[(topic, 0)]": lambda env: [(env.topic, 0)],
    "[partition -1]": lambda env: [_at(env, -1)],
    "[partition -2]": lambda env: [_at(env, -2)],
    "[partition 7]": lambda env: [_at(env, 7)],
    "[partition 2**31-1]": lambda env: [_at(env, 2**31 - 1)],
    "[another topic]": lambda env: [env.lib.TopicPartition("no-such-topic", 0)],
    "[no topic]": lambda env: [env.lib.TopicPartition("", 0)],
    "[pattern]": lambda env: [env.lib.TopicPartition("^x", 0)],
    "[bad name]": lambda env: [env.lib.TopicPartition("a/b c", 0)],
    "[300 letters]": lambda env: [env.lib.TopicPartition("x" * 300, 0)],
    "[end]": lambda env: [_at(env, 0, -1)],
    "[beginning]": lambda env: [_at(env, 0, -2)],
    "[stored]": lambda env: [_at(env, 0, -1000)],
    "[invalid]": lambda env: [_at(env, 0, -1001)],
    "[offset -5]": lambda env: [_at(env, 0, -5)],
    "[offset -2000]": lambda env: [_at(env, 0, -2000)],
    "[offset -2010]": lambda env: [_at(env, 0, -2010)],
    "[offset 2**62]": lambda env: [_at(env, 0, 2**62)],
    "[offset 2**63-1]": lambda env: [_at(env, 0, 2**63 - 1)],
    "[offset -2**63]": lambda env: [_at(env, 0, -(2**63))],
    "[metadata]": lambda env: [_at(env, 0, 5, "note")],
    "[metadata '']": lambda env: [_at(env, 0, 5, "")],
    "[metadata 9000]": lambda env: [_at(env, 0, 5, "x" * 9000)],
    "[epoch 3]": lambda env: [_at(env, 0, 5, leader_epoch=3)],
    "[epoch -1]": lambda env: [_at(env, 0, 5, leader_epoch=-1)],
    "[epoch -5]": lambda env: [_at(env, 0, 5, leader_epoch=-5)],
    "[Sub]": lambda env: [_sub(env)],
    "[__new__]": lambda env: [env.lib.TopicPartition.__new__(env.lib.TopicPartition)],
    "[error set]": lambda env: [_changed(env, error=env.lib.KafkaError(1))],
    "[metadata set]": lambda env: [_changed(env, metadata=7)],
    "[offset set]": lambda env: [_changed(env, offset=4)],
    "List of at": lambda env: List([_at(env)]),
    "UserList of at": lambda env: UserList([_at(env)]),
    "500 of them": lambda env: [_at(env, number) for number in range(500)],
}
"""Arguments for lists of partitions, beside `ANY`."""


def _of_list(make: Make) -> Make:
    def first(env: Env) -> Any:
        made = make(env)
        return made[0] if isinstance(made, list) else made

    return first


PARTITION: dict[str, Make] = {
    name.strip("[]"): _of_list(make) for name, make in PARTITIONS.items() if name.startswith("[")
}
"""Arguments for one partition, beside `ANY`."""


def _message(env: Env, **fields: Any) -> Any:
    return env.lib.Message(**{"topic": env.topic, "partition": 0, "offset": 3, **fields})


MESSAGE: dict[str, Make] = {
    "message": lambda env: _message(env, value=b"x"),
    "message -1": lambda env: _message(env, offset=-1),
    "message -1001": lambda env: _message(env, offset=-1001),
    "message 2**63-1": lambda env: _message(env, offset=2**63 - 1),
    "message epoch": lambda env: _message(env, leader_epoch=4),
    "message error": lambda env: _message(env, error=env.lib.KafkaError(1)),
    "message no error": lambda env: _message(env, error=env.lib.KafkaError(0)),
    "message partition -1": lambda env: _message(env, partition=-1),
    "message partition 7": lambda env: _message(env, partition=7),
    "message topic None": lambda env: _message(env, topic=None),
    "message topic ''": lambda env: _message(env, topic=""),
    "message topic other": lambda env: _message(env, topic="no-such-topic"),
    "Message()": lambda env: env.lib.Message(),
    "[message]": lambda env: [_message(env)],
}
"""Arguments for one message, beside `ANY`."""

HEADERS: dict[str, Make] = {
    "[a=b]": lambda env: [("a", b"b")],
    "[a=None]": lambda env: [("a", None)],
    "[a='ä']": lambda env: [("a", "ä")],
    "[a='']": lambda env: [("a", "")],
    "[a=b'']": lambda env: [("a", b"")],
    "['ä'=b]": lambda env: [("ä", b"b")],
    "[''=b]": lambda env: [("", b"b")],
    "[a\\0b=b]": lambda env: [("a\0b", b"b\0")],
    "[a=surrogate]": lambda env: [("a", "\ud800")],
    "[surrogate=b]": lambda env: [("\ud800", b"b")],
    "[a, a]": lambda env: [("a", b"1"), ("a", b"2")],
    "[a, 1]": lambda env: [("a", b"1"), 1],
    "[(a,)]": lambda env: [("a",)],
    "[()]": lambda env: [()],
    "[(a, b, c)]": lambda env: [("a", b"b", b"c")],
    "[[a, b]]": lambda env: [["a", b"b"]],
    "['ab']": lambda env: ["ab"],
    "((a, b),)": lambda env: (("a", b"b"),),
    "{(a, b)}": lambda env: {("a", b"b")},
    "(a, b) for": lambda env: (each for each in [("a", b"b")]),
    "[b'a'=b]": lambda env: [(b"a", b"b")],
    "[1=b]": lambda env: [(1, b"b")],
    "[None=b]": lambda env: [(None, b"b")],
    "[Str=Str]": lambda env: [(Str("a"), Str("b"))],
    "[AsText=b]": lambda env: [(AsText(), b"b")],
    "[NoText=b]": lambda env: [(NoText(), b"b")],
    "[a=1]": lambda env: [("a", 1)],
    "[a=1.5]": lambda env: [("a", 1.5)],
    "[a=AsText]": lambda env: [("a", AsText())],
    "[a=bytearray]": lambda env: [("a", bytearray(b"b"))],
    "[a=memoryview]": lambda env: [("a", memoryview(b"b"))],
    "[a=Bytes]": lambda env: [("a", Bytes(b"b"))],
    "[a=[]]": lambda env: [("a", [])],
    "{a: b}": lambda env: {"a": b"b"},
    "{a: 'b'}": lambda env: {"a": "b"},
    "{a: None}": lambda env: {"a": None},
    "{a: 1}": lambda env: {"a": 1},
    "{a: [b]}": lambda env: {"a": [b"b"]},
    "{1: b}": lambda env: {1: b"b"},
    "{b'a': b}": lambda env: {b"a": b"b"},
    "{None: b}": lambda env: {None: b"b"},
    "Dict a": lambda env: Dict(a=b"b"),
    "UserDict a": lambda env: UserDict(a=b"b"),
    "mappingproxy": lambda env: types.MappingProxyType({"a": b"b"}),
    "List a": lambda env: List([("a", b"b")]),
    "500 headers": lambda env: [(f"h{number}", b"b") for number in range(500)],
}
"""Arguments for headers, beside `ANY`."""

MESSAGES: dict[str, Make] = {
    "[{}]": lambda env: [{}],
    "[value]": lambda env: [{"value": b"x"}],
    "[key]": lambda env: [{"key": b"x"}],
    "[value None]": lambda env: [{"value": None}],
    "[value 'x']": lambda env: [{"value": "x"}],
    "[value 1]": lambda env: [{"value": 1}],
    "[value bytearray]": lambda env: [{"value": bytearray(b"x")}],
    "[key 1]": lambda env: [{"value": b"x", "key": 1}],
    "[partition 0]": lambda env: [{"value": b"x", "partition": 0}],
    "[partition -1]": lambda env: [{"value": b"x", "partition": -1}],
    "[partition 7]": lambda env: [{"value": b"x", "partition": 7}],
    "[partition 'x']": lambda env: [{"value": b"x", "partition": "x"}],
    "[timestamp 1]": lambda env: [{"value": b"x", "timestamp": 1}],
    "[timestamp 'x']": lambda env: [{"value": b"x", "timestamp": "x"}],
    "[headers]": lambda env: [{"value": b"x", "headers": [("a", b"b")]}],
    "[headers 1]": lambda env: [{"value": b"x", "headers": 1}],
    "[callback]": lambda env: [{"value": b"x", "callback": lambda *args: None}],
    "[callback 1]": lambda env: [{"value": b"x", "callback": 1}],
    "[on_delivery]": lambda env: [{"value": b"x", "on_delivery": lambda *args: None}],
    "[on_delivery 1]": lambda env: [{"value": b"x", "on_delivery": 1}],
    "[topic]": lambda env: [{"value": b"x", "topic": "y"}],
    "[foo]": lambda env: [{"value": b"x", "foo": 1}],
    "[1: 1]": lambda env: [{1: 1}],
    "[value, None]": lambda env: [{"value": b"x"}, None],
    "[None, value]": lambda env: [None, {"value": b"x"}],
    "[value, value 1]": lambda env: [{"value": b"x"}, {"value": 1}],
    "[Dict]": lambda env: [Dict(value=b"x")],
    "[UserDict]": lambda env: [UserDict(value=b"x")],
    "({},)": lambda env: ({"value": b"x"},),
    "{} for": lambda env: (each for each in [{"value": b"x"}]),
    "[Message]": lambda env: [_message(env, value=b"x")],
    "[(value, key)]": lambda env: [(b"x", b"y")],
    "List {}": lambda env: List([{"value": b"x"}]),
    "{'value'}": lambda env: {"value": b"x"},
    "[large]": lambda env: [{"value": b"x" * 2_000_000}],
    "[large, value]": lambda env: [{"value": b"x" * 2_000_000}, {"value": b"x"}],
}
"""Arguments for produce_batch()'s messages, beside `ANY`."""

TOPICS: dict[str, Make] = {
    "[topic]": lambda env: [env.topic],
    "(topic,)": lambda env: (env.topic,),
    "{topic}": lambda env: {env.topic},
    "topic": lambda env: env.topic,
    "topic for": lambda env: (each for each in [env.topic]),
    "[topic, topic]": lambda env: [env.topic, env.topic],
    "[topic, 1]": lambda env: [env.topic, 1],
    "[topic, None]": lambda env: [env.topic, None],
    "[b'x']": lambda env: [b"x"],
    "['']": lambda env: [""],
    "['^x']": lambda env: ["^x"],
    "['^(']": lambda env: ["^("],
    "['^']": lambda env: ["^"],
    "['a b']": lambda env: ["a b"],
    "['ä']": lambda env: ["ä"],
    "['a\\0b']": lambda env: ["a\0b"],
    "[surrogate]": lambda env: ["\ud800"],
    "[300 letters]": lambda env: ["x" * 300],
    "[Str]": lambda env: [Str("x")],
    "[AsText]": lambda env: [AsText()],
    "[NoText]": lambda env: [NoText()],
    "[[topic]]": lambda env: [[env.topic]],
    "[at]": lambda env: [_at(env)],
    "[1.5]": lambda env: [1.5],
    "[UUID]": lambda env: [uuid.UUID(int=1)],
    "{topic: 1}": lambda env: {env.topic: 1},
    "List topic": lambda env: List([env.topic]),
    "UserList topic": lambda env: UserList([env.topic]),
    "500 topics": lambda env: [f"t{number}" for number in range(500)],
}
"""Arguments for lists of topics, beside `ANY`."""

TEXTS: dict[str, Make] = {
    "'^x'": lambda env: "^x",
    "'a b'": lambda env: "a b",
    "'.'": lambda env: ".",
    "249 letters": lambda env: "x" * 249,
    "250 letters": lambda env: "x" * 250,
    "another topic": lambda env: "no-such-topic",
    "topic": lambda env: env.topic,
    "Str topic": lambda env: Str(env.topic),
    "bytes topic": lambda env: env.topic.encode(),
}
"""Arguments for a name, beside `ANY`."""

NUMBERS: dict[str, Make] = {
    "7": lambda env: 7,
    "-1001": lambda env: -1001,
    "-1000": lambda env: -1000,
    "-2**31": lambda env: -(2**31),
    "-2**63": lambda env: -(2**63),
    "1000000": lambda env: 1_000_000,
    "1000001": lambda env: 1_000_001,
    "1.0": lambda env: 1.0,
    "2.7": lambda env: 2.7,
    "255": lambda env: 255,
    "256": lambda env: 256,
    "2**32": lambda env: 2**32,
    "2**40": lambda env: 2**40,
}
"""Arguments for an integer, beside `ANY`."""

POOLS: dict[str, dict[str, Make]] = {
    "any": {},
    "partitions": PARTITIONS,
    "partition": PARTITION,
    "message": MESSAGE,
    "headers": HEADERS,
    "messages": MESSAGES,
    "topics": TOPICS,
    "text": TEXTS,
    "number": NUMBERS,
}
"""The special values by the kind of a parameter."""
