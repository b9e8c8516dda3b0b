"""Exactly once: each micro-batch is one Kafka transaction.

`begin`, on the driver, gets a new epoch of the transactional id. This fences and aborts the rest of
the previous batch. It also reads which batch was committed last. Each task adopts the producer's
identity (`TaskAttempt`), claims the partitions that it writes to, and ends when all its rows are
acknowledged. `commit`, in another process on the driver, adds a marker and ends the transaction.
The marker is the batch's id, stored as an offset of a group. So rows and marker become visible
together or not at all. A batch whose marker exists is skipped when it runs again.

The batches of a partition have sequence numbers. So only one attempt of one task may write to a
partition in a micro-batch. Spark doesn't guarantee that: it retries tasks, runs copies of slow
tasks, and after a lost shuffle repeats a stage while old tasks still run. Claims guarantee it, see
`TaskAttempt.claim`. docs/internals/transactions.md explains the protocol.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext

from kafka_native import KafkaError, KafkaException, Producer, TopicPartition
from kafka_native.admin import AdminClient
from kafka_native.config import parse
from kafka_native.control.producer.transaction_calls import Shared
from kafka_native.producer import adopt, share, transaction_error
from kafka_native.spark.client_pool import Pool, admitted
from kafka_native.spark.errors import OptionError
from kafka_native.spark.offsets import UNKNOWN_PARTITION_ERRORS, Key
from kafka_native.spark.options import SinkOptions
from kafka_native.spark.properties import common_properties
from kafka_native.types import ConsumerGroupMetadata, ConsumerGroupTopicPartitions

if TYPE_CHECKING:
    from kafka_native.spark.sink_dead_letters import KeptLetters

__all__ = [
    "BatchTransaction",
    "ExactlyOnceError",
    "TaskAttempt",
    "abort",
    "begin",
    "check",
    "close_idle",
    "commit",
    "current_attempt",
]

CALL_TIMEOUT_S: Final = 60.0
"""Seconds for one step. If a coordinator doesn't answer in time, the micro-batch fails."""
CLAIMING: Final = ".claiming"
"""The suffix of a group after the transactional id. Its offsets name the last task to claim."""
CLAIMED: Final = ".claimed"
"""The suffix of a group after the transactional id. Its offsets name the task with the claim."""
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
"""The brokers' errors for a transaction that no longer belongs to this batch."""
_NO_TRANSACTIONS_ERRORS: Final = frozenset(
    {KafkaError.UNSUPPORTED_VERSION, KafkaError._UNSUPPORTED_FEATURE}
)


class ExactlyOnceError(RuntimeError):
    """A micro-batch can't be written exactly once.

    Nothing is committed; the text says what to do.
    """


@dataclass(frozen=True)
class BatchTransaction:
    """A micro-batch's transaction. The driver sends it to the tasks, they send it to the commit."""

    shared: Shared
    done: Mapping[str, int] = field(default_factory=dict)
    """The last committed micro-batch of each query that used the transactional id, usually one."""

    @property
    def name(self) -> str:
        """A name of the micro-batch for claims."""
        return f"{self.shared.producer_id}:{self.shared.epoch}"

    def has_done(self, query: str, batch_id: int) -> bool:
        """Whether a micro-batch is committed. It runs again if Spark couldn't record that."""
        return batch_id <= self.done.get(query, -1)


# --- on the driver ---


def begin(options: SinkOptions) -> BatchTransaction:
    """Begin a micro-batch: abort the open transaction of the id, and fence its producers.

    :raises OptionError: ``kafka.transaction.timeout.ms`` is more than the brokers allow.
    :raises ExactlyOnceError: The brokers have no transactions.
    :raises KafkaException: The brokers don't answer, or don't allow it.
    """
    try:
        with admitted(Producer(dict(options.producer))) as producer:
            producer.init_transactions(CALL_TIMEOUT_S)
            shared = share(producer)
    except KafkaException as error:
        code = error.args[0].code()
        if code == KafkaError.INVALID_TRANSACTION_TIMEOUT:
            text = (
                f"{_timeout_ms(options)} is more than the brokers' transaction.max.timeout.ms: "
                "write less"
            )
            raise OptionError("kafka.transaction.timeout.ms", text) from error
        if code in _NO_TRANSACTIONS_ERRORS:
            text = (
                "the brokers have no transactions, as before Apache Kafka 0.11: leave "
                "kafka.transactional.id out"
            )
            raise ExactlyOnceError(text) from error
        raise
    # Read the markers after the fencing: from now on no other producer can change them.
    with _admins.borrowed(common_properties(options.producer)) as admin:
        places = _offsets(admin, options.transactional_id, None)
    done: dict[str, int] = {}
    for offset, query in places.values():
        done[query] = max(offset - 1, done.get(query, -1))
    return BatchTransaction(shared, done)


