"""Assignment, positions, waiting and errors of a Consumer on the mock cluster."""

from __future__ import annotations

import threading
import time

import pytest

from kafka_native import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from kafka_native.mock import MockCluster
from kafka_native.protocol import ApiKey

from .consumer_support import take, values
from .support import Client, assigned, client_threads, errors_into, fill, filled, read_all


def test_messages_are_read_in_order(client: Client):
    topic = client.topic(partitions=3)
    fill(client, topic, 3000)
    last: dict[int, int] = {}
    for message in read_all(client, topic, 3000):
        assert message.offset() == last.get(message.partition(), -1) + 1
        last[message.partition()] = message.offset()
    assert sum(last.values()) + len(last) == 3000


@pytest.mark.parametrize("queued_min", [1, 300])
def test_fetching_stops_at_the_queue_limit_and_resumes(client: Client, queued_min: int):
    topic = filled(client, 2000, 4, **{"batch.num.messages": 100})
    settings = {"queued.min.messages": queued_min, "max.partition.fetch.bytes": 2000}
    last: dict[int, int] = {}
    for message in read_all(client, topic, 8000, **settings):
        assert message.offset() == last.get(message.partition(), -1) + 1
        last[message.partition()] = message.offset()
    assert last == dict.fromkeys(range(4), 1999)


def test_a_full_partition_is_not_fetched_with_the_others(cluster: MockCluster, client: Client):
    full, other = client.topic(), client.topic()
    fill(client, full, 5000, **{"batch.num.messages": 100})
    settings = {
        "queued.min.messages": 1000,
        "max.partition.fetch.bytes": 1000,
        "fetch.wait.max.ms": 20,
    }
    with client.consumer(**settings) as consumer:
        cluster.clear_requests()
        consumer.assign([TopicPartition(full, 0, 0)])
        first = take(consumer, 1)
        cluster.wait_for_requests(ApiKey.FETCH, 5)
        time.sleep(0.2)
        # of 50, because each response has a batch of 100
        assert len(cluster.requests_of(ApiKey.FETCH)) <= 15
        consumer.assign([TopicPartition(full, 0, 1), TopicPartition(other, 0, 0)])
        time.sleep(0.2)
        fill(client, other, 300)
        rest = take(consumer, 5299)
    topics = [message.topic() for message in first + rest]
    assert topics.count(full) == 5000
    assert topics.count(other) == 300
    # The messages of `other` would be last if `full` had been fetched at once.
    assert topics.index(other) < 4000


@pytest.mark.parametrize(
    ("offset", "reset", "first"),
    [
        (OFFSET_BEGINNING, "latest", 0),
        (OFFSET_INVALID, "earliest", 0),
        (40, "error", 40),
        (OFFSET_END, "earliest", 100),
        (OFFSET_INVALID, "latest", 100),
        (-2000 - 5, "latest", 95),
        (1000, "earliest", 0),
        (1000, "latest", 100),
    ],
)
def test_start_offsets(client: Client, offset, reset, first):
    topic = filled(client, 100)
    with assigned(client, topic, offset=offset, **{"auto.offset.reset": reset}) as consumer:
        if first == 100:
            assert consumer.poll(0.5) is None
            fill(client, topic, 1, partition=0, start=100)
        message = consumer.poll(10)
        assert message.error() is None
        assert message.offset() == first


@pytest.mark.parametrize("offset", [OFFSET_INVALID, 1000])
def test_reset_error_reaches_the_application(client: Client, offset):
    topic = filled(client, 1)
    with assigned(client, topic, offset=offset, **{"auto.offset.reset": "error"}) as consumer:
        message = consumer.poll(10)
        assert message.error() == KafkaError._AUTO_OFFSET_RESET
        assert (message.topic(), message.partition()) == (topic, 0)
        consumer.seek(TopicPartition(topic, 0, 0))
        assert consumer.poll(10).offset() == 0


def test_position_and_seek(client: Client):
    topic = filled(client, 100)
    where = TopicPartition(topic, 0, 0)
    with client.consumer() as consumer:
        consumer.assign([where])
        assert consumer.position([where])[0].offset == OFFSET_INVALID
        assert values(take(consumer, 10)) == list(range(10))
        assert consumer.position([where])[0].offset == 10
        consumer.seek(TopicPartition(topic, 0, 50))
        assert values(take(consumer, 5)) == list(range(50, 55))
        consumer.seek(TopicPartition(topic, 0, OFFSET_BEGINNING))
        assert values(take(consumer, 2)) == [0, 1]
        with pytest.raises(KafkaException, match="isn't assigned"):
            consumer.seek(TopicPartition(topic, 1, 0))


