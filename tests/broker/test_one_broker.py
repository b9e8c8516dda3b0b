"""The whole path on one broker: many messages, limits, missing partitions and topics, and a
restart.
"""

from __future__ import annotations

import hashlib
import time

import pytest

import kafka_native
from kafka_native import KafkaError
from tests.broker import payload
from tests.broker.cluster import Cluster
from tests.broker.streams import DeliveryCounts, Reader, Stream
from tests.broker.support import (
    TopicMaker,
    create,
    delete,
    flush,
    our_consumer,
    our_producer,
    read,
    their_consumer,
    their_producer,
)
from tests.waiting import wait_for

MANY = 100_000
PARTITIONS = 4


def digest_of(values: list[bytes | None]) -> str:
    """Return one digest of the values in order."""
    digest = hashlib.sha256()
    for value in values:
        assert value is not None
        digest.update(len(value).to_bytes(4, "big") + value)
    return digest.hexdigest()


@pytest.mark.parametrize(("codec", "acks"), [("none", "1"), ("lz4", "all")])
def test_many_messages_keep_content_and_order(
    kafka: Cluster, new_topic: TopicMaker, codec: str, acks: str
) -> None:
    topic = new_topic(kafka, PARTITIONS)
    sent: list[list[bytes | None]] = [[] for _ in range(PARTITIONS)]
    delivered = DeliveryCounts()
    with our_producer(kafka, compression_codec=codec, acks=acks, on_delivery=delivered) as producer:
        for number in range(MANY):
            partition = number * 7 % PARTITIONS
            value = payload.make(topic, partition, number, number % 100)
            while True:
                try:
                    producer.produce(topic, value, partition=partition)
                    break
                except BufferError:
                    producer.poll(0.1)
            sent[partition].append(value)
            if number % 1000 == 0:
                producer.poll(0)
        flush(producer)
    assert sum(delivered.values()) == MANY
    witness = their_consumer(kafka)
    with our_consumer(kafka) as consumer:
        for reader in (consumer, witness):
            found: list[list[bytes | None]] = [[] for _ in range(PARTITIONS)]
            for record in read(reader, topic, range(PARTITIONS), MANY):
                assert record.offset == len(found[record.partition])
                found[record.partition].append(record.value)
            assert [digest_of(values) for values in found] == [digest_of(values) for values in sent]
    witness.close()


def test_many_messages_of_librdkafka_are_read(kafka: Cluster, new_topic: TopicMaker) -> None:
    topic = new_topic(kafka, PARTITIONS)
    producer = their_producer(
        kafka, compression_codec="snappy", queue_buffering_max_messages=MANY * 2
    )
    sent: list[list[bytes | None]] = [[] for _ in range(PARTITIONS)]
    for number in range(MANY):
        sent[number % PARTITIONS].append(payload.make(topic, number % PARTITIONS, number))
        producer.produce(topic, sent[number % PARTITIONS][-1], partition=number % PARTITIONS)
    flush(producer)
    # Small fetches: batches come in pieces and one after another.
    with our_consumer(
        kafka, max_partition_fetch_bytes=50_000, fetch_max_bytes=2_000_000
    ) as consumer:
        found = read(consumer, topic, range(PARTITIONS), MANY)
    for partition in range(PARTITIONS):
        mine = [record for record in found if record.partition == partition]
        assert [record.offset for record in mine] == list(range(len(mine)))
        assert digest_of([record.value for record in mine]) == digest_of(sent[partition])


def test_reading_starts_at_the_given_offset_or_time(kafka: Cluster, new_topic: TopicMaker) -> None:
    topic = new_topic(kafka)
    with our_producer(kafka, batch_num_messages=30, compression_codec="gzip") as producer:
        for number in range(1000):
            producer.produce(topic, payload.make(topic, 0, number))
    with our_consumer(kafka, enable_partition_eof=True) as consumer:

        def next_numbers(offset: int, count: int) -> list[int]:
            consumer.seek(kafka_native.TopicPartition(topic, 0, offset))
            messages = [consumer.poll(10) for _ in range(count)]
            assert all(message is not None and message.error() is None for message in messages)
            return [
                payload.number_of(message.value(), topic, 0)
                for message in messages
                if message is not None
            ]

        consumer.assign([kafka_native.TopicPartition(topic, 0, 500)])
        first = consumer.poll(10)
        assert first is not None
        assert first.offset() == payload.number_of(first.value(), topic, 0) == 500
        assert next_numbers(17, 3) == [17, 18, 19]
        assert next_numbers(999, 1) == [999]
        end = consumer.poll(10)
        assert end is not None
        assert end.error() == KafkaError._PARTITION_EOF
        assert end.offset() == 1000
        assert next_numbers(kafka_native.OFFSET_BEGINNING, 2) == [0, 1]
        # Out of range: auto.offset.reset decides, here for the beginning.
        assert next_numbers(5000, 1) == [0]


