"""``archive``: copies topics to a Parquet lake or a table, exactly once."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from kafka_native.spark.offsets import Key
from kafka_native.spark.options import SourceOptions
from kafka_native.spark.pipelines.archive_target import ArchiveTarget
from kafka_native.spark.pipelines.lake import Lake
from kafka_native.spark.pipelines.lake_schemas import COLUMNS
from kafka_native.spark.pipelines.manifests import Manifest, Range, Skipped, missing, overlaps
from kafka_native.spark.pipelines.parquet import ParquetSettings
from kafka_native.spark.pipelines.session import (
    PipelineError,
    SessionOpener,
    Work,
    WorkCounter,
    cause_of,
    check_topic,
    map_ranges,
    open_session,
    ranges_in,
    run_query,
    topic_options,
    watch,
)
from kafka_native.spark.pipelines.time_window import TimeWindow
from kafka_native.spark.pipelines.typed_archive import (
    check_columns,
    error_columns,
    keep_schemas,
    open_targets,
    planned_options,
    remove_stale_letters,
    task_options,
)
from kafka_native.spark.range_reader import read_range

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kafka_native.spark.ranges import OffsetRange

__all__ = ["ArchiveResult", "ArchiveTask", "archive", "plan_archive"]

Trigger = Literal["available-now", "once", "continuous"]
Overlap = Literal["error", "skip"]

BATCH_ROWS: Final = 100_000
"""Rows of the tasks' Arrow batches. They are large, because no JVM handles them."""


@dataclass(frozen=True)
class ArchiveTask:
    """Archives one range of offsets, in a Python worker of an executor.

    :param target: The target lake or table.
    :param options: The source's options, as `task_options` returns them.
    :param query: The query's id.
    :param batch: The batch's number in the query.
    :param settings: The settings of the files.
    :param ends: The target's end of each partition: the offset after its last one.
    :param overlap: What to do with offsets that the target has: raise an ``error``, or ``skip``
        them.
    :param topic_ids: The ids of the target's topics.
    """

    target: ArchiveTarget
    options: SourceOptions = field(repr=False)
    query: str
    batch: int
    settings: ParquetSettings = field(default_factory=ParquetSettings)
    ends: Mapping[Key, int] = field(default_factory=dict)
    overlap: Overlap = "error"
    topic_ids: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, range_: OffsetRange) -> dict[str, Any]:
        """Read the range and write its files, which nobody sees yet.

        :return: ``ranges`` (read), ``skipped``, ``files``, ``records``, ``bytes`` (of the files),
            ``left_out``, ``corrupt`` and ``topic_ids``, in the form of JSON.
        :raises PipelineError: The target has some of the offsets, or a topic with the name and
            another id.
        """
        _check_topic(range_, self.topic_ids)
        parts = self._parts(range_)
        attempt = f"{_attempt()}-{uuid.uuid4().hex[:8]}"
        writer = self.target.range_writer(
            self.query, self.batch, attempt, range_.topic, range_.partition, self.settings
        )
        skipped: list[Skipped] = []
        left_out: list[int] = []
        corrupt = 0
        reasons = error_columns(self.options)
        columns = COLUMNS if self.options.decoded is None else None

        def skip(first: int, end: int, reason: str) -> None:
            skipped.append(Skipped(range_.topic, range_.partition, first, end, reason))

        try:
            for part in parts:
                for batch in read_range(self.options, part, columns, skip, left_out.append):
                    writer.write(batch)
                    for name in reasons:
                        corrupt += batch.num_rows - batch.column(name).null_count
            files = writer.close()
        except BaseException:
            writer.abort()
            raise
        return {
            "ranges": [vars(each) for part in parts for each in _without(part, skipped)],
            "skipped": [vars(each) for each in skipped],
            "files": [vars(each) for each in files],
            "records": sum(each.records for each in files),
            "bytes": sum(each.bytes for each in files),
            "left_out": sum(left_out),
            "corrupt": corrupt,
            "topic_ids": {range_.topic: range_.topic_id} if range_.topic_id else {},
        }

    def _parts(self, range_: OffsetRange) -> list[OffsetRange]:
        """The parts of a range that the target lacks."""
        end = self.ends.get(range_.key, 0)
        if end <= range_.start:
            return [range_]
        archived = self.target.archived({range_.key: end})[range_.key]
        there = overlaps(range_, archived)
        if there and self.overlap == "error":
            raise PipelineError(
                f"the {self.target.kind} has offsets of {range_.topic} [{range_.partition}] up to "
                f"{there[0][1]} already, and this query wants to add {range_.start} to "
                f"{range_.end}: it has a new checkpoint, or the topic was recreated. Go on with "
                "the old checkpoint, write overlap skip to leave out what is there, or use another "
                f"{'folder' if self.target.kind == 'lake' else self.target.kind}"
            )
        return [replace(range_, start=start, end=stop) for start, stop in missing(range_, archived)]


