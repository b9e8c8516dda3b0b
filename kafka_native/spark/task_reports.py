"""What each task has read or written: one line of the log. Sources: a file for `ProgressListener`.

A task can't send figures to the driver: PySpark gives Python sources neither metrics nor
accumulators. So with the option ``taskReports`` the task of a stream writes a small file beside the
checkpoint.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from typing import Final

from pyspark import TaskContext

from kafka_native.spark.errors import OptionError, PipelineError
from kafka_native.spark.folder import shortened
from kafka_native.spark.kept_state import KeptState
from kafka_native.spark.log import logger
from kafka_native.spark.options import SinkOptions, SourceOptions

__all__ = [
    "TaskReport",
    "attempt_and_batch",
    "log_written",
    "remove_reports",
    "reports_of",
    "send",
]

_BATCH_ID: Final = "streaming.sql.batchId"
_FOLDER: Final = "tasks"
_BATCHES_KEPT: Final = 4
"""Files of so many micro-batches are kept: the listener may read them a moment later."""
_LINE: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


@dataclass(frozen=True)
class TaskReport:
    """What a task has read of its range."""

    topic: str
    partition: int
    start: int
    end: int
    rows: int
    """The rows that Spark got."""
    bytes: int
    """The bytes of these rows in the buffers of Arrow columns."""
    malformed: int
    """The records that don't decode and have left the frame."""
    seconds: float
    """The time from the first request to the last row, in which Spark also took the rows."""
    attempt: int = 0
    """0 for the first attempt of the task."""
    split: int = 0
    """The number of this piece of its partition."""
    batch_id: int | None = None
    """The micro-batch; None: the query is no stream."""

    def __str__(self) -> str:
        """A text for the log."""
        text = (
            f"{self.topic} [{self.partition}] from offset {self.start} to {self.end}: "
            f"{self.rows} rows, {self.bytes} bytes, {self.seconds:.3f} s"
        )
        if self.malformed:
            text += f", {self.malformed} records that don't decode"
        return f"{text}, attempt {self.attempt + 1}" if self.attempt else text


def log_written(rows: int, size: int, seconds: float, options: SinkOptions, dead: int = 0) -> None:
    """Log what this task has written to Kafka.

    :param rows: The acknowledged rows.
    :param size: The bytes of the rows that Spark gave, in Arrow columns.
    :param seconds: The time up to the last acknowledgement, in which Spark also made the rows.
    :param dead: The rows that are dead letters.
    """
    context = TaskContext.get()
    if options.task_reports and context is not None:
        _show_lines()
    attempt, batch_id = attempt_and_batch()
    logger.info(
        "%spartition %d of the frame: %d rows written, %d bytes, %.3f s%s%s",
        "" if batch_id is None else f"batch {batch_id}, ",
        0 if context is None else context.partitionId(),
        rows,
        size,
        seconds,
        f", {dead} dead letters" if dead else "",
        f", attempt {attempt + 1}" if attempt else "",
    )


def send(report: TaskReport, options: SourceOptions) -> None:
    """Log a report. With ``taskReports`` also write it beside the checkpoint of a stream.

    A report that can't be written is a warning: the records have been read.
    """
    if options.task_reports and TaskContext.get() is not None:
        _show_lines()
    logger.info("%s", report)
    if options.task_reports and options.checkpoint and report.batch_id is not None:
        try:
            _write(KeptState(options.checkpoint), options.file_name, report)
        except (OSError, OptionError, PipelineError) as error:
            logger.warning("the report of a task can't be written: %s", error)


def attempt_and_batch() -> tuple[int, int | None]:
    """The attempt of the current task, and its micro-batch. Without a task: 0 and None."""
    context = TaskContext.get()
    if context is None:
        return 0, None
    # Spark passes the id of the micro-batch only in this property.
    batch_id = context.getLocalProperty(_BATCH_ID)
    return context.attemptNumber(), None if batch_id is None else int(batch_id)


def reports_of(state: KeptState, batch_id: int) -> Iterator[TaskReport]:
    """Read the reports of a micro-batch. There are none of old micro-batches."""
    known = {each.name for each in fields(TaskReport)}
    for name in state.names(_folder(batch_id)):
        content = state.read(name)
        if content is not None and content.get("batch_id") == batch_id:
            yield TaskReport(**{name: value for name, value in content.items() if name in known})


def remove_reports(state: KeptState) -> None:
    """Remove the reports of an earlier run, which may have split the same batch differently."""
    state.remove(_FOLDER)


def _write(state: KeptState, source: str, report: TaskReport) -> None:
    assert report.batch_id is not None
    name = f"{source}-{shortened(report.topic)}-{report.partition}-{report.split}"
    state.write(f"{_folder(report.batch_id)}/{name}", asdict(report))


def _folder(batch_id: int) -> str:
    return f"{_FOLDER}/{batch_id % _BATCHES_KEPT}"


def _show_lines() -> None:
    """Show lines of level INFO in a Python worker, which has no settings of its own."""
    if logger.isEnabledFor(logging.INFO):
        return
    logger.setLevel(logging.INFO)
    if not logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter(_LINE))
        logger.addHandler(handler)
