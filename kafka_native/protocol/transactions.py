"""Producer ids and transactions: KIP-98, and its administration (KIP-664)."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from kafka_native.protocol.api_keys import ApiKey
from kafka_native.protocol.schema import (
    ZERO_UUID,
    Request,
    Response,
    Struct,
    array,
    boolean,
    error_text,
    int8,
    int16,
    int32,
    int64,
    string,
    uuid,
)

if TYPE_CHECKING:
    from typing_extensions import Self

LAST_TXN_BY_NAME = 5
"""The last TxnOffsetCommit version with topic names; later ones have topic ids (KIP-1319)."""


class AddPartitionsToTxnTopic(Struct):
    """Partitions of one topic."""

    name: str = string("0+")
    partitions: list[int] = array(int32(), "0+")


class AddPartitionsToTxnRequest(
    Request, api_key=ApiKey.ADD_PARTITIONS_TO_TXN, versions="0-5", flexible="3+"
):
    """Add partitions to a transaction.

    From version 4 on, the request has a list of transactions.
    """

    class Transaction(Struct):
        """One transaction and its partitions."""

        transactional_id: str = string("4+")
        producer_id: int = int64("4+")
        producer_epoch: int = int16("4+")
        verify_only: bool = boolean("4+")
        topics: list[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic, "4+")

    transactions: list[Transaction] = array(Transaction, "4+")
    v3_and_below_transactional_id: str = string("0-3")
    v3_and_below_producer_id: int = int64("0-3")
    v3_and_below_producer_epoch: int = int16("0-3")
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic, "0-3")


class AddPartitionsToTxnPartitionResult(Struct):
    """The outcome for one partition."""

    partition_index: int = int32("0+")
    partition_error_code: int = int16("0+")


class AddPartitionsToTxnTopicResult(Struct):
    """The outcome for one topic."""

    name: str = string("0+")
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = array(
        AddPartitionsToTxnPartitionResult, "0+"
    )


class AddPartitionsToTxnResponse(
    Response, api_key=ApiKey.ADD_PARTITIONS_TO_TXN, versions="0-5", flexible="3+"
):
    """The outcome for each partition."""

    class Transaction(Struct):
        """The outcome for one transaction."""

        transactional_id: str = string("4+")
        topic_results: list[AddPartitionsToTxnTopicResult] = array(
            AddPartitionsToTxnTopicResult, "4+"
        )

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("4+", ignorable=True)
    results_by_transaction: list[Transaction] = array(Transaction, "4+")
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = array(
        AddPartitionsToTxnTopicResult, "0-3"
    )


class AddOffsetsToTxnRequest(
    Request, api_key=ApiKey.ADD_OFFSETS_TO_TXN, versions="0-4", flexible="3+"
):
    """Allow a transaction to commit offsets of a group."""

    transactional_id: str = string("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    group_id: str = string("0+")


class AddOffsetsToTxnResponse(
    Response, api_key=ApiKey.ADD_OFFSETS_TO_TXN, versions="0-4", flexible="3+"
):
    """Whether the transaction may commit the offsets."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")


