"""A classic membership with fakes: a coordinator, recorded calls, and steps that end on demand."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

from kafka_native.control.assignors import Assignor, MemberSubscription, Range, make, wire
from kafka_native.control.brokers.pool import COORDINATORS
from kafka_native.control.errors import COORDINATOR_BUSY_ERRORS, COORDINATOR_LOST_ERRORS
from kafka_native.control.group.classic_membership import ClassicMembership, State
from kafka_native.control.group.membership import GroupSettings, Member
from kafka_native.control.requests import Backoff, Call
from kafka_native.errors import KafkaError
from kafka_native.logs import QUIET
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

from .fakes import Clock

Key = tuple[str, int]
TARGET = COORDINATORS + 1
SETTINGS = GroupSettings(
    session_timeout_s=10.0,
    heartbeat_interval_s=1.0,
    rebalance_timeout_s=60.0,
    retry_s=0.1,
    retry_max_s=1.0,
)


class FakeCoordinator:
    """Known at once, unless a test hides it."""

    def __init__(self) -> None:
        self.hidden = False
        self.target: int | None = None
        self.wants = 0
        self.on_found: list[Callable[[], None]] = []
        self.on_refused: list[Callable[[KafkaError], None]] = []

    def pause_s(self, backoff: Backoff) -> float:
        # A look-up that ends at once has no back-off of its own.
        return 0.0 if self.hidden else backoff.next_s()

    def want(self, now: float) -> int | None:
        self.wants += 1
        if self.target is None and not self.hidden:
            self.target = TARGET
        return self.target

    def note(self, error: KafkaError) -> bool:
        if error.code() in COORDINATOR_LOST_ERRORS:
            self.target = None
            return True
        return error.code() in COORDINATOR_BUSY_ERRORS

    def answered(self) -> None:
        pass

    def find(self, target: int = TARGET) -> None:
        """Report that the coordinator was found, or moved."""
        self.hidden = False
        self.target = target
        for listener in self.on_found:
            listener()


class FakePool:
    """The heartbeats of the broker's thread: the current one, or None."""

    logs = QUIET

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.last_confirmed: float | None = None
        """When the last answered heartbeat was sent; None: just now."""
        self.nodes: dict[int, Any] = {}
        self.heartbeating: SimpleNamespace | None = None

    def heartbeat(
        self, target: int, message: Any, interval_s: float, timeout_s: float, on_reply: Any
    ) -> None:
        self.heartbeating = SimpleNamespace(
            target=target,
            message=message,
            interval_s=interval_s,
            timeout_s=timeout_s,
            on_reply=on_reply,
        )

    def stop_heartbeat(self, target: int) -> None:
        self.heartbeating = None

    def confirmed_at(self, target: int) -> float:
        return self._clock.now if self.last_confirmed is None else self.last_confirmed


class FakeTopic(SimpleNamespace):
    """A topic of the metadata."""


class FakeMetadata:
    """Topics by name. A missing name gives an unknown topic."""

    def __init__(self, counts: dict[str, int]) -> None:
        self.topics: dict[str, Any] = {}
        self.on_topic: list[Callable[[Any], None]] = []
        self.on_failure: list[Callable[[Any, KafkaError], None]] = []
        self.uses: list[Callable[[float], Iterable[str]]] = []
        for name, count in counts.items():
            self.want(name, 0.0)
            self.learn(name, count)

    def want(self, name: str, now: float, *, create: bool = False) -> Any:
        return self.topics.setdefault(
            name, FakeTopic(name=name, known=False, failed=None, missing_since=None, partitions=[])
        )

    def forget(self, names: Iterable[str]) -> None:
        for name in names:
            self.topics.pop(name, None)

    def learn(self, name: str, count: int, replicas: Iterable[int] = ()) -> None:
        """Add a topic with partitions, as after a reply."""
        topic = self.topics[name]
        topic.known = count > 0
        topic.partitions = [
            SimpleNamespace(leader=1, epoch=1, replicas=tuple(replicas)) for _ in range(count)
        ]
        for listener in self.on_topic:
            listener(topic)


