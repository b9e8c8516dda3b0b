"""``replay``: produces the records of Parquet files with keys, headers, timestamps and order."""

from __future__ import annotations

import hashlib
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from kafka_native import ArrowReport, KafkaError, Producer
from kafka_native.spark.errors import OptionError
from kafka_native.spark.folder import Folder, loaded, shortened
from kafka_native.spark.log import logger
from kafka_native.spark.options import SinkOptions
from kafka_native.spark.pipelines.lanes import Lane, lanes_of, read_lane
from kafka_native.spark.pipelines.session import (
    PipelineError,
    SessionOpener,
    Work,
    WorkCounter,
    cause_of,
    map_numbers,
    open_session,
    watch,
)
from kafka_native.spark.pipelines.target import (
    Pace,
    check_targets,
    column_name,
    without_negative_timestamps,
)
from kafka_native.spark.pipelines.time_window import TimeWindow
from kafka_native.spark.producers import borrowed, delivery_timeout_s
from kafka_native.spark.sink_dead_letters import RowLetters, check_target, publish

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["LanePlan", "ReplayResult", "ReplayTask", "plan_replay", "replay"]

Partitions = Literal["keep", "hash"]
Timestamps = Literal["keep", "now"]

CHUNK_ROWS: Final = 10_000
"""Rows for one call of the producer; with a rate, fewer."""
_RECORD_S: Final = 1.0
"""The interval in which a task records its progress."""
_CHECK_INTERVAL_S: Final = 0.5
_NOTES_FILE: Final = "replay.json"
_POSITION_DIGITS: Final = 19
_LANE_SIZE_MAX: Final = 236
"""The bytes of a lane's name for which a file system takes the name of its progress, and of that
file's temporary one. Existing checkpoints have such names."""


@dataclass(frozen=True)
class LanePlan:
    """A lane and its progress, as ``--dry-run`` prints it."""

    lane: Lane
    target: str
    """The target topic; empty: each record's own column names it."""
    position: int
    """The first offset (or row) that may not be replayed yet."""
    done: bool
    """Whether all of the lane is replayed."""


class Progress:
    """The progress of lanes: one small file for each, in a folder that driver and executors share.

    A record is acknowledged before it counts as progress.
    """

    def __init__(self, folder: Folder) -> None:
        """Read nothing yet."""
        self._folder = folder

    def prepare(self, what: Mapping[str, Any]) -> None:
        """Make the folder, or check that it belongs to the same replay.

        :param what: The replay's source and targets. Positions are only valid for the same ones.
        :raises PipelineError: The folder belongs to another replay.
        """
        described = {"layout": 1, **what}
        self._folder.make()
        if not self._folder.exists(_NOTES_FILE):
            self._folder.write(_NOTES_FILE, described)
            return
        notes = loaded(self._folder.read(_NOTES_FILE), _NOTES_FILE)
        for name, value in described.items():
            if notes.get(name) != value:
                raise PipelineError(
                    f"the checkpoint {self._folder.uri} belongs to a replay with {name} "
                    f"{notes.get(name)!r}, not {value!r}: use another folder"
                )

    def read(self, lane: Lane) -> int:
        """The lane's next offset or row; 0 for a new lane."""
        path = _progress_file(lane)
        if not self._folder.exists(path):
            return 0
        position = loaded(self._folder.read(path), path).get("position")
        if not isinstance(position, int) or position < 0:
            raise PipelineError(
                f"{path} of the checkpoint {self._folder.uri} is damaged: no position in it"
            )
        return position

    def write(self, lane: Lane, position: int, records: int) -> None:
        """Record that everything before a position is acknowledged."""
        self._folder.write(
            _progress_file(lane),
            {"lane": lane.name, "position": position, "records_of_last_run": records},
        )


def _progress_file(lane: Lane) -> str:
    return f"lane-{shortened(lane.name, _LANE_SIZE_MAX)}.json"


