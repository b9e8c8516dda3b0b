"""The fixtures that users get from kafka_native.mock.pytest_plugin."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.waiting import WAIT_S

TESTS = """
import urllib.request

SEEN = []

def test_both(mock_cluster, mock_schema_registry):
    mock_cluster.create_topic("a", 1)
    with urllib.request.urlopen(mock_schema_registry.url + "/subjects") as answer:
        assert answer.read() == b"[]"
    SEEN.append(mock_cluster.cluster_id)

def test_next_one_has_its_own(mock_cluster):
    assert "a" not in mock_cluster.topics
    assert mock_cluster.cluster_id not in SEEN
"""


def test_fixtures_are_new_for_each_test(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["kafka_native.mock.pytest_plugin"]\n')
    (tmp_path / "test_app.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=WAIT_S,
        cwd=tmp_path,
    )
    assert "2 passed" in done.stdout, done.stdout + done.stderr
