"""The functions ``decimal()``, ``decimals.*``, ``string()`` and ``double()`` of rules.

A decimal in CEL is Python's Decimal, or a Protobuf message ``confluent.type.Decimal``. Sums,
differences, products and remainders are exact. Quotients and roots have 38 digits.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from celpy import celtypes

from kafka_native.schema_registry.protobuf_decimals import (
    DECIMAL_TYPE,
    DIGITS_MAX,
    EXACT,
    decimal_of_bytes,
    decimal_of_message,
)
from kafka_native.schema_registry.rules.cel.calls import kind_of, returning_errors
from kafka_native.schema_registry.rules.cel.timestamps import timestamp_text
from kafka_native.schema_registry.rules.cel.values import MessageMap

ROUNDED: Final = decimal.Context(
    prec=38, rounding=decimal.ROUND_HALF_UP, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN
)
"""Computes quotients and roots, with as many digits as SQL."""
SCALE_MAX: Final = 2**31 - 1
FORBIDDEN_IN_TEXT: Final = frozenset("_ \t\r\n")
"""Characters that Python takes in the text of a number, but other clients don't."""


def is_decimal(value: Any) -> bool:
    """Return whether a value of CEL is a decimal."""
    return isinstance(value, Decimal) or (
        isinstance(value, MessageMap) and value.message.DESCRIPTOR.full_name == DECIMAL_TYPE
    )


def to_decimal(value: Any) -> Decimal:
    """Return a number, a text or a decimal of CEL as a Decimal.

    :raises ValueError: The value has another type, or it isn't a finite number.
    """
    if isinstance(value, Decimal):
        found = value
    elif is_decimal(value):
        found = decimal_of_message(value.message)
    elif isinstance(value, (bool, celtypes.BoolType)) or not isinstance(value, (int, float, str)):
        what = (
            "bytes need a scale" if isinstance(value, bytes) else f"{kind_of(value)} is no decimal"
        )
        raise ValueError(what)
    else:
        text = str(value) if isinstance(value, str) else repr(float(value))
        found = Decimal(int(value)) if isinstance(value, int) else _parsed(text)
    if not found.is_finite():
        raise ValueError(f"{found} is no finite number")
    return found


def _parsed(text: str) -> Decimal:
    try:
        found = Decimal(text)
    except decimal.InvalidOperation:
        found = Decimal("NaN")
    exponent = found.as_tuple().exponent
    if FORBIDDEN_IN_TEXT & set(text) or not isinstance(exponent, int) or abs(exponent) > SCALE_MAX:
        raise ValueError(f"{text!r} is no decimal")
    return found if found else abs(found)  # zero has no sign


def _is_int(value: Any) -> bool:
    others = (bool, celtypes.BoolType, celtypes.UintType)
    return isinstance(value, int) and not isinstance(value, others)


def _scale(value: Any) -> int:
    if not _is_int(value) or not -SCALE_MAX <= value <= SCALE_MAX:
        raise ValueError(f"the scale has to be an int of 32 bits, not {kind_of(value)} {value}")
    return int(value)


def _exponent(number: Decimal) -> int:
    found = number.as_tuple().exponent
    assert isinstance(found, int), "to_decimal() returns finite numbers"
    return found


def _check_digits(*numbers: Decimal, exponent: int | None = None) -> None:
    """Refuse to write numbers with all digits from the largest to the smallest place.

    A zero has one digit, wherever it is.

    :param exponent: The smallest place; by default that of the numbers.
    """
    places = [number.adjusted() for number in numbers if number]
    if not places:
        return
    lowest = min(map(_exponent, numbers)) if exponent is None else exponent
    needed = max(places) - lowest + 1
    if needed > DIGITS_MAX:
        raise ValueError(f"the result needs {needed:,} digits: at most {DIGITS_MAX:,} are computed")


def _decimal(value: Any, *scale: Any) -> Decimal:
    if not scale:
        return to_decimal(value)
    [given] = scale
    if not isinstance(value, bytes):
        raise ValueError(f"bytes and a scale are expected, not {kind_of(value)}")
    return decimal_of_bytes(bytes(value), _scale(given))


def _compared(is_true: Callable[[Decimal, Decimal], bool]) -> Callable[[Any, Any], Any]:
    return lambda a, b: celtypes.BoolType(is_true(to_decimal(a), to_decimal(b)))


def _aligned(compute: Callable[[Decimal, Decimal], Decimal]) -> Callable[[Any, Any], Decimal]:
    """An operation that needs all digits of both numbers."""

    def call(a: Any, b: Any) -> Decimal:
        first, second = to_decimal(a), to_decimal(b)
        _check_digits(first, second)
        return compute(first, second)

    return call


