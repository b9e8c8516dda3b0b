"""kcat's letters for packed keys and values: ``consume -s key=i``, ``-s value='hB s$'``.

The letters are those of Python's `struct`, with kcat's meaning: no padding, and big-endian until
a ``<``. A space in the letters is a space in the text.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from kafka_native.cli.texts import count

BYTE_ORDERS: Final = "<>"
NUMBERS: Final = {letter: struct.calcsize(f"={letter}") for letter in "bBhHiIqQ"}
"""The letter of each number, and its size in bytes."""
LETTERS: Final = f"{BYTE_ORDERS} {''.join(NUMBERS)}cs$"

Step = Callable[[bytes, int], tuple[bytes, int]]
"""Reads at a place in the bytes. Returns the text, and the place after what it has read."""


def is_packed(letters: str) -> bool:
    """Whether a text is a format of packed values: letters, at least one of which reads bytes."""
    return set(letters) <= set(LETTERS) and not set(letters) <= set(f"{BYTE_ORDERS} ")


def unpacker(letters: str) -> Callable[[bytes], bytes]:
    """Make the function that returns the text of packed bytes.

    The function raises ValueError for bytes that don't fit. Bytes after the last letter are
    ignored, unless the last letter is ``$``.

    :param letters: A text for which `is_packed` is true.
    """
    steps: list[Step] = []
    order = ">"
    for letter in letters:
        if letter in BYTE_ORDERS:
            order = letter
        else:
            steps.append(_step(letter, order))

    def unpack(data: bytes) -> bytes:
        place = 0
        texts = []
        for step in steps:
            text, place = step(data, place)
            texts.append(text)
        return b"".join(texts)

    return unpack


def _step(letter: str, order: str) -> Step:
    if letter in NUMBERS:
        return _number(letter, order)
    return _OTHERS[letter]


def _number(letter: str, order: str) -> Step:
    read = struct.Struct(order + letter)

    def step(data: bytes, place: int) -> tuple[bytes, int]:
        _check_room(letter, data, place, read.size)
        [number] = read.unpack_from(data, place)
        return b"%d" % number, place + read.size

    return step


def _character(data: bytes, place: int) -> tuple[bytes, int]:
    _check_room("c", data, place, 1)
    return data[place : place + 1], place + 1


def _rest(data: bytes, place: int) -> tuple[bytes, int]:
    return data[place:], len(data)


def _end(data: bytes, place: int) -> tuple[bytes, int]:
    if place < len(data):
        left = count(len(data) - place, "byte")
        raise ValueError(f"the letter $ expects the end at byte {place}, but finds {left} more")
    return b"", place


def _space(_data: bytes, place: int) -> tuple[bytes, int]:
    return b" ", place


_OTHERS: Final[dict[str, Step]] = {"c": _character, "s": _rest, "$": _end, " ": _space}


def _check_room(letter: str, data: bytes, place: int, size: int) -> None:
    left = len(data) - place
    if left < size:
        raise ValueError(
            f"the letter {letter} at byte {place} needs {count(size, 'byte')}; left: {left}"
        )
