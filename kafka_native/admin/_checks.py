"""Arguments of AdminClient's calls: TypeError and ValueError for what can't be."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any, TypeVar

from kafka_native.admin._acl import AclBinding, AclBindingFilter
from kafka_native.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kafka_native.control.requests import NEVER
from kafka_native.deadlines import FOR_EVER_S
from kafka_native.errors import KafkaError
from kafka_native.types import OFFSET_INVALID, ConsumerGroupTopicPartitions, TopicPartition

V = TypeVar("V")

INT32_MAX = 0x7FFFFFFF
ITERATIONS_MAX = 1_000_000
"""Of a SCRAM credential; more would keep the caller for minutes."""


def list_of(given: Any, kind: type[V], least: int = 1) -> list[V]:
    """What was given, if it is a list (or tuple) of these with at least so many."""
    if not isinstance(given, list | tuple):
        raise TypeError(f"expected a list of {kind.__name__}, not {type(given).__name__}")
    for each in given:
        if not isinstance(each, kind):
            raise TypeError(f"expected a list of {kind.__name__}, one of it is {type(each).__name__}")
    if len(given) < least:
        raise ValueError(f"Expected non-empty list of {kind.__name__}")
    return list(given)


def set_of(name: str, given: Any, kind: type[V]) -> set[V]:
    """What was given, if it is a set of these; None is an empty one."""
    if given is None:
        return set()
    if not isinstance(given, set | frozenset) or not all(isinstance(each, kind) for each in given):
        raise TypeError(f"'{name}' must be a set of {kind.__name__}")
    return set(given)


def flag(name: str, given: Any) -> bool:
    """What was given, if it is a bool."""
    if not isinstance(given, bool):
        raise TypeError(f"Expected {name} to be bool type, not {type(given).__name__}")
    return given


def number(name: str, given: Any, least: int, end: int) -> int:
    """What was given, if it is an int that is at least ``least`` and below ``end``."""
    if isinstance(given, bool) or not isinstance(given, int):
        raise TypeError(f"'{name}' must be an int, not {type(given).__name__}")
    if not least <= given < end:
        raise ValueError(f"'{name}' must be {least} to {end - 1}, not {given}")
    return given


def broker_id(given: Any) -> int:
    """A broker's id, -1 for none."""
    number = operator.index(given)
    if not -1 <= number < 1 << 31:
        raise ValueError(f"there is no broker {number}")
    return number


def node_id(given: Any) -> int:
    """The id of a broker or controller."""
    number = broker_id(given)
    if number < 0:
        raise ValueError(f"there is no broker {number}")
    return number


def check_partitions(given: Iterable[Any]) -> None:
    """TypeError and ValueError for what can't be a partition."""
    for each in given:
        if not isinstance(each, TopicPartition):
            raise TypeError(f"partition must be a TopicPartition, not {type(each).__name__}")
        if not each.topic:
            raise ValueError("partition topic name cannot be empty")
        if each.partition < 0:
            raise ValueError("'partition' cannot be negative")


def offsets_of_groups(given: Any, doing: str) -> list[ConsumerGroupTopicPartitions]:
    """The groups of a request for "listing" or "altering" offsets, if they can be."""
    if given is None:
        raise TypeError("request cannot be None")
    if not isinstance(given, list | tuple) or not all(isinstance(e, ConsumerGroupTopicPartitions) for e in given):
        raise TypeError("Expected list of 'ConsumerGroupTopicPartitions'")
    if not given:
        raise ValueError("Expected non-empty list of groups")
    for group in given:
        group_name(group.group_id)
        if group.topic_partitions is None and doing == "altering":
            raise ValueError("'topic_partitions' cannot be null")
        if group.topic_partitions is not None:
            _check_offsets(group.topic_partitions, doing)
    return list(given)


def _check_offsets(partitions: Any, doing: str) -> None:
    if not isinstance(partitions, list):
        raise TypeError("'topic_partitions' must be a list or None")
    if not partitions:
        raise ValueError("'topic_partitions' cannot be empty")
    check_partitions(partitions)
    offsets = [each.offset for each in partitions]
    if doing == "altering" and min(offsets) < 0:
        raise ValueError("Element of 'topic_partitions' must not have negative value for 'offset' field")
    if doing == "listing" and set(offsets) != {OFFSET_INVALID}:
        raise ValueError("Element of 'topic_partitions' must not have 'offset' value")


