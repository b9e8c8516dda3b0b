"""The results of request handlers, and their frames."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, NamedTuple

from kafka_native.protocol import encode_response

if TYPE_CHECKING:
    from kafka_native.protocol.schema import Response

# A placeholder in a response. The broker sends the stored record bytes in its place, uncopied.
RECORDS_HERE = os.urandom(16)
_MARK = {
    0: len(RECORDS_HERE).to_bytes(4, "big") + RECORDS_HERE,
    1: bytes([len(RECORDS_HERE) + 1]) + RECORDS_HERE,
}


class Reply(NamedTuple):
    """A response with ``RECORDS_HERE`` in its record fields, and the records for them, in order."""

    message: Response
    records: list[list[memoryview]]


class Close:
    """The type of the constant ``CLOSE``."""


CLOSE: Final = Close()
"""A handler's result that closes the connection without a response."""


def _unsigned_varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def frame_pieces(
    reply: Response | Reply, version: int, correlation_id: int
) -> list[bytes | memoryview]:
    """Return a response frame in pieces, length first. Records are not copied."""
    if not isinstance(reply, Reply):
        frame = encode_response(reply, version, correlation_id)
        return [len(frame).to_bytes(4, "big") + frame]
    frame = encode_response(reply.message, version, correlation_id)
    compact = reply.message.flexible.has(version)
    mark = _MARK[compact]
    pieces: list[bytes | memoryview] = [b""]
    start = 0
    for slices in reply.records:
        at = frame.index(mark, start)
        size = sum(map(len, slices))
        pieces.append(
            frame[start:at] + (_unsigned_varint(size + 1) if compact else size.to_bytes(4, "big"))
        )
        pieces.extend(slices)
        start = at + len(mark)
    pieces.append(frame[start:])
    pieces[0] = sum(map(len, pieces)).to_bytes(4, "big")
    return pieces
