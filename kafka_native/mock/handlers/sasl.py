"""SaslHandshake and SaslAuthenticate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_native.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

if TYPE_CHECKING:
    from kafka_native.mock.call import Call


def handshake(call: Call, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """Choose the connection's SASL mechanism."""
    login = call.connection.login
    code = login.handshake(request.mechanism, call.version)
    return SaslHandshakeResponse(error_code=code, mechanisms=login.mechanisms)


def authenticate(call: Call, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse | None:
    """Process the client's next SASL token."""
    answer = call.connection.login.step(request.auth_bytes)
    if answer is None:
        return None
    return SaslAuthenticateResponse(
        error_code=answer.code,
        error_message=answer.text,
        auth_bytes=answer.token,
        session_lifetime_ms=answer.lifetime_ms,
    )
