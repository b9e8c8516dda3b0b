"""Decisions of the controllers: feature levels, voters, registered brokers."""

from __future__ import annotations

import uuid

TRANSACTION_VERSION = "transaction.version"
"""The feature whose level 2 is KIP-890.

In level 2 a write adds its partition to the transaction, and each transaction has its own epoch.
"""
SUPPORTED = {
    "eligible.leader.replicas.version": (0, 1),
    "group.version": (0, 1),
    "kraft.version": (0, 1),
    "metadata.version": (7, 33),
    "share.version": (0, 2),
    "streams.version": (0, 1),
    TRANSACTION_VERSION: (0, 2),
}
"""The features that brokers of Apache Kafka 4.4 support, and their levels."""
_STATIC = {"kraft.version"}
"""Features with level 0 in a cluster whose voters are in the brokers' files."""


class Quorum:
    """The controllers' decisions. The cluster's lock guards them."""

    def __init__(self, brokers: list[int], transaction_version: int) -> None:
        """Start with every broker as a voting controller."""
        self.levels = {
            name: 0 if name in _STATIC else last for name, (_, last) in SUPPORTED.items()
        }
        self.levels[TRANSACTION_VERSION] = transaction_version
        self.epoch = 1
        self.changes = 0
        self.voters = {broker: uuid.uuid4().bytes for broker in brokers}
        self.endpoints: dict[int, list[tuple[str, str, int]]] = {}
        self.unregistered: set[int] = set()
        self.controllers = set(brokers)

    def count_change(self) -> None:
        """Count a change: the metadata log has one more record."""
        self.changes += 1

    def update(self, feature: str, level: int) -> None:
        """Change the level of a feature, in a new epoch."""
        self.levels[feature] = level
        self.epoch += 1
        self.count_change()

    def refusal(self, feature: str, level: int, *, may_go_down: bool) -> str | None:
        """Return why a feature can't get this level, or None."""
        first, last = SUPPORTED.get(feature, (0, -1))
        if not first <= level <= last:
            return f"{feature} can't be at level {level}: the brokers have {first} to {last}"
        if level < self.levels[feature] and not may_go_down:
            return f"{feature} is at level {self.levels[feature]}, and a downgrade isn't allowed"
        return None
