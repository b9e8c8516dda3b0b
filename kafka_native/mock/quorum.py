"""What controllers decide: features and their levels, who votes, which brokers are registered."""

from __future__ import annotations

import uuid

TRANSACTION_VERSION = "transaction.version"
"""The feature whose level 2 is KIP-890: partitions are added by writing to them, each transaction has its epoch."""
SUPPORTED = {TRANSACTION_VERSION: (0, 2)}
"""The features that brokers could run, and their levels."""


class Quorum:
    """The controllers' decisions; used under the cluster's lock."""

    def __init__(self, brokers: list[int], transaction_version: int) -> None:
        """Every broker is a controller that votes."""
        self.levels = {TRANSACTION_VERSION: transaction_version}
        self.epoch = 1
        self.changes = 0
        self.voters = {broker: uuid.uuid4().bytes for broker in brokers}
        self.endpoints: dict[int, list[tuple[str, str, int]]] = {}
        self.unregistered: set[int] = set()

    def changed(self) -> None:
        """Count a change: the log of metadata has one record more."""
        self.changes += 1

    def update(self, feature: str, level: int) -> None:
        """Run a feature at another level, in a new epoch."""
        self.levels[feature] = level
        self.epoch += 1
        self.changed()

    def refusal(self, feature: str, level: int, *, may_go_down: bool) -> str | None:
        """Why a feature can't get this level, None if it can."""
        first, last = SUPPORTED.get(feature, (0, -1))
        if not first <= level <= last:
            return f"{feature} can't be at level {level}: the brokers have {first} to {last}"
        if level < self.levels[feature] and not may_go_down:
            return f"{feature} is at level {self.levels[feature]}, and a downgrade isn't allowed"
        return None
