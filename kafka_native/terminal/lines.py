"""Prints lines, JSON, questions, logs and errors, and escapes names and texts from the network.

`output` does the same for tables. No other module of the command lines writes text to stdout or
stderr.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, BinaryIO, Final, TextIO

import click

from kafka_native.cleaning import escaped

CHILD_LINE_MAX: Final = 1 << 16
"""The longest line of a child process that is printed in one piece. A longer line is split."""
CHILD_END_S: Final = 1.0
"""Seconds to wait for the last lines of a child process after an error."""


def echo(*lines: str, err: bool = False) -> None:
    """Print lines on stdout or stderr. Each argument is one line: line ends in it are escaped."""
    stream = sys.stderr if err else sys.stdout
    click.echo("\n".join(_shown(line, stream) for line in lines), err=err)


def fitting(text: str, stream: TextIO) -> str:
    r"""The text, with an escape such as ``\u65e5`` for each character missing in the encoding."""
    encoding = _encoding(stream)
    return text.encode(encoding, "backslashreplace").decode(encoding)


def fitting_json(text: str, stream: TextIO) -> str:
    """The same JSON document; all ASCII if the stream's encoding lacks one of its characters."""
    try:
        text.encode(_encoding(stream))
    except UnicodeEncodeError:
        return "".join(each if each.isascii() else json.dumps(each)[1:-1] for each in text)
    return text


def _encoding(stream: TextIO) -> str:
    # A program may have replaced stdout by an object without an encoding.
    return getattr(stream, "encoding", None) or "utf-8"


def _shown(line: str, stream: TextIO) -> str:
    return fitting(escaped(line), stream)


def remark(line: str) -> None:
    """Print a line that isn't the result, on stderr."""
    _remarks.append(line)
    echo(line, err=True)


def confirm(question: str) -> None:
    """Ask a yes-or-no question on stderr.

    :raises click.Abort: The user didn't answer yes.
    """
    click.confirm(_shown(question, sys.stderr), abort=True, err=True)


def ask_secret(question: str) -> str:
    """Ask on stderr for a text, such as a password. The user types it twice; it isn't shown."""
    answer: str = click.prompt(
        _shown(question, sys.stderr), hide_input=True, confirmation_prompt=True, err=True
    )
    return answer


def print_json(
    data: object, *, indent: int | None = None, default: Callable[[object], object] | None = None
) -> None:
    """Print a JSON document on stdout."""
    click.echo(fitting_json(json_text(data, indent=indent, default=default), sys.stdout))


def json_text(
    data: object, *, indent: int | None = None, default: Callable[[object], object] | None = None
) -> str:
    r"""A JSON document, with ``\uXXXX`` for characters in its strings that aren't printable."""
    return escaped_json(json.dumps(data, indent=indent, default=default, ensure_ascii=False))


def escaped_json(text: str) -> str:
    """The same document, with escapes for characters that aren't printable.

    Line ends between its tokens stay; those in its strings are escaped already.
    """
    if text.isascii() and "\x7f" not in text:
        return text
    return "".join(
        each if each.isprintable() or each == "\n" else json.dumps(each)[1:-1] for each in text
    )


@contextmanager
def cleaned_errors() -> Iterator[None]:
    """Escape the message of an error before click prints it."""
    try:
        yield
    except click.exceptions.NoArgsIsHelpError:
        raise  # its message is the program's own help, which has several lines
    except click.ClickException as error:
        vars(error)["message"] = _shown(error.message, sys.stderr)  # click declares it final
        raise


