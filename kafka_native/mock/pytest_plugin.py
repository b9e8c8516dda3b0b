"""Fixtures of pytest: a mock cluster and a mock schema registry, new for each test.

Name the plugin in the ``conftest.py`` at the root of your tests::

    pytest_plugins = ["kafka_native.mock.pytest_plugin"]
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafka_native.mock.cluster import MockCluster
from kafka_native.mock.schema_registry import MockSchemaRegistry


@pytest.fixture
def mock_cluster() -> Iterator[MockCluster]:
    """A mock cluster with three brokers. Clients use its ``bootstrap_servers``."""
    with MockCluster(brokers=3) as cluster:
        yield cluster


@pytest.fixture
def mock_schema_registry() -> Iterator[MockSchemaRegistry]:
    """An empty mock schema registry. Clients use its ``url``."""
    with MockSchemaRegistry() as registry:
        yield registry
