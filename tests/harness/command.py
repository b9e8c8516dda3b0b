"""The common parts of the commands of fault runs: ``python -m tests.broker.WORKLOAD``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict
from typing import Any, TypeVar

import click

from tests.broker.cluster import NoBroker
from tests.harness.cluster_run import NAMESPACES, PROXIES, CheckedRun, FaultOptions, Rig
from tests.harness.reliability import record
from tests.harness.runs import report

R = TypeVar("R", bound=CheckedRun)


def run_options(bugs: Iterable[str], who: str) -> Callable[[Callable[..., None]], Any]:
    """Return a decorator with the options that each command has. ``who`` has the bugs."""
    options = (
        click.option("--seconds", default=600.0, show_default=True, help="With faults."),
        click.option("--seed", type=int, help="Of the faults (default: drawn, and printed)."),
        click.option(
            "--network",
            default=PROXIES,
            show_default=True,
            type=click.Choice([PROXIES, NAMESPACES]),
            help="What makes the faults of connections. Namespaces need root and nftables.",
        ),
        click.option("--bug", default="", type=click.Choice(["", *bugs]), help=f"{who} misbehave."),
        click.option(
            "--record", "recorded", is_flag=True, help="Add the run to bench/reliability."
        ),
    )

    def decorate(function: Callable[..., None]) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def make_run(
    workload: str,
    rig: Callable[[int, str], AbstractContextManager[Rig]],
    make: Callable[[Rig, Any], R],
    violations: Callable[[Any], list[str]],
    options: FaultOptions,
    *,
    recorded: bool,
) -> tuple[R, bool]:
    """Make a run, report it, and record it if that is wanted.

    Return the run, and whether a rule was broken.
    """
    click.echo(f"{options}")
    with ExitStack() as stack:
        try:
            three = stack.enter_context(rig(options.seed, options.network))
        except NoBroker as reason:
            raise click.ClickException(f"no run is possible here: {reason}") from reason
        run = make(three, options)
        broken = violations(run.run())
    report(run.lines(), broken, run.directory)
    if recorded:
        count, figures = run.records(), run.figures()
        record(workload, asdict(options), run.seconds, run.faults, count, broken, figures)
    return run, bool(broken)
