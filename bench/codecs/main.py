"""``python -m bench codecs``: run each scenario with all contestants in turn (A B C A B C ...)."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import click
from rich.console import Console

from bench.adapters import Figures
from bench.broker import at_rest, broker, topic
from bench.codecs import FROM_TOPIC, SCENARIOS, Work, contestants
from bench.codecs.messages import registered, schema_of
from bench.codecs.page import page_of
from bench.codecs.report import GOALS, table
from bench.codecs.topic import fill, spoiled
from bench.report import Rounds, show, verdicts
from kafka_native.cli.measurements import number_option

TIMEOUT_S = 900
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def measure(work: Work, pids: tuple[int, ...]) -> Figures:
    """Run one contestant once, in a new process."""
    at_rest(pids)
    done = subprocess.run(
        [sys.executable, "-m", "bench.codecs.worker"],
        input=json.dumps(dataclasses.asdict(work)),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env={**os.environ, **ONE_THREAD},
        check=False,
    )
    if done.returncode:
        raise click.ClickException(f"{work.contestant} {work.scenario} failed:\n{done.stderr}")
    return Figures(**json.loads(done.stdout.splitlines()[-1]))


def rounds_of(work: Work, pids: tuple[int, ...], rounds: int, console: Console) -> Rounds:
    """Run the contestants of a scenario in turn. Each round begins with another one."""
    names = []
    for name in SCENARIOS[work.scenario]:
        why = contestants.missing(work.scenario, name)
        if why:
            console.print(f"Without {name}: {why}", highlight=False, markup=False)
        else:
            names.append(name)
    found: Rounds = {name: [] for name in names}
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            figures = measure(dataclasses.replace(work, contestant=name), pids)
            found[name].append(figures)
            text = f"{figures.rate / 1e6:.3f} M records/s, {figures.cpu_us:.3f} us"
            console.print(f"  {work.scenario} round {number + 1}: {name} {text}", highlight=False)
    return found


@contextmanager
def filled(
    work: Work, bootstrap: str | None, partitions: int
) -> Iterator[tuple[Work, tuple[int, ...]]]:
    """Make a broker, a registry and a topic with the records for the block."""
    with ExitStack() as stack:
        servers = stack.enter_context(broker(bootstrap))
        name = stack.enter_context(topic(servers.plain, partitions, more=len(spoiled(work))))
        url = registered(schema_of("avro", nested=False), stack)
        ready = dataclasses.replace(
            work, bootstrap=servers.plain, topic=name, registry=url, partitions=partitions
        )
        fill(ready)
        yield ready, servers.pids


@click.command()
@click.argument("scenarios", nargs=-1, type=click.Choice(tuple(SCENARIOS)))
@click.option(
    "--bootstrap",
    envvar="BOOTSTRAP",
    help="The cluster of the scenario topic (default: a new Apache Kafka).",
)
@click.option("--seconds", default=2.0, show_default=True, help="How long a library decodes.")
@number_option("--messages", 3_000_000, "Records of the topic.", minimum=100)
@number_option("--partitions", 2)
@number_option("--rounds", 3)
@click.option(
    "--output", default="build/bench-codecs", type=click.Path(file_okay=False, path_type=Path)
)
@click.option(
    "--page",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the tables to this page: docs/TYPED-DATA-BENCHMARKS.md.",
)
def main(
    scenarios: tuple[str, ...],
    bootstrap: str | None,
    seconds: float,
    messages: int,
    partitions: int,
    rounds: int,
    output: Path,
    page: Path | None,
) -> None:
    """Compare the decoders with other libraries, on this machine.

    Rates depend on the machine and the time. Compare the ratios within a run, and CPU per record.
    """
    if scenarios and page:
        raise click.UsageError("--page needs all scenarios")
    console = Console(width=110)
    results, measurements = {}, {}
    for scenario in scenarios or SCENARIOS:
        work = Work(scenario, "", seconds, count=messages)
        with ExitStack() as stack:
            pids: tuple[int, ...] = ()
            if scenario in FROM_TOPIC:
                work, pids = stack.enter_context(filled(work, bootstrap, partitions))
            found = rounds_of(work, pids, rounds, console)
        measurements[scenario] = found
        lines = verdicts(scenario, found, GOALS)
        results[scenario] = show(console, table(scenario, found), lines, found)
    output.mkdir(parents=True, exist_ok=True)
    (output / "results.json").write_text(json.dumps(results, indent=2) + "\n")
    if page:
        page.write_text(page_of(measurements), encoding="utf-8")
