"""The same calls on confluent_kafka and on kafka_native, each on topics and groups of its own of
one mock cluster.

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
    outcomes,
)
from tests.waiting import WAIT_S

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
def test_delivery_reports(cluster: Stage, name: str) -> None:
    assert_same(cluster, lambda side: reports_of(side, callback_name=name))


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


def test_a_report_for_every_message_by_configuration(cluster: Stage) -> None:
    def use(side: Side) -> Any:
        got: list[Any] = []
        producer = side.producer(on_delivery=lambda error, message: got.append([error, message]))
        producer.produce(side.topic, None, partition=0)
        producer.produce(topic=side.topic, value="text", key="\u00e4", partition=0)
        producer.produce(side.topic, b"bytes", partition=0)
        refusal = side.tried(lambda: producer.produce(side.topic, bytearray(b"more"), partition=0))
        assert producer.flush(WAIT_S) == 0
        said = [
            [error, message.value(), message.key(), message.headers(), message.offset()]
            for error, message in got
        ]
        return said[:3], said[3:], refusal

    (theirs, nothing, refusal), (ours, more, taken) = outcomes(cluster, use)
    assert ours == theirs
    assert (nothing, refusal[0]) == ([], "TypeError")
    assert (more, taken) == ([[None, b"more", None, None, 3]], None)


def test_an_exception_of_a_callback_comes_out_of_flush(cluster: Stage) -> None:
    def use(side: Side) -> Any:
        def fail(error: Any, message: Any) -> None:
            raise ValueError("said by the callback")

        producer = side.producer()
        producer.produce(side.topic, "x", partition=0, on_delivery=fail)
        return producer.flush(WAIT_S)

    assert_same(cluster, use)


def test_what_is_purged_is_reported(cluster: Stage) -> None:
    def use(side: Side) -> Any:
        got: list[Any] = []
        producer = side.producer(linger_ms=60_000)
        producer.produce(
            side.topic, "x", partition=0, on_delivery=lambda error, message: got.append(error)
        )
        producer.purge()
        left = producer.flush(WAIT_S)
        return [left, got]

    assert_same(cluster, use)


def test_a_full_queue(cluster: Stage) -> None:
    def use(side: Side) -> Any:
        producer = side.producer(queue_buffering_max_messages=1, linger_ms=60_000)
        try:
            producer.produce(side.topic, "x", partition=0)
            producer.produce(side.topic, "x", partition=0)
        except BufferError as error:
            return "full", str(error)
        finally:
            producer.purge()
            producer.flush(WAIT_S)

    assert_same(cluster, use)


def test_a_message_that_is_too_large(cluster: Stage) -> None:
    def use(side: Side) -> Any:
        return side.producer(message_max_bytes=2000).produce(side.topic, b"x" * 5000, partition=0)

    assert_same(cluster, use)


def test_a_partition_that_does_not_exist(cluster: Stage) -> None:
    def use(side: Side) -> Any:
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

    assert_same(cluster, use)


@pytest.mark.parametrize(
    "partitioner", ["consistent", "consistent_random", "murmur2", "murmur2_random", "fnv1a"]
)
def test_keys_go_to_the_same_partitions(cluster: Stage, partitioner: str) -> None:
    def use(side: Side) -> Any:
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

    assert_same(cluster, use)


def test_closing(cluster: Stage) -> None:
    def use(side: Side) -> Any:
        got: list[Any] = []
        producer = side.producer()
        producer.produce(
            side.topic, "x", partition=0, on_delivery=lambda error, message: got.append(error)
        )
        return producer.close(), producer.close(), got

    assert_same(cluster, use)


# --- producing many at once ---


def batch_of(side: Side, messages: list[Any], producer: Any = None, **given: Any) -> list[Any]:
    """What produce_batch() returns, the messages' errors, and the reports: who was told, and of
    what.
    """
    told: list[Any] = []

    def teller(name: str) -> Any:
        return lambda error, message: told.append(
            [name, message.key(), message.value(), message.partition(), error]
        )

    producer = producer or side.producer()
    for message in messages:
        if "callback" in message:
            message["callback"] = teller(message["callback"])
    given = {
        name: teller(value) if isinstance(value, str) else value for name, value in given.items()
    }
    count = producer.produce_batch(side.topic, messages, **given)
    errors = [message.get("_error") for message in messages]
    producer.purge(in_flight=False)
    assert producer.flush(WAIT_S) == 0
    return [count, errors, sorted(told, key=repr)]


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
def test_a_batch(cluster: Stage, name: str) -> None:
    def use(side: Side) -> Any:
        messages, given = BATCHES[name]
        with_partition = {"partition": 0, **given}
        producer = side.producer(message_max_bytes=2000, linger_ms=20_000)
        return batch_of(side, [dict(each) for each in messages], producer, **with_partition)

    assert_same(cluster, use)


def test_a_batch_is_consumed(cluster: Stage) -> None:
    def use(side: Side) -> Any:
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

    assert_same(cluster, use)


def test_a_batch_for_a_full_queue(cluster: Stage) -> None:
    def use(side: Side) -> Any:
        producer = side.producer(queue_buffering_max_messages=1, linger_ms=20_000)
        return batch_of(
            side, [{"value": each} for each in "abc"], producer, partition=0, on_delivery="all"
        )

    assert_same(cluster, use)


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
def test_what_is_no_batch(cluster: Stage, messages: Any) -> None:
    def use(side: Side) -> Any:
        producer = side.producer()
        with pytest.raises(TypeError):
            producer.produce_batch(side.topic, messages, partition=0)
        return producer.flush(WAIT_S)

    assert_same(cluster, use)


def test_a_batch_of_a_closed_producer(cluster: Stage) -> None:
    def use(side: Side) -> Any:
        producer = side.producer()
        producer.close()
        return producer.produce_batch(side.topic, [{"value": "a"}])

    assert_same(cluster, use)


def test_batch_has_one_partition_and_neither_headers_nor_timestamps(cluster: Stage) -> None:

    def use(side: Side) -> Any:
        timed = side.tried(
            lambda: side.producer().produce_batch(side.topic, [{"timestamp": BASE_MS}], partition=0)
        )
        told: list[Any] = []
        messages = [{"value": "a", "headers": [("h", b"x")], "partition": 1}, {"value": "b"}]
        producer = side.producer()
        producer.produce_batch(
            side.topic, messages, partition=0, on_delivery=lambda *report: told.append(report)
        )
        assert producer.flush(WAIT_S) == 0
        return timed, sorted(
            (message.value(), message.partition(), message.headers()) for _, message in told
        )

    assert_same(cluster, use)


def test_two_callbacks(cluster: Stage) -> None:
    def use(side: Side) -> Any:
        told: list[str] = []
        both = {
            name: lambda error, message, name=name: told.append(name)
            for name in ("callback", "on_delivery")
        }
        producer = side.producer()
        producer.produce(side.topic, "x", partition=0, **both)
        producer.produce_batch(side.topic, [{"value": "x"}], partition=0, **both)
        assert producer.flush(WAIT_S) == 0
        return told

    assert_same(cluster, use)


@pytest.mark.parametrize(
    "name", ["timestamp", "offset", "delivery_count", "leader_epoch", "latency", "partition"]
)
def test_what_a_report_says_of_a_message_that_was_not_sent(cluster: Stage, name: str) -> None:
    def use(side: Side) -> Any:
        told: list[Any] = []
        producer = side.producer(bootstrap_servers="127.0.0.1:1")
        report = {"on_delivery": lambda error, message: told.append(getattr(message, name)())}
        producer.produce(side.topic, "x", timestamp=BASE_MS, **report)
        producer.purge()
        assert producer.flush(WAIT_S) == 0
        (said,) = told
        return float if isinstance(said, float) else said

    assert_same(cluster, use)


def test_versions_are_a_text_and_a_number() -> None:
    for lib in BOTH:
        found = [lib.version(), *lib.libversion()]
        assert [type(each) for each in found] == [str, str, int]
        assert all(found)


# --- metadata ---


def test_metadata(cluster: Stage) -> None:
    def use(side: Side) -> Any:
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

    assert_same(cluster, use)


# --- consuming from partitions ---


def test_messages_of_a_partition(cluster: Stage) -> None:
    def use(side: Side) -> Any:
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

    assert_same(cluster, use)


def test_many_at_once(cluster: Stage) -> None:
    def use(side: Side) -> Any:
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

    assert_same(cluster, use)


@pytest.mark.parametrize("offset", ["OFFSET_BEGINNING", "OFFSET_END", "3"])
def test_seeking(cluster: Stage, offset: str) -> None:
    def use(side: Side) -> Any:
        side.fill()
        consumer = side.consumer(enable_partition_eof=True)
        consumer.assign([side.at(0, 5)])
        first = next_message(consumer).offset()
        place = int(offset) if offset.isdigit() else getattr(side.lib, offset)
        consumer.seek(side.at(0, place))
        message = next_message(consumer)
        consumer.close()
        return first, message.offset(), message.error()

    assert_same(cluster, use)


def test_offsets_of_times(cluster: Stage) -> None:
    def use(side: Side) -> Any:
        side.fill()
        consumer = side.consumer()
        times = (BASE_MS - 5, BASE_MS + 3000, BASE_MS + 3001, BASE_MS + 10_000_000)
        found = [
            consumer.offsets_for_times([side.at(0, when), side.at(1, when)], timeout=WAIT_S)
            for when in times
        ]
        consumer.close()
        return found

    assert_same(cluster, use)


def test_watermarks(cluster: Stage) -> None:
    def use(side: Side) -> Any:
        side.fill()
        consumer = side.consumer()
        marks = [
            consumer.get_watermark_offsets(side.at(number), timeout=WAIT_S) for number in (0, 1)
        ]
        consumer.close()
        return marks

    assert_same(cluster, use)


def test_assigning_by_steps(cluster: Stage) -> None:
    def use(side: Side) -> Any:
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

    assert_same(cluster, use)


def test_an_assignment_has_the_offsets_that_were_given(cluster: Stage) -> None:
    def use(side: Side) -> Any:
        side.fill()
        lib = side.lib
        consumer = side.consumer()
        seen = []
        for places in ((3, -1001), (lib.OFFSET_BEGINNING, lib.OFFSET_END), (lib.OFFSET_STORED, 0)):
            consumer.assign([side.at(number, place) for number, place in enumerate(places)])
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

    assert_same(cluster, use)


def test_seeking_where_nothing_is_assigned(cluster: Stage) -> None:
    def use(side: Side) -> Any:
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

    assert_same(cluster, use)


# --- offsets of groups ---


def test_committed_offsets(cluster: Stage) -> None:
    def use(side: Side) -> Any:
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

    assert_same(cluster, use)


def test_stored_offsets(cluster: Stage) -> None:
    def use(side: Side) -> Any:
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

    assert_same(cluster, use)


def test_what_a_commit_returns(cluster: Stage) -> None:
    def use(side: Side) -> Any:
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
        for place in (side.at(0, 3), side.at(1, 4)):
            consumer.store_offsets(offsets=[place])
            found.append(sorted(commit()))
        found += [
            commit(),
            commit(offsets=[side.at(0), side.at(1, 5)]),
            commit(offsets=[side.at(0)]),
        ]
        found.append(sorted(consumer.committed([side.at(0), side.at(1)], timeout=WAIT_S)))
        consumer.close()
        return found

    assert_same(cluster, use)


def test_nothing_to_commit(cluster: Stage) -> None:
    def use(side: Side) -> Any:
        consumer = side.consumer()
        try:
            return consumer.commit(asynchronous=False)
        finally:
            consumer.close()

    assert_same(cluster, use)


def test_what_on_commit_is_told(cluster: Stage) -> None:
    def use(side: Side) -> Any:
        told: list[Any] = []
        side.fill()
        consumer = side.consumer(
            on_commit=lambda error, partitions: told.append([error, partitions])
        )
        consumer.assign([side.at(0, 9), side.at(1, 0)])
        message = next_message(consumer)
        returned = []
        for given in ({"message": message}, {"offsets": [side.at(0, 8)]}, {}):
            returned.append(consumer.commit(**given, asynchronous=True))
            deadline = time.monotonic() + WAIT_S
            while len(told) < len(returned) and time.monotonic() < deadline:
                consumer.poll(0.1)
        consumer.close()
        return returned, [[error, sorted(partitions)] for error, partitions in told]

    assert_same(cluster, use)


# --- groups ---


def test_a_group_of_one(cluster: Stage) -> None:
    def use(side: Side) -> Any:
        told: list[Any] = []

        def on_assign(consumer: Any, partitions: Any) -> None:
            told.append(["assign", sorted(partitions)])

        def on_revoke(consumer: Any, partitions: Any) -> None:
            told.append(["revoke", sorted((each.topic, each.partition) for each in partitions)])

        side.fill()
        consumer = side.consumer(enable_auto_commit=True)
        nobody = consumer.memberid()
        consumer.subscribe([side.topic], on_assign=on_assign, on_revoke=on_revoke)
        got = [next_message(consumer) for _ in range(10)]
        assigned = sorted(consumer.assignment())
        member = type(consumer.memberid()).__name__
        consumer.close()
        again = side.consumer()
        committed = again.committed([side.at(0)], timeout=WAIT_S)
        again.close()
        return nobody, got, assigned, member, told, committed

    assert_same(cluster, use)


def test_on_assign_chooses_where_to_start(cluster: Stage) -> None:
    def use(side: Side) -> Any:
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

    assert_same(cluster, use)


def test_an_exception_of_on_assign_comes_out_of_poll(cluster: Stage) -> None:
    def use(side: Side) -> Any:
        def on_assign(consumer: Any, partitions: Any) -> None:
            raise ValueError("said by on_assign")

        consumer = side.consumer()
        consumer.subscribe([side.topic], on_assign=on_assign)
        try:
            return next_message(consumer)
        finally:
            consumer.close()

    assert_same(cluster, use)


def test_a_topic_that_does_not_exist(cluster: Stage) -> None:
    def use(side: Side) -> Any:
        consumer = side.consumer(
            allow_auto_create_topics=False, topic_metadata_propagation_max_ms=500
        )
        consumer.subscribe(["side-by-side-nowhere"])
        message = next_message(consumer)
        consumer.close()
        return message.error(), message.topic()

    assert_same(cluster, use)
