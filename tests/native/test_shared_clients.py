"""Clients, and the parts of a client, that several threads use at once.

On a Python with an interpreter lock these tests check the results. On a free-threaded Python the
threads really run at once: see docs/internals/free-threading.md.
"""

from __future__ import annotations

import gc
import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from kafka_native import Consumer, Message, PartitionQueue, Producer, TopicPartition
from kafka_native._native import snapshots
from kafka_native._native.consumer_core import Notice
from kafka_native._native.coroutines import AIOProducerCore, WakeupFd
from kafka_native._native.delivery import Delivery
from kafka_native._native.delivery_core import Report
from kafka_native._native.engine import Engine, live_objects
from kafka_native._native.message import Batch
from kafka_native.internal import Relay, keep_batches, open_relay, take_batches
from kafka_native.mock import MockCluster
from tests.client.support import bare_engine
from tests.native.at_once import run_at_once
from tests.waiting import WAIT_S, wait_for

COUNT = 3000
PARTITIONS = 3
ROUNDS = 200
NO_ID = bytes(16)
_numbers = itertools.count()


@pytest.fixture(scope="module")
def cluster() -> Iterator[MockCluster]:
    with MockCluster() as running:
        yield running


@pytest.fixture
def topic(cluster: MockCluster) -> str:
    """Return a topic whose partitions have `COUNT` messages each."""
    name = f"topic-{next(_numbers)}"
    cluster.create_topic(name, PARTITIONS)
    with Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 5}) as producer:
        for partition in range(PARTITIONS):
            for number in range(COUNT):
                producer.produce(name, b"%d" % number, partition=partition)
                producer.poll(0)
        assert producer.flush(WAIT_S) == 0
    return name


def consumer_of(cluster: MockCluster, topic: str, count: int = PARTITIONS) -> Consumer:
    """Return a consumer that has so many partitions, from their beginning."""
    conf = {"bootstrap.servers": cluster.bootstrap_servers, "fetch.wait.max.ms": 50}
    consumer = Consumer(conf)
    consumer.assign([TopicPartition(topic, number, 0) for number in range(count)])
    return consumer


def place(message: Message) -> tuple[int | None, int | None]:
    assert message.error() is None
    return message.partition(), message.offset()


def test_each_message_goes_to_one_thread(cluster: MockCluster, topic: str) -> None:
    found: Counter[tuple[int | None, int | None]] = Counter()
    lock = threading.Lock()

    with consumer_of(cluster, topic) as consumer:

        def until_all(take: Callable[[], list[Any]]) -> None:
            while len(found) < PARTITIONS * COUNT:
                places = take()
                with lock:
                    found.update(places)

        def poll() -> list[Any]:
            return [place(each) for each in [consumer.poll(0.01)] if each is not None]

        def consume() -> list[Any]:
            return [place(each) for each in consumer.consume(7, 0.01)]

        def call_back() -> list[Any]:
            places: list[Any] = []
            consumer.consume_callback(lambda each: places.append(place(each)), timeout=0.01)
            return places

        def consume_columns() -> list[Any]:
            batch = consumer.consume_arrow(5, 0.01, columns=["partition", "offset"])
            table = pytest.importorskip("pyarrow").record_batch(batch)
            return list(zip(*(column.to_pylist() for column in table.columns), strict=True))

        ways = [poll, consume, call_back, consume_columns]
        run_at_once(*(partial(until_all, way) for way in ways))
        assert max(found.values()) == 1
        expected = {(number, each) for number in range(PARTITIONS) for each in range(COUNT)}
        assert set(found) == expected
        positions = consumer.position([TopicPartition(topic, each) for each in range(PARTITIONS)])
        assert [each.offset for each in positions] == [COUNT] * PARTITIONS


def test_a_seek_has_its_effect_while_others_take(cluster: MockCluster, topic: str) -> None:
    done = threading.Event()

    with consumer_of(cluster, topic, 1) as consumer:

        def take() -> list[int]:
            offsets = []
            while not done.is_set():
                offsets += [each.offset() or 0 for each in consumer.consume(10, 0.01)]
            return offsets

        def seek() -> None:
            for number in range(ROUNDS):
                consumer.seek(TopicPartition(topic, 0, number % 100))
                consumer.position([TopicPartition(topic, 0)])
            done.set()

        run_at_once(take, take, seek)
        consumer.seek(TopicPartition(topic, 0, 1234))
        message = consumer.poll(WAIT_S)
        assert message is not None
        assert message.offset() == 1234


