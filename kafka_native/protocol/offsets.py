"""Offsets: list them by time or epoch, commit, fetch and delete them."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from kafka_native.protocol.api_keys import ApiKey
from kafka_native.protocol.schema import (
    ZERO_UUID,
    Request,
    Response,
    Struct,
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    string,
    uuid,
)

if TYPE_CHECKING:
    from typing_extensions import Self

LAST_BY_NAME = 9
"""The last OffsetCommit and OffsetFetch version with topic names; later ones have topic ids."""
MAX_TIMESTAMP = -3
"""The timestamp that means the record with the highest timestamp (KIP-734)."""


class ListOffsetsRequest(Request, api_key=ApiKey.LIST_OFFSETS, versions="0-11", flexible="6+"):
    """Look up offsets by timestamp.

    Negative timestamps have a special meaning, for instance earliest or latest.
    """

    class Topic(Struct):
        """The lookups in one topic."""

        class Partition(Struct):
            """The lookup in one partition."""

            partition_index: int = int32("0+")
            current_leader_epoch: int = int32("4+", default=-1, ignorable=True)
            timestamp: int = int64("0+")
            # Version 0 returns the starts of segments
            max_num_offsets: int = int32("0", default=1, ignorable=True)

        name: str = string("0+")
        partitions: list[Partition] = array(Partition, "0+")

    replica_id: int = int32("0+")  # clients are -1
    isolation_level: int = int8("2+")  # 0 read_uncommitted, 1 read_committed
    topics: list[Topic] = array(Topic, "0+")
    timeout_ms: int = int32("10+", ignorable=True)

    def expressible_versions(self) -> tuple[int, int]:
        """The record with the highest timestamp needs version 7 (KIP-734)."""
        wants_max_timestamp = any(
            partition.timestamp == MAX_TIMESTAMP
            for topic in self.topics
            for partition in topic.partitions
        )
        return (7 if wants_max_timestamp else self.min_version), self.max_version

    def for_version(self, version: int) -> Self:
        """Old brokers have no transactions, so no isolation level."""
        if version >= 2:
            return self
        message = copy.copy(self)
        message.isolation_level = 0
        return message


class ListOffsetsResponse(Response, api_key=ApiKey.LIST_OFFSETS, versions="0-11", flexible="6+"):
    """The offsets of the timestamps."""

    class Topic(Struct):
        """The offsets in one topic."""

        class Partition(Struct):
            """The offset in one partition, or -1 for none."""

            partition_index: int = int32("0+")
            error_code: int = int16("0+")
            old_style_offsets: list[int] = array(int64(), "0", ignorable=True)
            timestamp: int = int64("1+", default=-1)
            offset: int = int64("1+", default=-1)
            leader_epoch: int = int32("4+", default=-1)

        name: str = string("0+")
        partitions: list[Partition] = array(Partition, "0+")

    throttle_time_ms: int = int32("2+", ignorable=True)
    topics: list[Topic] = array(Topic, "0+")


class OffsetForLeaderEpochRequest(
    Request, api_key=ApiKey.OFFSET_FOR_LEADER_EPOCH, versions="0-4", flexible="4+"
):
    """Ask for the end offsets of leader epochs, to detect a truncated log."""

    class Topic(Struct):
        """The lookups in one topic."""

        class Partition(Struct):
            """The lookup in one partition."""

            partition: int = int32("0+")
            current_leader_epoch: int = int32("2+", default=-1, ignorable=True)
            leader_epoch: int = int32("0+")

        topic: str = string("0+")
        partitions: list[Partition] = array(Partition, "0+")

    replica_id: int = int32("3+", default=-2, ignorable=True)  # clients are -1
    topics: list[Topic] = array(Topic, "0+")

    def expressible_versions(self) -> tuple[int, int]:
        """Versions 0 and 1 are for brokers only."""
        return 2, self.max_version


class OffsetForLeaderEpochResponse(
    Response, api_key=ApiKey.OFFSET_FOR_LEADER_EPOCH, versions="0-4", flexible="4+"
):
    """The end offsets of the epochs."""

    class Topic(Struct):
        """The end offsets in one topic."""

        class Partition(Struct):
            """The largest epoch up to the requested one, and its end offset."""

            error_code: int = int16("0+")
            partition: int = int32("0+")
            leader_epoch: int = int32("1+", default=-1, ignorable=True)
            end_offset: int = int64("0+", default=-1)

        topic: str = string("0+")
        partitions: list[Partition] = array(Partition, "0+")

    throttle_time_ms: int = int32("2+", ignorable=True)
    topics: list[Topic] = array(Topic, "0+")


class OffsetCommitRequest(Request, api_key=ApiKey.OFFSET_COMMIT, versions="0-10", flexible="8+"):
    """Commit offsets of a group."""

    class Topic(Struct):
        """The offsets in one topic, by name up to version 9, by id from version 10 on."""

        class Partition(Struct):
            """The next offset to read in one partition."""

            partition_index: int = int32("0+")
            committed_offset: int = int64("0+")
            committed_leader_epoch: int = int32("6+", default=-1, ignorable=True)
            commit_timestamp: int = int64("1", default=-1, ignorable=True)
            committed_metadata: str | None = string("0+", nullable="0+")

        name: str = string("0-9", ignorable=True)
        topic_id: bytes = uuid("10+", ignorable=True)
        partitions: list[Partition] = array(Partition, "0+")

    group_id: str = string("0+")
    generation_id_or_member_epoch: int = int32("1+", default=-1, ignorable=True)
    member_id: str = string("1+", ignorable=True)
    group_instance_id: str | None = string("7+", nullable="7+", default=None)
    retention_time_ms: int = int64("2-4", default=-1, ignorable=True)
    topics: list[Topic] = array(Topic, "0+")

    def expressible_versions(self) -> tuple[int, int]:
        """A topic whose id isn't known needs a version with names."""
        by_name = any(topic.topic_id == ZERO_UUID for topic in self.topics)
        return self.min_version, (LAST_BY_NAME if by_name else self.max_version)

    def for_version(self, version: int) -> Self:
        """Old brokers have no static members."""
        if version >= 7:
            return self
        message = copy.copy(self)
        message.group_instance_id = None
        return message


