"""SASL on a real Apache Kafka. confluent_kafka uses the same listeners for comparison."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import confluent_kafka.admin
import pytest

import kafka_native
from kafka_native import KafkaError, KafkaException
from kafka_native.admin import AdminClient
from tests.broker.cluster import Cluster, Listener, quiet
from tests.broker.sasl import MODULES, add_user, assert_all_comes_back_until, every_mechanism
from tests.broker.support import TopicMaker, read, running
from tests.mock.secured import unsecured_jwt
from tests.waiting import wait_for

pytestmark = [pytest.mark.broker, pytest.mark.slow]

USER, SECRET = (
    "al=i,ce",
    "s3cret-word ª",
)  # SCRAM escapes the name; SASLprep would change the password
JAAS_USER, JAAS_SECRET = "alice", "s3cret-word"  # properties files are Latin-1
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
SESSION_MS = 2500
QUIET = {"log_level": 0}

SASL = every_mechanism(JAAS_USER, JAAS_SECRET)
SESSIONS = {
    f"{name}.connections.max.reauth.ms": str(SESSION_MS)
    for name in ("plain", "scram-sha-256", "scram-sha-512", "oauthbearer")
}
LISTENERS = {
    "SASL": Listener("SASL_PLAINTEXT", SASL),
    "SESSIONS": Listener("SASL_PLAINTEXT", SASL | SESSIONS),
    "PLAINONLY": Listener("SASL_PLAINTEXT", SASL | {"sasl.enabled.mechanisms": "PLAIN"}),
}


@pytest.fixture(scope="module")
def secured() -> Iterator[Cluster]:
    """Yield one broker with listeners for SASL, and a user with both kinds of SCRAM credentials."""
    users = ";".join(f"User:{name}" for name in ("ANONYMOUS", USER, JAAS_USER, "token-user"))
    changes = {"super.users": users, "delegation.token.secret.key": "for tests"}
    with running(1, changes=changes, listeners=LISTENERS) as cluster:
        add_user(cluster, USER, SECRET)
        yield cluster


def user_of(mechanism: str) -> str:
    return JAAS_USER if mechanism == "PLAIN" else USER


def conf(
    cluster: Cluster,
    mechanism: str,
    listener: str = "SASL",
    password: str | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Return a client's configuration. ``password`` None stands for the right one."""
    if password is None:
        password = JAAS_SECRET if mechanism == "PLAIN" else SECRET
    return {
        "bootstrap.servers": cluster.listeners[listener],
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": mechanism,
        **(
            {"sasl.username": user_of(mechanism), "sasl.password": password}
            if mechanism in MECHANISMS
            else {}
        ),
        **more,
    }


def round_trip(module: Any, config: dict[str, Any], topic: str, value: bytes) -> bytes | None:
    """Write a message, and read the topic's first one with the same client library."""
    reports: list[tuple[Any, Any]] = []
    producer = module.Producer(config)
    producer.produce(
        topic, value, on_delivery=lambda error, message: reports.append((error, message))
    )
    assert producer.flush(60) == 0
    assert reports[0][0] is None
    consumer = module.Consumer({**config, "group.id": "sasl", "auto.offset.reset": "earliest"})
    try:
        [record] = read(consumer, topic, [0], 1)
        return record.value
    finally:
        consumer.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("module", [kafka_native, confluent_kafka], ids=["ours", "theirs"])
def test_messages_are_written_and_read_with_each_mechanism(
    module: Any, mechanism: str, secured: Cluster, new_topic: TopicMaker
) -> None:
    config = conf(secured, mechanism)
    found = round_trip(
        module, config if module is kafka_native else quiet(config), new_topic(secured), b"hello"
    )
    assert found == b"hello"


def failure(module: Any, config: dict[str, Any]) -> tuple[list[Any], Any]:
    """Return the errors of error_cb and of a call without a successful login."""
    errors: list[Any] = []
    producer = module.Producer({**config, "error_cb": errors.append})
    raised: list[Any] = []

    def is_reported() -> bool:
        try:
            producer.list_topics(timeout=0.5)
        except module.KafkaException as error:
            raised.append(error.args[0])
        producer.poll(0)
        return any(error.code() == module.KafkaError._AUTHENTICATION for error in errors)

    wait_for(is_reported, "an authentication error")
    return errors, raised[-1]


