"""Interceptors: their calls, and the order. An exception of theirs breaks nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from kafka_native import (
    OFFSET_BEGINNING,
    Consumer,
    ConsumerInterceptor,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    ProducerInterceptor,
    ProducerRecord,
    TopicPartition,
)
from kafka_native.interceptors import notify_commit
from tests.waiting import WAIT_S, poll_until

from .support import Client, assigned, errors_into, fill, raises_code, without_addresses

Calls = list[tuple[Any, ...]]


@pytest.fixture
def calls() -> Calls:
    """Return the calls of a test's interceptors and callbacks, in order."""
    return []


class Sending(ProducerInterceptor):
    """Records its calls, and adds its name to values."""

    def __init__(self, name: str, calls: Calls, *, mark: bool = True) -> None:
        self.name = name
        self.calls = calls
        self.mark = mark

    def on_send(self, record: ProducerRecord) -> ProducerRecord | None:
        self.calls.append((self.name, "send", record.value))
        if self.mark:
            record.value = f"{record.value}{self.name}"
        return None

    def on_acknowledgement(self, error: KafkaError | None, message: Message) -> None:
        self.calls.append(
            (self.name, "ack", error and error.name(), message.value(), message.offset())
        )

    def close(self) -> None:
        self.calls.append((self.name, "close"))


