"""produce_arrow() and a full queue: a wait lets other threads run, and can be ended."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

from kafka_native import ArrowReport, KafkaError, Message, Producer
from tests.waiting import WAIT_S, wait_for

from .support import NOWHERE, Client, interrupted, read_all, together

Reports = list[ArrowReport]
SMALL = {"queue.buffering.max.messages": 100}


@pytest.fixture
def reports() -> Reports:
    """Return the reports of a test's calls."""
    return []


def rows(count: int) -> pa.Table:
    return pa.table({"value": [str(number) for number in range(count)]})


class Waiting:
    """A produce_arrow() in a thread."""

    def __init__(self, producer: Producer, data: Any, **arguments: Any) -> None:
        self.outcome: Any = None
        self._thread = threading.Thread(target=self._run, args=(producer, data, arguments))
        self._thread.start()

    def _run(self, producer: Producer, data: Any, arguments: dict[str, Any]) -> None:
        try:
            self.outcome = producer.produce_arrow("t", data, **arguments)
        except BaseException as error:
            self.outcome = error

    def join(self) -> Any:
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive(), "produce_arrow() doesn't end"
        return self.outcome


def test_queue_gets_room_without_poll(client: Client, topic: str, reports: Reports):
    with client.producer(**SMALL) as producer:
        assert producer.produce_arrow(topic, rows(20_000), on_delivery=reports.append) == 20_000
        assert reports == []  # no poll()
        assert len(producer) <= 101
    assert (reports[0].rows, reports[0].delivered) == (20_000, 20_000)
    messages = sorted(read_all(client, topic, 20_000), key=Message.offset)
    assert [message.value() for message in messages] == [
        str(number).encode() for number in range(20_000)
    ]


def test_error_after_the_timeout_has_the_number_of_queued_rows(reports: Reports):
    with Producer({**NOWHERE, **SMALL, "message.timeout.ms": 300_000}) as producer:
        for timeout in (0, 0.2):
            started = time.monotonic()
            with pytest.raises(BufferError, match="Queue full") as caught:
                producer.produce_arrow("t", rows(1000), on_delivery=reports.append, timeout=timeout)
            assert time.monotonic() - started >= timeout
            assert caught.value.queued == (0 if timeout else 100)
        producer.purge()
        with pytest.raises(BufferError) as caught:
            producer.produce_arrow(
                "t", rows(1000).slice(100), on_delivery=reports.append, timeout=0
            )
        assert caught.value.queued == 100
        producer.purge()
    # A call without rows makes no report.
    assert [(report.rows, report.delivered, len(report.failed)) for report in reports] == [
        (100, 0, 100)
    ] * 2


def test_max_block_ms_limits_each_wait_without_progress(client: Client):
    with Producer({**NOWHERE, **SMALL, "max.block.ms": 200}) as producer:
        with pytest.raises(BufferError) as caught:
            producer.produce_arrow("t", rows(1000))
        assert caught.value.queued == 100
        producer.purge()
    with client.producer(**SMALL, **{"max.block.ms": 20_000}) as producer:
        assert producer.produce_arrow(client.topic(), rows(5000)) == 5000


def test_produce_arrow_waits_for_bytes_but_not_for_a_row_larger_than_the_queue(client: Client):
    topic = client.topic()
    with client.producer(**{"queue.buffering.max.kbytes": 4}) as producer:
        assert producer.produce_arrow(topic, pa.table({"value": [bytes(3000)] * 100})) == 100
        with pytest.raises(BufferError) as caught:
            producer.produce_arrow(topic, pa.table({"value": [b"x", b"y" * 6000]}))
        assert caught.value.queued == 1


def test_messages_in_a_full_queue_do_not_linger(client: Client):
    with client.producer(**SMALL, **{"linger.ms": 60_000}) as producer:
        assert producer.produce_arrow(client.topic(), rows(2000), timeout=WAIT_S) == 2000
        assert producer.flush(WAIT_S) == 0


