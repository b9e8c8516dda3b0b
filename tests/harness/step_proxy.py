"""A proxy that knows Kafka's requests, and calls before it passes one on, before its answer, and after that."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

BEFORE, ANSWERED, AFTER = "before", "answered", "after"

Watch = Callable[[int, str, int], bool]
"""``watch(api key, phase, the client's port)``: False ends the connection there and then."""


def _exactly(source: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        piece = source.recv(count - len(parts))
        if not piece:
            raise ConnectionError
        parts += piece
    return bytes(parts)


def _frames(source: socket.socket) -> Iterator[bytes]:
    while True:
        head = _exactly(source, 4)
        yield head + _exactly(source, struct.unpack(">i", head)[0])


class StepProxy:
    """Listens on a port of its own and carries whole requests and answers to and from ``target``."""

    def __init__(self, watch: Watch) -> None:
        """``target`` is to be set before anybody connects."""
        self.target = ""
        self._watch = watch
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """No more connections; those that there are end with their clients."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            host, _, port = self.target.rpartition(":")
            try:
                far = socket.create_connection((host, int(port)), 5)
            except OSError:
                near.close()
                continue
            far.settimeout(None)
            asked: dict[int, int] = {}  # the API of a request whose answer is to come, by its number
            for carry, source, sink in ((self._requests, near, far), (self._answers, far, near)):
                threading.Thread(target=self._guarded, args=(carry, source, sink, asked), daemon=True).start()

    def _guarded(
        self,
        carry: Callable[[socket.socket, socket.socket, dict[int, int]], None],
        source: socket.socket,
        sink: socket.socket,
        asked: dict[int, int],
    ) -> None:
        try:
            carry(source, sink, asked)
        except OSError:
            pass  # one of the ends is gone, and takes the other one with it
        finally:
            for end in (source, sink):
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def _requests(self, near: socket.socket, far: socket.socket, asked: dict[int, int]) -> None:
        port = near.getpeername()[1]
        for frame in _frames(near):
            api, _, number = struct.unpack_from(">hhi", frame, 4)
            asked[number] = api
            if not self._watch(api, BEFORE, port):
                return
            far.sendall(frame)

    def _answers(self, far: socket.socket, near: socket.socket, asked: dict[int, int]) -> None:
        port = near.getpeername()[1]
        for frame in _frames(far):
            api = asked.pop(struct.unpack_from(">i", frame, 4)[0])
            if not self._watch(api, ANSWERED, port):
                return
            near.sendall(frame)
            self._watch(api, AFTER, port)
