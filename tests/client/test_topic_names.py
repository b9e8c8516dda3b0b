"""Topic names are any kind of str: enum members have their own hash and str()."""

from __future__ import annotations

import enum

import pytest

from kafka_native import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from kafka_native.mock import MockCluster


class Topics(str, enum.Enum):
    ORDERS = "orders"


@pytest.fixture
def bootstrap():
    with MockCluster() as cluster:
        cluster.create_topic("orders", 1)
        yield cluster.bootstrap_servers


def test_producers_take_members_of_enums(bootstrap: str):
    reports = []
    topics = []
    conf = {"bootstrap.servers": bootstrap}
    with Producer({**conf, "on_delivery": lambda _, message: reports.append(message)}) as producer:
        producer.produce(Topics.ORDERS, b"one")
        producer.produce_many(Topics.ORDERS, [b"two"])
        producer.produce_batch(Topics.ORDERS, [{"value": b"three"}])
        assert producer.flush(10) == 0
        assert list(producer.list_topics(Topics.ORDERS, 10).topics) == ["orders"]
    conf["partitioner_cb"] = lambda topic, key, count: topics.append(topic) or 0
    with Producer(conf) as producer:
        producer.produce(Topics.ORDERS, b"four")
    assert [(type(message.topic()), message.topic()) for message in reports] == [
        (str, "orders")
    ] * 3
    assert [(type(topic), topic) for topic in topics] == [(str, "orders")]


@pytest.mark.parametrize("protocol", ["classic", "consumer", "by hand"])
def test_consumers_take_members_of_enums(bootstrap: str, protocol: str):
    with Producer({"bootstrap.servers": bootstrap}) as producer:
        producer.produce("orders", b"one")
    conf = {"bootstrap.servers": bootstrap, "group.id": "readers", "auto.offset.reset": "earliest"}
    if protocol == "consumer":
        conf["group.protocol"] = protocol
    with Consumer(conf) as consumer:
        if protocol == "by hand":
            consumer.assign([TopicPartition(Topics.ORDERS, 0, 0)])
        else:
            consumer.subscribe([Topics.ORDERS])
        [message] = consumer.consume(1, 20)
        assert message.value() == b"one"
        assert consumer.assignment() == [TopicPartition("orders", 0)]
        assert repr(TopicPartition(Topics.ORDERS, 0)) == repr(TopicPartition("orders", 0))
        assert {TopicPartition("orders", 0): 1}[TopicPartition(Topics.ORDERS, 0)] == 1


HALF_PAIR = "caf\udce9"


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("name", [HALF_PAIR, f"^{HALF_PAIR}"])
def test_a_name_that_is_not_utf8_is_refused_by_the_call_that_gives_it(
    bootstrap: str, protocol: str, name: str
):
    conf = {"bootstrap.servers": bootstrap, "group.id": "readers", "group.protocol": protocol}
    partitions = [TopicPartition(name, 0, 0)]
    with Consumer(conf) as consumer:
        for call in (
            lambda: consumer.subscribe(["orders", name]),
            lambda: consumer.subscribe(["orders"], initial_offsets=partitions),
            lambda: consumer.assign(partitions),
            lambda: consumer.committed(partitions, 5),
            lambda: consumer.commit(offsets=partitions, asynchronous=False),
            lambda: consumer.offsets_for_times(partitions, 5),
            lambda: consumer.get_watermark_offsets(partitions[0], 5),
        ):
            with pytest.raises(KafkaException, match="is not encodable as UTF-8") as raised:
                call()
            assert raised.value.args[0] == KafkaError._INVALID_ARG
