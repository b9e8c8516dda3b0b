"""What commands print: results on stdout, as tables or with ``--json`` as JSON; remarks and progress on stderr.

Names and texts from the network are escaped here and in `lines`, whatever a command has put into them.
"""

from __future__ import annotations

import base64
import enum
import functools
import io
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import click
from rich.console import Console
from rich.status import Status
from rich.table import Table
from rich.text import Text

from kafka_native.cleaning import escaped
from kafka_native.terminal import lines

Command = TypeVar("Command", bound=Callable[..., Any])

UNBOUND = 10_000
"""Columns of a console that is no terminal: nothing that another program reads is cut off or wrapped."""


class CleanConsole(Console):
    """A console that prints strings as they are: cleaned, and nothing in them is markup.

    A string that comes from the network is one line: make it a `styled` text.
    """

    def __init__(self, **options: Any) -> None:
        """As rich's."""
        super().__init__(**options, highlight=False, markup=False, emoji=False)
        if isinstance(self.file, io.TextIOWrapper):
            # rich writes names, borders and progress: what the encoding doesn't have is escaped where it is written
            self.file.reconfigure(errors="backslashreplace")

    def render_str(self, text: str, **options: Any) -> Text:
        """Called for each string, in tables too. Their line ends stay: headings have some."""
        return super().render_str("\n".join(escaped(line) for line in text.split("\n")), **options)


def printer() -> CleanConsole:
    """Stdout: colour on a terminal only, whole lines anywhere else."""
    return CleanConsole(width=None if sys.stdout.isatty() else UNBOUND)


def remarks() -> CleanConsole:
    """Stderr, for what isn't the result."""
    return CleanConsole(stderr=True, soft_wrap=True)


def status() -> Status:
    """A line on stderr that is kept up to date: `Status.update` with a `styled` text."""
    return Status(styled(""), console=remarks())


def styled(*parts: str | tuple[str, str]) -> Text:
    """A line of rich's: texts, or texts with a style. Each is cleaned, whatever is in it."""
    pairs = [(part, "") if isinstance(part, str) else part for part in parts]
    return Text.assemble(*((escaped(text), style) for text, style in pairs))


class CleanTable(Table):
    """A table whose title and cells are one line each, whatever is in them. Headings may have several lines."""

    def __init__(self, *headings: str, title: str | None = None, **options: Any) -> None:
        """As rich's."""
        super().__init__(
            *headings, title=None if title is None else styled((title, "table.title")), **options
        )

    def add_row(self, *cells: str | Text, **options: Any) -> None:  # type: ignore[override]
        """As rich's; a string is `styled`."""
        super().add_row(
            *(styled(cell) if isinstance(cell, str) else cell for cell in cells), **options
        )


def styled_lines(lines: Iterable[str]) -> Text:
    """Several lines."""
    return Text("\n").join(styled(line) for line in lines)


class Output:
    """Where a command's result goes; the same records either as a table or as JSON."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        """``--json``."""

    def rows(
        self,
        records: Iterable[Mapping[str, Any]],
        headings: Mapping[str, str],
        title: str | None = None,
    ) -> None:
        """A list of records: JSON has all of each one's entries, the table those that ``headings`` names.

        :param headings: From a record's key to its column's heading, in order. Numbers are set to the right.
        """
        everything = [dict(record) for record in records]
        if self.as_json:
            self.document(everything)
            return
        printer().print(table_of(everything, headings, title))

    def document(self, data: Any) -> None:
        """One JSON document, whatever ``--json`` says."""
        lines.print_json(data, indent=2, default=plain)

    def line(self, data: Any) -> None:
        """One JSON document in a line, of those that come one after the other."""
        lines.print_json(data, default=plain)

    def say(self, text: str) -> None:
        """A line of the result for people; with ``--json`` nothing."""
        if not self.as_json:
            lines.echo(text)

    def remark(self, text: str) -> None:
        """A line that isn't the result, on stderr."""
        lines.remark(text)


def table_of(
    records: Sequence[Mapping[str, Any]], headings: Mapping[str, str], title: str | None = None
) -> CleanTable:
    """A table as `Output.rows()` has it."""
    table = CleanTable(
        title=title, title_justify="left", box=None, pad_edge=False, header_style="bold"
    )
    for key, heading in headings.items():
        right = any(isinstance(record.get(key), (int, float)) for record in records)
        table.add_column(heading, justify="right" if right else "left", overflow="fold")
    for record in records:
        table.add_row(*(shown(record.get(key)) for key in headings))
    return table


def json_option(command: Command) -> Command:
    """Adds ``--json``; the command gets an argument ``output: Output``."""

    @functools.wraps(command)
    def call(*args: Any, as_json: bool, **more: Any) -> Any:
        return command(*args, output=Output(as_json=as_json), **more)

    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")(call)  # type: ignore[return-value]


def shown(value: Any) -> str:
    """A cell of a table."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, enum.Enum):
        return value.name.lower()
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return ", ".join(shown(each) for each in value)
    return str(value)


def plain(value: Any) -> Any:
    """What JSON has no word for: an enum is its name in lower case, bytes are text or base64, a set is a list."""
    if isinstance(value, enum.Enum):
        return value.name.lower()
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return base64.b64encode(value).decode()
    if isinstance(value, (set, frozenset, tuple)):
        return sorted(value) if isinstance(value, (set, frozenset)) else list(value)
    raise TypeError(f"{type(value).__name__} has no JSON form here")
