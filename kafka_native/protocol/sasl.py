"""SaslHandshake and SaslAuthenticate: authentication with SASL."""

from __future__ import annotations

from kafka_native.protocol.api_keys import ApiKey
from kafka_native.protocol.schema import (
    Request,
    Response,
    array,
    data,
    int16,
    int64,
    string,
)


class SaslHandshakeRequest(Request, api_key=ApiKey.SASL_HANDSHAKE, versions="0-1"):
    """Choose a SASL mechanism.

    After version 0, the client sends bare tokens. After version 1, it wraps them in
    SaslAuthenticate.
    """

    mechanism: str = string("0+")


class SaslHandshakeResponse(Response, api_key=ApiKey.SASL_HANDSHAKE, versions="0-1"):
    """Whether the broker enables the mechanism, and its enabled mechanisms."""

    error_code: int = int16("0+")
    mechanisms: list[str] = array(string(), "0+")


class SaslAuthenticateRequest(
    Request, api_key=ApiKey.SASL_AUTHENTICATE, versions="0-2", flexible="2+"
):
    """One step of the SASL exchange, from the client."""

    auth_bytes: bytes = data("0+")


class SaslAuthenticateResponse(
    Response, api_key=ApiKey.SASL_AUTHENTICATE, versions="0-2", flexible="2+"
):
    """One step of the SASL exchange, from the broker."""

    error_code: int = int16("0+")
    # The text may contain a secret, so the client redacts it before it cuts it
    error_message: str | None = string("0+", nullable="0+")
    auth_bytes: bytes = data("0+")
    session_lifetime_ms: int = int64("1+", ignorable=True)
