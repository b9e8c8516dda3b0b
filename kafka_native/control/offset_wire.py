"""OffsetCommit and OffsetFetch: the messages, and what their replies say of each partition."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from kafka_native.control.positions import NO_POSITION, Key, OffsetPosition
from kafka_native.errors import KafkaError
from kafka_native.protocol.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from kafka_native.protocol.schema import ZERO_UUID

if TYPE_CHECKING:
    from kafka_native.control.member import Member

NameOf = Callable[[bytes], "str | None"]


def commit_message(
    member: Member, places: Mapping[Key, OffsetPosition], topic_ids: Mapping[str, bytes]
) -> OffsetCommitRequest:
    """For every version: topics are named, and identified where their ids are known."""
    topics: dict[str, OffsetCommitRequest.Topic] = {}
    for (name, number), place in places.items():
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = OffsetCommitRequest.Topic(name=name, topic_id=topic_ids.get(name, ZERO_UUID))
        topic.partitions.append(
            OffsetCommitRequest.Topic.Partition(
                partition_index=number,
                committed_offset=place.offset,
                committed_leader_epoch=place.epoch,
                committed_metadata=place.metadata or "",
            )
        )
    return OffsetCommitRequest(
        group_id=member.group_id,
        generation_id_or_member_epoch=member.generation,
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        topics=list(topics.values()),
    )


def commit_results(reply: OffsetCommitResponse, name_of: NameOf) -> dict[Key, int]:
    """The error code of each partition, 0 for those that are committed."""
    results = {}
    for topic in reply.topics:
        name = topic.name or name_of(topic.topic_id)
        if name is not None:
            results.update({(name, each.partition_index): each.error_code for each in topic.partitions})
    return results


def ask_message(
    member: Member, keys: Iterable[Key], topic_ids: Mapping[str, bytes], *, stable: bool
) -> OffsetFetchRequest:
    """For every version, see `versions.adapted`. ``stable``: offsets of open transactions are waited for (KIP-447)."""
    indexes: dict[str, list[int]] = {}
    for name, number in keys:
        indexes.setdefault(name, []).append(number)
    wanted: list[OffsetFetchRequest.Group.Topic] = []
    group = OffsetFetchRequest.Group(group_id=member.group_id, topics=wanted)
    if member.joined and member.protocol == "consumer":
        group.member_id, group.member_epoch = member.member_id, member.generation
    topics = []
    for name, numbers in indexes.items():
        topic_id = topic_ids.get(name, ZERO_UUID)
        wanted.append(OffsetFetchRequest.Group.Topic(name=name, topic_id=topic_id, partition_indexes=numbers))
        topics.append(OffsetFetchRequest.Topic(name=name, partition_indexes=numbers))
    return OffsetFetchRequest(group_id=member.group_id, topics=topics, groups=[group], require_stable=stable)


def asked_offsets(
    reply: OffsetFetchResponse, group_id: str, name_of: NameOf
) -> dict[Key, OffsetPosition | int] | KafkaError:
    """The committed position of each partition (`NO_POSITION` if there is none) or its error code, or one error."""
    found: dict[Key, OffsetPosition | int] = {}
    error_code = reply.error_code
    if reply.groups:
        group = next((each for each in reply.groups if each.group_id == group_id), None)
        if group is None:
            return KafkaError(KafkaError._BAD_MSG, f"the reply to OffsetFetch leaves out group {group_id!r}")
        error_code = group.error_code
        for answer in group.topics:
            _take(found, answer.name or name_of(answer.topic_id), answer.partitions)
    else:
        for topic in reply.topics:
            _take(found, topic.name, topic.partitions)
    if error_code:
        return KafkaError(error_code, f"offsets of group {group_id!r}: {KafkaError(error_code).str()}")
    return found


def _take(
    found: dict[Key, OffsetPosition | int],
    name: str | None,
    partitions: Iterable[OffsetFetchResponse.Topic.Partition | OffsetFetchResponse.Group.Topic.Partition],
) -> None:
    if name is None:
        return  # of no topic that was asked for
    for each in partitions:
        place = OffsetPosition(each.committed_offset, each.committed_leader_epoch, each.metadata or None)
        found[name, each.partition_index] = each.error_code or (NO_POSITION if each.committed_offset < 0 else place)
