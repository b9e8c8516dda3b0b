"""Exactly once: each micro-batch is one Kafka transaction, which the driver begins and ends, and its tasks write to.

`begin()` on the driver has a new epoch of the transactional id, which fences and aborts whatever is left of the batch
before, and reads which batch was last committed. Each task takes up that identity (`Writing`), claims the partitions
that it is going to write to, and ends when all of its rows are acknowledged. `commit()`, on the driver again but in
another process, adds the marker, the batch's id as an offset of a group, and ends the transaction: rows and marker are
there together or not at all. A batch that runs again although its marker is there is left out.

A partition's batches are numbered, so only one attempt of one task may write to it in a micro-batch. Spark doesn't
promise that: it tries tasks again, runs copies of slow ones, and after a lost shuffle a stage while tasks of its first
attempt are still running. A claim is what makes sure of it, see `Writing.claim()`. docs/guide/transactions.md draws the
protocol and says why it holds.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from pyspark import TaskContext

from kafka_native import KafkaError, KafkaException, Producer, TopicPartition
from kafka_native.admin import AdminClient
from kafka_native.config import parse
from kafka_native.control.producer.transactions import Shared
from kafka_native.spark.client_pool import Pool, admitted
from kafka_native.spark.errors import OptionError
from kafka_native.spark.offsets import UNKNOWN_PARTITION_ERRORS, Key
from kafka_native.spark.options import SinkOptions
from kafka_native.spark.properties import common_properties
from kafka_native.transacting import adopt, share, trouble
from kafka_native.types import ConsumerGroupMetadata, ConsumerGroupTopicPartitions

__all__ = ["ExactlyOnceError", "Turn", "Writing", "abort", "begin", "check", "close_idle", "commit", "writing"]

CALL_TIMEOUT_S: Final = 60.0
"""How long one step may take: what the coordinators don't answer by then fails the micro-batch."""
CLAIMING: Final = ".claiming"
"""Behind the transactional id: the group whose offsets say who was the last to want a partition."""
CLAIMED: Final = ".claimed"
"""The group whose offsets say in which micro-batch a partition was claimed."""
_RETRY_INTERVAL_S: Final = 0.05
_QUERY_ID: Final = "sql.streaming.queryId"
_BATCH_ID: Final = "streaming.sql.batchId"
_TRANSACTION_OVER_ERRORS: Final = frozenset(
    {
        KafkaError._FENCED,
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.INVALID_TXN_STATE,
        KafkaError.INVALID_PRODUCER_ID_MAPPING,
    }
)
"""What is said of a transaction that isn't this batch's any more."""
_NO_TRANSACTIONS_ERRORS: Final = frozenset({KafkaError.UNSUPPORTED_VERSION, KafkaError._UNSUPPORTED_FEATURE})


class ExactlyOnceError(RuntimeError):
    """A micro-batch that can't be written exactly once. Nothing of it is committed; the text says what to do."""


@dataclass(frozen=True)
class Turn:
    """What the driver gives the tasks of one micro-batch, and they hand on to where it is committed."""

    shared: Shared
    done: Mapping[str, int] = field(default_factory=dict)
    """By query, the id of the last micro-batch that is committed: one, unless the id was used by several queries."""

    @property
    def name(self) -> str:
        """Which micro-batch it is, for claims."""
        return f"{self.shared.producer_id}:{self.shared.epoch}"

    def has_done(self, query: str, batch_id: int) -> bool:
        """Whether a micro-batch is committed already, and only runs again because Spark couldn't note it."""
        return batch_id <= self.done.get(query, -1)


# --- the driver's side ---


def begin(options: SinkOptions) -> Turn:
    """Begins a micro-batch: what was left open under the transactional id is aborted, and who wrote to it fenced.

    :raises OptionError: ``kafka.transaction.timeout.ms`` is more than the brokers allow.
    :raises ExactlyOnceError: The brokers have no transactions.
    :raises KafkaException: They don't answer, or don't allow it.
    """
    try:
        with admitted(Producer(dict(options.producer))) as producer:
            producer.init_transactions(CALL_TIMEOUT_S)
            shared = share(producer)
    except KafkaException as error:
        code = error.args[0].code()
        if code == KafkaError.INVALID_TRANSACTION_TIMEOUT:
            text = f"{_timeout_ms(options)} is more than the brokers' transaction.max.timeout.ms: write less"
            raise OptionError("kafka.transaction.timeout.ms", text) from error
        if code in _NO_TRANSACTIONS_ERRORS:
            text = "the brokers have no transactions, as before Apache Kafka 0.11: leave kafka.transactional.id out"
            raise ExactlyOnceError(text) from error
        raise
    with _admins.lent(common_properties(options.producer)) as admin:  # only now: nothing is about to change it any more
        places = _offsets(admin, options.transactional_id, None)
    done: dict[str, int] = {}
    for offset, query in places.values():
        done[query] = max(offset - 1, done.get(query, -1))
    return Turn(shared, done)


