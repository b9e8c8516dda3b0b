"""Idempotence with unknown outcomes: late and lost answers, purged messages, moved leaders."""

from __future__ import annotations

import time
from typing import Any

import pytest

from kafka_native import KafkaError, Producer
from kafka_native._native import records
from kafka_native._reference.error_codes import ErrorCode
from kafka_native.mock import CLOSE_CONNECTION, MockCluster
from kafka_native.protocol import ApiKey

from .support import Client, Reports, stored

CONF: dict[str, Any] = {
    "enable.idempotence": True,
    "linger.ms": 0,
    "retry.backoff.ms": 10,
    "retry.backoff.max.ms": 50,
    "reconnect.backoff.max.ms": 100,
    "batch.num.messages": 1,
    "error_cb": lambda error: None,
}
POSSIBLE = [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND]


def epochs(cluster: MockCluster, topic: str) -> list[int]:
    return [
        header.producer_epoch
        for raw in cluster.batches(topic, 0)
        for header in records.batch_headers(raw)
    ]


def settled(producer: Producer, seconds: float = 15) -> None:
    assert producer.flush(seconds) == 0
    assert producer.fatal_error() is None


@pytest.mark.parametrize("code", POSSIBLE)
def test_batch_written_in_spite_of_the_error_is_acked_with_the_offset_that_it_has(
    cluster: MockCluster, client: Client, topic: str, code: ErrorCode
) -> None:
    with client.producer(**CONF) as producer:
        reports = Reports(producer, topic, partition=0)
        reports.send("a")
        settled(producer)
        cluster.push_request_errors(ApiKey.PRODUCE, [code] * 3, topic=topic, partition=0, done=True)
        reports.send("b", "c", "d")
        settled(producer)
    assert stored(cluster, topic) == ["a", "b", "c", "d"]
    assert sorted(reports.acked()) == ["a", "b", "c", "d"]
    assert [reports.offsets[value] for value in "abcd"] == [0, 1, 2, 3]
    assert set(epochs(cluster, topic)) == {0}


@pytest.mark.parametrize("lost", [1, 3, 5])
def test_later_batches_written_before_the_answer_to_an_earlier_one_came(
    cluster: MockCluster, client: Client, topic: str, lost: int
) -> None:
    """The connection breaks with several written requests: each is sent again, and recognized."""
    leader = cluster.leader(topic, 0)
    values = [str(number) for number in range(5)]
    with client.producer(**CONF) as producer:
        reports = Reports(producer, topic, partition=0)
        reports.send("first")
        settled(producer)
        cluster.delay_responses(leader, 0.2, ApiKey.PRODUCE)
        cluster.clear_requests()
        reports.send(*values)
        cluster.wait_for_requests(ApiKey.PRODUCE, lost, leader)
        cluster.disconnect(leader)
        cluster.delay_responses(leader, 0, ApiKey.PRODUCE)
        settled(producer)
    assert stored(cluster, topic) == ["first", *values]
    assert sorted(reports.acked()) == sorted(stored(cluster, topic))
    assert [reports.offsets[value] for value in values] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("done", [False, True], ids=["lost before", "lost after"])
def test_message_given_up_while_it_may_have_been_written_leaves_no_gap_and_no_double(
    cluster: MockCluster, client: Client, topic: str, done: bool
) -> None:
    with client.producer(**CONF, **{"message.timeout.ms": 300}) as producer:
        reports = Reports(producer, topic, partition=0)
        reports.send("a")
        settled(producer)
        cluster.push_request_errors(ApiKey.PRODUCE, [CLOSE_CONNECTION] * 1000, done=done)
        reports.send("b")
        settled(producer)
        assert reports.failed() == {"b": KafkaError._MSG_TIMED_OUT}
        cluster.faults.clear()
        reports.send("c", "d", "e")
        settled(producer)
    assert reports.acked() == ["a", "c", "d", "e"]
    assert stored(cluster, topic) == (["a", "b", "c", "d", "e"] if done else ["a", "c", "d", "e"])


def test_answer_that_comes_too_late_for_its_message_leaves_later_ones_as_they_are(
    cluster: MockCluster, client: Client, topic: str
) -> None:
    leader = cluster.leader(topic, 0)
    with client.producer(**CONF, **{"message.timeout.ms": 300}) as producer:
        reports = Reports(producer, topic, partition=0)
        reports.send("a")
        settled(producer)
        cluster.delay_responses(leader, 30, ApiKey.PRODUCE)
        reports.send("b")
        settled(producer)
        assert reports.failed() == {"b": KafkaError._MSG_TIMED_OUT}
        cluster.delay_responses(leader, 0, ApiKey.PRODUCE)
        reports.send("c", "d")
        settled(producer)
    assert reports.acked() == ["a", "c", "d"]
    assert stored(cluster, topic) == ["a", "b", "c", "d"]
    assert set(epochs(cluster, topic)) == {0}  # it was written, so the numbers continued


