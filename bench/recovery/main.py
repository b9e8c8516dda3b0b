"""``python -m bench recovery``: the recovery times of several clients in the same outages."""

from __future__ import annotations

import time

import click

from bench.recovery.clients import COMMANDS, missing, versions
from bench.recovery.outages import Outage, Times, rig
from bench.reliability_page import OURS, OUTAGES
from dev.version import read_commit
from tests.broker.cluster import NoBroker
from tests.harness.reliability import record
from tests.harness.runs import drawn


@click.command()
@click.argument("outages", nargs=-1, type=click.Choice(list(OUTAGES)))
@click.option("--times", default=5, show_default=True, help="Outages of each kind.")
@click.option("--clients", default=",".join(COMMANDS), show_default=True)
@click.option("--hole", "hole_s", default=60.0, show_default=True, help="Seconds of a black hole.")
@click.option("--limit", "limit_s", default=120.0, show_default=True, help="Seconds to recover.")
@click.option("--seed", type=int, help="Of the brokers that are killed (default: drawn).")
@click.option("--record", "recorded", is_flag=True, help="Add the outages to bench/reliability.")
def main(
    outages: tuple[str, ...],
    times: int,
    clients: str,
    hole_s: float,
    limit_s: float,
    seed: int | None,
    recorded: bool,
) -> None:
    """Measure how long clients need after a fault, on three brokers of our own.

    Run it on a machine without other work. Every client works at the same time.
    """
    names = usable(clients.split(","))
    first_seed, commit = drawn(seed), read_commit()
    try:
        with rig() as brokers:
            for kind in outages or OUTAGES:
                for number in range(times):
                    each = Outage(kind, brokers, names, first_seed + number, hole_s, limit_s)
                    began = time.monotonic()
                    found = each.run()
                    show(f"{OUTAGES[kind]}, {number + 1} of {times}", each, found)
                    if recorded:
                        seconds = time.monotonic() - began
                        record_outage(each, found, seconds, first_seed, commit)
    except NoBroker as reason:
        raise click.ClickException(f"no Apache Kafka: {reason}") from reason


def usable(clients: list[str]) -> list[str]:
    """Return the clients that can run here. The reason for each other one is printed."""
    reasons = {client: missing(client) for client in clients}
    for client, reason in reasons.items():
        if reason:
            click.echo(f"Without {client}: {reason}")
    return [client for client, reason in reasons.items() if not reason]


def show(title: str, outage: Outage, found: Times) -> None:
    """Print the times of an outage."""
    click.echo(f"{title}:")
    for client, values in found.items():
        texts = [
            f"{name} {'none' if value is None else f'{value:.2f}'}"
            for name, value in values.items()
        ]
        click.echo(f"  {client}: {', '.join(texts)}")
    for client, count in outage.failed.items():
        if count:
            click.echo(f"  {client}: {count} messages failed, see {outage.directory}")


def record_outage(outage: Outage, found: Times, seconds: float, run: int, commit: str) -> None:
    """Add an outage to bench/reliability. It is broken if our client hasn't recovered.

    ``run``: the first seed, which all outages of a run have.
    """
    options = {
        "run": run,
        "seed": outage.seed,
        "outage": outage.kind,
        "limit_s": outage.limit_s,
        **({"hole_s": outage.hole_s} if outage.kind == "black_hole" else {}),
    }
    rounded = {
        client: {name: None if value is None else round(value, 3) for name, value in each.items()}
        for client, each in found.items()
    }
    figures = {"seconds": rounded, "failed": outage.failed, "versions": versions(commit)}
    broken = [f"no {name}" for name, value in found.get(OURS, {}).items() if value is None]
    acked = sum(outage.acked.values())
    record("recovery", options, seconds, {outage.kind: 1}, acked, broken, figures, commit=commit)
