"""SASL on the mock cluster: success, failures and their reasons. No output has a secret."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from kafka_native import (
    Client,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from kafka_native.admin import AdminClient
from kafka_native.aio import AIOConsumer, AIOProducer
from kafka_native.mock import AwsKey, DelegationToken, ListenerSecurity, MockCluster
from kafka_native.mock.versions import of_release
from kafka_native.protocol import ApiKey
from tests.client.log_support import PlainLogger
from tests.mock.secured import unsecured_jwt
from tests.waiting import WAIT_S, wait_for

from .support import deliver, errors_into

SECRET = "s3cret-word"
BOBS_SECRET = "another-s3cret-word"
AWS_SECRET = "s3cret-aws"
TOKEN_SECRET = "s3cret-hmac"
SECURITY = ListenerSecurity(
    "sasl_plaintext",
    mechanisms=["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM"],
    users={"alice": SECRET, "bob": BOBS_SECRET},
    delegation_tokens={"token-1": DelegationToken("alice", TOKEN_SECRET)},
    aws_keys={"AKIA1": AwsKey(AWS_SECRET)},
)
PASSWORDS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
QUICK = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100}


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    with MockCluster(1, security=SECURITY) as running:
        running.create_topic("t", 1)
        yield running


def conf(cluster: MockCluster, mechanism: str, **more: Any) -> dict[str, Any]:
    found = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": mechanism,
        **QUICK,
    }
    if mechanism in PASSWORDS:
        found |= {"sasl.username": "alice", "sasl.password": SECRET}
    return {**found, **more}


def check_login(config: dict[str, Any], count: int = 1) -> None:
    """Check that a producer authenticates and its messages are written."""
    errors: list[Any] = []
    with Producer(config) as producer:
        for _ in range(count):
            producer.produce("t", b"x", on_delivery=errors_into(errors))
        assert producer.flush(WAIT_S) == 0
    assert errors == [None] * count


@pytest.mark.parametrize("mechanism", PASSWORDS)
@pytest.mark.parametrize("release", ["0.10.2", "0.11.0"])
def test_tokens_without_headers(release: str, mechanism: str) -> None:
    """Brokers before 1.0 have no SaslAuthenticate. A refusal is a closed connection."""
    with MockCluster(1, security=SECURITY, max_versions=of_release(release)) as old:
        old.create_topic("t", 1)
        check_login(conf(old, mechanism))
        errors: list[KafkaError] = []
        wrong = {"sasl.password": "another", "error_cb": errors.append}
        with Producer(conf(old, mechanism, **wrong)) as producer:
            producer.produce("t", b"never")
            wait_for(lambda: producer.poll(0.01) or errors, "an error")
            producer.purge()
    assert errors[0].code() == KafkaError._AUTHENTICATION
    assert "'alice'" in errors[0].str()
    assert "check the credentials" in errors[0].str()
    assert "another" not in errors[0].str()


def refusals(config: dict[str, Any], code: int = KafkaError._AUTHENTICATION) -> list[KafkaError]:
    """Return the errors of error_cb, once one has this code."""
    errors: list[KafkaError] = []
    with Producer({**config, "error_cb": errors.append}) as producer:
        producer.produce("t", b"x")

        def is_reported() -> bool:
            producer.poll(0.05)
            return any(error.code() == code for error in errors)

        wait_for(is_reported, "an authentication error")
        producer.purge()
        producer.flush(WAIT_S)
    return [error for error in errors if error.code() == code]


# --- success ---


@pytest.mark.parametrize("mechanism", PASSWORDS)
def test_password(mechanism: str, cluster: MockCluster) -> None:
    check_login(conf(cluster, mechanism))
    assert {(login.mechanism, login.principal) for login in cluster.logins} == {
        (mechanism, "User:alice")
    }


@pytest.mark.parametrize("mechanism", PASSWORDS)
def test_plain_without_tls_is_warned_of(mechanism: str, cluster: MockCluster) -> None:
    logger = PlainLogger()
    check_login(
        conf(cluster, mechanism, **{"security.protocol": "SASL_PLAINTEXT", "logger": logger})
    )
    warned = [
        text
        for text in logger.texts()
        if "PLAIN without TLS: anyone who can read the network traffic" in text
    ]
    assert len(warned) == (mechanism == "PLAIN")


def test_delegation_token(cluster: MockCluster) -> None:
    config = conf(
        cluster, "SCRAM-SHA-512", **{"sasl.username": "token-1", "sasl.password": TOKEN_SECRET}
    )
    check_login({**config, "sasl.scram.tokenauth": True})
    assert {login.principal for login in cluster.logins} == {"User:alice"}
    assert refusals(config)


def test_unsecured_token(cluster: MockCluster) -> None:
    config = {
        "enable.sasl.oauthbearer.unsecure.jwt": True,
        "sasl.oauthbearer.config": "principal=bob extension_id=x",
    }
    check_login(conf(cluster, "OAUTHBEARER", **config))
    assert {(login.principal, login.extensions["id"]) for login in cluster.logins} == {
        ("User:bob", "x")
    }


def test_aws(cluster: MockCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIA1")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", AWS_SECRET)
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
    check_login(conf(cluster, "AWS_MSK_IAM", **{"sasl.aws.region": "eu-west-1"}))
    assert {(login.principal, login.extensions["region"]) for login in cluster.logins} == {
        ("User:AKIA1", "eu-west-1")
    }


def test_consumer_admin_and_aio_clients(cluster: MockCluster) -> None:
    config = conf(cluster, "SCRAM-SHA-256")
    check_login(config, 3)
    with Consumer({**config, "group.id": "g", "auto.offset.reset": "earliest"}) as consumer:
        consumer.subscribe(["t"])
        found: list[Any] = []
        wait_for(
            lambda: found.extend(consumer.consume(10, 0.1)) or len(found) == 3, "three messages"
        )
    with AdminClient(config) as admin:
        assert "t" in admin.list_topics(timeout=WAIT_S).topics

    async def coroutines() -> None:
        async with AIOProducer({**config, "sasl.password": "another"}) as producer:
            await producer.set_sasl_credentials("alice", SECRET)
            assert (await (await producer.produce("t", b"y"))).offset() == 3
        async with AIOConsumer(
            {**config, "group.id": "aio", "sasl.password": "another"}
        ) as consumer:
            await consumer.set_sasl_credentials("alice", SECRET)
            assert await consumer.subscribe(["t"]) is None

    asyncio.run(coroutines())


# --- failure ---


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("refuse", "failed: "),
        ("close", "while user 'alice' with SCRAM-SHA-256 was authenticated: check the credentials"),
        ("malformed", "isn't possible: "),
        ("endless", "isn't possible: "),
        ("wrong_signature", "signature is wrong"),
        ("few_iterations", "iterations; from 4096 to 1000000 are accepted"),
        ("many_iterations", "iterations; from 4096 to 1000000 are accepted"),
        ("other_nonce", "nonce doesn't continue ours"),
        ("mandatory_extension", "not a SCRAM message"),
    ],
)
def test_wrong_response_of_a_broker_fails_and_is_quoted(
    how: str, words: str, cluster: MockCluster
) -> None:
    cluster.break_authentication(how, count=10_000)
    [error, *_] = refusals(conf(cluster, "SCRAM-SHA-256"))
    assert words in error.str()
    assert "SCRAM-SHA-256" in error.str()
    assert SECRET not in error.str()
    assert len(error.str()) < 1500


def test_oversized_message_of_a_login_is_not_read(cluster: MockCluster) -> None:
    cluster.break_authentication("oversized", count=10_000)
    [error, *_] = refusals(conf(cluster, "SCRAM-SHA-256"), KafkaError.MSG_SIZE_TOO_LARGE)
    assert "is over the limit of 524288" in error.str()


def test_refused_client_logs_in_after_the_password_changes(cluster: MockCluster) -> None:
    errors: list[KafkaError] = []
    reports: list[Any] = []
    with Producer(
        conf(cluster, "PLAIN", **{"sasl.password": "another", "error_cb": errors.append})
    ) as producer:
        producer.produce("t", b"x", on_delivery=errors_into(reports))
        wait_for(lambda: [producer.poll(0.05), *errors][1:], "a refusal")
        cluster.set_password("alice", "another")
        assert producer.flush(WAIT_S) == 0
    assert reports == [None]
    assert [error.code() for error in errors].count(KafkaError._AUTHENTICATION) == 1


def test_new_credentials_are_checked_and_used_by_the_next_connection(cluster: MockCluster) -> None:
    with Producer(conf(cluster, "SCRAM-SHA-512", **{"sasl.password": "another"})) as producer:
        producer.produce("t", b"x")
        wait_for(lambda: any(login.error for login in cluster.logins), "a refusal")
        with pytest.raises(TypeError, match="argument 1 must be str, not None"):
            producer.set_sasl_credentials(None, "b")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="argument 2 must be str, not int"):
            producer.set_sasl_credentials("a", 5)  # type: ignore[arg-type]
        producer.set_sasl_credentials("alice", SECRET)
        assert producer.flush(WAIT_S) == 0
    with pytest.raises(RuntimeError):
        producer.set_sasl_credentials("alice", SECRET)
    with Producer({"bootstrap.servers": "127.0.0.1:1"}) as plaintext:
        # without effect or error, as in confluent_kafka
        plaintext.set_sasl_credentials("alice", SECRET)


@pytest.mark.parametrize("is_closed", [True, False], ids=["closed", "collected"])
@pytest.mark.parametrize("mechanism", PASSWORDS)
def test_the_end_of_a_role_leaves_the_shared_clients_credentials(
    mechanism: str, is_closed: bool, cluster: MockCluster
) -> None:
    with Client(conf(cluster, mechanism)) as shared:
        first, second = shared.producer(), shared.producer()
        deliver(first, "t", b"x")
        if is_closed:
            first.close()
        del first
        gc.collect()
        before = len(cluster.logins)
        cluster.disconnect(1)
        deliver(second, "t", b"y")
        assert len(cluster.logins) > before
    assert not any(login.error for login in cluster.logins)


def test_client_waits_for_a_slow_login(cluster: MockCluster) -> None:
    cluster.delay_responses(1, 0.3, ApiKey.SASL_AUTHENTICATE)
    check_login(conf(cluster, "SCRAM-SHA-256"))


@pytest.mark.parametrize(
    ("own", "words"),
    [
        ({}, "No provider|GSSAPI"),
        ({"sasl.mechanism": "PLAIN"}, "sasl.username and sasl.password must be set"),
        (
            {"sasl.mechanism": "PLAIN", "sasl.username": "a"},
            "sasl.username and sasl.password must be set",
        ),
        (
            {"sasl.mechanism": "SCRAM-SHA-256", "sasl.password": "a"},
            "sasl.username and sasl.password must be set",
        ),
        ({"sasl.mechanism": "plain"}, "Unsupported SASL mechanism: plain"),
    ],
)
def test_impossible_settings_are_refused_by_the_constructor(
    own: dict[str, str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    for kind in (Producer, AdminClient):
        with pytest.raises(KafkaException) as caught:
            kind({"bootstrap.servers": "h:1", "security.protocol": "sasl_plaintext", **own})
        assert caught.value.args[0].code() == KafkaError._INVALID_ARG
        assert any(each in caught.value.args[0].str() for each in words.split("|"))


# --- tokens ---


def test_tokens_are_renewed_without_poll(cluster: MockCluster) -> None:
    threads: list[str] = []
    given: list[Any] = []

    def oauth_cb(config: str | None) -> tuple[str, float]:
        threads.append(threading.current_thread().name)
        given.append(config)
        return unsecured_jwt("alice", 3), time.time() + 3

    own = {"oauth_cb": oauth_cb, "sasl.oauthbearer.config": "for the callback"}
    config = conf(cluster, "OAUTHBEARER", **own)
    with Producer(config) as producer:
        wait_for(lambda: len(threads) == 1, "a token although nothing is sent")
        deliver(producer, "t", b"x")
        wait_for(
            lambda: len(threads) >= 2 and any(login.again for login in cluster.logins),
            "a renewal without poll()",
        )
        deliver(producer, "t", b"y")
    assert all(name.startswith("kafka-native security ") for name in threads)
    assert set(given) == {"for the callback"}


def test_exception_of_oauth_cb_is_reported_and_oauth_cb_is_called_again(
    cluster: MockCluster,
) -> None:
    calls: list[float] = []
    errors: list[KafkaError] = []

    def oauth_cb(config: str | None) -> tuple[str, float]:
        calls.append(time.monotonic())
        if len(calls) < 3:
            raise ValueError("the provider is away")
        return unsecured_jwt(), time.time() + 600

    with Producer(
        conf(cluster, "OAUTHBEARER", oauth_cb=oauth_cb, error_cb=errors.append)
    ) as producer:
        deliver(producer, "t", b"x")
    assert errors[0].code() == KafkaError._AUTHENTICATION
    assert "ValueError: the provider is away" in errors[0].str()
    assert not any(error.fatal() for error in errors)


def test_hanging_oauth_cb_delays_neither_poll_nor_close(cluster: MockCluster) -> None:
    called, released = threading.Event(), threading.Event()

    def oauth_cb(config: str | None) -> tuple[str, float]:
        called.set()
        released.wait(WAIT_S)
        return unsecured_jwt(), time.time() + 600

    producer = Producer(conf(cluster, "OAUTHBEARER", oauth_cb=oauth_cb))
    assert called.wait(WAIT_S)
    assert producer.poll(0) == 0
    assert producer.metrics() is not None, "the control thread answers"
    closer = threading.Thread(target=producer.close)
    closer.start()
    closer.join(WAIT_S)
    assert not closer.is_alive()
    released.set()


def test_refused_token_is_reported_and_replaced(cluster: MockCluster) -> None:
    lifetimes = iter([-600.0, 600.0])
    errors: list[KafkaError] = []
    config = conf(
        cluster,
        "OAUTHBEARER",
        oauth_cb=lambda config: (unsecured_jwt("alice", next(lifetimes)), time.time() + 600),
        error_cb=errors.append,
    )
    with Producer(config) as producer:
        deliver(producer, "t", b"x")
    assert "status: invalid_token" in errors[0].str()


def test_sessions_are_renewed_and_statistics_have_the_state(cluster: MockCluster) -> None:
    cluster.set_session_lifetime(1500)
    delivered: list[Any] = []
    with Producer(conf(cluster, "SCRAM-SHA-512", **{"linger.ms": 1})) as producer:

        def is_renewed() -> bool:
            producer.produce("t", b"x", on_delivery=errors_into(delivered))
            producer.poll(0.005)
            return sum(login.again for login in cluster.logins) >= 2

        wait_for(is_renewed, "renewed sessions")
        cluster.delay_responses(1, 0.5, ApiKey.SASL_HANDSHAKE)
        wait_for(
            lambda: "REAUTH" in {each.state for each in producer.metrics().brokers.values()},
            "the state REAUTH",
        )
        assert producer.flush(WAIT_S) == 0
    assert set(delivered) == {None}
    assert not any(login.error for login in cluster.logins)


def test_calls_that_a_refused_renewal_holds_are_sent_again(cluster: MockCluster) -> None:
    """The broker refuses another user in the same session, and accepts him in a new one."""
    cluster.set_session_lifetime(1500)
    cluster.delay_responses(1, 0.05)
    own = {"group.id": "g", "enable.auto.commit": False, "heartbeat.interval.ms": 100}
    config = conf(cluster, "SCRAM-SHA-256", **own, error_cb=lambda error: None)
    with Consumer(config) as consumer:
        consumer.subscribe(["t"])
        wait_for(lambda: consumer.poll(0.05) or consumer.assignment(), "an assignment")
        place = TopicPartition("t", 0, 1)

        def is_refused(refusals: int) -> bool:
            assert consumer.poll(0) is None, "no error of a heartbeat"
            [committed] = consumer.commit(offsets=[place], asynchronous=False)
            assert committed.error is None
            assert consumer.committed([place], timeout=WAIT_S)[0].offset == 1
            assert consumer.list_topics(timeout=WAIT_S).topics
            return sum(login.error is not None for login in cluster.logins) > refusals

        for refusals, login in enumerate([("bob", BOBS_SECRET), ("alice", SECRET)]):
            consumer.set_sasl_credentials(*login)
            wait_for(lambda refusals=refusals: is_refused(refusals), "a refused renewal")


# --- secrets ---


def test_no_output_has_a_secret(
    cluster: MockCluster,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.DEBUG, logger="kafka_native.leaks")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIA1")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", AWS_SECRET)
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
    tokens: list[str] = []

    def oauth_cb(config: str | None) -> tuple[str, float]:
        tokens.append(unsecured_jwt("alice", [600, -1][len(tokens) % 2]))
        return tokens[-1], time.time() + 600

    outputs: list[str] = []

    def note(value: object) -> None:
        outputs.append(f"{value!r} {value}")

    for mechanism in SECURITY.mechanisms:
        for bad in (False, True):
            if bad:
                cluster.break_authentication("refuse")
            config = conf(cluster, mechanism, debug="all", error_cb=note, stats_cb=note) | {
                "client.id": "leaks",
                "statistics.interval.ms": 20,
                "sasl.aws.region": "eu-west-1",
                "sasl.oauthbearer.config": f"secret={SECRET}",
            }
            if mechanism == "OAUTHBEARER":
                config["oauth_cb"] = oauth_cb
            with Producer(config) as producer:
                note(producer)
                note(producer.metrics())
                try:
                    note(producer.list_topics(timeout=WAIT_S))
                except KafkaException as error:
                    note(error)
                    note(error.args[0])
                producer.poll(0)
    out, err = capfd.readouterr()
    everything = "\n".join([caplog.text, out, err, *outputs])
    assert "is authenticated" in everything
    assert "failed: " in everything
    assert "[redacted]" in everything
    for secret in (
        SECRET,
        AWS_SECRET,
        TOKEN_SECRET,
        *tokens,
        *(token.split(".")[1] for token in tokens),
    ):
        assert secret not in everything
