"""The tables of the Spark scenarios, and the project's goals next to the figures."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from rich.table import Table

from bench.adapters import Figures
from bench.report import Rounds, figure, ratio, spread, table_of, verdict
from bench.spark import TRIGGERING

THEIRS = "jvm"
TRIGGER = "triggerExecution ms"


@dataclass(frozen=True)
class Goal:
    """A limit for the ratio of a contestant's figure to the connector's in the same round."""

    scenario: str
    contestant: str
    figure: str
    limit: float
    at_least: bool = True


GOALS = (
    Goal("read", "frames", "rate", 2.5),
    Goal("read", "frames", "CPU", 0.65, at_least=False),
    Goal("parquet", "frames", "rate", 1.5),
    Goal("json", "frames", "CPU", 0.3, at_least=False),
    Goal("avro", "frames", "CPU", 0.55, at_least=False),
    Goal("write", "frames", "rate", 1.6),
    Goal("tuned", "frames", "rate", 1.6),
    Goal("stream", "frames", "rate", 1.4),
    Goal("archive", "direct", "rate", 5),
    Goal("archive_avro", "direct", "rate", 4),
    Goal("archive_json", "direct", "rate", 6),
    Goal("mirror", "direct", "rate", 6),
    Goal("trigger", "frames", TRIGGER, 1.4, at_least=False),
    Goal("to_kafka", "frames", TRIGGER, 1.4, at_least=False),
)


def table(scenario: str, rounds: Rounds, title: str) -> Table:
    """Make the table: a row for each contestant with median, lowest and highest value."""
    triggering = scenario in TRIGGERING
    parts = (
        [name for each in next(iter(rounds.values()))[:1] for name in each.more]
        if triggering
        else []
    )
    headings = (
        [*(part.removesuffix("Execution ms") for part in parts), "trigger / jvm"]
        if triggering
        else ["M rows/s", "CPU us/row", "rate / jvm", "CPU / jvm"]
    )
    rows = {name: cells(parts, figures, rounds.get(THEIRS)) for name, figures in rounds.items()}
    return table_of(title, "contestant", headings, rows)


def cells(parts: list[str], figures: list[Figures], theirs: list[Figures] | None) -> list[str]:
    """The cells of a row after the contestant's name."""
    if parts:
        shown = [spread([figure(part, each) for each in figures], ".0f") for part in parts]
        return [*shown, connector_ratio(TRIGGER, figures, theirs)]
    return [
        spread([each.rate / 1e6 for each in figures], ".2f"),
        spread([each.cpu_us for each in figures], ".2f"),
        connector_ratio("rate", figures, theirs),
        connector_ratio("CPU", figures, theirs),
    ]


def connector_ratio(name: str, figures: list[Figures], theirs: list[Figures] | None) -> str:
    """The median of the ratios to the connector's figures, by round."""
    if not theirs:
        return "-"
    return ratio([figure(name, each) for each in figures], [figure(name, each) for each in theirs])


def verdicts(scenario: str, rounds: Rounds) -> list[str]:
    """Compare each goal with the figures of this run. A missed goal isn't a failure."""
    lines = []
    for goal in GOALS:
        if goal.scenario != scenario or not {goal.contestant, THEIRS} <= rounds.keys():
            continue
        pairs = zip(rounds[goal.contestant], rounds[THEIRS], strict=True)
        value = median(
            figure(goal.figure, mine) / figure(goal.figure, theirs) for mine, theirs in pairs
        )
        what = f"{goal.contestant}: {goal.figure} / {THEIRS}"
        lines.append(verdict(what, value, goal.limit, at_least=goal.at_least))
    return lines
