"""OAUTHBEARER (RFC 7628, KIP-255, KIP-342): authentication with a bearer token that expires.

Tokens come from your ``oauth_cb``, from an OpenID Connect provider (`oidc`), or are unsigned
(`unsecured_jwt`).
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from kafka_native.security.mechanisms import Exchange, Mechanism, SaslError, shown
from kafka_native.security.redaction import Secrets

REFRESH_AT_LIFETIME_PART = 0.8
"""The part of a token's lifetime after which the client gets a new token."""
FAILURE_CACHED_S = 1.0
"""How long later connections get the same failure, before the client asks for a token again."""
LEFT_MIN_S = 5.0
"""How long a token must be valid for an exchange that doesn't wait for a refresh.

A session ends with its token, and brokers don't allow a renewal within its first second.
"""
CHALLENGE_MAX_BYTES = 65536
EXPOSED_TEXT = "sees the token, which anyone can use until it expires"
EXTENSION_SECRET_MIN_CHARACTERS = 8
"""The minimum length of an extension's value that is redacted.

Shorter values occur in many words.
"""
_TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*", re.ASCII)
_KEY = re.compile(r"[A-Za-z]+", re.ASCII)
_VALUE = re.compile(r"[\x20-\x7e\t\r\n]+")


@dataclass(frozen=True, slots=True, repr=False)
class Token:
    """A bearer token. The repr doesn't show its value.

    :raises SaslError: The value or an extension can't be sent.
    """

    value: str
    expires: float
    """Seconds since the epoch."""
    principal: str = ""
    """The user that the token stands for, if known. Errors and the log show it."""
    extensions: Mapping[str, str] = field(default_factory=dict)
    """The SASL extensions that the client sends with the token (KIP-342)."""

    def __post_init__(self) -> None:
        if not _TOKEN.fullmatch(self.value):
            raise SaslError("the token is empty or has characters that no token has (RFC 6750)")
        for key, value in self.extensions.items():
            if not _KEY.fullmatch(key) or key == "auth":
                raise SaslError(
                    f"{shown(key)!r} can't be the name of a SASL extension: letters only, "
                    "and not auth"
                )
            if not _VALUE.fullmatch(value):
                raise SaslError(
                    f"the value of the SASL extension {key} is empty or has unprintable characters"
                )

    def __repr__(self) -> str:
        return f"Token([redacted], expires={self.expires}, principal={self.principal!r})"


class OAuthBearer(Mechanism):
    """The SASL mechanism with bearer tokens."""

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
        """Make the mechanism.

        :param source: Returns a new token. It may block.
        :param secrets: The secrets that the source sends. If it is a `Secrets`, the source may add
            more.
        :param remarks: Warnings about the source.
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
        """The user that the token stands for."""
        token = self._token
        return "" if token is None else token.principal

    def secrets(self) -> Iterable[str]:
        """Return the last tokens, and the secrets that the source sends."""
        return self._secrets

    @property
    def exposes(self) -> str:
        """See `Mechanism.exposes`."""
        return self._exposes

    def remarks(self, encrypted: bool) -> list[str]:
        """Return the warnings, including those about the source of tokens."""
        return [*super().remarks(encrypted), *self._remarks]

    @property
    def refresh_at(self) -> float:
        """80 % of the token's lifetime; 0 while there is no token."""
        return self._refresh_at

    def refresh(self) -> None:
        """Get a new token, even if the current one is valid."""
        self._fetch()

    def _fetch(self) -> Token:
        now = self._clock()
        try:
            token = self._source()
            extensions = (
                value
                for value in token.extensions.values()
                if len(value) >= EXTENSION_SECRET_MIN_CHARACTERS
            )
            self._secrets.add(*extensions, token.value)
            if math.isnan(token.expires):
                raise SaslError("the token's expiry time isn't a number")
            if token.expires <= now:
                raise SaslError(f"the token has expired {now - token.expires:.0f} s ago")
        except Exception as error:
            self._failure = error
            # From the end of the attempt: a source may take longer than FAILURE_CACHED_S to fail
            self._failed_until = self._clock() + FAILURE_CACHED_S
            raise
        self._failure = None
        self._token = token
        self._refresh_at = now + REFRESH_AT_LIFETIME_PART * (token.expires - now)
        return token

    def on_refused(self) -> None:
        """Drop the token, because it may be revoked. The next exchange gets a new one."""
        self._token = None

    def valid_token(self, left_s: float = 0.0) -> Token | None:
        """Return the current token, or None if there is none or it expires in ``left_s``."""
        token = self._token  # Another thread may drop it
        return token if token is not None and self._clock() + left_s < token.expires else None

    def token(self) -> Token:
        """Return a token that hasn't expired. It may ask the source for one."""
        token = self.valid_token()
        if token is not None:
            return token
        if self._failure is not None and self._clock() < self._failed_until:
            raise self._failure
        return self._fetch()

    def exchange(self, host: str, port: int) -> Exchange:
        """Start an authentication."""
        return OAuthBearerExchange(self)


