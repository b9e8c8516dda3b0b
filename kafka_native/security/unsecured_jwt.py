"""Unsigned tokens (RFC 7519, section 6), for development with brokers that don't verify tokens."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable

from kafka_native.security.mechanisms import SaslError, shown
from kafka_native.security.oauthbearer import Token

EXTENSION_PREFIX = "extension_"
KNOWN_NAMES = {"principal", "principalClaimName", "scope", "scopeClaimName", "lifeSeconds"}


def unsecured_source(config: str, clock: Callable[[], float] = time.time) -> Callable[[], Token]:
    """Return a source of tokens as ``sasl.oauthbearer.config`` describes them.

    The format is librdkafka's: ``principal=NAME`` and, separated by blanks, ``principalClaimName``
    (default: sub), ``scope`` (comma-separated), ``scopeClaimName`` (default: scope),
    ``lifeSeconds`` (default: 3600) and ``extension_NAME``.

    :raises SaslError: The description is invalid.
    """
    pairs = [part.partition("=") for part in config.split()]
    values = {name: value for name, _, value in pairs}
    unknown = [
        name for name in values if name not in KNOWN_NAMES and not name.startswith(EXTENSION_PREFIX)
    ]
    if unknown or len(values) != len(pairs):
        raise SaslError(
            "Invalid sasl.oauthbearer.config: unknown or doubled: "
            f"{shown(', '.join(unknown) or 'a name')}"
        )
    principal = values.get("principal", "")
    if not principal:
        raise SaslError("Invalid sasl.oauthbearer.config: no principal=<value>")
    life = values.get("lifeSeconds", "3600")
    if not (life.isascii() and life.isdigit() and 0 < int(life[:10]) < 2**31):
        raise SaslError(
            "Invalid sasl.oauthbearer.config: lifeSeconds has to be a number from 1 to 2147483647"
        )
    extensions = {
        name.removeprefix(EXTENSION_PREFIX): value
        for name, value in values.items()
        if name.startswith(EXTENSION_PREFIX)
    }
    scopes = [scope for scope in values.get("scope", "").split(",") if scope]

    def source() -> Token:
        now = round(clock(), 3)
        claims = {
            values.get("principalClaimName") or "sub": principal,
            "iat": now,
            "exp": now + int(life),
        }
        if scopes:
            claims[values.get("scopeClaimName") or "scope"] = scopes
        value = f"{_encoded({'alg': 'none'})}.{_encoded(claims)}."
        return Token(value, now + int(life), principal, extensions)

    source()  # Reports errors of the extensions now
    return source


def _encoded(part: object) -> str:
    return (
        base64.urlsafe_b64encode(json.dumps(part, separators=(",", ":")).encode())
        .decode()
        .rstrip("=")
    )
