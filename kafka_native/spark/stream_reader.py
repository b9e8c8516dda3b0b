"""Streams: which offsets a micro-batch has, settled on the driver, and its ranges, each read by a task.

Spark keeps one Python process for the planning of a stream, for as long as the stream runs; the connection to the
cluster lives in it, so a trigger costs one ListOffsets request to each leader.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from kafka_native import KafkaError, KafkaException
from kafka_native.spark.admission import Patience, share_out
from kafka_native.spark.errors import DataLossError
from kafka_native.spark.log import logger
from kafka_native.spark.offsets import UNKNOWN_PARTITION_ERRORS, Key, Limit, OffsetReader, flat, listed, nested
from kafka_native.spark.options import SourceOptions
from kafka_native.spark.ranges import OffsetRange, ranges_of, split

limits: Any
try:
    from pyspark.sql.streaming import datasource as limits
except ImportError:  # PySpark 4.0 and 4.1 hand over neither a start nor a limit
    limits = None

Offsets = dict[Key, int]
"""The next offset of each partition."""

DISCOVERY_S: Final = 1.0
"""How often a stream looks for new topics and partitions, at most."""
CHECK_INTERVAL_S: Final = 0.25
"""How often a partition that is missing is looked for; each time another broker is asked."""
_LATEST: Final = Limit("latest", "startingOffsets")

_AvailableNow: Any = object if limits is None else limits.SupportsTriggerAvailableNow


class StreamReader(DataSourceStreamReader, _AvailableNow):  # type: ignore[misc]  # a base that not every PySpark has
    """What Spark asks about a stream, in its JSON; `Planner` has the answers.

    It is made three times: where the stream is planned, where its reading function is made, and (a copy of the latter)
    in each task. Only the first one ever connects.
    """

    def __init__(self, options: SourceOptions) -> None:
        """``options`` are checked for streams here."""
        self.options = options.for_stream()
        self._planner = Planner(self.options, OffsetReader(self.options))

    def __reduce__(self) -> tuple[type[StreamReader], tuple[SourceOptions]]:
        """Without the connection: tasks get a copy."""
        return StreamReader, (self.options,)

    def initialOffset(self) -> dict[str, dict[str, int]]:
        """Where a new query starts: the same answer each time."""
        return nested(self._planner.initial())

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, dict[str, int]]:
        """Where the next micro-batch ends; ``start`` itself if there is to be none.

        :param start: Where it starts; PySpark before 4.2 doesn't say.
        :param limit: `getDefaultReadLimit()`, or that there be none; PySpark before 4.2 doesn't say.
        """
        most, least = self.options.max_offsets_per_trigger, self.options.min_offsets_per_trigger
        if limits is not None and isinstance(limit, limits.ReadAllAvailable):
            most = least = None
        most = getattr(limit, "max_rows", most)
        least = getattr(limit, "min_rows", least)
        known = self._planner.seen if start is None else flat(start, "checkpoint")
        end = self._planner.latest(known, most, least)
        return start if start is not None and end == known else nested(end)

    def getDefaultReadLimit(self) -> Any:
        """What the options say; PySpark knows no limit of both kinds, so the lower one is added by `latestOffset()`."""
        if self.options.max_offsets_per_trigger is not None:
            return limits.ReadMaxRows(self.options.max_offsets_per_trigger)
        if self.options.min_offsets_per_trigger is not None:
            return limits.ReadMinRows(self.options.min_offsets_per_trigger)
        return limits.ReadAllAvailable()

    def reportLatestOffset(self) -> dict[str, dict[str, int]] | None:
        """The partitions' ends when they were asked last, for the query's progress."""
        newest = self._planner.newest
        return None if newest is None else nested(newest)

    def prepareForTriggerAvailableNow(self) -> None:
        """The query is to end where the partitions end now."""
        self._planner.stop_at_the_end()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[OffsetRange]:
        """One range for each task of the micro-batch from ``start`` to ``end``."""
        return self._planner.ranges(flat(start, "checkpoint"), flat(end, "checkpoint"))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of one range, in a task."""
        from kafka_native.spark.range_reader import read_rows  # the process that plans needs none of it

        assert isinstance(partition, OffsetRange)
        return read_rows(self.options, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing: Spark's checkpoint says how far the query is."""

    def stop(self) -> None:
        """Closes the connection to the cluster."""
        self._planner.close()


class Planner:
    """Plans the micro-batches of one stream. Belongs to one thread."""

    def __init__(
        self,
        options: SourceOptions,
        cluster: OffsetReader,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        """``cluster`` is closed with it; ``clock``: monotonic seconds."""
        self._options = options
        self._starting = options.starting or _LATEST
        self._cluster = cluster
        self._clock = clock
        self._sleep = sleep
        self._patience = Patience(options.max_trigger_delay_s, clock)
        self._initial: Offsets | None = None
        self._target: Offsets | None = None
        self._settled = False
        self._known: list[Key] = []
        self._known_s: float | None = None
        self._gone: set[Key] = set()  # they were there, and nobody has them any more
        self._topics = TopicIds()
        self._last_ends: Offsets = {}  # of all partitions that there were: what a deleted one had
        self._begins: Offsets = {}
        self._planned: tuple[Offsets, Offsets, list[OffsetRange]] | None = None
        self.newest: Offsets | None = None
        """The partitions' ends when they were asked last; None: never."""
        self.seen: Offsets | None = None
        """Where the last micro-batch ended that Spark has spoken of; None: it has spoken of none."""

    def close(self) -> None:
        """Closes the connection to the cluster."""
        self._cluster.close()

    def initial(self) -> Offsets:
        """Where a new query starts. Spark asks more than once and has to hear the same."""
        if self._initial is None:
            found = self._cluster.resolve(self._starting, self._partitions(), starting=True)
            if self._settled and self.newest is not None:
                found = self._not_beyond(found, self.newest)  # PySpark before 4.2 asks for the end first
            else:
                self._topics.note_offsets(found)
            self._initial = found
        return self._initial

    def stop_at_the_end(self) -> None:
        """Settles where the query ends (Trigger.AvailableNow): what comes later is for another run."""
        self._target = self._ends({})

    def latest(self, start: Offsets | None, most: int | None = None, least: int | None = None) -> Offsets:
        """Where the next micro-batch ends.

        :param start: Where it starts; None: nobody knows, so there is no limit.
        :param most: How many offsets it has at most (about: see `share_out()`); None: all that are there.
        :param least: How many there must be, unless it takes too long (``maxTriggerDelay``); None: any number.
        """
        self._topics.start_at(start)
        end = self._next_end(start, most, least)
        if start is not None and end == start:
            # A topic made anew that ends where the old one was read to: with the same offsets there were no batch.
            end = {key: at - (at > 0 and self._topics.is_anew(key[0])) for key, at in end.items()}
        if end != start:
            self._topics.note_offsets(end)
        return end

    def _next_end(self, start: Offsets | None, most: int | None, least: int | None) -> Offsets:
        is_first, self._settled = not self._settled, True
        ends = self.newest = self._ends(start or {}) if self._target is None else self._target_from(start or {})
        self._last_ends.update(ends)
        if start is None:
            return dict(ends)
        if is_first and start == self._initial and self._starts_late():
            # The first micro-batch is empty, so that the checkpoint has the offsets that the query started from:
            # asked again after a crash, "latest" would mean something else.
            return dict(start)
        if most is None and least is None:
            return dict(ends)
        starts = self._starts(start, ends)
        waits = least is not None and self._target is None  # a query that is to end doesn't wait for more
        if waits and least is not None and not self._patience.has_enough(starts, ends, least):
            return dict(start)
        return dict(ends) if most is None else share_out(starts, ends, most)

    def ranges(self, start: Offsets, end: Offsets) -> list[OffsetRange]:
        """What the tasks of a micro-batch read. Spark may ask more than once.

        :raises DataLossError: Partitions are gone, or begin or end elsewhere than they should (``failOnDataLoss``).
        """
        self.seen = end
        if start == end:
            return []
        if self._planned is not None and self._planned[:2] == (start, end):
            return self._planned[2]
        starts = start
        if not self._settled and start == self._initial:
            # The first micro-batch of all, again after a crash: where it started is not in the checkpoint.
            starts = self._not_beyond({key: start[key] for key in start if key in end}, end)
        self._settled = True
        planned = self._checked(starts, end)
        self._planned = (start, end, planned)
        return planned

    def _checked(self, start: Offsets, end: Offsets) -> list[OffsetRange]:
        gone = sorted(start.keys() - end.keys())
        lost = [OffsetRange(*key, start[key], self._last_ends.get(key, start[key])) for key in gone]
        if gone:
            self._lose(f"{listed(gone)}: gone, the topic was deleted")
        anew = sorted(key for key in start.keys() & end.keys() if self._topics.is_anew(key[0], end))
        if anew:
            self._lose(f"{listed(anew)}: the topic was deleted and made anew")
        starts = {key: start[key] for key in end if key in start and key not in anew}
        added = sorted(end.keys() - starts.keys())
        if added:
            begins, unread = self._begin_at(added)
            starts.update(begins)
            lost += unread
        for key, offset in starts.items():
            if end[key] < offset:
                self._lose(f"{listed([key])}: offset {offset} was reached, but now the partition ends at {end[key]}")
        whole = ranges_of(starts, end, self._topics.ids_at(end))
        planned = split(whole, self._options.min_partitions, self._options.max_records_per_partition)
        if self._options.rows == "ranges":  # who reads them by himself records what is skipped, too
            planned += [replace(each, lost="deleted before it was read") for each in lost if each.size > 0]
        return planned

    def _begin_at(self, added: list[Key]) -> tuple[Offsets, list[OffsetRange]]:
        """Where partitions begin that the stream hasn't read yet, and what they have lost already."""
        there = set(self._partitions(added, anew=True))
        missing = [key for key in added if key not in there]
        if missing:
            self._lose(f"{listed(missing)}: gone, the topic was deleted")
        begins = self._beginnings(key for key in added if key in there)
        late = [key for key, offset in begins.items() if offset > 0]
        if late:
            self._lose(f"{listed(late)}: added to the stream, but the first record is gone already")
        return begins, [OffsetRange(*key, 0, begins[key]) for key in late]

    def _lose(self, text: str) -> None:
        if self._options.fail_on_data_loss:
            raise DataLossError(
                f"{text}; records may have been missed. Write failOnDataLoss=false to go on without them"
            )
        logger.warning("%s; records may have been missed (failOnDataLoss=false)", text)

    def _starts_late(self) -> bool:
        """Whether the query starts at offsets that are the latest only now."""
        kind = self._starting.kind
        if kind == "offsets":
            return -1 in self._starting.values.values()
        return kind == "latest" or (
            kind in ("timestamp", "timestamps") and self._options.by_timestamp_strategy == "latest"
        )

    def _not_beyond(self, start: Offsets, end: Offsets) -> Offsets:
        """A start that was asked for after its end, put right; offsets that the options name stay what they are."""
        if not self._starts_late():
            return start
        named = self._starting.values if self._starting.kind == "offsets" else {}
        return {key: at if named.get(key, -1) >= 0 else min(at, end.get(key, at)) for key, at in start.items()}

    def _partitions(self, expected: Collection[Key] = (), *, anew: bool = False) -> list[Key]:
        """The partitions that there are; not asked for each time. Those of ``assign`` don't change.

        :param expected: Those that there were.
        :param anew: Asks in any case.
        """
        fixed = bool(self._options.subscription.partitions)
        is_due = self._known_s is None or (not fixed and self._clock() - self._known_s >= DISCOVERY_S)
        is_short = not fixed and not self._gone.union(self._known).issuperset(expected)
        if anew or is_due or is_short:
            self._discover(() if fixed else expected)
        return self._known

    def _discover(self, expected: Collection[Key]) -> None:
        """Asks which partitions there are.

        A broker whose metadata are behind doesn't have all that another one has told of. So a partition that was there
        is asked for again, and is gone when nobody has had it for ``propagation_s``.
        """
        found = set(self._cluster.partitions())
        wanted = {*self._known, *expected} - self._gone
        until = self._clock() + self._options.propagation_s
        while not wanted <= found and self._clock() < until:
            self._sleep(CHECK_INTERVAL_S)
            found.update(self._cluster.partitions())
        self._gone = (self._gone | wanted) - found
        self._known, self._known_s = sorted(found), self._clock()
        if not self._options.subscription.partitions:  # whose topics aren't looked at again
            self._topics.update(self._cluster.topic_ids)

    def _ends(self, start: Mapping[Key, int]) -> Offsets:
        """The partitions' ends; asked again where one lies before what was read: a new leader may not know it yet."""
        ends = self._latest(start)
        for _ in range(self._options.fetch_retries):
            if all(ends.get(key, offset) >= offset for key, offset in start.items()):
                break
            self._sleep(self._options.retry_interval_s)
            ends = self._latest(start)
        return ends

    def _target_from(self, start: Offsets) -> Offsets:
        """The target; never before the start, unless the partition itself ends before it."""
        target = self._target or {}
        before = {key: at for key, at in start.items() if target.get(key, -1) < at and key not in self._gone}
        if before:
            ends = self._ends(start)
            # of a partition that wasn't found when the target was settled: what it has by now
            target.update({key: min(at, ends[key]) if key in target else ends[key]
                           for key, at in before.items() if key in ends})  # fmt: skip
        return dict(target)

    def _latest(self, start: Mapping[Key, int]) -> Offsets:
        for anew in (False, True):
            try:
                return self._cluster.latest(self._partitions(start, anew=anew))
            except KafkaException as error:
                cause: KafkaError = error.args[0]
                if cause.code() not in UNKNOWN_PARTITION_ERRORS:
                    raise
        return self._cluster.latest(self._partitions(start, anew=True))  # those that were deleted are gone by now

    def _starts(self, start: Offsets, ends: Offsets) -> Offsets:
        """Where each partition of ``ends`` starts; new ones at their beginning."""
        added = [key for key in ends if key not in start or self._topics.is_anew(key[0])]
        begins = self._beginnings(added)
        return {key: begins[key] if key in begins else start[key] for key in ends}

    def _beginnings(self, keys: Iterable[Key]) -> Offsets:
        """The first offsets of new partitions: asked once, so that a micro-batch is planned with what it was cut by."""
        wanted = list(keys)
        missing = [key for key in wanted if key not in self._begins]
        known = {**self._begins, **self._cluster.earliest(missing)}
        self._begins = {key: known[key] for key in wanted}
        return dict(self._begins)


class TopicIds:
    """Which topics the offsets of a stream belong to: one that is deleted and made anew has another id.

    Checkpoints don't hold ids, so it is known of offsets that this process has planned, and where brokers tell ids.
    """

    def __init__(self) -> None:
        """Knows none."""
        self.ids: dict[str, str] = {}
        """The id of each topic now."""
        self._before: set[str] = set()  # ids of topics that are no more; a broker that is behind may tell them still
        self._noted: tuple[Offsets, dict[str, str]] = ({}, {})
        self._start: dict[str, str] = {}

    def update(self, ids: Mapping[str, str]) -> None:
        """Takes what a broker has told."""
        for topic, found in ids.items():
            known = self.ids.get(topic, "")
            if found and found not in self._before:
                if known and known != found:
                    self._before.add(known)
                self.ids[topic] = found

    def note_offsets(self, offsets: Offsets) -> None:
        """A micro-batch is to end there, or the stream to start: the offsets are of the topics that there are now."""
        self._noted = (offsets, dict(self.ids))

    def start_at(self, start: Offsets | None) -> None:
        """A micro-batch is to start there."""
        offsets, ids = self._noted
        self._start = ids if start == offsets else {}

    def ids_at(self, end: Offsets) -> dict[str, str]:
        """The ids of the topics that an end belongs to."""
        offsets, ids = self._noted
        return ids if end == offsets else self.ids

    def is_anew(self, topic: str, end: Offsets | None = None) -> bool:
        """Whether a topic was deleted and made anew between the start and this end, or by now."""
        then = self._start.get(topic, "")
        now = (self.ids if end is None else self.ids_at(end)).get(topic, "")
        return bool(then and now) and then != now
