"""Whole frames: a header and a body, without the four bytes of length in front of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_native._native import wire
from kafka_native.protocol import registry
from kafka_native.protocol.headers import (
    RequestHeader,
    ResponseHeader,
    request_header_version,
    response_header_version,
)
from kafka_native.protocol.registry import UnsupportedVersion

if TYPE_CHECKING:
    from kafka_native.protocol.schema import Request, Response


def encode_request(message: Request, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """A request frame."""
    key = message.api_key
    header = RequestHeader(
        request_api_key=key, request_api_version=version, correlation_id=correlation_id, client_id=client_id
    )
    return message.encode(version, header.encode(request_header_version(key, version)))


def decode_request(frame: bytes | bytearray | memoryview) -> tuple[RequestHeader, Request]:
    """Read a request frame; ``UnsupportedVersion`` for an API or version not declared, ``ProtocolError`` for garbage.

    Record fields are memoryviews into ``frame``.
    """
    start, _ = wire.decode_prefix(RequestHeader.plan(0), frame)
    key, version = start.request_api_key, start.request_api_version
    try:
        cls = registry.request(key)
    except KeyError:
        raise UnsupportedVersion(key, version, start.correlation_id) from None
    if not cls.versions.has(version):
        raise UnsupportedVersion(key, version, start.correlation_id)
    header, end = wire.decode_prefix(RequestHeader.plan(request_header_version(key, version)), frame)
    return header, cls.decode(frame, version, end)


def encode_response(message: Response, version: int, correlation_id: int) -> bytes:
    """A response frame."""
    header = ResponseHeader(correlation_id=correlation_id)
    return message.encode(version, header.encode(response_header_version(message.api_key, version)))


def decode_response(api_key: int, version: int, frame: bytes | bytearray | memoryview) -> tuple[int, Response]:
    """The correlation id and the body of a response frame to a request of this API and version."""
    plan = ResponseHeader.plan(response_header_version(api_key, version))
    header, end = wire.decode_prefix(plan, frame)
    return header.correlation_id, registry.response(api_key).decode(frame, version, end)
