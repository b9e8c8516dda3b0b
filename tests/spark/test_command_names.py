"""Names from the network never act on the terminal of ``python -m kafka_native.spark``."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from kafka_native import KafkaError, Producer
from kafka_native.mock import MockCluster
from kafka_native.protocol import ApiKey
from kafka_native.spark import range_reader
from kafka_native.spark.commands import cli
from kafka_native.spark.pipelines.translation import Piece, Translations
from tests.cli.running import environment
from tests.cli.terminal import terminal
from tests.hostile import COLOURS, ESCAPED_MARKS, MARKS, check, unprintable
from tests.waiting import WAIT_S

TOPIC = f"topic{MARKS}"
REDRAWING = re.compile(r"\x1b\[(\?25[hl]|2K|1A)|\r")
"""The sequences with which rich redraws a line."""
UNREACHABLE = ["--bootstrap", "127.0.0.1:1", "--topics", "a"]
EVERY_TOPIC = "(?s).*"
"""A pattern that matches every topic: a name may have a line end."""


@contextmanager
def hostile_cluster() -> Iterator[MockCluster]:
    """Yield a cluster whose only topic has a hostile name, and two records."""
    with (
        pytest.MonkeyPatch.context() as patch,
        MockCluster(brokers=1, auto_create_topics=False) as cluster,
    ):
        for module in ("state", "handlers.metadata"):
            patch.setattr(f"kafka_native.mock.{module}.is_valid_name", bool)
        cluster.create_topic(TOPIC, 1)
        with Producer({"bootstrap.servers": cluster.bootstrap_servers}) as producer:
            for _ in range(2):
                producer.produce(TOPIC, MARKS.encode(), MARKS.encode(), timestamp=1_600_000_000_000)
            assert producer.flush(WAIT_S) == 0
        yield cluster
        range_reader.close_idle()


@pytest.fixture(scope="module")
def hostile() -> Iterator[MockCluster]:
    with hostile_cluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def target() -> Iterator[MockCluster]:
    with MockCluster(brokers=1, auto_create_topics=False) as cluster:
        cluster.create_topic("mirrored", 1)
        yield cluster


def run(*words: str) -> Any:
    done = CliRunner().invoke(cli, list(words))
    assert not isinstance(done.exception, Exception), done.exception
    assert done.output
    check(done.stdout)
    check(done.stderr)
    return done


def of(cluster: MockCluster) -> list[str]:
    return ["--bootstrap", cluster.bootstrap_servers]


# --- what commands print ---


def test_profile_dry_run(hostile: MockCluster) -> None:
    done = run("profile", *of(hostile), "--pattern", EVERY_TOPIC, "--dry-run")
    assert f"topic{ESCAPED_MARKS}" in done.stdout
    assert "1 partitions, 2 offsets; nothing was read." in done.stdout


def test_mirror_dry_run(hostile: MockCluster, target: MockCluster, tmp_path: Path) -> None:
    where = ["--to-bootstrap", target.bootstrap_servers]
    where += ["--checkpoint", str(tmp_path / MARKS.replace("/", ""))]
    done = run(
        "mirror", *of(hostile), *where, "--pattern", EVERY_TOPIC, "--to", "mirrored", "--dry-run"
    )
    assert f"topic{ESCAPED_MARKS}" in done.stdout
    # the mirror can't have the same name
    done = run("mirror", *of(hostile), *where, "--pattern", EVERY_TOPIC, "--dry-run")
    assert done.exit_code == 1


def test_mirror_translate(tmp_path: Path) -> None:
    Translations(str(tmp_path / "translation")).write(
        0, [Piece(TOPIC, 0, "mirrored", 0, 10, 90, 100)]
    )
    where = ["--checkpoint", str(tmp_path), "--translate"]
    assert run("mirror", *where, f"{TOPIC}:0:4").stdout == "94\n"
    assert ESCAPED_MARKS in run("mirror", *where, f"{TOPIC}:1:4").stderr


def test_snapshot_dry_run_error(hostile: MockCluster, tmp_path: Path) -> None:
    done = run(
        "snapshot", *of(hostile), "--pattern", EVERY_TOPIC, "--output", str(tmp_path), "--dry-run"
    )
    assert done.exit_code == 1
    assert "no folder or file can be named so" in done.stderr


def test_replay_dry_run(tmp_path: Path) -> None:
    columns = {"topic": pa.array([TOPIC, TOPIC]), "partition": pa.array([0, 0], pa.int32())}
    columns |= {"offset": pa.array([0, 1], pa.int64()), "value": pa.array([b"1", b"2"])}
    folder = tmp_path / "[red]"
    folder.mkdir()
    pq.write_table(pa.table(columns), folder / "a.parquet")
    where = ["--source", str(folder), "--checkpoint", str(tmp_path / "checkpoint")]
    done = run("replay", *where, "--dry-run")
    assert ESCAPED_MARKS in done.stdout
    assert "[red]" in done.stdout.splitlines()[0]
    assert (
        f"other{ESCAPED_MARKS}"
        in run("replay", *where, "--topic", f"other{MARKS}", "--dry-run").stdout
    )


@pytest.mark.parametrize(
    "words",
    [
        [f"nosuch{MARKS}"],
        [f"--nosuch{MARKS}"],
        ["profile", f"--nosuch{MARKS}"],
        ["profile", *UNREACHABLE, "-X", f"nosuch{MARKS}=1", "--dry-run"],
        ["profile", "--topics", "a", "--config-file", f"nosuch{MARKS}"],
        ["archive", "--lake", "x", "--interval", MARKS],
        ["archive", "--lake", "x", "--trigger", MARKS],
        ["mirror", "--checkpoint", "x", "--translate", f"x{MARKS}"],
        ["replay", "--source", f"nosuch{MARKS}", "--checkpoint", "x", "--dry-run"],
    ],
)
def test_errors(words: list[str]) -> None:
    done = run(*words)
    assert done.exit_code in (1, 2)
    assert done.stderr


def test_errors_of_brokers(hostile: MockCluster) -> None:
    done = run("profile", *of(hostile), "--topics", f"nosuch{MARKS}", "--dry-run")
    assert done.exit_code == 1
    assert ESCAPED_MARKS in done.stderr


# --- with Spark ---


def test_archive_dry_run_and_error(
    hostile: MockCluster, spark: SparkSession, tmp_path: Path
) -> None:
    where = [*of(hostile), "--pattern", EVERY_TOPIC, "--lake", str(tmp_path / "[red]")]
    done = run("archive", *where, "--dry-run")
    assert f"topic{ESCAPED_MARKS}" in done.stdout
    assert "[red]" in done.stdout.splitlines()[0]
    done = run("archive", *where)
    assert done.exit_code == 1
    assert "no folder or file can be named so" in done.stderr


def test_snapshot_error(hostile: MockCluster, spark: SparkSession, tmp_path: Path) -> None:
    where = ["--pattern", EVERY_TOPIC, "--output", str(tmp_path / MARKS.replace("/", ""))]
    done = run("snapshot", *of(hostile), *where)
    assert done.exit_code == 1
    assert "no folder or file can be named so" in done.stderr


def test_profile_summary_and_figures(
    hostile: MockCluster, spark: SparkSession, tmp_path: Path
) -> None:
    figures, page = tmp_path / "[red].json", tmp_path / "page.html"
    done = run(
        "profile",
        *of(hostile),
        "--pattern",
        EVERY_TOPIC,
        "--json",
        str(figures),
        "--html",
        str(page),
    )
    assert done.exit_code == 0
    assert f"profile: topic{ESCAPED_MARKS}" in done.stdout
    assert f"Figures: {figures}" in done.stdout
    check(figures.read_text())
    check(re.sub("<style>.*</style>", "", page.read_text(), flags=re.S))


def test_mirror_summary(
    hostile: MockCluster, target: MockCluster, spark: SparkSession, tmp_path: Path
) -> None:
    hostile.set_committed(f"group{MARKS}", {(TOPIC, 0): 1})
    where = [*of(hostile), "--to-bootstrap", target.bootstrap_servers]
    where += ["--checkpoint", str(tmp_path)]
    groups = ["--groups", f"group{MARKS}"]
    done = run("mirror", *where, "--pattern", EVERY_TOPIC, "--to", "mirrored", *groups)
    assert done.exit_code == 0, done.output
    assert f"group group{ESCAPED_MARKS}" in done.stdout


# --- what the program logs, and what Spark and its workers do ---


def test_logs_and_tracebacks_are_escaped() -> None:
    program = "import logging, sys\nimport kafka_native.spark.commands as commands\n"
    program += f"def broken(**_):\n    logging.getLogger('x').warning({MARKS!r})\n"
    program += f"    raise RuntimeError({MARKS!r})\n"
    program += "commands._Commands.get_command = lambda *_: __import__('click').Command('x', callback=broken)\n"
    program += "sys.argv[1:] = ['x']\nfrom kafka_native.spark.__main__ import main\nmain()\n"
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment(), capture_output=True, check=False
    )
    shown = done.stderr.decode()
    assert done.returncode == 1
    assert f"WARNING x: {ESCAPED_MARKS}\n" in shown
    assert "RuntimeError: " in shown
    assert not unprintable(shown)


@pytest.mark.slow  # a JVM of its own
def test_spark_log_is_escaped_on_a_terminal() -> None:
    """A task fails with the topic's name in its error: Spark logs the worker's traceback."""
    if shutil.which("java") is None:
        pytest.skip("no Spark: java is not installed")

    def refuse(reply: Any) -> None:
        for topic in reply.responses:
            for partition in topic.partitions:
                partition.error_code = KafkaError.TOPIC_AUTHORIZATION_FAILED

    with hostile_cluster() as cluster:
        cluster.edit_responses(ApiKey.FETCH, refuse, count=1_000_000)
        words = ["profile", *of(cluster), "--pattern", EVERY_TOPIC, "--master", "local[1]"]
        with terminal(
            *words, columns=4000, program=[sys.executable, "-m", "kafka_native.spark"]
        ) as screen:
            status = screen.end()
    shown = REDRAWING.sub("", COLOURS.sub("", screen.shown))
    assert status == 1
    # the error's str() has escaped the name, so the line's escape doubles backslashes
    assert len(re.findall(r"^spark: .*topic\\+x1b\[35m", shown, re.M)) > 0, shown
    assert "Error: " in shown
    assert "topic\x1b" not in screen.shown
    check(shown)
