"""Transactions, and the producers of partitions (KIP-664)."""

from __future__ import annotations

import time
from concurrent.futures import Future
from dataclasses import dataclass
from enum import Enum
from functools import partial

from kafka_native.admin.base import (
    INT16_MAX,
    INT32_MAX,
    INT64_MAX,
    AdminBase,
    broker_id,
    check_partitions,
    error_or_none,
    list_of,
    number,
    partitions_by_topic,
    set_of,
    wire_ms,
)
from kafka_native.admin.groups import each_broker
from kafka_native.cleaning import clean
from kafka_native.control.operations import AdminOperation, Operation, Steps, brokers
from kafka_native.errors import ErrorCode, KafkaError, KafkaException
from kafka_native.protocol.transactions import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kafka_native.types import TopicPartition

TRANSACTION_TIMEOUT_MAX_MS = 900_000
"""transaction.max.timeout.ms of brokers, unless it is set."""
PARTITIONS_MAX = 200
"""Of one DescribeProducers: a partition may have thousands of producers."""
FENCED_TIMEOUT_MAX_MS = 60_000
"""For the next transaction of a fenced id, until its producer says its own: what every broker allows."""


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


# --- listing and describing ---


def _list_transactions(
    request: ListTransactionsRequest, operation: Operation
) -> Steps[ListTransactionsResult | KafkaError]:
    """ListTransactions, of every broker."""
    responses = yield from each_broker(request, ListTransactionsResponse, operation)
    listings: list[TransactionListing] = []
    errors: list[KafkaException] = []
    for node_id, response in responses.items():
        if isinstance(response, KafkaError):
            errors.append(KafkaException(response))
            continue
        if response.unknown_state_filters:
            text = f"broker {node_id} knows no such state: {clean(', '.join(response.unknown_state_filters))}"
            errors.append(KafkaException(KafkaError(KafkaError._UNSUPPORTED_FEATURE, text)))
        listings += [
            TransactionListing(each.transactional_id, each.producer_id, TransactionState(each.transaction_state))
            for each in response.transaction_states
        ]
    return ListTransactionsResult(listings, errors)


DESCRIBE_TRANSACTIONS: AdminOperation[str, str, DescribeTransactionsResponse, TransactionDescription] = AdminOperation(
    destination=Operation.transaction_coordinators,
    request=lambda names: DescribeTransactionsRequest(transactional_ids=names),
    outcomes=lambda response, portion: {
        each.transactional_id: error_or_none(each.error_code) or _described(each, portion.broker.id)
        for each in response.transaction_states
    },
    change=False,
)


def _described(state: DescribeTransactionsResponse.TransactionState, coordinator_id: int) -> TransactionDescription:
    start_ms = state.transaction_start_time_ms
    return TransactionDescription(
        coordinator_id,
        TransactionState(state.transaction_state),
        state.producer_id,
        state.producer_epoch,
        state.transaction_timeout_ms,
        None if start_ms < 0 else start_ms,
        [TopicPartition(topic.topic, number) for topic in state.topics for number in topic.partitions],
    )


# --- producers of partitions ---


def _producers_request(partitions: list[TopicPartition]) -> DescribeProducersRequest:
    kind = DescribeProducersRequest.Topic
    topics = partitions_by_topic(partitions).items()
    return DescribeProducersRequest(
        topics=[kind(name=name, partition_indexes=[each.partition for each in some]) for name, some in topics]
    )


def _describe_producers(
    broker: int,
) -> AdminOperation[TopicPartition, TopicPartition, DescribeProducersResponse, list[ProducerState]]:
    """Of the leaders, or of one broker that has replicas. That one won't get what it hasn't by waiting."""
    to_leaders = broker < 0
    return AdminOperation(
        destination=Operation.leaders if to_leaders else brokers(lambda partition: broker),
        request=_producers_request,
        outcomes=lambda response, portion: {
            TopicPartition(topic.name, each.partition_index): error_or_none(each.error_code, each.error_message)
            or [_producer(one) for one in each.active_producers]
            for topic in response.topics
            for each in topic.partitions
        },
        change=False,
        final_errors=frozenset() if to_leaders else frozenset({KafkaError.NOT_LEADER_FOR_PARTITION}),
        keys_max=PARTITIONS_MAX,
    )


def _producer(state: DescribeProducersResponse.Topic.Partition.Producer) -> ProducerState:
    return ProducerState(
        state.producer_id,
        state.producer_epoch,
        state.last_sequence,
        state.last_timestamp,
        None if state.coordinator_epoch < 0 else state.coordinator_epoch,
        None if state.current_txn_start_offset < 0 else state.current_txn_start_offset,
    )


# --- ending transactions ---


def _marker_request(specs: list[AbortTransactionSpec]) -> WriteTxnMarkersRequest:
    """The request, about one transaction."""
    (spec,) = specs
    kind = WriteTxnMarkersRequest.Marker
    place = spec.topic_partition
    marker = kind(
        producer_id=spec.producer_id,
        producer_epoch=spec.producer_epoch,
        transaction_result=False,
        topics=[kind.Topic(name=place.topic, partition_indexes=[place.partition])],
        coordinator_epoch=spec.coordinator_epoch,
    )
    return WriteTxnMarkersRequest(markers=[marker])


