"""StreamsGroupMember: a member of a streams group, whose tasks the coordinator assigns (KIP-1071).

It is a building block for stream processors: it has membership and assignments, and no processing.
"""

from __future__ import annotations

import operator
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka_native._native.consumer_core import ConsumerCore
from kafka_native.client_core import ClientCore, own_client
from kafka_native.config import Config, parse
from kafka_native.control.group.streams_membership import (
    Endpoints,
    Statuses,
    StreamsControl,
    StreamsHooks,
    StreamsMemberSettings,
    Tasks,
)
from kafka_native.control.main_thread import Managers
from kafka_native.control.positions import position_of
from kafka_native.control.requests import Call, Reply
from kafka_native.control.settings import connection_settings, consumer_settings, producer_settings
from kafka_native.deadlines import deadline_of, left_s, seconds
from kafka_native.errors import KafkaError, KafkaException
from kafka_native.exclusive_client import ExclusiveClient
from kafka_native.pending_call import PendingCall
from kafka_native.protocol.streams import KeyValue, StreamsGroupHeartbeatRequest, TopicInfo
from kafka_native.threads import Event
from kafka_native.types import OFFSET_INVALID, ConsumerGroupMetadata, TopicPartition, Uuid

if TYPE_CHECKING:
    from kafka_native.statistics import ClientMetrics

CLOSED_TEXT = "Streams group member closed"
CLOSE_S = 30.0
PORT_MAX = 65535
NOT_APPLICABLE = ("group.instance.id", "group.protocol", "group.remote.assignor")
"""Properties that mean something else for other kinds of groups, so they are refused."""

_TOPOLOGY = StreamsGroupHeartbeatRequest.Topology


class TaskId(NamedTuple):
    """A task: one partition of a subtopology.

    Its active task reads this partition of each source topic of the subtopology.
    """

    subtopology_id: str
    """The id of the subtopology."""
    partition: int
    """The number of the partition."""


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """A topic that belongs to the application. The coordinator has the brokers create it."""

    name: str
    """The name of the topic. Kafka Streams begins it with the group's id."""
    partitions: int = 0
    """The number of partitions; 0: as many as the subtopology needs. A changelog topic has 0."""
    replication_factor: int = -1
    """The number of replicas; -1: the brokers' default, as in Kafka Streams."""
    configs: Mapping[str, str] = field(default_factory=dict)
    """Configuration of the topic, such as ``{"cleanup.policy": "compact"}``."""


@dataclass(frozen=True, slots=True)
class Subtopology:
    """A part of a topology that has its own tasks, one for each partition of its source topics."""

    subtopology_id: str
    """Its id. Kafka Streams numbers them from ``"0"`` on."""
    source_topics: Sequence[str] = ()
    """The topics that it reads."""
    source_topic_patterns: Sequence[str] = ()
    """Regular expressions (RE2) of topics that it reads. They have to match the whole name."""
    repartition_sink_topics: Sequence[str] = ()
    """The names of the repartition topics that it writes."""
    repartition_source_topics: Sequence[InternalTopic] = ()
    """The repartition topics that it reads."""
    state_changelog_topics: Sequence[InternalTopic] = ()
    """The changelog topics of its state stores."""
    copartition_groups: Sequence[Collection[str]] = ()
    """Sets of source topics, patterns or repartition topics that need equally many partitions."""


@dataclass(frozen=True, slots=True)
class Topology:
    """The topology of an application. All members of a group have to have the same one."""

    subtopologies: Sequence[Subtopology]
    """The parts of the topology, at least one."""
    epoch: int = 0
    """The version of the topology. Kafka Streams always has 0."""