def test_the_leader_epoch_of_the_position_is_known(client: Client):
    topic = filled(client, 10)
    with assigned(client, topic, offset=0) as consumer:
        message = take(consumer, 10)[-1]
        [cursor] = [cursor for cursor in consumer._client.engine.cursors if cursor is not None]
        assert cursor.position == 10
        assert cursor.position_epoch == message.leader_epoch()


def test_pause_and_resume_keep_the_position(client: Client):
    topic = filled(client, 50, 2)
    with client.consumer() as consumer:
        both = [TopicPartition(topic, partition, 0) for partition in range(2)]
        consumer.assign(both)
        first = take(consumer, 20)
        consumer.pause(both[:1])
        rest = consumer.consume(100, 1.0)
        assert {message.partition() for message in rest} <= {1}
        consumer.resume(both[:1])
        found = [*first, *take(consumer, 100 - 20 - len(rest))]
        assert [each.offset() for each in found if each.partition() == 0] == list(range(50))


def test_end_of_partition_is_reported_once_if_configured(client: Client):
    topic = filled(client, 3)
    with assigned(client, topic, offset=0, **{"enable.partition.eof": True}) as consumer:
        found = consumer.consume(4, 10)
        assert [message.error() is None for message in found] == [True, True, True, False]
        assert found[3].error() == KafkaError._PARTITION_EOF
        assert found[3].offset() == 3
        assert consumer.poll(0.7) is None
        fill(client, topic, 1, partition=0)
        assert [message.error() is None for message in consumer.consume(2, 10)] == [True, False]
        consumer.seek(TopicPartition(topic, 0, OFFSET_END))
        assert consumer.poll(10).error() == KafkaError._PARTITION_EOF


def test_watermarks(client: Client):
    topic = filled(client, 7)
    where = TopicPartition(topic, 0)
    with client.consumer() as consumer:
        assert consumer.get_watermark_offsets(where, 10) == (0, 7)
        assert consumer.get_watermark_offsets(where, cached=True) == (OFFSET_INVALID,) * 2
        consumer.assign([TopicPartition(topic, 0, 0)])
        take(consumer, 1)
        assert consumer.get_watermark_offsets(where, cached=True) == (0, 7)
        with pytest.raises(KafkaException) as caught:
            consumer.get_watermark_offsets(TopicPartition(topic, 99), 0.5)
        assert caught.value.args[0] == KafkaError._UNKNOWN_PARTITION


def test_consume_waits_for_the_count_or_the_timeout(client: Client):
    topic = filled(client, 5)
    with client.consumer() as consumer:
        assert consumer.consume(10, 0) == []
        assert consumer.poll(0) is None
        consumer.assign([TopicPartition(topic, 0, 0)])
        started = time.monotonic()
        assert len(consumer.consume(10, 1.0)) == 5
        assert time.monotonic() - started >= 0.9
        for wrong in (-1, 1000001):
            with pytest.raises(ValueError, match="num_messages must be between 0 and 1000000"):
                consumer.consume(wrong, 0)


def test_iteration_yields_messages_and_ends_with_the_consumer(client: Client):
    topic = filled(client, 10)
    found = []
    with assigned(client, topic, offset=0, **{"enable.partition.eof": True}) as consumer:
        for message in consumer:
            found.append(message)
            if len(found) == 10:
                consumer.close()
    assert values(found) == list(range(10))


def test_messages_outlive_their_consumer(client: Client):
    topic = filled(client, 100)
    messages = read_all(client, topic, 100)
    assert values(messages) == list(range(100))


def test_close_ends_a_poll_in_another_thread(client: Client):
    consumer = client.consumer()
    outcome = []
    thread = threading.Thread(target=lambda: outcome.append(consumer.poll(30)))
    thread.start()
    time.sleep(0.2)
    started = time.monotonic()
    consumer.close()
    thread.join(25)
    assert not thread.is_alive()
    assert time.monotonic() - started < 25
    assert outcome == [None]
    with pytest.raises(RuntimeError, match="Consumer closed"):
        consumer.poll(0)
    consumer.close()


