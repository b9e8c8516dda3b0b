"""The same calls on confluent_kafka and kafka_native, with separate topics of one mock cluster.

`tests/broker/test_compat_kafka.py` makes them on Apache Kafka.
"""

from __future__ import annotations

import time
from typing import Any

import confluent_kafka
import pytest

import kafka_native
from tests.compat.sides import (
    BASE_MS,
    BOTH,
    METADATA,
    Side,
    Stage,
    assert_same,
    next_message,
    on_both,
)
from tests.waiting import WAIT_S, poll_until

# --- producing ---


def reports_of(side: Side, *, callback_name: str = "on_delivery", **conf: Any) -> list[Any]:
    got: list[Any] = []
    producer = side.producer(**conf)
    for number in range(3):
        report = {callback_name: lambda error, message: got.append([error, message])}
        producer.produce(
            side.topic, f"v{number}", key=b"k", partition=1, timestamp=BASE_MS, **report
        )
    before = len(producer) > 0
    assert producer.flush(WAIT_S) == 0
    extras = [
        (type(message.latency()).__name__, message.delivery_count(), len(message))
        for _, message in got
    ]
    return [before, len(producer), bool(producer), got, extras]


@pytest.mark.parametrize("name", ["on_delivery", "callback"])
@on_both
def test_delivery_reports(side: Side, name: str) -> Any:
    return reports_of(side, callback_name=name)


def test_a_report_has_the_headers_here(cluster: Stage) -> None:
    for lib, expected in ((confluent_kafka, None), (kafka_native, [("h", b"x")])):
        got: list[Any] = []
        side = Side(lib, cluster)
        producer = side.producer()
        producer.produce(
            side.topic,
            "x",
            headers={"h": "x"},
            on_delivery=lambda *report, got=got: got.append(report),
        )
        assert producer.flush(WAIT_S) == 0
        assert [(error, message.headers()) for error, message in got] == [(None, expected)]


@on_both
def test_on_delivery_in_the_configuration_gets_every_report(side: Side) -> Any:
    got: list[Any] = []
    producer = side.producer(on_delivery=lambda error, message: got.append([error, message]))
    producer.produce(side.topic, None, partition=0)
    producer.produce(topic=side.topic, value="text", key="\u00e4", partition=0)
    producer.produce(side.topic, b"bytes", partition=0)
    refusal = side.tried(lambda: producer.produce(side.topic, bytearray(b"more"), partition=0))
    assert producer.flush(WAIT_S) == 0
    reports = [
        [error, message.value(), message.key(), message.headers(), message.offset()]
        for error, message in got
    ]
    return reports, refusal[0]


@on_both
def test_flush_raises_the_exception_of_a_callback(side: Side) -> Any:
    def fail(error: Any, message: Any) -> None:
        raise ValueError("raised by the callback")

    producer = side.producer()
    producer.produce(side.topic, "x", partition=0, on_delivery=fail)
    return producer.flush(WAIT_S)


@on_both
def test_purged_messages_are_reported(side: Side) -> Any:
    got: list[Any] = []
    producer = side.producer(linger_ms=60_000)
    producer.produce(
        side.topic, "x", partition=0, on_delivery=lambda error, message: got.append(error)
    )
    producer.purge()
    left = producer.flush(WAIT_S)
    return [left, got]


@on_both
def test_a_full_queue(side: Side) -> Any:
    producer = side.producer(queue_buffering_max_messages=1, linger_ms=60_000)
    try:
        producer.produce(side.topic, "x", partition=0)
        producer.produce(side.topic, "x", partition=0)
    except BufferError as error:
        return "full", str(error)
    finally:
        producer.purge()
        producer.flush(WAIT_S)


@on_both
def test_a_message_that_is_too_large(side: Side) -> Any:
    return side.producer(message_max_bytes=2000).produce(side.topic, b"x" * 5000, partition=0)


@on_both
def test_a_partition_that_does_not_exist(side: Side) -> Any:
    got: list[Any] = []
    producer = side.producer(topic_metadata_propagation_max_ms=500)
    try:
        producer.produce(
            side.topic,
            "x",
            partition=7,
            on_delivery=lambda error, message: got.append(error.name()),
        )
    except side.lib.KafkaException as error:
        got.append(error.args[0].name())
    producer.flush(WAIT_S)
    return got