class Broken(ProducerInterceptor, ConsumerInterceptor):
    """Raises in every method."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord | None:
        record.value = "spoilt"
        raise ValueError("on_send is broken")

    def on_acknowledgement(self, error: KafkaError | None, message: Message) -> None:
        raise ValueError("on_acknowledgement is broken")

    def on_consume(self, messages: list[Message]) -> None:
        messages.clear()
        raise ValueError("on_consume is broken")

    def on_commit(self, offsets: list[TopicPartition], error: KafkaError | None) -> None:
        raise ValueError("on_commit is broken")

    def close(self) -> None:
        raise ValueError("close is broken")


class Reading(ConsumerInterceptor):
    """Records its calls."""

    def __init__(self, name: str, calls: Calls) -> None:
        self.name = name
        self.calls = calls

    def on_consume(self, messages: list[Message]) -> None:
        self.calls.append((self.name, [message.value() for message in messages]))

    def on_commit(self, offsets: list[TopicPartition], error: KafkaError | None) -> None:
        self.calls.append(
            (self.name, "commit", [each.offset for each in offsets], error and error.name())
        )

    def close(self) -> None:
        self.calls.append((self.name, "close"))


# --- producer ---


def test_interceptors_are_called_in_order_and_before_the_callbacks(
    client: Client, calls: Calls
) -> None:
    topic = client.topic()
    with client.producer(interceptors=[Sending("a", calls), Sending("b", calls)]) as producer:
        producer.produce(
            topic,
            "v",
            on_delivery=lambda error, message: calls.append(("own", error, message.value())),
        )
        assert calls == [("a", "send", "v"), ("b", "send", "va")]
        producer.flush(WAIT_S)
    assert calls[2:] == [
        ("a", "ack", None, b"vab", 0),
        ("b", "ack", None, b"vab", 0),
        ("own", None, b"vab"),
        ("a", "close"),
        ("b", "close"),
    ]


def test_record_that_is_returned_is_sent(client: Client) -> None:
    topic, other = client.topic(2), client.topic(2)

    class Moved(ProducerInterceptor):
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            return ProducerRecord(other, b"new", b"key", 1, [("h", b"1")], 12345)

    delivered: list[Message] = []
    with client.producer(
        interceptors=[Moved()], on_delivery=lambda error, message: delivered.append(message)
    ) as p:
        p.produce(topic, "v")
    [message] = delivered
    assert (message.topic(), message.partition(), message.value()) == (other, 1, b"new")
    with client.consumer() as consumer:
        consumer.assign([TopicPartition(other, 1, OFFSET_BEGINNING)])
        [read] = consumer.consume(1, WAIT_S)
    assert (read.key(), read.headers(), read.timestamp()[1]) == (b"key", [("h", b"1")], 12345)


def test_messages_without_a_callback_are_acknowledged_too(
    client: Client, topic: str, calls: Calls
) -> None:
    with client.producer(interceptors=[Sending("a", calls, mark=False)]) as producer:
        for number in range(10):
            producer.produce(topic, str(number))
    acks = [each for each in calls if each[1] == "ack"]
    assert [each[3] for each in acks] == [b"%d" % number for number in range(10)]


def test_delivery_report_only_error_concerns_callbacks_and_not_interceptors(
    client: Client, topic: str, calls: Calls
) -> None:
    reported: list[Any] = []
    conf = {
        "delivery.report.only.error": True,
        "on_delivery": lambda error, message: reported.append(error),
    }
    with client.producer(interceptors=[Sending("a", calls)], **conf) as producer:
        producer.produce(topic, "1")
        producer.produce(topic, "2", on_delivery=errors_into(reported))
    assert [each[3] for each in calls if each[1] == "ack"] == [b"1a", b"2a"]
    assert reported == []


def test_interceptor_that_raises_is_logged_and_changes_nothing(
    client: Client, topic: str, caplog: pytest.LogCaptureFixture, calls: Calls
) -> None:
    with client.producer(interceptors=[Broken(), Sending("a", calls), Broken()]) as producer:
        producer.produce(topic, "v")
    assert calls == [("a", "send", "v"), ("a", "ack", None, b"va", 0), ("a", "close")]
    for method in ("on_send", "on_acknowledgement", "close"):
        assert f"interceptor Broken: {method}() raised" in caplog.text
        assert f"{method} is broken" in caplog.text


def test_result_that_is_no_record_is_ignored(
    client: Client, caplog: pytest.LogCaptureFixture, calls: Calls
) -> None:
    class Odd(ProducerInterceptor):
        def on_send(self, record: ProducerRecord) -> Any:
            return "record"

    with client.producer(interceptors=[Odd(), Sending("a", calls)]) as producer:
        producer.produce(client.topic(), "v")
    assert ("a", "ack", None, b"va", 0) in calls
    assert "a ProducerRecord or None is expected, not str" in caplog.text


def test_message_that_is_refused_is_acknowledged_with_the_error(
    client: Client, topic: str, calls: Calls
) -> None:
    with client.producer(
        interceptors=[Sending("a", calls, mark=False)],
        **{"message.max.bytes": 2000, "linger.ms": 60_000},
    ) as producer:
        with pytest.raises(KafkaException):
            producer.produce(topic, b"x" * 3000)
        assert calls[1][:3] == ("a", "ack", "MSG_SIZE_TOO_LARGE")
        producer.purge()


@pytest.mark.parametrize(
    "send",
    [
        lambda producer, topic: producer.produce(topic, 5),
        lambda producer, topic: producer.produce(topic, "v", partition="0"),
        lambda producer, topic: producer.produce(topic, "v", callback=5),
        lambda producer, topic: producer.produce_many(topic, [5]),
        lambda producer, topic: producer.produce_batch(topic, [{"value": 5}]),
    ],
)
def test_wrong_arguments_are_acknowledged_with_the_error(
    client: Client, topic: str, calls: Calls, send: Callable[[Any, str], object]
) -> None:
    """Otherwise an interceptor would wait for ever for what it began in on_send()."""
    with client.producer(interceptors=[Sending("a", calls, mark=False)]) as producer:
        with pytest.raises(TypeError):
            send(producer, topic)
        assert [each[1] for each in calls] == ["send", "ack"]
        assert calls[1][2] == "_INVALID_ARG"


def test_closed_producer_acknowledges_with_an_error(
    client: Client, topic: str, calls: Calls
) -> None:
    producer = client.producer(interceptors=[Sending("a", calls, mark=False)])
    producer.close()
    with pytest.raises(RuntimeError):
        producer.produce(topic, "v")
    assert [each[:3] for each in calls[-2:]] == [("a", "send", "v"), ("a", "ack", "_FAIL")]


def test_full_queue_is_acknowledged_with_the_error(
    client: Client, topic: str, calls: Calls
) -> None:
    conf = {"queue.buffering.max.messages": 1, "linger.ms": 60_000}
    with client.producer(interceptors=[Sending("a", calls, mark=False)], **conf) as producer:
        producer.produce(topic, "1")
        with pytest.raises(BufferError):
            producer.produce(topic, "2")
        assert calls[-1][:4] == ("a", "ack", "_QUEUE_FULL", "2")


def test_messages_that_produce_many_does_not_queue_are_acknowledged(
    client: Client, topic: str, calls: Calls
) -> None:
    conf = {"queue.buffering.max.messages": 2, "linger.ms": 60_000, "message.max.bytes": 2000}
    with client.producer(interceptors=[Sending("a", calls, mark=False)], **conf) as producer:
        with pytest.raises(KafkaException, match="MSG_SIZE_TOO_LARGE") as raised:
            producer.produce_many(topic, ["1", b"x" * 3000, "3"])
        assert raised.value.queued == 1  # type: ignore[attr-defined]
        assert [each[2] for each in calls if each[1] == "ack"] == ["MSG_SIZE_TOO_LARGE"] * 2
        calls.clear()
        assert producer.produce_many(topic, ["4", "5", "6"]) == 1
        assert [each[2:4] for each in calls if each[1] == "ack"] == [
            ("_QUEUE_FULL", "5"),
            ("_QUEUE_FULL", "6"),
        ]
        calls.clear()
        with pytest.raises(BufferError):
            producer.produce_many(topic, ["7", "8"])
        assert len([each for each in calls if each[1] == "ack"]) == 2


def test_produce_many_shows_each_message(client: Client, calls: Calls) -> None:
    topic = client.topic(3)
    delivered: list[Message] = []
    with client.producer(interceptors=[Sending("a", calls)]) as producer:
        queued = producer.produce_many(
            topic,
            ["1", "2", "3"],
            keys=["k1", None, "k3"],
            partition=[0, 1, 2],
            headers=[None, [("h", "1")], None],
            timestamps=777,
            on_delivery=lambda error, message: delivered.append(message),
        )
        assert queued == 3
        assert producer.produce_many(topic, ["4"]) == 1
        assert producer.produce_many(topic, []) == 0
    assert [each[2] for each in calls if each[1] == "send"] == ["1", "2", "3", "4"]
    found = sorted((m.partition(), m.key(), m.value(), m.timestamp()[1]) for m in delivered)
    assert found == [(0, b"k1", b"1a", 777), (1, None, b"2a", 777), (2, b"k3", b"3a", 777)]
    assert len([each for each in calls if each[1] == "ack"]) == 4


@pytest.mark.parametrize(
    "arguments",
    [
        ("text",),
        (5,),
        (["1"], 5),
        (["1", "2"], ["k"]),
        (["1"], "k"),
        (["1"], None, "0"),
        (["1"], None, -1, None, None, 5),
    ],
    ids=repr,
)
def test_produce_many_refuses_the_same_arguments_without_interceptors(
    client: Client, arguments: tuple[Any, ...]
) -> None:
    raised = []
    for conf in ({}, {"interceptors": [ProducerInterceptor()]}):
        with client.producer(**conf) as producer, pytest.raises((TypeError, ValueError)) as caught:
            producer.produce_many(client.topic(), *arguments)
        raised.append((caught.type, str(caught.value)))
    assert raised[0] == raised[1]


def test_topic_stays_in_produce_many(
    client: Client, caplog: pytest.LogCaptureFixture, calls: Calls
) -> None:
    class Moved(ProducerInterceptor):
        def on_send(self, record: ProducerRecord) -> None:
            record.topic = "elsewhere"

    with client.producer(interceptors=[Moved(), Sending("a", calls)]) as producer:
        producer.produce_many(client.topic(), ["v"])
    assert ("a", "ack", None, b"va", 0) in calls
    assert "the topic can't be changed" in caplog.text


def test_produce_batch_shows_each_message_and_keeps_the_dicts(
    client: Client, topic: str, calls: Calls
) -> None:
    own: Calls = []
    batch: list[dict[str, Any]] = [
        {"value": "1", "on_delivery": lambda error, message: own.append((message.value(),))},
        {"value": "x" * 3000},
        {"value": "3", "key": "k", "_error": "an old one"},
    ]
    with client.producer(
        interceptors=[Sending("a", calls)], **{"message.max.bytes": 2000}
    ) as producer:
        assert producer.produce_batch(topic, batch) == 2
        assert calls[3][:3] == ("a", "ack", "MSG_SIZE_TOO_LARGE")
    assert [sorted(each) for each in batch] == [
        ["on_delivery", "value"],
        ["_error", "value"],
        ["key", "value"],
    ]
    assert batch[0]["value"] == "1"
    assert own == [(b"1a",)]
    assert [each[3] for each in calls if each[1] == "ack"][1:] == [b"1a", b"3a"]


def test_subclass_of_the_application_works_with_interceptors(client: Client, calls: Calls) -> None:
    class Mine(Producer):
        def produce(self, topic: str, value: Any = None, *args: Any, **kwargs: Any) -> None:
            super().produce(topic, f"<{value}>", *args, **kwargs)

    producer = Mine({"bootstrap.servers": client.bootstrap, "interceptors": [Sending("a", calls)]})
    assert isinstance(producer, Mine)
    assert type(producer).__name__ == "Mine"
    producer.produce(client.topic(), "v")
    producer.close()
    producer.close()
    assert calls == [("a", "send", "v"), ("a", "ack", None, b"<va>", 0), ("a", "close")]


def test_client_without_interceptors_has_the_compiled_methods(client: Client) -> None:
    for empty in ({}, {"interceptors": []}, {"interceptors": None}):
        with client.producer(**empty) as producer, client.consumer(**empty) as consumer:
            assert type(producer) is Producer
            assert type(consumer) is Consumer
    # The compiled methods, without wrappers.
    assert type(vars(Producer)["produce"]) is type(str.join)
    assert type(vars(Consumer)["poll"]) is type(str.join)


# --- consumer ---


def opened(client: Client, topic: str, *interceptors: ConsumerInterceptor, **conf: Any) -> Consumer:
    return assigned(client, topic, interceptors=list(interceptors), **conf)


def test_every_way_of_reading_shows_each_message_once(
    client: Client, topic: str, calls: Calls
) -> None:
    fill(client, topic, 6)
    with opened(client, topic, Reading("a", calls), Reading("b", calls)) as consumer:
        polled = consumer.poll(WAIT_S)
        assert polled is not None
        assert polled.value() == b"0"
        assert len(consumer.consume(2, WAIT_S)) == 2
        assert next(consumer).value() == b"3"
        seen: list[Any] = []
        assert (
            consumer.consume_callback(
                lambda message: seen.append((message.value(), len(calls))), 2, WAIT_S
            )
            == 2
        )
        assert consumer.poll(0) is None
        assert consumer.consume(5, 0) == []
    expected = [[b"0"], [b"1", b"2"], [b"3"], [b"4"], [b"5"]]
    assert calls == [(name, values) for values in expected for name in "ab"] + [
        ("a", "close"),
        ("b", "close"),
    ]
    assert seen == [(b"4", 8), (b"5", 10)], "the interceptors come first"


def test_errors_and_ends_of_partitions_are_not_shown(
    client: Client, topic: str, calls: Calls
) -> None:
    fill(client, topic, 1)
    with opened(client, topic, Reading("a", calls), **{"enable.partition.eof": True}) as consumer:
        _, end = consumer.consume(2, WAIT_S)
    error = end.error()
    assert error is not None
    assert error.code() == KafkaError._PARTITION_EOF
    assert calls == [("a", [b"0"]), ("a", "close")]


def test_values_may_be_changed_on_the_way(client: Client, topic: str, calls: Calls) -> None:
    class Upper(ConsumerInterceptor):
        def on_consume(self, messages: list[Message]) -> None:
            for message in messages:
                message.set_value(message.value().decode())

    fill(client, topic, 1)
    with opened(client, topic, Upper(), Reading("a", calls)) as consumer:
        [message] = consumer.consume(1, WAIT_S)
    assert message.value() == "0"
    assert calls[0] == ("a", ["0"])


def test_reader_that_raises_is_logged_and_nothing_is_lost(
    client: Client, topic: str, caplog: pytest.LogCaptureFixture, calls: Calls
) -> None:
    fill(client, topic, 3)
    with opened(client, topic, Broken(), Reading("a", calls)) as consumer:
        assert len(consumer.consume(3, WAIT_S)) == 3
    assert calls == [("a", [b"0", b"1", b"2"]), ("a", "close")]
    assert "interceptor Broken: on_consume() raised" in caplog.text
    assert "interceptor Broken: close() raised" in caplog.text


def test_commits_are_reported_in_order(caplog: pytest.LogCaptureFixture, calls: Calls) -> None:
    offsets = [TopicPartition("t", 0, 5)]
    error = KafkaError(KafkaError.UNKNOWN_MEMBER_ID)
    chain = [Reading("a", calls), Broken(), Reading("b", calls)]
    notify_commit(chain, offsets, None)
    notify_commit(chain, offsets, error, logging.getLogger("mine"))
    assert calls == [
        ("a", "commit", [5], None),
        ("b", "commit", [5], None),
        ("a", "commit", [5], "UNKNOWN_MEMBER_ID"),
        ("b", "commit", [5], "UNKNOWN_MEMBER_ID"),
    ]
    assert [record.name for record in caplog.records] == ["kafka_native", "mine"]


def test_commits_of_a_group_are_reported_with_and_without_on_commit(
    client: Client, topic: str, calls: Calls
) -> None:
    fill(client, topic, 3)
    conf = {
        "group.id": f"group-of-{topic}",
        "enable.auto.commit": False,
        "on_commit": lambda error, offsets: calls.append(("own",)),
    }
    with opened(client, topic, Broken(), Reading("a", calls), **conf) as consumer:
        [*_, last] = consumer.consume(3, WAIT_S)
        consumer.commit(last, asynchronous=True)
        poll_until(lambda: ("own",) in calls, consumer)
        consumer.on_commit = None
        consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    assert calls[1:] == [
        ("a", "commit", [3], None),
        ("own",),
        ("a", "commit", [1], None),
        ("a", "close"),
    ]


# --- configuration ---


@pytest.mark.parametrize("role", [Producer, Consumer])
@pytest.mark.parametrize(
    "value", ["text", 5, Broken(), [5], [Broken], [object()]], ids=without_addresses
)
def test_value_that_is_no_list_of_interceptors_is_refused(role: Any, value: Any) -> None:
    with raises_code(KafkaError._INVALID_ARG, match='Configuration property "interceptors"'):
        role({"bootstrap.servers": "localhost:1", "interceptors": value})


def test_interceptor_of_the_other_kind_of_client_is_refused() -> None:
    with pytest.raises(KafkaException, match="Reading is no ProducerInterceptor object"):
        Producer({"bootstrap.servers": "localhost:1", "interceptors": [Reading("a", [])]})
    with pytest.raises(KafkaException, match="Sending is no ConsumerInterceptor object"):
        Consumer({"bootstrap.servers": "localhost:1", "interceptors": [Sending("a", [])]})
