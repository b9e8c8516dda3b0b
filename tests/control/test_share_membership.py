"""Membership of a share group (KIP-932): one rule a test, with a fake clock and given answers."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from kafka_native.control.consumer.share_group import ShareKey, ShareMembership
from kafka_native.control.group.heartbeats import State
from kafka_native.control.group.membership import GroupSettings, Member
from kafka_native.control.requests import Backoff, Call
from kafka_native.errors import KafkaError
from kafka_native.protocol.share import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

from .consumer_group import COORDINATOR, ID_A, ID_B, FakeCoordinator, FakePool, assignment_of
from .fakes import Clock


class Group:
    """A membership whose environment is fake."""

    def __init__(self, rack: str | None = None) -> None:
        self.clock = Clock()
        self.member = Member("g", None, "share")
        self.coordinator, self.pool = FakeCoordinator(), FakePool()
        self.assigned: list[set[ShareKey]] = []
        self.errors: list[KafkaError] = []
        self.fatal: list[KafkaError] = []
        self.calls: list[Call] = []
        self.membership = ShareMembership(
            self.member,
            self.coordinator,  # type: ignore[arg-type]
            self.pool,  # type: ignore[arg-type]
            GroupSettings(rack=rack),
            on_assigned=self.assigned.append,
            on_error=self.errors.append,
            on_fatal=self.fatal.append,
            logger=logging.getLogger("test"),
            clock=self.clock,
        )
        self.membership._backoff = Backoff(0.1, 1.0, lambda low, high: 1.0)

    def sent(self) -> ShareGroupHeartbeatRequest | None:
        """Return the oldest unanswered call, if any."""
        self.calls += self.membership.poll(self.clock.now)[0]
        message = self.calls[0].message if self.calls else None
        assert message is None or isinstance(message, ShareGroupHeartbeatRequest)
        return message

    def answer(self, reply: Any) -> None:
        assert self.sent() is not None
        self.calls.pop(0).on_reply(reply)

    def join(self) -> None:
        """Make it a member of epoch 1 that fetches two partitions."""
        self.membership.replace(["b", "a"], self.clock.now)
        self.answer(response(1, {ID_A: [0], ID_B: [2]}))


def response(
    epoch: int, assigned: dict[bytes, list[int]] | None = None, **fields: Any
) -> ShareGroupHeartbeatResponse:
    answer = ShareGroupHeartbeatResponse(member_epoch=epoch, heartbeat_interval_ms=5000, **fields)
    if assigned is not None:
        answer.assignment = assignment_of(ShareGroupHeartbeatResponse.Assignment, assigned)
    return answer


def test_join_sends_every_field_and_assigned_partitions_are_fetched_at_once() -> None:
    group = Group(rack="here")
    group.membership.replace(["b", "a"], group.clock.now)
    first = group.sent()
    assert first is not None
    assert (first.group_id, first.member_id, first.member_epoch) == ("g", group.member.member_id, 0)
    assert (first.rack_id, first.subscribed_topic_names) == ("here", ["a", "b"])
    group.answer(response(1, {ID_A: [0, 1], ID_B: [2]}))
    assert group.assigned == [{(ID_A, 0), (ID_A, 1), (ID_B, 2)}]
    assert group.membership.state is State.JOINED
    short, interval_s, _ = group.pool.heartbeats[COORDINATOR]
    assert interval_s == 5.0
    assert (short.member_epoch, short.subscribed_topic_names) == (1, None)  # type: ignore[attr-defined]


def test_a_short_heartbeat_brings_another_assignment() -> None:
    group = Group()
    group.join()
    group.pool.heartbeats[COORDINATOR][2](response(2, {ID_A: [5]}))
    assert group.assigned[-1] == {(ID_A, 5)}
    sent = group.sent()
    assert sent is not None
    assert (sent.member_epoch, sent.subscribed_topic_names) == (2, ["a", "b"])


def test_a_new_subscription_is_sent_at_once() -> None:
    group = Group()
    group.join()
    group.membership.replace(["c"], group.clock.now)
    sent = group.sent()
    assert sent is not None
    assert (sent.member_epoch, sent.subscribed_topic_names) == (1, ["c"])


@pytest.mark.parametrize("code", [KafkaError.UNKNOWN_MEMBER_ID, KafkaError.FENCED_MEMBER_EPOCH])
def test_a_fenced_member_loses_everything_and_joins_under_the_same_id(code: int) -> None:
    group = Group()
    group.join()
    name = group.member.member_id
    group.pool.heartbeats[COORDINATOR][2](response(0, error_code=code))
    assert group.assigned[-1] == set()
    again = group.sent()
    assert again is not None
    assert (again.member_id, again.member_epoch, again.subscribed_topic_names) == (
        name,
        0,
        ["a", "b"],
    )
    assert not group.errors


def test_leaving_ends_with_the_coordinators_answer() -> None:
    group = Group()
    group.join()
    ended: list[bool] = []
    group.membership.leave("test", lambda: ended.append(True), group.clock.now)
    last = group.sent()
    assert last is not None
    assert (last.member_epoch, last.subscribed_topic_names) == (-1, None)
    assert group.assigned[-1] == set()
    assert not ended
    group.answer(response(-1))
    assert ended == [True]
    assert group.membership.state is State.OUT
    assert group.sent() is None


def test_leaving_without_a_coordinator_ends_at_once() -> None:
    group = Group()
    group.join()
    group.coordinator.target = None
    ended: list[bool] = []
    group.membership.leave("test", lambda: ended.append(True), group.clock.now)
    assert ended == [True]


def test_application_that_does_not_poll_leaves_until_it_polls() -> None:
    group = Group()
    group.join()
    group.membership.on_poll_exceeded(group.clock.now)
    last = group.sent()
    assert last is not None
    assert last.member_epoch == -1
    group.answer(response(-1))
    assert group.assigned[-1] == set()
    assert group.sent() is None
    group.membership.rejoin("it polls", group.clock.now)
    again = group.sent()
    assert again is not None
    assert again.member_epoch == 0


def test_another_coordinator_gets_a_full_heartbeat() -> None:
    group = Group()
    group.join()
    group.pool.heartbeats[COORDINATOR][2](KafkaError(KafkaError._TRANSPORT))
    assert group.sent() is None
    group.coordinator.found()
    sent = group.sent()
    assert sent is not None
    assert sent.subscribed_topic_names == ["a", "b"]
    assert group.assigned[-1] == {(ID_A, 0), (ID_B, 2)}, "the assigned partitions are still fetched"


@pytest.mark.parametrize(
    "code", [KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError._UNSUPPORTED_FEATURE]
)
def test_a_fatal_error_ends_the_membership(code: int) -> None:
    group = Group()
    group.membership.replace(["a"], group.clock.now)
    group.answer(KafkaError(code))
    assert [error.code() for error in group.fatal] == [code]
    assert group.sent() is None
