"""TLS and SASL of one client's connections.

`Encryption` owns the TLS context of new connections, renews it, and explains failures.
`Authenticator` runs SASL: SaslHandshake, then SaslAuthenticate until both sides are done (KIP-43,
KIP-152). Brokers before 1.0 have no SaslAuthenticate: the mechanism's messages follow without
headers. Brokers before 0.10 have no SaslHandshake either, and only GSSAPI. It starts when a
connection's versions are known. It runs again on the open connection before the session that the
broker has granted ends (KIP-368). `kafka_native.security` contains the mechanisms.

Thread: the control thread. The client's constructor makes the TLS context. Slow work of mechanisms
runs on the thread of `SecurityWorker`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from kafka_native._native.engine import fork_count, tls_functions
from kafka_native._native.enums import STATUS_TIMED_OUT, STATUS_TRANSPORT
from kafka_native.cleaning import clean
from kafka_native.control.brokers.broker import Authentication, Broker
from kafka_native.control.brokers.versions import ApiRanges
from kafka_native.control.outages import Outages
from kafka_native.control.requests import NEVER
from kafka_native.errors import KafkaError, KafkaException, error_name
from kafka_native.logs import Log
from kafka_native.protocol import ApiKey, ProtocolError
from kafka_native.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from kafka_native.protocol.schema import Request
from kafka_native.security.mechanisms import Mechanism, SaslError, shown
from kafka_native.threads import Lock, SimpleQueue, Thread

if TYPE_CHECKING:
    from kafka_native._native.engine import Engine, Event
    from kafka_native.config import Config
    from kafka_native.security.tls import TlsContext

PROTOCOLS = ("ssl", "sasl_ssl")
"""The values of security.protocol that use TLS."""


FILES = "files"
"""The subject of outages when changed certificates and keys can't be used."""


class Encryption:
    """The TLS context of new connections, from the current files of the configuration."""

    def __init__(self, config: Config, log: Log) -> None:
        """Reads the files. KafkaException: the configuration or a file is invalid."""
        self._config = config
        self._log = log
        self._outages = Outages()  # of the files
        self._warned: set[str] = set()
        self._context = self._made()

    @classmethod
    def of(cls, config: Config, log: Log) -> Encryption | None:
        """The TLS of a configuration; None: connections are plaintext."""
        return cls(config, log) if config.text("security.protocol") in PROTOCOLS else None

    def _made(self) -> TlsContext:
        from kafka_native.security.tls import TlsContext  # imported only with TLS

        context = TlsContext(self._config)
        for remark in context.remarks:
            # once per client: a renewed context has the same remarks
            if remark not in self._warned:
                self._warned.add(remark)
                self._log.warning("%s", remark)
        self._log.debug("%r", context)
        return context

    @property
    def settings(self) -> tuple[dict[str, int], int, bool, bool]:
        """The engine's settings: OpenSSL's functions, the context, and the certificate checks."""
        from kafka_native.security.openssl import address_of

        functions = {name: address_of(name) for name in tls_functions()}
        return (
            functions,
            self._context.pointer,
            self._context.verifies,
            self._context.identifies_hosts,
        )

    def renew(self, engine: Engine) -> None:
        """Makes new connections use changed certificate files (rotation).

        Invalid files change nothing: they may be half written.
        """
        if not self._context.changed():
            return
        try:
            context = self._made()
        except KafkaException as error:
            why = error.args[0].str()
            say = self._log.error if self._outages.is_due(FILES, why) else self._log.debug
            say("certificates have changed, but the new ones can't be used: %s", why)
            return
        self._outages.end(FILES)
        engine.set_tls_context(context.pointer)
        self._context = context  # the old one was needed until here
        self._log.info("certificates have changed: connections made from now on use the new ones")

    def explain(self, event: Event, host: str, port: int) -> str:
        """Explains a TLS failure to the user. ``event``: a DISCONNECTED with the status of TLS."""
        return self._context.explain(event.text, event.verify_error, host, port, event.body or b"")


T = TypeVar("T")

