"""The HTTP server of a mock registry: connections, TLS, logins and recorded requests."""

from __future__ import annotations

import base64
import binascii
import hmac
import socket
import ssl
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from kafka_native.mock.schema_registry.errors import UNAUTHORIZED
from kafka_native.mock.schema_registry.faults import Fault, RegistryFaults
from kafka_native.mock.schema_registry.routes import Answer, Routes, error_answer

_BODY_MAX_BYTES: Final = 64 << 20
_REQUESTS_MAX: Final = 100_000
_POLL_INTERVAL_S: Final = 0.05


@dataclass(frozen=True)
class SeenHttpRequest:
    """A request that a mock registry read.

    Attributes
    ----------
    method : str
        Such as ``"GET"``.
    path : str
        The path as the client wrote it, without the query.
    query : dict of str to list of str
        The parameters behind the ``?``.
    headers : dict of str to str
        The headers. The names are in lower case.
    body : bytes
        The body. It is empty if there is none.
    listener : int
        The index in ``urls`` of the URL that the client used.
    time : float
        The ``time.monotonic()`` of the moment at which the registry had read the request.
    """

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    listener: int
    time: float


@dataclass(frozen=True)
class Logins:
    """The logins that a registry accepts. Without any it accepts every request."""

    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    tokens: frozenset[str] = field(default_factory=frozenset, repr=False)

    def accept(self, header: str | None) -> bool:
        """Return whether an Authorization header has a user's password or a token."""
        if not self.users and not self.tokens:
            return True
        scheme, _, rest = (header or "").partition(" ")
        if scheme.lower() == "bearer":
            return any(_same(rest.strip(), token) for token in self.tokens)
        if scheme.lower() != "basic":
            return False
        try:
            decoded = base64.b64decode(rest.strip(), validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            return False
        name, _, password = decoded.partition(":")
        return name in self.users and _same(password, self.users[name])


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())


class Shared:
    """What all listeners of a registry share."""

    def __init__(self, logins: Logins) -> None:
        """Start with an empty registry."""
        self.routes = Routes()
        self.faults = RegistryFaults()
        self.logins = logins
        self.requests: deque[SeenHttpRequest] = deque(maxlen=_REQUESTS_MAX)
        self.closing = threading.Event()
        """Ends the delays of answers."""


