"""These tests count the buffers of the whole process, so garbage of earlier tests is freed."""

from __future__ import annotations

import gc
import time

import pytest

from kafka_native._native import records
from tests.waiting import WAIT_S


@pytest.fixture(scope="session", autouse=True)
def no_buffers_of_others() -> None:
    """Collect garbage. A Message in a cycle would keep its buffer until the middle of a test."""
    deadline = time.monotonic() + WAIT_S
    gc.collect()
    while records.live_buffers() and time.monotonic() < deadline:
        time.sleep(0.05)
        gc.collect()
    assert records.live_buffers() == 0, "a test that ran before keeps a client or a Message"
