"""Look-up of the partition that a request names, and hints about its leader (KIP-951)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafka_native._reference.error_codes import ErrorCode
from kafka_native.protocol.schema import ZERO_UUID

if TYPE_CHECKING:
    from kafka_native.mock.call import Call
    from kafka_native.mock.server import Broker
    from kafka_native.mock.topics import Partition, Topic

LEADER_ERRORS = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


class Found(NamedTuple):
    """A partition that this broker leads, or the reason why the request fails.

    With an error the partition may be set too.
    """

    error: ErrorCode
    topic: Topic | None
    partition: Partition | None


def find(
    call: Call,
    name: str,
    topic_id: bytes,
    index: int,
    epoch: int = -1,
    *,
    or_follower: bool = False,
) -> Found:
    """Find a partition by the topic's name or id.

    ``epoch`` is the leader epoch in the request. With ``or_follower`` any replica is enough.
    """
    cluster = call.cluster
    if topic_id != ZERO_UUID:
        topic = cluster.topic_by_id(topic_id)
        if topic is None:
            return Found(ErrorCode.UNKNOWN_TOPIC_ID, None, None)
    else:
        topic = cluster.topics.get(name)
    if call.denies_topic(name_of(topic, name)):
        return Found(ErrorCode.TOPIC_AUTHORIZATION_FAILED, topic, None)
    partition = None if topic is None else topic.partition(index)
    if partition is None:
        return Found(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic, None)
    if epoch >= 0 and epoch < partition.leader_epoch:
        return Found(ErrorCode.FENCED_LEADER_EPOCH, topic, partition)
    if partition.leader != call.broker.id and not (
        or_follower and call.broker.id in partition.replicas
    ):
        return Found(ErrorCode.NOT_LEADER_OR_FOLLOWER, topic, partition)
    if epoch > partition.leader_epoch:
        return Found(ErrorCode.UNKNOWN_LEADER_EPOCH, topic, partition)
    return Found(ErrorCode.NO_ERROR, topic, partition)


def name_of(topic: Topic | None, name: str) -> str:
    """Return the name of a topic that was found, or else the requested name."""
    return name if topic is None else topic.name


class Hints:
    """Collects the leaders to name in one response, for versions that support it."""

    def __init__(self, call: Call, first_version: int) -> None:
        """Give hints from this version of the API on, unless the cluster gives none."""
        self._call = call
        self._is_enabled = call.cluster.settings.leader_hints and call.version >= first_version
        self.brokers: dict[int, Broker] = {}

    def leader(self, error: int, partition: Partition | None) -> tuple[int, int]:
        """Return the leader and leader epoch to name with this error, or (-1, -1).

        The method also collects the leader's address.
        """
        if not self._is_enabled or partition is None or error not in LEADER_ERRORS:
            return -1, -1
        for broker in self._call.cluster.live_brokers():
            if broker.id == partition.leader:
                self.brokers[broker.id] = broker
        return partition.leader, partition.leader_epoch
