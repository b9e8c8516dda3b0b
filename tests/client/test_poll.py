"""poll(), consume(), consume_callback() and iteration: their ends, callbacks and threads."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from kafka_native import Consumer, KafkaError, TopicPartition
from kafka_native.mock import MockCluster
from tests.waiting import wait_for

from .consumer_support import take, values
from .support import Client, assigned, fill, filled, interrupted, raises_code, together


def call_back(consumer: Consumer, callback: Callable[[], object]) -> None:
    """Queue a callback for poll(), as the control thread does."""
    consumer._client.engine.callbacks.append(callback)
    consumer._client.engine.kick()


def polls(consumer: Consumer) -> int:
    """Return how often the application has polled."""
    return consumer._poll_counts()[0]


def polling(consumer: Consumer) -> int:
    """Return how many threads of the application poll now."""
    return consumer._poll_counts()[1]


@pytest.fixture
def full(client: Client):
    """Yield a consumer whose ten messages are all queued."""
    topic = filled(client, 10)
    with assigned(client, topic) as consumer:
        assert values([consumer.poll(10)]) == [0]
        yield consumer


# --- wakeup ---


@pytest.mark.parametrize(
    ("begin", "outcome"),
    [
        (lambda consumer: consumer.poll(), None),
        (lambda consumer: consumer.poll(60), None),
        (lambda consumer: consumer.consume(5, 60), []),
        (lambda consumer: consumer.consume(None, 60), []),
        (lambda consumer: list(consumer), []),
        (lambda consumer: consumer.consume_callback(print, timeout=60), 0),
    ],
)
@pytest.mark.parametrize("before", [True, False])
def test_wakeup_ends_the_current_or_the_next_wait(client: Client, begin, outcome, before: bool):
    outcomes = []
    with client.consumer() as consumer:
        thread = threading.Thread(target=lambda: outcomes.append(begin(consumer)))
        if before:
            consumer.wakeup()
            thread.start()
        else:
            thread.start()
            wait_for(lambda: polling(consumer))
            consumer.wakeup()
        thread.join(20)
        assert not thread.is_alive()
        assert outcomes == [outcome]
        assert consumer.poll(0) is None


def test_wakeup_from_a_signal_handler(client: Client):
    with client.consumer() as consumer:
        before = signal.signal(signal.SIGALRM, lambda number, frame: consumer.wakeup())
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            assert consumer.poll() is None
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            assert list(consumer) == []
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


def test_wakeup_ends_iteration_over_queued_messages_which_then_continues(full: Consumer):
    found = []
    for message in full:
        found.append(message)
        if len(found) == 4:
            full.wakeup()
    assert values(found) == [1, 2, 3, 4]
    for message in full:
        found.append(message)
        if len(found) == 9:
            break
    assert values(found) == list(range(1, 10))


def test_consume_returns_its_messages_after_wakeup(client: Client, topic: str):
    fill(client, topic, 5, partition=0)
    with assigned(client, topic) as consumer:
        found: list[Any] = []
        thread = threading.Thread(target=lambda: found.extend(consumer.consume(100, 60)))
        thread.start()
        where = [TopicPartition(topic, 0)]
        wait_for(lambda: consumer.position(where)[0].offset == 5)
        consumer.wakeup()
        thread.join(20)
        assert not thread.is_alive()
        assert values(found) == list(range(5))


def test_wakeup_of_a_closed_consumer_does_nothing(client: Client):
    consumer = client.consumer()
    consumer.close()
    consumer.wakeup()


# --- max.poll.records, the legacy consumer's callback ---


def test_consume_without_a_number_returns_up_to_max_poll_records_queued_messages(client: Client):
    topic = filled(client, 10)
    with assigned(client, topic, **{"max.poll.records": 4}) as consumer:
        found = [values(consumer.consume(None, 60)) for _ in range(3)]
        assert found == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]  # without waiting for the timeout
        assert consumer.consume(None, 0) == []


def test_consume_callback_gets_queued_messages_one_by_one(full: Consumer):
    found: list[Any] = []
    assert full.consume_callback(found.append, 3, 10) == 3
    assert values(found) == [1, 2, 3]
    assert full.consume_callback(found.append, timeout=10) == 6
    assert values(found) == list(range(1, 10))
    assert full.consume_callback(found.append, timeout=0) == 0


def test_consume_callback_honours_its_property(client: Client, topic: str):
    fill(client, topic, 10, partition=0)
    with assigned(client, topic, **{"consume.callback.max.messages": 2}) as consumer:
        found: list[Any] = []
        assert consumer.consume_callback(found.append, timeout=10) == 2
        assert consumer.consume_callback(found.append, 0, timeout=10) == 8
        assert values(found) == list(range(10))


def test_consume_callback_ends_although_messages_keep_coming(client: Client, topic: str):
    fill(client, topic, 10, partition=0)
    with assigned(client, topic) as consumer, client.producer() as producer:
        count = 0

        def on_message(message: Any) -> None:
            nonlocal count
            count += 1
            producer.produce(topic, str(message.offset()), partition=0)
            producer.flush(10)
            assert count < 10_000, "it never ends"

        assert consumer.consume_callback(on_message, timeout=10) >= 1


def test_exception_of_a_consume_callback_is_raised_and_the_next_message_follows(full: Consumer):
    found: list[int] = []

    def on_message(message: Any) -> None:
        found.append(int(message.value()))
        if len(found) == 3:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        full.consume_callback(on_message, timeout=10)
    assert full.consume_callback(on_message, timeout=10) == 6
    assert found == list(range(1, 10))


def test_consume_callback_may_seek_poll_wake_and_close(full: Consumer):
    [where] = full.assignment()
    found: list[int] = []

    def on_message(message: Any) -> None:
        found.append(int(message.value()))
        if len(found) == 1:
            found.append(int(full.poll(10).value()))
        elif len(found) == 3:
            full.wakeup()
        elif len(found) == 4:
            full.seek(TopicPartition(where.topic, 0, 7))
        elif message.offset() == 8:
            full.close()

    assert full.consume_callback(on_message, timeout=10) == 2
    while 8 not in found:
        full.consume_callback(on_message, timeout=10)
    assert found == [1, 2, 3, 4, 7, 8]
    with pytest.raises(RuntimeError, match="Consumer closed"):
        full.consume_callback(on_message)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [((None,), TypeError), ((print, -1), ValueError), ((print, "1"), TypeError)],
)
def test_consume_callback_checks_its_arguments(client: Client, arguments, error):
    with client.consumer() as consumer, pytest.raises(error):
        consumer.consume_callback(*arguments)


# --- callbacks ---


def test_callbacks_come_before_messages(full: Consumer):
    [where] = full.assignment()
    call_back(full, lambda: full.seek(TopicPartition(where.topic, 0, 7)))
    assert values([full.poll(10)]) == [7]
    call_back(full, full.unassign)
    assert full.consume(5, 0.2) == []


@pytest.mark.parametrize(
    "begin",
    [
        lambda consumer: consumer.poll(60),
        lambda consumer: consumer.consume(5, 60),
        lambda consumer: next(consumer),
        lambda consumer: consumer.consume_callback(print, timeout=60),
    ],
)
@pytest.mark.parametrize("waiting", [True, False])
def test_exception_of_a_callback_is_raised_and_no_message_is_lost(
    client: Client, begin, waiting: bool
):
    topic = filled(client, 3)

    def broken() -> None:
        raise ZeroDivisionError

    with client.consumer() as consumer:
        if waiting:

            def later() -> None:
                wait_for(lambda: polling(consumer))
                call_back(consumer, broken)

            thread = threading.Thread(target=later)
            thread.start()
        else:
            consumer.assign([TopicPartition(topic, 0, 0)])
            assert values([consumer.poll(10)]) == [0]
            call_back(consumer, broken)
        called: list[int] = []
        call_back(consumer, lambda: None)
        with pytest.raises(ZeroDivisionError):
            begin(consumer)
        assert polling(consumer) == 0
        if waiting:
            thread.join()
            consumer.assign([TopicPartition(topic, 0, 0)])
            assert values(take(consumer, 3)) == [0, 1, 2]
        else:
            assert values(take(consumer, 2)) == [1, 2]
        call_back(consumer, lambda: called.append(1))
        consumer.poll(0)
        assert called == [1]


def test_consume_returns_its_messages_before_a_callback_runs(client: Client, topic: str):
    fill(client, topic, 5, partition=0)
    order: list[Any] = []
    with assigned(client, topic) as consumer:

        def consume() -> None:
            order.extend(values(consumer.consume(100, 60)))
            consumer.poll(0)

        thread = threading.Thread(target=consume)
        thread.start()
        wait_for(lambda: consumer.position([TopicPartition(topic, 0)])[0].offset == 5)
        call_back(consumer, lambda: order.append("callback"))
        thread.join(20)
        assert order == [0, 1, 2, 3, 4, "callback"]


def test_a_callback_that_polls_is_not_called_recursively(full: Consumer):
    depth = deepest = 0
    found: list[Any] = []

    def polls() -> None:
        nonlocal depth, deepest
        depth += 1
        deepest = max(depth, deepest)
        if len(found) < 5:
            call_back(full, polls)
        found.append(full.poll(10))
        depth -= 1

    call_back(full, polls)
    rest = [full.poll(10)]
    assert deepest == 1
    while len(found) + len(rest) < 9:
        rest.append(full.poll(10))
    assert sorted(values(found + rest)) == list(range(1, 10))


@pytest.mark.parametrize(
    ("begin", "outcome"),
    [
        (lambda consumer: consumer.poll(60), None),
        (lambda consumer: consumer.consume(5, 60), []),
        (lambda consumer: list(consumer), []),
        (lambda consumer: consumer.consume_callback(print, timeout=60), 0),
    ],
)
def test_a_callback_may_close(client: Client, begin, outcome):
    consumer = client.consumer()
    open_still = []

    def closes() -> None:
        consumer.close()
        open_still.append(consumer.assignment())  # close() takes effect afterwards

    call_back(consumer, closes)
    call_back(consumer, lambda: open_still.append("due when it is closed"))
    assert begin(consumer) == outcome
    assert open_still == [[], "due when it is closed"]
    with pytest.raises(RuntimeError, match="Consumer closed"):
        consumer.poll(0)
    consumer.close()


def test_a_callback_that_closes_and_raises_does_both(client: Client):
    consumer = client.consumer()

    def closes() -> None:
        consumer.close()
        raise ZeroDivisionError

    call_back(consumer, closes)
    with pytest.raises(ZeroDivisionError):
        consumer.poll(60)
    with pytest.raises(RuntimeError, match="Consumer closed"):
        consumer.poll(0)


def test_a_callback_is_no_poll(client: Client):
    """max.poll.interval.ms: an application that hangs in a callback doesn't poll."""
    with client.consumer() as consumer:
        seen = []
        call_back(consumer, lambda: seen.append((polls(consumer), polling(consumer))))
        consumer.poll(0)
        assert [polling for _, polling in seen] == [0]
        assert polls(consumer) > seen[0][0] > 0
        before = polls(consumer)
        consumer.consume(1, 0)
        assert polls(consumer) > before
        assert polling(consumer) == 0


