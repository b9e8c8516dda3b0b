"""``replay --dead-letters``: produces the records of a dead-letter folder again, after a fix.

It runs without Spark, because dead letters are few. A file is marked as replayed by a move into the
subfolder ``_replayed``, when all of its records are acknowledged.

Sources and sinks write such folders. Rows of a sink that don't encode have no bytes to produce:
their files stay.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kafka_native import ArrowReport, Producer
from kafka_native.spark.dead_letters import SCHEMA, LetterFile, add_headers, topic_id_of
from kafka_native.spark.folder import Folder
from kafka_native.spark.options import SinkOptions
from kafka_native.spark.pipelines.replay import Partitions, Timestamps
from kafka_native.spark.pipelines.session import PipelineError, Work
from kafka_native.spark.pipelines.target import (
    Pace,
    check_targets,
    column_name,
    without_negative_timestamps,
)
from kafka_native.spark.producers import borrowed, delivery_timeout_s, wait_for_outcomes

__all__ = [
    "REPLAYED",
    "DeadLetterFile",
    "ReplayedLetters",
    "dead_letter_files",
    "replay_dead_letters",
]

REPLAYED: Final = "_replayed"
"""The subfolder of replayed files. Spark and pyarrow ignore names that begin with ``_``."""
_PLACE: Final = ("topic", "partition", "offset")
_ADDED_HEADERS: Final = {name: f"__kafka_native.replayed.{name}" for name in _PLACE}
_CHUNK_ROWS: Final = 10_000


@dataclass(frozen=True)
class DeadLetterFile:
    """A file of a dead-letter folder.

    A source's file has records of one partition that don't decode. A sink's file has rows that
    weren't written, which have no offsets and may have several topics.
    """

    path: str
    """The path below the folder."""
    topic: str
    """The topic of the records; empty: the rows of a sink name several."""
    partition: int
    """The partition of the records; -1 for rows of a sink."""
    first_offset: int
    last_offset: int
    records: int
    topic_id: str = ""
    """The id of the topic, which tells recreated topics apart; empty: unknown."""
    is_encoded: bool = True
    """Whether there are bytes to produce. False: rows of a sink as JSON, which don't encode."""
    partitions: Mapping[str | None, int] = field(default_factory=dict)
    """The number of partitions that each topic needs. None: the topic of rows that name none."""
    others: int = 0
    """Rows of topics that weren't asked for, which the file also has."""


@dataclass
class ReplayedLetters:
    """The results of `replay_dead_letters`."""

    files: int = 0
    """The number of files whose records are acknowledged."""
    records: int = 0
    """The number of acknowledged records."""
    bytes: int = 0
    """Bytes of the produced Arrow columns."""
    elapsed_s: float = 0.0
    targets: tuple[str, ...] = ()
    """The topics that got records."""
    rows_left: int = 0
    """Rows that don't encode. They stay in the folder: write them again with Spark."""


def dead_letter_files(
    folder: str | Path | Folder, topics: Sequence[str] = ()
) -> list[DeadLetterFile]:
    """The files of a dead-letter folder that aren't replayed yet, by partition and offset.

    :param folder: The folder of the option ``deadLetters``, or its URI.
    :param topics: Only the records of these topics.
    :raises PipelineError: There is no such folder, or a file has no dead letters.
    """
    place = folder if isinstance(folder, Folder) else Folder(folder)
    if not place.exists(""):
        raise PipelineError(f"{place.uri} doesn't exist")
    wanted = frozenset(topics)
    found = [_described(place, name, wanted) for name in place.names("", ".parquet")]
    found.sort(
        key=lambda each: (
            each.topic, each.partition, each.topic_id, each.first_offset, each.path
        )
    )  # fmt: skip
    return [each for each in found if not wanted or wanted & each.partitions.keys()]


def _described(folder: Folder, name: str, wanted: frozenset[str]) -> DeadLetterFile:
    with _opened(folder, name) as file:
        is_sink = "row" in file.schema_arrow.names
        table = file.read(columns=[*_PLACE, "row"] if is_sink else list(_PLACE))
    if is_sink:
        return _described_rows(name, table, wanted)
    topic, partition, first = (table.column(column)[0].as_py() for column in _PLACE)
    last = table.column("offset")[-1].as_py()
    id_ = topic_id_of(name, topic, partition)
    needs = {topic: partition + 1}
    return DeadLetterFile(
        name, topic, partition, first, last, table.num_rows, id_, partitions=needs
    )


def _described_rows(name: str, table: pa.Table, wanted: frozenset[str]) -> DeadLetterFile:
    """The description of a sink's file, or of its rows of these topics."""
    rows = table.num_rows
    if wanted:
        table = table.filter(_are_of(table.column("topic"), wanted))
    highest = table.group_by("topic").aggregate([("partition", "max")])
    needs = {
        row["topic"]: 0 if row["partition_max"] is None else row["partition_max"] + 1
        for row in highest.to_pylist()
    }
    topics = [each for each in needs if each is not None]
    topic = topics[0] if len(needs) == len(topics) == 1 else ""
    is_encoded = table.column("row").null_count == table.num_rows
    others = rows - table.num_rows
    return DeadLetterFile(name, topic, -1, -1, -1, table.num_rows, "", is_encoded, needs, others)


