"""One producer that several threads use at once: produce, poll, flush, purge and close.

On a free-threaded Python the threads really run at the same time: see
docs/internals/free-threading.md.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import pytest

from kafka_native import (
    ArrowReport,
    Consumer,
    KafkaError,
    Message,
    Producer,
    TopicPartition,
)
from kafka_native.mock import MockCluster
from tests.waiting import WAIT_S, wait_for

TOPIC = "topic"
PARTITIONS = 2
THREADS = 4
MESSAGES = 1000
ROWS = 200
CALLS = 20
POLL_S = 0.005
MESSAGE_MAX_BYTES = 1000


class Report(NamedTuple):
    """One call of a delivery callback."""

    thread: int
    value: bytes
    partition: int
    offset: int
    error: KafkaError | None


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    with MockCluster() as cluster:
        cluster.create_topic(TOPIC, PARTITIONS)
        yield cluster


class Threads:
    """Threads that run functions until they return, and end with the first exception."""

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []
        self.failures: list[BaseException] = []

    def start(self, *functions: Callable[[], Any]) -> list[threading.Thread]:
        """Start a thread for each function, all at the same time."""
        barrier = threading.Barrier(len(functions))

        def run(function: Callable[[], Any]) -> None:
            try:
                barrier.wait(WAIT_S)
                function()
            except BaseException as error:
                self.failures.append(error)

        started = [threading.Thread(target=run, args=(each,)) for each in functions]
        self.threads += started
        for thread in started:
            thread.start()
        return started

    def join(self, threads: list[threading.Thread] | None = None) -> None:
        for thread in self.threads if threads is None else threads:
            thread.join(WAIT_S)
            assert not thread.is_alive()
        if self.failures:
            raise self.failures[0]


class Reports:
    """The delivery callback, and its calls."""

    def __init__(self) -> None:
        self.calls: list[Report] = []

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        value, number, offset = message.value(), message.partition(), message.offset()
        assert isinstance(value, bytes)
        assert number is not None
        offset = -1 if offset is None else offset  # it was never in the log
        self.calls.append(Report(threading.get_ident(), value, number, offset, error))

    def check_once(self, values: set[bytes]) -> None:
        """Check that each of these messages has exactly one report, and no other has one."""
        counts = Counter(call.value for call in self.calls)
        assert set(counts) == values
        assert max(counts.values()) == 1, counts.most_common(3)

    def check_order(self) -> None:
        """Check that each thread has got the reports of a partition in order."""
        last: dict[tuple[int, int], int] = {}
        for call in self.calls:
            key = (call.thread, call.partition)
            assert call.offset > last.get(key, -1), call
            last[key] = call.offset


def make(cluster: MockCluster, **conf: Any) -> Producer:
    return Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 1, **conf})


def values_of(number: int) -> list[bytes]:
    return [f"{number}-{index}".encode() for index in range(MESSAGES)]


def produce_each(producer: Producer, reports: Reports, number: int) -> None:
    for value in values_of(number):
        producer.produce(TOPIC, value, partition=number % PARTITIONS, on_delivery=reports)


def produce_many(producer: Producer, reports: Reports, number: int) -> None:
    values = values_of(number)
    for start in range(0, MESSAGES, 100):
        run = values[start : start + 100]
        count = producer.produce_many(
            TOPIC, run, partition=number % PARTITIONS, on_delivery=reports
        )
        assert count == len(run)


def produce_new_callbacks(producer: Producer, reports: Reports, number: int) -> None:
    # A callback of its own for each message: the table of callbacks grows and shrinks.
    for value in values_of(number):
        callback = partial(reports)
        producer.produce(TOPIC, value, partition=number % PARTITIONS, on_delivery=callback)


def serve(producer: Producer, ended: threading.Event, by_flush: bool) -> None:
    while not ended.is_set():
        if by_flush:
            producer.flush(POLL_S)
        else:
            producer.poll(POLL_S)


@pytest.mark.parametrize("produce", [produce_each, produce_many, produce_new_callbacks])
def test_each_callback_is_called_once_and_in_order(cluster: MockCluster, produce: Any) -> None:
    producer, reports, ended, threads = make(cluster), Reports(), threading.Event(), Threads()
    threads.start(*(partial(serve, producer, ended, bool(index % 2)) for index in range(THREADS)))
    threads.join(
        threads.start(*(partial(produce, producer, reports, index) for index in range(THREADS)))
    )
    wait_for(lambda: len(reports.calls) == THREADS * MESSAGES, "the reports")
    ended.set()
    threads.join()
    producer.close()
    reports.check_once({value for index in range(THREADS) for value in values_of(index)})
    reports.check_order()
    assert all(call.error is None for call in reports.calls)


def test_one_batch_is_shared_by_threads_that_poll(cluster: MockCluster) -> None:
    # All reports are queued before the first poll(), so that each batch has several readers.
    reports, ended, threads = Reports(), threading.Event(), Threads()
    producer = make(cluster, on_delivery=reports)
    for value in values_of(0):
        producer.produce(TOPIC, value, partition=0)
    wait_for(lambda: high_watermark(cluster) == MESSAGES, "the messages in the log")
    threads.start(*(partial(serve, producer, ended, False) for _ in range(THREADS)))
    wait_for(lambda: len(reports.calls) == MESSAGES, "the reports")
    ended.set()
    threads.join()
    producer.close()
    reports.check_once(set(values_of(0)))
    reports.check_order()


def has_items(found: list[Any], count: int) -> bool:
    return len(found) >= count


def high_watermark(cluster: MockCluster) -> int:
    conf = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "group-0"}
    with Consumer(conf) as consumer:
        return consumer.get_watermark_offsets(TopicPartition(TOPIC, 0))[1]


def test_purged_messages_are_reported_once(cluster: MockCluster) -> None:
    producer, reports, ended, threads = make(cluster), Reports(), threading.Event(), Threads()
    threads.start(*(partial(serve, producer, ended, bool(index % 2)) for index in range(2)))

    def purge() -> None:
        while not ended.is_set():
            producer.purge(in_flight=False)
            time.sleep(POLL_S)

    threads.start(purge)
    threads.join(
        threads.start(
            *(partial(produce_each, producer, reports, index) for index in range(THREADS))
        )
    )
    wait_for(lambda: len(reports.calls) == THREADS * MESSAGES, "the reports")
    ended.set()
    threads.join()
    producer.close()
    reports.check_once({value for index in range(THREADS) for value in values_of(index)})
    assert {call.error.code() for call in reports.calls if call.error} <= {KafkaError._PURGE_QUEUE}


@pytest.mark.parametrize("timeout", [-1, 0])
def test_close_reports_each_message_once(cluster: MockCluster, timeout: float) -> None:
    # Other threads produce, poll and flush until close() stops them.
    for _ in range(3):
        producer, reports, threads = make(cluster), Reports(), Threads()
        accepted: list[set[bytes]] = [set() for _ in range(THREADS)]

        def produce(
            number: int,
            producer: Producer = producer,
            reports: Reports = reports,
            accepted: list[set[bytes]] = accepted,
        ) -> None:
            for value in values_of(number) * 10:
                own = value + b"-%d" % len(accepted[number])
                try:
                    producer.produce(TOPIC, own, on_delivery=reports, headers={"a": own})
                except RuntimeError:
                    return  # closed
                except BufferError:
                    continue
                accepted[number].add(own)

        def poll(by_flush: bool, producer: Producer = producer) -> None:
            with suppress(RuntimeError):  # closed
                serve(producer, threading.Event(), by_flush)

        threads.start(
            *(partial(produce, index) for index in range(THREADS)),
            partial(poll, False),
            partial(poll, True),
        )
        wait_for(partial(has_items, reports.calls, 10), "the first reports")
        producer.close(timeout)
        threads.join()
        reports.check_once(set().union(*accepted))
        with pytest.raises(RuntimeError, match="closed"):
            producer.poll(0)


def test_counters_of_arrow_calls_end_in_any_thread(cluster: MockCluster) -> None:
    pa = pytest.importorskip("pyarrow", reason="pyarrow isn't installed for this Python")
    ended, threads = threading.Event(), Threads()
    producer = make(cluster, **{"message.max.bytes": MESSAGE_MAX_BYTES})
    reports: list[tuple[int, ArrowReport]] = []
    # The last row is too large, so that the call adds a failed row while others are delivered.
    rows = pa.table({"value": [b"x"] * ROWS + [bytes(MESSAGE_MAX_BYTES)]})

    def produce(number: int) -> None:
        for call in range(CALLS):
            report = partial(note, number * CALLS + call)
            assert producer.produce_arrow(TOPIC, rows, on_delivery=report) == ROWS + 1

    def note(call: int, report: ArrowReport) -> None:
        reports.append((call, report))

    threads.start(*(partial(serve, producer, ended, bool(index % 2)) for index in range(2)))
    threads.join(threads.start(*(partial(produce, index) for index in range(THREADS))))
    wait_for(lambda: len(reports) == THREADS * CALLS, "the reports")
    ended.set()
    threads.join()
    producer.close()
    assert sorted(call for call, _ in reports) == list(range(THREADS * CALLS))
    for _, report in reports:
        assert (report.rows, report.delivered) == (ROWS + 1, ROWS)
        [(row, error)] = report.failed
        assert row == ROWS
        assert error.code() == KafkaError.MSG_SIZE_TOO_LARGE


def test_a_call_that_close_ends_is_reported_once(cluster: MockCluster) -> None:
    # The counter ends after the engine was released: the count of another engine must not change.
    pa = pytest.importorskip("pyarrow", reason="pyarrow isn't installed for this Python")
    producer, reports = make(cluster), list[ArrowReport]()
    batch = pa.record_batch({"value": [b"x"] * ROWS})

    def batches() -> Iterator[Any]:
        yield batch
        producer.close()
        yield batch

    rows = pa.RecordBatchReader.from_batches(batch.schema, batches())
    with pytest.raises(RuntimeError, match="closed"):
        producer.produce_arrow(TOPIC, rows, on_delivery=reports.append)
    assert [(each.rows, each.delivered) for each in reports] == [(ROWS, ROWS)]
    assert len(producer) == 0


def test_failed_rows_of_one_report_are_added_by_several_threads(cluster: MockCluster) -> None:
    # Purged batches of both partitions have rows of the same call.
    pa = pytest.importorskip("pyarrow", reason="pyarrow isn't installed for this Python")
    producer, ended, threads = (
        make(cluster, **{"linger.ms": 60_000}),
        threading.Event(),
        Threads(),
    )
    reports: list[ArrowReport] = []
    threads.start(*(partial(serve, producer, ended, False) for _ in range(THREADS)))
    rows = pa.table(
        {"value": [b"x"] * ROWS, "partition": [row % PARTITIONS for row in range(ROWS)]}
    )
    for call in range(CALLS):
        taken = producer.produce_arrow(
            TOPIC, rows, partition="partition", on_delivery=reports.append
        )
        assert taken == ROWS
        producer.purge()
        wait_for(partial(has_items, reports, call + 1), "the report")
    ended.set()
    threads.join()
    producer.close()
    for report in reports:
        assert report.rows == ROWS
        assert len(report.failed) == ROWS - report.delivered
        assert [row for row, _ in report.failed] == sorted({row for row, _ in report.failed})
    assert any(report.failed for report in reports)


def test_headers_of_threads_do_not_mix(cluster: MockCluster) -> None:
    producer, threads = make(cluster), Threads()

    def produce(number: int) -> None:
        for index in range(MESSAGES):
            text = f"{number}-{index}"
            name = f"name-{number}" * (1 + index % 50)
            producer.produce(TOPIC, text, headers=[(name, text), ("second", text.encode())])

    threads.join(threads.start(*(partial(produce, index) for index in range(THREADS))))
    producer.close()
    for message in consume(cluster, THREADS * MESSAGES):
        value, headers = message.value(), message.headers()
        assert isinstance(value, bytes)
        assert headers is not None
        number, index = map(int, value.split(b"-"))
        name = f"name-{number}" * (1 + index % 50)
        assert headers == [(name, value), ("second", value)]


def test_code_between_two_headers_produces(cluster: MockCluster) -> None:
    # Iterating a Mapping runs Python code, during which any thread may produce.
    producer = make(cluster)

    class Outer(Mapping[str, bytes]):
        def __getitem__(self, name: str) -> bytes:
            return name.encode()

        def __len__(self) -> int:
            return 2

        def __iter__(self) -> Iterator[str]:
            yield "a"
            producer.produce(TOPIC, b"inner", partition=0, headers={"other": b"other", "b": b"b"})
            yield "c"

    producer.produce(TOPIC, b"outer", partition=0, headers=Outer())
    producer.close()
    found = [(message.value(), message.headers()) for message in consume(cluster, 2)]
    assert found == [
        (b"inner", [("other", b"other"), ("b", b"b")]),
        (b"outer", [("a", b"a"), ("c", b"c")]),
    ]


def consume(cluster: MockCluster, count: int) -> list[Message]:
    conf = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "group-0"}
    messages: list[Message] = []
    with Consumer(conf) as consumer:
        consumer.assign([TopicPartition(TOPIC, each, 0) for each in range(PARTITIONS)])
        while len(messages) < count:
            found = consumer.consume(count - len(messages), WAIT_S)
            assert found, f"{len(messages)} of {count} messages"
            messages += found
    return messages


def test_names_that_share_a_place_keep_their_topics(cluster: MockCluster) -> None:
    # Far more names than places in the producer's table: threads replace each other's names.
    topics = [f"topic-{index}" for index in range(8)]
    for topic in topics:
        cluster.create_topic(topic, 1)
    producer, threads, failures = make(cluster), Threads(), []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        value = message.value()
        if error is not None or value is None or message.topic() != value.decode():
            failures.append((error, message.topic(), value))

    def produce(number: int) -> None:
        for index in range(2 * MESSAGES):
            topic = topics[(number + index) % len(topics)]
            name = "".join(list(topic))  # a new object
            producer.produce(name, topic, on_delivery=on_delivery)

    threads.join(threads.start(*(partial(produce, index) for index in range(THREADS))))
    producer.close()
    assert not failures, failures[:3]
