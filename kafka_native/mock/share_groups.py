"""The coordinator of share groups (KIP-932), and the share sessions at the brokers.

The caller holds the cluster's lock, except in methods that take it themselves.
"""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Any

from kafka_native._reference.error_codes import ErrorCode
from kafka_native.mock import dead_letters
from kafka_native.mock.consumer_groups import State as GroupState
from kafka_native.mock.membership import GroupError
from kafka_native.mock.share_partitions import (
    GroupShareSettings,
    SharePartition,
    ShareSettings,
    State,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafka_native.mock.clock import Clock
    from kafka_native.mock.server import Connection
    from kafka_native.mock.topics import Partition, Topic
    from kafka_native.protocol.share import ShareGroupHeartbeatRequest

Key = tuple[bytes, int]
JOIN_EPOCH = 0
LEAVE_EPOCH = -1
FIRST_EPOCH = 0
FINAL_EPOCH = -1
_LAST_EPOCH = 0x7FFFFFFF


class ShareMember:
    """One member of a share group."""

    def __init__(self, member_id: str, client_id: str, host: str, clock: Clock) -> None:
        """Start as a new member."""
        self.id = member_id
        self.client_id = client_id
        self.host = host
        self.epoch = 0
        self.topics: list[str] = []
        self.assigned: set[Key] = set()
        self.sent_assignment: set[Key] | None = None
        self._clock = clock
        self.last_seen = clock.now()

    def restart_session(self) -> None:
        """Restart the session timeout."""
        self.last_seen = self._clock.now()


class ShareGroup:
    """A share group: its members, and its state in each partition."""

    type = "share"
    protocol_type = "share"

    def __init__(
        self, group_id: str, settings: GroupShareSettings, topics: Mapping[str, Topic], clock: Clock
    ) -> None:
        """Make an empty group. ``topics`` and ``clock`` are the cluster's."""
        self.id = group_id
        self.epoch = 0
        self.members: dict[str, ShareMember] = {}
        self.partitions: dict[Key, SharePartition] = {}
        self.settings = settings
        self._clock = clock
        self._topics = topics
        self._seen: object = None

    @property
    def state(self) -> GroupState:
        """The state of the share group."""
        return GroupState.STABLE if self.members else GroupState.EMPTY

    def heartbeat(
        self, request: ShareGroupHeartbeatRequest, client_id: str, host: str
    ) -> tuple[ShareMember, bool]:
        """Let a member join or stay. Raises ``GroupError``.

        Returns the member, and whether the response must contain its assignment.
        """
        self.tick()
        is_join = request.member_epoch == JOIN_EPOCH
        member = self.members.get(request.member_id)
        if member is None:
            if not is_join:
                text = f"Member {request.member_id} is not a member of group {self.id}."
                raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID, text=text)
            limit = self.settings.max_size
            if limit is not None and len(self.members) >= limit:
                raise GroupError(ErrorCode.GROUP_MAX_SIZE_REACHED)
            member = ShareMember(request.member_id, client_id, host, self._clock)
            self.members[request.member_id] = member
        elif not is_join and request.member_epoch > member.epoch:
            text = (
                "The share group member has a greater member epoch "
                f"({request.member_epoch}) than known."
            )
            raise GroupError(ErrorCode.FENCED_MEMBER_EPOCH, text=text)
        if request.subscribed_topic_names is not None:
            member.topics = sorted(set(request.subscribed_topic_names))
        member.restart_session()
        self._assign()
        member.epoch = self.epoch
        has_assignment = (
            is_join
            or request.subscribed_topic_names is not None
            or member.sent_assignment != member.assigned
        )
        if has_assignment:
            member.sent_assignment = set(member.assigned)
        return member, has_assignment

    def leave(self, member_id: str) -> None:
        """Remove a member. Raises ``GroupError``."""
        if self.members.pop(member_id, None) is None:
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
        self._assign()

    def tick(self) -> None:
        """Remove members whose session expired."""
        now = self._clock.now()
        for member in list(self.members.values()):
            if now - member.last_seen > self.settings.session_seconds:
                del self.members[member.id]

    def _assign(self) -> None:
        """Assign partitions to members. With fewer partitions than members, several share one."""
        wanted = {
            name
            for member in self.members.values()
            for name in member.topics
            if name in self._topics
        }
        seen = (
            sorted((member.id, tuple(member.topics)) for member in self.members.values()),
            sorted((self._topics[name].id, len(self._topics[name].partitions)) for name in wanted),
        )
        if seen == self._seen:
            return
        self._seen = seen
        self.epoch += 1
        for member in self.members.values():
            member.assigned = set()
        for name in sorted(wanted):
            topic = self._topics[name]
            readers = [
                member for _, member in sorted(self.members.items()) if name in member.topics
            ]
            for at in range(max(len(topic.partitions), len(readers))):
                number = at % len(topic.partitions)
                readers[at % len(readers)].assigned.add((topic.id, number))
                self.partition(topic, number)

    def partition(self, topic: Topic, number: int) -> SharePartition:
        """Return the group's state in a partition, or make it."""
        key = (topic.id, number)
        if key not in self.partitions:
            source = topic.partitions[number]
            self.partitions[key] = SharePartition(
                source, self.settings, self._clock.time_ms(), partial(self._bury, source)
            )
        return self.partitions[key]

    def _bury(self, source: Partition, offset: int, deliveries: int, reason: str) -> None:
        """Write about a record that the group gives up to its dead-letter queue, if it has one."""
        name = self.settings.dead_letter_topic
        dead_letters.write(
            None if name is None else self._topics.get(name),
            source,
            offset,
            group_id=self.id,
            deliveries=deliveries,
            reason=reason,
            copies=self.settings.copies_dead_letters,
            now_ms=self._clock.time_ms(),
        )

    def topics_of(self) -> dict[str, dict[int, SharePartition]]:
        """Return the group's state in existing topics, by topic name and partition."""
        names = {topic.id: name for name, topic in self._topics.items()}
        found: dict[str, dict[int, SharePartition]] = {}
        for (topic_id, number), each in sorted(self.partitions.items()):
            if topic_id in names:
                found.setdefault(names[topic_id], {})[number] = each
        return found

    def saved(self) -> dict[str, Any]:
        """Return the state for a file, without members."""
        return {
            "id": self.id,
            "epoch": self.epoch,
            "partitions": [
                [topic_id.hex(), number, each.saved()]
                for (topic_id, number), each in sorted(self.partitions.items())
            ],
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Take over the state from a file."""
        self.epoch = saved["epoch"]
        by_id = {topic.id: topic for topic in self._topics.values()}
        for topic_id, number, each in saved["partitions"]:
            topic = by_id.get(bytes.fromhex(topic_id))
            if topic is not None:  # the state of a deleted topic isn't needed any longer
                self.partition(topic, number).restore(each)

    def forget(self, topic: Topic) -> bool:
        """Delete the group's state in a topic. Return whether it existed."""
        keys = [key for key in self.partitions if key[0] == topic.id]
        for key in keys:
            del self.partitions[key]
        self._seen = None  # so the next subscription assigns the topic again
        return bool(keys)


class ShareSession:
    """The session of one member at one broker."""

    def __init__(self, group: ShareGroup, member_id: str, connection: Connection) -> None:
        """Start a session, after its first request."""
        self.group = group
        self.member_id = member_id
        self.connection = connection
        self.next_epoch = 1
        self.partitions: dict[Key, None] = {}

    def release(self) -> None:
        """Release the records of the session's partitions that the member has acquired."""
        for key in self.partitions:
            held = self.group.partitions.get(key)
            if held is not None:
                held.release(self.member_id)


class ShareGroups:
    """The share groups of the cluster, and the sessions of all brokers."""

    def __init__(
        self,
        lock: threading.RLock,
        settings: ShareSettings,
        topics: Mapping[str, Topic],
        clock: Clock,
    ) -> None:
        """Start without groups. ``lock``, ``topics`` and ``clock`` are the cluster's."""
        self._lock = lock
        self._topics = topics
        self._groups: dict[str, ShareGroup] = {}
        self._sessions: dict[tuple[int, str, str], ShareSession] = {}
        self.settings = settings
        self._clock = clock

    # --- for tests: these methods take the lock ---

    def members(self, group_id: str) -> list[str]:
        """Return the ids of a group's members."""
        with self._lock:
            group = self._groups.get(group_id)
            return [] if group is None else list(group.members)

    def start_offset(self, group_id: str, topic: str, partition: int) -> int:
        """Return the start offset of a partition: all records before it are done."""
        with self._lock:
            return self._partition(group_id, topic, partition).start

    def record(self, group_id: str, topic: str, partition: int, offset: int) -> tuple[State, int]:
        """Return the state of a record, and its delivery count."""
        with self._lock:
            found = self._partition(group_id, topic, partition)
            found.refresh(self._clock.now())
            return found.state_of(offset)

    def lock_end(self, group_id: str, topic: str, partition: int, offset: int) -> float:
        """Return when the lock of an acquired record expires, in the cluster's time."""
        with self._lock:
            return self._partition(group_id, topic, partition).lock_end(offset)

    def expire_locks(self, group_id: str) -> None:
        """Expire all locks of a group now."""
        with self._lock:
            for each in self._groups[group_id].partitions.values():
                each.expire()

    def expel(self, group_id: str, member_id: str) -> None:
        """Remove a member from its group by force."""
        with self._lock:
            self._groups[group_id].leave(member_id)

    def clear_sessions(self) -> None:
        """Forget the share sessions of all brokers. Their acquired records are released."""
        with self._lock:
            for each in self._sessions.values():
                each.release()
            self._sessions.clear()

    def session_count(self, broker: int | None = None) -> int:
        """Return the number of sessions of one broker, or of all."""
        with self._lock:
            return sum(broker in (None, key[0]) for key in self._sessions)

    def end_sessions(self, connection: Connection) -> None:
        """End the sessions of a connection whose thread ends. Takes the lock."""
        with self._lock:
            for key, session in list(self._sessions.items()):
                if session.connection is connection:
                    del self._sessions[key]
                    session.release()

    def _partition(self, group_id: str, topic: str, partition: int) -> SharePartition:
        return self._groups[group_id].partition(self._topics[topic], partition)

    # --- for handlers ---

    def find(self, group_id: str, *, make: bool) -> ShareGroup:
        """Return a group, or make it if allowed. Raises ``GroupError``."""
        group = self._groups.get(group_id)
        if group is None and make:
            group = self._groups[group_id] = ShareGroup(
                group_id, self.settings.of(group_id), self._topics, self._clock
            )
        if group is None:
            raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND, text=f"Group {group_id} not found.")
        return group

    def all(self) -> list[ShareGroup]:
        """Return every share group of the cluster."""
        for group in self._groups.values():
            group.tick()
        return list(self._groups.values())

    def without_members(self, group_id: str) -> ShareGroup:
        """Return a group whose offsets an administrator may change. Raises ``GroupError``."""
        group = self.find(group_id, make=False)
        group.tick()
        if group.members:
            raise GroupError(ErrorCode.NON_EMPTY_GROUP)
        return group

    def delete(self, group_id: str) -> None:
        """Delete a group without members. Raises ``GroupError``."""
        self.without_members(group_id)
        del self._groups[group_id]

    def session(
        self, broker: int, group_id: str, member_id: str, epoch: int, connection: Connection
    ) -> tuple[ShareSession | None, ErrorCode]:
        """Return the session of a request, or None and an error code.

        The first epoch opens a session.
        """
        key = (broker, group_id, member_id)
        if epoch == FIRST_EPOCH:
            self._sessions.pop(key, None)
            if sum(each[0] == broker for each in self._sessions) >= self.settings.session_limit:
                return None, ErrorCode.SHARE_SESSION_LIMIT_REACHED
            group = self.find(group_id, make=True)
            self._sessions[key] = ShareSession(group, member_id, connection)
            return self._sessions[key], ErrorCode.NO_ERROR
        session = self._sessions.get(key)
        if session is None:
            return None, ErrorCode.SHARE_SESSION_NOT_FOUND
        if epoch == FINAL_EPOCH:
            return session, ErrorCode.NO_ERROR
        if epoch != session.next_epoch:
            return None, ErrorCode.INVALID_SHARE_SESSION_EPOCH
        session.next_epoch = 1 if epoch == _LAST_EPOCH else epoch + 1
        return session, ErrorCode.NO_ERROR

    def close(self, broker: int, session: ShareSession) -> None:
        """End a session. The records that its member hasn't acknowledged are released."""
        self._sessions.pop((broker, session.group.id, session.member_id), None)
        session.release()
