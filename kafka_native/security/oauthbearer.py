"""OAUTHBEARER (RFC 7628, KIP-255, KIP-342): a token that somebody else issued, until it expires.

Tokens come from the application's ``oauth_cb``, an OpenID Connect provider (`oidc`), or nobody (`unsecured_jwt`).
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kafka_native.security.mechanisms import Exchange, Mechanism, SaslError, shown
from kafka_native.security.redaction import Secrets

REFRESH_AT_LIFETIME_PART = 0.8
"""Of a token's lifetime: after that there is a new one."""
FAILURE_CACHED_S = 1.0
"""How long connections are told of a failure rather than asking again."""
CHALLENGE_MAX_BYTES = 65536
EXPOSED_TEXT = "sees the token, which is good for everybody until it expires"
EXTENSION_SECRET_MIN_CHARACTERS = 8
"""Characters of an extension's value that may be a secret; a shorter one is found in too many words."""
_TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*", re.ASCII)
_KEY = re.compile(r"[A-Za-z]+", re.ASCII)
_VALUE = re.compile(r"[\x20-\x7e\t\r\n]+")


@dataclass(frozen=True, slots=True, repr=False)
class Token:
    """A bearer token; SaslError if it can't be sent. Nothing shows its value."""

    value: str
    expires: float
    """Seconds since the epoch."""
    principal: str = ""
    """Who it stands for, if that is known here: for errors and the log."""
    extensions: Mapping[str, str] = field(default_factory=dict)
    """What the broker is told besides (KIP-342)."""

    def __post_init__(self) -> None:
        if not _TOKEN.fullmatch(self.value):
            raise SaslError("the token is empty or has characters that no token has (RFC 6750)")
        for key, value in self.extensions.items():
            if not _KEY.fullmatch(key) or key == "auth":
                raise SaslError(f"{shown(key)!r} can't be the name of a SASL extension: letters only, and not auth")
            if not _VALUE.fullmatch(value):
                raise SaslError(f"the value of the SASL extension {key} is empty or has unprintable characters")

    def __repr__(self) -> str:
        return f"Token([redacted], expires={self.expires}, principal={self.principal!r})"


class OAuthBearer(Mechanism):
    """The mechanism OAUTHBEARER."""

    name = "OAUTHBEARER"

    def __init__(
        self,
        source: Callable[[], Token],
        secrets: Iterable[str] = (),
        clock: Callable[[], float] = time.time,
        *,
        exposes: str = EXPOSED_TEXT,
        remarks: Iterable[str] = (),
    ) -> None:
        """``source`` gets a token and may take its time.

        It knows these ``secrets``, and adds more to them where they are a `Secrets`. ``remarks`` are its warnings.
        """
        self._source = source
        self._secrets = secrets if isinstance(secrets, Secrets) else Secrets(secrets)
        self._exposes = exposes
        self._remarks = tuple(remarks)
        self._clock = clock
        self._token: Token | None = None
        self._refresh_at = 0.0
        self._failure: Exception | None = None
        self._failed_until = 0.0

    @property
    def user(self) -> str:
        """Whom the token stands for."""
        token = self._token
        return "" if token is None else token.principal

    def secrets(self) -> Iterable[str]:
        """The last tokens, and what they are got with."""
        return self._secrets

    @property
    def exposes(self) -> str:
        """The token."""
        return self._exposes

    def remarks(self, encrypted: bool) -> list[str]:
        """Also those about where tokens come from."""
        return [*super().remarks(encrypted), *self._remarks]

    @property
    def refresh_at(self) -> float:
        """After most of the token's lifetime; at once while there is none."""
        return self._refresh_at

    def refresh(self) -> None:
        """Gets a new token, whatever there is."""
        now = self._clock()
        try:
            token = self._source()
            extensions = (value for value in token.extensions.values() if len(value) >= EXTENSION_SECRET_MIN_CHARACTERS)
            self._secrets.add(*extensions, token.value)
            if math.isnan(token.expires):
                raise SaslError("the token's expiry time isn't a number")
            if token.expires <= now:
                raise SaslError(f"the token has expired {now - token.expires:.0f} s ago")
        except Exception as error:
            self._failure = error
            self._failed_until = now + FAILURE_CACHED_S
            raise
        self._failure = None
        self._token = token
        self._refresh_at = now + REFRESH_AT_LIFETIME_PART * (token.expires - now)

    def on_refused(self) -> None:
        """The next exchange gets another token: this one may have been revoked."""
        self._token = None

    def token(self) -> Token:
        """One that hasn't expired."""
        now = self._clock()
        if self._token is not None and now < self._token.expires:
            return self._token
        if self._failure is not None and now < self._failed_until:
            raise self._failure
        self.refresh()
        assert self._token is not None
        return self._token

    def exchange(self, host: str, port: int) -> Exchange:
        """A new authentication."""
        return OAuthBearerExchange(self)


