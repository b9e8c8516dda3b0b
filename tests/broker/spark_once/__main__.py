"""``python -m tests.broker.spark_once``: a long run on a broker of our own. It ends with 1 if a
rule was broken.
"""

from __future__ import annotations

import sys

import click

from tests.broker.spark_once.run import Options, Run, violations
from tests.harness.runs import drawn, report


@click.command()
@click.option("--kills", default=100, show_default=True)
@click.option(
    "--seconds", default=float("inf"), help="Seconds until the kills end, after at least one."
)
@click.option("--rate", default=100, show_default=True, help="Rows a second.")
@click.option(
    "--master",
    default="local[2, 2]",
    show_default=True,
    help="Spark's; or local-cluster[2,1,1024].",
)
@click.option(
    "--jvm-share", default=0.25, show_default=True, help="How many of the kills are of JVMs."
)
@click.option(
    "--transaction-version",
    default=2,
    show_default=True,
    help="Of the cluster: 0, 1, or 2 (KIP-890).",
)
@click.option("--seed", type=int, help="Of the kills (default: drawn, and printed).")
@click.option("--bug", default="", help="To see that it can fail: at-least-once.")
def main(seed: int | None, **rest: object) -> None:
    """Kill a stream's processes at each step, and check the view of read_committed readers."""
    options = Options(seed=drawn(seed), **rest)  # type: ignore[arg-type]
    click.echo(f"{options}")
    run = Run(options)
    result = run.run()
    sys.exit(report(run.lines(), violations(result), run.directory) > 0)


if __name__ == "__main__":
    main()
