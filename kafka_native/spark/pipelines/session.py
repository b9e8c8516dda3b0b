"""What the pipelines share: the Spark session, the source's options, one task for each range, how far the work is."""

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

if TYPE_CHECKING:
    import pyarrow as pa
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
"""Opens a Spark session when a pipeline needs one, and closes it at its end."""

RESULT_SCHEMA: Final = "result string"
"""What a task hands to the driver: one line of JSON for each range."""

_CHECK_INTERVAL_S: Final = 0.25
_STOP_CHECK_INTERVAL_S: Final = 0.5
_START_TRIES_MAX: Final = 5
_WORKER_TOO_SLOW_TEXT: Final = "Python worker failed to connect back"
_ERROR_LINE: Final = re.compile(r"^(?:[a-z_]\w*\.)*[A-Z]\w*(?:Error|Exception): (.+)$", re.M)


class PipelineError(RuntimeError):
    """A pipeline can't go on; the text says why, and what to do."""


def check_topic(topic: str, found: str, known: Mapping[str, str], instead: str) -> None:
    """Refuses a topic that isn't the one whose offsets were kept.

    :param found: Its id now; empty where brokers don't tell.
    :param known: The ids of topics whose offsets were kept.
    :param instead: What to do, for the error.
    :raises PipelineError: It is another one.
    """
    if "" not in (known.get(topic, ""), found) and known[topic] != found:
        raise PipelineError(
            f"topic {topic} was deleted and made anew since: the kept offsets are those of other records. {instead}"
        )


@dataclass(frozen=True)
class Work:
    """How far a pipeline is, for a progress bar."""

    records: int = 0
    bytes: int = 0
    total: int = 0
    """Records there will be, as far as it is known; 0: it isn't."""
    note: str = ""
    """More about it, to be shown behind the figures."""


@contextmanager
def open_session(
    name: str,
    master: str = "local[*]",
    conf: Mapping[str, str] | None = None,
    session: SparkSession | SessionOpener | None = None,
) -> Iterator[SparkSession]:
    """A Spark session with the source registered: the one given or active, which is left running, or a new one.

    :param name: The application's name, of a new one.
    :param master: Where Spark runs, in its own words; of a new one.
    :param conf: Spark's configuration, of a new one; it wins over the defaults set here.
    :param session: A session that is there already; by default the one that is active in this thread. Or a function
        that opens one: it is called instead.
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
        os.environ.setdefault("PYSPARK_PYTHON", worker_python() if master.startswith("local") else sys.executable)
        builder = SparkSession.builder.appName(name).master(master)
        for key, value in {**settings_for(master), **(conf or {})}.items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
    try:
        session.dataSource.register(KafkaNativeDataSource)
        yield session
    finally:
        if own:
            session.stop()


def settings_for(master: str) -> dict[str, str]:
    """What `open_session()` sets for a new session with this master."""
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        # a task that hangs on to a slow disk must not be run twice at the same time
        "spark.speculation": "false",
        # by TCP the JVM and its Python workers wait 40 ms for each other in each task (PySpark 4.1 and newer)
        "spark.python.unix.domain.socket.enabled": "true",
        # pyarrow loads numpy, whose library of linear algebra would have a thread for each core wait in a busy loop
        "spark.executorEnv.OPENBLAS_NUM_THREADS": "1",
    }
    if master.startswith("local"):
        # No record goes through the JVM: what its second compiler takes from the cores is more than it gives back.
        quick = "-XX:TieredStopAtLevel=1"
        settings |= {"spark.driver.extraJavaOptions": quick, "spark.executor.extraJavaOptions": quick}
        # executors of local-cluster are processes of their own, which start elsewhere
        here = str(Path(__file__).resolve().parents[3])
        settings["spark.executorEnv.PYTHONPATH"] = os.pathsep.join(
            filter(None, (here, os.environ.get("PYTHONPATH", "")))
        )
    return settings


def range_options(config: Mapping[str, str], options: Mapping[str, Any]) -> dict[str, str]:
    """Options of ``format("kafka_native")`` for a direct pipeline: one row for each range of offsets.

    :param config: The Kafka client's configuration, with ``bootstrap.servers``, named as Kafka names it.
    :param options: The source's own options; those that are None are left out.
    """
    own = {key: str(value) for key, value in options.items() if value is not None}
    return {**{f"kafka.{key}": str(value) for key, value in config.items()}, **own, "rows": "ranges"}


def topic_options(config: Mapping[str, str], topics: Sequence[str], pattern: str | None, **own: Any) -> dict[str, str]:
    """The same for topics whose partitions and offsets are still to be seen.

    :param pattern: Or else those whose whole name matches this regular expression.
    :param own: As ``options`` of `range_options`.
    :raises PipelineError: It is neither of them, or both.
    """
    if bool(topics) == bool(pattern):
        raise PipelineError("write either topics or a pattern")
    named = {"subscribePattern": pattern} if pattern else {"subscribe": ",".join(topics)}
    return range_options(config, {**named, **own})


class WorkCounter:
    """Counts records and bytes in tasks; the driver sees the sum of the tasks that have ended.

    :param session: The session whose tasks count.
    """

    def __init__(self, session: SparkSession) -> None:
        """Start at zero."""
        self._records = session.sparkContext.accumulator(0)
        self._bytes = session.sparkContext.accumulator(0)

    def add(self, records: int, size_bytes: int) -> None:
        """In a task: so much has been done."""
        self._records.add(records)
        self._bytes.add(size_bytes)

    def work(self, note: str = "", total: int = 0) -> Work:
        """On the driver: what there is so far."""
        return Work(self._records.value, self._bytes.value, total, note)


def map_ranges(
    frame: DataFrame, task: Callable[[OffsetRange], Mapping[str, Any]], counter: WorkCounter | None = None
) -> list[dict[str, Any]]:
    """Runs a task for each row of a frame of ranges, and waits for all of them.

    :param frame: Of ``rows=ranges``: Spark makes one task of each row.
    :param task: Called with the range, in a Python worker of an executor; it must be possible to pickle it. What it
        returns must be fit for JSON; ``records`` and ``bytes`` in it are counted.
    :param counter: Counts them.
    :return: What the tasks returned, of the attempts that succeeded, in no particular order.
    """

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield _result_batch(_counted(task(each), counter) for each in ranges_in(batch))
        _settle()

    rows = frame.mapInArrow(work, RESULT_SCHEMA).collect()
    return [json.loads(row.result) for row in rows]


def map_numbers(
    session: SparkSession, count: int, task: Callable[[int], Mapping[str, Any]], counter: WorkCounter | None = None
) -> list[dict[str, Any]]:
    """Runs ``task(0)``, ``task(1)``, ... as tasks of their own, and waits for all of them; else like `map_ranges`."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield _result_batch(_counted(task(each), counter) for each in batch.column(0).to_pylist())
        _settle()

    rows = session.range(0, count, 1, count).mapInArrow(work, RESULT_SCHEMA).collect()
    return [json.loads(row.result) for row in rows]


