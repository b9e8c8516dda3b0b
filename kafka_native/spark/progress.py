"""The progress of streams: their lag, rows and skipped offsets a micro-batch.

Spark reports each micro-batch to listeners, with the offsets of its sources. Spark's own connector
adds three metrics about the lag. PySpark lets no Python source add metrics, so `ProgressListener`
computes them on the driver, with the same names and values.
"""

from __future__ import annotations

import ast
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from kafka_native import KafkaException
from kafka_native.measurements import STREAM_SPECS, Measurement
from kafka_native.spark.errors import OptionError, PipelineError
from kafka_native.spark.kept_state import KeptState, SkippedOffsets
from kafka_native.spark.log import logger
from kafka_native.spark.offset_reader import OffsetReader
from kafka_native.spark.offsets import Key, parse_offsets
from kafka_native.spark.options import SourceOptions
from kafka_native.spark.task_reports import TaskReport, remove_reports, reports_of

__all__ = ["BatchProgress", "ProgressListener", "SourceLag"]

Ends = Callable[[Iterable[Key]], Mapping[Key, int]]
"""Returns the current ends of partitions."""


@dataclass(frozen=True)
class SourceLag:
    """How far a source of a query is behind the ends of its partitions.

    The lag of a partition is the number of offsets from the end of the micro-batch to the end of
    the partition. A partition that the query hasn't begun counts from offset 0.
    """

    source: int
    """The number of the source in the query, from 0 on."""
    topics: tuple[str, ...]
    """The topics of the source, sorted."""
    partitions: int
    """The number of partitions."""
    min_offsets_behind_latest: int
    """The smallest lag of a partition."""
    max_offsets_behind_latest: int
    """The largest lag of a partition."""
    avg_offsets_behind_latest: float
    """The average lag of the partitions."""

    @property
    def metrics(self) -> dict[str, str]:
        """The metrics as texts, with the names of Spark's own connector."""
        return {
            "minOffsetsBehindLatest": str(self.min_offsets_behind_latest),
            "maxOffsetsBehindLatest": str(self.max_offsets_behind_latest),
            "avgOffsetsBehindLatest": str(self.avg_offsets_behind_latest),
        }


@dataclass(frozen=True)
class BatchProgress:
    """What a query has done in one micro-batch, or in a trigger without new records."""

    query_id: str
    """Spark's id of the query. It stays the same as long as the checkpoint exists."""
    name: str
    """The query's name; its id if it has none."""
    batch_id: int
    rows: int
    """The rows of all sources of the query."""
    offsets: int
    """The offsets of the Kafka sources. There may be fewer records.

    Spark doesn't report the start of a query's first micro-batch. Its offsets don't count.
    """
    seconds: float
    """The time of the whole trigger."""
    lags: tuple[SourceLag, ...] = ()
    """The lag of each Kafka source. A source whose lag is unknown is left out."""
    skipped: tuple[SkippedOffsets, ...] = ()
    """The offsets that the query has skipped since its previous progress."""
    tasks: tuple[TaskReport, ...] = ()
    """What the tasks have read, if the source has the option ``taskReports``."""

    @property
    def bytes(self) -> int:
        """The bytes of the tasks' rows in Arrow columns."""
        return sum(each.bytes for each in self.tasks)

    @property
    def retries(self) -> int:
        """The number of attempts of the tasks that have failed."""
        return sum(each.attempt for each in self.tasks)

    @property
    def malformed(self) -> int:
        """The number of records that don't decode and have left the frame."""
        return sum(each.malformed for each in self.tasks)

    @property
    def skipped_offsets(self) -> int:
        """The number of skipped offsets, as far as it is known."""
        return sum(each.end - each.start for each in self.skipped if each.end is not None)

    def __str__(self) -> str:
        """A text for logs."""
        parts = [f"{self.rows} rows", f"{self.offsets} offsets", f"{self.seconds:.3f} s"]
        parts += [
            f"{_shown(lag.topics)} up to {lag.max_offsets_behind_latest} offsets behind "
            f"(min {lag.min_offsets_behind_latest}, avg {lag.avg_offsets_behind_latest:.1f}, "
            f"{lag.partitions} partitions)"
            for lag in self.lags
        ]
        if self.tasks:
            parts.append(f"{self.bytes} bytes, {self.retries} retries")
        if self.malformed:
            parts.append(f"{self.malformed} records that don't decode")
        if self.skipped:
            parts.append(f"{self.skipped_offsets} offsets skipped")
        return f"{self.name}, batch {self.batch_id}: {', '.join(parts)}"


