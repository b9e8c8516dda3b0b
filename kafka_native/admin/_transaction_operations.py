"""The operations about transactions and producers (KIP-664). They run on the control thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from kafka_native.admin._checks import wire_ms
from kafka_native.admin._group_operations import each_broker
from kafka_native.admin._offset_operations import by_topic
from kafka_native.admin._topic_operations import told
from kafka_native.admin._transactions import (
    AbortTransactionSpec,
    FindHangingTransactionsResult,
    HangingTransaction,
    ListTransactionsResult,
    ProducerIdAndEpoch,
    ProducerState,
    TransactionDescription,
    TransactionListing,
    TransactionState,
)
from kafka_native.cleaning import clean
from kafka_native.control.operations import Operation, Same, Settle, Steps
from kafka_native.errors import ErrorCode, KafkaError, KafkaException
from kafka_native.protocol.schema import Request
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

Make = Callable[[list[Any]], Request]

PARTITIONS_MAX = 200
"""Of one DescribeProducers: a partition may have thousands of producers."""
TIMEOUT_MAX_MS = 60_000
"""For the next transaction of a fenced id, until its producer says its own: what every broker allows."""


@dataclass(frozen=True)
class ListFilter:
    """Which transactional ids are meant; empty, -1 and None: all."""

    states: list[str]
    producer_ids: list[int]
    duration_ms: int = -1
    pattern: str | None = None


def list_transactions(wanted: ListFilter, items: list[Any]) -> Request:
    """The request; each broker is asked for its own."""
    return ListTransactionsRequest(
        state_filters=wanted.states,
        producer_id_filters=wanted.producer_ids,
        duration_filter=wanted.duration_ms,
        transactional_id_pattern=wanted.pattern,
    )


def find_transactions(make: Make, items: dict[Any, Any], settle: Settle, operation: Operation) -> Steps[None]:
    """ListTransactions, of every broker; settles the one item."""
    replies = yield from each_broker(make, operation)
    listings: list[TransactionListing] = []
    errors: list[KafkaException] = []
    for node_id, reply in replies.items():
        if isinstance(reply, KafkaError):
            errors.append(KafkaException(reply))
            continue
        if reply.unknown_state_filters:
            text = f"broker {node_id} knows no such state: {clean(', '.join(reply.unknown_state_filters))}"
            errors.append(KafkaException(KafkaError(KafkaError._UNSUPPORTED_FEATURE, text)))
        listings += _listings(reply)
    for key in items:
        settle(key, ListTransactionsResult(listings, errors))


def _listings(reply: ListTransactionsResponse) -> list[TransactionListing]:
    return [
        TransactionListing(each.transactional_id, each.producer_id, TransactionState(each.transaction_state))
        for each in reply.transaction_states
    ]


def ask_transactions(transactional_ids: list[str]) -> Request:
    """The request."""
    return DescribeTransactionsRequest(transactional_ids=transactional_ids)


def describe_transactions(make: Make, items: Iterable[Any], settle: Settle, operation: Operation) -> Steps[None]:
    """DescribeTransactions, to the coordinators."""

    def outcomes(reply: DescribeTransactionsResponse, target: int | None) -> dict[str, Any]:
        assert target is not None
        node_id = operation.pool.where(target)[0]
        return {
            each.transactional_id: told(each.error_code) or _described(each, node_id)
            for each in reply.transaction_states
        }

    return operation.rounds(items, operation.transaction_coordinators, make, outcomes, settle, change=False)


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


def ask_producers(partitions: list[TopicPartition]) -> Request:
    """The request."""
    kind = DescribeProducersRequest.Topic
    topics = by_topic(partitions).items()
    return DescribeProducersRequest(
        topics=[kind(name=name, partition_indexes=[each.partition for each in some]) for name, some in topics]
    )


def ask_all_producers(items: list[list[TopicPartition]]) -> Request:
    """The request about all of these, for the checks: it is sent in pieces."""
    return ask_producers([each for some in items for each in some])


def describe_producers(
    broker: int, make: Make, items: Iterable[Any], settle: Settle, operation: Operation
) -> Steps[None]:
    """DescribeProducers, to the leaders, or to one broker that has replicas."""

    def one_broker(keys: list[Any]) -> Steps[dict[Any, Any]]:
        return operation.nodes(keys, lambda key: broker)

    def outcomes(reply: DescribeProducersResponse, target: int | None) -> dict[Any, Any]:
        return {
            TopicPartition(topic.name, each.partition_index): told(each.error_code, each.error_message)
            or [_producer(one) for one in each.active_producers]
            for topic in reply.topics
            for each in topic.partitions
        }

    if broker < 0:
        return operation.rounds(items, operation.leaders, make, outcomes, settle, change=False, most=PARTITIONS_MAX)
    final = frozenset({KafkaError.NOT_LEADER_FOR_PARTITION})  # it has no replica, and won't get one by waiting
    return operation.rounds(items, one_broker, make, outcomes, settle, change=False, most=PARTITIONS_MAX, final=final)


def _producer(state: DescribeProducersResponse.Topic.Partition.Producer) -> ProducerState:
    return ProducerState(
        state.producer_id,
        state.producer_epoch,
        state.last_sequence,
        state.last_timestamp,
        None if state.coordinator_epoch < 0 else state.coordinator_epoch,
        None if state.current_txn_start_offset < 0 else state.current_txn_start_offset,
    )


def abort_marker(specs: list[AbortTransactionSpec]) -> Request:
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


def abort_transaction(make: Make, items: dict[Any, Any], settle: Settle, operation: Operation) -> Steps[None]:
    """WriteTxnMarkers, to the leader."""

    def outcomes(reply: WriteTxnMarkersResponse, target: int | None) -> dict[Any, Any]:
        return {
            TopicPartition(topic.name, each.partition_index): told(each.error_code)
            for marker in reply.markers
            for topic in marker.topics
            for each in topic.partitions
        }

    return operation.rounds(items, operation.leaders, make, outcomes, settle, change=True)


def fence(timeout_s: float, transactional_ids: list[str]) -> Request:
    """The request, about one transactional id, as somebody who has no producer id yet."""
    (transactional_id,) = transactional_ids
    timeout_ms = max(1, min(wire_ms(timeout_s), TIMEOUT_MAX_MS))
    return InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)


def fence_producers(make: Make, items: dict[Any, Any], settle: Settle, operation: Operation) -> Steps[None]:
    """InitProducerId, to the coordinators. An open transaction is aborted first: until then it is asked again."""

    def outcomes(reply: InitProducerIdResponse, target: int | None) -> Same:
        return Same(told(reply.error_code) or ProducerIdAndEpoch(reply.producer_id, reply.producer_epoch))

    passing = frozenset({KafkaError.CONCURRENT_TRANSACTIONS})
    place = operation.transaction_coordinators
    return operation.rounds(items, place, make, outcomes, settle, change=False, most=1, passing=passing)


def find_hanging(
    partitions: list[TopicPartition] | None,
    broker: int,
    max_timeout_ms: int,
    make: Make,
    items: dict[Any, Any],
    settle: Settle,
    operation: Operation,
) -> Steps[None]:
    """What is open in partitions for longer than any transaction may take, and that no coordinator knows of.

    DescribeProducers, then ListTransactions for the producers found, then DescribeTransactions. Settles the one item;
    a coordinator that doesn't answer fails it, because nobody can say what hangs without knowing what doesn't.
    """
    if partitions is None:
        partitions = yield from _partitions(broker, operation)
    found: dict[TopicPartition, Any] = {}
    yield from describe_producers(broker, ask_producers, partitions, found.__setitem__, operation)
    oldest_ms = int(time.time() * 1000) - max_timeout_ms
    errors = {key: KafkaException(each) for key, each in found.items() if isinstance(each, KafkaError)}
    candidates = [
        HangingTransaction(key, producer)
        for key, producers in found.items()
        if key not in errors
        for producer in producers
        if producer.current_transaction_start_offset is not None and producer.last_timestamp < oldest_ms
    ]
    known = (yield from _known({each.producer.producer_id for each in candidates}, operation)) if candidates else {}
    hanging = [each for each in candidates if each.topic_partition not in known.get(each.producer.producer_id, ())]
    for key in items:
        settle(key, FindHangingTransactionsResult(hanging, errors))


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
    request = list_transactions(ListFilter([], sorted(producer_ids)), [])
    replies = yield from each_broker(lambda _: request, operation)
    names: dict[str, int] = {}
    for reply in replies.values():
        if isinstance(reply, KafkaError):
            raise KafkaException(reply)
        names.update({each.transactional_id: each.producer_id for each in reply.transaction_states})
    described: dict[str, Any] = {}
    yield from describe_transactions(ask_transactions, names, described.__setitem__, operation)
    open_in: dict[int, list[TopicPartition]] = {}
    for name, each in described.items():
        if isinstance(each, TransactionDescription):
            open_in.setdefault(names[name], []).extend(each.topic_partitions)
        elif each.code() != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            raise KafkaException(each)
    return open_in