@pytest.mark.parametrize("module", [kafka_native, confluent_kafka], ids=["ours", "theirs"])
def test_unsecured_tokens_of_both_clients_are_accepted(
    module: Any, secured: Cluster, new_topic: TopicMaker
) -> None:
    own = {
        "enable.sasl.oauthbearer.unsecure.jwt": True,
        "sasl.oauthbearer.config": "principal=token-user scope=a,b",
    }
    config = conf(secured, "OAUTHBEARER", **own)
    found = round_trip(
        module, config if module is kafka_native else quiet(config), new_topic(secured), b"hello"
    )
    assert found == b"hello"


def test_a_refused_token_is_reported_as_in_confluent_kafka(secured: Cluster) -> None:
    config = conf(
        secured, "OAUTHBEARER", oauth_cb=lambda _: ("not.a.token", time.time() + 60), **QUIET
    )
    errors, raised = failure(kafka_native, config)
    _, their_raised = failure(confluent_kafka, config)
    authentication_errors = [
        error for error in errors if error.code() == KafkaError._AUTHENTICATION
    ]
    assert "invalid_token" in authentication_errors[0].str()
    assert "not.a.token" not in f"{errors} {raised}"
    assert raised.code() == their_raised.code() == KafkaError._TRANSPORT


def test_tokens_are_renewed_on_live_connections(secured: Cluster, new_topic: TopicMaker) -> None:
    """The broker ends a session with its token. A group member reads on through several tokens."""
    topic = new_topic(secured)
    given: list[float] = []

    def oauth_cb(_: Any) -> tuple[str, float]:
        given.append(time.time())
        return unsecured_jwt("token-user", 4), given[-1] + 4

    config = conf(secured, "OAUTHBEARER", "SESSIONS", oauth_cb=oauth_cb)
    seen: list[bytes] = []
    with (
        kafka_native.Producer(config) as producer,
        kafka_native.Consumer(
            {**config, "group.id": "tokens", "auto.offset.reset": "earliest"}
        ) as consumer,
    ):
        consumer.subscribe([topic])
        number = 0

        def is_renewed() -> bool:
            nonlocal number
            producer.produce(topic, b"%d" % number)
            number += 1
            seen.extend(message.value() for message in consumer.consume(1000, 0.05))
            return len(given) >= 6 and len(seen) > 0

        wait_for(is_renewed, "renewed tokens")
        assert producer.flush(60) == 0
        wait_for(
            lambda: (
                seen.extend(m.value() for m in consumer.consume(1000, 0.1)) or len(seen) >= number
            ),
            "the rest",
        )
    assert seen == [b"%d" % each for each in range(number)]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_wrong_password_is_reported_once_as_in_confluent_kafka(
    mechanism: str, secured: Cluster
) -> None:
    config = conf(secured, mechanism, password="an0ther-secret", **QUIET)
    errors, raised = failure(kafka_native, config)
    their_errors, their_raised = failure(confluent_kafka, config)
    authentication_errors = [
        error for error in errors if error.code() == KafkaError._AUTHENTICATION
    ]
    assert len(authentication_errors) == 1
    assert f"user {user_of(mechanism)!r} with {mechanism} failed" in authentication_errors[0].str()
    assert secured.listeners["SASL"] in authentication_errors[0].str()
    assert not any(error.fatal() for error in [*errors, *their_errors])
    assert raised.code() == their_raised.code() == KafkaError._TRANSPORT
    assert "an0ther-secret" not in f"{errors} {raised}"


def test_error_of_a_missing_mechanism_lists_the_brokers_mechanisms(secured: Cluster) -> None:
    errors, _ = failure(kafka_native, conf(secured, "SCRAM-SHA-256", "PLAINONLY", **QUIET))
    assert "has no SASL mechanism SCRAM-SHA-256: it offers PLAIN" in errors[0].str()


def test_sasl_on_a_listener_without_it_is_a_clear_error(secured: Cluster) -> None:
    config = conf(secured, "PLAIN", **{"bootstrap.servers": secured.bootstrap, "log_level": 0})
    errors, _ = failure(kafka_native, config)
    assert "its listener doesn't take SASL" in errors[0].str()


