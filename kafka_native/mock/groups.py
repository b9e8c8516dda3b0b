"""The coordinator of classic groups: members, generations, assignments, offsets.

A JoinGroup or SyncGroup waits in its connection's thread, on the group's condition, whose lock is the cluster's. There
is no timer: whoever looks at a group first lets what is due happen (``Group.tick``), and who waits looks from time to
time.
"""

from __future__ import annotations

import threading
import time
import uuid
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from kafka_native._reference.error_codes import ErrorCode

if TYPE_CHECKING:
    from kafka_native.mock.call import Call
    from kafka_native.protocol.groups import JoinGroupRequest, SyncGroupRequest

LONGEST_SESSION_MS = 1_800_000
MOST_METADATA_BYTES = 4096
_LOOK_SECONDS = 0.25
_FIRST_WITH_MEMBER_ID_REQUIRED = 4


class State(Enum):
    """Where a group stands; the values are the names that Kafka shows."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class GroupError(Exception):
    """A request that the coordinator refuses; ``member_id`` is for MEMBER_ID_REQUIRED."""

    def __init__(self, code: ErrorCode, member_id: str = "") -> None:
        """Keep the code."""
        super().__init__(code.name)
        self.code = code
        self.member_id = member_id


class Member:
    """One member of a group."""

    def __init__(self, member_id: str, instance_id: str | None, client_id: str, host: str) -> None:
        """Know who it is; ``Group.join`` fills in the rest."""
        self.id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.host = host
        self.session_seconds = 0.0
        self.rebalance_seconds = 0.0
        self.protocols: dict[str, bytes] = {}
        self.assignment = b""
        self.last_seen = time.monotonic()
        self.is_joining = False
        self.waiting = 0  # requests that wait for this member's sake: it can't expire meanwhile

    def seen(self) -> None:
        """It gave a sign of life."""
        self.last_seen = time.monotonic()

    def is_expired(self, now: float) -> bool:
        """Whether its session is over."""
        return not self.waiting and now - self.last_seen > self.session_seconds


class Committed(NamedTuple):
    """A stored offset."""

    offset: int
    leader_epoch: int
    metadata: str


class Group:
    """A classic group. Every method is called under the lock that its condition has."""

    def __init__(self, group_id: str, lock: threading.RLock, rebalance_delay: float) -> None:
        """Make an empty group."""
        self.id = group_id
        self.state = State.EMPTY
        self.generation = 0
        self.protocol_type = ""
        self.protocol: str | None = None
        self.leader = ""
        self.members: dict[str, Member] = {}
        self.offsets: dict[tuple[str, int], Committed] = {}
        self.changed = threading.Condition(lock)
        self._static: dict[str, str] = {}
        self._pending: dict[str, float] = {}  # ids given out with MEMBER_ID_REQUIRED, and until when they are good
        self._rebalance_delay = rebalance_delay
        self._earliest_end = 0.0
        self._join_deadline = 0.0

    # --- joining ---

    def join(self, call: Call, request: JoinGroupRequest) -> Member:
        """Join, and wait for the generation to begin. Raises ``GroupError``."""
        self.tick()
        self._check_join(request)
        member = self._find_or_admit(call, request)
        protocols = {one.name: bytes(one.metadata) for one in request.protocols}
        is_news = protocols != member.protocols or member.is_joining
        member.protocols = protocols
        member.session_seconds = request.session_timeout_ms / 1000
        rebalance_ms = request.rebalance_timeout_ms if request.rebalance_timeout_ms > 0 else request.session_timeout_ms
        member.rebalance_seconds = rebalance_ms / 1000
        member.seen()
        keeps_generation = (self.state is State.STABLE and member.id != self.leader) or self.state is State.COMPLETING
        if keeps_generation and not is_news:
            return member
        if self.state is not State.PREPARING:
            self._prepare_rebalance()
        member.is_joining = True
        self._wait_while(call, member, lambda: member.is_joining)
        if self.members.get(member.id) is not member:
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    def _check_join(self, request: JoinGroupRequest) -> None:
        if not 0 < request.session_timeout_ms <= LONGEST_SESSION_MS:
            raise GroupError(ErrorCode.INVALID_SESSION_TIMEOUT)
        names = {one.name for one in request.protocols}
        others = [member for member in self.members.values() if member.id != request.member_id]
        if not names or not request.protocol_type:
            raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if others and (
            request.protocol_type != self.protocol_type
            or not names.intersection(*(member.protocols for member in others))
        ):
            raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)

    def _find_or_admit(self, call: Call, request: JoinGroupRequest) -> Member:
        instance = request.group_instance_id
        member_id = request.member_id
        if member_id and member_id not in self._pending:
            return self.known(member_id, instance)
        if not member_id:
            member_id = f"{instance or call.client_id}-{uuid.uuid4()}"
            if instance is None and call.version >= _FIRST_WITH_MEMBER_ID_REQUIRED:
                self._pending[member_id] = time.monotonic() + request.session_timeout_ms / 1000
                raise GroupError(ErrorCode.MEMBER_ID_REQUIRED, member_id)
        self._pending.pop(member_id, None)
        if instance is not None and instance in self._static:
            self._drop(self._static[instance])  # the old instance is fenced: its id is unknown from now on
        member = self.members[member_id] = Member(member_id, instance, call.client_id, call.connection.peer[0])
        member.is_joining = True
        if instance is not None:
            self._static[instance] = member_id
        self.protocol_type = request.protocol_type
        return member

    def _prepare_rebalance(self) -> None:
        now = time.monotonic()
        was_empty = self.state is State.EMPTY
        self.state = State.PREPARING
        self._earliest_end = now + self._rebalance_delay if was_empty else now
        self._join_deadline = now + max((one.rebalance_seconds for one in self.members.values()), default=0.0)
        for member in self.members.values():
            member.assignment = b""
        self.changed.notify_all()

    def _begin_generation(self) -> None:
        self.generation += 1
        if not self.members:
            self.state = State.EMPTY
            self.protocol = None
            self.leader = ""
        else:
            self.state = State.COMPLETING
            self.protocol = self._elect_protocol()
            if self.leader not in self.members:
                self.leader = next(iter(self.members))
            self._join_deadline = time.monotonic() + max(one.rebalance_seconds for one in self.members.values())
        for member in self.members.values():
            member.is_joining = False
            member.seen()
        self.changed.notify_all()

    def _elect_protocol(self) -> str:
        """What every member can; each votes for the first of those in its own list."""
        first, *others = self.members.values()
        common = set(first.protocols).intersection(*(member.protocols for member in others))
        votes = [next(name for name in member.protocols if name in common) for member in self.members.values()]
        return max(common, key=lambda name: (votes.count(name), -list(first.protocols).index(name)))

    # --- syncing and staying ---

    def sync(self, call: Call, request: SyncGroupRequest) -> Member:
        """Give (as the leader) and get the assignment. Raises ``GroupError``."""
        self.tick()
        member = self.known(request.member_id, request.group_instance_id)
        if request.generation_id != self.generation:
            raise GroupError(ErrorCode.ILLEGAL_GENERATION)
        for said, known in ((request.protocol_type, self.protocol_type), (request.protocol_name, self.protocol)):
            if said is not None and said != known:
                raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        member.seen()
        if self.state is State.COMPLETING and member.id == self.leader:
            given = {one.member_id: bytes(one.assignment) for one in request.assignments}
            for other in self.members.values():
                other.assignment = given.get(other.id, b"")
            self.state = State.STABLE
            self.changed.notify_all()
        generation = self.generation
        self._wait_while(call, member, lambda: self.state is State.COMPLETING and self.generation == generation)
        if self.members.get(member.id) is not member:
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
        if self.state is not State.STABLE or self.generation != generation:
            raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS)
        return member

    def heartbeat(self, member_id: str, instance_id: str | None, generation: int) -> None:
        """Stay a member. Raises ``GroupError``, for instance when it is time to join again."""
        self.tick()
        member = self.known(member_id, instance_id)
        if generation != self.generation:
            raise GroupError(ErrorCode.ILLEGAL_GENERATION)
        member.seen()
        if self.state is State.PREPARING:
            raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS)

    def leave(self, member_id: str, instance_id: str | None) -> None:
        """Leave. Raises ``GroupError``."""
        self.tick()
        if not member_id and instance_id is not None:
            member_id = self._static.get(instance_id, "")
        if self._pending.pop(member_id, None) is None:
            self._drop(self.known(member_id, instance_id).id)
        self._after_loss()

    def known(self, member_id: str, instance_id: str | None = None) -> Member:
        """A member by its id. Raises ``GroupError``."""
        if instance_id is not None and self._static.get(instance_id, member_id) != member_id:
            raise GroupError(ErrorCode.FENCED_INSTANCE_ID)
        member = self.members.get(member_id)
        if member is None:
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    # --- time ---

    def tick(self) -> None:
        """Let happen what is due: sessions end, and a rebalance that waits for nobody (any longer) ends."""
        now = time.monotonic()
        for member_id, deadline in list(self._pending.items()):
            if deadline < now:
                del self._pending[member_id]
        expired = [member.id for member in self.members.values() if member.is_expired(now)]
        if self.state is State.COMPLETING and now >= self._join_deadline:
            expired += [self.leader]  # it promised an assignment and didn't bring it
        for member_id in set(expired):
            self._drop(member_id)
        if expired:
            self._after_loss()
        if self.state is not State.PREPARING:
            return
        missing = [member.id for member in self.members.values() if not member.is_joining]
        if missing and now < self._join_deadline:
            return
        if now < self._earliest_end or (self._pending and now < self._join_deadline):
            return
        for member_id in missing:
            self._drop(member_id)
        self._begin_generation()

    def _wait_while(self, call: Call, member: Member, condition: _Condition) -> None:
        member.waiting += 1
        try:
            self.tick()
            while condition() and not call.connection.is_closing and self.members.get(member.id) is member:
                self.changed.wait(_LOOK_SECONDS)
                self.tick()
        finally:
            member.waiting -= 1
            member.seen()

    def _drop(self, member_id: str) -> None:
        member = self.members.pop(member_id)
        if member.instance_id is not None and self._static.get(member.instance_id) == member_id:
            del self._static[member.instance_id]
        self.changed.notify_all()

    def _after_loss(self) -> None:
        if self.state in (State.STABLE, State.COMPLETING):
            self._prepare_rebalance()
        if self.state is State.PREPARING and not self.members and not self._pending:
            self._begin_generation()
        self.changed.notify_all()

    # --- offsets ---

    def check_commit(self, member_id: str, instance_id: str | None, generation: int) -> None:
        """Whether a commit is allowed: by a member of this generation, or by anybody while there are no members."""
        self.tick()
        if generation < 0 and not member_id and not self.members:
            return
        member = self.known(member_id, instance_id)
        if generation != self.generation:
            raise GroupError(ErrorCode.ILLEGAL_GENERATION)
        if self.state is State.COMPLETING:
            raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS)
        member.seen()


if TYPE_CHECKING:
    from collections.abc import Callable

    _Condition = Callable[[], bool]


class Groups:
    """The groups of the cluster. They survive the broker that coordinates them, as their log would."""

    def __init__(self, lock: threading.RLock, rebalance_delay: float) -> None:
        """No groups yet; ``lock`` is the cluster's."""
        self._lock = lock
        self._rebalance_delay = rebalance_delay
        self._groups: dict[str, Group] = {}

    def find(self, group_id: str) -> Group | None:
        """A group that exists."""
        group = self._groups.get(group_id)
        if group is not None:
            group.tick()
        return group

    def find_or_make(self, group_id: str) -> Group:
        """A group, new if need be."""
        group = self._groups.get(group_id)
        if group is None:
            group = self._groups[group_id] = Group(group_id, self._lock, self._rebalance_delay)
        return group

    def all(self) -> list[Group]:
        """Every group."""
        for group in self._groups.values():
            group.tick()
        return list(self._groups.values())

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
            group.changed.notify_all()
