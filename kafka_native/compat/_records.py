"""The tuples and records of aiokafka and kafka-python."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import kafka_native
from kafka_native import ConsumerGroupMetadata, Message
from kafka_native.compat._errors import error_of


class TopicPartition(NamedTuple):
    """A partition."""

    topic: str
    partition: int


class OffsetAndMetadata(NamedTuple):
    """An offset to commit, and a text beside it."""

    offset: int
    metadata: str
    leader_epoch: int = -1


class RecordMetadata(NamedTuple):
    """Where a message was written."""

    topic: str
    partition: int
    topic_partition: TopicPartition
    offset: int
    timestamp: int | None


@dataclass(frozen=True, slots=True)
class ConsumerRecord:
    """A consumed message. Its fields are attributes."""

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    timestamp_type: int | None
    key: Any
    value: Any
    headers: Any
    leader_epoch: int | None
    serialized_key_size: int
    serialized_value_size: int


Function = Callable[[Any], Any]

logger = logging.getLogger(__package__)


class RecordMaker:
    """Makes records of messages, with a program's deserializers."""

    def __init__(self, key: Function, value: Function, headers: Callable[[Any], Any]) -> None:
        """``headers`` makes the collection of (name, value)."""
        self._key = key
        self._value = value
        self._headers = headers

    def _record(self, message: Message) -> ConsumerRecord | None:
        if cause := message.error():
            if cause.code() == kafka_native.KafkaError._MAX_POLL_EXCEEDED:
                logger.warning("%s", cause.str())  # as their clients: this one joins again
                return None
            raise error_of(cause)
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        assert topic is not None
        assert partition is not None
        assert offset is not None
        raw_key, raw_value = message.key(), message.value()
        kind, timestamp = message.timestamp()
        return ConsumerRecord(
            topic,
            partition,
            offset,
            timestamp if kind else None,
            kind - 1 if kind else None,  # the protocol's numbers
            self._key(raw_key),  # also None, as in their clients
            self._value(raw_value),
            self._headers(message.headers() or ()),
            message.leader_epoch(),
            -1 if raw_key is None else len(raw_key),
            -1 if raw_value is None else len(raw_value),
        )

    def records(
        self, messages: list[Message], give_back: Callable[[list[Message]], object]
    ) -> list[ConsumerRecord]:
        """Return the records of messages, up to the first one that raises; or raise.

        The consumer gets the other messages back. So no message is lost or committed that the
        program hasn't got. As in their clients, a message that can't be deserialized stays the next
        one of its partition.
        """
        found: list[ConsumerRecord | None] = []
        try:
            # extend() keeps the records before an exception
            found.extend(self._record(message) for message in messages)
        except Exception:
            rest = messages[len(found) :]
            if not found:
                give_back(rest if rest[0].error() is None else rest[1:])
                raise
            give_back(rest)
        except BaseException:  # Ctrl+C: the program gets none of these
            give_back(messages)
            raise
        return [each for each in found if each is not None]


def message_fields(
    partition: int | None, timestamp_ms: int | None, headers: Iterable[tuple[str, bytes]] | None
) -> dict[str, Any]:
    """Return the arguments of send() that are given, as those of `Producer.produce()`."""
    found: dict[str, Any] = {}
    if partition is not None:
        found["partition"] = partition
    if timestamp_ms is not None:
        found["timestamp"] = timestamp_ms
    if headers is not None:
        found["headers"] = list(headers)
    return found


def metadata_of(message: Message) -> RecordMetadata:
    """Return where a delivered message was written."""
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None
    assert partition is not None
    kind, timestamp = message.timestamp()
    where = TopicPartition(topic, partition)
    stored = -1 if offset is None else offset  # acks=0
    return RecordMetadata(topic, partition, where, stored, timestamp if kind else None)


def ours(partitions: Iterable[tuple[str, int]]) -> list[kafka_native.TopicPartition]:
    """Return partitions as kafka_native's."""
    return [kafka_native.TopicPartition(topic, number) for topic, number in partitions]


def theirs(partitions: Iterable[kafka_native.TopicPartition]) -> set[TopicPartition]:
    """Return kafka_native's partitions as theirs."""
    return {TopicPartition(each.topic, each.partition) for each in partitions}


def offsets_of(offsets: Mapping[tuple[str, int], Any]) -> list[kafka_native.TopicPartition]:
    """Return offsets to commit: numbers, or tuples of an offset and a text."""
    found = []
    for (topic, number), stored in offsets.items():
        offset, text = (stored, "") if isinstance(stored, int) else stored[:2]
        found.append(kafka_native.TopicPartition(topic, number, offset, metadata=text))
    return found


def group_of(group: ConsumerGroupMetadata | str) -> ConsumerGroupMetadata:
    """Return a group's id as the identity of a consumer that is no member."""
    return ConsumerGroupMetadata(group) if isinstance(group, str) else group


def by_partition(records: Iterable[ConsumerRecord]) -> dict[TopicPartition, list[ConsumerRecord]]:
    """Return the records of each partition."""
    found: dict[TopicPartition, list[ConsumerRecord]] = {}
    for record in records:
        found.setdefault(TopicPartition(record.topic, record.partition), []).append(record)
    return found
