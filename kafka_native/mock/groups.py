"""The coordinator of classic groups: members, generations, assignments, offsets.

A JoinGroup or SyncGroup waits in its connection's thread, on the group's condition. The condition
uses the cluster's lock. There is no timer: each access to a group calls ``Group.tick()`` first, and
a waiting request calls it at intervals.
"""

from __future__ import annotations

import threading
import uuid
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from kafka_native._reference.error_codes import ErrorCode
from kafka_native.mock.membership import (
    Committed,
    EditMetadata,
    GroupClient,
    GroupError,
    GroupSettings,
    Left,
)
from kafka_native.protocol import ProtocolError
from kafka_native.protocol.consumer_protocol import ConsumerProtocolSubscription

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka_native.mock.clock import Clock
    from kafka_native.protocol.groups import JoinGroupRequest, SyncGroupRequest

SESSION_MAX_MS = 1_800_000
METADATA_MAX_BYTES = 4096
_CHECK_INTERVAL_S = 0.25
_FIRST_WITH_MEMBER_ID_REQUIRED = 4
_FIRST_WITH_SKIP_ASSIGNMENT = 9


class State(Enum):
    """The state of a group. The values are the names that Kafka shows."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class Member:
    """One member of a group."""

    def __init__(
        self, member_id: str, instance_id: str | None, client_id: str, host: str, clock: Clock
    ) -> None:
        """Start with the identity. ``Group.join()`` fills in the rest."""
        self.id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.host = host
        self.session_seconds = 0.0
        self.rebalance_seconds = 0.0
        self.protocols: dict[str, bytes] = {}
        self.assignment = b""
        self._clock = clock
        self.last_seen = clock.now()
        self.is_joining = False
        self.must_sync = False
        self.reason: str | None = None  # the reason that its last join gave
        self.waiting = 0  # requests that wait; until they end, the member can't expire

    def restart_session(self) -> None:
        """Restart the session timeout."""
        self.last_seen = self._clock.now()

    def is_expired(self, now: float) -> bool:
        """Return whether the session has expired."""
        return not self.waiting and now - self.last_seen > self.session_seconds


class Joined(NamedTuple):
    """The result of a join.

    - ``has_members``: whether the response lists the other members.
    - ``skip_assignment``: whether this leader must not assign partitions.
    """

    member: Member
    leader: str
    has_members: bool
    skip_assignment: bool = False


class Group:
    """A classic group. The caller holds the condition's lock in every method."""

    type = "classic"

    def __init__(
        self, group_id: str, lock: threading.RLock, settings: GroupSettings, clock: Clock
    ) -> None:
        """Make an empty group."""
        self.id = group_id
        self.settings = settings
        self.clock = clock
        self.state = State.EMPTY
        self.generation = 0
        self.protocol_type = ""
        self.protocol: str | None = None
        self.leader = ""
        self.members: dict[str, Member] = {}
        self.offsets: dict[tuple[str, int], Committed] = {}
        self.left: list[Left] = []
        self.edit_metadata: EditMetadata | None = None
        self.is_converted = False  # to a group of the consumer protocol
        self.changed = threading.Condition(lock)
        self._static: dict[str, str] = {}
        # Member ids that were given out with MEMBER_ID_REQUIRED, and when they expire.
        self._pending: dict[str, float] = {}
        self._earliest_end = 0.0
        self._join_deadline = 0.0

    # --- joining ---

    def join(self, client: GroupClient, request: JoinGroupRequest) -> Joined:
        """Join, and wait for the generation to begin. Raises ``GroupError``."""
        self.tick()
        self._check_join(request)
        leader = self.leader
        member, has_returned = self._find_or_admit(client, request)
        protocols = {one.name: bytes(one.metadata) for one in request.protocols}
        has_changed = protocols != member.protocols or member.is_joining
        member.protocols = protocols
        member.session_seconds = request.session_timeout_ms / 1000
        rebalance_ms = (
            request.rebalance_timeout_ms
            if request.rebalance_timeout_ms > 0
            else request.session_timeout_ms
        )
        member.rebalance_seconds = rebalance_ms / 1000
        member.reason = request.reason
        member.restart_session()
        if has_returned and self.state is State.STABLE and self._elect_protocol() == self.protocol:
            # A static member came back. The assignment stays, so a leader must not assign again.
            skip = client.version >= _FIRST_WITH_SKIP_ASSIGNMENT and member.id == self.leader
            return Joined(member, self.leader if skip else leader, skip, skip)
        is_same_generation = (
            self.state is State.STABLE and member.id != self.leader
        ) or self.state is State.COMPLETING
        if is_same_generation and not has_changed and not has_returned:
            return Joined(member, self.leader, member.id == self.leader)
        if self.state is not State.PREPARING:
            self._prepare_rebalance()
        member.is_joining = True
        self._wait_while(client, member, lambda: member.is_joining)
        return Joined(member, self.leader, member.id == self.leader)

    def _check_join(self, request: JoinGroupRequest) -> None:
        self._check_size(request)
        if not 0 < request.session_timeout_ms <= SESSION_MAX_MS:
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

    def _check_size(self, request: JoinGroupRequest) -> None:
        limit = self.settings.max_size
        if limit is None or self.state is State.EMPTY or request.group_instance_id in self._static:
            return
        known = self.members.get(request.member_id)
        if self.state is State.PREPARING:
            is_in = known is not None and known.is_joining
            count = sum(member.is_joining for member in self.members.values())
        else:
            is_in, count = known is not None, len(self.members)
        if not is_in and count >= limit:
            if known is not None:
                self._drop(known.id)
            raise GroupError(ErrorCode.GROUP_MAX_SIZE_REACHED)

    def _find_or_admit(self, client: GroupClient, request: JoinGroupRequest) -> tuple[Member, bool]:
        """Return the member, and whether it is a static member that came back under another id."""
        instance = request.group_instance_id
        member_id = request.member_id
        if member_id and member_id not in self._pending:
            return self.find_member(member_id, instance), False
        if not member_id:
            member_id = f"{instance or client.id}-{uuid.uuid4()}"
            if instance is None and client.version >= _FIRST_WITH_MEMBER_ID_REQUIRED:
                self._pending[member_id] = self.clock.now() + request.session_timeout_ms / 1000
                raise GroupError(ErrorCode.MEMBER_ID_REQUIRED, member_id)
        self._pending.pop(member_id, None)
        member = Member(member_id, instance, client.id, client.host, self.clock)
        old = None if instance is None else self.members.pop(self._static.get(instance, ""), None)
        self.admit(member)
        # The old instance of a static member is fenced from now on. The new one takes over its
        # data.
        if old is None:
            member.is_joining = True
        else:
            member.protocols, member.assignment = old.protocols, old.assignment
            if self.leader == old.id:
                self.leader = member_id
            self.changed.notify_all()
        self.protocol_type = request.protocol_type
        return member, old is not None

    def admit(self, member: Member) -> None:
        """Add a member to the group."""
        self.members[member.id] = member
        if member.instance_id is not None:
            self._static[member.instance_id] = member.id

    def take_over(self, leader: str) -> None:
        """Start with members from another protocol. They must join again."""
        self.leader = leader
        self.protocol = self._elect_protocol()
        self.state = State.STABLE
        self._prepare_rebalance()

    def rebalance(self) -> None:
        """Make every member join again."""
        if self.state in (State.STABLE, State.COMPLETING):
            self._prepare_rebalance()

    def expel(self, member_id: str, *, fence: bool) -> None:
        """Remove a member by force.

        With ``fence`` a static member gets FENCED_INSTANCE_ID, as if another process had its
        instance id. That other member expires with its session.
        """
        member = self.members[member_id]
        self._drop(member_id)
        if fence and member.instance_id is not None:
            other = Member(
                f"{member.instance_id}-{uuid.uuid4()}", member.instance_id, "", "", self.clock
            )
            other.session_seconds, other.protocols = member.session_seconds, member.protocols
            self.admit(other)
        self._after_loss()

    def _prepare_rebalance(self) -> None:
        now = self.clock.now()
        was_empty = self.state is State.EMPTY
        self.state = State.PREPARING
        self._earliest_end = now + self.settings.rebalance_delay if was_empty else now
        self._join_deadline = now + max(
            (one.rebalance_seconds for one in self.members.values()), default=0.0
        )
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
            joined = [member.id for member in self.members.values() if member.is_joining]
            if self.leader not in joined:
                self.leader = joined[0]
            self._join_deadline = self.clock.now() + max(
                one.rebalance_seconds for one in self.members.values()
            )
        for member in self.members.values():
            member.must_sync = member.is_joining
            member.is_joining = False
            member.restart_session()
        self.changed.notify_all()

    def _elect_protocol(self) -> str:
        """Return the protocol with the largest number of votes.

        Only protocols that all members support count. Each member votes for the first of them in
        its own list.
        """
        first, *others = self.members.values()
        common = set(first.protocols).intersection(*(member.protocols for member in others))
        votes = [
            next(name for name in member.protocols if name in common)
            for member in self.members.values()
        ]
        return max(common, key=lambda name: (votes.count(name), -list(first.protocols).index(name)))

    # --- syncing and staying ---

    def sync(self, client: GroupClient, request: SyncGroupRequest) -> Member:
        """Wait for the assignment. The leader's request contains it. Raises ``GroupError``."""
        self.tick()
        member = self.find_member(request.member_id, request.group_instance_id)
        if request.generation_id != self.generation:
            raise GroupError(ErrorCode.ILLEGAL_GENERATION)
        for requested, actual in (
            (request.protocol_type, self.protocol_type),
            (request.protocol_name, self.protocol),
        ):
            if requested is not None and requested != actual:
                raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        member.restart_session()
        member.must_sync = False
        if self.state is State.COMPLETING and member.id == self.leader:
            given = {one.member_id: bytes(one.assignment) for one in request.assignments}
            for other in self.members.values():
                other.assignment = given.get(other.id, b"")
            self.state = State.STABLE
            self.changed.notify_all()
        generation = self.generation
        self._wait_while(
            client, member, lambda: self.state is State.COMPLETING and self.generation == generation
        )
        if self.state is not State.STABLE or self.generation != generation:
            raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS)
        return member

    def heartbeat(self, member_id: str, instance_id: str | None, generation: int) -> None:
        """Restart a member's session. Raises ``GroupError``, for example in a rebalance."""
        self.tick()
        member = self.find_member(member_id, instance_id)
        if generation != self.generation:
            raise GroupError(ErrorCode.ILLEGAL_GENERATION)
        member.restart_session()
        if self.state is State.PREPARING:
            raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS)

    def leave(self, member_id: str, instance_id: str | None, reason: str | None) -> None:
        """Remove a member from the group. Raises ``GroupError``."""
        self.tick()
        if not member_id and instance_id is not None:
            member_id = self._static.get(instance_id, "")
        if self._pending.pop(member_id, None) is None:
            self._drop(self.find_member(member_id, instance_id).id)
            self.left.append(Left(member_id, instance_id, reason))
        self._after_loss()

    def find_member(self, member_id: str, instance_id: str | None = None) -> Member:
        """Return a member by its ids. Raises ``GroupError``."""
        member = self.members.get(member_id)
        if instance_id is not None:
            owner = self._static.get(instance_id)
            if owner is not None and owner != member_id:
                raise GroupError(ErrorCode.FENCED_INSTANCE_ID)
            member = member if owner is not None else None
        if member is None:
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    # --- time ---

    def tick(self) -> None:
        """End expired sessions, and end a rebalance that waits for no member any longer."""
        now = self.clock.now()
        for member_id, deadline in list(self._pending.items()):
            if deadline < now:
                del self._pending[member_id]
        expired = [member.id for member in self.members.values() if member.is_expired(now)]
        if self.state in (State.COMPLETING, State.STABLE) and now >= self._join_deadline:
            expired += [member.id for member in self.members.values() if member.must_sync]
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
            # A static member keeps its place until its session expires.
            if self.members[member_id].instance_id is None:
                self._drop(member_id)
        if (
            missing
            and self.members
            and not any(member.is_joining for member in self.members.values())
        ):
            self._join_deadline = now + max(
                member.rebalance_seconds for member in self.members.values()
            )
            return
        self._begin_generation()

    def _wait_while(
        self, client: GroupClient, member: Member, condition: Callable[[], bool]
    ) -> None:
        member.waiting += 1
        try:
            self.tick()
            while condition() and not client.is_closing() and self.members.get(member.id) is member:
                self._check_not_moved(client)
                self.changed.wait(_CHECK_INTERVAL_S)
                self.tick()
        finally:
            member.waiting -= 1
            member.restart_session()
        self._check_not_moved(client)
        if self.members.get(member.id) is not member:
            is_fenced = self._static.get(member.instance_id or "", member.id) != member.id
            raise GroupError(
                ErrorCode.FENCED_INSTANCE_ID if is_fenced else ErrorCode.UNKNOWN_MEMBER_ID
            )

    def _check_not_moved(self, client: GroupClient) -> None:
        """Raise ``GroupError`` if another broker or another protocol has taken over the group."""
        client.check_coordinator()
        if self.is_converted:
            raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS)

    def wake(self) -> None:
        """Wake every waiting request, so that it checks its condition."""
        self.changed.notify_all()

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

    def check_commit(
        self, member_id: str, instance_id: str | None, generation: int, version: int
    ) -> None:
        """Raise ``GroupError`` unless a commit is allowed.

        A member may commit in its generation, also while members join again, because it commits on
        revocation. Any client may commit while the group has no members.
        """
        self.tick()
        if generation < 0 and self.state is State.EMPTY:
            return
        if generation >= 0 or member_id or instance_id is not None:
            member = self.find_member(member_id, instance_id)
            if generation != self.generation:
                raise GroupError(ErrorCode.ILLEGAL_GENERATION)
            if self.state is not State.COMPLETING:
                member.restart_session()
        elif self.state is not State.EMPTY:
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
        if self.state is State.COMPLETING:
            raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS)

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Do nothing: any client may read committed offsets."""

    def is_subscribed(self, topic: str) -> bool:
        """Return whether a member subscribes to a topic, as far as its metadata is readable."""
        if self.protocol_type != "consumer" or self.protocol is None:
            return False
        for member in self.members.values():
            try:
                found = ConsumerProtocolSubscription.unpack(
                    member.protocols.get(self.protocol, b"")
                )
            except ProtocolError:
                return True  # Kafka assumes a subscription too if the metadata is unreadable
            if topic in found.topics:
                return True
        return False
