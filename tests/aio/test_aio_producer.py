"""AIOProducer: awaitable reports, a full queue, callbacks, close()."""

from __future__ import annotations

import asyncio
import gc
import inspect
import socket
import sys
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kafka_native import KafkaError, KafkaException, Message
from kafka_native._native import coroutines
from kafka_native.aio import AIOProducer
from kafka_native.mock import MockCluster
from kafka_native.protocol import ApiKey
from tests.waiting import WAIT_S

from .support import Client, in_loop, kafka_error, run, until


@in_loop
async def test_a_report_is_awaited(client: Client) -> None:
    topic = client.topic(2)
    async with client.producer() as producer:
        headers = [("kind", b"first"), ("none", None)]
        delivery = await producer.produce(
            topic, "value", key=b"key", partition=1, timestamp=5, headers=headers
        )
        message = await delivery
        assert (message.topic(), message.partition(), message.offset()) == (topic, 1, 0)
        assert (message.value(), message.key(), message.headers()) == (b"value", b"key", headers)
        assert message.timestamp()[1] == 5
        assert (delivery.done(), delivery.result(), delivery.exception()) == (True, message, None)
        assert await delivery is message, "it can be awaited again"


@in_loop
async def test_many_reports_come_in_order(client: Client) -> None:
    topic = client.topic()
    async with client.producer() as producer:
        deliveries = [await producer.produce(topic, str(number)) for number in range(5000)]
        messages = [await each for each in deliveries]
        assert [message.offset() for message in messages] == list(range(5000))
        assert len(producer) == 0


@in_loop
async def test_asyncio_accepts_reports_as_futures(client: Client) -> None:
    topic = client.topic()
    async with client.producer() as producer:
        first, second, third, fourth = await asyncio.gather(
            *(producer.produce(topic, b"x") for _ in range(4))
        )
        assert asyncio.isfuture(first)
        assert [each.offset() for each in await asyncio.gather(first, second)] == [0, 1]
        done, pending = await asyncio.wait({third}, timeout=WAIT_S)
        assert (done, pending) == ({third}, set())
        assert (await asyncio.wait_for(fourth, WAIT_S)).offset() == 3
        fifth = await asyncio.create_task(producer.produce(topic, b"x"))
        assert (await asyncio.shield(fifth)).offset() == 4
        called: list[Any] = []
        sixth = await producer.produce(topic, b"x")
        sixth.add_done_callback(print)
        sixth.add_done_callback(called.append)
        assert sixth.remove_done_callback(print) == 1
        await sixth
        sixth.add_done_callback(called.append)
        await until(lambda: len(called) == 2)
        assert called == [sixth, sixth]
        for finished in asyncio.as_completed(
            [await producer.produce(topic, b"x"), await producer.produce(topic)]
        ):
            assert (await finished).offset() in (6, 7)


@in_loop
async def test_awaiting_a_failed_report_raises_its_error(
    cluster: MockCluster, client: Client
) -> None:
    topic = client.topic()
    async with client.producer(**{"message.timeout.ms": 300, "linger.ms": 0}) as producer:
        with kafka_error(KafkaError.MSG_SIZE_TOO_LARGE):
            await producer.produce(topic, b"x" * 2_000_000)
        with pytest.raises(TypeError, match="value must be bytes"):
            await producer.produce(topic, 5)
        delivery = await producer.produce("not there", b"x", partition=77)
        with pytest.raises(KafkaException) as failed:
            await delivery
        assert isinstance(failed.value.args[0], KafkaError)
        assert delivery.exception() is failed.value
        assert not delivery.cancelled()


@in_loop
async def test_failed_report_that_is_never_awaited_is_reported_by_the_loop(client: Client) -> None:
    messages: list[str] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: messages.append(context["message"]))
    producer = client.producer()
    await producer.produce("nowhere", b"x")
    await producer.purge()
    await producer.flush(WAIT_S)
    await producer.close()
    gc.collect()
    assert messages == ["Future exception was never retrieved"]


@in_loop
async def test_cancelled_wait_does_not_cancel_the_report(client: Client) -> None:
    topic = client.topic()
    async with client.producer(**{"linger.ms": 300}) as producer:
        delivery = await producer.produce(topic, b"x")

        async def wait() -> Message:
            return await delivery

        first, second = asyncio.create_task(wait()), asyncio.create_task(wait())
        await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert (await second).offset() == 0
        assert (await delivery).offset() == 0


