"""Calls about the cluster and its settings."""

from __future__ import annotations

import warnings
from concurrent.futures import Future
from functools import partial

from kafka_native.admin import _config_errands as config_errands
from kafka_native.admin import _topic_errands as topic_errands
from kafka_native.admin._calls import CLOSED_TEXT, Calls
from kafka_native.admin._checks import broker_id, flag, list_of
from kafka_native.admin._cluster import DescribeClusterResult
from kafka_native.admin._config import ConfigEntry, ConfigResource
from kafka_native.types import ClusterMetadata


class ClusterCalls(Calls):
    """Calls about the cluster and its settings."""

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> ClusterMetadata:
        """The cluster's brokers, topics and partitions; waits for them.

        :param topic: Only this topic; None for all.
        :param timeout: Seconds to wait; negative waits for ever.
        :raises KafkaException: No broker answered in time.
        """
        self._client.check_open(CLOSED_TEXT)
        return self._client.list_topics(topic, timeout)

    def cluster_id(self, timeout: float = -1) -> str | None:
        """The cluster's id (KIP-78), None of one before 0.10.1; waits for it.

        :param timeout: Seconds to wait; negative waits for ever.
        :raises KafkaException: No broker answered in time.
        """
        self._client.check_open(CLOSED_TEXT)
        return self._client.cluster_id(timeout)

    def describe_cluster(
        self, *, include_authorized_operations: bool = False, request_timeout: float = -1
    ) -> Future[DescribeClusterResult]:
        """Describes the cluster: its id, its brokers, which of them is asked for changes.

        :param include_authorized_operations: Also tell what this client may do to it (KIP-430).
        :return: One future.
        """
        operations = flag("include_authorized_operations", include_authorized_operations)
        make = partial(topic_errands.ask_cluster, operations)
        steps_of = partial(topic_errands.describe_cluster, operations)
        return self._begin([(None, None)], make, steps_of, self._request_timeout(request_timeout))[None]

    def describe_configs(
        self, resources: list[ConfigResource], *, request_timeout: float = -1, broker: int = -1
    ) -> dict[ConfigResource, Future[dict[str, ConfigEntry]]]:
        """Tells the settings of topics, brokers and groups.

        :param resources: Whose. A broker is asked for its own.
        :param broker: The broker to ask for all of them; -1: whoever it belongs to.
        :return: A future a resource: its settings by name.
        """
        items = [(each, config_errands.described(each)) for each in list_of(resources, ConfigResource)]
        steps_of = partial(config_errands.of_resources, broker_id(broker))
        return self._begin(items, config_errands.describe_configs, steps_of, self._request_timeout(request_timeout))

    def alter_configs(
        self,
        resources: list[ConfigResource],
        *,
        validate_only: bool = False,
        request_timeout: float = -1,
        broker: int = -1,
    ) -> dict[ConfigResource, Future[None]]:
        """Replaces all settings of topics, brokers and groups: what isn't named goes back to its default.

        Deprecated: two programs that use it undo each other's changes. `incremental_alter_configs()` doesn't.

        :param resources: Whose, with ``set_config`` for each setting.
        :param broker: The broker to ask; -1: whoever it belongs to.
        :return: A future a resource: None when it is done.
        """
        text = "alter_configs has been deprecated. Use incremental_alter_configs instead."
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        items = [(each, config_errands.replaced(each)) for each in list_of(resources, ConfigResource)]
        make = partial(config_errands.alter_configs, bool(validate_only))
        steps_of = partial(config_errands.of_resources, broker_id(broker))
        return self._begin(items, make, steps_of, self._request_timeout(request_timeout))

    def incremental_alter_configs(
        self,
        resources: list[ConfigResource],
        *,
        validate_only: bool = False,
        request_timeout: float = -1,
        broker: int = -1,
    ) -> dict[ConfigResource, Future[None]]:
        """Changes some settings of topics, brokers and groups, and leaves the others alone (KIP-339).

        :param resources: Whose; their ``incremental_configs`` are the changes.
        :param broker: The broker to ask; -1: whoever it belongs to.
        :return: A future a resource: None when it is done.
        """
        items = [(each, config_errands.altered(each)) for each in list_of(resources, ConfigResource)]
        make = partial(config_errands.incremental_alter_configs, bool(validate_only))
        steps_of = partial(config_errands.of_resources, broker_id(broker))
        return self._begin(items, make, steps_of, self._request_timeout(request_timeout))
