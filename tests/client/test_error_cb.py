"""error_cb gets each error once until the state changes. See docs/guide/errors.md."""

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
from tests.waiting import poll_until, wait_for

from .log_support import PlainLogger
from .support import Client, deliver

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guide" / "errors.md"
CONDITIONS = table("errors")["conditions"]
QUICK = {"reconnect.backoff.ms": 1, "reconnect.backoff.max.ms": 2}
NOWHERE = {"bootstrap.servers": "127.0.0.1:1", **QUICK}


def flags(error: KafkaError) -> tuple[str, bool, bool, bool]:
    return error.name(), error.fatal(), error.retriable(), error.txn_requires_abort()


def count(logger: PlainLogger, part: str) -> int:
    """Return the number of log lines with this part."""
    return sum(part in text for text in logger.texts())


def attempts(logger: PlainLogger) -> int:
    return count(logger, "connecting (attempt")


def test_refused_broker_is_one_error_for_all_attempts() -> None:
    errors: list[KafkaError] = []
    logger = PlainLogger()
    conf = {**NOWHERE, "error_cb": errors.append, "debug": "broker", "logger": logger}
    with Producer(conf) as producer:
        producer.produce("t", b"x")
        poll_until(lambda: attempts(logger) > 200, producer)
        producer.poll(0)
        producer.close(0)
    refused, down = errors
    assert refused.str() == "127.0.0.1:1/bootstrap: connect failed: 127.0.0.1:1: Connection refused"
    assert down.str() == "1/1 brokers are down"
    codes = [error.code() for error in errors]
    assert codes == [KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN]


def test_each_change_is_reported_again() -> None:
    errors: list[KafkaError] = []
    with MockCluster(brokers=1) as cluster:
        cluster.create_topic("t", 1)
        conf = {"bootstrap.servers": cluster.bootstrap_servers, **QUICK}
        logger = PlainLogger()
        conf |= {"error_cb": errors.append, "debug": "broker", "logger": logger}
        with Producer(conf) as producer:
            for round_ in (1, 2):
                deliver(producer, "t", b"x")
                cluster.broker_down(1)
                producer.produce("t", b"x")
                before = attempts(logger)
                poll_until(lambda before=before: attempts(logger) > before + 50, producer)
                producer.poll(0)
                names = [error.name() for error in errors]
                assert names.count("_ALL_BROKERS_DOWN") == round_, errors
                refused = [error.str() for error in errors if "refused" in error.str()]
                for text in refused:
                    assert refused.count(text) <= round_, "one error for each server and round"
                assert refused
                cluster.broker_up(1)
                assert producer.flush(30) == 0
                wait_for(lambda round_=round_: count(logger, " is back, after ") >= round_)


def test_sasl_listener_is_one_error_and_the_backoff_grows() -> None:
    """The listener answers ApiVersions without authentication, and closes at the next request."""
    errors: list[KafkaError] = []
    logger = PlainLogger()
    security = ListenerSecurity("sasl_plaintext", users={"alice": "secret"})
    with MockCluster(brokers=1, security=security) as cluster:
        conf = {"bootstrap.servers": cluster.bootstrap_servers, **QUICK}
        conf |= {"debug": "broker", "logger": logger, "error_cb": errors.append}
        conf |= {"retry.backoff.ms": 1, "retry.backoff.max.ms": 2}
        conf |= {"topic.metadata.refresh.fast.interval.ms": 1}
        with Producer(conf) as producer:
            producer.produce("t", b"x")
            poll_until(lambda: attempts(logger) > 50, producer)
            producer.poll(0)
            producer.close(0)
    closed, down = errors
    assert flags(closed) == ("_TRANSPORT", False, False, False)
    assert "is its listener one for SASL? see security.protocol" in closed.str()
    assert down.str() == "1/1 brokers are down"
    # the backoff grows
    assert any("connecting (attempt 9 in a row)" in text for text in logger.texts())
    assert not [text for text in logger.texts() if "is back" in text]


