"""What controllers decide about: features of the cluster, and who of them votes."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from kafka_native.types import Uuid


class UpgradeType(Enum):
    """What an update of a feature may do (KIP-778)."""

    UPGRADE = 1
    """Only up."""
    SAFE_DOWNGRADE = 2
    """Down, where no metadata are lost."""
    UNSAFE_DOWNGRADE = 3
    """Down, whatever is lost."""


@dataclass(frozen=True, slots=True)
class FeatureUpdate:
    """A feature's new level, for `update_features()` (KIP-584).

    :param max_version_level: The level; 0 ends the feature, which is a downgrade.
    :param upgrade_type: What it may do.
    """

    max_version_level: int
    upgrade_type: UpgradeType = UpgradeType.UPGRADE

    def __post_init__(self) -> None:
        """TypeError and ValueError for what can't be an update."""
        level = self.max_version_level
        if isinstance(level, bool) or not isinstance(level, int):
            raise TypeError(f"max_version_level must be an int, not {type(level).__name__}")
        if not isinstance(self.upgrade_type, UpgradeType):
            raise TypeError(f"upgrade_type must be an UpgradeType, not {type(self.upgrade_type).__name__}")
        if not 0 <= level < 1 << 15:
            raise ValueError(f"max_version_level must be 0 to 32767, not {level}")
        if not level and self.upgrade_type is UpgradeType.UPGRADE:
            raise ValueError("max_version_level 0 ends the feature, which upgrade_type has to allow: SAFE_DOWNGRADE")


@dataclass(frozen=True, slots=True)
class FinalizedVersionRange:
    """The levels of a feature that the whole cluster runs."""

    min_version_level: int
    max_version_level: int


@dataclass(frozen=True, slots=True)
class SupportedVersionRange:
    """The levels of a feature that a broker could run."""

    min_version: int
    max_version: int


@dataclass(frozen=True, slots=True)
class FeatureMetadata:
    """The features of the cluster, as `describe_features()` tells them (KIP-584)."""

    finalized_features: dict[str, FinalizedVersionRange] = field(default_factory=dict)
    """What the whole cluster runs, by name; a feature at level 0 isn't there."""
    finalized_features_epoch: int | None = None
    """Goes up with each update; None where the broker doesn't tell."""
    supported_features: dict[str, SupportedVersionRange] = field(default_factory=dict)
    """What the broker that answered could run, by name."""


@dataclass(frozen=True, slots=True)
class RaftVoterEndpoint:
    """Where a controller listens.

    :param listener: The listener's name.
    :param host: Its host.
    :param port: Its port.
    """

    listener: str
    host: str
    port: int

    def __post_init__(self) -> None:
        """TypeError and ValueError for what can't be an endpoint."""
        if not isinstance(self.listener, str) or not isinstance(self.host, str):
            raise TypeError("listener and host must be str")
        if isinstance(self.port, bool) or not isinstance(self.port, int):
            raise TypeError(f"port must be an int, not {type(self.port).__name__}")
        if not 0 <= self.port < 1 << 16:
            raise ValueError(f"port must be 0 to 65535, not {self.port}")


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """A controller or broker that follows the cluster's metadata, and how far it is (KIP-836)."""

    replica_id: int
    """Its ``node.id``."""
    replica_directory_id: Uuid | None
    """Of its log directory (KIP-853); None where it isn't known."""
    log_end_offset: int | None
    """Where its log ends; None where the leader doesn't know."""
    last_fetch_timestamp: int | None
    """When it last asked the leader, in milliseconds since 1970; None where it isn't known. Of the leader it is now."""
    last_caught_up_timestamp: int | None
    """When it last had everything, in milliseconds since 1970; None where it isn't known."""


@dataclass(frozen=True, slots=True)
class QuorumNode:
    """A controller and where it listens."""

    node_id: int
    endpoints: tuple[RaftVoterEndpoint, ...]


@dataclass(frozen=True, slots=True)
class QuorumInfo:
    """Who votes on the cluster's metadata, as `describe_metadata_quorum()` tells it (KIP-595)."""

    leader_id: int | None
    """The active controller; None for nobody."""
    leader_epoch: int
    high_watermark: int | None
    """Up to where most voters have the log; None where it isn't known."""
    voters: tuple[ReplicaState, ...]
    observers: tuple[ReplicaState, ...]
    """Brokers, and controllers that don't vote."""
    nodes: dict[int, QuorumNode] = field(default_factory=dict)
    """The controllers by their ids; none of brokers before 3.9."""