class StatusCode(IntEnum):
    """The statuses of a streams group that its members have to know."""

    STALE_TOPOLOGY = 0
    """The member's topology epoch is older than the group's."""
    MISSING_SOURCE_TOPICS = 1
    """A source topic doesn't exist, so the group has no tasks."""
    INCORRECTLY_PARTITIONED_TOPICS = 2
    """Source topics that belong together have different numbers of partitions."""
    MISSING_INTERNAL_TOPICS = 3
    """Internal topics don't exist yet. The coordinator has them created if it may."""
    SHUTDOWN_APPLICATION = 4
    """A member has requested that all members end."""
    ASSIGNMENT_DELAYED = 5
    """The group waits for more members before it assigns tasks."""
    MISSING_CLIENT_TAGS = 6
    """The member lacks client tags that the group's assignment needs."""


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """A status of the group, with an explanation by the coordinator."""

    code: int
    """A `StatusCode`, or a number that this version doesn't know."""
    detail: str
    """The coordinator's explanation."""


@dataclass(frozen=True, slots=True)
class TaskAssignment:
    """The tasks of a member from now on, and the status of its group."""

    active: frozenset[TaskId] = frozenset()
    """The tasks whose input this member processes. No other member does."""
    standby: frozenset[TaskId] = frozenset()
    """The tasks whose state this member copies, so that it can take them over."""
    warmup: frozenset[TaskId] = frozenset()
    """The tasks whose state this member copies, because they move to it once it is up to date."""
    revoked: frozenset[TaskId] = frozenset()
    """The active tasks of the last assignment that aren't active here any more.

    Stop them and commit their offsets before you call `StreamsGroupMember.poll()` again.
    """
    is_lost: bool = False
    """Whether the group has removed this member. Other members may run its tasks already.

    Commits would fail. The member joins again with the next `StreamsGroupMember.poll()`.
    """
    statuses: tuple[GroupStatus, ...] = ()
    """The statuses of the group; empty if all is well."""


class _Inbox:
    """The control thread's news for the application. It doesn't keep the member alive."""

    def __init__(self, client: ClientCore) -> None:
        self._client = client
        self.step: tuple[Tasks, bool, int] | None = None
        self.statuses: Statuses = ()
        self.has_statuses = False
        self.endpoints: Endpoints = []
        self.errors: list[KafkaError] = []
        self.polls = 0
        self.is_polling = False

    # --- for the control thread ---

    def on_tasks(self, tasks: Tasks, is_lost: bool, number: int) -> None:
        self.step = tasks, is_lost, number
        self._client.engine.kick()

    def on_statuses(self, statuses: Statuses) -> None:
        self.statuses, self.has_statuses = statuses, True
        self._client.engine.kick()

    def on_endpoints(self, endpoints: Endpoints) -> None:
        self.endpoints = endpoints

    def on_error(self, error: KafkaError) -> None:
        if error.code() != KafkaError._DESTROY:  # the client is closing
            self.errors.append(error)
            self._client.engine.kick()

    def on_fatal(self, error: KafkaError) -> None:
        self._client.on_fatal(error)
        self._client.engine.kick()

    def on_polls(self) -> tuple[int, bool]:
        return self.polls, self.is_polling

    # --- for the application's thread ---

    def is_ready(self) -> bool:
        return bool(self.step or self.has_statuses or self.errors or self._client.fatal)


