"""Every Kafka message, declared once, with the codec that runs the declarations.

    from kafka_native.protocol import ApiKey, decode_response, encode_request
    from kafka_native.protocol.metadata import MetadataRequest

    frame = encode_request(MetadataRequest(topics=None), 12, correlation_id=1, client_id="me")

``schema`` is how messages are declared, one module a family declares them, ``registry`` finds them by API key,
``headers`` and ``frames`` put a header in front.
"""

from __future__ import annotations

from kafka_native._native.wire import ProtocolError
from kafka_native.protocol import headers, registry
from kafka_native.protocol.api_keys import ApiKey
from kafka_native.protocol.frames import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from kafka_native.protocol.registry import UnsupportedVersion

__all__ = [
    "ApiKey",
    "ProtocolError",
    "UnsupportedVersion",
    "decode_request",
    "decode_response",
    "encode_request",
    "encode_response",
    "headers",
    "registry",
]
