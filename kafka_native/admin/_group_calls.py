"""Calls about groups and their offsets."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, overload

from kafka_native.admin import _group_operations as group_operations
from kafka_native.admin import _offset_operations as offset_operations
from kafka_native.admin._calls import Calls
from kafka_native.admin._checks import (
    check_partitions,
    flag,
    group_name,
    list_of,
    offsets_of_groups,
    once,
    one_group,
    set_of,
)
from kafka_native.admin._group import ConsumerGroupDescription, ListConsumerGroupsResult
from kafka_native.admin._metadata import GroupMetadata
from kafka_native.control.main_thread import bound_s
from kafka_native.deadlines import seconds
from kafka_native.errors import KafkaError
from kafka_native.protocol.schema import Request
from kafka_native.types import ConsumerGroupState, ConsumerGroupTopicPartitions, ConsumerGroupType, TopicPartition


class GroupCalls(Calls):
    """Calls about groups and their offsets."""

    def list_groups(
        self,
        group: str | None = None,
        timeout: float = -1,
        *,
        states: set[ConsumerGroupState] | None = None,
        types: set[ConsumerGroupType] | None = None,
    ) -> list[GroupMetadata]:
        """The groups that the brokers know, of every kind, classic ones with their members; waits for them.

        :param group: Only this one; None for all.
        :param timeout: Seconds to wait; negative waits for ever.
        :param states: Only groups that are doing this (KIP-518); None or empty for all.
        :param types: Only groups of these protocols (KIP-848, KIP-1043); None or empty for all.
        :raises KafkaException: A broker didn't answer in time.
        """
        wanted = self._groups(group, timeout, states, types)
        found: list[GroupMetadata] = self._client.main.outcome(wanted, bound_s(timeout))
        return found

    def _groups(
        self,
        group: str | None,
        timeout: float,
        states: set[ConsumerGroupState] | None,
        types: set[ConsumerGroupType] | None,
    ) -> Future[list[GroupMetadata]]:
        if group is not None and not isinstance(group, str):
            raise TypeError(f"group must be a str or None, not {type(group).__name__}")
        make = _listing(states, types)
        return self._begin([(None, None)], make, partial(group_operations.describe_all, group), seconds(timeout))[None]

    def list_consumer_groups(
        self,
        *,
        states: set[ConsumerGroupState] | None = None,
        types: set[ConsumerGroupType] | None = None,
        request_timeout: float = -1,
    ) -> Future[ListConsumerGroupsResult]:
        """Lists the groups of consumers, of every broker; share and streams groups where ``types`` names them.

        :param states: Only groups that are doing this (KIP-518); None or empty for all.
        :param types: Only groups of these protocols (KIP-848, KIP-1043); None or empty for those of consumers.
        :return: One future: the groups, and an error for each broker that didn't answer.
        """
        make = _listing(states, types)
        others = frozenset(name for kind, name in group_operations.OTHERS.items() if kind in (types or ()))
        steps_of = partial(group_operations.list_consumer_groups, group_operations.OF_CONSUMERS | others)
        return self._begin([(None, None)], make, steps_of, self._request_timeout(request_timeout))[None]

    def describe_consumer_groups(
        self, group_ids: list[str], *, include_authorized_operations: bool = False, request_timeout: float = -1
    ) -> dict[str, Future[ConsumerGroupDescription]]:
        """Describes groups of consumers, of either protocol, with their members. One that isn't there is DEAD.

        :param group_ids: Their ids.
        :param include_authorized_operations: Also tell what this client may do to them (KIP-430).
        :return: A future a group, by id.
        """
        operations = flag("include_authorized_operations", include_authorized_operations)
        groups = [(each, each) for each in list_of(group_ids, str)]
        make = partial(group_operations.describe_groups, operations)
        steps_of = partial(group_operations.describe_consumer_groups, operations)
        return self._begin(groups, make, steps_of, self._request_timeout(request_timeout))

    def delete_consumer_groups(self, group_ids: list[str], *, request_timeout: float = -1) -> dict[str, Future[None]]:
        """Deletes groups that have no members, of any type, with their committed offsets.

        :param group_ids: Their ids.
        :return: A future a group, by id: None when it is gone; KafkaException, for instance NON_EMPTY_GROUP.
        """
        groups = [(each, each) for each in list_of(group_ids, str)]
        timeout_s = self._request_timeout(request_timeout)
        return self._begin(groups, group_operations.delete_groups, group_operations.delete_consumer_groups, timeout_s)

    def list_consumer_group_offsets(
        self,
        list_consumer_group_offsets_request: list[ConsumerGroupTopicPartitions],
        *,
        require_stable: bool = False,
        request_timeout: float = -1,
    ) -> dict[str, Future[ConsumerGroupTopicPartitions]]:
        """Tells what groups have committed; those of one coordinator are asked about together (KIP-709).

        :param list_consumer_group_offsets_request: Groups, each with the partitions; None for all it has offsets of.
        :param require_stable: Wait for transactions that are about to change them (KIP-447).
        :return: A future by each group's id. A partition without an offset has OFFSET_INVALID.
        """
        groups = offsets_of_groups(list_consumer_group_offsets_request, "listing")
        make = partial(offset_operations.fetch_offsets, flag("require_stable", require_stable))
        timeout_s = self._request_timeout(request_timeout)
        items = [(each.group_id, once(each)) for each in groups]
        return self._begin(items, make, offset_operations.list_consumer_group_offsets, timeout_s)

    def alter_consumer_group_offsets(
        self,
        alter_consumer_group_offsets_request: list[ConsumerGroupTopicPartitions],
        *,
        request_timeout: float = -1,
    ) -> dict[str, Future[ConsumerGroupTopicPartitions]]:
        """Commits offsets for a group that has no members.

        :param alter_consumer_group_offsets_request: One group, and its partitions with their new offsets.
        :return: A future by the group's id. A partition has an ``error`` where its offset wasn't committed:
            UNKNOWN_MEMBER_ID while the group has members.
        """
        group = one_group(alter_consumer_group_offsets_request)
        make = offset_operations.commit_offsets
        timeout_s = self._request_timeout(request_timeout)
        items = [(group.group_id, once(group))]
        return self._begin(items, make, offset_operations.alter_consumer_group_offsets, timeout_s)

    def delete_consumer_group_offsets(
        self, group_id: str, partitions: list[TopicPartition], *, request_timeout: float = -1
    ) -> dict[TopicPartition, Future[None]]:
        """Forgets a group's committed offsets (KIP-496). Its members may go on with other topics meanwhile.

        :param group_id: Its id.
        :param partitions: Whose offsets.
        :return: A future a partition: None when it is forgotten; KafkaException, for instance
            GROUP_SUBSCRIBED_TO_TOPIC while a member reads the topic.
        """
        group, asked = group_name(group_id), list_of(partitions, TopicPartition)
        check_partitions(asked)
        timeout_s = self._request_timeout(request_timeout)
        make = partial(offset_operations.forget_offsets, group)
        steps_of = partial(offset_operations.delete_consumer_group_offsets, group)
        return self._begin([(each, each) for each in asked], make, steps_of, timeout_s)

    @overload
    def remove_members_from_consumer_group(
        self, group_id: str, members: None = None, *, reason: str | None = None, request_timeout: float = -1
    ) -> Future[dict[str, KafkaError | None]]: ...

    @overload
    def remove_members_from_consumer_group(
        self, group_id: str, members: list[str], *, reason: str | None = None, request_timeout: float = -1
    ) -> dict[str, Future[None]]: ...

    def remove_members_from_consumer_group(
        self, group_id: str, members: list[str] | None = None, *, reason: str | None = None, request_timeout: float = -1
    ) -> Any:
        """Removes members from a group (KIP-345, KIP-571); one that lives joins again, unless it is static.

        :param group_id: The group's id.
        :param members: The ``group.instance.id`` of each; None for all members, static or not.
        :param reason: What the brokers' logs shall say (KIP-800).
        :return: A future a member, by instance id: None when it is gone; KafkaException, for instance
            UNKNOWN_MEMBER_ID. For None one future: what became of each, by member id; None: it is gone.
        """
        group, timeout_s = group_name(group_id), self._request_timeout(request_timeout)
        if reason is not None and not isinstance(reason, str):
            raise TypeError(f"reason must be a str or None, not {type(reason).__name__}")
        if members is None:
            make = partial(group_operations.some_members, group, reason)
            steps_of = partial(group_operations.remove_all_members, group, reason)
            return self._begin([(None, None)], make, steps_of, timeout_s)[None]
        items = [(each, each) for each in list_of(members, str)]
        if not all(name for name, _ in items):
            raise ValueError("a group.instance.id cannot be empty")
        make = partial(group_operations.static_members, group, reason)
        return self._begin(items, make, partial(group_operations.remove_members, group), timeout_s)


def _listing(
    states: set[ConsumerGroupState] | None, types: set[ConsumerGroupType] | None
) -> Callable[[list[Any]], Request]:
    """The request for such groups."""
    kinds = set_of("types", types, ConsumerGroupType)
    if ConsumerGroupType.UNKNOWN in kinds:
        raise ValueError("UNKNOWN type is not allowed")
    state_names = [group_operations.STATE_NAMES[each] for each in set_of("states", states, ConsumerGroupState)]
    return partial(group_operations.list_groups, state_names, [group_operations.TYPE_NAMES[each] for each in kinds])
