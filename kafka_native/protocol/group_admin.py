"""Administration of groups: list, describe, delete."""

from __future__ import annotations

from kafka_native.protocol.api_keys import ApiKey
from kafka_native.protocol.schema import (
    Request,
    Response,
    Struct,
    array,
    boolean,
    data,
    error_text,
    int8,
    int16,
    int32,
    string,
    struct,
    uuid,
)


class DescribeGroupsRequest(Request, api_key=ApiKey.DESCRIBE_GROUPS, versions="0-6", flexible="5+"):
    """Ask for the state of classic groups."""

    groups: list[str] = array(string(), "0+")
    include_authorized_operations: bool = boolean("3+")


class DescribeGroupsResponse(
    Response, api_key=ApiKey.DESCRIBE_GROUPS, versions="0-6", flexible="5+"
):
    """The state of the groups."""

    class Group(Struct):
        """A group, or the error that the broker reports instead."""

        class Member(Struct):
            """A member, with its subscription and assignment as it sent them."""

            member_id: str = string("0+")
            group_instance_id: str | None = string(
                "4+", nullable="4+", default=None, ignorable=True
            )
            client_id: str = string("0+")
            client_host: str = string("0+")
            member_metadata: bytes = data("0+")
            member_assignment: bytes = data("0+")

        error_code: int = int16("0+")
        error_message: str | None = error_text("6+", nullable="6+", default=None)
        group_id: str = string("0+")
        group_state: str = string("0+")
        protocol_type: str = string("0+")
        protocol_data: str = string("0+")
        members: list[Member] = array(Member, "0+")
        authorized_operations: int = int32("3+", default=-0x80000000)

    throttle_time_ms: int = int32("1+", ignorable=True)
    groups: list[Group] = array(Group, "0+")


class ListGroupsRequest(Request, api_key=ApiKey.LIST_GROUPS, versions="0-5", flexible="3+"):
    """Ask a broker for the groups that it coordinates."""

    states_filter: list[str] = array(string(), "4+")
    types_filter: list[str] = array(string(), "5+")


class ListGroupsResponse(Response, api_key=ApiKey.LIST_GROUPS, versions="0-5", flexible="3+"):
    """The groups of one coordinator."""

    class Group(Struct):
        """A group."""

        group_id: str = string("0+")
        protocol_type: str = string("0+")
        group_state: str = string("4+", ignorable=True)
        group_type: str = string("5+", ignorable=True)

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0+")
    groups: list[Group] = array(Group, "0+")


class DeleteGroupsRequest(Request, api_key=ApiKey.DELETE_GROUPS, versions="0-3", flexible="2+"):
    """Delete groups without members."""

    groups_names: list[str] = array(string(), "0+")


class DeleteGroupsResponse(Response, api_key=ApiKey.DELETE_GROUPS, versions="0-3", flexible="2+"):
    """The outcome for each group."""

    class Group(Struct):
        """The outcome for one group."""

        group_id: str = string("0+")
        error_code: int = int16("0+")
        error_message: str | None = error_text("3+", nullable="3+", default=None, ignorable=True)

    throttle_time_ms: int = int32("0+")
    results: list[Group] = array(Group, "0+")


class ConsumerGroupDescribeRequest(
    Request, api_key=ApiKey.CONSUMER_GROUP_DESCRIBE, versions="0-1", flexible="0+"
):
    """Ask for the state of groups of the consumer protocol."""

    group_ids: list[str] = array(string(), "0+")
    include_authorized_operations: bool = boolean("0+")


class MemberAssignment(Struct):
    """The partitions of a member's current or target assignment."""

    class TopicPartitions(Struct):
        """Partitions of one topic."""

        topic_id: bytes = uuid("0+")
        topic_name: str = string("0+")
        partitions: list[int] = array(int32(), "0+")

    topic_partitions: list[TopicPartitions] = array(TopicPartitions, "0+")


class ConsumerGroupDescribeResponse(
    Response, api_key=ApiKey.CONSUMER_GROUP_DESCRIBE, versions="0-1", flexible="0+"
):
    """The state of the groups."""

    class Group(Struct):
        """A group, or the error that the broker reports instead."""

        class Member(Struct):
            """A member with its current assignment and its target assignment."""

            member_id: str = string("0+")
            instance_id: str | None = string("0+", nullable="0+", default=None)
            rack_id: str | None = string("0+", nullable="0+", default=None)
            member_epoch: int = int32("0+")
            client_id: str = string("0+")
            client_host: str = string("0+")
            subscribed_topic_names: list[str] = array(string(), "0+")
            subscribed_topic_regex: str | None = string("0+", nullable="0+", default=None)
            assignment: MemberAssignment = struct(MemberAssignment, "0+")
            target_assignment: MemberAssignment = struct(MemberAssignment, "0+")
            member_type: int = int8("1+", default=-1, ignorable=True)

        error_code: int = int16("0+")
        error_message: str | None = error_text("0+", nullable="0+", default=None)
        group_id: str = string("0+")
        group_state: str = string("0+")
        group_epoch: int = int32("0+")
        assignment_epoch: int = int32("0+")
        assignor_name: str = string("0+")
        members: list[Member] = array(Member, "0+")
        authorized_operations: int = int32("0+", default=-0x80000000)

    throttle_time_ms: int = int32("0+")
    groups: list[Group] = array(Group, "0+")


class ShareGroupDescribeRequest(
    Request, api_key=ApiKey.SHARE_GROUP_DESCRIBE, versions="1-1", flexible="0+"
):
    """Ask for the state of share groups. Kafka has removed version 0, of an early release."""

    group_ids: list[str] = array(string(), "0+")
    include_authorized_operations: bool = boolean("0+")


class ShareGroupDescribeResponse(
    Response, api_key=ApiKey.SHARE_GROUP_DESCRIBE, versions="1-1", flexible="0+"
):
    """The state of the groups."""

    class Group(Struct):
        """A group, or the error that the broker reports instead."""

        class Member(Struct):
            """A member and its partitions, which other members may share."""

            member_id: str = string("0+")
            rack_id: str | None = string("0+", nullable="0+", default=None)
            member_epoch: int = int32("0+")
            client_id: str = string("0+")
            client_host: str = string("0+")
            subscribed_topic_names: list[str] = array(string(), "0+")
            assignment: MemberAssignment = struct(MemberAssignment, "0+")

        error_code: int = int16("0+")
        error_message: str | None = error_text("0+", nullable="0+", default=None)
        group_id: str = string("0+")
        group_state: str = string("0+")
        group_epoch: int = int32("0+")
        assignment_epoch: int = int32("0+")
        assignor_name: str = string("0+")
        members: list[Member] = array(Member, "0+")
        authorized_operations: int = int32("0+", default=-0x80000000)

    throttle_time_ms: int = int32("0+")
    groups: list[Group] = array(Group, "0+")
