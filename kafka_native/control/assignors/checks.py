"""Checks an assignment before it is sent: a partition with two owners would be read twice."""

from __future__ import annotations

from collections.abc import Mapping

from kafka_native.cleaning import NAME_MAX, clean
from kafka_native.control.assignors.base import Assignor, MemberSubscription, PartitionInfo
from kafka_native.control.positions import Key
from kafka_native.errors import KafkaError, KafkaException


def run(
    assignor: Assignor,
    partitions: Mapping[str, list[PartitionInfo]],
    members: Mapping[str, MemberSubscription],
) -> dict[str, list[Key]]:
    """The checked assignment of each member, sorted by topic and partition.

    :raises KafkaException: _FAIL: the assignor raises, or its assignment is invalid; see `check`.
    """
    try:
        assignment = assignor.assign(partitions, members)
    except Exception as error:
        raise _failed(assignor, f"raised {type(error).__name__}: {error}") from error
    check(assignment, members, partitions, assignor)
    return {member_id: sorted(assignment.get(member_id, ())) for member_id in members}


def check(
    assignment: Mapping[str, list[Key]],
    members: Mapping[str, MemberSubscription],
    partitions: Mapping[str, list[PartitionInfo]],
    assignor: Assignor | None = None,
) -> None:
    """Checks an assignment. It may leave partitions unassigned, as KIP-429 needs.

    :raises KafkaException: _FAIL: it isn't an assignment; a partition is assigned twice or doesn't
        exist; or a member is unknown or doesn't subscribe to the topic.
    """
    if not isinstance(assignment, Mapping):
        raise _failed(assignor, f"returned {type(assignment).__name__} instead of a dict of lists")
    numbers = {topic: {each.number for each in infos} for topic, infos in partitions.items()}
    owner: dict[Key, str] = {}
    for member_id, keys in assignment.items():
        member = members.get(member_id)
        if member is None:
            raise _failed(
                assignor,
                f"assigned partitions to {clean(repr(member_id))}, which is no member of the group",
            )
        topics, who = frozenset(member.topics), clean(member_id)
        for key in _keys(assignor, keys):
            topic, number = key
            what = f"{clean(topic, NAME_MAX)} [{number}]"
            if topic not in topics:
                raise _failed(assignor, f"assigned {what} to {who}, which doesn't subscribe to it")
            if number not in numbers.get(topic, ()):
                raise _failed(assignor, f"assigned {what} to {who}, but there is no such partition")
            other = owner.setdefault(key, member_id)
            if other != member_id:
                raise _failed(assignor, f"assigned {what} both to {clean(other)} and to {who}")
        if len(set(keys)) != len(keys):
            raise _failed(assignor, f"assigned a partition twice to {who}")


def _keys(assignor: Assignor | None, keys: object) -> list[Key]:
    """A member's partitions, after a check of their types."""
    if not isinstance(keys, (list, tuple)):
        raise _failed(
            assignor, f"returned {type(keys).__name__} instead of a list of (topic, partition)"
        )
    for key in keys:
        right = isinstance(key, tuple) and len(key) == 2 and isinstance(key[0], str)
        if not right or not isinstance(key[1], int) or isinstance(key[1], bool):
            raise _failed(assignor, f"returned {key!r} where a (topic, partition) is expected")
    return list(keys)


def _failed(assignor: Assignor | None, what: str) -> KafkaException:
    who = "the assignor" if assignor is None else f"assignor {assignor.name}"
    return KafkaException(KafkaError(KafkaError._FAIL, f"{who} {what}"))