def test_unknown_partition_and_topic_fail_their_own_messages_only(
    strict: Cluster, new_topic: TopicMaker
) -> None:
    topic = new_topic(strict, 2)
    missing = f"{topic}-missing"
    outcome: dict[bytes, KafkaError | None] = {}

    def on_delivery(error: KafkaError | None, message: kafka_native.Message) -> None:
        outcome[message.value() or b""] = error

    with our_producer(
        strict, topic_metadata_propagation_max_ms=1000, on_delivery=on_delivery
    ) as producer:
        producer.produce(topic, b"partition 7", partition=7)
        producer.produce(missing, b"no topic")
        for number in range(100):
            producer.produce(topic, b"fine %d" % number, partition=number % 2)
        flush(producer)
    errors = {value: error for value, error in outcome.items() if error is not None}
    assert set(errors) == {b"partition 7", b"no topic"}
    assert errors[b"partition 7"] == KafkaError._UNKNOWN_PARTITION
    assert errors[b"no topic"].code() in (
        KafkaError._UNKNOWN_TOPIC,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
    )
    with our_consumer(strict) as consumer:
        assert len(read(consumer, topic, [0, 1], 100)) == 100


def test_message_too_large_for_the_broker_fails_alone(
    kafka: Cluster, new_topic: TopicMaker
) -> None:
    topic = new_topic(kafka, max_message_bytes="2000")
    outcome: dict[bytes, KafkaError | None] = {}
    with our_producer(kafka, linger_ms=0) as producer:
        for value in (b"small", b"x" * 5000, b"after"):
            producer.produce(
                topic, value, on_delivery=lambda error, m: outcome.update({m.value()[:5]: error})
            )
            flush(producer)
    assert outcome[b"xxxxx"] == KafkaError.MSG_SIZE_TOO_LARGE
    assert outcome[b"small"] is outcome[b"after"] is None
    with our_consumer(kafka) as consumer:
        assert [record.value for record in read(consumer, topic, [0], 2)] == [b"small", b"after"]


def test_topic_recreated_while_producing(strict: Cluster, new_topic: TopicMaker) -> None:
    topic = new_topic(strict, 2)
    with (
        our_producer(
            strict, acks="all", topic_metadata_propagation_max_ms=20_000, linger_ms=1
        ) as producer,
        Stream(producer, topic, 2) as stream,
    ):
        wait_for(lambda: len(stream.acked) > 50, "the first messages")
        delete(strict, topic)
        wait_for(
            lambda: topic not in strict.admin().list_topics(timeout=10).topics, "the topic's end"
        )
        create(strict, topic, 2)
        made_at = stream.sent
        wait_for(lambda: stream.acked_after(made_at) > 50, "messages in the new topic", 30)
        recreated_at = stream.sent
        wait_for(lambda: stream.sent > recreated_at + 500, "more messages")
        stream.end()
    assert {
        number: error for number, error in stream.failed.items() if number >= recreated_at
    } == {}
    # Messages that the new topic acked are there, at their reported places, and in order. The old
    # topic's are gone.
    with our_consumer(strict) as consumer:
        ends = [
            consumer.get_watermark_offsets(kafka_native.TopicPartition(topic, number), 10)[1]
            for number in range(2)
        ]
        found = read(consumer, topic, range(2), sum(ends))
    places = {
        payload.number_of(each.value, topic, each.partition): (each.partition, each.offset)
        for each in found
    }
    assert len(places) == len(found), "a message is there twice"
    expected = {number: place for number, place in stream.acked.items() if number >= made_at}
    assert {number: places.get(number) for number in expected} == expected
    numbers = [payload.number_of(each.value, topic, 0) for each in found if each.partition == 0]
    assert numbers == sorted(numbers)


@pytest.mark.slow
def test_broker_restart_while_producing_and_consuming(
    kafka: Cluster, new_topic: TopicMaker
) -> None:
    if not kafka.brokers:
        pytest.skip(f"the broker of {kafka.kind} can't be restarted")
    topic = new_topic(kafka, 2)
    broker = kafka.brokers[1]
    with (
        our_producer(kafka, acks="all") as producer,
        our_consumer(kafka) as consumer,
        Stream(producer, topic, 2) as stream,
    ):
        reader = Reader(consumer, topic, 2)
        reader.until(lambda: len(reader.seen) > 200, "the first messages")
        broker.stop()
        at_stop = stream.sent
        time.sleep(0.5)
        broker.start()
        reader.until(lambda: len(reader.seen) > at_stop + 200, "messages after the restart")
        reader.finish(stream)
    stream.check_all_acked()
    # Without idempotence a retry may duplicate a message, but never loses one.
    assert set(reader.seen) == set(range(stream.sent))
