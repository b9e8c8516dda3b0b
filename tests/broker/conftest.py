"""Clusters of real Apache Kafka. Each starts once a lane, and only if a test needs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.broker import java
from tests.broker.cluster import Cluster
from tests.broker.old_kafka import VERSIONS, OldKafka
from tests.broker.support import TopicMaker, delete_topics, shared_or_skip

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)  # before -m selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests with a cluster as `broker`, and as `slow` unless the one shared broker is
    enough.
    """
    for item in items:
        wanted = set(getattr(item, "fixturenames", ())) if item.path.is_relative_to(HERE) else set()
        if {"kafka", "kafka3", "old_kafka"} & wanted:
            item.add_marker(pytest.mark.broker)
        if {"kafka3", "old_kafka"} & wanted:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="module")
def kafka() -> Cluster:
    """Return one broker."""
    return shared_or_skip(1)


@pytest.fixture(scope="module")
def kafka3() -> Cluster:
    """Return three brokers. A test that kills one must start it again and wait."""
    return shared_or_skip(3)


@pytest.fixture(scope="module", params=VERSIONS)
def old_kafka(request: pytest.FixtureRequest) -> Iterator[OldKafka]:
    """Yield one broker of each version before 1.0 in turn. They are always Java processes."""
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
    """Return three brokers that may be killed."""
    if not kafka3.brokers:
        pytest.skip(f"brokers of {kafka3.kind} can't be killed")
    return kafka3


@pytest.fixture
def strict(kafka: Cluster) -> Cluster:
    """Return one broker without automatic topic creation."""
    if kafka.creates_topics():
        pytest.skip(f"{kafka.kind} has auto.create.topics.enable=true")
    return kafka


@pytest.fixture
def tool() -> Callable[..., bytes]:
    """Return java_tool, if Java is there."""
    why = java.missing()
    if why:
        pytest.skip(f"Kafka's Java tools: {why}")
    return java.java_tool


@pytest.fixture
def new_topic(request: pytest.FixtureRequest) -> Iterator[TopicMaker]:
    """Yield a function that makes topics with unique names.

    They are deleted at the end of the test.
    """
    made: list[tuple[Cluster, str]] = []
    yield TopicMaker(request.node.name, made)
    delete_topics(made)
