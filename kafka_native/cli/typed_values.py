"""The JSON form of typed values, for ``consume -s`` and ``produce -s``.

JSON has fewer types than Avro. So bytes are base64, times are ISO 8601, decimals and UUIDs are
texts, and the floating-point numbers that JSON lacks are the texts NaN, Infinity and -Infinity.
Protobuf's own JSON form does the same.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal, InvalidOperation
from typing import Any, Final, TypeVar
from uuid import UUID

T = TypeVar("T", datetime, time)
Convert = Callable[[Any, str], Any]
"""Converts a JSON value to a value for an Avro serializer. The text is the path of the value."""

SPECIAL_NUMBERS: Final = ("NaN", "Infinity", "-Infinity")
FLOAT_DIGITS_MAX: Final = 15
"""A JSON number with a fraction keeps this many digits. A decimal with more has to be a text."""
DEPTH_MAX: Final = 100
"""How deep a value may be nested. Deeper ones would exhaust Python's stack."""

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)
_FRACTION = re.compile(r"[.,](\d+)")


# --- writing ---


def json_text(value: Any) -> str:
    """The JSON form of a deserialized value, on one line.

    :raises ValueError: The value is nested too deeply.
    :raises TypeError: The value has a type that no deserializer returns.
    """
    try:
        try:
            return _encode(value)
        except ValueError:  # a number that JSON doesn't have
            return _encode(_with_special_numbers(value))
    except RecursionError:
        raise ValueError("the value is nested too deeply for JSON") from None


def _plain(value: object) -> object:
    """The JSON form of a value that the `json` module can't write."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime):
        return value.isoformat(timespec=_precision(value.microsecond)).replace("+00:00", "Z")
    if isinstance(value, time):
        return value.isoformat(timespec=_precision(value.microsecond))
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form here")


def _precision(microsecond: int) -> str:
    if microsecond == 0:
        return "seconds"
    return "microseconds" if microsecond % 1000 else "milliseconds"


_encode = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_plain
).encode


def _with_special_numbers(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {name: _with_special_numbers(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_with_special_numbers(each) for each in value]
    return value


# --- reading ---


def parse(text: bytes) -> Any:
    """Parse JSON. What another parser might drop or change is an error.

    :raises ValueError: The text isn't JSON, has a member twice, or has NaN as a number.
    """
    try:
        return json.loads(text, object_pairs_hook=members_once, parse_constant=no_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at character {error.pos + 1}") from None
    except UnicodeDecodeError:
        raise ValueError("not JSON: not UTF-8") from None


def members_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of a JSON text; ValueError if it has a member twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the member {twice!r} is there twice")
    return found


def no_constant(name: str) -> Any:
    """Refuse NaN and Infinity, which Python's parser takes: ValueError."""
    raise ValueError(f'{name} is no JSON number: write "{name}"')


def avro_converter(schema: Any) -> Callable[[Any], Any]:
    """Make the function that converts JSON values to values for an Avro serializer.

    :param schema: The schema, as fastavro parses it.
    """
    compiler = _AvroCompiler()
    convert = compiler.converter(schema, "")

    def converted(value: Any) -> Any:
        try:
            return convert(value, "")
        except RecursionError:
            raise ValueError("the value is nested too deeply") from None

    return converted