def _are_of(topics: pa.ChunkedArray | pa.Array, wanted: Iterable[str | None]) -> pa.Array:
    """Whether each row is of one of these topics."""
    return pc.is_in(topics, pa.array(sorted(filter(None, wanted)), pa.string()))


def _opened(folder: Folder, name: str) -> pq.ParquetFile:
    try:
        file = pq.ParquetFile(folder.fs.open_input_file(folder.full(name)), pre_buffer=False)
    except pa.ArrowInvalid as error:
        raise PipelineError(f"{name} is no Parquet file: {error}") from error
    if not set(SCHEMA.names) <= set(file.schema_arrow.names) or not file.metadata.num_rows:
        raise PipelineError(f"{name} is no file of dead letters: its columns are others")
    return file


def replay_dead_letters(
    config: Mapping[str, str],
    folder: str | Path | Folder,
    *,
    topic: str | None = None,
    rename: Mapping[str, str] | None = None,
    topics: Sequence[str] = (),
    partitions: Partitions = "keep",
    timestamps: Timestamps = "keep",
    rate: float | None = None,
    on_progress: Callable[[Work], None] | None = None,
) -> ReplayedLetters:
    """Produce the records of a dead-letter folder, each at least once, in order of their offsets.

    Rows that a sink couldn't write are produced, too, unless they don't encode: such rows stay.

    Keys, values and headers are those of the records. Three headers are added, which name their
    topic, partition and offset: ``__kafka_native.replayed.topic`` and so on. Files of which all
    records are acknowledged are moved to the subfolder ``_replayed``. So the next run continues
    with the others. If ``topics`` chooses some rows of a file, the other rows stay, in a new file.
    A record that several files have is produced once. Only one run at a time may use a folder.

    :param config: The Kafka client's configuration, with ``bootstrap.servers``.
    :param folder: The folder of the option ``deadLetters``, or its URI.
    :param topic: The target of all records; None: each record's own topic.
    :param rename: Old and new names of topics.
    :param topics: Only the records of these topics.
    :param partitions: ``keep``, or ``hash``: choose one by the key.
    :param timestamps: ``keep``, or ``now``: the time of the replay.
    :param rate: The largest number of messages per second; None: no limit.
    :param on_progress: Called with the progress after each part of a file.
    :raises PipelineError: The replay failed; the text has the reason.
    """
    place = folder if isinstance(folder, Folder) else Folder(folder)
    if rate is not None and rate <= 0:
        raise PipelineError("rate: write a number above 0, or leave it out")
    found = dead_letter_files(place, topics)
    files = [each for each in found if each.is_encoded]
    rows_left = sum(each.records for each in found) - sum(each.records for each in files)
    if rows_left and not files:
        raise PipelineError(
            f"the {rows_left} rows in {place.uri} don't encode, so there are no records: "
            "write them again with Spark, from the JSON in their column row"
        )
    sink = SinkOptions.parse({f"kafka.{key}": str(value) for key, value in config.items()})
    needed: dict[str, int] = {}
    for each in files:
        for name, count in each.partitions.items():
            target = topic or (rename or {}).get(name or "", name)
            if target is None:
                raise PipelineError(
                    f"{each.path} has rows without a topic: say where to with topic"
                )
            count = count if partitions == "keep" else 0
            needed[target] = max(needed.get(target, 0), count)
    check_targets(sink, needed)
    begun = time.monotonic()
    result = ReplayedLetters(targets=tuple(sorted(needed)), rows_left=rows_left)
    if files:
        place.make(REPLAYED)
        total = sum(each.records for each in files)
        with borrowed(sink) as producer:
            sender = _Sender(producer, sink, place, result, Pace(rate, _CHUNK_ROWS))
            seen = _SeenOffsets()
            for each in files:
                seen.begin(each)
                parts = _messages(place, each, seen, partitions, timestamps, sender.pace.step)
                for name, batch in parts:
                    sender.send(topic or (rename or {}).get(name, name), batch)
                    if on_progress is not None:
                        on_progress(Work(sender.sent, result.bytes, total))
                sender.end_file(each)
            sender.finish()
    result.elapsed_s = time.monotonic() - begun
    return result


