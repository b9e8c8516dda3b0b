"""Topics that appear, disappear, grow or are forbidden: their messages wait, or fail at once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kafka_native import KafkaError
from kafka_native._reference.error_codes import ErrorCode
from kafka_native.mock import MockCluster
from kafka_native.protocol import ApiKey
from tests.waiting import WAIT_S, wait_for

from .support import Client, Reports, stored

FAST = {
    "topic.metadata.refresh.fast.interval.ms": 10,
    "retry.backoff.ms": 10,
    "retry.backoff.max.ms": 50,
}
AT_ONCE_S = 10.0
"""Far below the default of topic.metadata.propagation.max.ms."""


@pytest.fixture
def strict() -> Iterator[MockCluster]:
    """Yield a cluster without automatic topic creation."""
    with MockCluster(brokers=2, auto_create_topics=False) as running:
        yield running


@contextmanager
def reporting(cluster: MockCluster, **conf: Any) -> Iterator[Reports]:
    """Yield the reports of a producer with short intervals."""
    with Client(cluster).producer(**FAST, **conf) as producer:
        yield Reports(producer)


@pytest.mark.parametrize("idempotence", [False, True])
def test_late_topic_gets_the_waiting_messages_in_order(
    strict: MockCluster, idempotence: bool
) -> None:
    with reporting(strict, **{"enable.idempotence": idempotence}) as reports:
        reports.send("1", "2", topic="late", partition=0)
        strict.wait_for_requests(ApiKey.METADATA, 3)
        assert reports.errors == {}
        strict.create_topic("late", 2)
        reports.deliver("3", topic="late", partition=0)
    assert reports.codes() == {"1": None, "2": None, "3": None}
    assert stored(strict, "late") == ["1", "2", "3"]


def test_missing_topic_fails_after_the_propagation_time(strict: MockCluster) -> None:
    strict.create_topic("there")
    with reporting(strict, **{"topic.metadata.propagation.max.ms": 400}) as reports:
        start = time.monotonic()
        reports.send("1", "2", topic="never")
        reports.send("3", topic="there")
        wait_for(
            lambda: reports.producer.poll(0.01) >= 0 and "3" in reports.errors,
            "the topic that is there",
        )
        while "1" not in reports.errors:
            reports.producer.poll(0.05)
            assert time.monotonic() < start + 15
        assert time.monotonic() - start >= 0.4
        reports.deliver()
        missing = KafkaError._UNKNOWN_TOPIC
        assert reports.codes() == {"1": missing, "2": missing, "3": None}
        assert "never" in str(reports.errors["1"])
        # The producer looks for the topic again.
        strict.create_topic("never")
        reports.deliver("4", topic="never")
    assert reports.errors["4"] is None
    assert stored(strict, "never") == ["4"]


def test_forbidden_topic_fails_at_once_and_others_continue(strict: MockCluster) -> None:
    for name in ("secret", "open"):
        strict.create_topic(name)
    strict.push_request_errors(
        ApiKey.METADATA, [ErrorCode.TOPIC_AUTHORIZATION_FAILED], topic="secret"
    )
    with reporting(strict) as reports:
        reports.send("1", topic="secret")
        reports.send("2", topic="open")
        assert reports.producer.flush(AT_ONCE_S) == 0
        assert reports.codes() == {"1": KafkaError.TOPIC_AUTHORIZATION_FAILED, "2": None}
        assert "secret" in str(reports.errors["1"])
        reports.deliver("3", topic="secret")  # now it is allowed
    assert reports.errors["3"] is None


@pytest.mark.parametrize("idempotence", [False, True])
def test_read_only_topic_fails_only_its_messages(strict: MockCluster, idempotence: bool) -> None:
    for name in ("read-only", "open"):
        strict.create_topic(name)
    strict.push_request_errors(
        ApiKey.PRODUCE, [ErrorCode.TOPIC_AUTHORIZATION_FAILED], topic="read-only"
    )
    with reporting(strict, **{"enable.idempotence": idempotence}) as reports:
        reports.send("1", topic="read-only")
        reports.deliver("2", topic="open")
        reports.deliver("3", topic="read-only")
    assert reports.codes() == {"1": KafkaError.TOPIC_AUTHORIZATION_FAILED, "2": None, "3": None}
    assert stored(strict, "read-only") == ["3"]


def test_invalid_topic_name_fails_at_once(strict: MockCluster) -> None:
    with reporting(strict) as reports:
        reports.send("1", topic="no spaces")
        assert reports.producer.flush(AT_ONCE_S) == 0
    assert reports.codes() == {"1": KafkaError.TOPIC_EXCEPTION}


def test_partition_without_a_leader_waits_for_one(strict: MockCluster) -> None:
    strict.create_topic("t", 2)
    strict.move_leader("t", 0, -1)
    with reporting(strict) as reports:
        reports.send("1", "2", topic="t", partition=0)
        reports.send("3", topic="t", partition=1)
        strict.wait_for_requests(ApiKey.METADATA, 3)
        strict.move_leader("t", 0, 2)
        reports.deliver()
    assert reports.codes() == {"1": None, "2": None, "3": None}
    assert stored(strict, "t", 0) == ["1", "2"]


@pytest.mark.parametrize("idempotence", [False, True])
def test_topic_recreated_while_producing_gets_the_rest(
    strict: MockCluster, idempotence: bool
) -> None:
    strict.create_topic("t", 1)
    conf = {
        "enable.idempotence": idempotence,
        "linger.ms": 0,
        "topic.metadata.refresh.interval.ms": 100,
    }
    with reporting(strict, **conf) as reports:
        for number in range(20):
            reports.deliver(str(number), topic="t", partition=0)
        before = stored(strict, "t")
        first_id = strict.topic_id("t")
        for number in range(20, 120):
            if number == 40:
                strict.delete_topic("t")
            if number == 60:
                strict.create_topic("t", 1)
            reports.send(str(number), topic="t", partition=0)
            reports.producer.poll(0.002)
        reports.deliver()
    assert strict.topic_id("t") != first_id
    assert before == [str(number) for number in range(20)]
    assert set(reports.codes().values()) == {None}
    after = [int(value) for value in stored(strict, "t")]
    assert after[-60:] == list(range(60, 120))
    assert after == sorted(set(after))


@pytest.mark.parametrize("idempotence", [False, True])
def test_recreated_topic_gets_nothing_before_the_old_requests_are_answered(
    strict: MockCluster, idempotence: bool
) -> None:
    strict.create_topic("elsewhere", 1)
    strict.move_leader("elsewhere", 0, 2)
    conf = {
        "enable.idempotence": idempotence,
        "linger.ms": 0,
        "topic.metadata.refresh.interval.ms": 100,
    }
    with reporting(strict, **conf) as reports:
        reports.send("so that both brokers are connected to", topic="elsewhere", partition=0)
        strict.create_topic("t", 1)
        strict.move_leader("t", 0, 1)
        reports.deliver("old", topic="t", partition=0)
        strict.delete_topic("t")
        strict.create_topic("t", 1)
        strict.move_leader("t", 0, 1)
        strict.delay_responses(1, 3600, ApiKey.PRODUCE)
        strict.clear_requests()
        reports.send("first", topic="t", partition=0)  # with the old id, which the broker refuses
        strict.wait_for_requests(ApiKey.PRODUCE, 1, timeout=WAIT_S)
        # metadata requests don't wait behind it: the client learns the new id before the answer
        strict.wait_for_requests(ApiKey.METADATA, 2, timeout=WAIT_S)
        reports.send("second", topic="t", partition=0)
        strict.delay_responses(1, 0, ApiKey.PRODUCE)
        strict.advance(3600)
        reports.deliver()
        assert stored(strict, "t") == ["first", "second"]
    assert set(reports.codes().values()) == {None}


def test_partitions_that_are_added_while_producing_are_used_by_messages_without_a_key(
    strict: MockCluster,
) -> None:
    strict.create_topic("t", 1)
    conf = {"topic.metadata.refresh.interval.ms": 20, "linger.ms": 0, "batch.num.messages": 5}
    with reporting(strict, **conf) as reports:
        reports.deliver(*(f"before {number}" for number in range(50)), topic="t")
        assert set(reports.partitions.values()) == {0}
        strict.create_partitions("t", 4)
        count = 0
        deadline = time.monotonic() + 15
        while set(reports.partitions.values()) != {0, 1, 2, 3} and time.monotonic() < deadline:
            reports.send(*(f"after {count + number}" for number in range(20)), topic="t")
            count += 20
            reports.producer.flush(10)
    assert set(reports.partitions.values()) == {0, 1, 2, 3}
    assert set(reports.codes().values()) == {None}
    found = sorted(value for partition in range(4) for value in stored(strict, "t", partition))
    assert found == sorted(reports.errors)


def test_keyed_messages_follow_the_number_of_partitions(strict: MockCluster) -> None:
    strict.create_topic("t", 1)
    with reporting(strict, **{"topic.metadata.refresh.interval.ms": 20}) as reports:
        reports.deliver("1", topic="t", key="b")
        strict.create_partitions("t", 50)
        count = 1
        deadline = time.monotonic() + 15
        while len(set(reports.partitions.values())) == 1 and time.monotonic() < deadline:
            count += 1
            reports.deliver(str(count), topic="t", key="b")
        later = [str(number) for number in range(count + 1, count + 20)]
        reports.deliver(*later, topic="t", key="b")
    assert len(set(reports.partitions.values())) == 2  # the key's partition of one, and of fifty
    assert {reports.partitions[value] for value in later} == {reports.partitions[str(count)]}
