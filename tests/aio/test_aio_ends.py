"""asyncio programs that end without close(), fork, or drop clients. Also uvloop."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from kafka_native import KafkaError, Message, TopicPartition
from kafka_native.aio import AIOAdminClient, AIOConsumer, AIOProducer, _callbacks
from tests.waiting import PROGRAM_S, WAIT_S

from .support import Client, in_loop, until

ROOT = Path(__file__).resolve().parents[2]

UNCLOSED = """
import asyncio, sys
from kafka_native import TopicPartition
from kafka_native.aio import AIOConsumer, AIOProducer

async def main():
    global producer, consumer, delivery
    conf = {"bootstrap.servers": sys.argv[1], "error_cb": lambda error: None}
    producer = AIOProducer(conf)
    delivery = await producer.produce("t", b"x")
    consumer = AIOConsumer(conf)
    await consumer.assign([TopicPartition("t", 0, 0)])
    waiting = asyncio.create_task(consumer.poll())
    await asyncio.sleep(0.05)
    END

asyncio.run(main())
print("ended")
"""

FORKED = """
import asyncio, os, sys, warnings
from kafka_native import TopicPartition
from kafka_native.aio import AIOConsumer, AIOProducer

async def main():
    conf = {"bootstrap.servers": sys.argv[1]}
    async with AIOProducer(conf) as producer, AIOConsumer(conf) as consumer:
        await (await producer.produce(sys.argv[2], b"before"))
        await consumer.assign([TopicPartition(sys.argv[2], 0, 0)])
        assert (await consumer.poll(60)).value() == b"before"
        assert await consumer.poll(0.01) is None  # watched by the loop from now on
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
        child = os.fork()
        if child == 0:
            for call in (consumer.poll, consumer.assignment, producer.flush, lambda: producer.produce("t", b"x")):
                try:
                    await call()
                except RuntimeError:
                    continue
                os._exit(1)
            await consumer.close()
            await producer.close()
            del consumer, producer
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        await (await producer.produce(sys.argv[2], b"after"))
        assert (await consumer.poll(60)).value() == b"after"

asyncio.run(main())
print("ended")
"""

ROUND_TRIP = """
import asyncio, sys
from kafka_native import TopicPartition
from kafka_native.aio import AIOConsumer, AIOProducer
import uvloop

async def main():
    assert type(asyncio.get_running_loop()).__module__.startswith("uvloop")
    conf = {"bootstrap.servers": sys.argv[1]}
    assigned = []

    async def on_assign(consumer, partitions):
        await asyncio.sleep(0)
        assigned.append(len(partitions))

    async with AIOProducer(conf) as producer:
        deliveries = [await producer.produce(sys.argv[2], str(n), headers=[("n", b"1")]) for n in range(3000)]
        assert [(await each).offset() for each in deliveries] == list(range(3000))
        async with AIOConsumer({**conf, "group.id": "uvloop", "auto.offset.reset": "earliest"}) as consumer:
            await consumer.subscribe([sys.argv[2]], on_assign=on_assign)
            offsets = [(await consumer.poll(60)).offset() for _ in range(3000)]
            assert offsets == list(range(3000)) and assigned == [1]
            assert await consumer.poll(0.05) is None
            waiting = asyncio.create_task(consumer.poll())
            await asyncio.sleep(0.01)
            waiting.cancel()
            assert len((await asyncio.gather(waiting, return_exceptions=True))) == 1
            assert (await consumer.commit(asynchronous=False))[0].offset == 3000
            await (await producer.produce(sys.argv[2], b"x"))
            assert (await consumer.poll(60)).offset() == 3000

loop = uvloop.new_event_loop()
loop.run_until_complete(main())
loop.close()
print("ended")
"""


def program(text: str, *arguments: str) -> None:
    """Run a program, which must end by itself and without an error."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "error::RuntimeWarning", "-c", text, *arguments]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=PROGRAM_S, check=False
    )
    errors = [
        line for line in done.stderr.splitlines() if "aren't delivered: they are lost" not in line
    ]
    assert (done.returncode, errors, done.stdout) == (0, [], "ended\n")