class Listener:
    """One port of a registry, with a thread for each of its connections."""

    def __init__(
        self, shared: Shared, index: int, port: int, context: ssl.SSLContext | None
    ) -> None:
        """Listen on 127.0.0.1. Raises ``OSError`` if the port isn't free."""
        self._server = _Server(port, shared, index, context)
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(
            target=self._server.serve_forever,
            args=(_POLL_INTERVAL_S,),
            name=f"mock schema registry {self.port}",
            daemon=True,
        )
        self._thread.start()

    def close(self) -> None:
        """Stop listening, and close the connections of clients."""
        self._server.shutdown()
        self._server.server_close()
        self._server.close_connections()
        self._thread.join()

    def join(self) -> None:
        """Wait until the threads of the closed connections have ended."""
        self._server.join_connections()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(
        self, port: int, shared: Shared, index: int, context: ssl.SSLContext | None
    ) -> None:
        self.shared = shared
        self.index = index
        self._context = context
        self._lock = threading.Lock()
        self._connections: set[socket.socket] = set()
        self._connection_threads: set[threading.Thread] = set()
        super().__init__(("127.0.0.1", port), _Handler)

    def server_bind(self) -> None:
        # HTTPServer would ask the resolver for the name of this machine.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = "localhost", self.server_address[1]

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._context is not None:
            # The first read of the connection's own thread makes the handshake.
            connection = self._context.wrap_socket(
                connection, server_side=True, do_handshake_on_connect=False
            )
        with self._lock:
            self._connections.add(connection)
        return connection, address

    def process_request(self, request: Any, client_address: Any) -> None:
        thread = threading.Thread(
            target=self.process_request_thread,
            args=(request, client_address),
            name=f"mock schema registry connection {client_address[1]}",
            daemon=True,
        )
        thread.start()
        with self._lock:
            self._connection_threads = {
                each for each in self._connection_threads if each.is_alive()
            } | {thread}

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        # A client that goes away, or a handshake that fails, is nothing to print.
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)

    def close_connections(self) -> None:
        with self._lock:
            connections = list(self._connections)
        for each in connections:
            try:
                # Not ssl's own shutdown(): the connection's thread may still use its TLS.
                socket.socket.shutdown(each, socket.SHUT_RDWR)
            except OSError:
                continue  # the client has closed it

    def join_connections(self) -> None:
        with self._lock:
            threads = self._connection_threads
        for each in threads - {threading.current_thread()}:
            each.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "kafka-native-mock"
    sys_version = ""
    server: _Server

    def handle_request(self) -> None:
        """Read one request, and answer it."""
        body = self._read_body()
        if body is None:
            return
        shared, parts = self.server.shared, urlsplit(self.path)
        shared.requests.append(
            SeenHttpRequest(
                self.command,
                parts.path,
                parse_qs(parts.query, keep_blank_values=True),
                {name.lower(): value for name, value in self.headers.items()},
                body,
                self.server.index,
                time.monotonic(),
            )
        )
        fault = shared.faults.take(self.command, parts.path, self.server.index) or Fault()
        if fault.delay_s and shared.closing.wait(fault.delay_s):
            self.close_connection = True
            return
        answer, headers = self._answer(body, fault), dict(fault.headers)
        if answer.status == UNAUTHORIZED:
            headers.setdefault("WWW-Authenticate", 'Basic realm="mock"')
        self._send(answer, headers, fault.cut_after_bytes)

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = do_PATCH = handle_request

    def _answer(self, body: bytes, fault: Fault) -> Answer:
        if not self.server.shared.logins.accept(self.headers.get("Authorization")):
            return fault.answer or error_answer(UNAUTHORIZED, "Unauthorized")
        method = "GET" if self.command == "HEAD" else self.command
        answer = self.server.shared.routes.answer(method, self.path, body) if fault.done else None
        return fault.answer or answer or error_answer(500, "An error that a test has ordered")

    def _read_body(self) -> bytes | None:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            return self._read_chunks()
        length = self.headers.get("Content-Length", "0")
        if not length.isascii() or not length.isdigit() or int(length) > _BODY_MAX_BYTES:
            self._refuse(400, "Content-Length is not valid, or too large")
            return None
        return self.rfile.read(int(length))

    def _read_chunks(self) -> bytes | None:
        body = bytearray()
        while True:
            try:
                size = int(self.rfile.readline(100).partition(b";")[0], 16)
            except ValueError:
                self._refuse(400, "The size of a chunk is not valid")
                return None
            if size < 0 or len(body) + size > _BODY_MAX_BYTES:
                self._refuse(413, "The body is too large")
                return None
            if size == 0:
                while self.rfile.readline(1000).strip():
                    pass
                return bytes(body)
            body += self.rfile.read(size)
            self.rfile.readline(10)

    def _refuse(self, status: int, message: str) -> None:
        self.close_connection = True
        self._send(error_answer(status, message), {}, None)

    def _send(self, answer: Answer, headers: dict[str, str], cut_after_bytes: int | None) -> None:
        lines = [f"HTTP/1.1 {answer.status} {self.responses.get(answer.status, ('',))[0]}"]
        if answer.status != 204:
            headers |= {"Content-Type": answer.content_type}
            headers |= {"Content-Length": str(len(answer.body))}
        if self.close_connection:
            headers["Connection"] = "close"
        lines += [f"{name}: {value}" for name, value in headers.items()]
        data = "\r\n".join([*lines, "", ""]).encode("latin-1")
        if self.command != "HEAD":
            data += answer.body
        if cut_after_bytes is not None:
            data, self.close_connection = data[:cut_after_bytes], True
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing: tests read ``requests``."""
