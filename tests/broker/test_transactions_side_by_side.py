"""The calls of `tests/compat/test_transactions_side_by_side.py`, on Apache Kafka."""

from __future__ import annotations

import inspect

import pytest

from tests.broker.test_compat_kafka import cluster
from tests.compat import test_transactions_side_by_side as shared

pytestmark = [pytest.mark.broker, pytest.mark.slow]

__all__ = ["cluster"]  # the fixture that replaces the mock cluster

for _name, _each in vars(shared).items():
    if (
        _name.startswith("test_") and "cluster" in inspect.signature(_each).parameters
    ):  # a test that uses the cluster fixture
        globals()[_name] = _each