def _quotient(a: Any, b: Any) -> Decimal:
    return ROUNDED.divide(to_decimal(a), _divisor(b))


def _divisor(value: Any) -> Decimal:
    found = to_decimal(value)
    if not found:
        raise ValueError("division by zero")
    return found


def _remainder(a: Any, b: Any) -> Decimal:
    first, second = to_decimal(a), _divisor(b)
    _check_digits(first, exponent=min(second.adjusted(), first.adjusted()))
    return EXACT.remainder(first, second)


def _root(value: Any) -> Decimal:
    number = to_decimal(value)
    if number < 0:
        raise ValueError("a negative number has no square root")
    root = ROUNDED.sqrt(number)
    if EXACT.multiply(root, root) != number:
        return root
    scale = int(-_exponent(number) / 2)  # half of the scale, as Java's BigDecimal has it
    if not root:
        return root.scaleb(-scale - _exponent(root), context=EXACT)
    short = root.normalize(EXACT)
    room = ROUNDED.prec - len(short.as_tuple().digits)
    least = -_exponent(short)
    return _quantized(short, max(least, min(scale, least + room)), decimal.ROUND_HALF_UP)


def _quantized(number: Decimal, scale: int, rounding: str) -> Decimal:
    _check_digits(number, exponent=-scale)
    unit = Decimal((0, (1,), -scale))
    return number.quantize(unit, rounding=rounding, context=EXACT)


def _round(value: Any, scale: Any = 0) -> Decimal:
    return _quantized(to_decimal(value), _scale(scale), decimal.ROUND_HALF_UP)


def _truncate(value: Any, scale: Any = 0) -> Decimal:
    number, wanted = to_decimal(value), _scale(scale)
    if wanted >= -_exponent(number):
        return number  # it has no digits to cut off, and gets no zeros
    return _quantized(number, wanted, decimal.ROUND_DOWN)


def _sign(value: Any) -> celtypes.IntType:
    number = to_decimal(value)
    return celtypes.IntType((number > 0) - (number < 0))


def _string(value: Any) -> Any:
    """Standard ``string()``, and also of decimals. Times keep their fractions of a second."""
    if is_decimal(value):
        number = to_decimal(value)
        highest, lowest = max(number.adjusted(), 0), min(_exponent(number), 0)
        _check_digits(Decimal((0, (1,), highest)), exponent=lowest)
        return celtypes.StringType(format(number if number else abs(number), "f"))
    if isinstance(value, celtypes.TimestampType):
        return celtypes.StringType(timestamp_text(value))
    if isinstance(value, (bool, celtypes.BoolType)):
        return celtypes.StringType("true" if value else "false")
    if value is None or isinstance(value, (list, dict)):
        raise ValueError(f"{kind_of(value)} has no text")
    return celtypes.StringType(value)


def _double(value: Any) -> celtypes.DoubleType:
    """Standard ``double()``, and also of decimals. It may lose digits."""
    if is_decimal(value):
        return celtypes.DoubleType(float(to_decimal(value)))
    if isinstance(value, (bool, celtypes.BoolType, bytes)) or value is None:
        raise ValueError(f"{kind_of(value)} is no number")
    return celtypes.DoubleType(value)


_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "decimal": _decimal,
    "decimals.eq": _compared(lambda a, b: a == b),
    "decimals.lt": _compared(lambda a, b: a < b),
    "decimals.le": _compared(lambda a, b: a <= b),
    "decimals.gt": _compared(lambda a, b: a > b),
    "decimals.ge": _compared(lambda a, b: a >= b),
    "decimals.add": _aligned(EXACT.add),
    "decimals.sub": _aligned(EXACT.subtract),
    "decimals.mul": lambda a, b: EXACT.multiply(to_decimal(a), to_decimal(b)),
    "decimals.div": _quotient,
    "decimals.mod": _remainder,
    "decimals.greatest": lambda a, b: max(to_decimal(a), to_decimal(b)),
    "decimals.least": lambda a, b: min(to_decimal(a), to_decimal(b)),
    "decimals.sqrt": _root,
    "decimals.neg": lambda value: to_decimal(value).copy_negate(),
    "decimals.abs": lambda value: to_decimal(value).copy_abs(),
    "decimals.sign": _sign,
    "decimals.round": _round,
    "decimals.trunc": _truncate,
    "decimals.floor": lambda value: _quantized(to_decimal(value), 0, decimal.ROUND_FLOOR),
    "decimals.ceil": lambda value: _quantized(to_decimal(value), 0, decimal.ROUND_CEILING),
    "string": _string,
    "double": _double,
}
FUNCTIONS: Final = {name: returning_errors(name, call) for name, call in _FUNCTIONS.items()}
