"""The cluster on which both libraries are tried."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafka_native.mock import MockCluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[MockCluster]:
    """A mock cluster; files that need another one, and those of Apache Kafka, have their own."""
    with MockCluster(brokers=2) as running:
        yield running
