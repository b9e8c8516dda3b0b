"""Many messages in one call: produce_many() and produce_batch(), on the mock cluster."""

from __future__ import annotations

import array
import sys
import time
from collections import UserList
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from kafka_native import KafkaError, KafkaException, Message, Producer

from .support import NOWHERE, Client, deliver, errors_into, raises_code, read_all

VALUES = [
    b"bytes",
    "strüng",
    bytearray(b"array"),
    memoryview(b"view"),
    None,
    b"",
    b"\x00\xff" * 500,
]
PLAIN = [b"bytes", "strüng".encode(), b"array", b"view", None, b"", b"\x00\xff" * 500]


def by_timestamp(client: Client, topic: str, count: int) -> list[Message]:
    """Return all messages, sorted by timestamp."""
    return sorted(read_all(client, topic, count), key=lambda message: message.timestamp()[1])


def known(client: Client, producer: Producer, topic: str) -> None:
    """Make the producer learn the topic's partitions."""
    deliver(producer, topic, b"first", partition=0)


# --- produce_many ---


def test_messages_arrive_unchanged(client: Client):
    topic = client.topic(partitions=3)
    headers = [
        [("a", b"1"), ("a", None)],
        {"b": "ü"},
        None,
        (),
        [("c", bytearray(b"3"))],
        {},
        [("d", "")],
    ]
    partitions = [0, 1, 2, 0, 1, 2, 0]
    timestamps = [1_000_000_000_000 + number for number in range(7)]
    with client.producer() as producer:
        assert (
            producer.produce_many(topic, VALUES, VALUES[::-1], partitions, headers, timestamps) == 7
        )
    messages = by_timestamp(client, topic, 7)
    assert [message.value() for message in messages] == PLAIN
    assert [message.key() for message in messages] == PLAIN[::-1]
    assert [message.partition() for message in messages] == partitions
    assert [message.timestamp()[1] for message in messages] == timestamps
    expected = [
        [("a", b"1"), ("a", None)],
        [("b", "ü".encode())],
        [],
        [],
        [("c", b"3")],
        [],
        [("d", b"")],
    ]
    assert [message.headers() or [] for message in messages] == expected


def test_one_partition_and_one_timestamp_for_all(client: Client):
    topic = client.topic(partitions=3)
    with client.producer() as producer:
        assert (
            producer.produce_many(topic, ["a", "b"], partition=2, timestamps=1_234_567_890_123) == 2
        )
    messages = read_all(client, topic, 2)
    for message in messages:
        assert (message.partition(), message.timestamp()[1]) == (2, 1_234_567_890_123)
        assert (message.key(), message.headers()) == (None, None)
    assert [message.value() for message in messages] == [b"a", b"b"]


@pytest.mark.parametrize("timestamps", [None, 0, [0] * 1000])
def test_timestamps_default_to_the_time_of_the_call(client: Client, topic: str, timestamps):
    with client.producer() as producer:
        known(client, producer, topic)
        before_ms = int(time.time() * 1000)
        assert producer.produce_many(topic, [b"x"] * 1000, timestamps=timestamps) == 1000
        after_ms = int(time.time() * 1000)
    found = [message.timestamp()[1] for message in read_all(client, topic, 1001)[1:]]
    assert before_ms <= min(found) <= max(found) <= after_ms
    assert found == sorted(found)


def test_keys_choose_the_same_partitions_as_in_produce_and_keep_the_order(client: Client):
    one, many = client.topic(partitions=4), client.topic(partitions=4)
    values = [str(number) for number in range(10_000)]
    keys = [f"k{number % 17}" for number in range(10_000)]
    with client.producer(**{"batch.num.messages": 300}) as producer:
        for value, key in zip(values, keys, strict=True):
            producer.produce(one, value, key)
        assert producer.produce_many(many, values, keys) == 10_000

    for partition in range(4):
        found = [(record.key, record.value) for record in client.cluster.messages(many, partition)]
        assert found == [
            (record.key, record.value) for record in client.cluster.messages(one, partition)
        ]
        assert found == sorted(found, key=lambda pair: int(pair[1] or b""))
        assert found


