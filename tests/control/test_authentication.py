"""SASL on connections: the state machine, its failures, and renewals, without sockets or
threads.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import pytest

from kafka_native.control.brokers.security import Authenticator, Connections, SecurityWorker
from kafka_native.errors import STATUS_TIMED_OUT, STATUS_TRANSPORT, KafkaError
from kafka_native.logs import QUIET
from kafka_native.protocol import ApiKey
from kafka_native.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from kafka_native.protocol.versions import ApiVersionsRequest, ApiVersionsResponse
from kafka_native.security.mechanisms import Credentials, Exchange, Mechanism, SaslError
from kafka_native.security.oauthbearer import OAuthBearer, Token
from kafka_native.security.plain import Plain
from tests.waiting import wait_for

from .fakes import Cluster, api_versions, event

SECRET = "s3cret-word"


class FakeWorker:
    """Work for another thread, which runs on a test's command."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []

    def run(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self.waiting.append((work, done))

    def do(self) -> None:
        work, done = self.waiting.pop(0)
        try:
            outcome = work()
        except Exception as error:
            outcome = error
        done(outcome)


class TwoRounds(Mechanism):
    """A mechanism of two rounds, which the worker runs."""

    name = "TALK"
    user = "talker"
    exposes = ""

    def __init__(self) -> None:
        self.refusals = 0
        self.due = float("inf")
        self.failure: Exception | None = None
        self.refreshed = 0
        self.slow = True

    def exchange(self, host: str, port: int) -> Exchange:
        return TwoRoundExchange(self.failure, self.slow)

    def secrets(self) -> tuple[str, ...]:
        return (SECRET,)

    def on_refused(self) -> None:
        self.refusals += 1

    def refresh(self) -> None:
        self.refreshed += 1
        if self.failure is not None:
            raise self.failure
        self.due += 80

    @property
    def refresh_at(self) -> float:
        return self.due


class TwoRoundExchange(Exchange):
    def __init__(self, failure: Exception | None, slow: bool) -> None:
        self.failure = failure
        self.slow = slow

    def begin(self) -> bytes:
        if self.failure is not None:
            raise self.failure
        return b"hello"

    def respond(self, challenge: bytes) -> bytes | None:
        if challenge == b"bye":
            return None
        if challenge == b"error":
            self.problem = f"status invalid with {SECRET}"
            return b"\x01"
        self.done = challenge == b"welcome"
        return None if self.done else b"more"


class SecuredCluster(Cluster):
    """A pool that authenticates."""

    def __init__(self, mechanism: Mechanism, *, connected: bool = False) -> None:
        self.worker = FakeWorker()
        self.mechanism = mechanism
        super().__init__(make_authenticator=self._authenticator)
        if connected:
            self.connect()

    def _authenticator(self, connections: Connections) -> Authenticator:
        return Authenticator(
            connections,
            self.mechanism,
            self.worker,
            timeout_s=60.0,
            log=QUIET["security"],
            clock=self.clock,
            wall_clock=self.clock,
            spread=lambda low, high: (low + high) / 2,
        )

    def connect(self, generation: int = 1, offer: Any = None) -> None:
        """Connect, up to the known versions."""
        self.pool.on_connected(event(generation=generation))
        self.reply(offer or api_versions(), generation=generation)

    def reply(self, response: Any, **how: Any) -> None:
        """Answer the last request, which belongs to the handshake."""
        sent = self.engine.submitted.pop()
        assert sent.how["handshake"], "no request may overtake the handshake"
        if response is not None:
            how["body"] = response.encode(sent.version)
        self.pool.on_reply(event(broker=sent.handle, token=sent.token, **{"generation": 1, **how}))

    def said(self) -> bytes:
        """Return the mechanism's last message."""
        sent = self.engine.submitted[-1]
        assert sent.api_key == ApiKey.SASL_AUTHENTICATE
        return SaslAuthenticateRequest.decode(sent.body, sent.version).auth_bytes

    def authenticate(self, session_ms: int = 0, **how: Any) -> None:
        """Run the whole exchange of PLAIN, after the versions."""
        self.reply(SaslHandshakeResponse(mechanisms=["PLAIN"]), **how)
        self.reply(SaslAuthenticateResponse(session_lifetime_ms=session_ms), **how)

    @property
    def reported(self) -> list[KafkaError]:
        return [error for error in self.errors if error.code() != KafkaError._ALL_BROKERS_DOWN]


def plain() -> Plain:
    return Plain(Credentials("alice", SECRET))


def test_no_request_is_sent_before_authentication():
    cluster = SecuredCluster(plain())
    cluster.call()
    cluster.connect()
    [sent] = cluster.engine.submitted
    assert (sent.api_key, sent.version) == (ApiKey.SASL_HANDSHAKE, 1)
    assert SaslHandshakeRequest.decode(sent.body, 1).mechanism == "PLAIN"
    assert sent.how == {"generation": 1, "handshake": True}
    cluster.reply(SaslHandshakeResponse(mechanisms=["PLAIN"]))
    assert cluster.said() == f"\0alice\0{SECRET}".encode()
    assert cluster.engine.opened == []
    cluster.reply(SaslAuthenticateResponse())
    assert len(cluster.engine.opened) == 1
    assert [each.api_key for each in cluster.engine.submitted] == [ApiKey.METADATA]


def test_a_mechanism_runs_on_the_security_thread_until_it_is_done():
    cluster = SecuredCluster(TwoRounds(), connected=True)
    cluster.reply(SaslHandshakeResponse())
    assert cluster.engine.submitted == [], "another thread does its work"
    cluster.worker.do()
    assert cluster.said() == b"hello"
    cluster.reply(SaslAuthenticateResponse(auth_bytes=b"go on"))
    cluster.worker.do()
    assert cluster.said() == b"more"
    cluster.reply(SaslAuthenticateResponse(auth_bytes=b"welcome"))
    assert cluster.engine.opened == []
    cluster.worker.do()
    assert len(cluster.engine.opened) == 1


def test_an_exchange_without_the_brokers_proof_fails():
    cluster = SecuredCluster(TwoRounds(), connected=True)
    cluster.reply(SaslHandshakeResponse())
    cluster.worker.do()
    cluster.reply(SaslAuthenticateResponse(auth_bytes=b"bye"))
    cluster.worker.do()
    assert cluster.engine.opened == []
    assert len(cluster.engine.closed) == 1
    assert "before the broker had proved" in cluster.reported[0].str()


def test_results_for_a_closed_connection_are_dropped():
    cluster = SecuredCluster(TwoRounds(), connected=True)
    cluster.reply(SaslHandshakeResponse())
    cluster.lose("gone")
    cluster.connect(generation=2)
    cluster.worker.do()
    assert [each.api_key for each in cluster.engine.submitted] == [ApiKey.SASL_HANDSHAKE], (
        "of the second connection"
    )


def test_refusal_names_broker_mechanism_and_user_and_never_the_secret():
    cluster = SecuredCluster(plain())
    for generation in (1, 2, 3):
        cluster.connect(generation)
        cluster.reply(SaslHandshakeResponse(), generation=generation)
        refusal = SaslAuthenticateResponse(error_code=58, error_message=f"no\nuser with {SECRET}")
        cluster.reply(refusal, generation=generation)
        cluster.pool.on_disconnected(
            event(status=-15, attempts=1, generation=generation, text="malformed data")
        )
    [error] = cluster.reported
    assert error.code() == KafkaError._AUTHENTICATION
    assert not error.fatal()
    assert error.str() == (
        "boot0:9092/bootstrap: SASL authentication of user 'alice' with PLAIN failed: "
        "no?user with [redacted]"
    )


def test_calls_wait_as_with_librdkafka_and_their_timeout_gives_the_reason():
    cluster = SecuredCluster(plain())
    replies = cluster.call()
    cluster.connect()
    cluster.reply(SaslHandshakeResponse())
    cluster.reply(SaslAuthenticateResponse(error_code=58, error_message="who are you?"))
    cluster.pool.on_disconnected(event(status=-15, attempts=1, text="malformed data"))
    assert replies == []
    cluster.clock.now += 61
    cluster.pool.poll(cluster.clock.now)
    [error] = replies
    assert error.code() == KafkaError._TRANSPORT
    assert "who are you?" in error.str()


def test_a_failure_after_a_success_is_reported_again():
    cluster = SecuredCluster(plain())
    for generation, code in ((1, 58), (2, 0), (3, 58)):
        cluster.connect(generation)
        cluster.reply(SaslHandshakeResponse(), generation=generation)
        cluster.reply(SaslAuthenticateResponse(error_code=code), generation=generation)
        if code == 0:
            cluster.pool.on_working(event(generation=generation))
        cluster.lose("gone", generation=generation)
    codes = [error.code() for error in cluster.reported]
    assert codes.count(KafkaError._AUTHENTICATION) == 2


def test_a_problem_from_the_exchange_explains_the_refusal():
    cluster = SecuredCluster(TwoRounds(), connected=True)
    cluster.reply(SaslHandshakeResponse())
    cluster.worker.do()
    cluster.reply(SaslAuthenticateResponse(auth_bytes=b"error"))
    cluster.worker.do()
    assert cluster.said() == b"\x01"
    cluster.reply(SaslAuthenticateResponse(error_code=58, error_message="no"))
    assert "no (status invalid with [redacted])" in cluster.reported[0].str()
    assert cluster.mechanism.refusals == 1


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (
            SaslHandshakeResponse(error_code=33, mechanisms=["SCRAM-SHA-512", "X\n"]),
            "no SASL mechanism PLAIN: it offers SCRAM-SHA-512, X?",
        ),
        (SaslHandshakeResponse(error_code=33), "it offers nothing"),
        (SaslHandshakeResponse(error_code=34), "listener doesn't take SASL"),
        (SaslHandshakeResponse(error_code=-1), "is refused: UNKNOWN"),
    ],
)
def test_error_of_a_refused_handshake_says_what_to_change(reply: SaslHandshakeResponse, words: str):
    cluster = SecuredCluster(plain(), connected=True)
    cluster.reply(reply)
    [error] = cluster.reported
    assert error.code() == KafkaError._AUTHENTICATION
    assert words in error.str()
    assert len(cluster.engine.closed) == 1


