"""How the control plane treats error codes: one table, as sets of codes.

The sets at the top group the codes by their meaning, for any request. The sets below say how one
family of requests reacts to a code. A ``RETRIABLE`` error doesn't end a call; after a ``FATAL``
error another attempt fails, too. The families differ because the meaning of a code depends on the
request. NOT_COORDINATOR, for example, concerns no topic. And after a lost connection, a request
that changes something may have taken effect.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from kafka_native.errors import KafkaError

Codes: TypeAlias = frozenset[int]

# --- connections ---

CONNECTION_ERRORS: Final[Codes] = frozenset(
    {KafkaError._TRANSPORT, KafkaError._UNKNOWN_BROKER, KafkaError._RESOLVE}
)
"""There is no connection, or it was closed. A request that was sent may have taken effect."""
NO_REPLY_ERRORS: Final = CONNECTION_ERRORS | {KafkaError._TIMED_OUT}
"""The client reports these errors itself because the broker has sent no reply."""
SECURITY_ERRORS: Final[Codes] = frozenset({KafkaError._AUTHENTICATION, KafkaError._SSL})
"""Another attempt with the same configuration fails, too."""

# --- brokers ---

BROKER_FAILURE_ERRORS: Final[Codes] = frozenset(
    {KafkaError.REQUEST_TIMED_OUT, KafkaError.NETWORK_EXCEPTION, KafkaError.KAFKA_STORAGE_ERROR}
)
"""The broker has an internal problem, or a problem with its replicas."""
UNSUPPORTED_ERRORS: Final[Codes] = frozenset(
    {KafkaError.UNSUPPORTED_VERSION, KafkaError._UNSUPPORTED_FEATURE}
)
"""The broker is too old for the request."""
NOT_OFFERED_ERRORS: Final = UNSUPPORTED_ERRORS | {KafkaError.CLUSTER_AUTHORIZATION_FAILED}
"""The brokers of this cluster are too old for the request, or deny it to this client."""

# --- topics, partitions and their leaders: the metadata are out of date, or will be ---

UNKNOWN_TOPIC_ERRORS: Final[Codes] = frozenset(
    {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.UNKNOWN_TOPIC_ID}
)
LEADER_EPOCH_ERRORS: Final[Codes] = frozenset(
    {KafkaError.FENCED_LEADER_EPOCH, KafkaError.UNKNOWN_LEADER_EPOCH}
)
"""The client and the broker disagree about the partition's leader epoch."""
LEADER_MOVED_ERRORS: Final = LEADER_EPOCH_ERRORS | {
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.REPLICA_NOT_AVAILABLE,
}
"""The leader has moved, or the broker doesn't know yet that it is the leader."""
MISSING_TOPIC_ERRORS: Final[Codes] = UNKNOWN_TOPIC_ERRORS | {
    KafkaError._UNKNOWN_TOPIC,
    KafkaError.TOPIC_EXCEPTION,
}
"""The reasons for which a topic is taken to be missing, as in librdkafka."""
STALE_METADATA_ERRORS: Final = LEADER_MOVED_ERRORS | UNKNOWN_TOPIC_ERRORS
"""The client's metadata are out of date: refresh them."""
METADATA_RETRIABLE_ERRORS: Final = (STALE_METADATA_ERRORS - LEADER_EPOCH_ERRORS) | {
    KafkaError.REQUEST_TIMED_OUT
}
"""For Metadata, which carries no leader epoch: the topic or its leader will exist soon."""
LEADER_RETRIABLE_ERRORS: Final = (
    STALE_METADATA_ERRORS
    | NO_REPLY_ERRORS
    | {
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.INCONSISTENT_TOPIC_ID,
        KafkaError.REQUEST_TIMED_OUT,
    }
)
"""For Fetch, ListOffsets and OffsetForLeaderEpoch: refresh the metadata, then retry at the leader.
"""

