"""The memory of a full queue, and that it is freed after the burst."""

from __future__ import annotations

import gc
import os
import sys
import time
from pathlib import Path

import pytest

from kafka_native.mock import MockCluster
from kafka_native.protocol import ApiKey

from .support import Client, deliver

MESSAGES = 2_000_000
VALUE = b"x" * 100
MESSAGE_MAX_BYTES = 125
"""10 million messages of 100 bytes fit into 1.25 GB."""

LEFT_BYTES = 24 << 20
QUIET_S = 30.0
LARGE_BYTES = 30 << 20
"""After an allocation of this size is freed, glibc keeps smaller blocks for itself."""


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc/self/statm")
@pytest.mark.skipif("KN_SANITIZE" in os.environ, reason="a sanitizer's own memory would be counted")
def test_a_full_queue_takes_little_more_than_its_bytes_and_gives_them_back(
    cluster: MockCluster, client: Client
):
    topic = client.topic(partitions=2)
    conf = {"queue.buffering.max.messages": 10_000_000, "queue.buffering.max.kbytes": 2_000_000}
    # sent messages are in this process too: the mock cluster's
    conf["max.in.flight.requests.per.connection"] = 1
    with client.producer(**conf) as producer:
        deliver(producer, topic, VALUE)
        cluster.delay_responses(None, 60.0, ApiKey.PRODUCE)
        gc.collect()
        bytearray(LARGE_BYTES).clear()
        before = resident_bytes()
        values = [VALUE] * 10_000
        queued = 0
        between = []  # memory of the application between blocks of the queue
        while queued < MESSAGES:
            queued += producer.produce_many(topic, values)
            between.append(bytes(1000))
        assert (resident_bytes() - before) / queued < MESSAGE_MAX_BYTES
        producer.purge()
        cluster.faults.clear()
        assert producer.flush(15) == 0
        deadline = time.monotonic() + QUIET_S
        while resident_bytes() - before > LEFT_BYTES and time.monotonic() < deadline:
            time.sleep(0.2)
        assert resident_bytes() - before < LEFT_BYTES
