"""AlterPartitionReassignments and ListPartitionReassignments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_native._reference.error_codes import ErrorCode
from kafka_native.mock.log import Refused
from kafka_native.protocol.partitions import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

if TYPE_CHECKING:
    from kafka_native.mock.call import Call
    from kafka_native.mock.topics import Partition


def alter_partition_reassignments(
    call: Call, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Start or cancel reassignments. They complete at once unless a test holds them."""
    kind = AlterPartitionReassignmentsResponse.Topic
    response = AlterPartitionReassignmentsResponse(
        error_message=None, allow_replication_factor_change=request.allow_replication_factor_change
    )
    for topic in request.topics:
        answer = kind(name=topic.name)
        response.responses.append(answer)
        for requested in topic.partitions:
            outcome = kind.Partition(partition_index=requested.partition_index, error_message=None)
            answer.partitions.append(outcome)
            try:
                _alter(
                    call, topic.name, requested, fixed=not request.allow_replication_factor_change
                )
            except Refused as error:
                outcome.error_code, outcome.error_message = error.code, error.text
    return response


def _alter(
    call: Call,
    topic: str,
    requested: AlterPartitionReassignmentsRequest.Topic.Partition,
    *,
    fixed: bool,
) -> None:
    cluster = call.cluster
    with cluster.lock:
        partition = (
            cluster.topics[topic].partition(requested.partition_index)
            if topic in cluster.topics
            else None
        )
        if partition is None:
            raise Refused(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"there is no partition {topic}-{requested.partition_index}",
            )
        if requested.replicas is None:
            if not partition.is_moving:
                raise Refused(
                    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "no reassignment is in progress"
                )
            partition.cancel_move()
            return
        if not requested.replicas or len(set(requested.replicas)) < len(requested.replicas):
            raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"replicas {requested.replicas}")
        if not set(requested.replicas) <= {broker.id for broker in cluster.live_brokers()}:
            raise Refused(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"not all brokers of {requested.replicas} are up",
            )
        if fixed and len(requested.replicas) != len(partition.settled_replicas):
            raise Refused(
                ErrorCode.INVALID_REPLICATION_FACTOR, "the number of replicas must stay as it is"
            )
        partition.begin_move(requested.replicas)
        if not cluster.reassignments_held:
            partition.end_move()


def list_partition_reassignments(
    call: Call, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """Return the reassignments in progress, which a test holds."""
    wanted = (
        None
        if request.topics is None
        else {each.name: set(each.partition_indexes) for each in request.topics}
    )
    kind = ListPartitionReassignmentsResponse.Topic
    response = ListPartitionReassignmentsResponse(error_message=None)
    with call.cluster.lock:
        for topic in call.cluster.topics.values():
            moving = [
                _describe_move(each)
                for each in topic.partitions
                if each.is_moving and (wanted is None or each.index in wanted.get(topic.name, ()))
            ]
            if moving:
                response.topics.append(kind(name=topic.name, partitions=moving))
    return response


def _describe_move(partition: Partition) -> ListPartitionReassignmentsResponse.Topic.Partition:
    return ListPartitionReassignmentsResponse.Topic.Partition(
        partition_index=partition.index,
        replicas=list(partition.replicas),
        adding_replicas=list(partition.adding),
        removing_replicas=list(partition.removing),
    )
