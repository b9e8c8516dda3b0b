from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

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
def shared_registry(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The registry that `register()` adds to: confluent_kafka's, which has the same interface."""
    reason = "confluent_kafka is the witness"
    module = pytest.importorskip("confluent_kafka.schema_registry.rule_registry", reason=reason)
    monkeypatch.setitem(sys.modules, "kafka_native.schema_registry.rule_registry", module)
    monkeypatch.setattr(module, "_global_instance", module.RuleRegistry())
    return module._global_instance
