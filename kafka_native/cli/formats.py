"""kcat's output formats: render many messages at a time, column by column."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable
from typing import Any

import click

from kafka_native import TIMESTAMP_NOT_AVAILABLE, Message
from kafka_native.cleaning import escaped_data
from kafka_native.cli.texts import TO_FORM, time_text, unescaped

Render = Callable[[list[Message]], bytes]
_Column = Callable[[list[Message]], Iterable[Any]]
_Data = Callable[[list[Message]], list[bytes | None]]

_FIELD = re.compile(r"%(.)", re.S)
LETTERS = "s v S R k K t p o T I h"


def render_of(
    text: str,
    *,
    null: bytes = b"",
    key_as: str = "raw",
    value_as: str = "raw",
    escapes: bool = False,
) -> Render:
    r"""Make the function that renders messages as bytes.

    :param text: A format string with fields such as ``%s`` and escapes such as ``\n``.
    :param null: The text for a null value, key or header.
    :param key_as: The form of keys: ``raw``, ``hex`` or ``base64``.
    :param value_as: The form of values, in the same way.
    :param escapes: Escape unprintable characters of the messages. The format's own text stays.
    :raises click.BadParameter: The format has an unknown field.
    """
    key, value = _data_of(Message.key, key_as), _data_of(Message.value, value_as)
    numbers: dict[str, _Column] = {
        "S": _lengths(Message.value),
        "K": _lengths(Message.key),
        "p": lambda messages: [message.partition() for message in messages],
        "o": lambda messages: [message.offset() for message in messages],
        "T": lambda messages: [_milliseconds(message) for message in messages],
    }
    fields: dict[str, _Column] = {
        "s": _shown(value, null),
        "v": _shown(value, null),
        "R": _binary_lengths(Message.value),
        "k": _shown(key, null),
        "t": lambda messages: [(message.topic() or "").encode() for message in messages],
        "I": lambda messages: [_iso(_milliseconds(message)) for message in messages],
        "h": lambda messages: [_headers(message, null) for message in messages],
    }
    template, end = b"", 0
    columns: list[_Column] = []
    for match in _FIELD.finditer(text):
        template += _literal(text[end : match.start()])
        end = match.end()
        if match[1] == "%":
            template += b"%%"
        elif match[1] in numbers:
            template += b"%d"
            columns.append(numbers[match[1]])
        elif match[1] in fields:
            template += b"%b"
            columns.append(_escaped(fields[match[1]]) if escapes else fields[match[1]])
        else:
            letters = ", ".join(f"%{letter}" for letter in LETTERS.split())
            raise click.BadParameter(f"-f: there is no %{match[1]}, only {letters} and %%")
    return _rendering(template + _literal(text[end:]), columns)


def _literal(text: str) -> bytes:
    return unescaped(text).replace(b"%", b"%%")


def _rendering(template: bytes, columns: list[_Column]) -> Render:
    if not columns:
        text = template % ()
        return lambda messages: text * len(messages)
    if len(columns) == 1 and template.startswith(b"%b"):  # the usual format: value and newline
        [column], end = columns, template[2:] % ()
        return lambda messages: end.join([*column(messages), b""])

    def render(messages: list[Message]) -> bytes:
        rows = zip(*(column(messages) for column in columns), strict=True)
        return b"".join([template % row for row in rows])

    return render


def _data_of(take: Callable[[Message], bytes | None], form: str) -> _Data:
    if form == "raw":
        return lambda messages: [take(message) for message in messages]
    write = TO_FORM[form]

    def converted(messages: list[Message]) -> list[bytes | None]:
        taken = [take(message) for message in messages]
        return [None if data is None else write(data) for data in taken]

    return converted


def _escaped(column: _Column) -> _Column:
    return lambda messages: [escaped_data(each).encode() for each in column(messages)]


def _shown(data: _Data, null: bytes) -> _Column:
    return lambda messages: [null if each is None else each for each in data(messages)]


def _length(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _lengths(take: Callable[[Message], bytes | None]) -> _Column:
    return lambda messages: [_length(take(message)) for message in messages]


def _binary_lengths(take: Callable[[Message], bytes | None]) -> _Column:
    pack = struct.Struct(">i").pack
    return lambda messages: [pack(_length(take(message))) for message in messages]


def _milliseconds(message: Message) -> int:
    kind, milliseconds = message.timestamp()
    return -1 if kind == TIMESTAMP_NOT_AVAILABLE else milliseconds


def _iso(milliseconds: int) -> bytes:
    return (time_text(milliseconds, "Z") or "-").encode()


def _headers(message: Message, null: bytes) -> bytes:
    pairs = message.headers() or ()
    found = [
        (name.encode("utf-8", "surrogateescape"), value) for name, value in pairs
    ]  # the bytes that they were
    return b",".join(b"%b=%b" % (name, null if value is None else value) for name, value in found)