@pytest.mark.parametrize(
    "partitioner", ["consistent", "consistent_random", "murmur2", "murmur2_random", "fnv1a"]
)
@on_both
def test_keys_go_to_the_same_partitions(side: Side, partitioner: str) -> Any:
    got: dict[bytes, int] = {}
    producer = side.producer(partitioner=partitioner)
    for number in range(20):
        producer.produce(
            side.topic,
            "x",
            key=f"key {number}",
            on_delivery=lambda error, message: got.update({message.key(): message.partition()}),
        )
    assert producer.flush(WAIT_S) == 0
    return got


@on_both
def test_close_delivers_and_may_be_called_twice(side: Side) -> Any:
    got: list[Any] = []
    producer = side.producer()
    producer.produce(
        side.topic, "x", partition=0, on_delivery=lambda error, message: got.append(error)
    )
    return producer.close(), producer.close(), got


# --- producing many at once ---


def batch_of(side: Side, messages: list[Any], producer: Any = None, **given: Any) -> list[Any]:
    """Return the result of produce_batch(), the messages' errors, and the reports by callback."""
    calls: list[Any] = []

    def recorder(name: str) -> Any:
        return lambda error, message: calls.append(
            [name, message.key(), message.value(), message.partition(), error]
        )

    producer = producer or side.producer()
    for message in messages:
        if "callback" in message:
            message["callback"] = recorder(message["callback"])
    given = {
        name: recorder(value) if isinstance(value, str) else value for name, value in given.items()
    }
    count = producer.produce_batch(side.topic, messages, **given)
    errors = [message.get("_error") for message in messages]
    producer.purge(in_flight=False)
    assert producer.flush(WAIT_S) == 0
    return [count, errors, sorted(calls, key=repr)]


BATCHES: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
    "none": ([], {}),
    "values and keys": (
        [{"value": "a", "key": "k"}, {"value": b"b"}, {"key": b"c"}, {}],
        {"partition": 1},
    ),
    "on_delivery": ([{"value": "a"}, {"value": "b"}], {"on_delivery": "all"}),
    "callback": ([{"value": "a"}, {"value": "b"}], {"callback": "all"}),
    "one has its own": (
        [{"value": "a", "callback": "own"}, {"value": "b"}],
        {"on_delivery": "all"},
    ),
    "some are too large": (
        [{"value": "a"}, {"value": "b" * 5000}, {"value": "c"}],
        {"on_delivery": "all"},
    ),
}


@pytest.mark.parametrize("name", BATCHES)
@on_both
def test_a_batch(side: Side, name: str) -> Any:
    messages, given = BATCHES[name]
    with_partition = {"partition": 0, **given}
    producer = side.producer(message_max_bytes=2000, linger_ms=20_000)
    return batch_of(side, [dict(each) for each in messages], producer, **with_partition)


@on_both
def test_a_batch_is_consumed(side: Side) -> Any:
    producer = side.producer()
    count = producer.produce_batch(
        side.topic, [{"value": str(each), "key": "k"} for each in range(5)], partition=1
    )
    assert producer.flush(WAIT_S) == 0
    consumer = side.consumer()
    consumer.assign([side.at(1, 0)])
    got = [next_message(consumer) for _ in range(5)]
    consumer.close()
    return count, [
        [each.offset(), each.key(), each.value(), each.headers(), each.error()] for each in got
    ]


@on_both
def test_a_batch_for_a_full_queue(side: Side) -> Any:
    producer = side.producer(queue_buffering_max_messages=1, linger_ms=20_000)
    return batch_of(
        side, [{"value": each} for each in "abc"], producer, partition=0, on_delivery="all"
    )


@pytest.mark.parametrize(
    "messages",
    [
        ({"value": "a"},),
        "a",
        None,
        [{"value": "a"}, "b"],
        [{"value": 5}],
        [{"key": 5}],
        [{"partition": "x"}],
    ],
    ids=repr,
)
@on_both
def test_wrong_batches_are_refused(side: Side, messages: Any) -> Any:
    producer = side.producer()
    with pytest.raises(TypeError):
        producer.produce_batch(side.topic, messages, partition=0)
    return producer.flush(WAIT_S)


