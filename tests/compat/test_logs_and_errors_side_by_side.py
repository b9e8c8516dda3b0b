"""The calls of a logger and of error_cb, by confluent_kafka and by kafka_native."""

from __future__ import annotations

import logging
import re
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