@in_loop
async def test_message_of_a_cancelled_report_is_still_sent(client: Client) -> None:
    topic = client.topic()
    async with client.producer(**{"linger.ms": 200}) as producer:
        delivery = await producer.produce(topic, b"x")
        other = await producer.produce(topic, b"y")
        assert delivery.cancel()
        assert not delivery.cancel()
        assert delivery.cancelled()
        with pytest.raises(asyncio.CancelledError):
            await delivery
        assert (await other).offset() == 1, "the message is sent all the same"


@in_loop
async def test_produce_is_a_coroutine(client: Client) -> None:
    topic = client.topic()
    async with client.producer() as producer:
        with pytest.warns(RuntimeWarning, match=r"AIOProducer.produce' was never awaited"):
            producer.produce(topic, b"never")
        call = producer.produce(topic, b"once")
        assert asyncio.iscoroutine(call)
        assert inspect.isawaitable(call)
        await (await call)
        with pytest.raises(RuntimeError, match="already awaited"):
            await call
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            producer.produce(topic, b"closed").close()
        task = asyncio.create_task(producer.produce(topic, b"cancelled"))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(ZeroDivisionError):
            producer.produce(topic, b"thrown").throw(ZeroDivisionError("x"))
        assert (await (await producer.produce(topic, b"last"))).offset() == 1, (
            "the others were never queued"
        )


@in_loop
async def test_produce_waits_while_the_queue_is_full(client: Client) -> None:
    topic = client.topic()
    async with client.producer(**{"queue.buffering.max.messages": 10, "linger.ms": 50}) as producer:

        async def produce_many(count: int) -> list[int]:
            deliveries = [await producer.produce(topic, b"x") for _ in range(count)]
            return [(await each).offset() or 0 for each in deliveries]

        offsets = await asyncio.gather(*(produce_many(50) for _ in range(4)))
        assert sorted(offset for each in offsets for offset in each) == list(range(200))


@in_loop
async def test_produce_waits_at_most_max_block_ms_for_a_full_queue(
    cluster: MockCluster, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    conf = {
        "queue.buffering.max.messages": 2,
        "max.block.ms": 50,
        "bootstrap.servers": "127.0.0.1:1",
    }
    producer = client.producer(**conf)
    deliveries = [await producer.produce("t", b"x") for _ in range(2)]
    with pytest.raises(BufferError, match="Queue full"):
        await producer.produce("t", b"x")
    waiting = asyncio.create_task(producer.produce("t", b"y"))
    await producer.close(0)
    assert "closed with 2 messages outstanding" in caplog.text
    with pytest.raises((BufferError, RuntimeError)):
        await waiting
    for each in deliveries:
        with kafka_error(KafkaError._PURGE_QUEUE):
            await each


@in_loop
async def test_calls_that_wait_for_room_continue_in_their_order(
    cluster: MockCluster, client: Client
) -> None:
    topic = client.topic()
    async with client.producer(**{"queue.buffering.max.messages": 2, "linger.ms": 0}) as producer:

        async def produce(number: int) -> None:
            await producer.produce(topic, str(number))

        tasks = [asyncio.create_task(produce(number)) for number in range(60)]
        await asyncio.sleep(0)
        for number in range(5, 60, 5):
            tasks[number].cancel()  # also the first of the line, at times
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    sent = [number for number, outcome in enumerate(outcomes) if outcome is None]
    assert [int(message.value or b"") for message in cluster.messages(topic, 0)] == sent
    assert len(sent) == 60 - 11


@in_loop
async def test_each_call_in_the_line_waits_at_most_max_block_ms(client: Client) -> None:
    conf = {"queue.buffering.max.messages": 1, "bootstrap.servers": "127.0.0.1:1"}
    producer = client.producer(**conf, **{"max.block.ms": 300})
    await producer.produce("t", b"x")
    loop = asyncio.get_running_loop()
    began = loop.time()
    calls = [asyncio.create_task(producer.produce("t", b"y")) for _ in range(20)]
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(each) for each in outcomes} == {BufferError}
    assert loop.time() - began < 3
    calls = [asyncio.create_task(producer.produce("t", b"y")) for _ in range(20)]
    await asyncio.sleep(0)
    await producer.close(0)
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(each) for each in outcomes} <= {BufferError, RuntimeError}


