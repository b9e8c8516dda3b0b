"""Exit statuses, signals, and errors as one line."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import click

from kafka_native import KafkaError, KafkaException
from kafka_native.terminal.lines import echo

FAILED_STATUS = 1
"""The command failed; stderr has the reason. click uses 2 for wrong usage."""
INTERRUPTED_STATUS = 130
"""Ctrl+C: 128 + SIGINT, as shells report it."""
SIGTERM_STATUS = 143


class Terminated(KeyboardInterrupt):
    """The process received SIGTERM."""


@contextmanager
def ended_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Delay Ctrl+C and SIGTERM: call ``stop`` at once, and raise the exception after the block.

    A second signal acts at once, as it would without this.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def caught(number: int, _frame: object) -> None:
        received.append(number)
        signal.signal(number, before[signal.Signals(number)])
        stop()

    try:
        for number in before:
            signal.signal(number, caught)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if received:
        raise Terminated if received[0] == signal.SIGTERM else KeyboardInterrupt


class DelayedSignals:
    """Delays Ctrl+C and SIGTERM to the end of a step. Outside of steps they act at once.

    A second signal in a step acts at once, too.
    """

    def __init__(self) -> None:
        self._before: dict[int, Callable[[int, FrameType | None], object]] = {}
        self._in_step = False
        self._received: int | None = None

    def __enter__(self) -> DelayedSignals:
        """Install the handlers. In another thread than the main one nothing is delayed."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                handler = signal.getsignal(number)
                if callable(handler):  # otherwise the signal is ignored, or ends the process
                    self._before[number] = handler
                    signal.signal(number, self._caught)
        return self

    def __exit__(self, *_error: object) -> None:
        """Restore the handlers."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextmanager
    def step(self) -> Iterator[None]:
        """Delay a signal to the end of the block."""
        self._in_step = True
        try:
            yield
        finally:
            self._in_step = False
            number, self._received = self._received, None
            if number is not None:
                self._before[number](number, None)

    def _caught(self, number: int, frame: FrameType | None) -> None:
        if self._in_step and self._received is None:
            self._received = number
        else:
            self._before[number](number, frame)


class Failed(click.ClickException):
    """The command failed: click prints one line on stderr and exits with status 1."""

    exit_code = FAILED_STATUS


def no_partition(topic: str | None, number: int, count: int) -> Failed:
    """The error for a partition number that the topic doesn't have."""
    return Failed(f"topic {topic} has no partition {number}, only 0 to {count - 1}")


def line_of(error: BaseException) -> str:
    """An exception's text for users.

    For Kafka's errors: the text and the hint, without the code.
    """
    cause = error.args[0] if error.args else None
    if isinstance(error, KafkaException) and isinstance(cause, KafkaError):
        return cause.str() if error.hint is None else f"{cause.str()} (hint: {error.hint})"
    return str(error) or type(error).__name__


@contextmanager
def reported_in_a_line() -> Iterator[None]:
    """Turn errors that a user can act on into one line and an exit status.

    Other exceptions keep their traceback.
    """
    try:
        yield
    except KafkaException as error:
        raise Failed(line_of(error)) from error
    except BrokenPipeError:
        # The reader of stdout (`| head`) has closed it. Without this, Python's last flush would
        # print an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise click.exceptions.Exit(0) from None
    except OSError as error:
        named = "" if error.filename is None else f"{error.filename}: "
        raise Failed(f"{named}{error.strerror or error}") from error
    except UnicodeEncodeError as error:
        # Python decodes such bytes of arguments and variables to halves of surrogate pairs. The
        # text isn't shown: it may be a secret.
        if not "\udc80" <= error.object[error.start] <= "\udcff":
            raise
        raise Failed("an argument or an environment variable isn't UTF-8") from error
    except KeyboardInterrupt as signalled:
        raise click.exceptions.Exit(_status_of(signalled)) from None
    except click.Abort as aborted:
        # click's questions raise it for the end of the input, and in place of a signal's exception.
        cause = aborted.__context__
        if not isinstance(cause, KeyboardInterrupt):
            raise
        echo("Aborted!", err=True)
        raise click.exceptions.Exit(_status_of(cause)) from None


def _status_of(signalled: KeyboardInterrupt) -> int:
    return SIGTERM_STATUS if isinstance(signalled, Terminated) else INTERRUPTED_STATUS
