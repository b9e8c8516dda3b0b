"""Responses with only an error, for the codes that tests push."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_native._reference.error_codes import ErrorCode
from kafka_native.mock.handlers import (
    fetch,
    group_admin,
    group_offsets,
    groups,
    log_dirs,
    metadata,
    offsets,
    produce,
    quotas,
    topics,
    transaction_admin,
    transactions,
)
from kafka_native.protocol import registry
from kafka_native.protocol.coordinator import FindCoordinatorRequest
from kafka_native.protocol.fetch import FetchRequest
from kafka_native.protocol.group_admin import ShareGroupDescribeRequest
from kafka_native.protocol.groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
)
from kafka_native.protocol.metadata import MetadataRequest
from kafka_native.protocol.offsets import (
    ListOffsetsRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
)
from kafka_native.protocol.partitions import AlterReplicaLogDirsRequest
from kafka_native.protocol.produce import ProduceRequest
from kafka_native.protocol.quotas import AlterClientQuotasRequest
from kafka_native.protocol.share import DescribeShareGroupOffsetsRequest
from kafka_native.protocol.streams import StreamsGroupDescribeRequest
from kafka_native.protocol.topics import CreateTopicsRequest, DeleteTopicsRequest
from kafka_native.protocol.transactions import (
    AddPartitionsToTxnRequest,
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    TxnOffsetCommitRequest,
    WriteTxnMarkersRequest,
)

if TYPE_CHECKING:
    from kafka_native.mock.call import Call
    from kafka_native.protocol.schema import Request, Response

_FIRST_WITHOUT_PROTOCOL = 7


def refuse(call: Call, request: Request, code: int) -> Response | None:
    """Return the response with ``code`` in every place that the API has for it."""
    if isinstance(request, ProduceRequest):
        return produce.refuse(call, request, code) if request.acks != 0 else None
    if isinstance(request, FetchRequest):
        return fetch.refuse(call, request, code)
    if isinstance(request, MetadataRequest):
        return metadata.refuse(call, request, code)
    if isinstance(request, ListOffsetsRequest):
        return offsets.refuse_list(request, code)
    if isinstance(request, OffsetCommitRequest):
        return group_offsets.refuse_commit(request, code)
    if isinstance(request, OffsetFetchRequest):
        return group_offsets.refuse_fetch(call, request, code)
    if isinstance(request, FindCoordinatorRequest):
        return groups.refuse_find_coordinator(call, request, code)
    if isinstance(request, CreateTopicsRequest):
        return topics.refuse_create(request, code)
    if isinstance(request, DeleteTopicsRequest):
        return topics.refuse_delete(call, request, code)
    if isinstance(request, AlterClientQuotasRequest):
        return quotas.refuse_alter(request, code)
    if isinstance(request, AlterReplicaLogDirsRequest):
        return log_dirs.refuse_alter(request, code)
    if isinstance(
        request,
        ShareGroupDescribeRequest | StreamsGroupDescribeRequest | DescribeShareGroupOffsetsRequest,
    ):
        return group_admin.refuse_describe(request, code)
    if isinstance(request, ConsumerGroupHeartbeatRequest):
        return ConsumerGroupHeartbeatResponse(error_code=code, assignment=None)
    if isinstance(request, AddPartitionsToTxnRequest):
        return transactions.refuse_add(call, request, code)
    if isinstance(request, TxnOffsetCommitRequest):
        return transactions.refuse_commit(request, code)
    if isinstance(request, DescribeTransactionsRequest):
        return transaction_admin.refuse_describe_transactions(request, code)
    if isinstance(request, DescribeProducersRequest):
        return transaction_admin.refuse_describe_producers(request, code)
    if isinstance(request, WriteTxnMarkersRequest):
        return transaction_admin.refuse_markers(request, code)
    if isinstance(request, JoinGroupRequest):
        name = None if call.version >= _FIRST_WITHOUT_PROTOCOL else ""
        return JoinGroupResponse(error_code=code, member_id=request.member_id, protocol_name=name)
    response = registry.response(call.api_key)()
    if any(
        field.name == "error_code" and field.versions.has(call.version) for field in response.fields
    ):
        setattr(response, "error_code", ErrorCode(code))  # noqa: B010 - the field isn't Response's
        return response
    raise NotImplementedError(
        f"no place for a pushed error in {type(response).__name__} version {call.version}"
    )