def commit(options: SinkOptions, turn: Turn, query: str, batch_id: int, written: Collection[Key]) -> None:
    """Commits a micro-batch, and that it is committed.

    :param written: The partitions that its tasks have written to. All of them have ended.
    :raises ExactlyOnceError: Its transaction is over.
    :raises KafkaException: The coordinators don't answer: whether it is committed shows at the query's next start.
    """
    if not written:
        return  # there is no transaction
    marker = TopicPartition(min(written)[0], 0, batch_id + 1, query)
    try:
        with Producer(dict(options.producer)) as producer:
            adopt(producer, turn.shared)
            group = ConsumerGroupMetadata(options.transactional_id)
            producer.send_offsets_to_transaction([marker], group, CALL_TIMEOUT_S)
            producer.commit_transaction(CALL_TIMEOUT_S)
    except KafkaException as error:
        if error.args[0].code() not in _TRANSACTION_OVER_ERRORS:
            raise
        raise _explained(error.args[0], options, f"micro-batch {batch_id} can't be committed") from error


def abort(options: SinkOptions, turn: Turn) -> None:
    """Aborts a micro-batch, so that readers needn't wait for its end. If another one has begun, it is aborted already.

    :raises KafkaException: The coordinator doesn't answer.
    """
    try:
        with Producer(dict(options.producer)) as producer:
            adopt(producer, turn.shared)
            producer.abort_transaction(CALL_TIMEOUT_S)
    except KafkaException as error:
        if error.args[0].code() not in _TRANSACTION_OVER_ERRORS:
            raise


# --- a task's side ---


class Writing:
    """One attempt of a task in the transaction of its micro-batch."""

    def __init__(self, options: SinkOptions, turn: Turn, who: str) -> None:
        """``who``: the task's number, a slash, and what no other attempt of any task has."""
        self._options = options
        self._turn = turn
        self._who = who
        self._claimed: set[Key] = set()

    @property
    def written(self) -> frozenset[Key]:
        """The partitions that it may write to, and has."""
        return frozenset(self._claimed)

    @contextmanager
    def joined(self, producer: Producer) -> Iterator[None]:
        """The producer is in the micro-batch's transaction; errors of it say what they mean here."""
        try:
            adopt(producer, self._turn.shared)
            yield
        except Exception as error:
            cause = error.args[0] if isinstance(error, KafkaException) else trouble(producer)
            if cause is None or cause.code() not in _TRANSACTION_OVER_ERRORS:
                raise
            raise _explained(cause, self._options, "rows can't be written") from error

    def claim(self, keys: Collection[Key]) -> None:
        """Makes sure that nobody else writes to some partitions in this micro-batch, before the first row is sent.

        Of any number of attempts, at most one gets through: a splitter of two registers a partition, which are offsets
        that groups commit. Each attempt writes itself into the first, gives up if the second is taken, takes it, and
        gives up unless it is still the one in the first. Had two got through, the later one of the first register would
        have written it before the earlier one looked for the last time, or found the second one taken.

        :raises ExactlyOnceError: Somebody else may.
        :raises KafkaException: A partition doesn't exist; the group's coordinator doesn't answer.
        """
        new = sorted(set(keys) - self._claimed)
        if not new:
            return
        claiming, claimed = (self._options.transactional_id + end for end in (CLAIMING, CLAIMED))
        task, taken = f"{self._turn.name}/{self._who}", f"{self._turn.name}/"
        patience_s = self._options.propagation_s
        with _admins.lent(common_properties(self._options.producer)) as admin:
            _commit_texts(admin, claiming, dict.fromkeys(new, task), patience_s)
            for key, (_, text) in _offsets(admin, claimed, new).items():
                if text.startswith(taken):
                    raise self._refused(admin, key, text)
            _commit_texts(admin, claimed, dict.fromkeys(new, task), patience_s)
            for key, (_, text) in _offsets(admin, claiming, new).items():
                if text != task:
                    raise self._refused(admin, key, text)
        self._claimed.update(new)

    def _refused(self, admin: AdminClient, key: Key, text: str) -> ExactlyOnceError:
        own = self._who.split("/")[0]
        tasks = sorted({own, *text.split("/")[1].split("+")})
        where = f"{key[0]} [{key[1]}]"
        if len(tasks) > 1:
            # Spark tries them again and shows the last error: it has to find this one, not just its own first attempt
            both = f"{self._turn.name}/{'+'.join(tasks)}/"
            _commit_texts(admin, self._options.transactional_id + CLAIMED, {key: both}, 0)
            return ExactlyOnceError(
                f"tasks {' and '.join(tasks)} of one micro-batch have rows for {where}: bring each partition's rows "
                "into one task, with kafka_native.spark.by_partition(frame, partitions) or "
                'repartition(partitions, "partition"), as the last step before writeStream'
            )
        return ExactlyOnceError(
            f"task {own} was run again in one micro-batch after it had begun to write to {where}: that fails the "
            "batch. Start the query again; it goes on where it was, exactly once. (Speculation has to be off: "
            "spark.speculation=false)"
        )


