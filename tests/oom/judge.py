"""Runs scenarios with one failed call each, and judges their ends."""

from __future__ import annotations

import functools
import itertools
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Container
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from kafka_native.mock import MockCluster
from tests.harness.builds import preloaded_library
from tests.oom.calls import MEMORY, errors_of, number_of
from tests.oom.scenarios import BAD, CLUSTERS, SCENARIOS, conf_of

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Path(__file__).with_name("oom.c")
HARD_TIMES = 4
"""After so many times the limit of one wait, a run hangs."""

UNEXPECTED = re.compile("unexpected error|could not handle|Exception ignored")
"""In a client's log it shows an error without a handler."""

LATE = re.compile("^hangs| took | comes of it ")
"""The problem of a run that may only be slow."""
_numbers = itertools.count()


@functools.cache
def library() -> Path:
    """Return the preloaded library."""
    return preloaded_library(SOURCE, "-pthread")


@dataclass(frozen=True)
class Site:
    """A source of calls of the C library, and their count.

    ``frames`` are ``module+offset``, innermost first.
    """

    name: str
    call: str
    count: int
    frames: tuple[str, ...]

    def __str__(self) -> str:
        return " < ".join(functions_of(frame) for frame in self.frames[:5])


@dataclass(frozen=True)
class Failure:
    """The call that fails: the nth one from a site. ``error`` is the name of its error."""

    scenario: str
    site: Site
    nth: int = 0
    error: str = "ENOMEM"

    @property
    def place(self) -> tuple[str, str, int]:
        """The call, whatever its error is."""
        return self.scenario, self.site.name, self.nth

    def __str__(self) -> str:
        place = f"{self.scenario} --site {self.site.name} --nth {self.nth} --error {self.error}"
        return f"{place}\n    {self.site.call} in {self.site}"


@functools.cache
def functions_of(frame: str) -> str:
    """Return a frame's functions and lines, inlined ones first.

    Without addr2line it is unchanged.
    """
    module, _, offset = frame.partition("+")
    command = [
        "addr2line",
        "-f",
        "-s",
        "-i",
        "-e",
        str(ROOT / "kafka_native" / "_native" / module),
        offset,
    ]
    try:
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split(
            "\n"
        )
    except (OSError, subprocess.CalledProcessError):
        return frame
    return " < ".join(
        f"{name} ({where})" for name, where in zip(lines[::2], lines[1::2], strict=False)
    )


def read_sites(path: Path) -> list[Site]:
    """Return the sites that oom_write() has written."""
    lines = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
    return [Site(name, call, int(count), tuple(frames)) for name, call, count, *frames in lines]


@dataclass
class Outcome:
    """The end of a run. ``bad`` is the problem, if any."""

    failure: Failure | None
    bad: str | None
    failed: bool
    raised: list[str]
    sites: list[Site]
    log: str = ""
    tries: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.failure}\n    {self.bad}\n{self.log}"

    def line(self) -> str:
        """Return the failure and the problem in one line, without the log."""
        place = "" if self.failure is None else str(self.failure).partition("\n")[0]
        problem = (self.bad or "").strip().rpartition("\n")[2]
        return f"{place}: {problem}"


