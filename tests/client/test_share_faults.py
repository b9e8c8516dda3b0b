"""ShareConsumer with failing brokers, sessions and leaders: no loss, and errors are reported."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from kafka_native import (
    AcknowledgeType,
    IllegalStateException,
    KafkaError,
    Message,
    ShareConsumer,
)
from kafka_native.mock import CLOSE_CONNECTION, MockCluster
from kafka_native.mock.share_partitions import State
from kafka_native.protocol import ApiKey
from tests.client.share_support import done_up_to, new_group, sharing, take, values
from tests.client.support import Client, fill
from tests.waiting import WAIT_S, wait_for


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    """Yield a cluster for each test, because tests break it."""
    with MockCluster(brokers=3, group_heartbeat=0.1) as running:
        yield running


@pytest.fixture
def client(cluster: MockCluster) -> Client:
    return Client(cluster)


def code_of(consumer: ShareConsumer) -> int:
    """Return the error code of the only partition of a commit."""
    (error,) = consumer.commit_sync(WAIT_S).values()
    assert error is not None
    code: int = error.args[0].code()
    return code


def take_distinct(consumer: ShareConsumer, count: int) -> list[Message]:
    """Poll until so many different values have arrived."""
    found: dict[bytes, Message] = {}
    deadline = time.monotonic() + WAIT_S
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count}"
        found.update(
            (each.value() or b"", each) for each in consumer.poll(0.2) if each.error() is None
        )
    return list(found.values())


def test_lost_session_is_replaced_and_old_acknowledgements_fail(client: Client) -> None:
    topic, group = client.topic(), new_group(client)
    fill(client, topic, 5)
    with sharing(client, group, topic) as consumer:
        take(consumer, 5)
        client.cluster.share.clear_sessions()
        assert code_of(consumer) == KafkaError.SHARE_SESSION_NOT_FOUND
        assert {each.delivery_count() for each in take(consumer, 5)} == {2}
        assert set(consumer.commit_sync().values()) == {None}
        assert done_up_to(client.cluster, group, topic) == 5


@pytest.mark.parametrize(
    "code",
    [
        KafkaError.INVALID_SHARE_SESSION_EPOCH,
        KafkaError.SHARE_SESSION_LIMIT_REACHED,
        CLOSE_CONNECTION,
    ],
)
def test_failed_fetch_is_retried_in_another_session(client: Client, code: int) -> None:
    topic, group = client.topic(), new_group(client)
    client.cluster.push_request_errors(ApiKey.SHARE_FETCH, [code] * 2)
    fill(client, topic, 5)
    with sharing(client, group, topic) as consumer:
        assert len(values(take(consumer, 5))) == 5


def test_acknowledgement_on_a_broken_connection_fails_and_its_records_are_redelivered(
    client: Client, topic: str, group: str
) -> None:
    fill(client, topic, 5)
    calls: list[Any] = []
    with sharing(client, group, topic) as consumer:
        consumer.set_acknowledgement_commit_callback(lambda *call: calls.append(call))
        take(consumer, 5)
        client.cluster.push_request_errors(ApiKey.SHARE_ACKNOWLEDGE, [CLOSE_CONNECTION])
        assert code_of(consumer) == KafkaError._TRANSPORT
        assert {each.delivery_count() for each in take(consumer, 5)} == {2}
        assert calls[0][1].args[0].code() == KafkaError._TRANSPORT
        assert list(calls[0][0].values()) == [{0, 1, 2, 3, 4}]


def test_acknowledgements_of_a_broken_fetch_fail(client: Client) -> None:
    topic, group = client.topic(), new_group(client)
    fill(client, topic, 5)
    errors: list[Any] = []
    with sharing(client, group, topic) as consumer:
        consumer.set_acknowledgement_commit_callback(lambda offsets, error: errors.append(error))
        take(consumer, 5)
        client.cluster.push_request_errors(ApiKey.SHARE_FETCH, [CLOSE_CONNECTION])
        assert {each.delivery_count() for each in take(consumer, 5)} == {2}
        assert errors[0].args[0].code() == KafkaError._TRANSPORT


def test_callback_gets_the_error_of_a_refused_piggybacked_acknowledgement(client: Client) -> None:
    topic, group = client.topic(), new_group(client)
    fill(client, topic, 2)
    errors: list[Any] = []
    with sharing(client, group, topic) as consumer:
        consumer.set_acknowledgement_commit_callback(lambda offsets, error: errors.append(error))
        take(consumer, 2)
        code = KafkaError.KAFKA_STORAGE_ERROR
        client.cluster.push_request_errors(ApiKey.SHARE_ACKNOWLEDGE, [code], topic=topic)
        wait_for(lambda: consumer.poll(0.05) is None or errors, "the callback")
        assert errors[0].args[0].code() == code


def test_new_leader_is_fetched_from_and_acknowledgements_to_the_old_one_fail(
    client: Client, topic: str, group: str
) -> None:
    fill(client, topic, 5)
    with sharing(client, group, topic) as consumer:
        take(consumer, 5)
        client.cluster.move_leader(topic, 0, 3)
        assert code_of(consumer) == KafkaError.NOT_LEADER_FOR_PARTITION
        assert {each.delivery_count() for each in take(consumer, 5)} == {2}
        fill(client, topic, 5, start=5)
        assert len(take(consumer, 5)) == 5
        assert set(consumer.commit_sync().values()) == {None}
        assert done_up_to(client.cluster, group, topic) == 10


def test_without_leader_hints_metadata_name_the_leader(
    client: Client, topic: str, group: str
) -> None:
    client.cluster.leader_hints = False
    test_new_leader_is_fetched_from_and_acknowledgements_to_the_old_one_fail(client, topic, group)


def test_no_record_is_lost_when_a_broker_goes_down(client: Client) -> None:
    topic, group = client.topic(6), new_group(client)
    for partition in range(6):
        start = 100 * partition
        fill(client, topic, 100, partition=partition, start=start, **{"batch.num.messages": 10})
    with sharing(client, group, topic, max_poll_records=20) as consumer:
        first = take(consumer, 100)
        client.cluster.broker_down(1)
        rest = take_distinct(consumer, 200)
        client.cluster.broker_up(1)
        fill(client, topic, 10, start=600)
        wait_for(
            lambda: consumer.poll(0.2).is_empty() and _done(client, group, topic) == 610,
            "all are accepted",
        )
    assert len(first) + len(rest) >= 300


def _done(client: Client, group: str, topic: str) -> int:
    count = len(client.cluster.topics[topic].partitions)
    return sum(done_up_to(client.cluster, group, topic, number) for number in range(count))


def test_recreated_topic_is_read_from_its_beginning(client: Client) -> None:
    topic, group = client.topic(), new_group(client)
    fill(client, topic, 5)
    with sharing(client, group, topic, topic_metadata_refresh_interval_ms=100) as consumer:
        take(consumer, 5)
        assert set(consumer.commit_sync().values()) == {None}
        client.cluster.delete_topic(topic)
        client.cluster.create_topic(topic, 2)
        fill(client, topic, 7, start=5)
        found = take_distinct(consumer, 7)
        assert sorted(map(int, values(found))) == list(range(5, 12))


@pytest.mark.parametrize("code", [KafkaError.UNKNOWN_MEMBER_ID, KafkaError.FENCED_MEMBER_EPOCH])
def test_fenced_member_rejoins_and_loses_no_record(client: Client, code: int) -> None:
    topic, group = client.topic(), new_group(client)
    fill(client, topic, 5)
    with sharing(client, group, topic) as consumer:
        take(consumer, 5)
        client.cluster.push_request_errors(ApiKey.SHARE_GROUP_HEARTBEAT, [code])
        client.cluster.clear_requests()
        client.cluster.wait_for_requests(ApiKey.SHARE_GROUP_HEARTBEAT, 3)
        fill(client, topic, 5, start=5)
        take_distinct(consumer, 5)
        consumer.commit_sync()
        assert done_up_to(client.cluster, group, topic) == 10


def test_another_coordinator_is_found(client: Client, topic: str, group: str) -> None:
    with sharing(client, group, topic) as consumer:
        consumer.poll(0.1)
        wait_for(
            lambda: consumer.poll(0) is not None and client.cluster.share.members(group),
            "the member",
        )
        client.cluster.push_request_errors(
            ApiKey.SHARE_GROUP_HEARTBEAT, [KafkaError.NOT_COORDINATOR] * 2
        )
        client.cluster.clear_requests()
        client.cluster.wait_for_requests(ApiKey.FIND_COORDINATOR, 1)
        fill(client, topic, 5)
        take(consumer, 5)


def test_forbidden_group_ends_the_consumer(client: Client) -> None:
    topic, group = client.topic(), new_group(client)
    client.cluster.push_request_errors(
        ApiKey.SHARE_GROUP_HEARTBEAT, [KafkaError.GROUP_AUTHORIZATION_FAILED]
    )
    with sharing(client, group, topic) as consumer:
        (message,) = take(consumer, 1)
        error = message.error()
        assert error is not None
        assert error.code() == KafkaError._FATAL
        assert "authorization" in error.str().lower()


def test_forbidden_topic_is_reported_once_and_retried(client: Client) -> None:
    topic, group = client.topic(), new_group(client)
    fill(client, topic, 5)
    code = KafkaError.TOPIC_AUTHORIZATION_FAILED
    client.cluster.push_request_errors(ApiKey.SHARE_FETCH, [code] * 2, topic=topic)
    with sharing(client, group, topic) as consumer:
        found = take(consumer, 6)
        errors = [each for each in found if each.error()]
        assert [(each.topic(), each.partition()) for each in errors] == [(topic, 0)], (
            "reported once"
        )
        assert errors[0].error().code() == code  # type: ignore[union-attr]
        assert len(found) == 6


def test_missing_topic_is_reported_once(client: Client) -> None:
    client.cluster.auto_create_topics = False
    with sharing(
        client, new_group(client), "nowhere", topic_metadata_propagation_max_ms=3_600_000
    ) as consumer:
        (message,) = take(consumer, 1)
        assert message.topic() == "nowhere"
        assert message.error().code() == KafkaError.UNKNOWN_TOPIC_OR_PART  # type: ignore[union-attr]
        assert consumer.poll(1.5).is_empty(), "reported once"


def test_damaged_batch_is_reported_and_its_records_are_redelivered(client: Client) -> None:
    topic, group = client.topic(), new_group(client)
    fill(client, topic, 5)
    client.cluster.corrupt_next_fetch(topic, 0)
    with sharing(client, group, topic) as consumer:
        found = take(consumer, 6)
        errors = [each for each in found if each.error()]
        assert len(errors) == 1
        assert errors[0].error().code() == KafkaError._BAD_MSG  # type: ignore[union-attr]
        assert "released" in errors[0].error().str()  # type: ignore[union-attr]
        good = [each for each in found if not each.error()]
        assert [each.offset() for each in good] == list(range(5))
        assert {each.delivery_count() for each in good} == {2}


def test_the_error_of_a_damaged_batch_cannot_be_acknowledged(client: Client) -> None:
    topic, group = client.topic(), new_group(client)
    fill(client, topic, 5)
    client.cluster.corrupt_next_fetch(topic, 0)
    with sharing(client, group, topic, share_acknowledgement_mode="explicit") as consumer:
        (damaged,) = take(consumer, 1)
        assert damaged.error() is not None
        with pytest.raises(IllegalStateException):
            consumer.acknowledge(damaged, AcknowledgeType.ACCEPT)
        good = take(consumer, 5)
        assert [each.offset() for each in good] == list(range(5))


@pytest.mark.parametrize(
    "ranges", [[(0, 1 << 60)], [(-5, 3)], [(3, 1)], [(0, 3), (2, 4)], [(0, 2), (1, 1)]], ids=str
)
def test_impossible_ranges_of_acquired_records_are_refused(
    client: Client, topic: str, group: str, ranges: list[tuple[int, int]]
) -> None:
    fill(client, topic, 5)
    hit = []

    def lie(response: Any) -> None:
        for each in response.responses[0].partitions:
            kind = type(each.acquired_records[0])
            each.acquired_records = [
                kind(first_offset=a, last_offset=b, delivery_count=1) for a, b in ranges
            ]
            hit.append(each)

    client.cluster.edit_responses(ApiKey.SHARE_FETCH, lie)
    with sharing(client, group, topic) as consumer:
        client.cluster.share.settings.lock_seconds = 0.2
        found = take(consumer, 6)
        assert hit
        errors = [each.error() for each in found if each.error()]
        assert [error.code() for error in errors if error] == [KafkaError._BAD_MSG]
        assert len({each.offset() for each in found if not each.error()}) == 5


def test_truncated_response_is_requested_again(client: Client) -> None:
    topic, group = client.topic(), new_group(client)
    fill(client, topic, 5)
    client.cluster.close_mid_frame(None, 60, ApiKey.SHARE_FETCH)
    with sharing(client, group, topic) as consumer:
        assert {each.delivery_count() for each in take(consumer, 5)} == {2}


def test_records_that_arrive_after_a_poll_are_for_the_next_poll(client: Client) -> None:
    topic, group = client.topic(1), new_group(client)
    with sharing(client, group, topic, fetch_wait_max_ms=5000) as consumer:
        consumer.poll(0.5)
        client.cluster.wait_for_requests(ApiKey.SHARE_FETCH, 1)
        fill(client, topic, 5)
        wait_for(lambda: consumer._inbox.fetched, "records")
        assert consumer.poll(0).count() == 5


def test_records_with_expired_locks_are_not_delivered(
    client: Client, topic: str, group: str
) -> None:
    client.cluster.share.settings.lock_seconds = 0.3
    with sharing(client, group, topic, fetch_wait_max_ms=5000) as consumer:
        consumer.poll(0.5)
        client.cluster.wait_for_requests(ApiKey.SHARE_FETCH, 1)
        fill(client, topic, 5)
        wait_for(lambda: consumer._inbox.fetched, "records")
        wait_for(
            lambda: client.cluster.share.record(group, topic, 0, 0)[0] is State.AVAILABLE,
            "the locks' end",
        )
        wait_for(
            lambda: time.monotonic() >= consumer._inbox.fetched[0].until,
            "their end by the client's clock",
        )
        client.cluster.share.settings.lock_seconds = 30
        assert {each.delivery_count() for each in take(consumer, 5)} == {2}


def test_member_that_does_not_poll_leaves_and_rejoins(client: Client) -> None:
    topic, group = client.topic(), new_group(client)
    with sharing(client, group, topic, max_poll_interval_ms=300) as consumer:
        wait_for(
            lambda: consumer.poll(0.01) is not None and client.cluster.share.members(group),
            "the member",
        )
        wait_for(lambda: not client.cluster.share.members(group), "the member to leave")
        fill(client, topic, 5)
        found = take(consumer, 6)
        errors = [each.error() for each in found if each.error()]
        assert [error.code() for error in errors if error] == [KafkaError._MAX_POLL_EXCEEDED]
        assert len(found) == 6


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_is_read(client: Client, topic: str, group: str, codec: str) -> None:
    fill(client, topic, 500, **{"compression.type": codec})
    with sharing(client, group, topic) as consumer:
        assert sorted(map(int, values(take(consumer, 500)))) == list(range(500))


def test_markers_of_transactions_are_skipped(client: Client) -> None:
    topic, group = client.topic(), new_group(client)
    with client.producer(**{"transactional.id": "t"}) as producer:
        producer.init_transactions()
        for start in (0, 5):
            producer.begin_transaction()
            for number in range(start, start + 5):
                producer.produce(topic, str(number))
            producer.commit_transaction()
    with sharing(client, group, topic) as consumer:
        assert [each.offset() for each in take(consumer, 10)] == [0, 1, 2, 3, 4, 6, 7, 8, 9, 10]
        consumer.commit_sync()
        assert done_up_to(client.cluster, group, topic) == 12


def test_close_sends_acknowledgements_and_releases_the_rest(client: Client) -> None:
    topic, group = client.topic(), new_group(client)
    fill(client, topic, 4)
    with sharing(client, group, topic, share_acknowledgement_mode="explicit") as consumer:
        messages = take(consumer, 4)
        consumer.acknowledge(messages[0])
        consumer.acknowledge(messages[2], AcknowledgeType.REJECT)
    states = [client.cluster.share.record(group, topic, 0, at)[0] for at in range(4)]
    assert states == [State.ACKNOWLEDGED, State.AVAILABLE, State.ARCHIVED, State.AVAILABLE]


def test_close_ends_without_any_broker(client: Client, topic: str, group: str) -> None:
    fill(client, topic, 4)
    with sharing(client, group, topic) as consumer:
        take(consumer, 4)
        for broker in (1, 2, 3):
            client.cluster.broker_down(broker)
        consumer.close(2)
