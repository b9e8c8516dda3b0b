"""InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit and EndTxn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_native._reference.error_codes import ErrorCode
from kafka_native.mock.handlers.groups import check_group
from kafka_native.mock.membership import Committed, GroupError
from kafka_native.mock.transactions import NO_KEPT_TRANSACTION, TransactionError
from kafka_native.protocol.producer_ids import InitProducerIdRequest, InitProducerIdResponse
from kafka_native.protocol.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    EndTxnRequest,
    EndTxnResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)

if TYPE_CHECKING:
    from kafka_native.mock.call import Call
    from kafka_native.mock.topics import Topic

_FIRST_WITH_BATCHES = 4
_FIRST_IMPLICIT = 5
_FIRST_WITH_TOPIC_IDS = 6
_NEW_ERRORS = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.STALE_MEMBER_EPOCH)
"""TxnOffsetCommit has them since version 6. Before, they are ILLEGAL_GENERATION."""
_ANY_MEMBER = 99  # the version of OffsetCommit that members of both protocols may use
_FENCED_SINCE_OF_COMMITS = 99  # TxnOffsetCommit never returns PRODUCER_FENCED


def _check_id(call: Call, transactional_id: str) -> None:
    """Raise ``TransactionError`` unless the client may use the id at this broker.

    The broker must be the coordinator of the id.
    """
    if call.denies_transactional_id(transactional_id):
        raise TransactionError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if call.cluster.coordinator_of(transactional_id) is not call.broker:
        raise TransactionError(ErrorCode.NOT_COORDINATOR)
    call.cluster.transactions.expire()


def init_producer_id(call: Call, request: InitProducerIdRequest) -> InitProducerIdResponse:
    """Return a producer id and epoch.

    The producer id is new, with two exceptions: a known producer id and a transactional id keep
    theirs and get the next epoch.
    """
    name = request.transactional_id
    with call.cluster.lock:
        transactions = call.cluster.transactions
        kept = NO_KEPT_TRANSACTION
        try:
            if name is None:
                number, epoch = transactions.idempotent(request.producer_id, request.producer_epoch)
            else:
                _check_id(call, name)
                number, epoch = transactions.initialize(
                    name,
                    request.transaction_timeout_ms,
                    request.producer_id,
                    request.producer_epoch,
                    call.version,
                    two_phase=request.enable2_pc,
                    keep=request.keep_prepared_txn,
                )
                kept = transactions.all()[name].kept or NO_KEPT_TRANSACTION
        except TransactionError as error:
            return InitProducerIdResponse(error_code=error.code)
    return InitProducerIdResponse(
        producer_id=number,
        producer_epoch=epoch,
        ongoing_txn_producer_id=kept[0],
        ongoing_txn_producer_epoch=kept[1],
    )


def add_partitions_to_txn(
    call: Call, request: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse:
    """Add partitions to a transaction. If one partition doesn't exist, add none."""
    if call.version < _FIRST_WITH_BATCHES:
        name, number = request.v3_and_below_transactional_id, request.v3_and_below_producer_id
        topics = request.v3_and_below_topics
        answers = _add(call, name, number, request.v3_and_below_producer_epoch, topics)
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=answers)
    response = AddPartitionsToTxnResponse()
    for each in request.transactions:
        answers = _add(
            call, each.transactional_id, each.producer_id, each.producer_epoch, each.topics
        )
        response.results_by_transaction.append(
            AddPartitionsToTxnResponse.Transaction(
                transactional_id=each.transactional_id, topic_results=answers
            )
        )
    return response


def _add(
    call: Call, name: str, producer_id: int, epoch: int, topics: list[AddPartitionsToTxnTopic]
) -> list[AddPartitionsToTxnTopicResult]:
    keys = [(topic.name, index) for topic in topics for index in topic.partitions]
    codes: dict[tuple[str, int], int] = dict.fromkeys(keys, ErrorCode.NO_ERROR)
    with call.cluster.lock:
        try:
            _check_id(call, name)
            found = call.cluster.transactions.find_owned(name, producer_id, epoch, call.version)
        except TransactionError as error:
            codes = dict.fromkeys(keys, error.code)
        else:
            bad = {
                key: code for key in keys if (code := _error_code(call, *key)) != ErrorCode.NO_ERROR
            }
            if bad:
                codes = {**dict.fromkeys(keys, ErrorCode.OPERATION_NOT_ATTEMPTED), **bad}
            else:
                call.cluster.transactions.add_partitions(found, keys)
    return _outcomes(topics, codes)


def _outcomes(
    topics: list[AddPartitionsToTxnTopic], codes: dict[tuple[str, int], int]
) -> list[AddPartitionsToTxnTopicResult]:
    result = AddPartitionsToTxnPartitionResult
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                result(partition_index=index, partition_error_code=codes[topic.name, index])
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]


def refuse_add(
    call: Call, request: AddPartitionsToTxnRequest, code: int
) -> AddPartitionsToTxnResponse:
    """Return the same error for the request, or before version 4 for every partition."""
    if call.version >= _FIRST_WITH_BATCHES:
        return AddPartitionsToTxnResponse(error_code=code)
    topics = request.v3_and_below_topics
    codes = {(topic.name, index): code for topic in topics for index in topic.partitions}
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_outcomes(topics, codes))


