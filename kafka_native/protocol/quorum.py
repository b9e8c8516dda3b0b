"""Administration of the cluster: features, brokers and the metadata quorum.

The APIs are UpdateFeatures, UnregisterBroker, UnregisterController, DescribeQuorum, AddRaftVoter
and RemoveRaftVoter.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from kafka_native.protocol.api_keys import ApiKey
from kafka_native.protocol.schema import (
    Request,
    Response,
    Struct,
    array,
    boolean,
    error_text,
    int8,
    int16,
    int32,
    int64,
    string,
    uint16,
    uuid,
)

if TYPE_CHECKING:
    from typing_extensions import Self

ONLY_UP = 1
"""The update type that allows only upgrades."""


class UpdateFeaturesRequest(Request, api_key=ApiKey.UPDATE_FEATURES, versions="0-2", flexible="0+"):
    """Change the levels of features in the whole cluster (KIP-584)."""

    class FeatureUpdate(Struct):
        """A feature and its new level. A level below 1 removes the feature."""

        feature: str = string("0+")
        max_version_level: int = int16("0+")
        allow_downgrade: bool = boolean("0")
        # 1 only upgrade, 2 downgrade if nothing is lost, 3 downgrade in any case
        upgrade_type: int = int8("1+", default=1)

    timeout_ms: int = int32("0+", default=60000)
    feature_updates: list[FeatureUpdate] = array(FeatureUpdate, "0+")
    validate_only: bool = boolean("1+")

    def for_version(self, version: int) -> Self:
        """Version 0 has a flag in place of the update type."""
        if version >= 1:
            return self
        message = copy.copy(self)
        message.feature_updates = [
            self.FeatureUpdate(
                feature=update.feature,
                max_version_level=update.max_version_level,
                allow_downgrade=update.upgrade_type != ONLY_UP,
            )
            for update in self.feature_updates
        ]
        return message


class UpdateFeaturesResponse(
    Response, api_key=ApiKey.UPDATE_FEATURES, versions="0-2", flexible="0+"
):
    """The outcome for each feature. From version 2 on, all change or none."""

    class Result(Struct):
        """The outcome for one feature."""

        feature: str = string("0+")
        error_code: int = int16("0+")
        error_message: str | None = error_text("0+", nullable="0+")

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = error_text("0+", nullable="0+")
    results: list[Result] = array(Result, "0-1", ignorable=True)


class UnregisterBrokerRequest(
    Request, api_key=ApiKey.UNREGISTER_BROKER, versions="0", flexible="0+"
):
    """Remove the registration of a broker that won't come back."""

    broker_id: int = int32("0+")


class UnregisterBrokerResponse(
    Response, api_key=ApiKey.UNREGISTER_BROKER, versions="0", flexible="0+"
):
    """The outcome of the removal."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = error_text("0+", nullable="0+")


class UnregisterControllerRequest(
    Request, api_key=ApiKey.UNREGISTER_CONTROLLER, versions="0", flexible="0+"
):
    """Remove the registration of a controller that won't come back."""

    controller_id: int = int32("0+")


class UnregisterControllerResponse(
    Response, api_key=ApiKey.UNREGISTER_CONTROLLER, versions="0", flexible="0+"
):
    """The outcome of the removal."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = error_text("0+", nullable="0+")


class DescribeQuorumRequest(Request, api_key=ApiKey.DESCRIBE_QUORUM, versions="0-2", flexible="0+"):
    """Ask for the voters of the cluster's metadata partitions."""

    class Topic(Struct):
        """Partitions of one topic."""

        class Partition(Struct):
            """A partition."""

            partition_index: int = int32("0+")

        topic_name: str = string("0+")
        partitions: list[Partition] = array(Partition, "0+")

    topics: list[Topic] = array(Topic, "0+")


class DescribeQuorumResponse(
    Response, api_key=ApiKey.DESCRIBE_QUORUM, versions="0-2", flexible="0+"
):
    """The voters and observers, and their progress."""

    class Topic(Struct):
        """Partitions of one topic."""

        class Partition(Struct):
            """The quorum of one partition."""

            class Replica(Struct):
                """A voter or an observer.

                Times are the leader's, in milliseconds; -1 means unknown.
                """

                replica_id: int = int32("0+")
                replica_directory_id: bytes = uuid("2+")
                log_end_offset: int = int64("0+")
                last_fetch_timestamp: int = int64("1+", default=-1, ignorable=True)
                last_caught_up_timestamp: int = int64("1+", default=-1, ignorable=True)

            partition_index: int = int32("0+")
            error_code: int = int16("0+")
            error_message: str | None = error_text("2+", nullable="2+", ignorable=True)
            leader_id: int = int32("0+")
            leader_epoch: int = int32("0+")
            high_watermark: int = int64("0+")
            current_voters: list[Replica] = array(Replica, "0+")
            observers: list[Replica] = array(Replica, "0+")

        topic_name: str = string("0+")
        partitions: list[Partition] = array(Partition, "0+")

    class Node(Struct):
        """A controller and its listeners."""

        class Listener(Struct):
            """The endpoint of a listener."""

            name: str = string("2+")
            host: str = string("2+")
            port: int = uint16("2+")

        node_id: int = int32("2+")
        listeners: list[Listener] = array(Listener, "2+")

    error_code: int = int16("0+")
    error_message: str | None = error_text("2+", nullable="2+", ignorable=True)
    topics: list[Topic] = array(Topic, "0+")
    nodes: list[Node] = array(Node, "2+")


class AddRaftVoterRequest(Request, api_key=ApiKey.ADD_RAFT_VOTER, versions="0-1", flexible="0+"):
    """Add a voter to the quorum (KIP-853)."""

    class Listener(Struct):
        """A listener of the new voter."""

        name: str = string("0+")
        host: str = string("0+")
        port: int = uint16("0+")

    cluster_id: str | None = string("0+", nullable="0+")
    timeout_ms: int = int32("0+")
    voter_id: int = int32("0+")
    voter_directory_id: bytes = uuid("0+")
    listeners: list[Listener] = array(Listener, "0+")
    ack_when_committed: bool = boolean("1+", default=True)


class AddRaftVoterResponse(Response, api_key=ApiKey.ADD_RAFT_VOTER, versions="0-1", flexible="0+"):
    """The outcome of the addition."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = error_text("0+", nullable="0+", ignorable=True)


class RemoveRaftVoterRequest(
    Request, api_key=ApiKey.REMOVE_RAFT_VOTER, versions="0", flexible="0+"
):
    """Remove a voter from the quorum (KIP-853)."""

    cluster_id: str | None = string("0+", nullable="0+")
    voter_id: int = int32("0+")
    voter_directory_id: bytes = uuid("0+")


class RemoveRaftVoterResponse(
    Response, api_key=ApiKey.REMOVE_RAFT_VOTER, versions="0", flexible="0+"
):
    """The outcome of the removal."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = error_text("0+", nullable="0+", ignorable=True)
