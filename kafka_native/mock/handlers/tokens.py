"""Delegation tokens (KIP-48): create, renew, expire, describe. SCRAM accepts the tokens."""

from __future__ import annotations

import base64
import secrets
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from kafka_native._reference.error_codes import ErrorCode
from kafka_native.mock.accounts import DelegationToken
from kafka_native.protocol.delegation_tokens import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

if TYPE_CHECKING:
    from kafka_native.mock.call import Call

MAX_LIFETIME_MS = 7 * 24 * 3600 * 1000
EXPIRY_MS = 24 * 3600 * 1000
USER = "User"


class _Refused(Exception):
    """A request that fails, with the error code for the client."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


def _tokens(call: Call) -> dict[str, DelegationToken]:
    """Return all tokens by id. Call it under the lock. Raises ``_Refused``."""
    if call.cluster.sasl is None:
        raise _Refused(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    if call.connection.login.is_by_token:
        raise _Refused(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    tokens = call.cluster.sasl.accounts.tokens
    for over in [name for name, each in tokens.items() if each.is_over()]:
        del tokens[over]
    return tokens


def _user(call: Call) -> str:
    return call.connection.login.principal.removeprefix(f"{USER}:")


def _now_ms() -> int:
    return int(time.time() * 1000)


def create(call: Call, request: CreateDelegationTokenRequest) -> CreateDelegationTokenResponse:
    """Create a delegation token."""
    requester = _user(call)
    types = {each.principal_type for each in request.renewers} | {
        request.owner_principal_type or USER
    }
    lifetime_ms = (
        MAX_LIFETIME_MS
        if request.max_lifetime_ms < 0
        else min(request.max_lifetime_ms, MAX_LIFETIME_MS)
    )
    now, hmac, name = _now_ms(), secrets.token_bytes(64), secrets.token_urlsafe(16)
    token = DelegationToken(
        request.owner_principal_name or requester,
        base64.b64encode(hmac).decode(),
        requester,
        tuple(each.principal_name for each in request.renewers),
        now,
        now + min(EXPIRY_MS, lifetime_ms),
        now + lifetime_ms,
    )
    with call.cluster.lock:
        try:
            tokens = _tokens(call)
            if types != {USER}:
                raise _Refused(ErrorCode.INVALID_PRINCIPAL_TYPE)
        except _Refused as refused:
            return CreateDelegationTokenResponse(error_code=refused.code)
        tokens[name] = token
    response = CreateDelegationTokenResponse(
        principal_type=USER, principal_name=token.owner, token_id=name, hmac=hmac
    )
    if call.version >= 3:
        response.token_requester_principal_type, response.token_requester_principal_name = (
            USER,
            requester,
        )
    response.issue_timestamp_ms, response.expiry_timestamp_ms = token.issue_ms, token.expiry_ms
    response.max_timestamp_ms = token.max_ms
    return response


def renew(call: Call, request: RenewDelegationTokenRequest) -> RenewDelegationTokenResponse:
    """Move the expiry of a token to a later time."""
    period_ms = EXPIRY_MS if request.renew_period_ms < 0 else request.renew_period_ms
    try:
        return RenewDelegationTokenResponse(
            expiry_timestamp_ms=_set_expiry(call, request.hmac, period_ms)
        )
    except _Refused as refused:
        return RenewDelegationTokenResponse(error_code=refused.code)


def expire(call: Call, request: ExpireDelegationTokenRequest) -> ExpireDelegationTokenResponse:
    """Move the expiry of a token to an earlier time, or to now."""
    period_ms = max(0, request.expiry_time_period_ms)
    try:
        return ExpireDelegationTokenResponse(
            expiry_timestamp_ms=_set_expiry(call, request.hmac, period_ms)
        )
    except _Refused as refused:
        return ExpireDelegationTokenResponse(error_code=refused.code)


def _set_expiry(call: Call, hmac: bytes, period_ms: int) -> int:
    """Set the expiry of a token from now on, and return the new expiry. Raises ``_Refused``."""
    text = base64.b64encode(hmac).decode()
    with call.cluster.lock:
        tokens = _tokens(call)
        for name, token in tokens.items():
            if token.hmac == text:
                if not token.may_renew(_user(call)):
                    raise _Refused(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
                end_ms = min(token.max_ms, _now_ms() + period_ms)
                tokens[name] = replace(token, expiry_ms=end_ms)
                return end_ms
    raise _Refused(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)


def describe(
    call: Call, request: DescribeDelegationTokenRequest
) -> DescribeDelegationTokenResponse:
    """Return the tokens that the client may renew, of these owners or of all."""
    kind = DescribeDelegationTokenResponse.Token
    owners = None if request.owners is None else {each.principal_name for each in request.owners}
    with call.cluster.lock:
        try:
            found = {
                name: each for name, each in _tokens(call).items() if each.may_renew(_user(call))
            }
        except _Refused as refused:
            return DescribeDelegationTokenResponse(error_code=refused.code)
    response = DescribeDelegationTokenResponse()
    for name, token in found.items():
        if owners is not None and token.owner not in owners:
            continue
        described = kind(principal_type=USER, principal_name=token.owner, token_id=name)
        described.hmac = base64.b64decode(token.hmac)
        described.issue_timestamp, described.expiry_timestamp = token.issue_ms, token.expiry_ms
        described.max_timestamp = token.max_ms
        described.renewers = [
            kind.Renewer(principal_type=USER, principal_name=each) for each in token.renewers
        ]
        if call.version >= 3:
            described.token_requester_principal_type, described.token_requester_principal_name = (
                USER,
                token.requester,
            )
        response.tokens.append(described)
    return response