def commit(
    options: SinkOptions,
    transaction: BatchTransaction,
    query: str,
    batch_id: int,
    written: Collection[Key],
    letters: KeptLetters | None = None,
) -> None:
    """Commit a micro-batch together with its marker.

    :param written: The partitions that its tasks, all of them ended, have written to.
    :param letters: The dead letters; None: there are none for a topic.
    :raises ExactlyOnceError: The transaction is over.
    :raises DeadLetterError: The topic doesn't take the dead letters.
    :raises KafkaException: A coordinator doesn't answer. The query's next start reads the outcome.
    """
    if not written and letters is None:
        return  # there is no transaction
    topic = letters.topic if letters is not None else min(written)[0]
    marker = TopicPartition(topic, 0, batch_id + 1, query)
    try:
        with Producer(dict(options.producer)) as producer:
            adopt(producer, transaction.shared)
            if letters is not None:
                letters.send(producer)
            group = ConsumerGroupMetadata(options.transactional_id)
            producer.send_offsets_to_transaction([marker], group, CALL_TIMEOUT_S)
            producer.commit_transaction(CALL_TIMEOUT_S)
    except KafkaException as error:
        if error.args[0].code() not in _TRANSACTION_OVER_ERRORS:
            raise
        raise _transaction_over_error(
            error.args[0], options, f"micro-batch {batch_id} can't be committed"
        ) from error


def abort(options: SinkOptions, transaction: BatchTransaction) -> None:
    """Abort a micro-batch, so that consumers don't wait for its end.

    A newer batch has done so already.

    :raises KafkaException: The coordinator doesn't answer.
    """
    try:
        with Producer(dict(options.producer)) as producer:
            adopt(producer, transaction.shared)
            producer.abort_transaction(CALL_TIMEOUT_S)
    except KafkaException as error:
        if error.args[0].code() not in _TRANSACTION_OVER_ERRORS:
            raise


# --- in a task ---


class TaskAttempt:
    """One attempt of a task in the transaction of its micro-batch."""

    def __init__(
        self, options: SinkOptions, transaction: BatchTransaction, attempt_id: str
    ) -> None:
        """``attempt_id``: the task's number, a slash, and an id that only this attempt has."""
        self._options = options
        self._transaction = transaction
        self._attempt_id = attempt_id
        self._claimed: set[Key] = set()

    @property
    def written(self) -> frozenset[Key]:
        """The partitions that this attempt has claimed."""
        return frozenset(self._claimed)

    @contextmanager
    def joined(self, producer: Producer, *, tolerant: bool = False) -> Iterator[None]:
        """Put the producer into the micro-batch's transaction. Its errors get a clearer text.

        :param tolerant: The transaction continues without rows that the brokers refuse as such.
        """
        try:
            adopt(producer, self._transaction.shared, tolerant=tolerant)
            yield
        except Exception as error:
            cause = (
                error.args[0] if isinstance(error, KafkaException) else transaction_error(producer)
            )
            if cause is None or cause.code() not in _TRANSACTION_OVER_ERRORS:
                raise
            raise _transaction_over_error(cause, self._options, "rows can't be written") from error

    def claim(self, keys: Collection[Key]) -> None:
        """Claim partitions for this attempt, before it sends the first row to them.

        At most one attempt succeeds. Each partition has two registers, which are committed offsets
        of two groups. An attempt does four steps:

        1. Write itself into the first register.
        2. Give up if the second register is taken.
        3. Take the second register.
        4. Give up unless it is still in the first register.

        Two attempts can't both succeed. If the later one writes the first register before the
        earlier one's step 4, that step fails. If it writes it afterwards, its own step 2 fails.

        :raises ExactlyOnceError: Another attempt may have written to a partition.
        :raises KafkaException: A partition doesn't exist, or the coordinator doesn't answer.
        """
        new = sorted(set(keys) - self._claimed)
        if not new:
            return
        claiming, claimed = (self._options.transactional_id + end for end in (CLAIMING, CLAIMED))
        task, taken = f"{self._transaction.name}/{self._attempt_id}", f"{self._transaction.name}/"
        retry_max_s = self._options.propagation_s
        with _admins.borrowed(common_properties(self._options.producer)) as admin:
            _commit_texts(admin, claiming, dict.fromkeys(new, task), retry_max_s)
            for key, (_, text) in _offsets(admin, claimed, new).items():
                if text.startswith(taken):
                    raise self._claim_error(admin, key, text)
            _commit_texts(admin, claimed, dict.fromkeys(new, task), retry_max_s)
            for key, (_, text) in _offsets(admin, claiming, new).items():
                if text != task:
                    raise self._claim_error(admin, key, text)
        self._claimed.update(new)

    def _claim_error(self, admin: AdminClient, key: Key, text: str) -> ExactlyOnceError:
        own = self._attempt_id.split("/")[0]
        tasks = sorted({own, *text.split("/")[1].split("+")})
        where = f"{key[0]} [{key[1]}]"
        if len(tasks) > 1:
            # Spark retries the tasks and shows the last error. This text must still be found then,
            # so the register gets both numbers.
            both = f"{self._transaction.name}/{'+'.join(tasks)}/"
            _commit_texts(admin, self._options.transactional_id + CLAIMED, {key: both}, 0)
            return ExactlyOnceError(
                f"tasks {' and '.join(tasks)} of one micro-batch have rows for {where}: "
                "bring each partition's rows into one task, with "
                "kafka_native.spark.by_partition(frame, partitions) or "
                'repartition(partitions, "partition"), as the last step before writeStream'
            )
        return ExactlyOnceError(
            f"task {own} was run again in one micro-batch after it had begun to write to {where}: "
            "that fails the batch. Start the query again; it goes on where it was, exactly once. "
            "(Speculation has to be off: spark.speculation=false)"
        )