@pytest.mark.parametrize("make", [list, tuple, UserList])
def test_sequences_of_every_kind(client: Client, make: Callable[[Any], Any]):
    topic = client.topic(partitions=2)
    partitions, timestamps = (
        array.array("i", [0, 1, 1]),
        range(1_000_000_000_001, 1_000_000_000_004),
    )
    with client.producer() as producer:
        assert (
            producer.produce_many(
                topic, make("abc"), make("xyz"), partitions, make([None] * 3), timestamps
            )
            == 3
        )
    messages = by_timestamp(client, topic, 3)
    assert [(message.key(), message.value(), message.partition()) for message in messages] == [
        (b"x", b"a", 0),
        (b"y", b"b", 1),
        (b"z", b"c", 1),
    ]


def test_nothing_to_produce(client: Client):
    with client.producer() as producer:
        assert producer.produce_many("t", []) == 0
        assert producer.produce_many("t", (), (), [], [], []) == 0
        assert producer.produce_batch("t", []) == 0
        assert len(producer) == 0


def test_sequences_may_change_during_the_call(client: Client, topic: str):
    values = [b"a%d" % number for number in range(100)]
    keys = [b"k%d" % number for number in range(100)]

    class Clearing:
        def __index__(self) -> int:
            values.clear()
            keys.clear()
            return 0

    with client.producer() as producer:
        assert producer.produce_many(topic, values, keys, [Clearing()] * 100) == 100  # type: ignore[list-item]
    messages = read_all(client, topic, 100)
    assert [message.value() for message in messages] == [b"a%d" % number for number in range(100)]
    assert [message.key() for message in messages] == [b"k%d" % number for number in range(100)]


@pytest.mark.parametrize(
    ("arguments", "kind", "text"),
    [
        ({"values": "abc"}, TypeError, "values must be a sequence .* not str"),
        ({"values": b"abc"}, TypeError, "values must be a sequence .* not bytes"),
        ({"values": None}, TypeError, "values must be a sequence .* not NoneType"),
        ({"values": {1: b"a"}}, TypeError, "values must be a sequence .* not dict"),
        ({"values": iter([b"a", b"b"])}, TypeError, "values must be a sequence"),
        ({"keys": [b"k"]}, ValueError, "keys has 1 items for 2 values"),
        ({"keys": [b"k"] * 3}, ValueError, "keys has 3 items for 2 values"),
        ({"keys": "kk"}, TypeError, "keys must be a sequence .* not str"),
        ({"headers": [None]}, ValueError, "headers has 1 items"),
        ({"headers": {"a": b"1", "b": b"2"}}, TypeError, "headers must be a sequence .* not dict"),
        ({"partition": [0]}, ValueError, "partition has 1 items"),
        ({"partition": "1"}, TypeError, "partition must be an int or a sequence .* not str"),
        ({"partition": None}, TypeError, "partition must be an int or a sequence .* not NoneType"),
        ({"partition": 1.5}, TypeError, "partition must be an int or a sequence .* not float"),
        ({"partition": -2}, ValueError, "partition must be a number from 0 on"),
        ({"partition": 2**31}, OverflowError, "too large"),
        ({"timestamps": [1, 2, 3]}, ValueError, "timestamps has 3 items"),
        ({"timestamps": 1.5}, TypeError, "timestamps must be an int or a sequence .* not float"),
        ({"on_delivery": 1}, TypeError, "callable"),
        ({"topic": b"t"}, TypeError, "topic must be a str"),
        ({"topic": None}, TypeError, "topic must be a str"),
    ],
)
def test_wrong_arguments_queue_nothing(arguments: dict[str, Any], kind, text: str):
    producer = Producer(NOWHERE)
    with pytest.raises(kind, match=text):
        producer.produce_many(**{"topic": "t", "values": [b"a", b"b"], **arguments})
    assert len(producer) == 0
    assert producer.close(0) is True


