"""What the error codes of a transaction's requests, and of its messages, mean for it."""

from __future__ import annotations

from kafka_native.errors import KafkaError

FENCED = frozenset({KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError._FENCED})
"""Said by a coordinator: somebody else has the transactional id now, nothing may be done under it any more.

A partition's leader says INVALID_PRODUCER_EPOCH also where the transaction alone is over (KIP-588): the coordinator,
asked for the abort, knows.
"""

FATAL = frozenset(
    {
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.INVALID_TRANSACTION_TIMEOUT,
        KafkaError.UNSUPPORTED_VERSION,
        KafkaError._UNSUPPORTED_FEATURE,
        KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        KafkaError.INVALID_REQUEST,
    }
)
"""Asking again would have the same answer, and no other transaction would work either."""

PASSING = frozenset(
    {
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.CONCURRENT_TRANSACTIONS,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError._BAD_MSG,  # a broker that lies may be another one next time
        KafkaError._TRANSPORT,
        KafkaError._TIMED_OUT,
        KafkaError._UNKNOWN_BROKER,
        KafkaError._RESOLVE,
    }
)
"""Answers after which asking again helps."""

FATAL_OF_MESSAGES = frozenset(
    {
        KafkaError.PRODUCER_FENCED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.UNSUPPORTED_VERSION,
    }
)
"""A message that failed with one of these would fail in any transaction."""

STRANGER = frozenset({KafkaError.INVALID_PRODUCER_ID_MAPPING, KafkaError.UNKNOWN_PRODUCER_ID})
"""The coordinator has forgotten the producer: another epoch has to be asked for before the next transaction."""

NOT_OPEN = FENCED | STRANGER | {KafkaError.INVALID_TXN_STATE}
"""Said by a coordinator of an end: the transaction of this id and epoch isn't open, and wasn't ended like this."""