def _error_code(call: Call, name: str, index: int) -> ErrorCode:
    """Return the error code if a transaction can't write to a partition."""
    if call.denies_topic(name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    topic = call.cluster.topics.get(name)
    is_there = topic is not None and topic.partition(index) is not None
    return ErrorCode.NO_ERROR if is_there else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def add_offsets_to_txn(call: Call, request: AddOffsetsToTxnRequest) -> AddOffsetsToTxnResponse:
    """Add a group, whose offsets the transaction will commit."""
    with call.cluster.lock:
        try:
            _check_id(call, request.transactional_id)
            transactions = call.cluster.transactions
            found = transactions.find_owned(
                request.transactional_id, request.producer_id, request.producer_epoch, call.version
            )
        except TransactionError as error:
            return AddOffsetsToTxnResponse(error_code=error.code)
        transactions.add_group(found, request.group_id)
    return AddOffsetsToTxnResponse()


def txn_offset_commit(call: Call, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
    """Keep offsets for a group. The commit of the transaction stores them.

    The request goes to the group's coordinator. From version 6 on it names topics by id (KIP-1319).
    """
    answer = TxnOffsetCommitResponse.Topic.Partition
    response = TxnOffsetCommitResponse()
    with call.cluster.lock:
        topics = [_topic_of(call, topic) for topic in request.topics]
        codes = [
            [_refusal(call, found, each.partition_index) for each in topic.partitions]
            for topic, found in zip(request.topics, topics, strict=True)
        ]
        kept = [
            (found.name, each)
            for topic, found, row in zip(request.topics, topics, codes, strict=True)
            for each, code in zip(topic.partitions, row, strict=True)
            if found is not None and code == ErrorCode.NO_ERROR
        ]
        outcome = _keep_offsets(call, request, kept) if kept else ErrorCode.NO_ERROR
    for topic, row in zip(request.topics, codes, strict=True):
        partitions = [
            answer(partition_index=each.partition_index, error_code=code or outcome)
            for each, code in zip(topic.partitions, row, strict=True)
        ]
        response.topics.append(
            TxnOffsetCommitResponse.Topic(
                name=topic.name, topic_id=topic.topic_id, partitions=partitions
            )
        )
    return response


def _topic_of(call: Call, topic: TxnOffsetCommitRequest.Topic) -> Topic | None:
    by_id = call.version >= _FIRST_WITH_TOPIC_IDS
    cluster = call.cluster
    return cluster.topic_by_id(topic.topic_id) if by_id else cluster.topics.get(topic.name)


def _refusal(call: Call, topic: Topic | None, index: int) -> ErrorCode:
    """Return the error code if no transaction can commit an offset of a partition."""
    if topic is None and call.version >= _FIRST_WITH_TOPIC_IDS:
        return ErrorCode.UNKNOWN_TOPIC_ID
    return (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if topic is None
        else _error_code(call, topic.name, index)
    )


def refuse_commit(request: TxnOffsetCommitRequest, code: int) -> TxnOffsetCommitResponse:
    """Return the same error code for every partition."""
    answer = TxnOffsetCommitResponse.Topic.Partition
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponse.Topic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    answer(partition_index=each.partition_index, error_code=code)
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _keep_offsets(
    call: Call,
    request: TxnOffsetCommitRequest,
    offsets: list[tuple[str, TxnOffsetCommitRequest.Topic.Partition]],
) -> ErrorCode:
    transactions = call.cluster.transactions
    transactions.expire()
    try:
        check_group(call, request.group_id)
        found = transactions.find_owned(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            call.version,
            _FENCED_SINCE_OF_COMMITS,
        )
        if call.version >= _FIRST_IMPLICIT and call.cluster.transaction_version > 1:
            transactions.add_group(found, request.group_id)
        elif request.group_id not in found.groups:
            raise TransactionError(ErrorCode.INVALID_TXN_STATE)
        _check_member(call, request)
    except (TransactionError, GroupError) as error:
        return ErrorCode(error.code)
    kept = found.offsets.setdefault(request.group_id, {})
    for name, each in offsets:
        text = each.committed_metadata or ""
        kept[name, each.partition_index] = Committed(
            each.committed_offset, each.committed_leader_epoch, text
        )
    return ErrorCode.NO_ERROR


def _check_member(call: Call, request: TxnOffsetCommitRequest) -> None:
    """Raise ``GroupError`` if the group doesn't have this member in this generation or epoch."""
    epoch, groups = request.generation_id_or_member_epoch, call.cluster.groups
    if epoch < 0 and not request.member_id and request.group_instance_id is None:
        return
    try:
        if epoch >= 0 and groups.find(request.group_id) is None:
            raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND)
        groups.for_commit(request.group_id).check_commit(
            request.member_id, request.group_instance_id, epoch, _ANY_MEMBER
        )
    except GroupError as error:
        if call.version < _FIRST_WITH_TOPIC_IDS and error.code in _NEW_ERRORS:
            raise GroupError(ErrorCode.ILLEGAL_GENERATION) from error
        raise


def end_txn(call: Call, request: EndTxnRequest) -> EndTxnResponse:
    """Commit or abort a transaction."""
    with call.cluster.lock:
        try:
            _check_id(call, request.transactional_id)
            number, epoch = call.cluster.transactions.end(
                request.transactional_id,
                request.producer_id,
                request.producer_epoch,
                commit=request.committed,
                version=call.version,
                bump_epoch=call.version >= _FIRST_IMPLICIT and call.cluster.transaction_version > 1,
            )
        except TransactionError as error:
            return EndTxnResponse(error_code=error.code)
    return EndTxnResponse(producer_id=number, producer_epoch=epoch)
