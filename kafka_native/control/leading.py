"""What the leader of a classic group does beside being a member: it knows all topics, assigns, and watches them.

Thread: the control thread only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from kafka_native.control.assignors import Assignor, MemberSubscription, PartitionInfo, run, wire
from kafka_native.control.requests import NEVER
from kafka_native.logs import Logger
from kafka_native.protocol.groups import JoinGroupResponse, SyncGroupRequest

if TYPE_CHECKING:
    from kafka_native.control.brokers.pool import BrokerPool
    from kafka_native.control.group.subscription import Subscription
    from kafka_native.control.metadata import Metadata, Topic

METADATA_S = 5.0
"""How long an assignment waits for metadata of topics that are new to this client: then it does without them."""


class Leading:
    """The leader's part in one generation after the other. Between `end()` and `begin()` this member leads none."""

    def __init__(
        self,
        metadata: Metadata,
        pool: BrokerPool,
        subscription: Subscription,
        on_change: Callable[[str], None],
        logger: Logger,
    ) -> None:
        """``on_change(reason)``: topics aren't what they were when they were assigned."""
        self._metadata = metadata
        self._pool = pool
        self._subscription = subscription
        self._on_change = on_change
        self._logger = logger
        self._assignor: Assignor | None = None
        self._members: dict[str, MemberSubscription] = {}
        self._topics: set[str] = set()
        self._guests: set[str] = set()  # topics that only other members want
        self._counts: dict[str, int | None] = {}  # what is watched; None: not known so far, whatever comes is no news
        self._wait_until = NEVER
        metadata.on_topic.append(self._on_topic)
        metadata.on_failure.append(lambda topic, error: self._on_topic(topic))

    def begin(self, assignor: Assignor, reply: JoinGroupResponse, own: Iterable[str], now: float) -> None:
        """The members and their subscriptions, as the coordinator passes them on; ``own``: this member's topics."""
        self._assignor = assignor
        self._members, warnings = wire.unpack_subscriptions(reply.members, reply.generation_id)
        for warning in warnings:
            self._logger.warning("%s", warning)
        self._topics = set(own).union(*(each.topics for each in self._members.values()))
        self._guests = self._topics - self._metadata.topics.keys()
        for name in self._topics:
            self._metadata.want(name, now)
        self._wait_until = now + METADATA_S

    def watch(self) -> None:
        """The group goes on with the assignment that it has: from now on changes of the topics count."""
        self._counts = {name: self._count(name) or None for name in self._topics}

    def end(self) -> None:
        """It doesn't lead any more, or not this generation."""
        for name in self._guests - set(self._subscription.topics):
            self._metadata.forget(name)
        self._assignor = None
        self._members = {}
        self._topics = set()
        self._guests = set()
        self._counts = {}

    def _count(self, name: str) -> int:
        topic = self._metadata.topics.get(name)
        return len(topic.partitions) if topic is not None and topic.known else 0

    def ready_at(self, now: float) -> float:
        """Until when metadata are waited for: not later than now when all that can be known is."""
        topics = (self._metadata.topics.get(name) for name in self._topics)
        unanswered = any(
            topic is not None and not topic.known and topic.failed is None and topic.missing_since is None
            for topic in topics
        )
        return self._wait_until if unanswered else now

    def assign(self) -> list[SyncGroupRequest.Assignment]:
        """Each member's assignment in wire form.

        :raises KafkaException: _FAIL: the assignor raises, or what it returns can't be.
        """
        assert self._assignor is not None
        counts = {name: self._count(name) for name in self._topics}
        missing = sorted(name for name, count in counts.items() if not count)
        if missing:
            self._logger.info("subscribed topics that don't exist: %s", ", ".join(missing[:10]))
        partitions = {name: self._partitions(name) for name, count in counts.items() if count}
        assignment = run(self._assignor, partitions, self._members)
        for member_id, keys in assignment.items():
            self._logger.debug("%s gives %d partition(s) to %s", self._assignor.name, len(keys), member_id)
        self._counts = dict(counts)
        return [
            SyncGroupRequest.Assignment(member_id=member_id, assignment=wire.pack_assignment(keys))
            for member_id, keys in assignment.items()
        ]

    def _partitions(self, name: str) -> list[PartitionInfo]:
        racks: dict[int, str] = {
            node_id: broker.rack for node_id, broker in self._pool.nodes.items() if broker.rack is not None
        }
        found = []
        for number, partition in enumerate(self._metadata.topics[name].partitions):
            replicas = partition.replicas if racks else ()
            found.append(PartitionInfo(number, frozenset(racks[each] for each in replicas if each in racks)))
        return found

    def _on_topic(self, topic: Topic) -> None:
        if topic.name not in self._counts:
            return
        before, count = self._counts[topic.name], self._count(topic.name)
        if count == before:
            return
        self._counts[topic.name] = count
        if before is not None:
            self._on_change(f"topic {topic.name} has {count} partitions, no longer {before}")