class Judge:
    """A mock cluster in this process, and a process with the clients."""

    def __init__(self, limit_s: float, hard_s: float | None = None) -> None:
        """``limit_s`` is for one wait. After ``hard_s`` a run hangs."""
        self._limit_s = limit_s
        self._hard_s = hard_s or limit_s * HARD_TIMES
        self._folder = tempfile.TemporaryDirectory()
        self._clusters: dict[str, MockCluster] = {}
        environment = {**os.environ, "LD_PRELOAD": str(library()), "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "tests.oom.client"]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, env=environment, text=True, cwd=ROOT
        )

    def __enter__(self) -> Judge:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(self._hard_s + 10)
        assert self._process.stdout is not None
        self._process.stdout.close()
        for cluster in self._clusters.values():
            cluster.close()
        self._folder.cleanup()

    def sites(self, scenario: str, calls: Container[str] = MEMORY) -> list[Site]:
        """Return a scenario's sites of these calls.

        Without a failed call it must succeed.
        """
        outcome = self._run(scenario, None)
        assert outcome.bad is None, outcome
        return [site for site in outcome.sites if site.call in calls]

    def run(self, failure: Failure) -> Outcome:
        """Run a scenario with a failed call.

        A late run is repeated: the machine may be busy.
        """
        outcome = self._run(failure.scenario, failure)
        tries = []
        while outcome.bad is not None and len(tries) < 2 and LATE.search(outcome.bad):
            tries.append(outcome.bad)
            outcome = self._run(failure.scenario, failure)
        outcome.tries = tries
        return outcome

    def _run(self, scenario: str, failure: Failure | None) -> Outcome:
        prefix = f"run{next(_numbers)}"
        prepare, kind = (SCENARIOS | BAD)[scenario].prepare, (SCENARIOS | BAD)[scenario].cluster
        if kind not in self._clusters:
            self._clusters[kind] = CLUSTERS[kind]()
        cluster = self._clusters[kind]
        prepare(cluster, prefix)
        paths = {name: str(Path(self._folder.name, name)) for name in ("log", "result", "sites")}
        for path in paths.values():
            Path(path).unlink(missing_ok=True)
        order: dict[str, Any] = {
            "scenario": scenario,
            "conf": conf_of(cluster),
            "prefix": prefix,
            "limit_s": self._limit_s,
            "hard_s": self._hard_s,
            "site": None if failure is None else failure.site.name,
            "nth": 0 if failure is None else failure.nth,
            "error": 0 if failure is None else number_of(failure.error),
            **paths,
        }
        status = self._order(order)
        outcome = self._outcome(failure, status, paths)
        if outcome.bad is None:
            outcome.bad = _lost(cluster, json.loads(Path(paths["result"]).read_text())["acked"])
        _clean(cluster, prefix)
        return outcome

    def _order(self, order: dict[str, Any]) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def _outcome(self, failure: Failure | None, status: int, paths: dict[str, str]) -> Outcome:
        result, log = Path(paths["result"]), Path(paths["log"])
        text = log.read_text(errors="replace") if log.exists() else ""
        sites = read_sites(Path(paths["sites"]))
        end = f"{'hangs' if 'Timeout (' in text else 'crashed'} (status {status})"
        if not result.exists():
            return Outcome(failure, end, True, [], sites, text)
        said = json.loads(result.read_text())
        bad = said["bad"] or (end if status else None)
        bad = bad or next((line for line in text.splitlines() if UNEXPECTED.search(line)), None)
        return Outcome(failure, bad, said["failed"], said["raised"], sites, text)


def _lost(cluster: MockCluster, acked: dict[str, list[str]]) -> str | None:
    """Check that each message reported as delivered is in the log."""
    for topic, names in acked.items():
        partitions = range(len(cluster.topics[topic].partitions))
        records = [record for number in partitions for record in cluster.messages(topic, number)]
        if lost := set(names) - {(record.value or b"").decode().rstrip(".") for record in records}:
            return f"reported as delivered and not in the log: {sorted(lost)[:5]} of {len(lost)}"
    return None


def _clean(cluster: MockCluster, prefix: str) -> None:
    cluster.faults.clear()
    for name in [name for name in cluster.topics if name.startswith(f"{prefix}-")]:
        cluster.delete_topic(name)


def failures(scenario: str, sites: list[Site], most: int) -> list[Failure]:
    """Return the calls to fail: up to ``most`` of each site, with the first and the last.

    The errors of the call take turns, and each comes at least once.
    """
    chosen = []
    for site in sites:
        count = min(most, site.count)
        places = {round(number * (site.count - 1) / max(1, count - 1)) for number in range(count)}
        order, errors = sorted(places), errors_of(site.call)
        chosen += [
            Failure(scenario, site, order[turn % len(order)], errors[turn % len(errors)])
            for turn in range(max(len(order), len(errors)))
        ]
    return chosen


def sample(chosen: list[Failure], count: int, seed: int) -> list[Failure]:
    """Return a random sample with a seed."""
    return random.Random(seed).sample(chosen, min(count, len(chosen)))


def summary(outcomes: list[Outcome]) -> str:
    """Return a line for a scenario."""
    kinds = Counter(
        "bad" if each.bad else "raised" if each.raised else "recovered" if each.failed else "unmet"
        for each in outcomes
    )
    return ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
