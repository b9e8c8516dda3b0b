"""docs/RELIABILITY.md, made from the recorded runs: ``python -m bench reliability``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

import click

from bench.charts import draw_sums, draw_times
from bench.reliability_goals import GOALS, Goal, Run, faults, hours, read_runs, records
from bench.report import spread
from dev.version import ROOT

FOLDER = ROOT / "bench" / "reliability"
PAGE = ROOT / "docs" / "RELIABILITY.md"
CHARTS = "reliability"
UNDER_FAULTS = ("acked", "copies", "bank", "chaos", "chain", "histories")
"""The workloads whose faults are made by the run."""
ACKED = "acked"
RULES = {"acked_is_there": "Lost", "nothing_twice": "Twice", "in_order": "Out of order"}
PEERS = """`make chaos ARGS='--client confluent'` runs the acked messages of another client under
the same faults, and `SEED=7` chooses them. *Lost*: reported as written, and not in the log at the
reported offset. *Twice*: in the log more than once. *Out of order*: behind a later message of its
producer. *Others*: the other rules of [Acked messages](TESTING.md#acked-messages).

A restarted broker knows only the last batch of each producer. It refuses an earlier batch that
comes again, although it has it. Java's producer then gives the batch a new number, so it is written
twice. `tests/broker/test_restarted_broker.py` shows this, and that kafka_native writes it once.

Some faults change the length of a frame. The network thread of Java's producer then ends with
OutOfMemoryError, here with 1 GiB of heap, and the producer never ends: *Others* has these."""
RECOVERY = "recovery"
OURS = "kafka_native"
CLUSTER, KNOWN = "cluster", "known_s"
TIMES = {
    "ack_s": "first acknowledged message",
    "message_s": "first consumed message",
    "commit_s": "first commit",
    "ack_wait_s": "longest wait for an acknowledgement",
    "message_wait_s": "longest time from an acknowledgement to the consumer",
    KNOWN: "new leader in the cluster's metadata",
}
OUTAGES = {
    "leader": "kill -9 of the leader of a partition",
    "coordinator": "kill -9 of the coordinator of the groups",
    "black_hole": "end of a black hole",
    "rolling": "rolling restart",
}
METHOD = """All clients meet the same outages: each has a producer and a
consumer on the same partitions, with its default settings and acks=all.
[Recovery times](TESTING.md#recovery-times) describes the outages, and what ends each time.
*cluster* is the time until the metadata of the other brokers has a new leader. Each cell has the
median, with the shortest and the longest time in parentheses.

"""
HEAD = """# Reliability: recorded runs

This page lists the goals of reliability and the runs that count towards them. A long run adds a
line to `bench/reliability`, also when it fails. `python -m bench reliability` makes this page from
these lines.

## How to read it

- The *gate* is the size of one run before a change is accepted. The *release figure* is the sum of
  all runs since the last broken one. A broken run sets the sum to zero.
- *Not run*: no run of this goal is recorded yet.
- *Counted figures reached*: the recorded runs reach the release figure, except for the parts that
  they don't measure. The table names these parts.
- A run has the commit and the seed of its faults. The same seed makes the same faults in the same
  order. The times of the processes differ.
- The brokers are processes on one machine. `kill -9` of a broker keeps the kernel's page cache. So
  these runs show how clients behave. They don't show that disks keep their data.

## Goals

"""


def page_of(runs: Sequence[Run]) -> str:
    """Return the page in Markdown."""
    parts = [HEAD, goals_table(runs), "\n## Runs\n\n", runs_table(runs)]
    if sums_of(runs):
        alt = "records against faults, a line for each workload"
        parts.append(f"\n![Recorded runs: {alt}]({CHARTS}/runs.svg)\n")
    parts += ["\n## Recovery times beside other clients\n\n", recovery_part(runs)]
    parts += ["\n## The same faults with other clients\n\n", peers_table(runs)]
    return "".join(parts)


def table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [titles, ["---"] * len(titles), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |\n" for row in lines)


# --- goals ---


def goals_table(runs: Sequence[Run]) -> str:
    """Return a row for each goal."""
    titles = ["Goal", "", "Gate", "Release figure", "Recorded", "State", "Last run", "Command"]
    rows = []
    for goal in GOALS:
        mine = goal.runs(runs)
        last = f"{mine[-1].date}, `{mine[-1].commit}`" if mine else "-"
        command = f"`{goal.command}`" if goal.command else "none yet"
        state = goal.state(runs)
        rows.append(
            [goal.name, goal.title, goal.gate, goal.release, sums(goal, runs), state, last, command]
        )
    return table(titles, rows)


def sums(goal: Goal, runs: Sequence[Run]) -> str:
    """Return what the recorded runs of a goal have added up to."""
    mine, bad = goal.runs(runs), goal.broken(runs)
    texts = [f"{amount(need.of(mine))} {need.title}" for need in goal.needs] if mine else []
    texts += [f"in {len(mine)} {'run' if len(mine) == 1 else 'runs'}"] if mine else []
    if mine and goal.uncounted:
        texts.append(f"not counted: {goal.uncounted}")
    if bad:
        texts.append(f"{len(bad)} broken before")
    return ", ".join(texts) or "-"


def amount(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == round(value) else f"{value:.1f}"


# --- runs ---


def runs_table(runs: Sequence[Run]) -> str:
    """Return a row for each run but those of recovery times, the newest last."""
    titles = ["Workload", "Client", "Date", "Commit", "Seed", "Hours", "Faults, or cases by kind"]
    rows = [
        [
            run.workload,
            run.client + planted(run),
            run.date,
            f"`{run.commit}`",
            str(run.options.get("seed", "-")),
            f"{run.seconds / 3600:.2f}",
            ", ".join(f"{count:,} {kind}" for kind, count in run.faults.items()) or "none",
            f"{run.records:,}",
            run.verdict if not run.broken else f"{run.verdict}: {len(run.broken)} findings",
        ]
        for run in sorted(runs, key=lambda run: run.date)
        if run.workload != RECOVERY
    ]
    return table([*titles, "Records", "Verdict"], rows) if rows else "None yet.\n"


def planted(run: Run) -> str:
    """Return how a run is expected to break rules."""
    bug = run.options.get("bug")
    weak = ", acks=1 without idempotence" if run.options.get("weak") else ""
    return f", planted bug {bug}" if bug else weak


def sums_of(runs: Sequence[Run]) -> dict[str, list[tuple[float, float]]]:
    """Return the sums of faults and of records after each run, by workload."""
    found: dict[str, list[tuple[float, float]]] = {}
    for goal in GOALS:
        if goal.workload not in UNDER_FAULTS or goal.other_clients:
            continue
        mine = goal.runs(runs)
        for count in range(1, len(mine) + 1):
            point = faults(mine[:count]), records(mine[:count])
            found.setdefault(goal.workload, []).append(point)
    return found


# --- recovery times ---

Times = dict[tuple[str, str], dict[str, list[float]]]


def recovery_runs(runs: Sequence[Run]) -> list[Run]:
    """Return the outages of the newest recorded run."""
    every = [run for run in runs if run.workload == RECOVERY]
    return [run for run in every if run.options["run"] == every[-1].options["run"]]


def times_of(runs: Sequence[Run]) -> Times:
    """Return the values of each client, by outage and time. The order is that of the tables."""
    found: Times = {}
    for outage in OUTAGES:
        for time in TIMES:
            for run in recovery_runs(runs):
                if run.options["outage"] != outage:
                    continue
                for client, values in run.figures["seconds"].items():
                    if values.get(time) is not None:
                        key = found.setdefault((outage, time), {})
                        key.setdefault(client, []).append(values[time])
    return found


def recovery_part(runs: Sequence[Run]) -> str:
    """Return the comparison of recovery times."""
    measured = recovery_runs(runs)
    command = "`make recovery` measures them on a machine without other work."
    if not measured:
        return f"Not run. {command}\n"
    times = times_of(runs)
    versions = ", ".join(
        f"{name} {each}" for name, each in measured[-1].figures["versions"].items()
    )
    return "".join(
        [
            f"{command}\n{METHOD}",
            f"- Measured on {measured[-1].date} with commit `{measured[-1].commit}`.\n",
            f"- Versions: {versions}\n\n",
            recovery_table(times),
            *unrecovered(measured),
            "\n### Where another client recovers faster\n\n",
            *slower(times),
            f"\n![Recovery times: a point for each outage]({CHARTS}/recovery.svg)\n",
        ]
    )


def recovery_table(times: Times) -> str:
    """Return a row for each outage and time: the median of each client, and the extremes."""
    names = list(dict.fromkeys(client for clients in times.values() for client in clients))
    rows = []
    for (outage, time), clients in times.items():
        cells = [spread(clients[name], ".2f") if name in clients else "-" for name in names]
        count = str(max(map(len, clients.values())))
        rows.append([OUTAGES[outage], TIMES[time], count, *cells])
    return table(["Outage", "Time in seconds", "Outages", *names], rows)


def unrecovered(measured: Sequence[Run]) -> list[str]:
    """Return a line for each client without a recovery in the time of the run."""
    return [
        f"\n- {OUTAGES[run.options['outage']]}: {client} has no {TIMES[time]} in "
        f"{run.options['limit_s']:.0f} s.\n"
        for run in measured
        for client, values in run.figures["seconds"].items()
        for time, value in values.items()
        if value is None
    ]


def slower(times: Times) -> list[str]:
    """Return a line for each median of another client that is shorter than ours."""
    lines = []
    for (outage, time), clients in times.items():
        middles = {client: round(median(values), 2) for client, values in clients.items()}
        mine = middles.get(OURS, 0.0)
        lines += [
            f"- {OUTAGES[outage]}, {TIMES[time]}: {client} has {middle:.2f} s, "
            f"{OURS} {mine:.2f} s.\n"
            for client, middle in middles.items()
            if client not in (OURS, CLUSTER) and middle < mine
        ]
    return lines or ["In no row of the table.\n"]


def draw_recovery(times: Times, path: Path) -> None:
    """Draw each time of the clients, together with the cluster's in the same outages."""
    groups: dict[str, Mapping[str, Sequence[float]]] = {
        f"{OUTAGES[outage]}: {TIMES[time]}": {**clients, **times.get((outage, KNOWN), {})}
        for (outage, time), clients in times.items()
        if time != KNOWN
    }
    draw_times("Seconds to recover: shorter is better", groups, path)


# --- other clients ---


def peers_table(runs: Sequence[Run]) -> str:
    """Return the outcomes of the same runs with other clients."""
    groups: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        if run.workload == ACKED and not run.options.get("bug"):
            settings = planted(run).strip(", ") or "acks=all, idempotence"
            groups.setdefault((run.client, settings), []).append(run)
    if not any(client != "ours" for client, _ in groups):
        return f"Not run. {PEERS}\n"
    rows = []
    for (client, settings), mine in sorted(groups.items()):
        counts: Counter[str] = Counter()
        for run in mine:
            counts.update(run.figures.get("violations", {}))
        named = [f"{counts.pop(rule, 0):,}" for rule in RULES]
        others = ", ".join(f"{count:,} {rule}" for rule, count in sorted(counts.items())) or "0"
        seeds = ", ".join(str(run.options.get("seed", "-")) for run in mine)
        sizes = [f"{amount(of(mine))}" for of in (hours, records, faults)]
        rows.append([client, settings, seeds, *sizes, *named, others])
    titles = [
        "Client",
        "Settings",
        "Seeds",
        "Hours",
        "Records",
        "Faults",
        *RULES.values(),
        "Others",
    ]
    return f"{PEERS}\n\n{table(titles, rows)}"


@click.command()
@click.argument(
    "folder", default=FOLDER, type=click.Path(exists=True, file_okay=False, path_type=Path)
)
@click.option("--page", default=PAGE, type=click.Path(dir_okay=False, path_type=Path))
def main(folder: Path, page: Path) -> None:
    """Write the page of recorded runs and its charts from the files of a FOLDER."""
    runs = read_runs(folder)
    charts = page.parent / CHARTS
    if series := sums_of(runs):
        charts.mkdir(parents=True, exist_ok=True)
        labels = ("faults", "records whose fate was checked")
        draw_sums("Recorded runs without a broken rule", labels, series, charts / "runs.svg")
    if times := times_of(runs):
        charts.mkdir(parents=True, exist_ok=True)
        draw_recovery(times, charts / "recovery.svg")
    page.write_text(page_of(runs), encoding="utf-8")