def check(producer: Producer) -> None:
    """Check the transaction while a task in `TaskAttempt.joined` waits for acknowledgements.

    :raises KafkaException: The transaction can't be committed any more.
    """
    cause = transaction_error(producer)
    if cause is not None:
        raise KafkaException(cause)


def current_attempt(options: SinkOptions, transaction: BatchTransaction) -> TaskAttempt:
    """The current attempt, in a task.

    :raises ExactlyOnceError: This code doesn't run in a task of Spark's.
    """
    context = TaskContext.get()
    if context is None:
        raise ExactlyOnceError("only a task of Spark's can write to a micro-batch's transaction")
    return TaskAttempt(options, transaction, f"{context.partitionId()}/{context.taskAttemptId()}")


def batch_of_task() -> tuple[str, int]:
    """The ids of the query and the micro-batch, in a task of a streaming query.

    Spark passes them to ``write()`` only as properties of the task.

    :raises ExactlyOnceError: This code doesn't run in such a task.
    """
    context = TaskContext.get()
    query = None if context is None else context.getLocalProperty(_QUERY_ID)
    batch_id = None if context is None else context.getLocalProperty(_BATCH_ID)
    if query is None or batch_id is None:
        raise ExactlyOnceError("Spark doesn't give the task the ids of its query and micro-batch")
    return query, int(batch_id)


# --- committed offsets of groups as registers ---

_admins: Final = Pool(AdminClient, lambda admin: True, lambda admin, _timeout_s: admin.close())
close_idle: Final = _admins.close_idle


def _offsets(
    admin: AdminClient, group: str, keys: Collection[Key] | None
) -> dict[Key, tuple[int, str]]:
    """A group's committed offsets with their metadata, of some or all partitions.

    It waits for the end of open transactions.
    """
    asked = None if keys is None else [TopicPartition(*key) for key in keys]
    request = [ConsumerGroupTopicPartitions(group, asked)]
    deadline = time.monotonic() + CALL_TIMEOUT_S
    while True:
        try:
            futures = admin.list_consumer_group_offsets(
                request, require_stable=True, request_timeout=CALL_TIMEOUT_S
            )
            found = futures[group].result().topic_partitions or []
            break
        except KafkaException as error:
            if (
                error.args[0].code() != KafkaError.UNSTABLE_OFFSET_COMMIT
                or time.monotonic() > deadline
            ):
                raise
            time.sleep(_RETRY_INTERVAL_S)
    _check(found)
    return {
        (each.topic, each.partition): (each.offset, each.metadata or "")
        for each in found
        if each.offset >= 0
    }


def _commit_texts(
    admin: AdminClient, group: str, texts: Mapping[Key, str], retry_max_s: float
) -> None:
    """Commit texts for partitions. Retry partitions that the coordinator doesn't know yet."""
    until = time.monotonic() + retry_max_s
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
            raise KafkaException(
                KafkaError(
                    each.error.code(), f"{each.topic} [{each.partition}]: {each.error.str()}"
                )
            )


def _timeout_ms(options: SinkOptions) -> int:
    return parse(options.producer, "producer").integer("transaction.timeout.ms")


def _transaction_over_error(cause: KafkaError, options: SinkOptions, what: str) -> ExactlyOnceError:
    """The error for a transaction that has ended too early."""
    return ExactlyOnceError(
        f"{what}: its transaction is over ({cause.name()}). It took longer than "
        f"kafka.transaction.timeout.ms ({_timeout_ms(options)} ms), or a query with the same "
        f"kafka.transactional.id, {options.transactional_id!r}, was started after this one. "
        "Start the query again; it goes on where it was"
    )
