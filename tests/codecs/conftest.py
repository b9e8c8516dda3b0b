"""One mock cluster for the tests of codecs with consumers and producers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from kafka_native.mock import MockCluster
from tests.codecs.consume_support import FakeRegistry, Topic

_numbers = itertools.count()


@pytest.fixture(scope="session")
def codec_cluster() -> Iterator[MockCluster]:
    with MockCluster(brokers=1) as running:
        yield running


@pytest.fixture
def topic(codec_cluster: MockCluster) -> Topic:
    """Return a new topic of one partition."""
    name = f"typed-{next(_numbers)}"
    codec_cluster.create_topic(name, 1)
    return Topic(codec_cluster, name)


@pytest.fixture
def registry() -> FakeRegistry:
    return FakeRegistry()
