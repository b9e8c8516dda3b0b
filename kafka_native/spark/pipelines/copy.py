"""A task of the mirror: copies one range to the same partition of another topic."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import astuple, dataclass
from functools import partial
from itertools import starmap
from typing import Any, Final

from kafka_native import KafkaError, KafkaException, Producer
from kafka_native.internal import Relay, open_relay
from kafka_native.spark import exactly_once, producers
from kafka_native.spark.exactly_once import BatchTransaction, TaskAttempt
from kafka_native.spark.options import SinkOptions, SourceOptions
from kafka_native.spark.pipelines.session import check_topic
from kafka_native.spark.pipelines.target import METADATA_S, Pace, partition_count
from kafka_native.spark.pipelines.translation import Piece, Run, pieces_of
from kafka_native.spark.range_reader import read_batches
from kafka_native.spark.ranges import OffsetRange

__all__ = ["Copied", "copy_range", "copy_task", "target_name"]

TOPIC_RECREATED_TEXT: Final = "Mirror it with a new checkpoint, into a new topic"
"""The advice for a topic that was recreated since it was mirrored."""
_STEP_S: Final = 0.25
_STEP_RECORDS_MAX: Final = 1 << 40


@dataclass(frozen=True)
class Copied:
    """The result of one range."""

    pieces: tuple[Piece, ...]
    """The new offsets of its records; empty if it had no record."""
    records: int
    bytes: int
    """Bytes of copied batches as compressed, and of the data in other records."""
    skipped: tuple[tuple[int, int, str], ...] = ()
    """Offsets that couldn't be read (``failOnDataLoss=false``): start, end and reason."""


def target_name(template: str, topic: str) -> str:
    """The name of a topic's mirror: the template with ``{topic}`` replaced."""
    return template.replace("{topic}", topic)


def copy_task(
    source: SourceOptions,
    sink: SinkOptions,
    template: str,
    rate: float | None,
    transaction: BatchTransaction | None,
    topic_ids: Mapping[str, str],
    range_: OffsetRange,
) -> dict[str, Any]:
    """Copy a range, as a task of `map_ranges`. Returns the result in the form of JSON.

    :param template: The template of `target_name`.
    :param rate: The largest number of records per second for this task; None: no limit.
    :param transaction: The transaction of the batch; None: there is none.
    :param topic_ids: The ids of the topics that were mirrored before.
    :raises PipelineError: The topic was recreated since.
    """
    check_topic(range_.topic, range_.topic_id, topic_ids, TOPIC_RECREATED_TEXT)
    attempt = None if transaction is None else exactly_once.current_attempt(sink, transaction)
    copied = copy_range(source, sink, range_, target_name(template, range_.topic), rate, attempt)
    pieces = [list(astuple(piece)) for piece in copied.pieces]
    place = {"topic": range_.topic, "partition": range_.partition, "topic_id": range_.topic_id}
    done = {"records": copied.records, "bytes": copied.bytes, "pieces": pieces}
    return {**place, **done, "skipped": copied.skipped}


def copy_range(
    source: SourceOptions,
    sink: SinkOptions,
    range_: OffsetRange,
    topic: str,
    rate: float | None = None,
    attempt: TaskAttempt | None = None,
) -> Copied:
    """Write the records of a range to the same partition of ``topic``. Wait for acknowledgements.

    Keys, values, headers, timestamps and order stay. A batch is copied without decoding if all of
    it is wanted and its form can stay. Without ``compression.type`` for the target, each batch
    keeps its own compression. After an error some records may be written. A repetition writes them
    again.

    :param rate: The largest number of records per second; None: no limit.
    :param attempt: The attempt in a transaction; None: no transaction.
    :raises KafkaException: A record can't be written: the target lacks the partition, rejects it or
        doesn't answer.
    :raises TimeoutError: The last acknowledgements didn't arrive.
    :raises ExactlyOnceError: The transaction is over, or another task writes to the partition in
        it.
    """
    skipped: list[tuple[int, int, str]] = []

    def skip(start: int, end: int, reason: str) -> None:
        skipped.append((start, end, reason))

    with (
        producers.borrowed(sink) as producer,
        nullcontext() if attempt is None else attempt.joined(producer),
    ):
        _check_partition(producer, topic, range_, sink.propagation_s)
        if attempt is not None:
            attempt.claim([(topic, range_.partition)])
        check = None if attempt is None else partial(exactly_once.check, producer)
        with open_relay(producer, topic, range_.partition) as relay:
            sender = _RelaySender(producer, relay, f"{topic} [{range_.partition}]", check)
            pace = Pace(rate, _STEP_RECORDS_MAX)
            for first, batches in read_batches(source, range_, skip):
                relay.give(batches, first, range_.end)
                sender.send(pace)
        sender.finish(producers.delivery_timeout_s(sink))
    place = (range_.topic, range_.partition, topic)
    runs, placed = (list(starmap(Run, each)) for each in (relay.runs, relay.placed))
    pieces = tuple(pieces_of(place, runs, placed)) if runs else ()
    return Copied(pieces, relay.rows, relay.bytes, tuple(skipped))


class _RelaySender:
    """Sends a relay's batches, and checks their outcome."""

    def __init__(
        self,
        producer: Producer,
        relay: Relay,
        where: str,
        check_transaction: Callable[[], None] | None,
    ) -> None:
        """``check_transaction`` raises if the transaction is over. No record's report says that."""
        self._producer = producer
        self._relay = relay
        self._where = where
        self._check_transaction = check_transaction

    def send(self, pace: Pace) -> None:
        """Queue the relay's batches."""
        done = False
        while not done:
            done = self._relay.run(pace.step, _STEP_S)
            self._producer.poll(0)
            self._check()
            pace.wait(self._relay.rows, self._producer.poll)

    def finish(self, timeout_s: float) -> None:
        """Wait until all records are acknowledged."""
        deadline = time.monotonic() + timeout_s
        while self._producer.flush(_STEP_S) and time.monotonic() < deadline:
            self._check()
        self._check()
        missing = self._relay.rows - self._relay.delivered
        if missing:
            raise TimeoutError(
                f"{missing} of {self._relay.rows} records for {self._where} weren't "
                f"acknowledged in {timeout_s:g} s"
            )

    def _check(self) -> None:
        error = self._relay.error
        if error is not None:
            raise KafkaException(
                KafkaError(error.code(), f"writing to {self._where} failed: {error.str()}")
            )
        if self._check_transaction is not None:
            self._check_transaction()


def _check_partition(producer: Producer, topic: str, range_: OffsetRange, timeout_s: float) -> None:
    """Check that the target has the partition. Wait for a broker that doesn't know it yet."""
    until = time.monotonic() + timeout_s
    while (
        count := partition_count(producer.list_topics(topic, METADATA_S), topic)
    ) <= range_.partition:
        if time.monotonic() < until:
            time.sleep(_STEP_S)
            continue
        raise KafkaException(
            KafkaError(
                KafkaError._UNKNOWN_PARTITION,
                too_few_partitions_text(topic, count, range_.partition + 1),
            )
        )


def too_few_partitions_text(topic: str, count: int, needed: int) -> str:
    """The error text for a target topic with too few partitions."""
    if not count:
        return f"the target has no topic {topic}: make it, with at least {needed} partitions"
    return (
        f"topic {topic} of the target has {count} partitions and needs {needed}: add partitions "
        "to it"
    )