def threads() -> set[str]:
    """Return the Python threads, except those of the mock cluster."""
    return {thread.name for thread in threading.enumerate() if not thread.name.startswith("mock")}


@pytest.mark.parametrize(
    "end",
    [
        "return",
        "waiting.cancel()",
        "producer = None; await asyncio.wait({delivery}); delivery.exception()",
    ],
)
def test_program_ends_without_close(end: str) -> None:
    """The program prints only the warning that a message is lost."""
    program(UNCLOSED.replace("END", end), "127.0.0.1:1")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_fork_leaves_the_parents_clients_alone(client: Client) -> None:
    program(FORKED, client.conf["bootstrap.servers"], client.topic())


def test_under_uvloop(client: Client) -> None:
    pytest.importorskip("uvloop", reason="uvloop is not installed")
    program(ROUND_TRIP, client.conf["bootstrap.servers"], client.topic())


@in_loop
async def test_a_dropped_consumer_ends_its_threads(client: Client) -> None:
    topic = client.topic()
    before = threads()
    consumer: AIOConsumer | None = await client.reader(topic)
    assert consumer is not None
    assert await consumer.poll(0.02) is None
    assert threads() - before
    consumer = None
    gc.collect()
    assert threads() <= before


@in_loop
async def test_a_producer_dropped_by_another_thread_raises_nothing_in_the_loop(
    client: Client,
) -> None:
    reported: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda loop, context: reported.append(context))
    producers = [client.producer()]
    await (await producers[0].produce(client.topic(), b"x"))
    core = producers[0]._core._client
    drop, dropped = core.drop, threading.Event()

    def drop_slowly(*arguments: Any) -> None:
        time.sleep(0.1)  # the loop has time to serve a producer whose destructor still runs
        drop(*arguments)
        dropped.set()

    core.drop = drop_slowly  # type: ignore[method-assign]
    await asyncio.to_thread(producers.clear)
    assert await asyncio.to_thread(dropped.wait, WAIT_S)
    assert reported == []


@in_loop
async def test_calls_start_no_threads(client: Client) -> None:
    topic = client.topic()
    client.fill(topic, 1)
    async with client.producer() as producer, await client.reader(topic) as consumer:
        before = threads()
        await asyncio.gather(
            *(consumer.list_topics(topic, WAIT_S) for _ in range(20)),
            *(producer.list_topics(topic, WAIT_S) for _ in range(20)),
            *(consumer.get_watermark_offsets(TopicPartition(topic, 0), WAIT_S) for _ in range(20)),
            consumer.poll(WAIT_S),
            producer.flush(),
        )
        assert threads() == before


async def close_directly(client: AIOProducer | AIOAdminClient) -> None:
    await client.close()


async def close_in_a_task(client: AIOProducer | AIOAdminClient) -> None:
    await asyncio.create_task(client.close())


async def close_in_a_group(client: AIOProducer | AIOAdminClient) -> None:
    await asyncio.gather(client.close(), client.close())


async def close_within_a_time(client: AIOProducer | AIOAdminClient) -> None:
    await asyncio.wait_for(client.close(), WAIT_S)


Close = Callable[["AIOProducer | AIOAdminClient"], Awaitable[None]]
CLOSES = [close_directly, close_in_a_task, close_in_a_group, close_within_a_time]


@pytest.mark.parametrize("close", CLOSES)
@in_loop
async def test_producer_can_be_closed_in_its_callback(client: Client, close: Close) -> None:
    ended: list[bool] = []

    async def on_delivery(error: KafkaError | None, message: Message) -> None:
        await close(producer)
        ended.append(producer._core._client.closed)

    producer = client.producer()
    await producer.produce(client.topic(), b"x", on_delivery=on_delivery)
    await until(lambda: ended)
    assert ended == [True]
    await asyncio.wait_for(producer.close(), WAIT_S)


