"""Runs in parts: settings of variants, reasons, estimates, and results that stay whole."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner
from rich.console import Console

import bench.__main__ as program
from bench.adapters import ADAPTERS, Figures, Task
from bench.adapters.import_time import installed_bytes
from bench.environment import Environment
from bench.plan import Budget, Estimate, estimate
from bench.saved import OtherRunError, Results, Saved
from bench.variants import ALL, DATA_MAX, VARIANTS, applied, base_of, reason_against

TASK = Task("127.0.0.1:1", "", 2_000_000, 100, 2)
TLS_TASK = Task("127.0.0.1:1", "", 2_000_000, 100, 2, tls="127.0.0.1:2", ca="ca.pem")


def environment(commit: str = "a", cores: str = "2") -> Environment:
    return {
        "machine": {"cores": cores},
        "versions": {"kafka_native": f"1.0 (commit {commit})"},
        "settings": {"size": "100"},
        "run": {"date": "2026-11-29", "command": f"python -m bench --resume {commit}"},
    }


def runs(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def test_a_variant_changes_the_settings_and_the_count() -> None:
    large = applied("produce_1000000", TASK)
    assert (large.size, large.count) == (1_000_000, DATA_MAX // 1_000_000)
    assert large.config["message.max.bytes"] > large.size
    assert applied("batch_10", TASK).config["batch.num.messages"] == 10
    assert applied("idempotent", TASK).config["acks"] == "all"
    assert applied("short_produce_100k", TASK).count == 100_000
    assert applied("end_to_end_1", TASK).warm_up(200) == 2
    assert applied("produce", TLS_TASK).servers == {"bootstrap.servers": "127.0.0.1:1"}
    assert applied("tls_produce", TLS_TASK).servers["bootstrap.servers"] == "127.0.0.1:2"
    assert "message.max.bytes" not in TASK.config
    assert "batch.num.messages" not in TASK.config


def test_each_adapter_can_run_a_scenario_or_has_a_reason() -> None:
    for scenario in ALL:
        reasons = [reason_against(each, scenario, applied(scenario, TLS_TASK)) for each in ADAPTERS]
        assert None in reasons, scenario
        assert all(reason is None or len(reason) > 10 for reason in reasons), scenario
        assert reason_against("kafka_native", scenario, applied(scenario, TLS_TASK)) is None
    assert reason_against("kafka_native", "tls_produce", TASK) == "the cluster has no TLS"
    assert reason_against("raw", "produce_p1000", applied("produce_p1000", TASK)) is not None
    assert reason_against("raw", "intro_1", applied("intro_1", TASK)) is not None
    assert reason_against("java", "batch_10", applied("batch_10", TASK)) is not None


def test_results_are_whole_after_each_scenario(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    saved = Saved.opened(path, environment("a"), resume=True)
    saved.add("produce", {"kafka_native": [Figures(10, 1.0, 1.0)]}, {}, {"aiokafka": "no"})
    assert list(Results.read(path).scenarios) == ["produce"]
    again = Saved.opened(path, environment("b"), resume=True)
    again.add("consume", {"kafka_native": [Figures(20, 1.0, 1.0)]}, {"java": "slow"}, {})
    results = Results.read(path)
    assert {name: each["kafka_native"][0].count for name, each in results.scenarios.items()} == {
        "produce": 10,
        "consume": 20,
    }
    assert results.failed == {"consume": {"java": "slow"}}
    assert results.without == {"produce": {"aiokafka": "no"}}
    assert results.environment["versions"]["kafka_native"] == "1.0 (commit a)\n1.0 (commit b)"
    assert results.environment["run"]["date"] == "2026-11-29"
    with pytest.raises(OtherRunError, match="machine"):
        Saved.opened(path, environment("b", cores="32"), resume=True)
    fresh = Saved.opened(path, environment("c", cores="32"), resume=False)
    assert fresh.scenarios == {}


def test_a_part_ends_before_its_minutes_and_names_what_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "once", lambda *_: Figures(1000, 1.0, 1.0))
    monkeypatch.setattr(program, "earlier", dict)
    saved = Saved(tmp_path / "results.json", environment())
    names = ["produce_10", "short_produce_1m", "acks_0"]
    plans = [program.planned(name, ["kafka_native"], TASK, 5, 100) for name in names]
    plans[1] = plans[1]._replace(estimated=Estimate("short_produce_1m", 120.0))
    assert all(plan.estimated.seconds < 60 for plan in (plans[0], plans[2]))
    left = program.run(plans, saved, 2, Budget(1), Console(quiet=True))
    assert left == ["short_produce_1m"]
    found = json.loads((tmp_path / "results.json").read_text())
    assert {name: len(each["kafka_native"]) for name, each in found["scenarios"].items()} == {
        "produce_10": 2,
        "acks_0": 2,
    }


def test_an_estimate_scales_the_earlier_figures() -> None:
    short, capped = Figures(1_000_000, 1.0, 1.0), Figures(30_000, 6.0, 1.0)
    measured = {"produce": {"kafka_native": [short], "aiokafka": [capped]}}
    one = estimate("produce", ["kafka_native"], TASK, 1, measured).seconds
    assert estimate("produce", ["kafka_native"], TASK, 5, measured).seconds == 5 * one
    both = estimate("produce", ["kafka_native", "aiokafka"], TASK, 1, measured).seconds
    assert both == pytest.approx(2 * one + 10.0)
    assert estimate("cold", ["kafka_native"], TASK, 1, {}).seconds < 60


def test_the_plan_starts_no_broker(tmp_path: Path) -> None:
    arguments = ["--all", "--plan", "--minutes", "55", "--output", str(tmp_path)]
    done = CliRunner().invoke(program.main, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert f"for {len(ALL)} scenarios" in " ".join(done.output.split())
    assert all(f" {scenario}: " in done.output for scenario in ALL)
    assert list(tmp_path.iterdir()) == []
    one = CliRunner().invoke(program.main, ["--only", "imports", "--plan"], catch_exceptions=False)
    assert "for 1 scenarios" in one.output


def test_every_variant_repeats_a_scenario_of_the_adapters() -> None:
    for name in VARIANTS:
        assert base_of(base_of(name)) == base_of(name)
        assert base_of(name) not in VARIANTS


def test_a_client_without_an_end_is_killed_with_its_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck = tmp_path / "stuck"
    stuck.write_text(f"#!/bin/sh\nsleep 600 &\necho $! > {tmp_path}/pid\nwait\n")
    stuck.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(stuck))
    monkeypatch.setattr(program, "TIMEOUT_S", 0.5)
    with pytest.raises(program.MeasurementError, match="no end after"):
        program.measure("kafka_native", "produce", TASK)
    pid = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 10
    while runs(pid):
        assert time.monotonic() < deadline, f"process {pid} still runs"
        time.sleep(0.01)


def test_the_size_of_an_installation_counts_the_files_of_a_wheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "sized_package"
    package.mkdir()
    (package / "__init__.py").write_bytes(b"#" * 100)
    (package / "left_over.pyc").write_bytes(b"#" * 5000)
    libraries = tmp_path / "sized_package.libs"
    libraries.mkdir()
    (libraries / "libsized.so").write_bytes(b"#" * 1000)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert installed_bytes("sized_package") == 1100
