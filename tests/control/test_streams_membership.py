"""Membership of a streams group (KIP-1071): one rule a test, with a fake clock and given answers."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from kafka_native.control.group.heartbeats import State
from kafka_native.control.group.membership import GroupSettings, Member
from kafka_native.control.group.streams_membership import (
    NO_TASKS,
    Statuses,
    StreamsHooks,
    StreamsMemberSettings,
    StreamsMembership,
    Task,
    Tasks,
)
from kafka_native.control.requests import Backoff, Call
from kafka_native.errors import KafkaError
from kafka_native.protocol.schema import Request
from kafka_native.protocol.streams import (
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    TaskIds,
)

from .consumer_group import FakeCoordinator, FakePool
from .fakes import Clock

TOPOLOGY = StreamsGroupHeartbeatRequest.Topology(epoch=3)
SETTINGS = StreamsMemberSettings(TOPOLOGY, "a-process", ("here", 80), {"zone": "a"})


def tasks(*partitions: int) -> frozenset[Task]:
    return frozenset(("0", number) for number in partitions)


def ids(*partitions: int) -> list[TaskIds]:
    return [TaskIds(subtopology_id="0", partitions=list(partitions))] if partitions else []


class Group:
    """A membership whose environment is fake."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.member = Member("g", None, "streams")
        self.coordinator, self.pool = FakeCoordinator(), FakePool()
        self.steps: list[tuple[Tasks, bool, int]] = []
        self.statuses: list[Statuses] = []
        self.endpoints: list[Any] = []
        self.errors: list[KafkaError] = []
        self.fatal: list[KafkaError] = []
        self.calls: list[Call] = []
        hooks = StreamsHooks(
            on_tasks=lambda *step: self.steps.append(step),
            on_statuses=self.statuses.append,
            on_endpoints=self.endpoints.append,
            on_error=self.errors.append,
            on_fatal=self.fatal.append,
            polls=lambda: (0, False),
        )
        self.membership = StreamsMembership(
            self.member,
            self.coordinator,  # type: ignore[arg-type]
            self.pool,  # type: ignore[arg-type]
            GroupSettings(rack="east"),
            SETTINGS,
            hooks,
            logger=logging.getLogger("test"),
            clock=self.clock,
        )
        self.membership._backoff = Backoff(0.1, 1.0, lambda low, high: 1.0)

    def sent(self) -> Request | None:
        """Return the oldest unanswered call, if any."""
        self.calls += self.membership.poll(self.clock.now)[0]
        return self.calls[0].message if self.calls else None

    def heartbeat(self) -> StreamsGroupHeartbeatRequest:
        message = self.sent()
        assert isinstance(message, StreamsGroupHeartbeatRequest)
        return message

    def answer(self, reply: Any) -> None:
        assert self.sent() is not None
        self.calls.pop(0).on_reply(reply)

    def confirm(self) -> None:
        """The application has taken the last step."""
        self.membership.confirm(self.steps[-1][2])

    def join(self, *partitions: int) -> None:
        """Make it a member of epoch 1 that runs these tasks."""
        self.membership.subscribe(self.clock.now)
        self.answer(response(1, *partitions))
        self.confirm()
        self.answer(response(1))


def response(
    epoch: int, *partitions: int, none: bool = False, **fields: Any
) -> StreamsGroupHeartbeatResponse:
    """A reply; it has tasks if it names partitions, or with ``none``."""
    reply = StreamsGroupHeartbeatResponse(
        member_epoch=epoch, heartbeat_interval_ms=5000, **{"status": [], **fields}
    )
    if partitions or none:
        reply.active_tasks, reply.standby_tasks, reply.warmup_tasks = ids(*partitions), [], []
    return reply


def owned(message: StreamsGroupHeartbeatRequest) -> list[Any]:
    return [message.active_tasks, message.standby_tasks, message.warmup_tasks]


def test_only_a_joining_member_sends_the_topology() -> None:
    group = Group()
    group.membership.subscribe(group.clock.now)
    first = group.heartbeat()
    assert (first.group_id, first.member_id, first.member_epoch) == ("g", group.member.member_id, 0)
    assert (first.topology, first.process_id, first.rack_id) == (TOPOLOGY, "a-process", "east")
    assert (first.rebalance_timeout_ms, owned(first)) == (300_000, [[], [], []])
    assert first.user_endpoint is not None
    assert (first.user_endpoint.host, first.user_endpoint.port) == ("here", 80)
    assert [(each.key, each.value) for each in first.client_tags or ()] == [("zone", "a")]
    group.answer(response(1, 0))
    group.confirm()
    later = group.heartbeat()
    assert (later.topology, later.process_id, later.rebalance_timeout_ms) == (None, None, -1)
    assert (later.member_epoch, owned(later)) == (1, [ids(0), [], []])


def test_each_step_waits_for_the_application() -> None:
    group = Group()
    group.join(0, 1)
    assert group.steps == [(Tasks(tasks(0, 1)), False, 1)]
    group.membership._send_at = group.clock.now
    group.answer(response(2, 1, 2))
    assert group.steps[1:] == [(Tasks(tasks(1)), False, 2)], "first it gives up a task"
    assert group.membership._owned == Tasks(tasks(0, 1))
    group.membership.confirm(1)
    assert group.membership._owned == Tasks(tasks(0, 1)), "an old step was confirmed"
    group.confirm()
    assert group.steps[2:] == [(Tasks(tasks(1, 2)), False, 3)], "then it gets the other one"
    assert owned(group.heartbeat()) == [ids(1), [], []]
    group.answer(response(2))
    group.confirm()
    assert owned(group.heartbeat()) == [ids(1, 2), [], []]
    group.answer(response(2))
    assert len(group.steps) == 3


