"""Delegation tokens (KIP-48). Any broker accepts the requests and forwards changes."""

from __future__ import annotations

import base64
from concurrent.futures import Future
from dataclasses import dataclass, field

from kafka_native.admin.base import INT64_MAX, AdminBase, error_or_none, list_of, number
from kafka_native.control.operations import AdminOperation, Operation
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


@dataclass(frozen=True)
class KafkaPrincipal:
    """A user or other principal that the brokers know."""

    principal_type: str
    """``User``, unless the brokers' ``principal.builder.class`` makes other types."""
    name: str

    def __str__(self) -> str:
        return f"{self.principal_type}:{self.name}"


@dataclass(frozen=True)
class TokenInformation:
    """The public data of a delegation token. Times are milliseconds since 1970."""

    token_id: str
    owner: KafkaPrincipal
    """The principal that the token authenticates."""
    token_requester: KafkaPrincipal
    """The principal that requested it (KIP-373); the owner if the broker doesn't return it."""
    renewers: list[KafkaPrincipal]
    """Other principals that may renew it."""
    issue_timestamp: int
    expiry_timestamp: int
    """When it ends, unless it is renewed."""
    max_timestamp: int
    """When it ends at the latest."""


@dataclass(frozen=True)
class DelegationToken:
    """A delegation token. The HMAC authenticates as its owner, so no repr shows it.

    To use it, set ``sasl.username`` to ``token_info.token_id``, ``sasl.password`` to
    `hmac_as_base64`, and ``sasl.scram.tokenauth`` to true.
    """

    token_info: TokenInformation
    hmac: bytes = field(repr=False)

    @property
    def hmac_as_base64(self) -> str:
        """The HMAC in the form of a client's password."""
        return base64.b64encode(self.hmac).decode()


# --- requests ---


def _create_token(
    owner: KafkaPrincipal | None, renewers: list[KafkaPrincipal], max_lifetime_ms: int
) -> AdminOperation[None, None, CreateDelegationTokenResponse, DelegationToken]:
    renewer = CreateDelegationTokenRequest.Renewer
    request = CreateDelegationTokenRequest(
        owner_principal_type=None if owner is None else owner.principal_type,
        owner_principal_name=None if owner is None else owner.name,
        renewers=[
            renewer(principal_type=each.principal_type, principal_name=each.name)
            for each in renewers
        ],
        max_lifetime_ms=max_lifetime_ms,
    )
    return AdminOperation(
        destination=Operation.anywhere,
        request=lambda _: request,
        outcomes=lambda response, portion: {
            None: error_or_none(response.error_code) or _created(response, renewers)
        },
        change=True,
    )


def _created(
    response: CreateDelegationTokenResponse, renewers: list[KafkaPrincipal]
) -> DelegationToken:
    owner = KafkaPrincipal(response.principal_type, response.principal_name)
    requester = KafkaPrincipal(
        response.token_requester_principal_type, response.token_requester_principal_name
    )
    information = TokenInformation(
        response.token_id,
        owner,
        requester if requester.name else owner,
        renewers,
        response.issue_timestamp_ms,
        response.expiry_timestamp_ms,
        response.max_timestamp_ms,
    )
    return DelegationToken(information, bytes(response.hmac))


RENEW_TOKEN: AdminOperation[
    None, RenewDelegationTokenRequest, RenewDelegationTokenResponse, int
] = AdminOperation(
    destination=Operation.anywhere,
    request=lambda requests: requests[0],
    outcomes=lambda response, portion: {
        None: error_or_none(response.error_code) or response.expiry_timestamp_ms
    },
    change=True,
)
EXPIRE_TOKEN: AdminOperation[
    None, ExpireDelegationTokenRequest, ExpireDelegationTokenResponse, int
] = AdminOperation(
    destination=Operation.anywhere,
    request=lambda requests: requests[0],
    outcomes=lambda response, portion: {
        None: error_or_none(response.error_code) or response.expiry_timestamp_ms
    },
    change=True,
)


def _describe_request(owners: list[KafkaPrincipal] | None) -> DescribeDelegationTokenRequest:
    kind = DescribeDelegationTokenRequest.Owner
    found = (
        None
        if owners is None
        else [kind(principal_type=e.principal_type, principal_name=e.name) for e in owners]
    )
    return DescribeDelegationTokenRequest(owners=found)


