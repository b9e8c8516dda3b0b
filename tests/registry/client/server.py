"""A small HTTP server that answers with what a test gives it, and records the requests."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from kafka_native.schema_registry import AsyncSchemaRegistryClient, SchemaRegistryClient


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    query: tuple[tuple[str, str], ...]
    headers: dict[str, str]
    body: Any

    def meaning(self) -> tuple[Any, ...]:
        """Return what has to be equal in two clients. Servers read booleans in any case."""
        return self.method, self.path, sorted((k, v.lower()) for k, v in self.query), self.body


@dataclass
class Answer:
    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)

    def write(self, handler: BaseHTTPRequestHandler) -> None:
        """Send the answer. A test may derive a class that sends something else."""
        body = self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()
        handler.send_response(self.status)
        for name, value in {
            "Content-Type": "application/vnd.schemaregistry.v1+json",
            "Content-Length": str(len(body)),
            **self.headers,
        }.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)


class Cut(Answer):
    """Close the connection in the middle of the body."""

    def write(self, handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        handler.wfile.write(b'{"schema"')
        handler.close_connection = True


class Server:
    """Answers with the next prepared answer. The last one stays."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.answers: list[Answer] = []
        self.on_request: Callable[[Request], None] = lambda request: None
        self._lock = threading.Lock()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle(self) -> None:
                try:
                    super().handle()
                except OSError:  # the client has closed the connection, or its handshake failed
                    self.close_connection = True

            def _serve(self) -> None:
                url = urlsplit(self.path)
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                try:
                    content: Any = json.loads(body) if body else None
                except ValueError:
                    content = body.decode()
                query = tuple(parse_qsl(url.query, keep_blank_values=True))
                request = Request(
                    self.command, unquote(url.path), query, dict(self.headers.items()), content
                )
                answer = server._next(request)
                server.on_request(request)
                try:
                    answer.write(self)
                except ConnectionError:
                    self.close_connection = True  # the client has seen enough

            do_GET = do_POST = do_PUT = do_DELETE = _serve

            def log_message(self, format: str, *args: Any) -> None:
                """Keep the test's output clean."""

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.address = f"127.0.0.1:{self._http.server_address[1]}"
        self.url = f"http://{self.address}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def use_tls(self, context: ssl.SSLContext) -> None:
        """Speak TLS. A client that fails its handshake disturbs no other one."""
        self._http.socket = context.wrap_socket(
            self._http.socket, server_side=True, do_handshake_on_connect=False
        )
        self.url = f"https://{self.address}"

    def _next(self, request: Request) -> Answer:
        with self._lock:
            self.requests.append(request)
            return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def answer(self, *answers: Answer) -> None:
        """Set the next answers."""
        with self._lock:
            self.answers = list(answers)
            self.requests.clear()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


@contextmanager
def serving() -> Iterator[Server]:
    server = Server()
    try:
        yield server
    finally:
        server.close()


class SyncCaller:
    """Calls the synchronous client."""

    def __init__(self, conf: dict[str, Any]) -> None:
        self.client = SchemaRegistryClient(conf)

    def __call__(self, name: str, *args: Any, **options: Any) -> Any:
        return getattr(self.client, name)(*args, **options)

    def together(self, count: int, name: str, *args: Any) -> list[Any]:
        """Make the same call several times at once."""
        found: list[Any] = [None] * count

        def call(index: int) -> None:
            found[index] = self(name, *args)

        threads = [threading.Thread(target=call, args=(index,)) for index in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return found

    def close(self) -> None:
        self.client.close()


class AsyncCaller:
    """Calls the asyncio client in an event loop of its own."""

    def __init__(self, conf: dict[str, Any]) -> None:
        self.loop = asyncio.new_event_loop()
        self.client = AsyncSchemaRegistryClient(conf)

    def __call__(self, name: str, *args: Any, **options: Any) -> Any:
        return self.loop.run_until_complete(getattr(self.client, name)(*args, **options))

    def together(self, count: int, name: str, *args: Any) -> list[Any]:
        """Make the same call several times at once."""

        async def gather() -> list[Any]:
            calls = [getattr(self.client, name)(*args) for _ in range(count)]
            return list(await asyncio.gather(*calls))

        return self.loop.run_until_complete(gather())

    def close(self) -> None:
        self.loop.run_until_complete(self.client.aclose())
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()
