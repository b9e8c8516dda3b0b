"""The page of measured comparisons: it is made from a run's figures, and names better peers."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import confluent_kafka
import pytest
from click.testing import CliRunner
from rich.console import Console

import bench.__main__ as program
import bench.page as page_module
from bench.adapters import Figures, Task
from bench.page import PAGE, main, page_of, points_of, publish
from bench.report import table
from bench.saved import MEASURED, Results
from bench.scenarios import GROUPS, HEADLINE
from bench.spark.report import TRIGGER
from bench.variants import ALL


def figures(seconds: float, cpu: float) -> dict[str, Any]:
    return dataclasses.asdict(Figures(1_000_000, seconds, cpu))


SMALL = {
    "environment": {
        "machine": {"processor": "A processor", "cores": "2"},
        "versions": {"confluent_kafka": "2.16.1"},
        "settings": {"size": "100", "partitions": "2"},
        "run": {"date": "2026-11-28", "command": "python -m bench produce"},
    },
    "scenarios": {
        "produce": {
            "raw": [figures(0.1, 0.05)],
            "confluent_kafka": [figures(0.5, 0.9), figures(0.4, 0.8), figures(0.8, 0.7)],
            "kafka_native": [figures(1.0, 0.1), figures(0.25, 0.2), figures(2.0, 0.3)],
            "new_peer": [figures(1.25, 0.4)] * 3,
        }
    },
    "failed": {"produce": {"aiokafka": "Error: a | b"}},
}


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "results.json"
    path.write_text(json.dumps(SMALL))
    return path


def test_the_page_has_the_figures_of_a_run(small: Path) -> None:
    page = page_of(Results.read(small))
    glance = page.partition("## At a glance")[2].partition("\n## ")[0]
    assert "| Produce: produce | CPU us/message | 0.200 | 0.400 (new_peer) |" in glance
    section = page.partition("\n## Produce\n")[2]
    assert [line for line in section.splitlines() if line.startswith("| ")] == [
        "| client | CPU us/message | M messages/s |",
        "| kafka_native | 0.200 (0.100-0.300) | 1.00 (0.50-4.00) |",
        "| confluent_kafka | 0.800 (0.700-0.900) | 2.00 (1.25-2.50) |",
        "| raw socket (limit) | 0.050 (0.050-0.050) | 10.00 (10.00-10.00) |",
        "| new_peer | 0.400 (0.400-0.400) | 0.80 (0.80-0.80) |",
        "| aiokafka | failed: Error: a / b |",
    ]
    better = page.partition("## Where another client is better")[2].partition("\n## ")[0]
    assert "".join(better.split()) == (
        "-`produce()`inaloopuntilallmessagesareacknowledged,Mmessages/s:"
        "confluent_kafka2.00;kafka_native1.00."
    )
    for fact in ("A processor", "2.16.1", "size 100", "2026-11-28", "python -m bench produce"):
        assert fact in page


def test_a_client_is_better_only_in_shown_digits(tmp_path: Path) -> None:
    run = json.loads(json.dumps(SMALL))
    run["scenarios"]["produce"] = {
        "kafka_native": [figures(1.0, 0.2)],
        "new_peer": [figures(0.9999, 0.19999)],
    }
    path = tmp_path / "results.json"
    path.write_text(json.dumps(run))
    page = page_of(Results.read(path))
    better = page.partition("## Where another client is better")[2].partition("\n## ")[0]
    assert better.strip() == "In no table below."


def test_the_command_draws_the_charts(small: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    done = CliRunner().invoke(main, [str(small), "--page", str(page)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert [path.name for path in (tmp_path / "benchmarks").iterdir()] == ["produce.svg"]
    chart = ElementTree.parse(tmp_path / "benchmarks" / "produce.svg")
    texts = [element.text for element in chart.iter("{http://www.w3.org/2000/svg}text")]
    assert [text for text in texts if text in ("kafka_native", "confluent_kafka")] == [
        "kafka_native",
        "confluent_kafka",
    ] * 2  # CPU, rate
    assert "0.200" in texts
    assert "2.00" in texts


def test_the_page_has_sizes_as_lines_and_the_published_tests(tmp_path: Path) -> None:
    run = json.loads(json.dumps(SMALL))
    for number, name in enumerate(("produce_10", "produce_1000", "intro_1", "short_produce_100k")):
        run["scenarios"][name] = {
            "kafka_native": [figures(0.5 + number, 0.2) | {"broker_cpu_seconds": 0.3}],
            "librdkafka": [figures(1.0, 0.5) | {"broker_cpu_seconds": 0.4}],
        }
    run["without"] = {"intro_1": {"raw": "one connection"}, "produce_10": {"raw": "one connection"}}
    results = tmp_path / "results.json"
    results.write_text(json.dumps(run))
    page = tmp_path / "page.md"
    done = CliRunner().invoke(main, [str(results), "--page", str(page)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    text = page.read_text()
    assert "| Test 1: 2 brokers, 2 partitions, acks=all | 850,000 | 400,000 | 1,000,000 |" in text
    assert "- raw socket (limit): one connection: `produce_10`, `intro_1`.\n" in text
    assert "| librdkafka (C) | 0.500 (0.500-0.500) | 0.400 (0.400-0.400) | 1,000,000 " in text
    assert "| kafka_native | 3.500 (3.500-3.500) | 0.200 (0.200-0.200) |\n" in text
    assert "![Message sizes: a line for each client](benchmarks/sizes-lines.svg)" in text
    charts = sorted(path.name for path in (tmp_path / "benchmarks").iterdir())
    assert charts == ["produce.svg", "short.svg", "sizes-lines.svg"]
    chart = ElementTree.parse(tmp_path / "benchmarks" / "sizes-lines.svg")
    texts = {element.text for element in chart.iter("{http://www.w3.org/2000/svg}text")}
    assert {"produce(): MB/s (higher is better)", "kafka_native", "bytes of a message"} <= texts
    points = points_of(GROUPS[2].curves[0], "kafka_native", Results.read(results))
    assert [number for number, _ in points] == [10.0, 100.0, 1000.0]
    assert [rate for _, rate in points] == pytest.approx([20.0, 100.0, 1000 / 1.5])


def test_figures_on_spark_are_put_into_the_results(small: Path, tmp_path: Path) -> None:
    spark = tmp_path / "spark.json"
    trigger = {"count": 1, "seconds": 1.0, "cpu_seconds": 1.0, "more": {TRIGGER: 1234.0}}
    runs = {
        "read": {"jvm": [figures(2.0, 4.0)], "frames": [figures(0.5, 1.0), figures(0.25, 1.0)]},
        "trigger": {"jvm": [trigger]},
    }
    spark.write_text(json.dumps(runs))
    page = tmp_path / "page.md"
    arguments = [str(small), "--page", str(page), "--spark", str(spark)]
    done = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    section = page.read_text().partition("## On Spark")[2]
    read = "| `read` | 0.50 (0.50-0.50), 4.00 us | 3.00 (2.00-4.00), 1.00 us | - |"
    assert read in section
    assert "| `trigger` | 1,234 (1,234-1,234) ms | - | - |" in section
    assert "## Produce" in page.read_text()
    assert page_of(Results.read(small)) == page.read_text()


def test_the_reason_of_a_failure_is_not_a_line_of_the_stack() -> None:
    assert program.last_line("Traceback:\n  File x\nValueError: no\n\tat Bench.java") == (
        "ValueError: no"
    )
    assert program.last_line("  only indented") == "  only indented"


def test_the_page_of_the_docs_is_that_of_the_measured_run() -> None:
    assert PAGE.read_text(encoding="utf-8") == page_of(Results.read(MEASURED))
    for chart in re.findall(r"\]\((benchmarks/.*svg)\)", PAGE.read_text(encoding="utf-8")):
        assert (PAGE.parent / chart).exists()


def test_every_scenario_has_a_place_on_the_page() -> None:
    placed = [scenario.name for group in GROUPS for scenario in group.scenarios]
    assert sorted(placed) == sorted(ALL)
    for group in GROUPS:
        assert set(group.charted) <= {scenario.name for scenario in group.scenarios}
    assert set(HEADLINE) <= set(placed)


def test_a_peer_that_fails_is_a_line_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def once(adapter: str, scenario: str, task: Task) -> Figures:
        calls.append(adapter)
        if adapter == "aiokafka" and len(calls) > 2:
            raise program.MeasurementError("Traceback ...\nKafkaError: broken\n\tat Bench.java")
        return Figures(1000, 1.0, 1.0)

    monkeypatch.setattr(program, "once", once)
    console = Console(width=110)
    task = Task("", "", 1000, 100, 2)
    found, failed = program.rounds_of("latency", ["kafka_native", "aiokafka"], task, 3, console)
    assert {name: len(rounds) for name, rounds in found.items()} == {"kafka_native": 3}
    assert failed == {"aiokafka": "KafkaError: broken"}
    assert calls.count("aiokafka") == 2
    made = table("produce", found, 1000, failed)
    assert list(made.columns[1].cells)[-1] == "failed: KafkaError: broken"


def test_a_failed_check_of_the_broker_is_not_the_peers_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The bench's own client asks the broker what has landed. Its error says so."""

    def once(adapter: str, scenario: str, task: Task) -> Figures:
        raise confluent_kafka.KafkaException("no leader")

    monkeypatch.setattr(program, "once", once)
    task = Task("", "", 1000, 100, 2)
    _, failed = program.rounds_of("latency", ["aiokafka"], task, 1, Console(width=110))
    assert failed == {"aiokafka": "the bench couldn't check it: no leader"}


def test_a_run_ends_with_its_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part of the scenarios has its page beside the results, a whole run is the project's."""
    results = tmp_path / "build" / "results.json"
    docs = tmp_path / "docs" / PAGE.name
    measured = tmp_path / "measured.json"
    docs.parent.mkdir()
    monkeypatch.setattr(page_module, "PAGE", docs)
    monkeypatch.setattr(page_module, "MEASURED", measured)
    results.parent.mkdir()
    run = json.loads(MEASURED.read_text())
    run["scenarios"] = {name: run["scenarios"][name] for name in ("produce", "imports")}
    results.write_text(json.dumps(run))
    text = page_of(Results.read(results))

    beside = results.parent / PAGE.name
    assert publish(results, whole=False) == beside
    assert beside.read_text() == text
    assert not docs.exists()
    assert not measured.exists()

    assert publish(results, whole=True) == docs
    assert docs.read_text() == text
    assert measured.read_text() == results.read_text()
    assert (docs.parent / "measured.svg").exists()