def _check_topic(range_: OffsetRange, topic_ids: Mapping[str, str]) -> None:
    check_topic(
        range_.topic,
        range_.topic_id,
        topic_ids,
        "Archive it to another place, with a new checkpoint",
    )


def _without(range_: OffsetRange, skipped: list[Skipped]) -> list[Range]:
    """The parts of a range that weren't skipped."""
    found = missing(range_, [(each.start, each.end) for each in skipped])
    return [Range(range_.topic, range_.partition, start, end) for start, end in found]


def _attempt() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else int(context.taskAttemptId())


@dataclass
class ArchiveResult:
    """The results of a run of `archive`."""

    lake: str
    """The name of the lake or table."""
    query: str = ""
    """The query's id; empty if there was nothing to do."""
    batches: int = 0
    repeated: int = 0
    """Batches that Spark repeated although they were published."""
    skipped_offsets: int = 0
    """Offsets that no longer existed and were skipped (``failOnDataLoss=false``).

    A lake's manifests list them, and a table's ``skipped()`` does.
    """
    files: int = 0
    records: int = 0
    bytes: int = 0
    """Bytes of the files."""
    left_out: int = 0
    """Records that don't decode and are in none of the files (``DROPMALFORMED``, dead letters)."""
    corrupt: int = 0
    """Keys and values that don't decode and are null in the files (``PERMISSIVE``)."""
    elapsed_s: float = 0.0

    def add(self, manifest: Manifest) -> None:
        """Add a batch to the totals."""
        self.batches += 1
        self.files += len(manifest.files)
        self.records += manifest.records
        self.bytes += manifest.bytes
        self.left_out += manifest.left_out
        self.skipped_offsets += manifest.skipped_offsets