# --- threads and signals ---


def test_no_message_is_taken_while_another_thread_is_in_a_callback(full: Consumer):
    entered, leave = threading.Event(), threading.Event()
    outcomes: list[Any] = []

    def slow() -> None:
        entered.set()
        assert leave.wait(20)
        full.unassign()

    call_back(full, slow)
    first = threading.Thread(target=lambda: outcomes.append(full.poll(0)))
    first.start()
    assert entered.wait(20)
    assert full.poll(0) is None
    assert full.consume(3, 0) == []
    second = threading.Thread(target=lambda: outcomes.append(full.poll(1)))
    second.start()
    wait_for(lambda: polling(full))
    leave.set()
    first.join(20)
    second.join(20)
    assert outcomes == [None, None]  # no message of the unassigned partition


def test_two_threads_share_the_messages(client: Client, topic: str):
    fill(client, topic, 2000, partition=0)
    with assigned(client, topic) as consumer:
        found: list[list[int]] = [[], []]

        def read(into: list[int]) -> None:
            while sum(map(len, found)) < 2000:
                into.extend(values(consumer.consume(7, 0.1)))
                if message := consumer.poll(0.1):
                    into.append(int(message.value()))

        assert together(*(partial(read, each) for each in found)) == [None, None]
        assert sorted(found[0] + found[1]) == list(range(2000))
        assert all(each == sorted(each) for each in found)