BEFORE_1_0 = {18: (0, 0), 17: (0, 0), 11: (0, 1)}
ONLY_KERBEROS = {11: (0, 0)}
"""The versions of a broker before 0.10."""


@pytest.mark.parametrize(
    ("offer", "words"),
    [({18: (0, 0)}, "Apache Kafka 0.9"), (ONLY_KERBEROS, "SASL PLAIN needs Apache Kafka 0.10")],
)
def test_a_broker_without_sasl_is_named_as_such(
    offer: dict[int, tuple[int, int]], words: str
) -> None:
    cluster = SecuredCluster(plain())
    cluster.connect(offer=api_versions(offer))
    [error] = cluster.reported
    assert error.code() == KafkaError._UNSUPPORTED_FEATURE
    assert words in error.str()


@pytest.mark.parametrize(
    "offer",
    [BEFORE_1_0, {**BEFORE_1_0, 17: (0, 1)}, {**BEFORE_1_0, 17: (0, 1), 36: (9, 9)}],
)
def test_messages_have_no_headers_before_1_0(offer: dict[int, tuple[int, int]]) -> None:
    cluster = SecuredCluster(TwoRounds())
    cluster.connect(offer=api_versions(offer))
    assert cluster.engine.submitted[-1].version == 0
    cluster.reply(SaslHandshakeResponse())
    for said, challenge in ((b"hello", b"who?"), (b"more", b"welcome")):
        cluster.worker.do()
        [sent] = cluster.engine.submitted
        assert (sent.body, sent.how["raw"], sent.how["replied"]) == (said, True, True)
        assert cluster.engine.opened == []
        cluster.reply(None, body=challenge)
    cluster.worker.do()
    assert len(cluster.engine.opened) == 1
    assert cluster.reported == []


