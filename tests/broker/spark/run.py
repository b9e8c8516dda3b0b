"""A run: rows for a stream or an archive, kills, and the rows at the end."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import kafka_native
from kafka_native.control.producer.transactions import TRANSACTION_VERSION
from kafka_native.protocol import ApiKey
from tests.broker.cluster import Cluster, Listener, quiet, start
from tests.broker.spark.targets import BUGS, TARGETS, Target
from tests.broker.support import create, lower
from tests.harness.processes import ancestors, descendants, kill_all, name_of, owner, said, started
from tests.harness.runs import Deck, Rule, broken, counted
from tests.harness.step_proxy import AFTER, BEFORE, StepProxy

ROOT = Path(__file__).resolve().parents[3]
WORKER, JVM = "worker", "jvm"
"""The victim: the Python process that makes the request, or its JVM, driver or executor."""
NEWEST_TRANSACTIONS = 2
END_S = 600.0
CHECK_INTERVAL_S = 0.2


@dataclass
class Options:
    kills: int = 0
    """After so many, no process is killed any more. 0: only the time ends the kills."""
    seconds: float = 600.0
    """The time of the kills. There is at least one."""
    seed: int = 0
    rate: int = 100
    master: str = "local[2, 2]"
    jvm_share: float = 0.25
    transaction_version: int = 2
    target: str = "topic"
    bug: str = ""

    def __str__(self) -> str:
        how = f"{self.master}, transactions v{self.transaction_version}, --seed {self.seed}"
        return f"to a {self.target}, {how}"

    @property
    def kills_max(self) -> int:
        return self.kills or sys.maxsize


@dataclass
class Result:
    """The data that the rules check."""

    rows: int = 0
    """The expected number of rows: 0, 1, and so on."""
    readings: dict[str, Counter[int]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    """Open transactions, or gaps in the lake."""


def each_row_once(result: Result) -> Iterator[str]:
    """Each reader finds each row once."""
    for name, seen in result.readings.items():
        missing = [row for row in range(result.rows) if not seen[row]]
        twice = [row for row, count in seen.items() if count > 1]
        for rows, what in ((missing, "missing"), (twice, "twice")):
            if rows:
                yield f"{name}: {len(rows)} rows {what}, as {rows[:5]}"


def nothing_strange(result: Result) -> Iterator[str]:
    """No reader finds a row that nobody wrote."""
    for name, seen in result.readings.items():
        rows = [row for row in seen if not 0 <= row < result.rows]
        if rows:
            yield f"{name}: {len(rows)} rows that nobody wrote, as {rows[:5]}"


def nothing_left_open(result: Result) -> Iterator[str]:
    """No transaction is open at the end, and the lake has no gap."""
    yield from result.problems


RULES: tuple[Rule[Result], ...] = (each_row_once, nothing_strange, nothing_left_open)


def violations(result: Result) -> list[str]:
    """Return the violations."""
    return broken(RULES, result)


class Killer:
    """Decides which process dies when. Thread: the proxies'. It holds its lock during a kill."""

    def __init__(self, options: Options, target: Target) -> None:
        self._options = options
        self._random = random.Random(options.seed)
        self._deck = Deck(target.steps, self._random)
        self._delay_max_s = target.delay_max_s
        self._lock = threading.Lock()
        self._askers: dict[int, int | None] = {}  # by port, which may be closed at the later steps
        self.driver: subprocess.Popen[bytes] | None = None
        self.kills: Counter[tuple[str, str, str]] = Counter()
        self._over = False
        self._arm()

    @property
    def count(self) -> int:
        """Return the number of kills."""
        return self.kills.total()

    def well(self) -> None:
        """Kill no further processes."""
        with self._lock:
            self._over = True

    def _arm(self) -> None:
        """Choose the next step, its process, and how many such requests pass before.

        No step repeats at once.
        """
        self._step = self._deck.draw()
        self._askers.clear()
        self._victim = JVM if self._random.random() < self._options.jvm_share else WORKER
        self._spared = self._random.randrange(3)

    def __call__(self, api: int, phase: str, port: int) -> bool:
        """Handle a step that a proxy reports."""
        if api != self._step[0]:
            return True
        with self._lock:
            driver = self.driver
            self._over = self._over or self.count >= self._options.kills_max
            if api != self._step[0] or self._over or driver is None:
                return True
            if phase == BEFORE:
                self._askers[port] = owner(port, descendants(driver.pid))
            pid = self._askers.get(port)
            if phase != self._step[1] or pid is None or (self._spared and self._spare()):
                return True
            if phase == AFTER:
                time.sleep(self._random.uniform(0.0, self._delay_max_s))
            if self._victim == JVM:
                pid = next((each for each in ancestors(pid) if name_of(each) == "java"), None)
            if pid is None or not self._kill(pid, driver):
                return True
            self.kills[ApiKey(api).name, phase, self._victim] += 1
            self._arm()
        return phase == AFTER

    def _kill(self, pid: int, driver: subprocess.Popen[bytes]) -> bool:
        """Return False if the process had ended by itself."""
        the_drivers = self._victim == JVM and "java" not in map(name_of, ancestors(pid))
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return False
        if the_drivers:
            driver.kill()  # the rest of it waits for nothing
        return True

    def _spare(self) -> bool:
        self._spared -= 1
        return True