def archive(
    config: Mapping[str, str],
    lake: str | Path | ArchiveTarget,
    *,
    topics: Sequence[str] = (),
    pattern: str | None = None,
    session: SparkSession | SessionOpener | None = None,
    master: str = "local[*]",
    conf: Mapping[str, str] | None = None,
    checkpoint: str | None = None,
    trigger: Trigger = "available-now",
    interval_s: float = 60.0,
    starting: str = "earliest",
    start_ms: int | None = None,
    end_ms: int | None = None,
    settings: ParquetSettings | None = None,
    overlap: Overlap = "error",
    options: Mapping[str, Any] | None = None,
    on_progress: Callable[[Work], None] | None = None,
    stop: threading.Event | None = None,
) -> ArchiveResult:
    """Copy topics to a lake of Parquet files, or to a table, exactly once.

    A lake is partitioned by topic and date.

    With the source's options of typed columns, such as ``value.format``, the files have decoded
    columns. The checkpoint keeps the readers' schemas.

    :param config: The Kafka client's configuration, with ``bootstrap.servers``.
    :param lake: The lake's folder or URI, which the executors must reach by the same name. Or a
        table, see `DeltaTarget` and `IcebergTarget`.
    :param topics: The topics to copy.
    :param pattern: Or a regular expression that whole topic names match.
    :param session: A Spark session that nothing else uses, or a function that opens one; None: a
        new one.
    :param master: Spark's master, for a new session.
    :param conf: Spark's configuration, for a new session.
    :param checkpoint: The folder of Spark's checkpoint; None: below the lake or the Delta table, if
        it is local.
    :param trigger: ``available-now``: the existing records, then return. ``once``: the same in one
        batch. ``continuous``: a batch every ``interval_s`` seconds, until ``stop`` is set.
    :param interval_s: Seconds from one batch to the next.
    :param starting: The start with a new checkpoint: ``earliest``, ``latest``, or offsets as JSON.
    :param start_ms: The start of a new checkpoint in place of ``starting``: the first record that
        isn't older, in milliseconds since 1970.
    :param end_ms: The end: each partition's first record that isn't older. Not for ``continuous``.
    :param settings: The settings of the files.
    :param overlap: What to do with offsets that the target has from another checkpoint: raise an
        ``error``, or ``skip`` them. A table stores only its ends: all offsets before them count.
    :param options: More options of the source, such as ``maxOffsetsPerTrigger``, ``minPartitions``,
        ``failOnDataLoss``, ``value.format``, ``schema.registry.url``, ``deadLetters``.
    :param on_progress: Called with the progress several times a second, on a separate thread.
    :param stop: Set it to end the run within half a second. The next run reads unpublished records
        again.
    :raises OptionError: An option is invalid, or a schema isn't found.
    :raises PipelineError: The run failed; the text has the reason. Or files of a topic in the lake
        have columns that differ: columns may only be added.
    """
    target = lake if isinstance(lake, ArchiveTarget) else Lake(lake)
    place = checkpoint or target.default_checkpoint()
    if end_ms is not None and trigger == "continuous":
        raise PipelineError("an end by time needs trigger available-now or once")
    times = _times(starting, start_ms, end_ms)
    source = _source(config, topics, pattern, times, options)
    parsed = task_options(source, place)
    open_targets(target, parsed)
    with _session(session, master, conf) as spark:
        counter = WorkCounter(spark)
        run = _Run(target, parsed, settings or ParquetSettings(), overlap, counter)
        begun = time.monotonic()
        planned = planned_options(source)
        frame = spark.readStream.format("kafka_native").options(**planned).load()
        writer = frame.writeStream.foreachBatch(run.commit).option("checkpointLocation", place)
        writer = writer.trigger(**_trigger(trigger, interval_s))
        with watch(lambda: counter.work(run.note()), on_progress):
            try:
                run_query(
                    writer.start, lambda: stop is not None and stop.is_set(), lambda: run.failure
                )
                keep_schemas(parsed)  # also of a run without records
            except KeyboardInterrupt:  # PySpark's own handler of Ctrl+C
                if stop is None:
                    raise
            except Exception as error:
                cause = run.failure or error
                raise PipelineError(cause_of(cause)) from cause
        run.result.elapsed_s = time.monotonic() - begun
    return run.result


def plan_archive(
    config: Mapping[str, str],
    lake: str | Path | ArchiveTarget,
    *,
    topics: Sequence[str] = (),
    pattern: str | None = None,
    session: SparkSession | SessionOpener | None = None,
    master: str = "local[*]",
    conf: Mapping[str, str] | None = None,
    checkpoint: str | None = None,
    starting: str = "earliest",
    start_ms: int | None = None,
    end_ms: int | None = None,
    options: Mapping[str, Any] | None = None,
) -> list[Range]:
    """The ranges of offsets that `archive` would read now, by what the lake or table has.

    Nothing is read or decoded. The parameters are those of `archive`.

    :raises OptionError: An option is invalid, or a schema isn't found.
    :raises PipelineError: A topic was recreated since it was archived, or its files would get
        columns that differ.
    """
    target = lake if isinstance(lake, ArchiveTarget) else Lake(lake)
    ends = target.ends()
    streams_only = {"maxoffsetspertrigger", "minoffsetspertrigger", "maxtriggerdelay"}
    kept = {key: value for key, value in (options or {}).items() if key.lower() not in streams_only}
    source = _source(config, topics, pattern, _times(starting, start_ms, end_ms), kept)
    place = checkpoint or ""
    if not place:
        with suppress(PipelineError):  # without a default, no checkpoint keeps a schema
            place = target.default_checkpoint()
    check_columns(target, task_options(source, place))
    with _session(session, master, conf) as spark:
        frame = spark.read.format("kafka_native").options(**planned_options(source)).load()
        table = frame.toArrow()
    found = [each for batch in table.to_batches() for each in ranges_in(batch)]
    topic_ids = target.topic_ids()
    for each in found:
        _check_topic(each, topic_ids)
    known = {each.key: ends[each.key] for each in found if each.start < ends.get(each.key, 0)}
    archived = target.archived(known)
    return sorted(
        Range(each.topic, each.partition, start, end)
        for each in found
        for start, end in missing(each, archived.get(each.key, ()))
    )


