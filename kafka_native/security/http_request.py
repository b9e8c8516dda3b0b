"""One HTTP request with one time limit for everything, and one for what the answer may hold.

The standard library's time limits are those of a single read: a server that sends a byte now and then holds its
client for ever. Here the deadline is that of the look-up, the connection, TLS and the whole answer together. Nothing is
followed to another place, sent a second time, unpacked or kept for a next request.

Thread: any.
"""

from __future__ import annotations

import _socket
import http.client
import io
import ipaddress
import socket
import ssl
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import SplitResult, parse_qsl, urlsplit

from kafka_native.security import time_limit
from kafka_native.security.mechanisms import SaslError
from kafka_native.security.time_limit import LimitedCalls, some_left_s
from kafka_native.threads import is_patched

RESPONSE_MAX_BYTES = 1 << 20
"""Bytes of an answer's body."""
READ_MAX_BYTES = 65536
PORTS = {"http": 80, "https": 443}


class Answer(NamedTuple):
    """What a server says."""

    status: int
    body: bytes


class Url:
    """An http or https URL. Nothing shows its query."""

    shown = ""

    def __init__(self, name: str, text: str) -> None:
        """SaslError, which doesn't show the value, if the property ``name`` has none that can be used."""
        parts = _split(text)
        if parts is None or parts.scheme not in PORTS or not parts.hostname:
            raise SaslError(f"{name} has to be an http or https URL")
        if "@" in parts.netloc or "@" in parts.path:
            raise SaslError(f"{name} has a user or a password in it: they have properties of their own; or write %40")
        self.is_encrypted = parts.scheme == "https"
        self.host: str = parts.hostname
        self.port: int = parts.port or PORTS[parts.scheme]
        self.host_header = parts.netloc
        self.target = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
        self.shown = f"{parts.scheme}://{parts.netloc}{parts.path}"
        self.parameters = parse_qsl(parts.query)

    def __repr__(self) -> str:
        return f"Url({self.shown})"

    @property
    def is_readable_by_others(self) -> bool:
        """Whether what goes there and back passes a network as it is: http:// to neither this machine nor its link.

        The metadata services of clouds are at link-local addresses, and speak no TLS.
        """
        if self.is_encrypted or self.host == "localhost" or self.host.endswith(".localhost"):
            return False
        with suppress(ValueError):  # a name
            address = ipaddress.ip_address(self.host)
            return not (address.is_loopback or address.is_link_local)
        return True


def _split(text: str) -> SplitResult | None:
    """The parts of an URL, None for what isn't one."""
    if not text.isascii() or not text.isprintable() or " " in text:
        return None
    with suppress(ValueError):  # its text repeats what wasn't understood, perhaps of a password: it may not be chained
        parts = urlsplit(text)
        return parts if parts.port is None or parts.port > 0 else None
    return None


class HttpClient:
    """Makes requests of one URL."""

    def __init__(self, url: Url, context: ssl.SSLContext) -> None:
        """``context`` is for https."""
        self._url = url
        self._context = context
        self._look_ups = LimitedCalls(f"the look-up of {url.host}")

    def request(self, method: str, body: bytes | None, headers: Mapping[str, str]) -> Answer:
        """The answer, whatever its status is.

        :raises SaslError: The name isn't known in time, or the answer is too long.
        :raises OSError: There is no connection, no TLS, or no whole answer in time (TimeoutError, with a text).
        :raises http.client.HTTPException: The answer isn't HTTP.
        """
        deadline = time.monotonic() + time_limit.FETCH_S
        missing = "connection"
        try:
            with self._connected(deadline) as plain:
                missing = "TLS handshake"
                with self._encrypted(plain, deadline) as connected:
                    missing = "whole answer"
                    return self._exchange(connected, deadline, method, body, headers)
        except TimeoutError as error:
            if error.errno is not None:  # the system's own, of a connection
                raise
            raise TimeoutError(f"no {missing} in {time_limit.FETCH_S:g} s") from None

    def _connected(self, deadline: float) -> socket.socket:
        host, port = self._url.host, self._url.port
        # gevent's would make a hub for each thread that it is called in, and nobody would end it
        look_up = _socket.getaddrinfo if is_patched() else socket.getaddrinfo
        found = self._look_ups.run(lambda: look_up(host, port, type=socket.SOCK_STREAM), some_left_s(deadline))
        failure = OSError("the name has no address")
        for family, kind, protocol, _, address in found:
            connection = socket.socket(family, kind, protocol)
            try:
                connection.settimeout(some_left_s(deadline))
                connection.connect(address)
            except OSError as error:
                connection.close()
                failure = error
                some_left_s(deadline)
            else:
                return connection
        raise failure

    def _encrypted(self, plain: socket.socket, deadline: float) -> socket.socket:
        plain.settimeout(some_left_s(deadline))  # of the whole handshake
        return self._context.wrap_socket(plain, server_hostname=self._url.host) if self._url.is_encrypted else plain

    def _exchange(
        self, connected: socket.socket, deadline: float, method: str, body: bytes | None, headers: Mapping[str, str]
    ) -> Answer:
        connection = http.client.HTTPConnection(self._url.host, self._url.port)
        connection.sock = _TimedSocket(connected, deadline)
        headers = {"Host": self._url.host_header, "Connection": "close", **headers}
        connection.request(method, self._url.target, body, headers)
        response = connection.getresponse()
        return Answer(response.status, whole(iter(partial(response.read, READ_MAX_BYTES), b"")))


def whole(pieces: Iterable[bytes]) -> bytes:
    """The body of an answer; SaslError if it is too long."""
    content = b""
    for piece in pieces:
        content += piece
        if len(content) > RESPONSE_MAX_BYTES:
            raise SaslError(f"it answers with more than {RESPONSE_MAX_BYTES} bytes")
    return content


class _TimedSocket:
    """As much of a socket as http.client needs, with one deadline for all of it."""

    def __init__(self, connected: socket.socket, deadline: float) -> None:
        self._socket = connected
        self._deadline = deadline

    def sendall(self, data: bytes) -> None:
        """Sends all of it."""
        self._socket.settimeout(some_left_s(self._deadline))  # of the whole call
        self._socket.sendall(data)

    def makefile(self, mode: str) -> io.BufferedReader:
        """What http.client reads an answer from."""
        assert mode == "rb"
        return io.BufferedReader(_TimedReader(self._socket, self._deadline))

    def close(self) -> None:
        """Nothing: http.client closes a socket before it has read the answer, and who has opened it closes it."""


class _TimedReader(io.RawIOBase):
    """Reads from a socket until a deadline."""

    def __init__(self, connected: socket.socket, deadline: float) -> None:
        self._socket = connected
        self._deadline = deadline

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Waits for some bytes."""
        self._socket.settimeout(some_left_s(self._deadline))
        return self._socket.recv_into(buffer)
