"""These tests count the buffers of the whole process, so what tests before them left as garbage goes first."""

from __future__ import annotations

import gc
import time

import pytest

from kafka_native._native import records
from tests.waiting import WAIT_S


@pytest.fixture(scope="session", autouse=True)
def no_buffers_of_others() -> None:
    """A Message in a cycle keeps its buffer until the collector comes by, which may be in the middle of a test here."""
    deadline = time.monotonic() + WAIT_S
    gc.collect()
    while records.live_buffers() and time.monotonic() < deadline:
        time.sleep(0.05)
        gc.collect()
    assert records.live_buffers() == 0, "a test that ran before keeps a client or a Message"
