"""Renewed locks of share groups (KIP-1222), on the mock cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kafka_native import AcknowledgeType, IllegalStateException, KafkaError, TopicPartition
from kafka_native.mock import MockCluster
from kafka_native.mock.share_partitions import State
from kafka_native.protocol import ApiKey
from tests.client.share_support import done_up_to, new_group, sharing, take, values
from tests.client.support import Client, fill

EXPLICIT: dict[str, Any] = {"share_acknowledgement_mode": "explicit"}
RENEW = AcknowledgeType.RENEW


def lock_of(client: Client, group: str, topic: str, offset: int = 0) -> float:
    """Return when the lock of a record expires, in the mock cluster's time."""
    return client.cluster.share.lock_end(group, topic, 0, offset)


def test_renewed_record_stays_held_and_is_acknowledged_later(
    client: Client, topic: str, group: str
) -> None:
    fill(client, topic, 2)
    with sharing(client, group, topic, **EXPLICIT) as consumer:
        slow, quick = take(consumer, 2)
        before = lock_of(client, group, topic)
        consumer.acknowledge(slow, RENEW)
        consumer.acknowledge(quick)
        fill(client, topic, 1, start=2)
        again = take(consumer, 1)
        assert values(again) == [b"2"], "a renewed record isn't returned again"
        assert lock_of(client, group, topic) > before
        assert client.cluster.share.record(group, topic, 0, 0) == (State.ACQUIRED, 1)
        assert client.cluster.share.record(group, topic, 0, 1)[0] is State.ACKNOWLEDGED
        consumer.acknowledge(again[0])
        consumer.acknowledge(slow)
        assert consumer.commit_sync() == {TopicPartition(topic, 0): None}
        assert done_up_to(client.cluster, group, topic) == 3
        with pytest.raises(IllegalStateException, match="hands"):
            consumer.acknowledge(slow)


def test_lock_can_be_renewed_any_number_of_times(client: Client, topic: str, group: str) -> None:
    fill(client, topic, 1)
    with sharing(client, group, topic, **EXPLICIT) as consumer:
        (message,) = take(consumer, 1)
        for _ in range(3):
            before = lock_of(client, group, topic)
            consumer.acknowledge(message, RENEW)
            assert consumer.commit_sync() == {TopicPartition(topic, 0): None}
            assert lock_of(client, group, topic) > before
        consumer.acknowledge(message, AcknowledgeType.REJECT)
        assert consumer.commit_sync() == {TopicPartition(topic, 0): None}
        assert done_up_to(client.cluster, group, topic) == 1


def test_record_is_delivered_again_after_its_renewed_lock_has_expired(
    client: Client, topic: str, group: str
) -> None:
    fill(client, topic, 1)
    with sharing(client, group, topic, **EXPLICIT) as consumer:
        (first,) = take(consumer, 1)
        consumer.acknowledge(first, RENEW)
        consumer.commit_sync()
        client.cluster.share.expire_locks(group)
        (again,) = take(consumer, 1)
        assert again.delivery_count() == 2
        consumer.acknowledge(again)
        assert consumer.commit_sync() == {TopicPartition(topic, 0): None}


def test_group_that_refuses_renewals_takes_the_record_back(
    client: Client, topic: str, group: str
) -> None:
    client.cluster.share.settings.renew_enabled = False
    fill(client, topic, 1)
    with sharing(client, group, topic, **EXPLICIT) as consumer:
        (message,) = take(consumer, 1)
        consumer.acknowledge(message, RENEW)
        (error,) = consumer.commit_sync().values()
        assert error is not None
        assert error.args[0].code() == KafkaError.INVALID_RECORD_STATE
        with pytest.raises(IllegalStateException, match="hands"):
            consumer.acknowledge(message)


def test_callback_gets_renewed_offsets(client: Client, topic: str, group: str) -> None:
    fill(client, topic, 3)
    seen: list[Any] = []
    with sharing(client, group, topic, **EXPLICIT) as consumer:
        consumer.set_acknowledgement_commit_callback(lambda *outcome: seen.append(outcome))
        first, second, third = take(consumer, 3)
        consumer.acknowledge(first, RENEW)
        consumer.acknowledge(second)
        consumer.acknowledge(third, RENEW)
        assert consumer.commit_sync() == {TopicPartition(topic, 0): None}
    where = TopicPartition(topic, 0)
    assert seen == [({where: {0, 2}}, None), ({where: {1}}, None)]


def test_close_releases_renewed_records_and_those_to_renew(
    client: Client, topic: str, group: str
) -> None:
    fill(client, topic, 2)
    with sharing(client, group, topic, **EXPLICIT) as consumer:
        renewed, to_renew = take(consumer, 2)
        consumer.acknowledge(renewed, RENEW)
        consumer.acknowledge(to_renew)
        consumer.acknowledge(to_renew, RENEW)
        consumer.commit_sync()
        consumer.acknowledge(to_renew, RENEW)
    for offset in (0, 1):
        assert client.cluster.share.record(group, topic, 0, offset)[0] is State.AVAILABLE


@pytest.fixture
def older() -> Iterator[Client]:
    """A cluster that knows share groups, but no renewals: Apache Kafka 4.1."""
    versions = {ApiKey.SHARE_FETCH: 1, ApiKey.SHARE_ACKNOWLEDGE: 1}
    with MockCluster(max_versions=versions) as cluster:
        yield Client(cluster)


def test_older_broker_refuses_only_the_renewal(older: Client) -> None:
    topic, group = older.topic(), new_group(older)
    fill(older, topic, 2)
    seen: dict[int, Any] = {}
    with sharing(older, group, topic, **EXPLICIT) as consumer:
        consumer.set_acknowledgement_commit_callback(
            lambda offsets, error: seen.update({min(*offsets.values()): error})
        )
        slow, quick = take(consumer, 2)
        consumer.acknowledge(slow, RENEW)
        consumer.acknowledge(quick)
        (error,) = consumer.commit_sync().values()
        assert error is not None
        assert error.args[0].code() == KafkaError._UNSUPPORTED_FEATURE
        assert "KIP-1222" in error.args[0].str()
    assert seen[1] is None
    assert older.cluster.share.record(group, topic, 0, 1)[0] is State.ACKNOWLEDGED
