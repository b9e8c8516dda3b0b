"""SVG charts: bars of measured comparisons, sums of recorded runs, distributions of times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

COLORS = {
    "kafka_native": "#1f6fb2",
    "raw": "#c3c7cc",
    "plaintext": "#a9c9e4",
    "cluster": "#8a9099",
}
OTHER = "#e08a3c"
OTHERS = ("#e08a3c", "#6a9f58", "#a0527f", "#8a6d3b", "#4c9a9a", "#b8474a", "#7a6bb3", "#999933")
"""The lines of other clients."""
WIDTH_INCHES, BAR_INCHES, PANEL_INCHES = 9.0, 0.26, 0.75


@dataclass(frozen=True)
class Panel:
    """One set of bars: a value for each client, and how to print it."""

    title: str
    names: Mapping[str, str]
    values: Mapping[str, float]
    digits: int


def draw(title: str, rows: list[list[Panel]], path: Path) -> None:
    """Draw rows of panels."""
    bars = [max(len(panel.values) for panel in row) for row in rows]
    heights = [PANEL_INCHES + count * BAR_INCHES for count in bars]
    with _figure(title, sum(heights) + 0.4, path) as figure:
        columns = max(len(row) for row in rows)
        grid = figure.subplots(len(rows), columns, squeeze=False, height_ratios=heights)
        for axes_row, row in zip(grid, rows, strict=True):
            for axes, panel in zip(axes_row, row, strict=True):
                _bars(axes, panel)


@dataclass(frozen=True)
class Lines:
    """One set of lines: points of each client over a logarithmic axis."""

    title: str
    axis: str
    names: Mapping[str, str]
    points: Mapping[str, Sequence[tuple[float, float]]]


def draw_lines(title: str, panels: Sequence[Lines], path: Path) -> None:
    """Draw panels of lines side by side, with a legend."""
    with _figure(title, 4.2, path) as figure:
        for axes, panel in zip(
            figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True
        ):
            for number, (client, points) in enumerate(panel.points.items()):
                ours = client in COLORS
                xs, ys = zip(*points, strict=True)
                axes.plot(
                    xs,
                    ys,
                    color=COLORS[client] if ours else OTHERS[number % len(OTHERS)],
                    linewidth=3 if client == "kafka_native" else 1.4,
                    marker="o",
                    markersize=4,
                    label=panel.names[client],
                )
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.set_xlabel(panel.axis, fontsize=10)
            axes.set_title(panel.title, fontsize=10, loc="left")
            axes.spines[["top", "right"]].set_visible(False)
            axes.xaxis.set_major_formatter("{x:,.0f}")
            axes.yaxis.set_major_formatter("{x:,g}")
            axes.tick_params(labelsize=8)
            axes.legend(frameon=False, fontsize=8)


def draw_sums(
    title: str,
    labels: tuple[str, str],
    series: Mapping[str, Sequence[tuple[float, float]]],
    path: Path,
) -> None:
    """Draw a line for each series, from the origin. ``labels``: of both axes."""
    with _figure(title, 3.6, path) as figure:
        axes = figure.subplots()
        for name, points in series.items():
            xs, ys = zip((0.0, 0.0), *points, strict=True)
            axes.plot(xs, ys, marker="o", markersize=4, label=name)
        axes.set_xlabel(labels[0], fontsize=10)
        axes.set_ylabel(labels[1], fontsize=10)
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter("{x:,.0f}")
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=9)


def draw_times(title: str, groups: Mapping[str, Mapping[str, Sequence[float]]], path: Path) -> None:
    """Draw a group of rows for each measured time, with a point for each value of a client.

    A line marks the median.
    """
    heights = [PANEL_INCHES + len(rows) * BAR_INCHES for rows in groups.values()]
    with _figure(title, sum(heights) + 0.4, path) as figure:
        grid = figure.subplots(len(groups), 1, squeeze=False, height_ratios=heights)
        for axes, (name, rows) in zip(grid[:, 0], groups.items(), strict=True):
            for number, (client, values) in enumerate(rows.items()):
                color = COLORS.get(client, OTHER)
                axes.scatter(values, [number] * len(values), color=color, s=22, alpha=0.75)
                axes.scatter([median(values)], [number], color=color, marker="|", s=220)
            axes.set_yticks(range(len(rows)), list(rows), fontsize=9)
            axes.set_ylim(len(rows) - 0.5, -0.5)
            axes.set_xlim(0, max(max(values) for values in rows.values()) * 1.05)
            axes.set_title(name, fontsize=10, loc="left")
            axes.spines[["top", "right"]].set_visible(False)
            axes.tick_params(axis="x", labelsize=9)


@contextmanager
def _figure(title: str, height_inches: float, path: Path) -> Iterator[Figure]:
    """Yield a figure, and save it. The white background keeps the text readable on a dark page."""
    # The text stays text, and two runs with the same figures give the same file.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": path.name}):
        # Not pyplot: a Figure object needs no display and leaves no global state.
        figure = Figure(figsize=(WIDTH_INCHES, height_inches), layout="constrained")
        figure.suptitle(title, fontsize=13, fontweight="bold")
        yield figure
        figure.savefig(path, format="svg", facecolor="white", metadata={"Date": None})


def _bars(axes: Axes, panel: Panel) -> None:
    names = list(panel.values)
    colors = [COLORS.get(name, OTHER) for name in names]
    values = list(panel.values.values())
    drawn = axes.barh([panel.names[name] for name in names], values, color=colors, height=0.72)
    axes.bar_label(drawn, [f"{value:.{panel.digits}f}" for value in values], padding=4, fontsize=9)
    axes.invert_yaxis()
    axes.set_title(panel.title, fontsize=10, loc="left")
    axes.set_xlim(0, max(values) * 1.18)
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    axes.tick_params(axis="x", bottom=False, labelbottom=False)
    axes.tick_params(axis="y", length=0, labelsize=9)
