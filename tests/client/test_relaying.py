"""A relay sends a consumer's unopened batches: each record once, in order."""

from __future__ import annotations

import gc
import time

import pytest

from kafka_native import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from kafka_native._native.records import batch_headers
from kafka_native.internal import FetchedBatches, Relay, keep_batches, open_relay, take_batches
from kafka_native.mock import CLOSE_CONNECTION, MockCluster
from kafka_native.protocol import ApiKey
from tests.waiting import WAIT_S

from .support import Client, assigned, fill, raises_code


@pytest.fixture
def target(client: Client) -> str:
    """Return the topic that the batches go to."""
    return client.topic()


def keeping(client: Client, topic: str, offset: int = 0, **conf: object) -> Consumer:
    consumer = client.consumer(**conf)
    keep_batches(consumer)
    consumer.assign([TopicPartition(topic, 0, offset)])
    return consumer


def batches_of(consumer: Consumer) -> FetchedBatches:
    """Return the next non-empty batches."""
    deadline = time.monotonic() + WAIT_S
    while not (batches := take_batches(consumer, 1.0)):
        assert time.monotonic() < deadline
    return batches


def relay_all(
    client: Client, producer: Producer, topic: str, target: str, count: int, **conf: object
) -> Relay:
    """Relay so many records, and wait for their delivery."""
    with keeping(client, topic, **conf) as consumer, open_relay(producer, target, 0) as relay:
        while relay.rows < count:
            relay.give(batches_of(consumer), 0, 1 << 60)
            while not relay.run(1 << 40, 0.2):
                producer.poll(0)
    assert producer.flush(WAIT_S) == 0
    return relay


def values(cluster: MockCluster, topic: str) -> list[bytes | None]:
    return [record.value for record in cluster.messages(topic, 0)]


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def test_batches_arrive_and_the_relay_has_their_offsets(
    client: Client, cluster: MockCluster
) -> None:
    topic, target = client.topic(), client.topic()
    fill(client, topic, 3000, **{"compression.type": "gzip"})
    with client.producer() as producer:
        producer.produce(target, "before")
        relay = relay_all(client, producer, topic, target, 3000)
        producer.produce(target, "behind")
    assert values(cluster, target) == [b"before", *numbers(3000), b"behind"]
    assert (relay.rows, relay.delivered, relay.error) == (3000, 3000, None)
    assert relay.runs == [(0, 0, 3000)]
    assert relay.placed == [(0, 1, 3000)]
    assert relay.bytes == sum(map(len, cluster.batches(topic, 0)))
    [relayed] = cluster.batches(target, 0)[1:-1]
    assert [header.codec for header in batch_headers(relayed)] == ["gzip"]


def test_batch_that_the_broker_finds_too_large_is_split(
    client: Client, topic: str, target: str, cluster: MockCluster
) -> None:
    fill(client, topic, 1000, **{"compression.type": "gzip"})
    cluster.push_request_errors(ApiKey.PRODUCE, [KafkaError.MSG_SIZE_TOO_LARGE], topic=target)
    with client.producer() as producer:
        relay = relay_all(client, producer, topic, target, 1000)
    assert values(cluster, target) == numbers(1000)
    assert len(cluster.batches(target, 0)) == 2
    assert relay.placed == [(0, 0, 1000)]


def test_lost_response_loses_no_record(client: Client, cluster: MockCluster) -> None:
    topic, target = client.topic(), client.topic()
    fill(client, topic, 1000)
    cluster.push_request_errors(ApiKey.PRODUCE, [CLOSE_CONNECTION], done=True)
    with client.producer(**{"enable.idempotence": True}) as producer:
        relay = relay_all(client, producer, topic, target, 1000)
    assert values(cluster, target) == numbers(1000)
    assert relay.delivered == 1000


def test_refused_batch_is_the_relays_error(client: Client, cluster: MockCluster) -> None:
    topic, target = client.topic(), client.topic()
    fill(client, topic, 500)
    cluster.push_request_errors(
        ApiKey.PRODUCE, [KafkaError.TOPIC_AUTHORIZATION_FAILED], topic=target
    )
    with client.producer() as producer:
        relay = relay_all(client, producer, topic, target, 500)
    assert relay.error is not None
    assert relay.error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert (relay.delivered, relay.placed) == (0, [])
    assert values(cluster, target) == []


def test_relay_waits_for_room_in_the_queue(client: Client, cluster: MockCluster) -> None:
    topic, target = client.topic(), client.topic()
    for start in range(0, 2000, 100):
        fill(client, topic, 100, start=start)
    with client.producer(**{"queue.buffering.max.messages": 150}) as producer:
        relay = relay_all(client, producer, topic, target, 2000)
    assert values(cluster, target) == numbers(2000)
    assert relay.placed == [(0, 0, 2000)]


def test_record_larger_than_the_whole_queue_is_named(client: Client, cluster: MockCluster) -> None:
    topic, target = client.topic(), client.topic()
    with client.producer() as producer:
        producer.produce(topic, "small")
        producer.produce(topic, bytes(2000))
    with (
        client.producer(**{"queue.buffering.max.kbytes": 1}) as producer,
        keeping(client, topic) as consumer,
    ):
        with open_relay(producer, target, 0) as relay:
            relay.give(batches_of(consumer), 0, 1 << 60)
            text = r"offset 1 is larger than queue\.buffering\.max\.kbytes"
            with pytest.raises(BufferError, match=text):
                relay.run(1 << 40, WAIT_S)
        assert producer.flush(WAIT_S) == 0
    assert values(cluster, target) == [b"small"]