class StreamsGroupMember(ExclusiveClient):
    """A member of a streams group (KIP-1071): the coordinator assigns tasks to it.

        topology = Topology([Subtopology("0", source_topics=["orders"])])
        conf = {"bootstrap.servers": "localhost:9092", "group.id": "totals"}
        with StreamsGroupMember(conf, topology) as member:
            while True:
                assignment = member.poll(1.0)
                if assignment is not None:
                    run(assignment.active)

    It is a building block: your program processes the tasks, with a `Consumer` that has these
    partitions assigned, and a `Producer`. Java applications with Kafka Streams and the same
    topology can be members of the same group.

    The next `poll()` confirms the assignment that the last one returned. Before that call, stop the
    tasks that are not in the assignment any more. Only then do other members get these tasks.

    A member belongs to one thread at a time. After ``fork()`` the child has to create its own.
    """

    _kind = "Streams group member"
    _callback_kind = "callback"

    def __init__(
        self,
        config: Mapping[str, Any],
        topology: Topology,
        /,
        *,
        process_id: str | None = None,
        user_endpoint: tuple[str, int] | None = None,
        client_tags: Mapping[str, str] | None = None,
    ) -> None:
        """Creates a member and joins the group.

        Parameters
        ----------
        config : mapping
            Properties of a consumer, with ``group.id``. ``client.rack`` is the rack of the member,
            ``max.poll.interval.ms`` the longest time between two calls of `poll()`.
        topology : Topology
            The topology of the application. The first member gives it to the group.
        process_id : str, optional
            The same text for all members in one process: their tasks share a machine. By default a
            random UUID.
        user_endpoint : tuple of str and int, optional
            Host and port at which the application answers queries about its state.
        client_tags : mapping of str to str, optional
            Tags for assignments that distribute standby tasks over racks or zones.

        Raises
        ------
        ValueError
            There is no ``group.id``, a property has no meaning for this client, the topology
            contradicts itself, or the port of ``user_endpoint`` is none.
        TypeError
            An argument has another type.
        KafkaException
            _INVALID_ARG: an unknown or invalid property.
        """
        existing = own_client(self)
        if existing is not None and not existing.closed:
            raise RuntimeError("StreamsGroupMember already initialized")
        for name in NOT_APPLICABLE:
            if name in config:
                raise ValueError(f"`{name}` is not applicable for a streams group member")
        settings = parse({**config, "group.protocol": "consumer"}, "consumer")
        if not settings.text("group.id"):
            raise ValueError("Failed to create streams group member: group.id must be set")
        myself = StreamsMemberSettings(
            _message_of(topology),
            str(uuid.uuid4()) if process_id is None else process_id,
            _endpoint_of(user_endpoint),
            dict(client_tags or {}),
        )
        everything = {
            **connection_settings(settings),
            **producer_settings(settings, 0, False),
            **consumer_settings(settings),
        }
        self._client = ClientCore(
            settings, "consumer", everything, partial(self._make_managers, settings, myself)
        )
        self._assignment = TaskAssignment()
        self._unconfirmed: int | None = None
        self._allow_access()
        # It waits as in a Consumer, but takes no messages.
        self._core = ConsumerCore()
        self._core._open(self._client.engine, _unused, _unused, _unused, _unused, _unused, 0)
        self._client.main.start()
        control = self._control
        self._client.main.post(lambda: control.membership.subscribe(time.monotonic()))

    def _make_managers(
        self, settings: Config, myself: StreamsMemberSettings, client: ClientCore
    ) -> Managers:
        self._inbox = inbox = _Inbox(client)
        hooks = StreamsHooks(
            on_tasks=inbox.on_tasks,
            on_statuses=inbox.on_statuses,
            on_endpoints=inbox.on_endpoints,
            on_error=inbox.on_error,
            on_fatal=inbox.on_fatal,
            polls=inbox.on_polls,
        )
        self._control = control = StreamsControl(client.context, settings, myself, hooks)
        return Managers(
            others=control.managers, on_close=[control.on_close], leave_group=control.quit
        )

    # --- tasks ---

    def poll(self, timeout: float = -1) -> TaskAssignment | None:
        """Confirms the last assignment, and waits for the next one.

        Call it at least once in ``max.poll.interval.ms``. Otherwise the member leaves the group.

        Parameters
        ----------
        timeout : float
            Seconds to wait. Negative waits without limit; 0 doesn't wait.

        Returns
        -------
        TaskAssignment or None
            The tasks from now on, when the tasks or the statuses of the group have changed. None
            when the time is up.

        Raises
        ------
        KafkaException
            The group has refused the member, or an error of its requests. After an error that
            `KafkaError.fatal()` describes, the member is no member any more.
        IllegalStateException
            The member is closed.
        ConcurrentModificationException
            Another thread is using the member.
        """
        with self._access():
            timeout_s = seconds(timeout)
            inbox = self._inbox
            inbox.polls += 1
            inbox.is_polling = True
            try:
                if self._unconfirmed is not None:
                    number, self._unconfirmed = self._unconfirmed, None
                    self._post(lambda: self._control.membership.confirm(number))
                self._core._serve_until(inbox.is_ready, timeout_s)
                return self._take()
            finally:
                inbox.is_polling = False

    def _take(self) -> TaskAssignment | None:
        inbox = self._inbox
        step, inbox.step = inbox.step, None
        if step is None and not inbox.has_statuses:
            self._raise_error()
            return None
        inbox.has_statuses = False
        last = self._assignment
        statuses = tuple(GroupStatus(*each) for each in inbox.statuses)
        if step is None:
            tasks, is_lost = (last.active, last.standby, last.warmup), False
        else:
            found, is_lost, self._unconfirmed = step
            tasks = _task_ids(found.active), _task_ids(found.standby), _task_ids(found.warmup)
        self._assignment = TaskAssignment(*tasks, last.active - tasks[0], is_lost, statuses)
        return self._assignment

    def _raise_error(self) -> None:
        if self._inbox.errors:
            raise KafkaException(self._inbox.errors.pop(0))
        if self._client.fatal is not None:
            raise KafkaException(self._client.fatal_error())

    def assignment(self) -> TaskAssignment:
        """Returns the assignment that `poll()` returned last. Before the first one, it is empty."""
        with self._access():
            return self._assignment

    def commit(self, offsets: list[TopicPartition], timeout: float = 60.0) -> list[TopicPartition]:
        """Commits offsets of this member's active tasks for the group, and waits for the result.

        Commit the offsets of revoked tasks before the next `poll()`. For exactly-once processing,
        use `Producer.send_offsets_to_transaction()` instead.

        Parameters
        ----------
        offsets : list of TopicPartition
            The next offset to read of each partition. OFFSET_INVALID is left out: `position()`
            returns it before the first message.
        timeout : float
            Seconds; negative waits without limit.

        Returns
        -------
        list of TopicPartition
            The partitions, each with its ``error`` or None.

        Raises
        ------
        ValueError
            Another offset is negative.
        KafkaException
            UNKNOWN_MEMBER_ID: the group has removed the member. _TIMED_OUT: the coordinator hasn't
            replied in time.
        """
        with self._access():
            positions = {
                (each.topic, each.partition): position_of(each)
                for each in offsets
                if each.offset != OFFSET_INVALID
            }
            if any(position.offset < 0 for position in positions.values()):
                raise ValueError("an offset to commit can't be negative")
            if not positions:
                return [each.with_error(None) for each in offsets]
            commits = self._control.commits

            def make(deadline: float, done: Callable[[Reply], None]) -> list[Call]:
                commits.commit(positions, deadline, done)
                return []

            results = PendingCall.gather(self._client.main, make, timeout).result()
            return [
                each.with_error(KafkaError(code) if code else None)
                for each in offsets
                for key in [(each.topic, each.partition)]
                for code in [results[key] if key in positions else 0]
            ]

    def report(
        self, offsets: Mapping[TaskId, int], end_offsets: Mapping[TaskId, int] | None = None
    ) -> None:
        """Reports the progress of tasks, so that the coordinator moves warm-up tasks that are done.

        A heartbeat sends it, at most once in the interval that the coordinator has set.

        Parameters
        ----------
        offsets : mapping of TaskId to int
            The sum of the offsets in the changelog topics that are restored, for each task.
        end_offsets : mapping of TaskId to int, optional
            The sum of the end offsets of these topics, for each task.
        """
        with self._access():
            given, ends = _plain(offsets), _plain(end_offsets or {})
            self._post(lambda: self._control.membership.report(given, ends))

    def shut_down_application(self) -> None:
        """Asks all members of the group to end.

        They get the status SHUTDOWN_APPLICATION. The member stays in the group until `close()`.
        """
        with self._access():
            self._post(lambda: self._control.membership.shut_down_application(time.monotonic()))

    def endpoints(self) -> dict[tuple[str, int], dict[str, list[TopicPartition]]]:
        """Returns where the state of each partition is, for queries about it.

        Returns
        -------
        dict
            For each ``user_endpoint`` of the members: its partitions under ``"active"`` and
            ``"standby"``. It is empty until this member itself has joined.
        """
        with self._access():
            return {
                (each.user_endpoint.host, each.user_endpoint.port): {
                    "active": _partitions_of(each.active_partitions),
                    "standby": _partitions_of(each.standby_partitions),
                }
                for each in self._inbox.endpoints
            }

    # --- the client ---

    def consumer_group_metadata(self) -> ConsumerGroupMetadata:
        """Returns the identity of this member, for `Producer.send_offsets_to_transaction()`.

        Get it after each assignment: it has the member's epoch.
        """
        with self._access():
            member = self._control.member
            return self._client.main.run(
                lambda: ConsumerGroupMetadata(
                    member.group_id, member.generation, member.member_id, None
                )
            )

    def member_id(self) -> str:
        """Returns the member id, which the client has made itself."""
        return self._control.member.member_id

    def set_sasl_credentials(self, username: str, password: str) -> None:
        """Sets another user name and password; see `Producer.set_sasl_credentials`."""
        with self._access():
            self._client.set_sasl_credentials(username, password)

    def brokers_add(self, brokers: str) -> int:
        """Adds bootstrap servers while the client runs; see `Producer.brokers_add`."""
        with self._access():
            return self._client.brokers_add(brokers)

    def client_instance_id(self, timeout: float = -1) -> Uuid:
        """Returns the id under which metrics are pushed; see `Producer.client_instance_id`."""
        with self._access():
            return self._client.client_instance_id(seconds(timeout))

    def metrics(self) -> ClientMetrics:
        """Returns this client's statistics; see `Producer.metrics`."""
        return self._client.metrics(CLOSED_TEXT)

    def fatal_error(self) -> KafkaError | None:
        """Returns the fatal error of this member, None if it has none."""
        return self._client.fatal

    def close(self, timeout: float = CLOSE_S) -> None:
        """Leaves the group and ends all threads. A second call does nothing.

        Stop all tasks and commit their offsets before: other members get them at once.

        Parameters
        ----------
        timeout : float
            Seconds. When they are over, the member is closed as it is, and the group removes it
            after its session timeout. Negative waits without limit.
        """
        if self._client.closed:
            return
        with self._access():
            deadline: float | None = 0.0  # if it can't be computed: don't wait
            try:
                deadline = deadline_of(timeout)
                self._leave(deadline)
            finally:
                self._client.push_last(left_s(deadline))
                self._core._mark_closed()
                self._client.close()
                self._client.release()

    def _leave(self, deadline: float | None) -> None:
        ended, engine, control = Event(), self._client.engine, self._control

        def done() -> None:
            ended.set()
            engine.kick()

        self._post(lambda: control.close(done, time.monotonic()))
        if not self._core._serve_until(ended.is_set, left_s(deadline)):
            self._client.logger.warning("leaving the streams group took too long")

    def _post(self, work: Callable[[], None]) -> None:
        self._client.main.post(work)

    def __repr__(self) -> str:
        """The member's name and state."""
        if own_client(self) is None:
            return object.__repr__(self)
        state = "closed" if self._client.closed else f"{len(self._assignment.active)} active tasks"
        return f"<StreamsGroupMember {self._client.name} ({state})>"


