"""The harness itself: a broker is found, killed and started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.broker import cluster as clusters
from tests.broker import java
from tests.broker.cluster import (
    Cluster,
    NoBroker,
    container_environment,
    free_ports,
    properties,
    start,
)
from tests.harness.processes import GUARD
from tests.waiting import wait_for


def test_a_cluster_has_its_brokers(kafka: Cluster) -> None:
    alive = kafka.admin().list_topics(timeout=10).brokers
    assert len(alive) == 1 or not kafka.brokers
    assert {broker.port for broker in kafka.brokers.values()} <= {
        each.port for each in alive.values()
    }


def test_a_missing_kafka_is_reported_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAFKA_NATIVE_BOOTSTRAP", raising=False)
    monkeypatch.setattr(clusters, "docker_answers", lambda: False)
    monkeypatch.setattr(java.shutil, "which", lambda name: None)
    with pytest.raises(
        NoBroker, match="no KAFKA_NATIVE_BOOTSTRAP, no Docker daemon, java and mvn not installed"
    ):
        start(1)


def test_a_container_gets_the_same_properties() -> None:
    values = properties(1, [9092], [9093], "/tmp/logs")
    environment = container_environment(values)
    assert environment["KAFKA_LOG_DIRS"] == "/tmp/logs"
    assert environment["KAFKA_CONTROLLER_QUORUM_VOTERS"] == "1@127.0.0.1:9093"
    assert len(environment) == len(values)


def test_ports_are_different_and_out_of_the_kernels_range() -> None:
    ports = free_ports(6)
    assert len(set(ports)) == 6
    assert set(ports) <= set(clusters.PORTS)


@pytest.mark.skipif(
    sys.platform != "linux", reason="the kernel of this system can't end a child with its parent"
)
def test_a_broker_ends_when_the_test_run_is_killed(tmp_path: Path) -> None:
    # The middle process stands for the test run: it starts a guarded sleep, prints its pid, and is
    # killed.
    text = (
        "import subprocess, sys, os, time\n"
        f"child = subprocess.Popen([sys.executable, '-S', {str(GUARD)!r}, str(os.getpid()), "
        "'sleep', '60'])\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    run = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, cwd=tmp_path)
    assert run.stdout is not None
    child = int(run.stdout.readline())
    try:
        wait_for(lambda: b"sleep" in command_of(child), "the guarded command")
    finally:
        run.send_signal(signal.SIGKILL)
        run.wait(10)
        run.stdout.close()
    wait_for(lambda: b"sleep" not in command_of(child), "the end of the guarded command", 10)


def command_of(pid: int) -> bytes:
    """Return the command line of a process, or nothing when it has ended."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (ProcessLookupError, FileNotFoundError):
        return b""
