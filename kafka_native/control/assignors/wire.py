"""The wire format of subscriptions and assignments in JoinGroup and SyncGroup.

Brokers don't read these bytes, so any client that may join the group decides what the leader reads
here. A member with an invalid subscription must not affect other members. It counts as a member
without topics, and the others get their partitions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kafka_native._native.wire import ProtocolError
from kafka_native.control.assignors.base import UNKNOWN_GENERATION, Assignor, MemberSubscription
from kafka_native.control.positions import Key
from kafka_native.errors import KafkaError, KafkaException
from kafka_native.protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from kafka_native.protocol.groups import JoinGroupResponse

VERSION: Final = 3
"""The version to write. All clients read a newer version as the newest that they know."""
METADATA_MAX_BYTES: Final = 4 * 1024 * 1024
"""The maximum size of a subscription. Decoding needs a multiple of it.
"""


def pack_subscription(
    assignor: Assignor, topics: list[str], owned: list[Key], generation: int, rack: str | None
) -> bytes:
    """Encodes this member's subscription in JoinGroup, for one of its assignors.

    :param owned: Its partitions; empty under the eager protocol, where it has given them up before.
    :param generation: The generation of its last assignment, -1 before the first.
    :param rack: ``client.rack``, if any.
    :raises KafkaException: _FAIL: the assignor's `user_data` raises or doesn't return bytes.
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
        owned_partitions=[
            part(topic=topic, partitions=numbers) for topic, numbers in _by_topic(owned).items()
        ],
        generation_id=generation,
        rack_id=rack or None,
    ).pack(VERSION)


def _bytes(assignor: Assignor, user_data: object) -> bytes | None:
    """The user data of a custom assignor, after a check of the type."""
    if user_data is not None and not isinstance(user_data, bytes):
        kind = type(user_data).__name__
        text = f"assignor {assignor.name}: user_data() returned {kind} instead of bytes or None"
        raise KafkaException(KafkaError(KafkaError._FAIL, text))
    return user_data


def unpack_subscriptions(
    members: Iterable[JoinGroupResponse.Member], generation: int
) -> tuple[dict[str, MemberSubscription], list[str]]:
    """The members for the leader's assignor, and a warning for each invalid subscription.

    :param generation: The generation of the JoinGroup response. Claims of this or a later
        generation can't be true: their generation counts as unknown.
    """
    found: dict[str, MemberSubscription] = {}
    warnings: list[str] = []
    for member in members:
        known = MemberSubscription(member.member_id, member.group_instance_id)
        try:
            found[member.member_id] = _read(known, member.metadata, generation)
        except ProtocolError as error:
            found[member.member_id] = known
            warnings.append(
                f"member {member.member_id}: its subscription can't be read, it gets nothing: "
                f"{error}"
            )
    return found, warnings


def _read(known: MemberSubscription, metadata: bytes, generation: int) -> MemberSubscription:
    if len(metadata) > METADATA_MAX_BYTES:
        raise ProtocolError(
            f"{len(metadata)} bytes are too many", "ConsumerProtocolSubscription", VERSION
        )
    read = ConsumerProtocolSubscription.unpack(metadata)
    claimed = UNKNOWN_GENERATION if read.generation_id >= generation else read.generation_id
    return known._replace(
        topics=list(dict.fromkeys(topic for topic in read.topics if topic)),
        owned=_keys((each.topic, each.partitions) for each in read.owned_partitions),
        generation=max(UNKNOWN_GENERATION, claimed),
        rack=read.rack_id or None,
        user_data=read.user_data,
    )


def pack_assignment(partitions: list[Key]) -> bytes:
    """A member's assignment for SyncGroup."""
    part = ConsumerProtocolAssignment.AssignedPartitions
    assigned = [
        part(topic=topic, partitions=numbers) for topic, numbers in _by_topic(partitions).items()
    ]
    return ConsumerProtocolAssignment(assigned_partitions=assigned).pack(VERSION)


def unpack_assignment(raw: bytes) -> list[Key]:
    """Decodes this member's assignment from the leader, each partition once.

    Empty bytes mean no partitions.

    :raises KafkaException: _BAD_MSG: the leader's assignment can't be read.
    """
    if not raw:
        return []
    try:
        read = ConsumerProtocolAssignment.unpack(raw)
    except ProtocolError as error:
        raise KafkaException(
            KafkaError(
                KafkaError._BAD_MSG, f"the assignment of the group's leader can't be read: {error}"
            )
        ) from error
    return _keys((each.topic, each.partitions) for each in read.assigned_partitions)


def _keys(topics: Iterable[tuple[str, list[int]]]) -> list[Key]:
    """The partitions, sorted and each once, without impossible ones."""
    return sorted(
        {
            (topic, number)
            for topic, numbers in topics
            for number in numbers
            if topic and number >= 0
        }
    )


def _by_topic(partitions: Iterable[Key]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        found.setdefault(topic, []).append(number)
    return found
