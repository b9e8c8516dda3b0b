"""KafkaError, KafkaException, and the conversion of the C core's status codes into them.

The classes behave like those of confluent_kafka: same constants, names, texts, comparison and hash.
An ``except`` clause or a delivery callback needs no change. There are two differences:

- An error compared with an object that is neither an error nor a number is unequal. In
  confluent_kafka, the comparison raises a TypeError.
- An exception can have a hint, which says how to solve the problem.
"""

from __future__ import annotations

import operator
from typing import Any, Final, SupportsIndex, TypeAlias

from ._native.enums import (
    STATUS_CLOSED,
    STATUS_CODEC,
    STATUS_CRC,
    STATUS_FATAL,
    STATUS_FULL,
    STATUS_INTERRUPTED,
    STATUS_INVALID,
    STATUS_NO_TRANSACTION,
    STATUS_NOMEM,
    STATUS_OK,
    STATUS_PROTOCOL,
    STATUS_PURGED,
    STATUS_PURGED_IN_FLIGHT,
    STATUS_RESOLVE,
    STATUS_STALE,
    STATUS_TIMED_OUT,
    STATUS_TLS,
    STATUS_TOO_LARGE,
    STATUS_TRANSPORT,
    STATUS_TRUNCATED,
    STATUS_UNKNOWN_PARTITION,
    STATUS_UNKNOWN_SCHEMA,
    STATUS_UNKNOWN_TOPIC,
    STATUS_UNSUPPORTED,
)
from ._reference.error_codes import RETRIABLE, TEXTS, ErrorCode
from .cleaning import escaped
from .unset_fields import unset_fields

__all__ = [
    "ConcurrentModificationException",
    "ErrorCode",
    "IllegalStateException",
    "KafkaError",
    "KafkaException",
    "error_name",
    "error_text",
    "from_status",
    "is_retriable",
]

# An alias, because the method KafkaError.str() hides the type in the annotations of its class.
_Text: TypeAlias = str
_INT32_MIN: Final = -(2**31)
_INT32_MAX: Final = 2**31 - 1


