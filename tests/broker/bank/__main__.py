"""``python -m tests.broker.bank``: a long run on three brokers of our own. It ends with 1 if a rule
was broken.
"""

from __future__ import annotations

import sys

import click

from tests.broker.bank.run import Options, Run, rig
from tests.broker.bank.verify import violations
from tests.harness.runs import drawn, report


@click.command()
@click.option("--seconds", default=600.0, show_default=True)
@click.option(
    "--protocol", default="consumer", show_default=True, type=click.Choice(["classic", "consumer"])
)
@click.option("--processors", default=4, show_default=True)
@click.option("--rate", default=200, show_default=True, help="Orders a second.")
@click.option("--seed", type=int, help="Of the faults (default: drawn, and printed).")
@click.option("--bug", default="", help="Processors misbehave: rewind.")
def main(seed: int | None, **rest: object) -> None:
    """Kill, freeze and cut off processors, stop and start brokers, and check the rules."""
    options = Options(seed=drawn(seed), **rest)  # type: ignore[arg-type]
    click.echo(f"{options}")
    with rig(options.seed) as three:
        run = Run(three, options)
        result = run.run()
        broken = report(run.lines(), violations(result), run.directory)
    sys.exit(broken > 0)


if __name__ == "__main__":
    main()
