"""Topics: those to be made, and what `describe_topics()` tells."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import total_ordering
from typing import Any

from kafka_native.admin._acl import AclOperation
from kafka_native.admin._config import ConfigEntry
from kafka_native.admin._convert import members_of
from kafka_native.cleaning import escaped
from kafka_native.errors import KafkaError
from kafka_native.types import TopicPartitionInfo, Uuid


def _checked_name(topic: Any) -> str:
    if not isinstance(topic, str):
        raise TypeError(f"argument 1 must be str, not {type(topic).__name__}")
    return topic


@total_ordering
class NewTopic:
    """A topic for `create_topics()`. Equal by topic and number of partitions.

    :param topic: Its name.
    :param num_partitions: How many partitions; -1: as many as the broker's ``num.partitions`` (KIP-464).
    :param replication_factor: How many replicas of each; -1: the broker's default.
    :param replica_assignment: In place of it: the ids of the brokers of each partition.
    :param config: Its settings.
    :raises TypeError: An argument of another type.
    """

    __slots__ = ("_topic", "config", "num_partitions", "replica_assignment", "replication_factor")

    def __init__(
        self,
        topic: str,
        num_partitions: int = -1,
        replication_factor: int = -1,
        replica_assignment: Sequence[Sequence[int]] | None = None,
        config: Mapping[str, str] | None = None,
    ) -> None:
        """Make one; see the class for the arguments."""
        if config is not None and not isinstance(config, Mapping):
            raise TypeError("config must be a dict of strings")
        self._topic = _checked_name(topic)
        self.num_partitions = operator.index(num_partitions)
        self.replication_factor = operator.index(replication_factor)
        self.replica_assignment = replica_assignment
        self.config = config

    @property
    def topic(self) -> str:
        """Its name."""
        return self._topic

    def __str__(self) -> str:
        count = "" if self.num_partitions == -1 else f",num_partitions={self.num_partitions}"
        return f"NewTopic(topic={escaped(self.topic)}{count})"

    __repr__ = __str__

    def __hash__(self) -> int:
        return hash(self.topic)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NewTopic):
            return NotImplemented
        return (self.topic, self.num_partitions) == (other.topic, other.num_partitions)

    def __lt__(self, other: NewTopic) -> bool:
        if not isinstance(other, NewTopic):
            return NotImplemented
        return (self.topic, self.num_partitions) < (other.topic, other.num_partitions)


@total_ordering
class NewPartitions:
    """More partitions of a topic, for `create_partitions()`. Equal by topic and number.

    :param topic: Its name.
    :param new_total_count: How many it shall have, those that it has included.
    :param replica_assignment: The ids of the brokers of each new partition; None leaves them to the broker.
    :raises TypeError: An argument of another type.
    """

    __slots__ = ("_topic", "new_total_count", "replica_assignment")

    def __init__(
        self, topic: str, new_total_count: int, replica_assignment: Sequence[Sequence[int]] | None = None
    ) -> None:
        """Make one; see the class for the arguments."""
        self._topic = _checked_name(topic)
        self.new_total_count = operator.index(new_total_count)
        self.replica_assignment = replica_assignment

    @property
    def topic(self) -> str:
        """Its name."""
        return self._topic

    def __str__(self) -> str:
        return f"NewPartitions(topic={escaped(self.topic)},new_total_count={self.new_total_count})"

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
class TopicMetadataAndConfig:
    """A topic that was made, as `create_topics()` tells it with ``include_metadata`` (KIP-525)."""

    error: KafkaError | None
    """Why the rest isn't told: TOPIC_AUTHORIZATION_FAILED, or _UNSUPPORTED_FEATURE of a broker before 2.4."""
    topic_id: Uuid | None = None
    """Its id; None of a broker before 2.8, and where nothing was made."""
    num_partitions: int | None = None
    """How many partitions it has."""
    replication_factor: int | None = None
    """How many replicas each has."""
    config: dict[str, ConfigEntry] = field(default_factory=dict)
    """Its settings by name."""


class TopicDescription:
    """A topic with its partitions.

    :param name: Its name.
    :param topic_id: Its id.
    :param is_internal: It is Kafka's own.
    :param partitions: Its partitions.
    :param authorized_operations: What this client may do to it; None if it wasn't asked for.
    """

    def __init__(
        self,
        name: str,
        topic_id: Uuid,
        is_internal: bool,
        partitions: list[TopicPartitionInfo],
        authorized_operations: list[str | int | AclOperation] | None = None,
    ) -> None:
        """Make one; see the class for the arguments."""
        self.name = name
        self.topic_id = topic_id
        self.is_internal = is_internal
        self.partitions = partitions
        self.authorized_operations = members_of(authorized_operations, AclOperation)
