"""Calls about groups and their offsets."""

from __future__ import annotations

from concurrent.futures import Future
from functools import partial

from kafka_native.admin import _group_errands as group_errands
from kafka_native.admin import _offset_errands as offset_errands
from kafka_native.admin._calls import Calls
from kafka_native.admin._checks import flag, list_of, once, one_group, set_of
from kafka_native.admin._group import ConsumerGroupDescription, ListConsumerGroupsResult
from kafka_native.admin._metadata import GroupMetadata
from kafka_native.control.main_thread import bound_s
from kafka_native.types import ConsumerGroupState, ConsumerGroupTopicPartitions, ConsumerGroupType


class GroupCalls(Calls):
    """Calls about groups and their offsets."""

    def list_groups(self, group: str | None = None, timeout: float = -1) -> list[GroupMetadata]:
        """The groups that the brokers know, of consumers or not, with their members; waits for them.

        :param group: Only this one; None for all.
        :param timeout: Seconds to wait; negative waits for ever.
        :raises KafkaException: A broker didn't answer in time.
        """
        if group is not None and not isinstance(group, str):
            raise TypeError(f"group must be a str or None, not {type(group).__name__}")
        make = partial(group_errands.list_groups, [], [])
        future = self._begin([(None, None)], make, partial(group_errands.describe_all, group), timeout)[None]
        found: list[GroupMetadata] = self._client.main.outcome(future, bound_s(timeout))
        return found

    def list_consumer_groups(
        self,
        *,
        states: set[ConsumerGroupState] | None = None,
        types: set[ConsumerGroupType] | None = None,
        request_timeout: float = -1,
    ) -> Future[ListConsumerGroupsResult]:
        """Lists the groups of consumers, of every broker.

        :param states: Only groups that are doing this (KIP-518); None or empty for all.
        :param types: Only groups of these protocols (KIP-848); None or empty for all.
        :return: One future: the groups, and an error for each broker that didn't answer.
        """
        kinds = set_of("types", types, ConsumerGroupType)
        if ConsumerGroupType.UNKNOWN in kinds:
            raise ValueError("UNKNOWN type is not allowed")
        state_names = [group_errands.STATE_NAMES[each] for each in set_of("states", states, ConsumerGroupState)]
        make = partial(group_errands.list_groups, state_names, [group_errands.TYPE_NAMES[each] for each in kinds])
        timeout_s = self._request_timeout(request_timeout)
        return self._begin([(None, None)], make, group_errands.list_consumer_groups, timeout_s)[None]

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
        make = partial(group_errands.describe_groups, operations)
        steps_of = partial(group_errands.describe_consumer_groups, operations)
        return self._begin(groups, make, steps_of, self._request_timeout(request_timeout))

    def delete_consumer_groups(self, group_ids: list[str], *, request_timeout: float = -1) -> dict[str, Future[None]]:
        """Deletes groups that have no members, with their committed offsets.

        :param group_ids: Their ids.
        :return: A future a group, by id: None when it is gone; KafkaException, for instance NON_EMPTY_GROUP.
        """
        groups = [(each, each) for each in list_of(group_ids, str)]
        timeout_s = self._request_timeout(request_timeout)
        return self._begin(groups, group_errands.delete_groups, group_errands.delete_consumer_groups, timeout_s)

    def list_consumer_group_offsets(
        self,
        list_consumer_group_offsets_request: list[ConsumerGroupTopicPartitions],
        *,
        require_stable: bool = False,
        request_timeout: float = -1,
    ) -> dict[str, Future[ConsumerGroupTopicPartitions]]:
        """Tells a group's committed offsets.

        :param list_consumer_group_offsets_request: One group, and the partitions; None for all that it has offsets of.
        :param require_stable: Wait for transactions that are about to change them (KIP-447).
        :return: A future by the group's id. A partition without an offset has OFFSET_INVALID.
        """
        group = one_group(list_consumer_group_offsets_request, "listing")
        make = partial(offset_errands.fetch_offsets, flag("require_stable", require_stable))
        timeout_s = self._request_timeout(request_timeout)
        return self._begin([(group.group_id, once(group))], make, offset_errands.list_consumer_group_offsets, timeout_s)

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
        group = one_group(alter_consumer_group_offsets_request, "altering")
        make = offset_errands.commit_offsets
        timeout_s = self._request_timeout(request_timeout)
        items = [(group.group_id, once(group))]
        return self._begin(items, make, offset_errands.alter_consumer_group_offsets, timeout_s)
