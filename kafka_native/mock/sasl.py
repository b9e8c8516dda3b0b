"""Authentication of connections, as in Apache Kafka's brokers (KIP-43, 152, 368).

A client sends these requests in order:

1. ApiVersions, once and optional.
2. SaslHandshake.
3. The mechanism's tokens, in SaslAuthenticate. After a SaslHandshake of version 0 they are bare
   frames.

Any other request closes the connection. When the session has expired, every request except
SaslHandshake closes it.
"""

from __future__ import annotations

import enum
import logging
import time
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from kafka_native._reference.error_codes import ErrorCode
from kafka_native.mock.mechanisms import MECHANISMS, Denied, Exchange
from kafka_native.protocol import ApiKey

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka_native.mock.accounts import Accounts
    from kafka_native.mock.faults import Faults

log = logging.getLogger(__name__)

UNAUTHENTICATED_FRAME_MAX_BYTES: Final = 512 << 10
"""The largest frame before authentication, in bytes.

Apache Kafka's property is ``sasl.server.max.receive.size``.
"""
ANONYMOUS: Final = "User:ANONYMOUS"
_OVERSIZED = b"A" * (4 << 20)
_MALFORMED = bytes(range(255, -1, -1))
_KEPT = 10_000


class SeenLogin(NamedTuple):
    """A completed authentication attempt, in ``MockCluster.logins``.

    - ``again``: whether it is a re-authentication.
    - ``principal``: the principal, or None after a failure.
    - ``error``: the reason of a failure.
    - ``extensions``: SASL extensions, ``tokenauth``, or host, region and user agent of AWS_MSK_IAM.
    - ``time``: the ``time.monotonic()`` of its end.
    """

    broker: int
    mechanism: str
    principal: str | None
    error: str | None
    again: bool
    extensions: dict[str, str]
    time: float


class SaslListener:
    """The SASL settings of all connections of a cluster."""

    PLACE: Final = "authentication"
    """The name of the faults for it."""

    def __init__(
        self,
        mechanisms: Sequence[str],
        accounts: Accounts,
        session_lifetime_ms: int,
        faults: Faults,
    ) -> None:
        """Store the settings.

        ``session_lifetime_ms`` is ``connections.max.reauth.ms``, 0 for no limit.
        """
        self.mechanisms = list(mechanisms)
        self.accounts = accounts
        self.session_lifetime_ms = session_lifetime_ms
        self.faults = faults
        self.logins: deque[SeenLogin] = deque(maxlen=_KEPT)
        self.expired_sessions = 0

    def lifetime_ms(self, expires: float | None) -> int:
        """Return the lifetime of a session that begins now, or 0 for no limit.

        ``expires`` is the expiry of its credential.
        """
        limits = [self.session_lifetime_ms] if self.session_lifetime_ms > 0 else []
        if expires is not None:
            limits.append(max(1, int((expires - time.time()) * 1000)))
        return min(limits, default=0)


class _State(enum.Enum):
    """The state of an authentication: it determines the requests that the client may send."""

    BEGUN = enum.auto()
    HANDSHAKE = enum.auto()
    TOKENS = enum.auto()
    OPEN = enum.auto()
    FAILED = enum.auto()


_ALLOWED: Final = {
    _State.BEGUN: (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE),
    _State.HANDSHAKE: (ApiKey.SASL_HANDSHAKE,),
    _State.TOKENS: (ApiKey.SASL_AUTHENTICATE,),
    _State.FAILED: (),
}


class Answer(NamedTuple):
    """The answer to a token."""

    token: bytes = b""
    code: int = ErrorCode.NO_ERROR
    text: str | None = None
    lifetime_ms: int = 0


