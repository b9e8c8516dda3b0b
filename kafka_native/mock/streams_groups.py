"""The coordinator of streams groups (KIP-1071).

A task is one partition of a subtopology. Active tasks move from member to member as the partitions
of a consumer group do, by the same steps. For that, a subtopology's id stands for a topic's id.
Standby and warm-up tasks are added and removed at once, because several members may have them.

A test can also describe a group. Such a group has no coordinator, and Kafka Streams can't join it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafka_native._reference.error_codes import ErrorCode
from kafka_native.mock.assignors import ASSIGNORS, Key, MemberInput
from kafka_native.mock.consumer_groups import JOIN_EPOCH, ConsumerGroup, ConsumerMember, State
from kafka_native.mock.membership import GroupError
from kafka_native.protocol.streams import (
    StreamsGroupDescribeResponse,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    TaskIds,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafka_native.mock.clock import Clock
    from kafka_native.mock.membership import GroupSettings
    from kafka_native.mock.topics import Topic
    from kafka_native.protocol.streams import Endpoint, KeyValue, TaskOffset, TopicInfo

Topology = StreamsGroupHeartbeatRequest.Topology
_GROUP = StreamsGroupDescribeResponse.Group
_ENDPOINT = StreamsGroupHeartbeatResponse.EndpointToPartitions
STALE_TOPOLOGY, MISSING_SOURCE_TOPICS, INCORRECTLY_PARTITIONED_TOPICS = 0, 1, 2
SHUTDOWN_APPLICATION = 4


class Roles(NamedTuple):
    """The tasks of a member: (subtopology id, partition) pairs by their role."""

    active: frozenset[tuple[str, int]] = frozenset()
    standby: frozenset[tuple[str, int]] = frozenset()
    warmup: frozenset[tuple[str, int]] = frozenset()


class StreamsMember(ConsumerMember):
    """One member of a streams group. ``assigned`` are its active tasks."""

    def __init__(self, member_id: str, client_id: str, host: str, clock: Clock) -> None:
        """Start with the identity. Heartbeats fill in the rest."""
        super().__init__(member_id, None, client_id, host, clock)
        self.topology_epoch = 0
        self.process_id = ""
        self.endpoint: Endpoint | None = None
        self.tags: list[KeyValue] = []
        self.standby: set[Key] = set()
        self.warmup: set[Key] = set()
        self.offsets: list[TaskOffset] = []
        self.end_offsets: list[TaskOffset] = []

    def tasks(self) -> tuple[set[Key], set[Key], set[Key]]:
        """Return copies of the active, standby and warm-up tasks."""
        return set(self.assigned), set(self.standby), set(self.warmup)


class StreamsGroup(ConsumerGroup):
    """A streams group: its topology, and the tasks of its members."""

    type = "streams"
    protocol_type = "streams"

    def __init__(
        self, group_id: str, settings: GroupSettings, topics: Mapping[str, Topic], clock: Clock
    ) -> None:
        """Make an empty group without a topology."""
        super().__init__(group_id, settings, topics, clock)
        self.topology: Topology | None = None
        self.standby_count = 0
        self.shutdown_by: str | None = None
        self.endpoint_epoch = 0
        self._standby: dict[str, set[Key]] = {}
        self._warmup: dict[str, set[Key]] = {}
        self._pinned_roles: dict[str, Roles] | None = None
        self._seen_tasks: dict[bytes, int] = {}

    # --- heartbeats ---

    def let_in(
        self, request: StreamsGroupHeartbeatRequest, client_id: str, host: str
    ) -> tuple[StreamsMember, bool]:
        """Let a member join or stay. Raises ``GroupError``.

        Returns the member, and whether the response must contain its tasks.
        """
        self.tick()
        self._check_size(request.member_id, None)
        joins = request.member_epoch == JOIN_EPOCH
        if joins and request.topology is not None:
            self._take_topology(request.topology)
            if request.member_id not in self.members:
                self.admit(StreamsMember(request.member_id, client_id, host, self.clock))
        owned = _keys_of(request.active_tasks)
        member = self.members.get(request.member_id)
        if not isinstance(member, StreamsMember):
            is_fenced = request.member_id in self.fenced
            text = f"Member {request.member_id} is not a member of group {self.id}."
            code = ErrorCode.FENCED_MEMBER_EPOCH if is_fenced else ErrorCode.UNKNOWN_MEMBER_ID
            raise GroupError(code, text=text)
        if joins:
            self._rejoin(member)
        else:
            self._check_epoch(member, request.member_epoch, owned)
        before = member.tasks()
        changed = self._take_fields(member, request)
        member.restart_session()
        self._refresh(bump=changed)
        self.reconcile(member, owned)
        standby = self._standby.get(member.id, set()) - member.assigned
        member.standby, member.warmup = standby, set(self._warmup.get(member.id, ()))
        has_changed = before != member.tasks()
        if has_changed and member.endpoint is not None:
            self.endpoint_epoch += 1
        return member, joins or has_changed

    def _take_topology(self, topology: Topology) -> None:
        if self.topology is None or topology.epoch > self.topology.epoch or not self.members:
            self.topology = topology
        elif topology.epoch == self.topology.epoch and topology != self.topology:
            text = "Topology updates are not supported yet."
            raise GroupError(ErrorCode.INVALID_REQUEST, text=text)

    def _take_fields(self, member: StreamsMember, request: StreamsGroupHeartbeatRequest) -> bool:
        """Apply a heartbeat, and return whether the group needs a new epoch."""
        is_new, member.is_new = member.is_new, False
        if request.rebalance_timeout_ms != -1:
            member.rebalance_seconds = request.rebalance_timeout_ms / 1000
        if request.topology is not None:
            member.topology_epoch = request.topology.epoch
            member.topics = [
                name for part in request.topology.subtopologies for name in part.source_topics
            ]
        if request.rack_id is not None:
            member.rack_id = request.rack_id
        if request.process_id is not None:
            member.process_id = request.process_id
        if request.user_endpoint is not None:
            member.endpoint = request.user_endpoint
        if request.client_tags is not None:
            member.tags = request.client_tags
        if request.task_offsets is not None:
            member.offsets = request.task_offsets
        if request.task_end_offsets is not None:
            member.end_offsets = request.task_end_offsets
        if request.shutdown_application:
            self.shutdown_by = member.id
        return is_new

    def _forget(self, member: ConsumerMember) -> None:
        super()._forget(member)
        if not self.members:
            self.shutdown_by = None

    # --- the topology and its topics ---

    def missing_internal_topics(self) -> dict[str, tuple[int, TopicInfo]]:
        """Return the internal topics that have to be created, with their numbers of partitions."""
        if self.topology is None or self.problem() is not None:
            return {}
        counts = self._counts(ignore_repartition=True)
        return {
            info.name: (info.partitions or counts[part.subtopology_id.encode()], info)
            for part in self.topology.subtopologies
            for info in [*part.repartition_source_topics, *part.state_changelog_topics]
            if info.name not in self._topics
        }

    def problem(self) -> tuple[int, str] | None:
        """Return the status that keeps the group from having tasks, or None."""
        parts = [] if self.topology is None else self.topology.subtopologies
        wanted = {name for part in parts for name in part.source_topics}
        missing = sorted(wanted - self._topics.keys())
        if missing:
            return MISSING_SOURCE_TOPICS, f"Source topics {', '.join(missing)} are missing."
        for part in parts:
            for group in part.copartition_groups:
                names = [part.source_topics[index] for index in group.source_topics]
                if len({len(self._topics[name].partitions) for name in names}) > 1:
                    text = f"Topics {', '.join(names)} do not have the same number of partitions."
                    return INCORRECTLY_PARTITIONED_TOPICS, text
        return None

    def _counts(self, *, ignore_repartition: bool = False) -> dict[bytes, int]:
        """Return the number of tasks of each subtopology."""
        if self.topology is None or self.problem() is not None:
            return {}
        counts = {}
        for part in self.topology.subtopologies:
            names = list(part.source_topics)
            found = [len(self._topics[name].partitions) for name in names]
            for info in part.repartition_source_topics:
                if info.name in self._topics and not ignore_repartition:
                    found.append(len(self._topics[info.name].partitions))
                else:
                    found.append(info.partitions or 1)
            counts[part.subtopology_id.encode()] = max(found, default=0)
        return counts

    def statuses(self, member: StreamsMember) -> list[StreamsGroupHeartbeatResponse.Status]:
        """Return the statuses that a member has to know."""
        kind = StreamsGroupHeartbeatResponse.Status
        found = []
        if self.topology is not None and member.topology_epoch < self.topology.epoch:
            found.append(kind(status_code=STALE_TOPOLOGY, status_detail="The topology is stale."))
        problem = self.problem()
        if problem is not None:
            found.append(kind(status_code=problem[0], status_detail=problem[1]))
        if self.shutdown_by is not None:
            text = f"Member {self.shutdown_by} encountered a fatal error and requested a shutdown."
            found.append(kind(status_code=SHUTDOWN_APPLICATION, status_detail=text))
        return found

    # --- targets ---

    def pin_tasks(self, roles: dict[str, Roles] | None) -> None:
        """Use these tasks instead of the assignor's. None returns to the assignor."""
        self._pinned_roles = roles
        self._refresh(bump=True)

    def _refresh(self, *, bump: bool) -> None:
        counts = self._counts()
        if bump or counts != self._seen_tasks:
            self._seen_tasks = counts
            self.epoch += 1
        if self.target_epoch != self.epoch:
            self._assign(counts)
            self.target_epoch = self.epoch

    def _assign(self, partitions: dict[bytes, int]) -> None:
        self._standby, self._warmup = {}, {}
        if self._pinned_roles is not None:
            pinned = {name: self._pinned_roles.get(name, Roles()) for name in self.members}
            self.target = {name: _to_keys(roles.active) for name, roles in pinned.items()}
            self._standby = {name: _to_keys(roles.standby) for name, roles in pinned.items()}
            self._warmup = {name: _to_keys(roles.warmup) for name, roles in pinned.items()}
            return
        inputs = {
            name: MemberInput(frozenset(partitions), frozenset(self.target.get(name, ())), None)
            for name in self.members
        }
        self.target = ASSIGNORS["uniform"](inputs, partitions)
        names = sorted(self.members)
        for position, name in enumerate(names):
            for step in range(1, min(self.standby_count, len(names) - 1) + 1):
                copier = names[(position + step) % len(names)]
                self._standby.setdefault(copier, set()).update(self.target.get(name, ()))

    # --- descriptions ---

    def describe(self) -> StreamsGroupDescribeResponse.Group:
        """Return the group as StreamsGroupDescribe does."""
        described = _GROUP.Topology.Subtopology
        parts = [] if self.topology is None else self.topology.subtopologies
        return _GROUP(
            group_id=self.id,
            group_state=self.state.value,
            group_epoch=self.epoch,
            assignment_epoch=self.target_epoch,
            topology=None
            if self.topology is None
            else _GROUP.Topology(
                epoch=self.topology.epoch,
                subtopologies=[
                    described(
                        subtopology_id=part.subtopology_id,
                        source_topics=part.source_topics,
                        repartition_sink_topics=part.repartition_sink_topics,
                        state_changelog_topics=part.state_changelog_topics,
                        repartition_source_topics=part.repartition_source_topics,
                    )
                    for part in parts
                ],
            ),
            members=[
                self._describe_member(member)
                for member in self.members.values()
                if isinstance(member, StreamsMember)
            ],
        )

    def _describe_member(self, member: StreamsMember) -> _GROUP.Member:
        active = self.target.get(member.id, set())
        target = (active, self._standby.get(member.id, set()), self._warmup.get(member.id, set()))
        return _GROUP.Member(
            member_id=member.id,
            member_epoch=member.epoch,
            rack_id=member.rack_id or None,
            client_id=member.client_id,
            client_host=f"/{member.host}",
            topology_epoch=member.topology_epoch,
            process_id=member.process_id,
            user_endpoint=member.endpoint,
            client_tags=member.tags,
            task_offsets=member.offsets,
            task_end_offsets=member.end_offsets,
            assignment=_described(member.tasks()),
            target_assignment=_described(target),
        )

    def task_names(self, member: ConsumerMember) -> list[tuple[str, int]]:
        """Return a member's active tasks: (subtopology id, partition) pairs."""
        return sorted((name.decode(), index) for name, index in member.assigned)

    def endpoints(self) -> list[StreamsGroupHeartbeatResponse.EndpointToPartitions]:
        """Return the partitions of each member with an endpoint."""
        return [
            _ENDPOINT(
                user_endpoint=member.endpoint,
                active_partitions=self._sources(member.assigned),
                standby_partitions=self._sources(member.standby),
            )
            for member in self.members.values()
            if isinstance(member, StreamsMember) and member.endpoint is not None
        ]

    def _sources(
        self, keys: set[Key]
    ) -> list[StreamsGroupHeartbeatResponse.EndpointToPartitions.TopicPartition]:
        found = []
        for part in [] if self.topology is None else self.topology.subtopologies:
            numbers = sorted(n for name, n in keys if name == part.subtopology_id.encode())
            infos = [info.name for info in part.repartition_source_topics]
            found += [
                _ENDPOINT.TopicPartition(topic=name, partitions=numbers)
                for name in [*part.source_topics, *infos]
                if numbers
            ]
        return found


