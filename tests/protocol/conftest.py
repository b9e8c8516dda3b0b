"""Fixtures of the protocol tests."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import kafka_definitions


@pytest.fixture(scope="session")
def definitions() -> dict[str, kafka_definitions.Definition]:
    """Return Kafka's definitions by name. Without Maven the tests that use them are skipped."""
    try:
        jar = kafka_definitions.find_jar()
    except kafka_definitions.NoMaven as error:
        pytest.skip(str(error))
    return kafka_definitions.load(jar)