@dataclass(frozen=True)
class ReplayTask:
    """Replays one lane, in a Python worker of an executor.

    :param source: The folder of the files.
    :param lanes: All lanes. A call gets the number of its lane.
    :param sink: The producer's options.
    :param checkpoint: The folder for the progress.
    :param topic: The target of all records; None: each record's own topic, after ``rename``.
    :param rename: Old and new names of topics.
    :param partitions: Keep each record's partition, or choose one by the key.
    :param timestamps: Keep each record's timestamp, or use the time of the replay.
    :param rate: The largest number of messages per second of this task; None: no limit.
    :param window: Only the records of this time window.
    :param topics: Only the records of these topics; empty: of all.
    """

    source: Folder
    lanes: tuple[Lane, ...]
    sink: SinkOptions = field(repr=False)
    checkpoint: Folder
    topic: str | None = None
    rename: Mapping[str, str] = field(default_factory=dict)
    partitions: Partitions = "keep"
    timestamps: Timestamps = "keep"
    rate: float | None = None
    window: TimeWindow = field(default_factory=TimeWindow)
    topics: frozenset[str] = frozenset()

    def __call__(self, number: int) -> dict[str, Any]:
        """Produce the records that aren't acknowledged yet.

        :return: ``lane``, ``records``, ``refused``, ``bytes`` and ``position``, in the form of
            JSON.
        :raises PipelineError: A record wasn't delivered.
        """
        lane = self.lanes[number]
        progress = Progress(self.checkpoint)
        position = progress.read(lane)
        with borrowed(self.sink) as producer:
            sender = _LaneSender(
                producer,
                self,
                lane,
                position,
                lambda position, records: progress.write(lane, position, records),
            )
            for next_position, batch in read_lane(self.source, lane, position):
                sender.send(self.window.cut(batch), next_position)
            sender.finish()
        return {
            "lane": lane.name,
            "records": sender.records,
            "refused": sender.refused,
            "bytes": sender.bytes,
            "position": sender.position,
        }


