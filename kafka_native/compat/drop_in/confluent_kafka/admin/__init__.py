"""confluent_kafka's name for `kafka_native.admin`, with its AdminClient."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from kafka_native import admin
from kafka_native.admin import *

from .. import _admin_checks as _checks
from .._model import ConsumerGroupState as _ConsumerGroupState
from .._model import ConsumerGroupTopicPartitions as _ConsumerGroupTopicPartitions
from .._model import ConsumerGroupType as _ConsumerGroupType
from .._model import ElectionType as _ElectionType
from .._model import IsolationLevel as _IsolationLevel
from .._model import TopicCollection as _TopicCollection
from ..cimpl import NewPartitions, NewTopic, _AdminClientImpl
from ..cimpl import TopicPartition as _TopicPartition
from . import (
    _acl,
    _cluster,
    _config,
    _group,
    _listoffsets,
    _metadata,
    _records,
    _resource,
    _scram,
    _topic,
)

string_type = str

__all__ = [*admin.__all__]


def _as_there(method: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a call kafka_native's signature. With kafka_native's own options, it makes its call."""
    own: Callable[..., Any] = getattr(admin.AdminClient, method.__name__)
    extensions = _EXTENSIONS.get(method.__name__, frozenset())

    @functools.wraps(own)
    def call(self: AdminClient, *args: Any, **kwargs: Any) -> Any:
        if extensions and extensions & kwargs.keys():
            return own(self, *args, **kwargs)
        return method(self, *args, **kwargs)

    return call


_EXTENSIONS = {
    "create_topics": frozenset({"include_metadata"}),
    "describe_configs": frozenset({"include_documentation"}),
    "describe_cluster": frozenset({"include_fenced_brokers"}),
}
"""The options of confluent_kafka's calls that only kafka_native has."""


