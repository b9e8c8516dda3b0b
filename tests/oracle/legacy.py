"""A pure-Python twin for message sets of magic 0 and 1."""

from __future__ import annotations

import dataclasses
import struct
import zlib

from tests.oracle import codecs

XERIAL_HEADER = codecs.XERIAL_HEADER
break_lz4_checksum = codecs.break_lz4_checksum
LOG_APPEND_TIME = 0x08


@dataclasses.dataclass
class Message:
    """One message. Only magic 1 has a timestamp."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int = -1


def _bytes(data: bytes | None) -> bytes:
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


def encode_message(message: Message, *, magic: int, attributes: int = 0) -> bytes:
    """Return one message with its offset and size."""
    body = struct.pack(">bb", magic, attributes)
    if magic == 1:
        body += struct.pack(">q", message.timestamp)
    body += _bytes(message.key) + _bytes(message.value)
    body = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", message.offset, len(body)) + body


def encode_set(
    messages: list[Message],
    *,
    magic: int,
    codec: str = "none",
    log_append_time: int | None = None,
    xerial: bool = False,
) -> bytes:
    """Return a message set, or one wrapper message around it.

    Offsets are relative with magic 1, and absolute with magic 0.
    """
    attributes = 0 if log_append_time is None else LOG_APPEND_TIME
    if codec == "none":
        return b"".join(
            encode_message(message, magic=magic, attributes=attributes) for message in messages
        )
    first = messages[0].offset if magic == 1 else 0
    inner = b"".join(
        encode_message(dataclasses.replace(message, offset=message.offset - first), magic=magic)
        for message in messages
    )
    packed = codecs.xerial(inner) if xerial else codecs.compress(codec, inner)
    if codec == "lz4" and magic == 0:
        packed = codecs.break_lz4_checksum(packed)
    time = (
        max(message.timestamp for message in messages)
        if log_append_time is None
        else log_append_time
    )
    wrapper = Message(messages[-1].offset, None, packed, time)
    return encode_message(wrapper, magic=magic, attributes=attributes | codecs.NAMES.index(codec))
