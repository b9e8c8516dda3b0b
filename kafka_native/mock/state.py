"""The state of the mock cluster that request handlers read and change.

One lock, ``lock``, guards topics, logs, sessions and groups. A thread holds it for look-ups and
appends. No thread holds it while it reads or writes a socket, computes a checksum or waits.
"""

from __future__ import annotations

import secrets
import threading
import zlib
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka_native._reference.error_codes import ErrorCode
from kafka_native.mock.access import Access
from kafka_native.mock.faults import Faults
from kafka_native.mock.group_registry import NO_COORDINATOR, Groups
from kafka_native.mock.log import Refused
from kafka_native.mock.quorum import TRANSACTION_VERSION, Quorum
from kafka_native.mock.quotas import Quotas
from kafka_native.mock.requests import RequestLog
from kafka_native.mock.share_groups import ShareGroups
from kafka_native.mock.telemetry import Telemetry
from kafka_native.mock.topics import (
    INTERNAL_PARTITIONS,
    INTERNAL_REPLICAS_MAX,
    INTERNAL_TOPICS,
    NO_LEADER,
    Topic,
    is_valid_name,
)
from kafka_native.mock.transactions import Transactions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafka_native.mock.clock import Clock
    from kafka_native.mock.membership import Committed, GroupSettings
    from kafka_native.mock.resources import Resources
    from kafka_native.mock.security import ListenerSecurity
    from kafka_native.mock.server import Broker
    from kafka_native.mock.share_partitions import ShareSettings
    from kafka_native.mock.topics import Partition, Waiter

PARTITIONS_MAX = 10_000


@dataclass
class ClusterSettings:
    """The settings of the cluster. Tests may change them at any time.

    ``MockCluster`` describes them. ``versions`` has the first and the last version of each API,
    ``static`` the settings of all brokers that only DescribeConfigs shows.
    """

    auto_create_topics: bool
    default_partitions: int
    replication_factor: int
    message_max_bytes: int
    retention_bytes: int | None
    leader_hints: bool
    partial_batches: bool
    versions: Mapping[int, tuple[int, int]]
    security_protocol: str
    static: Mapping[str, str]
    internal_topics: bool


