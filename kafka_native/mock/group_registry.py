"""The groups of the cluster, of both protocols."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from kafka_native._reference.error_codes import ErrorCode
from kafka_native.mock import migration
from kafka_native.mock.consumer_groups import ConsumerGroup
from kafka_native.mock.groups import Group
from kafka_native.mock.membership import Coordinators, GroupError, Settings
from kafka_native.mock.streams_groups import StreamsGroup

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafka_native.mock.clock import Clock
    from kafka_native.mock.topics import Topic
    from kafka_native.protocol.streams import StreamsGroupDescribeResponse

AnyGroup = Group | ConsumerGroup


class Groups:
    """The groups of the cluster. They survive the broker that coordinates them, as their log would."""

    def __init__(self, lock: threading.RLock, settings: Settings, topics: Mapping[str, Topic], clock: Clock) -> None:
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
        if not make or isinstance(group, ConsumerGroup) or (group is not None and not migration.may_upgrade(group)):
            is_none = group is None
            text = f"Consumer group {group_id} not found." if is_none else f"Group {group_id} is not a consumer group."
            raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND, text=text)
        made = ConsumerGroup(group_id, self.settings, self._topics, self._clock)
        if group is not None:
            migration.upgrade(group, made, self._topics)
        return self._put(made, group)

    def put_streams(self, told: StreamsGroupDescribeResponse.Group) -> None:
        """Let a streams group be there, in the place of one with its name, whose offsets it keeps."""
        self._put(StreamsGroup(told, self.settings, self._topics, self._clock), self.find(told.group_id))

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


if TYPE_CHECKING:
    from typing import TypeVar

    _Group = TypeVar("_Group", Group, ConsumerGroup)