def test_messages_of_consume_are_not_lost_when_a_signal_handler_raises(client: Client, topic: str):
    fill(client, topic, 5, partition=0)

    with assigned(client, topic) as consumer:
        assert values([consumer.poll(10)]) == [0]
        with interrupted(after_s=0.3):
            consumer.consume(100, 60)
        assert consumer.position([TopicPartition(topic, 0)])[0].offset == 1
        assert values(take(consumer, 4)) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "begin", [lambda consumer: consumer.consume(100, 60), lambda consumer: list(consumer)]
)
def test_close_in_another_thread_ends_waits(client: Client, topic: str, begin):
    fill(client, topic, 5, partition=0)
    consumer = assigned(client, topic)
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.extend(begin(consumer)))
    thread.start()
    wait_for(lambda: consumer.position([TopicPartition(topic, 0)])[0].offset == 5)
    consumer.close()
    thread.join(20)
    assert not thread.is_alive()
    assert values(found) == list(range(5))


# --- errors ---


def test_a_fatal_error_is_a_message_and_iteration_raises_it_each_time(client: Client):
    with client.consumer() as consumer:
        cause = KafkaError(KafkaError.FENCED_INSTANCE_ID)
        consumer._client.main.post(lambda: consumer._client.on_fatal(cause))
        message = consumer.poll(10)
        assert message.error() == KafkaError._FATAL
        assert message.error().fatal()
        assert cause.str() in message.error().str()
        assert (message.topic(), message.partition(), message.offset()) == (None, None, None)
        assert consumer.poll(0.1) is None
        for _ in range(2):
            with raises_code(KafkaError._FATAL):
                next(consumer)


