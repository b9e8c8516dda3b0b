"""HTTP requests with one time limit for the whole request, and a size limit for the response.

The time limit of the standard library holds for a single read. A server that sends one byte now and
then could block its client forever. Here, one deadline covers the lookup, the connection, TLS and
the whole response. The client doesn't follow redirects, retry, decompress, or reuse connections.

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
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import SplitResult, parse_qsl, urlsplit

from kafka_native.security import time_limit
from kafka_native.security.mechanisms import SaslError
from kafka_native.security.time_limit import LimitedCalls, some_left_s
from kafka_native.threads import is_patched

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

RESPONSE_MAX_BYTES = 1 << 20
"""The maximum size of a response's body."""
RECEIVED_MAX_BYTES = 2 * RESPONSE_MAX_BYTES
"""The maximum size of a response with its headers and the sizes of its chunks.

http.client itself has no limit: it reads a chunk with the size -1 to the end of the connection.
"""
READ_MAX_BYTES = 65536
PORTS = {"http": 80, "https": 443}


class Answer(NamedTuple):
    """The response of a server."""

    status: int
    body: bytes


class Url:
    """An http or https URL. The repr doesn't show its query."""

    shown = ""

    def __init__(self, name: str, text: str) -> None:
        """Parse the value of the property ``name``.

        :raises SaslError: The value is invalid. The error doesn't show the value.
        """
        parts = _split(text)
        if parts is None or parts.scheme not in PORTS or not parts.hostname:
            raise SaslError(f"{name} has to be an http or https URL")
        if "@" in parts.netloc or "@" in parts.path:
            raise SaslError(
                f"{name} contains a user or a password: they have their own properties; "
                "write %40 for @"
            )
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
        """True for http:// to a host that is neither local nor link-local.

        Others can read such traffic. The metadata services of clouds have link-local addresses and
        no TLS.
        """
        if self.is_encrypted or self.host == "localhost" or self.host.endswith(".localhost"):
            return False
        with suppress(ValueError):  # The host is a name
            address = ipaddress.ip_address(self.host)
            return not (address.is_loopback or address.is_link_local)
        return True


def _split(text: str) -> SplitResult | None:
    """Return the parts of a URL, or None for an invalid one."""
    if not text.isascii() or not text.isprintable() or " " in text:
        return None
    # The text of the ValueError may repeat a part of a password, so it must not be chained.
    with suppress(ValueError):
        parts = urlsplit(text)
        return parts if parts.port is None or parts.port > 0 else None
    return None


class HttpClient:
    """Makes requests to one URL."""

    def __init__(self, url: Url, make_context: Callable[[], ssl.SSLContext]) -> None:
        """``make_context`` is called for each https request, because files may be rotated."""
        self._url = url
        self._make_context = make_context
        self._lookups = LimitedCalls(f"the lookup of {url.host}")

    def request(self, method: str, body: bytes | None, headers: Mapping[str, str]) -> Answer:
        """Send a request and return the response, with any status.

        :raises SaslError: The lookup timed out, or the response is too long.
        :raises OSError: No connection, no TLS, or no complete response in time (TimeoutError, with
            a text).
        :raises http.client.HTTPException: The response isn't HTTP.
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
            if error.errno is not None:  # The operating system's error of a connection
                raise
            raise TimeoutError(f"no {missing} in {time_limit.FETCH_S:g} s") from None

    def _connected(self, deadline: float) -> socket.socket:
        host, port = self._url.host, self._url.port
        # gevent's lookup would create a hub in each calling thread, and nothing would end it
        getaddrinfo = _socket.getaddrinfo if is_patched() else socket.getaddrinfo
        found = self._lookups.run(
            lambda: getaddrinfo(host, port, type=socket.SOCK_STREAM), some_left_s(deadline)
        )
        failure = OSError("the name has no address")
        for number, (family, kind, protocol, _, address) in enumerate(found):
            # An address that doesn't answer leaves the others their shares of the time
            share_s = some_left_s(deadline) / (len(found) - number)
            try:
                return _connection(family, kind, protocol, address, share_s)
            except OSError as error:
                failure = error
                some_left_s(deadline)
        raise failure

    def _encrypted(self, plain: socket.socket, deadline: float) -> socket.socket:
        if not self._url.is_encrypted:
            return plain
        context = self._make_context()
        plain.settimeout(some_left_s(deadline))  # For the whole handshake
        return context.wrap_socket(plain, server_hostname=self._url.host)

    def _exchange(
        self,
        connected: socket.socket,
        deadline: float,
        method: str,
        body: bytes | None,
        headers: Mapping[str, str],
    ) -> Answer:
        connection = http.client.HTTPConnection(self._url.host, self._url.port)
        connection.sock = _TimedSocket(connected, deadline)
        headers = {"Host": self._url.host_header, "Connection": "close", **headers}
        connection.request(method, self._url.target, body, headers)
        response = connection.getresponse()
        return Answer(response.status, whole(iter(partial(response.read, READ_MAX_BYTES), b"")))


def _connection(
    family: int, kind: int, protocol: int, address: Any, limit_s: float
) -> socket.socket:
    connection = socket.socket(family, kind, protocol)
    try:
        connection.settimeout(limit_s)
        connection.connect(address)
    except OSError:
        connection.close()
        raise
    return connection


def whole(pieces: Iterable[bytes]) -> bytes:
    """Return the body of a response. Raise SaslError if it is too long."""
    content = b""
    for piece in pieces:
        content += piece
        if len(content) > RESPONSE_MAX_BYTES:
            raise SaslError(f"the response has more than {RESPONSE_MAX_BYTES} bytes")
    return content


class _TimedSocket:
    """The part of the socket interface that http.client uses, with one deadline for all calls."""

    def __init__(self, connected: socket.socket, deadline: float) -> None:
        self._socket = connected
        self._deadline = deadline

    def sendall(self, data: bytes) -> None:
        """Send all data."""
        self._socket.settimeout(some_left_s(self._deadline))  # For the whole call
        self._socket.sendall(data)

    def makefile(self, mode: str) -> io.BufferedReader:
        """Return the reader from which http.client reads the response."""
        assert mode == "rb"
        return io.BufferedReader(_TimedReader(self._socket, self._deadline))

    def close(self) -> None:
        """Do nothing: http.client closes the socket before it reads the response.

        The opener closes it.
        """


class _TimedReader(io.RawIOBase):
    """Reads from a socket until a deadline, and at most RECEIVED_MAX_BYTES."""

    def __init__(self, connected: socket.socket, deadline: float) -> None:
        self._socket = connected
        self._deadline = deadline
        self._received_bytes = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Wait for some bytes and read them."""
        self._socket.settimeout(some_left_s(self._deadline))
        got = self._socket.recv_into(buffer)
        self._received_bytes += got
        if self._received_bytes > RECEIVED_MAX_BYTES:
            raise SaslError(f"the response has more than {RECEIVED_MAX_BYTES} bytes")
        return got
