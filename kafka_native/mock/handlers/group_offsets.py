"""OffsetCommit, OffsetFetch and OffsetDelete."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_native._reference.error_codes import ErrorCode
from kafka_native.mock.groups import METADATA_MAX_BYTES
from kafka_native.mock.handlers.groups import check_group
from kafka_native.mock.membership import Committed, GroupError
from kafka_native.protocol.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from kafka_native.protocol.schema import ZERO_UUID

if TYPE_CHECKING:
    from kafka_native.mock.call import Call
    from kafka_native.mock.group_registry import AnyGroup

_FIRST_WITH_TOPIC_IDS = 10
_FIRST_OF_MEMBERS = 9
_FIRST_WITH_GROUPS = 8
_NOTHING = Committed(-1, -1, "")


def offset_commit(call: Call, request: OffsetCommitRequest) -> OffsetCommitResponse:
    """Store the committed offsets of a group."""
    with call.cluster.lock:
        try:
            group = _find_for_commit(call, request)
            epoch = request.generation_id_or_member_epoch
            group.check_commit(request.member_id, request.group_instance_id, epoch, call.version)
        except GroupError as error:
            return refuse_commit(request, error.code)
        response = OffsetCommitResponse()
        for topic in request.topics:
            answers = []
            for part in topic.partitions:
                code = _commit(call, group, topic, part)
                answers.append(
                    OffsetCommitResponse.Topic.Partition(
                        partition_index=part.partition_index, error_code=code
                    )
                )
            response.topics.append(
                OffsetCommitResponse.Topic(
                    name=topic.name, topic_id=topic.topic_id, partitions=answers
                )
            )
        return response


def _find_for_commit(call: Call, request: OffsetCommitRequest) -> AnyGroup:
    if not request.group_id:
        raise GroupError(ErrorCode.INVALID_GROUP_ID)
    check_group(call, request.group_id)
    groups = call.cluster.groups
    if groups.find(request.group_id) is None and request.generation_id_or_member_epoch >= 0:
        is_new = call.version >= _FIRST_OF_MEMBERS
        raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND if is_new else ErrorCode.ILLEGAL_GENERATION)
    return groups.for_commit(request.group_id)


def _commit(
    call: Call,
    group: AnyGroup,
    topic: OffsetCommitRequest.Topic,
    part: OffsetCommitRequest.Topic.Partition,
) -> int:
    """Store one offset, and return the error code."""
    cluster = call.cluster
    by_name = topic.topic_id == ZERO_UUID
    found = cluster.topics.get(topic.name) if by_name else cluster.topic_by_id(topic.topic_id)
    text = part.committed_metadata or ""
    if found is None:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if by_name else ErrorCode.UNKNOWN_TOPIC_ID
        return _take_error(call, topic.name, part.partition_index) or code
    pushed = _take_error(call, found.name, part.partition_index)
    if pushed:
        return pushed
    if call.denies_topic(found.name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if found.partition(part.partition_index) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if len(text.encode("utf-8", "surrogatepass")) > METADATA_MAX_BYTES:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    stored = Committed(part.committed_offset, part.committed_leader_epoch, text)
    group.offsets[found.name, part.partition_index] = stored
    return ErrorCode.NO_ERROR


def _take_error(call: Call, topic: str, partition: int) -> int:
    """Return the error that a test ordered for a partition, or 0."""
    pushed = call.cluster.faults.take_error_within(call.api_key, call.broker.id, topic, partition)
    return 0 if pushed is None else pushed.code


def refuse_commit(request: OffsetCommitRequest, code: int) -> OffsetCommitResponse:
    """Return the same error for every partition."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponse.Topic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponse.Topic.Partition(
                        partition_index=part.partition_index, error_code=code
                    )
                    for part in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def offset_fetch(call: Call, request: OffsetFetchRequest) -> OffsetFetchResponse:
    """Return the committed offsets of a group."""
    with call.cluster.lock:
        if call.version >= _FIRST_WITH_GROUPS:
            stable = request.require_stable
            return OffsetFetchResponse(
                groups=[
                    _fetch_group(call, requested, require_stable=stable)
                    for requested in request.groups
                ]
            )
        try:
            offsets = _find_offsets(call, request.group_id, None, -1)
        except GroupError as error:
            return refuse_fetch(call, request, error.code)
        requested = (
            None
            if request.topics is None
            else [(topic.name, topic.partition_indexes) for topic in request.topics]
        )
        response = OffsetFetchResponse()
        for name, indexes in _visible(call, offsets) if requested is None else requested:
            answer = OffsetFetchResponse.Topic(name=name)
            for index in indexes:
                found, code = _look_up(
                    call, offsets, name, index, request.group_id if request.require_stable else None
                )
                answer.partitions.append(
                    OffsetFetchResponse.Topic.Partition(
                        partition_index=index,
                        committed_offset=found.offset,
                        committed_leader_epoch=found.leader_epoch,
                        metadata=found.metadata,
                        error_code=code,
                    )
                )
            response.topics.append(answer)
        return response


