"""What a task of the mirror does: reads one range and writes it to the same partition of another topic."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import astuple, dataclass
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from kafka_native import ArrowReport, KafkaError, KafkaException, Message, Producer
from kafka_native.spark import exactly_once, producers
from kafka_native.spark.exactly_once import Turn, Writing
from kafka_native.spark.fetching import BATCH_ROWS, read_range
from kafka_native.spark.options import SinkOptions, SourceOptions
from kafka_native.spark.pipelines.producing import METADATA_S, Pace, partition_count, without_negative_timestamps
from kafka_native.spark.pipelines.translation import Anchor, Piece, Run, add_runs, pieces_of
from kafka_native.spark.planning import OffsetRange

__all__ = ["Copied", "copy_range", "copy_task", "target_name"]

COLUMNS: Final = ("key", "value", "headers", "timestamp", "offset")
_STEP_S: Final = 0.25


@dataclass(frozen=True)
class Copied:
    """What came of one range."""

    pieces: tuple[Piece, ...]
    """Where its records are now; none if it had no record."""
    records: int
    bytes: int
    """Of keys and values."""


def target_name(template: str, topic: str) -> str:
    """The name of a topic's mirror: the template with ``{topic}`` replaced."""
    return template.replace("{topic}", topic)


def copy_task(
    source: SourceOptions,
    sink: SinkOptions,
    template: str,
    rate: float | None,
    turn: Turn | None,
    range_: OffsetRange,
) -> dict[str, Any]:
    """For `map_ranges()`: copies a range, and tells what came of it in JSON's words.

    :param template: As of `target_name`.
    :param rate: Records a second that this task may write at most; None for no limit.
    :param turn: The transaction of the batch; None: there is none.
    """
    writing = None if turn is None else exactly_once.writing(sink, turn)
    copied = copy_range(source, sink, range_, target_name(template, range_.topic), rate, writing)
    pieces = [list(astuple(piece)) for piece in copied.pieces]
    place = {"topic": range_.topic, "partition": range_.partition}
    return {**place, "records": copied.records, "bytes": copied.bytes, "pieces": pieces}


def copy_range(
    source: SourceOptions,
    sink: SinkOptions,
    range_: OffsetRange,
    topic: str,
    rate: float | None = None,
    writing: Writing | None = None,
) -> Copied:
    """Writes the records of a range to the same partition of ``topic``, and returns when all of them are acknowledged.

    Keys, values, headers and timestamps stay as they are, and so does the order. After an error some of the records may
    be there: done again, they are there twice.

    :param rate: Records a second at most; None for no limit.
    :param writing: The transaction that the records are to be part of; None: none.
    :raises KafkaException: A record can't be written: the target lacks the partition, refuses it, doesn't answer.
    :raises TimeoutError: The last acknowledgements didn't come.
    :raises ExactlyOnceError: The transaction is over, or somebody else writes to the partition in it.
    """
    with producers.lent(sink) as producer, nullcontext() if writing is None else writing.joined(producer):
        _check_partition(producer, topic, range_)
        if writing is not None:
            writing.claim([(topic, range_.partition)])
        look = None if writing is None else partial(exactly_once.check, producer)
        copying = _Copying(producer, topic, range_.partition, look)
        pace = Pace(rate, BATCH_ROWS)
        for batch in read_range(source, range_, COLUMNS):
            for start in range(0, batch.num_rows, pace.step):
                copying.send(batch.slice(start, pace.step))
                pace.wait(copying.rows, producer.poll)
        copying.finish(producers.patience_s(sink))
    pieces = pieces_of((range_.topic, range_.partition, topic), copying.runs, copying.anchors) if copying.rows else []
    return Copied(tuple(pieces), copying.rows, copying.bytes)


