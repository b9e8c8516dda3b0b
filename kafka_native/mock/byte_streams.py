"""The unencrypted byte stream of a connection. The encrypted one is in ``tls``."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    Pieces = Sequence[bytes | memoryview]

_PIECES_MAX = 512


class Stream(Protocol):
    """The interface of a connection's stream. One thread reads, and the same or another writes."""

    def begin(self) -> str | None:
        """Do the handshake, and return the client's principal or None. Raises ``OSError``."""

    def read_into(self, view: memoryview) -> bool:
        """Fill a buffer. Returns False at the end of the stream."""

    def write(self, pieces: Pieces) -> None:
        """Send all pieces in order."""

    def end(self) -> None:
        """Send the end of the stream without waiting. The caller then closes the socket."""


class PlainStream:
    """The bytes of a plain socket, with one receive for a whole frame."""

    def __init__(self, connected: socket.socket) -> None:
        """Store a blocking socket."""
        self._socket = connected

    def begin(self) -> str | None:
        """Return None: there is no handshake and no principal."""
        return None

    def read_into(self, view: memoryview) -> bool:
        """Fill a buffer. Returns False at the end of the stream."""
        start = 0
        while start < len(view):
            count = self._socket.recv_into(view[start:], 0, socket.MSG_WAITALL)
            if count == 0:
                return False
            start += count
        return True

    def write(self, pieces: Pieces) -> None:
        """Send all pieces without copying."""
        if len(pieces) == 1:
            self._socket.sendall(pieces[0])
            return
        for start in range(0, len(pieces), _PIECES_MAX):
            self._write_some(pieces[start : start + _PIECES_MAX])

    def _write_some(self, pieces: Pieces) -> None:
        left = sum(map(len, pieces))
        while left:
            sent = self._socket.sendmsg(pieces)
            left -= sent
            if left:
                while sent >= len(pieces[0]):
                    sent -= len(pieces[0])
                    pieces = pieces[1:]
                pieces = [memoryview(pieces[0])[sent:], *pieces[1:]]

    def end(self) -> None:
        """Do nothing: a plain stream has no end message."""