class LogFormatter(logging.Formatter):
    """Formats a log record as one line. Each line of a traceback stays a line."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """The record's line, escaped."""
        return escaped(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:
        """The traceback's lines, each escaped."""
        return _escaped_lines(super().formatException(ei))


class OutageHandler(logging.StreamHandler[Any]):
    """Prints log records on stderr. It can hold back those about brokers that can't be reached."""

    def __init__(self) -> None:
        super().__init__()
        self._held: list[logging.LogRecord] | None = None
        self._is_reported = False

    def hold(self) -> None:
        """Hold back the errors of connections from now on."""
        self._held, self._is_reported = [], False

    def print_held(self, reported: str = "") -> None:
        """Print the records that were held back, and print the later ones at once.

        If the user has read the reason, the reminder that all brokers are down isn't printed.

        :param reported: What the user has read already. A record whose text is in it isn't printed.
        """
        held, self._held = self._held, None
        for record in held or []:
            self._print_outage(record, reported)

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record, or keep it."""
        is_outage = (
            record.levelno == logging.ERROR
            and record.name.startswith("kafka_native.")
            and record.name.endswith(".broker")
        )
        if not is_outage:
            super().emit(record)
        elif self._held is not None:
            self._held.append(record)
        else:
            self._print_outage(record)

    def _print_outage(self, record: logging.LogRecord, reported: str = "") -> None:
        text = record.getMessage().partition(": ")[2]  # without the client's name
        is_reminder = text.endswith("brokers are down")
        if text not in reported and not (is_reminder and self._is_reported):
            super().emit(record)
        self._is_reported = not is_reminder or self._is_reported


_handler: Final = OutageHandler()


def release_outages() -> None:
    """Print the outages that were held back, and print the later ones at once.

    A command calls it when the cluster has answered, or when it waits for the cluster for long.
    """
    _handler.print_held()


@contextmanager
def outages_reported_once() -> Iterator[None]:
    """Report a broker that can't be reached once: in the error of the command, or in the log.

    Without this, the log and the error of a command show the same text.
    """
    if logging.getLogger("kafka_native").isEnabledFor(logging.DEBUG):
        yield
        return
    _handler.hold()
    reported = ""
    try:
        yield
    except BaseException as error:
        reported = f"{error.message if isinstance(error, click.ClickException) else error}"
        raise
    finally:
        _handler.print_held(reported + "\n".join(_remarks))
        _remarks.clear()


_remarks: Final[deque[str]] = deque(maxlen=100)
"""The last remarks: commands print the error of each item as a remark."""


def log_to_stderr() -> None:
    """Print log records of level WARNING and above, of all loggers, on stderr."""
    handler = _handler
    handler.setStream(sys.stderr)
    handler.setFormatter(LogFormatter("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)


def escape_tracebacks() -> None:
    """Escape the texts that Python itself prints.

    These are tracebacks of all threads, errors in finalizers, and warnings.
    """
    sys.excepthook = print_traceback
    threading.excepthook = _print_thread_traceback
    sys.unraisablehook = _print_unraisable
    format_warning = warnings.formatwarning
    warnings.formatwarning = lambda message, *more, **named: format_warning(
        escaped(message), *more, **named
    )


def print_traceback(
    kind: type[BaseException], error: BaseException | None, trace: TracebackType | None
) -> None:
    """Print an escaped traceback; a function for ``sys.excepthook``."""
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
def escaped_children(
    name: str, is_left_out: Callable[[str], bool] = lambda line: False
) -> Iterator[None]:
    """Escape the stderr of the child processes that start within the block, until they end.

    ``is_left_out`` returns whether to leave out a line of a child.

    Each line of a child begins with ``name: ``, so that it can't look like a line of this program.
    All other output to file descriptor 2 within the block is handled in the same way.
    """
    reading, writing = os.pipe()
    own = os.dup(2)
    arguments = (os.fdopen(reading, "rb"), os.dup(own), name, is_left_out)
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
        # The program may end now, so print the output of a failed child first.
        forwarder.join(CHILD_END_S)
        raise
    finally:
        os.dup2(own, 2)
        os.close(own)


def _forward(pipe: BinaryIO, stderr: int, name: str, is_left_out: Callable[[str], bool]) -> None:
    # When the reader of this program's stderr is gone, the pipe closes, and the children get EPIPE.
    with (
        suppress(BrokenPipeError),
        pipe,
        os.fdopen(stderr, "w", 1, "utf-8", "backslashreplace") as out,
    ):
        while line := pipe.readline(CHILD_LINE_MAX):
            text = line.rstrip(b"\r\n").decode("utf-8", "backslashreplace")
            if not is_left_out(text):
                out.write(f"{escaped(f'{name}: {text.expandtabs()}')}\n")
