"""Draws the charts of ``kafka-native perf``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from kafka_native.cli.perf import Outcome, Rate

BLUE, ORANGE, GREY = "#2f6f9f", "#e08a3c", "#8a8f98"
WIDTH = 0.38


def chart(outcomes: list[Outcome], title: str, path: Path) -> None:
    """Draw a PNG: rates and CPU for each message of both directions, and latencies."""
    # Not pyplot: a Figure object needs no display and leaves no global state.
    figure = Figure(figsize=(15, 4.8), layout="constrained")
    rates, cpu, latencies = figure.subplots(1, 3)
    figure.suptitle(title, fontsize=13)
    _both(rates, outcomes, lambda rate: rate.per_second / 1e6)
    rates.set_title("million messages a second")
    _both(cpu, outcomes, lambda rate: rate.cpu_us)
    cpu.set_title("client's CPU, microseconds a message")
    _latencies(latencies, outcomes)
    latencies.set_title("one message to its acknowledgement, ms")
    for axes in (rates, cpu, latencies):
        axes.set_xticks(range(len(outcomes)), [outcome.codec for outcome in outcomes])
        axes.tick_params(axis="x", length=0)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", alpha=0.25)
        axes.set_axisbelow(True)
        axes.margins(y=0.1)
        axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.08), ncols=3)
    figure.savefig(path, dpi=120)


def latencies(buckets: Sequence[tuple[float, float, int]], title: str, path: Path) -> None:
    """Draw a histogram of round trips as a PNG. A bucket is (from, to, count), in milliseconds."""
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    lows = [low for low, _, _ in buckets]
    axes.bar(
        lows,
        [number for *_, number in buckets],
        [high - low for low, high, _ in buckets],
        align="edge",
        color=BLUE,
    )
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda tick, _place: f"{tick:g}"))
    axes.set_xlabel("ms from produce() to the acknowledgement")
    axes.set_title(title)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=120)


def _both(axes: Axes, outcomes: list[Outcome], pick: Callable[[Rate], float]) -> None:
    for shift, name, colour in ((-WIDTH / 2, "produce", BLUE), (WIDTH / 2, "consume", ORANGE)):
        heights = [pick(getattr(outcome, name)) for outcome in outcomes]
        bars = axes.bar(
            [place + shift for place in range(len(outcomes))],
            heights,
            WIDTH,
            label=name,
            color=colour,
        )
        axes.bar_label(bars, fmt="%.2f", fontsize=8, padding=2)


def _latencies(axes: Axes, outcomes: list[Outcome]) -> None:
    for name, label, colour, marker in (
        ("p50", "p50", BLUE, "o"),
        ("p99", "p99", ORANGE, "s"),
        ("p999", "p99.9", GREY, "^"),
    ):
        heights = [getattr(outcome.latency, name) for outcome in outcomes]
        axes.plot(range(len(outcomes)), heights, marker, label=label, color=colour, markersize=7)
        for place, height in enumerate(heights):
            axes.annotate(
                f"{height:.2f}", (place, height), (8, -3), textcoords="offset points", fontsize=8
            )
    axes.set_yscale("log")
    plain = FuncFormatter(lambda tick, _place: f"{tick:g}")
    axes.yaxis.set_major_formatter(plain)
    axes.yaxis.set_minor_formatter(plain)
    axes.set_xlim(-0.5, len(outcomes) - 0.3)