def test_other_threads_run_meanwhile():
    producer = Producer({**NOWHERE, **SMALL})
    waiting = Waiting(producer, rows(1000))
    try:
        wait_for(lambda: len(producer) == 100)
        assert waiting.outcome is None
        others = [Waiting(producer, rows(10)) for _ in range(3)]

        def done() -> bool:
            producer.purge()  # this thread runs, and makes room
            producer.poll(0)
            return waiting.outcome is not None and all(each.outcome is not None for each in others)

        wait_for(done)
        assert waiting.join() == 1000
        assert [each.join() for each in others] == [10] * 3
    finally:
        producer.close(0)


def test_close_from_another_thread_ends_the_wait_and_makes_the_report(reports: Reports):
    producer = Producer({**NOWHERE, **SMALL})
    waiting = [Waiting(producer, rows(1000), on_delivery=reports.append) for _ in range(3)]
    wait_for(lambda: len(producer) == 100)
    producer.close(0)
    outcomes = [each.join() for each in waiting]
    assert all(isinstance(outcome, RuntimeError) for outcome in outcomes)
    taken = [outcome.queued for outcome in outcomes if outcome.queued]
    assert sum(taken) == 100
    assert sorted(report.rows for report in reports) == sorted(taken)
    for report in reports:
        assert report.error is not None
        assert report.error.code() == KafkaError._PURGE_QUEUE
        assert len(report.failed) == report.rows


@pytest.mark.parametrize("rounds", [20])
def test_close_while_rows_are_appended(client: Client, rounds: int):
    """The last rows race with close(): each row has one outcome."""
    table = rows(200_000)
    for _ in range(rounds):
        reports: list[ArrowReport] = []
        producer = client.producer()
        waiting = Waiting(producer, table, on_delivery=reports.append)
        wait_for(lambda producer=producer: len(producer) > 0)
        producer.close(0)
        outcome = waiting.join()
        taken = outcome if isinstance(outcome, int) else outcome.queued
        if not taken:  # close() came before the first rows
            assert reports == []
            continue
        (report,) = reports
        assert (report.rows, report.delivered + len(report.failed)) == (taken, taken)


def test_signal_ends_the_wait(reports: Reports):
    producer = Producer({**NOWHERE, **SMALL})
    with interrupted(after_s=0.2) as caught:
        producer.produce_arrow("t", rows(1000), on_delivery=reports.append)
    assert caught.value.queued == 100  # type: ignore[attr-defined]
    producer.close(0)
    assert reports[0].rows == 100


def test_rows_before_the_failure_of_a_stream_are_sent(client: Client, topic: str, reports: Reports):
    def batches() -> Iterator[pa.RecordBatch]:
        for _ in range(3):
            yield from rows(10).to_batches()
        raise LookupError("the source is gone")

    with client.producer() as producer:
        reader = pa.RecordBatchReader.from_batches(rows(1).schema, batches())
        with pytest.raises(OSError, match="the source is gone") as caught:
            producer.produce_arrow(topic, reader, on_delivery=reports.append)
        assert caught.value.queued == 30
    assert (reports[0].rows, reports[0].delivered) == (30, 30)


def test_many_threads_at_once(client: Client, reports: Reports):
    topic = client.topic(3)
    with client.producer(**{"queue.buffering.max.messages": 5000}) as producer:

        def work(name: int) -> None:
            for _ in range(10):
                table = pa.table({"value": [f"{name}"] * 1000})
                assert producer.produce_arrow(topic, table, on_delivery=reports.append) == 1000
                producer.poll(0)

        assert together(*(partial(work, name) for name in range(4))) == [None] * 4
        assert producer.flush(WAIT_S) == 0
    assert [(report.rows, report.delivered) for report in reports] == [(1000, 1000)] * 40
    assert len(read_all(client, topic, 40_000)) == 40_000
