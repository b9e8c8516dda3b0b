"""Many members of a classic group with faults: one owner a partition, and every rebalance ends."""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from kafka_native.control.assignors import make
from kafka_native.control.brokers.pool import COORDINATORS
from kafka_native.control.errors import COORDINATOR_BUSY_ERRORS, COORDINATOR_LOST_ERRORS
from kafka_native.control.group.classic_membership import ClassicMembership, State
from kafka_native.control.group.membership import GroupSettings, Member
from kafka_native.control.requests import NEVER, Backoff, Call
from kafka_native.errors import KafkaError
from kafka_native.logs import QUIET

from .classic import FakeMetadata, FakeSubscription
from .classic_broker import Broker, Schedule

Key = tuple[str, int]
SETTINGS = GroupSettings(
    session_timeout_s=10.0,
    heartbeat_interval_s=1.0,
    rebalance_timeout_s=30.0,
    retry_s=0.1,
    retry_max_s=1.0,
)
PARTITIONS = 12


class Simulation:
    """The broker, the members, and the faults between them."""

    def __init__(self, seed: int, strategy: str) -> None:
        self.random = random.Random(seed)
        self.clock = Schedule()
        self.broker = Broker(self.clock)
        self.strategy = strategy
        self.faults = 0.0
        self.nodes: list[Node] = []
        self.violations: list[str] = []
        self._tick()

    def _tick(self) -> None:
        self.broker.tick()
        self.clock.after(0.25, self._tick)

    def run(self, seconds: float, condition: Callable[[], bool] = lambda: False) -> bool:
        until = self.clock.now + seconds
        while self.clock.now < until:
            self.clock.step()
            if condition():
                return True
        return False

    def claim(self, node: Node, keys: Iterable[Key]) -> None:
        """Check that no member owns a newly assigned partition.

        A former member may not know its loss yet.
        """
        for other in self.nodes:
            if other is node or other.dead or other.membership.state is State.STALE:
                continue
            both = other.owned & set(keys)
            if both and self.broker.counts_in(other.member.member_id, other.member.generation):
                self.violations.append(
                    f"{self.clock.now}: {sorted(both)} of {other.name} go to {node.name}"
                )

    def shared(self) -> bool:
        live = [node for node in self.nodes if not node.dead]
        owned = [key for node in live for key in node.owned]
        return (
            self.broker.state == "Stable"
            and len(self.broker.members) == len(live)
            and sorted(owned) == [("t", number) for number in range(PARTITIONS)]
            and all(
                node.membership.state is State.STABLE and node.membership._reason is None
                for node in live
            )
        )


