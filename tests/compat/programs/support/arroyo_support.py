"""A pytest plugin with the modules that Arroyo's tests import and its source archive leaves out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from arroyo.utils.metrics import Metrics, configure_metrics


class Increment(NamedTuple):
    name: str
    value: float
    tags: Any


class Gauge(NamedTuple):
    name: str
    value: float
    tags: Any


class Timing(NamedTuple):
    name: str
    value: float
    tags: Any


class RecordingMetrics(Metrics):
    """Keeps each call."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def increment(self, name: str, value: float = 1, tags: Any = None) -> None:
        self.calls.append(Increment(name, value, tags))

    def gauge(self, name: str, value: float, tags: Any = None) -> None:
        self.calls.append(Gauge(name, value, tags))

    def timing(self, name: str, value: float, tags: Any = None) -> None:
        self.calls.append(Timing(name, value, tags))


RECORDED = RecordingMetrics()


@contextmanager
def assert_changes(read: Callable[[], Any], before: Any, after: Any) -> Iterator[None]:
    """Check a value before and after a block."""
    assert read() == before
    yield
    assert read() == after


def assert_does_not_change(read: Callable[[], Any], value: Any) -> Any:
    """Check that a block leaves a value as it is."""
    return assert_changes(read, value, value)


def _add_module(name: str, **contents: Any) -> None:
    module = ModuleType(name)
    module.__dict__.update(contents)
    sys.modules[name] = module


def pytest_configure() -> None:
    _add_module(
        "tests.metrics",
        Increment=Increment,
        Gauge=Gauge,
        Timing=Timing,
        MetricCall=Increment | Gauge | Timing,
        TestingMetricsBackend=RECORDED,
        _TestingMetricsBackend=RecordingMetrics,
    )
    _add_module(
        "tests.assertions",
        assert_changes=assert_changes,
        assert_does_not_change=assert_does_not_change,
    )
    configure_metrics(RECORDED)


@pytest.fixture(autouse=True)
def forget_metrics() -> Iterator[None]:
    yield
    RECORDED.calls.clear()
