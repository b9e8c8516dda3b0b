"""The targets of a run's rows: a topic, or a lake of Parquet files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kafka_native.protocol import ApiKey
from kafka_native.spark.pipelines import Lake
from tests.broker.cluster import Cluster
from tests.broker.support import create
from tests.harness.readers import by_ours, by_theirs, open_transactions
from tests.harness.step_proxy import AFTER, ANSWERED, BEFORE

PARTITIONS = 3
ROWS_MAX = "1000"
"""The most rows of a batch."""
Step = tuple[int, str]
"""A request, and the moment at which its client is killed."""


class Target(ABC):
    """Where the rows go to."""

    steps: Sequence[Step]
    delay_max_s = 0.0
    """The longest time from a step to the kill."""

    def __init__(self, name: str, directory: Path) -> None:
        self.name = name
        self._directory = directory

    @abstractmethod
    def prepare(self, cluster: Cluster) -> None:
        """Make it."""

    @abstractmethod
    def settings(self, bootstrap: str, source: str) -> dict[str, Any]:
        """Return the settings of a driver."""

    @abstractmethod
    def readings(self, cluster: Cluster) -> dict[str, Counter[int]]:
        """Return the rows that each reader finds."""

    @abstractmethod
    def problems(self, cluster: Cluster) -> list[str]:
        """Return everything else that is wrong at the end."""


class TopicTarget(Target):
    """A topic, which a stream writes in transactions."""

    steps = (
        *(
            (api, phase)
            for api in (ApiKey.INIT_PRODUCER_ID, ApiKey.PRODUCE)
            for phase in (BEFORE, ANSWERED, AFTER)
        ),
        *(
            (api, phase)
            for api in (ApiKey.OFFSET_FETCH, ApiKey.OFFSET_COMMIT)
            for phase in (BEFORE, ANSWERED)
        ),
        *(
            (api, phase)
            for api in (ApiKey.TXN_OFFSET_COMMIT, ApiKey.END_TXN)
            for phase in (BEFORE, ANSWERED, AFTER)
        ),
    )
    """The protocol's steps in docs/internals/transactions.md: a request at three moments."""

    def prepare(self, cluster: Cluster) -> None:
        create(cluster, self.name, PARTITIONS)

    def settings(self, bootstrap: str, source: str) -> dict[str, Any]:
        reads = {"kafka.bootstrap.servers": bootstrap, "subscribe": source}
        writes = {"kafka.bootstrap.servers": bootstrap, "topic": self.name, **self._transactional()}
        return {
            "partitions": PARTITIONS,
            "source": {**reads, "maxOffsetsPerTrigger": ROWS_MAX, "startingOffsets": "earliest"},
            "sink": {**writes, "checkpointLocation": str(self._directory / "checkpoint")},
        }

    def _transactional(self) -> dict[str, str]:
        return {"kafka.transactional.id": self.name}

    def readings(self, cluster: Cluster) -> dict[str, Counter[int]]:
        return {
            name: Counter(map(int, read(cluster, self.name, PARTITIONS, 0).values()))
            for name, read in (("kafka_native", by_ours), ("confluent_kafka", by_theirs))
        }

    def problems(self, cluster: Cluster) -> list[str]:
        return open_transactions(cluster, self.name, self.name)


class PlainTopicTarget(TopicTarget):
    """A topic without transactions: rows may come twice. It shows that the rules can fail."""

    steps = tuple(step for step in TopicTarget.steps if step[0] == ApiKey.PRODUCE)

    def _transactional(self) -> dict[str, str]:
        return {}

    def problems(self, cluster: Cluster) -> list[str]:
        return []


class LakeTarget(Target):
    """A lake, which an archive writes. After a response, tasks write files and publish them."""

    steps = (
        *((ApiKey.LIST_OFFSETS, phase) for phase in (BEFORE, ANSWERED, AFTER)),
        *((ApiKey.FETCH, phase) for phase in (BEFORE, ANSWERED, AFTER, AFTER, AFTER)),
    )
    delay_max_s = 0.5

    def prepare(self, cluster: Cluster) -> None:
        """The first driver makes it."""

    @property
    def _lake(self) -> Lake:
        return Lake(self._directory / "lake")

    def settings(self, bootstrap: str, source: str) -> dict[str, Any]:
        return {
            "conf": {"bootstrap.servers": bootstrap},
            "lake": self._lake.root,
            "topic": source,
            "options": {"maxOffsetsPerTrigger": ROWS_MAX},
        }

    def readings(self, cluster: Cluster) -> dict[str, Counter[int]]:
        lake = self._lake
        if not lake.manifests():
            return {"lake": Counter()}
        values = lake.dataset().to_table(["value"]).column("value").to_pylist()
        return {"lake": Counter(map(int, values))}

    def problems(self, cluster: Cluster) -> list[str]:
        return [str(gap) for gap in self._lake.gaps()]


TARGETS: dict[str, type[Target]] = {"topic": TopicTarget, "lake": LakeTarget}
BUGS: dict[str, type[Target]] = {"at-least-once": PlainTopicTarget}
