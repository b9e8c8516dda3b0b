"""Transactions, and the producers of partitions (KIP-664)."""

from __future__ import annotations

import time
from concurrent.futures import Future
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial

from kafka_native.admin.base import (
    INT16_MAX,
    INT32_MAX,
    INT64_MAX,
    AdminBase,
    broker_id,
    copied_partitions,
    error_or_none,
    list_of,
    number,
    partitions_by_topic,
    set_of,
    wire_ms,
)
from kafka_native.admin.groups import ask_each_broker
from kafka_native.cleaning import clean
from kafka_native.control.operations import AdminOperation, Operation, Steps, brokers
from kafka_native.errors import ErrorCode, KafkaError, KafkaException
from kafka_native.protocol.producer_ids import InitProducerIdRequest, InitProducerIdResponse
from kafka_native.protocol.transactions import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kafka_native.types import TopicPartition

TRANSACTION_TIMEOUT_MAX_MS = 900_000
"""The brokers' default of transaction.max.timeout.ms."""
PARTITIONS_MAX = 200
"""The maximum in one DescribeProducers: a partition may have thousands of producers."""
FENCED_TIMEOUT_MAX_MS = 60_000
"""The transaction timeout of a fenced id, until its producer sets its own.

Every broker allows it.
"""


class TransactionState(Enum):
    """The state of a transactional id, by the broker's name."""

    UNKNOWN = "Unknown"
    """A newer broker's state that this client doesn't know."""
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
    """The transactional ids, and the errors of brokers."""

    valid: list[TransactionListing]
    errors: list[KafkaException]
    """One for each broker that didn't reply, or that doesn't know a requested state."""


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
    """The partitions of the open transaction.

    Once its end is decided: those without a marker yet.
    """