@unset_fields(_code=0, _reason=None, _fatal=False, _retriable=False, _txn_requires_abort=False)
class KafkaError:
    """An error or event: its code, its text, and its consequences for the client.

    An error equals another KafkaError, or an int, with the same code. Order and hash follow the
    code. KafkaError is not an exception: :class:`KafkaException` carries one in ``args[0]``.

    :param error: One of the class's constants, or any error code of the protocol.
    :param reason: A text that replaces the text of the code.
    :param fatal: True if the client can't continue.
    :param retriable: True if the application can retry the failed operation.
    :param txn_requires_abort: True if the application has to abort the current transaction.
    """

    __slots__ = ("_code", "_fatal", "_reason", "_retriable", "_txn_requires_abort")

    # Literals, for static typing. Tests compare them with ErrorCode and with confluent_kafka.
    _BAD_MSG: Final = -199
    _BAD_COMPRESSION: Final = -198
    _DESTROY: Final = -197
    _FAIL: Final = -196
    _TRANSPORT: Final = -195
    _CRIT_SYS_RESOURCE: Final = -194
    _RESOLVE: Final = -193
    _MSG_TIMED_OUT: Final = -192
    _PARTITION_EOF: Final = -191
    _UNKNOWN_PARTITION: Final = -190
    _FS: Final = -189
    _UNKNOWN_TOPIC: Final = -188
    _ALL_BROKERS_DOWN: Final = -187
    _INVALID_ARG: Final = -186
    _TIMED_OUT: Final = -185
    _QUEUE_FULL: Final = -184
    _ISR_INSUFF: Final = -183
    _NODE_UPDATE: Final = -182
    _SSL: Final = -181
    _WAIT_COORD: Final = -180
    _UNKNOWN_GROUP: Final = -179
    _IN_PROGRESS: Final = -178
    _PREV_IN_PROGRESS: Final = -177
    _EXISTING_SUBSCRIPTION: Final = -176
    _ASSIGN_PARTITIONS: Final = -175
    _REVOKE_PARTITIONS: Final = -174
    _CONFLICT: Final = -173
    _STATE: Final = -172
    _UNKNOWN_PROTOCOL: Final = -171
    _NOT_IMPLEMENTED: Final = -170
    _AUTHENTICATION: Final = -169
    _NO_OFFSET: Final = -168
    _OUTDATED: Final = -167
    _TIMED_OUT_QUEUE: Final = -166
    _UNSUPPORTED_FEATURE: Final = -165
    _WAIT_CACHE: Final = -164
    _INTR: Final = -163
    _KEY_SERIALIZATION: Final = -162
    _VALUE_SERIALIZATION: Final = -161
    _KEY_DESERIALIZATION: Final = -160
    _VALUE_DESERIALIZATION: Final = -159
    _PARTIAL: Final = -158
    _READ_ONLY: Final = -157
    _NOENT: Final = -156
    _UNDERFLOW: Final = -155
    _INVALID_TYPE: Final = -154
    _RETRY: Final = -153
    _PURGE_QUEUE: Final = -152
    _PURGE_INFLIGHT: Final = -151
    _FATAL: Final = -150
    _INCONSISTENT: Final = -149
    _GAPLESS_GUARANTEE: Final = -148
    _MAX_POLL_EXCEEDED: Final = -147
    _UNKNOWN_BROKER: Final = -146
    _NOT_CONFIGURED: Final = -145
    _FENCED: Final = -144
    _APPLICATION: Final = -143
    _ASSIGNMENT_LOST: Final = -142
    _NOOP: Final = -141
    _AUTO_OFFSET_RESET: Final = -140
    _LOG_TRUNCATION: Final = -139
    _INVALID_DIFFERENT_RECORD: Final = -138
    _DESTROY_BROKER: Final = -137
    UNKNOWN: Final = -1
    NO_ERROR: Final = 0
    OFFSET_OUT_OF_RANGE: Final = 1
    INVALID_MSG: Final = 2
    UNKNOWN_TOPIC_OR_PART: Final = 3
    INVALID_MSG_SIZE: Final = 4
    LEADER_NOT_AVAILABLE: Final = 5
    NOT_LEADER_FOR_PARTITION: Final = 6
    REQUEST_TIMED_OUT: Final = 7
    BROKER_NOT_AVAILABLE: Final = 8
    REPLICA_NOT_AVAILABLE: Final = 9
    MSG_SIZE_TOO_LARGE: Final = 10
    STALE_CTRL_EPOCH: Final = 11
    OFFSET_METADATA_TOO_LARGE: Final = 12
    NETWORK_EXCEPTION: Final = 13
    COORDINATOR_LOAD_IN_PROGRESS: Final = 14
    COORDINATOR_NOT_AVAILABLE: Final = 15
    NOT_COORDINATOR: Final = 16
    TOPIC_EXCEPTION: Final = 17
    RECORD_LIST_TOO_LARGE: Final = 18
    NOT_ENOUGH_REPLICAS: Final = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND: Final = 20
    INVALID_REQUIRED_ACKS: Final = 21
    ILLEGAL_GENERATION: Final = 22
    INCONSISTENT_GROUP_PROTOCOL: Final = 23
    INVALID_GROUP_ID: Final = 24
    UNKNOWN_MEMBER_ID: Final = 25
    INVALID_SESSION_TIMEOUT: Final = 26
    REBALANCE_IN_PROGRESS: Final = 27
    INVALID_COMMIT_OFFSET_SIZE: Final = 28
    TOPIC_AUTHORIZATION_FAILED: Final = 29
    GROUP_AUTHORIZATION_FAILED: Final = 30
    CLUSTER_AUTHORIZATION_FAILED: Final = 31
    INVALID_TIMESTAMP: Final = 32
    UNSUPPORTED_SASL_MECHANISM: Final = 33
    ILLEGAL_SASL_STATE: Final = 34
    UNSUPPORTED_VERSION: Final = 35
    TOPIC_ALREADY_EXISTS: Final = 36
    INVALID_PARTITIONS: Final = 37
    INVALID_REPLICATION_FACTOR: Final = 38
    INVALID_REPLICA_ASSIGNMENT: Final = 39
    INVALID_CONFIG: Final = 40
    NOT_CONTROLLER: Final = 41
    INVALID_REQUEST: Final = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT: Final = 43
    POLICY_VIOLATION: Final = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER: Final = 45
    DUPLICATE_SEQUENCE_NUMBER: Final = 46
    INVALID_PRODUCER_EPOCH: Final = 47
    INVALID_TXN_STATE: Final = 48
    INVALID_PRODUCER_ID_MAPPING: Final = 49
    INVALID_TRANSACTION_TIMEOUT: Final = 50
    CONCURRENT_TRANSACTIONS: Final = 51
    TRANSACTION_COORDINATOR_FENCED: Final = 52
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Final = 53
    SECURITY_DISABLED: Final = 54
    OPERATION_NOT_ATTEMPTED: Final = 55
    KAFKA_STORAGE_ERROR: Final = 56
    LOG_DIR_NOT_FOUND: Final = 57
    SASL_AUTHENTICATION_FAILED: Final = 58
    UNKNOWN_PRODUCER_ID: Final = 59
    REASSIGNMENT_IN_PROGRESS: Final = 60
    DELEGATION_TOKEN_AUTH_DISABLED: Final = 61
    DELEGATION_TOKEN_NOT_FOUND: Final = 62
    DELEGATION_TOKEN_OWNER_MISMATCH: Final = 63
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: Final = 64
    DELEGATION_TOKEN_AUTHORIZATION_FAILED: Final = 65
    DELEGATION_TOKEN_EXPIRED: Final = 66
    INVALID_PRINCIPAL_TYPE: Final = 67
    NON_EMPTY_GROUP: Final = 68
    GROUP_ID_NOT_FOUND: Final = 69
    FETCH_SESSION_ID_NOT_FOUND: Final = 70
    INVALID_FETCH_SESSION_EPOCH: Final = 71
    LISTENER_NOT_FOUND: Final = 72
    TOPIC_DELETION_DISABLED: Final = 73
    FENCED_LEADER_EPOCH: Final = 74
    UNKNOWN_LEADER_EPOCH: Final = 75
    UNSUPPORTED_COMPRESSION_TYPE: Final = 76
    STALE_BROKER_EPOCH: Final = 77
    OFFSET_NOT_AVAILABLE: Final = 78
    MEMBER_ID_REQUIRED: Final = 79
    PREFERRED_LEADER_NOT_AVAILABLE: Final = 80
    GROUP_MAX_SIZE_REACHED: Final = 81
    FENCED_INSTANCE_ID: Final = 82
    ELIGIBLE_LEADERS_NOT_AVAILABLE: Final = 83
    ELECTION_NOT_NEEDED: Final = 84
    NO_REASSIGNMENT_IN_PROGRESS: Final = 85
    GROUP_SUBSCRIBED_TO_TOPIC: Final = 86
    INVALID_RECORD: Final = 87
    UNSTABLE_OFFSET_COMMIT: Final = 88
    THROTTLING_QUOTA_EXCEEDED: Final = 89
    PRODUCER_FENCED: Final = 90
    RESOURCE_NOT_FOUND: Final = 91
    DUPLICATE_RESOURCE: Final = 92
    UNACCEPTABLE_CREDENTIAL: Final = 93
    INCONSISTENT_VOTER_SET: Final = 94
    INVALID_UPDATE_VERSION: Final = 95
    FEATURE_UPDATE_FAILED: Final = 96
    PRINCIPAL_DESERIALIZATION_FAILURE: Final = 97
    UNKNOWN_TOPIC_ID: Final = 100
    INCONSISTENT_TOPIC_ID: Final = 103
    FENCED_MEMBER_EPOCH: Final = 110
    UNRELEASED_INSTANCE_ID: Final = 111
    UNSUPPORTED_ASSIGNOR: Final = 112
    STALE_MEMBER_EPOCH: Final = 113
    MISMATCHED_ENDPOINT_TYPE: Final = 114
    UNSUPPORTED_ENDPOINT_TYPE: Final = 115
    UNKNOWN_CONTROLLER_ID: Final = 116
    UNKNOWN_SUBSCRIPTION_ID: Final = 117
    TELEMETRY_TOO_LARGE: Final = 118
    INVALID_REGISTRATION: Final = 119
    TRANSACTION_ABORTABLE: Final = 120
    INVALID_RECORD_STATE: Final = 121
    SHARE_SESSION_NOT_FOUND: Final = 122
    INVALID_SHARE_SESSION_EPOCH: Final = 123
    FENCED_STATE_EPOCH: Final = 124
    INVALID_VOTER_KEY: Final = 125
    DUPLICATE_VOTER: Final = 126
    VOTER_NOT_FOUND: Final = 127
    INVALID_REGULAR_EXPRESSION: Final = 128
    REBOOTSTRAP_REQUIRED: Final = 129
    STREAMS_INVALID_TOPOLOGY: Final = 130
    STREAMS_INVALID_TOPOLOGY_EPOCH: Final = 131
    STREAMS_TOPOLOGY_FENCED: Final = 132
    SHARE_SESSION_LIMIT_REACHED: Final = 133
    GROUP_DELETION_FAILED: Final = 134
    STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED: Final = 135
    CONTROLLER_ID_NOT_REGISTERED: Final = 136

    def __init__(
        self,
        error: int,
        reason: _Text | None = None,
        fatal: bool = False,
        retriable: bool = False,
        txn_requires_abort: bool = False,
    ) -> None:
        code = _int32(error)
        if reason is not None and not isinstance(reason, str):
            raise TypeError(f"argument 2 must be str or None, not {type(reason).__name__}")
        self._code: int = code
        self._reason: _Text | None = reason
        self._fatal = bool(_int32(fatal))
        self._retriable = bool(_int32(retriable))
        self._txn_requires_abort = bool(_int32(txn_requires_abort))

    def code(self) -> int:
        """Return the error code. Compare it with the class's constants."""
        return self._code

    def name(self) -> _Text:
        """Return the name of the constant, for instance ``_INVALID_ARG``."""
        return error_name(self._code)

    def str(self) -> _Text:
        """Return the reason if the error has one, otherwise the text of its code."""
        return error_text(self._code) if self._reason is None else self._reason

    def fatal(self) -> bool:
        """Return True if the client can't continue. The application has to create a new client."""
        return self._fatal

    def retriable(self) -> bool:
        """Return True if the application can retry the failed operation."""
        return self._retriable

    def txn_requires_abort(self) -> bool:
        """Return True if the application has to abort its current transaction."""
        return self._txn_requires_abort

    def __repr__(self) -> _Text:
        fatal = "FATAL," if self._fatal else ""
        return (
            f'KafkaError{{{fatal}code={self.name()},val={self._code},str="{escaped(self.str())}"}}'
        )

    __str__ = __repr__

    def __bool__(self) -> bool:
        return True

    def __hash__(self) -> int:
        return hash(self._code)

    def __eq__(self, other: object) -> bool:
        code = _code_of(other)
        return NotImplemented if code is None else self._code == code

    def __ne__(self, other: object) -> bool:
        code = _code_of(other)
        return NotImplemented if code is None else self._code != code

    def __lt__(self, other: KafkaError | int) -> bool:
        code = _code_of(other)
        return NotImplemented if code is None else self._code < code

    def __le__(self, other: KafkaError | int) -> bool:
        code = _code_of(other)
        return NotImplemented if code is None else self._code <= code

    def __gt__(self, other: KafkaError | int) -> bool:
        code = _code_of(other)
        return NotImplemented if code is None else self._code > code

    def __ge__(self, other: KafkaError | int) -> bool:
        code = _code_of(other)
        return NotImplemented if code is None else self._code >= code

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy of a derived class is a KafkaError: the other constructor is unknown.
        return (
            KafkaError,
            (self._code, self._reason, self._fatal, self._retriable, self._txn_requires_abort),
        )


