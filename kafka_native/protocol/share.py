"""Share groups (KIP-932): membership, fetching what the broker acquires for a member, acknowledging it, and offsets.

Version 0 of these was of an early release and is gone from Kafka.
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
    record_batches,
    string,
    struct,
    uuid,
)


class ShareGroupHeartbeatRequest(
    Request, api_key=ApiKey.SHARE_GROUP_HEARTBEAT, versions="1-1", flexible="0+"
):
    """Join, stay in or leave a share group. Fields that have not changed stay None."""

    group_id: str = string("0+")
    member_id: str = string("0+")
    member_epoch: int = int32("0+")  # 0 joins, -1 leaves
    rack_id: str | None = string("0+", nullable="0+", default=None)
    subscribed_topic_names: list[str] | None = array(string(), "0+", nullable="0+", default=None)


class ShareGroupHeartbeatResponse(
    Response, api_key=ApiKey.SHARE_GROUP_HEARTBEAT, versions="1-1", flexible="0+"
):
    """The member's epoch, and its assignment when there is a new one."""

    class Assignment(Struct):
        """All that the member is to fetch from, from now on."""

        class TopicPartitions(Struct):
            """Partitions of one topic."""

            topic_id: bytes = uuid("0+")
            partitions: list[int] = array(int32(), "0+")

        topic_partitions: list[TopicPartitions] = array(TopicPartitions, "0+")

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = error_text("0+", nullable="0+", default=None)
    member_id: str | None = string("0+", nullable="0+", default=None)
    member_epoch: int = int32("0+")
    heartbeat_interval_ms: int = int32("0+")
    assignment: Assignment | None = struct(Assignment, "0+", nullable="0+")


class AcknowledgementBatch(Struct):
    """What became of a range of records: one type for all, or one for each."""

    first_offset: int = int64("0+")
    last_offset: int = int64("0+")
    acknowledge_types: list[int] = array(
        int8(), "0+"
    )  # 0 gap, 1 accept, 2 release, 3 reject, 4 renew (KIP-1222)


class ShareFetchRequest(Request, api_key=ApiKey.SHARE_FETCH, versions="1-2", flexible="0+"):
    """Acquire records, inside a share session; acknowledgements of earlier ones may come along."""

    class FetchTopic(Struct):
        """The partitions to add to the session, or with something to acknowledge, of one topic."""

        class FetchPartition(Struct):
            """One partition."""

            partition_index: int = int32("0+")
            partition_max_bytes: int = int32("0")
            acknowledgement_batches: list[AcknowledgementBatch] = array(AcknowledgementBatch, "0+")

        topic_id: bytes = uuid("0+")
        partitions: list[FetchPartition] = array(FetchPartition, "0+")

    class ForgottenTopic(Struct):
        """Partitions to take out of the session."""

        topic_id: bytes = uuid("0+")
        partitions: list[int] = array(int32(), "0+")

    group_id: str | None = string("0+", nullable="0+", default=None)
    member_id: str | None = string("0+", nullable="0+")
    share_session_epoch: int = int32("0+")  # 0 opens a session, -1 ends it
    max_wait_ms: int = int32("0+")
    min_bytes: int = int32("0+")
    max_bytes: int = int32("0+", default=0x7FFFFFFF)
    max_records: int = int32("1+")
    batch_size: int = int32("1+")
    share_acquire_mode: int = int8(
        "2+", ignorable=True
    )  # 0 whole batches, 1 no more records than asked for (KIP-1206)
    is_renew_ack: bool = boolean("2+")
    topics: list[FetchTopic] = array(FetchTopic, "0+")
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic, "0+")


class LeaderIdAndEpoch(Struct):
    """Who leads a partition, told with an error about leadership."""

    leader_id: int = int32("0+")
    leader_epoch: int = int32("0+")


class NodeEndpoint(Struct):
    """The address of a leader named in a response."""

    node_id: int = int32("0+")
    host: str = string("0+")
    port: int = int32("0+")
    rack: str | None = string("0+", nullable="0+", default=None)


class ShareFetchResponse(Response, api_key=ApiKey.SHARE_FETCH, versions="1-2", flexible="0+"):
    """Records, which of them the member has acquired, and what became of the acknowledgements."""

    class ShareFetchableTopicResponse(Struct):
        """What came of one topic."""

        class PartitionData(Struct):
            """What came of one partition."""

            class AcquiredRecords(Struct):
                """A range of records that are this member's until their lock expires."""

                first_offset: int = int64("0+")
                last_offset: int = int64("0+")
                delivery_count: int = int16("0+")

            partition_index: int = int32("0+")
            error_code: int = int16("0+")
            error_message: str | None = error_text("0+", nullable="0+", default=None)
            acknowledge_error_code: int = int16("0+")
            acknowledge_error_message: str | None = error_text("0+", nullable="0+", default=None)
            current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, "0+")
            records: bytes | memoryview | None = record_batches("0+", nullable="0")
            acquired_records: list[AcquiredRecords] = array(AcquiredRecords, "0+")

        topic_id: bytes = uuid("0+")
        partitions: list[PartitionData] = array(PartitionData, "0+")

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = error_text("0+", nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = int32("1+")
    responses: list[ShareFetchableTopicResponse] = array(ShareFetchableTopicResponse, "0+")
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "0+")


