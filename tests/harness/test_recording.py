"""Sessions of pytest that are recorded: their line has the outcomes, the failures and figures."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.harness.test_runs import run

TESTS = """
import os
import pathlib
import pytest

def test_first(record_property):
    record_property("caught", "early")
    record_property("bomb", ["zstd", 7])

@pytest.mark.parametrize("name", ["early", "late"])
def test_second(name, record_property):
    record_property("caught", name)

def test_third(record_property):
    record_property("caught", "never")
    assert "FAIL" not in os.environ

@pytest.mark.skip(reason="shown in the count")
def test_fourth():
    pass
"""


def recorded(folder: Path, *options: str, **environment: str) -> tuple[int, list[dict[str, Any]]]:
    """Run the tests. Return the exit status, and the lines of their file."""
    records = folder / "records"
    options = ("-p", "tests.recording", *options)
    done: subprocess.CompletedProcess[str] = run(
        folder, TESTS, *options, KN_RECORDS=str(records), **environment
    )
    print(done.stdout, done.stderr)
    file = records / "proofs.jsonl"
    lines = file.read_text().splitlines() if file.exists() else []
    return done.returncode, [json.loads(line) for line in lines]


@pytest.mark.parametrize("processes", ["0", "2"])
def test_the_line_of_a_session_has_its_outcomes_and_figures(tmp_path: Path, processes: str) -> None:
    status, [line] = recorded(
        tmp_path, "--record-as", "proofs:address-c", "--record", "-n", processes
    )
    assert status == 0
    assert line["options"] == {"part": "address-c"}
    assert line["faults"] == {"passed": 4, "skipped": 1}
    assert (line["records"], line["verdict"], line["broken"]) == (4, "passed", [])
    assert set(line["figures"]["caught"]) == {"early", "late", "never"}
    assert line["figures"]["bomb"] == [["zstd", 7]]
    assert set(line) >= {"date", "commit", "seconds"}


def test_a_failed_session_is_broken_and_has_no_figures_of_the_failed_test(tmp_path: Path) -> None:
    status, [line] = recorded(tmp_path, "--record-as", "proofs", "--record", FAIL="1")
    assert status == 1
    assert line["options"] == {}
    assert line["verdict"] == "broken"
    assert line["broken"] == ["test_it.py::test_third"]
    assert line["figures"]["caught"] == ["early", "late"]


def test_a_report_of_a_sanitizer_breaks_a_session(tmp_path: Path) -> None:
    (tmp_path / "report.123").write_text("data race")
    _, [line] = recorded(tmp_path, "--record-as", "proofs", "--record")
    assert (line["verdict"], line["broken"]) == ("broken", ["report.123"])


def test_an_impossible_size_breaks_no_session(tmp_path: Path) -> None:
    warning = "==7==WARNING: AddressSanitizer failed to allocate 0x80000000000 bytes\n"
    (tmp_path / "report.7").write_text(warning)
    (tmp_path / "report.8").write_text(f"{warning}==8==ERROR: AddressSanitizer: use after free\n")
    _, [line] = recorded(tmp_path, "--record-as", "proofs", "--record")
    assert line["broken"] == ["report.8"]


def test_a_session_without_tests_is_broken(tmp_path: Path) -> None:
    status, [line] = recorded(tmp_path, "--record-as", "proofs", "--record", "-k", "no_such_test")
    assert status == pytest.ExitCode.NO_TESTS_COLLECTED
    assert line["broken"] == ["pytest ended with 5"]


def test_only_the_option_records_a_session(tmp_path: Path) -> None:
    assert recorded(tmp_path, "--record-as", "proofs") == (0, [])
    status, lines = recorded(tmp_path, "--record")
    assert (status, lines) == (pytest.ExitCode.USAGE_ERROR, [])
