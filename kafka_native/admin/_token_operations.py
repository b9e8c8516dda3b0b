"""The operations about delegation tokens (KIP-48), on the control thread. Any broker is asked: it passes changes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafka_native.admin._tokens import DelegationToken, KafkaPrincipal, TokenInformation
from kafka_native.admin._topic_operations import told
from kafka_native.control.operations import Operation, Same, Settle, Steps
from kafka_native.protocol.delegation_tokens import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from kafka_native.protocol.schema import Request

Make = Callable[[list[Any]], Request]


def new_token(
    owner: KafkaPrincipal | None, renewers: list[KafkaPrincipal], max_lifetime_ms: int, items: list[Any]
) -> Request:
    """The request."""
    kind = CreateDelegationTokenRequest.Renewer
    return CreateDelegationTokenRequest(
        owner_principal_type=None if owner is None else owner.principal_type,
        owner_principal_name=None if owner is None else owner.name,
        renewers=[kind(principal_type=each.principal_type, principal_name=each.name) for each in renewers],
        max_lifetime_ms=max_lifetime_ms,
    )


def create(
    renewers: list[KafkaPrincipal], make: Make, items: dict[Any, Any], settle: Settle, operation: Operation
) -> Steps[None]:
    """CreateDelegationToken; settles the one item."""

    def outcomes(reply: CreateDelegationTokenResponse, target: int | None) -> Same:
        return Same(told(reply.error_code) or _created(reply, renewers))

    return operation.rounds(items, operation.anywhere, make, outcomes, settle, change=True)


def _created(reply: CreateDelegationTokenResponse, renewers: list[KafkaPrincipal]) -> DelegationToken:
    owner = KafkaPrincipal(reply.principal_type, reply.principal_name)
    requester = KafkaPrincipal(reply.token_requester_principal_type, reply.token_requester_principal_name)
    information = TokenInformation(
        reply.token_id,
        owner,
        requester if requester.name else owner,
        renewers,
        reply.issue_timestamp_ms,
        reply.expiry_timestamp_ms,
        reply.max_timestamp_ms,
    )
    return DelegationToken(information, bytes(reply.hmac))


def renewal(period_ms: int, hmacs: list[bytes]) -> Request:
    """The request."""
    return RenewDelegationTokenRequest(hmac=hmacs[0], renew_period_ms=period_ms)


def expiry(period_ms: int, hmacs: list[bytes]) -> Request:
    """The request."""
    return ExpireDelegationTokenRequest(hmac=hmacs[0], expiry_time_period_ms=period_ms)


def change_end(make: Make, items: dict[Any, Any], settle: Settle, operation: Operation) -> Steps[None]:
    """RenewDelegationToken and ExpireDelegationToken; settles the one item with when the token ends."""

    def outcomes(reply: Any, target: int | None) -> Same:
        return Same(told(reply.error_code) or reply.expiry_timestamp_ms)

    return operation.rounds(items, operation.anywhere, make, outcomes, settle, change=True)


def of_owners(owners: list[KafkaPrincipal] | None, items: list[Any]) -> Request:
    """The request."""
    kind = DescribeDelegationTokenRequest.Owner
    found = None if owners is None else [kind(principal_type=e.principal_type, principal_name=e.name) for e in owners]
    return DescribeDelegationTokenRequest(owners=found)


def describe(make: Make, items: dict[Any, Any], settle: Settle, operation: Operation) -> Steps[None]:
    """DescribeDelegationToken; settles the one item."""

    def outcomes(reply: DescribeDelegationTokenResponse, target: int | None) -> Same:
        return Same(told(reply.error_code) or [_described(each) for each in reply.tokens])

    return operation.rounds(items, operation.anywhere, make, outcomes, settle, change=False)


def _described(token: DescribeDelegationTokenResponse.Token) -> DelegationToken:
    owner = KafkaPrincipal(token.principal_type, token.principal_name)
    requester = KafkaPrincipal(token.token_requester_principal_type, token.token_requester_principal_name)
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
