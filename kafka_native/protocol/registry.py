"""Every declared request and response by its API key."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from kafka_native._native.wire import ProtocolError
from kafka_native.protocol.api_keys import ApiKey
from kafka_native.protocol.schema import Message, Request, Response

if TYPE_CHECKING:
    from collections.abc import Iterator

FAMILIES = (
    "acls",
    "configs",
    "coordinator",
    "delegation_tokens",
    "fetch",
    "group_admin",
    "groups",
    "metadata",
    "offsets",
    "partitions",
    "produce",
    "quorum",
    "quotas",
    "sasl",
    "share",
    "streams",
    "telemetry",
    "topics",
    "transactions",
    "users",
    "versions",
)


class UnsupportedVersion(ProtocolError):
    """A request whose API or version is not declared here.

    ``api_key``, ``api_version`` and ``correlation_id`` are those of the frame, so that a server can still answer.
    """

    def __init__(self, api_key: int, version: int, correlation_id: int = -1) -> None:
        """Keep what identifies the request."""
        name = request(api_key).__name__ if api_key in _requests else f"API {api_key}"
        versions = f", the versions are {request(api_key).versions}" if api_key in _requests else ""
        super().__init__(f"not supported{versions}", name, version)
        self.api_key = api_key
        self.api_version = version
        self.correlation_id = correlation_id


_requests: dict[int, type[Request]] = {}
_responses: dict[int, type[Response]] = {}


def _load() -> None:
    for family in FAMILIES:
        for value in vars(import_module(f"kafka_native.protocol.{family}")).values():
            if not isinstance(value, type) or not issubclass(value, Message) or not hasattr(value, "api_key"):
                continue
            if issubclass(value, Request):
                _requests[value.api_key] = value
            elif issubclass(value, Response):
                _responses[value.api_key] = value


def request(api_key: int) -> type[Request]:
    """The request of an API; ``KeyError`` where it is not declared."""
    return _requests[api_key]


def response(api_key: int) -> type[Response]:
    """The response of an API; ``KeyError`` where it is not declared."""
    return _responses[api_key]


def api_keys() -> Iterator[ApiKey]:
    """The APIs declared here, in ascending order."""
    return (ApiKey(key) for key in sorted(_requests))


def messages() -> Iterator[type[Message]]:
    """Every declared request and response."""
    for key in api_keys():
        yield _requests[key]
        yield _responses[key]


_load()
