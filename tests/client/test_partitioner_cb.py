"""partitioner_cb: a Python function chooses the partition on the calling thread."""

from __future__ import annotations

import itertools
import threading
import time
import zlib
from functools import partial
from typing import Any

import pytest

from kafka_native import PARTITION_UA, KafkaError, KafkaException, Producer
from kafka_native.mock import MockCluster
from tests.waiting import WAIT_S

from .support import NOWHERE, Client, deliver, interrupted, read_all, takes, together


def by_key(topic: str, key: bytes | None, count: int) -> int:
    return zlib.adler32(key or b"") % count


def test_every_call_passes_key_bytes_and_partition_count(client: Client):
    topic = client.topic(partitions=5)
    seen: list[tuple[str, bytes | None, int]] = []
    threads: set[int] = set()

    def choose(*arguments: Any) -> int:
        seen.append(arguments)
        threads.add(threading.get_ident())
        return by_key(*arguments)

    with client.producer(partitioner_cb=choose, partitioner="murmur2") as producer:
        producer.produce(topic, "1", key="text")
        producer.produce(topic, "2", key=bytearray(b"buffer"))
        producer.produce(topic, "3")
        producer.produce(topic, "named", key="text", partition=4)
        assert producer.produce_many(topic, ["4", "5"], keys=["a", None]) == 2
        assert producer.produce_many(topic, ["named", "6"], keys=["b", "c"], partition=[4, -1]) == 2
        assert producer.produce_many(topic, ["named"], partition=4) == 1
        batch = [
            {"value": "7", "key": "d"},
            {"value": "named", "partition": 4},
            {"value": "8", "partition": -1},
        ]
        assert producer.produce_batch(topic, batch) == 3
        assert producer.flush(10) == 0
    keys = [b"text", b"buffer", None, b"a", None, b"c", b"d", None]
    assert seen == [(topic, key, 5) for key in keys]
    assert threads == {threading.get_ident()}
    messages = read_all(client, topic, 12)
    for message in messages:
        expected = 4 if message.value() == b"named" else by_key(topic, message.key(), 5)
        assert message.partition() == expected
    assert sum(message.value() == b"named" for message in messages) == 4


def test_exception_of_the_partitioner_is_raised_and_nothing_is_queued(client: Client):
    topic = client.topic(partitions=2)

    class Mine(Exception):
        pass

    def choose(topic: str, key: bytes | None, count: int) -> int:
        if key == b"bad":
            raise Mine("no")
        if key == b"value":
            raise ValueError("mine, too")
        return 1

    with client.producer(partitioner_cb=choose) as producer:
        with pytest.raises(Mine, match=r"^no$"):
            producer.produce(topic, "x", key="bad")
        with pytest.raises(Mine):
            producer.produce_many(topic, ["a", "b"], keys=["good", "bad"])
        with pytest.raises(Mine):
            producer.produce_batch(topic, [{"key": "good"}, {"key": "bad"}])
        with pytest.raises(ValueError, match=r"^mine, too$"):
            producer.produce_many(topic, ["a", "b"], keys=["good", "value"])
        assert len(producer) == 0
        producer.produce(topic, "y", key="good")
    assert [m.value() for m in read_all(client, topic, 1)] == [b"y"]


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (None, TypeError),
        ("1", TypeError),
        (1.0, TypeError),
        (-2, ValueError),
        (3, ValueError),
        (1 << 70, ValueError),
    ],
)
def test_result_that_is_no_partition_is_refused(
    client: Client, answer: object, kind: type[Exception]
):
    topic = client.topic(partitions=3)
    with client.producer(partitioner_cb=lambda *arguments: answer) as producer:
        for call in (
            lambda: producer.produce(topic, "x"),
            lambda: producer.produce_many(topic, ["x"]),
            lambda: producer.produce_batch(topic, [{"value": "x"}]),
        ):
            with pytest.raises(kind) as caught:
                call()
            text = str(caught.value)
            assert topic in text
            assert repr(answer) in text
            assert "0 to 2" in text
        with pytest.raises(
            kind, match=r"^message 0 \(nothing is queued\): partitioner_cb returned"
        ):
            producer.produce_many(topic, ["x"])
        assert len(producer) == 0


