"""A proxy that knows Kafka's requests.

It calls a function before and after each request and answer.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator

from tests.harness.proxy import Fate, Link, Proxy

BEFORE, ANSWERED, AFTER = "before", "answered", "after"

Watch = Callable[[int, str, int], bool]
"""``watch(api key, phase, the client's port)``. False ends the connection at once."""


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


class StepProxy(Proxy):
    """Forwards whole requests and answers. Set ``target`` before the first connection."""

    def __init__(self, watch: Watch) -> None:
        """``watch`` is called for each step."""
        self._watch = watch
        super().__init__(None)

    def _pass_on(self, link: Link, source: socket.socket, sink: socket.socket, fate: Fate) -> None:
        port = link.near.getpeername()[1]
        carry = self._requests if source is link.near else self._answers
        carry(source, sink, link.asked, port)

    def _requests(
        self, near: socket.socket, far: socket.socket, asked: dict[int, int], port: int
    ) -> None:
        for frame in _frames(near):
            api, _, number = struct.unpack_from(">hhi", frame, 4)
            asked[number] = api
            if not self._watch(api, BEFORE, port):
                return
            far.sendall(frame)

    def _answers(
        self, far: socket.socket, near: socket.socket, asked: dict[int, int], port: int
    ) -> None:
        for frame in _frames(far):
            api = asked.pop(struct.unpack_from(">i", frame, 4)[0])
            if not self._watch(api, ANSWERED, port):
                return
            near.sendall(frame)
            self._watch(api, AFTER, port)
