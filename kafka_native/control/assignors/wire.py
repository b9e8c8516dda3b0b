"""Subscriptions and assignments as JoinGroup and SyncGroup carry them.

Brokers pass these bytes on without looking at them, so whoever may join the group decides what the leader reads here.
A member whose subscription makes no sense must harm itself only: it subscribes to nothing, and the others get their
partitions as if it weren't there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from kafka_native._native.wire import ProtocolError
from kafka_native.control.assignors.base import UNKNOWN_GENERATION, Assignor, MemberSubscription
from kafka_native.control.positions import Key
from kafka_native.errors import KafkaError, KafkaException
from kafka_native.protocol.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kafka_native.protocol.groups import JoinGroupResponse

VERSION: Final = 3
"""What is written. Readers take a newer version for the newest that they know, in every client."""
METADATA_MAX_BYTES: Final = 4 * 1024 * 1024
"""A longer subscription isn't read: no honest one gets there, and its objects would take many times its size."""


def pack_subscription(
    assignor: Assignor, topics: list[str], owned: list[Key], generation: int, rack: str | None
) -> bytes:
    """What this member tells the group in JoinGroup, one for each of its assignors.

    :param owned: What it reads now; nothing under the eager protocol, where it was given up before.
    :param generation: The generation of its last assignment, -1 before the first.
    :param rack: ``client.rack``, if any.
    :raises KafkaException: _FAIL when the assignor's `user_data` raises or returns no bytes.
    """
    try:
        user_data = _bytes(assignor, assignor.user_data(list(topics), list(owned), generation))
    except KafkaException:
        raise
    except Exception as error:
        text = f"assignor {assignor.name}: user_data() raised {type(error).__name__}: {error}"
        raise KafkaException(KafkaError(KafkaError._FAIL, text)) from error
    part = ConsumerProtocolSubscription.OwnedPartitions
    return ConsumerProtocolSubscription(
        topics=sorted(topics),
        user_data=user_data,
        owned_partitions=[part(topic=topic, partitions=numbers) for topic, numbers in _by_topic(owned).items()],
        generation_id=generation,
        rack_id=rack or None,
    ).pack(VERSION)


def _bytes(assignor: Assignor, user_data: object) -> bytes | None:
    """Makes sure that a custom assignor's user data is some."""
    if user_data is not None and not isinstance(user_data, bytes):
        text = f"assignor {assignor.name}: user_data() returned {type(user_data).__name__} instead of bytes or None"
        raise KafkaException(KafkaError(KafkaError._FAIL, text))
    return user_data


def unpack_subscriptions(
    members: Iterable[JoinGroupResponse.Member], generation: int
) -> tuple[dict[str, MemberSubscription], list[str]]:
    """The members of the group, for the leader's assignor, and a warning about each that can't be understood.

    :param generation: That of the JoinGroup response. Claims of this one or a later one can't be true: their
        generation counts as unknown.
    """
    found: dict[str, MemberSubscription] = {}
    warnings: list[str] = []
    for member in members:
        known = MemberSubscription(member.member_id, member.group_instance_id)
        try:
            found[member.member_id] = _read(known, member.metadata, generation)
        except ProtocolError as error:
            found[member.member_id] = known
            warnings.append(f"member {member.member_id}: its subscription can't be read, it gets nothing: {error}")
    return found, warnings


def _read(known: MemberSubscription, metadata: bytes, generation: int) -> MemberSubscription:
    if len(metadata) > METADATA_MAX_BYTES:
        raise ProtocolError(f"{len(metadata)} bytes are too many", "ConsumerProtocolSubscription", VERSION)
    read = ConsumerProtocolSubscription.unpack(metadata)
    claimed = UNKNOWN_GENERATION if read.generation_id >= generation else read.generation_id
    return replace(
        known,
        topics=list(dict.fromkeys(topic for topic in read.topics if topic)),
        owned=_keys((each.topic, each.partitions) for each in read.owned_partitions),
        generation=max(UNKNOWN_GENERATION, claimed),
        rack=read.rack_id or None,
        user_data=read.user_data,
    )


def pack_assignment(partitions: list[Key]) -> bytes:
    """A member's assignment for SyncGroup."""
    part = ConsumerProtocolAssignment.AssignedPartitions
    assigned = [part(topic=topic, partitions=numbers) for topic, numbers in _by_topic(partitions).items()]
    return ConsumerProtocolAssignment(assigned_partitions=assigned).pack(VERSION)


def unpack_assignment(raw: bytes) -> list[Key]:
    """What the leader has assigned to this member, each partition once; no bytes at all are no partitions.

    :raises KafkaException: _BAD_MSG when it can't be read: the leader is at fault.
    """
    if not raw:
        return []
    try:
        read = ConsumerProtocolAssignment.unpack(raw)
    except ProtocolError as error:
        raise KafkaException(
            KafkaError(KafkaError._BAD_MSG, f"the assignment of the group's leader can't be read: {error}")
        ) from error
    return _keys((each.topic, each.partitions) for each in read.assigned_partitions)


def _keys(topics: Iterable[tuple[str, list[int]]]) -> list[Key]:
    """Partitions in order, each once; those that can't exist are left out."""
    return sorted({(topic, number) for topic, numbers in topics for number in numbers if topic and number >= 0})


def _by_topic(partitions: Iterable[Key]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        found.setdefault(topic, []).append(number)
    return found
