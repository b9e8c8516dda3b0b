"""Looking offsets up at partition leaders: ListOffsets, one request a leader.

Thread: the control thread only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kafka_native.control.calls import Call, Reply
from kafka_native.errors import KafkaError
from kafka_native.protocol.offsets import ListOffsetsRequest, ListOffsetsResponse

EARLIEST = -2
LATEST = -1

CONSUMER = -1  # the replica id of a client


@dataclass(slots=True)
class Lookup:
    """One partition's question: the offset at ``timestamp`` (EARLIEST, LATEST or milliseconds).

    ``on_result`` gets (offset, leader epoch) or a KafkaError.
    """

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    timestamp: int
    on_result: Callable[[tuple[int, int] | KafkaError], None]


def lookup_calls(lookups: Iterable[Lookup], isolation_level: int, deadline: float, timeout_ms: int) -> list[Call]:
    """The requests that answer these look-ups, one a leader and kind of timestamp."""
    groups: dict[tuple[int, int], list[Lookup]] = {}
    for lookup in lookups:
        groups.setdefault((lookup.leader, min(lookup.timestamp, 0)), []).append(lookup)
    return [_call(leader, group, isolation_level, deadline, timeout_ms) for (leader, _), group in groups.items()]


def _call(leader: int, group: list[Lookup], isolation_level: int, deadline: float, timeout_ms: int) -> Call:
    topics: dict[str, ListOffsetsRequest.Topic] = {}
    waiting: dict[tuple[str, int], Lookup] = {}
    for lookup in group:
        topic = topics.setdefault(lookup.topic, ListOffsetsRequest.Topic(name=lookup.topic))
        topic.partitions.append(
            ListOffsetsRequest.Topic.Partition(
                partition_index=lookup.partition, current_leader_epoch=lookup.leader_epoch, timestamp=lookup.timestamp
            )
        )
        waiting[lookup.topic, lookup.partition] = lookup
    message = ListOffsetsRequest(
        replica_id=CONSUMER, isolation_level=isolation_level, topics=list(topics.values()), timeout_ms=timeout_ms
    )
    return Call(message, leader, deadline, lambda reply: _settle(waiting, reply))


def _settle(waiting: dict[tuple[str, int], Lookup], reply: Reply) -> None:
    if isinstance(reply, KafkaError):
        for lookup in waiting.values():
            lookup.on_result(reply)
        return
    for topic in reply.topics:
        for partition in topic.partitions:
            key = (topic.name, partition.partition_index)
            if key in waiting:
                waiting.pop(key).on_result(_result(partition))
    for lookup in waiting.values():
        lookup.on_result(
            KafkaError(KafkaError._BAD_MSG, f"the reply to ListOffsets leaves out {lookup.topic} [{lookup.partition}]")
        )


def _result(partition: ListOffsetsResponse.Topic.Partition) -> tuple[int, int] | KafkaError:
    if partition.error_code:
        return KafkaError(partition.error_code)
    offset = partition.old_style_offsets[0] if partition.old_style_offsets else partition.offset
    return offset, partition.leader_epoch
