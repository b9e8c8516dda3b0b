"""The calls of `tests/compat/test_admin_on_both.py`, on Apache Kafka."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import pytest

from tests.broker.cluster import Cluster
from tests.broker.support import delete_topics
from tests.broker.test_compat_kafka import Stage
from tests.compat import test_admin_on_both as shared

for _name, _each in vars(shared).items():
    if (
        _name.startswith("test_") and "cluster" in inspect.signature(_each).parameters
    ):  # these compare more than data
        globals()[_name] = _each


@pytest.fixture(scope="module")
def cluster(kafka: Cluster) -> Iterator[Stage]:
    """Replace the mock cluster."""
    stage = Stage(kafka)
    with shared.prepared(stage):
        yield stage
    delete_topics(stage.made)
