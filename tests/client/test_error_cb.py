"""error_cb: its errors, once a change, with their flags. The tests check docs/guide/errors.md."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any

import pytest

from dev.tables import table
from kafka_native import Consumer, KafkaError, Producer, TopicPartition
from kafka_native.mock import ListenerSecurity, MockCluster
from kafka_native.protocol import ApiKey
from tests.waiting import wait_for

from .log_support import PlainLogger
from .support import Client

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guide" / "errors.md"
CONDITIONS = table("errors")["conditions"]
QUICK = {"reconnect.backoff.ms": 1, "reconnect.backoff.max.ms": 2}
NOWHERE = {"bootstrap.servers": "127.0.0.1:1", **QUICK}


def flags(error: KafkaError) -> tuple[str, bool, bool, bool]:
    return error.name(), error.fatal(), error.retriable(), error.txn_requires_abort()


def attempts(logger: PlainLogger) -> int:
    return sum("connecting (attempt" in text for text in logger.texts())


def test_refused_broker_is_one_error_however_often_it_is_tried() -> None:
    errors: list[KafkaError] = []
    logger = PlainLogger()
    with Producer(
        {**NOWHERE, "error_cb": errors.append, "debug": "broker", "logger": logger}
    ) as producer:
        producer.produce("t", b"x")
        wait_for(lambda: [producer.poll(0.01), attempts(logger) > 200][1])
        producer.poll(0)
        producer.close(0)
    refused, down = errors
    assert refused.str() == "127.0.0.1:1/bootstrap: connect failed: 127.0.0.1:1: Connection refused"
    assert down.str() == "1/1 brokers are down"
    assert [error.code() for error in errors] == [
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
    ]


def test_each_change_is_told_again() -> None:
    errors: list[KafkaError] = []
    with MockCluster(brokers=1) as cluster:
        cluster.create_topic("t", 1)
        conf = {"bootstrap.servers": cluster.bootstrap_servers, **QUICK}
        logger = PlainLogger()
        with Producer(
            {**conf, "error_cb": errors.append, "debug": "broker", "logger": logger}
        ) as producer:
            for round_ in (1, 2):
                producer.produce("t", b"x")
                assert producer.flush(30) == 0
                cluster.broker_down(1)
                producer.produce("t", b"x")
                before = attempts(logger)
                wait_for(
                    lambda before=before: [producer.poll(0.01), attempts(logger) > before + 50][1]
                )  # type: ignore[misc]
                producer.poll(0)
                names = [error.name() for error in errors]
                assert names.count("_ALL_BROKERS_DOWN") == round_, errors
                refused = [error.str() for error in errors if "refused" in error.str()]
                assert max(refused.count(text) for text in refused) <= round_, (
                    "each server, once a round"
                )
                assert refused
                cluster.broker_up(1)
                assert producer.flush(30) == 0
                wait_for(
                    lambda round_=round_: (
                        sum(" is back, after " in text for text in logger.texts()) >= round_
                    )
                )  # type: ignore[misc]


def test_listener_for_sasl_is_one_error_and_not_asked_ever_faster() -> None:
    """It answers ApiVersions of an unauthenticated client, and closes at the next request."""
    errors: list[KafkaError] = []
    logger = PlainLogger()
    with MockCluster(
        brokers=1, security=ListenerSecurity("sasl_plaintext", users={"alice": "secret"})
    ) as cluster:
        conf = {
            "bootstrap.servers": cluster.bootstrap_servers,
            **QUICK,
            "debug": "broker",
            "logger": logger,
        }
        conf |= {
            "retry.backoff.ms": 1,
            "retry.backoff.max.ms": 2,
            "topic.metadata.refresh.fast.interval.ms": 1,
        }
        with Producer({**conf, "error_cb": errors.append}) as producer:
            producer.produce("t", b"x")
            wait_for(lambda: [producer.poll(0.01), attempts(logger) > 50][1])
            producer.poll(0)
            producer.close(0)
    closed, down = errors
    assert flags(closed) == ("_TRANSPORT", False, False, False)
    assert "is its listener one for SASL? see security.protocol" in closed.str()
    assert down.str() == "1/1 brokers are down"
    assert any("connecting (attempt 9 in a row)" in text for text in logger.texts()), (
        "the back-off grows"
    )
    assert not [text for text in logger.texts() if "is back" in text]


def test_cause_that_changes_is_news() -> None:
    """A broker that ends a connection in use, and then refuses the next one: both are told.

    The client must not start again from the bootstrap servers: if it does so before it has tried
    the broker once more, the refusal is the bootstrap server's.
    """
    errors: list[KafkaError] = []
    with MockCluster(brokers=1) as cluster:
        cluster.create_topic("t", 1)
        conf = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "metadata.recovery.strategy": "none",
            **QUICK,
        }
        cluster_address = cluster.address(1)
        cluster.delay_responses(1, 3600, api_key=ApiKey.FETCH)
        with Consumer({**conf, "error_cb": errors.append}) as consumer:
            consumer.assign([TopicPartition("t", 0, 0)])
            wait_for(lambda: [consumer.poll(0.01), cluster.requests_of(ApiKey.FETCH)][1])
            cluster.broker_down(1)

            def told(text: str) -> int:
                return sum(
                    f"{cluster_address}/1: " in error.str() and text in error.str()
                    for error in errors
                )

            closed = "the peer closed the connection with 1 requests unanswered"
            wait_for(
                lambda: [consumer.poll(0.01), told(closed) and told("refused")][1],
                lambda: f"{errors}",
            )
            assert (told(closed), told("refused")) == (1, 1)


def test_request_without_an_answer_is_timed_out(client: Client, cluster: MockCluster) -> None:
    errors: list[KafkaError] = []
    topic = client.topic()
    leader = cluster.leader(topic, 0)
    conf = {"socket.timeout.ms": 200, "request.timeout.ms": 100, "error_cb": errors.append}
    with client.producer(**conf) as producer:
        producer.produce(topic, b"x")
        assert producer.flush(30) == 0
        errors.clear()
        cluster.delay_responses(leader, 3600, api_key=ApiKey.PRODUCE)
        try:
            producer.produce(topic, b"x")
            wait_for(
                lambda: [
                    producer.poll(0.01),
                    any(f"/{leader}: " in error.str() for error in errors),
                ][1]
            )
        finally:
            cluster.delay_responses(leader, 0, api_key=ApiKey.PRODUCE)
        assert producer.flush(30) == 0
    error = next(error for error in errors if f"/{leader}: " in error.str())
    assert flags(error) == ("_TIMED_OUT", False, False, False)
    assert "no response in time (API 0 v" in error.str()


def test_error_cb_that_raises_raises_in_poll_and_is_called_again() -> None:
    calls: list[KafkaError] = []

    def raises(error: KafkaError) -> None:
        calls.append(error)
        raise ZeroDivisionError(error.name())

    producer = Producer({**NOWHERE, "error_cb": raises})
    producer.produce("t", b"x")
    for name in ("_TRANSPORT", "_ALL_BROKERS_DOWN"):
        with pytest.raises(ZeroDivisionError, match=name):
            wait_for(lambda: producer.poll(0.01) < 0)
    producer.close(0)
    assert len(calls) == 2


def test_callbacks_are_made_by_the_thread_that_polls() -> None:
    threads: set[str] = set()
    note = lambda error: threads.add(threading.current_thread().name)  # noqa: E731
    with Producer({**NOWHERE, "error_cb": note}) as producer:
        producer.produce("t", b"x")
        wait_for(lambda: [producer.poll(0.01), threads][1])
        producer.close(0)
    assert threads == {threading.current_thread().name}


def test_with_an_error_cb_the_log_does_not_say_it_once_more() -> None:
    logger = PlainLogger()
    errors: list[KafkaError] = []
    with Producer({**NOWHERE, "error_cb": errors.append, "logger": logger}) as producer:
        producer.produce("t", b"x")
        wait_for(lambda: [producer.poll(0.01), len(errors) == 2][1])
        producer.close(0)
    assert not [text for text in logger.texts() if "refused" in text or "brokers are down" in text]


# --- the guide ---


def test_guides_table_names_codes_that_have_tests() -> None:
    table = GUIDE.read_text(encoding="utf-8").partition("\n| condition |")[2].partition("\n\n")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:4]] for line in table.splitlines()[2:]]
    assert len(rows) >= 15
    told = set()
    for condition, codes, where in rows:
        assert condition
        assert where
        for code in re.findall(r"`(_?[A-Z_]+)`", codes):
            assert hasattr(KafkaError, code), code
            told.add(code)
    assert told == {code for row in CONDITIONS for code in row["codes"]}
    assert {
        "_ALL_BROKERS_DOWN",
        "_TRANSPORT",
        "_RESOLVE",
        "_TIMED_OUT",
        "_AUTHENTICATION",
        "_FATAL",
        "_MAX_POLL_EXCEEDED",
        "UNKNOWN_TOPIC_OR_PART",
    } <= told


@pytest.mark.parametrize("condition", CONDITIONS, ids=lambda condition: condition["what"])
def test_each_condition_has_tests_that_exist(condition: dict[str, Any]) -> None:
    assert condition["tests"]
    for path, _, name in (test.partition("::") for test in condition["tests"]):
        assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8"), (path, name)
