"""A server that answers as a test's script says: byte by byte, never, or without an end."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Callable

STEP_S = 0.05
END_S = 6.0
"""The duration of a script. A client without a time limit waits that long."""
Script = Callable[[socket.socket], None]


def drip(connection: socket.socket, data: bytes, begin: bytes = b"") -> None:
    """Send the beginning at once, and then the data byte by byte, repeatedly, until the end."""
    connection.sendall(begin)
    end, at = time.monotonic() + END_S, 0
    while time.monotonic() < end:
        connection.sendall(data[at % len(data) : at % len(data) + 1])
        at += 1
        time.sleep(STEP_S)


def silent(connection: socket.socket) -> None:
    """Send nothing."""
    time.sleep(END_S)


def dripping_headers(connection: socket.socket) -> None:
    """Send a first header without an end."""
    drip(connection, b"x", b"HTTP/1.1 200 OK\r\nX-Long: ")


def dripping_status(connection: socket.socket) -> None:
    """Send a status line without an end."""
    drip(connection, b" ", b"HTTP/1.1 200 ")


def dripping_body(connection: socket.socket) -> None:
    """Send a body with a length, byte by byte."""
    drip(connection, b" ", b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")


def dripping_chunks(connection: socket.socket) -> None:
    """Send chunks of one byte."""
    drip(connection, b"1\r\n \r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")


def continuing(connection: socket.socket) -> None:
    """Send "100 Continue" for ever."""
    drip(connection, b"HTTP/1.1 100 Continue\r\n\r\n")


def dripping_handshake(connection: socket.socket) -> None:
    """Send the head of a TLS record of 16 KiB, then its bytes one by one."""
    drip(connection, b"\x02", b"\x16\x03\x03\x40\x00")


class SlowServer:
    """A context manager. Each connection runs the script on its own thread."""

    def __init__(self, script: Script, context: ssl.SSLContext | None = None) -> None:
        self._script = script
        self._context = context
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.connections = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.connections += 1
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            if self._context is not None:
                connection = self._context.wrap_socket(connection, server_side=True)
            self._script(connection)

    def __enter__(self) -> SlowServer:
        return self

    def __exit__(self, *exc: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