@pytest.mark.parametrize(
    "begin",
    [
        lambda consumer, timeout: consumer.poll(timeout),
        lambda consumer, timeout: consumer.consume(1, timeout),
    ],
)
def test_wrong_timeouts_are_refused_and_endless_ones_accepted(client: Client, begin):
    with client.consumer() as consumer:
        with pytest.raises(TypeError):
            begin(consumer, "1")
        with pytest.raises(ValueError, match="number"):
            begin(consumer, float("nan"))
        for endless in (float("inf"), 1e300, None, -1, -1e300):
            consumer.wakeup()
            assert not begin(consumer, endless)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork() here")
def test_a_forked_child_gets_an_error(full: Consumer):
    pid = os.fork()
    if pid == 0:
        errors = 0
        for begin in (
            lambda: full.poll(0),
            lambda: full.consume(1, 0),
            lambda: next(full),
            lambda: full.consume_callback(print, 0, 0),
        ):
            try:
                begin()
            except RuntimeError as error:
                errors += "after fork()" in str(error)
        full.wakeup()
        full.close()
        os._exit(errors)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 4
    assert values([full.poll(10)]) == [1]


# --- fairness ---


def test_a_partition_with_much_to_read_does_not_starve_others(cluster: MockCluster, client: Client):
    brokers = len(cluster.broker_ids)
    small = (brokers, 2 * brokers)  # led by the same broker as partition 0
    topic = client.topic(partitions=2 * brokers + 1)
    fill(client, topic, 6000, partition=0, **{"batch.num.messages": 500})
    for number in small:
        fill(client, topic, 50, partition=number)
    limits = {"max.partition.fetch.bytes": 10_000, "fetch.max.bytes": 10_000}
    with client.consumer(**limits, **{"message.max.bytes": 9_000}) as consumer:
        consumer.assign([TopicPartition(topic, number, 0) for number in (0, *small)])
        found = take(consumer, 6100, 60)
    order = [message.partition() for message in found]
    for number in small:
        assert order.count(number) == 50
        # long before the end of the large one
        assert len(order) - 1 - order[::-1].index(number) < 4000


def test_new_message_of_a_quiet_partition_comes_before_the_end_of_a_busy_one(
    cluster: MockCluster, client: Client
):
    # led by the same broker as partition 0: both are in the same responses
    quiet = len(cluster.broker_ids)
    topic = client.topic(partitions=quiet + 1)
    fill(client, topic, 20_000, partition=0, **{"batch.num.messages": 500})
    settings = {"max.partition.fetch.bytes": 10_000, "queued.min.messages": 1000}
    with client.consumer(**settings) as consumer:
        consumer.assign([TopicPartition(topic, number, 0) for number in (0, quiet)])
        take(consumer, 500)
        fill(client, topic, 1, partition=quiet)
        behind = 0
        while consumer.poll(10).partition() == 0:
            behind += 1
        assert behind < 19_000
