"""Streams groups (KIP-1071): membership, and descriptions of groups.

`StreamsGroupMember` sends the heartbeats, and `AdminClient` describes groups.
"""

from __future__ import annotations

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
    struct,
    uint16,
)


class KeyValue(Struct):
    """A configuration entry: a name and a value."""

    key: str = string("0+")
    value: str = string("0+")


class TopicInfo(Struct):
    """An internal topic of the application."""

    name: str = string("0+")
    partitions: int = int32("0+")
    replication_factor: int = int16("0+")
    topic_configs: list[KeyValue] = array(KeyValue, "0+")


class Endpoint(Struct):
    """The address at which a member answers queries about its state."""

    host: str = string("0+")
    port: int = uint16("0+")


class TaskIds(Struct):
    """Tasks: the partitions of one subtopology."""

    subtopology_id: str = string("0+")
    partitions: list[int] = array(int32(), "0+")


class TaskOffset(Struct):
    """The progress of one task."""

    subtopology_id: str = string("0+")
    partition: int = int32("0+")
    offset: int = int64("0+")


class TopologyNode(Struct):
    """A node of a topology: a source (1), a processor (2) or a sink (3)."""

    name: str = string("0+")
    node_type: int = int8("0+")
    source_topics: list[str] = array(string(), "0+")
    sink_topic: str | None = string("0+", nullable="0+", default=None)
    stores: list[str] = array(string(), "0+")
    successors: list[str] = array(string(), "0+")


class TopologyDescription(Struct):
    """The nodes of an application's topology and their edges (KIP-1331)."""

    class Subtopology(Struct):
        """A part of the topology with its own tasks."""

        subtopology_id: str = string("0+")
        nodes: list[TopologyNode] = array(TopologyNode, "0+")

    class GlobalStore(Struct):
        """A store whose data each member has: the nodes that fill it."""

        source: TopologyNode = struct(TopologyNode, "0+")
        processor: TopologyNode = struct(TopologyNode, "0+")

    subtopologies: list[Subtopology] = array(Subtopology, "0+")
    global_stores: list[GlobalStore] = array(GlobalStore, "0+")


class StreamsGroupHeartbeatRequest(
    Request, api_key=ApiKey.STREAMS_GROUP_HEARTBEAT, versions="0-1", flexible="0+"
):
    """Join, stay in or leave a streams group. Unchanged fields are None."""

    class Topology(Struct):
        """The topology of the application. A joining member sends it."""

        class Subtopology(Struct):
            """A part of the topology with its own tasks."""

            class CopartitionGroup(Struct):
                """Topics with the same number of partitions, by their indexes in the lists."""

                source_topics: list[int] = array(int16(), "0+")
                source_topic_regex: list[int] = array(int16(), "0+")
                repartition_source_topics: list[int] = array(int16(), "0+")

            subtopology_id: str = string("0+")
            source_topics: list[str] = array(string(), "0+")
            source_topic_regex: list[str] = array(string(), "0+")
            state_changelog_topics: list[TopicInfo] = array(TopicInfo, "0+")
            repartition_sink_topics: list[str] = array(string(), "0+")
            repartition_source_topics: list[TopicInfo] = array(TopicInfo, "0+")
            copartition_groups: list[CopartitionGroup] = array(CopartitionGroup, "0+")

        epoch: int = int32("0+")
        subtopologies: list[Subtopology] = array(Subtopology, "0+")

    group_id: str = string("0+")
    member_id: str = string("0+")
    member_epoch: int = int32("0+")  # 0 joins, -1 leaves
    endpoint_information_epoch: int = int32("0+")
    instance_id: str | None = string("0+", nullable="0+", default=None)
    rack_id: str | None = string("0+", nullable="0+", default=None)
    rebalance_timeout_ms: int = int32("0+", default=-1)
    topology: Topology | None = struct(Topology, "0+", nullable="0+")
    active_tasks: list[TaskIds] | None = array(TaskIds, "0+", nullable="0+", default=None)
    standby_tasks: list[TaskIds] | None = array(TaskIds, "0+", nullable="0+", default=None)
    warmup_tasks: list[TaskIds] | None = array(TaskIds, "0+", nullable="0+", default=None)
    process_id: str | None = string("0+", nullable="0+", default=None)
    user_endpoint: Endpoint | None = struct(Endpoint, "0+", nullable="0+")
    client_tags: list[KeyValue] | None = array(KeyValue, "0+", nullable="0+", default=None)
    task_offsets: list[TaskOffset] | None = array(TaskOffset, "0+", nullable="0+", default=None)
    task_end_offsets: list[TaskOffset] | None = array(TaskOffset, "0+", nullable="0+", default=None)
    shutdown_application: bool = boolean("0+")