def test_key_of_a_wrong_type_is_named_before_anything_is_queued(client: Client, topic: str):
    with client.producer(partitioner_cb=lambda *arguments: 0) as producer:
        with pytest.raises(TypeError, match="key must be bytes"):
            producer.produce(topic, "x", key=5)
        with pytest.raises(TypeError, match=r"message 1 \(nothing is queued\): key must be bytes"):
            producer.produce_many(topic, ["x", "y"], keys=["a", 5])
        assert len(producer) == 0


def test_object_with_an_index_is_an_int(client: Client):
    class Index:
        def __index__(self) -> int:
            return 2

    topic = client.topic(partitions=3)
    with client.producer(partitioner_cb=lambda *arguments: Index()) as producer:
        producer.produce(topic, "x")
    assert [m.partition() for m in read_all(client, topic, 1)] == [2]


def test_partitioner_may_produce(client: Client):
    topic, other = client.topic(partitions=2), client.topic(partitions=2)

    def choose(name: str, key: bytes | None, count: int) -> int:
        if name == topic:
            producer.produce(other, key)
        return 1

    producer = client.producer(partitioner_cb=choose)
    for number in range(10):
        producer.produce(topic, "x", key=str(number))
    producer.close()
    assert [m.partition() for m in read_all(client, topic, 10)] == [1] * 10
    assert [m.value() for m in read_all(client, other, 10)] == [
        str(number).encode() for number in range(10)
    ]


def test_first_message_waits_for_the_partitions_and_the_topic_is_created(
    cluster: MockCluster, client: Client
):
    counts: list[int] = []

    def choose(topic: str, key: bytes | None, count: int) -> int:
        counts.append(count)
        return count - 1

    with client.producer(partitioner_cb=choose) as producer:
        producer.produce("made-on-demand", "x")
        deliver(producer, "made-on-demand", "y")
    assert len(counts) == 2
    assert counts[0] == counts[1] > 0


def test_new_partitions_are_counted_once_they_are_known(cluster: MockCluster, client: Client):
    topic = client.topic(partitions=2)
    counts: list[int] = []
    conf = {"topic.metadata.refresh.interval.ms": 100}
    with client.producer(
        partitioner_cb=lambda t, k, count: counts.append(count) or count - 1, **conf
    ) as producer:
        producer.produce(topic, "x")
        cluster.create_partitions(topic, 6)
        until = time.monotonic() + 10
        while counts[-1] != 6 and time.monotonic() < until:
            time.sleep(0.05)
            producer.produce(topic, "x")
        assert producer.flush(10) == 0
    assert counts[0] == 2
    assert counts[-1] == 6
    assert len(cluster.messages(topic, 5)) == 1


def test_produce_waits_max_block_ms_for_unknown_partitions():
    with Producer(
        {**NOWHERE, "partitioner_cb": lambda *arguments: 0, "max.block.ms": 300}
    ) as producer:
        for call in (
            lambda: producer.produce("t", "x"),
            lambda: producer.produce_many("t", ["x"]),
            lambda: producer.produce_batch("t", [{"value": "x"}]),
        ):
            with takes(less_than_s=20, at_least_s=0.29), pytest.raises(KafkaException) as caught:
                call()
            assert caught.value.args[0].code() == KafkaError._TIMED_OUT
            assert "topic t" in caught.value.args[0].str()
        producer.produce("t", "x", partition=0)  # queued: there is nothing to choose
        assert len(producer) == 1
        producer.purge()


def test_error_of_an_unknown_topic_is_raised(client: Client):
    conf = {
        "allow.auto.create.topics": False,
        "topic.metadata.propagation.max.ms": 300,
        "max.block.ms": 20_000,
    }
    with client.producer(partitioner_cb=lambda *arguments: 0, **conf) as producer:
        with takes(less_than_s=10), pytest.raises(KafkaException) as caught:
            producer.produce("no/such/topic", "x")
        assert caught.value.args[0].code() in (
            KafkaError.TOPIC_EXCEPTION,
            KafkaError._UNKNOWN_TOPIC,
        )
        assert len(producer) == 0
        topic = client.topic()
        deliver(producer, topic, "x")


