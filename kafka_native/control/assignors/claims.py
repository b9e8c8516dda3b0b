"""The previous owners of partitions: what members claim, and which claims are valid.

Members write their claims themselves, so claims may be outdated, contradictory or false. A claim is
valid if its member subscribes to the topic, and no other member claims the partition in the same or
a later generation.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from kafka_native._native.wire import ProtocolError
from kafka_native.control.assignors.base import (
    UNKNOWN_GENERATION,
    MemberSubscription,
    PartitionInfo,
)
from kafka_native.control.positions import Key
from kafka_native.protocol.schema import Struct, Versioned, array, int32, string

_logger = logging.getLogger("kafka_native")


class StickyUserData(Versioned, versions="0-1"):
    """The user data of Java's StickyAssignor: the member's last assignment."""

    class TopicAssignment(Struct):
        """The partitions of one topic."""

        topic: str = string("0+")
        partitions: list[int] = array(int32(), "0+")

    previous_assignment: list[TopicAssignment] = array(TopicAssignment, "0+")
    generation: int = int32("1+", default=UNKNOWN_GENERATION, ignorable=True)


def pack_sticky(owned: list[Key], generation: int) -> bytes:
    """The user data of a member of a "sticky" group."""
    by_topic: dict[str, list[int]] = {}
    for topic, number in sorted(owned):
        by_topic.setdefault(topic, []).append(number)
    previous = [
        StickyUserData.TopicAssignment(topic=topic, partitions=by_topic[topic])
        for topic in by_topic
    ]
    return StickyUserData(previous_assignment=previous, generation=generation).encode(1)


def sticky_claim(member: MemberSubscription) -> tuple[list[Key], int]:
    """The partitions and the generation that a member of a "sticky" group claims.

    User data that can't be read claim nothing.
    """
    for version in (1, 0):
        try:
            data = StickyUserData.decode(member.user_data or b"\0\0\0\0", version, whole=False)
        except ProtocolError:
            continue
        keys = [
            (each.topic, number) for each in data.previous_assignment for number in each.partitions
        ]
        return keys, data.generation
    _logger.warning(
        "sticky: the user data of member %s can't be read; it claims nothing", member.member_id
    )
    return [], UNKNOWN_GENERATION


def pack_cooperative(generation: int) -> bytes:
    """The user data of a "cooperative-sticky" member: its generation, for old leaders (KIP-792)."""
    return generation.to_bytes(4, "big", signed=True)


def cooperative_claim(member: MemberSubscription) -> tuple[list[Key], int]:
    """The partitions and the generation that a member of a "cooperative-sticky" group claims."""
    generation = member.generation
    if (
        generation == UNKNOWN_GENERATION
        and member.user_data is not None
        and len(member.user_data) >= 4
    ):
        generation = max(
            UNKNOWN_GENERATION, int.from_bytes(member.user_data[:4], "big", signed=True)
        )
    return list(member.owned), generation


class Claims:
    """The claims of all members."""

    def __init__(
        self,
        holder: dict[Key, str],
        claimed: dict[Key, list[str]],
    ) -> None:
        """Stores the arguments."""
        self.holder = holder
        """The member with the valid claim, for each partition that has one."""
        self.claimed = claimed
        """All members that claim a partition, validly or not."""

    def is_held_by_another(self, key: Key, member_id: str) -> bool:
        """Whether another member may still read the partition. Then this member must wait."""
        return self.holder.get(key) != member_id and key in self.claimed


def settle(
    partitions: Mapping[str, list[PartitionInfo]],
    members: Mapping[str, MemberSubscription],
    claims: Mapping[str, tuple[list[Key], int]],
) -> Claims:
    """Finds the valid claims. ``claims``: each member's partitions and their generation."""
    numbers = {topic: {each.number for each in infos} for topic, infos in partitions.items()}
    found = Claims({}, {})
    best: dict[Key, int] = {}
    disputed: set[Key] = set()
    for member_id in sorted(claims):
        keys, generation = claims[member_id]
        topics = frozenset(members[member_id].topics)
        for key in dict.fromkeys(keys):
            topic, number = key
            if number not in numbers.get(topic, ()):
                continue
            found.claimed.setdefault(key, []).append(member_id)
            if topic not in topics or generation < best.get(key, UNKNOWN_GENERATION):
                continue
            if best.get(key) == generation:
                disputed.add(key)
                continue
            disputed.discard(key)
            best[key] = generation
            found.holder[key] = member_id
    for key in sorted(disputed):
        _logger.warning(
            "%s [%d] is claimed by %s in the same generation: it is assigned again",
            *key,
            " and ".join(found.claimed[key]),
        )
        del found.holder[key]
    return found
