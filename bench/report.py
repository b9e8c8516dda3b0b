"""Tables of medians, ranges, and ratios within each round; the project's goals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from statistics import median

from rich.console import Console
from rich.table import Table

from bench.adapters import LATENCIES, Figures
from bench.variants import base_of

Rounds = dict[str, list[Figures]]


@dataclass(frozen=True)
class Goal:
    """A goal of kafka_native: a limit for a figure, or for its ratio to another client.

    ``than``: an adapter, BEST for the best of the other clients, or None. ``plus``: the limit is
    for the difference, not for the ratio. Both figures are of the same round.
    """

    scenario: str
    figure: str
    than: str | None
    limit: float
    at_least: bool = False
    plus: bool = False


BEST = "the best peer"
# The scenarios with special figures, and the figures with a column in the table.
MORE = {
    "memory": ["grown MiB"],
    "cold": ["first ms"],
    "imports": ["import CPU ms", "installed MiB"],
    "wide": ["CPU / one partition's", "idle CPU %"],
    "spread": ["CPU / one partition's"],
}
ALONE = ("cold", "imports")  # their rate and CPU mean nothing
QUEUE_MIB = 64  # the default of queued.max.messages.kbytes

GOALS = (
    Goal("produce", "rate", "raw", 0.85, at_least=True),
    Goal("produce", "rate", "librdkafka", 2, at_least=True),
    Goal("produce", "rate", "franz_go", 2, at_least=True),
    Goal("produce", "CPU", "confluent_kafka", 0.2),
    Goal("produce", "CPU", "franz_go", 0.333),
    Goal("many", "rate", "raw", 0.95, at_least=True),
    Goal("many", "CPU", "raw", 2),
    Goal("produce_arrow", "rate", "raw", 0.95, at_least=True),
    Goal("callback", "rate", "confluent_kafka", 5, at_least=True),
    Goal("spread", "CPU / one partition's", None, 1.5),
    Goal("consume", "rate", "confluent_kafka", 12, at_least=True),
    Goal("consume", "rate", "franz_go", 3.5, at_least=True),
    Goal("consume", "CPU", "confluent_kafka", 0.1),
    Goal("consume", "CPU", "raw", 2.2),
    Goal("group", "rate", "confluent_kafka", 12, at_least=True),
    Goal("group", "rate", "franz_go", 3.5, at_least=True),
    Goal("group", "CPU", "confluent_kafka", 0.1),
    Goal("poll", "rate", "confluent_kafka", 6, at_least=True),
    Goal("iterate", "rate", "confluent_kafka", 6, at_least=True),
    Goal("arrow", "rate", "franz_go", 4, at_least=True),
    Goal("arrow", "rate", "raw", 0.8, at_least=True),
    Goal("arrow", "rate", "confluent_kafka", 20, at_least=True),
    Goal("arrow", "CPU", None, 0.08),
    Goal("arrow", "CPU", "raw", 1.8),
    Goal("aio_produce", "rate", "aiokafka", 5, at_least=True),
    Goal("aio_produce", "rate", "confluent_kafka", 5, at_least=True),
    Goal("aio_poll", "rate", "aiokafka", 4, at_least=True),
    Goal("aio_poll", "rate", "confluent_kafka", 100, at_least=True),
    Goal("memory", "grown MiB", None, QUEUE_MIB + 64),
    Goal("end_to_end", "p50", BEST, 1),
    Goal("end_to_end", "p99", BEST, 1),
    Goal("cold", "first ms", "raw", 50, plus=True),
    Goal("wide", "idle CPU %", None, 2),
    Goal("wide", "CPU / one partition's", None, 1.5),
    Goal("tls_produce", "rate", "plaintext", 0.7, at_least=True),
    Goal("tls_produce", "rate", "raw", 0.9, at_least=True),
    Goal("tls_produce", "rate", "confluent_kafka", 3, at_least=True),
    Goal("tls_consume", "rate", "plaintext", 0.7, at_least=True),
    Goal("tls_consume", "rate", "raw", 0.9, at_least=True),
    Goal("tls_consume", "rate", "confluent_kafka", 3, at_least=True),
    Goal("latency", "p50", "raw", 1.1),
    Goal("latency", "p99", BEST, 1),
    Goal("call", "ns a call", None, 200),
    Goal("transaction", "p50", BEST, 1.2),
    Goal("transaction", "empty p50 ms", BEST, 1.2),
    Goal("copy", "rate", "confluent_kafka", 5, at_least=True),
)


def figure(name: str, figures: Figures) -> float:
    """A figure by the name that goals use."""
    if name in figures.percentiles:
        return figures.percentiles[name]
    if name in figures.more:
        return figures.more[name]
    return {
        "rate": figures.rate,
        "CPU": figures.cpu_us,
        "broker CPU": figures.broker_cpu_us,
        "wire bytes": figures.wire_bytes / figures.count,
        "peak MiB": figures.peak_mib,
        "seconds": figures.seconds,
        "ns a call": figures.call_ns,
    }[name]


def spread(values: list[float], form: str) -> str:
    """Format values as median (lowest-highest)."""
    return f"{median(values):{form}} ({min(values):{form}}-{max(values):{form}})"


def ratio(mine: list[float], theirs: list[float]) -> str:
    """The median of the ratios of each round."""
    return f"{median(a / b for a, b in zip(mine, theirs, strict=True)):.2f}"


def verdicts(scenario: str, rounds: Rounds, goals: tuple[Goal, ...] = GOALS) -> list[str]:
    """Compare each goal with kafka_native's figure of this run. A missed goal isn't a failure."""
    lines = []
    for goal in goals:
        if goal.scenario != scenario or "kafka_native" not in rounds:
            continue
        theirs = others(goal, rounds)
        if theirs is None:
            continue
        mine = [figure(goal.figure, each) for each in rounds["kafka_native"]]
        value = median(a - b if goal.plus else a / b for a, b in zip(mine, theirs, strict=True))
        sign = "-" if goal.plus else "/"
        what = f"{goal.figure} {sign} {goal.than}" if goal.than else goal.figure
        lines.append(verdict(what, value, goal.limit, at_least=goal.at_least))
    return lines


def verdict(what: str, value: float, limit: float, *, at_least: bool) -> str:
    """A line about one goal."""
    word = "at least" if at_least else "at most"
    met = value >= limit if at_least else value <= limit
    return f"{what}: {value:.2f}, target {word} {limit:g}: {'reached' if met else 'not reached'}"


def show(console: Console, made: Table, lines: list[str], rounds: Rounds) -> dict[str, object]:
    """Print a table with the verdicts below it. Returns the figures in the form of JSON."""
    console.print(made)
    for line in lines:
        console.print(f"  {line}", highlight=False)
    return {name: [asdict(each) for each in every] for name, every in rounds.items()}


def table_of(title: str, first: str, headings: list[str], rows: dict[str, list[str]]) -> Table:
    """Make a table with a name and its cells in each row. ``first``: the heading of the names."""
    made = Table(title=title)
    made.add_column(first)
    for heading in headings:
        made.add_column(heading, justify="right")
    for name, cells in rows.items():
        made.add_row(name, *cells)
    return made


def others(goal: Goal, rounds: Rounds) -> list[float] | None:
    """The figures that a goal compares with, by round; None if they weren't measured."""
    if goal.than is None:
        return [1.0] * len(rounds["kafka_native"])
    if goal.than != BEST:
        return (
            [figure(goal.figure, each) for each in rounds[goal.than]]
            if goal.than in rounds
            else None
        )
    peers = [every for name, every in rounds.items() if name not in ("kafka_native", "raw")]
    best = max if goal.at_least else min
    return (
        [best(figure(goal.figure, each) for each in one) for one in zip(*peers, strict=True)]
        if peers
        else None
    )


