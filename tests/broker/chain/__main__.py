"""``python -m tests.broker.chain``: rounds on three brokers of our own. It ends with 1 if a rule was
broken.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections import Counter
from dataclasses import asdict

import click

from tests.broker.chain.planted import BUGS
from tests.broker.chain.run import ASSIGNORS, Options, Run, chain_rig
from tests.broker.chain.verify import violations
from tests.harness.reliability import record
from tests.harness.runs import drawn, report


@click.command()
@click.option("--seconds", default=600.0, show_default=True, help="No round begins later.")
@click.option("--round-seconds", default=Options.seconds, show_default=True, help="With faults.")
@click.option(
    "--assignor", "assignors", multiple=True, type=click.Choice(list(ASSIGNORS)), help="(All.)"
)
@click.option("--processes", default=9, show_default=True, help="The most members.")
@click.option("--rate", default=2000, show_default=True, help="Messages a second.")
@click.option("--seed", type=int, help="Of the faults (default: drawn, and printed).")
@click.option("--bug", default="", type=click.Choice(["", *BUGS]), help="Members misbehave.")
@click.option("--record", "recorded", is_flag=True, help="Add the run to bench/reliability.")
def main(
    seconds: float,
    round_seconds: float,
    assignors: tuple[str, ...],
    seed: int | None,
    recorded: bool,
    **rest: object,
) -> None:
    """Make members join, leave and crash; each round has another assignor; check the rules."""
    first = drawn(seed)
    began = time.monotonic()
    used: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    broken: list[str] = []
    records = 0
    with chain_rig(first) as three:
        for number, assignor in enumerate(itertools.cycle(assignors or ASSIGNORS)):
            options = Options(
                seconds=round_seconds,
                assignor=assignor,
                seed=first + number,
                **rest,  # type: ignore[arg-type]
            )
            click.echo(f"{options}")
            run = Run(three, options)
            found = violations(run.run())
            report(run.lines(), found, run.directory)
            broken += [f"{assignor}: {text}" for text in found]
            records += run.records
            faults += run.faults
            used[assignor] += 1
            if time.monotonic() - began >= seconds:
                break
    if recorded:
        taken_s = time.monotonic() - began
        done = {"rounds": used.total(), "assignors": dict(used)}
        shown = {**asdict(options), "seed": first, "assignor": list(used)}
        record("chain", shown, taken_s, faults, records, broken, done)
    sys.exit(bool(broken))


if __name__ == "__main__":
    main()
