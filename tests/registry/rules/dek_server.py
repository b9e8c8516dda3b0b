"""A DEK registry with the HTTP interface, in memory."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.registry.rules.http_server import QuietHandler, serving

ROOT = ["dek-registry", "v1", "keks"]


class Refusal(Exception):
    def __init__(self, status: int, code: int, text: str) -> None:
        super().__init__(text)
        self.status, self.body = status, {"error_code": code, "message": text}


class DekServer:
    """The state of the registry. Tests set `failures`, `without_subject_path` and `now_ms`."""

    def __init__(self) -> None:
        self.url = ""
        self.keks: dict[tuple[str, str], dict[str, Any]] = {}
        self.deks: dict[tuple[str, str, str, int], dict[str, Any]] = {}
        self.requests: list[tuple[str, str, str]] = []
        self.headers: list[dict[str, str]] = []
        self.failures: list[int] = []
        self.without_subject_path = False
        self.now_ms: int | None = None
        self._lock = threading.Lock()

    def handle(self, method: str, target: str, headers: dict[str, str], body: Any) -> Any:
        with self._lock:
            split = urlsplit(target)
            self.requests.append((method, split.path, split.query))
            self.headers.append(headers)
            if self.failures:
                raise Refusal(self.failures.pop(0), 50001, "asked to fail")
            path = [unquote(part) for part in split.path.strip("/").split("/")]
            query = {name: values[0] for name, values in parse_qs(split.query).items()}
            if path[:3] != ROOT:
                raise Refusal(404, 404, f"no such path: {split.path}")
            return self._route(method, path[3:], query, body)

    def _route(self, method: str, path: list[str], query: dict[str, str], body: Any) -> Any:
        if (method, len(path)) == ("POST", 0):
            return self._put_kek(query.get("context", ""), body)
        if (method, len(path)) == ("GET", 1):
            return self._get(self.keks, (path[0], query.get("context", "")))
        if method == "POST" and path[1:2] == ["deks"] and len(path) in (2, 3):
            if len(path) == 3 and self.without_subject_path:
                raise Refusal(405, 405, "method not allowed")
            return self._put_dek(path[0], body)
        if method == "GET" and path[1::2] == ["deks", "versions"] and len(path) == 5:
            algorithm = query["algorithm"]
            version = int(path[4])
            if version == -1:
                same = [key for key in self.deks if key[:3] == (path[0], path[2], algorithm)]
                version = max((key[3] for key in same), default=-1)
            return self._get(self.deks, (path[0], path[2], algorithm, version))
        raise Refusal(404, 404, f"no such path: {path}")

    @staticmethod
    def _get(table: dict[Any, Any], key: Any) -> Any:
        if key not in table:
            raise Refusal(404, 40470, f"{key} not found")
        return table[key]

    def _now(self) -> int:
        return int(time.time() * 1000) if self.now_ms is None else self.now_ms

    def _put_kek(self, context: str, body: Any) -> Any:
        key = (body["name"], context)
        if key in self.keks:
            raise Refusal(409, 40971, "exists")
        self.keks[key] = {**body, "ts": self._now()}
        return self.keks[key]

    def _put_dek(self, kek: str, body: Any) -> Any:
        key = (kek, body["subject"], body["algorithm"], body["version"])
        if key in self.deks:
            raise Refusal(409, 40971, "exists")
        self.deks[key] = {**body, "kekName": kek, "ts": self._now()}
        return self.deks[key]


class Handler(QuietHandler):
    state: DekServer

    def _answer(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        text = self.rfile.read(size)
        status, answer = 200, None
        try:
            body = json.loads(text) if text else None
            answer = self.state.handle(self.command, self.path, dict(self.headers), body)
        except Refusal as refusal:
            status, answer = refusal.status, refusal.body
        out = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(out)))
        self.end_headers()
        self.wfile.write(out)

    do_GET = do_POST = _answer


@contextmanager
def running() -> Iterator[DekServer]:
    """Start a server on a free port."""
    state = DekServer()
    with serving(Handler, state):
        yield state
