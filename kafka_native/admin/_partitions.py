"""Where partitions live: moves between brokers, log directories, and descriptions that come in pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kafka_native.admin._acl import AclOperation
from kafka_native.errors import KafkaError
from kafka_native.types import TopicPartition, Uuid


@dataclass(frozen=True, slots=True)
class NewPartitionReassignment:
    """The brokers that a partition is to move to, for `alter_partition_reassignments()` (KIP-455).

    :param target_replicas: Their ids; the first one is the preferred leader.
    """

    target_replicas: Sequence[int]

    def __post_init__(self) -> None:
        """TypeError and ValueError for nobody, somebody twice, and what is no broker's id."""
        replicas = tuple(self.target_replicas)
        for each in replicas:
            if isinstance(each, bool) or not isinstance(each, int):
                raise TypeError(f"target_replicas are the ids of brokers, not {type(each).__name__}")
            if not 0 <= each < 1 << 31:
                raise ValueError(f"there is no broker {each}")
        if not replicas or len(set(replicas)) < len(replicas):
            raise ValueError(f"target_replicas must name brokers, each once, not {list(replicas)}")
        object.__setattr__(self, "target_replicas", replicas)


@dataclass(frozen=True, slots=True)
class PartitionReassignment:
    """A partition on its way to other brokers, as `list_partition_reassignments()` tells it (KIP-455)."""

    replicas: tuple[int, ...]
    """The brokers that have it at the moment: those that stay, those to come and those to go."""
    adding_replicas: tuple[int, ...]
    """Those to come, which are still copying."""
    removing_replicas: tuple[int, ...]
    """Those to go when the others have it."""


@dataclass(frozen=True, slots=True)
class TopicPartitionReplica:
    """One broker's copy of a partition, for `alter_replica_log_dirs()` (KIP-113)."""

    topic: str
    partition: int
    broker_id: int


@dataclass(frozen=True, slots=True)
class ReplicaInfo:
    """What a log directory holds of a partition."""

    size: int
    """Of its segments, in bytes."""
    offset_lag: int
    """How many offsets it is behind: behind the high watermark, or, of a future replica, behind the current one."""
    is_future: bool
    """It is being copied here from another directory, and will replace that one."""


@dataclass(frozen=True, slots=True)
class LogDirDescription:
    """A log directory of a broker, as `describe_log_dirs()` tells it (KIP-113)."""

    error: KafkaError | None
    """KAFKA_STORAGE_ERROR: it is offline."""
    replica_infos: dict[TopicPartition, ReplicaInfo] = field(default_factory=dict)
    """What it holds."""
    total_bytes: int | None = None
    """Of its volume; None where the broker doesn't tell (before 3.3, KIP-827)."""
    usable_bytes: int | None = None
    """What is free on its volume; None where the broker doesn't tell (before 3.3, KIP-827)."""
    is_cordoned: bool = False
    """It takes no new partitions (KIP-1066)."""


@dataclass(frozen=True, slots=True)
class ReplicaLogDirInfo:
    """Where a replica is, and where it is being moved to, as `describe_replica_log_dirs()` tells it (KIP-113)."""

    current_replica_log_dir: str | None
    """The path of its directory; None: the broker doesn't have it."""
    current_replica_offset_lag: int
    """How many offsets it is behind the high watermark; -1: the broker doesn't have it."""
    future_replica_log_dir: str | None
    """The path of the directory that it is being copied to; None: it isn't moved."""
    future_replica_offset_lag: int
    """How many offsets the copy is behind; -1: it isn't moved."""


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """A partition, as `describe_topic_partitions()` tells it: brokers are named by their ids."""

    id: int
    """Its number."""
    error: KafkaError | None
    """LEADER_NOT_AVAILABLE, for instance."""
    leader: int | None
    """Who leads it; None for nobody."""
    leader_epoch: int | None
    """Since when, as a number that goes up; None where the broker doesn't tell."""
    replicas: tuple[int, ...]
    """Who has it."""
    isr: tuple[int, ...]
    """Who has all of it."""
    eligible_leader_replicas: tuple[int, ...] | None
    """Who may lead it beside these although they are out of sync (KIP-966); None where the broker doesn't tell."""
    last_known_elr: tuple[int, ...] | None
    """Who was eligible when the last one went (KIP-966); None where the broker doesn't tell."""
    offline_replicas: tuple[int, ...]
    """Whose copies can't be used at the moment."""


@dataclass(frozen=True, slots=True)
class TopicPartitionsDescription:
    """A topic with those of its partitions that are on one page."""

    name: str
    error: KafkaError | None
    """UNKNOWN_TOPIC_OR_PART, for instance: then there are no partitions."""
    topic_id: Uuid
    is_internal: bool
    """It is Kafka's own."""
    partitions: tuple[PartitionDescription, ...]
    authorized_operations: tuple[AclOperation, ...] | None
    """What this client may do to it; None where the broker doesn't tell."""


@dataclass(frozen=True, slots=True, order=True)
class TopicPartitionsCursor:
    """Where a page begins; ordered as pages are."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class TopicPartitionsPage:
    """A page of topics, in the order of their names."""

    topics: tuple[TopicPartitionsDescription, ...]
    next_cursor: TopicPartitionsCursor | None
    """Where the next page begins; None: this is the last one."""
