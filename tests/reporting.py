"""The summary at the end of a run: skipped tests with reasons, slow tests, programs, flaky tests.

A failed test runs again, at most twice (``pytest --reruns 2``, as in the Makefile). If it then
passes, it is flaky. The summary prints it with its first failure. More than `FLAKY_MAX` flaky tests
fail the run.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pytest_rerunfailures import StatusDB

FLAKY_MAX = 3
FLAKY_FILE = "KN_FLAKY_FILE"
"""Environment variable:

a file to which the names of flaky tests are appended, across runs of pytest.
"""
SKIPPED_LINES_MAX = 10
PROGRAM_ROW = "{:<46} {:<8} {:>6} {:>9} {:>6}"
"""A row of the table of programs: a test has it as its property ``program``."""
SLOW_SECONDS = 5.0
"""A test that takes longer should be marked slow.

It is only printed, so a busy machine fails no test.
"""


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Don't count crashes in the processes of ``pytest -n``: a test that crashes has failed.

    By default xdist counts them over a socket, for which each test waits 40 ms.
    """
    if hasattr(config, "workerinput"):
        config.failures_db = StatusDB()  # type: ignore[attr-defined]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Print the name of a failed test at once with ``pytest -n``, not only after the last lane."""
    if report.failed and hasattr(report, "node"):
        print(
            f"\nFAILED {report.nodeid} ({report.when}), the cause follows at the end",
            file=sys.stderr,
            flush=True,
        )


def flaky_tests(reporter: Any) -> dict[str, pytest.TestReport]:
    """Return the first failure of each test that failed and then passed."""
    failed = {
        report.nodeid for kind in ("failed", "error") for report in reporter.stats.get(kind, [])
    }
    first: dict[str, pytest.TestReport] = {}
    for report in reporter.stats.get("rerun", []):
        if report.nodeid not in failed:
            first.setdefault(report.nodeid, report)
    return first


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Fail the run if it has more than `FLAKY_MAX` flaky tests."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or hasattr(session.config, "workerinput"):
        return
    names = sorted(flaky_tests(reporter))
    if names and (path := os.environ.get(FLAKY_FILE)):
        with Path(path).open("a", encoding="utf-8") as file:
            file.writelines(f"{name}\n" for name in names)
    if len(names) > FLAKY_MAX and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the summary that the module's docstring describes."""
    print_skipped(terminalreporter)
    print_slow(terminalreporter)
    print_programs(terminalreporter)
    print_flaky(terminalreporter)


def print_skipped(reporter: Any) -> None:
    """Print each reason with the number of its tests, in at most `SKIPPED_LINES_MAX` lines."""
    reasons: Counter[str] = Counter()
    files: dict[str, set[str]] = {}
    for report in reporter.stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reason = " ".join(reason.removeprefix("Skipped: ").split())[:120]
        reasons[reason] += 1
        files.setdefault(reason, set()).add(report.nodeid.partition("::")[0])
    if not reasons:
        return
    reporter.section(f"{reasons.total()} skipped")
    shown = reasons.most_common(
        SKIPPED_LINES_MAX if len(reasons) <= SKIPPED_LINES_MAX else SKIPPED_LINES_MAX - 1
    )
    for reason, count in shown:
        first, *others = sorted(files[reason])
        reporter.line(
            f"skipped {count:4}: {reason} "
            f"({first}{f' and {len(others)} more files' if others else ''})"
        )
    if left := reasons.total() - sum(count for _, count in shown):
        reporter.line(
            f"skipped {left:4}: for {len(reasons) - len(shown)} more reasons; pytest -rs prints all"
        )


def print_slow(reporter: Any) -> None:
    """Print the tests that took longer than `SLOW_SECONDS` but aren't marked slow."""
    slow = [
        report
        for report in reporter.stats.get("passed", [])
        if report.when == "call"
        and report.duration > SLOW_SECONDS
        and "slow" not in report.keywords
    ]
    for report in sorted(slow, key=lambda report: -report.duration)[:10]:
        reporter.line(
            f"took {report.duration:.1f} s, mark it slow unless the machine was busy: "
            f"{report.nodeid}"
        )


def print_programs(reporter: Any) -> None:
    """Print the programs of others that ran, and how many of their own tests passed."""
    rows = {
        value
        for kind in ("passed", "failed", "xfailed")
        for report in reporter.stats.get(kind, [])
        for name, value in report.user_properties
        if name == "program"
    }
    if rows:
        reporter.section("programs of others")
        reporter.line(PROGRAM_ROW.format("program", "version", "tests", "original", "ours"))
        for row in sorted(rows):
            reporter.line(row)


def print_flaky(reporter: Any) -> None:
    """Print each flaky test's name and first failure."""
    found = flaky_tests(reporter)
    if not found:
        return
    reporter.section(
        f"{len(found)} flaky", red=len(found) > FLAKY_MAX, yellow=len(found) <= FLAKY_MAX
    )
    for name, report in sorted(found.items()):
        reporter.line(f"first failure of {name} ({report.when}):")
        reporter.line(report.longreprtext)
    for name in sorted(found):
        reporter.line(f"flaky: {name}")
    if len(found) > FLAKY_MAX:
        reporter.line(
            f"FAILED: {len(found)} flaky tests, {FLAKY_MAX} are allowed", red=True, bold=True
        )