class Login:
    """The authentication state of one connection. Only the connection's thread uses it.

    ``principal`` is the client's principal. ``is_by_token`` says that a delegation token proved it.
    """

    def __init__(self, sasl: SaslListener | None, broker: int) -> None:
        """Start without a principal. Without SASL the client may send all requests."""
        self.principal = ANONYMOUS
        self.is_by_token = False
        self._sasl = sasl
        self._broker = broker
        self._state = _State.OPEN if sasl is None else _State.BEGUN
        self._mechanism = ""
        self._version = 0
        self._exchange: Exchange | None = None
        self._has_authenticated = False
        self._session_end: float | None = None

    @property
    def has_failed(self) -> bool:
        """Whether the broker closes the connection after the current response."""
        return self._state is _State.FAILED

    @property
    def is_bare(self) -> bool:
        """Whether the next frame is a bare token, without a request header."""
        return self._state is _State.TOKENS and self._version == 0

    def frame_max_bytes(self, authenticated_max_bytes: int) -> int:
        """Return the largest allowed size of the next frame, in bytes.

        ``authenticated_max_bytes`` is the size after the authentication.
        """
        return (
            authenticated_max_bytes
            if self._state is _State.OPEN
            else min(authenticated_max_bytes, UNAUTHENTICATED_FRAME_MAX_BYTES)
        )

    def allows(self, api_key: int) -> bool:
        """Return whether the client may send this request now.

        If not, the broker closes the connection.
        """
        if self._state is not _State.OPEN:
            return api_key in _ALLOWED[self._state]
        if (
            self._session_end is None
            or api_key == ApiKey.SASL_HANDSHAKE
            or time.monotonic() < self._session_end
        ):
            return True
        if self._sasl is not None:
            self._sasl.expired_sessions += 1
        return False

    @property
    def is_open(self) -> bool:
        """Whether the connection may send any request: authenticated, or without SASL."""
        return self._state is _State.OPEN

    def note_api_versions(self) -> None:
        """Note that ApiVersions was answered. A second one is not allowed."""
        if self._state is _State.BEGUN:
            self._state = _State.HANDSHAKE

    def handshake(self, mechanism: str, version: int) -> ErrorCode:
        """Choose a mechanism for the first authentication or for a re-authentication."""
        if self._sasl is None:
            return ErrorCode.ILLEGAL_SASL_STATE
        if mechanism not in self._sasl.mechanisms:
            self._fail(f"the mechanism {mechanism[:64]!r} is not enabled")
            return ErrorCode.UNSUPPORTED_SASL_MECHANISM
        self._version = version
        if self._has_authenticated and mechanism != self._mechanism:
            # Apache Kafka accepts another mechanism here too, and closes at the first token.
            self._exchange = None
        else:
            fault = self._sasl.faults.take_break(self._sasl.PLACE, self._broker)
            self._mechanism = mechanism
            self._exchange = MECHANISMS[mechanism](mechanism, self._sasl.accounts, fault)
        self._state = _State.TOKENS
        return ErrorCode.NO_ERROR

    @property
    def mechanisms(self) -> list[str]:
        """The enabled SASL mechanisms."""
        return [] if self._sasl is None else self._sasl.mechanisms

    def step(self, token: bytes) -> Answer | None:
        """Process a token, and return the answer. None closes the connection."""
        if self._state is not _State.TOKENS:
            return Answer(
                code=ErrorCode.ILLEGAL_SASL_STATE, text="no authentication is in progress"
            )
        exchange = self._exchange
        if exchange is None:
            self._fail("a session must keep its first mechanism")
            return None
        try:
            answer = _fault_answer(exchange) or Answer(exchange.step(token))
            if exchange.is_complete:
                return self._accept(exchange, answer.token)
        except Denied as denied:
            self._fail(str(denied))
            return Answer(code=ErrorCode.SASL_AUTHENTICATION_FAILED, text=str(denied))
        if exchange.fault == "close":
            self._fail("a fault was armed: close")
            return None
        return answer

    def _accept(self, exchange: Exchange, token: bytes) -> Answer:
        assert self._sasl is not None
        principal = f"User:{exchange.principal}"
        if self._has_authenticated and principal != self.principal:
            raise Denied(f"{self.principal!r} can't become {principal!r} in one session")
        lifetime_ms = self._sasl.lifetime_ms(exchange.expires)
        self._note(principal, None, exchange.extensions)
        self.principal = principal
        self.is_by_token = exchange.extensions.get("tokenauth") == "true"
        self._has_authenticated = True
        self._session_end = time.monotonic() + lifetime_ms / 1000 if lifetime_ms else None
        self._exchange = None
        self._state = _State.OPEN
        return Answer(token, lifetime_ms=lifetime_ms)

    def _fail(self, reason: str) -> None:
        self._note(None, reason, {})
        self._state = _State.FAILED
        log.info("broker %d fails an authentication: %s", self._broker, reason)

    def _note(self, principal: str | None, error: str | None, extensions: dict[str, str]) -> None:
        assert self._sasl is not None
        seen = SeenLogin(
            self._broker,
            self._mechanism,
            principal,
            error,
            self._has_authenticated,
            extensions,
            time.monotonic(),
        )
        self._sasl.logins.append(seen)


def _fault_answer(exchange: Exchange) -> Answer | None:
    """Return the token that a fault orders, for any mechanism. Raises ``Denied``."""
    if exchange.fault == "refuse":
        raise exchange.denial()
    tokens = {
        "malformed": _MALFORMED,
        "oversized": _OVERSIZED,
        "endless": b"r=more,s=more,i=4096",
        "close": b"",
    }
    return None if exchange.fault not in tokens else Answer(tokens[exchange.fault])
