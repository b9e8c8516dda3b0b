"""Lanes: which tests share a process, and in which slice of the slow tests they are.

A lane is the unit that one process of ``pytest -n`` runs from beginning to end. It is a test file,
or several files that share brokers or a Spark session. At most `JAVA_WORKERS_MAX` processes run
lanes that start Java, so the number of live JVMs has a limit. These lanes start first, and long
lanes start before short ones, because a run lasts as long as its last lane.

``--slice 3/6`` runs the third of six parts of the slow tests. The slices use the seconds that each
file took last time, so that all slices take about as long. ``--write-seconds`` writes these seconds
to seconds.json.
"""

from __future__ import annotations

import functools
import json
import re
import sys
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

ROOT = Path(__file__).resolve().parents[1]
SECONDS_FILE = Path(__file__).with_name("seconds.json")
"""The seconds of each file's tests: ``fast`` and ``slow`` ones."""
NEW_FILE_SECONDS = 20.0
"""The seconds of a file that isn't in `SECONDS_FILE` yet."""
JAVA_WORKERS_MAX = 2

LANES = {
    "three brokers": re.compile(r"\b(?:kafka3|owned3)\b"),
    "Spark": re.compile(r"^tests/spark/"),
    "clusters of their own": re.compile(
        r"^tests/broker/[\s\S]*(?:\brunning\(|\btests\.broker\.spark\b)"
    ),
    "one broker": re.compile(r"^tests/broker/"),
}
"""The lanes of several files. A pattern matches a file's path, a newline and its text.

The first match wins.
"""
JAVA = re.compile(r"\bfrom tests\.broker import java\b|\btests\.broker\.cluster\b|\"java\"")
"""It matches the text of any other file whose tests start JVMs."""


@functools.cache
def path_and_text(path: str) -> str:
    """Return a test file's path and text."""
    file = ROOT / path
    return f"{path}\n{file.read_text(encoding='utf-8') if file.exists() else ''}"


@functools.cache
def lane(path: str) -> str:
    """Return the lane of a test file."""
    return next(
        (name for name, pattern in LANES.items() if pattern.search(path_and_text(path))), path
    )


@functools.cache
def starts_java(name: str) -> bool:
    """Return whether a lane's tests start JVMs."""
    return name in LANES or JAVA.search(path_and_text(name)) is not None