class _AvroCompiler:
    """Compiles an Avro schema to functions."""

    def __init__(self) -> None:
        self._named: dict[str, Convert] = {}

    def converter(self, schema: Any, namespace: str) -> Convert:
        """The function for a schema. Names in it are those of the namespace."""
        if isinstance(schema, list):
            return self._union(schema, namespace)
        if isinstance(schema, str):
            return _PRIMITIVES.get(schema) or self._later(schema)
        logical = _logical(schema)
        if logical is not None:
            if schema["type"] == "fixed":
                self._named[schema["name"]] = logical
            return logical
        kind = schema["type"]
        if kind in ("record", "error"):
            return self._record(schema)
        if kind == "enum":
            return self._name(schema, _enum(schema["name"], frozenset(schema["symbols"])))
        if kind == "fixed":
            return self._name(schema, _fixed(schema["name"], schema["size"]))
        if kind == "array":
            return _array(self.converter(schema["items"], namespace))
        if kind == "map":
            return _map(self.converter(schema["values"], namespace))
        return self.converter(kind, namespace)

    def _name(self, schema: Mapping[str, Any], convert: Convert) -> Convert:
        self._named[schema["name"]] = convert
        return convert

    def _later(self, name: str) -> Convert:
        """A named type that may be defined around this use of it."""
        return lambda value, path: self._named[name](value, path)

    def _record(self, schema: Mapping[str, Any]) -> Convert:
        fields: dict[str, Convert] = {}
        self._named[schema["name"]] = lambda value, path: _record(
            schema["name"], fields, required, value, path
        )
        required = [each["name"] for each in schema["fields"] if "default" not in each]
        for each in schema["fields"]:
            fields[each["name"]] = self.converter(each["type"], schema["name"])
        return self._named[schema["name"]]

    def _union(self, branches: list[Any], namespace: str) -> Convert:
        compiled = [(_branch_name(each), self.converter(each, namespace)) for each in branches]
        return _Union(compiled)


def _failure(path: str, text: str) -> ValueError:
    return ValueError(f"{path or 'the value'}: {text}")