@on_both
def test_a_batch_of_a_closed_producer(side: Side) -> Any:
    producer = side.producer()
    producer.close()
    return producer.produce_batch(side.topic, [{"value": "a"}])


def test_batch_has_one_partition_and_neither_headers_nor_timestamps(cluster: Stage) -> None:

    def use(side: Side) -> Any:
        timed = side.tried(
            lambda: side.producer().produce_batch(side.topic, [{"timestamp": BASE_MS}], partition=0)
        )
        calls: list[Any] = []
        messages = [{"value": "a", "headers": [("h", b"x")], "partition": 1}, {"value": "b"}]
        producer = side.producer()
        producer.produce_batch(
            side.topic, messages, partition=0, on_delivery=lambda *report: calls.append(report)
        )
        assert producer.flush(WAIT_S) == 0
        return timed, sorted(
            (message.value(), message.partition(), message.headers()) for _, message in calls
        )

    assert_same(cluster, use)


@on_both
def test_two_callbacks(side: Side) -> Any:
    calls: list[str] = []
    both = {
        name: lambda error, message, name=name: calls.append(name)
        for name in ("callback", "on_delivery")
    }
    producer = side.producer()
    producer.produce(side.topic, "x", partition=0, **both)
    producer.produce_batch(side.topic, [{"value": "x"}], partition=0, **both)
    assert producer.flush(WAIT_S) == 0
    return calls


@pytest.mark.parametrize(
    "name", ["timestamp", "offset", "delivery_count", "leader_epoch", "latency", "partition"]
)
def test_report_of_a_message_that_was_not_sent(cluster: Stage, name: str) -> None:
    def use(side: Side) -> Any:
        calls: list[Any] = []
        producer = side.producer(bootstrap_servers="127.0.0.1:1")
        report = {"on_delivery": lambda error, message: calls.append(getattr(message, name)())}
        producer.produce(side.topic, "x", timestamp=BASE_MS, **report)
        producer.purge()
        assert producer.flush(WAIT_S) == 0
        (value,) = calls
        return float if isinstance(value, float) else value

    assert_same(cluster, use)


def test_versions_are_a_text_and_a_number() -> None:
    for lib in BOTH:
        found = [lib.version(), *lib.libversion()]
        assert [type(each) for each in found] == [str, str, int]
        assert all(found)


# --- metadata ---


@on_both
def test_metadata(side: Side) -> Any:
    metadata = side.producer().list_topics(side.topic, timeout=WAIT_S)
    topic = metadata.topics[side.topic]
    first = topic.partitions[0]
    return [
        sorted(metadata.brokers),
        [str(each) for each in metadata.brokers.values()],
        [repr(each) for each in metadata.brokers.values()],
        (str(topic), repr(topic), topic.error),
        sorted(topic.partitions),
        (
            repr(first),
            str(first),
            first.id,
            first.leader,
            sorted(first.replicas),
            sorted(first.isrs),
            first.error,
        ),
        (
            metadata.cluster_id,
            repr(metadata),
            metadata.controller_id,
            type(metadata.orig_broker_id).__name__,
        ),
    ]


# --- consuming from partitions ---


@on_both
def test_messages_of_a_partition(side: Side) -> Any:
    side.fill()
    consumer = side.consumer(enable_partition_eof=True)
    consumer.assign([side.at(0, 7)])
    got = [next_message(consumer) for _ in range(4)]
    rest = [
        consumer.position([side.at(0), side.at(1)]),
        consumer.get_watermark_offsets(side.at(0), timeout=WAIT_S),
    ]
    consumer.close()
    return got[:3], got[3].error(), rest


@on_both
def test_consume_returns_many_messages(side: Side) -> Any:
    side.fill()
    consumer = side.consumer()
    consumer.assign([side.at(0, side.lib.OFFSET_BEGINNING)])
    got: list[Any] = []
    deadline = time.monotonic() + WAIT_S
    while len(got) < 10 and time.monotonic() < deadline:
        got += consumer.consume(num_messages=10 - len(got), timeout=1)
    empty = consumer.consume(5, 0)
    consumer.close()
    return got, empty


