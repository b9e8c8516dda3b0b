"""AdminClient's calls for coroutines: the same names and arguments, and asyncio's futures instead of threads' ones."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable, Mapping
from concurrent.futures import Future as ThreadFuture
from typing import Any, Literal, ParamSpec, TypeVar, overload

from kafka_native.admin import (
    AbortTransactionSpec,
    AclBinding,
    AclBindingFilter,
    AdminClient,
    ClientQuotaAlteration,
    ClientQuotaEntity,
    ClientQuotaFilter,
    ConfigEntry,
    ConfigResource,
    ConsumerGroupDescription,
    DelegationToken,
    DeletedRecords,
    DescribeClusterResult,
    FeatureMetadata,
    FeatureUpdate,
    FindHangingTransactionsResult,
    GroupMetadata,
    KafkaPrincipal,
    ListConsumerGroupsResult,
    ListOffsetsResultInfo,
    ListTransactionsResult,
    LogDirDescription,
    NewPartitionReassignment,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    PartitionReassignment,
    ProducerIdAndEpoch,
    ProducerState,
    QuorumInfo,
    RaftVoterEndpoint,
    ReplicaLogDirInfo,
    ResourceType,
    ShareGroupDescription,
    SharePartitionOffsetInfo,
    StreamsGroupDescription,
    TopicDescription,
    TopicMetadataAndConfig,
    TopicPartitionReplica,
    TopicPartitionsPages,
    TransactionDescription,
    TransactionState,
    UserScramCredentialAlteration,
    UserScramCredentialsDescription,
)
from kafka_native.admin.transactions import TRANSACTION_TIMEOUT_MAX_MS
from kafka_native.aio._loop import Asking, in_loop
from kafka_native.errors import KafkaError
from kafka_native.types import (
    ClusterMetadata,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    ElectionType,
    IsolationLevel,
    TopicCollection,
    TopicPartition,
    Uuid,
)

K = TypeVar("K")
V = TypeVar("V")
P = ParamSpec("P")


class AIOAdminCalls:
    """The calls, as AdminClient has them; a test compares their signatures."""

    _core: AdminClient
    _asking: Asking

    @overload
    def _begin(
        self, call: Callable[P, dict[K, ThreadFuture[V]]], *args: P.args, **kwargs: P.kwargs
    ) -> dict[K, Future[V]]: ...

    @overload
    def _begin(self, call: Callable[P, ThreadFuture[V]], *args: P.args, **kwargs: P.kwargs) -> Future[V]: ...

    def _begin(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Makes a call of the sync client, whose futures become those of the running loop."""
        self._attach()
        found = call(*args, **kwargs)
        if isinstance(found, dict):
            return {key: in_loop(future) for key, future in found.items()}
        return in_loop(found)

    def _attach(self) -> None:
        """Notes that it is used in the running loop."""
        raise NotImplementedError

    # --- topics, their partitions and the records in them ---

    @overload
    def create_topics(
        self,
        new_topics: list[NewTopic],
        *,
        validate_only: bool = False,
        include_metadata: Literal[False] = False,
        request_timeout: float = -1,
        operation_timeout: float = -1,
    ) -> dict[str, Future[None]]: ...

    @overload
    def create_topics(
        self,
        new_topics: list[NewTopic],
        *,
        validate_only: bool = False,
        include_metadata: Literal[True],
        request_timeout: float = -1,
        operation_timeout: float = -1,
    ) -> dict[str, Future[TopicMetadataAndConfig]]: ...

    def create_topics(
        self,
        new_topics: list[NewTopic],
        *,
        validate_only: bool = False,
        include_metadata: bool = False,
        request_timeout: float = -1,
        operation_timeout: float = -1,
    ) -> dict[str, Future[None]] | dict[str, Future[TopicMetadataAndConfig]]:
        """Makes topics; see `AdminClient.create_topics`."""
        call: Any = self._core.create_topics  # of two kinds
        return self._begin(
            call,
            new_topics,
            validate_only=validate_only,
            include_metadata=include_metadata,
            request_timeout=request_timeout,
            operation_timeout=operation_timeout,
        )

    def delete_topics(
        self, topics: list[str], *, request_timeout: float = -1, operation_timeout: float = -1
    ) -> dict[str, Future[None]]:
        """Deletes topics with all that is in them; see `AdminClient.delete_topics`."""
        return self._begin(
            self._core.delete_topics, topics, request_timeout=request_timeout, operation_timeout=operation_timeout
        )

    def create_partitions(
        self,
        new_partitions: list[NewPartitions],
        *,
        validate_only: bool = False,
        request_timeout: float = -1,
        operation_timeout: float = -1,
    ) -> dict[str, Future[None]]:
        """Gives topics more partitions; see `AdminClient.create_partitions`."""
        return self._begin(
            self._core.create_partitions,
            new_partitions,
            validate_only=validate_only,
            request_timeout=request_timeout,
            operation_timeout=operation_timeout,
        )

    def describe_topics(
        self, topics: TopicCollection, *, include_authorized_operations: bool = False, request_timeout: float = -1
    ) -> dict[str, Future[TopicDescription]]:
        """Describes topics; see `AdminClient.describe_topics`."""
        return self._begin(
            self._core.describe_topics,
            topics,
            include_authorized_operations=include_authorized_operations,
            request_timeout=request_timeout,
        )

    def list_offsets(
        self,
        topic_partition_offsets: dict[TopicPartition, OffsetSpec],
        *,
        isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
        request_timeout: float = -1,
    ) -> dict[TopicPartition, Future[ListOffsetsResultInfo]]:
        """Finds offsets: the first, the last, by time; see `AdminClient.list_offsets`."""
        return self._begin(
            self._core.list_offsets,
            topic_partition_offsets,
            isolation_level=isolation_level,
            request_timeout=request_timeout,
        )

    def delete_records(
        self,
        topic_partition_offsets: list[TopicPartition],
        *,
        request_timeout: float = -1,
        operation_timeout: float = -1,
    ) -> dict[TopicPartition, Future[DeletedRecords]]:
        """Deletes the records before an offset; see `AdminClient.delete_records`."""
        return self._begin(
            self._core.delete_records,
            topic_partition_offsets,
            request_timeout=request_timeout,
            operation_timeout=operation_timeout,
        )

    def elect_leaders(
        self,
        election_type: ElectionType,
        partitions: list[TopicPartition] | None = None,
        *,
        request_timeout: float = -1,
        operation_timeout: float = -1,
    ) -> Future[dict[TopicPartition, KafkaError | None]]:
        """Has partitions' leaders elected anew (KIP-460); see `AdminClient.elect_leaders`."""
        return self._begin(
            self._core.elect_leaders,
            election_type,
            partitions,
            request_timeout=request_timeout,
            operation_timeout=operation_timeout,
        )

    # --- where partitions live: on which brokers, in which directories ---

    def alter_partition_reassignments(
        self,
        reassignments: Mapping[TopicPartition, NewPartitionReassignment | None],
        *,
        allow_replication_factor_change: bool = True,
        request_timeout: float = -1,
        operation_timeout: float = -1,
    ) -> dict[TopicPartition, Future[None]]:
        """As `AdminClient.alter_partition_reassignments`."""
        return self._begin(
            self._core.alter_partition_reassignments,
            reassignments,
            allow_replication_factor_change=allow_replication_factor_change,
            request_timeout=request_timeout,
            operation_timeout=operation_timeout,
        )

    def list_partition_reassignments(
        self,
        partitions: list[TopicPartition] | None = None,
        *,
        request_timeout: float = -1,
        operation_timeout: float = -1,
    ) -> Future[dict[TopicPartition, PartitionReassignment]]:
        """As `AdminClient.list_partition_reassignments`."""
        return self._begin(
            self._core.list_partition_reassignments,
            partitions,
            request_timeout=request_timeout,
            operation_timeout=operation_timeout,
        )

    def describe_log_dirs(
        self, brokers: list[int], *, request_timeout: float = -1
    ) -> dict[int, Future[dict[str, LogDirDescription]]]:
        """As `AdminClient.describe_log_dirs`."""
        return self._begin(self._core.describe_log_dirs, brokers, request_timeout=request_timeout)

    def describe_replica_log_dirs(
        self, replicas: list[TopicPartitionReplica], *, request_timeout: float = -1
    ) -> dict[TopicPartitionReplica, Future[ReplicaLogDirInfo]]:
        """As `AdminClient.describe_replica_log_dirs`."""
        return self._begin(self._core.describe_replica_log_dirs, replicas, request_timeout=request_timeout)

    def alter_replica_log_dirs(
        self, replica_assignment: Mapping[TopicPartitionReplica, str], *, request_timeout: float = -1
    ) -> dict[TopicPartitionReplica, Future[None]]:
        """As `AdminClient.alter_replica_log_dirs`."""
        return self._begin(self._core.alter_replica_log_dirs, replica_assignment, request_timeout=request_timeout)

    def describe_topic_partitions(
        self, topics: TopicCollection | None = None, *, partition_limit: int = 2000, request_timeout: float = -1
    ) -> TopicPartitionsPages:
        """As `AdminClient.describe_topic_partitions`."""
        self._attach()
        return self._core.describe_topic_partitions(
            topics, partition_limit=partition_limit, request_timeout=request_timeout
        )

    # --- the cluster and its settings ---

    async def list_topics(self, topic: str | None = None, timeout: float = -1) -> ClusterMetadata:
        """The cluster's brokers, topics and partitions; waits for them; see `AdminClient.list_topics`."""
        return await self._asking.ask(self._core.list_topics, topic, timeout)

    async def cluster_id(self, timeout: float = -1) -> str | None:
        """The cluster's id (KIP-78), None of one before 0.10.1; waits for it; see `AdminClient.cluster_id`."""
        return await self._asking.ask(self._core.cluster_id, timeout)

    async def client_instance_id(self, timeout: float = -1) -> Uuid:
        """The id under which metrics would be pushed; see `AdminClient.client_instance_id`."""
        return await self._asking.ask(self._core.client_instance_id, timeout)

    def describe_cluster(
        self,
        *,
        include_authorized_operations: bool = False,
        include_fenced_brokers: bool = False,
        request_timeout: float = -1,
    ) -> Future[DescribeClusterResult]:
        """As `AdminClient.describe_cluster`."""
        return self._begin(
            self._core.describe_cluster,
            include_authorized_operations=include_authorized_operations,
            include_fenced_brokers=include_fenced_brokers,
            request_timeout=request_timeout,
        )

    def describe_configs(
        self,
        resources: list[ConfigResource],
        *,
        include_documentation: bool = False,
        request_timeout: float = -1,
        broker: int = -1,
    ) -> dict[ConfigResource, Future[dict[str, ConfigEntry]]]:
        """As `AdminClient.describe_configs`."""
        return self._begin(
            self._core.describe_configs,
            resources,
            include_documentation=include_documentation,
            request_timeout=request_timeout,
            broker=broker,
        )

    def alter_configs(
        self,
        resources: list[ConfigResource],
        *,
        validate_only: bool = False,
        request_timeout: float = -1,
        broker: int = -1,
    ) -> dict[ConfigResource, Future[None]]:
        """As `AdminClient.alter_configs`."""
        return self._begin(
            self._core.alter_configs,
            resources,
            validate_only=validate_only,
            request_timeout=request_timeout,
            broker=broker,
        )

    def incremental_alter_configs(
        self,
        resources: list[ConfigResource],
        *,
        validate_only: bool = False,
        request_timeout: float = -1,
        broker: int = -1,
    ) -> dict[ConfigResource, Future[None]]:
        """As `AdminClient.incremental_alter_configs`."""
        return self._begin(
            self._core.incremental_alter_configs,
            resources,
            validate_only=validate_only,
            request_timeout=request_timeout,
            broker=broker,
        )

    def list_config_resources(
        self, config_resource_types: set[ResourceType] | None = None, *, request_timeout: float = -1
    ) -> Future[list[ConfigResource]]:
        """Lists what has settings (KIP-1142); see `AdminClient.list_config_resources`."""
        return self._begin(self._core.list_config_resources, config_resource_types, request_timeout=request_timeout)

    # --- what controllers decide: features, voters, brokers that are registered ---

    def describe_features(self, *, broker: int = -1, request_timeout: float = -1) -> Future[FeatureMetadata]:
        """As `AdminClient.describe_features`."""
        return self._begin(self._core.describe_features, broker=broker, request_timeout=request_timeout)

    def update_features(
        self,
        feature_updates: Mapping[str, FeatureUpdate],
        *,
        validate_only: bool = False,
        request_timeout: float = -1,
        operation_timeout: float = -1,
    ) -> dict[str, Future[None]]:
        """Lets the whole cluster run features at other levels (KIP-584); see `AdminClient.update_features`."""
        return self._begin(
            self._core.update_features,
            feature_updates,
            validate_only=validate_only,
            request_timeout=request_timeout,
            operation_timeout=operation_timeout,
        )

    def describe_metadata_quorum(self, *, request_timeout: float = -1) -> Future[QuorumInfo]:
        """As `AdminClient.describe_metadata_quorum`."""
        return self._begin(self._core.describe_metadata_quorum, request_timeout=request_timeout)

    def add_raft_voter(
        self,
        voter_id: int,
        voter_directory_id: Uuid,
        endpoints: list[RaftVoterEndpoint],
        *,
        cluster_id: str | None = None,
        request_timeout: float = -1,
        operation_timeout: float = -1,
    ) -> Future[None]:
        """Lets a controller that follows vote (KIP-853); see `AdminClient.add_raft_voter`."""
        return self._begin(
            self._core.add_raft_voter,
            voter_id,
            voter_directory_id,
            endpoints,
            cluster_id=cluster_id,
            request_timeout=request_timeout,
            operation_timeout=operation_timeout,
        )

    def remove_raft_voter(
        self, voter_id: int, voter_directory_id: Uuid, *, cluster_id: str | None = None, request_timeout: float = -1
    ) -> Future[None]:
        """Lets a controller vote no more (KIP-853); see `AdminClient.remove_raft_voter`."""
        return self._begin(
            self._core.remove_raft_voter,
            voter_id,
            voter_directory_id,
            cluster_id=cluster_id,
            request_timeout=request_timeout,
        )

    def unregister_broker(self, broker: int, *, request_timeout: float = -1) -> Future[None]:
        """Lets the cluster forget a broker that doesn't come back (KIP-500); see `AdminClient.unregister_broker`."""
        return self._begin(self._core.unregister_broker, broker, request_timeout=request_timeout)

    # --- groups and their offsets ---

    async def list_groups(
        self,
        group: str | None = None,
        timeout: float = -1,
        *,
        states: set[ConsumerGroupState] | None = None,
        types: set[ConsumerGroupType] | None = None,
    ) -> list[GroupMetadata]:
        """As `AdminClient.list_groups`."""
        return await self._begin(self._core._groups, group, timeout, states, types)

    def list_consumer_groups(
        self,
        *,
        states: set[ConsumerGroupState] | None = None,
        types: set[ConsumerGroupType] | None = None,
        request_timeout: float = -1,
    ) -> Future[ListConsumerGroupsResult]:
        """Lists the groups of consumers, of every broker; see `AdminClient.list_consumer_groups`."""
        return self._begin(self._core.list_consumer_groups, states=states, types=types, request_timeout=request_timeout)

    def describe_consumer_groups(
        self, group_ids: list[str], *, include_authorized_operations: bool = False, request_timeout: float = -1
    ) -> dict[str, Future[ConsumerGroupDescription]]:
        """As `AdminClient.describe_consumer_groups`."""
        return self._begin(
            self._core.describe_consumer_groups,
            group_ids,
            include_authorized_operations=include_authorized_operations,
            request_timeout=request_timeout,
        )

    def delete_consumer_groups(self, group_ids: list[str], *, request_timeout: float = -1) -> dict[str, Future[None]]:
        """As `AdminClient.delete_consumer_groups`."""
        return self._begin(self._core.delete_consumer_groups, group_ids, request_timeout=request_timeout)

    def list_consumer_group_offsets(
        self,
        list_consumer_group_offsets_request: list[ConsumerGroupTopicPartitions],
        *,
        require_stable: bool = False,
        request_timeout: float = -1,
    ) -> dict[str, Future[ConsumerGroupTopicPartitions]]:
        """Tells what groups have committed; see `AdminClient.list_consumer_group_offsets`."""
        return self._begin(
            self._core.list_consumer_group_offsets,
            list_consumer_group_offsets_request,
            require_stable=require_stable,
            request_timeout=request_timeout,
        )

    def alter_consumer_group_offsets(
        self, alter_consumer_group_offsets_request: list[ConsumerGroupTopicPartitions], *, request_timeout: float = -1
    ) -> dict[str, Future[ConsumerGroupTopicPartitions]]:
        """Commits offsets for a group that has no members; see `AdminClient.alter_consumer_group_offsets`."""
        return self._begin(
            self._core.alter_consumer_group_offsets,
            alter_consumer_group_offsets_request,
            request_timeout=request_timeout,
        )

    def delete_consumer_group_offsets(
        self, group_id: str, partitions: list[TopicPartition], *, request_timeout: float = -1
    ) -> dict[TopicPartition, Future[None]]:
        """As `AdminClient.delete_consumer_group_offsets`."""
        return self._begin(
            self._core.delete_consumer_group_offsets, group_id, partitions, request_timeout=request_timeout
        )

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
    ) -> Future[dict[str, KafkaError | None]] | dict[str, Future[None]]:
        """As `AdminClient.remove_members_from_consumer_group`."""
        call: Any = self._core.remove_members_from_consumer_group  # of two kinds
        return self._begin(call, group_id, members, reason=reason, request_timeout=request_timeout)

    def describe_share_groups(
        self, group_ids: list[str], *, include_authorized_operations: bool = False, request_timeout: float = -1
    ) -> dict[str, Future[ShareGroupDescription]]:
        """Describes share groups (KIP-932) with their members; see `AdminClient.describe_share_groups`."""
        return self._begin(
            self._core.describe_share_groups,
            group_ids,
            include_authorized_operations=include_authorized_operations,
            request_timeout=request_timeout,
        )

    def list_share_group_offsets(
        self, groups: Mapping[str, list[TopicPartition] | None], *, request_timeout: float = -1
    ) -> dict[str, Future[dict[TopicPartition, SharePartitionOffsetInfo | KafkaError | None]]]:
        """Tells how far share groups are; see `AdminClient.list_share_group_offsets`."""
        return self._begin(self._core.list_share_group_offsets, groups, request_timeout=request_timeout)

    def alter_share_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int], *, request_timeout: float = -1
    ) -> dict[TopicPartition, Future[None]]:
        """Lets a share group without members go on elsewhere; see `AdminClient.alter_share_group_offsets`."""
        return self._begin(self._core.alter_share_group_offsets, group_id, offsets, request_timeout=request_timeout)

    def delete_share_group_offsets(
        self, group_id: str, topics: list[str], *, request_timeout: float = -1
    ) -> dict[str, Future[None]]:
        """Lets a share group without members forget topics; see `AdminClient.delete_share_group_offsets`."""
        return self._begin(self._core.delete_share_group_offsets, group_id, topics, request_timeout=request_timeout)

    def describe_streams_groups(
        self, group_ids: list[str], *, include_authorized_operations: bool = False, request_timeout: float = -1
    ) -> dict[str, Future[StreamsGroupDescription]]:
        """Describes groups of Kafka Streams (KIP-1071); see `AdminClient.describe_streams_groups`."""
        return self._begin(
            self._core.describe_streams_groups,
            group_ids,
            include_authorized_operations=include_authorized_operations,
            request_timeout=request_timeout,
        )

    delete_share_groups = delete_consumer_groups
    delete_streams_groups = delete_consumer_groups
    list_streams_group_offsets = list_consumer_group_offsets
    alter_streams_group_offsets = alter_consumer_group_offsets
    delete_streams_group_offsets = delete_consumer_group_offsets

    # --- permissions and users ---

    async def set_sasl_credentials(self, username: str, password: str) -> None:
        """Takes another user name and password for PLAIN and SCRAM; see `AdminClient.set_sasl_credentials`."""
        self._core.set_sasl_credentials(username, password)

    def create_acls(self, acls: list[AclBinding], *, request_timeout: float = -1) -> dict[AclBinding, Future[None]]:
        """Makes permissions (KIP-140); see `AdminClient.create_acls`."""
        return self._begin(self._core.create_acls, acls, request_timeout=request_timeout)

    def describe_acls(
        self, acl_binding_filter: AclBindingFilter, *, request_timeout: float = -1
    ) -> Future[list[AclBinding]]:
        """Tells the permissions that fit a filter (KIP-357); see `AdminClient.describe_acls`."""
        return self._begin(self._core.describe_acls, acl_binding_filter, request_timeout=request_timeout)

    def delete_acls(
        self, acl_binding_filters: list[AclBindingFilter], *, request_timeout: float = -1
    ) -> dict[AclBindingFilter, Future[list[AclBinding]]]:
        """Deletes the permissions that fit filters; see `AdminClient.delete_acls`."""
        return self._begin(self._core.delete_acls, acl_binding_filters, request_timeout=request_timeout)

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
    ) -> Future[dict[str, UserScramCredentialsDescription]] | dict[str, Future[UserScramCredentialsDescription]]:
        """As `AdminClient.describe_user_scram_credentials`."""
        call: Any = self._core.describe_user_scram_credentials  # of two kinds
        return self._begin(call, users, request_timeout=request_timeout)

    def alter_user_scram_credentials(
        self, alterations: list[UserScramCredentialAlteration], *, request_timeout: float = -1
    ) -> dict[str, Future[None]]:
        """As `AdminClient.alter_user_scram_credentials`."""
        return self._begin(self._core.alter_user_scram_credentials, alterations, request_timeout=request_timeout)

    # --- delegation tokens ---

    def create_delegation_token(
        self,
        *,
        owner: KafkaPrincipal | None = None,
        renewers: list[KafkaPrincipal] | None = None,
        max_lifetime_ms: int = -1,
        request_timeout: float = -1,
    ) -> Future[DelegationToken]:
        """Makes a delegation token (KIP-48); see `AdminClient.create_delegation_token`."""
        return self._begin(
            self._core.create_delegation_token,
            owner=owner,
            renewers=renewers,
            max_lifetime_ms=max_lifetime_ms,
            request_timeout=request_timeout,
        )

    def renew_delegation_token(
        self, hmac: bytes, *, renew_time_period_ms: int = -1, request_timeout: float = -1
    ) -> Future[int]:
        """Lets a token live on (KIP-48); see `AdminClient.renew_delegation_token`."""
        return self._begin(
            self._core.renew_delegation_token,
            hmac,
            renew_time_period_ms=renew_time_period_ms,
            request_timeout=request_timeout,
        )

    def expire_delegation_token(
        self, hmac: bytes, *, expiry_time_period_ms: int = -1, request_timeout: float = -1
    ) -> Future[int]:
        """Lets a token end (KIP-48); see `AdminClient.expire_delegation_token`."""
        return self._begin(
            self._core.expire_delegation_token,
            hmac,
            expiry_time_period_ms=expiry_time_period_ms,
            request_timeout=request_timeout,
        )

    def describe_delegation_token(
        self, owners: list[KafkaPrincipal] | None = None, *, request_timeout: float = -1
    ) -> Future[list[DelegationToken]]:
        """Tells the tokens that this client may know of (KIP-48); see `AdminClient.describe_delegation_token`."""
        return self._begin(self._core.describe_delegation_token, owners, request_timeout=request_timeout)

    # --- transactions and the producers of partitions ---

    def list_transactions(
        self,
        *,
        states: set[TransactionState] | None = None,
        producer_ids: set[int] | None = None,
        duration_ms: int = -1,
        transactional_id_pattern: str | None = None,
        request_timeout: float = -1,
    ) -> Future[ListTransactionsResult]:
        """Lists the transactional ids, of every broker (KIP-664); see `AdminClient.list_transactions`."""
        return self._begin(
            self._core.list_transactions,
            states=states,
            producer_ids=producer_ids,
            duration_ms=duration_ms,
            transactional_id_pattern=transactional_id_pattern,
            request_timeout=request_timeout,
        )

    def describe_transactions(
        self, transactional_ids: list[str], *, request_timeout: float = -1
    ) -> dict[str, Future[TransactionDescription]]:
        """Describes transactional ids and their transactions (KIP-664); see `AdminClient.describe_transactions`."""
        return self._begin(self._core.describe_transactions, transactional_ids, request_timeout=request_timeout)

    def describe_producers(
        self, partitions: list[TopicPartition], *, broker: int = -1, request_timeout: float = -1
    ) -> dict[TopicPartition, Future[list[ProducerState]]]:
        """As `AdminClient.describe_producers`."""
        return self._begin(self._core.describe_producers, partitions, broker=broker, request_timeout=request_timeout)

    def abort_transaction(self, spec: AbortTransactionSpec, *, request_timeout: float = -1) -> Future[None]:
        """As `AdminClient.abort_transaction`."""
        return self._begin(self._core.abort_transaction, spec, request_timeout=request_timeout)

    def find_hanging_transactions(
        self,
        partitions: list[TopicPartition] | None = None,
        *,
        broker: int = -1,
        max_transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MAX_MS,
        request_timeout: float = -1,
    ) -> Future[FindHangingTransactionsResult]:
        """As `AdminClient.find_hanging_transactions`."""
        return self._begin(
            self._core.find_hanging_transactions,
            partitions,
            broker=broker,
            max_transaction_timeout_ms=max_transaction_timeout_ms,
            request_timeout=request_timeout,
        )

    def fence_producers(
        self, transactional_ids: list[str], *, request_timeout: float = -1
    ) -> dict[str, Future[ProducerIdAndEpoch]]:
        """As `AdminClient.fence_producers`."""
        return self._begin(self._core.fence_producers, transactional_ids, request_timeout=request_timeout)

    # --- client quotas ---

    def describe_client_quotas(
        self, quota_filter: ClientQuotaFilter, *, request_timeout: float = -1
    ) -> Future[dict[ClientQuotaEntity, dict[str, float]]]:
        """Tells the quotas of users, clients and addresses (KIP-546); see `AdminClient.describe_client_quotas`."""
        return self._begin(self._core.describe_client_quotas, quota_filter, request_timeout=request_timeout)

    def alter_client_quotas(
        self, alterations: list[ClientQuotaAlteration], *, validate_only: bool = False, request_timeout: float = -1
    ) -> dict[ClientQuotaEntity, Future[None]]:
        """Sets and removes quotas of users, clients and addresses (KIP-546); see `AdminClient.alter_client_quotas`."""
        return self._begin(
            self._core.alter_client_quotas, alterations, validate_only=validate_only, request_timeout=request_timeout
        )