class Node:
    """One member: its connection, its coordinator, its application."""

    logs = QUIET

    def __init__(self, simulation: Simulation, name: str, instance_id: str | None = None) -> None:
        self.simulation = simulation
        self.clock = simulation.clock
        self.name = name
        self.dead = False
        self.owned: set[Key] = set()
        self.steps: list[list[Any]] = []
        self.errors: list[KafkaError] = []
        self.nodes: dict[int, Any] = {}
        self.target: int | None = None
        self.finding = False
        self.on_found: list[Callable[[], None]] = []
        self.on_refused: list[Callable[[KafkaError], None]] = []
        self.heartbeats = 0
        self.confirmed = -math.inf
        self.turns_at = NEVER
        self.member = Member("g", instance_id)
        self.subscription = FakeSubscription()
        myself: Any = self
        metadata: Any = FakeMetadata({"t": PARTITIONS})
        subscription: Any = self.subscription
        self.membership = ClassicMembership(
            self.member,
            myself,
            myself,
            metadata,
            subscription,
            myself,
            make(simulation.strategy),
            SETTINGS,
            on_error=self.errors.append,
            on_fatal=self.errors.append,
            logger=logging.getLogger("test"),
            clock=self.clock,
        )
        simulation.nodes.append(self)
        self.subscription.wanted = self.subscription.topics = ["t"]
        self.membership.subscribe(self.clock.now)
        self.turn()

    # --- the control thread ---

    def turn(self) -> None:
        for _ in range(50):
            if self.dead:
                return
            calls, wake_up = self.membership.poll(self.clock.now)
            for call in calls:
                self.send(call)
            if not calls and wake_up > self.clock.now:
                break
        else:
            raise AssertionError("a hot loop")
        if wake_up != NEVER and wake_up < self.turns_at:
            self.turns_at = wake_up
            self.clock.after(wake_up - self.clock.now, self._wake)

    def _wake(self) -> None:
        if self.clock.now >= self.turns_at:
            self.turns_at = NEVER
        self.turn()

    def later(self, seconds: float, work: Callable[[], None]) -> None:
        """Run work on the control thread later."""

        def step() -> None:
            if not self.dead:
                work()
                self.turn()

        self.clock.after(seconds, step)

    # --- the network ---

    def send(self, call: Call) -> None:
        done: list[bool] = []

        def answer(reply: Any) -> None:
            if not done:
                done.append(True)
                call.on_reply(reply)

        self.request(call.message, answer, call.deadline - self.clock.now)

    def request(self, message: Any, answer: Callable[[Any], None], timeout_s: float) -> None:
        luck = self.simulation.random
        delay_s = luck.uniform(0.001, 0.02)
        fault = luck.random() < self.simulation.faults
        if fault and luck.random() < 0.5:  # the request is lost
            self.later(delay_s, lambda: answer(KafkaError(KafkaError._TRANSPORT)))
            return

        def reply(response: Any) -> None:
            if fault:  # the answer is lost
                response = KafkaError(KafkaError._TRANSPORT)
            self.later(luck.uniform(0.001, 0.02), lambda: answer(response))

        def arrive() -> None:
            if not self.dead:
                self.simulation.broker.handle(message, reply)

        self.clock.after(delay_s, arrive)
        self.later(timeout_s, lambda: answer(KafkaError(KafkaError._TIMED_OUT)))

    def heartbeat(
        self, target: int, message: Any, interval_s: float, timeout_s: float, on_reply: Any
    ) -> None:
        self.heartbeats += 1
        number, last = self.heartbeats, [None]

        def again() -> None:
            if number == self.heartbeats and not self.dead:
                sent_at = self.clock.now
                self.request(message, lambda reply: answered(reply, sent_at), timeout_s)

        def answered(reply: Any, sent_at: float) -> None:
            if number != self.heartbeats:
                return
            if isinstance(reply, KafkaError):
                self.heartbeats += 1
                on_reply(reply)
                return
            self.confirmed = sent_at
            self.clock.after(interval_s, again)
            if reply.error_code != last[0]:
                last[0] = reply.error_code
                on_reply(reply)

        self.clock.after(interval_s, again)

    def stop_heartbeat(self, target: int) -> None:
        self.heartbeats += 1

    def confirmed_at(self, target: int) -> float:
        return self.confirmed

    # --- the coordinator ---

    def pause_s(self, backoff: Backoff) -> float:
        return 0.0 if self.target is None else backoff.next_s()

    def want(self, now: float) -> int | None:
        if self.target is None and not self.finding:
            self.finding = True
            self.later(self.simulation.random.uniform(0.01, 0.3), self._found)
        return self.target

    def _found(self) -> None:
        self.finding = False
        self.target = COORDINATORS + 1
        for listener in self.on_found:
            listener()

    def note(self, error: KafkaError) -> bool:
        if error.code() in COORDINATOR_LOST_ERRORS:
            self.target = None
            self.want(self.clock.now)
            return True
        return error.code() in COORDINATOR_BUSY_ERRORS

    def answered(self) -> None:
        pass

    # --- the application ---

    def _step(self, kind: str, keys: set[Key], done: Callable[[], None]) -> None:
        self.steps.append([kind, keys, done])
        if len(self.steps) == 1:
            self._begin()

    def _begin(self) -> None:
        self.later(self.simulation.random.choice((0.0, 0.01, 0.5, 3.0)), self._end)

    def _end(self) -> None:
        kind, keys, done = self.steps[0]
        if kind == "assign":
            if done is not None:
                self.simulation.claim(self, keys)
                self.owned |= keys
        else:
            self.owned -= keys if kind == "revoke" else set(self.owned)
        self.steps.pop(0)
        following = bool(self.steps)
        if done is not None:
            done()
        if following:
            self._begin()

    def assign(
        self, added: Iterable[Key], done: Callable[[], None], *, replaces: bool = False
    ) -> None:
        self._step("assign", set(added), done)

    def revoke(self, revoked: Iterable[Key], done: Callable[[], None]) -> None:
        self._step("revoke", set(revoked), done)

    def lose(self, done: Callable[[], None]) -> None:
        for step in self.steps:
            step[2] = None
        self._step("lose", set(), done)

    def crash(self) -> None:
        self.dead = True

    def polls_again(self, seconds: float) -> None:
        self.later(seconds, lambda: self.membership.rejoin("it polls again", self.clock.now))

    def leave(self) -> None:
        self.subscription.wanted = []
        self.membership.leave("bye", self.crash, self.clock.now)
        self.turn()


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
@pytest.mark.parametrize("seed", range(15))
def test_one_owner_a_partition_and_every_rebalance_ends(strategy: str, seed: int):
    simulation = Simulation(seed, strategy)
    luck = simulation.random
    for number in range(3):
        Node(simulation, f"n{number}")
    assert simulation.run(120, simulation.shared)
    simulation.faults = luck.choice((0.0, 0.02, 0.2))
    for number in range(30):
        simulation.run(luck.choice((0.01, 0.2, 2.0, 15.0)))
        live = [
            node
            for node in simulation.nodes
            if not node.dead and node.membership.state is not State.LEAVING
        ]
        what = luck.random()
        if what < 0.3 or len(live) < 2:
            Node(simulation, f"late{number}", f"static{number}" if luck.random() < 0.3 else None)
        elif what < 0.5:
            luck.choice(live).leave()
        elif what < 0.6:
            luck.choice(live).crash()
        elif what < 0.7:
            node = luck.choice(live)
            node.membership.on_poll_exceeded(simulation.clock.now)
            node.later(
                luck.choice((0.1, 5.0, 20.0)),
                lambda node=node: node.membership.rejoin("polls", node.clock.now),
            )
        elif what < 0.8:
            luck.choice(live).membership.rejoin("wished for", simulation.clock.now)
        else:
            luck.choice(live).note(KafkaError(KafkaError.NOT_COORDINATOR))
    simulation.faults = 0.0
    simulation.run(20)  # until the last slow application has polled
    assert simulation.run(300, simulation.shared), [
        (node.name, node.membership.state, node.membership._reason, node.owned)
        for node in simulation.nodes
    ]
    simulation.run(30)  # a cooperative rebalance may be followed by another one
    assert simulation.violations == []
    generation = simulation.broker.generation
    simulation.run(120)
    assert simulation.broker.generation == generation  # and no rebalance follows
    assert simulation.shared()
