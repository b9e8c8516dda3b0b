"""Numbers in messages of the type ``confluent.type.Decimal``, of any generated class."""

from __future__ import annotations

import decimal
from typing import Any, Final

DECIMAL_TYPE: Final = "confluent.type.Decimal"
DIGITS_MAX: Final = 10_000
"""The digits of a decimal at most. Longer ones take long to convert."""
BYTES_MAX: Final = DIGITS_MAX * 5 // 12
"""A byte has 2.4 decimal digits."""

EXACT: Final = decimal.Context(prec=decimal.MAX_PREC, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
"""Computes without rounding. Check the number of digits first: they aren't limited."""


def decimal_of_bytes(unscaled: bytes, scale: int) -> decimal.Decimal:
    """Return the number of a big-endian integer in two's complement, and a scale.

    :raises ValueError: The number has too many digits.
    """
    if len(unscaled) > BYTES_MAX:
        raise ValueError(f"a decimal of {len(unscaled):,} bytes: at most {BYTES_MAX:,} are read")
    number = decimal.Decimal(int.from_bytes(unscaled, "big", signed=True))
    return number.scaleb(-scale, context=EXACT)


def decimal_of_message(message: Any) -> decimal.Decimal:
    """Return the number in a message.

    :raises ValueError: The number has too many digits.
    """
    return decimal_of_bytes(message.value, message.scale)


def set_decimal(message: Any, number: decimal.Decimal) -> None:
    """Write a number into a message.

    :raises ValueError: The number isn't finite, or it has too many digits.
    """
    sign, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int) or len(digits) > DIGITS_MAX:
        raise ValueError(f"no decimal: {number:.10g}")
    magnitude = int(decimal.Decimal((0, digits, 0)))
    unscaled = -magnitude if sign else magnitude
    message.value = unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True)
    message.precision, message.scale = len(digits), -exponent