class KafkaException(Exception):
    """The exception of this package.

    ``args[0]`` is a :class:`KafkaError` if the failure has a code.

    :param args: As for any exception. The error comes first.
    :param hint: How to solve the problem. The text of the exception ends with it; ``args`` doesn't
        contain it.
    """

    hint: str | None = None

    def __init__(self, *args: Any, hint: str | None = None) -> None:
        super().__init__(*args)
        if hint is not None:
            self.hint = hint

    def __str__(self) -> str:
        text = super().__str__()
        return text if self.hint is None else f"{text} (hint: {self.hint})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), self.args, dict(self.__dict__))


class IllegalStateException(RuntimeError):
    """The client's current state doesn't allow this call."""


class ConcurrentModificationException(RuntimeError):
    """Two threads used a client at the same time, and only one thread may use it."""


def _int32(value: SupportsIndex) -> int:
    number = operator.index(value)
    if not _INT32_MIN <= number <= _INT32_MAX:
        raise OverflowError(f"{number} is no signed 32-bit integer")
    return number


def _code_of(other: object) -> int | None:
    if isinstance(other, KafkaError):
        return other.code()
    if isinstance(other, int):
        return other
    try:
        return operator.index(other)  # type: ignore[arg-type]  # numpy's integers, for instance
    except TypeError:
        return None


