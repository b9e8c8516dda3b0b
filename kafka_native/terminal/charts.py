"""Checks for the package that draws charts, which is in an extra of its own."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

import click

NEEDS_PLOT: Final = "a chart needs matplotlib: pip install 'kafka-native[plot]'"


def require_plot() -> None:
    """Check, before a measurement, that a chart can be drawn after it.

    :raises click.ClickException: matplotlib is missing. The text has the command that installs it.
    """
    try:
        found = find_spec("matplotlib")
    except ValueError:  # a program has set it to None
        found = None
    if found is None:
        raise click.ClickException(NEEDS_PLOT)
