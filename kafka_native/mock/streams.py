"""How a connection reads and writes its bytes: as they are. TLS is in ``tls``."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    Pieces = Sequence[bytes | memoryview]

_PIECES_MAX = 512


class Stream(Protocol):
    """What a connection needs: one thread reads, one writes, and they may be two."""

    def begin(self) -> str | None:
        """Whatever comes before the first byte; the principal that it has shown. Raises ``OSError``."""

    def read_into(self, view: memoryview) -> bool:
        """Fill a buffer; False at the end of the stream."""

    def write(self, pieces: Pieces) -> None:
        """Send all of it."""

    def end(self) -> None:
        """Take leave, without waiting; the socket is closed afterwards."""


class PlainStream:
    """A socket's own bytes, with one receive for a whole frame."""

    def __init__(self, connected: socket.socket) -> None:
        """The socket is a blocking one."""
        self._socket = connected

    def begin(self) -> str | None:
        """Nothing comes first, and nobody is shown."""
        return None

    def read_into(self, view: memoryview) -> bool:
        """Fill a buffer; False at the end of the stream."""
        start = 0
        while start < len(view):
            count = self._socket.recv_into(view[start:], 0, socket.MSG_WAITALL)
            if count == 0:
                return False
            start += count
        return True

    def write(self, pieces: Pieces) -> None:
        """Send all of it, without copying."""
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
        """There is no leave to take."""
