"""``python -m tests.broker.share``: a long run on three brokers of our own. It ends with 1 if a
rule was broken.
"""

from __future__ import annotations

import sys

import click

from tests.broker.share.planted import BUGS
from tests.broker.share.run import Options, Run, share_rig
from tests.broker.share.verify import violations
from tests.harness.command import make_run, run_options
from tests.harness.runs import drawn


@click.command()
@run_options(BUGS, "Members")
@click.option("--processes", default=4, show_default=True, help="Members.")
@click.option("--rate", default=500, show_default=True, help="Records a second.")
@click.option("--poll-max", default=200, show_default=True, help="Of max.poll.records.")
def main(seed: int | None, recorded: bool, **rest: object) -> None:
    """Kill, freeze and cut off members, stop and freeze brokers, and check the rules."""
    options = Options(seed=drawn(seed), **rest)  # type: ignore[arg-type]
    _, is_broken = make_run("share", share_rig, Run, violations, options, recorded=recorded)
    sys.exit(is_broken)


if __name__ == "__main__":
    main()
