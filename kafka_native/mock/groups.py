"""The coordinator of classic groups: members, generations, assignments, offsets.

A JoinGroup or SyncGroup waits in its connection's thread, on the group's condition, whose lock is the cluster's. There
is no timer: whoever looks at a group first lets what is due happen (``Group.tick``), and who waits looks from time to
time.
"""

from __future__ import annotations

import threading
import uuid
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from kafka_native._reference.error_codes import ErrorCode
from kafka_native.mock.membership import Committed, EditMetadata, GroupError, Left, Settings
from kafka_native.protocol import ProtocolError
from kafka_native.protocol.consumer_protocol import ConsumerProtocolSubscription

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka_native.mock.call import Call
    from kafka_native.mock.clock import Clock
    from kafka_native.protocol.groups import JoinGroupRequest, SyncGroupRequest

LONGEST_SESSION_MS = 1_800_000
METADATA_MAX_BYTES = 4096
_CHECK_INTERVAL_S = 0.25
_FIRST_WITH_MEMBER_ID_REQUIRED = 4
_FIRST_WITH_SKIP_ASSIGNMENT = 9


class State(Enum):
    """Where a group stands; the values are the names that Kafka shows."""

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
        """Know who it is; ``Group.join`` fills in the rest."""
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
        self.reason: str | None = None  # why it joined last
        self.waiting = 0  # requests that wait for this member's sake: it can't expire meanwhile

    def seen(self) -> None:
        """It gave a sign of life."""
        self.last_seen = self._clock.now()

    def is_expired(self, now: float) -> bool:
        """Whether its session is over."""
        return not self.waiting and now - self.last_seen > self.session_seconds


class Joined(NamedTuple):
    """A member that joined, its leader, and whether it learns the other members and assigns no partitions."""

    member: Member
    leader: str
    sees_members: bool
    skips_assignment: bool = False