class OAuthBearerExchange(Exchange):
    """The token; a broker that doesn't like it says why, and wants a word before it ends."""

    def __init__(self, mechanism: OAuthBearer) -> None:
        """With the token that there is when it begins."""
        self._mechanism = mechanism

    def begin(self) -> bytes:
        """No channel binding, the token, the extensions."""
        token = self._mechanism.token()
        pairs = [f"auth=Bearer {token.value}", *(f"{key}={value}" for key, value in token.extensions.items())]
        return "".join(["n,,\x01", *(f"{pair}\x01" for pair in pairs), "\x01"]).encode()

    def respond(self, challenge: bytes) -> bytes | None:
        """Nothing, or the word."""
        if not challenge:
            self.done = not self.problem
            return None
        if self.problem:
            raise SaslError(f"the broker says {self.problem}")
        self.problem = _problem(challenge, self._mechanism.secrets())
        return b"\x01"


def _problem(challenge: bytes, secrets: Iterable[str]) -> str:
    """What the broker has against the token: RFC 7628's JSON, or whatever else it is."""
    if len(challenge) > CHALLENGE_MAX_BYTES:  # not cut: what is left of a secret at its end wouldn't be found
        return f"a message of {len(challenge)} bytes"
    text = challenge.decode("utf-8", "replace")
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return shown(text, secrets)
    if not isinstance(said, dict) or not said:
        return shown(text, secrets)
    return shown(", ".join(f"{key}: {value}" for key, value in said.items()), secrets)


def callback_source(oauth_cb: Callable[[Any], Any], config: str | None) -> Callable[[], Token]:
    """Tokens of the application's ``oauth_cb``, which gets ``sasl.oauthbearer.config``, None if that isn't set."""

    def source() -> Token:
        found = oauth_cb(config)
        if not isinstance(found, tuple) or not 2 <= len(found) <= 4:
            raise SaslError(
                f"oauth_cb has to return (token, expiry time[, principal[, extensions]]), not {_kind(found)}"
            )
        value, expires, *more = found
        principal = more[0] if more else ""
        extensions = more[1] if len(more) > 1 else {}
        right = isinstance(value, str) and isinstance(principal, str) and isinstance(extensions, Mapping)
        if not right or isinstance(expires, bool) or not isinstance(expires, (int, float)):
            kinds = ", ".join(_kind(each) for each in found)
            raise SaslError(f"oauth_cb has to return (str, float[, str[, dict]]), not ({kinds})")
        return Token(value, float(expires), principal, {str(key): str(each) for key, each in extensions.items()})

    return source


def _kind(value: object) -> str:
    return f"{len(value)} values" if isinstance(value, tuple) else type(value).__name__


def parsed_extensions(text: str) -> dict[str, str]:
    """``sasl.oauthbearer.extensions``: key=value pairs with commas between them; SaslError for anything else."""
    pairs = [pair.strip().partition("=") for pair in text.split(",") if pair.strip()]
    if not all(equals for _, equals, _ in pairs):
        raise SaslError("sasl.oauthbearer.extensions has to be key=value pairs with commas between them")
    return {key: value for key, _, value in pairs}