_NAMES: Final[dict[int, str]] = {code.value: code.name for code in ErrorCode} | {
    value: name for name, value in vars(KafkaError).items() if isinstance(value, int)
}


def error_name(code: int) -> str:
    """Return the name of an error code, or ``ERR_<code>?`` for an unknown code."""
    return _NAMES.get(code) or f"ERR_{code}?"


def error_text(code: int) -> str:
    """Return the text of an error code, or ``Err-<code>?`` for an unknown code."""
    return TEXTS.get(code) or f"Err-{code}?"


def is_retriable(code: int) -> bool:
    """Return True if the broker's error is temporary, so that a retry can succeed."""
    return code in RETRIABLE


# The error code for each status code of the C core (csrc/base/status.h). "Too large" can mean a
# message, a frame or a decompressed batch. The table has the usual meaning. A caller that knows the
# exact meaning makes its own error.
_STATUS_CODES: Final[dict[int, int]] = {
    STATUS_OK: KafkaError.NO_ERROR,
    STATUS_NOMEM: KafkaError._CRIT_SYS_RESOURCE,
    STATUS_TRUNCATED: KafkaError._BAD_MSG,
    STATUS_INVALID: KafkaError._BAD_MSG,
    STATUS_CRC: KafkaError._BAD_MSG,
    STATUS_TOO_LARGE: KafkaError.MSG_SIZE_TOO_LARGE,
    STATUS_CODEC: KafkaError._BAD_COMPRESSION,
    STATUS_UNSUPPORTED: KafkaError._UNSUPPORTED_FEATURE,
    STATUS_FULL: KafkaError._QUEUE_FULL,
    STATUS_TIMED_OUT: KafkaError._TIMED_OUT,
    STATUS_TRANSPORT: KafkaError._TRANSPORT,
    STATUS_CLOSED: KafkaError._DESTROY,
    STATUS_INTERRUPTED: KafkaError._INTR,
    STATUS_UNKNOWN_PARTITION: KafkaError._UNKNOWN_PARTITION,
    STATUS_RESOLVE: KafkaError._RESOLVE,
    STATUS_PROTOCOL: KafkaError._BAD_MSG,
    STATUS_STALE: KafkaError._OUTDATED,
    STATUS_PURGED: KafkaError._PURGE_QUEUE,
    STATUS_PURGED_IN_FLIGHT: KafkaError._PURGE_INFLIGHT,
    STATUS_FATAL: KafkaError._FATAL,
    STATUS_NO_TRANSACTION: KafkaError._STATE,
    STATUS_TLS: KafkaError._SSL,
    STATUS_UNKNOWN_TOPIC: KafkaError._UNKNOWN_TOPIC,
    STATUS_UNKNOWN_SCHEMA: KafkaError._BAD_MSG,
}


def from_status(status: int, text: str | None = None) -> KafkaError:
    """Turn a status code of the C core into a KafkaError.

    :param status: One of ``enum kn_status``. An unknown status becomes ``_FAIL``, and the text
        shows its number.
    :param text: A text that replaces the text of the code.
    """
    code = _STATUS_CODES.get(status)
    if code is None:
        return KafkaError(
            KafkaError._FAIL, f"status {status}" if text is None else f"{text} (status {status})"
        )
    return KafkaError(code, text)
