"""The table and the chart of ``kafka-native perf``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.table import Table

from kafka_native.cli.job import Outcome, Rate


def table(outcomes: list[Outcome], messages: int, size: int, partitions: int) -> Table:
    """A row a codec."""
    made = Table(
        title=f"{messages:,} messages of {size} bytes, {partitions} partitions", caption="CPU: this process alone"
    )
    made.add_column("\ncodec")
    headings = ["produce\nM msg/s", "\nMiB/s", "CPU\nus/msg", "consume\nM msg/s", "\nMiB/s", "CPU\nus/msg"]
    headings += ["p50\nms", "p99\nms", "p99.9\nms"]
    for heading in headings:
        made.add_column(heading, justify="right")
    for outcome in outcomes:
        cells = [outcome.codec]
        for rate in (outcome.produce, outcome.consume):
            cells += [f"{rate.per_second / 1e6:.2f}", f"{rate.mib_per_second:.0f}", f"{rate.cpu_us:.3f}"]
        latency = outcome.latency
        cells += [f"{milliseconds:.2f}" for milliseconds in (latency.p50, latency.p99, latency.p999)]
        made.add_row(*cells)
    return made


def chart(outcomes: list[Outcome], title: str, path: Path) -> None:
    """Bars of rates and of CPU a message, produce beside consume, written as a PNG."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, (rates, cpu) = pyplot.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    figure.suptitle(title)
    places = range(len(outcomes))
    width = 0.38
    picks: list[tuple[Any, str, Callable[[Rate], float]]] = [
        (rates, "million messages a second", lambda rate: rate.per_second / 1e6),
        (cpu, "CPU microseconds a message", lambda rate: rate.cpu_us),
    ]
    for axes, heading, pick in picks:
        for shift, name, colour in ((-width / 2, "produce", "#2f6f9f"), (width / 2, "consume", "#e08a3c")):
            heights = [pick(getattr(outcome, name)) for outcome in outcomes]
            bars = axes.bar([place + shift for place in places], heights, width, label=name, color=colour)
            axes.bar_label(bars, fmt="%.2f", fontsize=8, padding=2)
        axes.set_xticks(list(places), [outcome.codec for outcome in outcomes])
        axes.set_title(heading)
        axes.margins(y=0.15)
        axes.spines[["top", "right"]].set_visible(False)
    rates.legend(frameon=False)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
