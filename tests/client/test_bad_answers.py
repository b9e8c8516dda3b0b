"""Invalid Produce responses: each error concerns only its batch, and no other message is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from kafka_native import KafkaError, KafkaException
from kafka_native._reference.error_codes import ErrorCode
from kafka_native.mock import CLOSE_CONNECTION, MockCluster
from kafka_native.protocol import ApiKey
from kafka_native.protocol.produce import ProduceResponse
from tests.waiting import poll_until

from .support import Client, Reports, stored

BOTH = pytest.mark.parametrize("idempotence", [False, True], ids=["plain", "idempotent"])


@contextmanager
def reporting(
    client: Client, topic: str, errors: list[KafkaError], idempotence: bool, **conf: object
) -> Iterator[Reports]:
    """Yield a producer's reports, with its methods to send messages to partition 0."""
    settings = {"linger.ms": 20, "retry.backoff.ms": 10, "acks": "all", "error_cb": errors.append}
    settings |= {"enable.idempotence": idempotence, **conf}
    with client.producer(**settings) as producer:
        yield Reports(producer, topic, partition=0)


def first_part(response: ProduceResponse) -> ProduceResponse.Topic.Partition:
    return response.responses[0].partition_responses[0]


@BOTH
def test_wrong_correlation_id_ends_the_connection_and_is_sent_again(
    cluster: MockCluster, client: Client, topic: str, idempotence: bool
) -> None:
    errors: list[KafkaError] = []
    with reporting(client, topic, errors, idempotence) as reports:
        cluster.mix_up_responses(cluster.leader(topic, 0), ApiKey.PRODUCE)
        reports.deliver("a", "b")
        reports.producer.poll(0)
    assert reports.failed() == {}
    assert set(stored(cluster, topic)) == {"a", "b"}
    assert stored(cluster, topic).count("a") == (1 if idempotence else 2)
    assert any("correlation id" in error.str() for error in errors), errors


def _unknown_partition(response: ProduceResponse) -> None:
    first_part(response).index = 77


def _unknown_topic(response: ProduceResponse) -> None:
    response.responses[0].topic_id = b"\7" * 16
    response.responses[0].name = "another"


def _reported_twice(response: ProduceResponse) -> None:
    parts = response.responses[0].partition_responses
    parts.append(parts[0])


@BOTH
@pytest.mark.parametrize("lie", [_unknown_partition, _unknown_topic, _reported_twice])
def test_response_for_other_partitions_is_refused_as_a_whole(
    cluster: MockCluster, client: Client, lie: Callable[[ProduceResponse], None], idempotence: bool
) -> None:
    topic = client.topic()
    with reporting(client, topic, [], idempotence) as reports:
        cluster.edit_responses(ApiKey.PRODUCE, lie)
        reports.deliver("a", "b")
        reports.deliver("c")
    assert reports.errors["c"] is None
    if idempotence:  # the retry writes nothing twice
        assert reports.failed() == {}
    else:
        assert reports.failed() == {"a": KafkaError._BAD_MSG, "b": KafkaError._BAD_MSG}
        assert "malformed Produce response" in reports.errors["a"].str()
    assert stored(cluster, topic) == ["a", "b", "c"]


@BOTH
def test_partition_missing_from_the_response_fails_alone(client: Client, idempotence: bool) -> None:
    topic = client.topic(partitions=4)  # 0 and 3 have the same leader
    with reporting(client, topic, [], idempotence, **{"linger.ms": 100}) as reports:
        for partition in (0, 3):
            reports.send(f"warm {partition}", partition=partition)
        assert reports.producer.flush(15) == 0

        def leave_out(response: ProduceResponse) -> None:
            del response.responses[0].partition_responses[0]

        client.cluster.edit_responses(ApiKey.PRODUCE, leave_out)
        for value in ("a", "b"):
            reports.send(f"{value}0", partition=0)
            reports.deliver(f"{value}3", partition=3)
    assert len(reports.errors) == 6
    if idempotence:
        assert reports.failed() == {}
    else:
        [(value, code)] = reports.failed().items()
        assert value in ("a0", "a3")
        assert code == KafkaError._BAD_MSG
        assert "missing from the Produce response" in reports.errors[value].str()
    for partition in (0, 3):
        values = [f"warm {partition}", f"a{partition}", f"b{partition}"]
        assert stored(client.cluster, topic, partition) == values


