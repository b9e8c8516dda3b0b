"""Metadata, DescribeCluster and DescribeTopicPartitions: brokers, topics and leaders."""

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
    string,
    struct,
    uuid,
)

if TYPE_CHECKING:
    from typing_extensions import Self


class MetadataRequest(Request, api_key=ApiKey.METADATA, versions="0-13", flexible="9+"):
    """Ask for brokers, topics and partition leaders.

    ``topics=None`` means all topics. In version 0 an empty list means all topics.
    """

    class Topic(Struct):
        """A requested topic, by name or by id."""

        topic_id: bytes = uuid("10+", ignorable=True)
        name: str | None = string("0+", nullable="10+")

    topics: list[Topic] | None = array(Topic, "0+", nullable="1+")  # None: all topics
    allow_auto_topic_creation: bool = boolean("4+", default=True)
    include_cluster_authorized_operations: bool = boolean("8-10")
    include_topic_authorized_operations: bool = boolean("8+")

    def for_version(self, version: int) -> Self:
        """Old brokers create topics as their own configuration says."""
        if version >= 4:
            return self
        message = copy.copy(self)
        message.allow_auto_topic_creation = True
        if version == 0 and message.topics is None:
            message.topics = []  # all
        return message


class MetadataResponse(Response, api_key=ApiKey.METADATA, versions="0-13", flexible="9+"):
    """The cluster as one broker sees it."""

    class Broker(Struct):
        """A broker and the address that the listener of this connection advertises."""

        node_id: int = int32("0+")
        host: str = string("0+")
        port: int = int32("0+")
        rack: str | None = string("1+", nullable="1+", default=None, ignorable=True)

    class Topic(Struct):
        """A topic, or the error that the broker reports instead."""

        class Partition(Struct):
            """A partition with its leader and its replicas."""

            error_code: int = int16("0+")
            partition_index: int = int32("0+")
            leader_id: int = int32("0+")
            leader_epoch: int = int32("7+", default=-1, ignorable=True)
            replica_nodes: list[int] = array(int32(), "0+")
            isr_nodes: list[int] = array(int32(), "0+")
            offline_replicas: list[int] = array(int32(), "5+", ignorable=True)

        error_code: int = int16("0+")
        name: str | None = string("0+", nullable="12+")
        topic_id: bytes = uuid("10+", ignorable=True)
        is_internal: bool = boolean("1+", ignorable=True)
        partitions: list[Partition] = array(Partition, "0+")
        # One bit for each AclOperation. The default means unknown
        topic_authorized_operations: int = int32("8+", default=-0x80000000)

    throttle_time_ms: int = int32("3+", ignorable=True)
    brokers: list[Broker] = array(Broker, "0+")
    cluster_id: str | None = string("2+", nullable="2+", default=None, ignorable=True)
    controller_id: int = int32("1+", default=-1, ignorable=True)
    topics: list[Topic] = array(Topic, "0+")
    cluster_authorized_operations: int = int32("8-10", default=-0x80000000)
    error_code: int = int16("13+", ignorable=True)


class DescribeClusterRequest(
    Request, api_key=ApiKey.DESCRIBE_CLUSTER, versions="0-2", flexible="0+"
):
    """Ask for the brokers or controllers and the identity of the cluster."""

    include_cluster_authorized_operations: bool = boolean("0+")
    endpoint_type: int = int8("1+", default=1)  # 1 brokers, 2 controllers
    include_fenced_brokers: bool = boolean("2+")


class DescribeClusterResponse(
    Response, api_key=ApiKey.DESCRIBE_CLUSTER, versions="0-2", flexible="0+"
):
    """The brokers or controllers, and the identity of the cluster."""

    class Broker(Struct):
        """A broker or a controller and its address."""

        broker_id: int = int32("0+")
        host: str = string("0+")
        port: int = int32("0+")
        rack: str | None = string("0+", nullable="0+", default=None)
        is_fenced: bool = boolean("2+")

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = error_text("0+", nullable="0+", default=None)
    endpoint_type: int = int8("1+", default=1)
    cluster_id: str = string("0+")
    controller_id: int = int32("0+", default=-1)
    brokers: list[Broker] = array(Broker, "0+")
    cluster_authorized_operations: int = int32("0+", default=-0x80000000)


class DescribeTopicPartitionsRequest(
    Request, api_key=ApiKey.DESCRIBE_TOPIC_PARTITIONS, versions="0", flexible="0+"
):
    """Ask for topics page by page. The response's cursor requests the next page."""

    class Topic(Struct):
        """A requested topic."""

        name: str = string("0+")

    class Cursor(Struct):
        """The topic and the partition at which a page begins."""

        topic_name: str = string("0+")
        partition_index: int = int32("0+")

    topics: list[Topic] = array(Topic, "0+")
    response_partition_limit: int = int32("0+", default=2000)
    cursor: Cursor | None = struct(Cursor, "0+", nullable="0+")


class DescribeTopicPartitionsResponse(
    Response, api_key=ApiKey.DESCRIBE_TOPIC_PARTITIONS, versions="0", flexible="0+"
):
    """One page of topics."""

    class Topic(Struct):
        """A topic, or the error that the broker reports instead."""

        class Partition(Struct):
            """A partition, with the replicas that are still eligible as leader."""

            error_code: int = int16("0+")
            partition_index: int = int32("0+")
            leader_id: int = int32("0+")
            leader_epoch: int = int32("0+", default=-1, ignorable=True)
            replica_nodes: list[int] = array(int32(), "0+")
            isr_nodes: list[int] = array(int32(), "0+")
            eligible_leader_replicas: list[int] | None = array(
                int32(), "0+", nullable="0+", default=None
            )
            last_known_elr: list[int] | None = array(int32(), "0+", nullable="0+", default=None)
            offline_replicas: list[int] = array(int32(), "0+", ignorable=True)

        error_code: int = int16("0+")
        name: str | None = string("0+", nullable="0+")
        topic_id: bytes = uuid("0+", ignorable=True)
        is_internal: bool = boolean("0+", ignorable=True)
        partitions: list[Partition] = array(Partition, "0+")
        topic_authorized_operations: int = int32("0+", default=-0x80000000)

    class NextCursor(Struct):
        """The start of the next page."""

        topic_name: str = string("0+")
        partition_index: int = int32("0+")

    throttle_time_ms: int = int32("0+", ignorable=True)
    topics: list[Topic] = array(Topic, "0+")
    next_cursor: NextCursor | None = struct(NextCursor, "0+", nullable="0+")
