"""Group membership: the classic protocol, and the consumer protocol of KIP-848."""

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
    data,
    error_text,
    int16,
    int32,
    string,
    struct,
    uuid,
)

if TYPE_CHECKING:
    from typing_extensions import Self


class JoinGroupRequest(Request, api_key=ApiKey.JOIN_GROUP, versions="0-9", flexible="6+"):
    """Join a classic group, or rejoin it in a rebalance."""

    class Protocol(Struct):
        """An assignor that the member offers, with its subscription."""

        name: str = string("0+")
        metadata: bytes = data("0+")

    group_id: str = string("0+")
    session_timeout_ms: int = int32("0+")
    rebalance_timeout_ms: int = int32("1+", default=-1, ignorable=True)
    member_id: str = string("0+")
    group_instance_id: str | None = string("5+", nullable="5+", default=None)
    protocol_type: str = string("0+")
    protocols: list[Protocol] = array(Protocol, "0+")
    reason: str | None = string("8+", nullable="8+", default=None, ignorable=True)


class JoinGroupResponse(Response, api_key=ApiKey.JOIN_GROUP, versions="0-9", flexible="6+"):
    """The new generation. The leader also gets the members."""

    class Member(Struct):
        """A member and its subscription, as input of the leader's assignor."""

        member_id: str = string("0+")
        group_instance_id: str | None = string("5+", nullable="5+", default=None, ignorable=True)
        metadata: bytes = data("0+")

    throttle_time_ms: int = int32("2+", ignorable=True)
    error_code: int = int16("0+")
    generation_id: int = int32("0+", default=-1)
    protocol_type: str | None = string("7+", nullable="7+", default=None, ignorable=True)
    protocol_name: str | None = string("0+", nullable="7+")
    leader: str = string("0+")
    skip_assignment: bool = boolean("9+")
    member_id: str = string("0+")
    members: list[Member] = array(Member, "0+")


class SyncGroupRequest(Request, api_key=ApiKey.SYNC_GROUP, versions="0-5", flexible="4+"):
    """Ask for this generation's assignment. The leader sends the assignments of all members."""

    class Assignment(Struct):
        """The assignment of one member."""

        member_id: str = string("0+")
        assignment: bytes = data("0+")

    group_id: str = string("0+")
    generation_id: int = int32("0+")
    member_id: str = string("0+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    protocol_type: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    assignments: list[Assignment] = array(Assignment, "0+")


class SyncGroupResponse(Response, api_key=ApiKey.SYNC_GROUP, versions="0-5", flexible="4+"):
    """The assignment of this member."""

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0+")
    protocol_type: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    assignment: bytes = data("0+")


class HeartbeatRequest(Request, api_key=ApiKey.HEARTBEAT, versions="0-4", flexible="4+"):
    """Keep the membership in a classic group alive."""

    group_id: str = string("0+")
    generation_id: int = int32("0+")
    member_id: str = string("0+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)


class HeartbeatResponse(Response, api_key=ApiKey.HEARTBEAT, versions="0-4", flexible="4+"):
    """Whether the membership is valid, or a reason to rejoin."""

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0+")


class LeaveGroupRequest(Request, api_key=ApiKey.LEAVE_GROUP, versions="0-5", flexible="4+"):
    """Leave a classic group. From version 3 on, several members can leave at once."""

    class Member(Struct):
        """A member that leaves."""

        member_id: str = string("3+")
        group_instance_id: str | None = string("3+", nullable="3+", default=None)
        reason: str | None = string("5+", nullable="5+", default=None, ignorable=True)

    group_id: str = string("0+")
    member_id: str = string("0-2")
    members: list[Member] = array(Member, "3+")

    def expressible_versions(self) -> tuple[int, int]:
        """Several members and instance ids need version 3 (KIP-345)."""
        return (self.min_version if self.member_id else 3), self.max_version

    def for_version(self, version: int) -> Self:
        """With one member or with several, as the version has it."""
        message = copy.copy(self)
        if version >= 3:
            message.member_id = ""
        else:
            message.members = []
        return message


class LeaveGroupResponse(Response, api_key=ApiKey.LEAVE_GROUP, versions="0-5", flexible="4+"):
    """The outcome for each member."""

    class Member(Struct):
        """The outcome for one member."""

        member_id: str = string("3+")
        group_instance_id: str | None = string("3+", nullable="3+")
        error_code: int = int16("3+")

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0+")
    members: list[Member] = array(Member, "3+")


class ConsumerGroupHeartbeatRequest(
    Request, api_key=ApiKey.CONSUMER_GROUP_HEARTBEAT, versions="0-1", flexible="0+"
):
    """Join, stay in or leave a group of the consumer protocol.

    Unchanged fields are None or -1.
    """

    class TopicPartitions(Struct):
        """Partitions of one topic that the member owns."""

        topic_id: bytes = uuid("0+")
        partitions: list[int] = array(int32(), "0+")

    group_id: str = string("0+")
    member_id: str = string("0+")
    member_epoch: int = int32("0+")  # 0 joins, -1 leaves, -2 leaves for a while (static members)
    instance_id: str | None = string("0+", nullable="0+", default=None)
    rack_id: str | None = string("0+", nullable="0+", default=None)
    rebalance_timeout_ms: int = int32("0+", default=-1)
    subscribed_topic_names: list[str] | None = array(string(), "0+", nullable="0+", default=None)
    subscribed_topic_regex: str | None = string("1+", nullable="1+", default=None)
    # None: the group's choice
    server_assignor: str | None = string("0+", nullable="0+", default=None)
    topic_partitions: list[TopicPartitions] | None = array(
        TopicPartitions, "0+", nullable="0+", default=None
    )

    def for_version(self, version: int) -> Self:
        """Version 0 has no regular expression; an empty one means none."""
        if version >= 1:
            return self
        message = copy.copy(self)
        message.subscribed_topic_regex = message.subscribed_topic_regex or None
        return message


class ConsumerGroupHeartbeatResponse(
    Response, api_key=ApiKey.CONSUMER_GROUP_HEARTBEAT, versions="0-1", flexible="0+"
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
