"""Asking leaders where leader epochs ended: OffsetForLeaderEpoch, to notice that a log was truncated (KIP-320).

Thread: the control thread only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from kafka_native.control.positions import CLIENT_REPLICA, Key, OffsetPosition
from kafka_native.control.requests import Call
from kafka_native.control.settling import settle
from kafka_native.errors import KafkaError
from kafka_native.protocol.offsets import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse

UNABLE = frozenset(
    {
        KafkaError._UNSUPPORTED_FEATURE,
        KafkaError.UNSUPPORTED_VERSION,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    }
)
"""The broker can't be asked: it is too old, or lets only brokers ask."""


@dataclass(slots=True)
class Check:
    """One partition's question: where ``epoch`` has ended.

    ``on_result`` gets the end of the largest epoch up to that one, with its number; -1 where the leader knows of none.
    """

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    epoch: int
    on_result: Callable[[OffsetPosition | KafkaError], None]


def check_calls(checks: Iterable[Check], deadline: float) -> list[Call]:
    """The requests that answer these questions, one a leader."""
    groups: dict[int, dict[Key, Check]] = {}
    for check in checks:
        groups.setdefault(check.leader, {})[check.topic, check.partition] = check
    return [_call(leader, group, deadline) for leader, group in groups.items()]


def _call(leader: int, group: dict[Key, Check], deadline: float) -> Call:
    topics: dict[str, OffsetForLeaderEpochRequest.Topic] = {}
    for check in group.values():
        topic = topics.get(check.topic)
        if topic is None:
            topic = topics[check.topic] = OffsetForLeaderEpochRequest.Topic(topic=check.topic)
        topic.partitions.append(
            OffsetForLeaderEpochRequest.Topic.Partition(
                partition=check.partition, current_leader_epoch=check.leader_epoch, leader_epoch=check.epoch
            )
        )
    message = OffsetForLeaderEpochRequest(replica_id=CLIENT_REPLICA, topics=list(topics.values()))
    waiting = {key: check.on_result for key, check in group.items()}
    return Call(message, leader, deadline, lambda reply: settle(waiting, reply, _answers))


def _answers(reply: OffsetForLeaderEpochResponse) -> Iterator[tuple[Key, OffsetPosition | KafkaError]]:
    for topic in reply.topics:
        for part in topic.partitions:
            error = KafkaError(part.error_code) if part.error_code else None
            yield (topic.topic, part.partition), error or OffsetPosition(part.end_offset, part.leader_epoch)
