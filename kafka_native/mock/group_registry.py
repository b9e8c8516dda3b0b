"""The groups of the cluster, of both protocols: what coordinators do with them, and what tests do and see."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NamedTuple

from kafka_native._reference.error_codes import ErrorCode
from kafka_native.mock import migration
from kafka_native.mock.consumer_groups import ConsumerGroup
from kafka_native.mock.groups import Group
from kafka_native.mock.membership import Committed, Coordinators, GroupError, Left, Settings
from kafka_native.mock.streams_groups import StreamsGroup
from kafka_native.protocol import ProtocolError
from kafka_native.protocol.consumer_protocol import ConsumerProtocolAssignment

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafka_native.mock.assignors import Key
    from kafka_native.mock.clock import Clock
    from kafka_native.mock.membership import EditMetadata
    from kafka_native.mock.topics import Topic
    from kafka_native.protocol.streams import StreamsGroupDescribeResponse

AnyGroup = Group | ConsumerGroup


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


class Groups:
    """The groups of the cluster. They survive the broker that coordinates them, as their log would.

    Tests use the second half, as ``cluster.groups``; a member is named by its member id or its instance id.
    """

    def __init__(
        self, lock: threading.RLock, settings: Settings, topics: Mapping[str, Topic], clock: Clock
    ) -> None:
        """No groups yet; ``lock``, ``topics`` and ``clock`` are the cluster's."""
        self._lock = lock
        self._topics = topics
        self._groups: dict[str, AnyGroup] = {}
        self.settings = settings
        self._clock = clock
        self.coordinators = Coordinators(clock)

    def find(self, group_id: str) -> AnyGroup | None:
        """A group that exists."""
        group = self._groups.get(group_id)
        if group is not None:
            group.tick()
            group = self._downgraded(group)
        return group

    def for_classic_join(self, group_id: str) -> AnyGroup:
        """The group that a classic member joins: new if need be, or one of the consumer protocol that has members."""
        group = self.find(group_id)
        if isinstance(group, ConsumerGroup) and group.members:
            return group
        return group if isinstance(group, Group) else self._make_classic(group_id, group)

    def for_commit(self, group_id: str) -> AnyGroup:
        """The group that offsets are stored in, new if need be."""
        return self.find(group_id) or self._make_classic(group_id, None)

    def _make_classic(self, group_id: str, old: AnyGroup | None) -> Group:
        group = Group(group_id, self._lock, self.settings, self._clock)
        return self._put(group, old)

    def for_heartbeat(self, group_id: str, *, make: bool) -> ConsumerGroup:
        """The group of a member of the consumer protocol; a classic one is converted. Raises ``GroupError``."""
        group = self.find(group_id)
        if isinstance(group, ConsumerGroup) and group.type == ConsumerGroup.type:
            return group
        if (
            not make
            or isinstance(group, ConsumerGroup)
            or (group is not None and not migration.may_upgrade(group))
        ):
            is_none = group is None
            text = (
                f"Consumer group {group_id} not found."
                if is_none
                else f"Group {group_id} is not a consumer group."
            )
            raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND, text=text)
        made = ConsumerGroup(group_id, self.settings, self._topics, self._clock)
        if group is not None:
            migration.upgrade(group, made, self._topics)
        return self._put(made, group)

    def put_streams(self, told: StreamsGroupDescribeResponse.Group) -> None:
        """Let a streams group be there, in the place of one with its name, whose offsets it keeps."""
        self._put(
            StreamsGroup(told, self.settings, self._topics, self._clock), self.find(told.group_id)
        )

    def _put(self, group: _Group, old: AnyGroup | None) -> _Group:
        """Let a group take the place of another one, whose offsets it keeps."""
        if old is not None:
            group.offsets, group.left = old.offsets, old.left
        self._groups[group.id] = group
        return group

    def _downgraded(self, group: AnyGroup) -> AnyGroup:
        """The same group, or the classic one that it has become when its last member of the consumer protocol left."""
        if isinstance(group, Group) or not migration.must_downgrade(group):
            return group
        made = Group(group.id, self._lock, self.settings, self._clock)
        migration.downgrade(group, made, self._topics)
        return self._put(made, group)

    def all(self) -> list[AnyGroup]:
        """Every group of the cluster."""
        found = [self.find(name) for name in list(self._groups)]
        return [group for group in found if group is not None]

    def delete(self, group_id: str) -> ErrorCode:
        """Delete a group without members."""
        group = self.find(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if group.members:
            return ErrorCode.NON_EMPTY_GROUP
        del self._groups[group_id]
        return ErrorCode.NO_ERROR

    def forget_topic(self, topic: str) -> None:
        """Drop the offsets of a topic that is deleted."""
        for group in self._groups.values():
            for key in [key for key in group.offsets if key[0] == topic]:
                del group.offsets[key]

    def wake(self) -> None:
        """Let every waiting request look again."""
        for group in self._groups.values():
            group.wake()

    # --- seeing ---

    def group(self, group_id: str) -> GroupInfo:
        """A group as it is now. Raises ``KeyError`` where there is none."""
        with self._lock:
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
        group = self.find(group_id)
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
        names = {topic.id: name for name, topic in self._topics.items()}
        return sorted((names[topic_id], index) for topic_id, index in keys if topic_id in names)

    def _member_id(self, group: AnyGroup, member: str) -> str:
        for one in group.members.values():
            if member in (one.id, one.instance_id):
                return one.id
        raise KeyError(member)

    # --- groups and their members ---

    def rebalance_group(self, group_id: str) -> None:
        """Let a group rebalance: its members join again, or get a new epoch in the consumer protocol."""
        with self._lock:
            self._group(group_id).rebalance()

    def expel_member(self, group_id: str, member: str) -> None:
        """Take a member out, as when its session has ended: its next request is answered with UNKNOWN_MEMBER_ID."""
        with self._lock:
            group = self._group(group_id)
            group.expel(self._member_id(group, member), fence=False)

    def fence_member(self, group_id: str, member: str) -> None:
        """Take a member out and let it know.

        FENCED_MEMBER_EPOCH is the answer in the consumer protocol until it joins again, and FENCED_INSTANCE_ID for a
        static member of a classic group, as if another process had taken its instance id. A dynamic classic member
        can't be fenced: it is expelled.
        """
        with self._lock:
            group = self._group(group_id)
            group.expel(self._member_id(group, member), fence=True)

    def set_target(
        self, group_id: str, target: Mapping[str, Iterable[tuple[str, int]]] | None
    ) -> None:
        """Say what the members of a group of the consumer protocol shall have, instead of its assignor.

        :param target: (topic, partition) by member; who isn't named gets nothing. None ends it.
        """
        with self._lock:
            group = self._group(group_id)
            if not isinstance(group, ConsumerGroup):
                raise ValueError(f"group {group_id} is assigned by its leader")
            pinned: dict[str, set[Key]] | None = None
            if target is not None:
                pinned = {
                    self._member_id(group, member): {
                        (self._topics[topic].id, index) for topic, index in keys
                    }
                    for member, keys in target.items()
                }
            group.pin(pinned)

    def set_heartbeat_interval(self, seconds: float, group_id: str | None = None) -> None:
        """What members of the consumer protocol are told from their next heartbeat on, of one group or of any."""
        settings = self.settings
        with self._lock:
            if group_id is None:
                settings.heartbeat_seconds = seconds
            else:
                settings.heartbeat_intervals[group_id] = seconds

    def set_group_max_size(self, count: int | None) -> None:
        """The most members of a group; more are answered with GROUP_MAX_SIZE_REACHED. None for no limit."""
        self.settings.max_size = count

    def set_migration(self, policy: str) -> None:
        """Which way groups may change their protocol: ``bidirectional``, ``upgrade``, ``downgrade``, ``disabled``."""
        if policy not in ("bidirectional", "upgrade", "downgrade", "disabled"):
            raise ValueError(f"{policy!r} is no policy")
        self.settings.migration = policy

    def edit_member_metadata(self, group_id: str, edit: EditMetadata | None) -> None:
        """Let ``edit(member_id, metadata)`` return what the leader of a classic group gets as a member's metadata.

        It holds for every JoinGroup from now on; None ends it.
        """
        with self._lock:
            group = self.for_classic_join(group_id)
            if not isinstance(group, Group):
                raise ValueError(f"group {group_id} has no leader")
            group.edit_metadata = edit

    def set_streams_group(self, group: StreamsGroupDescribeResponse.Group) -> None:
        """Let there be a streams group as StreamsGroupDescribe is to tell it, with the offsets that it had before."""
        with self._lock:
            self.put_streams(group)

    def set_committed(
        self, group_id: str, offsets: Mapping[tuple[str, int], int | Committed]
    ) -> None:
        """Store offsets for a group, by (topic, partition); nobody is asked."""
        with self._lock:
            group = self.for_commit(group_id)
            for key, offset in offsets.items():
                group.offsets[key] = (
                    offset if isinstance(offset, Committed) else Committed(offset, -1, "")
                )

    # --- coordinators ---

    def move_coordinator(self, group_id: str, broker: int | None) -> None:
        """Let another broker coordinate a group; the one before answers NOT_COORDINATOR, also to who waits there.

        -1 leaves the group without a coordinator (COORDINATOR_NOT_AVAILABLE), None gives it back to where it belongs.
        """
        with self._lock:
            if broker is None:
                self.coordinators.moved.pop(group_id, None)
            else:
                self.coordinators.moved[group_id] = broker
            self.wake()

    def load_coordinator(self, group_id: str, seconds: float) -> None:
        """Answer requests to a group's coordinator with COORDINATOR_LOAD_IN_PROGRESS for so long; 0 ends it."""
        with self._lock:
            self.coordinators.load(group_id, seconds)

    # --- what is not allowed ---

    def deny_topic(self, topic: str, denied: bool = True) -> None:
        """Answer whatever is asked of a topic with TOPIC_AUTHORIZATION_FAILED; it matches no pattern either."""
        _set(self.settings.denied_topics, topic, denied)

    def deny_group(self, group_id: str, denied: bool = True) -> None:
        """Answer whatever is asked of a group with GROUP_AUTHORIZATION_FAILED."""
        _set(self.settings.denied_groups, group_id, denied)


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
    return sorted(
        (part.topic, index) for part in found.assigned_partitions for index in part.partitions
    )


if TYPE_CHECKING:
    from typing import TypeVar

    _Group = TypeVar("_Group", Group, ConsumerGroup)
