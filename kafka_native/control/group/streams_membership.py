"""Membership in a streams group (KIP-1071): the coordinator assigns tasks, by heartbeats.

A task is one partition of a subtopology. The coordinator assigns active tasks, standby tasks, and
warm-up tasks. A member goes from one assignment to the next in two steps, as in Java:

1. The application gives up the tasks that aren't assigned any more. A heartbeat reports this, and
   the coordinator then assigns them to other members.
2. The application starts the new tasks, and a heartbeat reports them.

After each step the application has to confirm it (`StreamsMembership.confirm()`). A newer
assignment is applied after the current step.

The coordinator sends an assignment once, in the reply to the heartbeat that changed it. If that
reply may be lost, the member asks for its assignment with StreamsGroupDescribe.

`StreamsControl` owns the managers, as `ConsumerControl` does for a consumer.

Thread: the control thread only; the public API gets here through `MainThread.run()` and `post()`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from kafka_native.control.brokers.coordinator import Coordinator
from kafka_native.control.errors import NO_REPLY_ERRORS
from kafka_native.control.group.heartbeats import JOIN_EPOCH, LEAVE_EPOCH, Heartbeats, State
from kafka_native.control.group.membership import GroupSettings, Member, PollWatch
from kafka_native.control.group.streams_commits import StreamsCommits
from kafka_native.control.requests import Backoff, Call, Reply
from kafka_native.errors import KafkaError
from kafka_native.protocol.streams import (
    Endpoint,
    KeyValue,
    StreamsGroupDescribeRequest,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    TaskIds,
    TaskOffset,
)

if TYPE_CHECKING:
    from kafka_native.config import Config
    from kafka_native.control.brokers.pool import BrokerPool
    from kafka_native.control.context import ManagerContext
    from kafka_native.logs import Logger

Heartbeat: TypeAlias = StreamsGroupHeartbeatRequest
Topology: TypeAlias = StreamsGroupHeartbeatRequest.Topology
Task: TypeAlias = tuple[str, int]
"""A subtopology's id, and a partition."""
Endpoints: TypeAlias = list[StreamsGroupHeartbeatResponse.EndpointToPartitions]
Statuses: TypeAlias = tuple[tuple[int, str], ...]
"""The code and the detail of each status of the group."""

_TOO_OLD = (
    "the broker doesn't speak the streams group protocol (KIP-1071): Apache Kafka does since 4.2, "
    "with the feature streams.version=1"
)


class Tasks(NamedTuple):
    """Tasks by their role."""

    active: frozenset[Task] = frozenset()
    standby: frozenset[Task] = frozenset()
    warmup: frozenset[Task] = frozenset()

    def kept_in(self, other: Tasks) -> Tasks:
        """The tasks that have the same role in another assignment."""
        return Tasks(*(mine & theirs for mine, theirs in zip(self, other, strict=True)))


NO_TASKS: Final = Tasks()


@dataclass(frozen=True, slots=True)
class StreamsMemberSettings:
    """What a member reports about itself when it joins."""

    topology: Topology
    process_id: str
    user_endpoint: tuple[str, int] | None
    client_tags: Mapping[str, str]


@dataclass(slots=True)
class StreamsHooks:
    """The functions by which the membership reaches the application."""

    on_tasks: Callable[[Tasks, bool, int], None]
    """Gets the tasks of the next step, whether the others are lost, and the step's number."""
    on_statuses: Callable[[Statuses], None]
    on_endpoints: Callable[[Endpoints], None]
    on_error: Callable[[KafkaError], None]
    """Reports an error to the next poll()."""
    on_fatal: Callable[[KafkaError], None]
    polls: Callable[[], tuple[int, bool]]
    """How many polls the application has begun, and whether it is inside one."""