# --- coordinators ---

COORDINATOR_MOVED_ERRORS: Final[Codes] = frozenset(
    {KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE}
)
COORDINATOR_LOST_ERRORS: Final = COORDINATOR_MOVED_ERRORS | NO_REPLY_ERRORS
"""The client must look up the coordinator again: see `Coordinator.note()`."""
COORDINATOR_BUSY_ERRORS: Final[Codes] = frozenset(
    {KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.CONCURRENT_TRANSACTIONS}
)
"""The coordinator is the right one, but it isn't ready yet."""
COORDINATOR_REFUSED_ERRORS: Final[Codes] = frozenset(
    {
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.INVALID_GROUP_ID,
        KafkaError._UNSUPPORTED_FEATURE,
    }
)
"""For FindCoordinator: another attempt will probably fail, too.

The client retries at the longest interval.
"""

# --- groups ---

REBALANCING_ERRORS: Final[Codes] = frozenset(
    {KafkaError.REBALANCE_IN_PROGRESS, KafkaError.STALE_MEMBER_EPOCH}
)
"""The group is rebalancing. The member learns about it from its next heartbeat."""
COMMIT_FENCED_ERRORS: Final[Codes] = frozenset(
    {
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.FENCED_INSTANCE_ID,
        KafkaError.FENCED_MEMBER_EPOCH,
    }
)
"""For OffsetCommit and OffsetFetch, in both protocols: the group has removed this member."""
COMMIT_RETRIABLE_ERRORS: Final = (
    COORDINATOR_MOVED_ERRORS
    | BROKER_FAILURE_ERRORS
    | REBALANCING_ERRORS
    | {
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
    }
)
"""For OffsetCommit and OffsetFetch: the client retries until the deadline."""
GENERATION_OVER_ERRORS: Final[Codes] = frozenset(
    {KafkaError.REBALANCE_IN_PROGRESS, KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION}
)
"""For the classic protocol: the group has a newer generation, and the member joins that one."""
MEMBER_FENCED_ERRORS: Final[Codes] = frozenset(
    {KafkaError.FENCED_MEMBER_EPOCH, KafkaError.UNKNOWN_MEMBER_ID}
)
"""For KIP-848's heartbeats: the member has lost its partitions to other members.

It joins again with the same id.
"""
HEARTBEAT_FATAL_ERRORS: Final = NOT_OFFERED_ERRORS | {
    KafkaError.INVALID_REQUEST,
    KafkaError.INVALID_GROUP_ID,
    KafkaError.GROUP_ID_NOT_FOUND,
    KafkaError.GROUP_MAX_SIZE_REACHED,
    KafkaError.UNSUPPORTED_ASSIGNOR,
    KafkaError.UNRELEASED_INSTANCE_ID,
    KafkaError.FENCED_INSTANCE_ID,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.STREAMS_INVALID_TOPOLOGY,
    KafkaError.STREAMS_INVALID_TOPOLOGY_EPOCH,
    KafkaError.STREAMS_TOPOLOGY_FENCED,
}
"""For KIP-848's heartbeats, as in librdkafka: another attempt fails, too.

The last three are errors of streams groups (KIP-1071).

After UNRELEASED_INSTANCE_ID it would take over the instance id of an active member.
"""
HEARTBEAT_RETRIABLE_ERRORS: Final = (
    BROKER_FAILURE_ERRORS | REBALANCING_ERRORS | {KafkaError.THROTTLING_QUOTA_EXCEEDED}
)
"""For KIP-848's heartbeats: the client retries and doesn't report them."""
SHARE_SESSION_ERRORS: Final = NO_REPLY_ERRORS | {
    KafkaError.SHARE_SESSION_NOT_FOUND,
    KafkaError.INVALID_SHARE_SESSION_EPOCH,
    KafkaError.SHARE_SESSION_LIMIT_REACHED,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError._DESTROY,
}
"""For ShareFetch and ShareAcknowledge: the client opens a new session.

The broker pool reports connection failures.
"""