def _unused(*_: Any) -> Any:
    """Stands for functions that only a Consumer's core calls."""


def _task_ids(tasks: Iterable[tuple[str, int]]) -> frozenset[TaskId]:
    return frozenset(TaskId(*task) for task in tasks)


def _endpoint_of(given: tuple[str, int] | None) -> tuple[str, int] | None:
    """The ``user_endpoint``, after a check: a heartbeat with another value can't be made."""
    if given is None:
        return None
    if isinstance(given, str) or len(given) != 2:
        raise TypeError("user_endpoint must be a tuple of a host and a port")
    host, port = given[0], operator.index(given[1])
    if not isinstance(host, str):
        raise TypeError(f"user_endpoint: the host must be a str, not {type(host).__name__}")
    if not 0 <= port <= PORT_MAX:
        raise ValueError(f"user_endpoint: {port} is no port")
    return host, port


def _plain(offsets: Mapping[TaskId, int]) -> dict[tuple[str, int], int]:
    return {(task[0], task[1]): offset for task, offset in offsets.items()}


def _partitions_of(topics: Iterable[Any]) -> list[TopicPartition]:
    return [TopicPartition(each.topic, number) for each in topics for number in each.partitions]


# --- the topology as the protocol has it ---


def _message_of(topology: Topology) -> _TOPOLOGY:
    """The topology for a heartbeat. ValueError: it contradicts itself."""
    ids = [each.subtopology_id for each in topology.subtopologies]
    if not ids or len(set(ids)) < len(ids) or not all(ids):
        raise ValueError("a topology needs subtopologies with different ids")
    return _TOPOLOGY(
        epoch=topology.epoch,
        subtopologies=[
            _subtopology_of(each)
            for each in sorted(topology.subtopologies, key=lambda part: part.subtopology_id)
        ],
    )


