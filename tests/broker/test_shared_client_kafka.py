"""A Client and its roles on Apache Kafka: groups of each kind, transactions, a broker that dies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kafka_native import Client, Consumer, Producer, TopicPartition
from tests.broker.cluster import Cluster, quiet
from tests.broker.support import TopicMaker
from tests.broker.test_share_kafka import group_at_start
from tests.waiting import WAIT_S, poll_until, wait_for

COUNT = 2000


@pytest.fixture
def shared(kafka: Cluster) -> Iterator[Client]:
    with Client(quiet(kafka.conf())) as client:
        yield client


def produce(producer: Producer, topic: str, count: int) -> None:
    for number in range(count):
        producer.produce(topic, str(number), key=str(number))
    assert producer.flush(WAIT_S) == 0


def read(members: list[Consumer], count: int) -> list[int]:
    """Read that many messages by several members, in any order."""
    found: list[int] = []

    def take() -> bool:
        for member in members:
            for message in member.consume(500, 0.1):
                assert message.error() is None, message.error()
                found.append(int(message.value() or b""))
        return len(found) >= count

    wait_for(take, lambda: f"{count} messages, only {len(found)}")
    return sorted(found)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_of_a_group_are_roles(
    kafka: Cluster, shared: Client, new_topic: TopicMaker, protocol: str
) -> None:
    topic = new_topic(kafka, 4)
    conf = {"group.id": f"roles-{topic}", "group.protocol": protocol}
    members = [shared.consumer({**conf, "auto.offset.reset": "earliest"}) for _ in range(2)]
    for each in members:
        each.subscribe([topic])
    poll_until(lambda: [len(each.assignment()) for each in members] == [2, 2], *members)
    produce(shared.producer(), topic, COUNT)
    assert read(members, COUNT) == list(range(COUNT))


def test_a_transaction_and_its_offsets(
    kafka: Cluster, shared: Client, new_topic: TopicMaker
) -> None:
    source, target = new_topic(kafka, 2), new_topic(kafka, 2)
    produce(shared.producer(), source, 100)
    conf = {"group.id": f"copy-{source}", "auto.offset.reset": "earliest"}
    reader = shared.consumer({**conf, "enable.auto.commit": False})
    reader.subscribe([source])
    writer = shared.producer({"transactional.id": f"copy-{source}"})
    writer.init_transactions()
    values = read([reader], 100)
    writer.begin_transaction()
    for value in values:
        writer.produce(target, str(value))
    writer.send_offsets_to_transaction(
        reader.position(reader.assignment()), reader.consumer_group_metadata()
    )
    writer.commit_transaction()
    committed = reader.committed([TopicPartition(source, number) for number in range(2)])
    assert sum(each.offset for each in committed) == 100
    checker = shared.consumer({"group.id": f"check-{target}", "auto.offset.reset": "earliest"})
    checker.subscribe([target])
    assert read([checker], 100) == list(range(100))


def test_a_share_consumer_is_a_role(
    kafka: Cluster, shared: Client, new_topic: TopicMaker, tool: Callable[..., bytes]
) -> None:
    topic = new_topic(kafka, 1)
    group = group_at_start(kafka, topic, tool)
    produce(shared.producer(), topic, 50)
    consumer = shared.share_consumer({"group.id": group})
    consumer.subscribe([topic])
    found: list[Any] = []

    def take() -> bool:
        found.extend(message.value() for message in consumer.poll(0.5))
        return len(found) >= 50

    wait_for(take, "all records")
    assert len(found) == 50


def test_the_broker_sees_the_admin_calls_of_roles(
    kafka: Cluster, shared: Client, new_topic: TopicMaker
) -> None:
    topic = new_topic(kafka, 3)
    with shared.admin() as admin:
        assert len(admin.list_topics(topic).topics[topic].partitions) == 3
    assert len(shared.producer().list_topics(topic).topics[topic].partitions) == 3


def test_roles_outlive_a_broker(owned3: Cluster, new_topic: TopicMaker) -> None:
    topic = new_topic(owned3, 6)
    with Client(quiet(owned3.conf())) as shared:
        producers = [shared.producer({"acks": "all"}) for _ in range(3)]
        conf = {"group.id": f"outlive-{topic}", "auto.offset.reset": "earliest"}
        members = [shared.consumer(conf) for _ in range(2)]
        for each in members:
            each.subscribe([topic])
        for producer in producers:
            produce(producer, topic, 100)
        assert len(read(members, 300)) == 300
        with owned3.without(next(iter(owned3.brokers.values()))):
            for producer in producers:
                produce(producer, topic, 100)
            assert len(read(members, 300)) >= 300
        for producer in producers:
            produce(producer, topic, 100)
        assert len(read(members, 300)) >= 300