class StreamsMembership(Heartbeats[Heartbeat, StreamsGroupHeartbeatResponse]):
    """One member of one streams group. It is idle until `subscribe()`."""

    api = "StreamsGroupHeartbeat"
    texts = {  # noqa: RUF012 - read only
        KafkaError.UNSUPPORTED_VERSION: _TOO_OLD,
        KafkaError._UNSUPPORTED_FEATURE: _TOO_OLD,
        KafkaError.GROUP_ID_NOT_FOUND: "there is a group of another type with this group.id",
    }

    def __init__(
        self,
        member: Member,
        coordinator: Coordinator,
        pool: BrokerPool,
        settings: GroupSettings,
        myself: StreamsMemberSettings,
        hooks: StreamsHooks,
        *,
        logger: Logger,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """The member joins with the topology and the other values of ``myself``."""
        super().__init__(
            member,
            coordinator,
            pool,
            settings,
            on_error=hooks.on_error,
            on_fatal=hooks.on_fatal,
            logger=logger,
            clock=clock,
        )
        self._myself = myself
        self._hooks = hooks
        self._owned = NO_TASKS
        self._target: Tasks | None = None
        self._step: Tasks | None = None  # the tasks that the application has to confirm
        self._step_number = 0
        self._statuses: Statuses = ()
        self._endpoints_epoch = 0
        # a reply with an assignment may be lost; the question about it is in flight
        self._unsure = self._asking = False
        self._shutdown = False
        self._offsets: tuple[list[TaskOffset], list[TaskOffset]] | None = None
        self._offsets_at = 0.0
        self._offsets_interval_s = 0.0

    # --- calls of the application ---

    def confirm(self, number: int) -> None:
        """The application has taken a step: it owns exactly these tasks now."""
        if self._step is None or number != self._step_number:
            return
        self._owned, self._step = self._step, None
        now = self._clock()
        if self.state is State.LOSING:
            self._join(max(now, self._join_at))
        elif self.state is State.JOINED:
            self._send_at = min(self._send_at, now)
            self._reconcile()

    def report(self, offsets: Mapping[Task, int], end_offsets: Mapping[Task, int]) -> None:
        """Reports the progress of tasks, as soon as the coordinator's interval allows."""
        self._offsets = _task_offsets(offsets), _task_offsets(end_offsets)
        if self.state is State.JOINED and self._may_report():
            self._send_at = min(self._send_at, self._clock())

    def _may_report(self) -> bool:
        return self._offsets is not None and self._clock() >= self._offsets_at

    def shut_down_application(self, now: float) -> None:
        """Asks all members of the group to end. The heartbeats repeat it."""
        self._shutdown = True
        if self.state is State.JOINED:
            self._send_at = now

    def leave(self, reason: str, done: Callable[[], None], now: float) -> None:
        """Leaves the group: the application has given up all tasks.

        ``done`` is called when the coordinator has replied or can't be reached.
        """
        if self.state in (State.OUT, State.FAILED):
            done()
            return
        self._on_left.append(done)
        if self.state is State.LEAVING:
            return
        self._logger.debug("leaving group %s: %s", self._member.group_id, reason)
        was_in = self.state in (State.JOINED, State.JOINING)
        self._stop_heartbeat()
        self._end_session()
        self._owned = NO_TASKS
        self.state = State.LEAVING
        if not was_in or not self._send_leave(now, lambda reply: self._left()):
            self._left()

    def rejoin(self, reason: str, now: float) -> None:
        """Joins again, if the member has left because the application didn't poll."""
        self._logger.debug("group %s: %s", self._member.group_id, reason)
        if self.state is State.STALE:
            self.state = State.LOSING
            if self._step is None:
                self._join(now)

    def on_poll_exceeded(self, now: float) -> None:
        """Leaves the group: the application has exceeded max.poll.interval.ms. See rejoin()."""
        if self.state in (State.JOINED, State.JOINING):
            self._send_leave(now, lambda reply: None)
            self._lose(State.STALE)

    # --- heartbeats ---

    def poll(self, now: float) -> tuple[list[Call], float]:
        """See `requests.Manager`. A report that waits for its interval is due by itself."""
        is_joined = self.state is State.JOINED
        if is_joined and self._may_report():
            self._send_at = min(self._send_at, now)
        calls, next_at = super().poll(now)
        if is_joined and self._offsets is not None and not self._in_flight:
            next_at = min(next_at, self._offsets_at)
        return calls, next_at

    def _short(self, epoch: int) -> Heartbeat:
        message = Heartbeat(
            group_id=self._member.group_id,
            member_id=self._member.member_id,
            member_epoch=epoch,
            endpoint_information_epoch=self._endpoints_epoch,
            shutdown_application=self._shutdown,
        )
        message.active_tasks, message.standby_tasks, message.warmup_tasks = map(
            _task_ids, self._owned
        )
        return message

    def _full(self) -> Heartbeat:
        message = self._short(max(self._member.generation, JOIN_EPOCH))
        myself = self._myself
        if message.member_epoch == JOIN_EPOCH:
            message.topology = myself.topology
            message.rebalance_timeout_ms = int(self._settings.rebalance_timeout_s * 1000)
            message.process_id = myself.process_id
            message.rack_id = self._settings.rack
            if myself.user_endpoint is not None:
                host, port = myself.user_endpoint
                message.user_endpoint = Endpoint(host=host, port=port)
            message.client_tags = [
                KeyValue(key=key, value=value) for key, value in myself.client_tags.items()
            ]
        elif self._offsets is not None and self._may_report():
            message.task_offsets, message.task_end_offsets = self._offsets
            self._offsets = None
            self._offsets_at = self._clock() + self._offsets_interval_s
        return message

    def _last_heartbeat(self) -> Heartbeat:
        return Heartbeat(
            group_id=self._member.group_id,
            member_id=self._member.member_id,
            member_epoch=LEAVE_EPOCH,
            shutdown_application=self._shutdown,
        )

    def _has_news(self, reply: Reply) -> bool:
        return (
            reply.active_tasks is not None
            or reply.partitions_by_user_endpoint is not None
            or self._unsure
        )

    def _take_answer(self, reply: StreamsGroupHeartbeatResponse) -> None:
        if self.state is not State.JOINED:
            return
        self._offsets_interval_s = max(reply.task_offset_interval_ms, 0) / 1000
        if reply.partitions_by_user_endpoint is not None:
            self._hooks.on_endpoints(reply.partitions_by_user_endpoint)
        self._endpoints_epoch = reply.endpoint_information_epoch
        statuses = tuple((each.status_code, each.status_detail) for each in reply.status or ())
        if statuses != self._statuses:
            self._statuses = statuses
            self._log_statuses()
            self._hooks.on_statuses(statuses)
        if reply.active_tasks is not None:
            self._unsure = False
            self._target = Tasks(
                _tasks(reply.active_tasks),
                _tasks(reply.standby_tasks or ()),
                _tasks(reply.warmup_tasks or ()),
            )
        elif self._unsure:
            self._ask()
        self._reconcile()

    def _log_statuses(self) -> None:
        for code, detail in self._statuses:
            self._logger.warning(
                "group %s: status %d of the group: %s", self._member.group_id, code, detail
            )

    def _failed(self, error: KafkaError) -> None:
        if self.state is State.JOINED and error.code() in NO_REPLY_ERRORS:
            self._unsure = True
        super()._failed(error)

    # --- an assignment whose reply may be lost ---

    def _ask(self) -> None:
        """Asks the coordinator for this member's assignment."""
        target = self._coordinator.target
        if target is None or self._asking:
            return
        self._asking = True
        serial = self._serial
        self._urgent.append(
            Call(
                StreamsGroupDescribeRequest(group_ids=[self._member.group_id]),
                target,
                self._clock() + self._answer_s,
                lambda reply: self._if_current(serial, lambda: self._on_described(reply)),
            )
        )

    def _on_described(self, reply: Reply) -> None:
        """Takes the assignment, if the reply fits. Otherwise asks after another heartbeat."""
        self._asking = False
        if self.state is not State.JOINED or not self._unsure:
            return
        self._send_at = min(self._send_at, self._clock() + self.interval_s)
        for group in () if isinstance(reply, KafkaError) else reply.groups:
            for each in group.members:
                if (each.member_id, each.member_epoch) == (
                    self._member.member_id,
                    self._member.generation,
                ):
                    self._unsure = False
                    self._send_at = self._clock()
                    self._target = Tasks(
                        _tasks(each.assignment.active_tasks),
                        _tasks(each.assignment.standby_tasks),
                        _tasks(each.assignment.warmup_tasks),
                    )
                    self._reconcile()

    # --- from one assignment to the next ---

    def _reconcile(self) -> None:
        """Has the application take the next step towards the assignment."""
        if self._step is not None or self._target is None or self.state is not State.JOINED:
            return
        kept = self._owned.kept_in(self._target)
        if kept != self._owned:
            self._offer(kept, lost=False)
        elif self._owned != self._target:
            self._offer(self._target, lost=False)

    def _offer(self, tasks: Tasks, *, lost: bool) -> None:
        self._step = tasks
        self._step_number += 1
        self._hooks.on_tasks(tasks, lost, self._step_number)

    def _forget(self) -> None:
        self._target = self._step = None
        self._unsure = self._asking = False
        self._endpoints_epoch = 0

    def _lose(self, then: State) -> None:
        """Has the application give up all tasks as lost. Then a member that is fenced joins."""
        self._stop_heartbeat()
        had_tasks = self._owned != NO_TASKS or self._step is not None
        self._end_session()
        self._owned = NO_TASKS
        self._member.generation = JOIN_EPOCH
        self.state = then
        if had_tasks:
            self._offer(NO_TASKS, lost=True)
        elif then is State.LOSING:
            self._join(max(self._clock(), self._join_at))


def _task_ids(tasks: Iterable[Task]) -> list[TaskIds]:
    by_subtopology: dict[str, list[int]] = {}
    for subtopology, partition in sorted(tasks):
        by_subtopology.setdefault(subtopology, []).append(partition)
    return [
        TaskIds(subtopology_id=subtopology, partitions=partitions)
        for subtopology, partitions in by_subtopology.items()
    ]


def _tasks(ids: Iterable[TaskIds]) -> frozenset[Task]:
    return frozenset((each.subtopology_id, number) for each in ids for number in each.partitions)


def _task_offsets(offsets: Mapping[Task, int]) -> list[TaskOffset]:
    return [
        TaskOffset(subtopology_id=subtopology, partition=partition, offset=offset)
        for (subtopology, partition), offset in offsets.items()
    ]


CLOSED = "the streams group member is being closed"
DROPPED = "the streams group member was dropped without being closed"


class StreamsControl:
    """The control plane of one streams group member: its membership, commits and coordinator."""

    def __init__(
        self,
        context: ManagerContext,
        config: Config,
        myself: StreamsMemberSettings,
        hooks: StreamsHooks,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Creates the managers; the control thread isn't running yet."""
        settings = GroupSettings.of(config)
        self.member = Member(config.text("group.id"), None, "streams")
        self.coordinator = Coordinator(
            context.pool,
            self.member.group_id,
            timeout_s=settings.timeout_s,
            query_interval_s=config.integer("coordinator.query.interval.ms") / 1000,
            backoff=Backoff(settings.retry_s, settings.retry_max_s),
            clock=clock,
        )
        self.membership = StreamsMembership(
            self.member,
            self.coordinator,
            context.pool,
            settings,
            myself,
            hooks,
            logger=context.pool.logs["cgrp"],
            clock=clock,
        )
        self.watch = PollWatch(
            self.membership,
            lambda: self.membership.state is not State.OUT,
            hooks.polls,
            interval_s=settings.rebalance_timeout_s,
            on_error=hooks.on_error,
        )
        self.commits = StreamsCommits(
            self.member,
            self.coordinator,
            backoff=Backoff(settings.retry_s, settings.retry_max_s),
            timeout_s=settings.timeout_s,
            clock=clock,
        )
        self.managers = (self.watch, self.membership, self.commits, self.coordinator)
        """In the order in which the control thread polls them."""

    def close(self, done: Callable[[], None], now: float) -> None:
        """Leaves the group."""
        self.membership.leave(CLOSED, done, now)

    def quit(self, done: Callable[[], None]) -> None:
        """Leaves the group for a member that was dropped without `close()`."""
        self.membership.quit(DROPPED, done, time.monotonic())

    def on_close(self, error: KafkaError) -> None:
        """Ends commits and the membership when the control thread ends."""
        self.commits.close(error)
        self.membership.close()
