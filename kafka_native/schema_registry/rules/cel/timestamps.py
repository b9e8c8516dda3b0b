"""The function ``timestamp()`` of rules: also for numbers of a unit since 1970."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any, Final

from celpy import celtypes

from kafka_native.schema_registry.rules.cel.calls import kind_of, returning_errors

EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
SECONDS: Final = 0
UNITS: Final = {SECONDS: "seconds", 3: "milliseconds", 6: "microseconds", 9: "nanoseconds"}
"""The precisions: how many digits of a second a number has."""


def timestamp(*values: Any) -> Any:
    """Return a time: of a text, a time, seconds since 1970, or a number and its precision.

    With three or more numbers: of a year, a month, a day and so on, as standard CEL has it.
    """
    if len(values) > 2:
        return celtypes.TimestampType(*values)
    if len(values) == 2:
        return _of_number(*values)
    [value] = values
    if isinstance(value, (datetime.datetime, str)):
        return celtypes.TimestampType(value)
    return _of_number(value, celtypes.IntType(SECONDS))


def _of_number(number: Any, precision: Any) -> Any:
    for value in (number, precision):
        if not isinstance(value, int) or isinstance(value, (celtypes.BoolType, celtypes.UintType)):
            raise ValueError(f"an int is expected, not {kind_of(value)}")
    if int(precision) not in UNITS:
        known = ", ".join(f"{digits} ({unit})" for digits, unit in UNITS.items())
        raise ValueError(f"the precision is one of {known}, not {precision}")
    microseconds = int(number) * 10**6 // 10 ** int(precision)
    try:
        return celtypes.TimestampType(EPOCH + datetime.timedelta(microseconds=microseconds))
    except OverflowError:
        raise ValueError(f"{number} is outside of the years 1 to 9999") from None


def timestamp_text(value: datetime.datetime) -> str:
    """Return a time by RFC 3339 in UTC, with three or six digits of a second if it has some."""
    time = value.astimezone(datetime.timezone.utc)
    whole = time.microsecond % 1000 == 0
    digits = "seconds" if time.microsecond == 0 else "milliseconds" if whole else "microseconds"
    plain = datetime.datetime.combine(time.date(), time.time())
    return f"{plain.isoformat(timespec=digits)}Z"


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "timestamp": returning_errors("timestamp", timestamp)
}
