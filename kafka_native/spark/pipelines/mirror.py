"""Mirrors topics: copies each partition to the same partition of another topic or cluster.

Spark's streaming plans the batches, and its checkpoint has the progress. Separate tasks read
and produce the records of a batch (`copy`). After all acknowledgements the driver records the new
offsets (`translation`), and Spark commits. After a crash the last batch is copied again: no record
is lost, some are duplicated. With a ``transactional.id`` for the target each batch is a
transaction. Then readers with read_committed see no duplicates (`kafka_native.spark.exactly_once`).
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

import pyarrow.fs as pafs

from kafka_native import Consumer, KafkaError, KafkaException, TopicPartition
from kafka_native.spark import exactly_once
from kafka_native.spark.client_pool import admitted
from kafka_native.spark.exactly_once import BatchTransaction
from kafka_native.spark.folder import Folder, loaded, shown
from kafka_native.spark.kept_state import KeptState, SkippedOffsets
from kafka_native.spark.log import logger
from kafka_native.spark.offset_reader import OffsetReader
from kafka_native.spark.offsets import Key, parse_offsets
from kafka_native.spark.options import SinkOptions, SourceOptions
from kafka_native.spark.patterns import topic_pattern
from kafka_native.spark.pipelines import copy
from kafka_native.spark.pipelines.session import (
    PipelineError,
    Work,
    WorkCounter,
    cause_of,
    check_topic,
    map_ranges,
    now_ms,
    run_query,
    topic_options,
    watch,
)
from kafka_native.spark.pipelines.target import METADATA_S, partition_count
from kafka_native.spark.pipelines.translation import Piece, Translations, translate
from kafka_native.spark.properties import common_properties

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = [
    "GroupOffset",
    "Mirrored",
    "Route",
    "mirror",
    "plan_mirror",
    "sync_groups",
    "translate_offset",
]

MAX_RECORDS: Final = 10_000_000
"""The default limit of a batch's offsets. After a crash a batch is copied again."""
TARGET_DEFAULTS: Final = {
    "client.id": "kafka-native-mirror",
    "message.max.bytes": "10485760",
    "topic.metadata.propagation.max.ms": "10000",
}
TRANSLATION: Final = "translation"
"""The folder of the translation files, below the checkpoint."""
TOPIC_IDS: Final = "topic_ids.json"
"""The file with the ids of the checkpoint's topics, below the checkpoint."""
STOP_S: Final = 30.0
"""Seconds to finish the current batch after a stop. An unfinished batch is copied again."""
DataLoss = Literal["fail", "skip"]
_FAIL_ON_DATA_LOSS: Final[Mapping[DataLoss, str]] = {"fail": "true", "skip": "false"}
_WAIT_S: Final = 1


@dataclass(frozen=True)
class Route:
    """A topic, its target and the work to do."""

    topic: str
    target: str
    partitions: int
    """The number of partitions of the source."""
    target_partitions: int
    records: int
    """The number of offsets to copy now."""


@dataclass
class Mirrored:
    """The results of a mirror since its start."""

    batches: int = 0
    records: int = 0
    bytes: int = 0
    """Bytes of keys and values."""
    elapsed_s: float = 0.0
    skipped_offsets: int = 0
    """Offsets that no longer existed and were skipped (``data_loss="skip"``)."""
    groups: list[GroupOffset] = field(default_factory=list)
    """The offsets of groups after the last transfer, with the error of each that failed."""
    groups_error: str = ""
    """The reason why the last transfer of groups' offsets failed; empty: it succeeded."""


@dataclass(frozen=True)
class GroupOffset:
    """A consumer group's offset in one partition, and its counterpart on the target."""

    group: str
    topic: str
    partition: int
    offset: int
    """The committed offset on the source."""
    target: str
    target_offset: int
    error: str = ""
    """The reason why it isn't committed; empty: it is, or the target was further already."""


