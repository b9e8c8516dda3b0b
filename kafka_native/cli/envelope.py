"""Writes a message as one line of JSON and reads it back, for ``consume -J`` and ``produce -J``.

    {"topic":"t","partition":0,"offset":7,"timestamp":1700000000000,"timestamp_type":"create",
     "headers":[["kind","x"]],"key":"k","value":"text"}

UTF-8 bytes are a string, other bytes are ``{"base64": "..."}``, and null is null. The names of
headers are written in the same way. With kcat's names, the same message is

    {"topic":"t","partition":0,"offset":7,"tstype":"create","ts":1700000000000,
     "headers":["kind","x"],"key":"k","payload":"text"}

The reader takes both, and ``{"hex": "..."}``. Reading a written line gives the same bytes.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

from kafka_native import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    TIMESTAMP_NOT_AVAILABLE,
    Message,
)
from kafka_native.cli import typed_values
from kafka_native.cli.texts import FROM_FORM, TO_FORM
from kafka_native.terminal.lines import escaped_json

Header = tuple[str, bytes | None]
Convert = Callable[[str, str | None, Any], bytes | None]
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode

_READ = frozenset({"topic", "partition", "timestamp", "headers", "key", "value"})
_KINDS = {TIMESTAMP_CREATE_TIME: '"create"', TIMESTAMP_LOG_APPEND_TIME: '"append"'}
_KCATS_KINDS = {TIMESTAMP_CREATE_TIME: "create", TIMESTAMP_LOG_APPEND_TIME: "logappend"}
_SYNONYMS = {"payload": "value", "ts": "timestamp"}
_REPORTED_ONLY = frozenset(
    {
        "offset",
        "timestamp_type",
        "leader_epoch",
        "tstype",
        "broker",
        "key_schema_id",
        "value_schema_id",
    }
)
"""Members that only a consumed message has. The producer ignores them."""


class Row(NamedTuple):
    """A message to produce, as read from one line."""

    topic: str | None
    partition: int
    """-1: the line names none."""
    timestamp: int
    """Milliseconds since 1970; 0: the line names none."""
    headers: list[Header] | None
    key: bytes | None
    value: bytes | None


def writer(
    key_as: str = "raw",
    value_as: str = "raw",
    *,
    escapes: bool = False,
    as_kcat: bool = False,
    more: Callable[[Message], str] | None = None,
) -> Callable[[Message], str]:
    """Make the function that writes a message as a line of JSON.

    :param key_as: ``raw``: a string, or base64 for bytes that aren't UTF-8. ``hex``, ``base64``:
        always in that form.
    :param value_as: The same, or ``json``: a value that is a JSON object or array becomes part of
        the line's JSON. Reading it back gives the same JSON; the spaces in it may differ.
        ``typed``: a value is JSON already, and becomes part of the line as it is.
    :param escapes: Escape unprintable characters in JSON's way. The line means the same.
    :param as_kcat: Write kcat's names of members. Members that a message lacks are left out.
    :param more: Returns further members of a message, as JSON text that begins with a comma.
    """
    name_of = lru_cache(_encode)
    key_of = _forms(key_as)
    value_of = _embedded if value_as == "json" else _forms(value_as)

    def write_as_kcat(message: Message) -> str:
        kind, milliseconds = message.timestamp()
        time = ""
        if kind != TIMESTAMP_NOT_AVAILABLE:
            time = f'"tstype":"{_KCATS_KINDS[kind]}","ts":{milliseconds},'
        flat = [
            part for name, value in message.headers() or () for part in (_name(name), _text(value))
        ]
        headers = f'"headers":{_encode(flat)},' if flat else ""
        return (
            f'{{"topic":{name_of(message.topic())},"partition":{message.partition()},'
            f'"offset":{message.offset()},{time}{headers}'
            f'"key":{key_of(message.key())},"payload":{value_of(message.value())}'
            f"{'' if more is None else more(message)}}}"
        )

    def write(message: Message) -> str:
        # Formatted by hand: the JSON encoder takes several times as long for a dict.
        headers = message.headers()
        kind, milliseconds = message.timestamp()
        time = '"timestamp":null,"timestamp_type":null'
        if kind != TIMESTAMP_NOT_AVAILABLE:
            time = f'"timestamp":{milliseconds},"timestamp_type":{_KINDS[kind]}'
        pairs = [[_name(name), _text(value)] for name, value in headers or ()]
        named = _encode(pairs) if pairs else "[]"
        return (
            f'{{"topic":{name_of(message.topic())},"partition":{message.partition()},'
            f'"offset":{message.offset()},{time},"headers":{named},'
            f'"key":{key_of(message.key())},"value":{value_of(message.value())}'
            f"{'' if more is None else more(message)}}}"
        )

    encode = write_as_kcat if as_kcat else write
    return (lambda message: escaped_json(encode(message))) if escapes else encode


def _text(data: bytes | None) -> str | dict[str, str] | None:
    """The JSON form of bytes."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _name(name: str) -> str | dict[str, str] | None:
    """The JSON form of a header's name.

    `Message.headers()` has surrogates for bytes that aren't UTF-8.
    """
    return name if name.isascii() else _text(name.encode("utf-8", "surrogateescape"))


def _json(data: bytes | None) -> str:
    """The JSON text of bytes."""
    return "null" if data is None else _encode(_text(data))


def _forms(form: str) -> Callable[[bytes | None], str]:
    if form == "raw":
        return _json
    if form == "typed":
        return lambda data: "null" if data is None else data.decode()
    write = TO_FORM[form]
    return lambda data: "null" if data is None else _encode({form: write(data).decode()})


