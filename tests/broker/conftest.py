"""Clusters of real Apache Kafka, started once a lane and only if a test wants them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.broker import java
from tests.broker.cluster import Cluster
from tests.broker.old_kafka import VERSIONS, OldKafka
from tests.broker.support import TopicMaker, delete_topics, shared_or_skip

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test that wants a cluster has the `broker` marker, and `slow` if the one shared broker
    isn't enough.
    """
    for item in items:
        wanted = set(getattr(item, "fixturenames", ())) if item.path.is_relative_to(HERE) else set()
        if {"kafka", "kafka3", "old_kafka"} & wanted:
            item.add_marker(pytest.mark.broker)
        if {"kafka3", "old_kafka"} & wanted:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="module")
def kafka() -> Cluster:
    """One broker."""
    return shared_or_skip(1)


@pytest.fixture(scope="module")
def kafka3() -> Cluster:
    """Three brokers. A test that kills one has to start it again and to wait."""
    return shared_or_skip(3)


@pytest.fixture(scope="module", params=VERSIONS)
def old_kafka(request: pytest.FixtureRequest) -> Iterator[OldKafka]:
    """One broker of each version from before 1.0, one after the other.

    They exist as Java processes only.
    """
    why = java.missing()
    if why:
        pytest.skip(f"no old Apache Kafka: {why}")
    kafka = OldKafka(request.param)
    try:
        kafka.start()
        yield kafka
    finally:
        kafka.close()


@pytest.fixture
def owned3(kafka3: Cluster) -> Cluster:
    """Three brokers that may be killed."""
    if not kafka3.brokers:
        pytest.skip(f"brokers of {kafka3.kind} can't be killed")
    return kafka3


@pytest.fixture
def strict(kafka: Cluster) -> Cluster:
    """One broker that doesn't create topics because somebody asks for them."""
    if kafka.creates_topics():
        pytest.skip(f"{kafka.kind} has auto.create.topics.enable=true")
    return kafka


@pytest.fixture
def tool() -> Callable[..., bytes]:
    """java_tool, where there is Java."""
    why = java.missing()
    if why:
        pytest.skip(f"Kafka's Java tools: {why}")
    return java.java_tool


@pytest.fixture
def new_topic(request: pytest.FixtureRequest) -> Iterator[TopicMaker]:
    """Makes topics with names of their own and deletes them at the end of the test."""
    made: list[tuple[Cluster, str]] = []
    yield TopicMaker(request.node.name, made)
    delete_topics(made)
