"""How a command ends: exit statuses, and errors as one line."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from kafka_native import KafkaError, KafkaException

FAILED_STATUS = 1
"""It didn't work; why is on stderr. Wrong usage is 2, click's."""
INTERRUPTED_STATUS = 130
"""Ctrl+C, as shells have it: 128 + SIGINT."""
SIGTERM_STATUS = 143


class Terminated(KeyboardInterrupt):
    """SIGTERM has come."""


@contextmanager
def ended_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """What must not be torn apart: Ctrl+C and SIGTERM call ``stop``, and are raised when the block has come to its end.

    A second one acts as it would without this.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def caught(number: int, _frame: object) -> None:
        came.append(number)
        signal.signal(number, before[signal.Signals(number)])
        stop()

    try:
        for number in before:
            signal.signal(number, caught)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if came:
        raise Terminated if came[0] == signal.SIGTERM else KeyboardInterrupt


class Failed(click.ClickException):
    """A command can't do what it should: one line on stderr, and exit status 1."""

    exit_code = FAILED_STATUS


def no_partition(topic: str | None, number: int, count: int) -> Failed:
    """A topic has only ``count`` partitions."""
    return Failed(f"topic {topic} has no partition {number}, only 0 to {count - 1}")


def line_of(error: BaseException) -> str:
    """What an exception says to a user: Kafka's error by its text, with the hint; no code, no class."""
    cause = error.args[0] if error.args else None
    if isinstance(error, KafkaException) and isinstance(cause, KafkaError):
        return cause.str() if error.hint is None else f"{cause.str()} (hint: {error.hint})"
    return str(error) or type(error).__name__


@contextmanager
def reported_in_a_line() -> Iterator[None]:
    """What a user can do something about becomes one line and an exit status; anything else stays a traceback."""
    try:
        yield
    except KafkaException as error:
        raise Failed(line_of(error)) from error
    except BrokenPipeError:
        # Whoever reads stdout (`| head`) has what it wants. Python would complain when it flushes at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise click.exceptions.Exit(0) from None
    except OSError as error:
        named = "" if error.filename is None else f"{error.filename}: "
        raise Failed(f"{named}{error.strerror or error}") from error
    except Terminated:
        raise click.exceptions.Exit(SIGTERM_STATUS) from None
    except KeyboardInterrupt:
        raise click.exceptions.Exit(INTERRUPTED_STATUS) from None
