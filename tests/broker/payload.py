"""Values that describe themselves, so that a misplaced byte is found.

A value has its topic, partition, number and a digest of everything. If a reader finds another
value, or a value at the wrong place, a client has sent the bytes of another message.
"""

from __future__ import annotations

import hashlib

DIGEST_BYTES = 8


def make(topic: str, partition: int, number: int, size_bytes: int = 0) -> bytes:
    """Return the value of message `number`, padded to a size with varying bytes."""
    text = f"{topic} {partition} {number} ".encode()
    padding = (b"%d." % number) * (max(size_bytes - len(text) - DIGEST_BYTES, 0) // 2 + 1)
    text += padding[: max(size_bytes - len(text) - DIGEST_BYTES, 0)]
    return text + hashlib.blake2b(text, digest_size=DIGEST_BYTES).digest()


def number_of(value: bytes | None, topic: str, partition: int) -> int:
    """Check a value that was read from this partition, and return its number."""
    assert value is not None
    text, digest = value[:-DIGEST_BYTES], value[-DIGEST_BYTES:]
    assert hashlib.blake2b(text, digest_size=DIGEST_BYTES).digest() == digest, (
        f"damaged: {value[:80]!r}"
    )
    its_topic, its_partition, number = text.split(b" ")[:3]
    assert (its_topic.decode(), int(its_partition)) == (topic, partition), (
        f"in {topic} [{partition}]: {value[:80]!r}"
    )
    return int(number)