def test_reassignment_reads_only_the_new_partitions(client: Client):
    topic = filled(client, 20, 2)
    with assigned(client, topic, offset=0) as consumer:
        take(consumer, 5)
        consumer.assign([TopicPartition(topic, 1, 10)])
        assert consumer.assignment() == [TopicPartition(topic, 1)]
        found = take(consumer, 10)
        assert {(message.partition()) for message in found} == {1}
        assert [message.offset() for message in found] == list(range(10, 20))
        consumer.unassign()
        assert consumer.assignment() == []
        assert consumer.poll(0.3) is None


def test_leader_moves_while_reading(cluster: MockCluster, client: Client):
    topic = filled(client, 500)
    conf = {"topic.metadata.refresh.fast.interval.ms": 20}
    with assigned(client, topic, offset=0, **conf) as consumer:
        found = take(consumer, 100)
        leader = consumer.list_topics(topic, 10).topics[topic].partitions[0].leader
        cluster.move_leader(topic, 0, leader % 3 + 1)
        fill(client, topic, 500, partition=0, start=500)
        found += take(consumer, 900, 20)
    assert values(found) == list(range(1000))


def test_broker_down_and_up_while_reading_and_writing(cluster: MockCluster, client: Client):
    topic = client.topic(partitions=1)
    reports = []
    with client.producer() as producer, assigned(client, topic, offset=0) as consumer:
        for number in range(200):
            producer.produce(topic, str(number), partition=0, on_delivery=errors_into(reports))
            if number == 100:
                producer.flush(10)
                leader = producer.list_topics(topic, 10).topics[topic].partitions[0].leader
                cluster.broker_down(leader)
                time.sleep(0.3)
                cluster.broker_up(leader)
        assert producer.flush(20) == 0
        found = values(take(consumer, 200, 20))
    assert reports == [None] * 200
    assert sorted(set(found)) == list(range(200))


def test_unknown_topic_is_an_error_message_and_others_are_read(client: Client):
    topic = filled(client, 3)
    with client.consumer(**{"topic.metadata.propagation.max.ms": 3_600_000}) as consumer:
        consumer.assign([TopicPartition("missing", 0, 0), TopicPartition(topic, 0, 0)])
        found = consumer.consume(4, 60)
        errors = [message for message in found if message.error()]
        assert [message.error().code() for message in errors] == [KafkaError.UNKNOWN_TOPIC_OR_PART]
        assert errors[0].topic() == "missing"
        assert len(found) == 4


@pytest.mark.parametrize("wrong", [None, "t", [("t", 0)], [TopicPartition("t", -1)]])
def test_wrong_arguments(client: Client, wrong):
    with client.consumer() as consumer, pytest.raises((TypeError, ValueError)):
        consumer.assign(wrong)


def test_consumers_and_producers_leave_no_threads(client: Client):
    topic = filled(client, 10)

    before = client_threads()
    for _ in range(5):
        with assigned(client, topic, offset=0) as consumer:
            take(consumer, 3)
        Consumer({"bootstrap.servers": client.bootstrap})  # not closed
    assert client_threads() <= before


def test_partition_newer_than_the_metadata_is_read(client: Client, cluster: MockCluster):
    topic = filled(client, 2)
    with assigned(client, topic, offset=0) as consumer:
        take(consumer, 2)
        cluster.create_partitions(topic, 3)
        fill(client, topic, 3, partition=2)
        consumer.assign([TopicPartition(topic, 2, 0)])
        assert [message.partition() for message in take(consumer, 3)] == [2, 2, 2]
        assert consumer.get_watermark_offsets(TopicPartition(topic, 2), 10) == (0, 3)
        cluster.create_partitions(topic, 4)
        assert consumer.get_watermark_offsets(TopicPartition(topic, 3), 10) == (0, 0)
        cluster.create_partitions(topic, 5)
        [found] = consumer.offsets_for_times([TopicPartition(topic, 4, 0)], 10)
        assert (found.offset, found.error) == (OFFSET_END, None)


def test_missing_partition_is_reported_once_after_the_propagation_time(client: Client, topic: str):
    with client.consumer(**{"topic.metadata.propagation.max.ms": 1000}) as consumer:
        consumer.assign([TopicPartition(topic, 7, 0)])
        message = consumer.poll(10)
        assert message is not None
        assert message.error() == KafkaError._UNKNOWN_PARTITION
        assert (message.topic(), message.partition()) == (topic, 7)
        assert consumer.poll(2) is None
