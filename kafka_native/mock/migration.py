"""Conversion of a group to the other protocol, and classic members in consumer groups (KIP-848)."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from kafka_native._reference.error_codes import ErrorCode
from kafka_native.mock.consumer_groups import Classic, ConsumerGroup, ConsumerMember, Step
from kafka_native.mock.groups import Group, Member
from kafka_native.mock.membership import GroupError, Left
from kafka_native.protocol import ProtocolError
from kafka_native.protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafka_native.mock.assignors import Key
    from kafka_native.mock.membership import GroupClient
    from kafka_native.mock.topics import Topic
    from kafka_native.protocol.groups import JoinGroupRequest, SyncGroupRequest

_CONSUMER = "consumer"
_FIRST_WITH_MEMBER_ID_REQUIRED = 4


# --- whole groups ---


def may_upgrade(group: Group) -> bool:
    """Return whether a classic group can become a group of the consumer protocol."""
    if not group.members:
        return True
    if (
        group.settings.migration not in ("bidirectional", "upgrade")
        or group.protocol_type != _CONSUMER
    ):
        return False
    limit = group.settings.max_size
    return limit is None or len(group.members) < limit


def upgrade(group: Group, made: ConsumerGroup, topics: Mapping[str, Topic]) -> None:
    """Take over the members of a classic group and their assignments. Raises ``GroupError``."""
    for old in group.members.values():
        member = ConsumerMember(old.id, old.instance_id, old.client_id, old.host, made.clock)
        try:
            given = ConsumerProtocolAssignment.unpack(old.assignment) if old.assignment else None
            subscription = ConsumerProtocolSubscription.unpack(
                next(iter(old.protocols.values()), b"")
            )
        except ProtocolError:
            text = f"Group {group.id} is not a consumer group."
            raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND, text=text) from None
        parts = given.assigned_partitions if given is not None else []
        found = [(topics[part.topic].id, part.partitions) for part in parts if part.topic in topics]
        member.assigned = {(topic_id, index) for topic_id, indexes in found for index in indexes}
        member.topics = sorted(set(subscription.topics))
        member.rebalance_seconds = old.rebalance_seconds
        member.classic = Classic(old.protocols, old.session_seconds)
        member.epoch = member.previous_epoch = group.generation
        member.is_new = False
        made.admit(member)
        made.target[member.id] = set(member.assigned)
    made.epoch = made.target_epoch = group.generation
    group.is_converted = True
    group.wake()


def must_downgrade(group: ConsumerGroup) -> bool:
    """Return whether a group has only classic members left."""
    if group.settings.migration not in ("bidirectional", "downgrade"):
        return False
    return bool(group.members) and all(
        member.classic is not None for member in group.members.values()
    )


def downgrade(group: ConsumerGroup, made: Group, topics: Mapping[str, Topic]) -> None:
    """Convert the members to those of a classic group, which begins with a rebalance."""
    names = {topic.id: name for name, topic in topics.items()}
    made.protocol_type = _CONSUMER
    made.generation = group.epoch
    for old in group.members.values():
        assert old.classic is not None
        member = Member(old.id, old.instance_id, old.client_id, old.host, made.clock)
        member.protocols = old.classic.protocols
        member.session_seconds = old.classic.session_seconds
        member.rebalance_seconds = old.rebalance_seconds
        member.assignment = _pack(old.assigned, names)
        made.admit(member)
    made.take_over(next(iter(made.members)))


def _pack(assigned: set[Key], names: Mapping[bytes, str]) -> bytes:
    by_topic: dict[str, list[int]] = {}
    for topic_id, index in sorted(assigned):
        if topic_id in names:
            by_topic.setdefault(names[topic_id], []).append(index)
    part = ConsumerProtocolAssignment.AssignedPartitions
    parts = [part(topic=name, partitions=indexes) for name, indexes in by_topic.items()]
    return ConsumerProtocolAssignment(assigned_partitions=parts).pack(0)


# --- classic members in a group of the consumer protocol ---


def join(group: ConsumerGroup, client: GroupClient, request: JoinGroupRequest) -> ConsumerMember:
    """Let a classic member join. It never waits, and never leads. Raises ``GroupError``."""
    protocols = {one.name: bytes(one.metadata) for one in request.protocols}
    subscription = _check(group, request, protocols)
    instance, member_id = request.group_instance_id, request.member_id
    if not member_id:
        member_id = f"{instance or client.id}-{uuid.uuid4()}"
        if instance is None and client.version >= _FIRST_WITH_MEMBER_ID_REQUIRED:
            raise GroupError(ErrorCode.MEMBER_ID_REQUIRED, member_id)
    member = group.join_classic(
        member_id, instance, client.id, client.host, bool(request.member_id)
    )
    rebalance_ms = (
        request.rebalance_timeout_ms
        if request.rebalance_timeout_ms > 0
        else request.session_timeout_ms
    )
    member.rebalance_seconds = rebalance_ms / 1000
    owned = _owned_keys(group, subscription)
    group.apply_classic_join(
        member, subscription.topics, Classic(protocols, request.session_timeout_ms / 1000), owned
    )
    return member


def _check(
    group: ConsumerGroup, request: JoinGroupRequest, protocols: Mapping[str, bytes]
) -> ConsumerProtocolSubscription:
    """Return the subscription in a join request that matches the group. Raises ``GroupError``."""
    if request.session_timeout_ms <= 0:
        raise GroupError(ErrorCode.INVALID_SESSION_TIMEOUT)
    common = set(protocols)
    for member in group.members.values():
        if member.classic is not None and member.id != request.member_id:
            common &= set(member.classic.protocols)
    if request.protocol_type != _CONSUMER or not common:
        raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    try:
        return ConsumerProtocolSubscription.unpack(next(iter(protocols.values())))
    except ProtocolError:
        raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL) from None


def _owned_keys(group: ConsumerGroup, subscription: ConsumerProtocolSubscription) -> set[Key]:
    ids = {part.topic: group.topic_id(part.topic) for part in subscription.owned_partitions}
    return {
        (topic_id, index)
        for part in subscription.owned_partitions
        if (topic_id := ids[part.topic]) is not None
        for index in part.partitions
    }


def _find_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int | None
) -> ConsumerMember:
    group.tick()
    member = group.find_member(member_id, instance_id)
    if member.classic is None:
        raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
    if generation is not None and generation != member.epoch:
        raise GroupError(ErrorCode.ILLEGAL_GENERATION)
    return member


def sync(
    group: ConsumerGroup, request: SyncGroupRequest, topics: Mapping[str, Topic]
) -> tuple[str, bytes]:
    """Return protocol and assignment of a classic member. Raises ``GroupError``."""
    member = _find_member(
        group, request.member_id, request.group_instance_id, request.generation_id
    )
    assert member.classic is not None
    protocol = next(iter(member.classic.protocols))
    for requested, actual in (
        (request.protocol_type, _CONSUMER),
        (request.protocol_name, protocol),
    ):
        if requested is not None and requested != actual:
            raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if group.epoch > member.epoch and member.step is not Step.UNREVOKED:
        _must_rejoin(member)
        raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS)
    member.restart_session()
    return protocol, _pack(member.assigned, {topic.id: name for name, topic in topics.items()})


def heartbeat(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
) -> None:
    """Restart a classic member's session. Raises ``GroupError``, for example in a rebalance."""
    member = _find_member(group, member_id, instance_id, generation)
    member.restart_session()
    group.refresh_topics()
    can_get_more = member.step is Step.UNRELEASED and not group.waits_for_others(member)
    if member.epoch < group.epoch or member.step is Step.UNREVOKED or can_get_more:
        _must_rejoin(member)
        raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS)


def _must_rejoin(member: ConsumerMember) -> None:
    if member.join_deadline is None:
        member.join_deadline = member.clock.now() + member.rebalance_seconds


def leave(
    group: ConsumerGroup, member_id: str, instance_id: str | None, reason: str | None
) -> None:
    """Remove a member by LeaveGroup. Raises ``GroupError``.

    Classic members leave this way, and an administrator removes members of both protocols.
    """
    group.tick()
    if not member_id and instance_id is not None:
        member_id = group.static_id(instance_id)
    member = group.find_member(member_id, instance_id)
    group.remove(member)
    group.left.append(Left(member.id, instance_id, reason))