class Group:
    """A classic group. Every method is called under the lock that its condition has."""

    type = "classic"

    def __init__(
        self, group_id: str, lock: threading.RLock, settings: Settings, clock: Clock
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
        self._pending: dict[
            str, float
        ] = {}  # ids given out with MEMBER_ID_REQUIRED, and until when they are good
        self._earliest_end = 0.0
        self._join_deadline = 0.0

    # --- joining ---

    def join(self, call: Call, request: JoinGroupRequest) -> Joined:
        """Join, and wait for the generation to begin. Raises ``GroupError``."""
        self.tick()
        self._check_join(request)
        leader = self.leader
        member, is_back = self._find_or_admit(call, request)
        protocols = {one.name: bytes(one.metadata) for one in request.protocols}
        is_news = protocols != member.protocols or member.is_joining
        member.protocols = protocols
        member.session_seconds = request.session_timeout_ms / 1000
        rebalance_ms = (
            request.rebalance_timeout_ms
            if request.rebalance_timeout_ms > 0
            else request.session_timeout_ms
        )
        member.rebalance_seconds = rebalance_ms / 1000
        member.reason = request.reason
        member.seen()
        if is_back and self.state is State.STABLE and self._elect_protocol() == self.protocol:
            # A static member came back: nobody has to do anything, and a leader among them isn't to assign again.
            skips = call.version >= _FIRST_WITH_SKIP_ASSIGNMENT and member.id == self.leader
            return Joined(member, self.leader if skips else leader, skips, skips)
        keeps_generation = (
            self.state is State.STABLE and member.id != self.leader
        ) or self.state is State.COMPLETING
        if keeps_generation and not is_news and not is_back:
            return Joined(member, self.leader, member.id == self.leader)
        if self.state is not State.PREPARING:
            self._prepare_rebalance()
        member.is_joining = True
        self._wait_while(call, member, lambda: member.is_joining)
        return Joined(member, self.leader, member.id == self.leader)

    def _check_join(self, request: JoinGroupRequest) -> None:
        self._check_size(request)
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

    def _find_or_admit(self, call: Call, request: JoinGroupRequest) -> tuple[Member, bool]:
        """The member, and whether it is a static one that came back under another id."""
        instance = request.group_instance_id
        member_id = request.member_id
        if member_id and member_id not in self._pending:
            return self.known(member_id, instance), False
        if not member_id:
            member_id = f"{instance or call.client_id}-{uuid.uuid4()}"
            if instance is None and call.version >= _FIRST_WITH_MEMBER_ID_REQUIRED:
                self._pending[member_id] = self.clock.now() + request.session_timeout_ms / 1000
                raise GroupError(ErrorCode.MEMBER_ID_REQUIRED, member_id)
        self._pending.pop(member_id, None)
        member = Member(member_id, instance, call.client_id, call.connection.peer[0], self.clock)
        old = None if instance is None else self.members.pop(self._static.get(instance, ""), None)
        self.admit(member)
        if old is None:
            member.is_joining = True
        else:  # the old instance is fenced from now on, the new one has all that was its
            member.protocols, member.assignment = old.protocols, old.assignment
            if self.leader == old.id:
                self.leader = member_id
            self.changed.notify_all()
        self.protocol_type = request.protocol_type
        return member, old is not None

    def admit(self, member: Member) -> None:
        """Take a member in."""
        self.members[member.id] = member
        if member.instance_id is not None:
            self._static[member.instance_id] = member.id

    def take_over(self, leader: str) -> None:
        """Begin with members that were those of another protocol: they are to join again."""
        self.leader = leader
        self.protocol = self._elect_protocol()
        self.state = State.STABLE
        self._prepare_rebalance()

    def rebalance(self) -> None:
        """Let every member join again."""
        if self.state in (State.STABLE, State.COMPLETING):
            self._prepare_rebalance()

    def expel(self, member_id: str, *, fence: bool) -> None:
        """Take a member out without its doing.

        With ``fence`` a static member is told FENCED_INSTANCE_ID, as if another process had taken its instance id;
        that one expires with the session.
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
            member.seen()
        self.changed.notify_all()

    def _elect_protocol(self) -> str:
        """What every member can; each votes for the first of those in its own list."""
        first, *others = self.members.values()
        common = set(first.protocols).intersection(*(member.protocols for member in others))
        votes = [
            next(name for name in member.protocols if name in common)
            for member in self.members.values()
        ]
        return max(common, key=lambda name: (votes.count(name), -list(first.protocols).index(name)))

    # --- syncing and staying ---

    def sync(self, call: Call, request: SyncGroupRequest) -> Member:
        """Give (as the leader) and get the assignment. Raises ``GroupError``."""
        self.tick()
        member = self.known(request.member_id, request.group_instance_id)
        if request.generation_id != self.generation:
            raise GroupError(ErrorCode.ILLEGAL_GENERATION)
        for said, known in (
            (request.protocol_type, self.protocol_type),
            (request.protocol_name, self.protocol),
        ):
            if said is not None and said != known:
                raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        member.seen()
        member.must_sync = False
        if self.state is State.COMPLETING and member.id == self.leader:
            given = {one.member_id: bytes(one.assignment) for one in request.assignments}
            for other in self.members.values():
                other.assignment = given.get(other.id, b"")
            self.state = State.STABLE
            self.changed.notify_all()
        generation = self.generation
        self._wait_while(
            call, member, lambda: self.state is State.COMPLETING and self.generation == generation
        )
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

    def leave(self, member_id: str, instance_id: str | None, reason: str | None) -> None:
        """Take a member out of the group. Raises ``GroupError``."""
        self.tick()
        if not member_id and instance_id is not None:
            member_id = self._static.get(instance_id, "")
        if self._pending.pop(member_id, None) is None:
            self._drop(self.known(member_id, instance_id).id)
            self.left.append(Left(member_id, instance_id, reason))
        self._after_loss()

    def known(self, member_id: str, instance_id: str | None = None) -> Member:
        """A member by its id. Raises ``GroupError``."""
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
        """Let happen what is due: sessions end, and a rebalance that waits for nobody (any longer) ends."""
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
            if (
                self.members[member_id].instance_id is None
            ):  # a static member has until its session ends
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

    def _wait_while(self, call: Call, member: Member, condition: Callable[[], bool]) -> None:
        member.waiting += 1
        try:
            self.tick()
            while (
                condition()
                and not call.connection.is_closing
                and self.members.get(member.id) is member
            ):
                self._check_is_mine(call)
                self.changed.wait(_CHECK_INTERVAL_S)
                self.tick()
        finally:
            member.waiting -= 1
            member.seen()
        self._check_is_mine(call)
        if self.members.get(member.id) is not member:
            is_fenced = self._static.get(member.instance_id or "", member.id) != member.id
            raise GroupError(
                ErrorCode.FENCED_INSTANCE_ID if is_fenced else ErrorCode.UNKNOWN_MEMBER_ID
            )

    def _check_is_mine(self, call: Call) -> None:
        """Raises ``GroupError`` where another broker or another protocol has taken over meanwhile."""
        if call.cluster.coordinator_of(self.id) is not call.broker:
            raise GroupError(ErrorCode.NOT_COORDINATOR)
        if self.is_converted:
            raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS)

    def wake(self) -> None:
        """Let every waiting request look again."""
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
        """Whether a commit is allowed: by a member of this generation, or by anybody while there are no members.

        It is allowed as well while members join again: they commit what they give up. Raises ``GroupError``.
        """
        self.tick()
        if generation < 0 and self.state is State.EMPTY:
            return
        if generation >= 0 or member_id or instance_id is not None:
            member = self.known(member_id, instance_id)
            if generation != self.generation:
                raise GroupError(ErrorCode.ILLEGAL_GENERATION)
            if self.state is not State.COMPLETING:
                member.seen()
        elif self.state is not State.EMPTY:
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
        if self.state is State.COMPLETING:
            raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS)

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Whether committed offsets are told: to anybody."""

    def is_subscribed(self, topic: str) -> bool:
        """Whether a member reads a topic, as far as its metadata can be read."""
        if self.protocol_type != "consumer" or self.protocol is None:
            return False
        for member in self.members.values():
            try:
                found = ConsumerProtocolSubscription.unpack(
                    member.protocols.get(self.protocol, b"")
                )
            except ProtocolError:
                return True  # Kafka is careful too where it can't tell
            if topic in found.topics:
                return True
        return False
