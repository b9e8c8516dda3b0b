"""Whole runs of pytest with our plugins: failures, output, processes and slices."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import lanes
from tests.reporting import FLAKY_FILE
from tests.waiting import PROGRAM_S

ROOT = Path(__file__).resolve().parents[2]
PASSES_AT_SECOND_TRY = """
import pathlib
import pytest

@pytest.mark.parametrize("number", range({count}))
def test_flaky(number, tmp_path_factory):
    tried = pathlib.Path(__file__).with_name(f"tried-{{number}}")
    if not tried.exists():
        tried.touch()
        assert number == "the first failure"
"""


def run(
    folder: Path, text: str, *options: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run one test file with only our plugins. Its flaky tests don't count for the outer run."""
    inherited = {name: value for name, value in os.environ.items() if name != FLAKY_FILE}
    (folder / "test_it.py").write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = slow\n")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "tests.lanes",
        "-p",
        "tests.reporting",
        "-p",
        "no:cacheprovider",
    ]
    return subprocess.run(
        [*command, *options],
        cwd=folder,
        env={**inherited, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=PROGRAM_S,
    )


@pytest.mark.parametrize("processes", [0, 2])
def test_flaky_tests_are_named_with_their_first_failure(tmp_path: Path, processes: int) -> None:
    names = tmp_path / "flaky"
    text = PASSES_AT_SECOND_TRY.format(count=3)
    done = run(tmp_path, text, "--reruns", "2", "-n", str(processes), **{FLAKY_FILE: str(names)})
    assert done.returncode == 0, done.stdout
    expected = [f"test_it.py::test_flaky[{number}]" for number in range(3)]
    assert [line[7:] for line in done.stdout.splitlines() if line.startswith("flaky: ")] == expected
    assert names.read_text().splitlines() == expected
    assert "assert 0 == 'the first failure'" in done.stdout


@pytest.mark.parametrize("processes", [0, 2])
def test_more_than_three_flaky_tests_fail_a_run(tmp_path: Path, processes: int) -> None:
    done = run(
        tmp_path, PASSES_AT_SECOND_TRY.format(count=4), "--reruns", "2", "-n", str(processes)
    )
    assert done.returncode == 1
    assert "FAILED: 4 flaky tests, 3 are allowed" in done.stdout


def test_a_test_that_fails_three_times_fails_the_run_and_is_not_called_flaky(
    tmp_path: Path,
) -> None:
    done = run(tmp_path, "def test_bad():\n    assert False\n", "--reruns", "2")
    assert done.returncode == 1
    assert "flaky:" not in done.stdout
    assert "2 rerun" in done.stdout


def test_a_crash_fails_the_run_even_if_the_test_passes_then(tmp_path: Path) -> None:
    text = """
import os, pathlib

def test_crash():
    tried = pathlib.Path(__file__).with_name("tried")
    if not tried.exists():
        tried.touch()
        os.abort()

def test_other():
    pass
"""
    done = run(tmp_path, text, "--reruns", "2", "-n", "2")
    assert done.returncode == 1, done.stdout
    assert "crashed while running 'test_it.py::test_crash'" in done.stdout


def test_skipped_tests_are_printed_by_reason_in_ten_lines(tmp_path: Path) -> None:
    text = """
import pytest

@pytest.mark.parametrize("number", range(30))
def test_one(number):
    pytest.skip(f"reason {min(number, 14)}")
"""
    done = run(tmp_path, text)
    lines = [line for line in done.stdout.splitlines() if line.startswith("skipped ")]
    assert len(lines) == 10
    assert lines[0] == "skipped   16: reason 14 (test_it.py)"
    assert lines[-1] == "skipped    6: for 6 more reasons; pytest -rs prints all"
    assert sum(int(line.split()[1].rstrip(":")) for line in lines) == 30


def test_at_most_two_processes_start_java(tmp_path: Path) -> None:
    """Twelve files, and half of them name Java.

    As few processes as allowed run them, and all run.
    """
    for number in range(12):
        java = "# from tests.broker import java\n" if number % 2 else ""
        body = (
            "import time, os\n\ndef test_it():\n    time.sleep(0.05)\n    print('ran by', "
            "os.getpid(), 'JAVA')\n"
        )
        (tmp_path / f"test_{number}.py").write_text(
            java + (body if java else body.replace("JAVA", "no"))
        )
    text = "from tests import lanes\nimport pathlib\nlanes.ROOT = pathlib.Path(__file__).parent\n"
    (tmp_path / "conftest.py").write_text(text)
    done = run(tmp_path, "def test_last():\n    pass\n", "-n", "5", "-rP", "--no-loadscope-reorder")
    assert done.returncode == 0, done.stdout
    assert "13 passed" in done.stdout
    assert len(re.findall(r"ran by \d+ JAVA", done.stdout)) == 6
    assert 1 <= len(set(re.findall(r"ran by (\d+) JAVA", done.stdout))) <= lanes.JAVA_WORKERS_MAX
    assert len(set(re.findall(r"ran by (\d+) no", done.stdout))) >= 2


def test_a_crash_in_the_last_lane_leaves_no_test_out(tmp_path: Path) -> None:
    """The crashed process has finished lanes before. They don't count as work for another one."""
    for name in "ab":
        (tmp_path / f"test_{name}.py").write_text("def test_one():\n    pass\n")
    last = """
import os, pathlib

def test_crash():
    crashed = pathlib.Path(__file__).with_name("crashed")
    if not crashed.exists():
        crashed.touch()
        os._exit(1)

def test_after():
    pass
"""
    done = run(tmp_path, last, "-n", "1", "--no-loadscope-reorder")
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert "1 failed, 4 passed" in done.stdout, done.stdout


LEFT_BEHIND = """
import tests.conftest
from tests.conftest import *

tests.conftest.LIVE_WAIT_SECONDS = 0
tests.conftest.live_objects = lambda: {left}
"""


@pytest.mark.parametrize("processes", [0, 2])
def test_c_objects_that_outlive_a_run_fail_it(tmp_path: Path, processes: int) -> None:
    for left in ({"buffer": 2}, {}):
        (tmp_path / "conftest.py").write_text(LEFT_BEHIND.format(left=left))
        done = run(tmp_path, "def test_it():\n    pass\n", "-n", str(processes))
        assert "1 passed" in done.stdout
        assert done.returncode == bool(left), done.stdout
        assert ("C objects alive at the end of the session: 2 buffer" in done.stdout) == bool(left)


def test_a_lane_has_one_process(tmp_path: Path) -> None:
    for name in "abyz":
        text = (
            "import os\n\ndef test_one():\n    print('ran by', os.getpid(), "
            "__file__)\n\ntest_two = test_one\n"
        )
        (tmp_path / f"test_{name}.py").write_text(text)
    (tmp_path / "conftest.py").write_text(
        "import re\nfrom tests import lanes\nlanes.LANES = {'l': re.compile('test_[yz]')}\n"
    )
    done = run(tmp_path, "def test_it():\n    pass\n", "-n", "3", "-rP", "--no-loadscope-reorder")
    processes = set(re.findall(r"ran by (\d+) \S*test_(\w)\.py", done.stdout))
    assert sorted(name for _, name in processes) == list("abyz"), done.stdout
    assert len({process for process, name in processes if name in "yz"}) == 1


def test_a_failure_is_printed_at_once(tmp_path: Path) -> None:
    done = run(tmp_path, "def test_it():\n    assert not 'this'\n", "-n", "2")
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert (
        done.stderr.splitlines().count(
            "FAILED test_it.py::test_it (call), the cause follows at the end"
        )
        == 1
    )


def test_files_that_share_brokers_share_a_lane() -> None:
    files = [str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py")]
    assert {lanes.lane(path) for path in files} >= set(lanes.LANES)
    assert lanes.lane("tests/broker/test_one_broker.py") == "one broker"
    assert (
        lanes.lane("tests/broker/test_three_brokers.py")
        == lanes.lane("tests/broker/test_exactly_once.py")
        == "three brokers"
    )
    assert lanes.lane("tests/broker/test_sasl.py") == "clusters of their own"
    assert lanes.lane("tests/api/test_config.py") == "tests/api/test_config.py"


def test_files_whose_tests_start_java_are_known() -> None:
    for path in (
        "tests/mock/test_mock_java.py",
        "tests/mock/test_mock_as_kafka.py",
        "tests/golden/test_golden.py",
        "tests/control/test_assignors_java.py",
        "tests/examples/test_examples.py",
    ):
        assert lanes.starts_java(path), path
    assert not lanes.starts_java("tests/api/test_config.py")


def test_slices_have_every_file_once_and_take_equally_long() -> None:
    seconds = {f"tests/test_{number}.py": float(number * number) for number in range(40)}
    files = [*seconds, "tests/test_new.py"]
    slices = lanes.split_into_slices(files, 8, seconds)
    assert sorted(file for part in slices for file in part) == sorted(files)
    loads = [sum(seconds.get(file, lanes.NEW_FILE_SECONDS) for file in part) for part in slices]
    assert max(loads) < 1.2 * min(loads)
    assert slices == lanes.split_into_slices(files[::-1], 8, seconds), (
        "every process has the same slices"
    )


def test_a_slice_runs_its_files_only(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / f"test_{name}.py").write_text("def test_it():\n    pass\n")
    ran = []
    for each in (1, 2):
        done = run(tmp_path, "def test_it():\n    pass\n", "--slice", f"{each}/2")
        ran.append(re.findall(r"^(test_\w+\.py) ", done.stdout, re.M))
    assert sorted(ran[0] + ran[1]) == ["test_a.py", "test_b.py", "test_c.py", "test_it.py"]
    assert len(ran[0]) == len(ran[1]) == 2


def test_a_slice_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    done = run(tmp_path, "def test_it():\n    pass\n", "--slice", "9/8")
    assert done.returncode == 4
    assert "9/8" in done.stderr
