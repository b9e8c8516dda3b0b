"""``python -m tests.broker.bank``: a long run on three brokers of our own. It ends with 1 if a rule
was broken.
"""

from __future__ import annotations

import sys
from dataclasses import asdict

import click

from tests.broker.bank.planted import BUGS
from tests.broker.bank.run import Options, Run, bank_rig
from tests.broker.bank.verify import violations
from tests.harness.reliability import record
from tests.harness.runs import drawn, report


@click.command()
@click.option("--seconds", default=600.0, show_default=True)
@click.option(
    "--protocol", default="consumer", show_default=True, type=click.Choice(["classic", "consumer"])
)
@click.option("--processes", default=4, show_default=True)
@click.option("--rate", default=200, show_default=True, help="Orders a second.")
@click.option("--seed", type=int, help="Of the faults (default: drawn, and printed).")
@click.option("--bug", default="", type=click.Choice(["", *BUGS]), help="Processors misbehave.")
@click.option("--record", "recorded", is_flag=True, help="Add the run to bench/reliability.")
def main(seed: int | None, recorded: bool, **rest: object) -> None:
    """Kill, freeze and cut off processors, stop and start brokers, and check the rules."""
    options = Options(seed=drawn(seed), **rest)  # type: ignore[arg-type]
    click.echo(f"{options}")
    with bank_rig(options.seed) as three:
        run = Run(three, options)
        found = violations(run.run())
        report(run.lines(), found, run.directory)
    if recorded:
        records = len(run.result.orders)
        record("bank", asdict(options), run.seconds, run.faults, records, found)
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
