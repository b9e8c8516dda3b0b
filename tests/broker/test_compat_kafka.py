"""The calls of `tests/compat/test_on_a_cluster.py`, on Apache Kafka, with confluent_kafka and with
ours.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.broker.cluster import Cluster
from tests.broker.support import create, delete_topics
from tests.compat import test_on_a_cluster as shared

WITHOUT_A_BROKER = {
    "test_a_full_queue",
    "test_a_message_that_is_too_large",
    "test_a_report_has_the_headers_here",
    "test_keys_go_to_the_same_partitions",
    "test_purged_messages_are_reported",
}
"""They need no cluster."""

globals().update({name: each for name, each in vars(shared).items() if name.startswith("test_")})
for _name in WITHOUT_A_BROKER:
    del globals()[_name]


class Stage:
    """A broker with the methods of the mock cluster that those calls use."""

    def __init__(self, kafka: Cluster) -> None:
        self.kafka = kafka
        self.bootstrap_servers = kafka.bootstrap
        self.made: list[tuple[Cluster, str]] = []

    def create_topic(self, name: str, partitions: int) -> None:
        create(self.kafka, name, partitions)
        self.made.append((self.kafka, name))


@pytest.fixture(scope="module")
def cluster(kafka: Cluster) -> Iterator[Stage]:
    """Replace the mock cluster."""
    stage = Stage(kafka)
    yield stage
    delete_topics(stage.made)
