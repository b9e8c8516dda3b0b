"""A broker that sends invalid bytes: attacks on the frames of a mock cluster.

A ``Siege`` rewrites the next responses of an API, each in another way. Later responses are valid
again, so a client that neither crashes nor hangs succeeds. ``Memory`` measures whether the client
allocated memory for the lengths in invalid frames.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from pathlib import Path

from kafka_native.mock import MockCluster
from tests.harness.proxy import Fate, Fates

Attack = Callable[[bytes, random.Random], bytes]

HEAD = 4 + 4  # length and correlation id
HUGE = (
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff\x0f",
    b"\xff" * 10,
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xfe",
)


def _framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def noise(frame: bytes, dice: random.Random) -> bytes:
    """A frame of the right length with random bytes."""
    return frame[:4] + dice.randbytes(len(frame) - 4)


def noise_behind_the_head(frame: bytes, dice: random.Random) -> bytes:
    """The right correlation id, followed by random bytes."""
    return frame[:HEAD] + dice.randbytes(len(frame) - HEAD)


def flips(frame: bytes, dice: random.Random) -> bytes:
    """A few wrong bytes."""
    data = bytearray(frame)
    for _ in range(dice.randint(1, 4)):
        data[dice.randrange(HEAD, len(data))] ^= 1 << dice.randrange(8)
    return bytes(data)


def huge_counts(frame: bytes, dice: random.Random) -> bytes:
    """Lengths and counts beyond any memory."""
    data = bytearray(frame)
    for _ in range(dice.randint(1, 3)):
        value = dice.choice(HUGE)
        at = dice.randrange(HEAD, len(data))
        data[at : at + len(value)] = value
    return _framed(bytes(data[4:]))


def cut(frame: bytes, dice: random.Random) -> bytes:
    """A truncated response in a frame with the right length."""
    return _framed(frame[4 : dice.randrange(4, len(frame))])


def stretched(frame: bytes, dice: random.Random) -> bytes:
    """A response with additional bytes."""
    return _framed(frame[4:] + dice.randbytes(dice.randint(1, 5000)))


def empty(frame: bytes, dice: random.Random) -> bytes:
    """An empty frame."""
    return bytes(4)


def negative(frame: bytes, dice: random.Random) -> bytes:
    """A negative length."""
    return b"\xff\xff\xff\xff" + frame[4:]


def largest(frame: bytes, dice: random.Random) -> bytes:
    """A frame that announces two gigabytes."""
    return b"\x7f\xff\xff\xff" + frame[4:]


def other_protocol(frame: bytes, dice: random.Random) -> bytes:
    """The answer of a server of another protocol."""
    return b"HTTP/1.1 400 Bad Request\r\n\r\n"


def alert(frame: bytes, dice: random.Random) -> bytes:
    """The alert of a TLS server to a client without TLS."""
    return b"\x15\x03\x03\x00\x02\x02\x46"


def twice(frame: bytes, dice: random.Random) -> bytes:
    """The same response twice."""
    return frame + frame


def another_number(frame: bytes, dice: random.Random) -> bytes:
    """The response to a request that was never sent."""
    return frame[:4] + dice.randbytes(4) + frame[HEAD:]


ATTACKS: tuple[Attack, ...] = (
    noise,
    noise_behind_the_head,
    flips,
    huge_counts,
    cut,
    stretched,
    empty,
    negative,
    largest,
    other_protocol,
    alert,
    twice,
    another_number,
)


class Siege:
    """Attacks the next responses of an API in turn, in an order that ``seed`` decides.

    ``left`` counts down to 0. From then on the responses are valid.
    """

    def __init__(self, cluster: MockCluster, api_key: int, seed: int, rounds: int = 1) -> None:
        self._dice = random.Random(seed)
        self._attacks = [attack for attack in ATTACKS for _ in range(rounds)]
        self._dice.shuffle(self._attacks)
        self._lock = threading.Lock()
        cluster.rewrite_responses(api_key, self._rewrite, count=len(self._attacks))

    @property
    def left(self) -> int:
        """Return the number of remaining attacks."""
        return len(self._attacks)

    def _rewrite(self, frame: bytes) -> bytes:
        with self._lock:
            return self._attacks.pop()(frame, self._dice)


class Flips:
    """Flips one bit in each of the first connections through a ``Proxy``."""

    def __init__(self, seed: int, connections: int, bytes_max: int) -> None:
        """The bit is among the first ``bytes_max`` bytes, in the handshake or after it."""
        self._dice = random.Random(seed)
        self._bytes_max = bytes_max
        self._lock = threading.Lock()
        self.left = connections

    def __call__(self) -> Fates:
        """Return the faults of the next connection."""
        with self._lock:
            if self.left == 0:
                return Fates()
            self.left -= 1
            fate = Fate(flip_at=self._dice.randrange(self._bytes_max))
            return Fates(requests=fate) if self._dice.randrange(2) else Fates(answers=fate)


class Memory:
    """The maximum resident memory of the process since this object was created. Linux only."""

    STATUS = Path("/proc/self/status")

    def __init__(self) -> None:
        Path("/proc/self/clear_refs").write_text("5")  # resets the high-water mark
        self._before = self._kilobytes("VmRSS")

    def grown_bytes(self) -> int:
        """Return the growth of the maximum above the memory at creation."""
        return (self._kilobytes("VmHWM") - self._before) * 1024

    def _kilobytes(self, name: str) -> int:
        line = next(line for line in self.STATUS.read_text().splitlines() if line.startswith(name))
        return int(line.split()[1])
