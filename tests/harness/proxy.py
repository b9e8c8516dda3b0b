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

from tests.harness.aims import Aim, Aims, Frames

PIECE_BYTES = 1 << 16
FOREVER = 1 << 62
SPLIT_BYTES = 200
"""So many bytes of a frame are split into pieces of one."""


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


class Stream:
    """The outgoing bytes of one direction of a connection, with the fault of its `Fate`."""

    def __init__(self, sink: socket.socket, fate: Fate) -> None:
        """Nothing is carried yet."""
        self._sink, self._fate = sink, fate
        self._carried = 0

    def put(self, data: bytes) -> bool:
        """Send bytes. Return whether the connection ends now."""
        fate, before = self._fate, self._carried
        if not data:
            return False
        if fate.delay_s:
            time.sleep(fate.delay_s)
        if before <= fate.flip_at < before + len(data):
            at = fate.flip_at - before
            data = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        self._carried += len(data)
        if self._carried >= fate.cut_after:
            self._sink.sendall(data[: fate.cut_after - before])
            return True
        self._sink.sendall(data)
        return False

    def put_with(self, aim: Aim, frame: bytes) -> bool:
        """Send the first bytes of a frame with a fault that doesn't end the connection."""
        if aim.kind == "stall":
            time.sleep(aim.seconds)
        elif aim.kind == "corrupt":
            frame = bytes([frame[0] ^ 0x40]) + frame[1:]
        elif aim.kind == "split":
            for each in frame[:SPLIT_BYTES]:
                if self.put(bytes([each])):
                    return True
            frame = frame[SPLIT_BYTES:]
        return self.put(frame)


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
        aims: Aims | None = None,
    ) -> None:
        """``target`` is host:port. None refuses connections.

        ``aims``: the proxy reads Kafka's frames, and makes the faults of those that are hit.
        """
        self.target = target
        self.aims = aims
        self._pass_at = {False: 0.0, True: 0.0}  # by direction, see hold()
        self._is_passable = threading.Condition()
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
        self.hold(0)
        self.cut_all()
        self._thread.join(5)

    def cut_all(self) -> None:
        """Break every connection."""
        with self._lock:
            links = list(self._links)
        for link in links:
            link.cut()

    def hold(self, seconds: float, *, requests: bool = True, answers: bool = True) -> None:
        """Forward nothing for so long, also of later connections. Then all of it goes on.

        No connection is reset. ``seconds``: 0 ends what an earlier call began.
        """
        with self._is_passable:
            for of_answers, held in ((False, requests), (True, answers)):
                if held:
                    self._pass_at[of_answers] = time.monotonic() + seconds
            self._is_passable.notify_all()

    def _wait_until_passable(self, of_answers: bool) -> None:
        with self._is_passable:
            while (seconds := self._pass_at[of_answers] - time.monotonic()) > 0:
                self._is_passable.wait(seconds)

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
        of_answers = source is link.far
        frames = None if self.aims is None else Frames(link.asked, of_answers=of_answers)
        stream = Stream(sink, fate)
        while data := source.recv(PIECE_BYTES):
            self._wait_until_passable(of_answers)
            mute_s = None
            if frames is None or self.aims is None:
                is_cut = stream.put(data)
            else:
                is_cut, mute_s = self._put_frames(*frames.take(data), stream, self.aims, of_answers)
            if is_cut:
                self._end(source, fate.mute_s if mute_s is None else mute_s)
                return

    @staticmethod
    def _put_frames(
        data: bytes,
        begins: list[tuple[int, int]],
        stream: Stream,
        aims: Aims,
        of_answers: bool,
    ) -> tuple[bool, float | None]:
        """Forward frames, with the faults that they hit.

        Return whether the connection ends, and how long to read on before.
        """
        done = 0
        for number, (at, api) in enumerate(begins):
            aim = aims.hit(api, of_answers=of_answers)
            if aim is None:
                continue
            end = begins[number + 1][0] if number + 1 < len(begins) else len(data)
            if stream.put(data[done:at]):
                return True, None
            if aim.kind in ("cut", "lose"):
                stream.put(data[at : (at + end) // 2] if aim.kind == "cut" else b"")
                return True, aim.seconds if aim.kind == "lose" else 0.0
            if stream.put_with(aim, data[at:end]):
                return True, None
            done = end
        return stream.put(data[done:]), None

    def _end(self, source: socket.socket, mute_s: float) -> None:
        """Read for so long without forwarding, as the connection ends."""
        with self._lock:
            self.cuts += 1
        deadline = time.monotonic() + mute_s
        while (seconds := deadline - time.monotonic()) > 0:
            source.settimeout(seconds)
            if not source.recv(PIECE_BYTES):
                return
