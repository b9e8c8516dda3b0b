"""Managing a cluster: `AdminClient`, with confluent_kafka.admin's names.

docs/guide/admin.md shows it.
"""

from __future__ import annotations

from kafka_native.admin.acls import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)
from kafka_native.admin.client import (
    AdminClient,
)
from kafka_native.admin.configs import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ConfigType,
)
from kafka_native.admin.groups import (
    ConsumerGroupDescription,
    ConsumerGroupListing,
    GroupMember,
    GroupMetadata,
    ListConsumerGroupsResult,
    MemberAssignment,
    MemberDescription,
)
from kafka_native.admin.partitions import (
    DeletedRecords,
    ListOffsetsResultInfo,
    LogDirDescription,
    NewPartitionReassignment,
    NewPartitions,
    OffsetSpec,
    PartitionReassignment,
    ReplicaInfo,
    ReplicaLogDirInfo,
    TopicPartitionReplica,
)
from kafka_native.admin.quorum import (
    DescribeClusterResult,
    FeatureMetadata,
    FeatureUpdate,
    FinalizedVersionRange,
    QuorumInfo,
    QuorumNode,
    RaftVoterEndpoint,
    ReplicaState,
    SupportedVersionRange,
    UpgradeType,
)
from kafka_native.admin.quotas import (
    ClientQuotaAlteration,
    ClientQuotaEntity,
    ClientQuotaFilter,
    ClientQuotaFilterComponent,
)
from kafka_native.admin.share_groups import (
    ShareGroupDescription,
    ShareMemberDescription,
    SharePartitionOffsetInfo,
    StreamsGroupDescription,
    StreamsGroupMemberAssignment,
    StreamsGroupMemberDescription,
    StreamsGroupSubtopologyDescription,
    StreamsGroupTopologyDescription,
    StreamsGroupTopologyDescriptionStatus,
    StreamsTaskOffset,
    StreamsTopicInfo,
    StreamsTopologyGlobalStore,
    StreamsTopologyNode,
    StreamsTopologyNodeType,
    StreamsTopologySubtopology,
)
from kafka_native.admin.tokens import (
    DelegationToken,
    KafkaPrincipal,
    TokenInformation,
)
from kafka_native.admin.topics import (
    NewTopic,
    PartitionDescription,
    TopicDescription,
    TopicMetadataAndConfig,
    TopicPartitionsCursor,
    TopicPartitionsDescription,
    TopicPartitionsPage,
    TopicPartitionsPages,
)
from kafka_native.admin.transactions import (
    AbortTransactionSpec,
    FindHangingTransactionsResult,
    HangingTransaction,
    ListTransactionsResult,
    ProducerIdAndEpoch,
    ProducerState,
    TransactionDescription,
    TransactionListing,
    TransactionState,
)
from kafka_native.admin.users import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialDeletion,
    UserScramCredentialsDescription,
    UserScramCredentialUpsertion,
)
from kafka_native.errors import KafkaError, KafkaException
from kafka_native.types import (
    OFFSET_INVALID,
    BrokerMetadata,
    ClusterMetadata,
    PartitionMetadata,
    TopicMetadata,
)

CONFIG_SOURCE_UNKNOWN_CONFIG = ConfigSource.UNKNOWN_CONFIG.value
CONFIG_SOURCE_DYNAMIC_TOPIC_CONFIG = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
CONFIG_SOURCE_DYNAMIC_BROKER_CONFIG = ConfigSource.DYNAMIC_BROKER_CONFIG.value
CONFIG_SOURCE_DYNAMIC_DEFAULT_BROKER_CONFIG = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG.value
CONFIG_SOURCE_STATIC_BROKER_CONFIG = ConfigSource.STATIC_BROKER_CONFIG.value
CONFIG_SOURCE_DEFAULT_CONFIG = ConfigSource.DEFAULT_CONFIG.value
CONFIG_SOURCE_GROUP_CONFIG = ConfigSource.GROUP_CONFIG.value
RESOURCE_UNKNOWN = ResourceType.UNKNOWN.value
RESOURCE_ANY = ResourceType.ANY.value
RESOURCE_TOPIC = ResourceType.TOPIC.value
RESOURCE_GROUP = ResourceType.GROUP.value
RESOURCE_BROKER = ResourceType.BROKER.value
RESOURCE_TRANSACTIONAL_ID = ResourceType.TRANSACTIONAL_ID.value

