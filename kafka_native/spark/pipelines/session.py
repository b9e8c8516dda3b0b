"""Shared parts of the pipelines: Spark session, options, tasks, progress."""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from kafka_native.spark.errors import PipelineError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from kafka_native.spark.ranges import OffsetRange

__all__ = [
    "PipelineError",
    "SessionOpener",
    "Work",
    "WorkCounter",
    "cause_of",
    "check_topic",
    "context_of",
    "map_numbers",
    "map_ranges",
    "now_ms",
    "open_session",
    "range_options",
    "ranges_in",
    "run_query",
    "settings_for",
    "topic_options",
    "watch",
]

SessionOpener: TypeAlias = "Callable[[], AbstractContextManager[SparkSession]]"
"""A function that opens a Spark session for a pipeline. The result closes the session."""

RESULT_SCHEMA: Final = "result string"
"""The tasks' results for the driver: a line of JSON for each range."""

_CHECK_INTERVAL_S: Final = 0.25
_STOP_CHECK_INTERVAL_S: Final = 0.5
_START_TRIES_MAX: Final = 5
_WORKER_TOO_SLOW_TEXT: Final = "Python worker failed to connect back"
_CONNECT_TEXT: Final = (
    "the pipelines don't run in a session of Spark Connect: run python -m kafka_native.spark on a "
    "machine of the cluster, or pass a session from SparkSession.builder.master(...). The source "
    "and the sink, format('kafka_native'), work with Spark Connect"
)
_KAFKA_ERROR: Final = re.compile(r'KafkaError\{code=\w+,val=-?\d+,str="(.*)"\}')
_ERROR_LINE: Final = re.compile(r"^(?:[a-z_]\w*\.)*[A-Z]\w*(?:Error|Exception): (.+)$", re.M)


def check_topic(topic: str, found: str, known: Mapping[str, str], advice: str) -> None:
    """Raise an error if a topic was recreated since its offsets were stored.

    :param found: Its current id; empty if brokers send none.
    :param known: The stored ids of topics.
    :param advice: The last sentence of the error.
    :raises PipelineError: The id differs.
    """
    if "" not in (known.get(topic, ""), found) and known[topic] != found:
        raise PipelineError(
            f"topic {topic} was deleted and recreated since: the kept offsets are those of "
            f"other records. {advice}"
        )


@dataclass(frozen=True)
class Work:
    """The progress of a pipeline, for a progress bar."""

    records: int = 0
    bytes: int = 0
    total: int = 0
    """The expected number of records; 0: unknown."""
    note: str = ""
    """More text, shown after the figures."""


@contextmanager
def open_session(
    name: str,
    master: str = "local[*]",
    conf: Mapping[str, str] | None = None,
    session: SparkSession | SessionOpener | None = None,
) -> Iterator[SparkSession]:
    """Open a Spark session with the source registered.

    A given or active session stays open afterwards. A new one is stopped.

    :param name: The application's name, for a new session.
    :param master: Spark's master, for a new session.
    :param conf: Spark's configuration, for a new session. It overrides `settings_for`.
    :param session: An existing session, or a function that opens one; None: the active session of
        this thread, or a new one.
    :raises PipelineError: The given or active session is one of Spark Connect.
    """
    if callable(session):
        with session() as opened:
            yield opened
        return
    from pyspark.sql import SparkSession

    from kafka_native.spark import KafkaNativeDataSource, worker_python

    session = session or SparkSession.getActiveSession()
    own = session is None
    if session is None:
        os.environ.setdefault(
            "PYSPARK_PYTHON", worker_python() if master.startswith("local") else sys.executable
        )
        builder = SparkSession.builder.appName(name).master(master)
        for key, value in {**settings_for(master), **(conf or {})}.items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
        context_of(session).setLogLevel("ERROR")
    else:
        context_of(session)
    try:
        session.dataSource.register(KafkaNativeDataSource)
        yield session
    finally:
        if own:
            session.stop()


