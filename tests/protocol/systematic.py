"""Systematic damage of encoded messages.

A message is truncated at each byte. Each byte is flipped. At each byte, an extreme length
replaces what is there, in each size that a length has on the wire. So every length of the message
becomes -1, the smallest, the largest and one more than there are bytes.

    python tests/protocol/systematic.py --cases 10000000 --record
"""

from __future__ import annotations

import random
import struct
import sys
import time
import tracemalloc
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parent)]

from message_filling import EVERY_VERSION, examples

from kafka_native.protocol import ProtocolError
from kafka_native.protocol.schema import Message
from tests.harness.reliability import record
from tests.harness.runs import drawn

FLIPS = (0x01, 0x80, 0xFF)
LENGTHS = (
    *(struct.pack(">h", each) for each in (-1, -(1 << 15), (1 << 15) - 1)),
    *(struct.pack(">i", each) for each in (-1, -(1 << 31), (1 << 31) - 1)),
    *(bytes([0]), bytes([0x7F]), b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\xff\x01"),
)
"""As int16, as int32, and as a varint: 0 (null), 126, the largest, and too large."""
COPIES_MAX = 8
"""A message takes at most so many times its bytes ..."""
BASE_BYTES = 64 << 10
"""... and these."""


def damaged(body: bytes, places: Iterable[int]) -> Iterator[bytes]:
    """Yield every damaged form of an encoded message at some of its bytes."""
    for at in places:
        yield body[:at]
        for flip in FLIPS:
            yield body[:at] + bytes([body[at] ^ flip]) + body[at + 1 :]
        for length in (*LENGTHS, *one_more(len(body) - at)):
            yield body[:at] + length + body[at + len(length) :]


def one_more(left: int) -> Iterator[bytes]:
    """Yield lengths that are one more than the bytes behind them, in each size."""
    yield struct.pack(">h", max(left - 2, 0) + 1)
    yield struct.pack(">i", max(left - 4, 0) + 1)
    yield bytes([min(max(left - 1, 0) + 2, 0x7F)])  # compact lengths are one higher


def check(cls: type[Message], version: int, body: bytes) -> str:
    """Decode a body. Return "read" or "refused"; everything else is an error.

    The decoder may not take much more memory than the body has bytes. Needs tracemalloc.
    """
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    try:
        cls.decode(body, version)
        result = "read"
    except ProtocolError:
        result = "refused"
    taken = tracemalloc.get_traced_memory()[1] - before
    assert taken < BASE_BYTES + COPIES_MAX * len(body), (
        f"{cls.__name__} v{version} took {taken} bytes for {body.hex()}"
    )
    return result


def check_all(
    cls: type[Message], version: int, seed: int = 0, places_max: int = sys.maxsize
) -> Counter[str]:
    """Check every damaged form of a message with random values. Return the outcomes.

    ``places_max``: at so many of its bytes, drawn at random.
    """
    cls.plan(version)
    (message,) = examples(cls, version, 1, seed)
    body = message.encode(version)
    draw = random.Random(seed)
    places = draw.sample(range(len(body)), min(places_max, len(body)))
    tracemalloc.start()
    try:
        return Counter(check(cls, version, each) for each in damaged(body, places))
    finally:
        tracemalloc.stop()


@click.command()
@click.option("--cases", default=1_000_000, show_default=True)
@click.option("--seed", type=int, help="Of the values (default: drawn, and printed).")
@click.option("--record", "recorded", is_flag=True, help="Add the run to bench/reliability.")
def main(cases: int, seed: int | None, recorded: bool) -> None:
    """Damage every message of every version until there were so many cases."""
    seed, began = drawn(seed), time.monotonic()
    found: Counter[str] = Counter()
    rounds = 0
    while found.total() < cases:
        for cls, version in EVERY_VERSION:
            found += check_all(cls, version, seed + rounds)
        rounds += 1
    seconds = time.monotonic() - began
    click.echo(
        f"--seed {seed}: {found.total()} cases of {len(EVERY_VERSION)} messages in {seconds:.0f} s: "
        f"{found['read']} read, {found['refused']} refused, no other outcome"
    )
    if recorded:
        record("systematic", {"seed": seed}, seconds, found, found.total(), [])


if __name__ == "__main__":
    main()
