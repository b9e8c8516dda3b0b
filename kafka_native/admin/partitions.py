"""Partitions: add and move them, elect leaders, list offsets, delete records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import total_ordering
from typing import ClassVar, TypeAlias

from kafka_native.admin.base import (
    INT32_MAX,
    AdminBase,
    check_partitions,
    copied_partitions,
    error_or_none,
    flag,
    list_of,
    node_id,
    partitions_by_topic,
    topic_name,
    wire_ms,
)
from kafka_native.cleaning import escaped
from kafka_native.control.operations import (
    UNANSWERED,
    AdminOperation,
    Operation,
    Portion,
    brokers,
)
from kafka_native.errors import KafkaError
from kafka_native.protocol.offsets import (
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
)
from kafka_native.protocol.partitions import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from kafka_native.protocol.topics import CreatePartitionsRequest, CreatePartitionsResponse
from kafka_native.types import ElectionType, IsolationLevel, TopicPartition, int32
from kafka_native.unset_fields import unset_fields

EARLIEST, LATEST, MAX_TIMESTAMP = -2, -1, -3
DIRECTORY_ERRORS = frozenset({KafkaError.REPLICA_NOT_AVAILABLE, KafkaError.KAFKA_STORAGE_ERROR})
"""A broker's errors about its own directories: another attempt doesn't help."""


@unset_fields(_topic=None, _new_total_count=0, replica_assignment=None)
@total_ordering
class NewPartitions:
    """More partitions of a topic, for `create_partitions()`. Equality uses topic and number.

    :param topic: Its name.
    :param new_total_count: The new number of partitions, including the existing ones.
    :param replica_assignment: The broker ids of each new partition; None: the broker chooses.
    :raises TypeError: An argument has another type.
    """

    __slots__ = ("_new_total_count", "_topic", "replica_assignment")

    def __init__(
        self,
        topic: str,
        new_total_count: int,
        replica_assignment: Sequence[Sequence[int]] | None = None,
    ) -> None:
        self._topic = topic_name(topic)
        self.new_total_count = new_total_count
        self.replica_assignment = replica_assignment

    @property
    def topic(self) -> str:
        """The name of the topic."""
        return self._topic

    @property
    def new_total_count(self) -> int:
        """The new number of partitions, including the existing ones."""
        return self._new_total_count

    @new_total_count.setter
    def new_total_count(self, value: int) -> None:
        self._new_total_count = int32(value)

    def __str__(self) -> str:
        topic = escaped(self.topic)
        return f"NewPartitions(topic={topic},new_total_count={self.new_total_count})"

    __repr__ = __str__

    def __hash__(self) -> int:
        return hash(self.topic)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NewPartitions):
            return NotImplemented
        return (self.topic, self.new_total_count) == (other.topic, other.new_total_count)

    def __lt__(self, other: NewPartitions) -> bool:
        if not isinstance(other, NewPartitions):
            return NotImplemented
        return (self.topic, self.new_total_count) < (other.topic, other.new_total_count)


@dataclass(frozen=True, slots=True)
class NewPartitionReassignment:
    """The target brokers of a partition, for `alter_partition_reassignments()` (KIP-455).

    :param target_replicas: Their ids; the first one is the preferred leader.
    """

    target_replicas: Sequence[int]

    def __post_init__(self) -> None:
        """Raises TypeError or ValueError for no brokers, duplicates, and invalid broker ids."""
        replicas = tuple(self.target_replicas)
        for each in replicas:
            if isinstance(each, bool) or not isinstance(each, int):
                raise TypeError(
                    f"target_replicas are the ids of brokers, not {type(each).__name__}"
                )
            if not 0 <= each <= INT32_MAX:
                raise ValueError(f"there is no broker {each}")
        if not replicas or len(set(replicas)) < len(replicas):
            raise ValueError(f"target_replicas must name brokers, each once, not {list(replicas)}")
        object.__setattr__(self, "target_replicas", replicas)


@dataclass(frozen=True, slots=True)
class PartitionReassignment:
    """A partition that moves to other brokers, from `list_partition_reassignments()` (KIP-455)."""

    replicas: tuple[int, ...]
    """The brokers that have it now, including the added and removed ones."""
    adding_replicas: tuple[int, ...]
    """The added brokers, which are still copying."""
    removing_replicas: tuple[int, ...]
    """The brokers that will be removed once the others have it."""


@dataclass(frozen=True, slots=True)
class TopicPartitionReplica:
    """One broker's copy of a partition, for `alter_replica_log_dirs()` (KIP-113)."""

    topic: str
    partition: int
    broker_id: int


