"""The broker's log of a group: __consumer_offsets, read as bytes, independent of any client."""

from __future__ import annotations

import struct
import time
from itertools import pairwise
from typing import NamedTuple

import confluent_kafka

from tests.broker.chaos.history import Commit, Migration
from tests.broker.cluster import Cluster, quiet

TOPIC = "__consumer_offsets"
OFFSET_KEYS = (0, 1)
GENERATION_KEYS = (
    2,
    3,
)  # the classic group's metadata, and the consumer group's, whose number is an epoch
READ_SECONDS = 60


class GroupLog(NamedTuple):
    """What the broker's log has of a group."""

    commits: list[Commit]
    """In the broker's order."""
    generations: int
    """The number of its generations, or epochs."""
    migrations: list[Migration]
    """Its changes between the classic and the consumer protocol."""


def text_at(data: bytes, place: int) -> tuple[str, int]:
    """Return a string with a length of 16 bits in front, and the position behind it."""
    size = struct.unpack_from(">h", data, place)[0]
    place += 2
    return data[place : place + size].decode(), place + size


def offset_key(key: bytes) -> tuple[str, str, int] | None:
    """Return group, topic and partition of a commit's key."""
    if struct.unpack_from(">h", key)[0] not in OFFSET_KEYS:
        return None
    group, place = text_at(key, 2)
    topic, place = text_at(key, place)
    return group, topic, struct.unpack_from(">i", key, place)[0]


def committed(value: bytes) -> tuple[int, str]:
    """Return offset and metadata of a commit's value.

    Version 3 has a leader epoch between them. Version 4 is flexible.
    """
    version, offset = struct.unpack_from(">hq", value)
    if version >= 4:
        size = value[14] - 1  # members' names are short: one byte
        text = value[15 : 15 + size].decode()
    else:
        text = text_at(value, 14 if version == 3 else 10)[0]
    return offset, text.rstrip("\0")  # confluent_kafka includes the NUL of a C string


def generation(key: bytes, value: bytes | None, group: str) -> int | None:
    """Return the group's generation, or epoch, in a record. Other records give None."""
    kind = struct.unpack_from(">h", key)[0]
    if kind not in GENERATION_KEYS or value is None or text_at(key, 2)[0] != group:
        return None
    if kind == 2:
        _, place = text_at(value, 2)
        return int(struct.unpack_from(">i", value, place)[0])
    return int(struct.unpack_from(">i", value, 2)[0])


def read(cluster: Cluster, group: str) -> GroupLog:
    """Read the log of a group."""
    conf = {
        "bootstrap.servers": cluster.bootstrap,
        "group.id": "chaos-witness",
        "auto.offset.reset": "error",
    }
    consumer = confluent_kafka.Consumer(
        quiet({**conf, "enable.auto.commit": False, "enable.partition.eof": True})
    )
    commits: list[Commit] = []
    generations: set[int] = set()
    kinds: list[tuple[float, int]] = []
    try:
        numbers = list(consumer.list_topics(TOPIC, timeout=20).topics[TOPIC].partitions)
        consumer.assign([confluent_kafka.TopicPartition(TOPIC, number, 0) for number in numbers])
        left = set(numbers)
        deadline = time.monotonic() + READ_SECONDS
        while left:
            assert time.monotonic() < deadline, f"{TOPIC} was not read in {READ_SECONDS} s"
            for message in consumer.consume(10000, 0.5):
                error = message.error()
                if error is not None:
                    assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
                    left.discard(message.partition())
                    continue
                key, value = message.key() or b"", message.value()
                found = offset_key(key)
                if found is not None and found[0] == group and value is not None:
                    offset, by = committed(value)
                    commits.append(Commit(message.timestamp()[1] / 1000, found[1:], offset, by))
                number = generation(key, value, group)
                if number is not None:
                    generations.add(number)
                    at_s = message.timestamp()[1] / 1000
                    kinds.append((at_s, struct.unpack_from(">h", key)[0]))
    finally:
        consumer.close()
    migrations = [
        Migration(at, to_consumer=after == GENERATION_KEYS[1])
        for (_, before), (at, after) in pairwise(kinds)
        if before != after
    ]
    return GroupLog(commits, len(generations), migrations)
