"""Checks of AdminClient's arguments, and futures for its items, as in confluent_kafka.

Each call there checks in its own way, so the exceptions of two calls may differ for the same
mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import Any, TypeAlias

from kafka_native import admin
from kafka_native.deadlines import Future as EndlessFuture
from kafka_native.errors import KafkaError, KafkaException
from kafka_native.types import (
    OFFSET_INVALID,
    ConsumerGroupTopicPartitions,
    ElectionType,
    IsolationLevel,
    TopicPartition,
)

Futures: TypeAlias = dict[Any, "Future[Any]"]
Shares: TypeAlias = Iterator[tuple["Future[Any]", Any]]
"""Futures, each with its value or its KafkaError."""


# --- futures ---


def new_future() -> Future[Any]:
    """A running future, which can't be cancelled."""
    future: Future[Any] = EndlessFuture()
    future.set_running_or_notify_cancel()
    return future


def futures_for(
    items: Iterable[Any],
    share: Callable[[Any, Futures], Shares],
    kind: type | None = None,
    refusal: type[Exception] = ValueError,
) -> tuple[Future[Any], Futures]:
    """A future for a whole call, and one for each item, which follow the first.

    ``share`` divides the result of the call among them.
    """
    futures: Futures = {}
    for item in items:
        if kind is not None and not isinstance(item, kind):
            raise refusal(f"Expected list of {kind!r}")
        futures[item] = new_future()
    whole = new_future()
    whole.add_done_callback(lambda done: _share(done, futures, share))
    return whole, futures


def _share(whole: Future[Any], futures: Futures, share: Callable[[Any, Futures], Shares]) -> None:
    error = whole.exception()
    if error is None:
        try:
            for future, outcome in share(whole.result(), futures):
                if isinstance(outcome, KafkaError):
                    future.set_exception(KafkaException(outcome))
                else:
                    future.set_result(outcome)
            return
        except Exception as raised:
            error = raised
    for future in futures.values():
        if not future.done():
            future.set_exception(error)


def by_topic(result: Any, futures: Futures) -> Shares:
    """Shares a dict of errors. The names in it have to be those that were given."""
    for name, error in result.items():
        if name not in futures:
            raise RuntimeError(f"Topic {name} not found in future-map: {futures}")
        yield futures[name], error


def by_resource(result: Any, futures: Futures) -> Shares:
    """Shares a dict of settings by resource, which has an error if there are none."""
    for resource, settings in result.items():
        if resource not in futures:
            raise RuntimeError(f"Resource {resource} not found in future-map: {futures}")
        yield futures[resource], resource.error or settings


def in_order(result: Any, futures: Futures) -> Shares:
    """Shares a list in the order of the items."""
    _check_length(result, futures)
    yield from zip(futures.values(), result, strict=True)


def by_key(result: Any, futures: Futures) -> Shares:
    """Shares a dict with the given keys."""
    _check_length(result, futures)
    for key, value in result.items():
        if key not in futures:
            raise RuntimeError(f"Key {key} not found in future-map: {futures}")
        yield futures[key], value


def _check_length(result: Any, futures: Futures) -> None:
    if len(result) != len(futures):
        raise RuntimeError(
            f"Results length {len(result)} is different from future-map length {len(futures)}"
        )


# --- checks ---


def check_no_duplicates(items: Any, what: str) -> None:
    """Raises ValueError for duplicates."""
    if len(set(items)) != len(items):
        raise ValueError(f"duplicate {what} not allowed")


def check_groups(group_ids: object, what: str) -> None:
    """Raises for no list and for an empty one."""
    if not isinstance(group_ids, list):
        raise TypeError(f"Expected input to be list of group ids to be {what}")
    if not group_ids:
        raise ValueError(f"Expected at least one group to be {what}")


def check_members(name: str, given: object, kind: type) -> None:
    """Raises TypeError if something isn't a set of enum members."""
    if not isinstance(given, set):
        raise TypeError(f"'{name}' must be a set")
    if not all(isinstance(each, kind) for each in given):
        raise TypeError(f"All elements of {name} must be of type {kind.__name__}")


def check_listed_offsets(request: object) -> None:
    """Checks the argument of list_consumer_group_offsets()."""
    group = _one_group(request, "listing")
    if group.topic_partitions is not None:
        _check_offsets(group.topic_partitions, lambda offset: offset == OFFSET_INVALID)


def check_altered_offsets(request: object) -> None:
    """Checks the argument of alter_consumer_group_offsets()."""
    group = _one_group(request, "altering")
    if group.topic_partitions is None:
        raise ValueError("'topic_partitions' cannot be null")
    _check_offsets(group.topic_partitions, lambda offset: offset >= 0)


def _one_group(request: Any, doing: str) -> ConsumerGroupTopicPartitions:
    if not isinstance(request, list):
        raise TypeError("request must be a list")
    if len(request) != 1:
        raise ValueError(f"Currently we support {doing} offsets for a single consumer group only")
    group = request[0]
    if not isinstance(group, ConsumerGroupTopicPartitions):
        raise TypeError("Expected list of 'ConsumerGroupTopicPartitions'")
    _check_name(group.group_id, "group_id")
    return group


