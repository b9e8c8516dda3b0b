"""``python -m tests.broker.spark``: a long run on a broker of our own. It ends with 1 if a rule was
broken.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import asdict

import click

from tests.broker.spark.run import Options, Run, violations
from tests.broker.spark.targets import BUGS, TARGETS
from tests.harness.reliability import record
from tests.harness.runs import drawn, report


@click.command()
@click.option("--seconds", default=600.0, show_default=True, help="Of all targets together.")
@click.option("--kills", default=0, help="The most kills of a target (default: the time decides).")
@click.option(
    "--target", "targets", multiple=True, type=click.Choice(list(TARGETS)), default=list(TARGETS)
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
@click.option("--bug", default="", type=click.Choice(["", *BUGS]), help="To see that it can fail.")
@click.option("--record", "is_recorded", is_flag=True, help="Add the runs to bench/reliability.")
def main(
    targets: tuple[str, ...], seconds: float, seed: int | None, is_recorded: bool, **rest: object
) -> None:
    """Kill Spark's processes at each step, and check the rows of a topic and of a lake."""
    broken = 0
    for target in targets:
        options = Options(seconds=seconds / len(targets), seed=drawn(seed), target=target, **rest)  # type: ignore[arg-type]
        click.echo(f"{options}")
        run = Run(options)
        result = run.run()
        found = violations(result)
        broken += report(run.lines(), found, run.directory)
        if is_recorded:
            faults: Counter[str] = Counter()
            for (_, _, victim), count in run.kills.items():
                faults[f"kill {victim}"] += count
            figures = {"kills": {" ".join(step): count for step, count in run.kills.items()}}
            how = ("spark", asdict(options), run.seconds, faults, result.rows, found, figures)
            record(*how)
    sys.exit(broken > 0)


if __name__ == "__main__":
    main()