@dataclass(frozen=True)
class ProducerState:
    """A partition's data about a producer with an id."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    """The sequence number of its last record; -1: unknown."""
    last_timestamp: int
    """The timestamp of its last batch, in milliseconds since 1970; -1: unknown."""
    coordinator_epoch: int | None
    """The epoch of the coordinator that wrote the last marker; None: no marker yet."""
    current_transaction_start_offset: int | None
    """The first offset of its open transaction; None: none is open here."""


@dataclass(frozen=True)
class AbortTransactionSpec:
    """An open transaction of one partition, to be aborted there."""

    topic_partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int = 0
    """At least the value of `ProducerState`; 0 if that has none."""


@dataclass(frozen=True)
class HangingTransaction:
    """An open transaction in a partition that no coordinator will end."""

    topic_partition: TopicPartition
    producer: ProducerState

    @property
    def abort_spec(self) -> AbortTransactionSpec:
        """The argument of `AdminClient.abort_transaction()` that aborts it."""
        state = self.producer
        return AbortTransactionSpec(
            self.topic_partition,
            state.producer_id,
            state.producer_epoch,
            state.coordinator_epoch or 0,
        )


@dataclass(frozen=True)
class FindHangingTransactionsResult:
    """The hanging transactions, and the errors of partitions."""

    valid: list[HangingTransaction]
    errors: dict[TopicPartition, KafkaException]


@dataclass(frozen=True)
class ProducerIdAndEpoch:
    """The new id and epoch of a transactional id. Producers with an older epoch are fenced."""

    producer_id: int
    producer_epoch: int


# --- listing and describing ---


def _list_transactions(
    request: ListTransactionsRequest, operation: Operation
) -> Steps[ListTransactionsResult | KafkaError]:
    """Sends ListTransactions to every broker."""
    responses = yield from ask_each_broker(request, ListTransactionsResponse, operation)
    listings: list[TransactionListing] = []
    errors: list[KafkaException] = []
    for node, response in responses.items():
        if isinstance(response, KafkaError):
            errors.append(KafkaException(response))
            continue
        if response.unknown_state_filters:
            states = clean(", ".join(response.unknown_state_filters))
            text = f"broker {node.id} knows no such state: {states}"
            errors.append(KafkaException(KafkaError(KafkaError._UNSUPPORTED_FEATURE, text)))
        listings += [
            TransactionListing(
                each.transactional_id, each.producer_id, TransactionState(each.transaction_state)
            )
            for each in response.transaction_states
        ]
    return ListTransactionsResult(listings, errors)


DESCRIBE_TRANSACTIONS: AdminOperation[
    str, str, DescribeTransactionsResponse, TransactionDescription
] = AdminOperation(
    destination=Operation.transaction_coordinators,
    request=lambda names: DescribeTransactionsRequest(transactional_ids=names),
    outcomes=lambda response, portion: {
        each.transactional_id: error_or_none(each.error_code) or _described(each, portion.broker.id)
        for each in response.transaction_states
    },
    change=False,
)


def _described(
    state: DescribeTransactionsResponse.TransactionState, coordinator_id: int
) -> TransactionDescription:
    start_ms = state.transaction_start_time_ms
    return TransactionDescription(
        coordinator_id,
        TransactionState(state.transaction_state),
        state.producer_id,
        state.producer_epoch,
        state.transaction_timeout_ms,
        None if start_ms < 0 else start_ms,
        [
            TopicPartition(topic.topic, number)
            for topic in state.topics
            for number in topic.partitions
        ],
    )


# --- producers of partitions ---


def _producers_request(partitions: list[TopicPartition]) -> DescribeProducersRequest:
    kind = DescribeProducersRequest.Topic
    topics = partitions_by_topic(partitions).items()
    return DescribeProducersRequest(
        topics=[
            kind(name=name, partition_indexes=[each.partition for each in some])
            for name, some in topics
        ]
    )


def _describe_producers(
    broker: int,
) -> AdminOperation[TopicPartition, TopicPartition, DescribeProducersResponse, list[ProducerState]]:
    """Sends DescribeProducers to the leaders, or to one broker with replicas.

    A broker without the replica is an error at once: waiting doesn't help.
    """
    to_leaders = broker < 0
    return AdminOperation(
        destination=Operation.leaders if to_leaders else brokers(lambda partition: broker),
        request=_producers_request,
        outcomes=lambda response, portion: {
            TopicPartition(topic.name, each.partition_index): error_or_none(
                each.error_code, each.error_message
            )
            or [_producer(one) for one in each.active_producers]
            for topic in response.topics
            for each in topic.partitions
        },
        change=False,
        final_errors=frozenset()
        if to_leaders
        else frozenset({KafkaError.NOT_LEADER_FOR_PARTITION}),
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
    """The request for one transaction."""
    (spec,) = specs
    kind = WriteTxnMarkersRequest.Marker
    partition = spec.topic_partition
    marker = kind(
        producer_id=spec.producer_id,
        producer_epoch=spec.producer_epoch,
        transaction_result=False,
        topics=[kind.Topic(name=partition.topic, partition_indexes=[partition.partition])],
        coordinator_epoch=spec.coordinator_epoch,
    )
    return WriteTxnMarkersRequest(markers=[marker])


ABORT_TRANSACTION: AdminOperation[
    TopicPartition, AbortTransactionSpec, WriteTxnMarkersResponse, None
] = AdminOperation(
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


def _fence_producers(
    timeout_s: float,
) -> AdminOperation[str, str, InitProducerIdResponse, ProducerIdAndEpoch]:
    """Sends InitProducerId, as a producer without a producer id.

    The coordinator first aborts an open transaction. The request is retried until then.
    """
    timeout_ms = max(1, min(wire_ms(timeout_s), FENCED_TIMEOUT_MAX_MS))

    def outcome(response: InitProducerIdResponse) -> ProducerIdAndEpoch | KafkaError:
        return error_or_none(response.error_code) or ProducerIdAndEpoch(
            response.producer_id, response.producer_epoch
        )

    return AdminOperation(
        destination=Operation.transaction_coordinators,
        request=lambda names: InitProducerIdRequest(
            transactional_id=names[0], transaction_timeout_ms=timeout_ms
        ),
        outcomes=lambda response, portion: dict.fromkeys(portion.items, outcome(response)),
        change=False,
        passing_errors=frozenset({KafkaError.CONCURRENT_TRANSACTIONS}),
        keys_max=1,
    )


# --- transactions that hang ---


def _find_hanging(
    partitions: list[TopicPartition] | None, broker: int, max_timeout_ms: int, operation: Operation
) -> Steps[FindHangingTransactionsResult | KafkaError]:
    """Finds old open transactions in partitions that no coordinator knows.

    It sends DescribeProducers, then ListTransactions for the producers found, then
    DescribeTransactions. If a coordinator doesn't reply, the whole call fails: without its
    transactions, it isn't known which ones hang.
    """
    if partitions is None:
        partitions = yield from _partitions(broker, operation)
    found = yield from operation.outcomes(
        _describe_producers(broker), {each: each for each in partitions}
    )
    oldest_ms = int(time.time() * 1000) - max_timeout_ms
    errors = {
        key: KafkaException(each) for key, each in found.items() if isinstance(each, KafkaError)
    }
    candidates = [
        HangingTransaction(key, producer)
        for key, producers in found.items()
        if not isinstance(producers, KafkaError)
        for producer in producers
        if producer.current_transaction_start_offset is not None
        and producer.last_timestamp < oldest_ms
    ]
    known = (
        (yield from _known({each.producer.producer_id for each in candidates}, operation))
        if candidates
        else {}
    )
    hanging = [
        each
        for each in candidates
        if each.topic_partition not in known.get(each.producer.producer_id, ())
    ]
    return FindHangingTransactionsResult(hanging, errors)


def _partitions(broker: int, operation: Operation) -> Steps[list[TopicPartition]]:
    """All partitions of the cluster, or those with a replica on this broker."""
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
    responses = yield from ask_each_broker(request, ListTransactionsResponse, operation)
    names: dict[str, int] = {}
    for response in responses.values():
        if isinstance(response, KafkaError):
            raise KafkaException(response)
        names.update(
            {each.transactional_id: each.producer_id for each in response.transaction_states}
        )
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
        """Lists the transactional ids of all brokers (KIP-664).

        :param states: Only ids in these states; None or empty for all.
        :param producer_ids: Only ids with these producer ids; None or empty for all.
        :param duration_ms: Only ids whose transaction has been open for longer, in milliseconds;
            -1: all. Needs brokers since 3.8 (KIP-994).
        :param transactional_id_pattern: Only ids that this regular expression (RE2) matches as a
            whole; None: all. Needs brokers since 4.1 (KIP-1152).
        :return: One future: the transactional ids, and an error for each broker that didn't reply
            or is too old for the filters.
        """
        kinds = set_of("states", states, TransactionState)
        if TransactionState.UNKNOWN in kinds:
            raise ValueError("UNKNOWN state is not allowed")
        if transactional_id_pattern is not None and not isinstance(transactional_id_pattern, str):
            raise TypeError(
                "transactional_id_pattern must be a str or None, "
                f"not {type(transactional_id_pattern).__name__}"
            )
        ids = sorted(
            number("producer_ids", each, 0, INT64_MAX)
            for each in set_of("producer_ids", producer_ids, int)
        )
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
        :return: One future per id; KafkaException, for instance TRANSACTIONAL_ID_NOT_FOUND.
        """
        items = [(each, each) for each in list_of(transactional_ids, str)]
        return self._start(DESCRIBE_TRANSACTIONS, items, self._request_timeout(request_timeout))

    def describe_producers(
        self, partitions: list[TopicPartition], *, broker: int = -1, request_timeout: float = -1
    ) -> dict[TopicPartition, Future[list[ProducerState]]]:
        """Describes the producers with an id of partitions, and their open transactions (KIP-664).

        :param partitions: The partitions.
        :param broker: A broker that has replicas of them; -1: the leaders.
        :return: One future per partition.
        """
        asked = copied_partitions(list_of(partitions, TopicPartition))
        kind = _describe_producers(broker_id(broker))
        return self._start(
            kind, [(each, each) for each in asked], self._request_timeout(request_timeout)
        )

    def abort_transaction(
        self, spec: AbortTransactionSpec, *, request_timeout: float = -1
    ) -> Future[None]:
        """Aborts a transaction in one partition, without its coordinator (KIP-664).

        Use it for hanging transactions only. A coordinator ends its other transactions by itself,
        and `fence_producers()` makes it do so.

        :param spec: The transaction, from `HangingTransaction.abort_spec` or
            `describe_producers()`.
        :return: One future: None when the marker is written; KafkaException, for instance
            INVALID_PRODUCER_EPOCH, or TRANSACTION_COORDINATOR_FENCED for a coordinator epoch that
            is too low.
        """
        if not isinstance(spec, AbortTransactionSpec):
            raise TypeError(f"expected an AbortTransactionSpec, not {type(spec).__name__}")
        (partition,) = copied_partitions([spec.topic_partition])
        number("producer_id", spec.producer_id, 0, INT64_MAX)
        number("producer_epoch", spec.producer_epoch, 0, INT16_MAX)
        number("coordinator_epoch", spec.coordinator_epoch, 0, INT32_MAX)
        timeout_s = self._request_timeout(request_timeout)
        item = partition, replace(spec, topic_partition=partition)
        return self._start(ABORT_TRANSACTION, [item], timeout_s)[partition]

    def find_hanging_transactions(
        self,
        partitions: list[TopicPartition] | None = None,
        *,
        broker: int = -1,
        max_transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MAX_MS,
        request_timeout: float = -1,
    ) -> Future[FindHangingTransactionsResult]:
        """Finds hanging transactions: open in a partition, but no coordinator will end them.

        It does what kafka-transactions.sh find-hanging does. A consumer of committed messages can't
        read past a hanging transaction.

        :param partitions: The partitions to check; None: all.
        :param broker: Check the replicas of this broker; -1: those of the leaders.
        :param max_transaction_timeout_ms: The longest duration of a transaction
            (``transaction.max.timeout.ms`` of the brokers). Transactions with a more recent write
            are skipped.
        :return: One future: the transactions, and an error for each partition that couldn't be
            checked.
        """
        asked = (
            None if partitions is None else copied_partitions(list_of(partitions, TopicPartition))
        )
        max_ms = number("max_transaction_timeout_ms", max_transaction_timeout_ms, 0, INT64_MAX)
        steps_of = partial(_find_hanging, asked, broker_id(broker), max_ms)
        return self._begin_one(
            _producers_request(asked or []), steps_of, self._request_timeout(request_timeout)
        )

    def fence_producers(
        self, transactional_ids: list[str], *, request_timeout: float = -1
    ) -> dict[str, Future[ProducerIdAndEpoch]]:
        """Fences the producers of transactional ids; aborts their open transactions (KIP-360).

        :param transactional_ids: The ids.
        :return: One future per id, with its new producer id and epoch.
        """
        items = [(each, each) for each in list_of(transactional_ids, str)]
        timeout_s = self._request_timeout(request_timeout)
        return self._start(_fence_producers(timeout_s), items, timeout_s)