def _shown(value: Any) -> str:
    """The type of a JSON value, and the value if it is short."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "an array"
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _primitive(kind: str, is_valid: Callable[[Any], bool]) -> Convert:
    def convert(value: Any, path: str) -> Any:
        if not is_valid(value):
            raise _failure(path, f"{_shown(value)} is no {kind}")
        return value

    return convert


def _integer(kind: str, bits: int) -> Convert:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    return _primitive(kind, lambda value: type(value) is int and low <= value <= high)


def _floating(kind: str) -> Convert:
    def convert(value: Any, path: str) -> Any:
        if isinstance(value, str) and value in SPECIAL_NUMBERS:
            return float(value)
        if type(value) not in (int, float):
            raise _failure(path, f"{_shown(value)} is no {kind}")
        try:
            found = float(value)
        except OverflowError:
            raise _failure(path, f"the number is too large for {kind}") from None
        if found != value:
            raise _failure(path, f"{kind} can't hold all digits of {_shown(value)}")
        return found

    return convert


def _bytes(value: Any, path: str) -> bytes:
    if isinstance(value, str):
        try:
            return base64.b64decode(value.encode("ascii"), validate=True)
        except (UnicodeEncodeError, binascii.Error):
            pass
    raise _failure(path, f"{_shown(value)} isn't base64")


_PRIMITIVES: dict[str, Convert] = {
    "null": _primitive("null", lambda value: value is None),
    "boolean": _primitive("boolean", lambda value: isinstance(value, bool)),
    "int": _integer("int", 32),
    "long": _integer("long", 64),
    "float": _floating("float"),
    "double": _floating("double"),
    "string": _primitive("string", lambda value: isinstance(value, str)),
    "bytes": _bytes,
}


def _enum(name: str, symbols: frozenset[str]) -> Convert:
    return _primitive(
        f"symbol of {name}", lambda value: isinstance(value, str) and value in symbols
    )


def _fixed(name: str, size: int) -> Convert:
    def convert(value: Any, path: str) -> Any:
        data = _bytes(value, path)
        if len(data) != size:
            raise _failure(path, f"{len(data)} bytes, and {name} has {size}")
        return data

    return convert


def _array(item: Convert) -> Convert:
    def convert(value: Any, path: str) -> Any:
        if not isinstance(value, list):
            raise _failure(path, f"{_shown(value)} is no array")
        return [item(each, f"{path}[{index}]") for index, each in enumerate(value)]

    return convert


def _map(item: Convert) -> Convert:
    def convert(value: Any, path: str) -> Any:
        if not isinstance(value, dict):
            raise _failure(path, f"{_shown(value)} is no map")
        return {name: item(each, f"{path}[{name!r}]") for name, each in value.items()}

    return convert


def _record(
    name: str, fields: Mapping[str, Convert], required: list[str], value: Any, path: str
) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _failure(path, f"{_shown(value)} is no record {name}")
    if path.count(".") > DEPTH_MAX:
        raise _failure("the value", "it is nested too deeply")
    for each in required:
        if each not in value:
            raise _failure(f"{path}.{each}" if path else each, "the field is missing")
    for field in value:
        if field not in fields:
            raise _failure(f"{path}.{field}" if path else field, f"record {name} has no such field")
    return {
        field: fields[field](each, f"{path}.{field}" if path else field)
        for field, each in value.items()
    }


def _branch_name(branch: Any) -> str:
    """The name of a union's branch in Avro's JSON."""
    if isinstance(branch, str):
        return branch
    name: str = branch.get("name") or branch["type"]
    return name if isinstance(name, str) else _branch_name(name)


class AmbiguousUnionError(ValueError):
    """A value fits several branches of a union. Its branch has to be named."""


class _Union:
    """Finds the branch of a union that a value fits, or that ``{NAME: value}`` names.

    Returns a pair of the branch's name and the value, so that fastavro takes this branch, too.
    """

    def __init__(self, branches: list[tuple[str, Convert]]) -> None:
        self._branches = branches
        self._has_null = any(name == "null" for name, _ in branches)
        self._number_branches = {
            kind: [
                (name, convert)
                for names in groups
                for name, convert in branches
                # A date is an int as well, but comes back as a text.
                if name in names and convert is _PRIMITIVES[name]
            ]
            for kind, groups in _NUMBER_BRANCHES.items()
        }

    def __call__(self, value: Any, path: str) -> Any:
        if value is None and self._has_null:
            return None
        for number_branch in self._number_branches.get(type(value), ()):
            kept, _ = _fitting([number_branch], value, path)
            if kept:
                return kept[0]
        found, reasons = _fitting(self._branches, value, path)
        named, named_reasons = _fitting(*self._named(value), path)
        found += [each for each in named if each[0] not in (name for name, _ in found)]
        if len(found) > 1:
            ways = " or ".join(f'{{"{name}": ...}}' for name, _ in found)
            raise AmbiguousUnionError(
                f"{path or 'the value'}: {_shown(value)} fits several branches of the union: "
                f"write {ways}"
            )
        if found:
            return found[0]
        reasons = named_reasons or reasons
        if len(reasons) == 1:  # named or nullable: the reason names the field inside
            raise reasons[0]
        names = ", ".join(name for name, _ in self._branches)
        raise _failure(path, f"{_shown(value)} fits no branch of the union {names}")

    def _named(self, value: Any) -> tuple[list[tuple[str, Convert]], Any]:
        """The branches that ``{NAME: value}`` names, and the value inside."""
        if not isinstance(value, dict) or len(value) != 1:
            return [], None
        [(chosen, inner)] = value.items()
        return [
            branch for branch in self._branches if chosen in (branch[0], _short_name(branch[0]))
        ], inner


_NUMBER_BRANCHES: Final = {
    int: (("int", "long"), ("double",), ("float",)),
    float: (("double",), ("float",)),
}
"""The branches in which a JSON number stays a number, in the order in which they are tried."""


def _short_name(name: str) -> str:
    return name.rpartition(".")[2]


def _fitting(
    branches: list[tuple[str, Convert]], value: Any, path: str
) -> tuple[list[tuple[str, Any]], list[ValueError]]:
    """Convert a value by each branch. Returns the names with the results, and the reasons.

    :raises AmbiguousUnionError: A union inside the value is ambiguous.
    """
    found, reasons = [], []
    for name, convert in branches:
        try:
            found.append((name, convert(value, path)))
        except AmbiguousUnionError:
            raise
        except ValueError as error:
            if name != "null":
                reasons.append(error)
    return found, reasons


# --- logical types ---


def _logical(schema: Mapping[str, Any]) -> Convert | None:
    """The function for a logical type; None for other types."""
    key = (schema["type"], schema.get("logicalType"))
    if key[1] == "decimal" and key[0] in ("bytes", "fixed"):
        return _decimal
    make = _LOGICAL_TYPES.get(key) if isinstance(key[0], str) else None
    return None if make is None else _text_or(_PRIMITIVES[key[0]], make, str(key[1]))


def _text_or(plain: Convert, make: Callable[[str], Any], kind: str) -> Convert:
    """Convert a text by a function. The number or text of the physical type is taken as well."""

    def convert(value: Any, path: str) -> Any:
        if not isinstance(value, str):
            return plain(value, path)
        try:
            return make(value)
        except (ValueError, OverflowError):
            raise _failure(path, f"{_shown(value)} is no {kind}") from None

    return convert


def _decimal(value: Any, path: str) -> Decimal:
    try:
        if isinstance(value, str):
            found = Decimal(value)
        elif type(value) is int:
            return Decimal(value)
        elif type(value) is float:
            found = Decimal(repr(value))
            if len(found.as_tuple().digits) > FLOAT_DIGITS_MAX:
                raise _failure(path, "a decimal with so many digits has to be a text")
        else:
            raise _failure(path, f"{_shown(value)} is no decimal")
    except InvalidOperation:
        raise _failure(path, f"{_shown(value)} is no decimal") from None
    if not found.is_finite():
        raise _failure(path, f"{_shown(value)} is no decimal")
    return found


def _zoned(text: str) -> datetime:
    """Read an ISO 8601 time. Without a zone it is UTC."""
    found = _naive_or_zoned(text)
    return found.replace(tzinfo=timezone.utc) if found.tzinfo is None else found


def _local(text: str) -> datetime:
    """Read an ISO 8601 time without a zone."""
    found = _naive_or_zoned(text)
    if found.tzinfo is not None:
        raise ValueError("a local time has no zone")
    return found


def _naive_or_zoned(text: str) -> datetime:
    _check_digits(text)
    if _is_date(text):
        raise ValueError("a date without a time of day")
    # Python 3.10 doesn't know the letter Z.
    return datetime.fromisoformat(f"{text[:-1]}+00:00" if text[-1:] in ("Z", "z") else text)


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _nanoseconds(text: str) -> int:
    """Read an ISO 8601 time with up to nine digits of a second, as nanoseconds since 1970."""
    whole, dot, rest = text.partition(".")
    digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
    if dot and not 0 < len(digits) < 10:
        raise ValueError("no time")
    seconds = (_zoned(whole + rest[len(digits) :]) - _EPOCH) // _MICROSECOND
    return seconds * 1000 + int(digits.ljust(9, "0"))


def _check_digits(text: str) -> None:
    """Refuse digits of a second that Python would drop."""
    match = _FRACTION.search(text)
    if match is not None and len(match[1]) > 6:
        raise ValueError("more digits than microseconds have")


def _in_milliseconds(read: Callable[[str], T]) -> Callable[[str], T]:
    """Make the function for a type of milliseconds. It refuses digits that the type would drop."""

    def convert(text: str) -> T:
        found = read(text)
        if found.microsecond % 1000:
            raise ValueError("more digits than milliseconds have")
        return found

    return convert


def _time(text: str) -> time:
    _check_digits(text)
    found = time.fromisoformat(text)
    if found.tzinfo is not None:
        raise ValueError("a time of day has no zone")
    return found


_LOGICAL_TYPES: dict[tuple[Any, Any], Callable[[str], Any]] = {
    ("int", "date"): date.fromisoformat,
    ("int", "time-millis"): _in_milliseconds(_time),
    ("long", "time-micros"): _time,
    ("long", "timestamp-millis"): _in_milliseconds(_zoned),
    ("long", "timestamp-micros"): _zoned,
    ("long", "timestamp-nanos"): _nanoseconds,
    ("long", "local-timestamp-millis"): _in_milliseconds(_local),
    ("long", "local-timestamp-micros"): _local,
    ("long", "local-timestamp-nanos"): _nanoseconds,
    ("string", "uuid"): UUID,
}
"""How a text becomes a value of each logical type. fastavro takes these values."""