def _find_offsets(
    call: Call, group_id: str, member_id: str | None, epoch: int
) -> dict[tuple[str, int], Committed]:
    """Return all offsets of a group, for a member or for any client. Raises ``GroupError``."""
    check_group(call, group_id)
    group = call.cluster.groups.find(group_id)
    if group is None:
        if epoch >= 0 and call.version >= _FIRST_OF_MEMBERS:
            raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND)
        return {}
    group.check_fetch(member_id, epoch)
    return group.offsets


def _visible(call: Call, offsets: dict[tuple[str, int], Committed]) -> list[tuple[str, list[int]]]:
    """Return the stored partitions of all topics that the client may see."""
    found: dict[str, list[int]] = {}
    for name, index in sorted(offsets):
        if not call.denies_topic(name):
            found.setdefault(name, []).append(index)
    return list(found.items())


def _look_up(
    call: Call,
    offsets: dict[tuple[str, int], Committed],
    name: str,
    index: int,
    unstable_in: str | None,
) -> tuple[Committed, int]:
    """Return a stored offset and an error code.

    ``unstable_in`` is a group. An open transaction with offsets of this group gives
    UNSTABLE_OFFSET_COMMIT.
    """
    code = _take_error(call, name, index)
    if not code and unstable_in is not None:
        call.cluster.transactions.expire()
        if call.cluster.transactions.has_unstable_offset(unstable_in, (name, index)):
            code = ErrorCode.UNSTABLE_OFFSET_COMMIT
    if not code and call.denies_topic(name):
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return (_NOTHING, code) if code else (offsets.get((name, index), _NOTHING), code)


def _fetch_group(
    call: Call, requested: OffsetFetchRequest.Group, *, require_stable: bool
) -> OffsetFetchResponse.Group:
    group_id = requested.group_id
    response = OffsetFetchResponse.Group(group_id=group_id)
    try:
        offsets = _find_offsets(call, group_id, requested.member_id, requested.member_epoch)
    except GroupError as error:
        response.error_code = error.code
        return response
    cluster = call.cluster
    wanted: list[tuple[str, bytes, list[int]]] = []
    if requested.topics is None:
        for name, indexes in _visible(call, offsets):
            known = cluster.topics.get(name)
            wanted.append((name, ZERO_UUID if known is None else known.id, indexes))
    else:
        for topic in requested.topics:
            by_id = cluster.topic_by_id(topic.topic_id)
            wanted.append(
                (
                    topic.name if by_id is None else by_id.name,
                    topic.topic_id,
                    topic.partition_indexes,
                )
            )
    for name, topic_id, indexes in wanted:
        answer = OffsetFetchResponse.Group.Topic(name=name, topic_id=topic_id)
        is_unknown = call.version >= _FIRST_WITH_TOPIC_IDS and cluster.topic_by_id(topic_id) is None
        for index in indexes:
            found, code = _look_up(call, offsets, name, index, group_id if require_stable else None)
            answer.partitions.append(
                OffsetFetchResponse.Group.Topic.Partition(
                    partition_index=index,
                    committed_offset=found.offset,
                    committed_leader_epoch=found.leader_epoch,
                    metadata=found.metadata,
                    error_code=ErrorCode.UNKNOWN_TOPIC_ID if is_unknown else code,
                )
            )
        response.topics.append(answer)
    return response


def refuse_fetch(call: Call, request: OffsetFetchRequest, code: int) -> OffsetFetchResponse:
    """Return the same error for every group, or before version 8 for every partition."""
    if call.version >= _FIRST_WITH_GROUPS:
        groups = [
            OffsetFetchResponse.Group(group_id=requested.group_id, error_code=code)
            for requested in request.groups
        ]
        return OffsetFetchResponse(groups=groups)
    response = OffsetFetchResponse(error_code=code)
    for topic in request.topics or ():
        response.topics.append(
            OffsetFetchResponse.Topic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponse.Topic.Partition(
                        partition_index=index, committed_offset=-1, metadata="", error_code=code
                    )
                    for index in topic.partition_indexes
                ],
            )
        )
    return response


def offset_delete(call: Call, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
    """Delete stored offsets, except those of topics that members subscribe to."""
    with call.cluster.lock:
        try:
            if not request.group_id:
                raise GroupError(ErrorCode.INVALID_GROUP_ID)
            check_group(call, request.group_id)
        except GroupError as error:
            return OffsetDeleteResponse(error_code=error.code)
        group = call.cluster.groups.find(request.group_id)
        if group is None:
            return OffsetDeleteResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND)
        if group.type == "classic" and group.members and group.protocol_type != "consumer":
            return OffsetDeleteResponse(error_code=ErrorCode.NON_EMPTY_GROUP)
        response = OffsetDeleteResponse()
        for topic in request.topics:
            code = (
                ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
                if group.is_subscribed(topic.name)
                else ErrorCode.NO_ERROR
            )
            answer = OffsetDeleteResponse.Topic(name=topic.name)
            for part in topic.partitions:
                if code == ErrorCode.NO_ERROR:
                    group.offsets.pop((topic.name, part.partition_index), None)
                answer.partitions.append(
                    OffsetDeleteResponse.Topic.Partition(
                        partition_index=part.partition_index, error_code=code
                    )
                )
            response.topics.append(answer)
        return response
