"""The exceptions of aiokafka and kafka-python, and which of kafka_native's become them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import ClassVar

import kafka_native
from kafka_native import KafkaException, TopicPartition
from kafka_native.types import TopicMetadata


class KafkaError(RuntimeError):
    """Any error of these clients. ``errno`` is the broker's code, or a negative local one."""

    errno: ClassVar[int | None] = None
    retriable: bool = False


class KafkaTimeoutError(KafkaError):
    """The time was up."""


class KafkaConnectionError(KafkaError):
    """No broker can be reached."""

    retriable = True


class AuthenticationFailedError(KafkaError):
    """The broker refused the login."""


class IllegalStateError(KafkaError):
    """The call isn't possible now."""


class ProducerClosed(KafkaError):
    """The producer was stopped."""


class ConsumerStoppedError(Exception):
    """The consumer was stopped. It is no KafkaError, as in aiokafka."""


class CommitFailedError(KafkaError):
    """The group has given the partitions to others, so the offsets aren't committed."""


class NoOffsetForPartitionError(KafkaError):
    """There is no committed offset, and auto_offset_reset is none."""


class BrokerResponseError(KafkaError):
    """A broker answered with an error."""


def _response(name: str, errno: int) -> type[BrokerResponseError]:
    return type(name, (BrokerResponseError,), {"errno": errno, "__module__": __name__})


OffsetOutOfRangeError = _response("OffsetOutOfRangeError", 1)
UnknownTopicOrPartitionError = _response("UnknownTopicOrPartitionError", 3)
NotLeaderForPartitionError = _response("NotLeaderForPartitionError", 6)
RequestTimedOutError = _response("RequestTimedOutError", 7)
MessageSizeTooLargeError = _response("MessageSizeTooLargeError", 10)
InvalidTopicError = _response("InvalidTopicError", 17)
NotEnoughReplicasError = _response("NotEnoughReplicasError", 19)
IllegalGenerationError = _response("IllegalGenerationError", 22)
UnknownMemberIdError = _response("UnknownMemberIdError", 25)
RebalanceInProgressError = _response("RebalanceInProgressError", 27)
TopicAuthorizationFailedError = _response("TopicAuthorizationFailedError", 29)
GroupAuthorizationFailedError = _response("GroupAuthorizationFailedError", 30)
ClusterAuthorizationFailedError = _response("ClusterAuthorizationFailedError", 31)
UnsupportedVersionError = _response("UnsupportedVersionError", 35)
TopicAlreadyExistsError = _response("TopicAlreadyExistsError", 36)
ProducerFencedError = _response("ProducerFencedError", 90)

_CODES = kafka_native.KafkaError
_RESPONSES = {each.errno: each for each in BrokerResponseError.__subclasses__()}
_RESPONSES[_CODES.INVALID_PRODUCER_EPOCH] = ProducerFencedError  # as in their clients
_LOCAL: dict[int, type[KafkaError]] = {
    _CODES._TIMED_OUT: KafkaTimeoutError,
    _CODES._MSG_TIMED_OUT: KafkaTimeoutError,
    _CODES._TIMED_OUT_QUEUE: KafkaTimeoutError,
    _CODES._TRANSPORT: KafkaConnectionError,
    _CODES._RESOLVE: KafkaConnectionError,
    _CODES._ALL_BROKERS_DOWN: KafkaConnectionError,
    _CODES._AUTHENTICATION: AuthenticationFailedError,
    _CODES._FENCED: ProducerFencedError,
    _CODES._STATE: IllegalStateError,
    _CODES._UNKNOWN_GROUP: IllegalStateError,
    _CODES._UNKNOWN_TOPIC: UnknownTopicOrPartitionError,
    _CODES._UNKNOWN_PARTITION: UnknownTopicOrPartitionError,
}
_GROUP_MOVED_ON = {
    _CODES.ILLEGAL_GENERATION,
    _CODES.UNKNOWN_MEMBER_ID,
    _CODES.REBALANCE_IN_PROGRESS,
    _CODES.FENCED_MEMBER_EPOCH,
    _CODES._ASSIGNMENT_LOST,
}


def error_of(cause: kafka_native.KafkaError) -> KafkaError:
    """Return the exception for an error of kafka_native."""
    code = cause.code()
    usual = BrokerResponseError if code > 0 else KafkaError
    kind = _RESPONSES.get(code) or _LOCAL.get(code) or usual
    if code == _CODES._AUTO_OFFSET_RESET:  # it has two reasons
        is_position = "out of range" in cause.str()
        kind = OffsetOutOfRangeError if is_position else NoOffsetForPartitionError
    error = kind(cause.str())
    if kind.errno is None:
        error.errno = code  # type: ignore[misc]  # their instances have it, too
    error.retriable = cause.retriable()
    return error


@contextmanager
def converted() -> Iterator[None]:
    """Raise the exceptions of kafka_native as theirs."""
    try:
        yield
    except KafkaException as error:
        raise error_of(error.args[0]) from error


def check_topic(known: TopicMetadata, may_wait: bool) -> None:
    """Raise the error of a topic without partitions, unless it may get them in time."""
    cause = known.error
    if may_wait and (cause is None or cause.code() != _CODES.TOPIC_AUTHORIZATION_FAILED):
        return
    if cause is None:
        raise UnknownTopicOrPartitionError(f"topic {known.topic} has no partitions")
    raise error_of(cause)


@contextmanager
def seeking(unassigned: type[Exception]) -> Iterator[None]:
    """Raise the exceptions of a seek as theirs.

    :param unassigned: The class for a partition that isn't assigned.
    """
    try:
        yield
    except KafkaException as error:
        cause = error.args[0]
        if cause.code() == _CODES._UNKNOWN_PARTITION:
            raise unassigned(cause.str()) from error
        raise error_of(cause) from error


@contextmanager
def committing() -> Iterator[None]:
    """Raise the exceptions of a commit as theirs. Nothing to commit is no error, as there."""
    try:
        yield
    except KafkaException as error:
        _raise_commit_error(error.args[0])


def check_committed(partitions: Iterable[TopicPartition] | None) -> None:
    """Raise the first error of the partitions of a commit."""
    for each in partitions or ():
        if each.error is not None:
            _raise_commit_error(each.error)


def _raise_commit_error(cause: kafka_native.KafkaError) -> None:
    if cause.code() in _GROUP_MOVED_ON:
        raise CommitFailedError(cause.str()) from KafkaException(cause)
    if cause.code() != _CODES._NO_OFFSET:
        raise error_of(cause) from KafkaException(cause)
