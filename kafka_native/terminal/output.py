"""Prints results on stdout, as tables or JSON (``--json``), and remarks and progress on stderr.

This module and `lines` escape all names and texts, so commands can pass them on as they are.
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
"""Columns of a console that isn't a terminal, so that no line is cut or wrapped."""


class CleanConsole(Console):
    """A console that escapes strings and reads no markup in them.

    Line ends in a string stay. For a string from the network, use `styled`: it makes one line.
    """

    def __init__(self, **options: Any) -> None:
        """Takes the options of rich's `Console`."""
        super().__init__(**options, highlight=False, markup=False, emoji=False)
        if isinstance(self.file, io.TextIOWrapper):
            # Rich itself writes names, borders and progress here. Characters that the encoding
            # lacks become escapes.
            self.file.reconfigure(errors="backslashreplace")

    def render_str(self, text: str, **options: Any) -> Text:
        """Escape one string; rich calls it for each. Line ends stay, because headings have some."""
        return super().render_str("\n".join(escaped(line) for line in text.split("\n")), **options)


def printer() -> CleanConsole:
    """A console on stdout: colours and wrapped lines only on a terminal."""
    return CleanConsole(width=None if sys.stdout.isatty() else UNBOUND)


def remarks() -> CleanConsole:
    """A console on stderr, for text that isn't the result."""
    return CleanConsole(stderr=True, soft_wrap=True)


def status() -> Status:
    """A status line on stderr. Change it by `Status.update` with a `styled` text."""
    return Status(styled(""), console=remarks())


def styled(*parts: str | tuple[str, str]) -> Text:
    """One line of text, made of strings or of (string, style) pairs; each string is escaped."""
    pairs = [(part, "") if isinstance(part, str) else part for part in parts]
    return Text.assemble(*((escaped(text), style) for text, style in pairs))


class CleanTable(Table):
    """A table with escaped one-line cells and an escaped one-line title.

    Headings may have several lines.
    """

    def __init__(self, *headings: str, title: str | None = None, **options: Any) -> None:
        """Takes the arguments of rich's `Table`."""
        super().__init__(
            *headings, title=None if title is None else styled((title, "table.title")), **options
        )

    def add_row(self, *cells: str | Text, **options: Any) -> None:  # type: ignore[override]
        """Add a row, as rich's `Table` does. Strings become `styled` texts."""
        super().add_row(
            *(styled(cell) if isinstance(cell, str) else cell for cell in cells), **options
        )


def styled_lines(lines: Iterable[str]) -> Text:
    """Several lines as one text; each line is escaped."""
    return Text("\n").join(styled(line) for line in lines)


class Output:
    """Prints a command's result: records as a table, or with ``--json`` as JSON."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        """Whether the user gave ``--json``."""

    def rows(
        self,
        records: Iterable[Mapping[str, object]],
        headings: Mapping[str, str],
        title: str | None = None,
    ) -> None:
        """Print a list of records. JSON shows all entries; the table those that ``headings`` names.

        :param headings: Keys of a record and the headings of their columns, in order. Columns with
            numbers are aligned to the right.
        """
        everything = [dict(record) for record in records]
        if self.as_json:
            self.document(everything)
            return
        printer().print(table_of(everything, headings, title))

    def document(self, data: object) -> None:
        """Print one JSON document, with or without ``--json``."""
        lines.print_json(data, indent=2, default=plain)

    def line(self, data: object) -> None:
        """Print one JSON document on one line, for example one of a stream of documents."""
        lines.print_json(data, default=plain)

    def say(self, text: str) -> None:
        """Print a line of the result; nothing with ``--json``."""
        if not self.as_json:
            lines.echo(text)

    def remark(self, text: str) -> None:
        """Print a line that isn't part of the result, on stderr."""
        lines.remark(text)


def table_of(
    records: Sequence[Mapping[str, object]], headings: Mapping[str, str], title: str | None = None
) -> CleanTable:
    """A table of records; see `Output.rows()`."""
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
    """Adds the option ``--json``. The command gets the argument ``output: Output``."""

    @functools.wraps(command)
    def call(*args: Any, as_json: bool, **more: Any) -> Any:
        return command(*args, output=Output(as_json=as_json), **more)

    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")(call)  # type: ignore[return-value]


def shown(value: object) -> str:
    """The text of a value in a cell of a table."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, enum.Enum):
        return value.name.lower()
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return ", ".join(shown(each) for each in value)
    return str(value)


def plain(value: object) -> object:
    """The JSON form of a value that the `json` module can't write.

    An enum becomes its name in lower case, bytes become text or base64, sets and tuples become
    lists.
    """
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
