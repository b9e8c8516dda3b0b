"""A TCP proxy for tests.

It forwards bytes to a variable target, and breaks connections on command.
"""

from __future__ import annotations

import random
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import NamedTuple

PIECE_BYTES = 1 << 16
FOREVER = 1 << 62


class Fate(NamedTuple):
    """The fault of one direction of a connection: it is cut after so many bytes.

    ``mute_s``: before that it reads for so long without forwarding, so that answers are lost
    although requests arrived. ``delay_s``: each piece is delayed. ``flip_at``: one bit of the byte
    there is wrong.
    """

    cut_after: int = FOREVER
    mute_s: float = 0.0
    delay_s: float = 0.0
    flip_at: int = FOREVER


class Fates(NamedTuple):
    """The faults of both directions: the client's requests, and its answers."""

    requests: Fate = Fate()
    answers: Fate = Fate()


def harmless() -> Fates:
    """Return faults that do nothing."""
    return Fates()


class Chaos:
    """Random faults from a seed: every connection ends. Thread: any."""

    def __init__(self, seed: int, *, bytes_max: int, answer_bytes_max: int) -> None:
        """A connection is cut before it has carried so many bytes of requests, or of answers."""
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self._bytes_max = bytes_max
        self._answer_bytes_max = answer_bytes_max
        self.calm = False

    def __call__(self) -> Fates:
        """Return the faults of the next connection."""
        with self._lock:
            draw = self._random
            kind = draw.randrange(4)
            delay_s = draw.choice((0.0, 0.0, 0.001, 0.003))
            requests_at = draw.randrange(1, self._bytes_max)
            answers_at = draw.randrange(1, self._answer_bytes_max)
            mute_s = draw.uniform(0.01, 0.1)
        if self.calm:
            return Fates()
        if kind < 2:
            return Fates(Fate(requests_at, delay_s=delay_s))
        return Fates(answers=Fate(answers_at, mute_s if kind == 2 else 0.0, delay_s))


class Link:
    """One client's connection, and the connection to the target."""

    def __init__(self, near: socket.socket, far: socket.socket) -> None:
        self.near, self.far = near, far
        self.asked: dict[int, int] = {}
        """For proxies that know requests:

        the API key of each request without an answer, by correlation id.
        """

    def cut(self) -> None:
        for end in (self.near, self.far):
            with suppress(OSError):
                # Close without a FIN: data on its way is lost, as on a broken line.
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                end.shutdown(socket.SHUT_RDWR)


class Proxy:
    """Listens on its own port, and forwards each connection to the current ``target``."""

    def __init__(
        self,
        target: str | None,
        fates: Callable[[], Fates] = harmless,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        family: socket.AddressFamily = socket.AF_INET,
    ) -> None:
        """``target`` is host:port. None refuses connections."""
        self.target = target
        self.cuts = 0
        self._fates = fates
        self._links: set[Link] = set()
        self._lock = threading.Lock()
        self._listener = socket.create_server((host, port), family=family)
        self.port: int = self._listener.getsockname()[1]
        self.address = f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut_all()
        self._thread.join(5)

    def cut_all(self) -> None:
        """Break every connection."""
        with self._lock:
            links = list(self._links)
        for link in links:
            link.cut()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            self._serve(near)

    def _serve(self, near: socket.socket) -> None:
        """Forward a new connection."""
        target = self.target
        try:
            if target is None:
                raise ConnectionRefusedError
            host, _, port = target.rpartition(":")
            self._carry_on(near, socket.create_connection((host, int(port)), 5))
        except OSError:
            near.close()

    def _carry_on(self, near: socket.socket, far: socket.socket) -> None:
        """Forward the bytes from one socket to the other from now on."""
        far.settimeout(None)
        for end in (near, far):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._start(Link(near, far))

    def _start(self, link: Link) -> None:
        fates = self._fates()
        with self._lock:
            self._links.add(link)
        left = threading.Semaphore(0)
        for one, other, fate in (
            (link.near, link.far, fates.requests),
            (link.far, link.near, fates.answers),
        ):
            threading.Thread(
                target=self._carry, args=(link, one, other, fate, left), daemon=True
            ).start()
        threading.Thread(target=self._bury, args=(link, left), daemon=True).start()

    def _bury(self, link: Link, left: threading.Semaphore) -> None:
        """Close the sockets once neither direction uses them."""
        left.acquire()
        left.acquire()
        with self._lock:
            self._links.discard(link)
        link.near.close()
        link.far.close()

    def _carry(
        self,
        link: Link,
        source: socket.socket,
        sink: socket.socket,
        fate: Fate,
        left: threading.Semaphore,
    ) -> None:
        try:
            self._pass_on(link, source, sink, fate)
        except OSError:
            pass  # the other direction, or cut_all(), has ended it
        finally:
            link.cut()
            left.release()

    def _pass_on(self, link: Link, source: socket.socket, sink: socket.socket, fate: Fate) -> None:
        """Forward one direction of a connection until its end."""
        carried = 0
        while data := source.recv(PIECE_BYTES):
            if fate.delay_s:
                time.sleep(fate.delay_s)
            if carried <= fate.flip_at < carried + len(data):
                at = fate.flip_at - carried
                data = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
            if carried + len(data) >= fate.cut_after:
                self._end(source, sink, data[: fate.cut_after - carried], fate.mute_s)
                return
            sink.sendall(data)
            carried += len(data)

    def _end(self, source: socket.socket, sink: socket.socket, last: bytes, mute_s: float) -> None:
        with self._lock:
            self.cuts += 1
        sink.sendall(last)
        deadline = time.monotonic() + mute_s
        while (seconds := deadline - time.monotonic()) > 0:
            source.settimeout(seconds)
            if not source.recv(PIECE_BYTES):
                return