@dataclass(frozen=True, slots=True)
class ReplicaInfo:
    """A partition in a log directory."""

    size: int
    """The size of its segments, in bytes."""
    offset_lag: int
    """How many offsets it is behind the high watermark, or a future replica behind the current one.
    """
    is_future: bool
    """Whether it is being copied here from another directory, and will replace that copy."""


@dataclass(frozen=True, slots=True)
class LogDirDescription:
    """A log directory of a broker, from `describe_log_dirs()` (KIP-113)."""

    error: KafkaError | None
    """KAFKA_STORAGE_ERROR: it is offline."""
    replica_infos: dict[TopicPartition, ReplicaInfo] = field(default_factory=dict)
    """Its replicas."""
    total_bytes: int | None = None
    """The size of its volume; None if the broker doesn't return it (before 3.3, KIP-827)."""
    usable_bytes: int | None = None
    """The free space of its volume; None if the broker doesn't return it (before 3.3, KIP-827)."""
    is_cordoned: bool = False
    """Whether it accepts no new partitions (KIP-1066)."""


@dataclass(frozen=True, slots=True)
class ReplicaLogDirInfo:
    """A replica's current and future directory, from `describe_replica_log_dirs()` (KIP-113)."""

    current_replica_log_dir: str | None
    """The path of its directory; None: the broker doesn't have the replica."""
    current_replica_offset_lag: int
    """How many offsets it is behind the high watermark; -1: the broker doesn't have the replica."""
    future_replica_log_dir: str | None
    """The path of the directory that it moves to; None: it doesn't move."""
    future_replica_offset_lag: int
    """How many offsets the copy is behind; -1: it doesn't move."""


class OffsetSpec:
    """The offset to find: `earliest()`, `latest()`, `max_timestamp()` or `for_timestamp()`.

    ``OffsetSpec(number)`` is equivalent: -2, -1, -3, or a timestamp.
    """

    _values: ClassVar[dict[int, OffsetSpec]] = {}
    _max_timestamp: ClassVar[OffsetSpec | None] = None
    _earliest: ClassVar[OffsetSpec | None] = None
    _latest: ClassVar[OffsetSpec | None] = None
    _value: int

    @classmethod
    def earliest(cls) -> OffsetSpec:
        """The first offset of the partition."""
        return cls._values[EARLIEST]

    @classmethod
    def latest(cls) -> OffsetSpec:
        """The offset after the last record."""
        return cls._values[LATEST]

    @classmethod
    def max_timestamp(cls) -> OffsetSpec:
        """The offset of the record with the highest timestamp (KIP-734)."""
        return cls._values[MAX_TIMESTAMP]

    @classmethod
    def for_timestamp(cls, timestamp: int) -> OffsetSpec:
        """The offset of the first record at or after this time, in milliseconds since 1970."""
        return TimestampSpec(timestamp)

    def __new__(cls, index: int) -> OffsetSpec:
        """See the class."""
        return cls._values[index] if index < 0 else TimestampSpec(index)

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, OffsetSpec):
            return NotImplemented
        return self._value < other._value

    def __reduce__(self) -> tuple[type[OffsetSpec], tuple[int]]:
        return (OffsetSpec, (self._value,))


class TimestampSpec(OffsetSpec):
    """The spec that `OffsetSpec.for_timestamp()` makes."""

    def __new__(cls, _: int) -> TimestampSpec:
        """Creates the spec."""
        return object.__new__(cls)

    def __init__(self, timestamp: int) -> None:
        """Milliseconds since 1970."""
        self.timestamp = timestamp

    @property
    def _value(self) -> int:  # type: ignore[override]
        return self.timestamp


