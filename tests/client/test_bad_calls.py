"""Invalid calls: each is refused with a reason, and the client still works."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_native import KafkaError, Message, Producer
from kafka_native.mock import MockCluster

from .support import Client, client_threads, deliver, without_addresses

NAME_MAX = 249
TIMESTAMP_MAX = (1 << 63) - 1


def values_of(cluster: MockCluster, topic: str, partition: int = 0) -> list[bytes | None]:
    return [message.value for message in cluster.messages(topic, partition)]


@pytest.mark.parametrize(
    ("arguments", "kind", "text"),
    [
        ({"topic": 5}, TypeError, "topic must be a str, not int"),
        ({"topic": None}, TypeError, "topic must be a str, not NoneType"),
        ({"topic": b"bytes"}, TypeError, "topic must be a str, not bytes"),
        ({"topic": ""}, ValueError, "1 to 249 characters, this one 0"),
        ({"value": 5}, TypeError, "value must be bytes, str or None, not int"),
        ({"value": ["x"]}, TypeError, "value must be bytes, str or None, not list"),
        ({"value": "\ud800"}, UnicodeEncodeError, "surrogates"),
        ({"key": 1.5}, TypeError, "key must be bytes, str or None, not float"),
        ({"key": memoryview(b"abcd")[::2]}, (BufferError, TypeError, ValueError), "contiguous"),
        ({"partition": "1"}, TypeError, "partition must be an int, not str"),
        ({"partition": 1.5}, TypeError, "partition must be an int, not float"),
        ({"partition": None}, TypeError, "partition must be an int, not NoneType"),
        ({"partition": -2}, ValueError, "partition must be a number from 0 on"),
        ({"partition": 1 << 31}, OverflowError, "int32"),
        ({"timestamp": "now"}, TypeError, "timestamp must be an int, not str"),
        ({"timestamp": 1.5}, TypeError, "timestamp must be an int, not float"),
        ({"timestamp": 1 << 63}, OverflowError, "too large"),
        ({"timestamp": -(1 << 63) - 1}, OverflowError, "too large"),
        ({"headers": 5}, TypeError, "headers must be a list"),
        ({"headers": "ab"}, TypeError, "headers must be a list"),
        ({"headers": [5]}, TypeError, "pair, not 5"),
        ({"headers": ["ab"]}, TypeError, "pair, not 'ab'"),
        ({"headers": [()]}, TypeError, "pair"),
        ({"headers": [("a",)]}, TypeError, "pair"),
        ({"headers": [("a", b"b", b"c")]}, TypeError, "pair"),
        ({"headers": [("ok", b"1"), ("a",)]}, TypeError, "pair"),
        ({"headers": [(None, b"b")]}, TypeError, "header's name must be a str, not NoneType"),
        ({"headers": [("a", 5)]}, TypeError, "header 'a' must be bytes, str or None, not int"),
        ({"headers": {5: b"b"}}, TypeError, "header's name must be a str, not int"),
        ({"headers": [("\ud800", b"b")]}, UnicodeEncodeError, "surrogates"),
        ({"on_delivery": 5}, TypeError, "callable"),
        ({"callback": "f"}, TypeError, "callable"),
        ({"bogus": 5}, TypeError, "bogus"),
    ],
    ids=without_addresses,
)
def test_refused_call_queues_nothing_and_the_next_one_succeeds(
    cluster: MockCluster,
    client: Client,
    arguments: dict[str, Any],
    kind: type[Exception],
    text: str,
) -> None:
    topic = client.topic()
    with client.producer() as producer:
        producer.produce(topic, b"before", partition=0)
        with pytest.raises(kind, match=text):
            producer.produce(**{"topic": topic, "value": b"wrong", **arguments})
        assert len(producer) <= 1
        deliver(producer, topic, b"after", partition=0)
    assert values_of(cluster, topic) == [b"before", b"after"]


@pytest.mark.parametrize(
    "name", ["x" * (NAME_MAX + 1), "no spaces", "zero\0byte", "ünïcode", ".", "a/b"]
)
def test_invalid_topic_name_fails_its_messages_alone(client: Client, topic: str, name: str) -> None:
    reports: dict[bytes, KafkaError | None] = {}

    def note(error: KafkaError | None, message: Message) -> None:
        reports[message.value()] = error

    with client.producer() as producer:
        producer.produce(topic, b"fine", on_delivery=note)
        try:
            producer.produce(name, b"wrong", on_delivery=note)
        except ValueError as error:
            assert "character" in str(error)  # noqa: PT017 - produce() may refuse it, or the broker
            reports[b"wrong"] = KafkaError(KafkaError.TOPIC_EXCEPTION)
        assert producer.flush(10) == 0
    assert reports[b"fine"] is None
    assert reports[b"wrong"] == KafkaError.TOPIC_EXCEPTION


@pytest.mark.parametrize("known", [False, True], ids=["before metadata", "after metadata"])
def test_partitions_that_do_not_exist_fail_alone_each_with_its_number(
    cluster: MockCluster, client: Client, known: bool
) -> None:
    topic = client.topic(partitions=2)
    failed: dict[bytes, tuple[int, KafkaError]] = {}

    def note(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failed[message.value()] = message.partition(), error

    with client.producer(**{"topic.metadata.propagation.max.ms": 1000}) as producer:
        if known:
            deliver(producer, topic, b"first", partition=0)
        for number in range(20):
            partition = (0, 7, 1, 9)[number % 4]
            value = b"%d" % number
            producer.produce(topic, value, partition=partition, on_delivery=note)
        assert producer.flush(10) == 0
        deliver(producer, topic, b"last", partition=0)
    assert {value: partition for value, (partition, _) in failed.items()} == {
        b"%d" % number: (7, 9)[number % 4 // 2] for number in range(1, 20, 2)
    }
    assert {error.code() for _, error in failed.values()} == {KafkaError._UNKNOWN_PARTITION}
    first = [b"first"] if known else []
    numbers = [b"%d" % number for number in range(0, 20, 4)]
    assert values_of(cluster, topic, 0) == [*first, *numbers, b"last"]
    assert values_of(cluster, topic, 1) == [b"%d" % number for number in range(2, 20, 4)]


def test_timestamps_at_the_ends_of_their_range_arrive(cluster: MockCluster, client: Client) -> None:
    topic = client.topic()
    moments = [TIMESTAMP_MAX, 1, TIMESTAMP_MAX, TIMESTAMP_MAX - 1, 2]
    reported = []
    with client.producer() as producer:
        for moment in moments:
            note = lambda _, message: reported.append(message)  # noqa: E731
            producer.produce(topic, b"x", partition=0, timestamp=moment, on_delivery=note)
        assert producer.flush(10) == 0
    assert [message.timestamp()[1] for message in reported] == moments
    assert [message.timestamp for message in cluster.messages(topic, 0)] == moments


@pytest.mark.parametrize("kind", [LookupError, KeyboardInterrupt, SystemExit])
def test_callback_that_raises_each_time_loses_no_report(
    client: Client, topic: str, kind: type[BaseException]
) -> None:
    reported: list[bytes] = []

    def note(error: KafkaError | None, message: Message) -> None:
        reported.append(message.value())
        raise kind("mine")

    raised = 0
    with client.producer() as producer:
        for number in range(5):
            producer.produce(topic, b"%d" % number, partition=0, on_delivery=note)
        while len(reported) < 5:
            with pytest.raises(kind, match="mine"):
                producer.flush(10)
            raised += 1
        assert producer.flush(10) == 0
    assert raised == 5
    assert reported == [b"%d" % number for number in range(5)]


def test_error_of_a_callback_is_raised_by_close_and_the_threads_end(
    client: Client,
) -> None:
    topic = client.topic()
    reported: list[bytes] = []
    before = client_threads()

    def note(error: KafkaError | None, message: Message) -> None:
        reported.append(message.value())
        raise LookupError("mine")

    producer = client.producer()
    producer.produce(topic, b"x", on_delivery=note)
    with pytest.raises(LookupError, match="mine"):
        producer.close()
    producer.close()
    assert reported == [b"x"]
    assert client_threads() == before


@pytest.mark.parametrize("timeout", [0, 5, -1])
def test_callback_that_closes_the_producer(client: Client, topic: str, timeout: float) -> None:
    reported: list[tuple[bytes, KafkaError | None]] = []
    before = client_threads()

    def note(error: KafkaError | None, message: Message) -> None:
        reported.append((message.value(), error))
        producer.close(timeout)

    producer: Producer = client.producer()
    for number in range(5):
        producer.produce(topic, b"%d" % number, partition=0, on_delivery=note)
    try:
        producer.flush(10)
    except RuntimeError as error:
        assert "closed" in str(error)  # noqa: PT017 - flush() may notice it
    assert [value for value, _ in reported] == [b"%d" % number for number in range(5)]
    with pytest.raises(RuntimeError, match="closed"):
        producer.produce(topic, b"late")
    assert client_threads() == before
    delivered = [value for value, error in reported if error is None]
    assert values_of(client.cluster, topic)[: len(delivered)] == delivered


def test_error_of_error_cb_is_raised_by_flush_and_nothing_is_lost(
    cluster: MockCluster, client: Client, topic: str
) -> None:

    def note(error: KafkaError) -> None:
        raise LookupError(error.name())

    conf = {
        "bootstrap.servers": f"127.0.0.1:1,{client.bootstrap}",
        "error_cb": note,
        "reconnect.backoff.ms": 20,
    }
    with Producer(conf) as producer:
        producer.produce(topic, b"x", partition=0)
        for _ in range(20):
            try:
                if producer.flush(10) == 0:
                    break
            except LookupError as error:
                assert error.args[0] in ("_TRANSPORT", "_ALL_BROKERS_DOWN")  # noqa: PT017
    assert values_of(cluster, topic) == [b"x"]