class ProgressListener(StreamingQueryListener):
    """Reports the progress of a session's streams to the log, Prometheus and OpenTelemetry.

        listener = ProgressListener(checkpoints=["/checkpoints/orders"])
        spark.streams.addListener(listener)

    It takes part in every query with a source of Kafka, also with Spark's own connector, and
    ignores others. Each micro-batch makes one line of the logger ``kafka_native.spark``, of level
    INFO. `kafka_native.prometheus.StreamCollector` and `kafka_native.opentelemetry.observe_streams`
    export the figures. Spark calls the listener on a thread of its own, so no query waits for it.
    """

    def __init__(
        self,
        *,
        checkpoints: Iterable[str | PathLike[str]] = (),
        options: Mapping[str, str] | None = None,
        on_progress: Callable[[BatchProgress], object] = lambda progress: None,
    ) -> None:
        """Read nothing yet.

        :param checkpoints: The checkpoints of queries whose sources have the option
            ``checkpointLocation``. The listener reads there which offsets were skipped, and the
            reports of the tasks.
        :param options: The options of a source. The listener then asks its cluster for the ends of
            the partitions after each micro-batch. Otherwise they are those that Spark reports,
            from the start of the trigger. With PySpark 4.0 and 4.1 these are the ends of the
            micro-batch, so the lag would be 0.
        :param on_progress: Called with the progress of each micro-batch, on Spark's thread. Its
            exceptions are logged.
        :raises OptionError: An option is invalid.
        :raises ValueError: A checkpoint is no path or URI that pyarrow knows.
        """
        self._checkpoints = tuple(checkpoints)
        for each in self._checkpoints:
            KeptState(each)  # an invalid URI is an error here, not in Spark's thread
        self._on_progress = on_progress
        self._options = None if options is None else _without_retries(options)
        self._cluster = None if self._options is None else OffsetReader(self._options)
        self._totals: dict[str, _Totals] = {}
        # Spark's thread writes the totals, and the threads of exporters read them.
        self._lock = threading.Lock()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Begin to count the query's rows. Offsets that were skipped before don't count."""
        totals = _Totals(event.name or str(event.id))
        totals.state = self._find_state(str(event.id))
        totals.forget_earlier_runs()
        with self._lock:
            self._totals[str(event.id)] = totals

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Report a micro-batch. An error of the report is logged, and the query goes on."""
        try:
            progress = self._progress(event.progress)
            if progress is not None:
                logger.info("%s", progress)
                self._on_progress(progress)
        except Exception:
            # Spark would only log that a listener has failed, without the Python lines.
            logger.exception("the progress of a query couldn't be reported")

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Do nothing: the query had no new offsets."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Forget the query's figures."""
        with self._lock:
            self._totals.pop(str(event.id), None)

    def close(self) -> None:
        """Close the connection to the cluster, if ``options`` made one."""
        if self._cluster is not None:
            self._cluster.close()

    def measurements(self) -> Iterator[Measurement]:
        """The figures of the active queries, for exporters. You may call it on any thread."""
        with self._lock:
            found = [each for totals in self._totals.values() for each in totals.measurements()]
        return iter(found)

    def _progress(self, progress: StreamingQueryProgress) -> BatchProgress | None:
        """The progress of a query; None: it has no Kafka source."""
        lags: list[SourceLag] = []
        offsets, has_kafka = 0, False
        for number, source in enumerate(progress["sources"]):
            end = _offsets(source["endOffset"])
            if end is None:
                continue
            has_kafka = True
            start = _offsets(source["startOffset"]) or {}
            offsets += sum(max(0, at - start[key]) for key, at in end.items() if key in start)
            lag = _lag(number, end, self._ends(end) or _offsets(source["latestOffset"]))
            if lag is not None:
                lags.append(lag)
        if not has_kafka:
            return None
        query_id = str(progress["id"])
        with self._lock:
            totals = self._totals.setdefault(query_id, _Totals(progress["name"] or query_id))
        if totals.state is None and totals.last is None:
            totals.state = self._find_state(query_id)
        made = BatchProgress(
            query_id,
            totals.name,
            progress["batchId"],
            progress["numInputRows"] or 0,
            offsets,
            progress["durationMs"].get("triggerExecution", 0) / 1000,
            tuple(lags),
            tuple(totals.new_skipped()),
            tuple(totals.tasks(progress["batchId"])),
        )
        with self._lock:
            totals.add(made)
        return made

    def _find_state(self, query_id: str) -> KeptState | None:
        """The files beside the query's checkpoint; None: the listener doesn't know them."""
        for each in self._checkpoints:
            try:
                state = KeptState(each)
                if state.query == query_id:
                    return state
            except OptionError:
                continue  # its query hasn't been started yet
            except (OSError, PipelineError) as error:
                logger.warning("checkpoint %s can't be read: %s", each, error)
        return None

    def _ends(self, keys: Iterable[Key]) -> Mapping[Key, int] | None:
        """The current ends from the cluster; None: the listener doesn't ask, or nobody answers."""
        if self._cluster is None or self._options is None:
            return None
        named = self._options.subscription.named_topics
        if named and not {topic for topic, _ in keys} <= set(named):
            return None  # another query's source
        try:
            return self._cluster.latest(keys)
        except KafkaException as error:
            logger.warning("the ends of the partitions are unknown: %s", error.args[0].str())
            return None