RAW, WRAPPED = 0, 1
"""The SaslHandshake versions. After `WRAPPED`, SaslAuthenticate carries the messages and clear
errors; after `RAW`, the messages have no headers, and a broker that refuses closes the connection.
"""
KERBEROS = "GSSAPI"
"""The only mechanism of brokers before 0.10."""
MESSAGE_MAX = 1 << 20
"""The maximum size of a broker's message; Kerberos has the longest, about 64 KiB."""
SESSION_PART = (0.85, 0.95)
"""The shares of a session's lifetime between which it is renewed, as in the Java client."""
SESSION_MIN_S, SESSION_MAX_S = 1.05, 7 * 86_400.0
"""The minimum and maximum delay of a renewal. Brokers reject one within the first second."""
RETRY_S = (1.0, 30.0)
"""The first and the longest delay between attempts to refresh credentials; it doubles.

The first delay also follows a success, because the issuer decides how short a token's lifetime is.
"""
END_S = 2.0
MECHANISM_NAME_MAX = 32
"""The maximum length of a mechanism's name in an error; RFC 4422 allows 20."""
REFRESH = "refresh"
"""The subject of outages when a refresh of credentials fails."""
NAMES = {ApiKey.SASL_HANDSHAKE: "SaslHandshake", ApiKey.SASL_AUTHENTICATE: "SaslAuthenticate"}


class Worker(Protocol):
    """Runs slow work and passes its result to the control thread."""

    def run(self, work: Callable[[], T], done: Callable[[T | Exception], None]) -> None:
        """Runs ``work`` and passes its result or exception to ``done`` on the control thread."""


class SecurityWorker:
    """A client's security thread, for hashing, HTTP and the user's ``oauth_cb``.

    Its event thread is of this class, too: it calls ``background_event_cb``.

    It starts with its first work. Between two pieces of work it refers only to its queue, so it
    keeps no client alive.
    """

    def __init__(
        self,
        name: str,
        post: Callable[[Callable[[], None]], None],
        task: str = "security",
        *,
        keeps_work: bool = False,
    ) -> None:
        """``post`` queues a function for the control thread. ``task`` names the thread.

        ``keeps_work``: if the system can't create the thread, work waits until a later call can.
        Otherwise it fails.
        """
        self._keeps_work = keeps_work
        self._name = f"kafka-native {task} {name}"
        self._post = post
        self._lock = Lock()  # guards _ended, so that nothing is posted to a closed client
        self._ended = False
        self._begin()

    def _begin(self) -> None:
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = Thread(partial(_work_off, self._work), self._name)

    def run(self, work: Callable[[], T], done: Callable[[T | Exception], None]) -> None:
        """Passes the result or exception of ``work`` to ``done``, unless the client closes first.

        Control thread only.
        """

        def step() -> None:
            outcome: T | Exception
            try:
                outcome = work()
            except Exception as error:
                outcome = error
            except BaseException as error:  # sys.exit() in oauth_cb ends nothing here
                outcome = SaslError(type(error).__name__)
            with self._lock:
                if not self._ended:
                    self._post(lambda: done(outcome))

        self._work.put(step)
        if self._thread.started:
            return
        try:
            self._thread.start()
        except RuntimeError as error:
            if not self._keeps_work:
                self._work.get_nowait()
                self._post(partial(done, error))

    def is_current(self) -> bool:
        """Whether the caller runs on this thread."""
        return self._thread.is_current()

    def stop(self) -> None:
        """Ends the thread after its current work, and waits a short time for it."""
        with self._lock:
            self._ended = True
        self._work.put(None)
        if self._thread.started and not self.is_current():
            self._thread.join(END_S)

    def __del__(self) -> None:
        """Stops the thread of a client that wasn't closed.

        A later finalizer of the same cycle may close the client. That work gets a new thread.
        """
        if self._thread.started:
            self._work.put(None)
            self._begin()


def _work_off(queue: SimpleQueue[Callable[[], None] | None]) -> None:
    """The security thread's function."""
    forks = fork_count()
    while (step := queue.get()) is not None:
        step()
        step = None  # no reference while the thread sleeps
        if fork_count() != forks:
            return  # oauth_cb has forked: this process has no control thread