def _subtopology_of(given: Subtopology) -> _TOPOLOGY.Subtopology:
    for field_name in ("source_topics", "source_topic_patterns", "repartition_sink_topics"):
        if isinstance(getattr(given, field_name), str):
            raise TypeError(f"{field_name} must be a sequence of names, not one str")
    sources, patterns = sorted(set(given.source_topics)), sorted(set(given.source_topic_patterns))
    repartition = sorted(given.repartition_source_topics, key=lambda topic: topic.name)
    if not (sources or patterns or repartition):
        raise ValueError(f"subtopology {given.subtopology_id} has no source topics")
    names = [each.name for each in repartition]
    groups = []
    for each in given.copartition_groups:
        unknown = sorted(set(each) - {*sources, *patterns, *names})
        if unknown:
            raise ValueError(
                f"subtopology {given.subtopology_id}: {unknown[0]} of a copartition group is "
                "none of its source topics"
            )
        groups.append(
            _TOPOLOGY.Subtopology.CopartitionGroup(
                source_topics=_indexes(sources, each),
                source_topic_regex=_indexes(patterns, each),
                repartition_source_topics=_indexes(names, each),
            )
        )
    return _TOPOLOGY.Subtopology(
        subtopology_id=given.subtopology_id,
        source_topics=sources,
        source_topic_regex=patterns,
        state_changelog_topics=_infos(given.state_changelog_topics),
        repartition_sink_topics=sorted(set(given.repartition_sink_topics)),
        repartition_source_topics=_infos(repartition),
        copartition_groups=groups,
    )


def _indexes(names: list[str], group: Collection[str]) -> list[int]:
    return [index for index, name in enumerate(names) if name in group]


def _infos(topics: Iterable[InternalTopic]) -> list[TopicInfo]:
    """Internal topics in the order of their names: the brokers compare topologies as they are."""
    return [
        TopicInfo(
            name=each.name,
            partitions=each.partitions,
            replication_factor=each.replication_factor,
            topic_configs=[
                KeyValue(key=key, value=value) for key, value in sorted(each.configs.items())
            ],
        )
        for each in sorted(topics, key=lambda topic: topic.name)
    ]
