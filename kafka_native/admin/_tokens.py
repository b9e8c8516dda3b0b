"""Delegation tokens as AdminClient tells them (KIP-48)."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field


@dataclass(frozen=True)
class KafkaPrincipal:
    """Somebody whom brokers know."""

    principal_type: str
    """``User``, unless the brokers have a ``principal.builder.class`` that makes others."""
    name: str

    def __str__(self) -> str:
        return f"{self.principal_type}:{self.name}"


@dataclass(frozen=True)
class TokenInformation:
    """What may be told of a delegation token. Times are milliseconds since 1970."""

    token_id: str
    owner: KafkaPrincipal
    """Whom it stands for."""
    token_requester: KafkaPrincipal
    """Who asked for it (KIP-373); the owner, where a broker is too old to tell."""
    renewers: list[KafkaPrincipal]
    """Who may renew it besides."""
    issue_timestamp: int
    expiry_timestamp: int
    """When it ends unless it is renewed."""
    max_timestamp: int
    """When it ends in any case."""


@dataclass(frozen=True)
class DelegationToken:
    """A delegation token. Who has the HMAC is let in as its owner: no repr shows it.

    ``sasl.username`` is ``token_info.token_id``, ``sasl.password`` is `hmac_as_base64`, and ``sasl.scram.tokenauth``
    is true.
    """

    token_info: TokenInformation
    hmac: bytes = field(repr=False)

    @property
    def hmac_as_base64(self) -> str:
        """The HMAC as clients log in with it."""
        return base64.b64encode(self.hmac).decode()