def test_kerberos_begins_without_a_handshake_before_0_10() -> None:
    mechanism = TwoRounds()
    mechanism.name = "GSSAPI"
    cluster = SecuredCluster(mechanism)
    cluster.connect(offer=api_versions(ONLY_KERBEROS))
    cluster.worker.do()
    [sent] = cluster.engine.submitted
    assert (sent.body, sent.how["raw"]) == (b"hello", True)
    assert cluster.pool.bootstrap[0].authentication is not None
    cluster.pool.bootstrap[0].authentication.exchange.said_all = True
    cluster.reply(None, body=b"who?")
    cluster.worker.do()
    [sent] = cluster.engine.submitted
    assert sent.how["replied"] is False, "the broker doesn't answer the last message"
    cluster.reply(None, body=b"welcome")
    cluster.worker.do()
    assert len(cluster.engine.opened) == 1


def test_a_refusal_before_1_0_is_a_closed_connection() -> None:
    cluster = SecuredCluster(plain())
    cluster.connect(offer=api_versions(BEFORE_1_0))
    cluster.reply(SaslHandshakeResponse())
    cluster.reply(None, status=STATUS_TRANSPORT)
    closed = event(status=STATUS_TRANSPORT, attempts=1, peer_closed=3, text="closed")
    cluster.pool.on_disconnected(closed)
    [error, *_] = cluster.reported
    assert error.code() == KafkaError._AUTHENTICATION
    assert "check the credentials" in error.str()
    assert SECRET not in error.str()


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [(STATUS_TIMED_OUT, KafkaError._TIMED_OUT, "no reply to SaslAuthenticate"), (-99, None, "")],
)
def test_a_broker_that_does_not_answer_is_disconnected(status: int, code: int | None, words: str):
    cluster = SecuredCluster(plain(), connected=True)
    cluster.reply(SaslHandshakeResponse())
    cluster.reply(None, status=status)
    assert [error.code() for error in cluster.reported] == ([] if code is None else [code])
    assert all(words in error.str() for error in cluster.reported)
    assert cluster.engine.opened == []


