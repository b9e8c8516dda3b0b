"""``python -m kafka_native.mock`` in its own process."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import confluent_kafka
import pytest

from kafka_native.mock.__main__ import main
from tests.mock.registry_calls import call
from tests.waiting import WAIT_S

COMMAND = [sys.executable, "-m", "kafka_native.mock"]


@contextmanager
def running(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Yield the process and its bootstrap servers."""
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        name, _, servers = process.stdout.readline().strip().partition("=")
        assert name == "bootstrap.servers"
        yield process, servers
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_process_serves_and_ends_cleanly(number: signal.Signals) -> None:
    options = (
        "--brokers",
        "2",
        "--topics",
        "a:4,b",
        "--partitions",
        "3",
        "--prefault-bytes",
        str(4 << 20),
    )
    with running(*options) as (process, servers):
        assert len(servers.split(",")) == 2
        producer = confluent_kafka.Producer({"bootstrap.servers": servers, "log_level": 0})
        topics = producer.list_topics(timeout=WAIT_S).topics
        assert {name: len(topic.partitions) for name, topic in topics.items()} == {"a": 4, "b": 1}
        assert len(producer.list_topics("new", timeout=WAIT_S).topics["new"].partitions) == 3
        producer.produce("a", b"x")
        assert producer.flush(WAIT_S) == 0
        process.send_signal(number)
        out, err = process.communicate(timeout=WAIT_S)
        assert (process.returncode, out, err) == (0, "", "")


def test_state_is_saved_at_the_end_and_loaded(tmp_path: Path) -> None:
    folder = str(tmp_path / "state")
    with running("--topics", "a:2", "--save", folder) as (process, servers):
        producer = confluent_kafka.Producer({"bootstrap.servers": servers, "log_level": 0})
        producer.produce("a", b"kept", partition=1)
        assert producer.flush(WAIT_S) == 0
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=WAIT_S)
        assert (process.returncode, out, err) == (0, "", "")
    with running("--load", folder, "--topics", "a:2,b") as (_, servers):
        consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": "g"})
        try:
            assert {"a", "b"} <= consumer.list_topics(timeout=WAIT_S).topics.keys()
            consumer.assign([confluent_kafka.TopicPartition("a", 1, 0)])
            message = consumer.poll(WAIT_S)
            assert message is not None
            assert message.value() == b"kept"
        finally:
            consumer.close()


def test_a_folder_without_a_state_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text("{}")
    (tmp_path / "empty").mkdir()
    for folder, error in ((tmp_path, "is no saved mock cluster"), (tmp_path / "empty", "No such")):
        done = subprocess.run(
            [*COMMAND, "--load", str(folder)],
            capture_output=True,
            text=True,
            check=False,
            timeout=WAIT_S,
        )
        assert done.returncode == 2
        assert error in done.stderr


def test_a_state_that_cannot_be_saved_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with running("--save", str(file)) as (process, _):
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=WAIT_S)
        assert process.returncode == 1
        assert "can't be saved" in err


def test_ports_follow_the_first_one_and_a_taken_one_is_an_error() -> None:
    with running("--brokers", "1") as (_, servers):
        port = servers.rpartition(":")[2]
        done = subprocess.run(
            [*COMMAND, "--port", port], capture_output=True, text=True, check=False, timeout=WAIT_S
        )
        assert done.returncode == 2
        assert "in use" in done.stderr


def test_registry_runs_beside_the_cluster() -> None:
    with running("--brokers", "1", "--registry") as (process, _):
        assert process.stdout is not None
        name, _, url = process.stdout.readline().strip().partition("=")
        assert name == "schema.registry.url"
        assert call(url, "GET", "/subjects").body == []
        port = url.rpartition(":")[2]
        done = subprocess.run(
            [*COMMAND, "--registry", port],
            capture_output=True,
            text=True,
            check=False,
            timeout=WAIT_S,
        )
        assert done.returncode == 2
        assert "in use" in done.stderr


def test_json_has_the_url_of_the_registry() -> None:
    command = [*COMMAND, "--brokers", "1", "--registry", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            addresses = json.loads(process.stdout.readline())
            assert call(addresses["schema.registry.url"], "GET", "/contexts").body == ["."]
        finally:
            process.kill()


def test_process_is_secured(tmp_path: Path) -> None:
    options = [
        "--brokers",
        "1",
        "--security-protocol",
        "SASL_SSL",
        "--sasl-mechanisms",
        "PLAIN,SCRAM-SHA-256",
    ]
    options += [
        "--user",
        "alice:sec:ret",
        "--client-certificates",
        "required",
        "--save-certificates",
        str(tmp_path),
    ]
    with running(*options) as (_, servers):
        conf = {
            "bootstrap.servers": servers,
            "security.protocol": "sasl_ssl",
            "ssl.ca.location": str(tmp_path / "ca.pem"),
            "ssl.certificate.location": str(tmp_path / "client.pem"),
            "ssl.key.location": str(tmp_path / "client.key"),
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": "alice",
            "sasl.password": "sec:ret",
            "log_level": 0,
        }
        assert (
            confluent_kafka.Producer(conf).list_topics("new", timeout=WAIT_S).topics["new"].error
            is None
        )


@pytest.mark.parametrize(
    "arguments",
    [
        ["--topics", "a:0"],
        ["--brokers", "0"],
        ["--port", "99999"],
        ["--port", "65535", "--brokers", "2"],
        ["--security-protocol", "sasl_ssl", "--sasl-mechanisms", "PLAN"],
        ["--save-certificates", "certificates"],
    ],
)
def test_impossible_clusters_are_errors(arguments: list[str]) -> None:
    done = subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, check=False, timeout=WAIT_S
    )
    assert done.returncode == 2
    assert "error:" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ["--topics", "a:x"],
        ["--topics", ":1"],
        ["--colour", "red"],
        ["--user", "me"],
        ["--registry", "x"],
    ],
)
def test_wrong_options_are_errors(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "error:" in capsys.readouterr().err