ABORT_TRANSACTION: AdminOperation[TopicPartition, AbortTransactionSpec, WriteTxnMarkersResponse, None] = AdminOperation(
    destination=Operation.leaders,
    request=_marker_request,
    outcomes=lambda response, portion: {
        TopicPartition(topic.name, each.partition_index): error_or_none(each.error_code)
        for marker in response.markers
        for topic in marker.topics
        for each in topic.partitions
    },
    change=True,
)


def _fence_producers(timeout_s: float) -> AdminOperation[str, str, InitProducerIdResponse, ProducerIdAndEpoch]:
    """InitProducerId, as somebody who has no producer id yet.

    An open transaction is aborted first: until then it is asked again.
    """
    timeout_ms = max(1, min(wire_ms(timeout_s), FENCED_TIMEOUT_MAX_MS))

    def outcome(response: InitProducerIdResponse) -> ProducerIdAndEpoch | KafkaError:
        return error_or_none(response.error_code) or ProducerIdAndEpoch(response.producer_id, response.producer_epoch)

    return AdminOperation(
        destination=Operation.transaction_coordinators,
        request=lambda names: InitProducerIdRequest(transactional_id=names[0], transaction_timeout_ms=timeout_ms),
        outcomes=lambda response, portion: dict.fromkeys(portion.items, outcome(response)),
        change=False,
        passing_errors=frozenset({KafkaError.CONCURRENT_TRANSACTIONS}),
        keys_max=1,
    )


# --- transactions that hang ---


def _find_hanging(
    partitions: list[TopicPartition] | None, broker: int, max_timeout_ms: int, operation: Operation
) -> Steps[FindHangingTransactionsResult | KafkaError]:
    """What is open in partitions for longer than any transaction may take, and that no coordinator knows of.

    DescribeProducers, then ListTransactions for the producers found, then DescribeTransactions. A coordinator that
    doesn't answer fails it all, because nobody can say what hangs without knowing what doesn't.
    """
    if partitions is None:
        partitions = yield from _partitions(broker, operation)
    found = yield from operation.outcomes(_describe_producers(broker), {each: each for each in partitions})
    oldest_ms = int(time.time() * 1000) - max_timeout_ms
    errors = {key: KafkaException(each) for key, each in found.items() if isinstance(each, KafkaError)}
    candidates = [
        HangingTransaction(key, producer)
        for key, producers in found.items()
        if not isinstance(producers, KafkaError)
        for producer in producers
        if producer.current_transaction_start_offset is not None and producer.last_timestamp < oldest_ms
    ]
    known = (yield from _known({each.producer.producer_id for each in candidates}, operation)) if candidates else {}
    hanging = [each for each in candidates if each.topic_partition not in known.get(each.producer.producer_id, ())]
    return FindHangingTransactionsResult(hanging, errors)


def _partitions(broker: int, operation: Operation) -> Steps[list[TopicPartition]]:
    """All of the cluster's, or those that a broker has replicas of."""
    cluster = yield from operation.cluster(None)
    return [
        TopicPartition(topic.name, each.partition_index)
        for topic in cluster.topics
        if topic.name is not None
        for each in topic.partitions
        if broker < 0 or broker in each.replica_nodes
    ]


def _known(producer_ids: set[int], operation: Operation) -> Steps[dict[int, list[TopicPartition]]]:
    """The partitions in which coordinators will end the open transactions of these producers."""
    request = ListTransactionsRequest(producer_id_filters=sorted(producer_ids))
    responses = yield from each_broker(request, ListTransactionsResponse, operation)
    names: dict[str, int] = {}
    for response in responses.values():
        if isinstance(response, KafkaError):
            raise KafkaException(response)
        names.update({each.transactional_id: each.producer_id for each in response.transaction_states})
    described = yield from operation.outcomes(DESCRIBE_TRANSACTIONS, {name: name for name in names})
    open_in: dict[int, list[TopicPartition]] = {}
    for name, each in described.items():
        if isinstance(each, TransactionDescription):
            open_in.setdefault(names[name], []).extend(each.topic_partitions)
        elif each.code() != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            raise KafkaException(each)
    return open_in


