"""Medians, spreads, and ratios within each round."""

from __future__ import annotations

from statistics import median

from rich.table import Table

from bench.adapters import Figures

Rounds = dict[str, list[Figures]]

TARGETS = {
    "produce": "reach: 75 % of raw, at most a quarter of confluent_kafka's CPU",
    "many": "reach: 95 % of raw",
    "callback": "reach: 5 times confluent_kafka's rate",
    "consume": "reach: 10 times confluent_kafka's rate at a tenth of its CPU",
    "call": "reach: at most 200 ns a call",
    "latency": "for orientation",
}


def spread(values: list[float], form: str) -> str:
    """Median (lowest-highest)."""
    return f"{median(values):{form}} ({min(values):{form}}-{max(values):{form}})"


def ratio(mine: list[float], theirs: list[float]) -> str:
    """The median of the ratios, round by round."""
    return f"{median(a / b for a, b in zip(mine, theirs, strict=True)):.2f}"


def verdicts(scenario: str, rounds: Rounds) -> list[str]:
    """Each target of the project beside what kafka_native had in this run; text only, a miss is no failure."""
    mine, theirs, raw = (rounds.get(name) for name in ("kafka_native", "confluent_kafka", "raw"))
    lines = []

    def judge(what: str, value: float, limit: float, *, at_least: bool) -> None:
        met = value >= limit if at_least else value <= limit
        word = "at least" if at_least else "at most"
        lines.append(f"{what}: {value:.2f}, target {word} {limit:g}: {'reached' if met else 'not reached'}")

    def middle(name: str, other: list[Figures]) -> float:
        return float(median(getattr(a, name) / getattr(b, name) for a, b in zip(mine or [], other, strict=True)))

    if not mine:
        return lines
    if scenario == "call":
        judge("ns a call", median(each.call_ns for each in mine), 200, at_least=False)
    if scenario == "produce" and raw:
        judge("rate / raw", middle("rate", raw), 0.75, at_least=True)
    if scenario == "produce" and theirs:
        judge("CPU / confluent_kafka", middle("cpu_us", theirs), 0.25, at_least=False)
    if scenario == "many" and raw:
        judge("rate / raw", middle("rate", raw), 0.95, at_least=True)
    if scenario == "callback" and theirs:
        judge("rate / confluent_kafka", middle("rate", theirs), 5, at_least=True)
    if scenario == "consume" and theirs:
        judge("rate / confluent_kafka", middle("rate", theirs), 10, at_least=True)
        judge("CPU / confluent_kafka", middle("cpu_us", theirs), 0.1, at_least=False)
    return lines


def table(scenario: str, rounds: Rounds, count: int) -> Table:
    """A row an adapter."""
    made = Table(title=f"{scenario}: {count:,} messages, {TARGETS[scenario]}")
    made.add_column("client")
    headings = {
        "latency": ["p50 ms", "p99 ms", "p99.9 ms", "CPU us/msg"],
        "call": ["ns a call", "/ confluent"],
    }.get(scenario, ["M msg/s", "CPU us/msg", "rate / raw", "rate / confluent", "CPU / confluent"])
    for heading in headings:
        made.add_column(heading, justify="right")
    for adapter, figures in rounds.items():
        made.add_row(adapter, *row(scenario, figures, rounds))
    return made


def row(scenario: str, figures: list[Figures], rounds: Rounds) -> list[str]:
    """The cells behind the name."""
    theirs, raw = rounds.get("confluent_kafka"), rounds.get("raw")
    cpu = spread([each.cpu_us for each in figures], ".2f")
    if scenario == "latency":
        return [*(spread([each.percentiles[name] for each in figures], ".2f") for name in ("p50", "p99", "p99.9")), cpu]
    if scenario == "call":
        calls = [each.call_ns for each in figures]
        return [spread(calls, ".0f"), ratio(calls, [each.call_ns for each in theirs]) if theirs else "-"]
    rates = [each.rate for each in figures]
    return [
        spread([rate / 1e6 for rate in rates], ".2f"),
        spread([each.cpu_us for each in figures], ".3f"),
        ratio(rates, [each.rate for each in raw]) if raw else "-",
        ratio(rates, [each.rate for each in theirs]) if theirs else "-",
        ratio([each.cpu_us for each in figures], [each.cpu_us for each in theirs]) if theirs else "-",
    ]
