"""``python -m tests.broker.copies``: a long run on three brokers of our own. It ends with 1 if a
rule was broken.
"""

from __future__ import annotations

import sys

import click

from tests.broker.copies.planted import BUGS
from tests.broker.copies.run import Options, Run, copies_rig
from tests.broker.copies.verify import violations
from tests.harness.command import make_run, run_options
from tests.harness.runs import drawn


@click.command()
@run_options(BUGS, "Our copiers")
@click.option("--processes", default=4, show_default=True, help="Half of them are Kafka's.")
@click.option("--rate", default=5000, show_default=True, help="The most messages a second.")
@click.option("--messages", default=500, show_default=True, help="The most of a transaction.")
def main(seed: int | None, recorded: bool, **rest: object) -> None:
    """Kill, freeze and cut off copiers, kill brokers, move leaders, and check the rules."""
    options = Options(seed=drawn(seed), **rest)  # type: ignore[arg-type]
    _, is_broken = make_run("copies", copies_rig, Run, violations, options, recorded=recorded)
    sys.exit(is_broken)


if __name__ == "__main__":
    main()
