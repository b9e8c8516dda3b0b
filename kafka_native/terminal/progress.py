"""Columns of rich's progress displays, for texts that may have names from the network in them."""

from __future__ import annotations

from rich.progress import Task, TextColumn
from rich.text import Text

from kafka_native.terminal.output import styled


class CleanTextColumn(TextColumn):
    """A text of a task, formatted as `TextColumn` does it: one line, escaped, and nothing in it is markup."""

    def render(self, task: Task) -> Text:
        """The text now."""
        return styled(self.text_format.format(task=task))
