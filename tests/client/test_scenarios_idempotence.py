"""Idempotence with unknown outcomes: late and lost responses, purged messages, moved leaders."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kafka_native import KafkaError
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


def settle(reports: Reports, *values: str) -> None:
    """Send values, and wait for all reports. No error is fatal."""
    reports.send(*values)
    assert reports.producer.flush(20.0) == 0
    assert reports.producer.fatal_error() is None


@contextmanager
def reporting(client: Client, topic: str, *first: str, **conf: Any) -> Iterator[Reports]:
    """Yield the reports of a producer that has delivered the first values."""
    with client.producer(**{**CONF, **conf}) as producer:
        reports = Reports(producer, topic, partition=0)
        settle(reports, *first)
        yield reports


@pytest.mark.parametrize("code", POSSIBLE)
def test_batch_written_despite_the_error_is_acked_with_its_offset(
    cluster: MockCluster, client: Client, topic: str, code: ErrorCode
) -> None:
    with reporting(client, topic, "a") as reports:
        cluster.push_request_errors(ApiKey.PRODUCE, [code] * 3, topic=topic, partition=0, done=True)
        settle(reports, "b", "c", "d")
    assert stored(cluster, topic) == ["a", "b", "c", "d"]
    assert reports.acked() == ["a", "b", "c", "d"]
    assert [reports.offsets[value] for value in "abcd"] == [0, 1, 2, 3]
    assert set(epochs(cluster, topic)) == {0}


@pytest.mark.parametrize("code", POSSIBLE)
def test_reports_come_in_the_order_of_the_offsets(
    cluster: MockCluster, client: Client, topic: str, code: ErrorCode
) -> None:
    """The first of three requests in flight gets an error, though it is written, the others none."""
    leader = cluster.leader(topic, 0)
    with reporting(client, topic, "first", **{"retry.backoff.ms": 300}) as reports:
        cluster.delay_responses(leader, 0.2, ApiKey.PRODUCE)
        cluster.push_request_errors(ApiKey.PRODUCE, [code], topic=topic, partition=0, done=True)
        cluster.clear_requests()
        reports.send("a", "b", "c")
        cluster.wait_for_requests(ApiKey.PRODUCE, 3, leader)
        cluster.delay_responses(leader, 0, ApiKey.PRODUCE)
        assert reports.producer.flush(20.0) == 0
    assert stored(cluster, topic) == ["first", "a", "b", "c"]
    assert reports.acked() == ["first", "a", "b", "c"]


@pytest.mark.parametrize("lost", [1, 3, 5])
def test_batches_written_before_the_connection_broke_are_recognized(
    cluster: MockCluster, client: Client, topic: str, lost: int
) -> None:
    """Several requests are written before that. The producer repeats each of them."""
    leader = cluster.leader(topic, 0)
    values = [str(number) for number in range(5)]
    with reporting(client, topic, "first") as reports:
        cluster.delay_responses(leader, 0.2, ApiKey.PRODUCE)
        cluster.clear_requests()
        reports.send(*values)
        cluster.wait_for_requests(ApiKey.PRODUCE, lost, leader)
        cluster.disconnect(leader)
        cluster.delay_responses(leader, 0, ApiKey.PRODUCE)
        settle(reports)
    assert stored(cluster, topic) == ["first", *values]
    assert sorted(reports.acked()) == sorted(stored(cluster, topic))
    assert [reports.offsets[value] for value in values] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("done", [False, True], ids=["lost before", "lost after"])
def test_timed_out_message_leaves_no_gap_and_no_duplicate(
    cluster: MockCluster, client: Client, topic: str, done: bool
) -> None:
    with reporting(client, topic, "a", **{"message.timeout.ms": 300}) as reports:
        cluster.push_request_errors(ApiKey.PRODUCE, [CLOSE_CONNECTION] * 1000, done=done)
        settle(reports, "b")
        assert reports.failed() == {"b": KafkaError._MSG_TIMED_OUT}
        cluster.faults.clear()
        settle(reports, "c", "d", "e")
    assert reports.acked() == ["a", "c", "d", "e"]
    assert stored(cluster, topic) == (["a", "b", "c", "d", "e"] if done else ["a", "c", "d", "e"])


def test_late_response_does_not_affect_later_messages(
    cluster: MockCluster, client: Client, topic: str
) -> None:
    leader = cluster.leader(topic, 0)
    with reporting(client, topic, "a", **{"message.timeout.ms": 300}) as reports:
        cluster.delay_responses(leader, 30, ApiKey.PRODUCE)
        settle(reports, "b")
        assert reports.failed() == {"b": KafkaError._MSG_TIMED_OUT}
        cluster.delay_responses(leader, 0, ApiKey.PRODUCE)
        settle(reports, "c", "d")
    assert reports.acked() == ["a", "c", "d"]
    assert stored(cluster, topic) == ["a", "b", "c", "d"]
    assert set(epochs(cluster, topic)) == {
        0
    }  # the broker has written it, so the sequence continues


def test_possibly_written_message_is_delivered_once(cluster: MockCluster, client: Client) -> None:
    """The broker writes the message, then refuses it for a while, then recognizes it."""
    topic = client.topic()
    with reporting(client, topic, "a") as reports:
        cluster.push_request_errors(ApiKey.PRODUCE, [CLOSE_CONNECTION], done=True)
        cluster.push_request_errors(ApiKey.PRODUCE, [ErrorCode.NOT_ENOUGH_REPLICAS] * 3)
        settle(reports, "b", "c")
    assert stored(cluster, topic) == ["a", "b", "c"]
    assert reports.acked() == ["a", "b", "c"]
    assert [reports.offsets[value] for value in "abc"] == [0, 1, 2]


@pytest.mark.parametrize("done", [False, True], ids=["not written", "written"])
def test_purge_of_messages_in_flight(cluster: MockCluster, client: Client, done: bool) -> None:
    """A purged message may be in the log. Later ones are written once, after it."""
    topic = client.topic()
    leader = cluster.leader(topic, 0)
    with reporting(client, topic, "a") as reports:
        cluster.clear_requests()
        cluster.delay_responses(leader, 30, ApiKey.PRODUCE)
        cluster.push_request_errors(ApiKey.PRODUCE, [ErrorCode.NOT_ENOUGH_REPLICAS] * 3, done=done)
        reports.send("b", "c", "d")
        cluster.wait_for_requests(ApiKey.PRODUCE, 3, leader)
        reports.producer.purge()
        settle(reports)
        assert reports.failed() == dict.fromkeys("bcd", KafkaError._PURGE_INFLIGHT)
        cluster.delay_responses(leader, 0, ApiKey.PRODUCE)
        cluster.faults.clear()
        settle(reports, "e", "f")
    assert reports.acked() == ["a", "e", "f"]
    assert stored(cluster, topic) == (list("abcdef") if done else list("aef"))


def test_purge_of_queued_messages_keeps_those_in_flight_and_leaves_no_gap(
    cluster: MockCluster, client: Client, topic: str
) -> None:
    leader = cluster.leader(topic, 0)
    with reporting(client, topic, "a", **{"max.in.flight": 1}) as reports:
        cluster.clear_requests()
        cluster.delay_responses(leader, 0.3, ApiKey.PRODUCE)
        reports.send("b")
        cluster.wait_for_requests(ApiKey.PRODUCE, 1, leader)
        reports.send("c", "d")
        reports.producer.purge(in_flight=False)
        reports.send("e")
        cluster.delay_responses(leader, 0, ApiKey.PRODUCE)
        settle(reports)
    assert reports.failed() == dict.fromkeys("cd", KafkaError._PURGE_QUEUE)
    assert reports.acked() == stored(cluster, topic) == ["a", "b", "e"]


def test_leader_moves_while_responses_are_lost(cluster: MockCluster, client: Client) -> None:
    topic = client.topic()
    with reporting(client, topic, **{"batch.num.messages": 3}) as reports:
        for number in range(20):
            leader = cluster.leader(topic, 0)
            cluster.push_request_errors(
                ApiKey.PRODUCE, [CLOSE_CONNECTION], leader, done=number % 2 == 0
            )
            reports.send(*(f"{number}.{part}" for part in range(5)))
            time.sleep(0.005)
            cluster.move_leader(topic, 0, leader % 3 + 1)
        settle(reports)
    cluster.faults.clear()
    assert stored(cluster, topic) == [
        f"{number}.{part}" for number in range(20) for part in range(5)
    ]
    assert sorted(reports.acked()) == sorted(stored(cluster, topic))


def test_producer_continues_on_a_partition_that_forgot_it(
    cluster: MockCluster, client: Client, topic: str
) -> None:
    with reporting(client, topic) as reports:
        for value in "abcdef":
            settle(reports, value)
            cluster.forget_producers(topic, 0, refuse=True)
    assert reports.acked() == stored(cluster, topic) == list("abcdef")
    found = epochs(cluster, topic)
    assert found == sorted(found)
    assert found[-1] > found[0]


def test_producer_continues_after_its_records_are_deleted(
    cluster: MockCluster, client: Client, topic: str
) -> None:
    """Old brokers forget a producer with its last record.

    New brokers accept its next batch as the first.
    """
    with reporting(client, topic) as reports:
        for value in "abc":
            settle(reports, value)
            cluster.forget_producers(topic, 0)
    assert reports.acked() == stored(cluster, topic) == list("abc")
    assert set(epochs(cluster, topic)) == {0}