class OffsetCommitResponse(Response, api_key=ApiKey.OFFSET_COMMIT, versions="0-10", flexible="8+"):
    """The outcome for each partition."""

    class Topic(Struct):
        """The outcome for one topic."""

        class Partition(Struct):
            """The outcome for one partition."""

            partition_index: int = int32("0+")
            error_code: int = int16("0+")

        name: str = string("0-9", ignorable=True)
        topic_id: bytes = uuid("10+", ignorable=True)
        partitions: list[Partition] = array(Partition, "0+")

    throttle_time_ms: int = int32("3+", ignorable=True)
    topics: list[Topic] = array(Topic, "0+")


class OffsetFetchRequest(Request, api_key=ApiKey.OFFSET_FETCH, versions="0-10", flexible="6+"):
    """Fetch committed offsets, of one group up to version 7, of several groups later."""

    class Topic(Struct):
        """Requested partitions, up to version 7."""

        name: str = string("0-7")
        partition_indexes: list[int] = array(int32(), "0-7")

    class Group(Struct):
        """A requested group. ``topics=None`` means all its partitions."""

        class Topic(Struct):
            """Requested partitions."""

            name: str = string("8-9", ignorable=True)
            topic_id: bytes = uuid("10+", ignorable=True)
            partition_indexes: list[int] = array(int32(), "8+")

        group_id: str = string("8+")
        member_id: str | None = string("9+", nullable="9+", default=None, ignorable=True)
        member_epoch: int = int32("9+", default=-1, ignorable=True)
        topics: list[Topic] | None = array(Topic, "8+", nullable="8+")

    group_id: str = string("0-7")
    topics: list[Topic] | None = array(Topic, "0-7", nullable="2-7")
    groups: list[Group] = array(Group, "8+")
    require_stable: bool = boolean("7+")

    def expressible_versions(self) -> tuple[int, int]:
        """A topic whose id isn't known needs a version with names."""
        by_name = any(
            group.topics is None or any(topic.topic_id == ZERO_UUID for topic in group.topics)
            for group in self.groups
        )
        return self.min_version, (LAST_BY_NAME if by_name else self.max_version)

    def for_version(self, version: int) -> Self:
        """For one group or several, as the version has it."""
        message = copy.copy(self)
        if version >= 8:
            message.group_id, message.topics = "", []
        else:
            message.groups = []
        # older brokers have only stable offsets
        message.require_stable = message.require_stable and version >= 7
        return message


