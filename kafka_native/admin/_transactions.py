"""Transactions and producers as AdminClient tells them (KIP-664)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from kafka_native.errors import KafkaException
from kafka_native.types import TopicPartition


class TransactionState(Enum):
    """What a transactional id is doing, by the broker's name for it."""

    UNKNOWN = "Unknown"
    """What a newer broker says and this client doesn't know."""
    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"
    DEAD = "Dead"

    @classmethod
    def _missing_(cls, value: object) -> TransactionState:
        return cls.UNKNOWN


@dataclass(frozen=True)
class TransactionListing:
    """A transactional id in a list."""

    transactional_id: str
    producer_id: int
    state: TransactionState


@dataclass(frozen=True)
class ListTransactionsResult:
    """The transactional ids, and what went wrong with brokers that were asked for theirs."""

    valid: list[TransactionListing]
    errors: list[KafkaException]
    """One for each broker that didn't answer, or that doesn't know a state that was asked for."""


@dataclass(frozen=True)
class TransactionDescription:
    """A transactional id and its transaction."""

    coordinator_id: int
    """The broker that coordinates it."""
    state: TransactionState
    producer_id: int
    producer_epoch: int
    transaction_timeout_ms: int
    transaction_start_time_ms: int | None
    """When the open transaction began, in milliseconds since 1970; None: none is open."""
    topic_partitions: list[TopicPartition]
    """What the open transaction writes to; once its end is decided, where its marker isn't written yet."""


@dataclass(frozen=True)
class ProducerState:
    """What a partition knows of a producer with an id."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    """The sequence number of its last record; -1: none is known."""
    last_timestamp: int
    """Of its last batch, in milliseconds since 1970; -1: none is known."""
    coordinator_epoch: int | None
    """Of the coordinator that wrote the last marker; None: there was none yet."""
    current_transaction_start_offset: int | None
    """Where its open transaction begins; None: none is open here."""


@dataclass(frozen=True)
class AbortTransactionSpec:
    """An open transaction of one partition, to be aborted there."""

    topic_partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int = 0
    """Not lower than what `ProducerState` has; 0 where that has none."""


@dataclass(frozen=True)
class HangingTransaction:
    """A transaction that is open in a partition, and that no coordinator will end."""

    topic_partition: TopicPartition
    producer: ProducerState

    @property
    def abort_spec(self) -> AbortTransactionSpec:
        """What `AdminClient.abort_transaction()` is given to abort it."""
        state = self.producer
        return AbortTransactionSpec(
            self.topic_partition, state.producer_id, state.producer_epoch, state.coordinator_epoch or 0
        )


@dataclass(frozen=True)
class FindHangingTransactionsResult:
    """The transactions that hang, and what went wrong with partitions that were looked into."""

    valid: list[HangingTransaction]
    errors: dict[TopicPartition, KafkaException]


@dataclass(frozen=True)
class ProducerIdAndEpoch:
    """What a transactional id goes on with; who has an older epoch is fenced."""

    producer_id: int
    producer_epoch: int
