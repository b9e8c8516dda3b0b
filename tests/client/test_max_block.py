"""max.block.ms: produce() waits for room in a full queue. It needs no poll() and can be ended."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial

import pytest

from kafka_native import KafkaError, Producer
from kafka_native.mock import MockCluster

from .support import NOWHERE, Client, deliver, errors_into, interrupted, read_all, takes, together

SMALL = {"queue.buffering.max.messages": 10}


def full(**conf: object) -> Producer:
    """Return a producer whose queue stays full, because there is no broker."""
    producer = Producer({**NOWHERE, **SMALL, "linger.ms": 0, **conf})
    for number in range(10):
        producer.produce("t", str(number))
    return producer


def in_thread(work: Callable[[], object]) -> tuple[threading.Thread, list[object]]:
    """Run a function in a thread. The list gets its result or exception."""
    outcome: list[object] = []

    def run() -> None:
        try:
            outcome.append(work())
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, outcome


def test_queue_gets_room_without_poll(client: Client, topic: str):
    reports: list[KafkaError | None] = []
    with client.producer(**SMALL, **{"max.block.ms": 20_000, "linger.ms": 0}) as producer:
        for number in range(500):
            producer.produce(topic, str(number), on_delivery=errors_into(reports))
        assert reports == []  # no poll()
        assert producer.flush(20) == 0
    assert reports == [None] * 500
    assert [m.value() for m in read_all(client, topic, 500)] == [
        str(number).encode() for number in range(500)
    ]


def test_messages_in_a_full_queue_do_not_linger(client: Client, topic: str):
    with client.producer(**SMALL, **{"max.block.ms": 20_000, "linger.ms": 60_000}) as producer:
        with takes(less_than_s=19):
            for number in range(35):
                producer.produce(topic, str(number))
        assert producer.flush(20) == 0


def test_produce_waits_for_bytes_too(client: Client, topic: str):
    with client.producer(
        **{"queue.buffering.max.kbytes": 4, "max.block.ms": 20_000, "linger.ms": 0}
    ) as producer:
        for _ in range(50):
            producer.produce(topic, bytes(3000), headers={"size": "3000"})
        assert producer.flush(20) == 0
    assert len(read_all(client, topic, 50)) == 50


def test_message_larger_than_the_whole_queue_is_not_waited_for(client: Client):
    with client.producer(**{"queue.buffering.max.kbytes": 1, "max.block.ms": 30_000}) as producer:
        with takes(less_than_s=20), pytest.raises(BufferError, match="Queue full"):
            producer.produce(client.topic(), bytes(5000))
        assert len(producer) == 0


def test_buffer_error_is_raised_after_max_block_ms():
    producer = full(**{"max.block.ms": 300})
    with takes(less_than_s=5, at_least_s=0.29), pytest.raises(BufferError, match="Queue full"):
        producer.produce("t", b"x")
    assert len(producer) == 10
    producer.close(0)


def test_produce_does_not_wait_by_default():
    producer = full()
    with takes(less_than_s=20), pytest.raises(BufferError):
        producer.produce("t", b"x")
    producer.close(0)


def test_signal_ends_the_wait_at_once():
    producer = full(**{"max.block.ms": 60_000})
    for call in (
        lambda: producer.produce("t", b"x"),
        lambda: producer.produce_many("t", [b"x", b"y"]),
        lambda: producer.produce_batch("t", [{"value": b"x"}]),
    ):
        with takes(less_than_s=30), interrupted(after_s=0.1):
            call()
    assert len(producer) == 10
    producer.close(0)


def test_close_from_another_thread_ends_every_wait():
    producer = full(**{"max.block.ms": 60_000})
    waiting = [in_thread(lambda: producer.produce("t", b"x")) for _ in range(3)]
    waiting.append(in_thread(lambda: producer.produce_many("t", [b"x"])))
    waiting.append(in_thread(lambda: producer.produce_batch("t", [{"value": b"x"}])))
    time.sleep(0.2)
    assert all(thread.is_alive() for thread, _ in waiting)
    producer.close(0)
    for thread, outcome in waiting:
        thread.join(10)
        assert not thread.is_alive()
        assert isinstance(outcome[0], RuntimeError)
        assert "closed" in str(outcome[0])


def test_purge_makes_room():
    producer = full(**{"max.block.ms": 60_000})
    thread, outcome = in_thread(lambda: producer.produce("t", b"x"))
    time.sleep(0.1)
    assert thread.is_alive()
    producer.purge()
    thread.join(10)
    assert not thread.is_alive()
    assert outcome == [None]
    assert len(producer) >= 1
    producer.close(0)


def test_timed_out_messages_make_room():
    started = time.monotonic()
    producer = full(**{"max.block.ms": 60_000, "message.timeout.ms": 300})
    producer.produce("t", b"x")
    assert 0.29 < time.monotonic() - started < 10
    producer.close(0)


def test_many_threads_wait_in_order_and_lose_nothing(client: Client):
    topic = client.topic(partitions=4)
    with client.producer(**SMALL, **{"max.block.ms": 60_000, "linger.ms": 0}) as producer:

        def work(thread: int) -> None:
            for number in range(300):
                producer.produce(
                    topic,
                    f"{thread}:{number}",
                    partition=thread % 4,
                    headers=[("thread", str(thread))],
                )

        assert together(*(partial(work, thread) for thread in range(8))) == [None] * 8
        assert producer.flush(20) == 0
    seen: dict[int, list[int]] = {}
    for message in read_all(client, topic, 8 * 300):
        thread, number = map(int, message.value().decode().split(":"))
        assert message.headers() == [("thread", str(thread).encode())]
        seen.setdefault(thread, []).append(number)
    assert seen == {thread: list(range(300)) for thread in range(8)}


def test_produce_many_waits_in_the_middle(client: Client, topic: str):
    values = [str(number) for number in range(1000)]
    before = int(time.time() * 1000)
    with client.producer(**SMALL, **{"max.block.ms": 20_000, "linger.ms": 0}) as producer:
        assert (
            producer.produce_many(
                topic, values, keys=values, headers=[{"n": value} for value in values]
            )
            == 1000
        )
        assert producer.flush(20) == 0
    messages = read_all(client, topic, 1000)
    assert [m.value() for m in messages] == [value.encode() for value in values]
    assert [m.headers() for m in messages] == [[("n", value.encode())] for value in values]
    assert all(before <= m.timestamp()[1] <= time.time() * 1000 for m in messages)


def test_produce_many_returns_the_number_of_queued_messages_after_max_block_ms(
    cluster: MockCluster, client: Client
):
    topic = client.topic()
    with client.producer(**SMALL, **{"max.block.ms": 200, "linger.ms": 0}) as producer:
        deliver(producer, topic, b"first")
        cluster.delay_responses(cluster.leader(topic, 0), 60.0)
        try:
            with takes(less_than_s=5.0, at_least_s=0.19):
                assert producer.produce_many(topic, [b"x"] * 25) == 10
        finally:
            cluster.delay_responses(cluster.leader(topic, 0), 0)
            cluster.advance(60)
        assert producer.flush(20) == 0


def test_produce_batch_waits_once_and_then_marks_the_rest():
    producer = Producer({**NOWHERE, **SMALL, "max.block.ms": 300})
    messages = [{"value": str(number)} for number in range(30)]
    with takes(less_than_s=5, at_least_s=0.29):  # once, not for each of the 20
        assert producer.produce_batch("t", messages) == 10
    assert [m["_error"].code() for m in messages[10:]] == [KafkaError._QUEUE_FULL] * 20
    producer.close(0)


def test_produce_in_a_callback_waits_as_well(client: Client, topic: str):
    done: list[bytes] = []
    with client.producer(
        **{"queue.buffering.max.messages": 1, "max.block.ms": 20_000, "linger.ms": 0}
    ) as producer:

        def again(error, message):
            done.append(message.value())
            if len(done) < 20:
                producer.produce(topic, b"a%d" % len(done), on_delivery=again)
                # there is no room: the previous message is still queued
                producer.produce(topic, b"b%d" % len(done))

        deliver(producer, topic, b"start", on_delivery=again)
    assert len(done) == 20
