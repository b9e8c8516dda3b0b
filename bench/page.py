"""docs/BENCHMARKS.md and its charts, made from a run's figures: ``python -m bench page``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import click

from bench.adapters import Figures
from bench.charts import Panel, draw
from bench.environment import Environment
from bench.report import Rounds, spread
from bench.scenarios import (
    CPU,
    GROUPS,
    HEADLINE,
    HEADLINE_TITLES,
    LIMITS,
    NAMES,
    OURS,
    Group,
    Measure,
    Scenario,
)
from dev.version import ROOT

MEASURED = ROOT / "bench" / "measured.json"
PAGE = ROOT / "docs" / "BENCHMARKS.md"
CHARTS = "benchmarks"
HEAD = """# Benchmarks: measured

These charts and tables compare kafka_native with other Kafka clients in one run. `make bench`
measures, and `python -m bench page` writes this page. [The guide](guide/bench.md) describes each
scenario.

## How to read it

- All clients and the broker shared the same cores. The broker's work lowers every rate.
- CPU per message is the client's own time, user and system. It changes less than the rate from
  machine to machine.
- Each client ran in its own process. The clients took turns. Each figure is the median of
  {rounds} rounds, with the lowest and the highest in parentheses.
- `raw socket` is no client. It sends prebuilt requests or only counts fetched bytes. It shows the
  limit of the broker and the machine.
- librdkafka, Kafka's own client, franz-go, krafka and rdkafka ran without Python: they are programs
  in C, Java, Go and Rust.
- A client that is missing in a table has no such call, or no adapter for it here. A client that
  failed has a line that says why.

## Machine, versions and settings

"""


@dataclass(frozen=True)
class Results:
    """A run as `make bench` saves it."""

    environment: Environment
    scenarios: dict[str, Rounds]
    failed: dict[str, dict[str, str]]

    @classmethod
    def read(cls, path: Path) -> Results:
        found = json.loads(path.read_text(encoding="utf-8"))
        scenarios = {
            scenario: {name: [Figures(**each) for each in every] for name, every in rounds.items()}
            for scenario, rounds in found["scenarios"].items()
        }
        return cls(found["environment"], scenarios, found["failed"])


def ordered(rounds: Rounds) -> list[str]:
    """Return the clients: kafka_native, the others, then the limits."""
    known = [name for name in NAMES if name in rounds]
    return known + [name for name in rounds if name not in NAMES]


def title_of(client: str) -> str:
    return NAMES.get(client, client)


def middle(measure: Measure, figures: list[Figures]) -> float:
    return median(measure.of(each) for each in figures)


def page_of(results: Results) -> str:
    """Return the page in Markdown."""
    rounds = max(len(each) for found in results.scenarios.values() for each in found.values())
    parts = [HEAD.format(rounds=rounds), *facts(results.environment)]
    parts += ["\n## Where another client is better\n\n", *better(results)]
    for group in GROUPS:
        if shown := measured(group, results):
            parts += [f"\n## {group.title}\n"]
            if any(each.name in group.charted for each in shown):
                parts += [f"\n![{group.title}: bars for each client]({CHARTS}/{group.name}.svg)\n"]
            parts += [table_of(scenario, results) for scenario in shown]
    return "".join(parts)


def measured(group: Group, results: Results) -> list[Scenario]:
    return [each for each in group.scenarios if results.scenarios.get(each.name)]


def facts(environment: Environment) -> list[str]:
    titles = {"machine": "Machine", "versions": "Versions", "settings": "Settings"}
    lines = []
    for key, title in titles.items():
        found = ", ".join(f"{name} {value}" for name, value in environment[key].items())
        lines.append(f"- {title}: {found}\n")
    run = environment["run"]
    return [*lines, f"- Measured on {run['date']} by:\n\n```sh\n{run['command']}\n```\n"]


def better(results: Results) -> list[str]:
    """Return a line for each median of another client that is better than kafka_native's."""
    lines = []
    for group in GROUPS:
        for scenario in measured(group, results):
            rounds = results.scenarios[scenario.name]
            for name in ordered(rounds):
                if name == OURS or name in LIMITS or OURS not in rounds:
                    continue
                for measure in scenario.measures:
                    mine = middle(measure, rounds[OURS])
                    theirs = middle(measure, rounds[name])
                    if theirs > mine if measure.high_is_good else theirs < mine:
                        digits = f".{measure.digits}f"
                        lines.append(
                            f"- {scenario.title}: {title_of(name)} has {theirs:{digits}} "
                            f"{measure.title}, kafka_native {mine:{digits}}.\n"
                        )
    return lines or ["In no table below.\n"]


def table_of(scenario: Scenario, results: Results) -> str:
    rounds = results.scenarios[scenario.name]
    titles = [measure.title for measure in scenario.measures]
    lines = [f"| client | {' | '.join(titles)} |", f"|---|{'---:|' * len(titles)}"]
    for name in ordered(rounds):
        cells = [
            spread([measure.of(each) for each in rounds[name]], f".{measure.digits}f")
            for measure in scenario.measures
        ]
        lines.append(f"| {title_of(name)} | {' | '.join(cells)} |")
    for name, reason in results.failed.get(scenario.name, {}).items():
        lines.append(f"| {title_of(name)} | failed: {reason.replace('|', '/')} |")
    return f"\n### {scenario.title}\n\n" + "\n".join(lines) + "\n"


def panel(scenario: Scenario, measure: Measure, rounds: Rounds, title: str) -> Panel:
    clients = ordered(rounds)
    values = {name: middle(measure, rounds[name]) for name in clients}
    names = {name: title_of(name) for name in clients}
    return Panel(title, names, values, measure.digits)


def draw_group(group: Group, results: Results, folder: Path) -> None:
    rows = []
    for scenario in measured(group, results):
        if scenario.name in group.charted:
            rounds = results.scenarios[scenario.name]
            row = []
            for measure in scenario.measures[: group.measures]:
                sense = "longer" if measure.high_is_good else "shorter"
                title = f"{scenario.name}: {measure.title} ({sense} is better)"
                row.append(panel(scenario, measure, rounds, title))
            rows.append(row)
    if rows:
        draw(group.title, rows, folder / f"{group.name}.svg")


def draw_headline(results: Results, path: Path) -> None:
    """Draw the README's chart: CPU per message beside confluent_kafka."""
    row = []
    for name in HEADLINE:
        rounds = results.scenarios[name]
        two = {client: rounds[client] for client in (OURS, "confluent_kafka")}
        row.append(panel(Scenario(name, name), CPU, two, HEADLINE_TITLES[name]))
    draw("CPU for each message, in microseconds: shorter is better", [[each] for each in row], path)


@click.command()
@click.argument("results", default=MEASURED, type=click.Path(exists=True, path_type=Path))
@click.option("--page", default=PAGE, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--headline", is_flag=True, help="Also draw measured.svg, the README's chart.")
def main(results: Path, page: Path, *, headline: bool) -> None:
    """Write the page of measured comparisons and its charts from a run's RESULTS."""
    found = Results.read(results)
    folder = page.parent / CHARTS
    folder.mkdir(parents=True, exist_ok=True)
    for group in GROUPS:
        draw_group(group, found, folder)
    if headline:
        draw_headline(found, page.parent / "measured.svg")
    page.write_text(page_of(found), encoding="utf-8")
