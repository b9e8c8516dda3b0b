"""Spark's processes, killed at steps of writing exactly once. ``python -m tests.broker.spark`` makes
long runs.

The first tests check the rules, and the choice of the process to kill.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable

import pytest

from kafka_native.admin import AdminClient
from kafka_native.mock import MockCluster
from kafka_native.protocol import ApiKey
from tests.broker.cluster import NoBroker
from tests.broker.spark.run import RULES, Options, Result, Run, violations
from tests.harness.processes import ancestors, descendants, name_of, owner
from tests.harness.runs import each_break
from tests.harness.step_proxy import AFTER, ANSWERED, BEFORE, StepProxy
from tests.waiting import wait_for


def good() -> Result:
    """Return three rows that two readers have seen."""
    return Result(3, {name: Counter([0, 1, 2]) for name in ("a", "b")})


def missed(result: Result) -> None:
    result.readings["b"][1] = 0


def twice(result: Result) -> None:
    result.readings["a"][2] = 2


def strange(result: Result) -> None:
    result.readings["a"][3] = 1


def left_open(result: Result) -> None:
    result.problems.append("producer 7 has an open transaction")


BREAKS = {
    "each_row_once": [missed, twice],
    "nothing_strange": [strange],
    "nothing_left_open": [left_open],
}


@each_break(BREAKS)
def test_each_rule_can_be_broken(rule: str, break_it: Callable[[Result], None]) -> None:
    result = good()
    assert violations(result) == []
    break_it(result)
    assert [text.split(":")[0] for text in violations(result)] == [rule]


def test_every_rule_has_a_violation() -> None:
    assert set(BREAKS) == {rule.__name__ for rule in RULES}


def test_the_owner_of_a_connection_is_found_among_related_processes() -> None:
    program = (
        "import socket, sys; s = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); "
        "sys.stdin.read()"
    )
    with socket.create_server(("127.0.0.1", 0)) as listener:
        command = [sys.executable, "-c", program, str(listener.getsockname()[1])]
        with subprocess.Popen(command, stdin=subprocess.PIPE) as child:
            near, (_, port) = listener.accept()
            try:
                assert owner(port, descendants(os.getpid())) == child.pid
                assert owner(port, {os.getpid()}) is None
                assert os.getpid() in ancestors(child.pid)
                assert name_of(child.pid).startswith("python")
            finally:
                near.close()
                child.kill()


def test_the_proxy_reports_each_step_and_ends_connections() -> None:
    steps: list[tuple[int, str]] = []
    cut: list[int] = []

    def watch(api: int, phase: str, port: int) -> bool:
        steps.append((api, phase))
        return not (cut and phase == ANSWERED and api == cut.pop())

    with MockCluster(brokers=1, auto_create_topics=False) as cluster, StepProxy(watch) as proxy:
        proxy.target = cluster.bootstrap_servers
        with AdminClient({"bootstrap.servers": proxy.address}) as admin:
            admin.list_topics(timeout=30)
        wanted = [(ApiKey.METADATA, phase) for phase in (BEFORE, ANSWERED, AFTER)]
        wait_for(lambda: wanted[-1] in steps, "the last step")  # which the client doesn't wait for
        assert [step for step in steps if step[0] == ApiKey.METADATA][:3] == wanted
        assert steps.index((ApiKey.API_VERSIONS, ANSWERED)) < steps.index((ApiKey.METADATA, BEFORE))
        steps.clear()
        cut.append(ApiKey.API_VERSIONS)
        with AdminClient({"bootstrap.servers": proxy.address, "reconnect.backoff.ms": 10}) as admin:
            admin.list_topics(timeout=30)
        versions = [phase for api, phase in steps if api == ApiKey.API_VERSIONS]
        assert versions[:3] == [BEFORE, ANSWERED, BEFORE], (
            "without an answer the client sends it again"
        )


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("target", "kills"), [("topic", 10), ("lake", 3)])
def test_each_row_is_seen_once_whatever_process_is_killed(target: str, kills: int) -> None:
    if shutil.which("java") is None:
        pytest.skip("no Spark: java is not installed")
    options = Options(
        kills=kills, seconds=240, jvm_share=0.2, target=target
    )  # enough for a slow machine
    run = Run(options)
    try:
        result = run.run()
    except NoBroker as reason:
        pytest.skip(f"no Apache Kafka: {reason}")
    print("\n".join([str(options), *run.lines()]))
    assert violations(result) == [], f"the drivers' output is in {run.directory}"
    assert result.rows