@pytest.mark.parametrize(
    ("column", "item", "kind", "text"),
    [
        ("values", 1, TypeError, "value must be bytes, str or None, not int"),
        ("values", "\ud800", ValueError, "surrogates"),
        ("values", memoryview(b"abcd")[::2], TypeError, "value must be contiguous"),
        ("keys", 1.5, TypeError, "key must be bytes"),
        ("headers", [("a",)], TypeError, "pair"),
        ("headers", "ab", TypeError, "headers must be a list"),
        ("headers", [("a", 1)], TypeError, "value of header 'a' must be"),
        ("partition", "1", TypeError, "partition must be an int, not str"),
        ("partition", 1.0, TypeError, "partition must be an int, not float"),
        ("partition", -2, ValueError, "partition must be a number from 0 on"),
        ("partition", 2**31, OverflowError, "too large"),
        ("timestamps", None, TypeError, "timestamp must be an int, not NoneType"),
        ("timestamps", 2**63, OverflowError, "too (large|big)"),
    ],
)
def test_wrong_item_is_named_and_earlier_items_are_queued(
    column: str, item: object, kind, text: str
):
    fine: dict[str, Any] = {
        "values": b"v",
        "keys": b"k",
        "headers": None,
        "partition": 0,
        "timestamps": 1,
    }
    columns = {name: [one] * 5 for name, one in fine.items()}
    columns[column][3] = item
    reports: list[KafkaError] = []

    def on_delivery(error: KafkaError, message: Message) -> None:
        reports.append(error)

    before = sys.getrefcount(on_delivery)
    producer = Producer(NOWHERE)
    with pytest.raises(kind, match=rf"^message 3: .*({text}).* \(3 queued\)$"):
        producer.produce_many("t", **columns, on_delivery=on_delivery)
    assert len(producer) == 3
    producer.close(0)
    assert reports == [KafkaError._PURGE_QUEUE] * 3
    assert sys.getrefcount(on_delivery) == before


def test_message_over_the_limit_ends_the_call(client: Client, topic: str):
    text = r"message\.max\.bytes=2000.*message 2 \(2 queued\)"
    with (
        client.producer(**{"message.max.bytes": 2000}) as producer,
        raises_code(KafkaError.MSG_SIZE_TOO_LARGE, match=text),
    ):
        producer.produce_many(topic, [b"a", b"b", b"x" * 3000, b"d"])
    assert [message.value() for message in read_all(client, topic, 2)] == [b"a", b"b"]


def test_errors_of_messages_and_of_arrow_rows_tell_how_many_are_queued(client: Client, topic: str):
    values = [b"a", b"b", b"x" * 3000, b"d"]
    with client.producer(**{"message.max.bytes": 2000}) as producer:
        for call in (
            lambda: producer.produce_many(topic, values),
            lambda: producer.produce_arrow(topic, pa.array(values)),
        ):
            with pytest.raises(KafkaException) as raised:
                call()
            assert raised.value.queued == 2  # type: ignore[attr-defined]
    assert [message.value() for message in read_all(client, topic, 4)] == [b"a", b"b"] * 2


def test_partition_that_does_not_exist_fails_its_messages_alone(client: Client):
    topic = client.topic(partitions=2)
    outcome: dict[bytes | None, KafkaError | None] = {}
    with client.producer(**{"topic.metadata.propagation.max.ms": 1000}) as producer:
        known(client, producer, topic)
        sent = producer.produce_many(
            topic,
            [b"a", b"b", b"c"],
            partition=[0, 7, 0],
            on_delivery=lambda error, message: outcome.update({message.value(): error}),
        )
        assert sent == 3
    assert outcome == {b"a": None, b"b": KafkaError._UNKNOWN_PARTITION, b"c": None}
    assert [message.value() for message in read_all(client, topic, 3)] == [b"first", b"a", b"c"]


def test_full_queue_takes_some_messages_and_later_the_rest(client: Client, topic: str):
    values = [str(number) for number in range(25)]
    with client.producer(**{"queue.buffering.max.messages": 10, "linger.ms": 50}) as producer:
        assert producer.produce_many(topic, values) == 10
        with pytest.raises(BufferError, match="Queue full"):
            producer.produce_many(topic, values[10:])
        assert len(producer) == 10
        done = 10
        while done < len(values):
            producer.flush(10)
            done += producer.produce_many(topic, values[done:])
    assert [message.value() for message in read_all(client, topic, 25)] == [
        value.encode() for value in values
    ]