class _Copying:
    """Sends batches to one partition and keeps what is heard of them.

    The first record of the range and the last one of each batch are sent singly, with a delivery report that tells the
    offset. All go through one queue, so they arrive in order.
    """

    def __init__(self, producer: Producer, topic: str, partition: int, look: Callable[[], None] | None) -> None:
        """``look`` raises what no record's report tells: that nothing of the transaction can be seen any more."""
        self._look = look
        self.producer = producer
        self.topic = topic
        self.partition = partition
        self.runs: list[Run] = []
        self.anchors: list[Anchor] = []
        self.rows = 0
        self.bytes = 0
        self.heard = 0
        self.error: KafkaError | None = None

    def send(self, batch: pa.RecordBatch) -> None:
        """Queues a batch."""
        count = batch.num_rows
        if not count:
            return
        add_runs(self.runs, batch.column("offset"), self.rows)
        start = 0
        if not self.rows:
            self._send_one(batch, 0)
            start = 1
        if count - 1 > start:
            self._send_many(batch.slice(start, count - 1 - start))
        if count > start:
            self._send_one(batch, count - 1)
        self.rows += count
        self.bytes += _bytes_of(batch.column("key")) + _bytes_of(batch.column("value"))
        self.producer.poll(0)
        self._check()

    def finish(self, timeout_s: float) -> None:
        """Waits for what was sent."""
        deadline = time.monotonic() + timeout_s
        while self.producer.flush(_STEP_S) and time.monotonic() < deadline:
            self._check()
        self._check()
        if self.heard < self.rows:
            raise TimeoutError(
                f"{self.rows - self.heard} of {self.rows} records for {self.topic} [{self.partition}] weren't "
                f"acknowledged in {timeout_s:g} s"
            )
        self.anchors.sort()

    def _check(self) -> None:
        if self.error is not None:
            text = f"writing to {self.topic} [{self.partition}] failed: {self.error.str()}"
            raise KafkaException(KafkaError(self.error.code(), text))
        if self._look is not None:
            self._look()

    def _on_anchor(self, row: int, error: KafkaError | None, message: Message) -> None:
        self._on_row(error, message)
        offset = message.offset()
        if error is None and offset is not None and offset >= 0:
            self.anchors.append(Anchor(row, offset))

    def _on_row(self, error: KafkaError | None, message: Message) -> None:
        self.heard += 1
        if error is not None and self.error is None:
            self.error = error

    def _on_rows(self, report: ArrowReport) -> None:
        self.heard += report.rows
        if report.error is not None and self.error is None:
            self.error = report.error

    def _send_one(self, batch: pa.RecordBatch, index: int) -> None:
        """Queues one row with a report of its own; while the queue is full, reports are taken."""
        [row] = batch.select(["key", "value", "headers"]).slice(index, 1).to_pylist()
        headers = row["headers"] and [(each["key"], each["value"]) for each in row["headers"]]
        time_us = batch.column("timestamp").cast(pa.int64())[index].as_py()  # what datetime knows is less
        heard = partial(self._on_anchor, self.rows + index)
        while True:
            try:
                self.producer.produce(
                    self.topic,
                    row["value"],
                    row["key"],
                    self.partition,
                    heard,
                    timestamp=max(0, (time_us or 0) // 1000),
                    headers=headers,
                )
            except BufferError:
                self.producer.poll(_STEP_S)
                self._check()
            else:
                return

    def _send_many(self, batch: pa.RecordBatch) -> None:
        """Queues rows with one report; while the queue is full, it is waited for, and reports are taken."""
        batch = without_negative_timestamps(batch)
        taken = 0
        while taken < batch.num_rows:
            try:
                taken += self.producer.produce_arrow(
                    self.topic,
                    batch.slice(taken),
                    key="key",
                    headers="headers",
                    timestamp="timestamp",
                    partition=self.partition,
                    on_delivery=self._on_rows,
                    timeout=_STEP_S,
                )
            except BufferError as error:
                taken += error.rows  # type: ignore[attr-defined]
                self.producer.poll(0)
                self._check()


def _bytes_of(column: pa.Array) -> int:
    return pc.sum(pc.binary_length(column)).as_py() or 0


def _check_partition(producer: Producer, topic: str, range_: OffsetRange) -> None:
    """Says in time, and clearly, that the target can't take a partition."""
    count = partition_count(producer.list_topics(topic, METADATA_S), topic)
    if range_.partition >= count:
        raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION, lacking(topic, count, range_.partition + 1)))


def lacking(topic: str, count: int, needed: int) -> str:
    """What is said when a target topic can't take a source's partitions."""
    if not count:
        return f"the target has no topic {topic}: make it, with at least {needed} partitions"
    return f"topic {topic} of the target has {count} partitions and needs {needed}: add partitions to it"