class MaxTimestampSpec(OffsetSpec):
    """The spec that `OffsetSpec.max_timestamp()` makes."""

    _value = MAX_TIMESTAMP

    def __new__(cls) -> MaxTimestampSpec:
        """Creates the spec."""
        return object.__new__(cls)


class LatestSpec(OffsetSpec):
    """The spec that `OffsetSpec.latest()` makes."""

    _value = LATEST

    def __new__(cls) -> LatestSpec:
        """Creates the spec."""
        return object.__new__(cls)


class EarliestSpec(OffsetSpec):
    """The spec that `OffsetSpec.earliest()` makes."""

    _value = EARLIEST

    def __new__(cls) -> EarliestSpec:
        """Creates the spec."""
        return object.__new__(cls)


OffsetSpec._max_timestamp = MaxTimestampSpec()
OffsetSpec._earliest = EarliestSpec()
OffsetSpec._latest = LatestSpec()
OffsetSpec._values.update(
    {
        MAX_TIMESTAMP: OffsetSpec._max_timestamp,
        EARLIEST: OffsetSpec._earliest,
        LATEST: OffsetSpec._latest,
    }
)


class ListOffsetsResultInfo:
    """An offset that was found.

    :param offset: The offset; -1: there is none.
    :param timestamp: Its record's timestamp in milliseconds since 1970; -1 if unknown.
    :param leader_epoch: Its leader epoch; None if unknown.
    """

    def __init__(self, offset: int, timestamp: int, leader_epoch: int | None) -> None:
        self.offset = offset
        self.timestamp = timestamp
        self.leader_epoch = leader_epoch


class DeletedRecords:
    """The new start of a partition.

    :param low_watermark: Its first offset.
    """

    def __init__(self, low_watermark: int) -> None:
        self.low_watermark = low_watermark


# --- more partitions ---


def _grown_topic(topic: NewPartitions) -> CreatePartitionsRequest.Topic:
    """A topic with its new number of partitions, in the protocol's form."""
    assignments = None
    if topic.replica_assignment is not None:
        kind = CreatePartitionsRequest.Topic.Assignment
        assignments = [kind(broker_ids=list(brokers)) for brokers in topic.replica_assignment]
    return CreatePartitionsRequest.Topic(
        name=topic.topic, count=topic.new_total_count, assignments=assignments
    )


def _create_partitions(
    validate_only: bool, timeout_ms: int
) -> AdminOperation[str, CreatePartitionsRequest.Topic, CreatePartitionsResponse, None]:
    return AdminOperation(
        destination=Operation.controller,
        request=lambda topics: CreatePartitionsRequest(
            topics=topics, timeout_ms=timeout_ms, validate_only=validate_only
        ),
        outcomes=lambda response, portion: {
            each.name: error_or_none(each.error_code, each.error_message)
            for each in response.results
        },
        change=True,
    )


# --- elections ---


def _elect_leaders(
    kind: ElectionType, partitions: list[TopicPartition] | None, timeout_ms: int
) -> AdminOperation[None, None, ElectLeadersResponse, dict[TopicPartition, KafkaError | None]]:
    named = [
        ElectLeadersRequest.TopicPartitions(
            topic=name, partitions=[each.partition for each in some]
        )
        for name, some in partitions_by_topic(partitions or ()).items()
    ]
    request = ElectLeadersRequest(
        election_type=kind.value,
        topic_partitions=None if partitions is None else named,
        timeout_ms=timeout_ms,
    )
    return AdminOperation(
        destination=Operation.controller,
        request=lambda _: request,
        outcomes=lambda response, portion: {
            None: error_or_none(response.error_code) or _elected(response, partitions or ())
        },
        change=True,
    )


