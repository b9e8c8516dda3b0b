"""Share groups (KIP-932) and streams groups (KIP-1071) as AdminClient tells them."""

from __future__ import annotations

from dataclasses import dataclass

from kafka_native.admin._acl import AclOperation
from kafka_native.admin._group import MemberAssignment
from kafka_native.types import ConsumerGroupState, Node


@dataclass(frozen=True, slots=True)
class ShareMemberDescription:
    """A member of a share group."""

    consumer_id: str
    """Its member id."""
    rack_id: str | None
    client_id: str
    host: str
    """Where it connects from."""
    assignment: MemberAssignment
    """What it reads, maybe beside others."""
    member_epoch: int


@dataclass(frozen=True, slots=True)
class ShareGroupDescription:
    """A share group with its members."""

    group_id: str
    members: list[ShareMemberDescription]
    group_state: ConsumerGroupState
    coordinator: Node
    group_epoch: int
    """It grows with each change of members, subscriptions or topics."""
    target_assignment_epoch: int
    """The group epoch that the assignment was made for."""
    authorized_operations: list[AclOperation] | None = None
    """What this client may do to it; None if it wasn't asked for."""


@dataclass(frozen=True, slots=True)
class SharePartitionOffsetInfo:
    """How far a share group is with a partition."""

    start_offset: int
    """All records below it are done with."""
    leader_epoch: int | None
    """Of the leader that it is from; None where none is known."""
    lag: int | None
    """How many records are not done with (KIP-1226); None where the broker doesn't tell."""


@dataclass(frozen=True, slots=True)
class StreamsTaskOffset:
    """How far a task has got."""

    subtopology_id: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class StreamsGroupMemberAssignment:
    """Tasks of a member: the numbers of partitions by subtopology."""

    active_tasks: dict[str, list[int]]
    standby_tasks: dict[str, list[int]]
    """Copies that are kept up to date."""
    warmup_tasks: dict[str, list[int]]
    """Copies that are on their way to be so."""


@dataclass(frozen=True, slots=True)
class StreamsGroupMemberDescription:
    """A member of a streams group."""

    member_id: str
    member_epoch: int
    instance_id: str | None
    """Its ``group.instance.id``, if it has one."""
    rack_id: str | None
    client_id: str
    client_host: str
    """Where it connects from."""
    topology_epoch: int
    """Of the topology that it runs."""
    process_id: str
    """The process that it is in, maybe with others."""
    user_endpoint: tuple[str, int] | None
    """Host and port for interactive queries."""
    client_tags: dict[str, str]
    task_offsets: list[StreamsTaskOffset]
    task_end_offsets: list[StreamsTaskOffset]
    assignment: StreamsGroupMemberAssignment
    target_assignment: StreamsGroupMemberAssignment
    is_classic: bool
    """It speaks the classic protocol, on the way to the new one."""


@dataclass(frozen=True, slots=True)
class StreamsTopicInfo:
    """A topic that an application has for itself."""

    partitions: int
    """0: as many as its subtopology needs."""
    replication_factor: int
    """0: the broker's default."""
    topic_configs: dict[str, str]


@dataclass(frozen=True, slots=True)
class StreamsGroupSubtopologyDescription:
    """A part of an application's topology whose tasks stand for themselves."""

    subtopology_id: str
    source_topics: list[str]
    repartition_sink_topics: list[str]
    state_changelog_topics: dict[str, StreamsTopicInfo]
    repartition_source_topics: dict[str, StreamsTopicInfo]


@dataclass(frozen=True, slots=True)
class StreamsGroupDescription:
    """A streams group with its members and its topology."""

    group_id: str
    group_epoch: int
    """It grows with each change of members, topology or topics."""
    target_assignment_epoch: int
    """The group epoch that the assignment was made for."""
    topology_epoch: int | None
    """None where the group has no topology yet."""
    subtopologies: list[StreamsGroupSubtopologyDescription]
    members: list[StreamsGroupMemberDescription]
    group_state: ConsumerGroupState
    coordinator: Node
    authorized_operations: list[AclOperation] | None = None
    """What this client may do to it; None if it wasn't asked for."""
