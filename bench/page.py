"""docs/BENCHMARKS.md and its charts, made from a run's figures: ``python -m bench page``."""

from __future__ import annotations

import shutil
from pathlib import Path
from statistics import median

import click

from bench.adapters import Figures
from bench.charts import Lines, Panel, draw, draw_lines
from bench.environment import Environment
from bench.model import Cluster, Host, Load, Model, errors, models_of
from bench.report import Rounds, figure, spread
from bench.saved import MEASURED, Results, add_spark
from bench.scenarios import (
    CPU,
    GROUPS,
    HEADLINE,
    HEADLINE_TITLES,
    LIMITS,
    NAMES,
    OURS,
    PUBLISHED,
    RATE,
    Curve,
    Group,
    Measure,
    Scenario,
)
from bench.spark import CONTESTANTS, TRIGGERING
from bench.spark.report import TRIGGER
from dev.version import ROOT

PAGE = ROOT / "docs" / "BENCHMARKS.md"
CHARTS = "benchmarks"
HEAD = """# Benchmarks: measured

These charts and tables compare kafka_native with other Kafka clients in one run. `make bench`
measures and writes this page. [The guide](guide/bench.md) describes each
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
- `broker CPU` is the CPU time of the broker while the client's process ran, with the client's
  warm-up. Bytes on the wire are those of the loopback interface, in both directions.
- [Typed data](TYPED-DATA-BENCHMARKS.md) has the decoders of Avro, Protobuf and JSON.
"""
HOST = Host(cores=32, gigabits=25)
CLUSTERS = (Cluster(HOST), Cluster(HOST, 50, 50), Cluster(HOST, 50, 50, replicas=3))
LOADS = (Load(100, 1), Load(100, 1_000), Load(1_000, 1_000), Load(100, 1_000, batch=100))
SPARK = """
## On Spark

Million rows a second and CPU microseconds a row, the median of the rounds with the lowest and the
highest rate. Triggers: milliseconds of each. [The guide](guide/bench.md#on-spark) describes the
scenarios. `jvm` is Spark's own connector.

| scenario | jvm | frames | direct |
|---|---:|---:|---:|
"""
MODEL_COSTS = """
## On paper: other machines

The costs of a message, fitted to the scenarios of kafka_native above: CPU in microseconds of the
client and of the broker, and bytes on the wire. `bench/model.py` has the formulas.

| cost | of a message | of a byte | of a batch | of a partition |
|---|---:|---:|---:|---:|
"""
MODEL_CHECKS = """
The rate is that of the resource that is used up first. On this machine the client and the broker
share the cores. The errors of the prediction:

| scenario | rate | client's CPU | broker's CPU |
|---|---:|---:|---:|
"""
MODEL_RATES = """
Hosts of 32 cores with 25 Gb/s in each direction, in million messages a second. Each host has as
many client processes as its cores can run. Nothing of this table is measured. The model has no
limits of disks, of a single partition's leader, or of the packet headers of a real network.

| load | one host with clients, one with a broker | 50 and 50 | 50 and 50, three replicas |
|---|---:|---:|---:|
"""
INTRODUCTION = """
500,000 messages of 100 bytes, as in
[librdkafka's introduction](https://github.com/confluentinc/librdkafka/blob/master/INTRODUCTION.md).
Its tests ran on a quad-core i7 at 3.4 GHz with older brokers. Their acks=2 is acks=all here.

"""


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
    parts = [HEAD.format(rounds=rounds), *at_a_glance(results)]
    parts += ["\n## Machine, versions and settings\n\n", *facts(results.environment)]
    parts += ["\n## Where another client is better\n\n", *better(results)]
    for group in GROUPS:
        if shown := measured(group, results):
            parts += [f"\n## {group.title}\n"]
            if any(each.name in group.charted for each in shown):
                parts += [f"\n![{group.title}: bars for each client]({CHARTS}/{group.name}.svg)\n"]
            if drawn(group, results):
                chart = f"{CHARTS}/{group.name}-lines.svg"
                parts += [f"\n![{group.title}: a line for each client]({chart})\n"]
            parts += published(shown, results)
            parts += [table_of(scenario, results) for scenario in shown]
    return "".join([*parts, *on_spark(results), *on_paper(results), *lacking(results)])


def on_spark(results: Results) -> list[str]:
    """Return a table of the scenarios on Spark: a row each, a column for each contestant."""
    lines = []
    for scenario, rounds in results.spark.items():
        cells = [f"`{scenario}`"]
        for name in CONTESTANTS:
            figures = rounds.get(name, [])
            if not figures:
                cells.append("-")
            elif scenario in TRIGGERING:
                cells.append(f"{spread([figure(TRIGGER, each) for each in figures], ',.0f')} ms")
            else:
                rate = spread([each.rate / 1e6 for each in figures], ".2f")
                cells.append(f"{rate}, {middle(CPU, figures):.2f} us")
        lines.append(f"| {' | '.join(cells)} |\n")
    return [SPARK, *lines] if lines else []


