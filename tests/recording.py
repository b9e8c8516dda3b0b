"""``pytest --record-as NAME --record``: add the session to bench/reliability, as one line.

Makefile names the sessions, and ``make TARGET ARGS=--record`` records them. The line has the
numbers of tests by their outcome, and the names of the failed ones. A test adds its own figures
with pytest's fixture ``record_property``: the line has the distinct values of each property. Of a
test that failed, it has none.
"""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.harness.reliability import record

BEGAN = pytest.StashKey[float]()
OUTCOMES = ("passed", "failed", "error", "rerun", "skipped", "xfailed", "xpassed")
REPORTS = "report.*"
"""The files of a sanitizer's reports, also of a program that a test has started."""
EXPECTED = "WARNING: AddressSanitizer failed to allocate"
"""A line of such a file that is no fault: tests ask for impossible sizes."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options ``--record`` and ``--record-as``."""
    parser.addoption(
        "--record", action="store_true", help="add the session to bench/reliability (--record-as)"
    )
    parser.addoption(
        "--record-as",
        metavar="NAME[:PART]",
        help="the file of the session in bench/reliability, and which part of it this is",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Note the beginning of the session."""
    config.stash[BEGAN] = time.monotonic()
    if config.getoption("record") and not config.getoption("record_as"):
        raise pytest.UsageError("--record needs --record-as")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, Any, Any]:
    """Record the session, after all others have decided whether it has failed.

    A session that was interrupted has no line.
    """
    done = yield
    config = session.config
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    is_whole = reporter is not None and session.exitstatus != pytest.ExitCode.INTERRUPTED
    if config.getoption("record") and is_whole and not hasattr(config, "workerinput"):
        record_session(config, reporter.stats, session.exitstatus)
    return done


def record_session(config: pytest.Config, stats: dict[str, list[Any]], exit_status: int) -> None:
    """Add the line."""
    counts = {kind: len(stats[kind]) for kind in OUTCOMES if stats.get(kind)}
    broken = [report.nodeid for kind in ("failed", "error") for report in stats.get(kind, [])]
    broken += [path.name for path in sorted(Path().glob(REPORTS)) if reports_fault(path)]
    if exit_status != pytest.ExitCode.OK and not broken:
        broken = [f"pytest ended with {exit_status}"]
    name, _, part = config.getoption("record_as").partition(":")
    seconds = time.monotonic() - config.stash[BEGAN]
    options = {"part": part} if part else {}
    passed = counts.get("passed", 0)
    record(name, options, seconds, counts, passed, broken, properties(stats.get("passed", [])))


def reports_fault(path: Path) -> bool:
    """Return whether a sanitizer's file has more than expected lines."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return any(EXPECTED not in line for line in lines)


def properties(reports: Iterable[Any]) -> dict[str, list[Any]]:
    """Return the distinct values of each property."""
    found: dict[str, dict[str, Any]] = {}
    for report in reports:
        for name, value in report.user_properties:
            found.setdefault(name, {})[json.dumps(value)] = value
    return {name: list(values.values()) for name, values in sorted(found.items())}
