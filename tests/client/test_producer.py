"""The Producer's promises, on the mock cluster."""

from __future__ import annotations

import os
import pickle
import time
import weakref
from functools import partial
from types import MappingProxyType

import pytest

from kafka_native import KafkaError, Producer
from kafka_native.mock import MockCluster

from .support import (
    NOWHERE,
    Client,
    Reports,
    deliver,
    errors_into,
    interrupted,
    raises_code,
    read_all,
    stored,
    takes,
    together,
)


class Name(str):
    """A topic name that allows weak references."""


def test_topics_are_distinguished_by_name_and_not_by_object(client: Client):
    topics = [client.topic(partitions=1) for _ in range(3)]
    with client.producer() as producer:
        for number in range(3000):
            topic = topics[number % 3]
            # Each name is a new object, mostly at the address of a freed one.
            producer.produce((str, Name, "".join)[number % 7 % 3](topic), str(number % 3))
    for number, topic in enumerate(topics):
        found = [message.value() for message in read_all(client, topic, 1000)]
        assert found == [str(number).encode()] * 1000


def test_closed_producer_frees_the_names_of_topics(client: Client):
    producer = client.producer()
    name = Name(client.topic(partitions=1))
    kept = weakref.ref(name)
    producer.produce(name, b"value")
    del name
    assert kept() is not None  # so that no other object gets its address
    producer.flush(10)
    producer.close()
    assert kept() is None
    with pytest.raises(RuntimeError, match="closed"):
        producer.produce("topic", b"value")


def test_report_has_the_place_of_the_message(client: Client):
    topic = client.topic(partitions=2)
    reports = []
    before_ms = int(time.time() * 1000)
    with client.producer() as producer:
        producer.produce(
            topic,
            "välue",
            key=b"key",
            partition=1,
            headers=[("a", b"1"), ("a", None), ("b", "ü")],
            on_delivery=lambda error, message: reports.append((error, message)),
        )
        assert len(producer) == 1
    [(error, message)] = reports
    assert error is None
    assert message.error() is None
    assert (message.topic(), message.partition(), message.offset()) == (topic, 1, 0)
    assert (message.key(), message.value()) == (b"key", "välue".encode())
    assert message.headers() == [("a", b"1"), ("a", None), ("b", "ü".encode())]
    kind, timestamp_ms = message.timestamp()
    assert kind == 1
    assert before_ms <= timestamp_ms <= time.time() * 1000 + 1
    assert 0 < message.latency() < 30
    assert len(message) == 6
    again = pickle.loads(pickle.dumps(message))
    assert (again.key(), again.value(), again.headers()) == (
        message.key(),
        message.value(),
        message.headers(),
    )
    assert "offset=0" in repr(message)


def test_headers_may_be_any_mapping(client: Client, topic: str):
    reports = []
    with client.producer(on_delivery=lambda error, message: reports.append(message)) as producer:
        producer.produce(topic, b"x", headers=MappingProxyType({"a": b"1", "b": None}))
    assert [message.headers() for message in reports] == [[("a", b"1"), ("b", None)]]


def test_callback_of_a_message_replaces_the_callback_of_the_client(client: Client, topic: str):
    everywhere, own = [], []
    with client.producer(
        on_delivery=lambda error, message: everywhere.append(message.value())
    ) as producer:
        producer.produce(topic, "a")
        producer.produce(topic, "b", callback=lambda error, message: own.append(message.value()))
    assert (everywhere, own) == ([b"a"], [b"b"])


def test_only_errors_are_reported_when_asked(client: Client, topic: str):
    reports = []
    conf = {
        "delivery.report.only.error": True,
        "on_delivery": lambda *report: reports.append(report),
    }
    with client.producer(**conf) as producer:
        producer.produce(topic, "a")
        deliver(producer, topic, "b", on_delivery=lambda *report: reports.append(report))
    assert reports == []


def test_exception_of_a_callback_is_raised_and_the_other_callbacks_follow(
    client: Client, topic: str
):
    served = []

    def callback(error, message):
        served.append(message.value())
        if message.value() == b"1":
            raise LookupError("mine")

    with client.producer() as producer:
        for number in range(4):
            producer.produce(topic, str(number), partition=0, on_delivery=callback)
        with pytest.raises(LookupError, match="mine"):
            producer.flush(10)
        assert producer.flush(10) == 0
    assert served == [b"0", b"1", b"2", b"3"]


def test_produce_and_poll_inside_a_callback(client: Client, topic: str):
    served = []

    with client.producer() as producer:

        def callback(error, message):
            served.append(message.value())
            if len(served) < 5:
                producer.produce(topic, f"again {len(served)}", on_delivery=callback)
                producer.poll(0)

        producer.produce(topic, "first", on_delivery=callback)
        while producer.flush(10):
            pass
    assert len(served) == 5