@pytest.mark.parametrize("rounds", [0, 1])
def test_a_connection_that_ends_during_authentication_names_the_step(rounds: int):
    cluster = SecuredCluster(plain(), connected=True)
    if rounds:
        cluster.reply(SaslHandshakeResponse())
    cluster.reply(None, status=STATUS_TRANSPORT)
    ended = {
        "status": STATUS_TRANSPORT,
        "attempts": 1,
        "peer_closed": 3,
        "text": "the peer closed the connection",
    }
    cluster.pool.on_disconnected(event(**ended))
    [error, *_] = cluster.reported
    assert error.code() == (KafkaError._AUTHENTICATION if rounds else KafkaError._TRANSPORT)
    cluster.pool.on_disconnected(
        event(status=STATUS_TRANSPORT, attempts=2, generation=0, text="refused")
    )
    assert [each.str() for each in cluster.reported[1:]] == ["boot0:9092/bootstrap: refused"], (
        "the later error is about another connection"
    )
    words = (
        "while user 'alice' with PLAIN was authenticated"
        if rounds
        else "is its listener one for SASL?"
    )
    assert words in error.str()
    assert "the peer closed the connection" in error.str()


def test_local_failure_during_authentication_is_no_authentication_error():
    cluster = SecuredCluster(plain(), connected=True)
    cluster.reply(SaslHandshakeResponse())
    cluster.reply(None, status=STATUS_TRANSPORT)
    text = "write failed: No buffer space available"
    cluster.pool.on_disconnected(event(status=STATUS_TRANSPORT, attempts=1, text=text))
    assert [each.code() for each in cluster.reported] == [KafkaError._TRANSPORT]
    assert "credentials" not in cluster.reported[0].str()