def _elected(
    response: ElectLeadersResponse, asked: Iterable[TopicPartition]
) -> dict[TopicPartition, KafkaError | None]:
    found: dict[TopicPartition, KafkaError | None] = {}
    for topic in response.replica_election_results:
        for each in topic.partition_result:
            error = error_or_none(each.error_code, each.error_message)
            found[TopicPartition(topic.topic, each.partition_id).with_error(error)] = error
    for partition in asked:
        if partition not in found:
            found[partition.with_error(UNANSWERED)] = UNANSWERED
    return found


# --- reassignments ---

Move: TypeAlias = "tuple[TopicPartition, NewPartitionReassignment | None]"


def _alter_reassignments(
    allow_replication_factor_change: bool, timeout_ms: int
) -> AdminOperation[TopicPartition, Move, AlterPartitionReassignmentsResponse, None]:
    def request(moves: list[Move]) -> AlterPartitionReassignmentsRequest:
        kind = AlterPartitionReassignmentsRequest.Topic
        topics: dict[str, AlterPartitionReassignmentsRequest.Topic] = {}
        for partition, new in moves:
            replicas = None if new is None else list(new.target_replicas)
            topics.setdefault(partition.topic, kind(name=partition.topic)).partitions.append(
                kind.Partition(partition_index=partition.partition, replicas=replicas)
            )
        return AlterPartitionReassignmentsRequest(
            topics=list(topics.values()),
            timeout_ms=timeout_ms,
            allow_replication_factor_change=allow_replication_factor_change,
        )

    return AdminOperation(
        destination=Operation.controller, request=request, outcomes=_reassigned, change=True
    )


def _reassigned(
    response: AlterPartitionReassignmentsResponse, portion: Portion[TopicPartition, Move]
) -> dict[TopicPartition, KafkaError | None]:
    if response.error_code:
        return dict.fromkeys(portion.items, KafkaError(response.error_code, response.error_message))
    return {
        TopicPartition(topic.name, each.partition_index): error_or_none(
            each.error_code, each.error_message
        )
        for topic in response.responses
        for each in topic.partitions
    }


def _list_reassignments(
    partitions: list[TopicPartition] | None, timeout_ms: int
) -> AdminOperation[
    None, None, ListPartitionReassignmentsResponse, dict[TopicPartition, PartitionReassignment]
]:
    kind = ListPartitionReassignmentsRequest.Topic
    topics = [
        kind(name=name, partition_indexes=some)
        for name, some in _numbers_by_topic(partitions or ()).items()
    ]
    request = ListPartitionReassignmentsRequest(
        topics=None if partitions is None else topics, timeout_ms=timeout_ms
    )
    return AdminOperation(
        destination=Operation.controller,
        request=lambda _: request,
        outcomes=lambda response, portion: {None: _reassignments_of(response)},
        change=False,
    )


def _reassignments_of(
    response: ListPartitionReassignmentsResponse,
) -> dict[TopicPartition, PartitionReassignment] | KafkaError:
    found = {
        TopicPartition(topic.name, each.partition_index): PartitionReassignment(
            tuple(each.replicas), tuple(each.adding_replicas), tuple(each.removing_replicas)
        )
        for topic in response.topics
        for each in topic.partitions
    }
    return error_or_none(response.error_code, response.error_message) or found


# --- log directories ---

ReplicaMove: TypeAlias = tuple[TopicPartitionReplica, str]


def _numbers_by_topic(
    partitions: Iterable[TopicPartition | TopicPartitionReplica],
) -> dict[str, list[int]]:
    """Groups partition numbers by topic."""
    found: dict[str, list[int]] = {}
    for each in partitions:
        found.setdefault(each.topic, []).append(each.partition)
    return found


def _described_directories(
    response: DescribeLogDirsResponse, portion: Portion[int, int]
) -> dict[int, dict[str, LogDirDescription] | KafkaError]:
    return dict.fromkeys(portion.items, _directories(response))  # a request has one broker