def _check_offsets(partitions: object, is_valid: Callable[[int], bool]) -> None:
    if not isinstance(partitions, list):
        raise TypeError("'topic_partitions' must be a list")
    if not partitions:
        raise ValueError("'topic_partitions' cannot be empty")
    about = "Element of 'topic_partitions'"
    for each in partitions:
        if each is None:
            raise ValueError(f"{about} cannot be None")
        if not isinstance(each, TopicPartition):
            raise TypeError(f"{about} must be of type TopicPartition")
        if not each.topic:
            raise ValueError(f"{about} must not have 'topic' attribute as Empty")
        if each.partition < 0:
            raise ValueError(f"{about} must not have negative 'partition' value")
        if not is_valid(each.offset):
            raise ValueError(f"{about} must have another 'offset' value")


def _check_name(given: object, what: str) -> None:
    """Raises for no str and for an empty one."""
    if not isinstance(given, str):
        raise TypeError(f"'{what}' must be a string")
    if not given:
        raise ValueError(f"'{what}' cannot be empty")


def check_users(users: object) -> None:
    """Checks the argument of describe_user_scram_credentials()."""
    if users is None:
        return
    if not isinstance(users, list):
        raise TypeError("Expected input to be list of String")
    for user in users:
        _check_name(user, "user")


def check_alterations(alterations: object) -> None:
    """Checks the argument of alter_user_scram_credentials()."""
    if not isinstance(alterations, list):
        raise TypeError("Expected input to be list")
    if not alterations:
        raise ValueError("Expected at least one alteration")
    for each in alterations:
        if not isinstance(each, admin.UserScramCredentialAlteration):
            raise TypeError("Expected each element of list to be a UserScramCredentialAlteration")
        _check_name(each.user, "user")
        if isinstance(each, admin.UserScramCredentialUpsertion):
            _check_upsertion(each)
        elif isinstance(each, admin.UserScramCredentialDeletion):
            _check_mechanism(each.mechanism)
        else:
            raise TypeError("Expected UserScramCredentialUpsertion or UserScramCredentialDeletion")


def _check_upsertion(given: admin.UserScramCredentialUpsertion) -> None:
    if not isinstance(given.password, bytes):
        raise TypeError("'password' must be bytes")
    if not given.password:
        raise ValueError("'password' cannot be empty")
    if given.salt is not None and not given.salt:
        raise ValueError("'salt' can be None but cannot be empty")
    if given.salt and not isinstance(given.salt, bytes):
        raise TypeError("'salt' must be bytes")
    if not isinstance(given.scram_credential_info, admin.ScramCredentialInfo):
        raise TypeError("Expected credential_info to be ScramCredentialInfo Type")
    if given.scram_credential_info.iterations < 1:
        raise ValueError("Iterations should be positive")
    _check_mechanism(given.scram_credential_info.mechanism)


def _check_mechanism(given: object) -> None:
    if not isinstance(given, admin.ScramMechanism):
        raise TypeError("Expected the mechanism to be ScramMechanism Type")


def check_specs(given: object, options: dict[str, Any]) -> None:
    """Checks the arguments of list_offsets()."""
    if not isinstance(given, dict):
        raise TypeError(
            "Expected topic_partition_offsets to be dict of [TopicPartitions,OffsetSpec]"
        )
    for partition, spec in given.items():
        if not isinstance(partition, TopicPartition):
            raise TypeError("partition must be a TopicPartition")
        if not partition.topic:
            raise ValueError("partition topic name cannot be empty")
        if partition.partition < 0:
            raise ValueError("partition index must be non-negative")
        if not isinstance(spec, admin.OffsetSpec):
            raise TypeError("Value must be a OffsetSpec")
    if not isinstance(options.get("isolation_level", IsolationLevel(0)), IsolationLevel):
        raise TypeError("isolation_level argument should be an IsolationLevel")


def check_records(given: object) -> None:
    """Checks the argument of delete_records()."""
    if not isinstance(given, list):
        raise TypeError(f"Expected Request to be a list, got '{type(given).__name__}'")
    _check_partitions(given)


def check_election(election_type: object, partitions: object) -> None:
    """Checks the arguments of elect_leaders()."""
    if not isinstance(election_type, ElectionType):
        raise TypeError("Expected 'election_type' to be of type 'ElectionType'")
    if partitions is not None:
        if not isinstance(partitions, list):
            raise TypeError(
                f"Expected 'partitions' to be a list, got '{type(partitions).__name__}'"
            )
        _check_partitions(partitions)


def _check_partitions(given: list[Any]) -> None:
    for each in given:
        if not isinstance(each, TopicPartition):
            raise TypeError(f"Elements must be of type 'TopicPartition', not {type(each).__name__}")
        if each.partition < 0:
            raise ValueError("'partition' cannot be negative")
