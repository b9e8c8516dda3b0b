"""Transactions on a real Apache Kafka, in both versions (KIP-890). librdkafka's readers check the
results.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest

import kafka_native
from kafka_native import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from kafka_native.control.producer.transactions import TRANSACTION_VERSION
from kafka_native.eos import Progress, process
from tests.broker.cluster import Cluster, quiet
from tests.broker.support import TopicMaker, admin_of, create, delete, lower, running
from tests.waiting import WAIT_S

pytestmark = [pytest.mark.broker, pytest.mark.slow]


@pytest.fixture(scope="module", params=[2, 1], ids=["v2", "v1"])
def versioned(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Yield one broker with a new epoch after each transaction, and one without."""
    if request.param == 2:
        yield request.getfixturevalue("kafka")
        return
    with running(1) as cluster:
        lower(cluster, TRANSACTION_VERSION, request.param)
        yield cluster


def transactional(cluster: Cluster, name: str, **conf: Any) -> Producer:
    producer = Producer(
        quiet({"bootstrap.servers": cluster.bootstrap, "transactional.id": name, **conf})
    )
    producer.init_transactions(WAIT_S)
    return producer


def epoch_of(cluster: Cluster, name: str) -> int:
    """Return the epoch of a transactional id, from its coordinator."""
    with admin_of(cluster) as admin:
        epoch: int = admin.describe_transactions([name])[name].result(WAIT_S).producer_epoch
        return epoch


def values(
    lib: Any, cluster: Cluster, topic: str, partitions: int, isolation: str = "read_committed"
) -> list[str]:
    """Return the values of a whole topic, from a reader of either library."""
    conf = {
        "bootstrap.servers": cluster.bootstrap,
        "group.id": "readers",
        "isolation.level": isolation,
    }
    consumer = lib.Consumer(quiet({**conf, "enable.partition.eof": True}))
    consumer.assign([lib.TopicPartition(topic, number, 0) for number in range(partitions)])
    found, ends, deadline = [], 0, time.monotonic() + WAIT_S
    while ends < partitions:
        assert time.monotonic() < deadline
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            found.append(message.value().decode())
        ends += message is not None and message.error() is not None
    consumer.close()
    return sorted(found)


def test_commits_are_seen_and_aborts_are_not(
    request: pytest.FixtureRequest, versioned: Cluster, new_topic: TopicMaker
) -> None:
    topic = new_topic(versioned, 2)
    with transactional(versioned, topic) as producer:
        epochs = {epoch_of(versioned, topic)}
        for name, end in (("a", producer.commit_transaction), ("b", producer.abort_transaction)):
            producer.begin_transaction()
            for number in range(4):
                producer.produce(topic, f"{name}{number}", partition=number % 2)
            assert producer.flush(WAIT_S) == 0
            end(WAIT_S)
        with producer.transaction(timeout=WAIT_S):
            producer.produce(topic, "c", partition=0)
        epochs.add(epoch_of(versioned, topic))
        assert (len(epochs) > 1) == (request.node.callspec.params["versioned"] == 2)
        for lib in (confluent_kafka, kafka_native):
            assert values(lib, versioned, topic, 2) == ["a0", "a1", "a2", "a3", "c"]
            assert len(values(lib, versioned, topic, 2, "read_uncommitted")) == 9


def test_offsets_are_committed_by_topic_id(kafka: Cluster) -> None:
    """The topic is created again: a commit with its old id is refused, then one has the new id."""
    topic = f"committed-by-id-{time.time_ns()}"
    lines: list[str] = []
    logger = logging.Logger(topic, logging.DEBUG)
    logger.addHandler(handler := logging.Handler())
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    group = {"bootstrap.servers": kafka.bootstrap, "group.id": topic}
    create(kafka, topic)
    producer = transactional(kafka, topic, debug="eos", logger=logger)
    reader = confluent_kafka.Consumer(quiet(group))
    with Consumer(quiet(group)) as consumer:
        metadata = consumer.consumer_group_metadata()
        for offset in (3, 5):
            with producer.transaction(timeout=WAIT_S):
                if offset == 3:
                    producer.produce(topic, b"")
                    producer.flush(WAIT_S)  # the producer knows the topic's id now
                place = TopicPartition(topic, 0, offset)
                producer.send_offsets_to_transaction([place], metadata, WAIT_S)
            [found] = reader.committed([confluent_kafka.TopicPartition(topic, 0)], WAIT_S)
            assert found.offset == offset
            delete(kafka, topic)
            create(kafka, topic)
    reader.close()
    producer.close()
    delete(kafka, topic)
    refused = f"TxnOffsetCommit {topic} [0]: {KafkaError(KafkaError.UNKNOWN_TOPIC_ID).str()}"
    assert [line for line in lines if refused in line], lines


def test_the_newer_instance_fences_the_older_one(versioned: Cluster, new_topic: TopicMaker) -> None:
    topic = new_topic(versioned, 1)
    with transactional(versioned, topic) as old:
        old.begin_transaction()
        old.produce(topic, "zombie")
        assert old.flush(WAIT_S) == 0
        with transactional(versioned, topic) as new:
            with pytest.raises(KafkaException) as caught:
                old.commit_transaction(WAIT_S)
            assert (caught.value.args[0] == KafkaError._FENCED, caught.value.args[0].fatal()) == (
                True,
                True,
            )
            with new.transaction(timeout=WAIT_S):
                new.produce(topic, "new")
        assert values(confluent_kafka, versioned, topic, 1) == ["new"]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_two_processors_share_a_topic_and_process_each_message_once(
    protocol: str, versioned: Cluster, new_topic: TopicMaker
) -> None:
    source, target, count = new_topic(versioned, 4), new_topic(versioned, 2), 2000
    with Producer(quiet({"bootstrap.servers": versioned.bootstrap})) as filling:
        filling.produce_many(
            source,
            [str(number) for number in range(count)],
            partition=[n % 4 for n in range(count)],
        )
    done = threading.Event()
    counts: list[int] = [0, 0]
    deadline = time.monotonic() + WAIT_S

    def work(number: int) -> None:
        def until(progress: Progress) -> bool:
            counts[number] = progress.messages
            if sum(counts) >= count or time.monotonic() > deadline:
                done.set()
            return done.is_set()

        where = {"bootstrap.servers": versioned.bootstrap}
        conf = {"group.id": source, "group.protocol": protocol, "auto.offset.reset": "earliest"}
        with (
            Consumer(quiet({**where, "enable.auto.commit": False, **conf})) as consumer,
            Producer(
                quiet(
                    {
                        "bootstrap.servers": versioned.bootstrap,
                        "transactional.id": f"{source}-{number}",
                    }
                )
            ) as producer,
        ):
            consumer.subscribe([source])
            process(
                consumer,
                producer,
                lambda one: [{"topic": target, "value": one.value()}],
                until=until,
                messages=50,
            )

    workers = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for worker in workers:
        worker.start()
        time.sleep(1)  # the second one joins while the first one works
    for worker in workers:
        worker.join(WAIT_S + 30)
    expected = sorted(str(number) for number in range(count))
    assert values(confluent_kafka, versioned, target, 2) == expected
    assert values(kafka_native, versioned, target, 2) == expected
    with Consumer(
        quiet({"bootstrap.servers": versioned.bootstrap, "group.id": source})
    ) as consumer:
        stored = consumer.committed([TopicPartition(source, number) for number in range(4)], WAIT_S)
        assert sum(each.offset for each in stored) == count
