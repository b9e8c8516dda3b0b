"""Kafka improvement proposals that no other test shows on a real Apache Kafka.

librdkafka is the witness.
"""

from __future__ import annotations

import itertools
import json
import time
import uuid
from typing import Any

import confluent_kafka
from confluent_kafka.admin import AdminClient as TheirAdminClient

import kafka_native
from kafka_native import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    TopicPartition,
)
from kafka_native.interceptors import ConsumerInterceptor, ProducerInterceptor
from tests.broker.cluster import Cluster
from tests.broker.support import (
    TopicMaker,
    admin_of,
    flush,
    our_consumer,
    our_producer,
    read,
    result_of,
    their_consumer,
)
from tests.waiting import WAIT_S, poll_until, wait_for


def their_offsets(theirs: TheirAdminClient, group: str) -> list[int]:
    """Return the offsets of a group in librdkafka's view."""
    asked = confluent_kafka.ConsumerGroupTopicPartitions(group)
    found = result_of(theirs.list_consumer_group_offsets([asked]))
    return [each.offset for each in found.topic_partitions]


def test_several_groups_are_found_and_read_together(kafka: Cluster, new_topic: TopicMaker) -> None:
    """KIP-699, KIP-709 and KIP-518."""
    topic = new_topic(kafka)
    with our_producer(kafka) as producer:
        for number in range(3):
            producer.produce(topic, str(number))
        flush(producer)
    groups = [f"together-{uuid.uuid4().hex[:8]}" for _ in range(3)]
    theirs = kafka.admin()
    with admin_of(kafka) as admin:
        for offset, group in enumerate(groups, 1):
            moved = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, offset)])
            assert result_of(admin.alter_consumer_group_offsets([moved])).topic_partitions
        asked = [ConsumerGroupTopicPartitions(group) for group in groups]
        futures = admin.list_consumer_group_offsets(asked)
        found = {
            group: [each.offset for each in future.result(WAIT_S).topic_partitions]
            for group, future in futures.items()
        }
        assert found == {group: [offset] for offset, group in enumerate(groups, 1)}
        assert found == {group: their_offsets(theirs, group) for group in groups}
        for state, wanted in (
            (ConsumerGroupState.EMPTY, set(groups)),
            (ConsumerGroupState.STABLE, set()),
        ):
            listed = admin.list_consumer_groups(states={state}).result(WAIT_S)
            assert {each.group_id for each in listed.valid} & set(groups) == wanted


def test_a_group_without_offsets_starts_with_young_messages(
    kafka: Cluster, new_topic: TopicMaker
) -> None:
    """KIP-1106: auto.offset.reset=by_duration."""
    topic, now_ms = new_topic(kafka), int(time.time() * 1000)
    with our_producer(kafka) as producer:
        for number, age_s in enumerate((7200, 5000, 1800, 10)):
            producer.produce(topic, str(number), timestamp=now_ms - age_s * 1000)
            flush(producer)
    theirs = their_consumer(kafka)
    an_hour_ago = confluent_kafka.TopicPartition(topic, 0, now_ms - 3600 * 1000)
    [first] = theirs.offsets_for_times([an_hour_ago], timeout=WAIT_S)
    theirs.close()
    assert first.offset == 2
    reset = {"auto_offset_reset": "by_duration:PT1H"}
    with our_consumer(kafka, group_id=f"young-{topic}", **reset) as consumer:
        consumer.subscribe([topic])
        seen: list[int] = []
        wait_for(
            lambda: (
                seen.extend(each.offset() for each in consumer.consume(10, 0.1)) or len(seen) > 1
            ),
            "the young messages",
        )
    assert seen == [2, 3]


def test_the_applications_partitioner_decides(kafka: Cluster, new_topic: TopicMaker) -> None:
    """KIP-22 and, with a counter, KIP-369."""
    topic, numbers = new_topic(kafka, 3), itertools.count()
    with our_producer(
        kafka, partitioner_cb=lambda topic, key, count: next(numbers) % count
    ) as producer:
        for number in range(30):
            producer.produce(topic, str(number), key="always the same")
        flush(producer)
    theirs = their_consumer(kafka)
    records = read(theirs, topic, range(3), 30)
    theirs.close()
    assert all(int(each.value or b"") % 3 == each.partition for each in records)


class Marking(ProducerInterceptor):
    """Adds a header."""

    def on_send(self, record: Any) -> None:
        record.headers = [("mark", b"x")]


