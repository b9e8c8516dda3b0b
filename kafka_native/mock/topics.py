"""Topics and partitions of the cluster: ids, replicas, leaders, settings."""

from __future__ import annotations

import re
import threading
import uuid
from typing import TYPE_CHECKING

from kafka_native.mock.log import PartitionLog
from kafka_native.mock.settings import TOPIC_SETTINGS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
NO_LEADER = -1

GROUP_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE = (
    "__consumer_offsets",
    "__transaction_state",
    "__share_group_state",
)
INTERNAL_TOPICS = {
    GROUP_OFFSETS: {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "104857600",
    },
    TRANSACTION_STATE: {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": "2",
        "segment.bytes": "104857600",
        "unclean.leader.election.enable": "false",
    },
    SHARE_GROUP_STATE: {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "min.insync.replicas": "2",
        "retention.ms": "-1",
        "segment.bytes": "104857600",
    },
}
"""The topics in which coordinators keep their state, and their settings."""
INTERNAL_PARTITIONS = 50
INTERNAL_REPLICAS_MAX = 3


def is_valid_name(name: str | None) -> bool:
    """Return whether Kafka allows this topic name."""
    return name is not None and name not in (".", "..") and _NAME.fullmatch(name) is not None


class Waiter:
    """A fetch that waits for changes in its partitions."""

    __slots__ = ("_registered", "event")

    def __init__(self) -> None:
        """Start without news."""
        self.event = threading.Event()
        self._registered: list[set[Waiter]] = []

    def watch(self, cluster_waiters: set[Waiter], partitions: Iterable[Partition]) -> None:
        """Register for events of these partitions and of the cluster, in ``cluster_waiters``.

        Call it under the cluster's lock.
        """
        self._registered = [cluster_waiters, *(partition.waiters for partition in partitions)]
        for waiters in self._registered:
            waiters.add(self)

    def wait(self, lock: AbstractContextManager[object], seconds: float) -> None:
        """Wait for an event or the timeout, then unregister. Takes the lock afterwards."""
        self.event.wait(seconds)
        with lock:
            self.event.clear()
            for waiters in self._registered:
                waiters.discard(self)


class Partition:
    """One partition: its log, its replicas and its waiting fetches."""

    def __init__(self, topic: str, index: int, replicas: Sequence[int], live: set[int]) -> None:
        """Make the first live replica the leader.

        ``live`` is the cluster's set of brokers that are up.
        """
        self.topic = topic
        self.index = index
        self.replicas = list(replicas)
        # Brokers that a reassignment in progress adds and removes.
        self.adding: list[int] = []
        self.removing: list[int] = []
        self._target: list[int] = []
        self._settled: list[int] = []
        self._live = live
        self.leader = next(iter(self.in_sync()), NO_LEADER)
        self.leader_epoch = 0
        self.log = PartitionLog()
        self.log.begin_epoch(self.leader_epoch)
        self.waiters: set[Waiter] = set()
        self.lags: dict[int, int] = {}  # how many records a follower lacks
        self.directories: dict[int, str] = {}  # the log directory on each broker, if changed

    def in_sync(self) -> list[int]:
        """Return the replicas that are up and not being added. All of them are in sync."""
        return [node for node in self.replicas if node in self._live and node not in self.adding]

    @property
    def is_moving(self) -> bool:
        """Whether a reassignment is in progress."""
        return bool(self._target)

    @property
    def settled_replicas(self) -> list[int]:
        """The replicas without a reassignment in progress."""
        return self._settled if self._target else self.replicas

    def begin_move(self, target: Sequence[int]) -> None:
        """Start a reassignment. It replaces one in progress."""
        self._settled, self._target = list(self.settled_replicas), list(target)
        self.adding = [node for node in target if node not in self._settled]
        self.removing = [node for node in self._settled if node not in target]
        self.replicas = [*target, *self.removing]

    def end_move(self) -> None:
        """Complete the reassignment, if any.

        The partition gets a new leader if its old one is removed.
        """
        if self._target:
            self._settle(self._target)

    def cancel_move(self) -> None:
        """Cancel the reassignment in progress."""
        self._settle(self._settled)

    def _settle(self, replicas: list[int]) -> None:
        self.replicas, self._target, self.adding, self.removing = replicas, [], [], []
        if self.leader not in replicas:
            self.lead(next(iter(self.in_sync()), NO_LEADER))

    def end_at(self, broker: int) -> int:
        """Return the end offset of a replica's log."""
        if broker == self.leader or not self.lags:
            return self.log.end_offset
        return max(self.log.end_offset - self.lags.get(broker, 0), self.log.start_offset)

    def lead(self, broker: int) -> None:
        """Make a broker the leader, in a new leader epoch."""
        self.leader = broker
        self.leader_epoch += 1
        self.log.begin_epoch(self.leader_epoch)
        if broker != NO_LEADER and broker not in self.replicas:
            self.replicas.append(broker)
        self.wake()

    def wake(self) -> None:
        """Wake every waiting fetch, so that it reads again."""
        for waiter in self.waiters:
            waiter.event.set()


class Topic:
    """A topic: partitions, id and settings."""

    def __init__(
        self,
        name: str,
        replicas: Sequence[Sequence[int]],
        configs: Mapping[str, str | None],
        live: set[int],
        topic_id: bytes | None = None,
    ) -> None:
        """Make a partition for each list of replicas.

        ``live`` is the cluster's set of live brokers. ``topic_id`` None makes a new id.
        """
        self.name = name
        self.id = topic_id or uuid.uuid4().bytes
        self.configs = {key: value for key, value in configs.items() if value is not None}
        self._live = live
        self.partitions: list[Partition] = []
        self.grow(replicas)

    def grow(self, replicas: Sequence[Sequence[int]]) -> None:
        """Add a partition for each list of replicas."""
        for nodes in replicas:
            self.partitions.append(Partition(self.name, len(self.partitions), nodes, self._live))

    def partition(self, index: int) -> Partition | None:
        """Return a partition by its number, or None."""
        return self.partitions[index] if 0 <= index < len(self.partitions) else None

    @property
    def is_internal(self) -> bool:
        """Whether the topic belongs to a coordinator."""
        return self.name in INTERNAL_TOPICS

    def config(self, name: str) -> str:
        """Return a setting, or its default."""
        return self.configs.get(name, TOPIC_SETTINGS[name].default or "")

    def max_message_bytes(self, default: int) -> int:
        """Return the size of the largest batch that this topic accepts."""
        value = self.configs.get("max.message.bytes", "")
        return int(value) if value.isdigit() else default

    @property
    def own_retention_ms(self) -> int | None:
        """How long the topic keeps records by its own setting, or None."""
        age_ms = int(self.configs.get("retention.ms", "-1"))
        is_deleted = "delete" in self.config("cleanup.policy").split(",")
        return age_ms if age_ms >= 0 and is_deleted else None

    @property
    def is_compacted(self) -> bool:
        """Whether the topic is compacted, so that every record needs a key."""
        return "compact" in self.config("cleanup.policy").split(",")

    @property
    def has_append_time(self) -> bool:
        """Whether the broker sets the timestamps of batches."""
        return self.config("message.timestamp.type") == "LogAppendTime"
