"""A member of the consumer protocol (KIP-848) whose environment is fake."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable
from typing import Any

from kafka_native.control.group.consumer_membership import ConsumerMembership
from kafka_native.control.group.heartbeats import State
from kafka_native.control.group.membership import GroupSettings, Member
from kafka_native.control.requests import Backoff, Call
from kafka_native.errors import KafkaError
from kafka_native.logs import QUIET
from kafka_native.protocol.groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

from .fakes import Clock

COORDINATOR = 7
ID_A, ID_B = b"A" * 16, b"B" * 16
Key = tuple[str, int]


class FakeCoordinator:
    """Known, until a test or an error changes that."""

    def __init__(self) -> None:
        self.target: int | None = COORDINATOR
        self.on_found: list[Callable[[], None]] = []
        self.on_refused: list[Callable[[KafkaError], None]] = []
        self.lost = 0
        self.answers = 0

    def pause_s(self, backoff: Backoff) -> float:
        return 0.0 if self.target is None else backoff.next_s()

    def want(self, now: float) -> int | None:
        return self.target

    def answered(self) -> None:
        self.answers += 1

    def note(self, error: KafkaError) -> bool:
        if error.code() in (
            KafkaError.NOT_COORDINATOR,
            KafkaError.COORDINATOR_NOT_AVAILABLE,
            KafkaError._TRANSPORT,
        ):
            self.target = None
            self.lost += 1
            return True
        return error.code() == KafkaError.COORDINATOR_LOAD_IN_PROGRESS

    def found(self, target: int = COORDINATOR) -> None:
        self.target = target
        for listener in self.on_found:
            listener()


class FakePool:
    """Records the heartbeats that broker threads would send, one for each target."""

    logs = QUIET

    def __init__(self) -> None:
        self.heartbeats: dict[
            int, tuple[ConsumerGroupHeartbeatRequest, float, Callable[[Any], None]]
        ] = {}
        self.stopped = 0

    def heartbeat(
        self, target: int, message: Any, interval_s: float, timeout_s: float, on_reply: Any
    ) -> None:
        self.heartbeats[target] = (message, interval_s, on_reply)

    def stop_heartbeat(self, target: int) -> None:
        self.stopped += self.heartbeats.pop(target, None) is not None


class FakeMetadata:
    """Knows only the given names."""

    def __init__(self) -> None:
        self.names = {ID_A: "a"}
        self.asked: set[bytes] = set()
        self.on_names: list[Callable[[], None]] = []

    def name_of(self, topic_id: bytes) -> str | None:
        return self.names.get(topic_id)

    def resolve(self, topic_ids: Iterable[bytes], now: float) -> None:
        self.asked |= set(topic_ids)

    def unresolve(self, topic_ids: Iterable[bytes]) -> None:
        self.asked -= set(topic_ids)

    def learn(self, topic_id: bytes, name: str) -> None:
        self.names[topic_id] = name
        for listener in self.on_names:
            listener()


class FakeSubscription:
    """Given names and patterns. The client's own matching finds ``matched``."""

    def __init__(self) -> None:
        self.wanted = ["a"]
        self.server_side = True
        self.matched: list[str] = []
        self.on_change: list[Callable[[], None]] = []

    @property
    def names(self) -> list[str]:
        return [each for each in self.wanted if not each.startswith("^")]

    @property
    def patterns(self) -> list[str]:
        return [each for each in self.wanted if each.startswith("^")]

    @property
    def topics(self) -> list[str]:
        return sorted({*self.names, *self.matched})

    def replace(self, wanted: Iterable[str], now: float) -> None:
        self.wanted = list(wanted)
        if not self.server_side:
            for each in self.patterns:
                try:
                    re.compile(each)
                except re.error as error:
                    raise ValueError(str(error)) from None


class FakeRebalance:
    """Steps that end at once, or on a test's command."""

    def __init__(self) -> None:
        self.log: list[tuple[str, list[Key]]] = []
        self.at_once = True
        self.ended: set[Key] = set()
        self.open: list[Callable[[], None]] = []

    def _begin(self, kind: str, keys: Iterable[Key], done: Callable[[], None]) -> None:
        self.log.append((kind, sorted(keys)))
        if self.at_once:
            done()
        else:
            self.open.append(done)

    def assign(self, added: Iterable[Key], done: Callable[[], None]) -> None:
        self._begin("assign", added, done)

    def revoke(self, revoked: Iterable[Key], done: Callable[[], None]) -> None:
        self._begin("revoke", revoked, done)

    def lose(self, done: Callable[[], None]) -> None:
        self.open.clear()
        self._begin("lose", [], done)

    def end(self, keys: Iterable[Key]) -> None:
        self.ended.update(keys)

    def lose_ended(self, keys: Iterable[Key], done: Callable[[list[Key]], None]) -> None:
        ended = sorted(set(keys) & self.ended)
        self._begin("lose ended", ended, lambda: done(ended))

    def finish(self) -> None:
        self.open.pop(0)()

    def taken(self) -> list[tuple[str, list[Key]]]:
        log, self.log = self.log, []
        return log


