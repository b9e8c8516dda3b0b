"""What `list_topics()` and `list_groups()` tell."""

from __future__ import annotations

from kafka_native.cleaning import escaped
from kafka_native.errors import KafkaError
from kafka_native.types import BrokerMetadata, ClusterMetadata, ConsumerGroupType, PartitionMetadata, TopicMetadata

__all__ = [
    "BrokerMetadata",
    "ClusterMetadata",
    "GroupMember",
    "GroupMetadata",
    "PartitionMetadata",
    "TopicMetadata",
]


class GroupMember:
    """A member of a group, with what it tells the others in the form in which it does."""

    def __init__(self) -> None:
        """Make an empty description, for the client to fill."""
        self.id: str | None = None
        """Its id."""
        self.client_id: str | None = None
        """Its ``client.id``."""
        self.client_host: str | None = None
        """Where it connects from."""
        self.metadata: bytes | None = None
        """Its subscription, in the group protocol's form."""
        self.assignment: bytes | None = None
        """What it was assigned, in the group protocol's form."""


class GroupMetadata:
    """A group with its members."""

    def __init__(self) -> None:
        """Make an empty description, for the client to fill."""
        self.broker: BrokerMetadata | None = None
        """The broker that looks after it."""
        self.id: str | None = None
        """Its id."""
        self.error: KafkaError | None = None
        """Why it couldn't be described, or None."""
        self.state: str | None = None
        """What it is doing, in the broker's word."""
        self.protocol_type: str | None = None
        """What kind of group it is: ``consumer`` for consumers."""
        self.type: ConsumerGroupType = ConsumerGroupType.UNKNOWN
        """By which protocol it shares its partitions; UNKNOWN where the broker doesn't tell."""
        self.protocol: str | None = None
        """Its protocol: the assignor, for consumers."""
        self.members: list[GroupMember] = []
        """Its members, of a classic group; those of others are told by the calls that describe them."""

    def __repr__(self) -> str:
        error = "" if self.error is None else f", {self.error}"
        return f"GroupMetadata({escaped(str(self.id))}{error})"

    def __str__(self) -> str:
        return str(self.id)