DESCRIBE_TOKENS: AdminOperation[
    None, list[KafkaPrincipal] | None, DescribeDelegationTokenResponse, list[DelegationToken]
] = AdminOperation(
    destination=Operation.anywhere,
    request=lambda owners: _describe_request(owners[0]),
    outcomes=lambda response, portion: {
        None: error_or_none(response.error_code) or [_described(each) for each in response.tokens]
    },
    change=False,
)


def _described(token: DescribeDelegationTokenResponse.Token) -> DelegationToken:
    owner = KafkaPrincipal(token.principal_type, token.principal_name)
    requester = KafkaPrincipal(
        token.token_requester_principal_type, token.token_requester_principal_name
    )
    information = TokenInformation(
        token.token_id,
        owner,
        requester if requester.name else owner,
        [KafkaPrincipal(each.principal_type, each.principal_name) for each in token.renewers],
        token.issue_timestamp,
        token.expiry_timestamp,
        token.max_timestamp,
    )
    return DelegationToken(information, bytes(token.hmac))


class TokensAdmin(AdminBase):
    """Calls about delegation tokens."""

    def create_delegation_token(
        self,
        *,
        owner: KafkaPrincipal | None = None,
        renewers: list[KafkaPrincipal] | None = None,
        max_lifetime_ms: int = -1,
        request_timeout: float = -1,
    ) -> Future[DelegationToken]:
        """Creates a delegation token (KIP-48).

        :param owner: The principal that it authenticates (KIP-373: brokers since 3.3); None: this
            client's own principal.
        :param renewers: The principals that may renew it, besides its owner.
        :param max_lifetime_ms: How long it can be renewed, in milliseconds; -1: as long as the
            broker allows.
        :return: One future; KafkaException, for instance DELEGATION_TOKEN_REQUEST_NOT_ALLOWED for a
            client that isn't authenticated, or that is authenticated by a token.
        """
        if owner is not None:
            _check_principals([owner])
        allowed = _check_principals(renewers or [])
        kind = _create_token(
            owner, allowed, number("max_lifetime_ms", max_lifetime_ms, -1, INT64_MAX)
        )
        return self._start_one(kind, None, self._request_timeout(request_timeout))

    def renew_delegation_token(
        self, hmac: bytes, *, renew_time_period_ms: int = -1, request_timeout: float = -1
    ) -> Future[int]:
        """Extends the life of a token (KIP-48).

        :param hmac: Its HMAC.
        :param renew_time_period_ms: The new life from now on, in milliseconds; -1: the broker
            decides.
        :return: One future: its new end, in milliseconds since 1970.
        """
        period_ms = number("renew_time_period_ms", renew_time_period_ms, -1, INT64_MAX)
        request = RenewDelegationTokenRequest(hmac=_checked_hmac(hmac), renew_period_ms=period_ms)
        return self._start_one(RENEW_TOKEN, request, self._request_timeout(request_timeout))

    def expire_delegation_token(
        self, hmac: bytes, *, expiry_time_period_ms: int = -1, request_timeout: float = -1
    ) -> Future[int]:
        """Ends a token (KIP-48).

        :param hmac: Its HMAC.
        :param expiry_time_period_ms: The time until its end, in milliseconds; -1: at once.
        :return: One future: its new end, in milliseconds since 1970.
        """
        period_ms = number("expiry_time_period_ms", expiry_time_period_ms, -1, INT64_MAX)
        request = ExpireDelegationTokenRequest(
            hmac=_checked_hmac(hmac), expiry_time_period_ms=period_ms
        )
        return self._start_one(EXPIRE_TOKEN, request, self._request_timeout(request_timeout))

    def describe_delegation_token(
        self, owners: list[KafkaPrincipal] | None = None, *, request_timeout: float = -1
    ) -> Future[list[DelegationToken]]:
        """Describes the tokens that this client may see (KIP-48).

        :param owners: Only tokens of these owners; None: all.
        :return: One future.
        """
        asked = None if owners is None else _check_principals(owners)
        return self._start_one(DESCRIBE_TOKENS, asked, self._request_timeout(request_timeout))


def _checked_hmac(given: object) -> bytes:
    if not isinstance(given, bytes):
        raise TypeError(f"'hmac' must be bytes, not {type(given).__name__}")
    if not given:
        raise ValueError("'hmac' cannot be empty")
    return given


def _check_principals(given: object) -> list[KafkaPrincipal]:
    found = list_of(given, KafkaPrincipal, length_min=0)
    for each in found:
        for text in (each.principal_type, each.name):
            if not isinstance(text, str):
                raise TypeError(f"a principal's type and name are str, not {type(text).__name__}")
            if not text:
                raise ValueError("a principal's type and name cannot be empty")
    return found
