from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafka_native.schema_registry import rule_registry
from kafka_native.schema_registry.rules.encryption import kms_driver_registry
from kafka_native.schema_registry.rules.encryption.localkms.local_driver import LocalKmsDriver
from tests.registry.rules import dek_server


@pytest.fixture
def deks() -> Iterator[dek_server.DekServer]:
    """A DEK registry over HTTP."""
    pytest.importorskip("httpx2", reason="the DEK registry client needs httpx2")
    with dek_server.running() as server:
        yield server


@pytest.fixture
def local_kms() -> Iterator[None]:
    """The local driver alone."""
    before = list(kms_driver_registry._drivers)
    kms_driver_registry.reset_kms_drivers()
    LocalKmsDriver.register()
    yield
    kms_driver_registry._drivers[:] = before


@pytest.fixture
def shared_registry(monkeypatch: pytest.MonkeyPatch) -> rule_registry.RuleRegistry:
    """An empty registry that `register()` adds to."""
    empty = rule_registry.RuleRegistry()
    monkeypatch.setattr(rule_registry, "_global_instance", empty)
    return empty
