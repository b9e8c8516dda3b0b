"""`Arguments` converts and refuses arguments as a C function does."""

from __future__ import annotations

import math
import sys
from typing import Any

import pytest

from kafka_native._native.arguments import Arguments

EVERYTHING = Arguments("sz|dOiILp", "text", "maybe", "real", "any", "int", "count", "wide", "flag")


class Index:
    def __index__(self) -> int:
        return 7


def parse(arguments: Arguments, *args: Any, **kwargs: Any) -> dict[str, Any]:
    return arguments.parse(args, kwargs)


def test_given_arguments_have_plain_types() -> None:
    assert parse(EVERYTHING, "a", None) == {"text": "a", "maybe": None}
    anything = object()
    found = parse(EVERYTHING, "a", "b", 1, anything, Index(), 3, wide=2**40, flag=[])
    assert found == {
        "text": "a",
        "maybe": "b",
        "real": 1.0,
        "any": anything,
        "int": 7,
        "count": 3,
        "wide": 2**40,
        "flag": False,
    }
    assert type(found["real"]) is float
    assert found["any"] is anything
    assert parse(Arguments("|b", "byte"), 3) == {"byte": True}
    assert math.isnan(parse(Arguments("d", "real"), math.nan)["real"])


@pytest.mark.parametrize(
    ("error", "args", "kwargs"),
    [
        (TypeError, (), {}),
        (TypeError, ("a",), {}),
        (TypeError, (1, "b"), {}),
        (TypeError, ("a", b"b"), {}),
        (TypeError, ("a", "b"), {"real": "1"}),
        (TypeError, ("a", "b"), {"int": 1.5}),
        (OverflowError, ("a", "b"), {"int": 2**31}),
        (OverflowError, ("a", "b"), {"wide": 2**63}),
        (ValueError, ("a\0b", "b"), {}),
        (UnicodeEncodeError, ("\ud800", "b"), {}),
        (TypeError, ("a", "b"), {"text": "c"}),
        (TypeError, ("a", "b"), {"other": 1}),
        (TypeError, ("a", *range(9)), {}),
    ],
)
def test_wrong_arguments_are_refused(
    error: type[Exception], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    with pytest.raises(error):
        EVERYTHING.parse(args, kwargs)


def test_positional_arguments_take_no_keywords() -> None:
    timeout = Arguments("|d", "timeout", positional=True)
    assert timeout.positional
    assert parse(timeout, 1) == {"timeout": 1.0}
    assert parse(timeout) == {}
    with pytest.raises(TypeError, match="no keyword arguments"):
        parse(timeout, timeout=1)
    with pytest.raises(TypeError, match="at most 1 argument"):
        parse(timeout, 1, 2)


@pytest.mark.parametrize(
    ("form", "names"),
    [("d", ()), ("dd", ("a",)), ("s#", ("a", "b")), ("O!", ("a", "b")), ("O" * 9, "abcdefghi")],
)
def test_formats_that_dont_fit_are_refused(form: str, names: Any) -> None:
    with pytest.raises(ValueError, match="doesn't fit"):
        Arguments(form, *names)


def test_objects_are_borrowed_only_for_the_call() -> None:
    anything = object()
    arguments = Arguments("O", "any")
    before = sys.getrefcount(anything)
    for _ in range(100):
        parse(arguments, anything)
        parse(arguments, any=anything)
    assert sys.getrefcount(anything) == before