def test_replies_that_cannot_be_read_end_the_connection():
    for rounds in (0, 1):
        cluster = SecuredCluster(plain(), connected=True)
        if rounds:
            cluster.reply(SaslHandshakeResponse())
        sent = cluster.engine.submitted.pop()
        cluster.pool.on_reply(event(token=sent.token, body=b"\0"))
        assert cluster.reported[0].code() == KafkaError._BAD_MSG
        assert len(cluster.engine.closed) == 1


def test_a_message_over_the_cap_is_not_given_to_the_mechanism():
    cluster = SecuredCluster(TwoRounds(), connected=True)
    cluster.reply(SaslHandshakeResponse())
    cluster.worker.do()
    cluster.reply(SaslAuthenticateResponse(auth_bytes=bytes((1 << 20) + 1)))
    assert cluster.worker.waiting == []
    assert "1048577 bytes" in cluster.reported[0].str()


@pytest.mark.parametrize("slow", [True, False], ids=["its own thread", "the control thread"])
@pytest.mark.parametrize(
    "error", [SaslError(f"no ticket for {SECRET}"), ValueError(f"odd {SECRET}")]
)
def test_missing_credentials_are_an_error_without_secrets(error: Exception, slow: bool):
    talk = TwoRounds()
    talk.failure = error
    talk.slow = slow
    cluster = SecuredCluster(talk, connected=True)
    cluster.reply(SaslHandshakeResponse())
    if slow:
        cluster.worker.do()
    [reported] = cluster.reported
    assert reported.code() == KafkaError._AUTHENTICATION
    assert SECRET not in reported.str()
    assert "[redacted]" in reported.str()


# --- sessions (KIP-368) ---


def test_a_session_is_renewed_on_the_live_connection_before_it_ends():
    cluster = SecuredCluster(plain(), connected=True)
    cluster.authenticate(session_ms=100_000)
    assert len(cluster.engine.opened) == 1
    assert cluster.pool.poll(cluster.clock.now)[1] == cluster.clock.now + 90
    cluster.clock.now += 89
    cluster.pool.poll(cluster.clock.now)
    assert cluster.engine.held == []
    cluster.clock.now += 1
    cluster.pool.poll(cluster.clock.now)
    assert cluster.engine.held == [(0, 1)]
    assert cluster.pool.bootstrap[0].up, "calls go on to the engine, which holds them"
    cluster.authenticate(session_ms=10_000)
    assert len(cluster.engine.opened) == 2
    assert cluster.engine.closed == []
    assert cluster.pool.poll(cluster.clock.now)[1] == cluster.clock.now + 9


def test_a_renewal_that_fails_closes_the_connection_and_the_next_one_is_authenticated():
    cluster = SecuredCluster(plain(), connected=True)
    cluster.authenticate(session_ms=100_000)
    cluster.clock.now += 95
    cluster.pool.poll(cluster.clock.now)
    cluster.reply(SaslHandshakeResponse())
    cluster.reply(SaslAuthenticateResponse(error_code=58, error_message="another principal"))
    assert cluster.engine.closed == [(0, 1, STATUS_TRANSPORT)], "callers retry the held calls"
    assert not cluster.pool.bootstrap[0].up
    cluster.pool.on_disconnected(event(status=-15, attempts=1, text="malformed data"))
    cluster.connect(generation=2)
    cluster.authenticate(generation=2)
    assert len(cluster.engine.opened) == 2
    assert cluster.pool.poll(cluster.clock.now)[1] == float("inf"), (
        "this broker has no sessions that end"
    )


