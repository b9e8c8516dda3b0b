"""A proxy that knows Kafka's requests.

It calls a function before and after each request and answer.
"""

from __future__ import annotations

import socket
from collections.abc import Callable

from tests.harness.aims import Frames
from tests.harness.proxy import PIECE_BYTES, Fate, Link, Proxy

BEFORE, ANSWERED, AFTER = "before", "answered", "after"

Watch = Callable[[int, str, int], bool]
"""``watch(api key, phase, the client's port)``. False ends the connection at once."""


class StepProxy(Proxy):
    """Forwards whole requests and answers. Set ``target`` before the first connection."""

    def __init__(self, watch: Watch) -> None:
        """``watch`` is called for each step."""
        self._watch = watch
        super().__init__(None)

    def _pass_on(self, link: Link, source: socket.socket, sink: socket.socket, fate: Fate) -> None:
        port = link.near.getpeername()[1]
        of_answers = source is link.far
        frames = Frames(link.asked, of_answers=of_answers)
        while piece := source.recv(PIECE_BYTES):
            for api, frame in frames.whole(piece):
                if not self._watch(api, ANSWERED if of_answers else BEFORE, port):
                    return
                sink.sendall(frame)
                if of_answers:
                    self._watch(api, AFTER, port)
