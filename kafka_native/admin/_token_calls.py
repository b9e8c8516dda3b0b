"""Calls about delegation tokens (KIP-48)."""

from __future__ import annotations

from concurrent.futures import Future
from functools import partial
from typing import Any

from kafka_native.admin import _token_operations as token_operations
from kafka_native.admin._calls import Calls
from kafka_native.admin._checks import list_of, number
from kafka_native.admin._tokens import DelegationToken, KafkaPrincipal

INT64 = 1 << 63


class TokenCalls(Calls):
    """Calls about delegation tokens (KIP-48)."""

    def create_delegation_token(
        self,
        *,
        owner: KafkaPrincipal | None = None,
        renewers: list[KafkaPrincipal] | None = None,
        max_lifetime_ms: int = -1,
        request_timeout: float = -1,
    ) -> Future[DelegationToken]:
        """Makes a delegation token (KIP-48).

        :param owner: Whom it stands for (KIP-373: brokers from 3.3 on); None: who this client has logged in as.
        :param renewers: Who may renew it, besides its owner.
        :param max_lifetime_ms: How long it can be renewed for, in milliseconds; -1: as long as the broker allows.
        :return: One future; KafkaException, for instance DELEGATION_TOKEN_REQUEST_NOT_ALLOWED for a client that isn't
            logged in, or is by a token.
        """
        if owner is not None:
            _check_principals([owner])
        allowed = _check_principals(renewers or [])
        lifetime_ms = number("max_lifetime_ms", max_lifetime_ms, -1, INT64)
        make = partial(token_operations.new_token, owner, allowed, lifetime_ms)
        timeout_s = self._request_timeout(request_timeout)
        return self._begin([(None, None)], make, partial(token_operations.create, allowed), timeout_s)[None]

    def renew_delegation_token(
        self, hmac: bytes, *, renew_time_period_ms: int = -1, request_timeout: float = -1
    ) -> Future[int]:
        """Lets a token live on (KIP-48).

        :param hmac: Its HMAC.
        :param renew_time_period_ms: For how long from now on, in milliseconds; -1: the broker decides.
        :return: One future: when it ends now, in milliseconds since 1970.
        """
        make = partial(token_operations.renewal, number("renew_time_period_ms", renew_time_period_ms, -1, INT64))
        return self._change_end(hmac, make, request_timeout)

    def expire_delegation_token(
        self, hmac: bytes, *, expiry_time_period_ms: int = -1, request_timeout: float = -1
    ) -> Future[int]:
        """Lets a token end (KIP-48).

        :param hmac: Its HMAC.
        :param expiry_time_period_ms: When, in milliseconds from now; -1: at once.
        :return: One future: when it ends, in milliseconds since 1970.
        """
        make = partial(token_operations.expiry, number("expiry_time_period_ms", expiry_time_period_ms, -1, INT64))
        return self._change_end(hmac, make, request_timeout)

    def _change_end(self, hmac: bytes, make: Any, request_timeout: float) -> Future[int]:
        if not isinstance(hmac, bytes):
            raise TypeError(f"'hmac' must be bytes, not {type(hmac).__name__}")
        if not hmac:
            raise ValueError("'hmac' cannot be empty")
        timeout_s = self._request_timeout(request_timeout)
        return self._begin([(None, hmac)], make, token_operations.change_end, timeout_s)[None]

    def describe_delegation_token(
        self, owners: list[KafkaPrincipal] | None = None, *, request_timeout: float = -1
    ) -> Future[list[DelegationToken]]:
        """Tells the tokens that this client may know of (KIP-48).

        :param owners: Only those that stand for these; None: all.
        :return: One future.
        """
        asked = None if owners is None else _check_principals(owners)
        make, timeout_s = partial(token_operations.of_owners, asked), self._request_timeout(request_timeout)
        return self._begin([(None, None)], make, token_operations.describe, timeout_s)[None]


def _check_principals(given: Any) -> list[KafkaPrincipal]:
    found = list_of(given, KafkaPrincipal, least=0)
    for each in found:
        for text in (each.principal_type, each.name):
            if not isinstance(text, str):
                raise TypeError(f"a principal's type and name are str, not {type(text).__name__}")
            if not text:
                raise ValueError("a principal's type and name cannot be empty")
    return found
