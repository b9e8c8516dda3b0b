"""AIOProducer.produce_arrow(): reports, a full queue, cancelled calls, close()."""

from __future__ import annotations

import asyncio
from typing import Any

import pyarrow
import pytest

from kafka_native import ArrowReport, KafkaError, ProducerInterceptor
from tests.waiting import WAIT_S

from .columns import Ticks, numbers, table
from .support import Client, in_loop, kafka_error, until


@in_loop
async def test_rows_are_sent_and_reported_once(client: Client) -> None:
    topic = client.topic()
    reports: list[ArrowReport] = []

    async def delivered(report: ArrowReport) -> None:
        await asyncio.sleep(0)
        reports.append(report)

    conf = {"on_delivery": lambda *_: pytest.fail("a row has no report of its own")}
    async with client.producer(**conf) as producer, await client.reader(topic) as consumer:
        delivery = await producer.produce_arrow(topic, table(5000), on_delivery=delivered)
        report = await delivery
        assert (report.rows, report.delivered, report.error) == (5000, 5000, None)
        assert await delivery is report
        await until(lambda: reports)
        assert reports == [report]
        messages = await consumer.consume(5000, WAIT_S)
        assert [each.value() for each in messages] == numbers(0, 5000)
        both = await asyncio.gather(
            producer.produce_arrow(topic, table(10)), producer.produce_arrow(topic, table(20))
        )
        assert [each.delivered for each in await asyncio.gather(*both)] == [10, 20]


@in_loop
async def test_full_queue_is_waited_for_while_other_tasks_run(client: Client) -> None:
    topic = client.topic()
    conf = {"queue.buffering.max.messages": 10, "linger.ms": 5}
    ticks = Ticks()
    async with client.producer(**conf) as producer:
        ticking = asyncio.create_task(ticks.run())
        report = await (await producer.produce_arrow(topic, table(300)))
        ticking.cancel()
        assert report.delivered == 300
        assert ticks.count > 5


@in_loop
async def test_failed_rows_are_in_the_report(client: Client) -> None:
    topic = client.topic()
    rows = pyarrow.table({"value": [b"a", b"b" * 5000, b"c"]})
    async with client.producer(**{"message.max.bytes": 1000}) as producer:
        report = await (await producer.produce_arrow(topic, rows))
        assert (report.rows, report.delivered) == (3, 2)
        ((row, error),) = report.failed
        assert (row, error.code()) == (1, KafkaError.MSG_SIZE_TOO_LARGE)


UNREACHABLE = {"bootstrap.servers": "127.0.0.1:1", "queue.buffering.max.messages": 100}


@in_loop
async def test_full_queue_raises_after_the_timeout(client: Client) -> None:
    reports: list[ArrowReport] = []
    limits: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({}, {"timeout": 0.1}),
        ({"max.block.ms": 100}, {}),
    ]
    for conf, arguments in limits:
        producer = client.producer(**{**UNREACHABLE, **conf})
        with pytest.raises(BufferError, match="Queue full") as caught:
            await producer.produce_arrow("t", table(200), on_delivery=reports.append, **arguments)
        assert caught.value.queued == 100  # type: ignore[attr-defined]
        await producer.close(0)
        report = reports.pop()
        assert (report.rows, report.delivered) == (100, 0)
        assert report.error is not None
        assert report.error.code() == KafkaError._PURGE_QUEUE


@in_loop
async def test_cancelled_call_queues_no_further_rows(client: Client) -> None:
    reports: list[ArrowReport] = []
    producer = client.producer(**UNREACHABLE)
    producing = asyncio.create_task(
        producer.produce_arrow("t", table(200), on_delivery=reports.append)
    )
    await until(lambda: len(producer) == 100)
    producing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await producing
    await asyncio.sleep(0.2)  # longer than the thread waits for room
    await producer.purge()
    await until(lambda: reports)
    assert (reports[0].rows, reports[0].delivered) == (100, 0)
    assert len(producer) == 0
    await producer.close()


@in_loop
async def test_close_ends_a_call_that_waits_for_room(client: Client) -> None:
    producer = client.producer(**UNREACHABLE)
    producing = asyncio.create_task(producer.produce_arrow("t", table(200)))
    await until(lambda: len(producer) == 100)
    await producer.close(0)
    with pytest.raises(RuntimeError, match="closed") as caught:
        await producing
    assert caught.value.queued == 100  # type: ignore[attr-defined]
    with pytest.raises(RuntimeError, match="closed"):
        await producer.produce_arrow("t", table(1))


@in_loop
async def test_bad_arguments_queue_nothing(client: Client) -> None:
    async with client.producer() as producer:
        with pytest.raises(TypeError, match="on_delivery"):
            await producer.produce_arrow("t", table(1), on_delivery=1)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="__arrow_c_stream__"):
            await producer.produce_arrow("t", [b"x"])
        with pytest.raises(ValueError, match="other"):
            await producer.produce_arrow("t", table(1), value="other")
        assert len(producer) == 0

    async with client.producer(interceptors=[ProducerInterceptor()]) as producer:
        with kafka_error(KafkaError._UNSUPPORTED_FEATURE):
            await producer.produce_arrow("t", table(1))
