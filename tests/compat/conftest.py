"""The cluster on which both libraries run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafka_native.mock import MockCluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[MockCluster]:
    """Yield a mock cluster. Some files, and those of Apache Kafka, have their own."""
    with MockCluster(brokers=2) as running:
        yield running