class DescribedStreamsGroup(StreamsGroup):
    """A streams group that a test describes. Its members stay until the test changes them."""

    def __init__(
        self,
        description: StreamsGroupDescribeResponse.Group,
        settings: GroupSettings,
        topics: Mapping[str, Topic],
        clock: Clock,
    ) -> None:
        """Make the group that StreamsGroupDescribe returns.

        Its members read the source topics of its topology.
        """
        super().__init__(description.group_id, settings, topics, clock)
        self.description = description
        parts = [] if description.topology is None else description.topology.subtopologies or []
        for each in description.members:
            member = ConsumerMember(
                each.member_id, each.instance_id, each.client_id, each.client_host, clock
            )
            member.topics = [name for part in parts for name in part.source_topics]
            self.members[member.id] = member
        self.epoch = self.target_epoch = description.group_epoch

    @property
    def state(self) -> State:
        """The state that the test has set."""
        return State(self.description.group_state)

    def tick(self) -> None:
        """Do nothing: the members' sessions never expire."""

    def describe(self) -> StreamsGroupDescribeResponse.Group:
        """Return the test's description."""
        return self.description


def _to_keys(tasks: Iterable[tuple[str, int]]) -> set[Key]:
    return {(name.encode(), index) for name, index in tasks}


def _keys_of(tasks: list[TaskIds] | None) -> set[Key] | None:
    """Return the tasks that a heartbeat names, or None if it names none."""
    if tasks is None:
        return None
    return {(each.subtopology_id.encode(), index) for each in tasks for index in each.partitions}


def task_ids(keys: set[Key]) -> list[TaskIds]:
    """Return tasks as the protocol has them."""
    found: dict[bytes, list[int]] = {}
    for name, index in sorted(keys):
        found.setdefault(name, []).append(index)
    return [
        TaskIds(subtopology_id=name.decode(), partitions=indexes) for name, indexes in found.items()
    ]


def _described(tasks: tuple[set[Key], set[Key], set[Key]]) -> _GROUP.Member.Assignment:
    active, standby, warmup = map(task_ids, tasks)
    return _GROUP.Member.Assignment(active_tasks=active, standby_tasks=standby, warmup_tasks=warmup)
