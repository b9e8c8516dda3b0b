"""Request and response headers, and which version of them a message travels with."""

from __future__ import annotations

from kafka_native.protocol import registry
from kafka_native.protocol.api_keys import ApiKey
from kafka_native.protocol.schema import Versioned, int16, int32, string


class RequestHeader(Versioned, versions="0-2", flexible="2+"):
    """What every request begins with. Version 0 knows no client id; 2 adds tagged fields."""

    request_api_key: int = int16("0+")
    request_api_version: int = int16("0+")
    correlation_id: int = int32("0+")
    client_id: str | None = string("1+", nullable="1+", flexible=False)


class ResponseHeader(Versioned, versions="0-1", flexible="1+"):
    """What every response begins with."""

    correlation_id: int = int32("0+")


def request_header_version(api_key: int, version: int) -> int:
    """The header that a request of this version has: 2 where the version is flexible, 1 otherwise."""
    return 2 if registry.request(api_key).flexible.has(version) else 1


def response_header_version(api_key: int, version: int) -> int:
    """The header that a response of this version has: 1 where the version is flexible, and always 0 for ApiVersions."""
    if api_key == ApiKey.API_VERSIONS:
        return 0
    return 1 if registry.response(api_key).flexible.has(version) else 0