class ClusterState:
    """The brokers, topics, groups and everything else that the brokers of a cluster share.

    Methods that change something need ``lock``, unless they say otherwise.
    """

    def __init__(
        self,
        settings: ClusterSettings,
        group_settings: GroupSettings,
        share_settings: ShareSettings,
        quorum: Quorum,
        resources: Resources,
        security: ListenerSecurity,
        clock: Clock,
        *,
        client_metrics: bool,
    ) -> None:
        """Start without brokers and topics."""
        self.settings = settings
        self.cluster_id = secrets.token_urlsafe(16)
        self.lock = threading.RLock()
        self.faults, self.clock = Faults(), clock
        self.topics: dict[str, Topic] = {}
        self.waiters: set[Waiter] = set()
        self.groups = Groups(self.lock, group_settings, self.topics, self.clock)
        self.share = ShareGroups(self.lock, share_settings, self.topics, self.clock)
        self.access = Access()
        self.telemetry = Telemetry() if client_metrics else None
        self.sasl = security.sasl(self.lock, self.access, self.faults)
        self.quotas, self.resources = Quotas(), resources
        self.quorum = quorum
        self.reassignments_held = False
        self.transactions = Transactions(self.write_marker, self._store_offsets, self.clock)
        self.requests = RequestLog()
        self.brokers: dict[int, Broker] = {}
        self._topic_ids: dict[bytes, Topic] = {}
        self._live: set[int] = set()
        # The partitions of all batches, oldest first. Empty without a limit.
        self._kept: deque[Partition] = deque()
        self._kept_bytes = 0

    # --- brokers ---

    def add_broker(self, broker: Broker) -> None:
        """Register a broker. ``unfence_broker()`` adds it to the metadata."""
        self.brokers[broker.id] = broker

    def fence_broker(self, broker: int) -> None:
        """Remove a broker from metadata and leadership."""
        self._live.discard(broker)
        for partition in self.partitions():
            if partition.leader == broker:
                partition.lead(next(iter(partition.in_sync()), NO_LEADER))

    def unfence_broker(self, broker: int) -> None:
        """Add a broker to the metadata. It leads its partitions that have no leader."""
        if broker in self._live:
            return
        self._live.add(broker)
        self.quorum.unregistered.discard(broker)
        self.quorum.controllers.add(broker)
        for partition in self.partitions():
            if partition.leader == NO_LEADER and broker in partition.replicas:
                partition.lead(broker)

    def forget_earlier_batches(self, broker: int) -> None:
        """Keep the last batch of each producer in the partitions that this broker leads."""
        for partition in self.partitions():
            if partition.leader == broker:
                partition.log.forget_earlier_batches()

    def clear_live_brokers(self) -> None:
        """Remove every broker from the metadata. The partitions keep their leaders."""
        self._live.clear()

    def live_brokers(self) -> list[Broker]:
        """Return the brokers that are up."""
        return [broker for broker in self.brokers.values() if broker.id in self._live]

    def fenced_brokers(self) -> list[Broker]:
        """Return the brokers that are registered but not up."""
        excluded = self._live | self.quorum.unregistered
        return [broker for broker in self.brokers.values() if broker.id not in excluded]

    @property
    def transaction_version(self) -> int:
        """The level of the feature ``transaction.version``."""
        return self.quorum.levels[TRANSACTION_VERSION]

    def rack_of(self, broker: int) -> str | None:
        """Return the rack of a broker."""
        return self.brokers[broker].rack

    def controller_id(self) -> int:
        """Return the controller: the lowest broker that is up, or -1."""
        return min(self._live, default=-1)

    def coordinator_of(self, key: str) -> Broker | None:
        """Return the coordinator of a group or transactional id, or None.

        A test can choose it. Otherwise a hash of the key selects a broker, or the next one that is
        up.
        """
        live = self.live_brokers()
        moved = self.groups.coordinators.moved.get(key)
        if moved == NO_COORDINATOR or not live:
            return None
        if moved is not None:
            return next((broker for broker in live if broker.id == moved), None)
        wanted = 1 + zlib.crc32(key.encode("utf-8", "surrogatepass")) % len(self.brokers)
        return next((broker for broker in live if broker.id >= wanted), live[0])

    # --- topics ---

    def topic_by_id(self, topic_id: bytes) -> Topic | None:
        """Return the topic with this id, or None."""
        return self._topic_ids.get(topic_id)

    def partitions(self) -> list[Partition]:
        """Return every partition of the cluster."""
        return [partition for topic in self.topics.values() for partition in topic.partitions]

    def plan_topic(
        self,
        name: str,
        partitions: int | None,
        replication_factor: int | None,
        assignment: Sequence[Sequence[int]] | None,
    ) -> list[list[int]]:
        """Return the replicas of a new topic's partitions. Raises ``Refused``."""
        if not is_valid_name(name):
            raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name!r} is not a valid topic name")
        if name in self.topics:
            raise Refused(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name} exists")
        if assignment is not None:
            return self._checked_assignment(assignment)
        count = self.settings.default_partitions if partitions is None else partitions
        if not 1 <= count <= PARTITIONS_MAX:
            raise Refused(
                ErrorCode.INVALID_PARTITIONS,
                f"a topic has 1 to {PARTITIONS_MAX} partitions, not {count}",
            )
        factor = (
            self.settings.replication_factor if replication_factor is None else replication_factor
        )
        if not 1 <= factor <= len(self.brokers):
            text = f"replication factor {factor} with {len(self.brokers)} brokers"
            raise Refused(ErrorCode.INVALID_REPLICATION_FACTOR, text)
        return [self._replicas(index, factor) for index in range(count)]

    def _replicas(self, partition: int, factor: int) -> list[int]:
        ids = list(self.brokers)
        return [ids[(partition + step) % len(ids)] for step in range(factor)]

    def _checked_assignment(self, assignment: Sequence[Sequence[int]]) -> list[list[int]]:
        for nodes in assignment:
            if not nodes or len(set(nodes)) != len(nodes) or not set(nodes) <= set(self.brokers):
                raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"replicas {list(nodes)}")
        return [list(nodes) for nodes in assignment]

    def add_topic(
        self,
        name: str,
        replicas: Sequence[Sequence[int]],
        configs: Mapping[str, str | None],
        topic_id: bytes | None = None,
    ) -> Topic:
        """Create a topic with the replicas from ``plan_topic()``. None makes a new topic id."""
        topic = Topic(name, replicas, configs, self._live, topic_id)
        self.topics[name] = self._topic_ids[topic.id] = topic
        return topic

    def ensure_internal_topic(self, name: str) -> None:
        """Create a coordinator's topic when the coordinator is first used."""
        if self.settings.internal_topics and name not in self.topics:
            factor = min(len(self.brokers), INTERNAL_REPLICAS_MAX)
            replicas = [self._replicas(index, factor) for index in range(INTERNAL_PARTITIONS)]
            self.add_topic(name, replicas, INTERNAL_TOPICS[name])

    def make_topic(self, name: str) -> Topic:
        """Create a topic with the defaults, as automatic creation does."""
        if name in INTERNAL_TOPICS and self.settings.internal_topics:
            self.ensure_internal_topic(name)
            return self.topics[name]
        return self.add_topic(name, self.plan_topic(name, None, None, None), {})

    def remove_topic(self, topic: Topic) -> None:
        """Delete a topic, and wake the fetches that wait for it."""
        del self.topics[topic.name]
        del self._topic_ids[topic.id]
        self.groups.forget_topic(topic.name)
        for partition in topic.partitions:
            # The entries of the partition in ``_kept`` are without effect from now on.
            self.move_start(partition, partition.log.end_offset)
            partition.wake()

    def grow_topic(
        self,
        name: str,
        count: int,
        assignment: Sequence[Sequence[int]] | None,
        *,
        only_check: bool = False,
    ) -> None:
        """Increase a topic's partitions. Takes the lock. Raises ``Refused``."""
        with self.lock:
            topic = self.topics.get(name)
            if topic is None:
                raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
            known = len(topic.partitions)
            if not known < count <= PARTITIONS_MAX:
                raise Refused(
                    ErrorCode.INVALID_PARTITIONS,
                    f"the topic has {known} partitions, it can't have {count}",
                )
            if assignment is None:
                factor = len(topic.partitions[0].replicas)
                replicas = [
                    self._replicas(index, min(factor, len(self.brokers)))
                    for index in range(known, count)
                ]
            else:
                replicas = self._checked_assignment(assignment)
                if len(replicas) != count - known:
                    raise Refused(
                        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                        "each new partition needs an assignment",
                    )
            if not only_check:
                topic.grow(replicas)

    # --- logs ---

    def count_append(self, partition: Partition, size_bytes: int) -> None:
        """Count a batch that was stored, and wake the fetches that wait for it."""
        if self.settings.retention_bytes is not None:
            self._kept.append(partition)
            self._kept_bytes += size_bytes
        if partition.waiters:
            partition.wake()

    def count_restored(self, partition: Partition) -> None:
        """Count the batches of a partition from a file."""
        if self.settings.retention_bytes is not None:
            self._kept.extend([partition] * partition.log.batch_count())
            self._kept_bytes += partition.log.size_bytes

    def move_start(self, partition: Partition, offset: int) -> None:
        """Move the first offset of a partition forward."""
        freed = partition.log.truncate_before(offset)
        if self.settings.retention_bytes is not None:
            self._kept_bytes -= freed

    def enforce_retention(self) -> None:
        """Drop the oldest batches that exceed the retention limit. Takes the lock."""
        limit = self.settings.retention_bytes
        if limit is None or self._kept_bytes <= limit:
            return
        with self.lock:
            while self._kept_bytes > limit and len(self._kept) > 1:
                partition = self._kept.popleft()
                if partition.log.size_bytes:
                    self._kept_bytes -= partition.log.drop_oldest()

    def enforce_retention_times(self) -> None:
        """Delete batches that are older than the own ``retention.ms`` of their topic.

        Takes the lock.
        """
        with self.lock:
            now_ms = self.clock.time_ms()
            for topic in self.topics.values():
                age_ms = topic.own_retention_ms
                if age_ms is None:
                    continue
                for partition in topic.partitions:
                    offset = partition.log.first_offset_since(now_ms - age_ms)
                    if offset > partition.log.start_offset:
                        self.move_start(partition, offset)
                        partition.wake()

    def write_marker(
        self, key: tuple[str, int], producer_id: int, epoch: int, commit: bool
    ) -> None:
        """End a producer's transaction in a partition. Call it under the lock."""
        topic = self.topics.get(key[0])
        partition = None if topic is None else topic.partition(key[1])
        if partition is not None:
            now = self.clock.time_ms()
            size = partition.log.end_transaction(
                producer_id, epoch, now, partition.leader_epoch, commit=commit
            )
            self.count_append(partition, size)

    def _store_offsets(self, group: str, offsets: dict[tuple[str, int], Committed]) -> None:
        self.groups.for_commit(group).offsets.update(offsets)

    # --- waiting requests ---

    def wake_requests(self) -> None:
        """Wake every waiting request, so that it checks its connection. Takes the lock."""
        with self.lock:
            for waiter in self.waiters:
                waiter.event.set()
            self.groups.wake()