class AdminClient(_AdminClientImpl):  # type: ignore[no-redef]  # in place of the star import's
    """A `kafka_native.admin.AdminClient` that behaves like confluent_kafka's.

    The futures of one call are done at the same time.
    """

    _create_future = staticmethod(_checks.new_future)

    @functools.wraps(admin.AdminClient.list_groups)
    def list_groups(self, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        text = (
            "list_groups() is deprecated, use list_consumer_groups() "
            "and describe_consumer_groups() instead."
        )
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        return super().list_groups(*args, **kwargs)

    @_as_there
    def create_topics(self, new_topics: Any, **options: Any) -> Any:
        whole, futures = _checks.futures_for([each.topic for each in new_topics], _checks.by_topic)
        super().create_topics(new_topics, whole, **options)
        return futures

    @_as_there
    def delete_topics(self, topics: Any, **options: Any) -> Any:
        whole, futures = _checks.futures_for(topics, _checks.by_topic)
        super().delete_topics(topics, whole, **options)
        return futures

    @_as_there
    def create_partitions(self, new_partitions: Any, **options: Any) -> Any:
        topics = [each.topic for each in new_partitions]
        whole, futures = _checks.futures_for(topics, _checks.by_topic)
        super().create_partitions(new_partitions, whole, **options)
        return futures

    @_as_there
    def describe_configs(self, resources: Any, **options: Any) -> Any:
        whole, futures = _checks.futures_for(resources, _checks.by_resource, admin.ConfigResource)
        super().describe_configs(resources, whole, **options)
        return futures

    @_as_there
    def alter_configs(self, resources: Any, **options: Any) -> Any:
        text = "alter_configs has been deprecated. Use incremental_alter_configs instead."
        warnings.warn(text, DeprecationWarning, stacklevel=3)
        whole, futures = _checks.futures_for(resources, _checks.by_resource, admin.ConfigResource)
        super().alter_configs(resources, whole, **options)
        return futures

    @_as_there
    def incremental_alter_configs(self, resources: Any, **options: Any) -> Any:
        whole, futures = _checks.futures_for(
            resources, _checks.by_resource, admin.ConfigResource, TypeError
        )
        super().incremental_alter_configs(resources, whole, **options)
        return futures

    @_as_there
    def create_acls(self, acls: Any, **options: Any) -> Any:
        _checks.check_no_duplicates(acls, "ACL bindings")
        whole, futures = _checks.futures_for(acls, _checks.in_order, admin.AclBinding)
        super().create_acls(acls, whole, **options)
        return futures

    @_as_there
    def describe_acls(self, acl_binding_filter: Any, **options: Any) -> Any:
        future = _checks.new_future()
        super().describe_acls(acl_binding_filter, future, **options)
        return future

    @_as_there
    def delete_acls(self, acl_binding_filters: Any, **options: Any) -> Any:
        _checks.check_no_duplicates(acl_binding_filters, "ACL binding filters")
        whole, futures = _checks.futures_for(
            acl_binding_filters, _checks.in_order, admin.AclBindingFilter
        )
        super().delete_acls(acl_binding_filters, whole, **options)
        return futures

    @_as_there
    def list_consumer_groups(self, **options: Any) -> Any:
        kinds = {"states": _ConsumerGroupState, "types": _ConsumerGroupType}
        for name in kinds.keys() & options.keys():
            given = options.pop(name)
            if given is not None:
                _checks.check_members(name, given, kinds[name])
                options[f"{name}_int"] = [each.value for each in given]
        future = _checks.new_future()
        super().list_consumer_groups(future, **options)
        return future

    @_as_there
    def describe_consumer_groups(self, group_ids: Any, **options: Any) -> Any:
        _checks.check_groups(group_ids, "described")
        whole, futures = _checks.futures_for(group_ids, _checks.in_order)
        super().describe_consumer_groups(group_ids, whole, **options)
        return futures

    @_as_there
    def describe_topics(self, topics: Any, **options: Any) -> Any:
        if not isinstance(topics, _TopicCollection):
            raise TypeError("Expected input to be instance of TopicCollection")
        whole, futures = _checks.futures_for(topics.topic_names, _checks.in_order)
        super().describe_topics(topics.topic_names, whole, **options)
        return futures

    @_as_there
    def describe_cluster(self, **options: Any) -> Any:
        future = _checks.new_future()
        super().describe_cluster(future, **options)
        return future

    @_as_there
    def delete_consumer_groups(self, group_ids: Any, **options: Any) -> Any:
        _checks.check_groups(group_ids, "deleted")
        whole, futures = _checks.futures_for(group_ids, _checks.in_order, str)
        super().delete_consumer_groups(group_ids, whole, **options)
        return futures

    @_as_there
    def list_consumer_group_offsets(
        self, list_consumer_group_offsets_request: Any, **options: Any
    ) -> Any:
        request = list_consumer_group_offsets_request
        _checks.check_listed_offsets(request)
        whole, futures = _checks.futures_for(
            [each.group_id for each in request], _checks.in_order, str
        )
        super().list_consumer_group_offsets(request, whole, **options)
        return futures

    @_as_there
    def alter_consumer_group_offsets(
        self, alter_consumer_group_offsets_request: Any, **options: Any
    ) -> Any:
        request = alter_consumer_group_offsets_request
        _checks.check_altered_offsets(request)
        whole, futures = _checks.futures_for(
            [each.group_id for each in request], _checks.in_order, str
        )
        super().alter_consumer_group_offsets(request, whole, **options)
        return futures

    @_as_there
    def describe_user_scram_credentials(self, users: Any = None, **options: Any) -> Any:
        _checks.check_users(users)
        if users is None:
            whole = _checks.new_future()
            super().describe_user_scram_credentials(None, whole, **options)
            return whole
        whole, futures = _checks.futures_for(users, _checks.by_key)
        super().describe_user_scram_credentials(users, whole, **options)
        return futures

    @_as_there
    def alter_user_scram_credentials(self, alterations: Any, **options: Any) -> Any:
        _checks.check_alterations(alterations)
        whole, futures = _checks.futures_for({each.user for each in alterations}, _checks.by_key)
        super().alter_user_scram_credentials(alterations, whole, **options)
        return futures

    @_as_there
    def list_offsets(self, topic_partition_offsets: Any, **options: Any) -> Any:
        _checks.check_specs(topic_partition_offsets, options)
        if "isolation_level" in options:
            options["isolation_level_value"] = options.pop("isolation_level").value
        wanted = [
            _TopicPartition(partition.topic, int(partition.partition), int(spec._value))
            for partition, spec in topic_partition_offsets.items()
        ]
        whole, futures = _checks.futures_for(wanted, _checks.by_key)
        super().list_offsets(wanted, whole, **options)
        return futures

    @_as_there
    def delete_records(self, topic_partition_offsets: Any, **options: Any) -> Any:
        _checks.check_records(topic_partition_offsets)
        whole, futures = _checks.futures_for(topic_partition_offsets, _checks.by_key)
        super().delete_records(topic_partition_offsets, whole, **options)
        return futures

    @_as_there
    def elect_leaders(self, election_type: Any, partitions: Any = None, **options: Any) -> Any:
        _checks.check_election(election_type, partitions)
        future = _checks.new_future()
        super().elect_leaders(election_type.value, partitions, future, **options)
        return future