@pytest.mark.parametrize("value", [b"x", "x", bytearray(b"x"), memoryview(b"x"), None, b""])
def test_values_of_every_kind(client: Client, topic: str, value):
    with client.producer() as producer:
        producer.produce(topic, value, key=value)
    [message] = read_all(client, topic, 1)
    expected = (
        None if value is None else bytes(value, "ascii") if isinstance(value, str) else bytes(value)
    )
    assert message.value() == expected
    assert message.key() == expected


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"value": 1}, "value must be bytes"),
        ({"key": 1.5}, "key must be bytes"),
        ({"headers": [("a",)]}, "pair"),
        ({"headers": [(1, b"x")]}, "name must be a str"),
        ({"headers": [("a", 1)]}, "header 'a'"),
        ({"headers": "ab"}, "headers must be"),
        ({"on_delivery": 1}, "callable"),
        ({"partition": "1"}, "int"),
    ],
)
def test_wrong_types_are_refused_and_nothing_is_queued(client: Client, arguments, text):
    with client.producer() as producer:
        with pytest.raises(TypeError, match=text):
            producer.produce("t", **arguments)
        with pytest.raises(TypeError, match="topic must be a str"):
            producer.produce(b"t", b"x")
        with pytest.raises(ValueError, match="partition"):
            producer.produce("t", b"x", partition=-2)
        assert len(producer) == 0


def test_full_queue_is_a_buffer_error_until_it_has_room(client: Client, topic: str):
    with client.producer(**{"queue.buffering.max.messages": 10, "linger.ms": 50}) as producer:
        for _ in range(10):
            producer.produce(topic, b"x")
        with pytest.raises(BufferError, match="Queue full"):
            producer.produce(topic, b"x")
        assert len(producer) == 10
        assert producer.flush(10) == 0
        producer.produce(topic, b"last")
    assert len(read_all(client, topic, 11)) == 11


def test_message_over_the_limit_is_refused(client: Client):
    with (
        client.producer(**{"message.max.bytes": 2000}) as producer,
        raises_code(KafkaError.MSG_SIZE_TOO_LARGE, match=r"message\.max\.bytes=2000"),
    ):
        producer.produce("t", b"x" * 3000)


def test_partition_that_does_not_exist(client: Client):
    topic = client.topic(partitions=2)
    reports = []
    conf = {"topic.metadata.propagation.max.ms": 1000}
    with client.producer(on_delivery=lambda *report: reports.append(report), **conf) as producer:
        producer.produce(topic, b"early", partition=7)
        deliver(producer, topic, b"fine", partition=1)
        outcome = {message.value(): error for error, message in reports}
        assert outcome[b"early"] == KafkaError._UNKNOWN_PARTITION
        assert outcome[b"fine"] is None
        deliver(producer, topic, b"late", partition=7)
        error, message = reports[-1]
        assert error.code() == KafkaError._UNKNOWN_PARTITION
        assert (message.value(), message.partition()) == (b"late", 7)
        assert "no such partition" in error.str()


def test_new_partition_gets_the_messages_that_wait_for_it(
    client: Client, topic: str, cluster: MockCluster
):
    with client.producer() as producer:
        deliver(producer, topic, b"old", partition=0)
        reports = Reports(producer, topic, partition=2)
        reports.send(*map(str, range(10)))
        assert producer.flush(0.3) == 10
        cluster.create_partitions(topic, 3)
        reports.deliver("10")
    assert reports.acked() == stored(cluster, topic, 2) == [str(number) for number in range(11)]


def test_closed_producer_raises(client: Client):
    producer = client.producer()
    producer.close()
    producer.close()
    for call in (
        lambda: producer.produce("t", b"x"),
        lambda: producer.poll(0),
        lambda: producer.flush(0),
        producer.list_topics,
    ):
        with pytest.raises(RuntimeError, match=r"(Producer|Handle) has been closed"):
            call()
    assert "closed" in repr(producer)
    assert len(producer) == 0


def test_close_without_waiting_reports_the_purged_messages(caplog):
    reports = []
    producer = Producer(NOWHERE)
    producer.produce(
        "t", b"x", on_delivery=lambda error, message: reports.append((error, message.value()))
    )
    producer.produce("t", b"y")
    assert producer.close(0) is True
    assert reports == [(KafkaError._PURGE_QUEUE, b"x")]
    assert "closed with 2 messages outstanding" in caplog.text
    caplog.clear()
    assert producer.close(0) is True
    assert not caplog.records


def test_close_does_not_warn_when_everything_is_delivered(client: Client, caplog):
    producer = client.producer()
    producer.produce(client.topic(), b"x")
    assert producer.close() is True
    assert "outstanding" not in caplog.text