@pytest.mark.parametrize("offset", ["OFFSET_BEGINNING", "OFFSET_END", "3"])
@on_both
def test_seeking(side: Side, offset: str) -> Any:
    side.fill()
    consumer = side.consumer(enable_partition_eof=True)
    consumer.assign([side.at(0, 5)])
    first = next_message(consumer).offset()
    position = int(offset) if offset.isdigit() else getattr(side.lib, offset)
    consumer.seek(side.at(0, position))
    message = next_message(consumer)
    consumer.close()
    return first, message.offset(), message.error()


@on_both
def test_offsets_of_times(side: Side) -> Any:
    side.fill()
    consumer = side.consumer()
    times = (BASE_MS - 5, BASE_MS + 3000, BASE_MS + 3001, BASE_MS + 10_000_000)
    found = [
        consumer.offsets_for_times([side.at(0, when), side.at(1, when)], timeout=WAIT_S)
        for when in times
    ]
    consumer.close()
    return found


@on_both
def test_watermarks(side: Side) -> Any:
    side.fill()
    consumer = side.consumer()
    marks = [consumer.get_watermark_offsets(side.at(number), timeout=WAIT_S) for number in (0, 1)]
    consumer.close()
    return marks


@on_both
def test_incremental_assignment(side: Side) -> Any:
    side.fill()
    consumer = side.consumer()

    def assigned() -> Any:
        return sorted(each.partition for each in consumer.assignment())

    steps = [assigned()]
    consumer.incremental_assign([side.at(0, 9)])
    steps.append(assigned())
    consumer.incremental_assign([side.at(1, 0)])
    steps.append(assigned())
    message = next_message(consumer)
    consumer.pause([side.at(0), side.at(1)])
    paused = consumer.poll(0)
    consumer.resume([side.at(0), side.at(1)])
    consumer.incremental_unassign([side.at(0)])
    consumer.resume([side.at(0)])  # another rebalance may have taken it: no error
    consumer.pause([side.at(7)])
    steps.append(assigned())
    consumer.unassign()
    steps.append(assigned())
    consumer.close()
    return steps, message.offset(), paused


@on_both
def test_an_assignment_has_the_given_offsets(side: Side) -> Any:
    side.fill()
    lib = side.lib
    consumer = side.consumer()
    seen = []
    for offsets in ((3, -1001), (lib.OFFSET_BEGINNING, lib.OFFSET_END), (lib.OFFSET_STORED, 0)):
        consumer.assign([side.at(number, position) for number, position in enumerate(offsets)])
        seen.append(sorted(consumer.assignment()))
    consumer.assign([side.at(0, 3)])
    consumer.incremental_assign([side.at(1)])
    message = next_message(consumer)
    seen.append(sorted(consumer.assignment()))
    consumer.seek(side.at(0, 7))
    seen.append(sorted(consumer.assignment()))
    consumer.unassign()
    seen.append(consumer.assignment())
    consumer.close()
    return seen, message.offset()


@on_both
def test_seeking_without_an_assignment(side: Side) -> Any:
    side.fill()
    consumer = side.consumer()

    def seek(topic: str, partition: int) -> Any:
        try:
            return consumer.seek(side.lib.TopicPartition(topic, partition, 3))
        except side.lib.KafkaException as error:
            return error.args[0]

    found = [seek(side.topic, 0)]
    consumer.assign([side.at(0, 0)])
    next_message(consumer)
    found += [seek(side.topic, 1), seek("side-by-side-nowhere", 0)]
    consumer.unassign()
    found.append(seek(side.topic, 0))
    consumer.close()
    return found


# --- offsets of groups ---


@on_both
def test_committed_offsets(side: Side) -> Any:
    side.fill()
    consumer = side.consumer()
    before = consumer.committed([side.at(0), side.at(1)], timeout=WAIT_S)
    consumer.assign([side.at(0, 2)])
    message = next_message(consumer)
    by_message = consumer.commit(message=message, asynchronous=False)
    given = side.lib.TopicPartition(side.topic, 1, 5, METADATA)
    by_offsets = consumer.commit(offsets=[given], asynchronous=False)
    after = consumer.committed([side.at(0), side.at(1)], timeout=WAIT_S)
    consumer.close()
    return before, message.offset(), by_message, by_offsets, after


