"""HTTP requests to the registry of keys, with failover to other addresses."""

from __future__ import annotations

import ssl
import time
from collections.abc import Mapping
from typing import Any, Protocol

from kafka_native.schema_registry.rules._interface import SchemaRegistryError

CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
RETRIABLE_STATUSES = {408, 425, 429, 500, 502, 503, 504}
RETRIES_MAX = 3
RETRY_WAIT_S = 0.1
TIMEOUT_S = 30.0
OK_MAX = 299


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
    """Requests with the settings of a schema registry client.

    Parameters
    ----------
    conf : Mapping[str, Any]
        ``url`` has one address, or several with commas between them. ``basic.auth.user.info``,
        ``bearer.auth.token``, ``ssl.ca.location``, ``ssl.certificate.location``,
        ``ssl.key.location``, ``timeout`` and ``max.retries`` have the meaning of the schema
        registry client.

    Raises
    ------
    ImportError
        httpx2 is not installed.
    ValueError
        A setting is missing, or it needs another client.
    """

    def __init__(self, conf: Mapping[str, Any]) -> None:
        try:
            import httpx2
        except ImportError as error:
            raise ImportError(
                "the DEK registry needs httpx2: pip install 'kafka-native[registry]'"
            ) from error
        urls = [url.strip().rstrip("/") for url in str(conf.get("url") or "").split(",")]
        self._urls = [url for url in urls if url]
        if not self._urls:
            raise ValueError("the DEK registry needs the setting url")
        self._retries = int(conf.get("max.retries", RETRIES_MAX))
        if self._retries < 0:
            raise ValueError("max.retries has to be 0 or more")
        self._errors = httpx2.TransportError
        timeout = conf.get("timeout")
        self._client = httpx2.Client(
            verify=_tls(conf) if any(url.startswith("https:") for url in self._urls) else False,
            auth=_basic_auth(conf),
            headers=_headers(conf),
            timeout=TIMEOUT_S if timeout is None else float(timeout),
        )

    def get(self, url: str, query: dict[str, Any] | None = None) -> Any:
        """Return the decoded JSON body of a GET request."""
        return self._request("GET", url, params=query)

    def post(self, url: str, body: dict[str, Any] | None) -> Any:
        """Return the decoded JSON body of a POST request."""
        return self._request("POST", url, json=body)

    def close(self) -> None:
        """Close the connections to the registry."""
        self._client.close()

    def _request(self, method: str, path: str, **options: Any) -> Any:
        tries = [base for _ in range(self._retries + 1) for base in self._urls]
        for number, base in enumerate(tries, 1):
            try:
                response = self._client.request(method, base + path, **options)
            except self._errors:
                if number == len(tries):
                    raise
            else:
                if response.status_code not in RETRIABLE_STATUSES or number == len(tries):
                    break
            rounds, rest = divmod(number, len(self._urls))
            if rest == 0:
                time.sleep(RETRY_WAIT_S * 2 ** (rounds - 1))
        return _decoded(response)


def _decoded(response: Any) -> Any:
    if response.status_code <= OK_MAX:
        return response.json()
    try:
        body = response.json()
        code, message = int(body["error_code"]), str(body["message"])
    except (ValueError, KeyError, TypeError):
        code, message = SchemaRegistryError.UNKNOWN, "the registry answered without a reason"
    raise SchemaRegistryError(response.status_code, code, message)


def _tls(conf: Mapping[str, Any]) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=conf.get("ssl.ca.location"))
    certificate, key = conf.get("ssl.certificate.location"), conf.get("ssl.key.location")
    if key and not certificate:
        raise ValueError("ssl.key.location needs ssl.certificate.location")
    if certificate:
        context.load_cert_chain(certificate, key, conf.get("ssl.key.password"))
    return context


def _basic_auth(conf: Mapping[str, Any]) -> tuple[str, str] | None:
    info = conf.get("basic.auth.user.info")
    if not info:
        return None
    user, colon, password = str(info).partition(":")
    if not colon:
        raise ValueError("basic.auth.user.info has to have the form user:password")
    return user, password


def _headers(conf: Mapping[str, Any]) -> dict[str, str]:
    headers = {"Accept": CONTENT_TYPE, "Content-Type": CONTENT_TYPE}
    source = conf.get("bearer.auth.credentials.source")
    if source not in (None, "STATIC_TOKEN"):
        raise ValueError(
            f"bearer.auth.credentials.source {source} is not supported here: "
            "pass rest_client to DekRegistryClient"
        )
    for setting, name in (
        ("bearer.auth.logical.cluster", "target-sr-cluster"),
        ("bearer.auth.identity.pool.id", "Confluent-Identity-Pool-Id"),
    ):
        if conf.get(setting):
            headers[name] = str(conf[setting])
    if conf.get("bearer.auth.token"):
        headers["Authorization"] = f"Bearer {conf['bearer.auth.token']}"
    return headers
