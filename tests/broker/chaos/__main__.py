"""``python -m tests.broker.chaos``: a long run on three brokers of our own. It ends with 1 if a
rule was broken.
"""

from __future__ import annotations

import sys
from dataclasses import asdict

import click

from tests.broker.chaos.figures import lines, recorded
from tests.broker.chaos.planted import BUGS
from tests.broker.chaos.run import MIXED, Options, Run
from tests.broker.chaos.verify import violations
from tests.broker.cluster import start
from tests.harness.reliability import record
from tests.harness.runs import drawn, report

ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")
DEFAULTS = {"classic": ASSIGNORS, MIXED: ASSIGNORS[-1:], "consumer": ("",)}


@click.command()
@click.option("--seconds", default=600.0, show_default=True)
@click.option(
    "--protocol",
    default="consumer",
    show_default=True,
    type=click.Choice(["classic", "consumer", MIXED]),
    help="mixed: the group migrates between both.",
)
@click.option(
    "--assignor",
    "assignors",
    multiple=True,
    help="Of classic and mixed; several make several runs (default: all, of mixed the last one).",
)
@click.option(
    "--client", default="ours", show_default=True, type=click.Choice(["ours", "confluent", "mixed"])
)
@click.option(
    "--take", default="consume", show_default=True, type=click.Choice(["consume", "poll"])
)
@click.option(
    "--commits",
    default="mixed",
    show_default=True,
    type=click.Choice(["mixed", "sync", "async", "store"]),
)
@click.option("--rate", default=500, show_default=True, help="Messages a second.")
@click.option("--seed", type=int, help="Of the faults (default: drawn, and printed).")
@click.option("--members", default=6, show_default=True, help="The most at once.")
@click.option("--per-process", default=1, show_default=True, help="Members in a process.")
@click.option("--storm", is_flag=True, help="Members join and leave as often as possible.")
@click.option("--static", is_flag=True, help="With group.instance.id.")
@click.option("--regex", is_flag=True, help="Subscribes to a pattern.")
@click.option("--bug", default="", type=click.Choice(["", *BUGS]), help="Member 0 misbehaves.")
@click.option("--record", "is_recorded", is_flag=True, help="Add the runs to bench/reliability.")
def main(
    assignors: tuple[str, ...], protocol: str, seed: int | None, is_recorded: bool, **rest: object
) -> None:
    """Make members come, go, crash and freeze, and check the rules."""
    cluster = start(3)
    broken = 0
    try:
        for assignor in assignors or DEFAULTS[protocol]:
            options = Options(protocol=protocol, assignor=assignor, seed=drawn(seed), **rest)  # type: ignore[arg-type]
            click.echo(f"{options}")
            run = Run(cluster, options, click.echo)
            history = run.run()
            found = violations(history)
            broken += report(lines(history), found, run.directory)
            if is_recorded:
                acked, figures = sum(map(len, history.acked.values())), recorded(history)
                record(
                    *("chaos", asdict(options), history.seconds, history.faults, acked, found),
                    figures,
                )
    finally:
        cluster.close()
    sys.exit(broken > 0)


if __name__ == "__main__":
    main()
