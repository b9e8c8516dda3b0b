"""The declarations of all Kafka messages, with the codec that encodes and decodes them.

    from kafka_native.protocol import ApiKey, decode_response, encode_request
    from kafka_native.protocol.metadata import MetadataRequest

    frame = encode_request(MetadataRequest(topics=None), 12, correlation_id=1, client_id="me")

``schema`` has the language of declarations. One module per family of APIs has the messages.
``registry`` finds messages by API key. ``headers`` and ``frames`` add the header.
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
