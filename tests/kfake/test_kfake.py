"""Our clients on kfake's brokers. confluent_kafka and the brokers themselves are the witnesses."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import pytest

from kafka_native import Consumer, Producer, TopicPartition
from kafka_native.protocol import ApiKey
from tests.kfake.cluster import Kfake, missing
from tests.waiting import WAIT_S, wait_for

pytestmark = pytest.mark.slow
CHUNK = 50
NAMES = (f"t{number}" for number in itertools.count())


@pytest.fixture
def kfake() -> Iterator[Kfake]:
    if (reason := missing()) is not None:
        pytest.skip(reason)
    with Kfake() as running:
        yield running


@pytest.fixture
def topic(kfake: Kfake) -> str:
    name = next(NAMES)
    kfake.create_topic(name)
    return name


def witness(kfake: Kfake, topic: str, count: int) -> list[bytes]:
    """Return the values that confluent_kafka reads from a topic, in the order of each partition."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": kfake.bootstrap,
            "group.id": "witness",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    found: list[bytes] = []
    try:
        for partition in range(3):
            consumer.assign([confluent_kafka.TopicPartition(topic, partition, 0)])
            found += _until_eof(consumer)
    finally:
        consumer.close()
    assert len(found) == count
    return found


def _until_eof(consumer: Any) -> list[bytes]:
    found: list[bytes] = []
    while True:
        message = consumer.poll(WAIT_S)
        assert message is not None
        if message.error() is None:
            found.append(message.value())
        elif message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF:
            return found