def _directories(response: DescribeLogDirsResponse) -> dict[str, LogDirDescription] | KafkaError:
    # Before version 3, a client without permission gets an empty list.
    denied = None if response.results else KafkaError.CLUSTER_AUTHORIZATION_FAILED
    error = error_or_none(response.error_code or denied or 0)
    return error or {each.log_dir: _description(each) for each in response.results}


def _description(directory: DescribeLogDirsResponse.LogDir) -> LogDirDescription:
    replicas = {
        TopicPartition(topic.name, each.partition_index): ReplicaInfo(
            each.partition_size, each.offset_lag, each.is_future_key
        )
        for topic in directory.topics
        for each in topic.partitions
    }
    total, usable = (
        None if size < 0 else size for size in (directory.total_bytes, directory.usable_bytes)
    )
    return LogDirDescription(
        error_or_none(directory.error_code), replicas, total, usable, directory.is_cordoned
    )


DESCRIBE_LOG_DIRS: AdminOperation[
    int, int, DescribeLogDirsResponse, dict[str, LogDirDescription]
] = AdminOperation(
    destination=brokers(lambda broker: broker),
    request=lambda _: DescribeLogDirsRequest(topics=None),
    outcomes=_described_directories,
    change=False,
)


def _replicas_request(replicas: list[TopicPartitionReplica]) -> DescribeLogDirsRequest:
    """The request for the replicas of one broker."""
    kind = DescribeLogDirsRequest.Topic
    topics = [
        kind(topic=name, partitions=some) for name, some in _numbers_by_topic(replicas).items()
    ]
    return DescribeLogDirsRequest(topics=topics)


def _described_replicas(
    response: DescribeLogDirsResponse,
    portion: Portion[TopicPartitionReplica, TopicPartitionReplica],
) -> dict[TopicPartitionReplica, ReplicaLogDirInfo | KafkaError]:
    found = _directories(response)
    if isinstance(found, KafkaError):
        return dict.fromkeys(portion.items, found)
    return {each: _directories_of(each, found) for each in portion.items}


def _directories_of(
    replica: TopicPartitionReplica, directories: dict[str, LogDirDescription]
) -> ReplicaLogDirInfo | KafkaError:
    key = TopicPartition(replica.topic, replica.partition)
    places: dict[bool, tuple[str | None, int]] = {True: (None, -1), False: (None, -1)}
    for path, directory in directories.items():
        if key in directory.replica_infos:
            info = directory.replica_infos[key]
            places[info.is_future] = (path, info.offset_lag)
    offline = [each.error for each in directories.values() if each.error is not None]
    if places[False][0] is None and offline:
        return offline[0]  # it may be in the offline directory
    return ReplicaLogDirInfo(*places[False], *places[True])


DESCRIBE_REPLICA_LOG_DIRS: AdminOperation[
    TopicPartitionReplica, TopicPartitionReplica, DescribeLogDirsResponse, ReplicaLogDirInfo
] = AdminOperation(
    destination=brokers(lambda replica: replica.broker_id),
    request=_replicas_request,
    outcomes=_described_replicas,
    change=False,
    final_errors=DIRECTORY_ERRORS,
)


def _move_request(moves: list[ReplicaMove]) -> AlterReplicaLogDirsRequest:
    """The request for the replicas of one broker."""
    paths: dict[str, list[TopicPartitionReplica]] = {}
    for replica, path in moves:
        paths.setdefault(path, []).append(replica)
    kind = AlterReplicaLogDirsRequest.Dir
    return AlterReplicaLogDirsRequest(
        dirs=[
            kind(
                path=path,
                topics=[
                    kind.Topic(name=name, partitions=each)
                    for name, each in _numbers_by_topic(some).items()
                ],
            )
            for path, some in paths.items()
        ]
    )


def _moved(
    response: AlterReplicaLogDirsResponse, portion: Portion[TopicPartitionReplica, ReplicaMove]
) -> dict[TopicPartitionReplica, KafkaError | None]:
    return {
        TopicPartitionReplica(
            topic.topic_name, each.partition_index, portion.target
        ): error_or_none(each.error_code)
        for topic in response.results
        for each in topic.partitions
        if portion.target is not None
    }