class OffsetFetchResponse(Response, api_key=ApiKey.OFFSET_FETCH, versions="0-10", flexible="6+"):
    """The committed offsets."""

    class Topic(Struct):
        """The offsets in one topic, up to version 7."""

        class Partition(Struct):
            """The committed offset, or -1 for none."""

            partition_index: int = int32("0-7")
            committed_offset: int = int64("0-7")
            committed_leader_epoch: int = int32("5-7", default=-1, ignorable=True)
            metadata: str | None = string("0-7", nullable="0-7")
            error_code: int = int16("0-7")

        name: str = string("0-7")
        partitions: list[Partition] = array(Partition, "0-7")

    class Group(Struct):
        """The offsets of one group."""

        class Topic(Struct):
            """The offsets in one topic."""

            class Partition(Struct):
                """The committed offset, or -1 for none."""

                partition_index: int = int32("8+")
                committed_offset: int = int64("8+")
                committed_leader_epoch: int = int32("8+", default=-1, ignorable=True)
                metadata: str | None = string("8+", nullable="8+")
                error_code: int = int16("8+")

            name: str = string("8-9", ignorable=True)
            topic_id: bytes = uuid("10+", ignorable=True)
            partitions: list[Partition] = array(Partition, "8+")

        group_id: str = string("8+")
        topics: list[Topic] = array(Topic, "8+")
        error_code: int = int16("8+")

    throttle_time_ms: int = int32("3+", ignorable=True)
    topics: list[Topic] = array(Topic, "0-7")
    error_code: int = int16("2-7", ignorable=True)
    groups: list[Group] = array(Group, "8+")


class OffsetDeleteRequest(Request, api_key=ApiKey.OFFSET_DELETE, versions="0"):
    """Delete committed offsets of a group."""

    class Topic(Struct):
        """Partitions of one topic."""

        class Partition(Struct):
            """The partition whose offset is deleted."""

            partition_index: int = int32("0+")

        name: str = string("0+")
        partitions: list[Partition] = array(Partition, "0+")

    group_id: str = string("0+")
    topics: list[Topic] = array(Topic, "0+")


class OffsetDeleteResponse(Response, api_key=ApiKey.OFFSET_DELETE, versions="0"):
    """The outcome for each partition."""

    class Topic(Struct):
        """The outcome for one topic."""

        class Partition(Struct):
            """The outcome for one partition."""

            partition_index: int = int32("0+")
            error_code: int = int16("0+")

        name: str = string("0+")
        partitions: list[Partition] = array(Partition, "0+")

    error_code: int = int16("0+")
    throttle_time_ms: int = int32("0+", ignorable=True)
    topics: list[Topic] = array(Topic, "0+")


class DeleteRecordsRequest(Request, api_key=ApiKey.DELETE_RECORDS, versions="0-2", flexible="2+"):
    """Delete the records before an offset."""

    class Topic(Struct):
        """Partitions of one topic."""

        class Partition(Struct):
            """The new first offset of a partition; -1 means the high watermark."""

            partition_index: int = int32("0+")
            offset: int = int64("0+")

        name: str = string("0+")
        partitions: list[Partition] = array(Partition, "0+")

    topics: list[Topic] = array(Topic, "0+")
    timeout_ms: int = int32("0+")


class DeleteRecordsResponse(Response, api_key=ApiKey.DELETE_RECORDS, versions="0-2", flexible="2+"):
    """The new first offsets of the logs."""

    class Topic(Struct):
        """The outcome for one topic."""

        class Partition(Struct):
            """The outcome for one partition."""

            partition_index: int = int32("0+")
            low_watermark: int = int64("0+")
            error_code: int = int16("0+")

        name: str = string("0+")
        partitions: list[Partition] = array(Partition, "0+")

    throttle_time_ms: int = int32("0+")
    topics: list[Topic] = array(Topic, "0+")
