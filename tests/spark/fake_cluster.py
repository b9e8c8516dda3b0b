"""Fakes for tests of the stream's planner: a clock, a cluster, and the options of a stream."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafka_native import KafkaError
from kafka_native.spark.errors import PartitionGoneError
from kafka_native.spark.offsets import Key, Limit
from kafka_native.spark.options import SourceOptions
from kafka_native.spark.stream_reader import Planner


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class FakeCluster:
    """Answers like OffsetReader, and counts the requests."""

    def __init__(self, **ends: int) -> None:
        """Set the ends of partitions: ``t_0=5``."""
        self.begins: dict[Key, int] = {}
        self.ends: dict[Key, int] = {}
        self.topic_ids: dict[str, str] = {}
        self.behind: list[set[Key]] = []  # partitions that the next responses omit
        self.asked: list[str] = []
        self.grow(**ends)

    def grow(self, **ends: int) -> None:
        self.ends.update(
            {
                (name.rpartition("_")[0], int(name.rpartition("_")[2])): end
                for name, end in ends.items()
            }
        )

    def drop(self, *topics: str) -> None:
        self.ends = {key: end for key, end in self.ends.items() if key[0] not in topics}

    def partitions(self) -> list[Key]:
        self.asked.append("partitions")
        return sorted(self.ends.keys() - (self.behind.pop(0) if self.behind else set()))

    def earliest(self, keys: Iterable[Key]) -> dict[Key, int]:
        wanted = list(keys)
        if wanted:
            self.asked.append("earliest")
        return {key: self.begins.get(key, 0) for key in wanted}

    def latest(self, keys: Iterable[Key]) -> dict[Key, int]:
        self.asked.append("latest")
        wanted = list(keys)
        if any(key not in self.ends for key in wanted):
            raise PartitionGoneError(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
        return {key: self.ends[key] for key in wanted}

    def resolve(self, limit: Limit, keys: Iterable[Key], *, starting: bool) -> dict[Key, int]:
        assert starting
        if limit.kind == "latest":
            return self.latest(keys)
        if limit.kind == "offsets":
            return {
                key: self.ends[key] if limit.values[key] == -1 else limit.values[key]
                for key in keys
            }
        assert limit.kind == "earliest"
        return self.earliest(keys)

    def cluster_id(self) -> str:
        return "cluster-1"

    def close(self) -> None:
        self.asked.append("close")


def options(**given: Any) -> SourceOptions:
    """Return the options of a stream from the earliest offsets, without waits between attempts."""
    properties = {
        "kafka.bootstrap.servers": "nowhere:9092",
        **({} if "assign" in given else {"subscribePattern": ".*"}),
        "startingOffsets": "earliest",
        "fetchOffset.retryIntervalMs": 0,
        **given,
    }
    return SourceOptions.parse(
        {name: str(value) for name, value in properties.items()}
    ).for_stream()


def planner(cluster: FakeCluster, clock: Clock | None = None, **given: Any) -> Planner:
    clock = clock or Clock()
    return Planner(options(**given), cluster, clock, clock.sleep)  # type: ignore[arg-type]  # has the same methods


def at(**offsets: int) -> dict[Key, int]:
    return FakeCluster(**offsets).ends