ALTER_REPLICA_LOG_DIRS: AdminOperation[
    TopicPartitionReplica, ReplicaMove, AlterReplicaLogDirsResponse, None
] = AdminOperation(
    destination=brokers(lambda replica: replica.broker_id),
    request=_move_request,
    outcomes=_moved,
    change=True,
    final_errors=DIRECTORY_ERRORS,
)


# --- offsets and records ---


def _list_offsets(
    isolation_level: int, timeout_ms: int
) -> AdminOperation[
    TopicPartition, tuple[TopicPartition, int], ListOffsetsResponse, ListOffsetsResultInfo
]:
    def request(items: list[tuple[TopicPartition, int]]) -> ListOffsetsRequest:
        specs = dict(items)
        topics = [
            ListOffsetsRequest.Topic(
                name=name,
                partitions=[
                    ListOffsetsRequest.Topic.Partition(
                        partition_index=each.partition, timestamp=specs[each]
                    )
                    for each in partitions
                ],
            )
            for name, partitions in partitions_by_topic(specs).items()
        ]
        return ListOffsetsRequest(
            replica_id=-1, isolation_level=isolation_level, topics=topics, timeout_ms=timeout_ms
        )

    return AdminOperation(
        destination=Operation.leaders,
        request=request,
        outcomes=lambda response, portion: {
            TopicPartition(topic.name, each.partition_index): error_or_none(each.error_code)
            or _offset_of(each)
            for topic in response.topics
            for each in topic.partitions
        },
        change=False,
    )


def _offset_of(partition: ListOffsetsResponse.Topic.Partition) -> ListOffsetsResultInfo:
    offset = partition.old_style_offsets[0] if partition.old_style_offsets else partition.offset
    epoch = None if partition.leader_epoch < 0 else partition.leader_epoch
    return ListOffsetsResultInfo(offset, partition.timestamp, epoch)


def _delete_records(
    timeout_ms: int,
) -> AdminOperation[TopicPartition, TopicPartition, DeleteRecordsResponse, DeletedRecords]:
    def request(partitions: list[TopicPartition]) -> DeleteRecordsRequest:
        topics = [
            DeleteRecordsRequest.Topic(
                name=name,
                partitions=[
                    DeleteRecordsRequest.Topic.Partition(
                        partition_index=each.partition, offset=each.offset
                    )
                    for each in some
                ],
            )
            for name, some in partitions_by_topic(partitions).items()
        ]
        return DeleteRecordsRequest(topics=topics, timeout_ms=timeout_ms)

    return AdminOperation(
        destination=Operation.leaders,
        request=request,
        outcomes=lambda response, portion: {
            TopicPartition(topic.name, each.partition_index): error_or_none(each.error_code)
            or DeletedRecords(each.low_watermark)
            for topic in response.topics
            for each in topic.partitions
        },
        change=True,
    )


