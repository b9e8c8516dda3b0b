"""Clusters and connections for the tests of the mock cluster."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from kafka_native.mock import MockCluster
from tests.mock.wire import Wire


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    with MockCluster(brokers=3) as running:
        yield running


@pytest.fixture
def wire(cluster: MockCluster) -> Iterator[Wire]:
    """Yield a connection to broker 1, which leads partition 0 of every topic."""
    with Wire(cluster) as connection:
        yield connection


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    """Yield a pool for requests that wait for each other."""
    with ThreadPoolExecutor(8) as running:
        yield running
