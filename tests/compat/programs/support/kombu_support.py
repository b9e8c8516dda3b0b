"""A pytest plugin that passes the mock cluster's address to kombu's integration tests."""

from __future__ import annotations

import os
import sys


def pytest_collection_modifyitems() -> None:
    module = sys.modules.get("t.integration.test_kafka")
    if module is None:
        return
    for name in ("get_connection", "get_failover_connection"):
        connect, (host, _, port) = (
            getattr(module, name),
            os.environ["BOOTSTRAP_SERVERS"].partition(":"),
        )
        setattr(module, name, lambda hostname, port=None, c=connect, h=host, p=port: c(h, p))
