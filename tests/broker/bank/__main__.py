"""``python -m tests.broker.bank``: a long run on three brokers of our own; ends with 1 when a rule was broken."""

from __future__ import annotations

import random
import sys

import click

from tests.broker.bank.run import Options, Run, rig
from tests.broker.bank.verify import violations


@click.command()
@click.option("--seconds", default=600.0, show_default=True)
@click.option("--protocol", default="consumer", show_default=True, type=click.Choice(["classic", "consumer"]))
@click.option("--processors", default=4, show_default=True)
@click.option("--rate", default=200, show_default=True, help="Orders a second.")
@click.option("--seed", type=int, help="Of the faults (default: drawn, and printed).")
@click.option("--bug", default="", help="Processors misbehave: rewind.")
def main(seed: int | None, **rest: object) -> None:
    """Processors that are killed, frozen and cut off, brokers that go and come, and what came of it."""
    options = Options(seed=random.randrange(1 << 30) if seed is None else seed, **rest)  # type: ignore[arg-type]
    click.echo(f"{options}")
    with rig(options.seed) as three:
        run = Run(three, options)
        result = run.run()
        for line in run.lines():
            click.echo(f"  {line}")
        found = violations(result)
        for text in found:
            click.echo(f"  BROKEN {text}")
        click.echo(f"  {'no rule was broken' if not found else f'what the processors said is in {run.directory}'}")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