def test_changed_cause_is_reported_again() -> None:
    """A broker closes a connection in use, and then refuses the next one: both are reported.

    ``metadata.recovery.strategy`` keeps the client from its bootstrap servers. Otherwise the
    bootstrap server might refuse the connection instead of the broker.
    """
    errors: list[KafkaError] = []
    with MockCluster(brokers=1) as cluster:
        cluster.create_topic("t", 1)
        conf = {"bootstrap.servers": cluster.bootstrap_servers, **QUICK}
        conf |= {"metadata.recovery.strategy": "none"}
        cluster_address = cluster.address(1)
        cluster.delay_responses(1, 3600, api_key=ApiKey.FETCH)
        with Consumer({**conf, "error_cb": errors.append}) as consumer:
            consumer.assign([TopicPartition("t", 0, 0)])
            poll_until(lambda: cluster.requests_of(ApiKey.FETCH), consumer)
            cluster.broker_down(1)

            def reported(text: str) -> int:
                texts = [error.str() for error in errors]
                return sum(f"{cluster_address}/1: " in each and text in each for each in texts)

            closed = "the peer closed the connection with 1 requests unanswered"
            poll_until(lambda: reported(closed) and reported("refused"), consumer)
            assert (reported(closed), reported("refused")) == (1, 1)


def test_request_without_an_answer_is_timed_out(client: Client, cluster: MockCluster) -> None:
    errors: list[KafkaError] = []
    topic = client.topic()
    leader = cluster.leader(topic, 0)
    conf = {"socket.timeout.ms": 200, "request.timeout.ms": 100, "error_cb": errors.append}
    with client.producer(**conf) as producer:
        deliver(producer, topic, b"x")
        errors.clear()
        cluster.delay_responses(leader, 3600, api_key=ApiKey.PRODUCE)
        try:
            producer.produce(topic, b"x")
            poll_until(lambda: any(f"/{leader}: " in error.str() for error in errors), producer)
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


def test_callbacks_run_in_the_polling_thread() -> None:
    threads: set[str] = set()
    note = lambda error: threads.add(threading.current_thread().name)  # noqa: E731
    with Producer({**NOWHERE, "error_cb": note}) as producer:
        producer.produce("t", b"x")
        poll_until(lambda: threads, producer)
        producer.close(0)
    assert threads == {threading.current_thread().name}


def test_with_an_error_cb_the_log_does_not_repeat_errors() -> None:
    logger = PlainLogger()
    errors: list[KafkaError] = []
    with Producer({**NOWHERE, "error_cb": errors.append, "logger": logger}) as producer:
        producer.produce("t", b"x")
        poll_until(lambda: len(errors) == 2, producer)
        producer.close(0)
    assert not [text for text in logger.texts() if "refused" in text or "brokers are down" in text]


# --- the guide ---


def test_guides_table_names_codes_that_have_tests() -> None:
    table = GUIDE.read_text(encoding="utf-8").partition("\n| condition |")[2].partition("\n\n")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:4]] for line in table.splitlines()[2:]]
    assert len(rows) >= 15
    documented = set()
    for condition, codes, where in rows:
        assert condition
        assert where
        for code in re.findall(r"`(_?[A-Z_]+)`", codes):
            assert hasattr(KafkaError, code), code
            documented.add(code)
    assert documented == {code for row in CONDITIONS for code in row["codes"]}
    assert {
        "_ALL_BROKERS_DOWN",
        "_TRANSPORT",
        "_RESOLVE",
        "_TIMED_OUT",
        "_AUTHENTICATION",
        "_FATAL",
        "_MAX_POLL_EXCEEDED",
        "UNKNOWN_TOPIC_OR_PART",
    } <= documented


@pytest.mark.parametrize("condition", CONDITIONS, ids=lambda condition: condition["what"])
def test_each_condition_has_tests_that_exist(condition: dict[str, Any]) -> None:
    assert condition["tests"]
    for path, _, name in (test.partition("::") for test in condition["tests"]):
        assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8"), (path, name)