class EndTxnRequest(Request, api_key=ApiKey.END_TXN, versions="0-5", flexible="3+"):
    """Commit or abort a transaction."""

    transactional_id: str = string("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    committed: bool = boolean("0+")  # False aborts


class EndTxnResponse(Response, api_key=ApiKey.END_TXN, versions="0-5", flexible="3+"):
    """The outcome. From version 5 on, it has the producer's next epoch."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    producer_id: int = int64("5+", default=-1, ignorable=True)
    producer_epoch: int = int16("5+", default=-1, ignorable=True)


class TxnOffsetCommitRequest(
    Request, api_key=ApiKey.TXN_OFFSET_COMMIT, versions="0-6", flexible="3+"
):
    """Commit offsets of a group together with a transaction."""

    class Topic(Struct):
        """The offsets in one topic."""

        class Partition(Struct):
            """The next offset to read in one partition."""

            partition_index: int = int32("0+")
            committed_offset: int = int64("0+")
            committed_leader_epoch: int = int32("2+", default=-1, ignorable=True)
            committed_metadata: str | None = string("0+", nullable="0+")

        name: str = string("0-5", ignorable=True)
        topic_id: bytes = uuid("6+", ignorable=True)
        partitions: list[Partition] = array(Partition, "0+")

    transactional_id: str = string("0+")
    group_id: str = string("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    generation_id_or_member_epoch: int = int32("3+", default=-1)
    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    topics: list[Topic] = array(Topic, "0+")

    def expressible_versions(self) -> tuple[int, int]:
        """A topic whose id isn't known needs a version with names (KIP-1319)."""
        by_name = any(topic.topic_id == ZERO_UUID for topic in self.topics)
        return self.min_version, (LAST_TXN_BY_NAME if by_name else self.max_version)

    def for_version(self, version: int) -> Self:
        """Older coordinators (before 2.5, KIP-447) don't check the member."""
        if version >= 3:
            return self
        message = copy.copy(self)
        message.generation_id_or_member_epoch, message.member_id = -1, ""
        message.group_instance_id = None
        return message


class TxnOffsetCommitResponse(
    Response, api_key=ApiKey.TXN_OFFSET_COMMIT, versions="0-6", flexible="3+"
):
    """The outcome for each partition."""

    class Topic(Struct):
        """The outcome for one topic."""

        class Partition(Struct):
            """The outcome for one partition."""

            partition_index: int = int32("0+")
            error_code: int = int16("0+")

        name: str = string("0-5", ignorable=True)
        topic_id: bytes = uuid("6+", ignorable=True)
        partitions: list[Partition] = array(Partition, "0+")

    throttle_time_ms: int = int32("0+")
    topics: list[Topic] = array(Topic, "0+")


class WriteTxnMarkersRequest(
    Request, api_key=ApiKey.WRITE_TXN_MARKERS, versions="0-2", flexible="1+"
):
    """End transactions in the partitions that a broker leads.

    Coordinators send it, and administrators that abort a transaction by hand.
    """

    class Marker(Struct):
        """The result of one transaction, and its partitions."""

        class Topic(Struct):
            """Partitions of one topic."""

            name: str = string("0+")
            partition_indexes: list[int] = array(int32(), "0+")

        producer_id: int = int64("0+")
        producer_epoch: int = int16("0+")
        transaction_result: bool = boolean("0+")  # False aborts
        topics: list[Topic] = array(Topic, "0+")
        coordinator_epoch: int = int32("0+")
        transaction_version: int = int8("2+", ignorable=True)

    markers: list[Marker] = array(Marker, "0+")


class WriteTxnMarkersResponse(
    Response, api_key=ApiKey.WRITE_TXN_MARKERS, versions="0-2", flexible="1+"
):
    """The outcome for each transaction."""

    class Marker(Struct):
        """The outcome for one transaction."""

        class Topic(Struct):
            """The outcome for one topic."""

            class Partition(Struct):
                """The outcome for one partition."""

                partition_index: int = int32("0+")
                error_code: int = int16("0+")

            name: str = string("0+")
            partitions: list[Partition] = array(Partition, "0+")

        producer_id: int = int64("0+")
        topics: list[Topic] = array(Topic, "0+")

    markers: list[Marker] = array(Marker, "0+")


class DescribeProducersRequest(
    Request, api_key=ApiKey.DESCRIBE_PRODUCERS, versions="0", flexible="0+"
):
    """Ask a broker for the producers of its partitions (KIP-664)."""

    class Topic(Struct):
        """Partitions of one topic."""

        name: str = string("0+")
        partition_indexes: list[int] = array(int32(), "0+")

    topics: list[Topic] = array(Topic, "0+")


class DescribeProducersResponse(
    Response, api_key=ApiKey.DESCRIBE_PRODUCERS, versions="0", flexible="0+"
):
    """The active producers of the partitions."""

    class Topic(Struct):
        """The partitions of one topic."""

        class Partition(Struct):
            """The producers of one partition, or the error that the broker reports instead."""

            class Producer(Struct):
                """A producer, and its open transaction in this partition."""

                producer_id: int = int64("0+")
                producer_epoch: int = int32("0+")
                last_sequence: int = int32("0+", default=-1)
                last_timestamp: int = int64("0+", default=-1)
                coordinator_epoch: int = int32("0+")
                current_txn_start_offset: int = int64("0+", default=-1)

            partition_index: int = int32("0+")
            error_code: int = int16("0+")
            error_message: str | None = error_text("0+", nullable="0+", default=None)
            active_producers: list[Producer] = array(Producer, "0+")

        name: str = string("0+")
        partitions: list[Partition] = array(Partition, "0+")

    throttle_time_ms: int = int32("0+")
    topics: list[Topic] = array(Topic, "0+")


class DescribeTransactionsRequest(
    Request, api_key=ApiKey.DESCRIBE_TRANSACTIONS, versions="0", flexible="0+"
):
    """Ask a coordinator for the state of its transactional ids (KIP-664)."""

    transactional_ids: list[str] = array(string(), "0+")


class DescribeTransactionsResponse(
    Response, api_key=ApiKey.DESCRIBE_TRANSACTIONS, versions="0", flexible="0+"
):
    """The state of the transactional ids."""

    class TransactionState(Struct):
        """A transactional id, or the error that the broker reports instead."""

        class Topic(Struct):
            """Partitions of one topic that belong to the open transaction."""

            topic: str = string("0+")
            partitions: list[int] = array(int32(), "0+")

        error_code: int = int16("0+")
        transactional_id: str = string("0+")
        transaction_state: str = string("0+")
        transaction_timeout_ms: int = int32("0+")
        transaction_start_time_ms: int = int64("0+")  # -1: no transaction is open
        producer_id: int = int64("0+")
        producer_epoch: int = int16("0+")
        topics: list[Topic] = array(Topic, "0+")

    throttle_time_ms: int = int32("0+")
    transaction_states: list[TransactionState] = array(TransactionState, "0+")


class ListTransactionsRequest(
    Request, api_key=ApiKey.LIST_TRANSACTIONS, versions="0-2", flexible="0+"
):
    """Ask a broker for the transactional ids that it coordinates. An empty filter matches all."""

    state_filters: list[str] = array(string(), "0+")
    producer_id_filters: list[int] = array(int64(), "0+")
    # KIP-994: only transactions that have run longer, in ms
    duration_filter: int = int64("1+", default=-1)
    transactional_id_pattern: str | None = string("2+", nullable="2+", default=None)  # KIP-1152

    def expressible_versions(self) -> tuple[int, int]:
        """A pattern needs version 2, a duration version 1."""
        if self.transactional_id_pattern is not None:
            return 2, self.max_version
        return (1 if self.duration_filter >= 0 else self.min_version), self.max_version


class ListTransactionsResponse(
    Response, api_key=ApiKey.LIST_TRANSACTIONS, versions="0-2", flexible="0+"
):
    """The transactional ids of one coordinator."""

    class TransactionState(Struct):
        """A transactional id."""

        transactional_id: str = string("0+")
        producer_id: int = int64("0+")
        transaction_state: str = string("0+")

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    unknown_state_filters: list[str] = array(string(), "0+")
    transaction_states: list[TransactionState] = array(TransactionState, "0+")
