"""The common parts of the commands of fault runs: ``python -m tests.broker.WORKLOAD``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

import click

from tests.harness.cluster_run import FaultOptions
from tests.harness.reliability import record
from tests.harness.runs import report


class Finished(Protocol):
    """A run that is over."""

    directory: Path
    seconds: float

    @property
    def faults(self) -> Mapping[str, int]:
        """How often each fault was made."""

    def lines(self) -> list[str]:
        """Return the figures of the run, as text."""

    def records(self) -> int:
        """Return the number of records whose fate was checked."""

    def figures(self) -> Mapping[str, Any]:
        """Return what else is recorded."""


def run_options(bugs: Iterable[str], who: str) -> Callable[[Callable[..., None]], Any]:
    """Return a decorator with the options that each command has. ``who`` has the bugs."""
    options = (
        click.option("--seconds", default=600.0, show_default=True, help="With faults."),
        click.option("--seed", type=int, help="Of the faults (default: drawn, and printed)."),
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


def finish(
    workload: str, run: Finished, options: FaultOptions, broken: list[str], *, recorded: bool
) -> bool:
    """Report a run, record it if that is wanted, and return whether a rule was broken."""
    report(run.lines(), broken, run.directory)
    if recorded:
        count, figures = run.records(), run.figures()
        record(workload, asdict(options), run.seconds, run.faults, count, broken, figures)
    return bool(broken)
