"""``python -m tests.broker.share``: a long run on three brokers of our own. It ends with 1 if a
rule was broken.
"""

from __future__ import annotations

import sys
from dataclasses import asdict

import click

from tests.broker.share.planted import BUGS
from tests.broker.share.run import Options, Run, share_rig
from tests.broker.share.verify import violations
from tests.harness.reliability import record
from tests.harness.runs import drawn, report


@click.command()
@click.option("--seconds", default=600.0, show_default=True)
@click.option("--processes", default=4, show_default=True, help="Members.")
@click.option("--rate", default=500, show_default=True, help="Records a second.")
@click.option("--poll-max", default=200, show_default=True, help="Of max.poll.records.")
@click.option("--seed", type=int, help="Of the faults (default: drawn, and printed).")
@click.option("--bug", default="", type=click.Choice(["", *BUGS]), help="Members misbehave.")
@click.option("--record", "is_recorded", is_flag=True, help="Add the run to bench/reliability.")
def main(seed: int | None, is_recorded: bool, **rest: object) -> None:
    """Kill, freeze and cut off members, stop and freeze brokers, and check the rules."""
    options = Options(seed=drawn(seed), **rest)  # type: ignore[arg-type]
    click.echo(f"{options}")
    with share_rig(options.seed) as three:
        run = Run(three, options)
        found = violations(run.run())
        report(run.lines(), found, run.directory)
    if is_recorded:
        count = len(run.result.acked)
        how = ("share", asdict(options), run.seconds, run.faults, count, found, run.figures())
        record(*how)
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