def context_of(session: SparkSession) -> SparkContext:
    """The context of a session. The pipelines count their work with it.

    :raises PipelineError: The session is one of Spark Connect, which has no context.
    """
    from pyspark.errors import PySparkAttributeError

    try:
        return session.sparkContext
    except PySparkAttributeError as error:
        raise PipelineError(_CONNECT_TEXT) from error


def settings_for(master: str) -> dict[str, str]:
    """Spark's settings of `open_session` for a new session."""
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        # Speculation would run a task a second time while a slow disk delays the first.
        "spark.speculation": "false",
        # With TCP the JVM and its Python workers wait 40 ms for each other in each task (PySpark
        # 4.1 and newer).
        "spark.python.unix.domain.socket.enabled": "true",
        # pyarrow loads numpy. Its linear algebra library has a busy-waiting thread for each core.
        "spark.executorEnv.OPENBLAS_NUM_THREADS": "1",
    }
    if master.startswith("local"):
        # No record goes through the JVM. Its second compiler costs more CPU than it saves.
        quick = "-XX:TieredStopAtLevel=1"
        settings |= {
            "spark.driver.extraJavaOptions": quick,
            "spark.executor.extraJavaOptions": quick,
        }
        # The executors of local-cluster are processes with other working folders.
        here = str(Path(__file__).resolve().parents[3])
        settings["spark.executorEnv.PYTHONPATH"] = os.pathsep.join(
            filter(None, (here, os.environ.get("PYTHONPATH", "")))
        )
    return settings


def range_options(config: Mapping[str, str], options: Mapping[str, Any]) -> dict[str, str]:
    """Options of ``format("kafka_native")`` for a direct pipeline: one row for each range.

    :param config: The Kafka client's configuration, with ``bootstrap.servers`` and Kafka's names.
    :param options: The source's own options. None values are left out.
    """
    own = {key: str(value) for key, value in options.items() if value is not None}
    return {
        **{f"kafka.{key}": str(value) for key, value in config.items()},
        **own,
        "rows": "ranges",
    }


def topic_options(
    config: Mapping[str, str], topics: Sequence[str], pattern: str | None, **own: Any
) -> dict[str, str]:
    """The options for named topics, or for all topics that match a pattern.

    :param pattern: A regular expression that whole topic names match, in place of ``topics``.
    :param own: The ``options`` of `range_options`.
    :raises PipelineError: Both or neither of topics and pattern are given.
    """
    if bool(topics) == bool(pattern):
        raise PipelineError("write either topics or a pattern")
    named = {"subscribePattern": pattern} if pattern else {"subscribe": ",".join(topics)}
    return range_options(config, {**named, **own})


class WorkCounter:
    """Counts records and bytes in tasks. The driver sees the sum of the finished tasks.

    :param session: The session of the tasks.
    """

    def __init__(self, session: SparkSession) -> None:
        """Start at zero.

        :raises PipelineError: The session is one of Spark Connect.
        """
        context = context_of(session)
        self._records = context.accumulator(0)
        self._bytes = context.accumulator(0)

    def add(self, records: int, size_bytes: int) -> None:
        """Count work, in a task."""
        self._records.add(records)
        self._bytes.add(size_bytes)

    def work(self, note: str = "", total: int = 0) -> Work:
        """The work so far, on the driver."""
        return Work(self._records.value, self._bytes.value, total, note)


def map_ranges(
    frame: DataFrame,
    task: Callable[[OffsetRange], Mapping[str, Any]],
    counter: WorkCounter | None = None,
) -> list[dict[str, Any]]:
    """Run a task for each row of a frame of ranges, and wait for all of them.

    :param frame: A frame with ``rows=ranges``. Spark makes one task of each row.
    :param task: Called with the range in a Python worker of an executor. It must be picklable, and
        its result must fit JSON. ``records`` and ``bytes`` in the result are counted.
    :param counter: The counter for them.
    :return: The results of the successful attempts, in any order.
    """

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield _result_batch(_counted(task(each), counter) for each in ranges_in(batch))
        _freeze_imports()

    rows = frame.mapInArrow(work, RESULT_SCHEMA).collect()
    return [json.loads(row.result) for row in rows]