class LaneScheduling(LoadScopeScheduling):
    """Assigns whole lanes to processes. Only a few processes get lanes with Java."""

    def _split_scope(self, nodeid: str) -> str:
        return lane(nodeid.partition("::")[0])

    def remove_node(self, node: Any) -> str | None:
        """Forget a process that has ended. What it hasn't finished goes back to the queue.

        A finished lane must not: its next process would wait for ever for the report of a test.
        """
        lanes = self.assigned_work[node]
        self.assigned_work[node] = {
            name: tests for name, tests in lanes.items() if not all(tests.values())
        }
        return super().remove_node(node)

    def _java_workers(self) -> set[Any]:
        return {
            node
            for node, lanes in self.assigned_work.items()
            if any(starts_java(name) and not all(tests.values()) for name, tests in lanes.items())
        }

    def _reschedule(self, node: Any) -> None:
        """Shut a process down if only Java lanes are left and enough processes have such lanes."""
        if node not in self.registered_collections:
            return  # it replaces a process that has crashed, and still collects
        if not node.shutting_down and self.workqueue and self._next_lane(node) is None:
            node.shutdown()
        else:
            super()._reschedule(node)

    def _assign_work_unit(self, node: Any) -> None:
        name = self._next_lane(node)
        if name is not None:
            self.workqueue.move_to_end(name, last=False)
            super()._assign_work_unit(node)

    def _next_lane(self, node: Any) -> str | None:
        """Return the first lane in the queue that this process may have."""
        java = self._java_workers()
        may_start_java = node in java or len(java) < JAVA_WORKERS_MAX
        return next(
            (name for name in self.workqueue if may_start_java or not starts_java(name)), None
        )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LaneScheduling:
    """Assign lanes to the processes of ``pytest -n``."""
    return LaneScheduling(config, log)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options ``--slice`` and ``--write-seconds``."""
    parser.addoption(
        "--slice",
        metavar="K/N",
        type=parse_slice,
        help="the K-th of N parts of the chosen test files",
    )
    parser.addoption(
        "--write-seconds",
        action="store_true",
        help=f"write how long each file took to {SECONDS_FILE.name}",
    )


def parse_slice(text: str) -> tuple[int, int]:
    """Return ``"3/6"`` as two numbers."""
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    number, count = map(int, found.groups()) if found else (0, 0)
    if not 1 <= number <= count:
        raise ValueError(f"{text!r} is no slice such as 3/6")
    return number, count


def split_into_slices(files: list[str], count: int, seconds: dict[str, float]) -> list[list[str]]:
    """Divide the files into ``count`` slices: each, the longest first, goes to the shortest
    slice.
    """
    slices: list[list[str]] = [[] for _ in range(count)]
    loads = [0.0] * count
    for file in sorted(files, key=lambda file: (-seconds.get(file, NEW_FILE_SECONDS), file)):
        lightest = loads.index(min(loads))
        slices[lightest].append(file)
        loads[lightest] += seconds.get(file, NEW_FILE_SECONDS)
    return slices


def file_of(item: pytest.Item) -> str:
    """Return the file that has the item. Its function may come from another file."""
    return item.nodeid.partition("::")[0]


def tier_of(item: Any) -> str:
    """Return the section of `SECONDS_FILE` for an item or a report."""
    return "slow" if "slow" in item.keywords else "fast"


@pytest.hookimpl(trylast=True)  # after -m has selected
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep one slice, and sort the lanes: Java first, then by length."""
    seconds = json.loads(SECONDS_FILE.read_text())
    if part := config.getoption("slice"):
        number, count = part
        files = sorted({file_of(item) for item in items})
        chosen = set(split_into_slices(files, count, seconds["slow"])[number - 1])
        kept, others = [], []
        for item in items:
            in_slice = file_of(item) in chosen or item.get_closest_marker("every_slice")
            (kept if in_slice else others).append(item)
        config.hook.pytest_deselected(items=others)
        items[:] = kept
    if hasattr(config, "workerinput"):
        lane_seconds: Counter[str] = Counter()
        for file, tier in {(file_of(item), tier_of(item)) for item in items}:
            lane_seconds[lane(file)] += seconds[tier].get(file, 0.0)
        names = sorted(
            lane_seconds, key=lambda name: (not starts_java(name), -lane_seconds[name], name)
        )
        order = {name: place for place, name in enumerate(names)}
        items.sort(key=lambda item: order[lane(file_of(item))])


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the seconds of the tests that ran.

    Entries of other files and of the other tier stay.
    """
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if (
        not session.config.getoption("write_seconds")
        or reporter is None
        or hasattr(session.config, "workerinput")
    ):
        return
    ran: dict[str, Counter[str]] = {"fast": Counter(), "slow": Counter()}
    # of calls, setups and teardowns
    for report in reporter.getreports("passed") + reporter.getreports(""):
        ran[tier_of(report)][report.nodeid.partition("::")[0]] += report.duration
    seconds = json.loads(SECONDS_FILE.read_text())
    for tier, files in ran.items():
        known = seconds[tier] | {file: round(took, 1) for file, took in files.items()}
        seconds[tier] = {
            file: took for file, took in sorted(known.items()) if took and (ROOT / file).exists()
        }
    SECONDS_FILE.write_text(json.dumps(seconds, indent=1) + "\n")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, Any, Any]:
    """Stop a lane's brokers at the end of the lane, not at the end of its process."""
    done = yield
    if nextitem is None or lane(file_of(nextitem)) != lane(file_of(item)):
        # Only tests that start brokers import it, because it needs confluent_kafka.
        cluster = sys.modules.get("tests.broker.cluster")
        if cluster is not None:
            cluster.close_shared()
    return done
