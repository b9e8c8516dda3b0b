"""Calls about the cluster and its settings."""

from __future__ import annotations

import warnings
from concurrent.futures import Future
from functools import partial

from kafka_native.admin import _config_operations as config_operations
from kafka_native.admin import _topic_operations as topic_operations
from kafka_native.admin._calls import Calls
from kafka_native.admin._checks import broker_id, flag, list_of, set_of
from kafka_native.admin._cluster import DescribeClusterResult
from kafka_native.admin._config import ConfigEntry, ConfigResource
from kafka_native.admin._resource import ResourceType
from kafka_native.types import ClusterMetadata, Uuid


class ClusterCalls(Calls):
    """Calls about the cluster and its settings."""

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> ClusterMetadata:
        """The cluster's brokers, topics and partitions; waits for them.

        :param topic: Only this topic; None for all.
        :param timeout: Seconds to wait; negative waits for ever.
        :raises KafkaException: No broker answered in time.
        """
        self._check_open()
        return self._client.list_topics(topic, timeout)

    def cluster_id(self, timeout: float = -1) -> str | None:
        """The cluster's id (KIP-78), None of one before 0.10.1; waits for it.

        :param timeout: Seconds to wait; negative waits for ever.
        :raises KafkaException: No broker answered in time.
        """
        self._check_open()
        return self._client.cluster_id(timeout)

    def client_instance_id(self, timeout: float = -1) -> Uuid:
        """The id under which metrics would be pushed, which this client does not; see `Producer.client_instance_id`."""
        self._check_open()
        return self._client.client_instance_id(timeout)

    def describe_cluster(
        self,
        *,
        include_authorized_operations: bool = False,
        include_fenced_brokers: bool = False,
        request_timeout: float = -1,
    ) -> Future[DescribeClusterResult]:
        """Describes the cluster: its id, its brokers, which of them is asked for changes.

        :param include_authorized_operations: Also tell what this client may do to it (KIP-430).
        :param include_fenced_brokers: Also tell brokers that are registered and not at work (KIP-1073): their
            ``Node.is_fenced``. A cluster before 4.0 can't be asked for them (_UNSUPPORTED_FEATURE or _INVALID_ARG).
        :return: One future.
        """
        operations = flag("include_authorized_operations", include_authorized_operations)
        fenced = flag("include_fenced_brokers", include_fenced_brokers)
        make = partial(topic_operations.ask_cluster, operations, fenced)
        steps_of = partial(topic_operations.describe_cluster, operations, fenced)
        return self._begin([(None, None)], make, steps_of, self._request_timeout(request_timeout))[None]

    def describe_configs(
        self,
        resources: list[ConfigResource],
        *,
        include_documentation: bool = False,
        request_timeout: float = -1,
        broker: int = -1,
    ) -> dict[ConfigResource, Future[dict[str, ConfigEntry]]]:
        """Tells the settings of topics, brokers and groups, log levels of brokers (KIP-412), client metrics resources.

        :param resources: Whose. A broker is asked for its own.
        :param include_documentation: Also tell what each is for (KIP-569); a broker before 2.6 can't be asked for it
            (_INVALID_ARG).
        :param broker: The broker to ask for all of them; -1: whoever it belongs to.
        :return: A future a resource: its settings by name.
        """
        items = [(each, config_operations.described(each)) for each in list_of(resources, ConfigResource)]
        steps_of = partial(config_operations.of_resources, broker_id(broker))
        make = partial(config_operations.describe_configs, flag("include_documentation", include_documentation))
        return self._begin(items, make, steps_of, self._request_timeout(request_timeout))

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
        items = [(each, config_operations.replaced(each)) for each in list_of(resources, ConfigResource)]
        make = partial(config_operations.alter_configs, bool(validate_only))
        steps_of = partial(config_operations.of_resources, broker_id(broker))
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

        Also the log levels of a broker (KIP-412), and client metrics resources, which come to be by it (KIP-714).

        :param resources: Whose; their ``incremental_configs`` are the changes.
        :param broker: The broker to ask; -1: whoever it belongs to.
        :return: A future a resource: None when it is done.
        """
        items = [(each, config_operations.altered(each)) for each in list_of(resources, ConfigResource)]
        make = partial(config_operations.incremental_alter_configs, bool(validate_only))
        steps_of = partial(config_operations.of_resources, broker_id(broker))
        return self._begin(items, make, steps_of, self._request_timeout(request_timeout))

    def list_config_resources(
        self, config_resource_types: set[ResourceType] | None = None, *, request_timeout: float = -1
    ) -> Future[list[ConfigResource]]:
        """Lists what has settings (KIP-1142).

        :param config_resource_types: Only these kinds; None or empty for all. A broker before 4.1 knows CLIENT_METRICS
            only, and for others the call fails with _UNSUPPORTED_FEATURE.
        :return: One future: the resources; a kind that only a newer broker knows is UNKNOWN.
        """
        kinds = set_of("config_resource_types", config_resource_types, ResourceType)
        unfit = sorted(each.name for each in kinds if each not in config_operations.ON_WIRE)
        if unfit:
            raise ValueError(f"{unfit[0]} is no kind of what has settings")
        items = [(None, list(kinds))]
        timeout_s = self._request_timeout(request_timeout)
        return self._begin(items, config_operations.ask_resources, config_operations.list_resources, timeout_s)[None]