def test_close_from_another_thread_and_signals_end_the_wait():
    producer = Producer({**NOWHERE, "partitioner_cb": lambda *arguments: 0, "max.block.ms": 60_000})
    started = time.monotonic()
    with interrupted(after_s=0.1):
        producer.produce("t", "x")
    assert time.monotonic() - started < 30
    closer = threading.Timer(0.2, producer.close, (0,))
    closer.start()
    with pytest.raises(RuntimeError, match="closed"):
        producer.produce("t", "x")
    assert time.monotonic() - started < 10
    closer.join()
    with pytest.raises(RuntimeError, match="closed"):
        producer.produce("t", "x")


@pytest.mark.parametrize("wrong", ["murmur2", 5])
def test_partitioner_must_be_callable(client: Client, wrong: object):
    with pytest.raises((KafkaException, TypeError), match="partitioner_cb"):
        client.producer(partitioner_cb=wrong)


def test_threads_choose_at_once(client: Client):
    topic = client.topic(partitions=8)
    with client.producer(partitioner_cb=by_key) as producer:

        def work(thread: int) -> None:
            for number in range(200):
                producer.produce(topic, str(number), key=str(thread))

        assert together(*(partial(work, thread) for thread in range(8))) == [None] * 8
    seen: dict[bytes, list[int]] = {}
    for message in read_all(client, topic, 1600):
        assert message.partition() == by_key(topic, message.key(), 8)
        seen.setdefault(message.key(), []).append(int(message.value()))
    assert seen == {str(thread).encode(): list(range(200)) for thread in range(8)}


def test_unassigned_leaves_the_choice_to_the_client(client: Client):
    topic = client.topic(partitions=8)

    def choose(topic: str, key: bytes | None, count: int) -> int:
        return 7 if key == b"mine" else PARTITION_UA

    conf = {"partitioner": "murmur2", "sticky.partitioning.linger.ms": 600_000}
    with client.producer(partitioner_cb=choose, **conf) as producer:
        producer.produce(topic, "1", key="mine")
        for number in range(20):
            producer.produce(topic, "any", key=str(number))
        assert producer.produce_many(topic, ["any"] * 20, keys=[str(n) for n in range(20)]) == 20
        rows = [{"value": "any", "key": str(number)} for number in range(20)]
        assert producer.produce_batch(topic, [*rows, {"value": "2", "key": "mine"}]) == 21
        assert producer.flush(WAIT_S) == 0
    messages = read_all(client, topic, 62)
    assert {each.partition() for each in messages if each.key() == b"mine"} == {7}
    # keyless messages stay at one partition for this long; by key, they would need several
    assert len({each.partition() for each in messages if each.value() == b"any"}) == 1


def test_round_robin_by_name_takes_the_partitions_in_turn(client: Client):
    topic = client.topic(partitions=4)
    with client.producer(partitioner="round_robin") as producer:
        for number in range(100):
            producer.produce(topic, str(number), key="always the same")
        assert producer.produce_many(topic, [str(n) for n in range(100, 200)]) == 100
        assert producer.flush(WAIT_S) == 0
    messages = read_all(client, topic, 200)
    first = next(each.partition() for each in messages if each.value() == b"0")
    assert all((first + int(each.value())) % 4 == each.partition() for each in messages)


def test_round_robin_ignores_the_key(client: Client):
    topic = client.topic(partitions=4)
    numbers = itertools.count()
    with client.producer(
        partitioner_cb=lambda topic, key, count: next(numbers) % count
    ) as producer:
        for number in range(100):
            producer.produce(topic, str(number), key="always the same")
    messages = read_all(client, topic, 100)
    assert all(int(message.value()) % 4 == message.partition() for message in messages)
