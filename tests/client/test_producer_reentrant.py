"""produce(), poll() and flush() in callbacks, threads and close(): one report each, no deadlock."""

from __future__ import annotations

import gc
import itertools
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

import kafka_native.client_core
from kafka_native import KafkaError, Producer
from kafka_native._native.engine import live_objects

from .support import NOWHERE, Client, deliver, read_all, together

THREADS = 8


@pytest.fixture(autouse=True)
def eager_switches() -> Iterator[None]:
    """Make threads switch as often as possible."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


# --- from inside a callback ---


@pytest.mark.parametrize("call", ["poll", "flush", "both"])
def test_poll_and_flush_inside_a_callback_serve_other_reports(
    client: Client, topic: str, call: str
):
    seen: list[bytes] = []
    with client.producer(**{"batch.num.messages": 7}) as producer:

        def on_delivery(error: KafkaError | None, message: Any) -> None:
            assert error is None
            seen.append(message.value())
            if len(seen) < 40:  # so many nested calls
                if call != "flush":
                    producer.poll(0)
                if call != "poll":
                    assert producer.flush(10) >= 0

        for number in range(100):
            producer.produce(topic, str(number), on_delivery=on_delivery)
        assert producer.flush(20) == 0
    assert sorted(seen, key=int) == [str(number).encode() for number in range(100)]
    assert len(set(seen)) == 100


def test_flush_sends_messages_produced_inside_callbacks(client: Client, topic: str):
    seen: list[int] = []
    with client.producer(**{"linger.ms": 0}) as producer:

        def on_delivery(error: KafkaError | None, message: Any) -> None:
            number = int(message.value())
            seen.append(number)
            if number < 50:
                producer.produce(topic, str(number + 1), on_delivery=on_delivery)
                assert producer.produce_many(topic, []) == 0

        deliver(producer, topic, "0", on_delivery=on_delivery)
    assert seen == list(range(51))


def test_exception_in_a_nested_poll_loses_no_report(client: Client, topic: str):
    seen: list[bytes] = []
    raised = 0

    class Stop(Exception):
        pass

    with client.producer(**{"batch.num.messages": 3}) as producer:

        def on_delivery(error: KafkaError | None, message: Any) -> None:
            seen.append(message.value())
            if len(seen) % 5 == 0:
                raise Stop
            if len(seen) % 5 < 3:
                producer.poll(0)

        for number in range(50):
            producer.produce(topic, str(number), on_delivery=on_delivery)
        until = time.monotonic() + 20
        while len(producer) and time.monotonic() < until:
            try:
                producer.flush(5)
            except Stop:
                raised += 1
    assert raised == 10
    assert sorted(map(int, seen)) == list(range(50))


def test_close_inside_a_callback(client: Client, topic: str):
    outcomes: list[object] = []
    producer = client.producer(**{"linger.ms": 0, "batch.num.messages": 2})

    def on_delivery(error: KafkaError | None, message: Any) -> None:
        outcomes.append(message.value())
        if len(outcomes) == 3:
            producer.close()

    for number in range(10):
        producer.produce(topic, str(number), on_delivery=on_delivery)
    assert producer.flush(10) == 0
    assert sorted(outcomes) == [str(number).encode() for number in range(10)]
    with pytest.raises(RuntimeError, match="closed"):
        producer.produce(topic, b"x")


def test_purge_and_list_topics_inside_a_callback(client: Client, topic: str):
    names: list[bool] = []
    with client.producer() as producer:

        def on_delivery(error: KafkaError | None, message: Any) -> None:
            producer.purge()
            names.append(topic in producer.list_topics(topic, 10).topics)

        deliver(producer, topic, b"x", on_delivery=on_delivery)
    assert names == [True]


# --- from many threads ---


def test_threads_produce_poll_and_flush_at_once(client: Client):
    topic = client.topic(partitions=4)
    seen: Counter[bytes] = Counter()
    errors: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, message: Any) -> None:
        if error:
            errors.append(error)
        seen[message.value()] += 1

    with client.producer(**{"linger.ms": 1, "batch.num.messages": 50}) as producer:

        def work(thread: int) -> None:
            for number in range(500):
                producer.produce(
                    topic, f"{thread}:{number}", on_delivery=on_delivery, headers={"t": str(thread)}
                )
                if number % 7 == thread:
                    producer.poll(0)
                if number % 100 == 99:
                    assert producer.flush(20) >= 0

        assert together(*(lambda t=t: work(t) for t in range(THREADS))) == [None] * THREADS
        assert producer.flush(20) == 0
    assert errors == []
    assert seen == Counter(
        f"{thread}:{number}".encode() for thread in range(THREADS) for number in range(500)
    )
    for message in read_all(client, topic, THREADS * 500):
        assert message.headers() == [("t", message.value().split(b":")[0])]


@pytest.mark.parametrize("known", [True, False], ids=["known topic", "staged"])
def test_threads_serve_failed_batches_while_their_errors_are_made(
    client: Client, monkeypatch: pytest.MonkeyPatch, known: bool
):
    """Constructing a KafkaError runs Python code. Meanwhile another thread may call poll()."""
    make = kafka_native.client_core._ErrorOf.__call__

    def slowly(*what: Any) -> KafkaError:
        time.sleep(0.002)
        return make(*what)

    monkeypatch.setattr(kafka_native.client_core._ErrorOf, "__call__", slowly)
    topic = client.topic(partitions=3)
    seen: list[bytes] = []  # lists and sets, because counting isn't thread-safe
    codes: list[int | None] = []
    places: set[tuple[str, int, bytes]] = set()

    def on_delivery(error: KafkaError | None, message: Any) -> None:
        seen.append(message.value())
        codes.append(error.code() if error else None)
        places.add((message.topic(), message.partition(), message.key()))

    conf = {"linger.ms": 60_000, "batch.num.messages": 5}
    producer = client.producer(**conf) if known else Producer({**NOWHERE, **conf})
    if known:
        deliver(producer, topic, b"", partition=0)
        producer.close()
        producer = client.producer(**conf, **{"max.in.flight": 1})
    with producer:
        before = len(client.cluster.messages(topic, 0))
        for number in range(600):
            partition = number % 3
            producer.produce(
                topic, str(number), key=str(partition), partition=partition, on_delivery=on_delivery
            )
        producer.purge(in_flight=False)
        served = together(
            *(lambda: [producer.poll(0.05) for _ in range(40)] for _ in range(THREADS))
        )
        assert all(isinstance(outcome, list) for outcome in served), served
        assert producer.flush(20) == 0
        arrived = (
            sum(len(client.cluster.messages(topic, partition)) for partition in range(3)) - before
        )
    assert Counter(seen) == Counter(str(number).encode() for number in range(600))
    assert Counter(codes) == Counter({KafkaError._PURGE_QUEUE: 600 - arrived, None: arrived})
    assert places == {(topic, partition, str(partition).encode()) for partition in range(3)}


def test_two_threads_that_poll_get_each_report_once(client: Client, topic: str):
    offsets: list[int] = []

    with client.producer(**{"linger.ms": 0, "batch.num.messages": 3}) as producer:

        def on_delivery(error: KafkaError | None, message: Any) -> None:
            offsets.append(message.offset())

        for _ in range(300):
            producer.produce(topic, b"x", on_delivery=on_delivery)
        together(*(lambda: [producer.poll(0.02) for _ in range(30)] for _ in range(2)))
        assert producer.flush(20) == 0
    assert sorted(offsets) == list(range(300))


def test_one_thread_waits_in_poll_while_others_produce(client: Client, topic: str):
    served: list[int] = []
    with client.producer(**{"linger.ms": 1}) as producer:
        count = 0

        def on_delivery(error: KafkaError | None, message: Any) -> None:
            nonlocal count
            count += 1

        def serve() -> None:
            until = time.monotonic() + 30
            while count < 1000 and time.monotonic() < until:
                served.append(producer.poll(0.5))

        def send() -> None:
            for _ in range(500):
                producer.produce(topic, b"x", on_delivery=on_delivery)

        assert together(serve, send, send) == [None] * 3
    assert count == 1000
    assert 1 <= sum(served) <= 1000, "poll() counts batches"


def test_poll_and_flush_of_a_busy_producer_return(client: Client, topic: str):
    stop = threading.Event()
    with client.producer(
        **{"linger.ms": 0, "queue.buffering.max.messages": 1000, "max.block.ms": 20_000}
    ) as producer:

        def send() -> None:
            while not stop.is_set():
                producer.produce(topic, b"x", on_delivery=lambda error, message: None)

        senders = [threading.Thread(target=send) for _ in range(3)]
        for sender in senders:
            sender.start()
        limit = threading.Timer(15, stop.set)  # so that it always ends
        limit.start()
        try:
            started = time.monotonic()
            for _ in range(5):
                producer.poll(0)
            producer.flush(0.3)
            assert time.monotonic() - started < 10
            assert not stop.is_set()
        finally:
            stop.set()
            limit.cancel()
            for sender in senders:
                sender.join()
        assert producer.flush(20) == 0


# --- around close() ---


def test_calls_after_close_raise_runtime_errors(client: Client, topic: str):
    producer = client.producer()
    producer.produce(topic, b"x")
    producer.close()
    for call in (
        lambda: producer.produce(topic, b"x"),
        lambda: producer.produce_many(topic, [b"x"]),
        lambda: producer.produce_batch(topic, [{"value": b"x"}]),
        lambda: producer.poll(0),
        lambda: producer.poll(),
        lambda: producer.flush(),
        lambda: producer.purge(),
        lambda: producer.list_topics(timeout=1),
    ):
        with pytest.raises(RuntimeError, match="closed"):
            call()
    assert producer.close() is True
    assert len(producer) == 0
    assert "closed" in repr(producer)


@pytest.mark.parametrize("client_is_up", [True, False])
def test_close_while_others_produce_poll_and_flush(client: Client, topic: str, client_is_up: bool):
    for _ in range(3):
        seen: Counter[bytes] = Counter()
        queued: list[bytes] = []
        producer = (
            client.producer(**{"linger.ms": 0})
            if client_is_up
            else Producer({**NOWHERE, "linger.ms": 0})
        )

        def send(
            thread: int,
            producer: Producer = producer,
            queued: list[bytes] = queued,
            seen: Any = seen,
        ) -> None:
            for number in itertools.count():
                value = f"{thread}:{number}".encode()
                producer.produce(
                    topic, value, on_delivery=lambda error, message: seen.update([message.value()])
                )
                queued.append(value)

        def close(producer: Producer = producer) -> None:
            time.sleep(0.05)
            producer.close(0.5 if client_is_up else 0.0)

        def poll(producer: Producer = producer) -> None:
            while True:
                producer.poll(0.01)

        def flush(producer: Producer = producer) -> None:
            while True:
                producer.flush(0.01)

        outcomes = together(
            close, *(lambda t=t: send(t) for t in range(3)), poll, poll, flush, flush
        )
        assert outcomes[0] is None
        for outcome in outcomes[1:]:
            assert isinstance(outcome, (RuntimeError, BufferError)), outcome
        # A thread may have queued a message and not noted it yet.
        extra = Counter(seen) - Counter(queued)
        assert sum(extra.values()) <= 3
        assert not Counter(queued) - Counter(seen), "a message without a report"
        assert max(seen.values()) == 1


def test_close_from_many_threads(client: Client, topic: str):
    producer = client.producer()
    for _ in range(100):
        producer.produce(topic, b"x")
    outcomes = together(*(lambda: producer.close(10) for _ in range(THREADS)))
    assert all(outcome is True or isinstance(outcome, RuntimeError) for outcome in outcomes), (
        outcomes
    )
    assert len(read_all(client, topic, 100)) == 100


def test_dropped_producer_frees_its_objects(client: Client):
    gc.collect()
    before = live_objects()
    topic = client.topic()

    class Stop(Exception):
        pass

    def on_delivery(error: KafkaError | None, message: Any) -> None:
        raise Stop

    producer = client.producer(**{"batch.num.messages": 4, "linger.ms": 0})
    for _ in range(50):
        producer.produce(topic, b"x", on_delivery=on_delivery)
    with pytest.raises(Stop):
        producer.flush(10)
    # close() flushes, and raises a callback's exception: the producer is still open
    with pytest.raises(Stop):
        producer.close()
    producer.produce(topic, b"y")
    del producer
    gc.collect()
    assert live_objects() == before
