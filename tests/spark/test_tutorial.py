"""The tutorial runs as it stands, on the mock cluster and the mock registry."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kafka_native.mock import MockCluster, MockSchemaRegistry
from tests.spark.conftest import ROOT
from tests.waiting import PROGRAM_S

TUTORIAL = ROOT / "docs" / "tutorial" / "orders-to-iceberg.md"
BLOCKS = re.compile(r"```(sh|python|text)\n(.*?)```", re.DOTALL)
STARTED_HERE = ("pip install", "kafka-native mock")
"""Shell blocks that the test replaces: the packages and the mocks are there."""


def script(addresses: dict[str, str]) -> tuple[str, str]:
    """Return the blocks as one shell script, and the output that the tutorial shows."""
    text = TUTORIAL.read_text(encoding="utf-8")
    for address, real in addresses.items():
        assert address in text
        text = text.replace(address, real)
    commands, shown = ["set -e"], ""
    for kind, block in BLOCKS.findall(text):
        if kind == "text":
            shown += block
        elif kind == "python":
            commands.append(f"python - <<'END'\n{block}END")
        elif not block.startswith(STARTED_HERE):
            commands.append(block if "export" in block else block.rstrip() + " >&2")
    return "\n".join(commands), shown


@pytest.mark.slow
def test_orders_to_iceberg(tmp_path: Path) -> None:
    pytest.importorskip("pyiceberg")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with MockCluster(brokers=1) as cluster, MockSchemaRegistry() as registry:
        cluster.create_topic("orders", 2)
        addresses = {
            "localhost:9092": cluster.bootstrap_servers,
            "http://localhost:8081": registry.url,
        }
        commands, shown = script(addresses)
        done = subprocess.run(
            ["bash", "-c", commands],
            cwd=tmp_path,
            env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=PROGRAM_S,
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout == shown, done.stderr
    assert "added country" in done.stderr