class _LaneSender:
    """Passes a task's records to its producer and records the acknowledged position."""

    def __init__(
        self,
        producer: Producer,
        task: ReplayTask,
        lane: Lane,
        position: int,
        record: Callable[[int, int], None],
    ) -> None:
        """``position``: where this run goes on."""
        self._producer = producer
        self._task = task
        self._columns = _columns_for(task, lane)
        self._lane = lane
        self._record = record
        self._outstanding: deque[_Chunk] = deque()
        self._failed: str | None = None
        self._recorded_at = time.monotonic()
        self._recorded = -1
        self._limit_s = delivery_timeout_s(task.sink)
        self._pace = Pace(task.rate, CHUNK_ROWS)
        self._sent = 0
        self._refused = (
            _Refused(task, lane, position) if task.sink.dead_letters is not None else None
        )
        self.records = 0
        """The number of acknowledged records."""
        self.bytes = 0
        self.position = -1

    @property
    def refused(self) -> int:
        """The number of records that the target has refused and that are stored."""
        return 0 if self._refused is None else self._refused.records

    def send(self, batch: pa.RecordBatch, next_position: int) -> None:
        """Queue a batch in parts. ``next_position`` is the lane's position after the batch."""
        step = self._pace.step
        for start in range(0, batch.num_rows, step):
            part = batch.slice(start, step)
            last = start + step >= batch.num_rows
            # In the middle of a batch the position comes from the part's last offset. Without
            # offsets it is counted back from the batch's end.
            if last:
                end = next_position
            elif self._lane.by_offset:
                end = part.column("offset")[-1].as_py() + 1
            else:
                end = next_position - (batch.num_rows - start - step)
            self._produce(part, end)
            self._poll(0)
            self._sent += part.num_rows
            self._pace.wait(self._sent, self._poll)

    def finish(self) -> None:
        """Wait until everything is acknowledged, and record it."""
        deadline = time.monotonic() + self._limit_s
        while self._producer.flush(_CHECK_INTERVAL_S) and not self._failed:
            self._handle_reports()
            if time.monotonic() > deadline:
                raise PipelineError(
                    f"{self._lane.name}: no acknowledgement came for {self._limit_s:g} s"
                )
        self._handle_reports()
        if self._outstanding:
            raise PipelineError(
                f"{self._lane.name}: {len(self._outstanding)} chunks have no outcome"
            )
        self._record_progress()

    def _produce(self, part: pa.RecordBatch, end: int) -> None:
        part = without_negative_timestamps(part) if self._columns["timestamp"] else part
        for topic, those in self._by_topic(part):
            kept = None if self._refused is None else those
            chunk = _Chunk(end, those.num_rows, those.nbytes, topic, kept)
            self._outstanding.append(chunk)
            self._producer.produce_arrow(
                topic, those, **self._columns, on_delivery=chunk.set_report, timeout=self._limit_s
            )

    def _by_topic(self, part: pa.RecordBatch) -> list[tuple[str, pa.RecordBatch]]:
        task = self._task
        target = _target(self._lane, task.topic, task.rename)
        if task.topics and self._lane.names_topics:
            # Not before: without offsets, the position of a part is counted in rows.
            part = part.filter(pc.is_in(part.column("topic"), pa.array(sorted(task.topics))))
        if not part.num_rows:
            return []
        if target:
            return [(target, part)]
        found = []
        for topic in pc.unique(part.column("topic")).to_pylist():
            if topic is None:
                raise PipelineError(
                    f"{self._lane.name} has a record without a topic: say where to with topic"
                )
            those = part.filter(pc.equal(part.column("topic"), topic))
            found.append((task.rename.get(topic, topic), those))
        return found

    def _handle_reports(self) -> None:
        """Handle chunks with an outcome in order. Progress stops at the first one without."""
        while self._outstanding and (report := self._outstanding[0].report) is not None:
            chunk = self._outstanding.popleft()
            if report.error is not None:
                self._handle_failed(chunk, report)
            self.records += chunk.rows - len(report.failed)
            self.bytes += chunk.bytes
            self.position = chunk.end
        # Chunks of one batch for several topics have one position. It counts after the last of
        # them.
        is_partial = bool(self._outstanding) and self._outstanding[0].end == self.position
        if not is_partial and time.monotonic() - self._recorded_at >= _RECORD_S:
            self._record_progress()

    def _handle_failed(self, chunk: _Chunk, report: ArrowReport) -> None:
        """Keep the records that the target refuses. Another error ends the task."""
        failed = [
            each
            for each in report.failed
            if self._refused is None or not self._refused.takes(each[1])
        ]
        if failed:
            self._failed = failed[0][1].str()
            raise PipelineError(
                f"{self._lane.name}: {len(failed)} records weren't delivered: {self._failed}"
            )
        for row, error in report.failed:
            if self._refused is not None:
                self._refused.add(chunk, row, error)

    def _record_progress(self) -> None:
        if self.position > self._recorded:
            if self._refused is not None:
                self._refused.store(self.position)
            self._record(self.position, self.records)
            self._recorded = self.position
        self._recorded_at = time.monotonic()

    def _poll(self, timeout_s: float) -> None:
        self._producer.poll(timeout_s)
        self._handle_reports()


class _Refused:
    """The records of a lane that the target refuses, for a topic or a folder (``refused``).

    A file has the position from which its records were read. If a crash comes between the file and
    the lane's progress, the next run reads them again and replaces it. Another checkpoint, which
    may use the same folder, has files of its own.
    """

    def __init__(self, task: ReplayTask, lane: Lane, position: int) -> None:
        target = _target(lane, task.topic, task.rename)
        self._options = replace(task.sink, topic=target or None)
        self._has_timestamps = task.timestamps == "keep"
        self._lane = lane
        self._run = hashlib.sha256(task.checkpoint.root.encode()).hexdigest()[:8]
        self._letters = self._opened(max(position, 0))
        self.records = 0

    def takes(self, error: KafkaError) -> bool:
        """Whether an error is a record's own fault."""
        return self._letters.takes(error)

    def add(self, chunk: _Chunk, row: int, error: KafkaError) -> None:
        """Add a record."""
        assert chunk.part is not None
        names = [
            name
            for name in ("partition", "timestamp", "key", "value", "headers")
            if name in chunk.part.schema.names
        ]
        columns = {name: chunk.part.column(name).take(pa.array([row])) for name in names}
        columns["topic"] = pa.array([chunk.topic])
        letter = pa.RecordBatch.from_pydict(columns)
        self._letters.add_refused(letter, [f"{error.str()} ({error.name()})"])
        self.records += 1

    def store(self, position: int) -> None:
        """Store the records, before the lane's progress passes them."""
        if not self._letters.rows:
            return
        with self._letters as letters:
            letters.end()
        target = self._options.dead_letters
        assert target is not None
        if target.sink is None:
            publish(target, letters.name, letters.parts)
        logger.warning(
            "%s: %d records are refused and stored in %s; the first: %s",
            self._lane.name,
            letters.rows,
            target,
            letters.first_reason,
        )
        self._letters = self._opened(position)

    def _opened(self, position: int) -> RowLetters:
        lane = shortened(self._lane.name)
        name = f"replay-{self._run}-{lane}-{position:0{_POSITION_DIGITS}d}"
        return RowLetters(self._options, name, has_timestamps=self._has_timestamps)