class FakeSubscription:
    """The subscription: names, and topics that patterns match."""

    def __init__(self) -> None:
        self.wanted: list[str] = []
        self.topics: list[str] = []
        self.matched = False
        self.on_change: list[Callable[[], None]] = []

    @property
    def ready(self) -> bool:
        return self.matched or not any(each.startswith("^") for each in self.wanted)

    def match(self, *topics: str) -> None:
        """Change the matched topics."""
        self.matched = True
        self.topics = sorted(topics)
        for listener in self.on_change:
            listener()


class FakeRebalance:
    """Steps that are done at once, or (``manual``) when `finish()` is called."""

    def __init__(self) -> None:
        self.manual = False
        self.log: list[tuple[str, list[Key]]] = []
        self.owned: set[Key] = set()
        self.open: list[Callable[[], None]] = []

    @property
    def busy(self) -> bool:
        return bool(self.open)

    def _step(self, kind: str, keys: Iterable[Key], end: Callable[[], None]) -> None:
        self.log.append((kind, sorted(keys)))
        if self.manual:
            self.open.append(end)
        else:
            end()

    def assign(
        self, added: Iterable[Key], done: Callable[[], None], *, replaces: bool = False
    ) -> None:
        keys = set(added)
        if replaces:
            assert self.owned <= keys, "an eager member has given up everything"
        self._step("assign", keys, lambda: (self.owned.update(keys), done())[0])

    def revoke(self, revoked: Iterable[Key], done: Callable[[], None]) -> None:
        keys = set(revoked)
        self._step("revoke", keys, lambda: (self.owned.difference_update(keys), done())[0])

    def lose(self, done: Callable[[], None]) -> None:
        self.open.clear()
        self._step("lose", self.owned, lambda: (self.owned.clear(), done())[0])

    def renew(self, keys: Iterable[Key]) -> None:
        self._step("renew", keys, lambda: None)

    def finish(self) -> None:
        """End the oldest open step."""
        self.open.pop(0)()