def check(producer: Producer) -> None:
    """In `Writing.joined()`, while acknowledgements are waited for: there may be none to come.

    :raises KafkaException: The transaction can't be committed any more.
    """
    cause = trouble(producer)
    if cause is not None:
        raise KafkaException(cause)


def writing(options: SinkOptions, turn: Turn) -> Writing:
    """In a task: this attempt of it.

    :raises ExactlyOnceError: It is none of Spark's tasks.
    """
    context = TaskContext.get()
    if context is None:
        raise ExactlyOnceError("only a task of Spark's can write to a micro-batch's transaction")
    return Writing(options, turn, f"{context.partitionId()}/{context.taskAttemptId()}")


def batch_of_task() -> tuple[str, int]:
    """In a task of a streaming query: the query's id and the micro-batch's.

    Spark tells ``write()`` in no other way which ones they are.

    :raises ExactlyOnceError: It is no such task.
    """
    context = TaskContext.get()
    query = None if context is None else context.getLocalProperty(_QUERY_ID)
    batch_id = None if context is None else context.getLocalProperty(_BATCH_ID)
    if query is None or batch_id is None:
        raise ExactlyOnceError("Spark doesn't tell the task which query and micro-batch it belongs to")
    return query, int(batch_id)


# --- offsets of groups as registers ---

_admins: Final = Pool(AdminClient, lambda admin: True, lambda admin, _timeout_s: admin.close())
close_idle: Final = _admins.close_idle


def _offsets(admin: AdminClient, group: str, keys: Collection[Key] | None) -> dict[Key, tuple[int, str]]:
    """What a group has committed, offset and metadata, of some partitions or of all; waits for open transactions."""
    asked = None if keys is None else [TopicPartition(*key) for key in keys]
    request = [ConsumerGroupTopicPartitions(group, asked)]
    deadline = time.monotonic() + CALL_TIMEOUT_S
    while True:
        try:
            futures = admin.list_consumer_group_offsets(request, require_stable=True, request_timeout=CALL_TIMEOUT_S)
            found = futures[group].result().topic_partitions or []
            break
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNSTABLE_OFFSET_COMMIT or time.monotonic() > deadline:
                raise
            time.sleep(_RETRY_INTERVAL_S)
    _check(found)
    return {(each.topic, each.partition): (each.offset, each.metadata or "") for each in found if each.offset >= 0}


def _commit_texts(admin: AdminClient, group: str, texts: Mapping[Key, str], patience_s: float) -> None:
    """Commits texts for partitions; those that are too new for the coordinator to know them are tried again."""
    until = time.monotonic() + patience_s
    left = dict(texts)
    while True:
        places = [TopicPartition(*key, 0, text) for key, text in left.items()]
        request = [ConsumerGroupTopicPartitions(group, places)]
        futures = admin.alter_consumer_group_offsets(request, request_timeout=CALL_TIMEOUT_S)
        outcome = futures[group].result().topic_partitions or []
        unknown = {
            (each.topic, each.partition)
            for each in outcome
            if each.error and each.error.code() in UNKNOWN_PARTITION_ERRORS
        }
        _check([each for each in outcome if (each.topic, each.partition) not in unknown])
        if not unknown or time.monotonic() >= until:
            return _check(outcome)
        left = {key: text for key, text in left.items() if key in unknown}
        time.sleep(_RETRY_INTERVAL_S)


def _check(outcome: Collection[TopicPartition]) -> None:
    for each in outcome:
        if each.error is not None:
            raise KafkaException(KafkaError(each.error.code(), f"{each.topic} [{each.partition}]: {each.error.str()}"))


def _timeout_ms(options: SinkOptions) -> int:
    return parse(options.producer, "producer").integer("transaction.timeout.ms")


def _explained(cause: KafkaError, options: SinkOptions, what: str) -> ExactlyOnceError:
    """What has ended a transaction before its time."""
    return ExactlyOnceError(
        f"{what}: its transaction is over ({cause.name()}). It took longer than kafka.transaction.timeout.ms "
        f"({_timeout_ms(options)} ms), or a query with the same kafka.transactional.id, "
        f"{options.transactional_id!r}, was started after this one. Start the query again; it goes on where it was"
    )
