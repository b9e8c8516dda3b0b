"""A plain HTTP client for tests of the mock registry. It knows nothing about registries."""

from __future__ import annotations

import http.client
import json
import ssl
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tests.waiting import WAIT_S


class Reply(NamedTuple):
    status: int
    body: Any
    headers: dict[str, str]


def call(
    url: str,
    method: str,
    path: str,
    body: Any = None,
    headers: dict[str, str] | None = None,
    context: ssl.SSLContext | None = None,
) -> Reply:
    """Send one request, and return the answer. A body of JSON is decoded."""
    place = urlsplit(url)
    assert place.hostname is not None
    kind = http.client.HTTPSConnection if place.scheme == "https" else http.client.HTTPConnection
    more: dict[str, Any] = {"context": context} if context is not None else {}
    connection = kind(place.hostname, place.port, timeout=WAIT_S, **more)
    try:
        data = body if isinstance(body, (bytes, type(None))) else json.dumps(body)
        connection.request(method, path, data, headers or {})
        answer = connection.getresponse()
        text = answer.read().decode()
        try:
            decoded = json.loads(text)
        except ValueError:
            decoded = text
        return Reply(answer.status, decoded, dict(answer.getheaders()))
    finally:
        connection.close()


def record(*fields: str | dict[str, Any], name: str = "Order") -> str:
    """Return an Avro record. A field that is a name has the type string."""
    every = [{"name": each, "type": "string"} if isinstance(each, str) else each for each in fields]
    return json.dumps({"type": "record", "name": name, "fields": every})


def optional(name: str) -> dict[str, Any]:
    """Return an Avro field with a default."""
    return {"name": name, "type": ["null", "string"], "default": None}
