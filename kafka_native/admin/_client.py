"""AdminClient: manages topics, settings and groups of a cluster."""

from __future__ import annotations

import queue
import time
import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future
from functools import partial
from types import TracebackType
from typing import Any, TypeAlias, TypeVar, overload

from kafka_native.admin import _config_errands as config_errands
from kafka_native.admin import _group_errands as group_errands
from kafka_native.admin import _offset_errands as offset_errands
from kafka_native.admin import _security_errands as security_errands
from kafka_native.admin import _topic_errands as topic_errands
from kafka_native.admin._acl import AclBinding, AclBindingFilter
from kafka_native.admin._checks import (
    alterations_of,
    bindings,
    broker_id,
    check_partitions,
    checked_timeout,
    distinct,
    flag,
    list_of,
    once,
    one_group,
    set_of,
    user_names,
)
from kafka_native.admin._cluster import DescribeClusterResult
from kafka_native.admin._config import ConfigEntry, ConfigResource
from kafka_native.admin._group import ConsumerGroupDescription, ListConsumerGroupsResult
from kafka_native.admin._listoffsets import ListOffsetsResultInfo, OffsetSpec
from kafka_native.admin._metadata import GroupMetadata
from kafka_native.admin._records import DeletedRecords
from kafka_native.admin._scram import UserScramCredentialAlteration, UserScramCredentialsDescription
from kafka_native.admin._topic import NewPartitions, NewTopic, TopicDescription
from kafka_native.client import Client
from kafka_native.config import parse
from kafka_native.control.errands import UNANSWERED, Errand, Errands, Settle, Steps
from kafka_native.control.main_thread import FOR_EVER_S, bound_s
from kafka_native.control.settings import connection_settings, consumer_settings, producer_settings
from kafka_native.control.versions import adapted
from kafka_native.errors import KafkaError, KafkaException
from kafka_native.protocol import ProtocolError
from kafka_native.protocol.schema import Request
from kafka_native.statistics import ClientMetrics
from kafka_native.types import (
    ClusterMetadata,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    ElectionType,
    IsolationLevel,
    TopicCollection,
    TopicPartition,
)

K = TypeVar("K", bound=Hashable)
StepsOf: TypeAlias = Callable[[Callable[[list[Any]], Request], dict[Any, Any], Settle, Errand], Steps[None]]

CLOSED_TEXT = "AdminClient has been closed"


class _Handle(Client):
    """A client whose callbacks wait for `AdminClient.poll()`."""

    def __init__(self, *args: Any) -> None:
        self.callbacks: queue.SimpleQueue[Callable[[], Any]] = queue.SimpleQueue()
        super().__init__(*args)

    def call_back(self, callback: Callable[[], Any]) -> None:
        self.callbacks.put(callback)


