"""Delegation tokens (KIP-48): create, renew, expire, describe.

No repr shows an HMAC, which is a token's secret.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from kafka_native.protocol.api_keys import ApiKey
from kafka_native.protocol.schema import (
    Request,
    Response,
    Struct,
    array,
    data,
    int16,
    int32,
    int64,
    string,
)

if TYPE_CHECKING:
    from typing_extensions import Self


class CreateDelegationTokenRequest(
    Request, api_key=ApiKey.CREATE_DELEGATION_TOKEN, versions="0-3", flexible="2+"
):
    """Create a token for the client's user or, from version 3 on, for another owner (KIP-373)."""

    class Renewer(Struct):
        """A user who may renew the token, besides its owner."""

        principal_type: str = string("0+")
        principal_name: str = string("0+")

    owner_principal_type: str | None = string("3+", nullable="3+")
    owner_principal_name: str | None = string("3+", nullable="3+")
    renewers: list[Renewer] = array(Renewer, "0+")
    max_lifetime_ms: int = int64("0+")  # -1: the broker's default

    def expressible_versions(self) -> tuple[int, int]:
        """Another owner than the connection's user needs version 3."""
        first = self.min_version if self.owner_principal_name is None else 3
        return first, self.max_version

    def for_version(self, version: int) -> Self:
        """Without an owner for old brokers: the token is for the connection's own user."""
        if version >= 3:
            return self
        message = copy.copy(self)
        message.owner_principal_type = message.owner_principal_name = ""
        return message


class CreateDelegationTokenResponse(
    Response, api_key=ApiKey.CREATE_DELEGATION_TOKEN, versions="0-3", flexible="2+"
):
    """The new token."""

    error_code: int = int16("0+")
    principal_type: str = string("0+")
    principal_name: str = string("0+")
    token_requester_principal_type: str = string("3+")
    token_requester_principal_name: str = string("3+")
    issue_timestamp_ms: int = int64("0+")
    expiry_timestamp_ms: int = int64("0+")
    max_timestamp_ms: int = int64("0+")
    token_id: str = string("0+")
    hmac: bytes = data("0+")
    throttle_time_ms: int = int32("0+")

    def __repr__(self) -> str:
        shown = f"error_code={self.error_code}, token_id={self.token_id!r}"
        return f"CreateDelegationTokenResponse({shown})"


class RenewDelegationTokenRequest(
    Request, api_key=ApiKey.RENEW_DELEGATION_TOKEN, versions="0-2", flexible="2+"
):
    """Extend the lifetime of a token."""

    hmac: bytes = data("0+")
    renew_period_ms: int = int64("0+")  # -1: the broker's default

    def __repr__(self) -> str:
        return f"RenewDelegationTokenRequest(renew_period_ms={self.renew_period_ms})"


class RenewDelegationTokenResponse(
    Response, api_key=ApiKey.RENEW_DELEGATION_TOKEN, versions="0-2", flexible="2+"
):
    """The new expiry time."""

    error_code: int = int16("0+")
    expiry_timestamp_ms: int = int64("0+")
    throttle_time_ms: int = int32("0+")


class ExpireDelegationTokenRequest(
    Request, api_key=ApiKey.EXPIRE_DELEGATION_TOKEN, versions="0-2", flexible="2+"
):
    """Expire a token soon, or now."""

    hmac: bytes = data("0+")
    expiry_time_period_ms: int = int64("0+")  # negative: now

    def __repr__(self) -> str:
        return f"ExpireDelegationTokenRequest(expiry_time_period_ms={self.expiry_time_period_ms})"


class ExpireDelegationTokenResponse(
    Response, api_key=ApiKey.EXPIRE_DELEGATION_TOKEN, versions="0-2", flexible="2+"
):
    """The new expiry time."""

    error_code: int = int16("0+")
    expiry_timestamp_ms: int = int64("0+")
    throttle_time_ms: int = int32("0+")


class DescribeDelegationTokenRequest(
    Request, api_key=ApiKey.DESCRIBE_DELEGATION_TOKEN, versions="0-3", flexible="2+"
):
    """Ask for the tokens of owners. ``owners=None`` means all tokens that the user may see."""

    class Owner(Struct):
        """An owner."""

        principal_type: str = string("0+")
        principal_name: str = string("0+")

    owners: list[Owner] | None = array(Owner, "0+", nullable="0+")


class DescribeDelegationTokenResponse(
    Response, api_key=ApiKey.DESCRIBE_DELEGATION_TOKEN, versions="0-3", flexible="2+"
):
    """The tokens."""

    class Token(Struct):
        """A token."""

        class Renewer(Struct):
            """A user who may renew it."""

            principal_type: str = string("0+")
            principal_name: str = string("0+")

        principal_type: str = string("0+")
        principal_name: str = string("0+")
        token_requester_principal_type: str = string("3+")
        token_requester_principal_name: str = string("3+")
        issue_timestamp: int = int64("0+")
        expiry_timestamp: int = int64("0+")
        max_timestamp: int = int64("0+")
        token_id: str = string("0+")
        hmac: bytes = data("0+")
        renewers: list[Renewer] = array(Renewer, "0+")

        def __repr__(self) -> str:
            return f"Token(token_id={self.token_id!r}, principal_name={self.principal_name!r})"

    error_code: int = int16("0+")
    tokens: list[Token] = array(Token, "0+")
    throttle_time_ms: int = int32("0+")
