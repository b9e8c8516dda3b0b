"""The command line on a real Apache Kafka. If kcat is installed, it reads and writes beside it."""

from __future__ import annotations

import json
import shutil
import subprocess
import time

import pytest

from kafka_native.admin import NewTopic
from tests.broker.cluster import Cluster
from tests.broker.support import admin_of
from tests.cli.running import run
from tests.waiting import PROGRAM_S

LINES = b"".join(b"k%d:value %d\n" % (number % 7, number) for number in range(5000))


@pytest.fixture
def topic(kafka: Cluster) -> str:
    name = f"cli-{time.time_ns()}"
    with admin_of(kafka) as admin:
        admin.create_topics([NewTopic(name, 3, 1)])[name].result()
    return name


@pytest.mark.slow
def test_lines_envelopes_groups_and_times_round_trip(kafka: Cluster, topic: str) -> None:
    here = ["-b", kafka.bootstrap, "-t", topic]
    before = time.time_ns() // 1_000_000
    sent = run("produce", *here, "-K:", "-z", "zstd", "--json", stdin=LINES)
    assert (sent.returncode, json.loads(sent.stdout)["delivered"]) == (0, 5000), sent.stderr
    read = run("consume", *here, "-e", "-K:")
    assert sorted(read.stdout.splitlines()) == sorted(LINES.splitlines())
    envelopes = run("consume", *here, "--from", "beginning", "--to", "end", "-J").stdout
    assert run("produce", *here, "-J", stdin=envelopes).returncode == 0
    group = run(
        "consume",
        "-b",
        kafka.bootstrap,
        "-G",
        f"{topic}-readers",
        "-o",
        "beginning",
        "-c",
        "10000",
        topic,
    )
    assert group.stdout.count(b"\n") == 10_000
    late = run("consume", *here, "-o", f"s@{before - 1}", "-o", f"e@{before}")
    assert (late.returncode, late.stdout) == (0, b"")
    transaction = ["-X", f"transactional.id={topic}", "-J"]
    assert run("produce", *here, *transaction, stdin=b'{"value":"once"}\n').returncode == 0
    assert run("produce", *here, *transaction, stdin=b'{"value":"never"}\n{}}\n').returncode == 1
    last = run("consume", *here, "-o", "-3", "-e")
    assert b"once\n" in last.stdout
    assert b"never" not in last.stdout
    rest = run("consume", "-b", kafka.bootstrap, "-G", f"{topic}-readers", "-e", topic)
    assert rest.stdout == b"once\n", "the group continues behind the printed messages"
    listed = json.loads(run("metadata", *here, "--json").stdout)
    assert [len(each["partitions"]) for each in listed["topics"]] == [3]


def test_kcat_reads_our_messages_and_we_read_kcats(kafka: Cluster, topic: str) -> None:
    if shutil.which("kcat") is None:
        pytest.skip("kcat isn't installed")
    here = ["-b", kafka.bootstrap, "-t", topic]

    def kcat(*arguments: str, stdin: bytes = b"") -> bytes:
        return subprocess.run(
            ["kcat", *here, *arguments],
            input=stdin,
            capture_output=True,
            timeout=PROGRAM_S,
            check=True,
        ).stdout

    assert run("-P", *here, "-p0", "-K:", "-H", "a=b", stdin=LINES).returncode == 0
    text = "%t %p %o %T %S %K %h|%k=%s %%\\n"
    ours = run("-C", *here, "-p0", "-o", "beginning", "-e", "-q", "-f", text)
    assert ours.stdout == kcat("-C", "-p0", "-o", "beginning", "-e", "-q", "-f", text)
    kcat("-P", "-p1", "-K:", stdin=LINES)
    assert run("-C", *here, "-p1", "-e", "-q", "-K:").stdout == LINES
    theirs = kcat("-C", "-p1", "-e", "-q", "-J", "-c", "3")
    assert run("produce", *here, "-p", "2", "-J", stdin=theirs).returncode == 0
    assert run("-C", *here, "-p2", "-e", "-q", "-K:").stdout == b"".join(
        LINES.splitlines(keepends=True)[:3]
    )
