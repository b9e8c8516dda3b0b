"""What error codes mean to the control plane: one table, as sets of codes.

The sets at the top say what an error means, whatever request it answers. Those below say what a family of requests
makes of it: a ``RETRIABLE`` error ends no call, a ``FATAL`` one can't be helped by another try. They differ because the
same code is news of another kind elsewhere: NOT_COORDINATOR says nothing of a topic, and a lost connection may have
changed something where a request changes something.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from kafka_native.errors import KafkaError

Codes: TypeAlias = frozenset[int]

# --- connections ---

CONNECTION_ERRORS: Final[Codes] = frozenset({KafkaError._TRANSPORT, KafkaError._UNKNOWN_BROKER, KafkaError._RESOLVE})
"""No connection, or it has ended. A request that was sent may have taken effect."""
NO_REPLY_ERRORS: Final = CONNECTION_ERRORS | {KafkaError._TIMED_OUT}
"""The broker has sent no reply: these errors come from this client."""
SECURITY_ERRORS: Final[Codes] = frozenset({KafkaError._AUTHENTICATION, KafkaError._SSL})
"""Another attempt with the same configuration fails, too."""

# --- brokers ---

BROKER_FAILURE_ERRORS: Final[Codes] = frozenset(
    {KafkaError.REQUEST_TIMED_OUT, KafkaError.NETWORK_EXCEPTION, KafkaError.KAFKA_STORAGE_ERROR}
)
"""The broker has a problem of its own, or with its replicas."""
UNSUPPORTED_ERRORS: Final[Codes] = frozenset({KafkaError.UNSUPPORTED_VERSION, KafkaError._UNSUPPORTED_FEATURE})
"""The broker is too old for the request."""
NOT_OFFERED_ERRORS: Final = UNSUPPORTED_ERRORS | {KafkaError.CLUSTER_AUTHORIZATION_FAILED}
"""The brokers of this cluster are too old for the request, or don't let this client make it."""

# --- topics, partitions and their leaders: the metadata are out of date, or will be ---

UNKNOWN_TOPIC_ERRORS: Final[Codes] = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.UNKNOWN_TOPIC_ID})
LEADER_EPOCH_ERRORS: Final[Codes] = frozenset({KafkaError.FENCED_LEADER_EPOCH, KafkaError.UNKNOWN_LEADER_EPOCH})
"""The broker leads the partition under another epoch than the client says."""
LEADER_MOVED_ERRORS: Final = LEADER_EPOCH_ERRORS | {
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.REPLICA_NOT_AVAILABLE,
}
"""The leader has moved, or doesn't know yet that it leads."""
STALE_METADATA_ERRORS: Final = LEADER_MOVED_ERRORS | UNKNOWN_TOPIC_ERRORS
"""Ask for new metadata."""
METADATA_RETRIABLE_ERRORS: Final = (STALE_METADATA_ERRORS - LEADER_EPOCH_ERRORS) | {KafkaError.REQUEST_TIMED_OUT}
"""Of Metadata, which doesn't name an epoch: the topic or its leader is about to be there."""
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
"""Of Fetch, ListOffsets and OffsetForLeaderEpoch: ask for new metadata, then ask the leader again."""

# --- coordinators ---

COORDINATOR_MOVED_ERRORS: Final[Codes] = frozenset({KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE})
COORDINATOR_LOST_ERRORS: Final = COORDINATOR_MOVED_ERRORS | NO_REPLY_ERRORS
"""The coordinator has to be looked up again: see `Coordinator.note()`."""
COORDINATOR_BUSY_ERRORS: Final[Codes] = frozenset(
    {KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.CONCURRENT_TRANSACTIONS}
)
"""The coordinator is the right one, and not ready yet."""
COORDINATOR_REFUSED_ERRORS: Final[Codes] = frozenset(
    {
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.INVALID_GROUP_ID,
        KafkaError._UNSUPPORTED_FEATURE,
    }
)
"""Of FindCoordinator: another answer is unlikely. It is sent again all the same, at the slowest pace."""

# --- groups ---

