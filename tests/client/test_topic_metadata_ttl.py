"""topic.metadata.ttl: the client refreshes the metadata of the topics in use only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kafka_native import OFFSET_BEGINNING, TopicPartition
from kafka_native.mock import MockCluster
from kafka_native.protocol import ApiKey
from kafka_native.protocol.metadata import MetadataResponse
from tests.waiting import WAIT_S, wait_for

from .support import Client, deliver, fill

SHORT = {"topic.metadata.ttl": 1_000, "topic.metadata.refresh.interval.ms": 200}
MANY = 1_000_000
"""More responses than a test sees."""


@contextmanager
def named_topics(cluster: MockCluster) -> Iterator[list[set[str]]]:
    """Yield the topics of each metadata response, oldest first."""
    seen: list[set[str]] = []

    def note(reply: MetadataResponse) -> None:
        seen.append({topic.name or "" for topic in reply.topics})

    cluster.edit_responses(ApiKey.METADATA, note, count=MANY)
    yield seen
    cluster.faults.clear()


def check_refreshes(client: Client, count: int, used_count: int) -> None:
    """Produce to many topics once, and to some of them again and again."""
    names = [f"many-{count}-{number}" for number in range(count)]
    for name in names:
        client.cluster.create_topic(name, 1)
    used = names[:: count // used_count]
    with client.producer(**SHORT) as producer, named_topics(client.cluster) as seen:
        for name in names:
            producer.produce(name, b"once")
        assert producer.flush(WAIT_S) == 0
        assert set().union(*seen) == set(names)

        def refresh_is_small() -> bool:
            for name in used:
                producer.produce(name, b"again")
            producer.poll(0.02)
            return seen[-1] == set(used)

        wait_for(refresh_is_small)
        seen.clear()
        deliver(producer, names[1], b"back")
        assert any(names[1] in topics for topics in seen)
    assert [record.value for record in client.cluster.messages(names[1], 0)] == [b"once", b"back"]


def test_refresh_names_only_the_topics_in_use(client: Client) -> None:
    check_refreshes(client, 200, 20)


@pytest.mark.slow
def test_refresh_of_20_000_topics_names_the_20_in_use(client: Client) -> None:
    check_refreshes(client, 20_000, 20)


def test_queued_messages_keep_a_topic_in_use(client: Client) -> None:
    topic = client.topic()
    conf = {**SHORT, "linger.ms": 600_000}
    with client.producer(**conf) as producer, named_topics(client.cluster) as seen:
        producer.produce(topic, b"waits")
        known = producer._client.main.metadata.topics
        wait_for(lambda: len(seen) >= 10)
        assert topic in known
        assert producer.flush(WAIT_S) == 0
        wait_for(lambda: topic not in known)


def test_assigned_topics_are_in_use_and_others_are_not(client: Client) -> None:
    first, second = client.topic(), client.topic()
    fill(client, first, 1)
    with client.consumer(**SHORT) as consumer, named_topics(client.cluster) as seen:
        consumer.assign([TopicPartition(first, 0, OFFSET_BEGINNING)])
        consumer.get_watermark_offsets(TopicPartition(second, 0), WAIT_S)
        wait_for(lambda: seen[-1] == {first})
        consumer.get_watermark_offsets(TopicPartition(second, 0), WAIT_S)
        assert {first, second} in seen
        consumer.unassign()
        known = consumer._client.main.metadata.topics
        wait_for(lambda: first not in known)


def test_subscribed_topics_are_in_use(client: Client) -> None:
    topic = client.topic()
    fill(client, topic, 1)
    conf = {**SHORT, "group.id": topic, "auto.offset.reset": "earliest"}
    with client.consumer(**conf) as consumer, named_topics(client.cluster) as seen:
        consumer.subscribe([topic])
        wait_for(lambda: consumer.poll(0.1))
        seen.clear()
        wait_for(lambda: len(seen) >= 8)
        assert all(topics == {topic} for topics in seen)
