"""Administration of partitions: ElectLeaders, reassignments and log directories."""

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
)


class ElectLeadersRequest(Request, api_key=ApiKey.ELECT_LEADERS, versions="0-2", flexible="2+"):
    """Elect leaders again. ``topic_partitions=None`` means every partition."""

    class TopicPartitions(Struct):
        """Partitions of one topic."""

        topic: str = string("0+")
        partitions: list[int] = array(int32(), "0+")

    election_type: int = int8("1+")  # 0 the preferred replica, 1 any replica, even one out of sync
    topic_partitions: list[TopicPartitions] | None = array(TopicPartitions, "0+", nullable="0+")
    timeout_ms: int = int32("0+", default=60000)


class ElectLeadersResponse(Response, api_key=ApiKey.ELECT_LEADERS, versions="0-2", flexible="2+"):
    """The outcome for each election."""

    class Topic(Struct):
        """The outcome for one topic."""

        class Partition(Struct):
            """The outcome for one partition."""

            partition_id: int = int32("0+")
            error_code: int = int16("0+")
            error_message: str | None = error_text("0+", nullable="0+")

        topic: str = string("0+")
        partition_result: list[Partition] = array(Partition, "0+")

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("1+")
    replica_election_results: list[Topic] = array(Topic, "0+")


class AlterPartitionReassignmentsRequest(
    Request, api_key=ApiKey.ALTER_PARTITION_REASSIGNMENTS, versions="0-1", flexible="0+"
):
    """Move partitions to other brokers, or cancel such moves."""

    class Topic(Struct):
        """Partitions of one topic."""

        class Partition(Struct):
            """The new replicas of a partition; None cancels its reassignment."""

            partition_index: int = int32("0+")
            replicas: list[int] | None = array(int32(), "0+", nullable="0+", default=None)

        name: str = string("0+")
        partitions: list[Partition] = array(Partition, "0+")

    timeout_ms: int = int32("0+", default=60000)
    allow_replication_factor_change: bool = boolean("1+", default=True)
    topics: list[Topic] = array(Topic, "0+")


class AlterPartitionReassignmentsResponse(
    Response, api_key=ApiKey.ALTER_PARTITION_REASSIGNMENTS, versions="0-1", flexible="0+"
):
    """The outcome for each partition."""

    class Topic(Struct):
        """The outcome for one topic."""

        class Partition(Struct):
            """The outcome for one partition."""

            partition_index: int = int32("0+")
            error_code: int = int16("0+")
            error_message: str | None = error_text("0+", nullable="0+")

        name: str = string("0+")
        partitions: list[Partition] = array(Partition, "0+")

    throttle_time_ms: int = int32("0+")
    allow_replication_factor_change: bool = boolean("1+", default=True, ignorable=True)
    error_code: int = int16("0+")
    error_message: str | None = error_text("0+", nullable="0+")
    responses: list[Topic] = array(Topic, "0+")


class ListPartitionReassignmentsRequest(
    Request, api_key=ApiKey.LIST_PARTITION_REASSIGNMENTS, versions="0", flexible="0+"
):
    """Ask for the current reassignments. ``topics=None`` means all of them."""

    class Topic(Struct):
        """Partitions of one topic."""

        name: str = string("0+")
        partition_indexes: list[int] = array(int32(), "0+")

    timeout_ms: int = int32("0+", default=60000)
    topics: list[Topic] | None = array(Topic, "0+", nullable="0+", default=None)


class ListPartitionReassignmentsResponse(
    Response, api_key=ApiKey.LIST_PARTITION_REASSIGNMENTS, versions="0", flexible="0+"
):
    """The current reassignments."""

    class Topic(Struct):
        """The reassignments in one topic."""

        class Partition(Struct):
            """A reassignment: the current replicas, the added ones and the removed ones."""

            partition_index: int = int32("0+")
            replicas: list[int] = array(int32(), "0+")
            adding_replicas: list[int] = array(int32(), "0+")
            removing_replicas: list[int] = array(int32(), "0+")

        name: str = string("0+")
        partitions: list[Partition] = array(Partition, "0+")

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = error_text("0+", nullable="0+")
    topics: list[Topic] = array(Topic, "0+")


class DescribeLogDirsRequest(
    Request, api_key=ApiKey.DESCRIBE_LOG_DIRS, versions="1-5", flexible="2+"
):
    """Ask a broker for its log directories. ``topics=None`` means all their partitions."""

    class Topic(Struct):
        """Partitions of one topic."""

        topic: str = string("0+")
        partitions: list[int] = array(int32(), "0+")

    topics: list[Topic] | None = array(Topic, "0+", nullable="0+")


class DescribeLogDirsResponse(
    Response, api_key=ApiKey.DESCRIBE_LOG_DIRS, versions="1-5", flexible="2+"
):
    """The log directories of one broker."""

    class LogDir(Struct):
        """A log directory. Sizes are -1 if the broker doesn't know them."""

        class Topic(Struct):
            """The partitions of one topic in the directory."""

            class Partition(Struct):
                """The size of one partition."""

                partition_index: int = int32("0+")
                partition_size: int = int64("0+")
                offset_lag: int = int64("0+")
                is_future_key: bool = boolean("0+")

            name: str = string("0+")
            partitions: list[Partition] = array(Partition, "0+")

        error_code: int = int16("0+")
        log_dir: str = string("0+")
        topics: list[Topic] = array(Topic, "0+")
        total_bytes: int = int64("4+", default=-1, ignorable=True)
        usable_bytes: int = int64("4+", default=-1, ignorable=True)
        is_cordoned: bool = boolean("5+", ignorable=True)

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("3+", ignorable=True)
    results: list[LogDir] = array(LogDir, "0+")


class AlterReplicaLogDirsRequest(
    Request, api_key=ApiKey.ALTER_REPLICA_LOG_DIRS, versions="1-2", flexible="2+"
):
    """Move replicas of a broker between its log directories."""

    class Dir(Struct):
        """A log directory and its new partitions."""

        class Topic(Struct):
            """Partitions of one topic."""

            name: str = string("0+")
            partitions: list[int] = array(int32(), "0+")

        path: str = string("0+")
        topics: list[Topic] = array(Topic, "0+")

    dirs: list[Dir] = array(Dir, "0+")


class AlterReplicaLogDirsResponse(
    Response, api_key=ApiKey.ALTER_REPLICA_LOG_DIRS, versions="1-2", flexible="2+"
):
    """The outcome for each move."""

    class Topic(Struct):
        """The outcome for one topic."""

        class Partition(Struct):
            """The outcome for one partition."""

            partition_index: int = int32("0+")
            error_code: int = int16("0+")

        topic_name: str = string("0+")
        partitions: list[Partition] = array(Partition, "0+")

    throttle_time_ms: int = int32("0+")
    results: list[Topic] = array(Topic, "0+")