def map_numbers(
    session: SparkSession,
    count: int,
    task: Callable[[int], Mapping[str, Any]],
    counter: WorkCounter | None = None,
) -> list[dict[str, Any]]:
    """Run ``task(0)``, ``task(1)``, ... as separate tasks; otherwise like `map_ranges`."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield _result_batch(
                _counted(task(each), counter) for each in batch.column(0).to_pylist()
            )
        _freeze_imports()

    rows = session.range(0, count, 1, count).mapInArrow(work, RESULT_SCHEMA).collect()
    return [json.loads(row.result) for row in rows]


def _freeze_imports() -> None:
    from kafka_native.spark.client_pool import freeze_imports

    freeze_imports()


def ranges_in(batch: pa.RecordBatch) -> list[OffsetRange]:
    """The ranges in a batch of ``rows=ranges``."""
    from kafka_native.spark.ranges import OffsetRange

    return [
        OffsetRange(
            row["topic"],
            row["partition"],
            row["start_offset"],
            row["end_offset"],
            topic_id=row["topic_id"] or "",
            lost=row["lost"] or "",
        )
        for row in batch.to_pylist()
    ]


def _counted(result: Mapping[str, Any], counter: WorkCounter | None) -> Mapping[str, Any]:
    if counter is not None:
        counter.add(int(result.get("records", 0)), int(result.get("bytes", 0)))
    return result


def _result_batch(results: Iterable[Mapping[str, Any]]) -> pa.RecordBatch:
    import pyarrow as pa

    return pa.record_batch(
        {"result": pa.array([json.dumps(each) for each in results], pa.string())}
    )


def run_query(
    start: Callable[[], StreamingQuery],
    stop: Callable[[], bool],
    failure: Callable[[], object],
    end: Callable[[StreamingQuery], object] = lambda query: None,
) -> None:
    """Run a query until it ends or ``stop()`` returns True. ``stop`` is called twice a second.

    Spark gives the Python process of a source ten seconds to start. A busy machine may need longer.
    A query that fails for this reason is started again.

    :param failure: Returns the error of a batch, or None.
    :param end: Called before the query is stopped.
    :raises Exception: Spark's error.
    """
    for attempt in range(_START_TRIES_MAX):
        query = start()
        try:
            while not query.awaitTermination(_STOP_CHECK_INTERVAL_S) and not stop():  # type: ignore[arg-type]
                pass
            end(query)
            return
        except Exception as error:
            if (
                attempt + 1 == _START_TRIES_MAX
                or failure() is not None
                or _WORKER_TOO_SLOW_TEXT not in str(error)
            ):
                raise
        finally:
            query.stop()


@contextmanager
def watch(counter: Callable[[], Work], show: Callable[[Work], None] | None) -> Iterator[None]:
    """Show the progress several times a second, on a separate thread, and again at the end."""
    if show is None:
        yield
        return
    ended = threading.Event()
    failed: list[BaseException] = []

    def report() -> None:
        try:
            while not ended.wait(_CHECK_INTERVAL_S):
                show(counter())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=report, name="kafka-native-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(timeout=10)
    if failed:
        raise failed[0]
    show(counter())


def cause_of(error: BaseException) -> str:
    """The cause of an error on one line.

    Spark wraps it in its own errors and the worker's, so it is the last one in the text.
    """
    found = _ERROR_LINE.findall(str(error))
    text = found[-1] if found else str(error).strip().partition("\n")[0] or type(error).__name__
    described = _KAFKA_ERROR.fullmatch(text)
    return str(text if described is None else described[1])


def now_ms() -> int:
    """The current time in milliseconds since 1970."""
    return time.time_ns() // 1_000_000
