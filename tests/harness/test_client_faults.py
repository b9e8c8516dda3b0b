"""The faults of a client's process do what they promise, on the mock cluster."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_native.mock import MockCluster
from tests.broker.acked.producer import Settings
from tests.harness.processes import Child, said
from tests.harness.wall_clock import WallClock
from tests.waiting import wait_for

TOPIC = "faults"
RATE = 500


class Producing:
    """A producer of the acked run, on a mock cluster."""

    def __init__(self, cluster: MockCluster, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder
        self.clock = WallClock(folder / "clock")
        conf = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "reconnect.backoff.ms": 10,
            "reconnect.backoff.max.ms": 20,
            "linger.ms": 5,
        }
        ledger = str(folder / "ledger")
        settings = Settings(0, "ours", TOPIC, 1, RATE, 100, ledger, conf)
        module, output = "tests.broker.acked.producer", folder / "process.out"
        self.process = Child(module, settings, output, self.clock.environment)

    def count(self) -> int:
        """Return the number of messages in the log."""
        return self.cluster.watermarks(TOPIC, 0)[1]

    def wait_for_more(self) -> None:
        """Return when more messages are in the log."""
        before = self.count()
        wait_for(lambda: self.count() > before, "more messages")

    def leave(self) -> None:
        """End the process, which gets a report for every message."""
        self.process.leave()
        wait_for(lambda: self.process.code() is not None, "the end of the process")
        assert self.process.code() == 0
        [left] = [event for event in said(self.folder) if event["e"] == "left"]
        assert left["unsettled"] == 0


@pytest.fixture
def producing(tmp_path: Path) -> Iterator[Producing]:
    """Yield a producer that has produced its first messages."""
    with MockCluster(brokers=1) as cluster:
        cluster.create_topic(TOPIC, 1)
        found = Producing(cluster, tmp_path)
        try:
            found.wait_for_more()
            yield found
            found.leave()
        finally:
            found.process.kill()


def test_without_file_descriptors_a_client_waits_and_connects_later(producing: Producing) -> None:
    cluster, [broker] = producing.cluster, producing.cluster.broker_ids
    producing.process.limit_files(60)
    cluster.disconnect(broker)
    wait_for(lambda: cluster.connection_count(broker) == 0, "the end of the connections")
    before = producing.count()
    time.sleep(0.3)
    assert cluster.connection_count(broker) == 0
    assert producing.count() == before
    producing.process.unlimit_files()
    producing.wait_for_more()


def test_a_held_interpreter_lock_stops_messages_until_it_is_free(producing: Producing) -> None:
    producing.process.send("hold 1")
    wait_for(lambda: is_silent(producing), "the hold")
    producing.wait_for_more()


def is_silent(producing: Producing) -> bool:
    """Whether no message came for a while."""
    before = producing.count()
    time.sleep(0.2)
    return producing.count() == before


def test_a_forked_child_is_refused_and_disturbs_nothing(producing: Producing) -> None:
    for _ in range(3):
        producing.process.send("fork")
    wait_for(lambda: len(forks(producing)) == 3, "three children")
    assert forks(producing) == [0, 0, 0]
    producing.wait_for_more()


def forks(producing: Producing) -> list[int]:
    return [event["code"] for event in said(producing.folder) if event["e"] == "forked"]


@pytest.mark.parametrize("jump_s", [-86_400, 1800])
def test_messages_have_the_time_of_a_clock_that_jumped(producing: Producing, jump_s: int) -> None:
    producing.clock.jump(jump_s)
    producing.wait_for_more()
    wait_for(lambda: abs(age_s(producing) + jump_s) < 60, "a message of the new time")


def age_s(producing: Producing) -> float:
    """Return how long ago the last message was produced, as it says itself."""
    return time.time() - producing.cluster.messages(TOPIC, 0)[-1].timestamp / 1000