REBALANCING_ERRORS: Final[Codes] = frozenset({KafkaError.REBALANCE_IN_PROGRESS, KafkaError.STALE_MEMBER_EPOCH})
"""The group is changing, and the member will hear of it."""
COMMIT_FENCED_ERRORS: Final[Codes] = frozenset(
    {
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.FENCED_INSTANCE_ID,
        KafkaError.FENCED_MEMBER_EPOCH,
    }
)
"""Of OffsetCommit and OffsetFetch, in both protocols: the group goes on without this member."""
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
"""Of OffsetCommit and OffsetFetch: sent again until the deadline."""
GENERATION_OVER_ERRORS: Final[Codes] = frozenset(
    {KafkaError.REBALANCE_IN_PROGRESS, KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION}
)
"""Of the classic protocol: the group has gone on to another generation, and the member joins that one."""
MEMBER_FENCED_ERRORS: Final[Codes] = frozenset({KafkaError.FENCED_MEMBER_EPOCH, KafkaError.UNKNOWN_MEMBER_ID})
"""Of KIP-848's heartbeats: another member may own the partitions. They are lost; the member joins again, same id."""
HEARTBEAT_FATAL_ERRORS: Final = NOT_OFFERED_ERRORS | {
    KafkaError.INVALID_REQUEST,
    KafkaError.INVALID_GROUP_ID,
    KafkaError.GROUP_ID_NOT_FOUND,
    KafkaError.GROUP_MAX_SIZE_REACHED,
    KafkaError.UNSUPPORTED_ASSIGNOR,
    KafkaError.UNRELEASED_INSTANCE_ID,
    KafkaError.FENCED_INSTANCE_ID,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
}
"""Of KIP-848's heartbeats, as in librdkafka. Another try can't help, or (UNRELEASED_INSTANCE_ID) would take what
another instance is using."""
HEARTBEAT_RETRIABLE_ERRORS: Final = BROKER_FAILURE_ERRORS | REBALANCING_ERRORS | {KafkaError.THROTTLING_QUOTA_EXCEEDED}
"""Of KIP-848's heartbeats: tried again, and not reported."""
SHARE_SESSION_ERRORS: Final = NO_REPLY_ERRORS | {
    KafkaError.SHARE_SESSION_NOT_FOUND,
    KafkaError.INVALID_SHARE_SESSION_EPOCH,
    KafkaError.SHARE_SESSION_LIMIT_REACHED,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError._DESTROY,
}
"""Of ShareFetch and ShareAcknowledge: another session begins. The broker pool reports failures of connections."""

# --- producers and transactions ---

SEQUENCE_LOST_ERRORS: Final[Codes] = frozenset(
    {KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, KafkaError.UNKNOWN_PRODUCER_ID}
)
"""Of Produce: with these the engine stops by itself, whatever enable.gapless.guarantee says."""
PRODUCER_FENCED_ERRORS: Final[Codes] = frozenset(
    {KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError._FENCED}
)
"""From a coordinator: another producer has the transactional id now, nothing may be done under it any more.

A partition's leader sends INVALID_PRODUCER_EPOCH also where the transaction alone is over (KIP-588): the coordinator,
asked for the abort, knows.
"""
PRODUCER_FORGOTTEN_ERRORS: Final[Codes] = frozenset(
    {KafkaError.INVALID_PRODUCER_ID_MAPPING, KafkaError.UNKNOWN_PRODUCER_ID}
)
"""The coordinator has forgotten the producer: another epoch has to be asked for before the next transaction."""
TRANSACTION_NOT_OPEN_ERRORS: Final = PRODUCER_FENCED_ERRORS | PRODUCER_FORGOTTEN_ERRORS | {KafkaError.INVALID_TXN_STATE}
"""Of EndTxn: the transaction of this id and epoch isn't open, and wasn't ended like this."""
TRANSACTION_FATAL_ERRORS: Final = NOT_OFFERED_ERRORS | {
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    KafkaError.INVALID_TRANSACTION_TIMEOUT,
    KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    KafkaError.INVALID_REQUEST,
}
"""Another try has the same answer, and no other transaction would work either."""
TRANSACTION_RETRIABLE_ERRORS: Final = (
    COORDINATOR_LOST_ERRORS
    | COORDINATOR_BUSY_ERRORS
    | {
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError._BAD_MSG,  # a broker that lies may be another one next time
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
"""Of Produce: a message that failed with one of these would fail in any transaction."""
WRONG_STATE_ERRORS: Final[Codes] = frozenset({KafkaError._STATE, KafkaError._PREV_IN_PROGRESS})
"""The application's call doesn't fit the producer's state; the text says it all."""

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
"""Nothing was done, and another try, maybe at another broker, may work. Topics may be missing for good."""

# --- client metrics ---

SUBSCRIPTION_OUTDATED_ERRORS: Final[Codes] = frozenset(
    {KafkaError.UNKNOWN_SUBSCRIPTION_ID, KafkaError.UNSUPPORTED_COMPRESSION_TYPE}
)
"""Of PushTelemetry: the subscription is asked for at once."""
PUSH_SKIPPED_ERRORS: Final[Codes] = frozenset({KafkaError.TELEMETRY_TOO_LARGE, KafkaError.THROTTLING_QUOTA_EXCEEDED})
"""Of PushTelemetry: the next push is due when the interval is over."""
TELEMETRY_FATAL_ERRORS: Final[Codes] = frozenset({KafkaError.INVALID_REQUEST, KafkaError.UNSUPPORTED_VERSION})
"""Of PushTelemetry and GetTelemetrySubscriptions: the broker is left alone."""
