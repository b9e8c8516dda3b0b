"""Three brokers, acks=all: leaders are killed, restarted and moved, and no acked message is lost."""

from __future__ import annotations

import hashlib
from collections import Counter

import pytest

import kafka_native
from kafka_native import KafkaError
from tests.broker import payload
from tests.broker.cluster import Cluster
from tests.broker.streams import Reader, Stream, all_go_on, check_places, in_sync
from tests.broker.support import (
    CODECS,
    TopicMaker,
    flush,
    leaders,
    our_consumer,
    our_producer,
    read,
    their_consumer,
)
from tests.waiting import wait_for

PARTITIONS = 6
MANY = 30_000
SETTLE_SECONDS = 40


def test_messages_over_three_leaders_keep_content_and_order(
    kafka3: Cluster, new_topic: TopicMaker
) -> None:
    topic = new_topic(kafka3, PARTITIONS)
    assert len(set(wait_for(lambda: leaders(kafka3, topic), "leaders").values())) == 3
    digests = [hashlib.sha256() for _ in range(PARTITIONS)]
    delivered: Counter[int] = Counter()

    def on_delivery(error: KafkaError | None, message: kafka_native.Message) -> None:
        assert error is None, error
        assert message.offset() == delivered[message.partition()]
        delivered[message.partition()] += 1

    for number_of_codec, codec in enumerate(CODECS):
        with our_producer(
            kafka3, compression_codec=codec, acks="all", on_delivery=on_delivery
        ) as producer:
            for number in range(number_of_codec * MANY // 5, (number_of_codec + 1) * MANY // 5):
                value = payload.make(topic, number % PARTITIONS, number, 50)
                producer.produce(topic, value, partition=number % PARTITIONS)
                digests[number % PARTITIONS].update(value)
            flush(producer)
    assert sum(delivered.values()) == MANY
    witness = their_consumer(kafka3)
    with our_consumer(kafka3) as consumer:
        for reader in (consumer, witness):
            found = [hashlib.sha256() for _ in range(PARTITIONS)]
            for record in read(reader, topic, range(PARTITIONS), MANY):
                found[record.partition].update(record.value or b"")
            assert [each.hexdigest() for each in found] == [each.hexdigest() for each in digests]
    witness.close()


def test_one_bootstrap_address_finds_all_leaders(kafka3: Cluster, new_topic: TopicMaker) -> None:
    topic = new_topic(kafka3, PARTITIONS)
    first, last = kafka3.bootstrap.split(",")[0], kafka3.bootstrap.split(",")[-1]
    with kafka_native.Producer({"bootstrap.servers": first}) as producer:
        for number in range(PARTITIONS * 10):
            producer.produce(
                topic,
                payload.make(topic, number % PARTITIONS, number),
                partition=number % PARTITIONS,
            )
    with kafka_native.Consumer({"bootstrap.servers": last}) as consumer:
        found = read(consumer, topic, range(PARTITIONS), PARTITIONS * 10)
    assert {payload.number_of(each.value, topic, each.partition) for each in found} == set(
        range(PARTITIONS * 10)
    )


def test_nothing_acked_is_lost_when_a_leader_is_killed(
    owned3: Cluster, new_topic: TopicMaker
) -> None:
    topic = new_topic(owned3, PARTITIONS)
    victim = owned3.brokers[leaders(owned3, topic)[0]]
    before: Counter[int] = Counter()
    with (
        our_producer(owned3, acks="all") as producer,
        our_consumer(owned3) as consumer,
        Stream(producer, topic, PARTITIONS) as stream,
    ):
        reader = Reader(consumer, topic, PARTITIONS)
        try:
            reader.until(lambda: len(reader.seen) > 500, "the first messages")
            victim.kill()
            at_kill = stream.sent
            # Every partition goes on, also those of the broker that is gone.
            reader.until(
                lambda: all_go_on(reader, at_kill, 20),
                "messages of every partition",
                SETTLE_SECONDS,
            )
            before.update(reader.seen)
        finally:
            victim.start()
            owned3.wait_until_up()
        reader.until(
            lambda: in_sync(owned3, topic),
            "the replicas of the broker that came back",
            SETTLE_SECONDS,
        )
        # And back: its partitions move to it while messages flow.
        wait_for(
            lambda: leaders(owned3, topic).get(0) == victim.node, "the old leader", SETTLE_SECONDS
        )
        at_move = stream.sent
        reader.until(
            lambda: all_go_on(reader, at_move, 20), "messages after the move", SETTLE_SECONDS
        )
        stream.end()
        reader.until(
            lambda: stream.acked.keys() <= reader.seen.keys(), "what was acked", SETTLE_SECONDS
        )
    assert before.keys() <= reader.seen.keys()
    assert stream.failed == {}
    assert stream.refused == []
    assert set(reader.seen) == set(range(stream.sent))
    check_places(owned3, stream)


def test_retries_keep_order_with_one_request_in_flight(
    owned3: Cluster, new_topic: TopicMaker
) -> None:
    topic = new_topic(owned3, PARTITIONS)
    victim = owned3.brokers[leaders(owned3, topic)[1]]
    config = {
        "max_in_flight_requests_per_connection": 1,
        "compression_codec": "lz4",
        "linger_ms": 2,
    }
    with (
        our_producer(owned3, acks="all", **config) as producer,
        Stream(producer, topic, PARTITIONS) as stream,
    ):
        wait_for(lambda: len(stream.acked) > 500, "the first messages")
        try:
            victim.stop()
            at_stop = stream.sent
            wait_for(
                lambda: stream.acked_after(at_stop) > 500,
                "messages while a broker is away",
                SETTLE_SECONDS,
            )
        finally:
            victim.start()
            owned3.wait_until_up()
        wait_for(
            lambda: in_sync(owned3, topic),
            "the replicas of the broker that came back",
            SETTLE_SECONDS,
        )
        at_start = stream.sent
        wait_for(lambda: stream.acked_after(at_start) > 500, "messages after the restart")
        stream.end()
    assert stream.failed == {}
    assert stream.refused == []
    numbers = check_places(owned3, stream)
    for partition in range(PARTITIONS):
        first_seen = list(dict.fromkeys(numbers[partition]))
        assert first_seen == list(range(partition, stream.sent, PARTITIONS))


@pytest.mark.parametrize("policy", ["kill", "stop"])
def test_a_client_started_while_a_broker_is_away(
    owned3: Cluster, new_topic: TopicMaker, policy: str
) -> None:
    topic = new_topic(owned3, PARTITIONS)
    victim = owned3.brokers[1]
    getattr(victim, policy)()
    try:
        with our_producer(owned3, acks="all") as producer:
            for number in range(PARTITIONS * 20):
                producer.produce(
                    topic,
                    payload.make(topic, number % PARTITIONS, number),
                    partition=number % PARTITIONS,
                )
            flush(producer)
        with our_consumer(owned3) as consumer:
            reader = Reader(consumer, topic, PARTITIONS)
            reader.until(
                lambda: len(reader.seen) == PARTITIONS * 20, "all messages", SETTLE_SECONDS
            )
    finally:
        victim.start()
        owned3.wait_until_up()
    wait_for(
        lambda: in_sync(owned3, topic), "the replicas of the broker that came back", SETTLE_SECONDS
    )
