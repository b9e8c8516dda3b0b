"""Commits, positions, seeks, lag and incremental assignment of a Consumer, on the mock cluster."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from kafka_native import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    OFFSET_STORED,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from kafka_native.protocol import ApiKey
from tests.waiting import poll_until, wait_for

from .consumer_support import forever, group, read, subscribed, take, values
from .support import Client, assigned, check_refused, code_of, fill, filled


@pytest.fixture
def topic(client: Client) -> str:
    """Return a topic with ten messages in each of two partitions."""
    return filled(client, 10, 2)


def manual(client: Client, **conf: Any) -> Consumer:
    """Return a consumer with a group that assigns and commits by hand."""
    return group(client, **{"enable.auto.commit": False, **conf})


# --- commit ---


def test_commit_of_a_message_of_offsets_and_of_stored_offsets(client: Client, topic: str):
    where = TopicPartition(topic, 0)
    with manual(client) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        messages = take(consumer, 3)
        [one] = consumer.commit(message=messages[0], asynchronous=False)
        assert (one.topic, one.partition, one.offset, one.error) == (topic, 0, 1, None)
        assert one.leader_epoch == messages[0].leader_epoch()
        assert consumer.committed([where], 10)[0].offset == 1
        [one] = consumer.commit(asynchronous=False)
        assert one.offset == 3
        # there are no new offsets
        assert code_of(lambda: consumer.commit(asynchronous=False)) == KafkaError._NO_OFFSET
        [one] = consumer.commit(offsets=[TopicPartition(topic, 0, 7, "note")], asynchronous=False)
        assert (one.offset, one.metadata) == (7, "note")
        [one] = consumer.committed([where], 10)
        assert (one.offset, one.metadata, one.error) == (7, "note", None)


def test_commit_of_nothing_is_an_error(client: Client, topic: str):
    with manual(client) as consumer:
        for nothing in (
            {},
            {"offsets": []},
            {"offsets": [TopicPartition(topic, 0)]},
            {"offsets": [TopicPartition(topic, 0, OFFSET_END)]},
        ):
            code = code_of(partial(consumer.commit, **nothing, asynchronous=False))
            assert code == KafkaError._NO_OFFSET
            assert consumer.commit(**nothing) is None


def test_on_commit_gets_the_results_of_asynchronous_commits(client: Client, topic: str):
    results: list[Any] = []
    with manual(
        client, on_commit=lambda error, partitions: results.append((error, partitions))
    ) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        assert consumer.commit(message=take(consumer, 2)[1]) is None
        poll_until(lambda: results, consumer)
        [(error, [partition])] = results
        assert error is None
        assert (partition.topic, partition.partition, partition.offset) == (topic, 0, 2)
        consumer.unassign()
        consumer.commit()
        poll_until(lambda: len(results) != 1, consumer)
        assert results[1] == (KafkaError._NO_OFFSET, [])
        replaced: list[Any] = []
        consumer.on_commit = lambda error, partitions: replaced.append(error)
        consumer.commit(offsets=[TopicPartition(topic, 0, 5)])
        poll_until(lambda: replaced, consumer)
        assert len(results) == 2
        with pytest.raises(TypeError):
            consumer.on_commit = "x"  # type: ignore[assignment]
        assert consumer.on_commit is not None


def test_each_partition_of_a_commit_has_its_own_outcome(client: Client, topic: str):
    with manual(client) as consumer:
        outcome = consumer.commit(
            offsets=[TopicPartition(topic, 0, 5), TopicPartition(topic, 99, 1)], asynchronous=False
        )
        assert [each.error is None for each in outcome] == [True, False]
        assert outcome[1].error == KafkaError.UNKNOWN_TOPIC_OR_PART
        lost = [TopicPartition(topic, 99, 1)]
        assert code_of(lambda: consumer.commit(offsets=lost, asynchronous=False)) == 3
        assert [each.offset for each in consumer.committed([TopicPartition(topic, 0)], 10)] == [5]


def test_returned_messages_are_committed_automatically(client: Client, topic: str):
    conf = {"auto.commit.interval.ms": 50}
    with group(client, **conf) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        take(consumer, 4)
        consumer.pause(consumer.assignment())
        poll_until(
            lambda: consumer.committed([TopicPartition(topic, 0)], 10)[0].offset == 4, consumer
        )


def test_consume_does_not_commit_messages_before_it_returns(client: Client, topic: str):
    where = [TopicPartition(topic, 0)]
    with group(client, **{"auto.commit.interval.ms": 20}) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        outcome: list[Any] = []
        thread = threading.Thread(target=lambda: outcome.extend(consumer.consume(100, 60)))
        thread.start()
        wait_for(lambda: consumer._poll_counts()[2])
        started = time.monotonic()
        while time.monotonic() - started < 0.5:
            assert consumer.committed(where, 10)[0].offset == OFFSET_INVALID
        consumer.wakeup()
        thread.join(20)
        assert len(outcome) == 10
        wait_for(
            lambda: consumer.poll(0.01) is None and consumer.committed(where, 10)[0].offset == 10
        )


def test_close_commits_returned_messages(client: Client, topic: str):
    conf = {"auto.commit.interval.ms": 3_600_000, "group.id": "closing"}
    with group(client, **conf) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        take(consumer, 4)
    with group(client, **conf) as consumer:
        consumer.assign([TopicPartition(topic, 0, OFFSET_STORED), TopicPartition(topic, 1)])
        first: dict[int, int] = {}
        for message in take(consumer, 16):
            first.setdefault(message.partition(), message.offset())
        assert first == {0: 4, 1: 0}


def polled(consumer: Consumer) -> None:
    for _ in range(4):
        assert consumer.poll(10) is not None


def iterated(consumer: Consumer) -> None:
    for _ in range(4):
        next(consumer)


def consumed(consumer: Consumer) -> None:
    assert [len(take(consumer, count)) for count in (3, 4)] == [3, 4]


def consumed_as_columns(consumer: Consumer) -> None:
    for count in (3, 4):
        assert len(consumer.consume_arrow(count, 10, columns=["offset"])) == count


def committed_after_a_failure(
    client: Client, topic: str, work: Callable[[Consumer], object], **conf: Any
) -> int:
    """Let an exception end the block of a consumer, and return what is committed then."""
    partition = TopicPartition(topic, 0, 0)
    conf |= {"auto.commit.interval.ms": 3_600_000, "group.id": f"failing-{topic}"}

    def fail() -> None:
        with group(client, **conf) as consumer:
            consumer.assign([partition])
            work(consumer)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with group(client, **conf) as consumer:
        return consumer.committed([partition], timeout=10)[0].offset


@pytest.mark.parametrize("work", [polled, iterated, consumed, consumed_as_columns])
def test_an_exception_in_the_block_commits_no_message_of_the_last_call(
    client: Client, topic: str, work: Callable[[Consumer], object]
) -> None:
    assert committed_after_a_failure(client, topic, work) == 3


def test_a_message_that_is_read_again_and_fails_is_not_committed(
    client: Client, topic: str
) -> None:
    def work(consumer: Consumer) -> None:
        polled(consumer)
        consumer.seek(TopicPartition(topic, 0, 3))
        assert next(consumer).offset() == 3

    assert committed_after_a_failure(client, topic, work) == 3


def test_messages_before_a_call_that_returns_nothing_are_committed_after_an_exception(
    client: Client, topic: str
) -> None:
    def work(consumer: Consumer) -> None:
        assert len(take(consumer, 10)) == 10
        assert consumer.poll(0.01) is None

    assert committed_after_a_failure(client, topic, work) == 10


def test_offsets_that_the_application_stores_are_committed_after_an_exception(
    client: Client, topic: str
) -> None:
    def work(consumer: Consumer) -> None:
        consumer.store_offsets(message=next(consumer))

    conf = {"enable.auto.offset.store": False}
    assert committed_after_a_failure(client, topic, work, **conf) == 1


def test_store_offsets_decides_what_is_committed(client: Client, topic: str):
    conf = {"enable.auto.offset.store": False, "group.id": "storing"}
    with group(client, **conf) as consumer:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(2)])
        messages = take(consumer, 20)
        assert code_of(lambda: consumer.commit(asynchronous=False)) == KafkaError._NO_OFFSET
        consumer.store_offsets(message=next(m for m in messages if m.partition() == 0))
        consumer.store_offsets(offsets=[TopicPartition(topic, 1, 6), TopicPartition(topic, 9, 1)])
        committed = consumer.commit(asynchronous=False)
        assert {each.partition: each.offset for each in committed} == {0: 1, 1: 6}
        consumer.store_offsets(offsets=[TopicPartition(topic, 1, 8)])
    with group(client, **conf) as consumer:
        found = consumer.committed([TopicPartition(topic, 0), TopicPartition(topic, 1)], 10)
        assert [each.offset for each in found] == [1, 8]  # close() has committed the stored offset


def test_wrong_arguments_of_commit_and_store_offsets(client: Client, topic: str):
    with manual(client, **{"enable.auto.offset.store": False}) as consumer:
        message = Message(topic, 0, 3)
        both = {"message": message, "offsets": [TopicPartition(topic, 0, 1)]}
        for call in (consumer.commit, consumer.store_offsets):
            with pytest.raises(ValueError, match="mutually exclusive"):
                call(**both)
            for wrong in ({"message": 1}, {"offsets": 1}, {"offsets": [1]}, {"offsets": "x"}):
                with pytest.raises(TypeError):
                    call(**wrong)
            with pytest.raises(ValueError, match="0 or more"):
                call(offsets=[TopicPartition(topic, -1, 1)])
            with pytest.raises(ValueError, match="no topic"):
                call(message=Message())
            failed = Message(topic, 0, 3, error=KafkaError(KafkaError._PARTITION_EOF))
            assert code_of(lambda: call(message=failed)) == KafkaError._INVALID_ARG  # noqa: B023
        with pytest.raises(ValueError, match="expected either"):
            consumer.store_offsets()
        unassigned = [TopicPartition(topic, 0, 1)]
        store = partial(consumer.store_offsets, offsets=unassigned)
        assert code_of(store) == KafkaError._UNKNOWN_PARTITION
        consumer.assign([TopicPartition(topic, 0)])
        consumer.unassign()
        assert code_of(store) == KafkaError._STATE
    with manual(client) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        with pytest.raises(KafkaException, match=r"enable\.auto\.offset\.store=false"):
            consumer.store_offsets(offsets=[TopicPartition(topic, 0, 1)])


def test_committed_without_any_commit(client: Client, topic: str):
    with manual(client) as consumer:
        assert consumer.committed([], 10) == []
        [one] = consumer.committed([TopicPartition(topic, 1)], 10)
        assert (one.topic, one.partition, one.offset, one.error) == (topic, 1, OFFSET_INVALID, None)
        with pytest.raises(TypeError):
            consumer.committed(3, 10)  # type: ignore[arg-type]


# --- incremental assignment ---


def test_incremental_assignment_leaves_other_partitions_alone(client: Client, topic: str):
    one, two = TopicPartition(topic, 0, 2), TopicPartition(topic, 1, 8)
    with client.consumer() as consumer:
        consumer.incremental_assign([one])
        assert values(take(consumer, 3)) == [2, 3, 4]
        consumer.incremental_assign([two])
        assert sorted(values(take(consumer, 7))) == [5, 6, 7, 8, 8, 9, 9]
        assert code_of(lambda: consumer.incremental_assign([two])) == KafkaError._CONFLICT
        missing = [TopicPartition(topic, 5)]
        code = code_of(lambda: consumer.incremental_unassign([one, *missing]))
        assert code == KafkaError._INVALID_ARG
        assert sorted(consumer.assignment()) == [one, two]
        consumer.incremental_unassign([one])
        assert consumer.assignment() == [two]
        fill(client, topic, 1, partition=0)
        fill(client, topic, 1, partition=1, start=77)
        assert values(take(consumer, 1)) == [77]
        assert consumer.poll(0.2) is None


# --- positions ---


def test_seek_many_to_the_ends_and_to_a_time(client: Client):
    topic = client.topic(partitions=2)
    with client.producer() as producer:
        for number in range(10):
            for partition in range(2):
                producer.produce(
                    topic, str(number), partition=partition, timestamp=1000 + number * 10
                )
    both = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    with assigned(client, topic, 2, offset=5) as consumer:
        take(consumer, 2)
        consumer.seek([TopicPartition(topic, 0, 8), TopicPartition(topic, 1, 9)])
        assert sorted(values(take(consumer, 3))) == [8, 9, 9]
        consumer.seek_to_beginning()
        assert sorted(values(take(consumer, 20))) == sorted([*range(10), *range(10)])
        consumer.seek_to_time(1075, timeout=10)
        assert sorted(values(take(consumer, 4))) == [8, 8, 9, 9]
        consumer.seek_to_time(5000, both[:1], 10)
        assert consumer.poll(0.2) is None
        consumer.seek_to_beginning(both[1:])
        assert values(take(consumer, 10)) == list(range(10))
        consumer.seek_to_beginning(both)
        consumer.seek_to_end()
        assert consumer.poll(0.2) is None
        with pytest.raises(ValueError, match="0 or more"):
            consumer.seek_to_time(-1)
        with pytest.raises(TypeError):
            consumer.seek_to_time("x")  # type: ignore[arg-type]
        found = consumer.offsets_for_times(
            [TopicPartition(topic, 0, 1031), TopicPartition(topic, 1, 99_999)], 10
        )
        assert [(each.partition, each.offset) for each in found] == [(0, 4), (1, OFFSET_END)]
        assert [each.error for each in found] == [None, None]
        assert consumer.offsets_for_times([], 10) == []


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda it, t: it.seek(TopicPartition(t, 1, 0)), KafkaError._STATE),
        (
            lambda it, t: it.seek([TopicPartition(t, 0, 0), TopicPartition(t, 1, 0)]),
            KafkaError._STATE,
        ),
        (lambda it, t: it.seek_to_beginning([TopicPartition(t, 1)]), KafkaError._STATE),
        (lambda it, t: it.seek_to_time(0, [TopicPartition(t, 1)], 10), KafkaError._STATE),
        (lambda it, t: it.seek(TopicPartition(t, 0, -7)), KafkaError._INVALID_ARG),
        (
            lambda it, t: it.offsets_for_times([TopicPartition(t, 9, 0)], 0.5),
            KafkaError._UNKNOWN_PARTITION,
        ),
    ],
)
def test_calls_for_unassigned_partitions(client: Client, topic: str, call: Any, code: int):
    with assigned(client, topic, offset=4) as consumer:
        assert values(take(consumer, 1)) == [4]
        assert code_of(lambda: call(consumer, topic)) == code
        assert values(take(consumer, 5)) == [5, 6, 7, 8, 9]  # the position has not changed
        assert consumer.paused() == []


@pytest.mark.parametrize("reset", ["earliest", "latest", "error"])
def test_seek_out_of_range_follows_auto_offset_reset(client: Client, topic: str, reset: str):
    with assigned(client, topic, offset=0, **{"auto.offset.reset": reset}) as consumer:
        take(consumer, 10)
        consumer.seek(TopicPartition(topic, 0, 1_000_000))
        if reset == "latest":
            assert consumer.poll(1.0) is None
            fill(client, topic, 1, partition=0, start=10)
        message = consumer.poll(10)
        assert message is not None
        if reset == "error":
            assert message.error() == KafkaError._AUTO_OFFSET_RESET
        else:
            assert message.offset() == (0 if reset == "earliest" else 10)


def test_wrong_arguments_about_partitions(client: Client, topic: str):
    with client.consumer() as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        with pytest.raises(ValueError, match="needs an offset"):
            consumer.seek(TopicPartition(topic, 0))
        for call in (
            consumer.assign,
            consumer.incremental_assign,
            consumer.incremental_unassign,
            consumer.position,
            consumer.seek,
            consumer.seek_to_end,
            consumer.pause,
            consumer.resume,
            consumer.offsets_for_times,
        ):
            check_refused(call, TypeError, 3, "t", [("t", 0)], [None])
            with pytest.raises(ValueError, match="0 or more"):
                call([TopicPartition(topic, -1, 0)])
        for call_one in (consumer.get_watermark_offsets, consumer.current_lag):
            with pytest.raises(TypeError):
                call_one("t")  # type: ignore[arg-type]
        assert consumer.assignment() == [TopicPartition(topic, 0)]


def test_lag_is_known_without_a_request(client: Client, topic: str):
    where = TopicPartition(topic, 0)
    with client.consumer() as consumer:
        assert consumer.lag() == {}
        assert consumer.lag_max() is None
        assert consumer.current_lag(where) is None
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING), TopicPartition(topic, 1, 0)])
        take(consumer, 20)
        assert consumer.lag() == {where: 0, TopicPartition(topic, 1): 0}
        assert consumer.lag_max() == 0
        consumer.seek([TopicPartition(topic, 0, 3), TopicPartition(topic, 1, 10)])
        consumer.pause([where])
        assert consumer.current_lag(where) == 7
        assert consumer.lag_max() == 7
        fill(client, topic, 5, partition=1, start=10)
        take(consumer, 1)
        assert consumer.current_lag(TopicPartition(topic, 1)) in range(5)


# --- close and fork ---


def test_every_call_of_a_closed_consumer_raises(client: Client, topic: str):
    consumer = manual(client)
    consumer.close()
    consumer.close()
    where = TopicPartition(topic, 0, 0)
    for call in (
        lambda: consumer.poll(0),
        lambda: consumer.consume(1, 0),
        lambda: consumer.consume_callback(print),
        lambda: consumer.subscribe([topic]),
        consumer.unsubscribe,
        consumer.subscription,
        lambda: consumer.assign([where]),
        consumer.unassign,
        consumer.assignment,
        lambda: consumer.incremental_assign([where]),
        lambda: consumer.incremental_unassign([where]),
        lambda: consumer.commit(message=None),
        lambda: consumer.store_offsets(offsets=[where]),
        lambda: consumer.committed([where]),
        lambda: consumer.position([where]),
        lambda: consumer.seek(where),
        consumer.seek_to_beginning,
        consumer.seek_to_end,
        lambda: consumer.seek_to_time(0),
        lambda: consumer.pause([where]),
        lambda: consumer.resume([where]),
        consumer.paused,
        lambda: consumer.offsets_for_times([where]),
        lambda: consumer.get_watermark_offsets(where),
        lambda: consumer.get_watermark_offsets(where, cached=True),
        consumer.lag,
        consumer.lag_max,
        lambda: consumer.current_lag(where),
        consumer.consumer_group_metadata,
        consumer.memberid,
        consumer.rebalance_protocol,
    ):
        with pytest.raises(RuntimeError, match="Consumer closed"):
            call()
    with pytest.raises(RuntimeError, match="Handle has been closed"):
        consumer.list_topics()
    assert list(consumer) == []
    assert "closed" in repr(consumer)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork() here")
def test_calls_of_a_group_member_raise_in_a_forked_child(client: Client, topic: str):
    with subscribed(client, topic) as consumer:
        read(consumer, 3)
        pid = os.fork()
        if pid == 0:
            refused = 0
            for call in (consumer.unsubscribe, consumer.commit, consumer.lag, consumer.memberid):
                try:
                    call()
                except RuntimeError as error:
                    refused += "after fork()" in str(error)
            consumer.close()
            os._exit(refused)
        _, status = os.waitpid(pid, 0)
        assert os.waitstatus_to_exitcode(status) == 4
        assert len(read(consumer, 17)) == 17


def test_commit_inside_on_commit(client: Client, topic: str):
    """on_commit may commit, but one poll() doesn't call it endlessly."""
    with manual(client) as consumer:
        count = 0

        def on_commit(error: KafkaError | None, partitions: list[TopicPartition]) -> None:
            nonlocal count
            before, count = count, count + 1
            consumer.commit(offsets=[TopicPartition(topic, 0, count)], asynchronous=False)
            assert count == before + 1, "a synchronous commit doesn't call on_commit"
            consumer.commit(offsets=[TopicPartition(topic, 0, count)])

        consumer.on_commit = on_commit
        consumer.commit(offsets=[TopicPartition(topic, 0, 0)])

        def turn() -> None:
            consumer.poll(0.01)
            if count > 10:
                raise StopAsyncIteration

        with pytest.raises(StopAsyncIteration):
            forever(turn)
        consumer.on_commit = None


