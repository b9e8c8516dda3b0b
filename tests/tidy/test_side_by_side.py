"""Tests that run side by side (`pytest -n`) are judged as strictly as those in one process."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import LANES, lane

ROOT = Path(__file__).resolve().parents[2]
CONFTEST = """
import re
import tests.conftest
from tests.conftest import *
tests.conftest.LANES = {{"slow": re.compile("test_[yz]")}}
tests.conftest.LIVE_WAIT_SECONDS = 0
tests.conftest.live_objects = lambda: {left}
"""
SIDE_BY_SIDE = ("-n", "2", "--no-loadscope-reorder")


def session(folder: Path, left: dict[str, int], *options: str) -> subprocess.CompletedProcess[str]:
    """A run of eight tests in four files after which these C objects are alive."""
    (folder / "conftest.py").write_text(CONFTEST.format(left=left), encoding="utf-8")
    for name in "abyz":
        text = "def test_one():\n    pass\n\ndef test_two():\n    pass\n"
        (folder / f"test_{name}.py").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-v", f"--rootdir={folder}", *options, str(folder)]
    env = {"PYTHONPATH": str(ROOT), "PATH": ""}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("options", [(), SIDE_BY_SIDE], ids=["one", "side-by-side"])
def test_what_outlives_the_session_fails_it(tmp_path: Path, options: tuple[str, ...]) -> None:
    done = session(tmp_path, {"buffer": 2}, *options)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout + done.stderr
    assert "C objects alive at the end of the session: 2 buffer" in done.stdout
    assert "8 passed" in done.stdout
    assert session(tmp_path, {}, *options).returncode == pytest.ExitCode.OK


def test_a_lane_has_one_process(tmp_path: Path) -> None:
    printed = session(tmp_path, {}, *SIDE_BY_SIDE).stdout
    who = {(name, gw) for gw, name in re.findall(r"\[(gw\d)\].*PASSED .*test_(\w)\.py", printed)}
    assert sorted(name for name, _ in who) == list("abyz"), printed
    assert len({gw for name, gw in who if name in "yz"}) == 1, "of one lane"


def test_a_failure_is_named_at_once(tmp_path: Path) -> None:
    (tmp_path / "test_fails.py").write_text("def test_it():\n    assert not 'this'\n", encoding="utf-8")
    done = session(tmp_path, {}, *SIDE_BY_SIDE)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout + done.stderr
    assert done.stderr.splitlines().count("FAILED test_fails.py::test_it (call), told in full at the end") == 1


def test_every_lane_has_files() -> None:
    files = [str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py")]
    assert {lane(path) for path in files} >= set(LANES)
    assert lane("tests/broker/test_one_broker.py") == "brokers"
    assert lane("tests/broker/test_three_brokers.py") == lane("tests/broker/test_exactly_once.py") == "three brokers"
    assert lane("tests/broker/test_sasl.py") == "brokers of their own"
    assert lane("tests/tidy/test_side_by_side.py") == "tests/tidy/test_side_by_side.py"
