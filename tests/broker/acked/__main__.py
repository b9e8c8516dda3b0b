"""``python -m tests.broker.acked``: a long run on three brokers of our own. It ends with 1 if a rule
was broken.
"""

from __future__ import annotations

import sys

import click

from tests.broker.acked.planted import BUGS
from tests.broker.acked.producer import CLIENTS
from tests.broker.acked.run import Options, Run, acked_rig
from tests.broker.acked.verify import violations
from tests.harness.command import make_run, run_options
from tests.harness.runs import drawn


@click.command()
@run_options(BUGS, "Producers")
@click.option(
    "--client",
    default="ours",
    show_default=True,
    type=click.Choice(list(CLIENTS)),
)
@click.option("--processes", default=4, show_default=True, help="Producers.")
@click.option("--rate", default=1000, show_default=True, help="Messages a second and producer.")
@click.option("--size", "size_bytes", default=200, show_default=True, help="Bytes of a value.")
@click.option("--codec", default="none", show_default=True)
@click.option("--weak", is_flag=True, help="With acks=1 and without idempotence.")
def main(seed: int | None, recorded: bool, **rest: object) -> None:
    """Kill and freeze producers and brokers, cut connections, move leaders; check the rules."""
    options = Options(seed=drawn(seed), **rest)  # type: ignore[arg-type]
    _, is_broken = make_run("acked", acked_rig, Run, violations, options, recorded=recorded)
    sys.exit(is_broken)


if __name__ == "__main__":
    main()