class ShareAcknowledgeRequest(
    Request, api_key=ApiKey.SHARE_ACKNOWLEDGE, versions="1-2", flexible="0+"
):
    """Tell what became of records, without fetching more."""

    class AcknowledgeTopic(Struct):
        """The partitions of one topic."""

        class AcknowledgePartition(Struct):
            """One partition."""

            partition_index: int = int32("0+")
            acknowledgement_batches: list[AcknowledgementBatch] = array(AcknowledgementBatch, "0+")

        topic_id: bytes = uuid("0+")
        partitions: list[AcknowledgePartition] = array(AcknowledgePartition, "0+")

    group_id: str | None = string("0+", nullable="0+", default=None)
    member_id: str | None = string("0+", nullable="0+")
    share_session_epoch: int = int32("0+")
    is_renew_ack: bool = boolean("2+")
    topics: list[AcknowledgeTopic] = array(AcknowledgeTopic, "0+")


class ShareAcknowledgeResponse(
    Response, api_key=ApiKey.SHARE_ACKNOWLEDGE, versions="1-2", flexible="0+"
):
    """Whether the acknowledgements count, by partition."""

    class ShareAcknowledgeTopicResponse(Struct):
        """What came of one topic."""

        class PartitionData(Struct):
            """What came of one partition."""

            partition_index: int = int32("0+")
            error_code: int = int16("0+")
            error_message: str | None = error_text("0+", nullable="0+", default=None)
            current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, "0+")

        topic_id: bytes = uuid("0+")
        partitions: list[PartitionData] = array(PartitionData, "0+")

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = error_text("0+", nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = int32("2+", ignorable=True)
    responses: list[ShareAcknowledgeTopicResponse] = array(ShareAcknowledgeTopicResponse, "0+")
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "0+")


class DescribeShareGroupOffsetsRequest(
    Request, api_key=ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, versions="0-1", flexible="0+"
):
    """Ask below which offsets share groups are done."""

    class Group(Struct):
        """A group, and its topics; None for all."""

        class Topic(Struct):
            """The partitions of one topic."""

            topic_name: str = string("0+")
            partitions: list[int] = array(int32(), "0+")

        group_id: str = string("0+")
        topics: list[Topic] | None = array(Topic, "0+", nullable="0+")

    groups: list[Group] = array(Group, "0+")


class DescribeShareGroupOffsetsResponse(
    Response, api_key=ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, versions="0-1", flexible="0+"
):
    """The offsets, or what is wrong, of groups and partitions."""

    class Group(Struct):
        """One group."""

        class Topic(Struct):
            """One topic."""

            class Partition(Struct):
                """One partition: -1 where the group has no offset, and where the lag isn't known."""

                partition_index: int = int32("0+")
                start_offset: int = int64("0+")
                leader_epoch: int = int32("0+")
                lag: int = int64("1+", default=-1, ignorable=True)
                error_code: int = int16("0+")
                error_message: str | None = error_text("0+", nullable="0+", default=None)

            topic_name: str = string("0+")
            topic_id: bytes = uuid("0+")
            partitions: list[Partition] = array(Partition, "0+")

        group_id: str = string("0+")
        topics: list[Topic] = array(Topic, "0+")
        error_code: int = int16("0+")
        error_message: str | None = error_text("0+", nullable="0+", default=None)

    throttle_time_ms: int = int32("0+")
    groups: list[Group] = array(Group, "0+")


class AlterShareGroupOffsetsRequest(
    Request, api_key=ApiKey.ALTER_SHARE_GROUP_OFFSETS, versions="0-0", flexible="0+"
):
    """Let a group without members go on elsewhere."""

    class Topic(Struct):
        """One topic."""

        class Partition(Struct):
            """One partition."""

            partition_index: int = int32("0+")
            start_offset: int = int64("0+")

        topic_name: str = string("0+")
        partitions: list[Partition] = array(Partition, "0+")

    group_id: str = string("0+")
    topics: list[Topic] = array(Topic, "0+")


class AlterShareGroupOffsetsResponse(
    Response, api_key=ApiKey.ALTER_SHARE_GROUP_OFFSETS, versions="0-0", flexible="0+"
):
    """What came of each partition."""

    class Topic(Struct):
        """One topic."""

        class Partition(Struct):
            """One partition."""

            partition_index: int = int32("0+")
            error_code: int = int16("0+")
            error_message: str | None = error_text("0+", nullable="0+", default=None)

        topic_name: str = string("0+")
        topic_id: bytes = uuid("0+")
        partitions: list[Partition] = array(Partition, "0+")

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = error_text("0+", nullable="0+", default=None)
    responses: list[Topic] = array(Topic, "0+")


class DeleteShareGroupOffsetsRequest(
    Request, api_key=ApiKey.DELETE_SHARE_GROUP_OFFSETS, versions="0-0", flexible="0+"
):
    """Let a group without members forget topics."""

    class Topic(Struct):
        """One topic."""

        topic_name: str = string("0+")

    group_id: str = string("0+")
    topics: list[Topic] = array(Topic, "0+")


class DeleteShareGroupOffsetsResponse(
    Response, api_key=ApiKey.DELETE_SHARE_GROUP_OFFSETS, versions="0-0", flexible="0+"
):
    """What came of each topic."""

    class Topic(Struct):
        """One topic."""

        topic_name: str = string("0+")
        topic_id: bytes = uuid("0+")
        error_code: int = int16("0+")
        error_message: str | None = error_text("0+", nullable="0+", default=None)

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = error_text("0+", nullable="0+", default=None)
    responses: list[Topic] = array(Topic, "0+")
