"""Where the commands print lines: names and texts from the network are cleaned here, and nowhere else.

`showing` does the same for tables. No other module of the command line writes text to stdout or stderr.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import click

from kafka_native.cleaning import escaped


def echo(*lines: str, err: bool = False) -> None:
    """Print lines on stdout, or on stderr. Each argument is one line, whatever is in it."""
    click.echo("\n".join(escaped(line) for line in lines), err=err)


def remark(line: str) -> None:
    """Print a line that isn't the result, on stderr."""
    echo(line, err=True)


def confirm(question: str) -> None:
    """Ask on stderr.

    :raises click.Abort: The answer isn't yes.
    """
    click.confirm(escaped(question), abort=True, err=True)


def ask_secret(question: str) -> str:
    """Ask on stderr for a text that isn't shown, twice."""
    answer: str = click.prompt(escaped(question), hide_input=True, confirmation_prompt=True, err=True)
    return answer


def print_json(data: Any, *, indent: int | None = None, default: Callable[[Any], Any] | None = None) -> None:
    """Print a JSON document on stdout."""
    click.echo(json_text(data, indent=indent, default=default))


def json_text(data: Any, *, indent: int | None = None, default: Callable[[Any], Any] | None = None) -> str:
    r"""A JSON document, with ``\uXXXX`` for what isn't printable in its strings."""
    return escaped_json(json.dumps(data, indent=indent, default=default, ensure_ascii=False))


def escaped_json(text: str) -> str:
    """The same document. The line ends of its layout stay: those in strings are escaped already."""
    if text.isascii() and "\x7f" not in text:
        return text
    return "".join(each if each.isprintable() or each == "\n" else json.dumps(each)[1:-1] for each in text)


@contextmanager
def cleaned_errors() -> Iterator[None]:
    """Clean the text of an error that click is going to print."""
    try:
        yield
    except click.ClickException as error:
        vars(error)["message"] = escaped(error.message)  # it is declared final
        raise


class LogFormatter(logging.Formatter):
    """One line for a record; an exception's traceback has lines of its own."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """The line."""
        return escaped(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:
        """The traceback."""
        return _escaped_lines(super().formatException(ei))


def log_to_stderr() -> None:
    """Print warnings and worse of all loggers."""
    handler = logging.StreamHandler()
    handler.setFormatter(LogFormatter("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)


def print_traceback(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """For ``sys.excepthook``."""
    sys.stderr.write(_escaped_lines("".join(traceback.format_exception(kind, error, trace)).rstrip("\n")) + "\n")


def _escaped_lines(text: str) -> str:
    return "\n".join(escaped(line) for line in text.split("\n"))