def test_queues_end_while_threads_take_from_them(cluster: MockCluster, topic: str) -> None:
    found: Counter[tuple[int | None, int | None]] = Counter()
    lock = threading.Lock()
    done = threading.Event()

    with consumer_of(cluster, topic) as consumer:
        current: list[tuple[int, PartitionQueue]] = []

        def take() -> None:
            while not done.is_set():
                if not current:
                    continue
                number, queue = current[-1]
                try:
                    message = queue.poll(0.01)
                except RuntimeError:
                    continue  # it was closed
                if message is not None:
                    assert place(message)[0] == number
                    with lock:
                        found[place(message)] += 1

        def has_found(count: int) -> bool:
            return len(found) >= count

        def replace() -> None:
            for number in range(ROUNDS):
                partition = number % PARTITIONS
                queue = consumer.partition_queue(TopicPartition(topic, partition))
                current.append((partition, queue))
                wait_for(partial(has_found, number), "messages")
                queue.close()
            done.set()

        run_at_once(take, take, replace)
        assert max(found.values()) == 1


def test_a_relay_has_one_thread_at_a_time(cluster: MockCluster, topic: str) -> None:
    target = f"{topic}-copy"
    cluster.create_topic(target, 1)
    conf = {"bootstrap.servers": cluster.bootstrap_servers}
    refused: list[str] = []

    with Consumer(conf) as consumer, Producer(conf) as producer:
        keep_batches(consumer)
        consumer.assign([TopicPartition(topic, 0, 0)])
        with open_relay(producer, target, 0) as relay:

            def run() -> bool:
                try:
                    return relay.run(10, 0.01)
                except RuntimeError as error:
                    refused.append(str(error))
                    return False

            while relay.rows < COUNT:
                batches = take_batches(consumer, 1.0)
                relay.give(batches, 0, 1 << 60)
                while not any(run_at_once(run, run)):
                    producer.poll(0)
        assert producer.flush(WAIT_S) == 0
    assert set(refused) <= {"another thread is using this relay"}
    expected = [b"%d" % number for number in range(COUNT)]
    assert [record.value for record in cluster.messages(target, 0)] == expected


def test_one_of_two_relays_takes_the_batches(cluster: MockCluster, topic: str) -> None:
    target = f"{topic}-copies"
    cluster.create_topic(target, 1)
    conf = {"bootstrap.servers": cluster.bootstrap_servers}
    with Consumer(conf) as consumer, Producer(conf) as producer:
        keep_batches(consumer)
        consumer.assign([TopicPartition(topic, 0, 0)])
        batches = take_batches(consumer, WAIT_S)
        assert batches
        relays = [open_relay(producer, target, 0) for _ in range(2)]

        def relay_all(relay: Relay) -> int:
            relay.give(batches, 0, 1 << 60)
            while not relay.run(1 << 40, 0.2):
                pass
            return relay.rows

        rows = run_at_once(*(partial(relay_all, relay) for relay in relays))
        for relay in relays:
            relay.close()
        assert producer.flush(WAIT_S) == 0
        assert min(rows) == 0
        assert max(rows) == len(cluster.messages(target, 0)) > 0


def take_until_closed(consumer: Consumer) -> str:
    """Return the text of the exception that the close of the consumer causes."""
    try:
        while True:
            consumer.poll(0.01)
    except RuntimeError as error:
        return str(error)


def test_threads_close_a_consumer_that_others_use(cluster: MockCluster, topic: str) -> None:
    engines = live_objects()["engines"]
    for _ in range(10):
        consumer = consumer_of(cluster, topic)
        take = partial(take_until_closed, consumer)
        found = run_at_once(take, take, consumer.close, consumer.close)
        assert found == ["Consumer closed", "Consumer closed", None, None]
        del consumer, take
    wait_for(lambda: live_objects()["engines"] <= engines, "freed engines")


def use_engine(engine: Engine, fds: list[WakeupFd]) -> set[int]:
    """Make the short calls of an engine, and return the counts of its messages and bytes."""
    found = set()
    for _ in range(ROUNDS):
        engine.kick()
        engine.kick_control()
        found.add(engine.outstanding + engine.unsettled + sum(engine.memory))
        engine.next_events()
        for each in fds:
            assert each.fileno() >= 0
            each.clear()
    return found


def measure_until_closed(engine: Engine) -> str:
    """Take snapshots, and return the text of the exception that ends it."""
    topic = engine.topic("topic-0")
    try:
        while True:
            snapshots.client_snapshot(engine)
            snapshots.topic_snapshot(topic, True)
            snapshots.idle_us(engine)
    except RuntimeError as error:
        return str(error)


def end_engine(engine: Engine, fds: list[WakeupFd]) -> None:
    """Close and release an engine, and the descriptors that keep it."""
    engine.close()
    engine.release()
    for each in fds:
        each.close()