@pytest.mark.parametrize("close", CLOSES)
@in_loop
async def test_admin_client_can_be_closed_in_its_callback(client: Client, close: Close) -> None:
    ended: list[bool] = []

    async def on_stats(text: str) -> None:
        await close(admin)
        ended.append(admin._core._client.closed)

    settings = {"stats_cb": on_stats, "statistics.interval.ms": 20}
    admin = AIOAdminClient({**client.conf, **settings})
    await admin.poll()
    await until(lambda: ended)
    assert all(ended)
    await asyncio.wait_for(admin.close(), WAIT_S)


@in_loop
async def test_callback_that_returns_a_task_can_close_the_producer(client: Client) -> None:
    async def end() -> None:
        await asyncio.gather(producer.close())

    tasks: list[asyncio.Task[None]] = []

    def on_delivery(error: KafkaError | None, message: Message) -> asyncio.Task[None]:
        tasks.append(asyncio.create_task(end()))
        return tasks[0]

    producer = client.producer()
    await producer.produce(client.topic(), b"x", on_delivery=on_delivery)
    await until(lambda: tasks)
    await asyncio.wait_for(tasks[0], WAIT_S)


@pytest.mark.parametrize("close", CLOSES)
@in_loop
async def test_several_callbacks_can_close_the_producer(client: Client, close: Close) -> None:
    """They run at the same time. A close() outside of callbacks waits for all of them."""
    ended: list[int | None] = []

    async def on_delivery(error: KafkaError | None, message: Message) -> None:
        await asyncio.sleep(0.01)
        await close(producer)
        await asyncio.sleep(0.05)
        ended.append(message.offset())

    producer, topic = client.producer(), client.topic()
    for _ in range(3):
        await producer.produce(topic, b"x", on_delivery=on_delivery)
    await producer.flush(WAIT_S)
    await asyncio.wait_for(producer.close(), WAIT_S)
    assert sorted(each or 0 for each in ended) == [0, 1, 2]


@in_loop
async def test_close_waits_for_callbacks_after_the_end_of_the_one_that_has_started_it(
    client: Client,
) -> None:
    ended: list[str] = []
    closing: list[asyncio.Task[None]] = []

    async def slow(error: KafkaError | None, message: Message) -> None:
        await asyncio.sleep(0.1)
        ended.append("slow")

    async def starts_close(error: KafkaError | None, message: Message) -> None:
        async def later() -> None:
            await asyncio.sleep(0.02)
            await producer.close()
            ended.append("closed")

        closing.append(asyncio.create_task(later()))

    producer, topic = client.producer(), client.topic()
    await producer.produce(topic, b"x", on_delivery=slow)
    await producer.produce(topic, b"x", on_delivery=starts_close)
    await until(lambda: closing)
    await asyncio.wait_for(closing[0], WAIT_S)
    assert ended == ["slow", "closed"]


@in_loop
async def test_close_gives_up_on_a_callback_that_waits_for_it(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another task calls close(), so it isn't known that the callback waits for it."""
    monkeypatch.setattr(_callbacks, "CALLBACKS_MAX_S", 0.1)
    messages: list[str] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: messages.append(context["message"]))
    called, closed = asyncio.Event(), asyncio.Event()

    async def on_delivery(error: KafkaError | None, message: Message) -> None:
        called.set()
        await closed.wait()

    producer = client.producer()
    await producer.produce(client.topic(), b"x", on_delivery=on_delivery)
    await asyncio.wait_for(called.wait(), WAIT_S)
    await asyncio.wait_for(producer.close(), WAIT_S)
    closed.set()
    assert len(messages) == 1
    assert messages[0].startswith("1 callbacks of rdkafka#producer-")
