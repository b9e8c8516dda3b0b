"""Columns of rich's progress displays that escape names from the network."""

from __future__ import annotations

from rich.progress import Task, TextColumn
from rich.text import Text

from kafka_native.terminal.output import styled


class CleanTextColumn(TextColumn):
    """A task's text, formatted as in `TextColumn`, escaped and without markup, on one line."""

    def render(self, task: Task) -> Text:
        """The task's current text."""
        return styled(self.text_format.format(task=task))