@BOTH
def test_base_offset_that_goes_backwards_is_reported_unchanged(
    cluster: MockCluster, client: Client, topic: str, idempotence: bool
) -> None:
    with reporting(client, topic, [], idempotence) as reports:
        for value in "abc":
            reports.deliver(value)
        cluster.edit_responses(
            ApiKey.PRODUCE, lambda response: setattr(first_part(response), "base_offset", 0)
        )
        reports.deliver("d")
        reports.deliver("e")
    assert reports.failed() == {}
    assert stored(cluster, topic) == list("abcde")
    assert [reports.offsets[value] for value in "abcde"] == [0, 1, 2, 0, 4]


@BOTH
@pytest.mark.parametrize("offset", [-1, -5, -(1 << 63)])
def test_negative_base_offset_without_an_error_is_a_delivery_without_an_offset(
    cluster: MockCluster, client: Client, topic: str, idempotence: bool, offset: int
) -> None:
    with reporting(client, topic, [], idempotence) as reports:
        cluster.edit_responses(
            ApiKey.PRODUCE, lambda response: setattr(first_part(response), "base_offset", offset)
        )
        reports.deliver("a")
    assert reports.errors == {"a": None}
    assert reports.offsets == {"a": None}


@pytest.mark.parametrize(
    "code", [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID]
)
def test_broker_that_denies_written_batches_is_fatal_and_nothing_is_written_twice(
    cluster: MockCluster, client: Client, topic: str, code: ErrorCode
) -> None:
    with reporting(client, topic, [], True, **{"batch.num.messages": 1, "linger.ms": 0}) as reports:
        reports.deliver("a")
        # The response to the next batch is lost, and its retry is refused although it is written.
        cluster.push_request_errors(ApiKey.PRODUCE, [CLOSE_CONNECTION], done=True)
        cluster.push_request_errors(ApiKey.PRODUCE, [code])
        reports.deliver("b")
        fatal = poll_until(reports.producer.fatal_error, reports.producer)
        assert fatal is not None
        assert fatal.code() == code
        with pytest.raises(KafkaException, match=r"fatal_error\(\)"):
            reports.send("c")
    assert reports.failed() == {"b": code}
    assert stored(cluster, topic) == ["a", "b"]


def test_partition_that_forgets_its_producer_gets_another_epoch(client: Client, topic: str) -> None:
    with reporting(client, topic, [], True) as reports:
        reports.deliver("a")
        client.cluster.forget_producers(topic, 0, refuse=True)
        reports.deliver("b", "c")
    assert reports.failed() == {}
    assert stored(client.cluster, topic) == list("abc")


@BOTH
@pytest.mark.parametrize("after_bytes", [0, 1, 4, 8, 12, 30])
def test_truncated_answer_is_sent_again(
    cluster: MockCluster, client: Client, topic: str, idempotence: bool, after_bytes: int
) -> None:
    with reporting(client, topic, [], idempotence) as reports:
        cluster.close_mid_frame(None, after_bytes, ApiKey.PRODUCE)
        reports.deliver("a", "b")
    assert reports.failed() == {}
    assert stored(cluster, topic)[:2] == ["a", "b"]
    assert len(stored(cluster, topic)) == (2 if idempotence else 4)


@BOTH
@pytest.mark.parametrize("announced", [0, 3, 2_000_000_000, 0x80000000, 0xFFFFFFFF])
def test_answer_of_an_impossible_size_ends_the_connection_and_is_sent_again(
    cluster: MockCluster, client: Client, topic: str, idempotence: bool, announced: int
) -> None:
    errors: list[KafkaError] = []
    with reporting(client, topic, errors, idempotence) as reports:
        cluster.oversize_next_response(None, announced, ApiKey.PRODUCE)
        reports.deliver("a", "b")
        reports.producer.poll(0)
    assert reports.failed() == {}
    assert stored(cluster, topic)[:2] == ["a", "b"]
    assert len(stored(cluster, topic)) == (2 if idempotence else 4)
    assert errors
    if announced == 2_000_000_000:
        assert "receive.message.max.bytes" in errors[0].str()
