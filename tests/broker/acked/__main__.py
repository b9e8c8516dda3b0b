"""``python -m tests.broker.acked``: a long run on three brokers of our own. It ends with 1 if a rule
was broken.
"""

from __future__ import annotations

import sys
from dataclasses import asdict

import click

from tests.broker.acked.planted import BUGS
from tests.broker.acked.run import Options, Run, acked_rig
from tests.broker.acked.verify import RULES, violations
from tests.harness.reliability import record
from tests.harness.runs import count_broken, drawn, report


@click.command()
@click.option("--seconds", default=600.0, show_default=True)
@click.option(
    "--client",
    default="ours",
    show_default=True,
    type=click.Choice(["ours", "confluent", "aiokafka"]),
)
@click.option("--processes", default=4, show_default=True, help="Producers.")
@click.option("--rate", default=1000, show_default=True, help="Messages a second and producer.")
@click.option("--size", "size_bytes", default=200, show_default=True, help="Bytes of a value.")
@click.option("--codec", default="none", show_default=True)
@click.option("--seed", type=int, help="Of the faults (default: drawn, and printed).")
@click.option("--weak", is_flag=True, help="With acks=1 and without idempotence.")
@click.option("--bug", default="", type=click.Choice(["", *BUGS]), help="Producers misbehave.")
@click.option("--record", "recorded", is_flag=True, help="Add the run to bench/reliability.")
def main(seed: int | None, recorded: bool, **rest: object) -> None:
    """Kill and freeze producers and brokers, cut connections, move leaders; check the rules."""
    options = Options(seed=drawn(seed), **rest)  # type: ignore[arg-type]
    click.echo(f"{options}")
    with acked_rig(options.seed) as three:
        run = Run(three, options)
        found = violations(run.run())
        report(run.lines(), found, run.directory)
    if recorded:
        figures = {"violations": count_broken(RULES, run.result)}
        record("acked", asdict(options), run.seconds, run.faults, run.records(), found, figures)
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