__all__ = [
    "CONFIG_SOURCE_DEFAULT_CONFIG",
    "CONFIG_SOURCE_DYNAMIC_BROKER_CONFIG",
    "CONFIG_SOURCE_DYNAMIC_DEFAULT_BROKER_CONFIG",
    "CONFIG_SOURCE_DYNAMIC_TOPIC_CONFIG",
    "CONFIG_SOURCE_GROUP_CONFIG",
    "CONFIG_SOURCE_STATIC_BROKER_CONFIG",
    "CONFIG_SOURCE_UNKNOWN_CONFIG",
    "OFFSET_INVALID",
    "RESOURCE_ANY",
    "RESOURCE_BROKER",
    "RESOURCE_GROUP",
    "RESOURCE_TOPIC",
    "RESOURCE_TRANSACTIONAL_ID",
    "RESOURCE_UNKNOWN",
    "AbortTransactionSpec",
    "AclBinding",
    "AclBindingFilter",
    "AclOperation",
    "AclPermissionType",
    "AdminClient",
    "AlterConfigOpType",
    "BrokerMetadata",
    "ClientQuotaAlteration",
    "ClientQuotaEntity",
    "ClientQuotaFilter",
    "ClientQuotaFilterComponent",
    "ClusterMetadata",
    "ConfigEntry",
    "ConfigResource",
    "ConfigSource",
    "ConfigType",
    "ConsumerGroupDescription",
    "ConsumerGroupListing",
    "DelegationToken",
    "DeletedRecords",
    "DescribeClusterResult",
    "FeatureMetadata",
    "FeatureUpdate",
    "FinalizedVersionRange",
    "FindHangingTransactionsResult",
    "GroupMember",
    "GroupMetadata",
    "HangingTransaction",
    "KafkaError",
    "KafkaException",
    "KafkaPrincipal",
    "ListConsumerGroupsResult",
    "ListOffsetsResultInfo",
    "ListTransactionsResult",
    "LogDirDescription",
    "MemberAssignment",
    "MemberDescription",
    "NewPartitionReassignment",
    "NewPartitions",
    "NewTopic",
    "OffsetSpec",
    "PartitionDescription",
    "PartitionMetadata",
    "PartitionReassignment",
    "ProducerIdAndEpoch",
    "ProducerState",
    "QuorumInfo",
    "QuorumNode",
    "RaftVoterEndpoint",
    "ReplicaInfo",
    "ReplicaLogDirInfo",
    "ReplicaState",
    "ResourcePatternType",
    "ResourceType",
    "ScramCredentialInfo",
    "ScramMechanism",
    "ShareGroupDescription",
    "ShareMemberDescription",
    "SharePartitionOffsetInfo",
    "StreamsGroupDescription",
    "StreamsGroupMemberAssignment",
    "StreamsGroupMemberDescription",
    "StreamsGroupSubtopologyDescription",
    "StreamsGroupTopologyDescription",
    "StreamsGroupTopologyDescriptionStatus",
    "StreamsTaskOffset",
    "StreamsTopicInfo",
    "StreamsTopologyGlobalStore",
    "StreamsTopologyNode",
    "StreamsTopologyNodeType",
    "StreamsTopologySubtopology",
    "SupportedVersionRange",
    "TokenInformation",
    "TopicDescription",
    "TopicMetadata",
    "TopicMetadataAndConfig",
    "TopicPartitionReplica",
    "TopicPartitionsCursor",
    "TopicPartitionsDescription",
    "TopicPartitionsPage",
    "TopicPartitionsPages",
    "TransactionDescription",
    "TransactionListing",
    "TransactionState",
    "UpgradeType",
    "UserScramCredentialAlteration",
    "UserScramCredentialDeletion",
    "UserScramCredentialUpsertion",
    "UserScramCredentialsDescription",
]
