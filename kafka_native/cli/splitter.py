"""Messages out of files and pipes of any length, in constant memory."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import BinaryIO

from kafka_native.cli.errors import Failed

READ_BYTES = 1 << 20
"""What one read takes at most; a pipe gives less, and what it gives is sent at once."""
FRAME_BYTES = 1 << 16
"""A key, headers and JSON's own characters may stand beside a value of full size."""
ESCAPED_RATIO_MAX = 6
"""How many bytes one may be in JSON: ``\\u0000``."""
BLOCK_LINES = 10_000
"""Messages in a block at most: one call of produce_many()."""


def split(stream: BinaryIO, delimiter: bytes, limit: int) -> Iterator[list[bytes]]:
    """What stands between delimiters, in blocks; the last one may go without.

    :param limit: Bytes of the longest message: what has no delimiter for so long isn't gathered in memory any further.
    """
    read = stream.read1 if isinstance(stream, io.BufferedReader) else stream.read
    pieces: list[bytes] = []  # the beginning of a message: joined once its end is there, so that long ones cost no more
    size = before = 0
    while chunk := read(READ_BYTES):
        pieces.append(chunk)
        size += len(chunk)
        # a longer delimiter may begin in one piece and end in the next
        if len(delimiter) > 1 or delimiter in chunk:
            parts = b"".join(pieces).split(delimiter)
            rest = parts.pop()
            pieces, size = [rest], len(rest)
            before += len(parts)
            for start in range(0, len(parts), BLOCK_LINES):
                yield parts[start : start + BLOCK_LINES]
        if size > limit:
            raise Failed(f"message {before + 1} of {name_of(stream)} is larger than message.max.bytes={limit}")
    if rest := b"".join(pieces):
        yield [rest]


def whole(stream: BinaryIO, limit: int) -> bytes:
    """All of a file as one message."""
    data = stream.read(limit + 1)
    if len(data) > limit:
        raise Failed(f"{name_of(stream)} is larger than message.max.bytes={limit}; --lines sends each of its lines")
    return data


def name_of(stream: BinaryIO) -> str:
    """What errors call it."""
    name = getattr(stream, "name", None)
    return name if isinstance(name, str) and name != "<stdin>" else "stdin"