@dataclass
class _Totals:
    """The figures of one query since its start."""

    name: str
    state: KeptState | None = None
    """The files beside the checkpoint; None: unknown."""
    seen: set[str] = field(default_factory=set)
    """The files with skipped offsets that have been reported."""
    last: BatchProgress | None = None
    sums: dict[str, float] = field(default_factory=dict)

    def forget_earlier_runs(self) -> None:
        """Leave out what earlier runs of the query have skipped and reported."""
        self.new_skipped()
        try:
            if self.state is not None:
                remove_reports(self.state)
        except OSError as error:
            logger.warning("old reports of %s can't be removed: %s", self.name, error)

    def new_skipped(self) -> list[SkippedOffsets]:
        """The skipped offsets since the last call. Unreadable ones are in the next call."""
        try:
            return [] if self.state is None else self.state.new_skipped(self.seen)
        except (OSError, PipelineError) as error:
            logger.warning("the skipped offsets of %s can't be read: %s", self.name, error)
            return []

    def tasks(self, batch_id: int) -> list[TaskReport]:
        """The reports of a micro-batch's tasks."""
        try:
            return [] if self.state is None else list(reports_of(self.state, batch_id))
        except (OSError, PipelineError) as error:
            logger.warning("the reports of %s can't be read: %s", self.name, error)
            return []

    def add(self, progress: BatchProgress) -> None:
        self.last = progress
        added: dict[str, float] = {
            "batches": 1,
            "rows": progress.rows,
            "offsets": progress.offsets,
            "skipped_offsets": progress.skipped_offsets,
            "busy_seconds": progress.seconds,
        }
        if progress.tasks:
            added |= {name: getattr(progress, name) for name in ("bytes", "retries", "malformed")}
        for name, value in added.items():
            self.sums[name] = self.sums.get(name, 0) + value

    def measurements(self) -> Iterator[Measurement]:
        query = {"query": self.name}
        for name, value in self.sums.items():
            yield Measurement(STREAM_SPECS[f"stream_{name}"], query, value)
        for lag in () if self.last is None else self.last.lags:
            labels = {**query, "source": str(lag.source)}
            for name in ("min", "max", "avg"):
                name = f"{name}_offsets_behind_latest"
                yield Measurement(STREAM_SPECS[f"stream_{name}"], labels, getattr(lag, name))


def _offsets(text: Any) -> dict[Key, int] | None:
    """Offsets from Spark's JSON; None: there are none, or they aren't Kafka's.

    With Spark Connect, PySpark 4.0 and 4.1 write them as a dictionary of Python.
    """
    try:
        if isinstance(text, str) and text.startswith("{'"):
            text = json.dumps(ast.literal_eval(text))
        return parse_offsets(text) or None
    except (OptionError, SyntaxError, TypeError, ValueError):
        return None


def _lag(number: int, end: Mapping[Key, int], latest: Mapping[Key, int] | None) -> SourceLag | None:
    """The lag of a source, computed as in Spark's own connector; None: it is unknown."""
    if not latest:
        return None
    behind = [at - end.get(key, 0) for key, at in latest.items()]
    topics = tuple(sorted({topic for topic, _ in latest}))
    average = sum(behind) / len(behind)
    return SourceLag(number, topics, len(behind), min(behind), max(behind), average)


def _without_retries(options: Mapping[str, str]) -> SourceOptions:
    """The options of requests that aren't repeated: the next micro-batch asks again."""
    return replace(SourceOptions.parse(options), fetch_retries=0)


def _shown(topics: tuple[str, ...]) -> str:
    """The first three topics as text."""
    more = f" and {len(topics) - 3} more" if len(topics) > 3 else ""
    return ", ".join(topics[:3]) + more