def test_no_sasl_on_a_listener_with_it_is_a_clear_error(secured: Cluster) -> None:
    errors: list[KafkaError] = []
    config = {"bootstrap.servers": secured.listeners["SASL"], "error_cb": errors.append}
    with AdminClient(config) as admin:
        with pytest.raises(KafkaException):
            admin.list_topics(timeout=5)
        admin.poll(0)
    assert "is its listener one for SASL? see security.protocol" in errors[0].str()


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512"])
def test_sessions_are_renewed_on_live_connections_and_no_message_is_lost(
    mechanism: str, secured: Cluster, new_topic: TopicMaker, caplog: pytest.LogCaptureFixture
) -> None:
    """A producer writes and a consumer reads during several renewals."""
    caplog.set_level(logging.DEBUG, logger=f"kafka_native.{mechanism}")
    topic = new_topic(secured)
    config = conf(secured, mechanism, "SESSIONS", **{"client.id": mechanism, "debug": "security"})
    group = {"group.id": f"renewals-{mechanism}", "auto.offset.reset": "earliest"}

    def is_renewed(_: int) -> bool:
        return sum("has renewed its session" in message for message in caplog.messages) >= 4

    with (
        kafka_native.Producer(config) as producer,
        kafka_native.Consumer({**config, **group}) as consumer,
    ):
        consumer.assign([kafka_native.TopicPartition(topic, 0)])
        assert_all_comes_back_until(is_renewed, "renewed sessions", producer, consumer, topic)
    assert JAAS_SECRET not in caplog.text


def test_a_delegation_token_has_the_rights_of_its_owner(
    secured: Cluster, new_topic: TopicMaker, tool: Callable[..., bytes], tmp_path: Path
) -> None:
    login = (
        f'{MODULES}.plain.PlainLoginModule required username="{JAAS_USER}" '
        f'password="{JAAS_SECRET}";'
    )
    settings = tmp_path / "client.properties"
    settings.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={login}\n"
    )
    where = ["--bootstrap-server", secured.listeners["SASL"], "--command-config", str(settings)]
    command = [*where, "--create", "--max-life-time-period", "-1"]
    table = tool("org.apache.kafka.tools.DelegationTokenCommand", *command).decode()
    token_id, hmac = next(
        line.split()[:2] for line in table.splitlines() if f"User:{JAAS_USER}" in line
    )
    config = conf(secured, "SCRAM-SHA-256", password=hmac) | {
        "sasl.username": token_id,
        "sasl.scram.tokenauth": True,
    }
    assert round_trip(kafka_native, config, new_topic(secured), b"hello") == b"hello"
    errors, _ = failure(kafka_native, {**config, "sasl.scram.tokenauth": False, **QUIET})
    assert token_id in errors[0].str()


def test_new_credentials_at_run_time_are_used_by_the_next_connection(
    secured: Cluster, new_topic: TopicMaker
) -> None:
    topic = new_topic(secured)
    errors: list[KafkaError] = []
    reports: list[KafkaError | None] = []
    config = conf(secured, "SCRAM-SHA-512", password="an0ther-secret", error_cb=errors.append)
    with kafka_native.Producer(config) as producer:
        producer.produce(topic, b"x", on_delivery=lambda error, message: reports.append(error))
        wait_for(lambda: [producer.poll(0.1), *errors][1:], "a refusal")
        assert reports == []
        producer.set_sasl_credentials(USER, SECRET)
        assert producer.flush(60) == 0
        assert reports == [None]


def test_debug_all_shows_no_secret(
    secured: Cluster,
    new_topic: TopicMaker,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG, logger="kafka_native.leaks")
    topic = new_topic(secured)
    stats: list[str] = []
    said: list[Callable[[], Any] | Any] = []
    for mechanism in MECHANISMS:
        for password in (None, "an0ther-secret"):
            config = conf(secured, mechanism, password=password, debug="all", error_cb=said.append)
            config |= {"client.id": "leaks", "statistics.interval.ms": 50, "stats_cb": stats.append}
            with kafka_native.Producer(config) as producer:
                said += [producer, producer.metrics()]
                if password is None:
                    producer.produce(topic, b"x")
                    assert producer.flush(60) == 0
                else:
                    with pytest.raises(KafkaException) as caught:
                        producer.list_topics(timeout=0.5)
                    said += [caught.value, caught.value.args[0]]
                wait_for(lambda producer=producer: [producer.poll(0.1), *stats][1:], "statistics")
    out, err = capfd.readouterr()
    everything = "\n".join([caplog.text, out, err, *stats, *(f"{each!r} {each}" for each in said)])
    assert "is authenticated" in everything
    for secret in (SECRET, "an0ther-secret", JAAS_SECRET):
        assert secret not in everything