def test_each_message_is_reported(client: Client, topic: str):
    everywhere: list[bytes | None] = []
    own: list[tuple[KafkaError | None, bytes | None, int | None]] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        own.append((error, message.value(), message.offset()))

    before = sys.getrefcount(on_delivery)
    with client.producer(
        on_delivery=lambda error, message: everywhere.append(message.value())
    ) as producer:
        producer.produce_many(topic, ["a", "b"])
        producer.produce_many(topic, ["c", "d"], on_delivery=on_delivery)
        assert producer.flush(10) == 0
    assert everywhere == [b"a", b"b"]
    assert own == [(None, b"c", 2), (None, b"d", 3)]
    assert sys.getrefcount(on_delivery) == before


def test_none_as_topic_is_a_type_error():
    producer = Producer(NOWHERE)
    with pytest.raises(TypeError, match="topic must be a str, not NoneType"):
        producer.produce(None, b"x")  # type: ignore[arg-type]
    producer.close(0)


def test_closed_producer_raises(client: Client):
    producer = client.producer()
    producer.close()
    with pytest.raises(RuntimeError, match="Producer has been closed"):
        producer.produce_many("t", [b"x"])
    with pytest.raises(RuntimeError, match="Producer has been closed"):
        producer.produce_batch("t", [{"value": b"x"}])


# --- produce_batch ---


def test_batch_arrives_unchanged(client: Client):
    topic = client.topic(partitions=3)
    messages: list[dict[str, Any]] = [
        {
            "value": value,
            "key": value,
            "headers": [("n", str(number))],
            "partition": number % 3,
            "timestamp": 10 + number,
        }
        for number, value in enumerate(VALUES)
    ]
    messages.append({"timestamp": 20})
    messages.append(
        dict.fromkeys(("value", "key", "headers", "partition", "callback", "on_delivery"), None)
    )
    messages[-1]["timestamp"] = 21
    with client.producer() as producer:
        assert producer.produce_batch(topic, messages, partition=1) == 9
    assert not any("_error" in message for message in messages)
    found = by_timestamp(client, topic, 9)
    assert [message.value() for message in found] == [*PLAIN, None, None]
    assert [message.key() for message in found] == [*PLAIN, None, None]
    assert [message.partition() for message in found] == [0, 1, 2, 0, 1, 2, 0, 1, 1]
    assert [message.timestamp()[1] for message in found] == [10, 11, 12, 13, 14, 15, 16, 20, 21]
    assert [message.headers() for message in found[:7]] == [
        [("n", b"%d" % number)] for number in range(7)
    ]


def test_callback_of_a_message_replaces_the_callback_of_the_call(client: Client, topic: str):
    reports: dict[str, list[bytes | None]] = {}

    def into(name: str) -> Callable[[KafkaError | None, Message], None]:
        return lambda error, message: reports.setdefault(name, []).append(message.value())

    with client.producer(on_delivery=into("client")) as producer:
        own = [
            {"value": "a"},
            {"value": "b", "callback": into("callback")},
            {"value": "c", "on_delivery": into("own")},
            {"value": "d", "on_delivery": into("own"), "callback": into("callback")},
        ]
        assert (
            producer.produce_batch(topic, own, on_delivery=into("never"), callback=into("call"))
            == 4
        )
        assert producer.produce_batch(topic, [{"value": "e"}], callback=into("call")) == 1
        assert producer.produce_batch(topic, [{"value": "f"}]) == 1
    assert reports == {
        "call": [b"a", b"e"],
        "callback": [b"b", b"d"],
        "own": [b"c"],
        "client": [b"f"],
    }


