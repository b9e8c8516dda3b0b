"""Streams: the driver chooses the offsets of each micro-batch; each task reads one range of them.

Spark plans a stream in one Python process that lives as long as the stream. The process keeps its
connection to the cluster. So a trigger costs one ListOffsets request for each leader.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from kafka_native.spark.admission import TriggerDelay, share_out
from kafka_native.spark.errors import DataLossError, PartitionGoneError
from kafka_native.spark.kept_state import KeptState, SkippedOffsets
from kafka_native.spark.log import logger
from kafka_native.spark.offset_reader import OffsetReader
from kafka_native.spark.offsets import (
    Key,
    Limit,
    flat,
    listed,
    nested,
)
from kafka_native.spark.options import SourceOptions
from kafka_native.spark.ranges import OffsetRange, ranges_of, split
from kafka_native.spark.topic_ids import KeptTopicIds, Offsets, TopicIds

limits: Any
try:
    from pyspark.sql.streaming import datasource as limits
except ImportError:  # PySpark 4.0 and 4.1 pass neither a start nor a limit
    limits = None

DISCOVERY_S: Final = 1.0
"""The shortest interval between two searches for new topics and partitions."""
CHECK_INTERVAL_S: Final = 0.25
"""The interval of searches for a missing partition. Each search may go to another broker."""
_LATEST: Final = Limit("latest", "startingOffsets")
_NO_CHECKPOINT_TEXT: Final = (
    "a topic that is deleted and recreated while the query doesn't run can't be noticed: write "
    "option checkpointLocation of writeStream as an option of readStream, too"
)

_AvailableNow: Any = object if limits is None else limits.SupportsTriggerAvailableNow


class StreamReader(DataSourceStreamReader, _AvailableNow):  # type: ignore[misc]  # a base that not every PySpark has
    """The methods that Spark calls for a stream, with offsets as JSON. `Planner` does the work.

    Spark makes three of them: one plans the stream, one makes the reading function, and each task
    has a copy of the second. Only the first one connects to the cluster.
    """

    def __init__(self, options: SourceOptions) -> None:
        """Check the options for streams."""
        self.options = options.for_stream()
        self._planner = Planner(self.options, OffsetReader(self.options))
        self._has_begun = False
        self._has_planned = False

    def __reduce__(self) -> tuple[type[StreamReader], tuple[SourceOptions]]:
        """Pickle without the connection: tasks get a copy."""
        return StreamReader, (self.options,)

    def initialOffset(self) -> dict[str, dict[str, int]]:
        """The start of a new query. It returns the same offsets each time."""
        self._begin()
        return nested(self._planner.initial())

    def latestOffset(
        self, start: dict[str, dict[str, int]] | None = None, limit: object = None
    ) -> dict[str, dict[str, int]]:
        """The end of the next micro-batch. It is ``start`` if there is nothing to do.

        :param start: The start of the micro-batch; PySpark before 4.2 doesn't pass it.
        :param limit: A read limit such as `getDefaultReadLimit()`; PySpark before 4.2 doesn't pass
            it.
        """
        self._begin()
        offsets_max, offsets_min = (
            self.options.max_offsets_per_trigger,
            self.options.min_offsets_per_trigger,
        )
        if limits is not None and isinstance(limit, limits.ReadAllAvailable):
            offsets_max = offsets_min = None
        offsets_max = getattr(limit, "max_rows", offsets_max)
        offsets_min = getattr(limit, "min_rows", offsets_min)
        known = self._planner.seen if start is None else flat(start, "checkpoint")
        end = self._planner.latest(known, offsets_max, offsets_min)
        return start if start is not None and end == known else nested(end)

    def getDefaultReadLimit(self) -> Any:
        """The limit in the options.

        PySpark has no limit with both a minimum and a maximum, so `latestOffset` adds the minimum.
        """
        if self.options.max_offsets_per_trigger is not None:
            return limits.ReadMaxRows(self.options.max_offsets_per_trigger)
        if self.options.min_offsets_per_trigger is not None:
            return limits.ReadMinRows(self.options.min_offsets_per_trigger)
        return limits.ReadAllAvailable()

    def reportLatestOffset(self) -> dict[str, dict[str, int]] | None:
        """The partitions' ends in the last answer, for the query's progress report."""
        newest = self._planner.newest
        return None if newest is None else nested(newest)

    def _begin(self) -> None:
        """Once, while the query runs: check the target of dead letters, and keep the schemas."""
        if not self._has_begun and self.options.decoded is not None:
            # Imported here, because most queries decode nothing.
            from kafka_native.spark import dead_letters, kept_schemas

            dead_letters.check_target(self.options)
            kept_schemas.keep(self.options)
        self._has_begun = True

    def prepareForTriggerAvailableNow(self) -> None:
        """Note that the query ends at the current ends of the partitions."""
        self._planner.stop_at_the_end()

    def partitions(self, start: dict[str, object], end: dict[str, object]) -> list[OffsetRange]:
        """The ranges of a micro-batch, one for each task."""
        self._begin()
        planned = self._planner.ranges(flat(start, "checkpoint"), flat(end, "checkpoint"))
        if planned and not self._has_planned and self.options.dead_letters is not None:
            # Only the first micro-batch may be a repetition with other ranges.
            from kafka_native.spark import dead_letters

            dead_letters.remove_stale(self.options, planned)
        self._has_planned = self._has_planned or bool(planned)
        return planned

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the records of one range, in a task."""
        # Imported here, because the planning process doesn't need it.
        from kafka_native.spark.range_reader import read_rows

        assert isinstance(partition, OffsetRange)
        return read_rows(self.options, partition, self._skip_recorder(partition))

    def _skip_recorder(self, range_: OffsetRange) -> Callable[[int, int, str], object]:
        """A function that records skipped offsets of a range beside the checkpoint."""

        def record(start: int, end: int, reason: str) -> None:
            if self.options.checkpoint:
                now_ms = time.time_ns() // 1_000_000
                skipped = SkippedOffsets(*range_.key, start, end, reason, now_ms, range_.topic_id)
                KeptState(self.options.checkpoint).add_skipped(skipped)

        return record

    def commit(self, end: dict[str, object]) -> None:
        """Do nothing: Spark's checkpoint has the query's progress."""

    def stop(self) -> None:
        """Close the connection to the cluster."""
        self._planner.close()