def _embedded(data: bytes | None) -> str:
    if data is None or data[:1] not in (b"{", b"["):
        return _json(data)
    try:
        found = _kept(data.decode())
        text = _encode(found)
        text.encode()  # half a surrogate pair has no bytes
    except (ValueError, RecursionError):
        return _json(data)
    # An object such as {"hex": ...} would be read back as other bytes: write it as text.
    return _json(data) if _form_of(found) else text


def _kept(text: str) -> Any:
    """Parse JSON. ValueError if a part of it would change when it is written again."""
    return json.loads(
        text,
        parse_float=_exact,
        parse_constant=typed_values.no_constant,
        object_pairs_hook=typed_values.members_once,
    )


def _exact(text: str) -> float:
    found = float(text)
    if Decimal(repr(found)) != Decimal(text):
        raise ValueError("a number has too many digits: write the value as a string")
    return found


def _form_of(data: object) -> str | None:
    """Return ``base64`` or ``hex`` if the data is an object such as ``{"base64": ...}``."""
    if isinstance(data, dict) and len(data) == 1:
        [name] = data
        return name if name in ("base64", "hex") else None
    return None


def bytes_of(name: str, _topic: str | None, data: Any) -> bytes | None:
    """The bytes of a key or value in an envelope: those of a text, base64, hex, or JSON."""
    return _bytes(name, data)


def read(line: bytes, convert: Convert = bytes_of) -> Row:
    """Parse a line.

    :param convert: Makes bytes of the members ``key`` and ``value``. It gets the member's name, the
        line's topic and the member.
    :raises ValueError: The line is no such JSON. The text doesn't quote the line.
    """
    found = _parsed(line) if convert is bytes_of else typed_values.parse(line)
    if not isinstance(found, dict):
        raise ValueError("an object is expected")
    named = {
        _SYNONYMS.get(name, name): data
        for name, data in found.items()
        if name not in _REPORTED_ONLY
    }
    unknown = sorted(str(name) for name in named if name not in _READ)
    if unknown:
        raise ValueError(f"unknown member {unknown[0]!r}; there are {', '.join(sorted(_READ))}")
    topic = named.get("topic")
    if topic is not None and not isinstance(topic, str):
        raise ValueError("topic: a string is expected")
    _bytes("topic", topic)  # ValueError: half a surrogate pair
    return Row(
        topic,
        _partition(named.get("partition")),
        _timestamp(named.get("timestamp")),
        _headers(named.get("headers")),
        convert("key", topic, named.get("key")),
        convert("value", topic, named.get("value")),
    )


def _parsed(line: bytes) -> Any:
    try:
        return _kept(line.decode("utf-8-sig"))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg}") from None
    except UnicodeDecodeError:
        raise ValueError("not JSON: not UTF-8") from None


def _bytes(name: str, data: Any) -> bytes | None:
    if data is None:
        return None
    try:
        if isinstance(data, str):
            return data.encode()
        if form := _form_of(data):
            return FROM_FORM[form](data[form].encode())
        if isinstance(data, (dict, list)):
            return _encode(data).encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name}: half a surrogate pair isn't a character") from None
    except (ValueError, AttributeError):
        raise ValueError(f"{name}: not valid {_form_of(data)}") from None
    raise ValueError(f"{name}: a string, null, an object or an array is expected")


def _partition(data: object) -> int:
    if data is None:
        return -1
    if type(data) is not int or not -1 <= data < 2**31:
        raise ValueError("partition: a number from 0 on is expected")
    return data


def _timestamp(data: object) -> int:
    """Milliseconds from a number or an ISO 8601 text. kcat writes -1 for none."""
    if data is None or (type(data) is int and data == -1):
        return 0
    if isinstance(data, str):
        try:
            return milliseconds(data)
        except ValueError:
            raise ValueError(
                "timestamp: no time; write milliseconds or 2024-05-01T12:00:00Z"
            ) from None
    if type(data) is not int or not 0 <= data < 2**63:
        raise ValueError("timestamp: milliseconds since 1970 are expected")
    return data


def milliseconds(text: str) -> int:
    """Convert an ISO 8601 time to milliseconds since 1970. Without a zone it is local time.

    :raises ValueError: The text is no time, or is out of range.
    """
    zoned = (
        f"{text[:-1]}+00:00" if text[-1:] in ("Z", "z") else text
    )  # Python 3.10 doesn't know the letter
    try:
        return round(datetime.fromisoformat(zoned).timestamp() * 1000)
    except OverflowError:
        raise ValueError("out of range") from None


def _headers(data: object) -> list[Header] | None:
    if data is None:
        return None
    if isinstance(data, dict):
        pairs: list[Any] = list(data.items())
    elif isinstance(data, list) and all(isinstance(each, list) for each in data):
        pairs = data
    elif isinstance(data, list) and len(data) % 2 == 0:
        pairs = list(zip(data[::2], data[1::2], strict=True))  # kcat's flat list
    else:
        raise ValueError("headers: pairs of name and value are expected")
    found: list[Header] = []
    for pair in pairs:
        if len(pair) != 2 or not (isinstance(pair[0], str) or _form_of(pair[0])):
            raise ValueError("headers: pairs of name and value are expected")
        name = _bytes("headers", pair[0]) or b""
        found.append((name.decode("utf-8", "surrogateescape"), _bytes("headers", pair[1])))
    return found or None
