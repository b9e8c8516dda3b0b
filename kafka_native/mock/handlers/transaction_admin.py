"""Admin APIs for transactions.

They are ListTransactions, DescribeTransactions, DescribeProducers and WriteTxnMarkers.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kafka_native._reference.error_codes import ErrorCode
from kafka_native.mock.handlers.leaders import find
from kafka_native.mock.transactions import State
from kafka_native.protocol.schema import ZERO_UUID
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

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka_native.mock.call import Call
    from kafka_native.mock.transactions import Transactional

_STATES = {state.value for state in State} | {
    "PrepareCommit",
    "PrepareAbort",
    "PrepareEpochFence",
    "Dead",
}


def list_transactions(call: Call, request: ListTransactionsRequest) -> ListTransactionsResponse:
    """Return the matching transactional ids that this broker coordinates."""
    unknown = [state for state in request.state_filters if state not in _STATES]
    try:
        pattern = re.compile(request.transactional_id_pattern or "")
    except re.error:
        return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    states = set(request.state_filters) - set(unknown)
    producers = set(request.producer_id_filters)
    now_ms = call.cluster.clock.time_ms()

    def matches(name: str, found: Transactional) -> bool:
        return (
            (not request.state_filters or found.state.value in states)
            and (not producers or found.producer_id in producers)
            and (
                request.duration_filter < 0
                or 0 <= found.started_ms < now_ms - request.duration_filter
            )
            and (not pattern.pattern or pattern.fullmatch(name) is not None)
        )

    listed = ListTransactionsResponse.TransactionState
    with call.cluster.lock:
        call.cluster.transactions.expire()
        found = [
            listed(
                transactional_id=name,
                producer_id=each.producer_id,
                transaction_state=each.state.value,
            )
            for name, each in call.cluster.transactions.all().items()
            if call.cluster.coordinator_of(name) is call.broker and matches(name, each)
        ]
    return ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=found)


def describe_transactions(
    call: Call, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse:
    """Return the states of transactional ids."""
    response = DescribeTransactionsResponse()
    with call.cluster.lock:
        call.cluster.transactions.expire()
        for name in request.transactional_ids:
            answer = DescribeTransactionsResponse.TransactionState(transactional_id=name)
            response.transaction_states.append(answer)
            found = call.cluster.transactions.find(name)
            if call.cluster.coordinator_of(name) is not call.broker:
                answer.error_code = ErrorCode.NOT_COORDINATOR
            elif found is None:
                answer.error_code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
            else:
                _describe(answer, found)
    return response


def _describe(answer: DescribeTransactionsResponse.TransactionState, found: Transactional) -> None:
    answer.transaction_state = found.state.value
    answer.transaction_timeout_ms = int(found.timeout_s * 1000)
    answer.transaction_start_time_ms = found.started_ms
    answer.producer_id, answer.producer_epoch = found.producer_id, found.epoch
    topics: dict[str, list[int]] = {}
    for name, number in sorted(found.partitions):
        topics.setdefault(name, []).append(number)
    kind = DescribeTransactionsResponse.TransactionState.Topic
    answer.topics = [kind(topic=name, partitions=numbers) for name, numbers in topics.items()]


def refuse_describe_transactions(
    request: DescribeTransactionsRequest, code: int
) -> DescribeTransactionsResponse:
    """Return the same error for every transactional id."""
    kind = DescribeTransactionsResponse.TransactionState
    answers = [kind(transactional_id=name, error_code=code) for name in request.transactional_ids]
    return DescribeTransactionsResponse(transaction_states=answers)


def describe_producers(call: Call, request: DescribeProducersRequest) -> DescribeProducersResponse:
    """Return the active producers of partitions that this broker has."""
    answer = DescribeProducersResponse.Topic.Partition
    response = DescribeProducersResponse()
    with call.cluster.lock:
        for topic in request.topics:
            answers = []
            for number in topic.partition_indexes:
                found = find(call, topic.name, ZERO_UUID, number, or_follower=True)
                answers.append(answer(partition_index=number, error_code=found.error))
                if found.error == ErrorCode.NO_ERROR and found.partition is not None:
                    answers[-1].active_producers = [
                        answer.Producer(
                            producer_id=each.producer_id,
                            producer_epoch=each.epoch,
                            last_sequence=each.last_sequence,
                            last_timestamp=each.last_timestamp,
                            coordinator_epoch=each.coordinator_epoch,
                            current_txn_start_offset=each.transaction_start,
                        )
                        for each in found.partition.log.producers()
                    ]
            response.topics.append(
                DescribeProducersResponse.Topic(name=topic.name, partitions=answers)
            )
    return response


def refuse_describe_producers(
    request: DescribeProducersRequest, code: int
) -> DescribeProducersResponse:
    """Return the same error for every partition."""
    answer = DescribeProducersResponse.Topic.Partition
    return DescribeProducersResponse(
        topics=[
            DescribeProducersResponse.Topic(
                name=topic.name,
                partitions=[
                    answer(partition_index=each, error_code=code)
                    for each in topic.partition_indexes
                ],
            )
            for topic in request.topics
        ]
    )


def write_txn_markers(call: Call, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    """End transactions in partitions, without a check with their coordinator."""
    return _for_each(request, lambda marker, topic, number: _mark(call, marker, topic, number))


def refuse_markers(request: WriteTxnMarkersRequest, code: int) -> WriteTxnMarkersResponse:
    """Return the same error for every partition."""
    return _for_each(request, lambda marker, topic, number: code)


def _for_each(
    request: WriteTxnMarkersRequest, mark: Callable[[WriteTxnMarkersRequest.Marker, str, int], int]
) -> WriteTxnMarkersResponse:
    kind = WriteTxnMarkersResponse.Marker
    answer = kind.Topic.Partition
    return WriteTxnMarkersResponse(
        markers=[
            kind(
                producer_id=marker.producer_id,
                topics=[
                    kind.Topic(
                        name=topic.name,
                        partitions=[
                            answer(
                                partition_index=number, error_code=mark(marker, topic.name, number)
                            )
                            for number in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


def _mark(call: Call, marker: WriteTxnMarkersRequest.Marker, name: str, number: int) -> int:
    """Write one marker, and return the error code."""
    with call.cluster.lock:
        found = find(call, name, ZERO_UUID, number)
        if found.error != ErrorCode.NO_ERROR or found.partition is None:
            return found.error
        if not found.partition.log.may_end(marker.producer_id, marker.producer_epoch):
            return ErrorCode.INVALID_PRODUCER_EPOCH
        key, commit = (name, number), marker.transaction_result
        call.cluster.write_marker(key, marker.producer_id, marker.producer_epoch, commit)
    return ErrorCode.NO_ERROR