# --- in a group ---


def test_initial_offsets_are_used_unless_offsets_are_committed(client: Client, topic: str):
    with group(client, **{"auto.offset.reset": "earliest"}) as consumer:
        first = TopicPartition(topic, 0, 7)
        consumer.subscribe([topic], initial_offsets=[first, TopicPartition(topic, 1, OFFSET_END)])
        assert [message.offset() for message in take(consumer, 3)] == [7, 8, 9]
        consumer.commit(asynchronous=False)
        consumer.unsubscribe()
        consumer.subscribe(
            [topic], initial_offsets=[TopicPartition(topic, 0, 2), TopicPartition(topic, 1, 8)]
        )
        found = [(message.partition(), message.offset()) for message in take(consumer, 2)]
        assert found == [(1, 8), (1, 9)]
        with pytest.raises(ValueError, match="each needs an offset"):
            consumer.subscribe([topic], initial_offsets=[TopicPartition(topic, 0)])


def test_member_cannot_commit_unassigned_partitions(client: Client, topic: str):
    other = client.topic()
    with subscribed(client, topic, **{"auto.offset.reset": "earliest"}) as consumer:
        take(consumer, 20)
        foreign = TopicPartition(other, 0, 5)
        code = code_of(lambda: consumer.commit(offsets=[foreign], asynchronous=False))
        assert code == KafkaError._STATE
        mine, theirs = consumer.commit(
            offsets=[TopicPartition(topic, 0, 4), foreign], asynchronous=False
        )
        assert mine.error is None
        assert theirs.error.code() == KafkaError._STATE
        found = consumer.committed([TopicPartition(topic, 0), TopicPartition(other, 0)], 10)
        assert [each.offset for each in found] == [4, OFFSET_INVALID]


def test_close_ends_a_request_that_another_thread_waits_for(client: Client, topic: str):
    codes: list[int] = []
    consumer = manual(client)
    client.cluster.clear_requests()
    where = [TopicPartition(topic, 0, 1)]
    # no leader is known, so no broker gets a request yet
    client.cluster.delay_responses(None, 60, ApiKey.METADATA)
    try:
        waiting = threading.Thread(
            target=lambda: codes.append(code_of(lambda: consumer.offsets_for_times(where, 50)))
        )
        waiting.start()
        wait_for(lambda: client.cluster.requests_of(ApiKey.METADATA))
        consumer.close()
        waiting.join(20)
        assert not waiting.is_alive()
    finally:
        client.cluster.delay_responses(None, 0, ApiKey.METADATA)
        waiting.join(60)
    assert codes == [KafkaError._DESTROY]