def test_flush_without_a_broker_returns_the_number_of_messages():
    producer = Producer(NOWHERE)
    producer.produce("t", b"x")
    with takes(less_than_s=20):
        assert producer.flush(0.2) == 1
    producer.close(0)


def test_message_times_out_with_its_own_error():
    reports = []
    with Producer({**NOWHERE, "message.timeout.ms": 300}) as producer:
        producer.produce("t", b"x", on_delivery=errors_into(reports))
        assert producer.flush(20) == 0
    assert reports == [KafkaError._MSG_TIMED_OUT]


def test_signal_ends_a_wait_at_once(client: Client):
    with client.producer() as producer, takes(less_than_s=25), interrupted(after_s=0.1):
        producer.poll(30)


def test_forked_child_gets_an_error_and_the_parent_continues(client: Client, topic: str):
    with client.producer() as producer:
        producer.produce(topic, b"before")
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            outcome = b"no error"
            try:
                producer.produce(topic, b"child")
            except RuntimeError as error:
                outcome = str(error).encode()
            del producer
            os.write(writer, outcome)
            os._exit(0)
        os.close(writer)
        text = os.read(reader, 1000)
        os.close(reader)
        assert os.waitpid(child, 0)[1] == 0
        assert b"closed" in text or b"fork" in text
        producer.produce(topic, b"after")
    assert sorted(message.value() for message in read_all(client, topic, 2)) == [
        b"after",
        b"before",
    ]


def test_many_threads_produce_at_once(client: Client):
    topic = client.topic(partitions=3)
    reports: list[bytes] = []
    with client.producer() as producer:

        def work(number):
            for index in range(2000):
                producer.produce(
                    topic,
                    f"{number}-{index}",
                    on_delivery=lambda error, message: reports.append(message.value()),
                )
                if index % 500 == 0:
                    producer.poll(0)

        assert together(*(partial(work, number) for number in range(4))) == [None] * 4
        assert producer.flush(30) == 0
    expected = {f"{number}-{index}".encode() for number in range(4) for index in range(2000)}
    assert len(reports) == len(expected)
    assert set(reports) == expected
    assert {message.value() for message in read_all(client, topic, len(expected))} == expected


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_acks(client: Client, topic: str, acks):
    reports = []
    with client.producer(acks=acks) as producer:
        for number in range(100):
            producer.produce(
                topic,
                str(number),
                on_delivery=lambda error, message: reports.append((error, message.offset())),
            )
        assert producer.flush(10) == 0
    assert [error for error, _ in reports] == [None] * 100
    if acks != 0:
        assert [offset for _, offset in reports] == list(range(100))
    assert len(read_all(client, topic, 100)) == 100


def test_keys_stay_on_their_partition_and_in_order(client: Client):
    topic = client.topic(partitions=4)
    with client.producer(**{"batch.num.messages": 7, "linger.ms": 0}) as producer:
        for number in range(700):
            producer.produce(topic, str(number), key=f"k{number % 10}")
    places: dict[bytes, set[int]] = {}
    last: dict[bytes, int] = {}
    for message in read_all(client, topic, 700):
        places.setdefault(message.key(), set()).add(message.partition())
        assert int(message.value()) > last.get(message.key(), -1)
        last[message.key()] = int(message.value())
    assert len(places) == 10
    assert all(len(found) == 1 for found in places.values())


def test_unknown_topic_fails_its_own_messages_only(cluster: MockCluster, client: Client):
    good = client.topic()
    bad = "no such topic!"
    reports = {}
    with client.producer(**{"topic.metadata.propagation.max.ms": 500}) as producer:
        for topic in (bad, good):
            producer.produce(
                topic,
                b"x",
                on_delivery=lambda error, message: reports.update({message.topic(): error}),
            )
        assert producer.flush(20) == 0
    assert reports[good] is None
    assert reports[bad] is not None
    assert reports[bad].code() in (KafkaError.TOPIC_EXCEPTION, KafkaError._UNKNOWN_TOPIC)


def test_list_topics(client: Client):
    topic = client.topic(partitions=3)
    with client.producer() as producer:
        cluster = producer.list_topics(timeout=10)
        assert topic in cluster.topics
        assert len(cluster.brokers) == 3
        known = producer._client.main.run(lambda: set(producer._client.main.pool.nodes))
        assert known == set(cluster.brokers)  # a later request may go to the controller
        assert list(producer.list_topics(topic).topics) == [topic], "without a timeout"
        only = producer.list_topics(topic, 10)
        assert list(only.topics) == [topic]
        assert sorted(only.topics[topic].partitions) == [0, 1, 2]


def test_list_topics_without_a_broker_times_out():
    with (
        Producer(NOWHERE) as producer,
        raises_code(KafkaError._TRANSPORT, match="Failed to get metadata"),
    ):
        producer.list_topics(timeout=0.3)
