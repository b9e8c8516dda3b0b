"""The tutorials without Spark run as they stand, on the mock cluster."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kafka_native.mock import MockCluster
from tests.waiting import PROGRAM_S

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"```(sh|python|text)\n(.*?)```", re.DOTALL)
STARTED_HERE = ("pip install", "kafka-native mock")
"""Shell blocks that the test replaces: the packages and the mock are there."""


def prepare(folder: Path, text: str) -> tuple[str, str]:
    """Save the programs of a tutorial, and return its commands and the output that it shows."""
    commands, shown = ["set -e"], ""
    for kind, block in BLOCK.findall(text):
        if kind == "text":
            shown += block
        elif kind == "python":
            name = block.splitlines()[0].removeprefix("# ")
            assert name.endswith(".py")
            (folder / name).write_text(block, encoding="utf-8")
        elif not block.startswith(STARTED_HERE):
            commands.append(block.rstrip() + (" >&2" if "pytest" in block else ""))
    return "\n".join(commands), shown


@pytest.mark.parametrize(
    ("page", "topics"),
    [
        ("first-pipeline.md", {"orders": 2}),
        ("exactly-once.md", {"orders": 1, "invoices": 1}),
    ],
)
def test_the_tutorial_runs(tmp_path: Path, page: str, topics: dict[str, int]) -> None:
    text = (ROOT / "docs" / "tutorial" / page).read_text(encoding="utf-8")
    named = ",".join(f"{topic}:{partitions}" for topic, partitions in topics.items())
    assert f"kafka-native mock --port 9092 --topics {named}\n" in text
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with MockCluster(brokers=1) as cluster:
        for topic, partitions in topics.items():
            cluster.create_topic(topic, partitions)
        text = text.replace("localhost:9092", cluster.bootstrap_servers)
        commands, shown = prepare(tmp_path, text)
        done = subprocess.run(
            ["bash", "-c", commands],
            cwd=tmp_path,
            env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
            timeout=PROGRAM_S,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == shown, done.stderr