def test_message_that_cannot_be_queued_gets_its_error_and_the_rest_is_sent(client: Client):
    topic = client.topic(partitions=2)
    messages: list[dict[str, Any]] = [
        {"value": b"a"},
        {"value": b"x" * 3000},
        {"value": b"b", "partition": 7},
        {"value": b"c", "partition": -5},
        {"value": b"d", "partition": 1},
    ]
    failed: list[KafkaError | None] = []
    limits = {"message.max.bytes": 2000, "topic.metadata.propagation.max.ms": 1000}
    with client.producer(**limits, on_delivery=errors_into(failed)) as producer:
        known(client, producer, topic)
        assert producer.produce_batch(topic, messages) == 3
    assert [error for error in failed if error is not None] == [KafkaError._UNKNOWN_PARTITION]
    codes = [message["_error"].code() if "_error" in message else None for message in messages]
    unknown = KafkaError._UNKNOWN_PARTITION
    assert codes == [None, KafkaError.MSG_SIZE_TOO_LARGE, None, unknown, None]
    assert all(isinstance(messages[at]["_error"], KafkaError) for at in (1, 3))
    assert "message.max.bytes=2000" in messages[1]["_error"].str()
    assert "has no partition -5" in messages[3]["_error"].str()
    assert {message.value() for message in read_all(client, topic, 3)} == {b"first", b"a", b"d"}


def test_full_queue_marks_the_rest_for_another_call(client: Client, topic: str):
    messages: list[dict[str, Any]] = [
        {"value": str(number), "on_delivery": lambda *report: None} for number in range(15)
    ]
    with client.producer(**{"queue.buffering.max.messages": 10, "linger.ms": 50}) as producer:
        assert producer.produce_batch(topic, messages) == 10
        left = [message for message in messages if "_error" in message]
        assert left == messages[10:]
        assert [message["_error"].code() for message in left] == [KafkaError._QUEUE_FULL] * 5
        assert producer.flush(10) == 0
        assert producer.produce_batch(topic, left) == 5
        assert not any("_error" in message for message in messages)
    assert [message.value() for message in read_all(client, topic, 15)] == [
        b"%d" % number for number in range(15)
    ]


@pytest.mark.parametrize(
    ("message", "kind", "text"),
    [
        ([b"x"], TypeError, "must be a dict, not list"),
        ({"valeu": b"x"}, ValueError, "unknown key 'valeu'"),
        ({"value": 1}, TypeError, "value must be bytes"),
        ({"key": 1}, TypeError, "key must be bytes"),
        ({"key": "\ud800"}, ValueError, "surrogates"),
        ({"headers": "x"}, TypeError, "headers must be"),
        ({"headers": [("a", 1)]}, TypeError, "header 'a'"),
        ({"partition": "1"}, TypeError, "partition must be an int"),
        ({"partition": 2**31}, OverflowError, "too large"),
        ({"timestamp": 1.5}, TypeError, "timestamp must be an int"),
        ({"callback": 1}, TypeError, "callable"),
        ({"on_delivery": 1}, TypeError, "callable"),
    ],
)
def test_wrong_message_is_named_and_nothing_is_queued(message: Any, kind, text: str):
    producer = Producer(NOWHERE)
    with pytest.raises(kind, match=f"^message 2:? .*{text}"):
        producer.produce_batch("t", [{"value": b"a"}, {"value": b"b"}, message, {"value": b"c"}])
    assert len(producer) == 0
    assert producer.close(0) is True


@pytest.mark.parametrize(
    ("arguments", "kind", "text"),
    [
        ({"messages": ({"value": b"x"},)}, TypeError, "messages must be a list, not tuple"),
        ({"messages": None}, TypeError, "messages must be a list"),
        ({"partition": -2}, ValueError, "partition"),
        ({"partition": "1"}, TypeError, "int"),
        ({"callback": 1}, TypeError, "callable"),
        ({"on_delivery": 1}, TypeError, "callable"),
        ({"topic": None}, TypeError, "topic must be a str"),
    ],
)
def test_wrong_arguments_of_a_batch_queue_nothing(arguments: dict[str, Any], kind, text: str):
    producer = Producer(NOWHERE)
    with pytest.raises(kind, match=text):
        producer.produce_batch(**{"topic": "t", "messages": [{"value": b"x"}], **arguments})
    assert len(producer) == 0
    assert producer.close(0) is True
