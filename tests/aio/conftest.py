"""One mock cluster for all tests of a module. A test that breaks brokers repairs them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafka_native.mock import MockCluster

from .support import Client


@pytest.fixture(scope="module")
def cluster() -> Iterator[MockCluster]:
    with MockCluster(brokers=2) as running:
        yield running


@pytest.fixture
def client(cluster: MockCluster) -> Client:
    return Client(cluster)
