"""What tests do to groups and their coordinators, and what they see of them."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NamedTuple

from kafka_native.mock.consumer_groups import ConsumerGroup
from kafka_native.mock.groups import Group
from kafka_native.mock.membership import Committed, Left
from kafka_native.protocol import ProtocolError
from kafka_native.protocol.consumer_protocol import ConsumerProtocolAssignment

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafka_native.mock.assignors import Key
    from kafka_native.mock.group_registry import AnyGroup, Groups
    from kafka_native.mock.membership import EditMetadata
    from kafka_native.mock.topics import Topic
    from kafka_native.protocol.streams import StreamsGroupDescribeResponse

NOBODY = -1


class MemberInfo(NamedTuple):
    """A member of a group.

    ``epoch`` is its member epoch, in a classic group the generation; ``assignment`` holds (topic, partition), and in a
    classic group what could be read of it; ``metadata`` is what a classic member offers for each assignor, and
    ``reason`` why it joined last, as far as it said so.
    """

    id: str
    instance_id: str | None
    client_id: str
    epoch: int
    assignment: list[tuple[str, int]]
    metadata: dict[str, bytes]
    reason: str | None


class GroupInfo(NamedTuple):
    """A group: ``type`` is ``classic`` or ``consumer``, ``state`` as Kafka names it, ``generation`` or group epoch.

    ``protocol`` is the assignor, ``leader`` a member id (empty in the consumer protocol), ``offsets`` what is
    committed by (topic, partition), and ``left`` who left by itself, oldest first.
    """

    id: str
    type: str
    state: str
    generation: int
    protocol: str
    leader: str
    members: dict[str, MemberInfo]
    offsets: dict[tuple[str, int], Committed]
    left: list[Left]


class GroupVerbs:
    """The part of ``MockCluster`` that is about groups. Members are named by member id or by instance id."""

    groups: Groups
    lock: threading.RLock
    topics: dict[str, Topic]

    # --- seeing ---

    def group(self, group_id: str) -> GroupInfo:
        """A group as it is now. Raises ``KeyError`` where there is none."""
        with self.lock:
            group = self._group(group_id)
            is_classic = isinstance(group, Group)
            return GroupInfo(
                group.id,
                group.type,
                group.state.value,
                group.generation,
                (group.protocol or "") if isinstance(group, Group) else group.assignor,
                group.leader if isinstance(group, Group) else "",
                self._classic_members(group) if is_classic else self._consumer_members(group),
                dict(group.offsets),
                list(group.left),
            )

    def _group(self, group_id: str) -> AnyGroup:
        group = self.groups.find(group_id)
        if group is None:
            raise KeyError(group_id)
        return group

    @staticmethod
    def _classic_members(group: AnyGroup) -> dict[str, MemberInfo]:
        assert isinstance(group, Group)
        return {
            one.id: MemberInfo(
                one.id,
                one.instance_id,
                one.client_id,
                group.generation,
                _unpacked(one.assignment),
                dict(one.protocols),
                one.reason,
            )
            for one in group.members.values()
        }

    def _consumer_members(self, group: AnyGroup) -> dict[str, MemberInfo]:
        assert isinstance(group, ConsumerGroup)
        return {
            one.id: MemberInfo(
                one.id,
                one.instance_id,
                one.client_id,
                one.epoch,
                self._named(one.assigned),
                {} if one.classic is None else dict(one.classic.protocols),
                None,
            )
            for one in group.members.values()
        }

    def _named(self, keys: Iterable[Key]) -> list[tuple[str, int]]:
        names = {topic.id: name for name, topic in self.topics.items()}
        return sorted((names[topic_id], index) for topic_id, index in keys if topic_id in names)

    def _member_id(self, group: AnyGroup, member: str) -> str:
        for one in group.members.values():
            if member in (one.id, one.instance_id):
                return one.id
        raise KeyError(member)

    # --- groups and their members ---

    def rebalance_group(self, group_id: str) -> None:
        """Let a group rebalance: its members join again, or get a new epoch in the consumer protocol."""
        with self.lock:
            self._group(group_id).rebalance()

    def expel_member(self, group_id: str, member: str) -> None:
        """Take a member out, as when its session has ended: its next request is answered with UNKNOWN_MEMBER_ID."""
        with self.lock:
            group = self._group(group_id)
            group.expel(self._member_id(group, member), fence=False)

    def fence_member(self, group_id: str, member: str) -> None:
        """Take a member out and let it know.

        FENCED_MEMBER_EPOCH is the answer in the consumer protocol until it joins again, and FENCED_INSTANCE_ID for a
        static member of a classic group, as if another process had taken its instance id. A dynamic classic member
        can't be fenced: it is expelled.
        """
        with self.lock:
            group = self._group(group_id)
            group.expel(self._member_id(group, member), fence=True)

    def set_target(self, group_id: str, target: Mapping[str, Iterable[tuple[str, int]]] | None) -> None:
        """Say what the members of a group of the consumer protocol shall have, instead of its assignor.

        :param target: (topic, partition) by member; who isn't named gets nothing. None ends it.
        """
        with self.lock:
            group = self._group(group_id)
            if not isinstance(group, ConsumerGroup):
                raise ValueError(f"group {group_id} is assigned by its leader")
            pinned: dict[str, set[Key]] | None = None
            if target is not None:
                pinned = {
                    self._member_id(group, member): {(self.topics[topic].id, index) for topic, index in keys}
                    for member, keys in target.items()
                }
            group.pin(pinned)

    def set_heartbeat_interval(self, seconds: float, group_id: str | None = None) -> None:
        """What members of the consumer protocol are told from their next heartbeat on, of one group or of any."""
        settings = self.groups.settings
        with self.lock:
            if group_id is None:
                settings.heartbeat_seconds = seconds
            else:
                settings.heartbeat_intervals[group_id] = seconds

    def set_group_max_size(self, count: int | None) -> None:
        """The most members of a group; more are answered with GROUP_MAX_SIZE_REACHED. None for no limit."""
        self.groups.settings.max_size = count

    def set_migration(self, policy: str) -> None:
        """Which way groups may change their protocol: ``bidirectional``, ``upgrade``, ``downgrade``, ``disabled``."""
        if policy not in ("bidirectional", "upgrade", "downgrade", "disabled"):
            raise ValueError(f"{policy!r} is no policy")
        self.groups.settings.migration = policy

    def edit_member_metadata(self, group_id: str, edit: EditMetadata | None) -> None:
        """Let ``edit(member_id, metadata)`` return what the leader of a classic group gets as a member's metadata.

        It holds for every JoinGroup from now on; None ends it.
        """
        with self.lock:
            group = self.groups.for_classic_join(group_id)
            if not isinstance(group, Group):
                raise ValueError(f"group {group_id} has no leader")
            group.edit_metadata = edit

    def set_streams_group(self, group: StreamsGroupDescribeResponse.Group) -> None:
        """Let there be a streams group as StreamsGroupDescribe is to tell it, with the offsets that it had before."""
        with self.lock:
            self.groups.put_streams(group)

    def set_committed(self, group_id: str, offsets: Mapping[tuple[str, int], int | Committed]) -> None:
        """Store offsets for a group, by (topic, partition); nobody is asked."""
        with self.lock:
            group = self.groups.for_commit(group_id)
            for key, offset in offsets.items():
                group.offsets[key] = offset if isinstance(offset, Committed) else Committed(offset, -1, "")

    # --- coordinators ---

    def move_coordinator(self, group_id: str, broker: int | None) -> None:
        """Let another broker coordinate a group; the one before answers NOT_COORDINATOR, also to who waits there.

        -1 leaves the group without a coordinator (COORDINATOR_NOT_AVAILABLE), None gives it back to where it belongs.
        """
        with self.lock:
            if broker is None:
                self.groups.coordinators.moved.pop(group_id, None)
            else:
                self.groups.coordinators.moved[group_id] = broker
            self.groups.wake()

    def load_coordinator(self, group_id: str, seconds: float) -> None:
        """Answer requests to a group's coordinator with COORDINATOR_LOAD_IN_PROGRESS for so long; 0 ends it."""
        with self.lock:
            self.groups.coordinators.load(group_id, seconds)

    # --- what is not allowed ---

    def deny_topic(self, topic: str, denied: bool = True) -> None:
        """Answer whatever is asked of a topic with TOPIC_AUTHORIZATION_FAILED; it matches no pattern either."""
        _set(self.groups.settings.denied_topics, topic, denied)

    def deny_group(self, group_id: str, denied: bool = True) -> None:
        """Answer whatever is asked of a group with GROUP_AUTHORIZATION_FAILED."""
        _set(self.groups.settings.denied_groups, group_id, denied)


def _set(names: set[str], name: str, is_in: bool) -> None:
    if is_in:
        names.add(name)
    else:
        names.discard(name)


def _unpacked(assignment: bytes) -> list[tuple[str, int]]:
    try:
        found = ConsumerProtocolAssignment.unpack(assignment)
    except ProtocolError:
        return []
    return sorted((part.topic, index) for part in found.assigned_partitions for index in part.partitions)
