"""SVG charts of measured comparisons: horizontal bars, kafka_native's first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

COLORS = {"kafka_native": "#1f6fb2", "raw": "#c3c7cc", "plaintext": "#a9c9e4"}
OTHER = "#e08a3c"
WIDTH_INCHES, BAR_INCHES, PANEL_INCHES = 9.0, 0.26, 0.75


@dataclass(frozen=True)
class Panel:
    """One set of bars: a value for each client, and how to print it."""

    title: str
    names: Mapping[str, str]
    values: Mapping[str, float]
    digits: int


def draw(title: str, rows: list[list[Panel]], path: Path) -> None:
    """Draw rows of panels. The white background keeps the text readable on a dark page."""
    bars = [max(len(panel.values) for panel in row) for row in rows]
    heights = [PANEL_INCHES + count * BAR_INCHES for count in bars]
    # The text stays text, and two runs with the same figures give the same file.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": path.name}):
        # Not pyplot: a Figure object needs no display and leaves no global state.
        figure = Figure(figsize=(WIDTH_INCHES, sum(heights) + 0.4), layout="constrained")
        figure.suptitle(title, fontsize=13, fontweight="bold")
        columns = max(len(row) for row in rows)
        grid = figure.subplots(len(rows), columns, squeeze=False, height_ratios=heights)
        for axes_row, row in zip(grid, rows, strict=True):
            for axes, panel in zip(axes_row, row, strict=True):
                _bars(axes, panel)
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