@pytest.mark.parametrize("code", [KafkaError.FENCED_MEMBER_EPOCH, KafkaError.UNKNOWN_MEMBER_ID])
def test_a_fenced_member_joins_once_the_application_has_given_up_its_tasks(code: int) -> None:
    group = Group()
    group.join(0)
    group.membership._send_at = group.clock.now
    group.answer(StreamsGroupHeartbeatResponse(error_code=code))
    assert group.steps[-1][:2] == (NO_TASKS, True)
    assert group.sent() is None
    group.confirm()
    message = group.heartbeat()
    assert (message.member_epoch, message.topology) == (0, TOPOLOGY)
    assert owned(message) == [[], [], []]


@pytest.mark.parametrize(
    "code",
    [
        KafkaError.STREAMS_INVALID_TOPOLOGY,
        KafkaError.STREAMS_INVALID_TOPOLOGY_EPOCH,
        KafkaError.STREAMS_TOPOLOGY_FENCED,
        KafkaError.GROUP_ID_NOT_FOUND,
    ],
)
def test_a_refused_topology_is_fatal(code: int) -> None:
    group = Group()
    group.membership.subscribe(group.clock.now)
    group.answer(StreamsGroupHeartbeatResponse(error_code=code))
    assert [each.code() for each in group.fatal] == [code]
    assert group.membership.state is State.FAILED
    assert group.sent() is None
    assert group.steps == []


def described(group: Group, epoch: int, *partitions: int) -> StreamsGroupDescribeResponse:
    kind = StreamsGroupDescribeResponse.Group
    assignment = kind.Member.Assignment(active_tasks=ids(*partitions))
    member = kind.Member(
        member_id=group.member.member_id, member_epoch=epoch, assignment=assignment
    )
    other = kind.Member(member_id="other", member_epoch=epoch)
    return StreamsGroupDescribeResponse(groups=[kind(group_id="g", members=[other, member])])


@pytest.mark.parametrize("code", [KafkaError._TRANSPORT, KafkaError._TIMED_OUT])
def test_after_a_lost_reply_the_member_asks_for_its_assignment(code: int) -> None:
    group = Group()
    group.join(0, 1)
    group.membership._send_at = group.clock.now
    group.answer(KafkaError(code))
    group.coordinator.found()
    group.clock.now += 5
    group.answer(response(2))
    assert isinstance(group.sent(), StreamsGroupDescribeRequest)
    group.answer(described(group, 1, 0, 1))
    assert len(group.steps) == 1, "the description has another epoch"
    assert group.sent() is None
    group.clock.now += 5
    group.answer(response(2))
    assert isinstance(group.sent(), StreamsGroupDescribeRequest)
    group.answer(described(group, 2, 1))
    assert group.steps[1:] == [(Tasks(tasks(1)), False, 2)]
    group.confirm()
    group.answer(response(2))
    assert group.sent() is None, "it is sure now"


def test_a_reply_with_tasks_settles_a_lost_one() -> None:
    group = Group()
    group.join(0)
    group.membership._send_at = group.clock.now
    group.answer(KafkaError(KafkaError._TIMED_OUT))
    group.clock.now += 5
    group.answer(response(2, none=True))
    assert group.steps[-1][:2] == (NO_TASKS, False)
    group.confirm()
    group.answer(response(2))
    assert group.sent() is None


def test_progress_is_reported_at_most_once_an_interval() -> None:
    group = Group()
    group.membership.subscribe(group.clock.now)
    group.answer(response(1, 0, task_offset_interval_ms=60_000))
    group.confirm()
    group.answer(response(1, task_offset_interval_ms=60_000))
    group.membership.report({("0", 0): 7}, {("0", 0): 9})
    message = group.heartbeat()
    assert [each.offset for each in message.task_offsets or ()] == [7]
    assert [each.offset for each in message.task_end_offsets or ()] == [9]
    group.answer(response(1, task_offset_interval_ms=60_000))
    group.membership.report({("0", 0): 8}, {})
    assert group.membership.poll(group.clock.now) == ([], group.clock.now + 60)
    group.clock.now += 60
    assert [each.offset for each in group.heartbeat().task_offsets or ()] == [8]


def test_statuses_and_endpoints_are_passed_on_when_they_change() -> None:
    group = Group()
    group.join(0)
    kind = StreamsGroupHeartbeatResponse
    missing = [kind.Status(status_code=1, status_detail="no topic")]
    places = [kind.EndpointToPartitions()]
    for _ in range(2):
        group.membership._send_at = group.clock.now
        group.answer(
            response(
                1, status=missing, endpoint_information_epoch=4, partitions_by_user_endpoint=places
            )
        )
    assert group.statuses == [((1, "no topic"),)]
    assert group.endpoints == [places, places]
    group.membership._send_at = group.clock.now
    assert group.heartbeat().endpoint_information_epoch == 4
    group.answer(response(1))
    assert group.statuses[1:] == [()]


def test_a_requested_shutdown_is_in_every_heartbeat_from_then_on() -> None:
    group = Group()
    group.join(0)
    group.membership.shut_down_application(group.clock.now)
    assert group.heartbeat().shutdown_application
    group.answer(response(1))
    assert group.membership._short(1).shutdown_application
    left: list[bool] = []
    group.membership.leave("test", lambda: left.append(True), group.clock.now)
    message = group.heartbeat()
    assert (message.member_epoch, message.shutdown_application) == (-1, True)
    group.answer(response(-1))
    assert left == [True]