class _Chunk:
    """Rows of one call of the producer."""

    def __init__(
        self, end: int, rows: int, size_bytes: int, topic: str, part: pa.RecordBatch | None
    ) -> None:
        """``part``: the rows, if refused ones are stored."""
        self.end = end
        self.rows = rows
        self.bytes = size_bytes
        self.topic = topic
        self.part = part
        self.report: ArrowReport | None = None

    def set_report(self, report: ArrowReport) -> None:
        self.report = report


def _columns_for(task: ReplayTask, lane: Lane) -> dict[str, str | None]:
    """The column for each part of a message; None: none."""
    here = set(lane.columns)
    wanted = {"value", "key", "headers"}
    if task.partitions == "keep":
        wanted.add("partition")
    if task.timestamps == "keep":
        wanted.add("timestamp")
    return {
        name: column_name(name) if name in here and name in wanted else None
        for name in ("value", "key", "headers", "partition", "timestamp")
    }


def _target(lane: Lane, topic: str | None, rename: Mapping[str, str]) -> str:
    """The target of a lane's records; empty: each record's own column names it."""
    return topic or rename.get(lane.topic, lane.topic)


# --- on the driver ---


@dataclass
class ReplayResult:
    """The results of a run of `replay`."""

    lanes: int = 0
    """The number of lanes that weren't finished."""
    records: int = 0
    """The number of acknowledged records."""
    refused: int = 0
    """The number of records that the target refused, and that went to ``refused``."""
    bytes: int = 0
    """Bytes of the produced Arrow columns."""
    elapsed_s: float = 0.0
    targets: dict[str, int] = field(default_factory=dict)
    """The number of lanes for each target topic."""


