"""The coordinator of groups of the consumer protocol (KIP-848).

A group has an epoch, and a target assignment for it. Every change of members, subscriptions or
topics raises the epoch. Each heartbeat lets its member take a step towards the target:

1. The member revokes the partitions that are not in its target.
2. When it has confirmed that, it moves to the new epoch.
3. Then it gets the partitions that no other member holds any longer.

The caller holds the cluster's lock in every method. There is no timer: each access to a group calls
``ConsumerGroup.tick()`` first.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from kafka_native._reference.error_codes import ErrorCode
from kafka_native.mock.assignors import ASSIGNORS, Key, MemberInput
from kafka_native.mock.membership import Committed, GroupError, GroupSettings, Left

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafka_native.mock.clock import Clock
    from kafka_native.mock.topics import Topic
    from kafka_native.protocol.groups import ConsumerGroupHeartbeatRequest

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
LEAVE_STATIC_MEMBER_EPOCH = -2
DEFAULT_REBALANCE_SECONDS = 300.0
# Python's expressions have these, RE2's don't: lookaround, atomic groups, conditions, references.
_NOT_RE2 = re.compile(r"\(\?(?:<?[=!]|>|\()|\(\?P=|\\[1-9]")
_ESCAPED = re.compile(r"\\[^1-9]")


class State(Enum):
    """The state of a group. The values are the names that Kafka shows."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    NOT_READY = "NotReady"
    DEAD = "Dead"


class Step(Enum):
    """The state of a member on its way to the target."""

    STABLE = "stable"
    UNREVOKED = "unrevoked"
    UNRELEASED = "unreleased"


class Classic(NamedTuple):
    """The data of a member that uses the classic protocol: its assignors and their metadata."""

    protocols: dict[str, bytes]
    session_seconds: float


class ConsumerMember:
    """One member of a group."""

    def __init__(
        self, member_id: str, instance_id: str | None, client_id: str, host: str, clock: Clock
    ) -> None:
        """Start with the identity. Heartbeats fill in the rest."""
        self.id = member_id
        self.instance_id = instance_id
        self.rack_id = ""
        self.client_id = client_id
        self.host = host
        self.epoch = 0
        self.previous_epoch = 0
        self.step = Step.STABLE
        self.rebalance_seconds = DEFAULT_REBALANCE_SECONDS
        self.topics: list[str] = []
        self.regex = ""
        self.assignor: str | None = None
        self.assigned: set[Key] = set()
        self.revoking: set[Key] = set()
        self.classic: Classic | None = None
        self.is_new = True
        self.clock = clock
        self.last_seen = clock.now()
        self.revoke_deadline: float | None = None
        self.join_deadline: float | None = None

    def restart_session(self) -> None:
        """Restart the session timeout."""
        self.last_seen = self.clock.now()

    @property
    def is_away(self) -> bool:
        """Whether this static member left temporarily."""
        return self.epoch == LEAVE_STATIC_MEMBER_EPOCH


def check_regex(pattern: str) -> re.Pattern[str]:
    """Compile an expression as RE2 would. Raises ``GroupError`` with INVALID_REGULAR_EXPRESSION."""
    text = f"SubscribedTopicRegex `{pattern}` is not a valid regular expression"
    if _NOT_RE2.search(_ESCAPED.sub("", pattern)):
        raise GroupError(ErrorCode.INVALID_REGULAR_EXPRESSION, text=text)
    try:
        return re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise GroupError(ErrorCode.INVALID_REGULAR_EXPRESSION, text=f"{text}: {error}") from None


