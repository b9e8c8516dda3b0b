"""AIOAdminClient: see the package.

Its calls are made from AdminClient's, with the same names, parameters and docstrings. `in_loop()`
turns the futures of threads into futures of the running loop. `awaited()` turns calls that wait
into coroutines.
"""

from __future__ import annotations

import asyncio
import functools
import weakref
from asyncio import Future
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future as ThreadFuture
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, overload

from kafka_native.admin import (
    AdminClient,
    GroupMetadata,
    TopicPartitionsPages,
    UserScramCredentialsDescription,
)
from kafka_native.admin.base import CLOSED_TEXT, Handle
from kafka_native.aio._callbacks import CALLBACKS, Callbacks, called, serve
from kafka_native.aio._consumer import AIOConsumer
from kafka_native.aio._loop import call_in_loop, end_threads, wait_for
from kafka_native.aio._loop import in_loop as future_in_loop
from kafka_native.aio._producer import AIOProducer
from kafka_native.client_core import ClientCore
from kafka_native.config import check_is_mapping
from kafka_native.errors import KafkaError
from kafka_native.pending_call import PendingCall
from kafka_native.shared_client import Client
from kafka_native.types import ConsumerGroupState, ConsumerGroupType, TopicCollection

if TYPE_CHECKING:
    from typing_extensions import Self

K = TypeVar("K")
V = TypeVar("V")
P = ParamSpec("P")


@overload
def futures_in_loop(found: dict[K, ThreadFuture[V]]) -> dict[K, Future[V]]: ...


@overload
def futures_in_loop(found: ThreadFuture[V]) -> Future[V]: ...


def futures_in_loop(
    found: dict[K, ThreadFuture[V]] | ThreadFuture[V],
) -> dict[K, Future[V]] | Future[V]:
    """Turns the futures of threads into futures of the running loop."""
    if isinstance(found, dict):
        return {key: future_in_loop(future) for key, future in found.items()}
    return future_in_loop(found)


@overload
def in_loop(
    call: Callable[Concatenate[AdminClient, P], dict[K, ThreadFuture[V]]],
) -> Callable[Concatenate[AIOAdminClient, P], dict[K, Future[V]]]: ...


@overload
def in_loop(
    call: Callable[Concatenate[AdminClient, P], ThreadFuture[V]],
) -> Callable[Concatenate[AIOAdminClient, P], Future[V]]: ...


def in_loop(
    call: Callable[Concatenate[AdminClient, P], dict[K, ThreadFuture[V]] | ThreadFuture[V]],
) -> Callable[Concatenate[AIOAdminClient, P], dict[K, Future[V]] | Future[V]]:
    """Makes an asyncio method from a method that returns futures.

    The new method returns futures of the running loop.
    """

    @functools.wraps(call)
    def twin(
        self: AIOAdminClient, /, *args: P.args, **kwargs: P.kwargs
    ) -> dict[K, Future[V]] | Future[V]:
        self._attach()
        return futures_in_loop(call(self._core, *args, **kwargs))

    twin.__module__, twin.__qualname__ = __name__, f"AIOAdminClient.{call.__name__}"
    return twin


def awaited(
    call: Callable[Concatenate[AdminClient, P], V],
    begin: Callable[Concatenate[ClientCore, P], PendingCall[V]],
) -> Callable[Concatenate[AIOAdminClient, P], Coroutine[Any, Any, V]]:
    """Makes a coroutine from a method that waits.

    It awaits the pending call that ``begin`` returns.
    """

    @functools.wraps(call)
    async def twin(self: AIOAdminClient, /, *args: P.args, **kwargs: P.kwargs) -> V:
        self._core._check_open()
        self._attach()
        return await wait_for(begin(self._core._client, *args, **kwargs))

    twin.__module__, twin.__qualname__ = __name__, f"AIOAdminClient.{call.__name__}"
    return twin


