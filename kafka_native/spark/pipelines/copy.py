"""What a task of the mirror does: reads one range and writes it to the same partition of another topic."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import astuple, dataclass
from functools import partial
from itertools import starmap
from typing import Any, Final

from kafka_native import KafkaError, KafkaException, Producer
from kafka_native._native.relaying import Relay
from kafka_native.spark import exactly_once, producers
from kafka_native.spark.exactly_once import Turn, Writing
from kafka_native.spark.options import SinkOptions, SourceOptions
from kafka_native.spark.pipelines.session import check_topic
from kafka_native.spark.pipelines.target import METADATA_S, Pace, partition_count
from kafka_native.spark.pipelines.translation import Piece, Run, pieces_of
from kafka_native.spark.range_reader import read_batches
from kafka_native.spark.ranges import OffsetRange

__all__ = ["Copied", "copy_range", "copy_task", "target_name"]

TOPIC_RECREATED_TEXT: Final = "Mirror it with a new checkpoint, into a topic that is made anew, too"
"""What to do about a topic that isn't the one that was mirrored before."""
_STEP_S: Final = 0.25
_STEP_RECORDS_MAX: Final = 1 << 40


@dataclass(frozen=True)
class Copied:
    """What came of one range."""

    pieces: tuple[Piece, ...]
    """Where its records are now; none if it had no record."""
    records: int
    bytes: int
    """As they went: batches that were copied whole as compressed as they are, of other records what is in them."""


def target_name(template: str, topic: str) -> str:
    """The name of a topic's mirror: the template with ``{topic}`` replaced."""
    return template.replace("{topic}", topic)


def copy_task(
    source: SourceOptions,
    sink: SinkOptions,
    template: str,
    rate: float | None,
    turn: Turn | None,
    topic_ids: Mapping[str, str],
    range_: OffsetRange,
) -> dict[str, Any]:
    """For `map_ranges()`: copies a range, and tells what came of it in JSON's words.

    :param template: As of `target_name`.
    :param rate: Records a second that this task may write at most; None for no limit.
    :param turn: The transaction of the batch; None: there is none.
    :param topic_ids: The ids of the topics that were mirrored before.
    :raises PipelineError: The topic was made anew since.
    """
    check_topic(range_.topic, range_.topic_id, topic_ids, TOPIC_RECREATED_TEXT)
    writing = None if turn is None else exactly_once.writing(sink, turn)
    copied = copy_range(source, sink, range_, target_name(template, range_.topic), rate, writing)
    pieces = [list(astuple(piece)) for piece in copied.pieces]
    place = {"topic": range_.topic, "partition": range_.partition, "topic_id": range_.topic_id}
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

    Keys, values, headers and timestamps stay as they are, and so does the order. Batches are copied whole, without
    being opened, where all of one is wanted and it can stay as it is; without ``compression.type`` for the target each
    keeps its own. After an error some of the records may be there: done again, they are there twice.

    :param rate: Records a second at most; None for no limit.
    :param writing: The transaction that the records are to be part of; None: none.
    :raises KafkaException: A record can't be written: the target lacks the partition, refuses it, doesn't answer.
    :raises TimeoutError: The last acknowledgements didn't come.
    :raises ExactlyOnceError: The transaction is over, or somebody else writes to the partition in it.
    """
    with producers.lent(sink) as producer, nullcontext() if writing is None else writing.joined(producer):
        _check_partition(producer, topic, range_, sink.propagation_s)
        if writing is not None:
            writing.claim([(topic, range_.partition)])
        look = None if writing is None else partial(exactly_once.check, producer)
        with producer._relay(topic, range_.partition) as relay:
            copying = _Copying(producer, relay, f"{topic} [{range_.partition}]", look)
            pace = Pace(rate, _STEP_RECORDS_MAX)
            for first, batches in read_batches(source, range_):
                relay.give(batches, first, range_.end)
                copying.send(pace)
        copying.finish(producers.patience_s(sink))
    place = (range_.topic, range_.partition, topic)
    runs, placed = (list(starmap(Run, each)) for each in (relay.runs, relay.placed))
    return Copied(tuple(pieces_of(place, runs, placed)) if runs else (), relay.rows, relay.bytes)


class _Copying:
    """Has a relay send what it is given, and hears what becomes of it."""

    def __init__(self, producer: Producer, relay: Relay, where: str, look: Callable[[], None] | None) -> None:
        """``look`` raises what no record's report tells: that nothing of the transaction can be seen any more."""
        self._producer = producer
        self._relay = relay
        self._where = where
        self._look = look

    def send(self, pace: Pace) -> None:
        """Queues what the relay has at hand."""
        done = False
        while not done:
            done = self._relay.run(pace.step, _STEP_S)
            self._producer.poll(0)
            self._check()
            pace.wait(self._relay.rows, self._producer.poll)

    def finish(self, timeout_s: float) -> None:
        """Waits for what was sent."""
        deadline = time.monotonic() + timeout_s
        while self._producer.flush(_STEP_S) and time.monotonic() < deadline:
            self._check()
        self._check()
        missing = self._relay.rows - self._relay.delivered
        if missing:
            raise TimeoutError(
                f"{missing} of {self._relay.rows} records for {self._where} weren't acknowledged in {timeout_s:g} s"
            )

    def _check(self) -> None:
        error = self._relay.error
        if error is not None:
            raise KafkaException(KafkaError(error.code(), f"writing to {self._where} failed: {error.str()}"))
        if self._look is not None:
            self._look()


def _check_partition(producer: Producer, topic: str, range_: OffsetRange, patience_s: float) -> None:
    """Says in time, and clearly, that the target can't take a partition, which not every broker may know yet."""
    until = time.monotonic() + patience_s
    while (count := partition_count(producer.list_topics(topic, METADATA_S), topic)) <= range_.partition:
        if time.monotonic() < until:
            time.sleep(_STEP_S)
            continue
        raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION, lacking(topic, count, range_.partition + 1)))


def lacking(topic: str, count: int, needed: int) -> str:
    """What is said when a target topic can't take a source's partitions."""
    if not count:
        return f"the target has no topic {topic}: make it, with at least {needed} partitions"
    return f"topic {topic} of the target has {count} partitions and needs {needed}: add partitions to it"
