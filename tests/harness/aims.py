"""Faults of single requests and answers: "the third answer to EndTxn of this broker is cut".

A proxy gives each frame that passes to `Aims.hit()`, and makes the fault that it returns.
"""

from __future__ import annotations

import random
import struct
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

KINDS = ("cut", "stall", "split", "corrupt", "lose")
"""The frame ends in the middle and the connection with it; it comes late; it comes in pieces of a
byte; a bit of its length is wrong; it and all that follow are read and not forwarded for a while,
then the connection ends.
"""
REQUEST_HEAD = struct.Struct(">ihhi")
"""The size, the API key, its version and the correlation id."""
ANSWER_HEAD = struct.Struct(">ii")
"""The size and the correlation id."""


class Aim(NamedTuple):
    """The ``nth`` request of an API, or answer to it, counted from now on, has a fault."""

    api: int
    of_answers: bool
    nth: int
    kind: str
    seconds: float


def drawn_aim(draw: random.Random, apis: Sequence[int], seconds_max: float) -> Aim:
    """Return a random aim at one of these APIs."""
    return Aim(
        draw.choice(apis),
        draw.random() < 0.5,
        draw.randrange(1, 6),
        draw.choice(KINDS),
        draw.uniform(0.01, seconds_max),
    )


class Aims:
    """The aims of a proxy. Thread: any."""

    def __init__(self) -> None:
        """There is no aim yet."""
        self._lock = threading.Lock()
        self._left: list[tuple[Aim, int]] = []  # and how many such frames are to come
        self._hits: Counter[str] = Counter()

    def add(self, aim: Aim) -> None:
        with self._lock:
            self._left.append((aim, aim.nth))

    def end(self) -> Counter[str]:
        """Forget the aims that weren't hit. Return how often each kind was hit since the last end."""
        with self._lock:
            self._left.clear()
            hits, self._hits = self._hits, Counter()
        return hits

    def hit(self, api: int, *, of_answers: bool) -> Aim | None:
        """Count a frame, and return the aim that it meets, if any."""
        if not self._left:
            return None
        found = None
        with self._lock:
            left = []
            for aim, frames in self._left:
                matches = aim.api == api and aim.of_answers == of_answers
                if matches and frames == 1 and found is None:
                    found = aim
                else:
                    left.append((aim, max(frames - matches, 1)))
            self._left = left
            if found is not None:
                self._hits[found.kind] += 1
        return found


class Frames:
    """Finds the frames of one direction of a connection, in the pieces in which they arrive."""

    def __init__(self, asked: dict[int, int], *, of_answers: bool) -> None:
        """``asked``: the API of each request without an answer, by correlation id."""
        self._asked, self._of_answers = asked, of_answers
        self._head = ANSWER_HEAD if of_answers else REQUEST_HEAD
        self._left = 0  # the bytes of the last frame that are still to come
        self._held = b""  # the incomplete head of a frame
        self._whole = bytearray()  # see whole()

    def whole(self, piece: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield the frames that this piece completes, each with its API.

        An object of this class has either all its pieces here, or all of them in `take()`.
        """
        self._whole += piece
        while len(self._whole) >= self._head.size:
            end = 4 + int.from_bytes(self._whole[:4], "big")
            if len(self._whole) < end:
                return
            frame = bytes(self._whole[:end])
            del self._whole[:end]
            yield self._api(frame, 0), frame

    def take(self, piece: bytes) -> tuple[bytes, list[tuple[int, int]]]:
        """Return the bytes to forward, and where frames begin in them, with their APIs.

        The incomplete head of a frame is held back until the rest of it arrives.
        """
        data = self._held + piece
        begins = list(self._begins(data))
        end = len(data)
        if self._left < 0:
            end += self._left
            self._left = 0
        self._held = data[end:]
        return data[:end], begins

    def _begins(self, data: bytes) -> Iterator[tuple[int, int]]:
        at = self._left
        while at + self._head.size <= len(data):
            yield at, self._api(data, at)
            size = int.from_bytes(data[at : at + 4], "big", signed=True)
            at += 4 + max(size, self._head.size - 4)  # a false size doesn't lead back
        self._left = at - len(data)  # negative: there is a part of a head

    def _api(self, data: bytes, at: int) -> int:
        if self._of_answers:
            _, number = ANSWER_HEAD.unpack_from(data, at)
            return self._asked.pop(number, -1)
        _, api, _, number = REQUEST_HEAD.unpack_from(data, at)
        self._asked[number] = api
        return int(api)
