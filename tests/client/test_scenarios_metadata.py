"""Topics that appear, disappear, grow or are forbidden: messages wait for what passes, or fail."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

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


@pytest.fixture
def strict() -> Iterator[MockCluster]:
    """Yield a cluster without automatic topic creation."""
    with MockCluster(brokers=2, auto_create_topics=False) as running:
        yield running


@pytest.mark.parametrize("idempotence", [False, True])
def test_topic_that_appears_late_gets_what_was_waiting_in_order(
    strict: MockCluster, idempotence: bool
) -> None:
    with Client(strict).producer(**FAST, **{"enable.idempotence": idempotence}) as producer:
        reports = Reports(producer)
        reports.send("1", "2", topic="late", partition=0)
        strict.wait_for_requests(ApiKey.METADATA, 3)
        assert reports.errors == {}
        strict.create_topic("late", 2)
        reports.send("3", topic="late", partition=0)
        assert producer.flush(10) == 0
    assert reports.codes() == {"1": None, "2": None, "3": None}
    assert stored(strict, "late") == ["1", "2", "3"]


def test_topic_that_never_comes_fails_after_its_time_and_not_before(strict: MockCluster) -> None:
    strict.create_topic("there")
    with Client(strict).producer(**FAST, **{"topic.metadata.propagation.max.ms": 400}) as producer:
        reports = Reports(producer)
        start = time.monotonic()
        reports.send("1", "2", topic="never")
        reports.send("3", topic="there")
        wait_for(
            lambda: producer.poll(0.01) >= 0 and "3" in reports.errors, "the topic that is there"
        )
        while "1" not in reports.errors:
            producer.poll(0.05)
            assert time.monotonic() < start + 15
        assert time.monotonic() - start >= 0.4
        assert producer.flush(10) == 0
        assert reports.codes() == {
            "1": KafkaError._UNKNOWN_TOPIC, "2": KafkaError._UNKNOWN_TOPIC, "3": None
        }  # fmt: skip
        assert "never" in str(reports.errors["1"])
        # It isn't forgotten for good.
        strict.create_topic("never")
        reports.send("4", topic="never")
        assert producer.flush(10) == 0
    assert reports.errors["4"] is None
    assert stored(strict, "never") == ["4"]


def test_topic_that_may_not_be_seen_fails_at_once_and_others_go_on(strict: MockCluster) -> None:
    for name in ("secret", "open"):
        strict.create_topic(name)
    strict.push_request_errors(
        ApiKey.METADATA, [ErrorCode.TOPIC_AUTHORIZATION_FAILED], topic="secret"
    )
    with Client(strict).producer(**FAST) as producer:
        reports = Reports(producer)
        reports.send("1", topic="secret")
        reports.send("2", topic="open")
        assert producer.flush(10) == 0
        assert reports.codes() == {"1": KafkaError.TOPIC_AUTHORIZATION_FAILED, "2": None}
        assert "secret" in str(reports.errors["1"])
        reports.send("3", topic="secret")  # allowed meanwhile
        assert producer.flush(10) == 0
    assert reports.errors["3"] is None


@pytest.mark.parametrize("idempotence", [False, True])
def test_topic_that_may_not_be_written_to_fails_its_messages_alone(
    strict: MockCluster, idempotence: bool
) -> None:
    for name in ("read-only", "open"):
        strict.create_topic(name)
    strict.push_request_errors(
        ApiKey.PRODUCE, [ErrorCode.TOPIC_AUTHORIZATION_FAILED], topic="read-only"
    )
    with Client(strict).producer(**FAST, **{"enable.idempotence": idempotence}) as producer:
        reports = Reports(producer)
        reports.send("1", topic="read-only")
        reports.send("2", topic="open")
        assert producer.flush(10) == 0
        reports.send("3", topic="read-only")
        assert producer.flush(10) == 0
    assert reports.codes() == {"1": KafkaError.TOPIC_AUTHORIZATION_FAILED, "2": None, "3": None}
    assert stored(strict, "read-only") == ["3"]


def test_name_that_no_topic_can_have_is_told_and_not_waited_for(strict: MockCluster) -> None:
    with Client(strict).producer(**FAST) as producer:
        reports = Reports(producer)
        reports.send("1", topic="no spaces")
        assert producer.flush(10) == 0
    assert reports.codes() == {"1": KafkaError.TOPIC_EXCEPTION}


def test_partition_without_a_leader_waits_for_one(strict: MockCluster) -> None:
    strict.create_topic("t", 2)
    strict.move_leader("t", 0, -1)
    with Client(strict).producer(**FAST) as producer:
        reports = Reports(producer)
        reports.send("1", "2", topic="t", partition=0)
        reports.send("3", topic="t", partition=1)
        strict.wait_for_requests(ApiKey.METADATA, 3)
        strict.move_leader("t", 0, 2)
        assert producer.flush(10) == 0
    assert reports.codes() == {"1": None, "2": None, "3": None}
    assert stored(strict, "t", 0) == ["1", "2"]


@pytest.mark.parametrize("idempotence", [False, True])
def test_topic_deleted_and_made_again_while_producing_takes_the_rest(
    strict: MockCluster, idempotence: bool
) -> None:
    strict.create_topic("t", 1)
    conf = {
        **FAST,
        "enable.idempotence": idempotence,
        "linger.ms": 0,
        "topic.metadata.refresh.interval.ms": 100,
    }
    with Client(strict).producer(**conf) as producer:
        reports = Reports(producer)
        for number in range(20):
            reports.send(str(number), topic="t", partition=0)
        assert producer.flush(10) == 0
        before = stored(strict, "t")
        first_id = strict.topic_id("t")
        for number in range(20, 120):
            if number == 40:
                strict.delete_topic("t")
            if number == 60:
                strict.create_topic("t", 1)
            reports.send(str(number), topic="t", partition=0)
            producer.poll(0.002)
        assert producer.flush(20) == 0
    assert strict.topic_id("t") != first_id
    assert before == [str(number) for number in range(20)]
    assert set(reports.codes().values()) == {None}
    after = [int(value) for value in stored(strict, "t")]
    assert after[-60:] == list(range(60, 120))
    assert after == sorted(set(after))


@pytest.mark.parametrize("idempotence", [False, True])
def test_nothing_goes_to_a_topic_made_anew_before_what_was_sent_to_the_old_one_is_answered(
    strict: MockCluster, idempotence: bool
) -> None:
    strict.create_topic("elsewhere", 1)
    strict.move_leader("elsewhere", 0, 2)
    conf = {
        **FAST,
        "enable.idempotence": idempotence,
        "linger.ms": 0,
        "topic.metadata.refresh.interval.ms": 100,
    }
    with Client(strict).producer(**conf) as producer:
        reports = Reports(producer)
        reports.send("so that both brokers are connected to", topic="elsewhere", partition=0)
        for number in itertools.count():
            topic = f"t{number}"
            strict.create_topic(topic, 1)
            strict.move_leader(topic, 0, 1)
            reports.send(f"{number}, old", topic=topic, partition=0)
            assert producer.flush(WAIT_S) == 0
            strict.delete_topic(topic)
            strict.create_topic(topic, 1)
            strict.move_leader(topic, 0, 1)
            strict.delay_responses(1, 3600, ApiKey.PRODUCE)
            strict.clear_requests()
            reports.send(
                f"{number}, first", topic=topic, partition=0
            )  # with the old topic's id, which the answer refuses
            strict.wait_for_requests(ApiKey.PRODUCE, 1, timeout=WAIT_S)
            # The next metadata request goes to either broker. Broker 1 answers it late, broker 2 at
            # once.
            strict.wait_for_requests(ApiKey.METADATA, 1, timeout=WAIT_S)
            knows_the_new_id = strict.requests_of(ApiKey.METADATA)[0].broker == 2
            if knows_the_new_id:
                strict.wait_for_requests(ApiKey.METADATA, 2, timeout=WAIT_S)
            reports.send(f"{number}, second", topic=topic, partition=0)
            strict.delay_responses(1, 0, ApiKey.PRODUCE)
            strict.advance(3600)
            assert producer.flush(WAIT_S) == 0
            assert stored(strict, topic) == [f"{number}, first", f"{number}, second"]
            if knows_the_new_id:
                break
    assert set(reports.codes().values()) == {None}


def test_partitions_that_are_added_while_producing_are_used_by_messages_without_a_key(
    strict: MockCluster,
) -> None:
    strict.create_topic("t", 1)
    conf = {
        **FAST,
        "topic.metadata.refresh.interval.ms": 20,
        "linger.ms": 0,
        "batch.num.messages": 5,
    }
    with Client(strict).producer(**conf) as producer:
        reports = Reports(producer)
        reports.send(*(f"before {number}" for number in range(50)), topic="t")
        assert producer.flush(10) == 0
        assert set(reports.partitions.values()) == {0}
        strict.create_partitions("t", 4)
        count = 0
        deadline = time.monotonic() + 15
        while set(reports.partitions.values()) != {0, 1, 2, 3} and time.monotonic() < deadline:
            reports.send(*(f"after {count + number}" for number in range(20)), topic="t")
            count += 20
            producer.flush(10)
    assert set(reports.partitions.values()) == {0, 1, 2, 3}
    assert set(reports.codes().values()) == {None}
    found = sorted(value for partition in range(4) for value in stored(strict, "t", partition))
    assert found == sorted(reports.errors)


def test_keyed_messages_follow_the_number_of_partitions(strict: MockCluster) -> None:
    strict.create_topic("t", 1)
    with Client(strict).producer(**FAST, **{"topic.metadata.refresh.interval.ms": 20}) as producer:
        reports = Reports(producer)
        reports.send("1", topic="t", key="b")
        assert producer.flush(10) == 0
        strict.create_partitions("t", 50)
        count = 1
        deadline = time.monotonic() + 15
        while len(set(reports.partitions.values())) == 1 and time.monotonic() < deadline:
            count += 1
            reports.send(str(count), topic="t", key="b")
            assert producer.flush(10) == 0
        later = [str(number) for number in range(count + 1, count + 20)]
        reports.send(*later, topic="t", key="b")
        assert producer.flush(10) == 0
    assert len(set(reports.partitions.values())) == 2  # that of one partition, and that of fifty
    assert {reports.partitions[value] for value in later} == {reports.partitions[str(count)]}