def mirror(
    session: SparkSession,
    config: Mapping[str, str],
    to_config: Mapping[str, str],
    checkpoint: str,
    *,
    topics: Sequence[str] = (),
    pattern: str = "",
    to: str = "{topic}",
    starting: str = "earliest",
    every_s: float | None = None,
    max_records: int = MAX_RECORDS,
    rate: float | None = None,
    groups: Sequence[str] = (),
    data_loss: DataLoss = "fail",
    show: Callable[[Work], None] | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Mirrored:
    """Copy topics, partition to partition: all records that exist now, or without end.

    Keys, values, headers, timestamps and each partition's order stay. Delivery is at least once:
    after a crash, also of an executor, records of the last batch are copied again. Start it again
    with the same checkpoint. With ``transactional.id`` in ``to_config``, a different one for each
    checkpoint, delivery is exactly once: each batch is a transaction.

    :param session: The Spark session, from `open_session`.
    :param config: The source cluster's client configuration, with ``bootstrap.servers``.
    :param to_config: The target cluster's configuration. It may be the same cluster.
    :param checkpoint: The folder of Spark's checkpoint. Its folder ``translation`` has the offsets
        of both sides.
    :param topics: The topics to copy.
    :param pattern: Or a regular expression that whole topic names match.
    :param to: The name of a topic's mirror; ``{topic}`` is replaced by the topic's name.
    :param starting: The start of a new mirror: ``earliest``, ``latest`` or offsets as JSON.
    :param every_s: Seconds between batches of an endless mirror; a longer batch delays the next
        one. None: end when all existing records are copied.
    :param max_records: The approximate limit of a batch's offsets.
    :param rate: The largest number of records per second of all tasks; None: no limit.
    :param groups: Consumer groups whose committed offsets are transferred to the target after each
        batch.
    :param data_loss: What to do with records that were deleted before they were copied: ``fail``,
        or ``skip`` them and record their offsets (`kafka_native.spark.skipped_offsets`).
    :param show: Called with the progress several times a second, on a separate thread.
    :param stop: Called twice a second. True ends the mirror after the current batch, or after
        STOP_S seconds.
    :raises PipelineError: The target has no place for a topic (see `plan_mirror`), or a batch
        failed.
    :raises KafkaException: A cluster doesn't answer.
    """
    # Ranges are never split: one task must copy a whole partition to keep its order.
    options = topic_options(
        config,
        topics,
        pattern,
        startingOffsets=starting,
        maxOffsetsPerTrigger=max_records,
        failOnDataLoss=_FAIL_ON_DATA_LOSS[data_loss],
    )
    where: dict[str, Any] = {"topics": topics, "pattern": pattern, "to": to, "starting": starting}
    plan_mirror(config, to_config, checkpoint=checkpoint, **where)
    running = _MirrorRun(session, options, _sink(to_config), to, checkpoint, rate)
    running.groups = tuple(groups)
    stream = session.readStream.format("kafka_native").options(**options).load()
    writer = stream.writeStream.foreachBatch(running.batch).option("checkpointLocation", checkpoint)
    when: dict[str, Any] = {"availableNow": True}
    if every_s is not None:
        when = {"processingTime": f"{round(every_s * 1000)} milliseconds"}
    started = time.monotonic()
    with watch(running.work, show):
        try:
            run_query(writer.trigger(**when).start, stop, lambda: running.failure, running.end)
        except Exception as error:
            if not isinstance(running.failure, _Stopped):
                raise PipelineError(
                    f"the mirror has failed: {cause_of(running.failure or error)}"
                ) from error
    running.done.elapsed_s = time.monotonic() - started
    return running.done


def _sink(to_config: Mapping[str, str]) -> SinkOptions:
    if str(to_config.get("enable.idempotence", "true")).lower() != "true":
        raise PipelineError(
            "enable.idempotence must stay true on the target: without it, order isn't kept"
        )
    given = {**TARGET_DEFAULTS, **to_config}
    return SinkOptions.parse({f"kafka.{name}": str(value) for name, value in given.items()})


class _Stopped(RuntimeError):
    """Ends a query between two batches, after a request to stop."""


class _MirrorRun:
    """The driver's part of a mirror.

    Spark calls `batch` on one of its threads, never twice at once.
    """

    def __init__(
        self,
        session: SparkSession,
        options: Mapping[str, str],
        sink: SinkOptions,
        to: str,
        checkpoint: str,
        rate: float | None,
    ) -> None:
        self._source = SourceOptions.parse(options)
        self._sink = sink
        self._to = to
        self._checkpoint = Folder(checkpoint)
        self._state = KeptState(checkpoint)
        self._topic_ids = _kept_ids(self._checkpoint)
        self._translations = Translations(f"{checkpoint}/{TRANSLATION}")
        self._rate = rate
        self._counter = WorkCounter(session)
        self.groups: tuple[str, ...] = ()
        self.done = Mirrored()
        self.failure: BaseException | None = None
        self._stopping = False  # set by the thread of mirror(), read by Spark's thread

    def batch(self, frame: DataFrame, batch_id: int) -> None:
        """Copy a batch and record its new offsets. Spark commits it when this returns."""
        try:
            if self._stopping:
                raise _Stopped("the mirror was asked to stop")
            self._batch(frame, batch_id)
        except BaseException as error:
            self.failure = error
            raise

    def end(self, query: StreamingQuery) -> None:
        """Start no new batch. Wait up to STOP_S seconds for the current one."""
        self._stopping = True
        deadline = time.monotonic() + STOP_S
        while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline:
            query.awaitTermination(_WAIT_S)

    def _batch(self, frame: DataFrame, batch_id: int) -> None:
        transaction = exactly_once.begin(self._sink) if self._sink.transactional_id else None
        if transaction is not None and transaction.has_done(self._query(), batch_id):
            self._transfer_group_offsets()
            return
        results: list[dict[str, Any]] = []
        try:
            results = self._copy(frame, batch_id, transaction)
        except BaseException:
            if transaction is not None:
                self._abort(transaction)
            raise
        self._transfer_group_offsets()
        self.done.batches += 1
        self.done.records += sum(result["records"] for result in results)
        self.done.bytes += sum(result["bytes"] for result in results)

    def _copy(
        self, frame: DataFrame, batch_id: int, transaction: BatchTransaction | None
    ) -> list[dict[str, Any]]:
        rate = None if self._rate is None else self._rate / max(1, frame.rdd.getNumPartitions())
        task = partial(
            copy.copy_task, self._source, self._sink, self._to, rate, transaction, self._topic_ids
        )
        results = map_ranges(frame, task, self._counter)
        _check_whole(results)
        self._keep_ids({each["topic"]: each["topic_id"] for each in results if each["topic_id"]})
        pieces = [Piece(*each) for result in results for each in result["pieces"]]
        # Before the commit: every committed batch has its translations and its skipped offsets.
        self._translations.write(batch_id, pieces)
        self._record_skipped(results)
        if transaction is not None:
            copied = [result for result in results if result["records"]]
            written = {
                (copy.target_name(self._to, each["topic"]), each["partition"]) for each in copied
            }
            exactly_once.commit(self._sink, transaction, self._query(), batch_id, written)
        return results

    def _keep_ids(self, found: Mapping[str, str]) -> None:
        """Record the ids of the checkpoint's topics before the checkpoint advances."""
        if not found.items() <= self._topic_ids.items():
            self._topic_ids = {**self._topic_ids, **found}
            self._checkpoint.write(TOPIC_IDS, self._topic_ids)

    def _record_skipped(self, results: Iterable[Mapping[str, Any]]) -> None:
        for each in results:
            for start, end, reason in each["skipped"]:
                place = each["topic"], each["partition"], start, end
                self._state.add_skipped(SkippedOffsets(*place, reason, now_ms(), each["topic_id"]))
                self.done.skipped_offsets += end - start

    def _query(self) -> str:
        """Spark's id of the query. It is part of the checkpoint."""
        return str(json.loads(self._checkpoint.read("metadata"))["id"])

    def _abort(self, transaction: BatchTransaction) -> None:
        """Abort a failed batch so that readers don't wait.

        If that fails, the next start aborts it.
        """
        try:
            exactly_once.abort(self._sink, transaction)
        except KafkaException as error:
            logger.warning(
                "the batch that has failed is still to be aborted: %s", error.args[0].str()
            )

    def _transfer_group_offsets(self) -> None:
        """Transfer the offsets of groups. A failed transfer is repeated after the next batch."""
        if not self.groups:
            return
        try:
            configs = self._source.consumer, self._sink.producer
            self.done.groups = sync_groups(*configs, self._translations, self.groups)
            self.done.groups_error = ""
        except KafkaException as error:
            self.done.groups_error = error.args[0].str()
            logger.warning(
                "the offsets of groups couldn't be carried over: %s", self.done.groups_error
            )

    def work(self) -> Work:
        """The progress so far."""
        skipped = self.done.skipped_offsets
        note = f", {self.done.batches} batches"
        return self._counter.work(f"{note}, {skipped:,} offsets skipped" if skipped else note)


def _check_whole(results: Iterable[Mapping[str, Any]]) -> None:
    """Check that no partition had two tasks. They would mix its order. Ranges are never split.

    A second task that only reports lost offsets writes nothing.
    """
    keys = [(result["topic"], result["partition"]) for result in results if result["records"]]
    twice = next((key for key in keys if keys.count(key) > 1), None)
    if twice is not None:
        raise PipelineError(f"{twice[0]} [{twice[1]}] was copied by two tasks at once")


# --- planning ---


def plan_mirror(
    config: Mapping[str, str],
    to_config: Mapping[str, str],
    *,
    topics: Sequence[str] = (),
    pattern: str = "",
    to: str = "{topic}",
    starting: str = "earliest",
    checkpoint: str = "",
) -> list[Route]:
    """The targets of each topic, and the number of offsets to copy. Nothing is copied.

    The arguments are those of `mirror`.

    :raises PipelineError: A target topic is missing, has too few partitions, is the topic itself,
        or is the target of two topics. Or the pattern matches the mirrors. Or a topic was recreated
        since it was mirrored.
    :raises KafkaException: A cluster doesn't answer, or a topic doesn't exist.
    """
    options = SourceOptions.parse(topic_options(config, topics, pattern, startingOffsets=starting))
    sink = _sink(to_config)
    with OffsetReader(options) as cluster:
        keys = cluster.partitions()
        if checkpoint:
            known = _kept_ids(Folder(checkpoint))
            for topic, found in cluster.topic_ids.items():
                check_topic(topic, found, known, copy.TOPIC_RECREATED_TEXT)
        starts = _starts(cluster, options, keys, checkpoint)
        ends = cluster.latest(keys)
        source_id = cluster.consumer.list_topics(timeout=METADATA_S).cluster_id
    names = sorted({topic for topic, _ in keys})
    targets = {name: copy.target_name(to, name) for name in names}
    with admitted(Consumer(_offsets_config(sink.producer))) as other:
        described = other.list_topics(timeout=METADATA_S)
    same = source_id is not None and source_id == described.cluster_id
    _check_names(targets, pattern, same)
    routes = []
    for name in names:
        count = partition_count(described, targets[name])
        own = [key for key in keys if key[0] == name]
        records = sum(max(0, ends[key] - starts.get(key, 0)) for key in own)
        routes.append(Route(name, targets[name], 1 + max(key[1] for key in own), count, records))
    wrong = [each for each in routes if each.target_partitions < each.partitions]
    if wrong:
        raise PipelineError(
            "; ".join(
                copy.too_few_partitions_text(each.target, each.target_partitions, each.partitions)
                for each in wrong
            )
        )
    return routes


def _starts(
    cluster: OffsetReader, options: SourceOptions, keys: list[Key], checkpoint: str
) -> dict[Key, int]:
    """The offsets where a mirror starts or continues."""
    kept = _checkpointed(checkpoint) if checkpoint else None
    earliest = cluster.earliest(keys)
    if kept is not None:
        return {key: kept.get(key, earliest[key]) for key in keys}
    assert options.starting is not None
    return cluster.resolve(options.starting, keys, starting=True)


def _kept_ids(checkpoint: Folder) -> dict[str, str]:
    """The ids of the topics that a checkpoint's offsets belong to."""
    return loaded(checkpoint.read(TOPIC_IDS), TOPIC_IDS) if checkpoint.exists(TOPIC_IDS) else {}


def _checkpointed(checkpoint: str) -> dict[Key, int] | None:
    """The end of the last planned batch in a checkpoint; None: it is new."""
    home = Folder(checkpoint)
    infos = home.fs.get_file_info(pafs.FileSelector(home.full("offsets"), allow_not_found=True))
    numbers = [int(info.base_name) for info in infos if re.fullmatch("[0-9]+", info.base_name)]
    if not numbers:
        return None
    text = home.read(f"offsets/{max(numbers)}").decode()
    lines = [line for line in text.splitlines() if line.startswith("{")]
    return (
        parse_offsets(lines[-1], f"{shown(checkpoint)}/offsets/{max(numbers)}")
        if len(lines) > 1
        else None
    )


def _check_names(targets: Mapping[str, str], pattern: str, same: bool) -> None:
    taken: dict[str, str] = {}
    for topic, target in targets.items():
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", target):
            raise PipelineError(f"{target!r} can't be the name of a topic")
        if target in taken:
            raise PipelineError(
                f"topics {taken[target]} and {topic} would both go to {target}: write "
                f"{{topic}} in the target's name"
            )
        taken[target] = topic
        if same and target == topic:
            raise PipelineError(
                f"both clusters are the same one: {topic} can't be its own mirror; name it, "
                f"as backup.{{topic}}"
            )
        if same and (target in targets or (pattern and topic_pattern(pattern).fullmatch(target))):
            raise PipelineError(
                f"both clusters are the same one, and {target}, the mirror of {topic}, "
                "would be mirrored itself: name others, or another pattern"
            )


# --- offsets of groups ---


def translate_offset(checkpoint: str, topic: str, partition: int, offset: int) -> int | None:
    """Translate an offset of a topic to the offset where a reader continues in its mirror.

    The reader misses no record. If the exact offset is unknown, it reads some records again. See
    `Translations.translate`.

    :param checkpoint: The mirror's checkpoint.
    :return: An offset of the same partition of the mirror; None: no record of it was mirrored.
    """
    return Translations(f"{checkpoint}/{TRANSLATION}").translate(topic, partition, offset)


def sync_groups(
    config: Mapping[str, object],
    to_config: Mapping[str, object],
    translations: Translations,
    groups: Sequence[str],
) -> list[GroupOffset]:
    """Translate the committed offsets of groups and commit them on the target, never backwards.

    A group with members on the target rejects the commit. Then its offsets have the error.

    :raises KafkaException: The source's coordinator doesn't answer.
    """
    mirrored = translations.load()
    found = []
    for group in groups:
        with Consumer({**_offsets_config(config), "group.id": group}) as consumer:
            committed = consumer.committed([TopicPartition(*key) for key in mirrored], METADATA_S)
        wanted = []
        for each in committed:
            place = (
                translate(mirrored[each.topic, each.partition], each.offset)
                if each.offset >= 0
                else None
            )
            if place is not None:
                wanted.append(GroupOffset(group, each.topic, each.partition, each.offset, *place))
        if wanted:
            found += _commit(to_config, group, wanted)
    return found


def _commit(
    to_config: Mapping[str, object], group: str, wanted: list[GroupOffset]
) -> list[GroupOffset]:
    with Consumer({**_offsets_config(to_config), "group.id": group}) as consumer:
        try:
            there = consumer.committed(
                [TopicPartition(each.target, each.partition) for each in wanted], METADATA_S
            )
            now = {(each.topic, each.partition): each.offset for each in there}
            ahead = [
                each for each in wanted if each.target_offset > now[each.target, each.partition]
            ]
            if not ahead:
                return wanted
            given = [
                TopicPartition(each.target, each.partition, each.target_offset) for each in ahead
            ]
            outcome = consumer.commit(offsets=given, asynchronous=False) or []
        except KafkaException as error:
            return [_failed(each, error.args[0]) for each in wanted]
    errors = {
        (each.topic, each.partition): each.error for each in outcome if each.error is not None
    }
    return [_failed(each, errors.get((each.target, each.partition))) for each in wanted]


def _failed(each: GroupOffset, error: KafkaError | None) -> GroupOffset:
    if error is None:
        return each
    return GroupOffset(
        each.group,
        each.topic,
        each.partition,
        each.offset,
        each.target,
        each.target_offset,
        error.str(),
    )


def _offsets_config(config: Mapping[str, object]) -> dict[str, object]:
    """The configuration of a consumer that only requests and commits offsets.

    It has the properties that a consumer's or a producer's configuration shares with it.
    """
    return {
        **common_properties(config),
        "enable.auto.commit": False,
        "allow.auto.create.topics": False,
    }
