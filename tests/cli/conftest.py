"""A mock cluster for the commands."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafka_native.mock import MockCluster


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    with MockCluster(brokers=2) as running:
        yield running