class AdminClient:
    """Manages a cluster: topics, settings, groups, offsets.

        admin = AdminClient({"bootstrap.servers": "localhost:9092"})
        for topic, future in admin.create_topics([NewTopic("greetings", 3)]).items():
            future.result()  # None, or KafkaException

    Calls return at once; the futures are completed by the client's own thread, which `add_done_callback()` must not
    hold up, and fail with KafkaException. What one item of a call fails with concerns its future only. Where a broker
    isn't in charge any more, the one that is gets asked, until the time is over. A change whose connection breaks
    before the answer fails with _TRANSPORT: it may have been made.

    Options of the calls, by keyword:

    - ``request_timeout``: seconds for the whole call, 0 to 3600; -1: ``socket.timeout.ms``.
    - ``operation_timeout``: seconds that the broker may take before it answers, 0 to 3600 (0: it answers before
      everything is done); -1: as the request's.
    - ``validate_only``: change nothing, only see whether it would work.

    ``TypeError`` and ``ValueError`` for arguments that can't be. Configuration: librdkafka's properties
    (docs/CONFIGURATION.md). ``error_cb`` and ``throttle_cb`` are called by `poll()`.

    Safe to use from several threads. It has to live until its futures are done: closing it, or dropping it, fails those
    that aren't with _DESTROY. After ``fork()`` the child has to make a client of its own.
    """

    def __init__(self, conf: Mapping[str, Any], **kwargs: Any) -> None:
        """KafkaException (_INVALID_ARG) names an unknown property or a value that can't be."""
        if not isinstance(conf, Mapping):
            raise TypeError(f"expected configuration dict, not {type(conf).__name__}")
        settings = parse({**conf, **kwargs}, "producer")
        everything = {
            **connection_settings(settings),
            **consumer_settings(settings),
            **producer_settings(settings, 0, False),
        }
        self._client = _Handle(settings, "admin", everything)
        self._timeout_s = settings.integer("socket.timeout.ms") / 1000
        main = self._client.main
        self._errands = Errands(
            main.pool,
            main.metadata,
            self._client.logs["admin"],
            backoff_s=settings.number("retry.backoff.ms") / 1000,
            backoff_most_s=settings.number("retry.backoff.max.ms") / 1000,
        )
        main.managers.append(self._errands)
        main.on_close.append(self._errands.close)
        main.start()

    # --- the cluster ---

    def set_sasl_credentials(self, username: str, password: str) -> None:
        """Takes another user name and password for PLAIN and SCRAM; see `Producer.set_sasl_credentials`."""
        self._client.check_open(CLOSED_TEXT)
        self._client.set_sasl_credentials(username, password)

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

    # --- topics ---

    def create_topics(
        self,
        new_topics: list[NewTopic],
        *,
        validate_only: bool = False,
        request_timeout: float = -1,
        operation_timeout: float = -1,
    ) -> dict[str, Future[None]]:
        """Makes topics.

        :param new_topics: The topics.
        :return: A future a topic, by name: None when it is there; KafkaException, for instance TOPIC_ALREADY_EXISTS.
        """
        topics = [(each.topic, topic_errands.new_topic(each)) for each in list_of(new_topics, NewTopic)]
        timeout_s, timeout_ms = self._timeouts(request_timeout, operation_timeout)
        make = partial(topic_errands.create_topics, bool(validate_only), timeout_ms)
        return self._begin(topics, make, topic_errands.change_topics, timeout_s)

    def delete_topics(
        self, topics: list[str], *, request_timeout: float = -1, operation_timeout: float = -1
    ) -> dict[str, Future[None]]:
        """Deletes topics with all that is in them.

        :param topics: Their names.
        :return: A future a topic, by name: None when it is deleted; KafkaException, for instance UNKNOWN_TOPIC_OR_PART.
        """
        names = [(each, each) for each in list_of(topics, str)]
        timeout_s, timeout_ms = self._timeouts(request_timeout, operation_timeout)
        make = partial(topic_errands.delete_topics, timeout_ms)
        return self._begin(names, make, topic_errands.change_topics, timeout_s)

    def create_partitions(
        self,
        new_partitions: list[NewPartitions],
        *,
        validate_only: bool = False,
        request_timeout: float = -1,
        operation_timeout: float = -1,
    ) -> dict[str, Future[None]]:
        """Gives topics more partitions.

        :param new_partitions: The topics, and how many each shall have.
        :return: A future a topic, by name: None when it has them; KafkaException, for instance INVALID_PARTITIONS.
        """
        topics = [(each.topic, topic_errands.more_partitions(each)) for each in list_of(new_partitions, NewPartitions)]
        timeout_s, timeout_ms = self._timeouts(request_timeout, operation_timeout)
        make = partial(topic_errands.create_partitions, bool(validate_only), timeout_ms)
        return self._begin(topics, make, topic_errands.change_topics, timeout_s)

    def describe_topics(
        self, topics: TopicCollection, *, include_authorized_operations: bool = False, request_timeout: float = -1
    ) -> dict[str, Future[TopicDescription]]:
        """Describes topics.

        :param topics: Their names.
        :param include_authorized_operations: Also tell what this client may do to them (KIP-430).
        :return: A future a topic, by name.
        """
        if not isinstance(topics, TopicCollection):
            raise TypeError("Expected input to be instance of TopicCollection")
        names = [(each, each) for each in list_of(topics.topic_names, str, least=0)]
        operations = flag("include_authorized_operations", include_authorized_operations)
        steps_of = partial(topic_errands.describe_topics, operations)
        return self._begin(names, topic_errands.ask_topics, steps_of, self._request_timeout(request_timeout))

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

    # --- settings ---

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

    # --- groups ---

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

    # --- offsets and records ---

    def list_offsets(
        self,
        topic_partition_offsets: dict[TopicPartition, OffsetSpec],
        *,
        isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
        request_timeout: float = -1,
    ) -> dict[TopicPartition, Future[ListOffsetsResultInfo]]:
        """Finds offsets: the first, the last, by time.

        :param topic_partition_offsets: Which offset of each partition.
        :param isolation_level: With READ_COMMITTED the last one is where the first open transaction begins.
        :return: A future a partition.
        """
        if not isinstance(topic_partition_offsets, Mapping):
            raise TypeError("Expected topic_partition_offsets to be dict of [TopicPartitions,OffsetSpec]")
        if not isinstance(isolation_level, IsolationLevel):
            raise TypeError("isolation_level argument should be an IsolationLevel")
        for spec in topic_partition_offsets.values():
            if not isinstance(spec, OffsetSpec):
                raise TypeError("Value must be a OffsetSpec")
        check_partitions(topic_partition_offsets)
        timeout_s = self._request_timeout(request_timeout)
        items = [(each, (each, spec._value)) for each, spec in topic_partition_offsets.items()]
        make = partial(offset_errands.find_offsets, isolation_level.value, int(timeout_s * 1000))
        return self._begin(items, make, offset_errands.list_offsets, timeout_s)

    def delete_records(
        self,
        topic_partition_offsets: list[TopicPartition],
        *,
        request_timeout: float = -1,
        operation_timeout: float = -1,
    ) -> dict[TopicPartition, Future[DeletedRecords]]:
        """Deletes the records before an offset.

        :param topic_partition_offsets: Partitions, and the offset that each is to begin at; OFFSET_END: the end.
        :return: A future a partition: where it begins now.
        """
        partitions = list_of(topic_partition_offsets, TopicPartition, least=0)
        check_partitions(partitions)
        timeout_s, timeout_ms = self._timeouts(request_timeout, operation_timeout)
        make = partial(offset_errands.drop_records, timeout_ms)
        return self._begin([(each, each) for each in partitions], make, offset_errands.delete_records, timeout_s)

    def elect_leaders(
        self,
        election_type: ElectionType,
        partitions: list[TopicPartition] | None = None,
        *,
        request_timeout: float = -1,
        operation_timeout: float = -1,
    ) -> Future[dict[TopicPartition, KafkaError | None]]:
        """Has partitions' leaders elected anew (KIP-460).

        :param election_type: PREFERRED: the first replica, if it is in sync; UNCLEAN: any, even if messages are lost.
        :param partitions: The partitions; None for all that need it.
        :return: One future: what became of each, None: it was elected; ELECTION_NOT_NEEDED: it leads already.
        """
        if not isinstance(election_type, ElectionType):
            raise TypeError("Expected 'election_type' to be of type 'ElectionType'")
        wanted = None if partitions is None else list_of(partitions, TopicPartition, least=0)
        check_partitions(wanted or ())
        timeout_s, timeout_ms = self._timeouts(request_timeout, operation_timeout)
        make = partial(topic_errands.elect_leaders, election_type, timeout_ms)
        return self._begin([(None, wanted)], make, topic_errands.hold_elections, timeout_s)[None]

    # --- permissions and users ---

    def create_acls(self, acls: list[AclBinding], *, request_timeout: float = -1) -> dict[AclBinding, Future[None]]:
        """Makes permissions (KIP-140).

        :param acls: The permissions, each once.
        :return: A future a permission: None when it is made; KafkaException, for instance SECURITY_DISABLED.
        """
        items = [(each, security_errands.creation_of(each)) for each in bindings(acls)]
        timeout_s = self._request_timeout(request_timeout)
        return self._begin(items, security_errands.create_acls, security_errands.change_acls, timeout_s)

    def describe_acls(
        self, acl_binding_filter: AclBindingFilter, *, request_timeout: float = -1
    ) -> Future[list[AclBinding]]:
        """Tells the permissions that fit a filter (KIP-357).

        :param acl_binding_filter: The filter.
        :return: One future.
        """
        if not isinstance(acl_binding_filter, AclBindingFilter):
            raise TypeError(f"expected an AclBindingFilter, not {type(acl_binding_filter).__name__}")
        items = [(None, acl_binding_filter)]
        timeout_s = self._request_timeout(request_timeout)
        return self._begin(items, security_errands.describe_acls, security_errands.find_acls, timeout_s)[None]

    def delete_acls(
        self, acl_binding_filters: list[AclBindingFilter], *, request_timeout: float = -1
    ) -> dict[AclBindingFilter, Future[list[AclBinding]]]:
        """Deletes the permissions that fit filters.

        :param acl_binding_filters: The filters, each once.
        :return: A future a filter: what was deleted. KafkaException when one that fits couldn't be.
        """
        filters = distinct(acl_binding_filters, AclBindingFilter, "ACL binding filters")
        items = [(each, security_errands.filter_of(each)) for each in filters]
        timeout_s = self._request_timeout(request_timeout)
        return self._begin(items, security_errands.delete_acls, security_errands.change_acls, timeout_s)

    @overload
    def describe_user_scram_credentials(
        self, users: None = None, *, request_timeout: float = -1
    ) -> Future[dict[str, UserScramCredentialsDescription]]: ...

    @overload
    def describe_user_scram_credentials(
        self, users: list[str], *, request_timeout: float = -1
    ) -> dict[str, Future[UserScramCredentialsDescription]]: ...

    def describe_user_scram_credentials(self, users: list[str] | None = None, *, request_timeout: float = -1) -> Any:
        """Tells users' SCRAM credentials, but for what is secret (KIP-554).

        :param users: Their names; None for all users.
        :return: A future a user, by name: KafkaException, for instance RESOURCE_NOT_FOUND; for None one future of all.
        """
        timeout_s = self._request_timeout(request_timeout)
        steps_of = security_errands.describe_users
        if users is None:
            return self._begin([(None, None)], security_errands.describe_all, steps_of, timeout_s)[None]
        items = [(each, each) for each in user_names(users)]
        return self._begin(items, security_errands.describe_credentials, steps_of, timeout_s)

    def alter_user_scram_credentials(
        self, alterations: list[UserScramCredentialAlteration], *, request_timeout: float = -1
    ) -> dict[str, Future[None]]:
        """Makes, changes and deletes users' SCRAM credentials (KIP-554). Passwords are hashed here, not sent.

        :param alterations: The changes. Apache Kafka takes one of each user at a time (DUPLICATE_RESOURCE).
        :return: A future a user, by name: None when it is done.
        """
        items = security_errands.alterations_by_user(alterations_of(alterations))
        timeout_s = self._request_timeout(request_timeout)
        return self._begin(items, security_errands.alter_credentials, security_errands.alter_users, timeout_s)

    # --- the client itself ---

    def metrics(self) -> ClientMetrics:
        """What this client has counted; see `Producer.metrics`."""
        return self._client.metrics(CLOSED_TEXT)

    def poll(self, timeout: float = -1) -> int:
        """Makes the callbacks that are due (``error_cb``, ``throttle_cb``, ``stats_cb``). Futures don't need it.

        :param timeout: Seconds to wait for one; negative waits for ever.
        :return: How many were made. What one raises comes out of here.
        """
        self._client.check_open(CLOSED_TEXT)
        made = 0
        wait_s = None if timeout < 0 else timeout
        try:
            while True:
                callback = self._client.callbacks.get(timeout=wait_s)
                made += 1
                wait_s = 0
                callback()
        except queue.Empty:
            return made

    def close(self) -> None:
        """Ends the client; futures that aren't done fail with _DESTROY. Again: nothing happens."""
        self._client.close()

    def __enter__(self) -> AdminClient:
        """Itself."""
        self._client.check_open(CLOSED_TEXT)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes."""
        self.close()

    def __del__(self) -> None:
        """A client that was dropped without close() ends its threads."""
        client = getattr(self, "_client", None)
        if client is not None:
            client.close()

    def __len__(self) -> int:
        """Always 0: confluent_kafka counts events here, which are no matter of this client's."""
        return 0

    def __bool__(self) -> bool:
        """It is there."""
        return True

    def __repr__(self) -> str:
        """Name and state."""
        return f"<AdminClient {self._client.name} ({'closed' if self._client.closed else 'open'})>"

    # --- how calls are made ---

    def _timeouts(self, request_timeout: float, operation_timeout: float) -> tuple[float, int]:
        """The whole call's in seconds, the broker's in milliseconds."""
        timeout_s = self._request_timeout(request_timeout)
        operation_s = checked_timeout("operation_timeout", operation_timeout, -1)
        return timeout_s, int((timeout_s if operation_s < 0 else operation_s) * 1000)

    def _request_timeout(self, value: float) -> float:
        given_s = checked_timeout("request_timeout", value, 0)
        return self._timeout_s if given_s < 0 else given_s

    def _begin(
        self, items: list[tuple[K, Any]], make: Callable[[list[Any]], Request], steps_of: StepsOf, timeout_s: float
    ) -> dict[K, Future[Any]]:
        """A future a key, and the errand that completes them.

        :param items: Keys, and what they stand for in a request.
        :param make: The request for some of these.
        :param steps_of: The errand: ``steps_of(make, {key: item}, settle, errand)``, whose ``make`` is given keys.
        """
        self._client.check_open(CLOSED_TEXT)
        futures: dict[K, Future[Any]] = {key: Future() for key, _ in items}
        for future in futures.values():
            future.set_running_or_notify_cancel()  # from here on it can't be cancelled
        counts = Counter(key for key, _ in items)
        wanted: dict[K, Any] = {}
        for key, item in items:
            refused = _refusal(make, item, counts[key])
            if refused is None:
                wanted[key] = item
            else:
                _complete(futures[key], refused)

        def settle(key: K, outcome: Any) -> None:
            _complete(futures[key], outcome)

        def end(error: BaseException) -> None:
            for future in futures.values():
                _complete(future, error)

        def make_of(keys: list[K]) -> Request:
            return make([wanted[key] for key in keys])

        def steps(errand: Errand) -> Steps[None]:
            yield from steps_of(make_of, wanted, settle, errand)
            end(KafkaException(UNANSWERED))

        if wanted:
            self._post(steps, timeout_s, end)
        return dict(futures)  # the caller's own, to change as it likes

    def _post(
        self, steps: Callable[[Errand], Steps[None]], timeout_s: float, end: Callable[[BaseException], None]
    ) -> None:
        deadline = time.monotonic() + (timeout_s if timeout_s >= 0 else FOR_EVER_S)
        self._client.main.post(partial(self._errands.begin, steps, deadline, end))
        if self._client.closed:  # meanwhile: the thread may have ended before it came to this
            end(KafkaException(KafkaError(KafkaError._DESTROY, CLOSED_TEXT)))


def _refusal(make: Callable[[list[Any]], Request], item: Any, count: int) -> KafkaError | None:
    """Why an item can't be sent: it alone fails then."""
    if count > 1:
        return KafkaError(KafkaError._INVALID_ARG, "it is there more than once: there is one future for all")
    if isinstance(item, KafkaError):
        return item
    message = make([item])
    try:
        adapted(message, message.max_version).encode(message.max_version)
    except ProtocolError as error:
        return KafkaError(KafkaError._INVALID_ARG, str(error))
    return None


def _complete(future: Future[Any], outcome: Any) -> None:
    """Only the first outcome counts."""
    if future.done():
        return
    if isinstance(outcome, KafkaError):
        outcome = KafkaException(outcome)
    if isinstance(outcome, BaseException):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
