"""Share groups (KIP-932): membership, fetching and acknowledging acquired records, offsets.

Kafka has removed version 0 of these APIs, of an early release.
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
    """Join, stay in or leave a share group. Unchanged fields are None."""

    group_id: str = string("0+")
    member_id: str = string("0+")
    member_epoch: int = int32("0+")  # 0 joins, -1 leaves
    rack_id: str | None = string("0+", nullable="0+", default=None)
    subscribed_topic_names: list[str] | None = array(string(), "0+", nullable="0+", default=None)


class ShareGroupHeartbeatResponse(
    Response, api_key=ApiKey.SHARE_GROUP_HEARTBEAT, versions="1-1", flexible="0+"
):
    """The member's epoch, and its assignment if that has changed."""

    class Assignment(Struct):
        """The complete assignment of the member."""

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
    """The decision about a range of records: one type for all, or one for each."""

    first_offset: int = int64("0+")
    last_offset: int = int64("0+")
    # 0 gap, 1 accept, 2 release, 3 reject, 4 renew (KIP-1222)
    acknowledge_types: list[int] = array(int8(), "0+")


class ShareFetchRequest(Request, api_key=ApiKey.SHARE_FETCH, versions="1-2", flexible="0+"):
    """Acquire records in a share session. The request may also acknowledge earlier records."""

    class FetchTopic(Struct):
        """The partitions of one topic to add to the session or to acknowledge."""

        class FetchPartition(Struct):
            """One partition."""

            partition_index: int = int32("0+")
            partition_max_bytes: int = int32("0")
            acknowledgement_batches: list[AcknowledgementBatch] = array(AcknowledgementBatch, "0+")

        topic_id: bytes = uuid("0+")
        partitions: list[FetchPartition] = array(FetchPartition, "0+")

    class ForgottenTopic(Struct):
        """Partitions to remove from the session."""

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
    # 0 whole batches, 1 at most the requested number of records (KIP-1206)
    share_acquire_mode: int = int8("2+", ignorable=True)
    is_renew_ack: bool = boolean("2+")
    topics: list[FetchTopic] = array(FetchTopic, "0+")
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic, "0+")


class LeaderIdAndEpoch(Struct):
    """The new leader of a partition. The broker sends it with an error about leadership."""

    leader_id: int = int32("0+")
    leader_epoch: int = int32("0+")


class NodeEndpoint(Struct):
    """The address of a leader named in a response."""

    node_id: int = int32("0+")
    host: str = string("0+")
    port: int = int32("0+")
    rack: str | None = string("0+", nullable="0+", default=None)


class ShareFetchResponse(Response, api_key=ApiKey.SHARE_FETCH, versions="1-2", flexible="0+"):
    """Records, the ranges that the member has acquired, and the outcome of the acknowledgements."""

    class ShareFetchableTopicResponse(Struct):
        """The records of one topic."""

        class PartitionData(Struct):
            """The records of one partition, or its errors."""

            class AcquiredRecords(Struct):
                """A range of records that this member holds until their lock expires."""

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
    """Acknowledge records without fetching more."""

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
    """The outcome of the acknowledgements, by partition."""

    class ShareAcknowledgeTopicResponse(Struct):
        """The outcome for one topic."""

        class PartitionData(Struct):
            """The outcome for one partition."""

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
    """Ask for the start offsets of share groups."""

    class Group(Struct):
        """A group and its topics; None means all topics."""

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
    """The start offsets, or the errors, of groups and partitions."""

    class Group(Struct):
        """The offsets or the error of one group."""

        class Topic(Struct):
            """The offsets in one topic."""

            class Partition(Struct):
                """One partition: -1 if the group has no offset, or if the lag is unknown."""

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
    """Set the start offsets of a group without members."""

    class Topic(Struct):
        """The new offsets in one topic."""

        class Partition(Struct):
            """The new start offset of one partition."""

            partition_index: int = int32("0+")
            start_offset: int = int64("0+")

        topic_name: str = string("0+")
        partitions: list[Partition] = array(Partition, "0+")

    group_id: str = string("0+")
    topics: list[Topic] = array(Topic, "0+")


class AlterShareGroupOffsetsResponse(
    Response, api_key=ApiKey.ALTER_SHARE_GROUP_OFFSETS, versions="0-0", flexible="0+"
):
    """The outcome for each partition."""

    class Topic(Struct):
        """The outcome for one topic."""

        class Partition(Struct):
            """The outcome for one partition."""

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
    """Delete the offsets of topics in a group without members."""

    class Topic(Struct):
        """A topic whose offsets are deleted."""

        topic_name: str = string("0+")

    group_id: str = string("0+")
    topics: list[Topic] = array(Topic, "0+")


class DeleteShareGroupOffsetsResponse(
    Response, api_key=ApiKey.DELETE_SHARE_GROUP_OFFSETS, versions="0-0", flexible="0+"
):
    """The outcome for each topic."""

    class Topic(Struct):
        """The outcome for one topic."""

        topic_name: str = string("0+")
        topic_id: bytes = uuid("0+")
        error_code: int = int16("0+")
        error_message: str | None = error_text("0+", nullable="0+", default=None)

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = error_text("0+", nullable="0+", default=None)
    responses: list[Topic] = array(Topic, "0+")
