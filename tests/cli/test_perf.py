"""``kafka-native perf`` on the mock cluster, and the problems that it reports."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
import zlib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import kafka_native
from kafka_native.cli import measurements, perf
from kafka_native.cli.app import cli
from kafka_native.cli.commands import perf as perf_module
from kafka_native.cli.mock import mock_cluster
from kafka_native.errors import KafkaError
from kafka_native.mock import MockCluster
from kafka_native.protocol import ApiKey
from tests.cli.running import PROGRAM, environment
from tests.waiting import PROGRAM_S

ROOT = Path(__file__).resolve().parents[2]


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["perf", "--latency-messages", "5", *arguments])
    return result.exit_code, result.output


def white_share(picture: Path) -> float:
    from matplotlib import image

    pixels = image.imread(picture)
    return float((pixels[:, :, :3].min(axis=2) > 0.99).mean())


def test_demo_runs_and_writes_a_chart(tmp_path: Path) -> None:
    options = shlex.split("--messages 20000 --latency-messages 50")
    done = subprocess.run(
        [*PROGRAM, "perf", *options, "--output", str(tmp_path)],
        env=environment(XDG_CONFIG_HOME=str(tmp_path)),  # matplotlib creates its own there
        capture_output=True,
        text=True,
        timeout=PROGRAM_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Every message came back" in done.stdout
    assert "\u2026" not in done.stdout, "the table is cut off in 80 columns"
    figures = json.loads((tmp_path / "perf.json").read_text())
    assert (figures["messages"], figures["size"], figures["partitions"]) == (20000, 100, 4)
    assert figures["version"] == kafka_native.__version__
    assert [result["codec"] for result in figures["results"]] == [
        "none",
        "snappy",
        "lz4",
        "zstd",
        "gzip",
    ]
    assert len({result["digest"] for result in figures["results"]}) == 1
    for result in figures["results"]:
        for loop in (result["produce"], result["consume"]):
            assert loop["messages"] == 20000
            assert loop["bytes"] == 2_000_000
            assert loop["seconds"] > 0
            assert loop["cpu_seconds"] > 0
        assert 0 < result["latency"]["p50"] <= result["latency"]["p99"] <= result["latency"]["p999"]
    picture = tmp_path / "perf.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert 0.3 < white_share(picture) < 0.95, "an empty chart, or perf_on that isn't a chart"


def test_named_cluster_is_used_and_left_clean(cluster: MockCluster) -> None:
    arguments = shlex.split("--messages 3000 --codecs lz4,none --json --batch-size 5000 --linger 1")
    done = CliRunner().invoke(
        cli, ["perf", *arguments, "-b", cluster.bootstrap_servers, "-X", "client.id=me"]
    )
    assert done.exit_code == 0, done.output
    assert "Every message came back" in done.stderr
    assert not cluster.topics
    assert "me" in {request.client_id for request in cluster.requests}
    assert [result["codec"] for result in json.loads(done.stdout)["results"]] == ["lz4", "none"]


def test_kept_topics_have_the_requested_messages(cluster: MockCluster) -> None:
    arguments = shlex.split("--messages 3000 --partitions 3 --codecs zstd --size 250 --keep")
    status, output = run(*arguments, "--bootstrap", cluster.bootstrap_servers)
    assert status == 0, output
    [(name, topic)] = cluster.topics.items()
    assert name.endswith("-zstd")
    messages = [
        message
        for number in range(len(topic.partitions))
        for message in cluster.messages(name, number)
    ]
    assert len(topic.partitions) == 3
    assert len(messages) >= 3000
    assert {len(message.value or b"") for message in messages} == {250}
    assert all(
        batch[22] & 7 == 4 for number in range(3) for batch in cluster.batches(name, number)[:1]
    )  # zstd


def test_the_figures_show_no_secret_property(cluster: MockCluster, tmp_path: Path) -> None:
    properties = ["-X", "sasl.password=hunter2", "-X", "client.id=measuring"]
    status, text = run(
        *("--bootstrap", cluster.bootstrap_servers, "--messages", "100", "--codecs", "none"),
        *("--json", "--output", str(tmp_path), *properties),
    )
    assert status == 0, text
    written = (tmp_path / "perf.json").read_text()
    assert json.loads(written)["properties"]["client.id"] == "measuring"
    assert "hunter2" not in text + written


def damage(monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    real = perf.read_back
    monkeypatch.setattr(perf, "read_back", lambda *arguments: change(list(real(*arguments))))


def changed_byte(read: list[perf.ReadRecord]) -> list[perf.ReadRecord]:
    partition, offset, value = read[7]
    return [*read[:7], (partition, offset, value[:-1] + b"!"), *read[8:]]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (changed_byte, "digest"),
        (lambda read: read[:-1], "2999 came back"),
        (lambda read: [*read[:-1], read[0]], "twice"),
        (lambda read: read[::-1], "out of order"),
    ],
)
def test_damage_ends_with_status_1(
    cluster: MockCluster, monkeypatch: pytest.MonkeyPatch, change: Any, text: str
) -> None:
    damage(monkeypatch, change)
    status, output = run(
        "--messages", "3000", "--codecs", "none", "--bootstrap", cluster.bootstrap_servers
    )
    assert status == 1
    assert text in output
    assert "Every message came back" not in output
    assert not cluster.topics, "a run that fails cleans up as well"


def test_refused_messages_are_reported_with_their_reason(cluster: MockCluster) -> None:
    cluster.push_request_errors(ApiKey.PRODUCE, [KafkaError.TOPIC_AUTHORIZATION_FAILED])
    status, output = run(
        "--messages", "3000", "--codecs", "none", "--bootstrap", cluster.bootstrap_servers
    )
    assert status == 1
    assert "were not delivered, the first because" in output
    assert "authorization" in output.lower()


def test_lost_messages_are_noticed(cluster: MockCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perf, "SETTLE_TIMEOUT_S", 0.2)
    monkeypatch.setattr(perf, "produce_all", lambda conf, topic, values, progress: None)
    status, output = run(
        "--messages", "3000", "--codecs", "none", "--bootstrap", cluster.bootstrap_servers
    )
    assert status == 1
    assert "3000 messages were sent, the topic holds 0" in output


def test_topic_that_cannot_be_created_ends_with_status_1(cluster: MockCluster) -> None:
    cluster.push_request_errors(ApiKey.CREATE_TOPICS, [KafkaError.CLUSTER_AUTHORIZATION_FAILED])
    status, output = run("--messages", "10", "--bootstrap", cluster.bootstrap_servers)
    assert status == 1
    assert "can't be made" in output


def test_unreachable_cluster_ends_with_status_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perf_module, "CONNECT_TIMEOUT_S", 0.5)
    status, output = run("--messages", "10", "--bootstrap", "127.0.0.1:1")
    assert status == 1
    assert "no broker could be reached" in output


@pytest.mark.parametrize(
    "arguments",
    [
        ["--codecs", "rar"],
        ["--codecs", "lz4,lz4"],
        ["--codecs", ","],
        ["--size", "3"],
        ["-X", "novalue"],
        ["--messages", "0"],
        ["--acks", "7"],
    ],
)
def test_wrong_options_are_refused(arguments: list[str]) -> None:
    assert run(*arguments)[0] == 2


VALUES = perf.payloads(3, 100)
READ = [(0, 0, VALUES[0]), (1, 0, VALUES[1]), (0, 1, VALUES[2])]


def test_check_accepts_what_was_sent() -> None:
    assert perf.check(VALUES, READ) == perf.check(VALUES, [READ[1], READ[0], READ[2]])
    assert perf.check(VALUES, READ) != perf.check(VALUES[:2], READ[:2])


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (READ[:2], "2 came back"),
        ([READ[2], READ[1], READ[0]], "out of order"),
        ([READ[0], READ[1], (0, 0, VALUES[2])], "out of order"),
        ([READ[0], READ[1], (0, 1, VALUES[1])], "twice"),
        ([READ[0], READ[1], (0, 1, VALUES[2].replace(b"number", b"nUmber"))], "digest .*message 2"),
        ([READ[0], READ[1], (0, 1, b"something else")], "never sent"),
        ([*READ, (0, 2, perf.payloads(4, 100)[3])], "never sent"),
    ],
)
def test_check_notices_damage(read: list[perf.ReadRecord], text: str) -> None:
    with pytest.raises(perf.CheckFailed, match=text):
        perf.check(VALUES, read)


def test_payloads_have_their_size_and_number() -> None:
    for size in (perf.MESSAGE_MIN_BYTES, 100, 500):
        values = perf.payloads(5, size)
        assert [len(value) for value in values] == [size] * 5
        assert [perf.number_of(value) for value in values] == list(range(5))


def test_payloads_are_the_same_each_time_and_compress_as_json_does() -> None:
    values = perf.payloads(2000, 100)
    assert values == perf.payloads(2000, 100)
    assert len(set(values)) == 2000
    assert json.loads(values[1234])["number"] == "000001234"
    data = b"".join(values)
    assert 3 < len(data) / len(zlib.compress(data)) < 6


def test_version() -> None:
    result = CliRunner().invoke(cli, ["--version"])
    assert result.exit_code == 0
    assert result.output == f"kafka-native, version {kafka_native.__version__}\n"


@pytest.mark.parametrize(
    ("missing", "extra"), [("click", "cli"), ("rich", "cli"), ("matplotlib", "plot")]
)
def test_missing_extra_is_one_line_with_the_command(
    missing: str, extra: str, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(f"import sys\nsys.modules[{missing!r}] = None\n")
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    command = [*PROGRAM, "perf", "--output", str(tmp_path), "--messages", "10"]
    done = subprocess.run(
        command,
        env={**environment(), "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=PROGRAM_S,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert f"pip install 'kafka-native[{extra}]'" in done.stderr
    assert missing in done.stderr


def test_mock_command_serves_until_a_signal() -> None:
    command = [*PROGRAM, "mock", "--brokers", "2", "--topics", "a:3"]
    with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            servers = process.stdout.readline().strip().partition("=")[2]
            with kafka_native.Producer({"bootstrap.servers": servers}) as producer:
                assert len(producer.list_topics("a", 10).topics["a"].partitions) == 3
            process.send_signal(signal.SIGTERM)
            assert process.wait(10) == 0
        finally:
            process.kill()


def test_own_mock_cluster_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    program = "import time\nfrom kafka_native.cli.mock import mock_cluster\n"
    program += (
        "with mock_cluster() as servers:\n    print(servers, flush=True)\n    time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], env=environment(), stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        servers = parent.stdout.readline().strip()
        parent.kill()
    with kafka_native.Producer({"bootstrap.servers": servers}) as producer:
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            try:
                producer.list_topics(timeout=0.2)
            except kafka_native.KafkaException:
                break
        else:
            pytest.fail("the mock cluster is still there")


def test_own_mock_cluster_ends_with_its_block() -> None:
    with (
        mock_cluster() as servers,
        kafka_native.Producer({"bootstrap.servers": servers}) as producer,
    ):
        assert len(producer.list_topics(timeout=10).brokers) == 1


def perf_on(cluster: MockCluster, *arguments: str) -> Any:
    return CliRunner().invoke(
        cli, ["perf", *arguments, "-b", cluster.bootstrap_servers, "-F", "none"]
    )


def test_single_measurements_of_an_existing_topic(cluster: MockCluster, tmp_path: Path) -> None:
    cluster.create_topic("load", 2)
    sent = perf_on(cluster, "produce", "-t", "load", "--messages", "3000", "--size", "50", "--json")
    assert sent.exit_code == 0, sent.output
    sums = json.loads(sent.stdout)
    assert (sums["messages"], sums["bytes"]) == (3000, 150_000)
    read = perf_on(cluster, "consume", "-t", "load")
    assert read.exit_code == 0, read.output
    assert read.stdout.startswith("3,000 messages in ")
    assert (
        json.loads(perf_on(cluster, "consume", "-t", "load", "--messages", "10", "--json").stdout)[
            "messages"
        ]
        == 10
    )
    picture = tmp_path / "latency.png"
    timed = perf_on(
        cluster, "latency", "-t", "load", "--messages", "20", "--json", "--chart", str(picture)
    )
    assert timed.exit_code == 0, timed.output
    figures = json.loads(timed.stdout)
    assert sum(bucket["count"] for bucket in figures["histogram"]) == 20
    assert 0 < figures["min"] <= figures["p50"] <= figures["p99.9"] <= figures["max"]
    # neither empty nor filled: the area of the bars is random
    assert 0.05 < white_share(picture) < 0.98
    shown = perf_on(cluster, "latency", "-t", "load", "--messages", "5").stdout
    assert " ms " in shown
    assert "#" in shown
    assert "p99.9" in shown


def test_an_empty_topic_has_no_rate(cluster: MockCluster) -> None:
    cluster.create_topic("load", 2)
    done = perf_on(cluster, "consume", "-t", "load")
    assert (done.exit_code, done.stderr) == (1, "Error: topic load has no messages\n")


def test_histogram_has_everything_once() -> None:
    buckets = measurements.histogram([0.1, 0.1, 0.11, 0.5, 8.0])
    assert [number for *_, number in buckets if number] == [3, 1, 1]
    assert all(low < high for low, high, _ in buckets)
    assert buckets[0][0] == 0.1
    assert buckets[-1][0] <= 8.0 < buckets[-1][1]


def test_perf_all_ignores_the_cluster_of_the_environment(cluster: MockCluster) -> None:
    arguments = ["perf", "--messages", "10", "--codecs", "none", "--latency-messages", "1"]
    done = CliRunner().invoke(
        cli, arguments, env={"KAFKA_BOOTSTRAP": cluster.bootstrap_servers, "BOOTSTRAP": None}
    )
    assert done.exit_code == 0, done.output
    assert "Started the mock cluster at" in done.stdout
