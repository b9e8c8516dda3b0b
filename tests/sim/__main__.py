"""``python -m tests.sim``: simulated hours, a seed after the other. It ends with 1 if one breaks a
rule; then it prints the faults that are needed for that.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import click

from tests.harness.reliability import record
from tests.harness.runs import counted, drawn
from tests.sim.faults import Fault, plan
from tests.sim.machine import Options, Outcome, build, needed, simulate
from tests.sim.rules import result_of, violations


def judge(options: Options) -> tuple[Outcome | None, list[str]]:
    """Run, and return the outcome and what is broken. A run that ends early has no outcome."""
    try:
        outcome = simulate(options)
    except RuntimeError as error:
        return None, [f"the process: {error}"]
    return outcome, violations(result_of(outcome.result))


def shrink(options: Options, found: Sequence[str]) -> list[Fault]:
    """Return the faults without which the same rules hold."""
    rules = {text.partition(":")[0] for text in found}

    def fails(faults: Sequence[Fault]) -> bool:
        _, texts = judge(replace(options, faults=list(faults)))
        return bool(rules & {text.partition(":")[0] for text in texts})

    return needed(options.faults, fails)


def _show(options: Options, found: Sequence[str], every_s: float, shrinks: bool) -> None:
    for text in found:
        click.echo(f"  BROKEN {text}")
    again = {
        "seed": options.seed,
        "minutes": f"{options.seconds / 60:g}",
        "pace": f"{options.pace_s:g}",
        "every": f"{every_s:g}",
    } | ({"bug": options.bug} if options.bug else {})
    words = " ".join(f"--{name} {value}" for name, value in again.items())
    click.echo(f"  again: python -m tests.sim {words}")
    if shrinks and options.faults:
        click.echo("  these faults are enough:")
        for fault in shrink(options, found):
            click.echo(f"    {fault.at_s:9.3f} s {fault.kind} {fault.arguments}")


def _plans(seed: int, minutes: float, pace_s: float, every_s: float, bug: str) -> Iterator[Options]:
    for each in itertools.count(seed):
        faults = plan(each, minutes * 60, every_s)
        yield Options(each, minutes * 60, pace_s, bug, faults)


@click.command()
@click.option("--seed", type=int, help="The first one (default: drawn, and printed).")
@click.option("--seeds", default=1, show_default=True, help="How many.")
@click.option("--minutes", default=60.0, show_default=True, help="Simulated time of a seed.")
@click.option("--pace", "pace_s", default=5.0, show_default=True, help="Seconds between bursts.")
@click.option("--every", "every_s", default=20.0, show_default=True, help="Seconds between faults.")
@click.option("--jobs", default=1, show_default=True, help="Seeds that run at the same time.")
@click.option("--bug", default="", help="A mistake of tests/sim/inside/bugs.py.")
@click.option("--shrink/--no-shrink", "shrinks", default=True, help="Reduce failing faults.")
@click.option("--record", "recorded", is_flag=True, help="Add the runs to bench/reliability.")
def main(
    seed: int | None,
    seeds: int,
    minutes: float,
    pace_s: float,
    every_s: float,
    jobs: int,
    bug: str,
    shrinks: bool,
    recorded: bool,
) -> None:
    """Simulate clients, a cluster and faults on one clock and one seed; check the rules."""
    build()
    first = drawn(seed)
    plans = itertools.islice(_plans(first, minutes, pace_s, every_s, bug), seeds)
    began_s, simulated_s, records, wrong = time.monotonic(), 0.0, 0, []
    faults: Counter[str] = Counter()
    with ThreadPoolExecutor(jobs) as pool:
        for options, (outcome, found) in pool.map(lambda each: (each, judge(each)), plans):
            if outcome is not None:
                lives = [*outcome.result["lives"], *outcome.result["side"]["lives"]]
                sent = sum(len(life["sent"]) for life in lives)
                simulated_s += outcome.seconds
                records += sent
                faults.update(outcome.result["faults"])
                click.echo(
                    f"seed {options.seed}: {outcome.seconds:.0f} s, {sent} messages, "
                    f"{len(options.faults)} faults, digest {outcome.digest}"
                )
            wrong += [f"seed {options.seed}: {text}" for text in found]
            if found:
                _show(options, found, every_s, shrinks)
    took_s = time.monotonic() - began_s
    click.echo(
        f"{simulated_s / 3600:.2f} simulated hours in {took_s:.0f} s, {records} messages, "
        f"{counted(faults)}: {'BROKEN' if wrong else 'no rule was broken'}"
    )
    if recorded:
        settings = {"seed": first, "seeds": seeds, "minutes": minutes, "pace_s": pace_s}
        record("simulated", settings, simulated_s, faults, records, wrong[:20])
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
