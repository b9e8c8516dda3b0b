"""Frames: a header and a body, without the length of four bytes before them.

The decoders ignore bytes after a body, as Kafka itself does. librdkafka's Metadata request for all
topics ends with three such bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_native._native import decoder
from kafka_native.protocol import registry
from kafka_native.protocol.api_keys import ApiKey
from kafka_native.protocol.headers import (
    RequestHeader,
    ResponseHeader,
    request_header_version,
    response_header_version,
)
from kafka_native.protocol.registry import UnsupportedVersion

if TYPE_CHECKING:
    from kafka_native.protocol.schema import Request, Response

# Kafka's error code 35 at the start of a response
_UNSUPPORTED_VERSION = b"\x00\x23"


def encode_request(
    message: Request, version: int, correlation_id: int, client_id: str | None
) -> bytes:
    """Return a request frame."""
    key = message.api_key
    header = RequestHeader(
        request_api_key=key,
        request_api_version=version,
        correlation_id=correlation_id,
        client_id=client_id,
    )
    return message.encode(version, header.encode(request_header_version(key, version)))


def decode_request(frame: bytes | bytearray | memoryview) -> tuple[RequestHeader, Request]:
    """Decode a request frame. Record fields are memoryviews into ``frame``.

    :raises UnsupportedVersion: The API or version isn't declared.
    :raises ProtocolError: The frame is malformed.
    """
    start, _ = decoder.decode_prefix(RequestHeader.plan(0), frame)
    key, version = start.request_api_key, start.request_api_version
    try:
        cls = registry.request(key)
    except KeyError:
        raise UnsupportedVersion(key, version, start.correlation_id) from None
    if not cls.versions.has(version):
        raise UnsupportedVersion(key, version, start.correlation_id)
    header, end = decoder.decode_prefix(
        RequestHeader.plan(request_header_version(key, version)), frame
    )
    return header, cls.decode(frame, version, end, whole=False)


def encode_response(message: Response, version: int, correlation_id: int) -> bytes:
    """Return a response frame."""
    header = ResponseHeader(correlation_id=correlation_id)
    return message.encode(version, header.encode(response_header_version(message.api_key, version)))


def decode_response(
    api_key: int, version: int, frame: bytes | bytearray | memoryview
) -> tuple[int, Response]:
    """Return the correlation id and the body of a response to a request of this API and version.

    A broker that refuses a version of ApiVersions responds in version 0. The function decodes that,
    too.
    """
    plan = ResponseHeader.plan(response_header_version(api_key, version))
    header, end = decoder.decode_prefix(plan, frame)
    if api_key == ApiKey.API_VERSIONS and bytes(frame[end : end + 2]) == _UNSUPPORTED_VERSION:
        version = 0
    return header.correlation_id, registry.response(api_key).decode(
        frame, version, end, whole=False
    )
