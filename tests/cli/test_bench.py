"""The benchmarks run, every scenario and adapter, on the mock cluster; their figures are figures."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from bench.__main__ import main
from bench.adapters import Figures, percentiles
from bench.report import ratio
from kafka_native.cli.mock import mock_cluster


def test_every_scenario_with_every_adapter(tmp_path: Path) -> None:
    with mock_cluster() as bootstrap:
        arguments = ["--bootstrap", bootstrap, "--messages", "20000", "--rounds", "1", "--output", str(tmp_path)]
        result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    results = json.loads((tmp_path / "results.json").read_text())
    assert {name: sorted(found) for name, found in results.items()} == {
        "produce": ["confluent_kafka", "kafka_native", "raw"],
        "many": ["kafka_native", "raw"],
        "callback": ["confluent_kafka", "kafka_native"],
        "consume": ["confluent_kafka", "kafka_native", "raw"],
        "latency": ["confluent_kafka", "kafka_native", "raw"],
        "call": ["confluent_kafka", "kafka_native"],
    }
    for found in results.values():
        for rounds in found.values():
            assert all(figures["seconds"] > 0 and figures["count"] > 0 for figures in rounds)
    assert all(found["call_ns"] > 0 for rounds in results["call"].values() for found in rounds)


def test_idempotent_producers_are_measured_too(tmp_path: Path) -> None:
    with mock_cluster() as bootstrap:
        arguments = ["--bootstrap", bootstrap, "--messages", "20000", "--rounds", "1", "--output", str(tmp_path)]
        result = CliRunner().invoke(main, ["produce", "--idempotent", *arguments])
    assert result.exit_code == 0, result.output
    found = json.loads((tmp_path / "results.json").read_text())["produce"]
    assert sorted(found) == ["confluent_kafka", "kafka_native", "raw"]


def test_figures() -> None:
    figures = Figures(count=1000, seconds=0.5, cpu_seconds=0.001)
    assert figures.rate == 2000
    assert figures.cpu_us == 1.0
    assert percentiles([float(number) for number in range(1000)]) == {"p50": 500, "p99": 990, "p99.9": 999}
    assert ratio([2.0, 9.0, 4.0], [1.0, 3.0, 4.0]) == "2.00"