class Group:
    """A membership whose environment is fake."""

    def __init__(
        self,
        instance_id: str | None = None,
        rack: str | None = None,
        assignor: str | None = None,
        *,
        subscribed: bool = False,
    ) -> None:
        self.clock = Clock()
        self.member = Member("g", instance_id, "consumer")
        self.coordinator, self.pool, self.metadata = FakeCoordinator(), FakePool(), FakeMetadata()
        self.subscription, self.rebalance = FakeSubscription(), FakeRebalance()
        self.errors: list[KafkaError] = []
        self.fatal: list[KafkaError] = []
        self.calls: list[Call] = []
        self.membership: ConsumerMembership = ConsumerMembership(
            self.member,
            self.coordinator,  # type: ignore[arg-type]
            self.pool,  # type: ignore[arg-type]
            self.metadata,  # type: ignore[arg-type]
            self.subscription,  # type: ignore[arg-type]
            self.rebalance,  # type: ignore[arg-type]
            GroupSettings(rack=rack),
            assignor=assignor,
            on_error=self.errors.append,
            on_fatal=self.fatal.append,
            logger=logging.getLogger("test"),
            clock=self.clock,
        )
        self.membership._backoff = Backoff(0.1, 1.0, lambda low, high: 1.0)
        if subscribed:
            self.membership.subscribe(self.clock.now)

    def turn(self) -> float:
        """Run one turn of the control thread."""
        calls, wake_up = self.membership.poll(self.clock.now)
        self.calls += calls
        return wake_up

    def sent(self) -> ConsumerGroupHeartbeatRequest:
        """Return the oldest unanswered call. There must be one."""
        self.turn()
        message = self.calls[0].message
        assert isinstance(message, ConsumerGroupHeartbeatRequest)
        assert self.calls[0].target == self.coordinator.target
        return message

    def nothing_sent(self) -> bool:
        self.turn()
        return not self.calls

    def answer(
        self, epoch: int = 0, assigned: dict[bytes, list[int]] | None = None, **fields: Any
    ) -> None:
        """Answer the oldest call."""
        self.turn()
        self.calls.pop(0).on_reply(response(epoch, assigned, **fields))

    def leave(self, reason: str) -> list[int]:
        """Leave the group. The list gets a 1 at the end."""
        done: list[int] = []
        self.membership.leave(reason, lambda: done.append(1), self.clock.now)
        return done

    def fail(self, error: KafkaError) -> None:
        self.turn()
        self.calls.pop(0).on_reply(error)

    @property
    def heartbeat(self) -> tuple[ConsumerGroupHeartbeatRequest, float, Callable[[Any], None]]:
        return self.pool.heartbeats[COORDINATOR]

    def join(self, assigned: dict[bytes, list[int]] | None = None, epoch: int = 1) -> None:
        """Make it a stable member: joined, confirmed, with heartbeats of the broker's thread."""
        self.membership.subscribe(self.clock.now)
        self.answer(epoch, assigned if assigned is not None else {})
        while not self.nothing_sent():
            self.answer(epoch, assigned)
        self.rebalance.taken()
        assert self.membership.state is State.JOINED


def stable_member(
    assigned: dict[bytes, list[int]] | None = None, epoch: int = 1, **how: Any
) -> Group:
    """Return a group that has joined and got this assignment."""
    group = Group(**how)
    group.join(assigned, epoch)
    return group


def assignment_of(kind: Any, partitions: dict[bytes, list[int]]) -> Any:
    """Return an assignment of this message class."""
    parts = [
        kind.TopicPartitions(topic_id=each, partitions=numbers)
        for each, numbers in partitions.items()
    ]
    return kind(topic_partitions=parts)


def response(epoch: int, assigned: dict[bytes, list[int]] | None = None, **fields: Any) -> Any:
    answer = ConsumerGroupHeartbeatResponse(member_epoch=epoch, heartbeat_interval_ms=5000)
    answer.member_id = "member"
    if assigned is not None:
        answer.assignment = assignment_of(ConsumerGroupHeartbeatResponse.Assignment, assigned)
    for name, value in fields.items():
        setattr(answer, name, value)
    return answer


def owned_of(message: ConsumerGroupHeartbeatRequest) -> dict[bytes, list[int]]:
    assert message.topic_partitions is not None
    return {each.topic_id: each.partitions for each in message.topic_partitions}