class ConsumerGroup:
    """A group of the consumer protocol."""

    type = "consumer"
    protocol_type = "consumer"

    def __init__(
        self, group_id: str, settings: GroupSettings, topics: Mapping[str, Topic], clock: Clock
    ) -> None:
        """Make an empty group. ``topics`` are the cluster's topics."""
        self.id = group_id
        self.settings = settings
        self.clock = clock
        self.epoch = 0
        self.target_epoch = 0
        self.target: dict[str, set[Key]] = {}
        self.assignor = settings.server_assignor
        self.members: dict[str, ConsumerMember] = {}
        self.offsets: dict[tuple[str, int], Committed] = {}
        self.left: list[Left] = []
        self.fenced: set[str] = set()
        self.pinned: dict[str, set[Key]] | None = None
        self._static: dict[str, str] = {}
        self._topics = topics
        self._patterns: dict[str, re.Pattern[str]] = {}
        self._seen_topics: dict[str, tuple[bytes, int]] = {}

    # --- queries ---

    @property
    def state(self) -> State:
        """The state of the group."""
        if not self.members:
            return State.EMPTY
        if self.epoch > self.target_epoch:
            return State.ASSIGNING
        is_done = all(
            one.step is Step.STABLE and one.epoch == self.target_epoch
            for one in self.members.values()
        )
        return State.STABLE if is_done else State.RECONCILING

    @property
    def generation(self) -> int:
        """The epoch of the group."""
        return self.epoch

    def wanted_topics(self, member: ConsumerMember) -> set[str]:
        """Return the existing topics that a member subscribes to, by name or by expression."""
        names = {name for name in member.topics if name in self._topics}
        if member.regex:
            pattern = self._patterns.setdefault(member.regex, check_regex(member.regex))
            names.update(name for name in self._topics if pattern.fullmatch(name))
        return names - self.settings.denied_topics

    def heartbeat_ms(self) -> int:
        """Return the heartbeat interval of the group in milliseconds."""
        return self.settings.heartbeat_ms_of(self.id)

    # --- heartbeats ---

    def heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, client_id: str, host: str
    ) -> tuple[ConsumerMember, bool]:
        """Let a member join or stay. Raises ``GroupError``.

        Returns the member, and whether the response must contain its assignment.
        """
        self.tick()
        self._check_size(request.member_id, request.instance_id)
        if request.subscribed_topic_regex:
            check_regex(request.subscribed_topic_regex)
        owned = keys_of(request.topic_partitions)
        member = self._member_of(request, owned, client_id, host)
        before = set(member.assigned)
        changed = self._update(member, request)
        member.restart_session()
        self._refresh(bump=changed)
        self.reconcile(member, owned)
        is_full = request.rebalance_timeout_ms != -1 and owned is not None
        is_full = is_full and (
            request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
        )
        is_first = request.member_epoch == JOIN_EPOCH
        return member, is_first or is_full or before != member.assigned

    def _check_size(self, member_id: str, instance_id: str | None) -> None:
        limit = self.settings.max_size
        if member_id in self.members or (instance_id is not None and instance_id in self._static):
            return
        if limit is not None and len(self.members) >= limit:
            text = f"The consumer group has reached its maximum capacity of {limit} members."
            raise GroupError(ErrorCode.GROUP_MAX_SIZE_REACHED, text=text)

    def _member_of(
        self,
        request: ConsumerGroupHeartbeatRequest,
        owned: set[Key] | None,
        client_id: str,
        host: str,
    ) -> ConsumerMember:
        is_join = request.member_epoch == JOIN_EPOCH
        if request.instance_id is not None:
            member = self._static_member(request.instance_id, request.member_id, is_join)
        else:
            member = self.members.get(request.member_id)
        if member is None:
            if not is_join:
                if request.member_id in self.fenced:
                    raise GroupError(
                        ErrorCode.FENCED_MEMBER_EPOCH, text="The consumer group member was fenced."
                    )
                text = f"Member {request.member_id} is not a member of group {self.id}."
                raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID, text=text)
            return self.admit(
                ConsumerMember(request.member_id, request.instance_id, client_id, host, self.clock)
            )
        if is_join:
            return self._rejoin(member)
        if member.classic is not None:
            raise GroupError(
                ErrorCode.UNKNOWN_MEMBER_ID, text="The member uses the classic protocol."
            )
        self._check_epoch(member, request.member_epoch, owned)
        return member

    def admit(self, member: ConsumerMember) -> ConsumerMember:
        """Add a member to the group."""
        self.fenced.discard(member.id)
        self.members[member.id] = member
        if member.instance_id is not None:
            self._static[member.instance_id] = member.id
        return member

    @staticmethod
    def _rejoin(member: ConsumerMember) -> ConsumerMember:
        """Restart a known member. It owns nothing, so it has nothing to revoke."""
        member.epoch = member.previous_epoch = 0
        member.step = Step.STABLE
        member.revoking.clear()
        member.revoke_deadline = None
        member.classic = None
        return member

    def _static_member(
        self, instance_id: str, member_id: str, is_join: bool
    ) -> ConsumerMember | None:
        known = self.members.get(self._static.get(instance_id, ""))
        if known is None:
            return None
        if is_join:
            if not known.is_away and known.classic is None:
                text = (
                    f"Static member {member_id} with instance id {instance_id} cannot join the "
                    f"group because the instance id is owned by member {known.id}."
                )
                raise GroupError(ErrorCode.UNRELEASED_INSTANCE_ID, text=text)
            return self.replace(known, member_id)
        if known.id != member_id:
            text = (
                f"Static member {member_id} with instance id {instance_id} was fenced by "
                f"member {known.id}."
            )
            raise GroupError(ErrorCode.FENCED_INSTANCE_ID, text=text)
        return known

    def static_id(self, instance_id: str) -> str:
        """Return the member id of a static member, or an empty string."""
        return self._static.get(instance_id, "")

    def topic_id(self, name: str) -> bytes | None:
        """Return the id of a topic, or None."""
        topic = self._topics.get(name)
        return None if topic is None else topic.id

    def refresh_topics(self) -> None:
        """Raise the epoch if topics have changed."""
        self._refresh(bump=False)

    # --- members of the classic protocol ---

    def join_classic(
        self, member_id: str, instance_id: str | None, client_id: str, host: str, is_known: bool
    ) -> ConsumerMember:
        """Let a classic member join or rejoin. Raises ``GroupError``.

        ``is_known`` is whether the member sent its member id.
        """
        self.tick()
        self._check_size(member_id, instance_id)
        if instance_id is None:
            found = self.members.get(member_id)
        elif is_known:
            found = self.find_member(member_id, instance_id)
        else:
            found = self.members.get(self.static_id(instance_id))
            if found is not None:
                found = self.replace(found, member_id)
        return found or self.admit(
            ConsumerMember(member_id, instance_id, client_id, host, self.clock)
        )

    def apply_classic_join(
        self, member: ConsumerMember, topics: list[str], classic: Classic, owned: set[Key]
    ) -> None:
        """Apply a classic member's JoinGroup request, and take its next step towards the target."""
        wanted = sorted(set(topics))
        changed = member.is_new or member.topics != wanted or bool(member.regex)
        member.is_new = False
        member.topics, member.regex, member.classic = wanted, "", classic
        member.restart_session()
        member.join_deadline = None
        if member.is_away:
            member.epoch = 0
        self._refresh(bump=changed)
        self.reconcile(member, owned)

    # --- static members and epochs ---

    def replace(self, old: ConsumerMember, member_id: str) -> ConsumerMember:
        """Give a static member its new member id. It keeps its assignment."""
        del self.members[old.id]
        self.target[member_id] = self.target.pop(old.id, set())
        if self.pinned is not None and old.id in self.pinned:
            self.pinned[member_id] = self.pinned.pop(old.id)
        old.id = member_id
        return self.admit(old)

    @staticmethod
    def _check_epoch(member: ConsumerMember, epoch: int, owned: set[Key] | None) -> None:
        if epoch == member.epoch:
            return
        # A response with the new epoch may be lost. Then the member still owns partitions of the
        # old one.
        if epoch == member.previous_epoch and owned is not None and owned <= member.assigned:
            return
        kind = "greater" if epoch > member.epoch else "smaller"
        text = (
            f"The consumer group member has a {kind} member epoch ({epoch}) than the one known by "
            f"the group coordinator ({member.epoch}). The member must abandon all its partitions "
            "and rejoin."
        )
        raise GroupError(ErrorCode.FENCED_MEMBER_EPOCH, text=text)

    def _update(self, member: ConsumerMember, request: ConsumerGroupHeartbeatRequest) -> bool:
        """Apply the member's heartbeat, and return whether the group needs a new epoch.

        A new expression needs one if it matches other topics, a new assignor if it becomes the
        group's.
        """
        topics, matched = member.topics, self.wanted_topics(member)
        elected = self._elect_assignor()
        is_new, member.is_new = member.is_new, False
        if request.rebalance_timeout_ms != -1:
            member.rebalance_seconds = request.rebalance_timeout_ms / 1000
        if request.rack_id is not None:
            member.rack_id = request.rack_id
        if request.server_assignor is not None:
            member.assignor = request.server_assignor
        if request.subscribed_topic_names is not None:
            member.topics = sorted(set(request.subscribed_topic_names))
        if request.subscribed_topic_regex is not None:
            member.regex = request.subscribed_topic_regex
        return (
            is_new
            or topics != member.topics
            or matched != self.wanted_topics(member)
            or elected != self._elect_assignor()
        )

    # --- leaving ---

    def leave(self, member_id: str, instance_id: str | None, epoch: int) -> int:
        """Let a member leave, for good or temporarily, and return the epoch of the response.

        Raises ``GroupError``.
        """
        self.tick()
        member = self.find_member(member_id, instance_id)
        if epoch == LEAVE_STATIC_MEMBER_EPOCH and instance_id is not None:
            member.epoch = LEAVE_STATIC_MEMBER_EPOCH
            member.revoking.clear()
            member.revoke_deadline = None
            member.step = Step.STABLE
            member.restart_session()
        else:
            self.remove(member)
        self.left.append(Left(member.id, instance_id, f"member epoch {epoch}"))
        return epoch

    def find_member(self, member_id: str, instance_id: str | None = None) -> ConsumerMember:
        """Return a member by its ids. Raises ``GroupError``."""
        if instance_id is not None:
            found = self._static_member(instance_id, member_id, False)
        else:
            found = self.members.get(member_id)
        if found is None:
            text = f"Member {instance_id or member_id} is not a member of group {self.id}."
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID, text=text)
        return found

    def remove(self, member: ConsumerMember) -> None:
        """Remove a member, which raises the group's epoch."""
        self._forget(member)
        self._refresh(bump=True)

    def expel(self, member_id: str, *, fence: bool) -> None:
        """Remove a member by force. With ``fence`` its next heartbeat gets FENCED_MEMBER_EPOCH."""
        self.remove(self.members[member_id])
        if fence:
            self.fenced.add(member_id)

    def _forget(self, member: ConsumerMember) -> None:
        self.members.pop(member.id, None)
        self.target.pop(member.id, None)
        if member.instance_id is not None and self._static.get(member.instance_id) == member.id:
            del self._static[member.instance_id]

    # --- targets ---

    def rebalance(self) -> None:
        """Begin a new epoch, with a new target."""
        self._refresh(bump=True)

    def pin(self, target: dict[str, set[Key]] | None) -> None:
        """Use this target instead of the assignor's. None returns to the assignor."""
        self.pinned = target
        self._refresh(bump=True)

    def _refresh(self, *, bump: bool) -> None:
        """Raise the epoch if something has changed, and compute the target for it."""
        names: set[str] = set()
        for member in self.members.values():
            names |= self.wanted_topics(member)
        seen = {name: (self._topics[name].id, len(self._topics[name].partitions)) for name in names}
        if bump or seen != self._seen_topics:
            self._seen_topics = seen
            self.epoch += 1
        if self.target_epoch != self.epoch:
            self._assign(dict(seen.values()))
            self.target_epoch = self.epoch

    def _assign(self, partitions: dict[bytes, int]) -> None:
        self.assignor = self._elect_assignor()
        inputs = {
            name: MemberInput(
                frozenset(self._topics[topic].id for topic in self.wanted_topics(member)),
                frozenset(self.target.get(name, ())),
                member.instance_id,
            )
            for name, member in self.members.items()
        }
        if self.pinned is not None:
            self.target = {name: set(self.pinned.get(name, ())) for name in self.members}
        else:
            self.target = ASSIGNORS[self.assignor](inputs, partitions)

    def _elect_assignor(self) -> str:
        """Return the assignor with the most votes, or the default if no member names one."""
        votes = [one.assignor for one in self.members.values() if one.assignor is not None]
        return max(sorted(set(votes)), key=votes.count) if votes else self.settings.server_assignor

    # --- reconciliation ---

    def reconcile(self, member: ConsumerMember, owned: set[Key] | None) -> None:
        """Let a member take its next step towards the target.

        ``owned`` are the partitions in the member's heartbeat, or None if it has no such field.
        """
        next_epoch = member.epoch
        if member.step is Step.STABLE:
            if member.epoch == self.target_epoch:
                return
        elif member.step is Step.UNREVOKED:
            if owned is None or owned & member.revoking:
                return
            member.revoking = set()
            next_epoch = min(member.epoch + 1, self.target_epoch)
        target = self.target.get(member.id, set())
        kept = member.assigned & target
        revoking = member.assigned - kept
        if revoking and (owned is None or owned & revoking):
            member.assigned, member.revoking = kept, revoking
            self._move(member, Step.UNREVOKED, next_epoch)
            member.revoke_deadline = self.clock.now() + member.rebalance_seconds
            return
        missing = target - kept
        held: set[Key] = set()
        if missing:
            for other in self.members.values():
                if other is not member:
                    held |= other.assigned | other.revoking
        member.assigned, member.revoking = kept | (missing - held), set()
        member.revoke_deadline = None
        self._move(member, Step.UNRELEASED if missing & held else Step.STABLE, self.target_epoch)

    @staticmethod
    def _move(member: ConsumerMember, step: Step, epoch: int) -> None:
        member.step = step
        if epoch != member.epoch:
            member.previous_epoch, member.epoch = member.epoch, epoch

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Return whether other members still hold partitions of this member's target."""
        missing = self.target.get(member.id, set()) - member.assigned
        return any(
            missing & (other.assigned | other.revoking)
            for other in self.members.values()
            if other is not member
        )

    # --- time ---

    def tick(self) -> None:
        """Remove members whose session expired, or who didn't revoke or rejoin in time."""
        now = self.clock.now()
        session_seconds = self.settings.session_seconds_of(self.id)
        for member in list(self.members.values()):
            session = session_seconds if member.classic is None else member.classic.session_seconds
            deadlines = (member.revoke_deadline, member.join_deadline)
            is_late = any(deadline is not None and now > deadline for deadline in deadlines)
            if now - member.last_seen > session or is_late:
                self.remove(member)

    # --- offsets ---

    def check_commit(
        self, member_id: str, instance_id: str | None, epoch: int, version: int
    ) -> None:
        """Raise ``GroupError`` unless a commit is allowed.

        A member may commit in its epoch. Any client may commit while the group has no members.
        """
        self.tick()
        if epoch < 0 and not self.members:
            return
        member = self.find_member(member_id)
        if member.classic is None and version < 9:
            text = f"OffsetCommit {version} can't be used by members of the consumer protocol."
            raise GroupError(ErrorCode.UNSUPPORTED_VERSION, text=text)
        self._check_member_epoch(member, epoch)

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Raise ``GroupError`` unless the client may read committed offsets.

        A member may read them in its epoch. A client that names no member may always read them.
        """
        if member_id is None and epoch < 0:
            return
        self.tick()
        self._check_member_epoch(self.find_member(member_id or ""), epoch)

    @staticmethod
    def _check_member_epoch(member: ConsumerMember, epoch: int) -> None:
        if epoch != member.epoch:
            is_classic = member.classic is not None
            raise GroupError(
                ErrorCode.ILLEGAL_GENERATION if is_classic else ErrorCode.STALE_MEMBER_EPOCH
            )

    def is_subscribed(self, topic: str) -> bool:
        """Return whether a member subscribes to a topic."""
        return any(topic in self.wanted_topics(member) for member in self.members.values())

    def wake(self) -> None:
        """Do nothing: no request waits in a group of this kind."""


def keys_of(
    owned: Iterable[ConsumerGroupHeartbeatRequest.TopicPartitions] | None,
) -> set[Key] | None:
    """Return the partitions that a heartbeat names, or None if it names none."""
    return (
        None
        if owned is None
        else {(one.topic_id, index) for one in owned for index in one.partitions}
    )


def check_first_heartbeat(request: ConsumerGroupHeartbeatRequest) -> None:
    """Check that a first heartbeat is complete. Raises ``GroupError``."""
    text = ""
    if request.rebalance_timeout_ms == -1:
        text = "RebalanceTimeoutMs must be provided in first request."
    elif request.topic_partitions is None or request.topic_partitions:
        text = "TopicPartitions must be empty when (re-)joining."
    elif request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        text = (
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null "
            "when (re-)joining."
        )
    if text:
        raise GroupError(ErrorCode.INVALID_REQUEST, text=text)
