"""``python -m tests.broker.copies``: a long run on three brokers of our own. It ends with 1 if a
rule was broken.
"""

from __future__ import annotations

import sys
from dataclasses import asdict

import click

from tests.broker.copies.planted import BUGS
from tests.broker.copies.run import Options, Run, copies_rig
from tests.broker.copies.verify import violations
from tests.harness.reliability import record
from tests.harness.runs import drawn, report


@click.command()
@click.option("--seconds", default=600.0, show_default=True)
@click.option("--processes", default=4, show_default=True, help="Half of them are Kafka's.")
@click.option("--rate", default=5000, show_default=True, help="The most messages a second.")
@click.option("--messages", default=500, show_default=True, help="The most of a transaction.")
@click.option("--seed", type=int, help="Of the faults (default: drawn, and printed).")
@click.option("--bug", default="", type=click.Choice(["", *BUGS]), help="Our copiers misbehave.")
@click.option("--record", "recorded", is_flag=True, help="Add the run to bench/reliability.")
def main(seed: int | None, recorded: bool, **rest: object) -> None:
    """Kill, freeze and cut off copiers, kill brokers, move leaders, and check the rules."""
    options = Options(seed=drawn(seed), **rest)  # type: ignore[arg-type]
    click.echo(f"{options}")
    with copies_rig(options.seed) as three:
        run = Run(three, options)
        found = violations(run.run())
        report(run.lines(), found, run.directory)
    if recorded:
        done = {"copied": run.result.copied}
        record("copies", asdict(options), run.seconds, run.faults, run.result.sent, found, done)
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