class Run:
    """Use `Run(options).run()`."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self.directory = Path(tempfile.mkdtemp(prefix="spark-once-"))
        mark = uuid.uuid4().hex[:8]
        self._source = f"once-{mark}-in"
        kind = BUGS[options.bug] if options.bug else TARGETS[options.target]
        self._target = kind(f"once-{mark}-out", self.directory)
        self._killer = Killer(options, self._target)
        self._fed = 0
        self._lives = 0
        self._ended = threading.Event()
        self.result = Result()

    def run(self) -> Result:
        """Run everything. The processes have ended at the end, however it ends."""
        began = time.monotonic()
        with ExitStack() as stack:
            proxy = stack.enter_context(StepProxy(self._killer))
            cluster = start(1, listeners={"CLIENTS": Listener("PLAINTEXT", {}, [proxy.port])})
            stack.callback(cluster.close)
            proxy.target = cluster.listeners["CLIENTS"]
            if self._options.transaction_version < NEWEST_TRANSACTIONS:
                lower(cluster, TRANSACTION_VERSION, self._options.transaction_version)
            create(cluster, self._source, 2)
            self._target.prepare(cluster)
            stack.callback(self._stop)
            self._work(cluster, proxy.address)
            self._stop()
            self._read(cluster)
        self.seconds = time.monotonic() - began
        return self.result

    def _work(self, cluster: Cluster, bootstrap: str) -> None:
        conf = quiet({"bootstrap.servers": cluster.bootstrap})
        with kafka_native.Producer(conf) as producer:
            began = time.monotonic()
            while self._killer.count < self._options.kills_max:
                if time.monotonic() - began > (
                    self._options.seconds if self._killer.count else END_S
                ):
                    break  # a busy machine may take minutes until the first row is written
                self._keep_going(bootstrap)
                for _ in range(max(1, int(self._options.rate * CHECK_INTERVAL_S))):
                    producer.produce(self._source, str(self._fed), partition=self._fed % 2)
                    self._fed += 1
                producer.poll(0)
                time.sleep(CHECK_INTERVAL_S)
            assert producer.flush(60) == 0
        assert self._killer.count, (
            f"no process could be killed in {END_S:.0f} s; {self._last_words()}"
        )
        self._killer.well()
        deadline = time.monotonic() + END_S
        while min(map(len, self._target.readings(cluster).values())) < self._fed:
            if time.monotonic() > deadline:
                print(f"not all {self._fed} rows are there; {self._last_words()}")
                return  # the rules name the missing rows
            self._keep_going(bootstrap)
            time.sleep(1.0)

    def _keep_going(self, bootstrap: str) -> None:
        """Keep a driver running."""
        driver = self._killer.driver
        if driver is not None and driver.poll() is None:
            return
        settings = {
            "master": self._options.master,
            **self._target.settings(bootstrap, self._source),
        }
        command = [sys.executable, "-m", "tests.broker.spark.driver", json.dumps(settings)]
        output = self.directory / f"driver.{self._lives}.out"
        self._killer.driver = started(*command, output=output, cwd=ROOT, start_new_session=True)
        self._lives += 1

    def _last_words(self) -> str:
        """Return the threads of a stuck driver from its long output."""
        driver = self._killer.driver
        for pid in descendants(driver.pid) if driver is not None else ():
            if name_of(pid) == "java":
                os.kill(pid, signal.SIGQUIT)  # makes it print its threads
        time.sleep(2.0)
        text = (self.directory / f"driver.{self._lives - 1}.out").read_text(errors="replace")
        return (
            f"{self._killer.count} kills, the last of {self._lives} drivers said:\n{text[-30_000:]}"
        )

    def _stop(self) -> None:
        driver, self._killer.driver = self._killer.driver, None
        if driver is not None:
            kill_all(driver.pid)
            driver.wait(20)

    def _read(self, cluster: Cluster) -> None:
        self.result.rows = self._fed
        self.result.readings = self._target.readings(cluster)
        self.result.problems = self._target.problems(cluster)

    @property
    def kills(self) -> Counter[tuple[str, str, str]]:
        """Return the numbers of kills by request, phase and victim."""
        return self._killer.kills

    def lines(self) -> list[str]:
        """Return the figures of the run."""
        starts, failures = 0, Counter[str]()
        for event in said(self.directory):
            starts += event["e"] == "start"
            if event["e"] == "failed":
                failures[event["text"].partition(": ")[0][-60:]] += 1
        return [
            f"{self.seconds:.0f} s, {self._killer.count} kills: {counted(self._killer.kills)}",
            f"rows: {self.result.rows}; seen: "
            + ", ".join(f"{name} {seen.total()}" for name, seen in self.result.readings.items()),
            (
                f"drivers: {self._lives}, starts of the query: {starts}, ends by: "
                f"{dict(failures.most_common(8))}"
            ),
        ]
