"""Every scenario and adapter of the benchmarks runs on the mock cluster and prints figures."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench.__main__ import main
from bench.adapters import (
    COLD_STARTS,
    LATENCIES,
    SCENARIOS,
    Figures,
    import_time,
    percentiles,
    rust,
)
from bench.report import MORE, ratio
from bench.variants import LATENCY_MESSAGES, VARIANTS
from kafka_native.cli.mock import mock_cluster


def bench_options(bootstrap: str, messages: int, output: Path) -> list[str]:
    options = {"bootstrap": bootstrap, "messages": messages, "rounds": 1, "output": output}
    return [word for name, value in options.items() for word in (f"--{name}", str(value))]


@pytest.mark.slow
def test_every_scenario_with_every_adapter(tmp_path: Path) -> None:
    with mock_cluster() as bootstrap:
        arguments = bench_options(bootstrap, 3000, tmp_path)
        arguments += ["--adapters", "kafka_native,confluent_kafka,aiokafka,raw"]
        arguments += ["--wide", "20", "--topics", "5"]
        result = CliRunner().invoke(main, [*arguments, *SCENARIOS], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    results = json.loads((tmp_path / "results.json").read_text())["scenarios"]
    assert {name: sorted(found) for name, found in results.items()} == {
        "produce": ["confluent_kafka", "kafka_native", "raw"],
        "many": ["kafka_native", "raw"],
        "produce_arrow": ["kafka_native", "raw"],
        "callback": ["confluent_kafka", "kafka_native"],
        "consume": ["confluent_kafka", "kafka_native", "raw"],
        "group": ["confluent_kafka", "kafka_native"],
        "poll": ["confluent_kafka", "kafka_native"],
        "iterate": ["confluent_kafka", "kafka_native"],
        "memory": ["confluent_kafka", "kafka_native"],
        "arrow": ["confluent_kafka", "kafka_native", "raw"],
        "latency": ["confluent_kafka", "kafka_native", "raw"],
        "call": ["confluent_kafka", "kafka_native"],
        "spread": ["confluent_kafka", "kafka_native"],
        "end_to_end": ["confluent_kafka", "kafka_native"],
        "cold": ["confluent_kafka", "kafka_native", "raw"],
        "aio_produce": ["aiokafka", "confluent_kafka", "kafka_native"],
        "aio_poll": ["aiokafka", "confluent_kafka", "kafka_native"],
        "wide": ["confluent_kafka", "kafka_native"],
        "transaction": ["confluent_kafka", "kafka_native"],
        "copy": ["confluent_kafka", "kafka_native"],
        "round_trip": ["confluent_kafka", "kafka_native"],
        "imports": ["aiokafka", "confluent_kafka", "kafka_native"],
    }
    for found in results.values():
        for rounds in found.values():
            assert all(figures["seconds"] > 0 and figures["count"] > 0 for figures in rounds)
    assert all(found["call_ns"] > 0 for rounds in results["call"].values() for found in rounds)
    for scenario, names in MORE.items():
        assert all(
            set(found["more"]) == set(names)
            for rounds in results[scenario].values()
            for found in rounds
        )
    assert all(
        found["percentiles"]["p50"] > 0
        for rounds in results["end_to_end"].values()
        for found in rounds
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "measured"),
    [
        (["produce", "--idempotent"], ["confluent_kafka", "kafka_native", "raw"]),
        (["produce", "--acks", "0"], ["confluent_kafka", "kafka_native", "raw"]),
        (["produce", "--codec", "lz4", "--payload", "json"], ["confluent_kafka", "kafka_native"]),
        (["produce", "--threads", "2"], ["confluent_kafka", "kafka_native"]),
        (["spread", "--topics", "20"], ["confluent_kafka", "kafka_native"]),
        (["cold", "--protocol", "consumer"], ["confluent_kafka", "kafka_native", "raw"]),
    ],
    ids=lambda value: " ".join(value),
)
def test_options(tmp_path: Path, options: list[str], measured: list[str]) -> None:
    with mock_cluster() as bootstrap:
        arguments = bench_options(bootstrap, 20000, tmp_path)
        adapters = ["--adapters", "kafka_native,confluent_kafka,raw"]
        result = CliRunner().invoke(main, [*options, *arguments, *adapters], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    found = json.loads((tmp_path / "results.json").read_text())["scenarios"][options[0]]
    assert sorted(found) == measured


# A mock cluster with 10,000 partitions takes minutes, and the others are fast on it.
SLOW_VARIANTS = ("produce_p1000", "produce_p10000", "consume_p1000")


@pytest.mark.slow
def test_every_variant(tmp_path: Path) -> None:
    variants = [name for name in VARIANTS if name not in SLOW_VARIANTS]
    with mock_cluster() as bootstrap:
        arguments = bench_options(bootstrap, 2000, tmp_path)
        arguments += ["--adapters", "kafka_native,raw"]
        result = CliRunner().invoke(main, [*variants, *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    found = json.loads((tmp_path / "results.json").read_text())
    assert found["failed"] == {}
    for name in variants:
        rounds = found["scenarios"][name]
        if VARIANTS[name].tls:  # no adapter is measured on a cluster without TLS
            assert rounds == {}
            assert found["without"][name]["kafka_native"] == "the cluster has no TLS"
            continue
        assert "kafka_native" in rounds, name
        count = VARIANTS[name].count or 2000
        if VARIANTS[name].base in ("produce", "consume"):
            counts = [each[0]["count"] for peer, each in rounds.items() if peer != "raw"]
            assert all(0 < each <= count for each in counts), name
        assert all(each[0]["peak_mib"] > 0 for each in rounds.values()), name


PEERS = ("kafka_python", "kafkarrow", "librdkafka", "java", "franz_go", "krafka", "rdkafka")


@pytest.mark.slow
@pytest.mark.parametrize("peer", PEERS)
def test_peers(tmp_path: Path, peer: str) -> None:
    adapter = importlib.import_module(f"bench.adapters.{peer}")
    if peer in ("krafka", "rdkafka") and not rust.built(peer):
        pytest.skip(f"{peer} is not built: `python -m bench` builds it, which takes minutes")
    reason = adapter.missing() if hasattr(adapter, "missing") else None
    if reason:
        pytest.skip(f"{peer}: {reason}")
    scenarios = [name for name in SCENARIOS if hasattr(adapter, name)]
    with mock_cluster() as bootstrap:
        arguments = bench_options(bootstrap, 20000, tmp_path)
        arguments += ["--adapters", f"kafka_native,{peer}"]
        result = CliRunner().invoke(main, [*scenarios, *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    results = json.loads((tmp_path / "results.json").read_text())["scenarios"]
    least = {"cold": COLD_STARTS, "imports": import_time.TIMES} | dict.fromkeys(
        LATENCIES, LATENCY_MESSAGES
    )
    for scenario in scenarios:
        assert results[scenario][peer][0]["count"] >= least.get(scenario, 10_000), scenario


def test_figures() -> None:
    figures = Figures(count=1000, seconds=0.5, cpu_seconds=0.001)
    assert figures.rate == 2000
    assert figures.cpu_us == 1.0
    assert percentiles([float(number) for number in range(1000)]) == {
        "p50": 500,
        "p99": 990,
        "p99.9": 999,
    }
    assert ratio([2.0, 9.0, 4.0], [1.0, 3.0, 4.0]) == "2.00"