class OAuthBearerExchange(Exchange):
    """Sends the token.

    If the broker refuses it, the client has to acknowledge the error message.
    """

    def __init__(self, mechanism: OAuthBearer) -> None:
        """Make the exchange.

        With a valid token it doesn't wait for the security thread, where a refresh may take long.
        """
        self._mechanism = mechanism
        self._token = mechanism.valid_token(LEFT_MIN_S)
        self.slow = self._token is None

    def begin(self) -> bytes:
        """Return the first message: no channel binding, the token, the extensions."""
        token = self._token or self._mechanism.token()
        self.slow = False
        pairs = [
            f"auth=Bearer {token.value}",
            *(f"{key}={value}" for key, value in token.extensions.items()),
        ]
        return "".join(["n,,\x01", *(f"{pair}\x01" for pair in pairs), "\x01"]).encode()

    def respond(self, challenge: bytes) -> bytes | None:
        """Return None for success, or the acknowledgement of an error message."""
        if not challenge:
            self.done = not self.problem
            return None
        if self.problem:
            raise SaslError(f"the broker says {self.problem}")
        self.problem = _problem(challenge, self._mechanism.secrets())
        return b"\x01"


def _problem(challenge: bytes, secrets: Iterable[str]) -> str:
    """Return the broker's reason for the refusal: RFC 7628's JSON, or any other text."""
    # A long text isn't cut, because the redaction couldn't find the part of a secret at the cut.
    if len(challenge) > CHALLENGE_MAX_BYTES:
        return f"a message of {len(challenge)} bytes"
    text = challenge.decode("utf-8", "replace")
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        return shown(text, secrets)
    if not isinstance(fields, dict) or not fields:
        return shown(text, secrets)
    return shown(", ".join(f"{key}: {value}" for key, value in fields.items()), secrets)


def callback_source(
    oauth_cb: Callable[[str | None], object], config: str | None
) -> Callable[[], Token]:
    """Return a source that calls the application's ``oauth_cb``.

    The callback's argument is ``sasl.oauthbearer.config``, or None.
    """

    def source() -> Token:
        found = oauth_cb(config)
        if not isinstance(found, tuple) or not 2 <= len(found) <= 4:
            raise SaslError(
                "oauth_cb has to return (token, expiry time[, principal[, extensions]]), "
                f"not {_kind(found)}"
            )
        value, expires, *more = found
        principal = more[0] if more else ""
        extensions = more[1] if len(more) > 1 else {}
        has_valid_types = (
            isinstance(value, str)
            and isinstance(principal, str)
            and isinstance(extensions, Mapping)
        )
        if (
            not has_valid_types
            or isinstance(expires, bool)
            or not isinstance(expires, (int, float))
        ):
            kinds = ", ".join(_kind(each) for each in found)
            raise SaslError(f"oauth_cb has to return (str, float[, str[, dict]]), not ({kinds})")
        return Token(
            value,
            float(expires),
            principal,
            {str(key): str(each) for key, each in extensions.items()},
        )

    return source


def _kind(value: object) -> str:
    return f"{len(value)} values" if isinstance(value, tuple) else type(value).__name__


def parsed_extensions(text: str) -> dict[str, str]:
    """Parse ``sasl.oauthbearer.extensions``, key=value pairs with commas between them.

    :raises SaslError: The text has another form.
    """
    pairs = [pair.strip().partition("=") for pair in text.split(",") if pair.strip()]
    if not all(equals for _, equals, _ in pairs):
        raise SaslError(
            "sasl.oauthbearer.extensions has to be key=value pairs with commas between them"
        )
    return {key: value for key, _, value in pairs}