class PartitionsAdmin(AdminBase):
    """The admin calls about partitions."""

    def create_partitions(
        self,
        new_partitions: list[NewPartitions],
        *,
        validate_only: bool = False,
        request_timeout: float = -1,
        operation_timeout: float = -1,
    ) -> dict[str, Future[None]]:
        """Adds partitions to topics.

        :param new_partitions: The topics and their new number of partitions.
        :return: One future per topic, by name: None when it has them; KafkaException, for instance
            INVALID_PARTITIONS.
        """
        topics = [
            (each.topic, _grown_topic(each)) for each in list_of(new_partitions, NewPartitions)
        ]
        timeout_s, timeout_ms = self._timeouts(request_timeout, operation_timeout)
        return self._start(_create_partitions(bool(validate_only), timeout_ms), topics, timeout_s)

    def elect_leaders(
        self,
        election_type: ElectionType,
        partitions: list[TopicPartition] | None = None,
        *,
        request_timeout: float = -1,
        operation_timeout: float = -1,
    ) -> Future[dict[TopicPartition, KafkaError | None]]:
        """Elects new leaders of partitions (KIP-460).

        :param election_type: PREFERRED: the first replica, if it is in sync; UNCLEAN: any, even if
            messages are lost.
        :param partitions: The partitions; None for all that need it.
        :return: One future: the error of each; None: it was elected; ELECTION_NOT_NEEDED: it leads
            already.
        """
        if not isinstance(election_type, ElectionType):
            raise TypeError("Expected 'election_type' to be of type 'ElectionType'")
        wanted = None
        if partitions is not None:
            wanted = copied_partitions(list_of(partitions, TopicPartition, length_min=0))
        timeout_s, timeout_ms = self._timeouts(request_timeout, operation_timeout)
        return self._start_one(_elect_leaders(election_type, wanted, timeout_ms), None, timeout_s)

    def list_offsets(
        self,
        topic_partition_offsets: dict[TopicPartition, OffsetSpec],
        *,
        isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
        request_timeout: float = -1,
    ) -> dict[TopicPartition, Future[ListOffsetsResultInfo]]:
        """Finds offsets: the first, the last, or by time.

        :param topic_partition_offsets: The offset to find for each partition.
        :param isolation_level: With READ_COMMITTED, the last offset is the start of the first open
            transaction.
        :return: One future per partition.
        """
        if not isinstance(topic_partition_offsets, Mapping):
            raise TypeError(
                "Expected topic_partition_offsets to be dict of [TopicPartitions,OffsetSpec]"
            )
        if not isinstance(isolation_level, IsolationLevel):
            raise TypeError("isolation_level argument should be an IsolationLevel")
        for spec in topic_partition_offsets.values():
            if not isinstance(spec, OffsetSpec):
                raise TypeError("Value must be a OffsetSpec")
        partitions = copied_partitions(topic_partition_offsets)
        timeout_s = self._request_timeout(request_timeout)
        specs = topic_partition_offsets.values()
        items = [(each, (each, spec._value)) for each, spec in zip(partitions, specs, strict=True)]
        return self._start(
            _list_offsets(isolation_level.value, wire_ms(timeout_s)), items, timeout_s
        )

    def delete_records(
        self,
        topic_partition_offsets: list[TopicPartition],
        *,
        request_timeout: float = -1,
        operation_timeout: float = -1,
    ) -> dict[TopicPartition, Future[DeletedRecords]]:
        """Deletes the records before an offset.

        :param topic_partition_offsets: Partitions with their new first offset; OFFSET_END: the end.
        :return: One future per partition, with its new first offset.
        """
        partitions = copied_partitions(
            list_of(topic_partition_offsets, TopicPartition, length_min=0)
        )
        timeout_s, timeout_ms = self._timeouts(request_timeout, operation_timeout)
        return self._start(
            _delete_records(timeout_ms), [(each, each) for each in partitions], timeout_s
        )

    def alter_partition_reassignments(
        self,
        reassignments: Mapping[TopicPartition, NewPartitionReassignment | None],
        *,
        allow_replication_factor_change: bool = True,
        request_timeout: float = -1,
        operation_timeout: float = -1,
    ) -> dict[TopicPartition, Future[None]]:
        """Moves partitions to other brokers, or cancels moves (KIP-455).

        Moves continue after the reply.

        :param reassignments: The target of each partition; None cancels its move.
        :param allow_replication_factor_change: Whether the number of replicas may change. Brokers
            before 4.1 don't support False (KIP-860), and the call fails with _INVALID_ARG.
        :return: One future per partition: None when its move has begun; KafkaException, for
            instance NO_REASSIGNMENT_IN_PROGRESS, INVALID_REPLICA_ASSIGNMENT.
        """
        if not isinstance(reassignments, Mapping):
            raise TypeError(f"expected a dict of partitions, not {type(reassignments).__name__}")
        if not reassignments:
            raise ValueError("Expected non-empty dict of partitions")
        partitions = copied_partitions(reassignments)
        for each in reassignments.values():
            if each is not None and not isinstance(each, NewPartitionReassignment):
                raise TypeError(
                    f"expected a NewPartitionReassignment or None, not {type(each).__name__}"
                )
        allowed = flag("allow_replication_factor_change", allow_replication_factor_change)
        timeout_s, timeout_ms = self._timeouts(request_timeout, operation_timeout)
        targets = reassignments.values()
        items = [(each, (each, new)) for each, new in zip(partitions, targets, strict=True)]
        return self._start(_alter_reassignments(allowed, timeout_ms), items, timeout_s)

    def list_partition_reassignments(
        self,
        partitions: list[TopicPartition] | None = None,
        *,
        request_timeout: float = -1,
        operation_timeout: float = -1,
    ) -> Future[dict[TopicPartition, PartitionReassignment]]:
        """Lists the partitions that are moving to other brokers (KIP-455).

        :param partitions: Only these; None for all.
        :return: One future with the moving partitions.
        """
        wanted = None if partitions is None else list_of(partitions, TopicPartition, length_min=0)
        check_partitions(wanted or ())
        timeout_s, timeout_ms = self._timeouts(request_timeout, operation_timeout)
        return self._start_one(_list_reassignments(wanted, timeout_ms), None, timeout_s)

    def describe_log_dirs(
        self, brokers: list[int], *, request_timeout: float = -1
    ) -> dict[int, Future[dict[str, LogDirDescription]]]:
        """Describes brokers' log directories: their replicas and sizes (KIP-113).

        :param brokers: The ids of the brokers.
        :return: One future per broker, by id, with its directories by path.
        """
        items = [(number, number) for number in map(node_id, list_of(brokers, int))]
        return self._start(DESCRIBE_LOG_DIRS, items, self._request_timeout(request_timeout))

    def describe_replica_log_dirs(
        self, replicas: list[TopicPartitionReplica], *, request_timeout: float = -1
    ) -> dict[TopicPartitionReplica, Future[ReplicaLogDirInfo]]:
        """Describes the current and future log directories of replicas (KIP-113).

        :param replicas: Each is a broker's copy of a partition.
        :return: One future per replica, with its directories. The path is None if the broker
            doesn't have the replica.
        """
        asked = list_of(replicas, TopicPartitionReplica)
        for each in asked:
            _check_replica(each)
        items = [(each, each) for each in asked]
        return self._start(DESCRIBE_REPLICA_LOG_DIRS, items, self._request_timeout(request_timeout))

    def alter_replica_log_dirs(
        self,
        replica_assignment: Mapping[TopicPartitionReplica, str],
        *,
        request_timeout: float = -1,
    ) -> dict[TopicPartitionReplica, Future[None]]:
        """Moves replicas to other log directories of their brokers (KIP-113).

        They are copied after the reply.

        :param replica_assignment: The new directory of each replica: a path from the broker's
            ``log.dirs``.
        :return: One future per replica: None when the move has begun; KafkaException, for instance
            LOG_DIR_NOT_FOUND. REPLICA_NOT_AVAILABLE: the broker doesn't have the replica yet, and
            will put it into that directory.
        """
        if not isinstance(replica_assignment, Mapping):
            raise TypeError(f"expected a dict of replicas, not {type(replica_assignment).__name__}")
        if not replica_assignment:
            raise ValueError("Expected non-empty dict of replicas")
        for replica, path in replica_assignment.items():
            if not isinstance(replica, TopicPartitionReplica):
                raise TypeError(f"expected a TopicPartitionReplica, not {type(replica).__name__}")
            if not isinstance(path, str):
                raise TypeError(f"a log directory must be a str, not {type(path).__name__}")
            if not path:
                raise ValueError("the path of a log directory cannot be empty")
            _check_replica(replica)
        items = [(replica, (replica, path)) for replica, path in replica_assignment.items()]
        return self._start(ALTER_REPLICA_LOG_DIRS, items, self._request_timeout(request_timeout))


def _check_replica(replica: TopicPartitionReplica) -> None:
    """Raises TypeError or ValueError if a replica is invalid."""
    check_partitions([TopicPartition(replica.topic, replica.partition)])
    node_id(replica.broker_id)