def test_success_of_what_was_possibly_written_before(cluster: MockCluster, client: Client) -> None:
    """Written, then refused for a while, then recognized: delivered, once."""
    topic = client.topic()
    with client.producer(**CONF) as producer:
        reports = Reports(producer, topic, partition=0)
        reports.send("a")
        settled(producer)
        cluster.push_request_errors(ApiKey.PRODUCE, [CLOSE_CONNECTION], done=True)
        cluster.push_request_errors(ApiKey.PRODUCE, [ErrorCode.NOT_ENOUGH_REPLICAS] * 3)
        reports.send("b", "c")
        settled(producer)
    assert stored(cluster, topic) == ["a", "b", "c"]
    assert sorted(reports.acked()) == ["a", "b", "c"]  # "c" may be known first
    assert [reports.offsets[value] for value in "abc"] == [0, 1, 2]


@pytest.mark.parametrize("done", [False, True], ids=["not written", "written"])
def test_purge_of_what_is_in_flight(cluster: MockCluster, client: Client, done: bool) -> None:
    """A purged message may be in the log. Later ones are written once, after it."""
    topic = client.topic()
    leader = cluster.leader(topic, 0)
    with client.producer(**CONF) as producer:
        reports = Reports(producer, topic, partition=0)
        reports.send("a")
        settled(producer)
        cluster.clear_requests()
        cluster.delay_responses(leader, 30, ApiKey.PRODUCE)
        cluster.push_request_errors(ApiKey.PRODUCE, [ErrorCode.NOT_ENOUGH_REPLICAS] * 3, done=done)
        reports.send("b", "c", "d")
        cluster.wait_for_requests(ApiKey.PRODUCE, 3, leader)
        producer.purge()
        settled(producer)
        assert reports.failed() == dict.fromkeys("bcd", KafkaError._PURGE_INFLIGHT)
        cluster.delay_responses(leader, 0, ApiKey.PRODUCE)
        cluster.faults.clear()
        reports.send("e", "f")
        settled(producer)
    assert reports.acked() == ["a", "e", "f"]
    assert stored(cluster, topic) == (list("abcdef") if done else list("aef"))


def test_purge_of_what_waits_leaves_what_is_in_flight_and_no_gap(
    cluster: MockCluster, client: Client, topic: str
) -> None:
    leader = cluster.leader(topic, 0)
    with client.producer(**CONF, **{"max.in.flight": 1}) as producer:
        reports = Reports(producer, topic, partition=0)
        reports.send("a")
        settled(producer)
        cluster.clear_requests()
        cluster.delay_responses(leader, 0.3, ApiKey.PRODUCE)
        reports.send("b")
        cluster.wait_for_requests(ApiKey.PRODUCE, 1, leader)
        reports.send("c", "d")
        producer.purge(in_flight=False)
        reports.send("e")
        cluster.delay_responses(leader, 0, ApiKey.PRODUCE)
        settled(producer)
    assert reports.failed() == dict.fromkeys("cd", KafkaError._PURGE_QUEUE)
    assert reports.acked() == stored(cluster, topic) == ["a", "b", "e"]


def test_leader_moves_while_answers_are_lost(cluster: MockCluster, client: Client) -> None:
    topic = client.topic()
    with client.producer(**{**CONF, "batch.num.messages": 3}) as producer:
        reports = Reports(producer, topic, partition=0)
        for number in range(20):
            leader = cluster.leader(topic, 0)
            cluster.push_request_errors(
                ApiKey.PRODUCE, [CLOSE_CONNECTION], leader, done=number % 2 == 0
            )
            reports.send(*(f"{number}.{part}" for part in range(5)))
            time.sleep(0.005)
            cluster.move_leader(topic, 0, leader % 3 + 1)
        settled(producer, 30)
    cluster.faults.clear()
    assert stored(cluster, topic) == [
        f"{number}.{part}" for number in range(20) for part in range(5)
    ]
    assert sorted(reports.acked()) == sorted(stored(cluster, topic))


def test_partition_that_lost_the_producer_of_settled_batches_goes_on(
    cluster: MockCluster, client: Client, topic: str
) -> None:
    with client.producer(**CONF) as producer:
        reports = Reports(producer, topic, partition=0)
        for value in "abcdef":
            reports.send(value)
            settled(producer)
            cluster.forget_producers(topic, 0, refuse=True)
    assert reports.acked() == stored(cluster, topic) == list("abcdef")
    found = epochs(cluster, topic)
    assert found == sorted(found)
    assert found[-1] > found[0]


def test_records_deleted_under_the_producer_are_no_reason_to_stop(
    cluster: MockCluster, client: Client, topic: str
) -> None:
    """Old brokers forget a producer with its last record.

    New ones accept the next batch as its first.
    """
    with client.producer(**CONF) as producer:
        reports = Reports(producer, topic, partition=0)
        for value in "abc":
            reports.send(value)
            settled(producer)
            cluster.forget_producers(topic, 0)
    assert reports.acked() == stored(cluster, topic) == list("abc")
    assert set(epochs(cluster, topic)) == {0}