class TransactionsAdmin(AdminBase):
    """Calls about transactions and the producers of partitions (KIP-664)."""

    def list_transactions(
        self,
        *,
        states: set[TransactionState] | None = None,
        producer_ids: set[int] | None = None,
        duration_ms: int = -1,
        transactional_id_pattern: str | None = None,
        request_timeout: float = -1,
    ) -> Future[ListTransactionsResult]:
        """Lists the transactional ids, of every broker (KIP-664).

        :param states: Only those that are doing this; None or empty for all.
        :param producer_ids: Only those with these producer ids; None or empty for all.
        :param duration_ms: Only those whose transaction has been open for longer, in milliseconds; -1: all. Brokers
            from 3.8 on (KIP-994).
        :param transactional_id_pattern: Only those that this regular expression (RE2) fits as a whole; None: all.
            Brokers from 4.1 on (KIP-1152).
        :return: One future: the transactional ids, and an error for each broker that didn't answer, or is too old for
            what was asked.
        """
        kinds = set_of("states", states, TransactionState)
        if TransactionState.UNKNOWN in kinds:
            raise ValueError("UNKNOWN state is not allowed")
        if transactional_id_pattern is not None and not isinstance(transactional_id_pattern, str):
            raise TypeError(
                f"transactional_id_pattern must be a str or None, not {type(transactional_id_pattern).__name__}"
            )
        ids = sorted(number("producer_ids", each, 0, INT64_MAX) for each in set_of("producer_ids", producer_ids, int))
        request = ListTransactionsRequest(
            state_filters=sorted(each.value for each in kinds),
            producer_id_filters=ids,
            duration_filter=number("duration_ms", duration_ms, -1, INT64_MAX),
            transactional_id_pattern=transactional_id_pattern or None,
        )
        steps_of = partial(_list_transactions, request)
        return self._begin_one(request, steps_of, self._request_timeout(request_timeout))

    def describe_transactions(
        self, transactional_ids: list[str], *, request_timeout: float = -1
    ) -> dict[str, Future[TransactionDescription]]:
        """Describes transactional ids and their transactions (KIP-664).

        :param transactional_ids: The ids.
        :return: A future an id; KafkaException, for instance TRANSACTIONAL_ID_NOT_FOUND.
        """
        items = [(each, each) for each in list_of(transactional_ids, str)]
        return self._start(DESCRIBE_TRANSACTIONS, items, self._request_timeout(request_timeout))

    def describe_producers(
        self, partitions: list[TopicPartition], *, broker: int = -1, request_timeout: float = -1
    ) -> dict[TopicPartition, Future[list[ProducerState]]]:
        """Tells who has written to partitions with a producer id, and which transactions are open there (KIP-664).

        :param partitions: The partitions.
        :param broker: A broker that has replicas of them; -1: the leaders.
        :return: A future a partition.
        """
        asked = list_of(partitions, TopicPartition)
        check_partitions(asked)
        kind = _describe_producers(broker_id(broker))
        return self._start(kind, [(each, each) for each in asked], self._request_timeout(request_timeout))

    def abort_transaction(self, spec: AbortTransactionSpec, *, request_timeout: float = -1) -> Future[None]:
        """Aborts a transaction in one partition, behind the back of its coordinator (KIP-664).

        For transactions that hang: what a coordinator still knows it ends by itself, and `fence_producers()` makes it.

        :param spec: The transaction, as `HangingTransaction.abort_spec` or `describe_producers()` have it.
        :return: One future: None when the marker is written; KafkaException, for instance INVALID_PRODUCER_EPOCH, or
            TRANSACTION_COORDINATOR_FENCED for a coordinator epoch that is too low.
        """
        if not isinstance(spec, AbortTransactionSpec):
            raise TypeError(f"expected an AbortTransactionSpec, not {type(spec).__name__}")
        partition = spec.topic_partition
        check_partitions([partition])
        number("producer_id", spec.producer_id, 0, INT64_MAX)
        number("producer_epoch", spec.producer_epoch, 0, INT16_MAX)
        number("coordinator_epoch", spec.coordinator_epoch, 0, INT32_MAX)
        timeout_s = self._request_timeout(request_timeout)
        return self._start(ABORT_TRANSACTION, [(partition, spec)], timeout_s)[partition]

    def find_hanging_transactions(
        self,
        partitions: list[TopicPartition] | None = None,
        *,
        broker: int = -1,
        max_transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MAX_MS,
        request_timeout: float = -1,
    ) -> Future[FindHangingTransactionsResult]:
        """Finds transactions that hang: open in a partition, and no coordinator will end them.

        What kafka-transactions.sh find-hanging does. A consumer of committed messages doesn't get past one.

        :param partitions: Where to look; None: everywhere.
        :param broker: Look into the replicas of this broker; -1: into the leaders'.
        :param max_transaction_timeout_ms: The longest that a transaction may take
            (``transaction.max.timeout.ms`` of the brokers): one that has written something since isn't looked at.
        :return: One future: the transactions, and an error for each partition that couldn't be looked into.
        """
        asked = None if partitions is None else list_of(partitions, TopicPartition)
        check_partitions(asked or ())
        max_ms = number("max_transaction_timeout_ms", max_transaction_timeout_ms, 0, INT64_MAX)
        steps_of = partial(_find_hanging, asked, broker_id(broker), max_ms)
        return self._begin_one(_producers_request(asked or []), steps_of, self._request_timeout(request_timeout))

    def fence_producers(
        self, transactional_ids: list[str], *, request_timeout: float = -1
    ) -> dict[str, Future[ProducerIdAndEpoch]]:
        """Fences the producers of transactional ids; their open transactions are aborted (KIP-360).

        :param transactional_ids: The ids.
        :return: A future an id: the producer id and epoch that it goes on with.
        """
        items = [(each, each) for each in list_of(transactional_ids, str)]
        timeout_s = self._request_timeout(request_timeout)
        return self._start(_fence_producers(timeout_s), items, timeout_s)
