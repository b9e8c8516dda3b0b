"""A local token endpoint. It sends the test's answers and keeps the requests."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs


class Asked(NamedTuple):
    """One request that the endpoint received."""

    path: str
    headers: dict[str, str]
    form: dict[str, str]


class TokenEndpoint:
    """A context manager. ``answer`` makes (status, body) for each request."""

    def __init__(
        self, answer: Callable[[Asked], tuple[int, Any]], context: ssl.SSLContext | None = None
    ) -> None:
        self.asked: list[Asked] = []
        self.answer = answer
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.reply(self.rfile.read(int(self.headers["Content-Length"])).decode())

            def do_GET(self) -> None:
                self.reply("")

            def reply(self, body: str) -> None:
                form = {name: values[0] for name, values in parse_qs(body).items()}
                asked = Asked(self.path, dict(self.headers), form)
                endpoint.asked.append(asked)
                status, said = endpoint.answer(asked)
                data = said if isinstance(said, bytes) else json.dumps(said).encode()
                self.send_response(status)
                self.send_header(
                    "Content-Type", "text/html" if isinstance(said, bytes) else "application/json"
                )
                self.send_header("Content-Length", str(len(data)))
                if status == 302:
                    self.send_header("Location", f"http://127.0.0.1:{endpoint.port}/elsewhere")
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.handle_error = lambda *args: None  # type: ignore[method-assign]  # a client that doesn't trust us
        if context is not None:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        self.url = f"{'http' if context is None else 'https'}://127.0.0.1:{self.port}/token"
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )

    def __enter__(self) -> TokenEndpoint:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)