def test_calls_of_a_loop_that_was_stopped_hold_up_no_others(
    cluster: MockCluster, client: Client
) -> None:
    producer = client.producer(**{"queue.buffering.max.messages": 1, "linger.ms": 100})
    topic = client.topic()
    first = asyncio.new_event_loop()

    async def fill() -> None:
        await producer.produce(topic, b"x")
        waiting.extend(asyncio.ensure_future(producer.produce(topic, b"y")) for _ in range(3))
        await asyncio.sleep(0.01)

    waiting: list[asyncio.Future[Any]] = []
    cluster.delay_responses(None, 0.1, ApiKey.PRODUCE)  # there is no room meanwhile
    first.run_until_complete(fill())
    cluster.delay_responses(None, 0.0, ApiKey.PRODUCE)

    async def go_on() -> None:
        deliveries = [await producer.produce(topic, b"z") for _ in range(5)]
        assert ((await deliveries[-1]).offset() or 0) >= 5
        await producer.close()

    run(go_on())
    for each in waiting:
        each.cancel()
    first.run_until_complete(asyncio.wait(waiting))
    first.close()


@in_loop
async def test_a_loop_in_another_thread_is_refused_while_the_first_runs(client: Client) -> None:
    topic = client.topic()
    async with client.producer() as producer:
        await producer.produce(topic, b"x")
        with pytest.raises(RuntimeError, match="another event loop, which still runs"):
            await asyncio.to_thread(asyncio.run, producer.produce(topic, b"y"))
        assert (await (await producer.produce(topic, b"z"))).offset() == 1