def on_paper(results: Results) -> list[str]:
    """Return the section of the model: its costs, its predictions, and its errors here."""
    models = models_of(results)
    if not models:
        return []
    cores = int(results.environment["machine"]["cores"])
    costs, checks, rates = [], [], []
    for base, (model, cases) in models.items():
        costs += [
            f"| {base}: {name} | {' | '.join(f'{part:.4g}' for part in parts)} |\n"
            for name, parts in model.parts.items()
        ]
        checks += [
            f"| {scenario} | {off.rate:+.0%} | {off.client:+.0%} | {off.broker:+.0%} |\n"
            for scenario, off in errors(model, cases, cores).items()
        ]
        rates += [predicted(model, load) for load in LOADS]
    return [MODEL_COSTS, *costs, MODEL_CHECKS, *checks, MODEL_RATES, *rates]


def predicted(model: Model, load: Load) -> str:
    """Return a row: the rates of the clusters, with the resource that limits each."""
    cells = []
    for cluster in CLUSTERS:
        found = model.predict(load, cluster)
        cells.append(f"{found.rate / 1e6:,.1f} ({found.limit})")
    what = f"{load.size:,} bytes, partitions: {load.partitions:,}"
    if load.batch:
        what += f", {load.batch:,} messages a batch"
    return f"| {model.base}: {what} | {' | '.join(cells)} |\n"


def at_a_glance(results: Results) -> list[str]:
    """Return a table of each chart's first figure beside the best of the other clients."""
    rows = []
    for group in GROUPS:
        for scenario in measured(group, results):
            rounds = results.scenarios[scenario.name]
            peers = [name for name in rounds if name != OURS and name not in LIMITS]
            if scenario.name not in group.charted or OURS not in rounds or not peers:
                continue
            measure = scenario.measures[0]
            best = max if measure.high_is_good else min
            peer = best(peers, key=lambda name: middle(measure, rounds[name]))
            mine, theirs = middle(measure, rounds[OURS]), middle(measure, rounds[peer])
            rows.append(
                f"| {group.title}: {scenario.name} | {measure.title} | {mine:{measure.form}} | "
                f"{theirs:{measure.form}} ({title_of(peer)}) |\n"
            )
    if not rows:
        return []
    head = "| scenario | figure | kafka_native | the best of the others |\n|---|---|---:|---:|\n"
    return ["\n## At a glance\n\n", head, *rows]


def published(shown: list[Scenario], results: Results) -> list[str]:
    """Return a table of the rates that librdkafka has published, beside those of this run."""
    tests = [each for each in shown if each.name in PUBLISHED]
    clients = [
        name
        for name in NAMES
        if name not in LIMITS and any(name in results.scenarios[each.name] for each in tests)
    ]
    if not tests:
        return []
    heads = ["librdkafka, as published", *(f"{title_of(name)}, here" for name in clients)]
    lines = [f"| messages/s | {' | '.join(heads)} |", f"|---|{'---:|' * len(heads)}"]
    for test in tests:
        rounds = results.scenarios[test.name]
        cells = [f"{PUBLISHED[test.name]:,}"]
        for name in clients:
            rate = middle(RATE, rounds[name]) / RATE.scale if name in rounds else None
            cells.append("-" if rate is None else f"{round(rate, -4):,.0f}")
        lines.append(f"| {test.title} | {' | '.join(cells)} |")
    return [INTRODUCTION, "\n".join(lines), "\n"]


def lacking(results: Results) -> list[str]:
    """Return which scenarios each client didn't run, with the reasons."""
    scenarios: dict[tuple[str, str], list[str]] = {}
    for scenario in (each.name for group in GROUPS for each in group.scenarios):
        for name, reason in results.without.get(scenario, {}).items():
            scenarios.setdefault((name, reason), []).append(f"`{scenario}`")
    lines = [
        f"- {title_of(name)}: {reason}: {', '.join(found)}.\n"
        for (name, reason), found in sorted(scenarios.items())
    ]
    return ["\n## What each client did not run\n\n", *lines] if lines else []


def measured(group: Group, results: Results) -> list[Scenario]:
    return [each for each in group.scenarios if results.scenarios.get(each.name)]


def facts(environment: Environment) -> list[str]:
    titles = {"machine": "Machine", "versions": "Versions", "settings": "Settings"}
    lines = []
    for key, title in titles.items():
        found = ", ".join(
            f"{name} {' and '.join(value.splitlines())}" for name, value in environment[key].items()
        )
        lines.append(f"- {title}: {found}\n")
    run = environment["run"]
    return [
        *lines,
        f"- Measured on {' and '.join(run['date'].splitlines())} by:\n\n",
        f"```sh\n{run['command']}\n```\n",
    ]