def _messages(
    folder: Folder,
    file: DeadLetterFile,
    seen: _SeenOffsets,
    partitions: Partitions,
    timestamps: Timestamps,
    rows_max: int,
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The messages of a file, with the topic of each batch."""
    names = ["key", "value"]
    names += ["partition"] if partitions == "keep" else []
    names += ["timestamp"] if timestamps == "keep" else []
    with _opened(folder, file.path) as opened:
        for whole in opened.iter_batches(rows_max):
            for topic, batch in _by_topic(whole, file):
                if file.partition >= 0:
                    batch = batch.filter(seen.are_new(batch.column("offset")))
                added = {header: batch.column(name) for name, header in _ADDED_HEADERS.items()}
                columns = [_column(batch, name) for name in names]
                columns.append(add_headers(batch.column("headers"), added))
                made = pa.RecordBatch.from_arrays(columns, names=[*names, "headers"])
                yield topic, without_negative_timestamps(made) if timestamps == "keep" else made


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    """A column of messages. A partition below 0 made the row a dead letter: any other may be."""
    column = batch.column(name)
    if name != "partition":
        return column
    return pc.if_else(pc.less(column, 0), pa.scalar(None, column.type), column)


def _by_topic(batch: pa.RecordBatch, file: DeadLetterFile) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The records of each topic. Rows without a topic have the name ``""``."""
    if file.others:
        batch = batch.filter(_are_of(batch.column("topic"), file.partitions))
    if file.topic:
        yield file.topic, batch
        return
    column = pc.fill_null(batch.column("topic"), "")
    for topic in pc.unique(column).to_pylist():
        yield topic, batch.filter(pc.equal(column, topic))


class _SeenOffsets:
    """The offsets of overlapping files. A batch query that runs twice may store records twice."""

    def __init__(self) -> None:
        self._partition = ("", "", -1)
        self._end = -1
        self._offsets: set[int] = set()

    def begin(self, file: DeadLetterFile) -> None:
        """Begin the next file. Offsets of files that can't overlap with it are forgotten."""
        partition = (file.topic, file.topic_id, file.partition)
        if partition != self._partition or file.first_offset > self._end:
            self._offsets.clear()
            self._partition, self._end = partition, -1
        self._end = max(self._end, file.last_offset)

    def are_new(self, offsets: pa.Array) -> pa.Array:
        """Whether each offset is seen for the first time."""
        found = []
        for offset in offsets.to_pylist():
            found.append(offset not in self._offsets)
            self._offsets.add(offset)
        return pa.array(found, pa.bool_())


class _Sender:
    """Produces messages, and moves the files of which all are acknowledged."""

    def __init__(
        self,
        producer: Producer,
        sink: SinkOptions,
        folder: Folder,
        result: ReplayedLetters,
        pace: Pace,
    ) -> None:
        self._producer = producer
        self._folder = folder
        self._result = result
        self._limit_s = delivery_timeout_s(sink)
        self._ended: list[DeadLetterFile] = []
        self._error = ""
        self.pace = pace
        self.sent = 0
        """The number of queued messages."""

    def send(self, topic: str, batch: pa.RecordBatch) -> None:
        """Queue messages. Columns that the batch lacks have the producer's defaults."""
        columns: dict[str, Any] = {name: column_name(name) for name in batch.schema.names}
        try:
            self._producer.produce_arrow(
                topic, batch, **columns, on_delivery=self._take, timeout=self._limit_s
            )
        except ValueError as error:  # such as a header without a key, which a sink has refused
            raise PipelineError(f"a record can't be produced: {error}") from error
        self._poll(0)
        self.sent += batch.num_rows
        self._result.bytes += batch.nbytes
        self.pace.wait(self.sent, self._poll)

    def end_file(self, file: DeadLetterFile) -> None:
        """Note that all messages of a file are queued. Files are acknowledged in groups."""
        self._ended.append(file)
        if sum(each.records for each in self._ended) >= _CHUNK_ROWS:
            self.finish()

    def finish(self) -> None:
        """Wait until all messages are acknowledged, and move their files."""
        if not wait_for_outcomes(self._producer, self._limit_s, self._check):
            raise PipelineError(f"no acknowledgement came for {self._limit_s:g} s")
        for each in self._ended:
            if each.others:
                self._keep_others(each)
            self._folder.move(each.path, f"{REPLAYED}/{each.path}")
            self._result.files += 1
        self._result.records = self.sent
        self._folder.sync(REPLAYED)
        self._folder.sync("")
        self._ended.clear()

    def _keep_others(self, file: DeadLetterFile) -> None:
        """Write the rows that weren't asked for into a file of their own, before the move."""
        name = f"{file.path.removesuffix('.parquet')}-others"
        with _opened(self._folder, file.path) as opened:
            made = LetterFile(self._folder, f"{name}.", opened.schema_arrow)
            try:
                for batch in opened.iter_batches(_CHUNK_ROWS):
                    is_other = pc.invert(_are_of(batch.column("topic"), file.partitions))
                    made.write(batch.filter(is_other))
                self._folder.move(made.end(), f"{name}.parquet")
            finally:
                made.abort()

    def _poll(self, timeout_s: float) -> None:
        self._producer.poll(timeout_s)
        self._check()

    def _take(self, report: ArrowReport) -> None:
        if report.error is not None and not self._error:
            self._error = report.error.str()

    def _check(self) -> None:
        if self._error:
            raise PipelineError(f"a record wasn't delivered: {self._error}")
