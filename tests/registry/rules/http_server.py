"""The HTTP server of the services that encryption rules use."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class QuietHandler(BaseHTTPRequestHandler):
    """Answers requests, and logs nothing."""

    def log_message(self, format: str, *args: Any) -> None:
        return


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler], state: Any) -> Iterator[None]:
    """Serve on a free port: ``state.url``. The handlers have the state as ``self.state``."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (handler,), {"state": state}))
    state.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
