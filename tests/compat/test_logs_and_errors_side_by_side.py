"""The calls of a logger and of error_cb, by confluent_kafka and by kafka_native."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any

import confluent_kafka
import pytest

from kafka_native.mock import MockCluster
from kafka_native.protocol import ApiKey
from tests.client.log_support import PlainLogger
from tests.compat.sides import BOTH, drop_in
from tests.waiting import wait_for

QUICK = {"reconnect.backoff.ms": 1, "reconnect.backoff.max.ms": 2}
NOWHERE = {"bootstrap.servers": "127.0.0.1:1", **QUICK}
Flags = tuple[str, bool, bool, bool]


def shape_of(call: tuple[Any, ...]) -> tuple[Any, ...]:
    level, form, facility, name, text = call
    return (
        level,
        form,
        facility.isupper(),
        re.sub(r"\d+", "N", name),
        text.startswith("[thrd:"),
        "127.0.0.1:1" in text,
    )


@pytest.mark.parametrize(
    "module",
    [confluent_kafka.Producer, drop_in.Producer],
    ids=["confluent_kafka", "kafka_native"],
)
def test_given_logger_is_called_as_confluent_kafka_calls_it(module: Any) -> None:
    for given in ({"logger": PlainLogger()}, {}):
        keyword = PlainLogger()
        logger = given.get("logger", keyword)
        producer = module({**NOWHERE, **given}, **({} if given else {"logger": keyword}))
        producer.produce("t", b"v")
        wait_for(lambda: [producer.poll(0.01), logger.matching("refused")][1])  # noqa: B023
        assert shape_of(logger.matching("refused")[0]) == (
            logging.ERROR,
            "%s [%s] %s",
            True,
            "rdkafka#producer-N",
            True,
            True,
        )
        producer.purge()


def flags(error: Any) -> Flags:
    return error.name(), error.fatal(), error.retriable(), error.txn_requires_abort()


def test_flags_are_confluent_kafkas_on_a_dead_port() -> None:
    seen: dict[Any, set[Flags]] = {}
    for module in (confluent_kafka.Producer, drop_in.Producer):
        errors: list[Any] = []
        producer = module({**NOWHERE, "error_cb": errors.append, "logger": PlainLogger()})
        producer.produce("t", b"x")
        wait_for(lambda: [producer.poll(0.01), len({error.name() for error in errors}) > 1][1])  # noqa: B023
        seen[module] = {flags(error) for error in errors}
        assert all("127.0.0.1:1" in error.str() for error in errors if error.name() == "_TRANSPORT")
        producer.purge()
    assert seen[drop_in.Producer] == seen[confluent_kafka.Producer]
    assert len(seen[drop_in.Producer]) == 2


@pytest.mark.parametrize("module", BOTH, ids=["confluent_kafka", "kafka_native"])
def test_errors_of_a_cluster_that_goes_down_are_confluent_kafkas(module: Any) -> None:
    """Both report the same kinds of error, but not equally often."""
    errors: list[Any] = []
    with MockCluster(brokers=1) as cluster:
        cluster.create_topic("t", 1)
        conf = {
            "bootstrap.servers": cluster.bootstrap_servers,
            **QUICK,
            "group.id": "g",
            "logger": PlainLogger(),
        }
        consumer = module.Consumer({**conf, "error_cb": errors.append})
        consumer.assign([module.TopicPartition("t", 0, 0)])
        wait_for(lambda: [consumer.poll(0.01), cluster.requests_of(ApiKey.FETCH)][1])
        assert errors == []
        cluster.broker_down(1)
        wait_for(
            lambda: [
                consumer.poll(0.01),
                {"_TRANSPORT", "_ALL_BROKERS_DOWN"} <= {e.name() for e in errors},
            ][1]
        )
        consumer.close()
    assert {flags(error) for error in errors} == {
        ("_TRANSPORT", False, False, False),
        ("_ALL_BROKERS_DOWN", False, False, False),
    }


IDLE: dict[str, Callable[[Any, dict[str, Any]], Any]] = {
    "producer": lambda lib, conf: lib.Producer(conf),
    "consumer": lambda lib, conf: lib.Consumer({**conf, "group.id": "g"}),
    "admin": lambda lib, conf: lib.admin.AdminClient(conf),
}


@pytest.mark.parametrize("lib", BOTH, ids=["confluent_kafka", "kafka_native"])
@pytest.mark.parametrize("make", IDLE.values(), ids=IDLE)
def test_client_without_work_reports_each_failed_attempt(lib: Any, make: Any) -> None:
    """It reports that all brokers are down once per ``reconnect.backoff.max.ms``."""
    errors: list[str] = []
    conf = {"bootstrap.servers": "127.0.0.1:1", "reconnect.backoff.ms": 10, "log_level": 0}
    client = make(lib, {**conf, "error_cb": lambda error: errors.append(error.name())})
    wait_for(lambda: [client.poll(0.05), errors.count("_TRANSPORT") >= 3][1])
    assert errors[:2] == ["_TRANSPORT", "_ALL_BROKERS_DOWN"]
    assert errors.count("_ALL_BROKERS_DOWN") == 1
    errors.clear()
    client = make(lib, {**NOWHERE, "log_level": 0, "error_cb": lambda e: errors.append(e.name())})
    wait_for(lambda: [client.poll(0.05), errors.count("_ALL_BROKERS_DOWN") >= 2][1])


@pytest.mark.parametrize("lib", BOTH, ids=["confluent_kafka", "kafka_native"])
@pytest.mark.parametrize("make", IDLE.values(), ids=IDLE)
def test_client_without_work_connects(lib: Any, make: Any) -> None:
    with MockCluster(brokers=1) as cluster:
        client = make(lib, {"bootstrap.servers": cluster.bootstrap_servers})
        wait_for(lambda: [client.poll(0.01), cluster.requests_of(ApiKey.API_VERSIONS)][1])
