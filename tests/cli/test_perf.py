"""``kafka-native perf`` as a user runs it, on the mock cluster; and that it notices what it should."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from kafka_native.cli import job
from kafka_native.cli.app import cli
from kafka_native.mock import MockCluster

ROOT = Path(__file__).resolve().parents[2]


def test_demo_runs_and_leaves_a_chart(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kafka_native.cli", "perf", "--messages", "20000", "--latency-messages", "50"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("BOOTSTRAP", None)
    done = subprocess.run(
        [*command, "--output", str(tmp_path)], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Every message came back" in done.stdout
    figures = json.loads((tmp_path / "perf.json").read_text())
    assert [result["codec"] for result in figures["results"]] == ["none", "snappy", "lz4", "zstd", "gzip"]
    assert len({result["digest"] for result in figures["results"]}) == 1
    assert all(result["produce"]["messages"] == result["consume"]["messages"] == 20000 for result in figures["results"])
    assert all(0 < result["latency"]["p50"] <= result["latency"]["p999"] for result in figures["results"])
    picture = (tmp_path / "perf.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 10_000


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["perf", "--latency-messages", "5", *arguments])
    return result.exit_code, result.output


def test_cluster_that_is_named_is_used_and_left_clean() -> None:
    with MockCluster(brokers=2) as cluster:
        status, output = run("--messages", "3000", "--codecs", "lz4,none", "--bootstrap", cluster.bootstrap_servers)
        assert status == 0, output
        with pytest.raises((KeyError, ValueError, LookupError)):
            cluster.batches("kafka-native-perf", 0)
        assert cluster.kept_bytes == 0


def test_damaged_data_ends_with_status_1(monkeypatch: pytest.MonkeyPatch) -> None:
    real = job.consume_all

    def damaged(*arguments):
        rate, read = real(*arguments)
        partition, offset, value = read[7]
        read[7] = (partition, offset, value[:-1] + b"!")
        return rate, read

    monkeypatch.setattr(job, "consume_all", damaged)
    status, output = run("--messages", "3000", "--codecs", "none")
    assert status == 1
    assert "digest" in output


def test_unreachable_cluster_ends_with_status_1() -> None:
    status, output = run("--messages", "10", "--bootstrap", "127.0.0.1:1", "-X", "message.timeout.ms=500")
    assert status == 1
    assert "127.0.0.1" in output or "broker" in output


@pytest.mark.parametrize(
    "arguments", [["--codecs", "rar"], ["--size", "3"], ["-X", "novalue"], ["--messages", "0"], ["--acks", "7"]]
)
def test_wrong_options_are_refused(arguments: list[str]) -> None:
    assert run(*arguments)[0] == 2


READ = [(0, 0, job.payloads(3, 100)[0]), (1, 0, job.payloads(3, 100)[1]), (0, 1, job.payloads(3, 100)[2])]


def test_check_accepts_what_was_sent() -> None:
    assert job.check(job.payloads(3, 100), READ)


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (READ[:2], "2 came back"),
        ([READ[2], READ[1], READ[0]], "out of order"),
        ([READ[0], READ[1], (0, 1, READ[1][2])], "twice"),
        ([READ[0], READ[1], (0, 1, READ[2][2].replace(b"page", b"Page"))], "digest"),
    ],
)
def test_check_notices(read: job.Read, text: str) -> None:
    with pytest.raises(job.CheckFailed, match=text):
        job.check(job.payloads(3, 100), read)


def test_payloads_have_their_size_and_number() -> None:
    for size in (job.SMALLEST, 100, 500):
        values = job.payloads(5, size)
        assert [len(value) for value in values] == [size] * 5
        assert [job.number_of(value) for value in values] == list(range(5))


def test_version() -> None:
    result = CliRunner().invoke(cli, ["--version"])
    assert result.exit_code == 0
    assert "kafka-native" in result.output