class _Run:
    """The driver's part of a run: it handles each micro-batch."""

    def __init__(
        self,
        target: ArchiveTarget,
        options: SourceOptions,
        settings: ParquetSettings,
        overlap: Overlap,
        counter: WorkCounter,
    ) -> None:
        self._target = target
        self._options = options
        self._settings = settings
        self._overlap = overlap
        self._counter = counter
        self.result = ArchiveResult(target.uri)
        self.failure: BaseException | None = None

    def note(self) -> str:
        """A text for the progress bar."""
        skipped = self.result.skipped_offsets
        note = f", {self.result.batches} batches published"
        note += f", {skipped:,} offsets skipped" if skipped else ""
        return note + (f", {self.result.left_out:,} left out" if self.result.left_out else "")

    def commit(self, frame: DataFrame, batch: int) -> None:
        """Write and publish a micro-batch.

        Spark calls it on one of its threads, one batch after the other.
        """
        try:
            self._commit(frame, batch)
        except BaseException as error:
            self.failure = error
            raise

    def _commit(self, frame: DataFrame, batch: int) -> None:
        query = str(frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId") or "")
        is_first = not self.result.query
        if is_first:
            self.result.query = query
            self._target.sweep(query)  # removes attempts of a killed run
            keep_schemas(self._options)
        known = self._target.published(query, batch)
        if known.has_batch:
            # Spark stopped after we had published the batch, and before it recorded that.
            self.result.repeated += 1
            return
        if is_first:  # only the first batch may be a repetition with other ranges
            remove_stale_letters(self._options, frame)
        task = ArchiveTask(
            self._target,
            self._options,
            query,
            batch,
            self._settings,
            known.ends,
            self._overlap,
            known.topic_ids,
        )
        results = map_ranges(frame, task, self._counter)
        if not results:
            return
        ranges = [Range(**one) for each in results for one in each["ranges"]]
        files = [self._target.file_of(one) for each in results for one in each["files"]]
        skipped = [Skipped(**one) for each in results for one in each["skipped"]]
        topic_ids = {topic: found for each in results for topic, found in each["topic_ids"].items()}
        left_out = sum(each["left_out"] for each in results)
        manifest = self._target.publish(
            query, batch, ranges, files, skipped, topic_ids, left_out=left_out
        )
        self.result.add(manifest)
        self.result.corrupt += sum(each["corrupt"] for each in results)
        self._target.sweep(query, batch)  # removes failed attempts and empty folders
        self._target.compact()


def _session(
    session: SparkSession | SessionOpener | None, master: str, conf: Mapping[str, str] | None
) -> AbstractContextManager[SparkSession]:
    return open_session("kafka_native archive", master, conf, session)


def _source(
    config: Mapping[str, str],
    topics: Sequence[str],
    pattern: str | None,
    times: Mapping[str, Any],
    options: Mapping[str, Any] | None,
) -> dict[str, str]:
    own = {**times, "batchRows": BATCH_ROWS, **(options or {})}
    return topic_options(config, topics, pattern, **own)


def _times(starting: str, start_ms: int | None, end_ms: int | None) -> dict[str, Any]:
    """The source's options for a start and an end."""
    TimeWindow(start_ms, end_ms)  # checks the order
    if start_ms is None:
        return {"startingOffsets": starting, "endingTimestamp": end_ms}
    strategy = {"startingOffsetsByTimestampStrategy": "latest"}
    return {"startingTimestamp": start_ms, "endingTimestamp": end_ms, **strategy}


def _trigger(trigger: Trigger, interval_s: float) -> dict[str, Any]:
    if trigger == "available-now":
        return {"availableNow": True}
    if trigger == "once":
        return {"once": True}
    if trigger == "continuous":
        return {"processingTime": f"{max(0, round(interval_s * 1000))} milliseconds"}
    raise PipelineError(f"trigger {trigger!r}: write available-now, once or continuous")
