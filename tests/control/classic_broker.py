"""A classic group coordinator without threads, on a virtual clock, with Kafka's rules."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from typing import Any

from kafka_native.errors import KafkaError
from kafka_native.protocol.groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)


class Schedule:
    """The virtual clock with its scheduled events."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._todo: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    def __call__(self) -> float:
        return self.now

    def after(self, seconds: float, work: Callable[[], None]) -> None:
        heapq.heappush(self._todo, (self.now + seconds, next(self._numbers), work))

    def step(self) -> None:
        at, _, work = heapq.heappop(self._todo)
        self.now = max(self.now, at)
        work()


class KnownMember:
    """The coordinator's data of a member."""

    def __init__(self, member_id: str, instance_id: str | None) -> None:
        self.id = member_id
        self.instance_id = instance_id
        self.seen = 0.0
        self.session_s = 0.0
        self.rebalance_s = 0.0
        self.protocols: dict[str, bytes] = {}
        self.joining: Callable[[Any], None] | None = None
        self.syncing: Callable[[Any], None] | None = None
        self.assignment = b""


class Broker:
    """One group. ``answer`` callbacks run at once, or when the group's state allows it."""

    def __init__(self, clock: Schedule) -> None:
        self.clock = clock
        self.state = "Empty"
        self.generation = 0
        self.leader = ""
        self.protocol = ""
        self.members: dict[str, KnownMember] = {}
        self.pending: dict[str, float] = {}
        self._join_by = 0.0
        self._ids = itertools.count(1)

    # --- requests ---

    def handle(self, request: Any, answer: Callable[[Any], None]) -> None:
        self.tick()
        if isinstance(request, JoinGroupRequest):
            self._join(request, answer)
        elif isinstance(request, SyncGroupRequest):
            self._sync(request, answer)
        elif isinstance(request, HeartbeatRequest):
            answer(HeartbeatResponse(error_code=self._heartbeat(request)))
        elif isinstance(request, LeaveGroupRequest):
            answer(LeaveGroupResponse(error_code=self._leave(request.members[0].member_id)))

    def _checked(self, member_id: str, instance_id: str | None) -> KnownMember | int:
        for known in self.members.values():
            if (
                instance_id is not None
                and known.instance_id == instance_id
                and known.id != member_id
            ):
                return KafkaError.FENCED_INSTANCE_ID
        return self.members.get(member_id, KafkaError.UNKNOWN_MEMBER_ID)

    def _join(self, request: JoinGroupRequest, answer: Callable[[Any], None]) -> None:
        member_id, instance_id = request.member_id, request.group_instance_id
        if not member_id:
            member_id = f"member-{next(self._ids)}"
            if instance_id is None:
                self.pending[member_id] = self.clock.now + request.session_timeout_ms / 1000
                answer(
                    JoinGroupResponse(error_code=KafkaError.MEMBER_ID_REQUIRED, member_id=member_id)
                )
                return
            for known in list(self.members.values()):
                if known.instance_id == instance_id:  # the old instance is fenced
                    self._drop(known.id, KafkaError.FENCED_INSTANCE_ID)
            self.members[member_id] = KnownMember(member_id, instance_id)
        elif member_id in self.pending:
            del self.pending[member_id]
            self.members[member_id] = KnownMember(member_id, instance_id)
        known_or_code = self._checked(member_id, instance_id)
        if isinstance(known_or_code, int):
            answer(JoinGroupResponse(error_code=known_or_code))
            return
        known = known_or_code
        protocols = {each.name: bytes(each.metadata) for each in request.protocols}
        same = protocols == known.protocols
        known.protocols = protocols
        known.session_s = request.session_timeout_ms / 1000
        known.rebalance_s = request.rebalance_timeout_ms / 1000
        known.seen = self.clock.now
        if same and (
            self.state == "Completing" or (self.state == "Stable" and known.id != self.leader)
        ):
            self._answer_join(known, answer)
            return
        if self.state != "Preparing":
            self._prepare()
        known.joining = answer
        self.tick()

    def _prepare(self) -> None:
        for known in self.members.values():
            syncing, known.syncing = known.syncing, None
            if syncing is not None:
                syncing(SyncGroupResponse(error_code=KafkaError.REBALANCE_IN_PROGRESS))
        self.state = "Preparing"
        self._join_by = self.clock.now + max(
            (each.rebalance_s for each in self.members.values()), default=0.0
        )

    def _answer_join(self, known: KnownMember, answer: Callable[[Any], None]) -> None:
        members = []
        if known.id == self.leader:
            members = [
                JoinGroupResponse.Member(
                    member_id=each.id,
                    group_instance_id=each.instance_id,
                    metadata=each.protocols[self.protocol],
                )
                for each in self.members.values()
            ]
        answer(
            JoinGroupResponse(
                generation_id=self.generation,
                protocol_type="consumer",
                protocol_name=self.protocol,
                leader=self.leader,
                member_id=known.id,
                members=members,
            )
        )

    def _sync(self, request: SyncGroupRequest, answer: Callable[[Any], None]) -> None:
        known = self._checked(request.member_id, request.group_instance_id)
        if isinstance(known, int):
            answer(SyncGroupResponse(error_code=known))
        elif request.generation_id != self.generation:
            answer(SyncGroupResponse(error_code=KafkaError.ILLEGAL_GENERATION))
        elif self.state == "Preparing":
            answer(SyncGroupResponse(error_code=KafkaError.REBALANCE_IN_PROGRESS))
        elif self.state == "Stable":
            known.seen = self.clock.now
            answer(SyncGroupResponse(assignment=known.assignment))
        else:
            known.seen = self.clock.now
            known.syncing = answer
            if known.id == self.leader:
                given = {each.member_id: bytes(each.assignment) for each in request.assignments}
                self.state = "Stable"
                for each in self.members.values():
                    each.assignment = given.get(each.id, b"")
                    syncing, each.syncing = each.syncing, None
                    if syncing is not None:
                        syncing(SyncGroupResponse(assignment=each.assignment))

    def _heartbeat(self, request: HeartbeatRequest) -> int:
        known = self._checked(request.member_id, request.group_instance_id)
        if isinstance(known, int):
            return known
        if request.generation_id != self.generation:
            return KafkaError.ILLEGAL_GENERATION
        known.seen = self.clock.now
        return KafkaError.REBALANCE_IN_PROGRESS if self.state == "Preparing" else 0

    def _leave(self, member_id: str) -> int:
        if self.pending.pop(member_id, None) is None:
            if member_id not in self.members:
                return KafkaError.UNKNOWN_MEMBER_ID
            self._drop(member_id, KafkaError.UNKNOWN_MEMBER_ID)
        self._after_loss()
        return 0

    # --- time ---

    def _drop(self, member_id: str, code: int) -> None:
        known = self.members.pop(member_id)
        if known.joining is not None:
            known.joining(JoinGroupResponse(error_code=code))
        if known.syncing is not None:
            known.syncing(SyncGroupResponse(error_code=code))

    def _after_loss(self) -> None:
        if self.state in ("Stable", "Completing"):
            self._prepare()
        self.tick()

    def tick(self) -> None:
        """Run the due events."""
        now = self.clock.now
        self.pending = {
            member_id: until for member_id, until in self.pending.items() if until > now
        }
        expired = [
            each.id
            for each in self.members.values()
            if each.joining is None and each.syncing is None and now - each.seen > each.session_s
        ]
        for member_id in expired:
            self._drop(member_id, KafkaError.UNKNOWN_MEMBER_ID)
        if expired and self.state in ("Stable", "Completing"):
            self._prepare()
        if self.state != "Preparing":
            return
        missing = [each.id for each in self.members.values() if each.joining is None]
        if (missing or self.pending) and now < self._join_by:
            return
        for member_id in missing:
            self._drop(member_id, KafkaError.UNKNOWN_MEMBER_ID)
        self._begin()

    def _begin(self) -> None:
        self.generation += 1
        if not self.members:
            self.state = "Empty"
            return
        self.state = "Completing"
        common = set.intersection(*(set(each.protocols) for each in self.members.values()))
        self.protocol = min(common)
        if self.leader not in self.members:
            self.leader = next(iter(self.members))
        for known in list(self.members.values()):
            joining, known.joining = known.joining, None
            known.seen = self.clock.now
            if joining is not None:
                self._answer_join(known, joining)

    def counts_in(self, member_id: str, generation: int) -> bool:
        """Return whether it is a member of the current or the ending generation."""
        return member_id in self.members and generation == self.generation
