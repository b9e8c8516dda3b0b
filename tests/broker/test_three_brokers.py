"""Three brokers, acks=all: leaders are killed, restarted and moved, and no acked message is lost."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable

import pytest

import kafka_native
from tests.broker import payload
from tests.broker.cluster import Cluster
from tests.broker.streams import (
    SETTLE_SECONDS,
    DeliveryCounts,
    Reader,
    Stream,
    check_places,
    wait_in_sync,
)
from tests.broker.support import (
    CODECS,
    TopicMaker,
    end_of,
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


def produce_numbers(producer: kafka_native.Producer, topic: str, count: int) -> None:
    for number in range(count):
        partition = number % PARTITIONS
        producer.produce(topic, payload.make(topic, partition, number), partition=partition)


def test_messages_over_three_leaders_keep_content_and_order(
    kafka3: Cluster, new_topic: TopicMaker
) -> None:
    topic = new_topic(kafka3, PARTITIONS)
    assert len(set(wait_for(lambda: leaders(kafka3, topic), "leaders").values())) == 3
    digests = [hashlib.sha256() for _ in range(PARTITIONS)]
    delivered = DeliveryCounts()
    for number_of_codec, codec in enumerate(CODECS):
        with our_producer(
            kafka3, compression_codec=codec, acks="all", on_delivery=delivered
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
        produce_numbers(producer, topic, PARTITIONS * 10)
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
        reader.until(lambda: len(reader.seen) > 500, "the first messages")
        with owned3.without(victim):
            # Every partition goes on, also those of the killed broker.
            reader.until_all_go_on(stream, "messages of every partition")
            before.update(reader.seen)
        reader.until_in_sync(owned3)
        # And back: its partitions move to it while messages flow.
        wait_for(
            lambda: leaders(owned3, topic).get(0) == victim.node, "the old leader", SETTLE_SECONDS
        )
        reader.until_all_go_on(stream, "messages after the move")
        reader.finish(stream)
    assert before.keys() <= reader.seen.keys()
    stream.check_all_acked()
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
        with owned3.without(victim, "stop"):
            stream.wait_acked(500, "messages while a broker is away")
        wait_in_sync(owned3, topic)
        stream.wait_acked(500, "messages after the restart")
        stream.end()
    stream.check_all_acked()
    numbers = check_places(owned3, stream)
    for partition in range(PARTITIONS):
        first_seen = list(dict.fromkeys(numbers[partition]))
        assert first_seen == list(range(partition, stream.sent, PARTITIONS))


@pytest.mark.parametrize("policy", ["kill", "stop"])
def test_a_client_started_while_a_broker_is_away(
    owned3: Cluster, new_topic: TopicMaker, policy: str
) -> None:
    topic = new_topic(owned3, PARTITIONS)
    with owned3.without(owned3.brokers[1], policy):
        with our_producer(owned3, acks="all") as producer:
            produce_numbers(producer, topic, PARTITIONS * 20)
            flush(producer)
        with our_consumer(owned3) as consumer:
            reader = Reader(consumer, topic, PARTITIONS)
            reader.until(
                lambda: len(reader.seen) == PARTITIONS * 20, "all messages", SETTLE_SECONDS
            )
    wait_in_sync(owned3, topic)


def test_rack_aware_producers_use_only_leaders_in_their_rack(
    kafka3: Cluster, new_topic: TopicMaker, tool: Callable[..., bytes]
) -> None:
    topic = new_topic(kafka3, PARTITIONS)
    by_partition = wait_for(lambda: leaders(kafka3, topic), "leaders")
    near = {number for number, leader in by_partition.items() if leader == by_partition[0]}
    assert near < set(by_partition)
    conf = {"client.rack": f"rack-{by_partition[0]}", "partitioner.rack.aware": True}
    delivered = DeliveryCounts()
    with kafka_native.Producer(
        {"bootstrap.servers": kafka3.bootstrap, "sticky.partitioning.linger.ms": 0, **conf},
        on_delivery=delivered,
    ) as producer:
        for number in range(1000):
            producer.produce(topic, payload.make(topic, 0, number))
        flush(producer)
    assert sum(delivered.values()) == 1000
    assert set(delivered) == near
    # Java's producer puts its messages there, too
    properties = [f"{name}={str(value).lower()}" for name, value in conf.items()]
    load = ["--num-records", "3000", "--record-size", "1000", "--throughput", "-1"]
    tool(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--bootstrap-server", kafka3.bootstrap, "--topic", topic, *load),
        *("--command-property", *properties, "batch.size=2000"),
    )
    witness = their_consumer(kafka3)
    ends = {number: end_of(witness, topic, number) for number in by_partition}
    witness.close()
    assert sum(ends.values()) == 4000
    assert {number for number, end in ends.items() if end > delivered[number]} == near
