"""Where the commands print lines: names and texts from the network are escaped here, and nowhere else.

`output` does the same for tables. No other module of the command lines writes text to stdout or stderr.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, BinaryIO, Final, TextIO

import click

from kafka_native.cleaning import escaped

CHILD_LINE_MAX: Final = 1 << 16
"""Bytes of a child's line that are kept until its end comes; a longer line is printed in parts."""
CHILD_END_S: Final = 1.0
"""How long the end of children that failed to start is waited for."""


def echo(*lines: str, err: bool = False) -> None:
    """Print lines on stdout, or on stderr. Each argument is one line, whatever is in it."""
    stream = sys.stderr if err else sys.stdout
    click.echo("\n".join(_shown(line, stream) for line in lines), err=err)


def fitting(text: str, stream: TextIO) -> str:
    r"""The text with ``\u65e5`` for each character that the stream's encoding doesn't have."""
    encoding = _encoding(stream)
    return text.encode(encoding, "backslashreplace").decode(encoding)


def fitting_json(text: str, stream: TextIO) -> str:
    """The same JSON document, in pure ASCII where the stream's encoding doesn't have one of its characters."""
    try:
        text.encode(_encoding(stream))
    except UnicodeEncodeError:
        return "".join(each if each.isascii() else json.dumps(each)[1:-1] for each in text)
    return text


def _encoding(stream: TextIO) -> str:
    return (
        getattr(stream, "encoding", None) or "utf-8"
    )  # a program may have put anything in the place of stdout


def _shown(line: str, stream: TextIO) -> str:
    return fitting(escaped(line), stream)


def remark(line: str) -> None:
    """Print a line that isn't the result, on stderr."""
    echo(line, err=True)


def confirm(question: str) -> None:
    """Ask on stderr.

    :raises click.Abort: The answer isn't yes.
    """
    click.confirm(_shown(question, sys.stderr), abort=True, err=True)


def ask_secret(question: str) -> str:
    """Ask on stderr for a text that isn't shown, twice."""
    answer: str = click.prompt(
        _shown(question, sys.stderr), hide_input=True, confirmation_prompt=True, err=True
    )
    return answer


def print_json(
    data: Any, *, indent: int | None = None, default: Callable[[Any], Any] | None = None
) -> None:
    """Print a JSON document on stdout."""
    click.echo(fitting_json(json_text(data, indent=indent, default=default), sys.stdout))


def json_text(
    data: Any, *, indent: int | None = None, default: Callable[[Any], Any] | None = None
) -> str:
    r"""A JSON document, with ``\uXXXX`` for what isn't printable in its strings."""
    return escaped_json(json.dumps(data, indent=indent, default=default, ensure_ascii=False))


def escaped_json(text: str) -> str:
    """The same document. The line ends of its layout stay: those in strings are escaped already."""
    if text.isascii() and "\x7f" not in text:
        return text
    return "".join(
        each if each.isprintable() or each == "\n" else json.dumps(each)[1:-1] for each in text
    )


@contextmanager
def cleaned_errors() -> Iterator[None]:
    """Clean the text of an error that click is going to print."""
    try:
        yield
    except click.ClickException as error:
        vars(error)["message"] = _shown(error.message, sys.stderr)  # it is declared final
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


def escape_tracebacks() -> None:
    """Escape what Python prints by itself: tracebacks of this and other threads, of finalizers, and warnings."""
    sys.excepthook = print_traceback
    threading.excepthook = _print_thread_traceback
    sys.unraisablehook = _print_unraisable
    format_warning = warnings.formatwarning
    warnings.formatwarning = lambda message, *more, **named: format_warning(
        escaped(str(message)), *more, **named
    )


def print_traceback(
    kind: type[BaseException], error: BaseException | None, trace: TracebackType | None
) -> None:
    """For ``sys.excepthook``."""
    sys.stderr.write(
        _escaped_lines("".join(traceback.format_exception(kind, error, trace)).rstrip("\n")) + "\n"
    )


def _print_thread_traceback(failed: threading.ExceptHookArgs) -> None:
    if failed.exc_type is SystemExit:
        return
    name = "a thread" if failed.thread is None else failed.thread.name
    sys.stderr.write(escaped(f"Exception in thread {name}:") + "\n")
    print_traceback(failed.exc_type, failed.exc_value, failed.exc_traceback)


def _print_unraisable(failed: sys.UnraisableHookArgs) -> None:
    sys.stderr.write(
        escaped(f"{failed.err_msg or 'Exception ignored in'}: {failed.object!r}") + "\n"
    )
    print_traceback(failed.exc_type, failed.exc_value, failed.exc_traceback)


def _escaped_lines(text: str) -> str:
    return "\n".join(escaped(line) for line in text.split("\n"))


@contextmanager
def escaped_children(name: str) -> Iterator[None]:
    """Escape what child processes print on stderr that are started within the block, as long as they live.

    Each of their lines begins with ``name: ``, so that no line of theirs can be taken for one of this program's.
    Whatever else writes to file descriptor 2 within the block is treated the same.
    """
    reading, writing = os.pipe()
    own = os.dup(2)
    arguments = (os.fdopen(reading, "rb"), os.dup(own), name)
    forwarder = threading.Thread(
        target=_forward, args=arguments, name=f"{name}-stderr", daemon=True
    )
    forwarder.start()
    os.dup2(writing, 2)
    os.close(writing)
    try:
        yield
    except BaseException:
        os.dup2(own, 2)
        forwarder.join(
            CHILD_END_S
        )  # the program may end now, and a child that has ended may have said why
        raise
    finally:
        os.dup2(own, 2)
        os.close(own)


def _forward(pipe: BinaryIO, stderr: int, name: str) -> None:
    # when nobody reads this program's stderr any more, the children learn that, too
    with (
        suppress(BrokenPipeError),
        pipe,
        os.fdopen(stderr, "w", 1, "utf-8", "backslashreplace") as out,
    ):
        while line := pipe.readline(CHILD_LINE_MAX):
            text = line.rstrip(b"\r\n").decode("utf-8", "backslashreplace")
            out.write(f"{escaped(f'{name}: {text.expandtabs()}')}\n")