def ours(kfake: Kfake, **more: Any) -> dict[str, Any]:
    names = {name.replace("_", "."): value for name, value in more.items()}
    fast = {"reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 50}
    return {"bootstrap.servers": kfake.bootstrap, **fast, **names}


class Writer:
    """A producer that numbers its messages, and checks that all are delivered."""

    def __init__(self, kfake: Kfake, topic: str) -> None:
        self.producer = Producer(ours(kfake, retry_backoff_ms=10))
        self.topic = topic
        self.values: list[bytes] = []
        self._errors: list[Any] = []

    def write(self, count: int = CHUNK) -> None:
        for _ in range(count):
            value = b"%d" % len(self.values)
            self.values.append(value)
            self.producer.produce(
                self.topic, value, key=value, on_delivery=lambda e, m: self._errors.append(e)
            )
        assert self.producer.flush(WAIT_S) == 0
        assert self._errors == [None] * len(self.values)


def read(consumer: Consumer, count: int) -> list[bytes]:
    """Return the values of the next messages."""
    found: list[bytes] = []
    while len(found) < count:
        message = consumer.poll(WAIT_S)
        assert message is not None, f"{len(found)} of {count}"
        assert message.error() is None, message.error()
        found.append(message.value() or b"")
    return found


def test_both_clients_read_what_the_other_wrote(kfake: Kfake, topic: str) -> None:
    writer = Writer(kfake, topic)
    writer.write(1000)
    writer.producer.close()
    assert sorted(witness(kfake, topic, 1000)) == sorted(writer.values)
    assert sum(kfake.ends(topic)) == 1000
    theirs = confluent_kafka.Producer({"bootstrap.servers": kfake.bootstrap})
    for number in range(100):
        theirs.produce(topic, b"theirs %d" % number)
    assert theirs.flush(WAIT_S) == 0
    with Consumer(ours(kfake)) as consumer:
        consumer.assign([TopicPartition(topic, each, 0) for each in range(3)])
        found = read(consumer, 1100)
    assert sorted(found) == sorted([*writer.values, *(b"theirs %d" % n for n in range(100))])


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_shares_a_topic(kfake: Kfake, topic: str, protocol: str) -> None:
    writer = Writer(kfake, topic)
    writer.write()
    conf = ours(kfake, group_id="g", group_protocol=protocol, auto_offset_reset="earliest")
    with Consumer(conf) as one, Consumer(conf) as two:
        found: list[bytes] = []
        for consumer in (one, two):
            consumer.subscribe([topic])

        def poll_both() -> None:
            for consumer in (one, two):
                message = consumer.poll(0.05)
                if message is not None and message.error() is None:
                    found.append(message.value() or b"")

        def is_shared() -> bool:
            poll_both()
            return bool(one.assignment() and two.assignment())

        wait_for(is_shared, "an assignment of both")

        def is_read() -> bool:
            poll_both()
            return set(found) >= set(writer.values)

        writer.write()
        wait_for(is_read, lambda: f"{len(set(found))} of {len(writer.values)}")
        assert kfake.do("group", group="g")["members"] == 2
    ends = dict(enumerate(kfake.ends(topic)))
    assert kfake.committed("g", topic) == ends
    with Consumer(conf) as again:
        again.subscribe([topic])
        writer.write(1)
        assert read(again, 1) == writer.values[-1:]
    writer.producer.close()


def test_transactions_commit_and_abort(kfake: Kfake, topic: str) -> None:
    conf = ours(kfake, group_id="source", auto_offset_reset="earliest")
    writer = Writer(kfake, topic)
    writer.write()
    writer.producer.close()
    target = next(NAMES)
    kfake.create_topic(target)
    with (
        Producer(ours(kfake, transactional_id="t")) as producer,
        Consumer(conf | {"enable.auto.commit": False}) as consumer,
    ):
        producer.init_transactions(WAIT_S)
        consumer.subscribe([topic])
        values = read(consumer, CHUNK)
        for commits in (False, True):
            producer.begin_transaction()
            for value in values:
                producer.produce(target, value if commits else b"aborted")
            assert producer.flush(WAIT_S) == 0
            producer.send_offsets_to_transaction(
                consumer.position(consumer.assignment()), consumer.consumer_group_metadata()
            )
            if commits:
                producer.commit_transaction(WAIT_S)
            else:
                producer.abort_transaction(WAIT_S)
                assert kfake.committed("source", topic) == {}
    assert sorted(witness(kfake, target, CHUNK)) == sorted(values)
    assert sum(kfake.committed("source", topic).values()) == CHUNK
    for each in range(3):
        found = kfake.do("partition", topic=target, partition=each)
        assert found["stable"] == found["end"]  # no transaction is open


def test_messages_survive_shuffled_leaders(kfake: Kfake, topic: str) -> None:
    writer = Writer(kfake, topic)
    with Consumer(ours(kfake)) as consumer:
        consumer.assign([TopicPartition(topic, each, 0) for each in range(3)])
        found: list[bytes] = []
        for _ in range(10):
            writer.write()
            kfake.do("shuffle")
            found += read(consumer, CHUNK)
        writer.write()
        found += read(consumer, CHUNK)
    writer.producer.close()
    assert sorted(found) == sorted(writer.values)
    _check_order(witness(kfake, topic, len(writer.values)), writer.values)


def _check_order(found: list[bytes], written: list[bytes]) -> None:
    """Check that each message is stored once, and in the order in which it was produced."""
    assert sorted(found) == sorted(written)
    numbers = [int(value) for value in found]
    falls = sum(after < before for before, after in itertools.pairwise(numbers))
    assert falls <= 2, "only the next of three partitions begins with a smaller number"


@pytest.mark.parametrize("key", [ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.OFFSET_COMMIT])
def test_cut_requests_lose_and_repeat_nothing(kfake: Kfake, topic: str, key: ApiKey) -> None:
    kfake.do("cut", key=int(key), every=3)
    writer = Writer(kfake, topic)
    conf = ours(kfake, group_id="g", auto_offset_reset="earliest", retry_backoff_ms=10)
    conf["enable.auto.commit"] = False
    with Consumer(conf) as consumer:
        consumer.subscribe([topic])
        found: list[bytes] = []

        def is_cut() -> bool:
            writer.write()
            found.extend(read(consumer, CHUNK))
            consumer.commit(asynchronous=False)
            return kfake.cuts() >= 5

        _repeat(is_cut)
    writer.producer.close()
    assert sorted(found) == sorted(writer.values)
    _check_order(witness(kfake, topic, len(writer.values)), writer.values)
    assert kfake.committed("g", topic) == dict(enumerate(kfake.ends(topic)))


def _repeat(condition: Callable[[], bool], most: int = 1000) -> None:
    """Repeat a step until it returns true."""
    assert any(condition() for _ in range(most))


def test_coordinators_move(kfake: Kfake, topic: str) -> None:
    writer = Writer(kfake, topic)
    conf = ours(kfake, group_id="g", auto_offset_reset="earliest")
    target = next(NAMES)
    kfake.create_topic(target)
    with (
        Consumer(conf | {"enable.auto.commit": False}) as consumer,
        Producer(ours(kfake, transactional_id="t")) as producer,
    ):
        consumer.subscribe([topic])
        producer.init_transactions(WAIT_S)
        for _ in range(5):
            writer.write()
            values = read(consumer, CHUNK)
            consumer.commit(asynchronous=False)
            producer.begin_transaction()
            for value in values:
                producer.produce(target, value)
            kfake.do("rehash")
            producer.commit_transaction(WAIT_S)
    writer.producer.close()
    assert sorted(witness(kfake, target, len(writer.values))) == sorted(writer.values)
    assert kfake.committed("g", topic) == dict(enumerate(kfake.ends(topic)))
