"""UpdateFeatures, DescribeQuorum, AddRaftVoter, RemoveRaftVoter and UnregisterBroker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_native._reference.error_codes import ErrorCode
from kafka_native.protocol.quorum import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
    UnregisterControllerRequest,
    UnregisterControllerResponse,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from kafka_native.protocol.schema import ZERO_UUID

if TYPE_CHECKING:
    from kafka_native.mock.call import Call

_METADATA = "__cluster_metadata"
_FIRST_ATOMIC = 2
_UPGRADE_ONLY = 1
_FIRST_WITH_NODES = 2


def update_features(call: Call, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    """Change the levels of features.

    From version 2 on an error prevents all changes. Older versions return an error for each
    feature.
    """
    quorum = call.cluster.quorum
    with call.cluster.lock:
        refused = {
            each.feature: quorum.refusal(
                each.feature,
                each.max_version_level,
                may_go_down=each.allow_downgrade or each.upgrade_type != _UPGRADE_ONLY,
            )
            for each in request.feature_updates
        }
        problem = next((text for text in refused.values() if text is not None), None)
        if problem is not None and call.version >= _FIRST_ATOMIC:
            return UpdateFeaturesResponse(
                error_code=ErrorCode.INVALID_UPDATE_VERSION, error_message=problem
            )
        for each in request.feature_updates:
            if refused[each.feature] is None and not request.validate_only:
                quorum.update(each.feature, each.max_version_level)
    results = [
        UpdateFeaturesResponse.Result(
            feature=feature,
            error_code=ErrorCode.NO_ERROR if text is None else ErrorCode.INVALID_UPDATE_VERSION,
            error_message=text,
        )
        for feature, text in refused.items()
    ]
    return UpdateFeaturesResponse(error_message=None, results=results)


def describe_quorum(call: Call, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    """Return the voters. All of them have the whole log."""
    topic = DescribeQuorumResponse.Topic
    response = DescribeQuorumResponse(error_message=None)
    with call.cluster.lock:
        for requested in request.topics:
            answer = topic(topic_name=requested.topic_name)
            response.topics.append(answer)
            for each in requested.partitions:
                known = requested.topic_name == _METADATA and each.partition_index == 0
                answer.partitions.append(
                    _partition(call)
                    if known
                    else topic.Partition(
                        partition_index=each.partition_index,
                        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                        error_message=None,
                    )
                )
        if call.version < _FIRST_WITH_NODES:
            return response
        node = DescribeQuorumResponse.Node
        response.nodes = [
            node(
                node_id=number,
                listeners=[
                    node.Listener(name=name, host=host, port=port)
                    for name, host, port in _endpoints(call, number)
                ],
            )
            for number in call.cluster.quorum.voters
        ]
    return response


def _partition(call: Call) -> DescribeQuorumResponse.Topic.Partition:
    cluster, kind = call.cluster, DescribeQuorumResponse.Topic.Partition
    leader, now_ms = cluster.controller_id(), cluster.clock.time_ms()
    return kind(
        partition_index=0,
        error_message=None,
        leader_id=leader,
        leader_epoch=1,
        high_watermark=cluster.quorum.changes,
        current_voters=[
            kind.Replica(
                replica_id=number,
                replica_directory_id=directory if call.version >= _FIRST_WITH_NODES else ZERO_UUID,
                log_end_offset=cluster.quorum.changes,
                last_fetch_timestamp=now_ms,
                last_caught_up_timestamp=now_ms,
            )
            for number, directory in cluster.quorum.voters.items()
        ],
    )


def _endpoints(call: Call, number: int) -> list[tuple[str, str, int]]:
    own = [
        ("CONTROLLER", *broker.endpoint)
        for broker in call.cluster.live_brokers()
        if broker.id == number
    ]
    return call.cluster.quorum.endpoints.get(number, own)


def _other_cluster(call: Call, cluster_id: str | None) -> bool:
    return cluster_id not in (None, call.cluster.cluster_id)


def add_raft_voter(call: Call, request: AddRaftVoterRequest) -> AddRaftVoterResponse:
    """Add a controller to the voters."""
    quorum = call.cluster.quorum
    with call.cluster.lock:
        if _other_cluster(call, request.cluster_id):
            return AddRaftVoterResponse(
                error_code=ErrorCode.INCONSISTENT_CLUSTER_ID, error_message=None
            )
        if request.voter_id in quorum.voters:
            text = f"{request.voter_id} is a voter already"
            return AddRaftVoterResponse(error_code=ErrorCode.DUPLICATE_VOTER, error_message=text)
        quorum.voters[request.voter_id] = request.voter_directory_id
        quorum.endpoints[request.voter_id] = [
            (each.name, each.host, each.port) for each in request.listeners
        ]
        quorum.count_change()
    return AddRaftVoterResponse(error_message=None)


def remove_raft_voter(call: Call, request: RemoveRaftVoterRequest) -> RemoveRaftVoterResponse:
    """Remove a controller from the voters."""
    quorum = call.cluster.quorum
    with call.cluster.lock:
        if _other_cluster(call, request.cluster_id):
            return RemoveRaftVoterResponse(
                error_code=ErrorCode.INCONSISTENT_CLUSTER_ID, error_message=None
            )
        if quorum.voters.get(request.voter_id) != request.voter_directory_id:
            text = f"{request.voter_id} with this directory isn't a voter"
            return RemoveRaftVoterResponse(error_code=ErrorCode.VOTER_NOT_FOUND, error_message=text)
        del quorum.voters[request.voter_id]
        quorum.count_change()
    return RemoveRaftVoterResponse(error_message=None)


def unregister_broker(call: Call, request: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
    """Unregister a broker until it starts again."""
    cluster = call.cluster
    with cluster.lock:
        if (
            request.broker_id not in cluster.brokers
            or request.broker_id in cluster.quorum.unregistered
        ):
            text = f"broker {request.broker_id} isn't registered"
            return UnregisterBrokerResponse(
                error_code=ErrorCode.BROKER_ID_NOT_REGISTERED, error_message=text
            )
        cluster.fence_broker(request.broker_id)
        cluster.quorum.unregistered.add(request.broker_id)
        cluster.quorum.count_change()
    return UnregisterBrokerResponse(error_message=None)


def unregister_controller(
    call: Call, request: UnregisterControllerRequest
) -> UnregisterControllerResponse:
    """Unregister a controller until it starts again (KIP-1312)."""
    quorum = call.cluster.quorum
    with call.cluster.lock:
        if request.controller_id not in quorum.controllers:
            text = f"Controller ID {request.controller_id} is not currently registered."
            return UnregisterControllerResponse(
                error_code=ErrorCode.CONTROLLER_ID_NOT_REGISTERED, error_message=text
            )
        quorum.controllers.remove(request.controller_id)
        quorum.count_change()
    return UnregisterControllerResponse(error_message=None)
