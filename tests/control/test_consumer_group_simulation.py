"""Many members of the consumer protocol against the mock cluster's coordinator, on one virtual
clock, with faults.

Requests and answers get lost. Members freeze (their broker threads still send heartbeats), crash,
come and go. Callbacks take time, and topics grow. Two members never own one partition, and soon
after the faults every partition has an owner. One seed decides everything. A failure prints it.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_native.control.group.heartbeats import State
from kafka_native.control.requests import Backoff
from kafka_native.errors import KafkaError
from kafka_native.mock import consumer_groups
from kafka_native.mock.clock import Clock as MockClock
from kafka_native.mock.consumer_groups import ConsumerGroup
from kafka_native.mock.membership import GroupError, GroupSettings
from kafka_native.protocol.groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

from .consumer_group import COORDINATOR, FakeRebalance, Group, Key, assignment_of
from .fakes import Clock

TOPICS = {"a": b"A" * 16, "b": b"B" * 16}
STEP_S = 0.05
SESSION_S = 6.0
REVOKE_S = 20.0
"""How long the coordinator waits for a member to revoke."""


class SimRebalance(FakeRebalance):
    """Takes over each assignment. A step takes as long as ``pause`` says."""

    def __init__(self, pause: Callable[[], float], clock: Clock) -> None:
        super().__init__()
        self.owned: set[Key] = set()
        self._pause, self._clock = pause, clock
        self._steps: deque[tuple[float, str, list[Key], Callable[[], None]]] = deque()

    def _begin(self, kind: str, keys: Iterable[Key], done: Callable[[], None]) -> None:
        if kind == "lose":
            self._steps.clear()
        self._steps.append((self._clock.now + self._pause(), kind, sorted(keys), done))
        self.turn()

    def turn(self) -> None:
        while self._steps and self._steps[0][0] <= self._clock.now:
            _, kind, keys, done = self._steps.popleft()
            if kind == "assign":
                self.owned |= set(keys)
            elif kind == "revoke":
                self.owned -= set(keys)
            else:
                self.owned.clear()
            done()


class SimMember(Group):
    """A member with a connection that keeps the order of requests, and a heartbeat without the
    control thread.
    """

    def __init__(self, world: World, instance_id: str | None) -> None:
        super().__init__(instance_id)
        self.world = world
        self.clock.now = world.clock.now
        self.membership._clock = self.coordinator_clock = world.clock
        self.clock = world.clock
        self.membership._backoff = Backoff(0.1, 1.0, world.random.uniform)
        self.slow = SimRebalance(lambda: world.pause(), world.clock)
        self.rebalance = self.membership._rebalance = self.slow  # type: ignore[assignment]
        self.metadata.names = {TOPICS["a"]: "a"}
        self.subscription.wanted = ["a", "b"]
        self.frozen_until = 0.0
        self.leaving = False
        self.left = False
        self.events: deque[Callable[[], None]] = deque()  # for the control thread
        self.next_heartbeat_at = 0.0
        self.last_answer: Any = None
        self.heartbeat_now: Any = None

    def act(self) -> None:
        """Run the control thread, unless it is frozen."""
        if self.world.clock.now < self.frozen_until:
            return
        while self.events:
            self.events.popleft()()
        self.slow.turn()
        for topic_id in list(self.metadata.asked):
            if self.world.random.random() < 0.2:
                self.metadata.learn(
                    topic_id, next(name for name, each in TOPICS.items() if each == topic_id)
                )
        if self.coordinator.target is None and self.world.random.random() < 0.5:
            self.coordinator.found()
        self.turn()
        while self.calls:
            call = self.calls.pop(0)
            self._send(call.message, call.on_reply)

    def _send(self, message: Any, on_reply: Callable[[Any], None]) -> None:
        reply = self.world.exchange(message)
        self.events.append(lambda: on_reply(reply))

    def heartbeat_if_due(self) -> None:
        """Run the broker thread. It continues while the control thread is frozen, and reports only
        new results.
        """
        heartbeat: Any = self.pool.heartbeats.get(COORDINATOR)
        if heartbeat is not self.heartbeat_now:
            self.heartbeat_now, self.last_answer = heartbeat, None
            self.next_heartbeat_at = self.world.clock.now + (heartbeat[1] if heartbeat else 0.0)
        if heartbeat is None or self.world.clock.now < self.next_heartbeat_at:
            return
        self.next_heartbeat_at = self.world.clock.now + heartbeat[1]
        reply = self.world.exchange(heartbeat[0])
        if isinstance(reply, KafkaError):
            self.next_heartbeat_at = float("inf")
        elif self.last_answer is not None and self.last_answer == reply.encode(1):
            return
        else:
            self.last_answer = reply.encode(1)
        self.events.append(lambda: self._report(heartbeat, reply))

    def _report(self, heartbeat: Any, reply: Any) -> None:
        if (
            self.pool.heartbeats.get(COORDINATOR) is heartbeat
        ):  # the pool drops results of a replaced heartbeat
            heartbeat[2](reply)


class World:
    """The coordinator, its members, and the faults."""

    def __init__(self, seed: int, *, lossy: bool) -> None:
        self.random = random.Random(seed)
        self.clock = Clock()
        self.faulty = True
        self.lossy = lossy
        settings = GroupSettings(0.0, 0.5, SESSION_S)
        self.topics = {
            name: SimpleNamespace(id=each, partitions=[None] * 4) for name, each in TOPICS.items()
        }
        self.group = ConsumerGroup("g", settings, self.topics, MockClock(self.clock))  # type: ignore[arg-type]
        self.members: list[SimMember] = []
        self.later: list[tuple[SimMember, Callable[[], None]]] = []
        self.log: Counter[str] = Counter()

    def pause(self) -> float:
        return self.random.choice([0.0, 0.0, 0.1, 2.0]) if self.faulty else 0.0

    def exchange(self, message: ConsumerGroupHeartbeatRequest) -> Any:
        """Deliver the request and its answer, unless one of them is lost."""
        luck = self.random.random() if self.faulty and self.lossy else 1.0
        if luck < 0.02:
            return KafkaError(KafkaError._TRANSPORT)
        reply = self._handle(message)
        if luck < 0.05:
            return KafkaError(KafkaError._TRANSPORT)
        return ConsumerGroupHeartbeatResponse.decode(reply.encode(1), 1)

    def _handle(self, message: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        message = ConsumerGroupHeartbeatRequest.decode(message.encode(1), 1)
        reply = ConsumerGroupHeartbeatResponse(heartbeat_interval_ms=self.group.heartbeat_ms())
        try:
            if message.member_epoch < 0:
                reply.member_epoch = self.group.leave(
                    message.member_id, message.instance_id, message.member_epoch
                )
                return reply
            consumer_groups.check_first_heartbeat(message) if message.member_epoch == 0 else None
            member, assignment = self.group.heartbeat(message, "", "")
        except GroupError as error:
            self.log[error.code.name] += 1
            reply.error_code = int(error.code)
            return reply
        reply.member_id, reply.member_epoch = member.id, member.epoch
        if assignment:
            parts: dict[bytes, list[int]] = {}
            for topic_id, number in sorted(member.assigned):
                parts.setdefault(topic_id, []).append(number)
            reply.assignment = assignment_of(ConsumerGroupHeartbeatResponse.Assignment, parts)
        return reply

    # --- events ---

    def disturb(self) -> None:
        luck = (
            self.random.random()
            if self.lossy
            else self.random.choice([0.0, 0.03, 0.045, 0.05, 1.0, 1.0, 1.0])
        )
        if luck < 0.02 and len(self.members) < 6:
            member = SimMember(self, None)
            self.members.append(member)
            member.membership.subscribe(self.clock.now)
        elif not self.members:
            return
        elif luck < 0.03 and self.lossy:  # shorter and longer than a session
            member = self.random.choice(self.members)
            member.frozen_until = self.clock.now + self.random.choice([1.0, 4.0, 4.0, 10.0])
        elif luck < 0.035:
            self._leave(self.random.choice(self.members))
        elif luck < 0.04 and len(self.members) > 1:
            self.members.remove(member := self.random.choice(self.members))
            self.log["crash"] += 1  # its process has ended; the coordinator finds out
        elif luck < 0.045:
            self._be_slow(self.random.choice(self.members))
        elif luck < 0.05:
            member = self.random.choice(self.members)
            member.subscription.wanted = self.random.choice([["a"], ["b"], ["a", "b"]])
            member.events.append(lambda: member.membership.subscribe(self.clock.now))
        elif luck < 0.052:
            topic = self.topics[self.random.choice("ab")]
            if len(topic.partitions) < 12:
                topic.partitions.append(None)

    def _leave(self, member: SimMember) -> None:
        if not member.leaving:
            member.leaving = True
            done = lambda: setattr(member, "left", True)  # noqa: E731
            member.events.append(lambda: member.membership.leave("", done, self.clock.now))

    def _be_slow(self, member: SimMember) -> None:
        """Exceed max.poll.interval.ms, and poll later."""
        if member.leaving:
            return
        self.log["slow"] += 1
        member.events.append(lambda: member.membership.on_poll_exceeded(self.clock.now))
        back_at = self.clock.now + self.random.uniform(0.0, 5.0)

        def back() -> None:
            if self.clock.now < back_at:
                self.later.append((member, back))
            else:
                member.membership.rejoin("polled", self.clock.now)

        self.later.append((member, back))

    def step(self) -> None:
        self.clock.now += STEP_S
        if self.faulty:
            self.disturb()
        later, self.later = self.later, []
        for member, work in later:
            member.events.append(work)
        for member in self.random.sample(self.members, len(self.members)):
            member.heartbeat_if_due()
            member.act()
        self.members = [member for member in self.members if not member.left]
        self.check_owners()

    def check_owners(self) -> None:
        """Check that current members in the coordinator's view never own a partition twice."""
        self.group.tick()
        known = [member for member in self.members if member.member.member_id in self.group.members]
        owners: Counter[Key] = Counter()
        for member in known:
            seen = self.group.members[member.member.member_id]
            # If the coordinator doesn't count a partition as its own, it has lost it and doesn't know
            # that yet.
            owners.update(
                k
                for k in member.slow.owned
                if (TOPICS[k[0]], k[1]) in seen.assigned | seen.revoking
            )
        assert {key: count for key, count in owners.items() if count > 1} == {}

    def settled(self) -> bool:
        for member in self.members:
            state = self.group.members.get(member.member.member_id)
            if member.membership.state is not State.JOINED or state is None:
                return False
            if {(TOPICS[name], number) for name, number in member.slow.owned} != state.assigned:
                return False
        wanted = {
            (topic.id, number)
            for topic in self.topics.values()
            for number in range(len(topic.partitions))
        }
        if any(set(member.subscription.wanted) != {"a", "b"} for member in self.members):
            return False
        owned = [
            (TOPICS[name], number) for member in self.members for name, number in member.slow.owned
        ]
        return sorted(owned) == sorted(wanted)

    def calm_down(self) -> None:
        """End the faults, and let every member run with all topics."""
        self.faulty = False
        for member in self.members:
            member.subscription.wanted = ["a", "b"]
            member.events.append(lambda each=member: each.membership.subscribe(self.clock.now))  # type: ignore[misc]
        for _ in range(int(60 / STEP_S)):
            self.step()
            if not self.members or (self.settled() and not self.later):
                break
        assert not self.members or self.settled(), f"{self.log}"
        assert [member.fatal for member in self.members if member.fatal] == []


@pytest.mark.parametrize("seed", range(20))
def test_no_partition_has_two_owners_and_everything_ends_well(seed: int) -> None:
    world = World(seed, lossy=True)
    for _ in range(1500):
        world.step()
    assert sum(world.log.values()) > 0
    world.calm_down()


@pytest.mark.parametrize("seed", range(6))
def test_no_member_is_fenced_without_losses(seed: int) -> None:
    world = World(seed, lossy=False)
    for _ in range(600):
        world.step()
    world.calm_down()
    assert world.group.epoch > 50
    assert world.log == {}
