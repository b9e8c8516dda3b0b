"""The goals of reliability, and the recorded runs that count towards them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

OURS = "ours"


@dataclass(frozen=True)
class Run:
    """A line of a file in bench/reliability, as ``tests.harness.reliability`` writes it."""

    workload: str
    date: str
    commit: str
    options: Mapping[str, Any]
    seconds: float
    faults: Mapping[str, int]
    records: int
    verdict: str
    broken: Sequence[str] = ()
    figures: Mapping[str, Any] = field(default_factory=dict)

    @property
    def client(self) -> str:
        """The client under test: "ours", another one, or "mixed"."""
        return str(self.options.get("client", OURS))

    @property
    def is_expected_to_break(self) -> bool:
        """Whether the run has a planted bug or weak settings, to show that rules can break."""
        return bool(self.options.get("bug") or self.options.get("weak"))


def read_runs(folder: Path) -> list[Run]:
    """Return all runs, in the order of the files and of their lines."""
    return [
        Run(path.stem, **json.loads(line))
        for path in sorted(folder.glob("*.jsonl"))
        for line in path.read_text(encoding="utf-8").splitlines()
    ]


def records(runs: Sequence[Run]) -> float:
    return sum(run.records for run in runs)


def faults(runs: Sequence[Run]) -> float:
    return sum(sum(run.faults.values()) for run in runs)


def hours(runs: Sequence[Run]) -> float:
    return sum(run.seconds for run in runs) / 3600


def longest(runs: Sequence[Run]) -> float:
    """Return the hours of the longest run."""
    return max((run.seconds for run in runs), default=0.0) / 3600


def option(name: str) -> Callable[[Sequence[Run]], float]:
    """Return a function that finds the largest value of an option."""
    return lambda runs: max((float(run.options.get(name, 0)) for run in runs), default=0.0)


def seeds(runs: Sequence[Run]) -> float:
    """Return how many seeds the runs had. A run has one, unless it says otherwise."""
    return sum(int(run.options.get("seeds", 1)) for run in runs)


def fault(*kinds: str) -> Callable[[Sequence[Run]], float]:
    """Return a function that counts the faults of these kinds."""
    return lambda runs: sum(run.faults.get(kind, 0) for run in runs for kind in kinds)


def distinct(name: str) -> Callable[[Sequence[Run]], float]:
    """Return a function that counts the different values of a figure that is a list."""
    return lambda runs: len({value for run in runs for value in run.figures.get(name, ())})


def part(name: str) -> Callable[[Sequence[Run]], float]:
    """Return a function that finds the most records of a run that is this part."""
    return lambda runs: max(
        (run.records for run in runs if run.options.get("part") == name), default=0
    )


def of_calls(kind: str) -> Callable[[Sequence[Run]], float]:
    """Return a function that counts the failed calls of a kind."""
    return lambda runs: sum(faults([run]) for run in runs if run.options.get("calls") == kind)


def percent_tried(kind: str) -> Callable[[Sequence[Run]], float]:
    """Return a function that finds the largest share of all calls of a kind that a run tried."""
    return lambda runs: max(
        (
            100 * run.figures["tried_calls"] / run.figures["calls"]
            for run in runs
            if run.options.get("calls") == kind and run.options.get("scenarios") == "all"
        ),
        default=0,
    )


def bombs(bytes_min: int) -> Callable[[Sequence[Run]], float]:
    """Return a function that counts the codecs of which a bomb expanded to so many bytes."""
    return lambda runs: len(
        {
            codec
            for run in runs
            for codec, _, expanded in run.figures.get("bomb", ())
            if expanded >= bytes_min
        }
    )


def figure(name: str) -> Callable[[Sequence[Run]], float]:
    """Return a function that sums up a figure of the runs."""
    return lambda runs: sum(run.figures.get(name, 0) for run in runs)


def largest(name: str) -> Callable[[Sequence[Run]], float]:
    """Return a function that finds the largest figure of the runs."""
    return lambda runs: max((run.figures.get(name, 0) for run in runs), default=0)


def rarest(runs: Sequence[Run]) -> float:
    """Return the count of the kind that is the rarest in all runs."""
    counts: Counter[str] = Counter()
    for run in runs:
        counts.update(run.faults)
    return min(counts.values(), default=0)


@dataclass(frozen=True)
class Need:
    """A figure of runs, and what the gate and the release require of it.

    The gate requires it of one run, the release of all runs since the last broken one. ``None``: no
    requirement.
    """

    title: str
    of: Callable[[Sequence[Run]], float]
    gate: float | None
    release: float | None


@dataclass(frozen=True)
class Goal:
    """A goal: in words, as figures, and the command that adds a run to its file."""

    name: str
    title: str
    gate: str
    release: str
    command: str = ""
    """Empty if there is none yet."""
    workload: str = ""
    """The file of its runs, without the suffix."""
    needs: tuple[Need, ...] = ()
    uncounted: str = ""
    """The parts of the release figure that the recorded runs don't show."""
    other_clients: bool = False
    """Only runs of other clients count. Theirs may break rules."""
    in_parts: bool = False
    """A run is a part. The gate is the size of all runs of a commit."""

    def _all_runs(self, every: Sequence[Run]) -> list[Run]:
        mine = [run for run in every if run.workload == self.workload]
        mine = [run for run in mine if (run.client != OURS) == self.other_clients]
        return [run for run in mine if not run.is_expected_to_break]

    def runs(self, every: Sequence[Run]) -> list[Run]:
        """Return the runs of this goal since the last broken one."""
        found: list[Run] = []
        for run in self._all_runs(every):
            resets = run.verdict == "broken" and not self.other_clients
            found = [] if resets else [*found, run]
        return found

    def broken(self, every: Sequence[Run]) -> list[Run]:
        """Return the broken runs of this goal."""
        return [run for run in self._all_runs(every) if run.verdict == "broken"]

    def state(self, every: Sequence[Run]) -> str:
        """Return how far the recorded runs reach."""
        runs = self.runs(every)
        if not runs:
            return "broken" if self.broken(every) else "not run"
        if self.other_clients:
            return "partly run"
        if all(need.of(runs) >= need.release for need in self.needs if need.release is not None):
            return "counted figures reached" if self.uncounted else "release figure reached"
        wanted = [need for need in self.needs if need.gate is not None]
        groups = self._by_commit(runs) if self.in_parts else [[run] for run in runs]
        if any(all(need.of(group) >= (need.gate or 0) for need in wanted) for group in groups):
            return "gate reached"
        return "below the gate"

    @staticmethod
    def _by_commit(runs: Sequence[Run]) -> list[list[Run]]:
        found: dict[str, list[Run]] = {}
        for run in runs:
            found.setdefault(run.commit, []).append(run)
        return list(found.values())


