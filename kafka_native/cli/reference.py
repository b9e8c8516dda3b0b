"""Writes the option tables of docs/cli: ``python -m kafka_native.cli.reference docs/cli``.

A table stands between ``<!-- options: NAME -->`` and ``<!-- end -->``. NAME is the words of a
command, or ``shared``.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from kafka_native.cli.app import cli
from kafka_native.cli.connection import connected
from kafka_native.terminal.output import json_option

OPTIONS_BLOCK = re.compile(r"(<!-- options: ([\w -]+?) -->\n).*?(<!-- end -->)", re.S)
SHARED = "shared"


def _shared() -> click.Command:
    return click.command(SHARED)(connected()(json_option(lambda: None)))


def find(words: str) -> click.Command:
    """The command with these words, such as ``perf latency``; KeyError if there is none."""
    found: click.Command = cli
    for word in words.split():
        below = (
            found.get_command(click.Context(found), word)
            if isinstance(found, click.Group)
            else None
        )
        if below is None:
            raise KeyError(words)
        found = below
    return found


def rows(words: str) -> Iterator[tuple[str, str]]:
    """Yield the names and the help of each option.

    The options that all commands share are listed for `SHARED` only.
    """
    shared = _shared()
    common = {option.name for option in shared.params}
    command = shared if words == SHARED else find(words)
    context = click.Context(command, info_name=words)
    for option in command.params:
        record = option.get_help_record(context)
        if record is not None and (words == SHARED or option.name not in common):
            yield record


def table(words: str) -> str:
    """The options of a command as a table in Markdown."""
    lines = [f"| `{_cell(names)}` | {_cell(text)} |" for names, text in rows(words)]
    return "\n".join(["| option | |", "|---|---|", *lines, ""])


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def filled(page: str) -> str:
    """The page with its tables filled in."""
    return OPTIONS_BLOCK.sub(lambda match: f"{match[1]}{table(match[2])}{match[3]}", page)


def main(folder: Path) -> None:
    """Rewrite the tables of all pages."""
    for page in sorted(folder.glob("*.md")):
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