def replay(
    config: Mapping[str, str],
    source: str | Path | Folder,
    checkpoint: str | Path,
    *,
    topic: str | None = None,
    rename: Mapping[str, str] | None = None,
    topics: Sequence[str] = (),
    dates: Sequence[str] = (),
    partitions: Partitions = "keep",
    timestamps: Timestamps = "keep",
    rate: float | None = None,
    refused: str | None = None,
    start_ms: int | None = None,
    end_ms: int | None = None,
    session: SparkSession | SessionOpener | None = None,
    master: str = "local[*]",
    conf: Mapping[str, str] | None = None,
    on_progress: Callable[[Work], None] | None = None,
) -> ReplayResult:
    """Produce the records of Parquet files, each at least once, in the order of source partitions.

    :param config: The Kafka client's configuration, with ``bootstrap.servers``.
    :param source: A lake of `archive`, or a folder or file of Parquet with a column ``value`` or
        ``key``. ``headers``, ``timestamp``, ``partition``, ``offset``, ``topic`` are optional.
    :param checkpoint: A folder for the progress. A run with the same folder continues there.
    :param topic: The target of all records; None: each record's own topic.
    :param rename: Old and new names of topics.
    :param topics: Only the records of these topics.
    :param dates: Only the records of these dates; for lakes only.
    :param partitions: ``keep``, or ``hash``: choose one by the key.
    :param timestamps: ``keep``, or ``now``: the time of the replay.
    :param rate: The largest number of messages per second of all tasks; None: no limit.
    :param refused: The topic or folder for records that the target refuses, each at least once;
        None: such a record ends the replay.
    :param start_ms: Only records from this time on, in milliseconds since 1970; None: no limit.
    :param end_ms: Only records before this time.
    :param session: The Spark session, or a function that opens one; None: a new one, with
        ``master`` and ``conf``.
    :param on_progress: Called with the progress several times a second, on a separate thread.
    :raises PipelineError: The replay failed; the text has the reason. The recorded progress stays.
    """
    folder = source if isinstance(source, Folder) else Folder(source)
    if rate is not None and rate <= 0:
        raise PipelineError("rate: write a number above 0, or leave it out")
    lanes, window = tuple(lanes_of(folder, topics, dates)), TimeWindow(start_ms, end_ms)
    window.check(lanes)
    sink = _sink(config, refused)
    notes = Folder(checkpoint)
    progress = Progress(notes)
    what: dict[str, Any] = {"source": folder.root, "dates": list(dates), "topic": topic}
    # Records that these leave out count as done.
    what |= {"start_ms": start_ms, "end_ms": end_ms}
    if any(lane.names_topics for lane in lanes):
        what["topics"] = sorted(set(topics)) or None
    progress.prepare({**what, "rename": dict(rename or {})})
    left = tuple(
        each for each in lanes if progress.read(each) <= max(piece.last for piece in each.pieces)
    )
    _check_targets(sink, left, topic, rename or {}, partitions)
    result = ReplayResult(
        len(left), targets=dict(Counter(_target(lane, topic, rename or {}) for lane in left))
    )
    begun = time.monotonic()
    if left:
        with open_session("kafka_native replay", master, conf, session) as spark:
            at_once = min(len(left), spark.sparkContext.defaultParallelism)
            share = None if rate is None else rate / at_once
            task = ReplayTask(
                folder, left, sink, notes, topic, rename or {}, partitions, timestamps, share,
                window, frozenset(topics),
            )  # fmt: skip
            counter = WorkCounter(spark)
            total = sum(each.rows for each in left)
            try:
                with watch(lambda: counter.work(total=total), on_progress):
                    found = map_numbers(spark, len(left), task, counter)
            except Exception as error:
                raise PipelineError(cause_of(error)) from error
        result.records = sum(each["records"] for each in found)
        result.refused = sum(each["refused"] for each in found)
        result.bytes = sum(each["bytes"] for each in found)
    result.elapsed_s = time.monotonic() - begun
    return result


def _sink(config: Mapping[str, str], refused: str | None) -> SinkOptions:
    """The options of the producers.

    :raises PipelineError: ``refused`` can't be a topic or a folder.
    """
    options = {f"kafka.{key}": str(value) for key, value in config.items()}
    sink = SinkOptions.parse(options)
    if refused is None:
        return sink
    try:
        return SinkOptions.parse({**options, "deadLetters": refused})
    except OptionError as error:
        raise PipelineError(f"refused: {error}") from error


def plan_replay(
    source: str | Path | Folder,
    checkpoint: str | Path,
    *,
    topic: str | None = None,
    rename: Mapping[str, str] | None = None,
    topics: Sequence[str] = (),
    dates: Sequence[str] = (),
) -> list[LanePlan]:
    """The plan of `replay`, without Spark and Kafka. The parameters are the same."""
    folder = source if isinstance(source, Folder) else Folder(source)
    progress = Progress(Folder(checkpoint))
    found = []
    for lane in lanes_of(folder, topics, dates):
        target = _target(lane, topic, rename or {})
        position = progress.read(lane)
        found.append(
            LanePlan(lane, target, position, position > max(each.last for each in lane.pieces))
        )
    return found


def _check_targets(
    sink: SinkOptions,
    lanes: Sequence[Lane],
    topic: str | None,
    rename: Mapping[str, str],
    partitions: Partitions,
) -> None:
    """Check that the target topics exist and have enough partitions, as far as they are known.

    :raises PipelineError: A topic is missing, has too few partitions, or isn't named.
    """
    needed: dict[str, int] = {}
    for lane in lanes:
        name = _target(lane, topic, rename)
        if not name and "topic" not in lane.columns:
            raise PipelineError(
                f"{lane.pieces[0].path} doesn't say which topic its records are of: name one "
                "with topic"
            )
        if name:
            needed[name] = max(
                needed.get(name, 0), lane.partition + 1 if partitions == "keep" else 0
            )
    check_targets(sink, needed)
    dead = sink.dead_letters
    if dead is None or not lanes:
        return
    if dead.sink is not None and dead.sink.topic in needed:
        raise PipelineError(f"refused: the records go to topic {dead.sink.topic} themselves")
    check_target(sink)