class Connections(Protocol):
    """What the authenticator does with the connections of the client's broker pool."""

    def submit_handshake(
        self,
        broker: Broker,
        api_key: int,
        version: int,
        body: bytes,
        timeout_s: float,
        **form: bool,
    ) -> None:
        """Sends a request of the handshake, before all queued calls.

        ``form``: ``raw=True`` leaves out the headers, ``replied=False`` awaits no reply.
        """

    def hold(self, broker: Broker) -> None:
        """Sends only handshake requests on this connection until it is opened again."""

    def open(self, broker: Broker, ranges: ApiRanges) -> None:
        """Ends the handshake and sends the calls that wait for this connection."""

    def refuse(self, broker: Broker, error: KafkaError) -> None:
        """Closes a connection whose handshake has failed, and reports the error."""

    def report(self, error: KafkaError) -> None:
        """Reports an error that concerns no single broker."""


class Authenticator:
    """Authenticates the connections of one client."""

    def __init__(
        self,
        connections: Connections,
        mechanism: Mechanism,
        worker: Worker,
        *,
        timeout_s: float,
        log: Log,
        refreshes: bool = True,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
        spread: Callable[[float, float], float] = random.uniform,
    ) -> None:
        """``timeout_s``: the timeout of one reply (socket.timeout.ms).

        ``refreshes``: whether it refreshes the mechanism's credentials. Of the authenticators that
        share a mechanism, one does.
        """
        self._refreshes = refreshes
        self._connections = connections
        self.mechanism = mechanism
        self._worker = worker
        self._timeout_s = timeout_s
        self._log = log
        self._clock = clock
        self._wall_clock = wall_clock
        self._spread = spread
        # by handle: broker, generation and the time of the renewal
        self._sessions: dict[int, tuple[Broker, int, float]] = {}
        self._retry_s = RETRY_S[0]
        self._refreshing = False
        self._refresh_not_before = 0.0
        self._outages = Outages(clock)  # of refreshes

    def poll(self, now: float) -> float:
        """Renews sessions and credentials before they expire.

        Returns the time of the next check.
        """
        wake_up = self._refresh(now)
        for handle, (broker, generation, due) in list(self._sessions.items()):
            is_over = not broker.up and broker.handshake is None  # else its ids are being checked
            if is_over or broker.generation != generation:
                del self._sessions[handle]
            elif now < due:
                wake_up = min(wake_up, due)
            elif broker.ranges is not None:
                self._connections.hold(broker)
                self.begin(broker, broker.ranges, again=True)
        return wake_up

    def _refresh(self, now: float) -> float:
        at = self.mechanism.refresh_at
        if self._refreshing or at == NEVER or not self._refreshes:
            return NEVER
        due = max(self._refresh_not_before, now + at - self._wall_clock())
        if now < due:
            return due
        self._refreshing = True
        self._worker.run(self.mechanism.refresh, self._on_refreshed)
        return NEVER

    def _on_refreshed(self, outcome: Exception | None) -> None:
        self._refreshing = False
        if outcome is None:
            self._retry_s = RETRY_S[0]
            self._refresh_not_before = self._clock() + self._retry_s
            say = self._log.debug if self._outages.end(REFRESH) is None else self._log.info
            say("SASL %s: the credentials have been renewed", self.mechanism.name)
            return
        self._refresh_not_before = self._clock() + self._retry_s
        self._log.debug("SASL %s: next attempt in %g s", self.mechanism.name, self._retry_s)
        self._retry_s = min(2 * self._retry_s, RETRY_S[1])
        if self._outages.is_due(REFRESH, type(outcome).__name__):
            self._connections.report(
                KafkaError(KafkaError._AUTHENTICATION, self._impossible(outcome))
            )

    # --- the exchange ---

    def begin(self, broker: Broker, ranges: ApiRanges, *, again: bool = False) -> None:
        """Authenticates a connection whose versions are known, then opens or refuses it."""
        self._sessions.pop(broker.handle, None)
        handshake = ranges.highest(ApiKey.SASL_HANDSHAKE, (RAW, WRAPPED))
        if ranges.choose(SaslAuthenticateRequest) < 0:
            handshake = min(handshake, RAW)
        if handshake < 0 and (text := self._missing(ranges)):
            self._connections.refuse(
                broker, KafkaError(KafkaError._UNSUPPORTED_FEATURE, f"{broker.name} {text}")
            )
            return
        exchange = self.mechanism.exchange(broker.host, broker.port)
        ours = Authentication(ranges, exchange, again, handshake != WRAPPED)
        broker.authentication = ours
        self._log.debug(
            "%s: %s SASL %s", broker.name, "renews" if again else "begins", self.mechanism.name
        )
        if handshake < 0:
            self._step(broker, ours, exchange.begin)
        else:
            self._send(broker, SaslHandshakeRequest(mechanism=self.mechanism.name), handshake)

    def _missing(self, ranges: ApiRanges) -> str:
        """Why a broker without SaslHandshake can't authenticate this client; empty: it can."""
        if ApiKey.JOIN_GROUP not in ranges.ranges:
            return "has no SASL: it needs Apache Kafka 0.9 or newer"
        if self.mechanism.name != KERBEROS:
            return (
                f"has no SaslHandshake: SASL {self.mechanism.name} needs Apache Kafka 0.10 or newer"
            )
        return ""

    def _send(self, broker: Broker, message: Request, version: int) -> None:
        self._connections.submit_handshake(
            broker, message.api_key, version, message.encode(version), self._timeout_s
        )

    def on_reply(self, broker: Broker, event: Event) -> None:
        """Handles the reply to the last request."""
        ours = broker.authentication
        if ours is None or event.generation not in (0, broker.generation):
            return
        if event.status != 0:
            self._on_failure(broker, ours, event.status)
            return
        try:
            if ours.asked is ApiKey.SASL_HANDSHAKE:
                version = RAW if ours.raw else WRAPPED
                self._on_handshake(
                    broker, ours, SaslHandshakeResponse.decode(event.body, version, whole=False)
                )
            elif ours.raw:
                self._on_challenge(broker, ours, event.body or b"")
            else:
                version = ours.ranges.choose(SaslAuthenticateRequest)
                self._on_message(
                    broker, ours, SaslAuthenticateResponse.decode(event.body, version, whole=False)
                )
        except ProtocolError as error:
            text = f"{broker.name}: reply to {NAMES[ours.asked]} can't be read: {error}"
            self._connections.refuse(broker, KafkaError(KafkaError._BAD_MSG, text))

    def _on_failure(self, broker: Broker, ours: Authentication, status: int) -> None:
        broker.authentication = None
        if status == STATUS_TIMED_OUT:
            text = f"{broker.name}: no reply to {NAMES[ours.asked]} in {self._timeout_s:g} s"
            self._connections.refuse(broker, KafkaError(KafkaError._TIMED_OUT, text))
        elif status == STATUS_TRANSPORT and not ours.again:
            # DISCONNECTED comes next. A broker with sessions reports it if it refuses a renewal, so
            # the credentials aren't the cause of a renewal's end.
            broker.ended_at = ours.asked

    def explain(self, asked: ApiKey, cause: KafkaError) -> KafkaError:
        """Explains why a connection has ended during this request."""
        if asked is ApiKey.SASL_HANDSHAKE:
            return KafkaError(
                cause.code(), f"{cause.str()} (at SaslHandshake: is its listener one for SASL?)"
            )
        text = f"{cause.str()} (while {self._who()} was authenticated: check the credentials, "
        text += "and the broker's log)"
        return KafkaError(KafkaError._AUTHENTICATION, text)

    def _who(self) -> str:
        user = self.mechanism.user
        return (
            f"user {shown(user)!r} with {self.mechanism.name}"
            if user
            else f"the client with {self.mechanism.name}"
        )

    def _on_handshake(
        self, broker: Broker, ours: Authentication, reply: SaslHandshakeResponse
    ) -> None:
        if reply.error_code == 0:
            self._step(broker, ours, ours.exchange.begin)
            return
        name = self.mechanism.name
        if reply.error_code == KafkaError.UNSUPPORTED_SASL_MECHANISM:
            offered = (
                ", ".join(clean(each, MECHANISM_NAME_MAX) for each in reply.mechanisms[:20])
                or "nothing"
            )
            text = f"it has no SASL mechanism {name}: it offers {offered} (sasl.mechanism)"
        elif reply.error_code == KafkaError.ILLEGAL_SASL_STATE:
            text = "its listener doesn't take SASL: security.protocol should be plaintext or ssl, "
            text += "or the port another"
        else:
            text = f"SASL {name} is refused: {error_name(reply.error_code)}"
        self._fail(broker, text)

    def _on_message(
        self, broker: Broker, ours: Authentication, reply: SaslAuthenticateResponse
    ) -> None:
        if reply.error_code:
            why = shown(
                reply.error_message or error_name(reply.error_code), self.mechanism.secrets()
            )
            problem = (
                f" ({shown(ours.exchange.problem, self.mechanism.secrets())})"
                if ours.exchange.problem
                else ""
            )
            self.mechanism.on_refused()
            self._fail(broker, f"SASL authentication of {self._who()} failed: {why}{problem}")
            return
        ours.session_ms = reply.session_lifetime_ms
        self._on_challenge(broker, ours, reply.auth_bytes)

    def _on_challenge(self, broker: Broker, ours: Authentication, challenge: bytes) -> None:
        if len(challenge) > MESSAGE_MAX:
            self._fail(
                broker, f"a SASL message of {len(challenge)} bytes; {MESSAGE_MAX} are accepted"
            )
            return
        self._step(broker, ours, lambda: ours.exchange.respond(challenge))

    def _step(self, broker: Broker, ours: Authentication, work: Callable[[], bytes | None]) -> None:
        """Runs the mechanism's next step and sends its message."""

        def done(outcome: bytes | Exception | None) -> None:
            if broker.authentication is not ours:
                return  # the connection has ended meanwhile
            if isinstance(outcome, Exception):
                self._fail(broker, self._impossible(outcome))
            elif outcome is not None:
                self._send_message(broker, ours, outcome)
            elif ours.exchange.done:
                self._on_done(broker, ours)
            else:
                self._fail(
                    broker,
                    f"SASL {self.mechanism.name} ended before the broker had proved who it is",
                )

        if ours.exchange.slow:
            self._worker.run(work, done)
            return
        try:
            outcome = work()
        except Exception as error:
            done(error)
        else:
            done(outcome)

    def _send_message(self, broker: Broker, ours: Authentication, message: bytes) -> None:
        ours.asked = ApiKey.SASL_AUTHENTICATE
        if ours.raw:
            form = {"raw": True, "replied": not ours.exchange.said_all}
            self._connections.submit_handshake(
                broker, ours.asked, 0, message, self._timeout_s, **form
            )
            return
        version = ours.ranges.choose(SaslAuthenticateRequest)
        self._send(broker, SaslAuthenticateRequest(auth_bytes=message), version)

    def _impossible(self, error: Exception) -> str:
        kind = "" if isinstance(error, SaslError) else f"{type(error).__name__}: "
        why = shown(str(error), self.mechanism.secrets())
        return f"SASL authentication of {self._who()} isn't possible: {kind}{why}"

    def _fail(self, broker: Broker, text: str) -> None:
        self._connections.refuse(
            broker, KafkaError(KafkaError._AUTHENTICATION, f"{broker.name}: {text}")
        )

    def _on_done(self, broker: Broker, ours: Authentication) -> None:
        broker.authentication = None
        self._log.debug(
            "%s: %s %s%s",
            broker.name,
            self._who(),
            "has renewed its session" if ours.again else "is authenticated",
            f" for {ours.session_ms / 1000:g} s" if ours.session_ms > 0 else "",
        )
        if ours.session_ms > 0:
            delay_s = min(
                max(SESSION_MIN_S, self._spread(*SESSION_PART) * ours.session_ms / 1000),
                SESSION_MAX_S,
            )
            self._sessions[broker.handle] = (broker, broker.generation, self._clock() + delay_s)
        self._connections.open(broker, ours.ranges)
