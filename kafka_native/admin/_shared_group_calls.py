"""Calls about share groups and streams groups, with the names of Java's Admin."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any

from kafka_native.admin import _shared_group_operations as operations
from kafka_native.admin._checks import check_partitions, flag, group_name, list_of
from kafka_native.admin._group_calls import GroupCalls
from kafka_native.admin._shared_groups import (
    ShareGroupDescription,
    SharePartitionOffsetInfo,
    StreamsGroupDescription,
)
from kafka_native.errors import KafkaError
from kafka_native.protocol.schema import Request
from kafka_native.types import TopicPartition


class SharedGroupCalls(GroupCalls):
    """Calls about groups whose members aren't consumers."""

    # --- share groups (KIP-932) ---

    def describe_share_groups(
        self, group_ids: list[str], *, include_authorized_operations: bool = False, request_timeout: float = -1
    ) -> dict[str, Future[ShareGroupDescription]]:
        """Describes share groups (KIP-932) with their members.

        :param group_ids: Their ids.
        :param include_authorized_operations: Also tell what this client may do to them (KIP-430).
        :return: A future a group, by id; KafkaException, for instance GROUP_ID_NOT_FOUND.
        """
        make = partial(operations.describe_share, flag("include_authorized_operations", include_authorized_operations))
        return self._describe(group_ids, make, operations.share_group, request_timeout)

    def list_share_group_offsets(
        self, groups: Mapping[str, list[TopicPartition] | None], *, request_timeout: float = -1
    ) -> dict[str, Future[dict[TopicPartition, SharePartitionOffsetInfo | KafkaError | None]]]:
        """Tells how far share groups are (KIP-932), and how much is left to do (KIP-1226).

        :param groups: The partitions by group id; None for all that a group has offsets of.
        :return: A future a group, by id. A partition is None where the group has no offset of it yet, and a KafkaError
            where it can't be told.
        """
        if not isinstance(groups, Mapping):
            raise TypeError(f"expected a mapping of group ids to partitions, not {type(groups).__name__}")
        if not groups:
            raise ValueError("Expected non-empty mapping of group ids to partitions")
        items: list[tuple[str, Any]] = []
        for group_id, given in groups.items():
            partitions = None if given is None else list_of(given, TopicPartition)
            check_partitions(partitions or ())
            items.append((group_name(group_id), (group_id, partitions)))
        timeout_s = self._request_timeout(request_timeout)
        return self._begin(items, operations.find_share_offsets, operations.list_share_offsets, timeout_s)

    def alter_share_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int], *, request_timeout: float = -1
    ) -> dict[TopicPartition, Future[None]]:
        """Lets a share group without members go on elsewhere (KIP-932).

        :param group_id: Its id.
        :param offsets: Where, by partition.
        :return: A future a partition: None when it is done; KafkaException, for instance NON_EMPTY_GROUP.
        """
        group = group_name(group_id)
        if not isinstance(offsets, Mapping):
            raise TypeError(f"expected a mapping of partitions to offsets, not {type(offsets).__name__}")
        check_partitions(list_of(list(offsets), TopicPartition))
        items = [(each, _start(each, offset)) for each, offset in offsets.items()]
        make = partial(operations.set_share_offsets, group)
        steps_of = partial(operations.alter_share_offsets, group)
        return self._begin(items, make, steps_of, self._request_timeout(request_timeout))

    def delete_share_group_offsets(
        self, group_id: str, topics: list[str], *, request_timeout: float = -1
    ) -> dict[str, Future[None]]:
        """Lets a share group without members forget topics (KIP-932); it begins anew when it subscribes again.

        :param group_id: Its id.
        :param topics: Their names.
        :return: A future a topic: None when it is forgotten; KafkaException, for instance NON_EMPTY_GROUP.
        """
        group = group_name(group_id)
        items = [(each, each) for each in list_of(topics, str)]
        make = partial(operations.forget_share_topics, group)
        steps_of = partial(operations.delete_share_offsets, group)
        return self._begin(items, make, steps_of, self._request_timeout(request_timeout))

    delete_share_groups = GroupCalls.delete_consumer_groups

    # --- streams groups (KIP-1071) ---

    def describe_streams_groups(
        self, group_ids: list[str], *, include_authorized_operations: bool = False, request_timeout: float = -1
    ) -> dict[str, Future[StreamsGroupDescription]]:
        """Describes groups of Kafka Streams (KIP-1071) with their members and their topology.

        :param group_ids: Their ids.
        :param include_authorized_operations: Also tell what this client may do to them (KIP-430).
        :return: A future a group, by id; KafkaException, for instance GROUP_ID_NOT_FOUND.
        """
        make = partial(
            operations.describe_streams, flag("include_authorized_operations", include_authorized_operations)
        )
        return self._describe(group_ids, make, operations.streams_group, request_timeout)

    def _describe(
        self,
        group_ids: list[str],
        make: Callable[[list[str]], Request],
        read: Callable[..., Any],
        request_timeout: float,
    ) -> dict[str, Future[Any]]:
        groups = [(each, each) for each in list_of(group_ids, str)]
        steps_of = partial(operations.describe_groups, read)
        return self._begin(groups, make, steps_of, self._request_timeout(request_timeout))

    # A streams group's offsets are kept as those of consumers: the requests are the same ones, as in Java's Admin.
    list_streams_group_offsets = GroupCalls.list_consumer_group_offsets
    alter_streams_group_offsets = GroupCalls.alter_consumer_group_offsets
    delete_streams_group_offsets = GroupCalls.delete_consumer_group_offsets
    delete_streams_groups = GroupCalls.delete_consumer_groups


def _start(partition: TopicPartition, offset: Any) -> tuple[TopicPartition, int] | KafkaError:
    """The item, or why it can't be sent."""
    if isinstance(offset, bool) or not isinstance(offset, int):
        raise TypeError(f"an offset must be an int, not {type(offset).__name__}")
    if offset < 0:
        return KafkaError(KafkaError._INVALID_ARG, f"an offset cannot be negative, {offset} is")
    return partition, offset