def test_damaged_batch_is_refused_even_without_check_crcs(
    client: Client, topic: str, target: str, cluster: MockCluster
) -> None:
    fill(client, topic, 100)
    damaged = bytearray(cluster.batches(topic, 0)[0])
    damaged[:8] = (100).to_bytes(8, "big")
    damaged[-3] ^= 1
    cluster.append_raw(topic, 0, bytes(damaged), record_count=100)
    with (
        client.producer() as producer,
        keeping(client, topic, 100, **{"check.crcs": False}) as consumer,
    ):
        with open_relay(producer, target, 0) as relay:
            relay.give(batches_of(consumer), 0, 1 << 60)
            with raises_code(KafkaError._BAD_MSG, match="record at offset 100 can't be relayed"):
                relay.run(1 << 40, 1.0)
        producer.flush(WAIT_S)
    assert (relay.rows, relay.delivered) == (0, 0)
    assert values(cluster, target) == []


def test_transaction_of_the_target_gets_only_committed_records(
    client: Client, topic: str, target: str, cluster: MockCluster
) -> None:
    with client.producer(**{"transactional.id": topic}) as producer:
        producer.init_transactions(WAIT_S)
        for end, start in ((producer.abort_transaction, 900), (producer.commit_transaction, 0)):
            producer.begin_transaction()
            for number in range(start, start + 100):
                producer.produce(topic, str(number))
            assert producer.flush(WAIT_S) == 0
            end(WAIT_S)
    with client.producer(**{"transactional.id": target}) as producer:
        producer.init_transactions(WAIT_S)
        with keeping(client, topic) as consumer, open_relay(producer, target, 0) as relay:
            batches = batches_of(consumer)
            relay.give(batches, 0, 1 << 60)
            with pytest.raises(KafkaException, match="Erroneous state"):
                relay.run(1 << 40, 1.0)
        producer.begin_transaction()
        relay = relay_all(client, producer, topic, target, 100)
        producer.commit_transaction(WAIT_S)
    # with gaps of markers and aborted records
    assert relay.runs == [(0, 101, 100)]
    with assigned(client, target) as consumer:
        assert [message.value() for message in consumer.consume(100, WAIT_S)] == numbers(100)


def test_consumer_that_keeps_batches_returns_nothing_else(client: Client, topic: str) -> None:
    fill(client, topic, 10)
    with keeping(client, topic) as consumer:
        for call in (consumer.poll, consumer.consume, consumer.consume_arrow, consumer.__next__):
            with pytest.raises(RuntimeError, match="keeps batches as they are"):
                call()
    with client.consumer() as consumer, pytest.raises(RuntimeError, match="opens batches"):
        take_batches(consumer, 0)


def test_ends_of_partitions_and_errors_are_those_of_columns(
    client: Client, topic: str, cluster: MockCluster
) -> None:
    fill(client, topic, 10)
    with keeping(client, topic, **{"enable.partition.eof": True}) as consumer:
        batches = batches_of(consumer)
        assert batches.positions == {(topic, 0): 10}
        while not batches.ends:
            batches = take_batches(consumer, WAIT_S)
        assert batches.ends == [(topic, 0, 10)]
        assert not batches
        cluster.push_request_errors(
            ApiKey.FETCH, [KafkaError.TOPIC_AUTHORIZATION_FAILED], topic=topic
        )
        with raises_code(KafkaError.TOPIC_AUTHORIZATION_FAILED):
            take_batches(consumer, WAIT_S)
        consumer.wakeup()
        assert take_batches(consumer, WAIT_S).ended


def test_wrong_calls_of_a_relay(client: Client, topic: str, target: str) -> None:
    fill(client, topic, 100)
    wait = {"topic.metadata.propagation.max.ms": 1000}
    with client.producer(**wait) as producer, keeping(client, topic) as consumer:
        with pytest.raises(ValueError, match="partition must be 0 or more"):
            open_relay(producer, target, -1)
        relay = open_relay(producer, target, 0)
        relay.__init__(producer, target, 1)  # type: ignore[misc]
        assert relay.rows == 0, "a second __init__() changes nothing"
        batches = batches_of(consumer)
        relay.give(batches, 0, 1 << 60)
        assert not batches  # they belong to the relay
        with pytest.raises(RuntimeError, match="aren't queued yet"):
            relay.give(batches, 0, 1 << 60)
        relay.close()
        relay.close()
        with pytest.raises(RuntimeError, match="the relay is closed"):
            relay.run(1, 0)
        other = open_relay(producer, target, 7)
        consumer.seek(TopicPartition(topic, 0, 0))
        other.give(batches_of(consumer), 0, 1 << 60)
        assert other.run(1 << 40, 1.0)  # the partition may be newer than the metadata
        other.close()
        producer.flush(10)
        assert other.delivered == 0
        assert other.error is not None
        assert other.error.code() == KafkaError._UNKNOWN_PARTITION
        closed = open_relay(producer, target, 0)
    with pytest.raises(RuntimeError, match="Producer has been closed"):
        closed.run(1, 0)
    with pytest.raises(RuntimeError, match="Producer has been closed"):
        open_relay(producer, target, 0)


def test_dropped_relays_and_batches_are_freed(client: Client) -> None:
    """The test session counts live objects at its end."""
    topic, target = client.topic(), client.topic()
    fill(client, topic, 100)
    producer, consumer = client.producer(), keeping(client, topic)
    relay = open_relay(producer, target, 0)
    relay.give(batches_of(consumer), 0, 1 << 60)
    assert not relay.run(10, 0)
    del relay
    consumer.seek(TopicPartition(topic, 0, 0))
    batches = batches_of(consumer)
    consumer.close()
    producer.flush(WAIT_S)
    left = open_relay(producer, target, 0)
    left.give(batches, 0, 1 << 60)
    assert left.run(1 << 40, 1.0)
    producer.close()
    del left, producer, consumer
    gc.collect()