def _settle() -> None:
    from kafka_native.spark.client_pool import settle

    settle()


def ranges_in(batch: pa.RecordBatch) -> list[OffsetRange]:
    """The ranges that a batch of ``rows=ranges`` names."""
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

    return pa.record_batch({"result": pa.array([json.dumps(each) for each in results], pa.string())})


def run_query(
    start: Callable[[], StreamingQuery],
    stop: Callable[[], bool],
    failure: Callable[[], object],
    end: Callable[[StreamingQuery], object] = lambda query: None,
) -> None:
    """Runs a query until it ends, or until ``stop()``, which is asked twice a second, is true.

    Spark gives the Python process of a source ten seconds to start, which a busy machine may need for itself: a query
    that didn't get going for that is started again.

    :param failure: What has gone wrong in a batch; None: nothing has.
    :param end: Called before the query is stopped.
    :raises Exception: As Spark has it.
    """
    for attempt in range(_START_TRIES_MAX):
        query = start()
        try:
            while not query.awaitTermination(_STOP_CHECK_INTERVAL_S) and not stop():  # type: ignore[arg-type]
                pass
            end(query)
            return
        except Exception as error:
            if attempt + 1 == _START_TRIES_MAX or failure() is not None or _WORKER_TOO_SLOW_TEXT not in str(error):
                raise
        finally:
            query.stop()


@contextmanager
def watch(counter: Callable[[], Work], show: Callable[[Work], None] | None) -> Iterator[None]:
    """Shows how far the work is, several times a second, on a thread of its own, and once more at the end."""
    if show is None:
        yield
        return
    ended = threading.Event()
    failed: list[BaseException] = []

    def look() -> None:
        try:
            while not ended.wait(_CHECK_INTERVAL_S):
                show(counter())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=look, name="kafka-native-progress", daemon=True)
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
    """What has gone wrong, in a line: the last error in the text, which Spark wraps in its own and in the worker's."""
    found = _ERROR_LINE.findall(str(error))
    return str(found[-1]) if found else str(error).strip().partition("\n")[0] or type(error).__name__


def now_ms() -> int:
    """The time, in milliseconds since 1970."""
    return time.time_ns() // 1_000_000