class Group:
    """One membership. The test acts as its coordinator."""

    def __init__(
        self,
        strategies: str | list[str | Assignor] = "range",
        *,
        topics: dict[str, int] | None = None,
        instance_id: str | None = None,
        settings: GroupSettings = SETTINGS,
        subscribed: str | None = None,
    ) -> None:
        self.clock = Clock()
        self.coordinator = FakeCoordinator()
        self.pool = FakePool(self.clock)
        self.metadata = FakeMetadata({"t": 4} if topics is None else topics)
        self.subscription = FakeSubscription()
        self.rebalance = FakeRebalance()
        self.member = Member("g", instance_id)
        self.errors: list[KafkaError] = []
        self.fatal: list[KafkaError] = []
        fakes: Any = (self.coordinator, self.pool, self.metadata, self.subscription, self.rebalance)
        self.membership = ClassicMembership(
            self.member,
            *fakes,
            make(strategies),
            settings,
            on_error=self.errors.append,
            on_fatal=self.fatal.append,
            logger=logging.getLogger("test"),
            clock=self.clock,
        )
        if subscribed is not None:
            self.subscribe(subscribed)

    @property
    def state(self) -> State:
        return self.membership.state

    @property
    def log(self) -> list[tuple[str, list[Key]]]:
        """Return the steps since the last call."""
        log, self.rebalance.log = self.rebalance.log, []
        return log

    # --- the application ---

    def subscribe(self, *wanted: str) -> None:
        self.subscription.wanted = list(wanted)
        names = {each for each in wanted if not each.startswith("^")}
        self.subscription.topics = sorted(names)
        self.membership.subscribe(self.clock.now)

    def leave(self) -> list[str]:
        """Leave the group. The list gets an entry at the end."""
        done: list[str] = []
        self.subscription.wanted = []
        self.membership.leave(
            "the consumer unsubscribed", lambda: done.append("left"), self.clock.now
        )
        return done

    # --- turns ---

    def turn(self) -> list[Call]:
        """Poll until nothing is due, and return the calls."""
        calls: list[Call] = []
        for _ in range(20):
            more, wake_up = self.membership.poll(self.clock.now)
            calls.extend(more)
            if wake_up > self.clock.now and not more:
                self.wake_up = wake_up
                return calls
        raise AssertionError("a hot loop")

    def wait(self, seconds: float) -> list[Call]:
        """Let time pass, and poll the membership whenever it is due."""
        until = self.clock.now + seconds
        calls = self.turn()
        while self.wake_up <= until:
            self.clock.now = self.wake_up
            calls.extend(self.turn())
        self.clock.now = until
        return calls + self.turn()

    def one(self, kind: type) -> Call:
        """Return the only call of a turn."""
        [call] = self.turn()
        assert isinstance(call.message, kind), call.message
        return call

    def quiet(self) -> None:
        """Check that nothing is sent now."""
        assert self.turn() == []

    # --- the coordinator ---

    def join(self) -> Call:
        return self.one(JoinGroupRequest)

    def joined(self, call: Call, generation: int = 1, *, leader: str = "other", **how: Any) -> None:
        """Begin the generation. By default another member leads it."""
        name = how.pop("name", call.message.protocols[0].name)  # type: ignore[attr-defined]
        members = [
            JoinGroupResponse.Member(member_id=member_id, metadata=metadata)
            for member_id, metadata in how.pop("members", {}).items()
        ]
        call.on_reply(
            JoinGroupResponse(
                generation_id=generation,
                protocol_type="consumer",
                protocol_name=name,
                leader=leader,
                member_id=how.pop("member_id", "me"),
                members=members,
                **how,
            )
        )

    def sync(self) -> Call:
        return self.one(SyncGroupRequest)

    def synced(self, call: Call, *keys: Key) -> None:
        call.on_reply(SyncGroupResponse(assignment=wire.pack_assignment(list(keys))))

    def enter(self, *keys: Key, generation: int = 1) -> None:
        """Make it a stable member with these partitions."""
        call = self.join()
        if not call.message.member_id and self.member.instance_id is None:  # type: ignore[attr-defined]
            refuse(call, KafkaError.MEMBER_ID_REQUIRED, member_id="me")
            call = self.join()
        self.joined(call, generation)
        self.synced(self.sync(), *keys)
        assert self.state is State.STABLE

    def heartbeat(self, code: int = 0) -> None:
        """Answer the current heartbeat with a new result."""
        assert self.pool.heartbeating is not None
        self.pool.heartbeating.on_reply(HeartbeatResponse(error_code=code))

    def heartbeat_fails(self, code: int = KafkaError._TRANSPORT) -> None:
        """End the current heartbeat with an error."""
        assert self.pool.heartbeating is not None
        heartbeating, self.pool.heartbeating = self.pool.heartbeating, None
        heartbeating.on_reply(KafkaError(code))

    def goodbye(self) -> Call:
        return self.one(LeaveGroupRequest)


def refuse(call: Call, code: int, **how: Any) -> None:
    """Answer a call with an error."""
    answers = {
        JoinGroupRequest: JoinGroupResponse,
        SyncGroupRequest: SyncGroupResponse,
        HeartbeatRequest: HeartbeatResponse,
        LeaveGroupRequest: LeaveGroupResponse,
    }
    call.on_reply(answers[type(call.message)](error_code=code, **how))  # type: ignore[index]


def subscription(topics: list[str], owned: list[Key] | None = None, generation: int = -1) -> bytes:
    """Return a member's metadata."""
    return wire.pack_subscription(Range(), topics, owned or [], generation, None)


def said(call: Call) -> MemberSubscription:
    """Return the subscription in a JoinGroup, for its first assignor."""
    metadata = call.message.protocols[0].metadata  # type: ignore[attr-defined]
    member = JoinGroupResponse.Member(member_id="me", metadata=metadata)
    found, warnings = wire.unpack_subscriptions([member], 1 << 20)
    assert not warnings
    return found["me"]