@pytest.mark.parametrize("rounds", [0, 1])
def test_a_connection_that_ends_during_a_renewal_is_no_authentication_error(rounds: int):
    """A broker restarts: the credentials have worked before."""
    cluster = SecuredCluster(plain(), connected=True)
    cluster.authenticate(session_ms=100_000)
    cluster.clock.now += 95
    cluster.pool.poll(cluster.clock.now)
    if rounds:
        cluster.reply(SaslHandshakeResponse())
    cluster.reply(None, status=STATUS_TRANSPORT)
    closed = event(status=STATUS_TRANSPORT, attempts=1, peer_closed=3, text="closed")
    cluster.pool.on_disconnected(closed)
    assert [error.code() for error in cluster.reported] == [KafkaError._TRANSPORT]
    assert cluster.reported[0].str() == "boot0:9092/bootstrap: closed"


def test_a_session_ends_with_its_connection():
    cluster = SecuredCluster(plain(), connected=True)
    cluster.authenticate(session_ms=100_000)
    cluster.lose("gone")
    cluster.clock.now += 95
    assert cluster.pool.poll(cluster.clock.now)[1] == float("inf")
    assert cluster.engine.held == []


@pytest.mark.parametrize("session_ms", [1, 10, 1000])
def test_a_short_session_is_not_renewed_sooner_than_brokers_allow(session_ms: int):
    cluster = SecuredCluster(plain(), connected=True)
    for _ in range(5):  # as often as it is granted
        cluster.authenticate(session_ms=session_ms)
        due = cluster.pool.poll(cluster.clock.now)[1]
        assert due > cluster.clock.now + 1
        cluster.clock.now = due - 0.01
        cluster.pool.poll(cluster.clock.now)
        assert cluster.engine.submitted == []
        cluster.clock.now = due
        cluster.pool.poll(cluster.clock.now)


@pytest.mark.parametrize("session_ms", [0, -1, -(2**63)])
def test_a_session_without_an_end_is_not_renewed(session_ms: int):
    cluster = SecuredCluster(plain(), connected=True)
    cluster.authenticate(session_ms=session_ms)
    assert cluster.pool.poll(cluster.clock.now)[1] == float("inf")


@pytest.mark.parametrize("session_ms", [7 * 86_400_000, 2**63 - 1])
def test_a_long_session_is_renewed_after_a_week_at_the_latest(session_ms: int):
    cluster = SecuredCluster(plain(), connected=True)
    cluster.authenticate(session_ms=session_ms)
    assert cluster.pool.poll(cluster.clock.now)[1] <= cluster.clock.now + 7 * 86_400


# --- expiry ---


def test_credentials_are_refreshed_on_the_security_thread_when_due_and_retried_after_a_pause():
    talk = TwoRounds()
    talk.due = 1000.0
    cluster = SecuredCluster(talk)
    cluster.pool.poll(1000.0)
    cluster.pool.poll(1000.0)
    assert len(cluster.worker.waiting) == 1, "one at a time"
    cluster.worker.do()
    assert cluster.pool.poll(1000.0)[1] == 1080.0
    cluster.clock.now = 1080.0
    talk.failure = SaslError("nobody there")
    pauses = []
    for _ in range(7):
        cluster.pool.poll(cluster.clock.now)
        cluster.worker.do()
        due = cluster.pool.poll(cluster.clock.now)[1]
        pauses.append(due - cluster.clock.now)
        cluster.clock.now = due
    assert pauses == [1, 2, 4, 8, 16, 30, 30]
    assert {error.code() for error in cluster.reported} == {KafkaError._AUTHENTICATION}
    assert "nobody there" in cluster.reported[0].str()
    assert len(cluster.reported) == 2, "at once, and a minute later"
    talk.failure = None
    cluster.pool.poll(cluster.clock.now)
    cluster.worker.do()
    talk.failure = SaslError("gone again")
    cluster.clock.now = talk.due = cluster.clock.now + 80
    cluster.pool.poll(cluster.clock.now)
    cluster.worker.do()
    assert len(cluster.reported) == 3, "it has worked in between"