# --- producers and transactions ---

SEQUENCE_LOST_ERRORS: Final[Codes] = frozenset(
    {KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, KafkaError.UNKNOWN_PRODUCER_ID}
)
"""For Produce: the engine stops at these errors, whatever enable.gapless.guarantee is."""
PRODUCER_FENCED_ERRORS: Final[Codes] = frozenset(
    {KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError._FENCED}
)
"""From a coordinator: a newer producer has the transactional id.

This producer can't use it any more. A partition leader also sends INVALID_PRODUCER_EPOCH when only
the transaction has ended (KIP-588). The coordinator's reply to the abort
distinguishes the two cases.
"""
PRODUCER_FORGOTTEN_ERRORS: Final[Codes] = frozenset(
    {KafkaError.INVALID_PRODUCER_ID_MAPPING, KafkaError.UNKNOWN_PRODUCER_ID}
)
"""The coordinator has forgotten the producer. It needs a new epoch before its next transaction."""
TRANSACTION_NOT_OPEN_ERRORS: Final = (
    PRODUCER_FENCED_ERRORS | PRODUCER_FORGOTTEN_ERRORS | {KafkaError.INVALID_TXN_STATE}
)
"""For EndTxn: no transaction with this id and epoch is open, and none ended in the requested way.
"""
TRANSACTION_FATAL_ERRORS: Final = NOT_OFFERED_ERRORS | {
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    KafkaError.INVALID_TRANSACTION_TIMEOUT,
    KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    KafkaError.INVALID_REQUEST,
}
"""Another attempt fails, too, and so would every later transaction."""
TRANSACTION_RETRIABLE_ERRORS: Final = (
    COORDINATOR_LOST_ERRORS
    | COORDINATOR_BUSY_ERRORS
    | {
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.UNKNOWN_TOPIC_ID,  # of TxnOffsetCommit: newer metadata may have another id
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError._BAD_MSG,  # a corrupt reply; the next one may come from another broker
    }
)
MESSAGE_FATAL_ERRORS: Final[Codes] = frozenset(
    {
        KafkaError.PRODUCER_FENCED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.UNSUPPORTED_VERSION,
    }
)
"""For Produce: a message with one of these errors would fail in every transaction."""
WRONG_STATE_ERRORS: Final[Codes] = frozenset({KafkaError._STATE, KafkaError._PREV_IN_PROGRESS})
"""The application's call doesn't fit the producer's state. The error text says why."""

# --- admin operations ---

ADMIN_RETRIABLE_ERRORS: Final = (
    COORDINATOR_MOVED_ERRORS
    | LEADER_MOVED_ERRORS
    | {
        KafkaError.NOT_CONTROLLER,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
    }
)
"""The broker has changed nothing. Another attempt, perhaps at another broker, may succeed.

Errors about unknown topics are missing here: a topic may be missing for good.
"""

# --- client metrics ---

SUBSCRIPTION_OUTDATED_ERRORS: Final[Codes] = frozenset(
    {KafkaError.UNKNOWN_SUBSCRIPTION_ID, KafkaError.UNSUPPORTED_COMPRESSION_TYPE}
)
"""For PushTelemetry: the client requests the subscription again at once."""
PUSH_SKIPPED_ERRORS: Final[Codes] = frozenset(
    {KafkaError.TELEMETRY_TOO_LARGE, KafkaError.THROTTLING_QUOTA_EXCEEDED}
)
"""For PushTelemetry: the client pushes again at the end of the interval."""
TELEMETRY_FATAL_ERRORS: Final[Codes] = frozenset(
    {KafkaError.INVALID_REQUEST, KafkaError.UNSUPPORTED_VERSION}
)
"""For PushTelemetry and GetTelemetrySubscriptions: the client sends no more telemetry requests."""
