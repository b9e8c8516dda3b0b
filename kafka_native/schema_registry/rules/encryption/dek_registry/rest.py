"""Requests to the registry of keys, by the schema registry client's own transport."""

from __future__ import annotations

from typing import Any, Protocol
from urllib.parse import urlencode

from kafka_native.schema_registry.calls import Requests
from kafka_native.schema_registry.config import parse
from kafka_native.schema_registry.transports import SyncTransport


class RestClient(Protocol):
    """The requests that the DEK registry client makes."""

    def get(self, url: str, query: dict[str, Any] | None = None) -> Any:
        """Return the decoded JSON body of a GET request."""
        ...

    def post(self, url: str, body: dict[str, Any] | None) -> Any:
        """Return the decoded JSON body of a POST request."""
        ...

    def close(self) -> None:
        """Close the connections to the registry."""
        ...


class HttpRestClient:
    """Requests with the properties of a schema registry client: failover, retries, credentials.

    Parameters
    ----------
    conf : dict[str, Any]
        The properties, as for ``SchemaRegistryClient``.

    Raises
    ------
    ImportError
        httpx2 is not installed.
    ValueError
        A property is unknown, missing or has a wrong value.
    """

    def __init__(self, conf: dict[str, Any]) -> None:
        config = parse(conf)
        self._requests = Requests(config)
        self._transport = SyncTransport(config)

    def get(self, url: str, query: dict[str, Any] | None = None) -> Any:
        """Return the decoded JSON body of a GET request."""
        path = f"{url}?{urlencode(query)}" if query else url
        return self._run("GET", path, None)

    def post(self, url: str, body: dict[str, Any] | None) -> Any:
        """Return the decoded JSON body of a POST request."""
        return self._run("POST", url, body)

    def close(self) -> None:
        """Close the connections to the registry."""
        self._transport.close()

    def _run(self, method: str, path: str, body: dict[str, Any] | None) -> Any:
        call = self._requests.request(method, path.lstrip("/"), _object, body)
        return self._transport.run(call)


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"a JSON object was expected, not {type(value).__name__}")
    return value
