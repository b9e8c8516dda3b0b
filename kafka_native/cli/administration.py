"""Shared parts of the admin commands: client, outcomes, confirmation, types of arguments."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TypeVar

import click

from kafka_native import KafkaException
from kafka_native.admin import AdminClient
from kafka_native.cli.connection import Connection
from kafka_native.cli.errors import FAILED_STATUS, line_of
from kafka_native.config import duration_ms
from kafka_native.terminal.lines import confirm
from kafka_native.terminal.output import Output

Command = TypeVar("Command", bound=Callable[..., Any])
K = TypeVar("K")
T = TypeVar("T")

UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


@contextmanager
def administration(connection: Connection) -> Iterator[AdminClient]:
    """Open an admin client for the block. Callers pass ``connection.timeout_s`` to each call."""
    with AdminClient(connection.config("producer")) as admin:
        yield admin


class Outcomes(dict[K, T]):
    """The results of a call's futures by key. ``errors`` has a line for each item that failed."""

    def __init__(self, futures: Mapping[K, Future[T]]) -> None:
        """Wait for all futures."""
        super().__init__()
        self.errors: dict[K, str] = {}
        for key, future in futures.items():
            try:
                self[key] = future.result()
            except KafkaException as error:
                self.errors[key] = line_of(error)


def report(
    output: Output,
    what: str,
    outcomes: Mapping[str, str | None],
    done: str,
    *,
    dry_run: bool = False,
) -> None:
    """Print the outcome of each item; exit with status 1 if one failed.

    :param what: The kind of item, in the singular. It is also the key of the name in JSON.
    :param outcomes: The error of each item by name; None for success.
    :param done: The past participle of the operation, such as ``deleted``.
    :param dry_run: Nothing was changed: print "would be" before ``done``.
    """
    if output.as_json:
        output.document(
            [{what: name, "ok": why is None, "error": why} for name, why in outcomes.items()]
        )
    for name, why in outcomes.items():
        if why is None:
            output.say(f"{what} {name}: {'would be ' if dry_run else ''}{done}")
        else:
            output.remark(f"Error: {what} {name}: {why}")
    if any(outcomes.values()):
        raise click.exceptions.Exit(FAILED_STATUS)


def report_errors(output: Output, what: str, errors: Mapping[str, str]) -> None:
    """Print the error of each item without a record; exit with status 1 if there are any."""
    for name, why in errors.items():
        output.remark(f"Error: {what} {name}: {why}")
    if errors:
        raise click.exceptions.Exit(FAILED_STATUS)


def errors_of(futures: Mapping[K, Future[Any]]) -> dict[K, str | None]:
    """The error of each item, None for success: the ``outcomes`` of `report`."""
    outcomes = Outcomes(futures)
    return {name: outcomes.errors.get(name) for name in futures}


def yes_option(command: Command) -> Command:
    """Add the option ``--yes``. The command gets the argument ``yes``."""
    return click.option("-y", "--yes", is_flag=True, help="Don't ask before something is lost.")(
        command
    )


def make_sure(question: str, yes: bool) -> None:
    """Ask for confirmation on a terminal.

    :raises click.UsageError: There is no terminal, and the command line lacks ``--yes``.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} There is no terminal to ask on: say --yes")
    confirm(question)


# The types of options and arguments: click calls these functions with the user's text.


def assignment(text: str) -> tuple[str, str]:
    """Parse ``NAME=VALUE``."""
    name, equals, value = text.partition("=")
    if not name.strip() or not equals:
        raise click.BadParameter(f"{text!r} isn't NAME=VALUE")
    return name.strip(), value


def topic_partitions(text: str) -> tuple[str, tuple[int, ...]]:
    """Parse ``TOPIC`` or ``TOPIC:0,3``. An empty tuple means all partitions."""
    topic, colon, written = text.rpartition(":")
    if not colon:
        return text, ()
    parts = written.split(",")
    if not topic or not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        raise click.BadParameter(f"{text!r} isn't TOPIC or TOPIC:PARTITION,...")
    return topic, tuple(dict.fromkeys(int(part) for part in parts))


def moment(text: str) -> int:
    """Parse a time to milliseconds since 1970.

    The text is milliseconds or ISO-8601; without an offset it is local time.
    """
    if text.isascii() and text.isdigit() and 4 < len(text) < 18:
        return int(text)
    try:
        return max(0, int(datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1000))
    except (ValueError, OverflowError):
        wanted = "write 2026-03-01T12:00:00, with +01:00 or Z, or milliseconds since 1970"
        raise click.BadParameter(f"{text!r} is no time: {wanted}") from None


def span(text: str) -> int:
    """Parse a duration to milliseconds: ISO-8601 (``PT1H30M``), or a number with s, m, h or d."""
    found = duration_ms(text)
    if (
        found is None
        and text[-1:] in UNITS_MS
        and text.isascii()
        and text[:-1].isdigit()
        and len(text) < 12
    ):
        found = int(text[:-1]) * UNITS_MS[text[-1]]
    if found is None:
        raise click.BadParameter(f"{text!r} is no duration: write 90m, 2h, 7d or PT1H30M")
    return found


def numbers(partitions: Iterable[int]) -> str:
    """Format partition numbers in short: ``0-3,7``."""
    runs: list[list[int]] = []
    for each in sorted(partitions):
        if runs and each == runs[-1][1] + 1:
            runs[-1][1] = each
        else:
            runs.append([each, each])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def ago(duration: int) -> int:
    """The time this many milliseconds ago, in milliseconds since 1970."""
    return max(0, int(time.time() * 1000) - duration)
