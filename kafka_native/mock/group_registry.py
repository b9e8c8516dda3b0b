"""The groups of the cluster, of all protocols, for coordinators and for tests."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NamedTuple

from kafka_native._reference.error_codes import ErrorCode
from kafka_native.mock import migration
from kafka_native.mock.consumer_groups import ConsumerGroup
from kafka_native.mock.groups import Group
from kafka_native.mock.membership import Committed, Coordinators, GroupError, GroupSettings, Left
from kafka_native.mock.streams_groups import DescribedStreamsGroup, Roles, StreamsGroup
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


NO_COORDINATOR = -1


class MemberInfo(NamedTuple):
    """A member of a group.

    - ``epoch``: its member epoch, or in a classic group the generation.
    - ``assignment``: its (topic, partition) pairs, empty if a classic assignment is unreadable.
    - ``metadata``: the metadata of a classic member for each of its assignors.
    - ``reason``: the reason that a classic member gave for its last join.
    """

    id: str
    instance_id: str | None
    client_id: str
    epoch: int
    assignment: list[tuple[str, int]]
    metadata: dict[str, bytes]
    reason: str | None


class GroupInfo(NamedTuple):
    """A group as it is at one moment.

    - ``type``: ``classic``, ``consumer`` or ``streams``. A streams group's members have tasks:
      (subtopology id, partition) pairs.
    - ``state``: the name that Kafka shows.
    - ``generation``: the generation, or the group epoch.
    - ``protocol``: the assignor.
    - ``leader``: a member id, empty in the consumer protocol.
    - ``offsets``: the committed offsets by (topic, partition).
    - ``left``: the members that left by themselves, oldest first.
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
    """The groups of the cluster. They survive their coordinator, as Kafka's do.

    Tests use the second half, as ``cluster.groups``. Its methods take a member id or an instance
    id.
    """

    def __init__(
        self,
        lock: threading.RLock,
        settings: GroupSettings,
        topics: Mapping[str, Topic],
        clock: Clock,
    ) -> None:
        """Start without groups. ``lock``, ``topics`` and ``clock`` are the cluster's."""
        self._lock = lock
        self._topics = topics
        self._groups: dict[str, AnyGroup] = {}
        self.settings = settings
        self._clock = clock
        self.coordinators = Coordinators(clock)

    def find(self, group_id: str) -> AnyGroup | None:
        """Return a group, or None."""
        group = self._groups.get(group_id)
        if group is not None:
            group.tick()
            group = self._downgrade_if_due(group)
        return group

    def for_classic_join(self, group_id: str) -> AnyGroup:
        """Return the group that a classic member joins, or make it.

        It can be a group of the consumer protocol that has members.
        """
        group = self.find(group_id)
        if isinstance(group, ConsumerGroup) and group.members:
            return group
        return group if isinstance(group, Group) else self._make_classic(group_id, group)

    def for_commit(self, group_id: str) -> AnyGroup:
        """Return the group that stores committed offsets, or make it."""
        return self.find(group_id) or self._make_classic(group_id, None)

    def _make_classic(self, group_id: str, old: AnyGroup | None) -> Group:
        group = Group(group_id, self._lock, self.settings, self._clock)
        return self._put(group, old)

    def restore_classic(self, group_id: str, generation: int, protocol_type: str) -> Group:
        """Make an empty classic group from a file."""
        group = self._make_classic(group_id, None)
        group.generation, group.protocol_type = generation, protocol_type
        return group

    def for_heartbeat(self, group_id: str, *, make: bool) -> ConsumerGroup:
        """Return the group of a member of the consumer protocol. Raises ``GroupError``.

        A classic group is converted.
        """
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

    def for_streams_heartbeat(self, group_id: str, *, make: bool) -> StreamsGroup:
        """Return the group of a member of a streams group. Raises ``GroupError``."""
        group = self.find(group_id)
        if isinstance(group, StreamsGroup):
            return group
        if group is not None and (group.members or not make):
            text = f"Group {group_id} is not a streams group."
            raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND, text=text)
        if not make:
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID, text=f"Group {group_id} not found.")
        made = StreamsGroup(group_id, self.settings, self._topics, self._clock)
        self._put(made, group)
        return made

    def put_streams(self, description: StreamsGroupDescribeResponse.Group) -> None:
        """Add a streams group. It replaces a group of the same name and keeps its offsets."""
        self._put(
            DescribedStreamsGroup(description, self.settings, self._topics, self._clock),
            self.find(description.group_id),
        )

    def _put(self, group: _Group, old: AnyGroup | None) -> _Group:
        """Replace a group by another one, which keeps the offsets."""
        if old is not None:
            group.offsets, group.left = old.offsets, old.left
        self._groups[group.id] = group
        return group

    def _downgrade_if_due(self, group: AnyGroup) -> AnyGroup:
        """Return the group, or the classic group that replaces it.

        A group becomes classic when its last member of the consumer protocol leaves.
        """
        if isinstance(group, Group) or not migration.must_downgrade(group):
            return group
        made = Group(group.id, self._lock, self.settings, self._clock)
        migration.downgrade(group, made, self._topics)
        return self._put(made, group)

    def all(self) -> list[AnyGroup]:
        """Return every group of the cluster."""
        found = [self.find(name) for name in list(self._groups)]
        return [group for group in found if group is not None]

    def delete(self, group_id: str) -> ErrorCode:
        """Delete a group without members, and return the error code."""
        group = self.find(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if group.members:
            return ErrorCode.NON_EMPTY_GROUP
        del self._groups[group_id]
        return ErrorCode.NO_ERROR

    def forget_topic(self, topic: str) -> None:
        """Delete the committed offsets of a deleted topic."""
        for group in self._groups.values():
            for key in [key for key in group.offsets if key[0] == topic]:
                del group.offsets[key]

    def wake(self) -> None:
        """Wake every waiting request, so that it checks its condition."""
        for group in self._groups.values():
            group.wake()

    # --- descriptions ---

    def group(self, group_id: str) -> GroupInfo:
        """Return a group as it is now. Raises ``KeyError`` if there is none."""
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
                _unpack(one.assignment),
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
                group.task_names(one)
                if isinstance(group, StreamsGroup)
                else self._with_names(one.assigned),
                {} if one.classic is None else dict(one.classic.protocols),
                None,
            )
            for one in group.members.values()
        }

    def _with_names(self, keys: Iterable[Key]) -> list[tuple[str, int]]:
        names = {topic.id: name for name, topic in self._topics.items()}
        return sorted((names[topic_id], index) for topic_id, index in keys if topic_id in names)

    def _member_id(self, group: AnyGroup, member: str) -> str:
        for one in group.members.values():
            if member in (one.id, one.instance_id):
                return one.id
        raise KeyError(member)

    # --- groups and their members ---

    def rebalance_group(self, group_id: str) -> None:
        """Make a group rebalance.

        Classic members join again. Members of the consumer protocol get a new epoch.
        """
        with self._lock:
            self._group(group_id).rebalance()

    def expel_member(self, group_id: str, member: str) -> None:
        """Remove a member, as if its session had expired.

        Its next request gets UNKNOWN_MEMBER_ID.
        """
        with self._lock:
            group = self._group(group_id)
            group.expel(self._member_id(group, member), fence=False)

    def fence_member(self, group_id: str, member: str) -> None:
        """Remove a member, and answer its next request with a fencing error.

        - A member of the consumer protocol gets FENCED_MEMBER_EPOCH until it joins again.
        - A static classic member gets FENCED_INSTANCE_ID, as if another process had its instance
          id.
        - A dynamic classic member can't be fenced. It is expelled.
        """
        with self._lock:
            group = self._group(group_id)
            group.expel(self._member_id(group, member), fence=True)

    def set_target(
        self, group_id: str, target: Mapping[str, Iterable[tuple[str, int]]] | None
    ) -> None:
        """Set the target assignment of a group of the consumer protocol, instead of its assignor's.

        :param target: The (topic, partition) pairs of each member. A member that is not named gets
            nothing. None returns to the assignor.
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
        """Set the heartbeat interval of the consumer protocol, for one group or for all.

        Members get it in the response to their next heartbeat.
        """
        settings = self.settings
        with self._lock:
            if group_id is None:
                settings.heartbeat_seconds = seconds
            else:
                settings.heartbeat_intervals[group_id] = seconds

    def set_group_max_size(self, count: int | None) -> None:
        """Set the maximum number of members of a group. None means no limit.

        Further members get GROUP_MAX_SIZE_REACHED.
        """
        self.settings.max_size = count

    def set_migration(self, policy: str) -> None:
        """Set the direction in which groups may change their protocol.

        ``policy`` is ``bidirectional``, ``upgrade``, ``downgrade`` or ``disabled``.
        """
        if policy not in ("bidirectional", "upgrade", "downgrade", "disabled"):
            raise ValueError(f"{policy!r} is not a policy")
        self.settings.migration = policy

    def edit_member_metadata(self, group_id: str, edit: EditMetadata | None) -> None:
        """Call ``edit(member_id, metadata)`` to change the metadata that a classic leader gets.

        The function returns the new metadata. It is called for every JoinGroup from now on. None
        ends it.
        """
        with self._lock:
            group = self.for_classic_join(group_id)
            if not isinstance(group, Group):
                raise ValueError(f"group {group_id} has no leader")
            group.edit_metadata = edit

    def set_streams_group(self, group: StreamsGroupDescribeResponse.Group) -> None:
        """Add a streams group that StreamsGroupDescribe returns. It keeps the group's offsets."""
        with self._lock:
            self.put_streams(group)

    def assign_tasks(self, group_id: str, tasks: Mapping[str, Roles] | None) -> None:
        """Set the target assignment of a streams group, instead of its assignor's.

        :param tasks: The (subtopology id, partition) pairs of each member, by their role. A member
            that is not named gets none. None returns to the assignor.
        """
        with self._lock:
            group = self._streams_group(group_id)
            group.pin_tasks(
                None
                if tasks is None
                else {self._member_id(group, name): roles for name, roles in tasks.items()}
            )

    def set_standby_tasks(self, group_id: str, count: int) -> None:
        """Set the number of standby tasks of each task: num.standby.replicas of the group."""
        with self._lock:
            group = self._streams_group(group_id)
            group.standby_count = count
            group.rebalance()

    def _streams_group(self, group_id: str) -> StreamsGroup:
        group = self._group(group_id)
        if not isinstance(group, StreamsGroup):
            raise ValueError(f"group {group_id} is not a streams group")
        return group

    def set_committed(
        self, group_id: str, offsets: Mapping[tuple[str, int], int | Committed]
    ) -> None:
        """Store offsets for a group, by (topic, partition), without any check."""
        with self._lock:
            group = self.for_commit(group_id)
            for key, offset in offsets.items():
                group.offsets[key] = (
                    offset if isinstance(offset, Committed) else Committed(offset, -1, "")
                )

    # --- coordinators ---

    def move_coordinator(self, group_id: str, broker: int | None) -> None:
        """Make another broker the coordinator of a group. The old one answers NOT_COORDINATOR.

        Requests that wait there get this error too. -1 leaves the group without a coordinator
        (COORDINATOR_NOT_AVAILABLE). None returns it to its original coordinator.
        """
        with self._lock:
            if broker is None:
                self.coordinators.moved.pop(group_id, None)
            else:
                self.coordinators.moved[group_id] = broker
            self.wake()

    def load_coordinator(self, group_id: str, seconds: float) -> None:
        """Answer requests to a group's coordinator with COORDINATOR_LOAD_IN_PROGRESS.

        It lasts this many seconds. 0 ends it.
        """
        with self._lock:
            self.coordinators.load(group_id, seconds)

    # --- authorization ---

    def deny_topic(self, topic: str, denied: bool = True) -> None:
        """Answer all requests about a topic with TOPIC_AUTHORIZATION_FAILED.

        The topic matches no subscribed pattern either.
        """
        _set(self.settings.denied_topics, topic, denied)

    def deny_group(self, group_id: str, denied: bool = True) -> None:
        """Answer all requests about a group with GROUP_AUTHORIZATION_FAILED."""
        _set(self.settings.denied_groups, group_id, denied)


def _set(names: set[str], name: str, is_in: bool) -> None:
    if is_in:
        names.add(name)
    else:
        names.discard(name)


def _unpack(assignment: bytes) -> list[tuple[str, int]]:
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