def one_group(given: Any) -> ConsumerGroupTopicPartitions:
    """The one group of a request for altering offsets."""
    groups = offsets_of_groups(given, "altering")
    if len(groups) != 1:
        raise ValueError("Currently we support altering offsets for a single consumer group only")
    return groups[0]


def group_name(given: Any) -> str:
    """A group's id, if it can be one."""
    if not isinstance(given, str):
        raise TypeError("'group_id' must be a string")
    if not given:
        raise ValueError("'group_id' cannot be empty")
    return given


def once(group: ConsumerGroupTopicPartitions) -> ConsumerGroupTopicPartitions | KafkaError:
    """The group, or why it can't be asked about."""
    partitions = group.topic_partitions or []
    if len(set(partitions)) < len(partitions):
        return KafkaError(KafkaError._INVALID_ARG, "Duplicate partitions not allowed")
    return group


def checked_timeout(name: str, value: Any) -> float:
    """-1 for the default, `NEVER` for ever."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number of seconds, not {type(value).__name__}")
    if value != -1 and not value >= 0:
        raise ValueError(f'Invalid value type for "{name}": it must be -1 or more, not {value}')
    return NEVER if value > FOR_EVER_S else float(value)


def wire_ms(timeout_s: float) -> int:
    """Seconds as milliseconds of a request, which has 32 bits for them: 24 days are as good as for ever."""
    return int(min(timeout_s * 1000, INT32_MAX))


def distinct(given: Any, kind: type[V], what: str) -> list[V]:
    """A list of these, each there once."""
    found = list_of(given, kind)
    if len(set(found)) < len(found):
        raise ValueError(f"duplicate {what} not allowed")
    return found


def bindings(given: Any) -> list[AclBinding]:
    """Permissions to be made: no filters."""
    found = distinct(given, AclBinding, "ACL bindings")
    if any(isinstance(each, AclBindingFilter) for each in found):
        raise TypeError("expected a list of AclBinding, one of it is AclBindingFilter, which finds them")
    return found


def user_names(given: Any) -> list[str]:
    """Users to be described."""
    users = list_of(given, str, least=0)
    if not all(users):
        raise ValueError("'user' cannot be empty")
    return users


def alterations_of(given: Any) -> list[UserScramCredentialAlteration]:
    """Changes of SCRAM credentials. No error says a password."""
    found = list_of(given, UserScramCredentialAlteration)
    for each in found:
        if not isinstance(each.user, str):
            raise TypeError("'user' must be a string")
        if not each.user:
            raise ValueError("'user' cannot be empty")
        if isinstance(each, UserScramCredentialUpsertion):
            _check_upsertion(each)
        elif not isinstance(each, UserScramCredentialDeletion):
            raise TypeError("expected a UserScramCredentialUpsertion or a UserScramCredentialDeletion")
        elif not isinstance(each.mechanism, ScramMechanism):
            raise TypeError("Expected the mechanism to be ScramMechanism Type")
    return found


def _check_upsertion(upsertion: UserScramCredentialUpsertion) -> None:
    for name, secret in (("password", upsertion.password), ("salt", upsertion.salt)):
        if secret is None and name == "salt":
            continue
        if not isinstance(secret, bytes):
            raise TypeError(f"'{name}' must be bytes")
        if not secret:
            raise ValueError(f"'{name}' cannot be empty")
    info = upsertion.scram_credential_info
    if not isinstance(info, ScramCredentialInfo):
        raise TypeError("Expected credential_info to be ScramCredentialInfo Type")
    if isinstance(info.iterations, bool) or not isinstance(info.iterations, int):
        raise TypeError("Iterations should be an integer")
    if not 1 <= info.iterations <= ITERATIONS_MAX:
        raise ValueError(f"Iterations should be positive, and at most {ITERATIONS_MAX}")
    if not isinstance(info.mechanism, ScramMechanism):
        raise TypeError("Expected the mechanism to be ScramMechanism Type")
