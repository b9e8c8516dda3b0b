"""The tutorial runs as it stands, on the mock cluster and the mock registry."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_native.mock import MockCluster, MockSchemaRegistry
from tests.examples import pages


@pytest.mark.slow
def test_orders_to_iceberg(tmp_path: Path) -> None:
    pytest.importorskip("pyiceberg")
    with MockCluster(brokers=1) as cluster, MockSchemaRegistry() as registry:
        cluster.create_topic("orders", 2)
        addresses = {
            "localhost:9092": cluster.bootstrap_servers,
            "http://localhost:8081": registry.url,
        }
        page = "docs/tutorial/orders-to-iceberg.md"
        assert "added country" in pages.check_commands(page, addresses, tmp_path)