def table(
    scenario: str, rounds: Rounds, count: int, failed: Mapping[str, str] | None = None
) -> Table:
    """Make the table: one row for each adapter, and one for each that failed."""
    base = base_of(scenario)
    headings = {
        **{name: ["p50 ms", "p99 ms", "p99.9 ms", "CPU us/msg"] for name in LATENCIES},
        "call": ["ns a call", "/ confluent"],
        **{name: ["M msg/s", "CPU us/msg", *figures] for name, figures in MORE.items()},
        **{name: MORE[name] for name in ALONE},
    }.get(base, ["M msg/s", "CPU us/msg", "rate / raw", "rate / confluent", "CPU / confluent"])
    rows = {adapter: row(base, figures, rounds) for adapter, figures in rounds.items()}
    rows |= {adapter: [f"failed: {reason}"] for adapter, reason in (failed or {}).items()}
    return table_of(f"{scenario}: {count:,} messages", "client", headings, rows)


def row(scenario: str, figures: list[Figures], rounds: Rounds) -> list[str]:
    """The cells of a row after the adapter's name."""
    theirs, raw = rounds.get("confluent_kafka"), rounds.get("raw")
    cpu = spread([each.cpu_us for each in figures], ".2f")
    if scenario in LATENCIES:
        return [
            *(
                spread([each.percentiles[name] for each in figures], ".2f")
                for name in ("p50", "p99", "p99.9")
            ),
            cpu,
        ]
    if scenario == "call":
        calls = [each.call_ns for each in figures]
        return [
            spread(calls, ".0f"),
            ratio(calls, [each.call_ns for each in theirs]) if theirs else "-",
        ]
    rates = [each.rate for each in figures]
    if scenario in MORE:
        more = [spread([each.more[name] for each in figures], ".2f") for name in MORE[scenario]]
        return (
            more
            if scenario in ALONE
            else [spread([rate / 1e6 for rate in rates], ".2f"), cpu, *more]
        )
    return [
        spread([rate / 1e6 for rate in rates], ".2f"),
        spread([each.cpu_us for each in figures], ".3f"),
        ratio(rates, [each.rate for each in raw]) if raw else "-",
        ratio(rates, [each.rate for each in theirs]) if theirs else "-",
        ratio([each.cpu_us for each in figures], [each.cpu_us for each in theirs])
        if theirs
        else "-",
    ]