@on_both
def test_stored_offsets(side: Side) -> Any:
    side.fill()
    consumer = side.consumer(enable_auto_offset_store=False)
    consumer.assign([side.at(0, 0)])
    message = next_message(consumer)
    consumer.store_offsets(message)
    first = consumer.commit(asynchronous=False)
    consumer.store_offsets(offsets=[side.at(0, 6)])
    second = consumer.commit(asynchronous=False)
    consumer.close()
    return first, second


@on_both
def test_commit_returns_its_offsets(side: Side) -> Any:
    side.fill()
    consumer = side.consumer(enable_auto_offset_store=False)

    def commit(**given: Any) -> Any:
        try:
            return consumer.commit(asynchronous=False, **given)
        except side.lib.KafkaException as error:
            return error.args[0]

    consumer.assign([side.at(0, 0), side.at(1, 0)])
    next_message(consumer)
    found = [commit()]
    for position in (side.at(0, 3), side.at(1, 4)):
        consumer.store_offsets(offsets=[position])
        found.append(sorted(commit()))
    found += [commit(), commit(offsets=[side.at(0), side.at(1, 5)]), commit(offsets=[side.at(0)])]
    found.append(sorted(consumer.committed([side.at(0), side.at(1)], timeout=WAIT_S)))
    consumer.close()
    return found


@on_both
def test_nothing_to_commit(side: Side) -> Any:
    consumer = side.consumer()
    try:
        return consumer.commit(asynchronous=False)
    finally:
        consumer.close()


@on_both
def test_arguments_of_on_commit(side: Side) -> Any:
    calls: list[Any] = []
    side.fill()
    consumer = side.consumer(on_commit=lambda error, partitions: calls.append([error, partitions]))
    consumer.assign([side.at(0, 9), side.at(1, 0)])
    message = next_message(consumer)
    returned = []
    for given in ({"message": message}, {"offsets": [side.at(0, 8)]}, {}):
        returned.append(consumer.commit(**given, asynchronous=True))
        poll_until(lambda: len(calls) == len(returned), consumer)
    consumer.close()
    return returned, [[error, sorted(partitions)] for error, partitions in calls]


# --- groups ---


@on_both
def test_a_group_of_one(side: Side) -> Any:
    calls: list[Any] = []

    def on_assign(consumer: Any, partitions: Any) -> None:
        calls.append(["assign", sorted(partitions)])

    def on_revoke(consumer: Any, partitions: Any) -> None:
        calls.append(["revoke", sorted((each.topic, each.partition) for each in partitions)])

    side.fill()
    consumer = side.consumer(enable_auto_commit=True)
    member_before = consumer.memberid()
    consumer.subscribe([side.topic], on_assign=on_assign, on_revoke=on_revoke)
    got = [next_message(consumer) for _ in range(10)]
    assigned = sorted(consumer.assignment())
    member = type(consumer.memberid()).__name__
    consumer.close()
    again = side.consumer()
    committed = again.committed([side.at(0)], timeout=WAIT_S)
    again.close()
    return member_before, got, assigned, member, calls, committed


@on_both
def test_on_assign_chooses_where_to_start(side: Side) -> Any:
    def on_assign(consumer: Any, partitions: Any) -> None:
        for each in partitions:
            each.offset = 8 if each.partition == 0 else 0
        consumer.assign(partitions)

    side.fill()
    consumer = side.consumer()
    consumer.subscribe([side.topic], on_assign=on_assign)
    message = next_message(consumer)
    assigned = sorted(consumer.assignment())
    consumer.unsubscribe()
    consumer.close()
    return message.offset(), assigned


@on_both
def test_poll_raises_the_exception_of_on_assign(side: Side) -> Any:
    def on_assign(consumer: Any, partitions: Any) -> None:
        raise ValueError("raised by on_assign")

    consumer = side.consumer()
    consumer.subscribe([side.topic], on_assign=on_assign)
    try:
        return next_message(consumer)
    finally:
        consumer.close()


@on_both
def test_a_topic_that_does_not_exist(side: Side) -> Any:
    consumer = side.consumer(allow_auto_create_topics=False, topic_metadata_propagation_max_ms=500)
    consumer.subscribe(["side-by-side-nowhere"])
    message = next_message(consumer)
    consumer.close()
    return message.error(), message.topic()