GOALS = (
    Goal(
        "G1",
        "Simulation with virtual time",
        "2,000 seeds, 20 logical hours",
        "100,000 seeds, 2,500 logical hours, each of 24 faults 1,000 times",
        "make simulate SEEDS=1000 MINUTES=60",
        "simulated",
        (
            Need("seeds", seeds, 2000, 1e5),
            Need("logical hours", hours, 20, 2500),
            Need("rarest fault", rarest, None, 1000),
        ),
        "parts of two of the 24 faults: certificates (22), failed allocations (23: make test-oom)",
    ),
    Goal(
        "G2",
        "Acked messages on real brokers: none lost, twice, reordered or changed",
        "2 M records, 20 faults, 10 minutes",
        "100 M records, 1,000 faults, 300 of them kill -9",
        "make chaos WORKLOAD=acked MINUTES=60",
        "acked",
        (
            Need("records", records, 2e6, 1e8),
            Need("faults", faults, 20, 1000),
            Need("processes killed", fault("kill"), None, 300),
            Need("hours", hours, 1 / 6, None),
        ),
    ),
    Goal(
        "G3",
        "Exactly-once copies beside Kafka's own copier",
        "100,000 records",
        "5 M records, 50 killed clients, 50 killed brokers",
        "make chaos WORKLOAD=copies MINUTES=60",
        "copies",
        (
            Need("records", records, 1e5, 5e6),
            Need("killed clients", fault("kill_ours", "kill_java"), None, 50),
            Need("killed brokers", fault("kill_broker"), None, 50),
        ),
    ),
    Goal(
        "G4",
        "The bank: the sum stays the same",
        "20,000 transfers, 10 faults",
        "1 M transfers, 500 faults, on several releases of the broker",
        "make chaos WORKLOAD=bank MINUTES=60",
        "bank",
        (Need("transfers", records, 20_000, 1e6), Need("faults", faults, 10, 500)),
        "other releases of the broker",
    ),
    Goal(
        "G5",
        "Rebalances: one owner for each partition, nothing skipped",
        "10 members, 200 rebalances",
        "50 members, 5,000 rebalances, live migration between the protocols",
        "make chaos WORKLOAD=chaos MINUTES=60 ARGS='--members 50 --per-process 10 --storm "
        "--protocol mixed'",
        "chaos",
        (
            Need("records", records, None, None),
            Need("rebalances", figure("rebalances"), 200, 5000),
            Need("members at once", largest("members"), 10, 50),
            Need("live migrations", figure("migrations"), None, 20),
        ),
    ),
    Goal(
        "G6",
        "A chain of consumers and producers",
        "100,000 records, 3 levels, 4 assignors",
        "500,000 records, 3 levels, 6 assignors, 40 times under ThreadSanitizer",
        "make chaos WORKLOAD=chain MINUTES=60",
        "chain",
        (
            Need("records", records, 1e5, 5e5),
            Need("assignors", distinct("assignors"), 4, 6),
            Need("rounds", figure("rounds"), None, 40),
        ),
        "ThreadSanitizer",
    ),
    Goal(
        "G7",
        "Fuzzing of all readers",
        "60 s for each of 14 targets",
        "10^9 executions, 5 x 10^7 of each target, no finding",
        "make fuzz FUZZ_SECONDS=600 ARGS=--record",
        "fuzz",
        (
            Need("executions", records, None, 1e9),
            Need("of the rarest target", rarest, None, 5e7),
            Need("hours", hours, 14 / 60, None),
        ),
        "line coverage of the readers",
    ),
    Goal(
        "G8",
        "Systematic bad input: each response, truncated, flipped, with false lengths",
        "100,000 cases",
        "10^7 cases, each decoded or refused, memory below a limit",
        "python tests/protocol/systematic.py --cases 10000000 --record",
        "systematic",
        (Need("cases", records, 1e5, 1e7),),
        "the new connection after an error",
    ),
    Goal(
        "G9",
        "Decompression bombs",
        "1 MB that expands to 4 GB, for 4 codecs",
        "an error for that partition only, memory below a limit",
        "make test-bombs ARGS=--record",
        "bombs",
        (
            Need("codecs with a bomb of 4 GB", bombs(1 << 32), 4, 4),
            Need("tests passed", records, None, None),
        ),
        "1 MB, to which only zstd can compress 4 GB",
    ),
    Goal(
        "G10",
        "The n-th failure of an allocation",
        "6 scenarios",
        "each allocation of each scenario, also each system call",
        "make test-oom test-syscalls ARGS=--record",
        "failed_calls",
        (
            Need("scenarios", largest("scenarios"), 6, None),
            Need("failed allocations", of_calls("allocations"), None, None),
            Need("% of all allocations tried", percent_tried("allocations"), None, 100),
            Need("failed system calls", of_calls("system calls"), None, None),
            Need("% of all system calls tried", percent_tried("system calls"), None, 100),
        ),
    ),
    Goal(
        "G11",
        "Sanitizers",
        "C tests and client tests under ASan, UBSan and TSan",
        "also valgrind and MSan",
        "make test-asan test-tsan test-valgrind ARGS=--record",
        "sanitizers",
        (
            Need("C tests under ASan and UBSan", part("address-c"), 50, 50),
            Need("client tests under ASan and UBSan", part("address-all"), 5000, 5000),
            Need("C tests under TSan", part("thread-c"), 50, 50),
            Need("client tests under TSan", part("thread-all"), 5000, 5000),
            Need("C tests under valgrind", part("valgrind-c"), None, 50),
        ),
        "MSan",
        in_parts=True,
    ),
    Goal(
        "G12",
        "Soak: memory, descriptors and objects stay constant",
        "10 minutes",
        "72 hours in total, 2.5 of them unbroken",
        "make soak MINUTES=10",
        "steady",
        (
            Need("hours", hours, 1 / 6, 72),
            Need("longest run, hours", longest, None, 2.5),
            Need("faults", faults, 5, None),
        ),
        "real brokers: the runs have the mock cluster, in another process",
    ),
    Goal(
        "G13",
        "Clients opened and closed in each state",
        "1,000 clients",
        "20,000 clients, 100 at once, 1,000 forks",
        "make soak WORKLOAD=open_close ARGS='--clients 20000'",
        "open_close",
        (
            Need("clients", records, 1000, 20_000),
            Need("clients that were forked", fault("forked"), None, 1000),
        ),
    ),
    Goal(
        "G14",
        "Recovery time beside librdkafka and Java in the same outage",
        "printed",
        "not longer than theirs; after a black hole at most reconnect.backoff.max.ms + 1 s",
        "make recovery",
        "recovery",
        (Need("outages", faults, 1, 20),),
        "the comparison (see below)",
    ),
    Goal(
        "G15",
        "Overload: ten times faster than the broker",
        "-",
        "memory within its budget, BufferError only, heartbeats in time",
        "make soak WORKLOAD=overload",
        "overload",
        (
            Need("messages", records, None, None),
            Need("minutes", lambda runs: 60 * hours(runs), None, 1),
        ),
    ),
    Goal(
        "G16",
        "Scale",
        "10,000 partitions, 2,000 topics",
        "50,000 partitions, 200 clients, messages of 100 MB",
        "make soak WORKLOAD=scale",
        "scale",
        (
            Need("clients at once", option("clients"), None, 200),
            Need("partitions of a group", option("partitions"), 10_000, 10_000),
            Need("topics of a group", option("topics"), 2000, 2000),
            Need("partitions of metadata", option("metadata"), None, 50_000),
            Need("megabytes of a message", option("large_mb"), None, 100),
            Need("queued records", option("queued"), None, 1e7),
        ),
        "real brokers: the runs have the mock cluster, in another process",
    ),
    Goal(
        "G17",
        "The same runs with other clients",
        "-",
        "G2 to G5 with confluent_kafka, Java and aiokafka",
        "make chaos ARGS='--client confluent'",
        "acked",
        (Need("records", records, None, None), Need("faults", faults, None, None)),
        "the other workloads",
        other_clients=True,
    ),
    Goal(
        "G18",
        "Planted bugs are caught",
        "12 bugs",
        "30 bugs",
        "make test-planted ARGS=--record",
        "planted",
        (Need("bugs", distinct("caught"), 12, 30),),
    ),
    Goal(
        "G19",
        "Histories of transactions, checked for cycles",
        "20,000 transactions, 20 faults",
        "1 M transactions, 500 faults",
        "make chaos WORKLOAD=histories MINUTES=60",
        "histories",
        (Need("transactions", records, 20_000, 1e6), Need("faults", faults, 20, 500)),
    ),
    Goal(
        "G20",
        "Share groups under faults: each record accepted, none twice with a success",
        "100,000 records, 20 faults",
        "5 M records, 500 faults",
        "make chaos WORKLOAD=share MINUTES=60",
        "share",
        (Need("records", records, 1e5, 5e6), Need("faults", faults, 20, 500)),
    ),
    Goal(
        "G21",
        "Spark streams and archives: each row once, whatever process is killed",
        "10 faults",
        "200 faults",
        "make chaos WORKLOAD=spark MINUTES=60",
        "spark",
        (Need("rows", records, None, None), Need("processes killed", faults, 10, 200)),
    ),
)
