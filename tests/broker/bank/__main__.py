"""``python -m tests.broker.bank``: a long run on three brokers of our own. It ends with 1 if a rule
was broken.
"""

from __future__ import annotations

import sys

import click

from tests.broker.bank.planted import BUGS
from tests.broker.bank.run import Options, Run, bank_rig
from tests.broker.bank.verify import violations
from tests.harness.command import make_run, run_options
from tests.harness.runs import drawn


@click.command()
@run_options(BUGS, "Processors")
@click.option(
    "--protocol", default="consumer", show_default=True, type=click.Choice(["classic", "consumer"])
)
@click.option("--processes", default=4, show_default=True)
@click.option("--rate", default=200, show_default=True, help="Orders a second.")
def main(seed: int | None, recorded: bool, **rest: object) -> None:
    """Kill, freeze and cut off processors, stop and start brokers, and check the rules."""
    options = Options(seed=drawn(seed), **rest)  # type: ignore[arg-type]
    _, is_broken = make_run("bank", bank_rig, Run, violations, options, recorded=recorded)
    sys.exit(is_broken)


if __name__ == "__main__":
    main()