class Planner:
    """Plans the micro-batches of one stream. Only one thread may use it."""

    def __init__(
        self,
        options: SourceOptions,
        cluster: OffsetReader,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        """``close`` also closes ``cluster``. ``clock`` returns monotonic seconds."""
        self._options = options
        self._starting = options.starting or _LATEST
        self._cluster = cluster
        self._clock = clock
        self._sleep = sleep
        self._delay = TriggerDelay(options.max_trigger_delay_s, clock)
        self._initial: Offsets | None = None
        self._target: Offsets | None = None
        self._settled = False
        self._is_loaded = False
        self._known: list[Key] = []
        self._known_s: float | None = None
        self._gone: set[Key] = set()  # partitions that existed and that no broker has any more
        self._state = KeptState(options.checkpoint) if options.checkpoint else None
        self._topics = TopicIds(None if self._state is None else KeptTopicIds(self._state, options))
        self._last_ends: Offsets = {}  # the last known end of each partition, also of deleted ones
        self._former_ends: Offsets = {}  # the last known ends of topics before they were recreated
        self._begins: Offsets = {}
        self._planned: tuple[Offsets, Offsets, list[OffsetRange]] | None = None
        self.newest: Offsets | None = None
        """The partitions' ends in the last answer; None before the first one."""
        self.seen: Offsets | None = None
        """The end of the last micro-batch that Spark has named; None before the first one."""

    def close(self) -> None:
        """Close the connection to the cluster."""
        self._cluster.close()

    def initial(self) -> Offsets:
        """The start of a new query.

        Spark calls this repeatedly and needs the same offsets each time.
        """
        if self._initial is None:
            self._load()
            found = self._cluster.resolve(self._starting, self._partitions(), starting=True)
            if self._settled and self.newest is not None:
                # PySpark before 4.2 asks for the end before the start.
                found = self._not_beyond(found, self.newest)
            else:
                self._topics.note_offsets(found)
            self._initial = found
        return self._initial

    def stop_at_the_end(self) -> None:
        """Fix the query's end now (Trigger.AvailableNow). Later records are for the next run."""
        self._load()
        self._target = self._ends({})
        if self._options.ending is not None:
            self._target = self._cluster.resolve(self._options.ending, self._target, starting=False)

    def latest(
        self, start: Offsets | None, offsets_max: int | None = None, offsets_min: int | None = None
    ) -> Offsets:
        """The end of the next micro-batch.

        :param start: Its start; None: unknown, so no limit applies.
        :param offsets_max: About the largest number of offsets (see `share_out`); None: no limit.
        :param offsets_min: Wait for this number of offsets, up to ``maxTriggerDelay``; None: don't
            wait.
        """
        self._load()
        self._topics.start_at(start)
        end = self._next_end(start, offsets_max, offsets_min)
        self._topics.keep_first(start)
        if start is not None and end == start:
            # A recreated topic ends exactly where the old one was read to. With the same offsets
            # Spark would start no batch, so the end moves back by one.
            end = {
                key: at - (at > 0 and self._topics.is_recreated(key[0])) for key, at in end.items()
            }
        if end != start:
            self._topics.note_offsets(end)
        return end

    def _next_end(
        self, start: Offsets | None, offsets_max: int | None, offsets_min: int | None
    ) -> Offsets:
        is_first, self._settled = not self._settled, True
        if self._options.ending is not None and self._target is None:
            self.stop_at_the_end()
        ends = self.newest = (
            self._ends(start or {}) if self._target is None else self._target_from(start or {})
        )
        self._last_ends.update(ends)
        if start is None:
            return dict(ends)
        if is_first and start == self._initial and self._starts_late():
            # The first micro-batch is empty. It puts the starting offsets into the checkpoint:
            # after a crash "latest" would be other offsets.
            return dict(start)
        if offsets_max is None and offsets_min is None:
            return dict(ends)
        starts = self._starts(start, ends)
        # A query with a fixed end doesn't wait for more.
        waits = offsets_min is not None and self._target is None
        if waits and offsets_min is not None and not self._delay.is_due(starts, ends, offsets_min):
            return dict(start)
        return dict(ends) if offsets_max is None else share_out(starts, ends, offsets_max)

    def ranges(self, start: Offsets, end: Offsets) -> list[OffsetRange]:
        """The ranges of a micro-batch, one for each task. Spark may call it more than once.

        :raises DataLossError: Partitions are gone, or begin or end at unexpected offsets
            (``failOnDataLoss``).
        """
        self._load()
        self.seen = end
        if start == end:
            return []
        if self._planned is not None and self._planned[:2] == (start, end):
            return self._planned[2]
        if self._known_s is None:  # a batch that runs again after a restart: the ids aren't known
            self._partitions()
        starts = start
        if not self._settled and start == self._initial:
            # The query's first micro-batch runs again after a crash. The checkpoint doesn't have
            # its start.
            starts = self._not_beyond({key: start[key] for key in start if key in end}, end)
        self._settled = True
        self._topics.plan(start)
        planned = self._checked(starts, end)
        self._topics.keep(start, end)
        self._planned = (start, end, planned)
        return planned

    def _checked(self, start: Offsets, end: Offsets) -> list[OffsetRange]:
        gone = sorted(start.keys() - end.keys())
        lost = [OffsetRange(*key, start[key], self._last_ends.get(key, start[key])) for key in gone]
        if gone:
            ends = {key: self._last_ends.get(key) for key in gone}
            self._lose(gone, "gone, the topic was deleted", start, ends)
        recreated = self._recreated(start, end)
        if recreated:
            text = "the topic was deleted and recreated"
            self._lose(recreated, text, start, self._former_ends)
        starts = {key: start[key] for key in end if key in start and key not in recreated}
        added = sorted(end.keys() - starts.keys())
        if added:
            begins, unread = self._begin_at(added)
            starts.update(begins)
            lost += unread
        for key, offset in starts.items():
            if end[key] < offset:
                text = f"offset {offset} was reached, but now the partition ends at {end[key]}"
                self._lose([key], text)
        whole = ranges_of(starts, end, self._topics.ids_at(end))
        planned = split(
            whole, self._options.min_partitions, self._options.max_records_per_partition
        )
        if self._options.rows == "ranges":  # the user's own tasks record skipped ranges, too
            planned += [
                replace(each, lost="deleted before it was read") for each in lost if each.size > 0
            ]
        return planned

    def _begin_at(self, added: list[Key]) -> tuple[Offsets, list[OffsetRange]]:
        """The first offsets of new partitions, and the ranges that are deleted already."""
        there = set(self._partitions(added, refresh=True))
        missing = [key for key in added if key not in there]
        if missing:
            self._lose(missing, "gone, the topic was deleted", dict.fromkeys(missing, 0))
        begins = self._beginnings(key for key in added if key in there)
        late = [key for key, offset in begins.items() if offset > 0]
        if late:
            text = "added to the stream, but the first record is gone already"
            self._lose(late, text, dict.fromkeys(late, 0), begins)
        return begins, [OffsetRange(*key, 0, begins[key]) for key in late]

    def _recreated(self, start: Offsets, end: Offsets) -> list[Key]:
        """The partitions whose topic was recreated between a batch's start and its end.

        A batch of an earlier run may lie in the old topic as a whole. With ``failOnDataLoss`` it
        counts. Otherwise the tasks skip it, and the next batch begins with the new topic.
        """
        fails = self._options.fail_on_data_loss
        return sorted(
            key
            for key in start.keys() & end.keys()
            if self._topics.is_recreated(key[0], end)
            or (fails and self._topics.is_recreated(key[0]))
        )

    def _lose(
        self,
        keys: list[Key],
        text: str,
        starts: Mapping[Key, int] | None = None,
        ends: Mapping[Key, int | None] | None = None,
    ) -> None:
        """Raise `DataLossError`, or warn and record the skipped offsets.

        :param text: The reason.
        :param starts: The first skipped offset of each partition; None: no known one was skipped.
        :param ends: The offset after the last skipped one, where it is known.
        """
        lost = f"{listed(keys)}: {text}; records may have been missed"
        if self._options.fail_on_data_loss:
            raise DataLossError(f"{lost}. Write failOnDataLoss=false to go on without them")
        logger.warning("%s (failOnDataLoss=false)", lost)
        if self._state is None or starts is None:
            return
        now_ms, ids = time.time_ns() // 1_000_000, self._topics.start_ids
        for key in keys:
            until = None if ends is None else ends.get(key)
            if until is None or until > starts[key]:
                topic_id = ids.get(key[0], "")
                self._state.add_skipped(
                    SkippedOffsets(*key, starts[key], until, text, now_ms, topic_id)
                )

    def _starts_late(self) -> bool:
        """Whether the query starts at latest offsets, which depend on when they are requested."""
        kind = self._starting.kind
        if kind == "offsets":
            return -1 in self._starting.values.values()
        return kind == "latest" or (
            kind in ("timestamp", "timestamps") and self._options.by_timestamp_strategy == "latest"
        )

    def _not_beyond(self, start: Offsets, end: Offsets) -> Offsets:
        """Limit a start to the end that was read before it. Offsets named in the options stay."""
        if not self._starts_late():
            return start
        named = self._starting.values if self._starting.kind == "offsets" else {}
        return {
            key: at if named.get(key, -1) >= 0 else min(at, end.get(key, at))
            for key, at in start.items()
        }

    def _partitions(self, expected: Collection[Key] = (), *, refresh: bool = False) -> list[Key]:
        """The existing partitions, from a cache. With ``assign`` they never change.

        :param expected: Partitions that existed before. If one is missing, the cluster is asked.
        :param refresh: Ask the cluster in any case.
        """
        fixed = self._has_fixed_partitions
        is_due = self._known_s is None or (
            not fixed and self._clock() - self._known_s >= DISCOVERY_S
        )
        is_short = not fixed and not self._gone.union(self._known).issuperset(expected)
        if refresh or is_due or is_short:
            self._discover(() if fixed else expected)
        return self._known

    def _discover(self, expected: Collection[Key]) -> None:
        """Ask the cluster for its partitions.

        A broker with old metadata may not know all partitions yet. So a missing partition is
        searched for again. It is gone if no broker has it for ``propagation_s``.
        """
        found = set(self._cluster.partitions())
        wanted = {*self._known, *expected} - self._gone
        until = self._clock() + self._options.propagation_s
        while not wanted <= found and self._clock() < until:
            self._sleep(CHECK_INTERVAL_S)
            found.update(self._cluster.partitions())
        self._gone = (self._gone | wanted) - found
        self._known, self._known_s = sorted(found), self._clock()
        if not self._has_fixed_partitions:  # otherwise the ids would never be updated
            for topic in self._topics.update(self._cluster.topic_ids):
                ends = {key: at for key, at in self._last_ends.items() if key[0] == topic}
                self._former_ends.update(ends)

    @property
    def _has_fixed_partitions(self) -> bool:
        """Whether the cluster is asked only once. Kept ids need a current one to compare with."""
        return bool(self._options.subscription.partitions) and self._state is None

    def _load(self) -> None:
        """Read the kept ids once. Without a checkpoint warn once."""
        if self._is_loaded:
            return
        self._is_loaded = True
        if self._state is not None:
            found = self._cluster.cluster_id()
            self._topics.load(found)
            self._partitions()
        elif self._options.rows == "records":
            logger.warning(_NO_CHECKPOINT_TEXT)

    def _ends(self, start: Mapping[Key, int]) -> Offsets:
        """The partitions' ends. If one is before a known offset, ask again.

        A new leader may not know its real end yet.
        """
        ends = self._latest(start)
        for _ in range(self._options.fetch_retries):
            if all(ends.get(key, offset) >= offset for key, offset in start.items()):
                break
            self._sleep(self._options.retry_interval_s)
            ends = self._latest(start)
        return ends

    def _target_from(self, start: Offsets) -> Offsets:
        """The fixed end, but not before the start, unless the partition itself ends there."""
        target = self._target or {}
        before = {
            key: at
            for key, at in start.items()
            if target.get(key, -1) < at and key not in self._gone
        }
        if before:
            ends = self._ends(start)
            # A partition that wasn't found when the end was fixed: take its current end.
            target.update({key: min(at, ends[key]) if key in target else ends[key]
                           for key, at in before.items() if key in ends})  # fmt: skip
        return dict(target)

    def _latest(self, start: Mapping[Key, int]) -> Offsets:
        for refresh in (False, True):
            try:
                return self._cluster.latest(self._partitions(start, refresh=refresh))
            except PartitionGoneError:
                continue
        # The deleted partitions have been removed.
        return self._cluster.latest(self._partitions(start, refresh=True))

    def _starts(self, start: Offsets, ends: Offsets) -> Offsets:
        """The start of each partition of ``ends``. New partitions start at their beginning."""
        added = [key for key in ends if key not in start or self._topics.is_recreated(key[0])]
        begins = self._beginnings(added)
        return {key: begins[key] if key in begins else start[key] for key in ends}

    def _beginnings(self, keys: Iterable[Key]) -> Offsets:
        """The first offsets of new partitions.

        They are requested once: a micro-batch is planned with the same offsets that limited it.
        """
        wanted = list(keys)
        missing = [key for key in wanted if key not in self._begins]
        known = {**self._begins, **self._cluster.earliest(missing)}
        self._begins = {key: known[key] for key in wanted}
        return dict(self._begins)