class StreamsGroupHeartbeatResponse(
    Response, api_key=ApiKey.STREAMS_GROUP_HEARTBEAT, versions="0-1", flexible="0+"
):
    """The member's epoch, and its tasks if they have changed."""

    class Status(Struct):
        """A status of the group that its members have to know."""

        status_code: int = int8("0+")
        status_detail: str = string("0+")

    class EndpointToPartitions(Struct):
        """The partitions whose state the member at an endpoint stores."""

        class TopicPartition(Struct):
            """Partitions of one topic."""

            topic: str = string("0+")
            partitions: list[int] = array(int32(), "0+")

        user_endpoint: Endpoint = struct(Endpoint, "0+")
        active_partitions: list[TopicPartition] = array(TopicPartition, "0+")
        standby_partitions: list[TopicPartition] = array(TopicPartition, "0+")

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = error_text("0+", nullable="0+", default=None)
    member_id: str = string("0+")
    member_epoch: int = int32("0+")
    heartbeat_interval_ms: int = int32("0+")
    acceptable_recovery_lag_legacy: int = int32("0")
    task_offset_interval_ms: int = int32("0+")
    acceptable_recovery_lag: int = int64("1+", default=-1, ignorable=True)
    status: list[Status] | None = array(Status, "0+", nullable="0+")
    active_tasks: list[TaskIds] | None = array(TaskIds, "0+", nullable="0+", default=None)
    standby_tasks: list[TaskIds] | None = array(TaskIds, "0+", nullable="0+", default=None)
    warmup_tasks: list[TaskIds] | None = array(TaskIds, "0+", nullable="0+", default=None)
    topology_description_required: bool = boolean("1+")
    endpoint_information_epoch: int = int32("0+")
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = array(
        EndpointToPartitions, "0+", nullable="0+", default=None
    )


class StreamsGroupDescribeRequest(
    Request, api_key=ApiKey.STREAMS_GROUP_DESCRIBE, versions="0-1", flexible="0+"
):
    """Ask for the state of streams groups."""

    group_ids: list[str] = array(string(), "0+")
    include_authorized_operations: bool = boolean("0+")
    include_topology_description: bool = boolean("1+")

    def expressible_versions(self) -> tuple[int, int]:
        """The nodes of a topology need version 1 (KIP-1331)."""
        return (1 if self.include_topology_description else self.min_version), self.max_version


class StreamsGroupDescribeResponse(
    Response, api_key=ApiKey.STREAMS_GROUP_DESCRIBE, versions="0-1", flexible="0+"
):
    """The state of the groups."""

    class Group(Struct):
        """A group, or the error that the broker reports instead."""

        class Topology(Struct):
            """The topology of the application, as the group stores it."""

            class Subtopology(Struct):
                """A part of the topology with its own tasks."""

                subtopology_id: str = string("0+")
                source_topics: list[str] = array(string(), "0+")
                repartition_sink_topics: list[str] = array(string(), "0+")
                state_changelog_topics: list[TopicInfo] = array(TopicInfo, "0+")
                repartition_source_topics: list[TopicInfo] = array(TopicInfo, "0+")

            epoch: int = int32("0+")
            subtopologies: list[Subtopology] | None = array(
                Subtopology, "0+", nullable="0+", default=None
            )

        class Member(Struct):
            """A member with its current assignment and its target assignment."""

            class Assignment(Struct):
                """Tasks by their role: active, standby or warm-up."""

                active_tasks: list[TaskIds] = array(TaskIds, "0+")
                standby_tasks: list[TaskIds] = array(TaskIds, "0+")
                warmup_tasks: list[TaskIds] = array(TaskIds, "0+")

            member_id: str = string("0+")
            member_epoch: int = int32("0+")
            instance_id: str | None = string("0+", nullable="0+", default=None)
            rack_id: str | None = string("0+", nullable="0+", default=None)
            client_id: str = string("0+")
            client_host: str = string("0+")
            topology_epoch: int = int32("0+")
            process_id: str = string("0+")
            user_endpoint: Endpoint | None = struct(Endpoint, "0+", nullable="0+")
            client_tags: list[KeyValue] = array(KeyValue, "0+")
            task_offsets: list[TaskOffset] = array(TaskOffset, "0+")
            task_end_offsets: list[TaskOffset] = array(TaskOffset, "0+")
            assignment: Assignment = struct(Assignment, "0+")
            target_assignment: Assignment = struct(Assignment, "0+")
            is_classic: bool = boolean("0+")

        error_code: int = int16("0+")
        error_message: str | None = error_text("0+", nullable="0+", default=None)
        group_id: str = string("0+")
        group_state: str = string("0+")
        group_epoch: int = int32("0+")
        assignment_epoch: int = int32("0+")
        topology: Topology | None = struct(Topology, "0+", nullable="0+")
        members: list[Member] = array(Member, "0+")
        authorized_operations: int = int32("0+", default=-0x80000000)
        topology_description: TopologyDescription | None = struct(
            TopologyDescription, "1+", nullable="1+"
        )
        topology_description_status: int = int8("1+")
        assignor_name: str | None = string("1+", nullable="1+", default=None, ignorable=True)

    throttle_time_ms: int = int32("0+")
    groups: list[Group] = array(Group, "0+")


class StreamsGroupTopologyDescriptionUpdateRequest(
    Request,
    api_key=ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
    versions="0",
    flexible="0+",
):
    """Send the description of the topology, after a heartbeat's response has asked for it."""

    group_id: str = string("0+")
    member_id: str = string("0+")
    topology_epoch: int = int32("0+")
    topology_description: TopologyDescription = struct(TopologyDescription, "0+")


class StreamsGroupTopologyDescriptionUpdateResponse(
    Response,
    api_key=ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
    versions="0",
    flexible="0+",
):
    """The outcome of the update."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = error_text("0+", nullable="0+", default=None)