class Noting(ConsumerInterceptor):
    """Records its calls."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.committed: list[int] = []

    def on_consume(self, messages: list[kafka_native.Message]) -> None:
        self.sizes.append(len(messages))

    def on_commit(self, offsets: list[TopicPartition], error: KafkaError | None) -> None:
        assert error is None
        self.committed += [each.offset for each in offsets]


def test_interceptors_see_messages_and_commits(kafka: Cluster, new_topic: TopicMaker) -> None:
    """KIP-42, and max.poll.records (KIP-41)."""
    topic, noting = new_topic(kafka), Noting()
    with our_producer(kafka, interceptors=[Marking()]) as producer:
        for number in range(10):
            producer.produce(topic, str(number))
        flush(producer)
    theirs = their_consumer(kafka)
    assert {each.headers for each in read(theirs, topic, [0], 10)} == {(("mark", b"x"),)}
    config = {"interceptors": [noting], "max.poll.records": 4, "enable.auto.commit": False}
    group = f"noted-{topic}"
    with our_consumer(kafka, group_id=group, **config) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        count = 0

        def all_read() -> bool:
            nonlocal count
            messages = consumer.consume(timeout=0.1)
            assert len(messages) <= 4
            count += len(messages)
            return count == 10

        wait_for(all_read, "ten messages")
        consumer.commit(asynchronous=False)
    assert (sum(noting.sizes), max(noting.sizes) <= 4, noting.committed) == (10, True, [10])
    assert their_offsets(kafka.admin(), group) == [10]
    theirs.close()


def test_rebalance_on_demand_and_the_end_of_a_subscription(
    kafka: Cluster, new_topic: TopicMaker
) -> None:
    """KIP-568 and KIP-70."""
    topic, changes = new_topic(kafka, 2), []
    group, theirs = f"demand-{topic}", kafka.admin()

    def members() -> int:
        return len(result_of(theirs.describe_consumer_groups([group])).members)

    with our_consumer(kafka, group_id=group) as consumer:
        consumer.subscribe(
            [topic],
            on_assign=lambda _, partitions: changes.append(len(partitions)),
            on_revoke=lambda _, partitions: changes.append(-len(partitions)),
        )
        poll_until(lambda: changes == [2], consumer)
        consumer.enforce_rebalance("news")
        poll_until(lambda: changes == [2, -2, 2], consumer)
        assert members() == 1
        consumer.unsubscribe()
        poll_until(lambda: changes == [2, -2, 2, -2], consumer)
        wait_for(lambda: members() == 0, "an empty group")


def test_only_the_refused_records_of_a_batch_fail(kafka: Cluster, new_topic: TopicMaker) -> None:
    """KIP-467: a compacted topic takes no record without a key."""
    topic = new_topic(kafka, cleanup_policy="compact")
    outcomes: dict[bytes, KafkaError | None] = {}

    def note(error: KafkaError | None, message: kafka_native.Message) -> None:
        outcomes[message.value() or b""] = error

    with our_producer(kafka, linger_ms=100) as producer:
        for number, key in enumerate((b"a", None, b"b")):
            producer.produce(topic, str(number), key, on_delivery=note)
        flush(producer)
    refused = outcomes[b"1"]
    assert (outcomes[b"0"], outcomes[b"2"]) == (None, None)
    assert refused is not None
    assert refused.code() == KafkaError.INVALID_RECORD
    theirs = their_consumer(kafka)
    assert [each.key for each in read(theirs, topic, [0], 2)] == [b"a", b"b"]
    theirs.close()


def test_the_clusters_id_is_known(kafka: Cluster) -> None:
    """KIP-78."""
    with our_producer(kafka) as producer:
        found = producer.list_topics(timeout=WAIT_S).cluster_id
    assert found
    assert found == kafka.admin().list_topics(timeout=WAIT_S).cluster_id


def test_the_broker_refuses_more_than_one_acknowledgement(
    kafka: Cluster, new_topic: TopicMaker
) -> None:
    """KIP-1: a broker from 0.9 on knows acks 0, 1 and all."""
    topic = new_topic(kafka)
    outcomes: list[KafkaError | None] = []
    with our_producer(kafka, acks=2) as producer:
        producer.produce(topic, b"x", on_delivery=lambda error, _: outcomes.append(error))
        flush(producer)
    [refused] = outcomes
    assert refused is not None
    assert refused.code() == KafkaError.INVALID_REQUIRED_ACKS


def test_a_batch_that_is_too_large_is_split(kafka: Cluster, new_topic: TopicMaker) -> None:
    """KIP-126."""
    topic = new_topic(kafka, max_message_bytes="2000")
    values = [b"%d " % number * 100 for number in range(20)]
    errors: list[KafkaError | None] = []
    with our_producer(kafka, linger_ms=100) as producer:
        for value in values:
            producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error))
        flush(producer)
    assert errors == [None] * len(values)
    theirs = their_consumer(kafka)
    assert [each.value for each in read(theirs, topic, [0], len(values))] == values
    theirs.close()


def test_lag_is_in_the_statistics(kafka: Cluster, new_topic: TopicMaker) -> None:
    """KIP-92 and, in the same document, KIP-436."""
    topic, documents = new_topic(kafka), []
    with our_producer(kafka) as producer:
        for number in range(10):
            producer.produce(topic, str(number))
        flush(producer)

    def lag() -> int:
        found = documents[-1]["topics"].get(topic, {}).get("partitions", {}).get("0", {})
        return int(found.get("consumer_lag", -1))

    config = {"statistics.interval.ms": 50, "enable.auto.commit": False}
    with our_consumer(
        kafka,
        group_id=f"lag-{topic}",
        stats_cb=lambda text: documents.append(json.loads(text)),
        **config,
    ) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        for number in range(4):
            [message] = consumer.consume(1, WAIT_S)
            assert message.offset() == number
        place = TopicPartition(topic, 0, 4)
        consumer.commit(offsets=[place], asynchronous=False)
        consumer.pause([place])
        poll_until(lambda: documents and lag() == 6, consumer)
        first = documents[0]["age"]
        poll_until(lambda: documents[-1]["age"] > first, consumer)
    theirs = their_consumer(kafka, group_id=f"lag-{topic}")
    [committed] = theirs.committed([confluent_kafka.TopicPartition(topic, 0)], WAIT_S)
    _, end = theirs.get_watermark_offsets(committed, WAIT_S)
    theirs.close()
    assert end - committed.offset == 6
