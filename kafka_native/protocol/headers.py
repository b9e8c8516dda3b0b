"""Request and response headers, and the version of the header for each message."""

from __future__ import annotations

from kafka_native.protocol import registry
from kafka_native.protocol.api_keys import ApiKey
from kafka_native.protocol.schema import Versioned, int16, int32, string


class RequestHeader(Versioned, versions="0-2", flexible="2+"):
    """The header of every request. Version 0 has no client id. Version 2 adds tagged fields."""

    request_api_key: int = int16("0+")
    request_api_version: int = int16("0+")
    correlation_id: int = int32("0+")
    client_id: str | None = string("1+", nullable="1+", flexible=False)


class ResponseHeader(Versioned, versions="0-1", flexible="1+"):
    """The header of every response."""

    correlation_id: int = int32("0+")


def request_header_version(api_key: int, version: int) -> int:
    """Return the header version of a request: 2 if the version is flexible, otherwise 1."""
    return 2 if registry.request(api_key).flexible.has(version) else 1


def response_header_version(api_key: int, version: int) -> int:
    """Return the header version of a response: 1 if the version is flexible, otherwise 0.

    ApiVersions always has 0.
    """
    if api_key == ApiKey.API_VERSIONS:
        return 0
    return 1 if registry.response(api_key).flexible.has(version) else 0