def better(results: Results) -> list[str]:
    """Return a line for each figure whose median, as shown, is better for another client."""
    lines = []
    for group in GROUPS:
        for scenario in measured(group, results):
            rounds = results.scenarios[scenario.name]
            peers = [name for name in ordered(rounds) if name != OURS and name not in LIMITS]
            for measure in columns(scenario, rounds) if OURS in rounds else []:
                found = {
                    name: round(middle(measure, rounds[name]), measure.digits)
                    for name in (OURS, *peers)
                }
                mine = found.pop(OURS)
                ahead = [
                    f"{title_of(name)} {theirs:{measure.form}}"
                    for name, theirs in found.items()
                    if (theirs > mine if measure.high_is_good else theirs < mine)
                ]
                if ahead:
                    lines.append(
                        f"- {scenario.title}, {measure.title}: {', '.join(ahead)}; "
                        f"kafka_native {mine:{measure.form}}.\n"
                    )
    return lines or ["In no table below.\n"]


def table_of(scenario: Scenario, results: Results) -> str:
    rounds = results.scenarios[scenario.name]
    measures = columns(scenario, rounds)
    titles = [measure.title for measure in measures]
    lines = [f"| client | {' | '.join(titles)} |", f"|---|{'---:|' * len(titles)}"]
    for name in ordered(rounds):
        cells = [
            spread([measure.of(each) for each in rounds[name]], measure.form)
            for measure in measures
        ]
        lines.append(f"| {title_of(name)} | {' | '.join(cells)} |")
    for name, reason in results.failed.get(scenario.name, {}).items():
        lines.append(f"| {title_of(name)} | failed: {reason.replace('|', '/')} |")
    return f"\n### {scenario.title}\n\n" + "\n".join(lines) + "\n"


def columns(scenario: Scenario, rounds: Rounds) -> list[Measure]:
    """Return the measures of a scenario without those that this run doesn't have."""
    return [
        measure
        for measure in scenario.measures
        if any(measure.of(each) for every in rounds.values() for each in every)
    ]


def drawn(group: Group, results: Results) -> list[Lines]:
    """Return the panels of lines that have at least two points."""
    panels = []
    for curve in group.curves:
        points = {
            name: found for name in NAMES if len(found := points_of(curve, name, results)) > 1
        }
        if points:
            title = f"{curve.title}: {curve.measure.title} (higher is better)"
            panels.append(
                Lines(title, curve.axis, {name: title_of(name) for name in points}, points)
            )
    return panels


def points_of(curve: Curve, name: str, results: Results) -> list[tuple[float, float]]:
    """Return a client's medians over the numbers of a curve."""
    found = []
    for number, scenario in curve.points.items():
        if figures := results.scenarios.get(scenario, {}).get(name):
            factor = number if curve.times_axis else 1.0
            found.append((float(number), middle(curve.measure, figures) * factor))
    return found


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
            charted = [each for each in columns(scenario, rounds) if each.charted]
            for measure in charted[: group.measures]:
                sense = "longer" if measure.high_is_good else "shorter"
                title = f"{scenario.name}: {measure.title} ({sense} is better)"
                row.append(panel(scenario, measure, rounds, title))
            rows.append(row)
    if lines := drawn(group, results):
        draw_lines(group.title, lines, folder / f"{group.name}-lines.svg")
    if rows:
        draw(group.title, rows, folder / f"{group.name}.svg")


def draw_headline(results: Results, path: Path) -> None:
    """Draw the README's chart: CPU per message beside confluent_kafka."""
    row = []
    for name in HEADLINE:
        rounds = results.scenarios.get(name, {})
        two = {client: rounds[client] for client in (OURS, "confluent_kafka") if client in rounds}
        if len(two) == 2:  # both ran
            row.append(panel(Scenario(name, name), CPU, two, HEADLINE_TITLES[name]))
    if row:
        title = "CPU for each message, in microseconds: shorter is better"
        draw(title, [[each] for each in row], path)


def write_page(results: Results, page: Path, *, headline: bool) -> None:
    """Write the page of a run and, in a folder beside it, its charts."""
    folder = page.parent / CHARTS
    folder.mkdir(parents=True, exist_ok=True)
    for group in GROUPS:
        draw_group(group, results, folder)
    if headline:
        draw_headline(results, page.parent / "measured.svg")
    page.write_text(page_of(results), encoding="utf-8")


def publish(path: Path, *, whole: bool) -> Path:
    """Write the page of a run beside its results, or, if it is whole, the project's page."""
    if whole:
        shutil.copyfile(path, MEASURED)
    page = PAGE if whole else path.parent / PAGE.name
    write_page(Results.read(path), page, headline=whole)
    return page


@click.command()
@click.argument("results", default=MEASURED, type=click.Path(exists=True, path_type=Path))
@click.option("--page", default=PAGE, type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--spark",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="First put these results of `python -m bench spark` into RESULTS.",
)
@click.option("--headline", is_flag=True, help="Also draw measured.svg, the README's chart.")
def main(results: Path, page: Path, spark: Path | None, *, headline: bool) -> None:
    """Write the page of measured comparisons and its charts from a run's RESULTS."""
    if spark is not None:
        add_spark(results, spark)
    write_page(Results.read(results), page, headline=headline)
