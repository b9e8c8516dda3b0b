"""The operations about features, the controllers' quorum and brokers' registrations. They run on the control thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kafka_native.admin._quorum import (
    FeatureMetadata,
    FeatureUpdate,
    FinalizedVersionRange,
    QuorumInfo,
    QuorumNode,
    RaftVoterEndpoint,
    ReplicaState,
    SupportedVersionRange,
)
from kafka_native.admin._topic_operations import told
from kafka_native.control.brokers.versions import SOFTWARE_NAME, software_version
from kafka_native.control.operations import Operation, Settle, Steps
from kafka_native.errors import KafkaError
from kafka_native.protocol.quorum import (
    AddRaftVoterRequest,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    RemoveRaftVoterRequest,
    UnregisterBrokerRequest,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from kafka_native.protocol.schema import ZERO_UUID, Request
from kafka_native.protocol.versions import ApiVersionsRequest, ApiVersionsResponse
from kafka_native.types import Uuid

METADATA_TOPIC = "__cluster_metadata"


# --- features ---


def ask_features(version: str, brokers: list[int | None]) -> Request:
    """The request."""
    return ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=software_version(version))


def describe_features(
    make: Callable[[list[Any]], Request], items: dict[Any, Any], settle: Settle, operation: Operation
) -> Steps[None]:
    """ApiVersions, to the broker that is the item, None for any."""

    def place(keys: list[Any]) -> Steps[dict[Any, Any]]:
        return operation.nodes(keys, lambda key: items[key])

    def outcomes(reply: ApiVersionsResponse, target: int | None) -> dict[None, Any]:
        return {None: told(reply.error_code) or _features_of(reply)}

    return operation.rounds(items, place, make, outcomes, settle, change=False)


def _features_of(reply: ApiVersionsResponse) -> FeatureMetadata:
    return FeatureMetadata(
        {
            each.name: FinalizedVersionRange(each.min_version_level, each.max_version_level)
            for each in reply.finalized_features
        },
        reply.finalized_features_epoch if reply.finalized_features_epoch >= 0 else None,
        {each.name: SupportedVersionRange(each.min_version, each.max_version) for each in reply.supported_features},
    )


def change_features(validate_only: bool, timeout_ms: int, updates: list[tuple[str, FeatureUpdate]]) -> Request:
    """The request."""
    return UpdateFeaturesRequest(
        feature_updates=[
            UpdateFeaturesRequest.FeatureUpdate(
                feature=name,
                max_version_level=each.max_version_level,
                upgrade_type=each.upgrade_type.value,
            )
            for name, each in updates
        ],
        validate_only=validate_only,
        timeout_ms=timeout_ms,
    )


def update_features(
    make: Callable[[list[Any]], Request], items: dict[Any, Any], settle: Settle, operation: Operation
) -> Steps[None]:
    """UpdateFeatures, to the controller. A newer one makes all changes or none, and has no results of each."""

    def outcomes(reply: UpdateFeaturesResponse, target: int | None) -> dict[str, KafkaError | None]:
        whole = told(reply.error_code, reply.error_message)
        if whole is not None or not reply.results:
            return dict.fromkeys(items, whole)
        return {each.feature: told(each.error_code, each.error_message) for each in reply.results}

    return operation.rounds(items, operation.controller, make, outcomes, settle, change=True)


# --- the quorum ---


def ask_quorum(items: list[Any]) -> Request:
    """The request, about the one partition of the cluster's metadata."""
    kind = DescribeQuorumRequest.Topic
    return DescribeQuorumRequest(
        topics=[kind(topic_name=METADATA_TOPIC, partitions=[kind.Partition(partition_index=0)])]
    )


def describe_quorum(
    make: Callable[[list[Any]], Request], items: dict[Any, Any], settle: Settle, operation: Operation
) -> Steps[None]:
    """DescribeQuorum, to any broker, which asks the controllers."""

    def outcomes(reply: DescribeQuorumResponse, target: int | None) -> dict[None, Any]:
        return {None: told(reply.error_code, reply.error_message) or _quorum_of(reply)}

    return operation.rounds(items, operation.anywhere, make, outcomes, settle, change=False)


def _quorum_of(reply: DescribeQuorumResponse) -> QuorumInfo | KafkaError:
    partitions = [
        each
        for topic in reply.topics
        for each in topic.partitions
        if topic.topic_name == METADATA_TOPIC and not each.partition_index
    ]
    if len(partitions) != 1:
        text = f"the broker's answer has {len(partitions)} partitions of {METADATA_TOPIC}"
        return KafkaError(KafkaError._BAD_MSG, text)
    (found,) = partitions
    if found.error_code:
        return KafkaError(found.error_code, found.error_message)
    return QuorumInfo(
        _known(found.leader_id),
        found.leader_epoch,
        _known(found.high_watermark),
        tuple(_replica_of(each) for each in found.current_voters),
        tuple(_replica_of(each) for each in found.observers),
        {
            node.node_id: QuorumNode(
                node.node_id, tuple(RaftVoterEndpoint(each.name, each.host, each.port) for each in node.listeners)
            )
            for node in reply.nodes
        },
    )


def _replica_of(replica: DescribeQuorumResponse.Topic.Partition.Replica) -> ReplicaState:
    directory = replica.replica_directory_id
    return ReplicaState(
        replica.replica_id,
        None if directory == ZERO_UUID else Uuid.from_bytes(directory),
        _known(replica.log_end_offset),
        _known(replica.last_fetch_timestamp),
        _known(replica.last_caught_up_timestamp),
    )


def _known(number: int) -> int | None:
    return number if number >= 0 else None


def add_voter(
    cluster_id: str | None,
    voter: tuple[int, Uuid],
    endpoints: Sequence[RaftVoterEndpoint],
    timeout_ms: int,
    items: list[Any],
) -> Request:
    """The request."""
    number, directory = voter
    return AddRaftVoterRequest(
        cluster_id=cluster_id,
        timeout_ms=timeout_ms,
        voter_id=number,
        voter_directory_id=bytes(directory),
        listeners=[
            AddRaftVoterRequest.Listener(name=each.listener, host=each.host, port=each.port) for each in endpoints
        ],
    )


def remove_voter(cluster_id: str | None, voter: tuple[int, Uuid], items: list[Any]) -> Request:
    """The request."""
    number, directory = voter
    return RemoveRaftVoterRequest(cluster_id=cluster_id, voter_id=number, voter_directory_id=bytes(directory))


def unregister(broker: int, items: list[Any]) -> Request:
    """The request."""
    return UnregisterBrokerRequest(broker_id=broker)


def change_one(
    make: Callable[[list[Any]], Request], items: dict[Any, Any], settle: Settle, operation: Operation
) -> Steps[None]:
    """AddRaftVoter, RemoveRaftVoter or UnregisterBroker, to any broker, which asks the active controller."""

    def outcomes(reply: Any, target: int | None) -> dict[None, KafkaError | None]:
        return {None: told(reply.error_code, reply.error_message)}

    return operation.rounds(items, operation.anywhere, make, outcomes, settle, change=True)