@pytest.mark.parametrize("again", [False, True], ids=["new connection", "renewed session"])
def test_a_refresh_that_hangs_delays_no_connection_while_the_old_token_is_valid(again: bool):
    def token() -> Token:
        return Token("t0ken", cluster.clock.now + 100)

    cluster = SecuredCluster(OAuthBearer(token, clock=lambda: cluster.clock.now))
    cluster.pool.poll(cluster.clock.now)
    cluster.worker.do()
    cluster.connect()
    cluster.authenticate(session_ms=97_000)
    cluster.clock.now += 80
    cluster.pool.poll(cluster.clock.now)
    assert len(cluster.worker.waiting) == 1, "the provider doesn't answer the refresh"
    if again:
        cluster.clock.now += 10
        cluster.pool.poll(cluster.clock.now)
    else:
        cluster.lose("gone")
        cluster.connect(generation=2)
    cluster.authenticate(generation=1 if again else 2)
    assert len(cluster.engine.opened) == 2


def test_a_connection_waits_for_the_refresh_if_the_old_token_is_about_to_expire():
    """Its session would end before brokers allow a renewal."""

    def token() -> Token:
        return Token(f"t0ken{cluster.clock.now:.0f}", cluster.clock.now + 10)

    cluster = SecuredCluster(OAuthBearer(token, clock=lambda: cluster.clock.now))
    cluster.pool.poll(cluster.clock.now)
    cluster.worker.do()
    cluster.clock.now += 8
    cluster.pool.poll(cluster.clock.now)
    cluster.connect()
    cluster.reply(SaslHandshakeResponse())
    assert cluster.engine.submitted == []
    cluster.worker.do()
    cluster.worker.do()
    assert f"Bearer t0ken{cluster.clock.now:.0f}\x01".encode() in cluster.said()


def test_the_first_token_comes_from_the_security_thread():
    cluster = SecuredCluster(OAuthBearer(lambda: Token("t0ken", 1e12)), connected=True)
    cluster.reply(SaslHandshakeResponse())
    assert cluster.engine.submitted == []
    cluster.worker.do()
    assert b"Bearer t0ken" in cluster.said()


def test_credentials_that_expire_at_once_are_refreshed_once_a_second():
    """The issuer of a token decides how long it lasts."""
    talk = TwoRounds()
    talk.due = float("-inf")
    cluster = SecuredCluster(talk)
    for number in range(1, 4):
        cluster.pool.poll(cluster.clock.now)
        cluster.worker.do()
        assert cluster.pool.poll(cluster.clock.now)[1] == cluster.clock.now + 1.0
        assert not cluster.worker.waiting
        assert talk.refreshed == number
        cluster.clock.now += 1.0


# --- the thread ---