@pytest.mark.skipif(
    sys.version_info >= (3, 12), reason="get_running_loop() makes no system call since CPython 3.12"
)
@in_loop
async def test_no_message_asks_the_kernel_for_the_process_id(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[object] = []

    def counting() -> asyncio.AbstractEventLoop:
        calls.append(None)
        return asyncio.get_running_loop()

    topic = client.topic()
    async with client.producer() as producer:
        await producer.produce(topic, b"first")
        monkeypatch.setattr(coroutines, "get_running_loop", counting)
        deliveries = [await producer.produce(topic, b"x") for _ in range(100)]
        assert [(await each).offset() for each in deliveries] == list(range(1, 101))
    assert calls == []


@in_loop
async def test_callbacks_run_in_the_loop(client: Client) -> None:
    topic, loop = client.topic(), asyncio.get_running_loop()
    calls: list[Any] = []
    exceptions: list[Any] = []
    loop.set_exception_handler(lambda _, context: exceptions.append(context["exception"]))

    async def on_error(error: KafkaError) -> None:
        assert asyncio.get_running_loop() is loop
        calls.append(error.code())
        raise ZeroDivisionError

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        assert asyncio.get_running_loop() is loop
        calls.append((error, message.offset()))
        raise KeyError("callback")

    async with client.producer(on_delivery=on_delivery) as producer:
        assert (await (await producer.produce(topic, b"x"))).offset() == 0
        assert calls == [(None, 0)]
    lost = client.producer(**{"bootstrap.servers": "127.0.0.1:1", "error_cb": on_error})
    await lost.produce(topic, b"x")
    await until(lambda: len(exceptions) >= 2)
    await lost.close(0)
    assert isinstance(exceptions[0], KeyError)
    assert isinstance(exceptions[1], ZeroDivisionError)
    assert KafkaError._TRANSPORT in calls


@in_loop
async def test_partitioner_cb_waits_for_the_partitions_in_the_loop(client: Client) -> None:
    topic = client.topic(3)
    async with client.producer(
        partitioner_cb=lambda topic, key, count: int(key) % count
    ) as producer:
        deliveries = [await producer.produce(topic, b"x", key=str(number)) for number in range(6)]
        assert [(await each).partition() for each in deliveries] == [0, 1, 2, 0, 1, 2]


@in_loop
async def test_poll_flush_purge_and_list_topics(client: Client) -> None:
    topic = client.topic(2)
    async with client.producer(**{"linger.ms": 10_000}) as producer:
        assert await producer.poll() == 0
        assert await producer.poll(0.01) == 0
        deliveries = [await producer.produce(topic, b"x", on_delivery=lambda error, message: None)]
        assert await producer.flush(0) == 1
        assert await producer.flush(WAIT_S) == 0, "flush() doesn't wait for linger.ms"
        assert deliveries[0].done()
        assert await producer.poll(WAIT_S) == 1
        purged = await producer.produce(topic, b"y")
        await producer.purge()
        with kafka_error(KafkaError._PURGE_QUEUE):
            await purged
        assert len((await producer.list_topics(topic, WAIT_S)).topics[topic].partitions) == 2
        assert producer.fatal_error() is None


@in_loop
async def test_close_delivers_and_ends(client: Client) -> None:
    topic = client.topic()
    producer = client.producer(**{"linger.ms": 100})
    delivery = await producer.produce(topic, b"x")
    await asyncio.gather(producer.close(), producer.close())
    assert (await delivery).offset() == 0
    await producer.close()
    for call in (lambda: producer.produce(topic, b"x"), producer.flush, producer.poll):
        with pytest.raises(RuntimeError, match="Producer has been closed"):
            await call()
    with pytest.raises(RuntimeError):
        await producer.list_topics()


@in_loop
async def test_cancelled_close_continues(client: Client) -> None:
    topic = client.topic()
    producer = client.producer(**{"linger.ms": 200})
    delivery = await producer.produce(topic, b"x")
    closing = asyncio.create_task(producer.close())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert (await delivery).offset() == 0
    await producer.close()


@in_loop
async def test_second_close_does_not_repeat_the_error_of_the_first(client: Client) -> None:
    producer = client.producer()
    outcomes = await asyncio.gather(
        producer.close(float("nan")), producer.close(), return_exceptions=True
    )
    assert isinstance(outcomes[0], ValueError)
    assert outcomes[1] is None
    await producer.close()


@in_loop
async def test_reports_of_a_garbage_collected_producer_fail(client: Client) -> None:
    delivery = await AIOProducer({"bootstrap.servers": "127.0.0.1:1"}).produce("t", b"x")
    gc.collect()
    with kafka_error(KafkaError._PURGE_QUEUE):
        await delivery


@in_loop
async def test_produce_lets_other_tasks_run(client: Client) -> None:
    topic = client.topic()
    turns = 0

    async def tick() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with client.producer(**{"queue.buffering.max.messages": 10_000_000}) as producer:
        ticking = asyncio.create_task(tick())
        count = 0
        while turns < 10:
            await producer.produce(topic, b"x")
            count += 1
            assert count < 5_000_000
        ticking.cancel()


def test_producer_works_in_a_second_loop(client: Client) -> None:
    topic = client.topic()
    for number in range(3):

        async def once() -> int | None:
            async with client.producer() as producer:
                return (await (await producer.produce(topic, b"x"))).offset()

        assert run(once()) == number
    # A new loop may use the producer of a loop that has ended.
    kept: list[AIOProducer] = []

    async def begin() -> None:
        kept.append(client.producer())
        assert (await (await kept[0].produce(topic, b"x"))).offset() == 3

    async def go_on() -> None:
        assert (await (await kept[0].produce(topic, b"x"))).offset() == 4
        await kept[0].close()

    run(begin())
    run(go_on())


@pytest.mark.parametrize(
    "call",
    [
        lambda producer: producer.list_topics(timeout=0.1),
        lambda producer: producer.cluster_id(timeout=0.1),
        lambda producer: producer.init_transactions(0.1),
    ],
    ids=["list_topics", "cluster_id", "init_transactions"],
)
@in_loop
async def test_callbacks_run_in_the_loop_of_any_call(
    call: Callable[[AIOProducer], Awaitable[Any]],
) -> None:
    called = asyncio.Event()
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound, but not listening
        conf = {
            "bootstrap.servers": f"127.0.0.1:{closed.getsockname()[1]}",
            "transactional.id": "never",
            "error_cb": lambda _: called.set(),
        }
        producer = AIOProducer(conf)
        with pytest.raises(KafkaException):
            await call(producer)
        await asyncio.wait_for(called.wait(), WAIT_S)
        await producer.close()
