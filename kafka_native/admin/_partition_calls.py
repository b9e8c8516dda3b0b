"""Calls about where partitions live: on which brokers, in which directories."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any

from kafka_native.admin import _partition_operations as partition_operations
from kafka_native.admin._calls import Calls
from kafka_native.admin._checks import check_partitions, flag, list_of, node_id
from kafka_native.admin._partitions import (
    LogDirDescription,
    NewPartitionReassignment,
    PartitionReassignment,
    ReplicaLogDirInfo,
    TopicPartitionReplica,
    TopicPartitionsCursor,
    TopicPartitionsPage,
)
from kafka_native.types import TopicCollection, TopicPartition

if TYPE_CHECKING:
    from typing_extensions import Self


class TopicPartitionsPages:
    """The pages of `describe_topic_partitions()`, to be iterated over with ``for`` or ``async for``.

    A page is asked for when it is wanted, so there is one of them in memory. An error of a page (KafkaException) ends
    the iteration; the next call of ``next()`` asks for that page once more.
    """

    def __init__(self, ask: Callable[[TopicPartitionsCursor | None], Future[TopicPartitionsPage]]) -> None:
        """AdminClient makes them."""
        self._ask = ask
        self._cursor: TopicPartitionsCursor | None = None
        self._over = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> TopicPartitionsPage:
        if self._over:
            raise StopIteration
        return self._turn(self._ask(self._cursor).result())

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> TopicPartitionsPage:
        if self._over:
            raise StopAsyncIteration
        return self._turn(await asyncio.wrap_future(self._ask(self._cursor)))

    def _turn(self, page: TopicPartitionsPage) -> TopicPartitionsPage:
        self._cursor = page.next_cursor
        self._over = page.next_cursor is None
        return page


class PartitionCalls(Calls):
    """Calls about where partitions live: on which brokers, in which directories."""

    def alter_partition_reassignments(
        self,
        reassignments: Mapping[TopicPartition, NewPartitionReassignment | None],
        *,
        allow_replication_factor_change: bool = True,
        request_timeout: float = -1,
        operation_timeout: float = -1,
    ) -> dict[TopicPartition, Future[None]]:
        """Moves partitions to other brokers, or cancels such moves (KIP-455). They go on after the answer.

        :param reassignments: Where each partition is to be; None takes its move back.
        :param allow_replication_factor_change: Whether a partition may have more or fewer replicas than before; before
            4.1 a broker can't be told that it may not (KIP-860), and the call fails with _INVALID_ARG.
        :return: A future a partition: None when its move has begun; KafkaException, for instance
            NO_REASSIGNMENT_IN_PROGRESS, INVALID_REPLICA_ASSIGNMENT.
        """
        if not isinstance(reassignments, Mapping):
            raise TypeError(f"expected a dict of partitions, not {type(reassignments).__name__}")
        if not reassignments:
            raise ValueError("Expected non-empty dict of partitions")
        check_partitions(reassignments)
        for each in reassignments.values():
            if each is not None and not isinstance(each, NewPartitionReassignment):
                raise TypeError(f"expected a NewPartitionReassignment or None, not {type(each).__name__}")
        allowed = flag("allow_replication_factor_change", allow_replication_factor_change)
        timeout_s, timeout_ms = self._timeouts(request_timeout, operation_timeout)
        make = partial(partition_operations.reassign, allowed, timeout_ms)
        items = [(place, (place, new)) for place, new in reassignments.items()]
        return self._begin(items, make, partition_operations.alter_reassignments, timeout_s)

    def list_partition_reassignments(
        self,
        partitions: list[TopicPartition] | None = None,
        *,
        request_timeout: float = -1,
        operation_timeout: float = -1,
    ) -> Future[dict[TopicPartition, PartitionReassignment]]:
        """Tells which partitions are on their way to other brokers (KIP-455).

        :param partitions: Only these; None for all.
        :return: One future: those that move.
        """
        wanted = None if partitions is None else list_of(partitions, TopicPartition, least=0)
        check_partitions(wanted or ())
        timeout_s, timeout_ms = self._timeouts(request_timeout, operation_timeout)
        make = partial(partition_operations.ask_reassignments, timeout_ms)
        return self._begin([(None, wanted)], make, partition_operations.list_reassignments, timeout_s)[None]

    def describe_log_dirs(
        self, brokers: list[int], *, request_timeout: float = -1
    ) -> dict[int, Future[dict[str, LogDirDescription]]]:
        """Tells brokers' log directories: what they hold, and how large that is (KIP-113).

        :param brokers: The ids of the brokers.
        :return: A future a broker, by id: its directories by path.
        """
        items = [(number, number) for number in map(node_id, list_of(brokers, int))]
        timeout_s = self._request_timeout(request_timeout)
        return self._begin(items, partition_operations.ask_log_dirs, partition_operations.describe_log_dirs, timeout_s)

    def describe_replica_log_dirs(
        self, replicas: list[TopicPartitionReplica], *, request_timeout: float = -1
    ) -> dict[TopicPartitionReplica, Future[ReplicaLogDirInfo]]:
        """Tells in which log directories replicas are, and where they are being moved to (KIP-113).

        :param replicas: Each a broker's copy of a partition.
        :return: A future a replica: its directories, None for the path where the broker doesn't have it.
        """
        asked = list_of(replicas, TopicPartitionReplica)
        for each in asked:
            _check_replica(each)
        make, steps_of = partition_operations.ask_replicas, partition_operations.describe_replicas
        return self._begin([(each, each) for each in asked], make, steps_of, self._request_timeout(request_timeout))

    def alter_replica_log_dirs(
        self, replica_assignment: Mapping[TopicPartitionReplica, str], *, request_timeout: float = -1
    ) -> dict[TopicPartitionReplica, Future[None]]:
        """Moves replicas to other log directories of their brokers (KIP-113). They are copied after the answer.

        :param replica_assignment: The path of the directory that each is to be in, as the broker's ``log.dirs`` has it.
        :return: A future a replica: None when it has begun; KafkaException, for instance LOG_DIR_NOT_FOUND, or
            REPLICA_NOT_AVAILABLE where the broker doesn't have it: when it gets it, it will be in that directory.
        """
        if not isinstance(replica_assignment, Mapping):
            raise TypeError(f"expected a dict of replicas, not {type(replica_assignment).__name__}")
        if not replica_assignment:
            raise ValueError("Expected non-empty dict of replicas")
        for replica, path in replica_assignment.items():
            if not isinstance(replica, TopicPartitionReplica):
                raise TypeError(f"expected a TopicPartitionReplica, not {type(replica).__name__}")
            if not isinstance(path, str):
                raise TypeError(f"a log directory must be a str, not {type(path).__name__}")
            if not path:
                raise ValueError("the path of a log directory cannot be empty")
            _check_replica(replica)
        items = [(replica, (replica, path)) for replica, path in replica_assignment.items()]
        timeout_s = self._request_timeout(request_timeout)
        return self._begin(items, partition_operations.move_replicas, partition_operations.alter_log_dirs, timeout_s)

    def describe_topic_partitions(
        self, topics: TopicCollection | None = None, *, partition_limit: int = 2000, request_timeout: float = -1
    ) -> TopicPartitionsPages:
        """Describes topics page by page, with the replicas that may be elected although they are out of sync (KIP-966).

            for page in admin.describe_topic_partitions():
                for topic in page.topics:
                    print(topic.name, [each.leader for each in topic.partitions])

        A topic with many partitions is on several pages. A broker before 3.8 tells everything on one page, whatever
        ``partition_limit`` is, and no eligible replicas.

        :param topics: Their names; None for all.
        :param partition_limit: The most partitions of a page, 1 or more; the broker's own limit is
            ``max.request.partition.size.limit``.
        :param request_timeout: Of each page.
        :return: The pages, an iterator that waits for each.
        """
        if topics is not None and not isinstance(topics, TopicCollection):
            raise TypeError("Expected input to be instance of TopicCollection")
        names = [] if topics is None else sorted(set(list_of(topics.topic_names, str)))
        limit = operator.index(partition_limit)
        if not 1 <= limit < 1 << 31:
            raise ValueError(f"partition_limit must be 1 or more, not {limit}")
        timeout_s = self._request_timeout(request_timeout)
        make = partial(partition_operations.ask_page, limit)

        def ask(cursor: TopicPartitionsCursor | None) -> Future[Any]:
            return self._begin([(None, (names, cursor))], make, partition_operations.describe_page, timeout_s)[None]

        return TopicPartitionsPages(ask)


def _check_replica(replica: TopicPartitionReplica) -> None:
    """TypeError and ValueError for what can't be one."""
    check_partitions([TopicPartition(replica.topic, replica.partition)])
    node_id(replica.broker_id)