def test_the_thread_runs_tasks_one_by_one_and_none_after_its_end():
    posted: list[Callable[[], None]] = []
    arrived = threading.Semaphore(0)

    def post(work: Callable[[], None]) -> None:
        posted.append(work)
        arrived.release()

    worker = SecurityWorker("test", post)
    outcomes: list[Any] = []
    names: list[str] = []
    worker.run(lambda: names.append(threading.current_thread().name) or 1, outcomes.append)
    worker.run(lambda: 1 // 0, outcomes.append)
    worker.run(sys.exit, outcomes.append)
    for _ in range(3):
        assert arrived.acquire(timeout=60)
    for work in posted:
        work()
    assert names == ["kafka-native security test"]
    assert outcomes[0] == 1
    assert isinstance(outcomes[1], ZeroDivisionError)
    assert str(outcomes[2]) == "SystemExit"
    going, go_on = threading.Event(), threading.Event()
    worker.run(lambda: (going.set(), go_on.wait(60)), outcomes.append)
    assert going.wait(60)
    stopper = threading.Thread(target=worker.stop)
    stopper.start()
    while not worker._ended:
        stopper.join(0.01)
    go_on.set()
    stopper.join(60)
    assert not stopper.is_alive()
    assert len(posted) == 3, "results after the client's end are not reported"


@pytest.mark.parametrize("keeps_work", [False, True])
def test_work_without_a_thread_fails_or_waits(keeps_work: bool, monkeypatch: pytest.MonkeyPatch):
    """A connection must not wait for its login without an end. An event must not be lost."""

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    posted: SimpleQueue[Callable[[], None]] = SimpleQueue()
    outcomes: list[Any] = []
    worker = SecurityWorker("test", posted.put, keeps_work=keeps_work)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        worker.run(lambda: "first", outcomes.append)
    worker.run(lambda: "second", outcomes.append)
    for _ in range(2):
        posted.get(timeout=60)()
    worker.stop()
    first = "first" if keeps_work else "can't start new thread"
    assert [str(outcome) for outcome in outcomes] == [first, "second"]


@pytest.mark.parametrize("before", [0, 1])
def test_a_client_that_is_closed_by_a_later_finaliser_is_still_authenticated(before: int):
    """The garbage collector calls the finalizers of a cycle in any order."""
    arrived = threading.Semaphore(0)
    worker = SecurityWorker("later", lambda work: arrived.release())
    for _ in range(before):
        worker.run(int, lambda outcome: None)
        assert arrived.acquire(timeout=60)
    worker.__del__()
    worker.run(int, lambda outcome: None)
    assert arrived.acquire(timeout=60)
    worker.stop()
    wait_for(
        lambda: "kafka-native security later" not in {each.name for each in threading.enumerate()}
    )


def test_the_ids_follow_the_authentication() -> None:
    """Brokers check them only then (KIP-1242). A renewed session isn't checked again."""
    cluster = SecuredCluster(Plain(Credentials("alice", SECRET)), connected=True)

    def log_in() -> None:
        cluster.reply(SaslHandshakeResponse(mechanisms=["PLAIN"]))
        cluster.reply(SaslAuthenticateResponse(session_lifetime_ms=100_000))

    def ids() -> tuple[str | None, int]:
        sent = cluster.engine.submitted[-1]
        assert sent.api_key == ApiKey.API_VERSIONS
        message = ApiVersionsRequest.decode(sent.body, sent.version)
        return message.cluster_id, message.node_id

    log_in()
    assert cluster.pool.bootstrap[0].up, "any bootstrap server will do"
    cluster.pool.set_cluster_id("ours")
    cluster.pool.update(1, "b1", 9092, None)
    node = cluster.pool.nodes[1]
    cluster.pool.on_connected(event(broker=node.handle))
    assert ids() == (None, -1)
    cluster.reply(api_versions())
    log_in()
    assert not node.up
    assert ids() == ("ours", 1)
    cluster.pool.poll(cluster.clock.now)
    cluster.reply(api_versions())
    assert node.up
    cluster.clock.now += 99
    cluster.pool.poll(cluster.clock.now)
    log_in()
    assert node.up
    assert cluster.engine.submitted == []

    cluster.pool.on_disconnected(event(broker=node.handle))
    cluster.pool.on_connected(event(broker=node.handle, generation=2))
    cluster.reply(api_versions(), generation=2)
    for response in (SaslHandshakeResponse(mechanisms=["PLAIN"]), SaslAuthenticateResponse()):
        cluster.reply(response, generation=2)
    other = ApiVersionsResponse(error_code=KafkaError.REBOOTSTRAP_REQUIRED)
    cluster.reply(other, generation=2)
    assert not node.up
    assert cluster.pool.rebootstrapping