def test_objects_that_are_made_under_a_lock_begin_no_garbage_collection() -> None:
    """On CPython 3.10 and 3.11 it would run within the call, and Python code with it."""
    have_gc = 1 << 14  # Py_TPFLAGS_HAVE_GC
    assert [each for each in (Batch, Message, Notice, Report) if each.__flags__ & have_gc] == []


def test_calls_of_an_engine_that_is_released() -> None:
    before = live_objects()["engines"]
    for _ in range(20):
        engine = bare_engine()
        engine.topic("topic-0")
        fds = [WakeupFd(engine, each) for each in (False, True)]
        calls: list[Callable[[], Any]] = [
            partial(use_engine, engine, fds),
            partial(use_engine, engine, fds),
            partial(measure_until_closed, engine),
            partial(end_engine, engine, fds),
        ]
        assert run_at_once(*calls) == [{0}, {0}, "the client is closed", None]
        del engine, fds, calls
    wait_for(lambda: live_objects()["engines"] <= before, "freed engines")


def check_that_threads_get_the_same_topics(count: int) -> None:
    engine = bare_engine()
    names = [f"topic-{number}" for number in range(count)]
    found = run_at_once(*[lambda: [engine.topic(name) for name in names]] * 4)
    for topics in zip(*found, strict=True):
        assert len({id(each) for each in topics}) == 1
    assert len(engine.topics) == count
    engine.close()


def test_threads_get_the_same_topic() -> None:
    check_that_threads_get_the_same_topics(ROUNDS)


def test_threads_get_the_same_topic_although_the_collector_runs_python_code() -> None:
    """On CPython 3.10 and 3.11 it runs within a call, and another thread may go on meanwhile."""

    def pause(phase: str, info: object) -> None:
        time.sleep(0.001)

    usual = gc.get_threshold()
    gc.callbacks.append(pause)
    try:
        for threshold in range(2, 30):  # it runs at another place each time
            gc.set_threshold(threshold)
            check_that_threads_get_the_same_topics(20)
    finally:
        gc.callbacks.remove(pause)
        gc.set_threshold(*usual)


class Loop:
    """The part of an event loop that a Delivery uses."""

    def __init__(self) -> None:
        self.calls: list[Callable[[Delivery], object]] = []

    def is_closed(self) -> bool:
        return False

    def call_soon(self, function: Any, *args: Any, context: Any) -> None:
        self.calls.append(function)


Callbacks = list[Callable[[Delivery[str]], object]]


def callbacks() -> Callbacks:
    """Return different functions for `Delivery.add_done_callback()`."""
    return [partial(print, number) for number in range(20)]


def add_all(delivery: Delivery[str], functions: Callbacks) -> None:
    for function in functions:
        delivery.add_done_callback(function)


def add_and_remove_all(delivery: Delivery[str], functions: Callbacks) -> None:
    for function in functions:
        delivery.add_done_callback(function)
        assert delivery.remove_done_callback(function) == 1


def result_of(delivery: Delivery[str]) -> str:
    """Return the result as soon as there is one."""
    while not delivery.done():
        repr(delivery)
    return delivery.result()


def test_each_callback_of_a_delivery_is_called_once() -> None:
    for _ in range(ROUNDS):
        loop = Loop()
        delivery: Delivery[str] = Delivery(loop, Exception)  # type: ignore[arg-type]
        first, second = callbacks(), callbacks()
        *_, result = run_at_once(
            partial(add_all, delivery, first),
            partial(add_all, delivery, second),
            partial(delivery, None, "one"),
            partial(delivery, None, "other"),
            partial(result_of, delivery),
        )
        assert result in ("one", "other")
        assert not delivery.cancel()
        assert Counter(loop.calls) == Counter(first + second)


def test_removed_callbacks_of_a_delivery_are_not_called() -> None:
    for _ in range(ROUNDS):
        loop = Loop()
        delivery: Delivery[str] = Delivery(loop, Exception)  # type: ignore[arg-type]
        run_at_once(*(partial(add_and_remove_all, delivery, callbacks()) for _ in range(2)))
        assert delivery.cancel()
        assert loop.calls == []


class SlowCore(AIOProducerCore):
    """A producer whose calls wait for nothing and return their value."""

    def __init__(self) -> None:
        self._slow = True

    async def _produce_slowly(self, topic: str, value: Any, *args: Any) -> Any:
        return value


def outcome_of(call: Any) -> object:
    """Return what a coroutine returns, or the type of its exception."""
    try:
        call.send(None)
    except StopIteration as end:
        return end.value
    except (RuntimeError, ValueError) as error:
        return type(error)
    raise AssertionError("it waits")


def test_a_call_of_produce_is_awaited_once() -> None:
    core = SlowCore()
    for number in range(ROUNDS):
        call: Any = core.produce("t", number)
        results = run_at_once(partial(outcome_of, call), partial(outcome_of, call))
        assert results.count(number) == 1, results