class AIOAdminClient(Callbacks):
    """Manages a cluster from an event loop: an `AdminClient` with asyncio's futures.

        async with AIOAdminClient({"bootstrap.servers": "localhost:9092"}) as admin:
            for topic, future in admin.create_topics([NewTopic("greetings", 3)]).items():
                await future

    Calls return at once, as AdminClient's do, with one future of the running loop per item.
    AdminClient's calls that wait are coroutines here. If you cancel a wait, or `asyncio.timeout`
    ends it, the request continues. Callbacks may be functions or coroutine functions. They run in
    the loop that used the client last.

    Several tasks of one loop may use it at the same time. After ``fork()`` the child has to create
    its own client.
    """

    _core: AdminClient

    def __init__(self, admin_conf: Mapping[str, Any]) -> None:
        """Creates a client.

        KafkaException: _INVALID_ARG names an unknown property or invalid value.

        :param admin_conf: librdkafka's properties (docs/CONFIGURATION.md).
        """
        check_is_mapping(admin_conf)
        conf = dict(admin_conf)
        self._tasks = {}
        self._closing = None
        self._loop: asyncio.AbstractEventLoop | None = None
        for name in CALLBACKS:
            if callable(conf.get(name)):
                conf[name] = functools.partial(called, weakref.ref(self), conf[name])
        self._core = _Core(conf)
        self._owner: object | None = None
        self._served = 0
        self._core._client.notify = functools.partial(_wake_loop, weakref.ref(self))

    @classmethod
    def of(cls, client: AIOProducer | AIOConsumer | AIOAdminClient | Client) -> AIOAdminClient:
        """Creates an admin client on the connections of an asyncio client or a `Client`.

        See `AdminClient.of`. Callbacks stay with the other client.

        :raises TypeError: ``client`` isn't an asyncio client.
        :raises RuntimeError: ``client`` is closed.
        """
        if not isinstance(client, AIOProducer | AIOConsumer | AIOAdminClient | Client):
            raise TypeError(
                f"an asyncio client is expected, not {type(client).__name__}; "
                "others: AdminClient.of"
            )
        admin = cls.__new__(cls)
        admin._tasks = {}
        admin._closing = None
        admin._loop = None
        admin._core = AdminClient.of(client if isinstance(client, Client) else client._core)
        admin._owner = client
        admin._served = 0
        return admin

    async def poll(self, timeout: float = 0) -> int:
        """Runs the callbacks that are due. The loop also does that by itself.

        :param timeout: Ignored, for compatibility: the call doesn't wait.
        :return: How many callbacks ran since the last call.
        """
        self._core._check_open()
        self._attach()
        await asyncio.sleep(0)
        self._serve()
        served, self._served = self._served, 0
        return served

    async def close(self) -> None:
        """Closes the client. Unfinished futures fail with _DESTROY. A second call does nothing.

        A call that is cancelled continues in the background. At its end, the call waits for
        coroutines of callbacks that still run, for up to 60 seconds. In a callback, or in a task
        that a callback has started, it doesn't wait for them.
        """
        self._core._closed = True  # from now on calls are refused
        await self._close_once(self._close)

    async def _close(self) -> None:
        core = self._core
        try:
            if self._owner is None and not core._client.closed:
                await end_threads(core._client)
        finally:
            core.close()

    async def __aenter__(self) -> Self:
        """The client itself."""
        self._core._check_open()
        self._attach()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Closes the client."""
        await self.close()

    def __repr__(self) -> str:
        """The client's name and state."""
        return f"<AIO{repr(self._core)[1:]}"

    def _attach(self) -> None:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop = loop
            self._serve()  # callbacks that were queued before there was a loop

    # --- topics, their partitions and the records in them ---

    create_topics = in_loop(AdminClient.create_topics)
    """Creates topics."""
    delete_topics = in_loop(AdminClient.delete_topics)
    """Deletes topics with all their records."""
    create_partitions = in_loop(AdminClient.create_partitions)
    """Adds partitions to topics."""
    describe_topics = in_loop(AdminClient.describe_topics)
    """Describes topics."""
    list_offsets = in_loop(AdminClient.list_offsets)
    """Finds offsets: the first, the last, or by time."""
    delete_records = in_loop(AdminClient.delete_records)
    """Deletes the records before an offset."""
    elect_leaders = in_loop(AdminClient.elect_leaders)
    """Elects new leaders of partitions (KIP-460)."""

    # --- partitions' replicas: their brokers and log directories ---

    alter_partition_reassignments = in_loop(AdminClient.alter_partition_reassignments)
    """Moves partitions to other brokers, or cancels moves (KIP-455)."""
    list_partition_reassignments = in_loop(AdminClient.list_partition_reassignments)
    """Lists the partitions that are moving to other brokers (KIP-455)."""
    describe_log_dirs = in_loop(AdminClient.describe_log_dirs)
    """Describes brokers' log directories: their replicas and sizes (KIP-113)."""
    describe_replica_log_dirs = in_loop(AdminClient.describe_replica_log_dirs)
    """Describes the current and future log directories of replicas (KIP-113)."""
    alter_replica_log_dirs = in_loop(AdminClient.alter_replica_log_dirs)
    """Moves replicas to other log directories of their brokers (KIP-113)."""

    # --- the cluster and its settings ---

    list_topics = awaited(AdminClient.list_topics, ClientCore.begin_list_topics)
    """Asks a broker for the cluster's brokers, topics and partitions. Waits for the result."""
    cluster_id = awaited(AdminClient.cluster_id, ClientCore.begin_cluster_id)
    """Asks a broker for the cluster's id (KIP-78); None: it is older than 0.10.1."""
    client_instance_id = awaited(
        AdminClient.client_instance_id, ClientCore.begin_client_instance_id
    )
    """Returns the id for client metrics, although this client pushes none."""
    describe_cluster = in_loop(AdminClient.describe_cluster)
    """Describes the cluster: its id, its brokers, and the broker that gets changes."""
    describe_configs = in_loop(AdminClient.describe_configs)
    """Describes the settings of resources: topics, brokers, groups, log levels, client metrics."""
    alter_configs = in_loop(AdminClient.alter_configs)
    """Replaces all settings of resources: settings that aren't given return to their default."""
    incremental_alter_configs = in_loop(AdminClient.incremental_alter_configs)
    """Changes some settings of resources and keeps the others (KIP-339)."""
    list_config_resources = in_loop(AdminClient.list_config_resources)
    """Lists the resources that have settings (KIP-1142)."""

    # --- the controllers' data: features, voters, registered brokers ---

    describe_features = in_loop(AdminClient.describe_features)
    """Describes the features that the cluster uses, and those that a broker supports (KIP-584)."""
    update_features = in_loop(AdminClient.update_features)
    """Changes the levels of features in the whole cluster (KIP-584)."""
    describe_metadata_quorum = in_loop(AdminClient.describe_metadata_quorum)
    """Describes the voters and observers of the cluster's metadata (KIP-595)."""
    add_raft_voter = in_loop(AdminClient.add_raft_voter)
    """Makes a controller that follows the metadata a voter (KIP-853)."""
    remove_raft_voter = in_loop(AdminClient.remove_raft_voter)
    """Removes a controller from the voters (KIP-853)."""
    unregister_broker = in_loop(AdminClient.unregister_broker)
    """Removes a broker that won't return from the cluster (KIP-500)."""
    unregister_controller = in_loop(AdminClient.unregister_controller)
    """Removes a controller that won't return from the cluster (KIP-1312)."""

    # --- groups and their offsets ---

    list_consumer_groups = in_loop(AdminClient.list_consumer_groups)
    """Lists the consumer groups of all brokers; with ``types``, also share and streams groups."""
    describe_consumer_groups = in_loop(AdminClient.describe_consumer_groups)
    """Describes consumer groups, of either protocol, with their members."""
    delete_consumer_groups = in_loop(AdminClient.delete_consumer_groups)
    """Deletes groups without members, of any type, with their committed offsets."""
    list_consumer_group_offsets = in_loop(AdminClient.list_consumer_group_offsets)
    """Returns the committed offsets of groups."""
    alter_consumer_group_offsets = in_loop(AdminClient.alter_consumer_group_offsets)
    """Commits offsets for a group that has no members."""
    delete_consumer_group_offsets = in_loop(AdminClient.delete_consumer_group_offsets)
    """Deletes a group's committed offsets (KIP-496)."""
    describe_share_groups = in_loop(AdminClient.describe_share_groups)
    """Describes share groups (KIP-932) with their members."""
    list_share_group_offsets = in_loop(AdminClient.list_share_group_offsets)
    """Returns the progress of share groups (KIP-932), and their lag (KIP-1226)."""
    alter_share_group_offsets = in_loop(AdminClient.alter_share_group_offsets)
    """Changes the start offsets of a share group without members (KIP-932)."""
    delete_share_group_offsets = in_loop(AdminClient.delete_share_group_offsets)
    """Deletes the offsets of topics in a share group without members (KIP-932)."""
    describe_streams_groups = in_loop(AdminClient.describe_streams_groups)
    """Describes groups of Kafka Streams (KIP-1071) with their members and their topology."""
    delete_share_groups = in_loop(AdminClient.delete_share_groups)
    """Deletes groups without members, of any type, with their committed offsets."""
    delete_streams_groups = in_loop(AdminClient.delete_streams_groups)
    """Deletes groups without members, of any type, with their committed offsets."""
    list_streams_group_offsets = in_loop(AdminClient.list_streams_group_offsets)
    """Returns the committed offsets of groups."""
    alter_streams_group_offsets = in_loop(AdminClient.alter_streams_group_offsets)
    """Commits offsets for a group that has no members."""
    delete_streams_group_offsets = in_loop(AdminClient.delete_streams_group_offsets)
    """Deletes a group's committed offsets (KIP-496)."""

    # --- permissions and users ---

    create_acls = in_loop(AdminClient.create_acls)
    """Creates permissions (KIP-140)."""
    describe_acls = in_loop(AdminClient.describe_acls)
    """Describes the permissions that match a filter (KIP-357)."""
    delete_acls = in_loop(AdminClient.delete_acls)
    """Deletes the permissions that match filters."""
    alter_user_scram_credentials = in_loop(AdminClient.alter_user_scram_credentials)
    """Creates, changes and deletes users' SCRAM credentials (KIP-554)."""

    # --- delegation tokens ---

    create_delegation_token = in_loop(AdminClient.create_delegation_token)
    """Creates a delegation token (KIP-48)."""
    renew_delegation_token = in_loop(AdminClient.renew_delegation_token)
    """Extends the life of a token (KIP-48)."""
    expire_delegation_token = in_loop(AdminClient.expire_delegation_token)
    """Ends a token (KIP-48)."""
    describe_delegation_token = in_loop(AdminClient.describe_delegation_token)
    """Describes the tokens that this client may see (KIP-48)."""

    # --- transactions and the producers of partitions ---

    list_transactions = in_loop(AdminClient.list_transactions)
    """Lists the transactional ids of all brokers (KIP-664)."""
    describe_transactions = in_loop(AdminClient.describe_transactions)
    """Describes transactional ids and their transactions (KIP-664)."""
    describe_producers = in_loop(AdminClient.describe_producers)
    """Describes the producers with an id of partitions, and their open transactions (KIP-664)."""
    abort_transaction = in_loop(AdminClient.abort_transaction)
    """Aborts a transaction in one partition, without its coordinator (KIP-664)."""
    find_hanging_transactions = in_loop(AdminClient.find_hanging_transactions)
    """Finds hanging transactions: open in a partition, but no coordinator will end them."""
    fence_producers = in_loop(AdminClient.fence_producers)
    """Fences the producers of transactional ids; aborts their open transactions (KIP-360)."""

    # --- client quotas ---

    describe_client_quotas = in_loop(AdminClient.describe_client_quotas)
    """Describes the quotas of users, clients and addresses (KIP-546)."""
    alter_client_quotas = in_loop(AdminClient.alter_client_quotas)
    """Sets and removes quotas of users, clients and addresses (KIP-546)."""

    # --- other calls ---

    brokers_add = awaited(
        AdminClient.brokers_add, lambda client, brokers: client.begin_brokers_add(brokers)
    )
    """Adds bootstrap servers while the client runs; see `Producer.brokers_add`."""
    metrics = awaited(AdminClient.metrics, lambda client: client.begin_metrics(CLOSED_TEXT))
    """Returns this client's statistics; see `Producer.metrics`."""

    async def set_sasl_credentials(self, username: str, password: str) -> None:
        """Sets another user name and password; see `AdminClient.set_sasl_credentials`."""
        self._attach()
        self._core.set_sasl_credentials(username, password)

    async def list_groups(
        self,
        group: str | None = None,
        timeout: float = -1,
        *,
        states: set[ConsumerGroupState] | None = None,
        types: set[ConsumerGroupType] | None = None,
    ) -> list[GroupMetadata]:
        """Lists groups; see `AdminClient.list_groups`."""
        self._attach()
        return await future_in_loop(self._core._groups(group, timeout, states, types))

    def describe_topic_partitions(
        self,
        topics: TopicCollection | None = None,
        *,
        partition_limit: int = 2000,
        request_timeout: float = -1,
    ) -> TopicPartitionsPages:
        """Describes partitions page by page; see `AdminClient.describe_topic_partitions`."""
        self._attach()
        return self._core.describe_topic_partitions(
            topics, partition_limit=partition_limit, request_timeout=request_timeout
        )

    # The arguments of these methods decide whether they return one future or a dict of futures.
    # mypy can't derive that from AdminClient's overloads.

    @overload
    def describe_user_scram_credentials(
        self, users: None = None, *, request_timeout: float = -1
    ) -> Future[dict[str, UserScramCredentialsDescription]]: ...

    @overload
    def describe_user_scram_credentials(
        self, users: list[str], *, request_timeout: float = -1
    ) -> dict[str, Future[UserScramCredentialsDescription]]: ...

    def describe_user_scram_credentials(
        self, users: list[str] | None = None, *, request_timeout: float = -1
    ) -> (
        Future[dict[str, UserScramCredentialsDescription]]
        | dict[str, Future[UserScramCredentialsDescription]]
    ):
        """Describes SCRAM users; see `AdminClient.describe_user_scram_credentials`."""
        self._attach()
        found = self._core.describe_user_scram_credentials(users, request_timeout=request_timeout)
        return futures_in_loop(found)

    @overload
    def remove_members_from_consumer_group(
        self,
        group_id: str,
        members: None = None,
        *,
        reason: str | None = None,
        request_timeout: float = -1,
    ) -> Future[dict[str, KafkaError | None]]: ...

    @overload
    def remove_members_from_consumer_group(
        self,
        group_id: str,
        members: list[str],
        *,
        reason: str | None = None,
        request_timeout: float = -1,
    ) -> dict[str, Future[None]]: ...

    def remove_members_from_consumer_group(
        self,
        group_id: str,
        members: list[str] | None = None,
        *,
        reason: str | None = None,
        request_timeout: float = -1,
    ) -> Future[dict[str, KafkaError | None]] | dict[str, Future[None]]:
        """Removes members; see `AdminClient.remove_members_from_consumer_group`."""
        self._attach()
        found = self._core.remove_members_from_consumer_group(
            group_id, members, reason=reason, request_timeout=request_timeout
        )
        return futures_in_loop(found)


class _Handle(Handle):
    """An admin handle that notifies the event loop when a callback is due."""

    notify: Callable[[], None] | None = None

    def call_back(self, callback: Callable[[], object]) -> None:
        super().call_back(callback)
        if self.notify is not None:
            self.notify()


class _Core(AdminClient):
    """The synchronous client of an AIOAdminClient."""

    _handle = _Handle
    _client: _Handle


def _wake_loop(reference: weakref.ref[AIOAdminClient]) -> None:
    """Makes the loop run the due callbacks. Control thread only."""
    admin = reference()
    if admin is not None and admin._loop is not None:
        call_in_loop(admin._loop, serve, reference)
