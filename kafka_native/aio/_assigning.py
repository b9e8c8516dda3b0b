"""What an AIOConsumer asks and sets, one coroutine a call of `kafka_native.Consumer`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from kafka_native._native.message import Message
from kafka_native.aio._loop import Asking
from kafka_native.consumer import Consumer, OnCommit
from kafka_native.errors import KafkaError
from kafka_native.statistics import ClientMetrics
from kafka_native.types import ClusterMetadata, ConsumerGroupMetadata, TopicPartition, Uuid

T = TypeVar("T")


def kept(partitions: T) -> T:
    """What can be read twice: a call is made again once it has its answer. What is wrong is left to the call."""
    return list(partitions) if isinstance(partitions, Iterator) else partitions  # type: ignore[return-value]


class AIOAssigning:
    """The half of `AIOConsumer` whose calls are the sync consumer's, awaited."""

    _core: Consumer
    _asking: Asking

    # --- assignment ---

    async def assign(self, partitions: list[TopicPartition]) -> None:
        """Reads these partitions from now on, and no others; see `Consumer.assign`."""
        await self._asking.ask(self._core.assign, kept(partitions))

    async def unassign(self) -> None:
        """Reads nothing any more; see `Consumer.unassign`."""
        await self._asking.ask(self._core.unassign)

    async def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        """Reads these partitions, too; see `Consumer.incremental_assign`."""
        await self._asking.ask(self._core.incremental_assign, kept(partitions))

    async def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        """Reads these partitions no more; see `Consumer.incremental_unassign`."""
        await self._asking.ask(self._core.incremental_unassign, kept(partitions))

    async def assignment(self) -> list[TopicPartition]:
        """The partitions that are read."""
        return await self._asking.ask(self._core.assignment)

    # --- positions ---

    async def position(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """The next offset to be handed out of each partition; see `Consumer.position`."""
        return self._core.position(partitions)

    async def seek(self, partition: TopicPartition | list[TopicPartition]) -> None:
        """Goes on at ``partition.offset``; see `Consumer.seek`."""
        await self._asking.ask(self._core.seek, kept(partition))

    async def seek_to_beginning(self, partitions: list[TopicPartition] | None = None) -> None:
        """Goes on at the first message of each of these partitions; None: of all that are assigned."""
        await self._asking.ask(self._core.seek_to_beginning, kept(partitions))

    async def seek_to_end(self, partitions: list[TopicPartition] | None = None) -> None:
        """Goes on behind the last message of each of these partitions; None: of all that are assigned."""
        await self._asking.ask(self._core.seek_to_end, kept(partitions))

    async def seek_to_time(
        self, timestamp_ms: int, partitions: list[TopicPartition] | None = None, timeout: float = -1
    ) -> None:
        """Goes on at the first message of each partition that isn't older; see `Consumer.seek_to_time`."""
        await self._asking.ask(self._core.seek_to_time, timestamp_ms, kept(partitions), timeout)

    async def pause(self, partitions: list[TopicPartition]) -> None:
        """Hands out no messages of these partitions until `resume()`; see `Consumer.pause`."""
        await self._asking.ask(self._core.pause, kept(partitions))

    async def resume(self, partitions: list[TopicPartition]) -> None:
        """Undoes `pause()`."""
        await self._asking.ask(self._core.resume, kept(partitions))

    async def paused(self) -> list[TopicPartition]:
        """Those of the assigned partitions that are paused."""
        return await self._asking.ask(self._core.paused)

    # --- offsets ---

    async def commit(
        self,
        message: Message | None = None,
        offsets: list[TopicPartition] | None = None,
        asynchronous: bool = True,
    ) -> list[TopicPartition] | None:
        """Commits offsets to the group; see `Consumer.commit`.

        :param asynchronous: Don't wait for the outcome: ``on_commit`` tells. False: the partitions are returned, each
            with its ``error`` or None.
        """
        return await self._asking.ask(self._core.commit, message, kept(offsets), asynchronous)

    async def store_offsets(self, message: Message | None = None, offsets: list[TopicPartition] | None = None) -> None:
        """Stores offsets for the next commit; see `Consumer.store_offsets`."""
        await self._asking.ask(self._core.store_offsets, message, kept(offsets))

    async def committed(self, partitions: list[TopicPartition], timeout: float = -1) -> list[TopicPartition]:
        """What the group has committed of these partitions; see `Consumer.committed`."""
        return await self._asking.ask(self._core.committed, kept(partitions), timeout)

    async def offsets_for_times(self, partitions: list[TopicPartition], timeout: float = -1) -> list[TopicPartition]:
        """The offset of the first message that isn't older than a time; see `Consumer.offsets_for_times`."""
        return await self._asking.ask(self._core.offsets_for_times, kept(partitions), timeout)

    async def get_watermark_offsets(
        self, partition: TopicPartition, timeout: float = -1, cached: bool = False
    ) -> tuple[int, int]:
        """The partition's first offset and the one after its last message; see `Consumer.get_watermark_offsets`."""
        return await self._asking.ask(self._core.get_watermark_offsets, partition, timeout, cached)

    async def lag(self) -> dict[TopicPartition, int | None]:
        """How many offsets the application is behind the end of each assigned partition; see `Consumer.current_lag`."""
        return await self._asking.ask(self._core.lag)

    @property
    def on_commit(self) -> OnCommit | None:
        """Called with (error, partitions) when a commit is through; may be a coroutine function."""
        return self._core.on_commit

    @on_commit.setter
    def on_commit(self, callback: OnCommit | None) -> None:
        self._core.on_commit = callback

    # --- the group and the cluster ---

    async def subscription(self) -> list[str]:
        """The topics and patterns that are subscribed to."""
        return await self._asking.ask(self._core.subscription)

    def memberid(self) -> str | None:
        """The id that the group's coordinator has given this member; None while it is no member."""
        return self._core.memberid()

    async def enforce_rebalance(self, reason: str = "") -> None:
        """Joins the group anew, so that partitions are assigned again; see `Consumer.enforce_rebalance`."""
        await self._asking.ask(self._core.enforce_rebalance, reason)

    async def consumer_group_metadata(self) -> ConsumerGroupMetadata:
        """Who this consumer is in its group; see `Consumer.consumer_group_metadata`."""
        return await self._asking.ask(self._core.consumer_group_metadata)

    async def metrics(self) -> ClientMetrics:
        """What this client has counted; see `Consumer.metrics`."""
        return await self._asking.ask(self._core.metrics)

    async def list_topics(self, topic: str | None = None, timeout: float = -1) -> ClusterMetadata:
        """The cluster's brokers, topics and partitions; see `Producer.list_topics`."""
        return await self._asking.ask(self._core.list_topics, topic, timeout)

    async def cluster_id(self, timeout: float = -1) -> str | None:
        """The cluster's id; see `Producer.cluster_id`."""
        return await self._asking.ask(self._core.cluster_id, timeout)

    async def client_instance_id(self, timeout: float = -1) -> Uuid:
        """The id under which this client's metrics are pushed; see `Producer.client_instance_id`."""
        return await self._asking.ask(self._core.client_instance_id, timeout)

    def fatal_error(self) -> KafkaError | None:
        """What has ended this consumer for good, None: nothing; see `Consumer.fatal_error`."""
        return self._core.fatal_error()
