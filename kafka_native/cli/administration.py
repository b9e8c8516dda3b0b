"""What the commands that manage a cluster share: their client, outcomes of its calls, the question before damage."""

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
from kafka_native.cli.errors import FAILED_STATUS, Failed, line_of
from kafka_native.config import duration_ms
from kafka_native.terminal.lines import confirm
from kafka_native.terminal.output import Output

Command = TypeVar("Command", bound=Callable[..., Any])
K = TypeVar("K")
T = TypeVar("T")

UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


@contextmanager
def administration(connection: Connection) -> Iterator[AdminClient]:
    """An admin client of the cluster; the calls of this module's users wait as long as ``connection.timeout_s``."""
    with AdminClient(connection.config("producer")) as admin:
        yield admin


class Outcomes(dict[K, T]):
    """What the items of a call have come to, by key; ``errors`` has those that failed, as lines."""

    def __init__(self, futures: Mapping[K, Future[T]]) -> None:
        """Waits for all of them."""
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
    """Tells what has become of each item, and ends with status 1 if one has failed.

    :param what: What the items are, in the singular; the key of their names in JSON.
    :param outcomes: By name: why it failed, None: it didn't.
    :param done: What has been done to them, for people.
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
    """Behind the records of those that could be asked: why the others couldn't; ends with status 1 if there are any."""
    for name, why in errors.items():
        output.remark(f"Error: {what} {name}: {why}")
    if errors:
        raise click.exceptions.Exit(FAILED_STATUS)


def settled(futures: Mapping[K, Future[Any]]) -> dict[K, str | None]:
    """Why each item failed, None for those that didn't: for `report()`."""
    outcomes = Outcomes(futures)
    return {name: outcomes.errors.get(name) for name in futures}


def yes_option(command: Command) -> Command:
    """Adds ``--yes``; the command gets an argument ``yes``."""
    return click.option("-y", "--yes", is_flag=True, help="Don't ask before something is lost.")(
        command
    )


def make_sure(question: str, yes: bool) -> None:
    """Asks on a terminal before something is lost; anywhere else ``--yes`` has to be there."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise Failed(f"{question} Nobody can be asked here: say --yes")
    confirm(question)


# Types of options and arguments: click calls them with what was written.


def assignment(text: str) -> tuple[str, str]:
    """``NAME=VALUE`` as its two parts."""
    name, equals, value = text.partition("=")
    if not name.strip() or not equals:
        raise click.BadParameter(f"{text!r} isn't NAME=VALUE")
    return name.strip(), value


def topic_partitions(text: str) -> tuple[str, tuple[int, ...]]:
    """``TOPIC`` or ``TOPIC:0,3``: a topic with some of its partitions, or none for all of them."""
    topic, colon, written = text.rpartition(":")
    if not colon:
        return text, ()
    parts = written.split(",")
    if not topic or not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        raise click.BadParameter(f"{text!r} isn't TOPIC or TOPIC:PARTITION,...")
    return topic, tuple(dict.fromkeys(int(part) for part in parts))


def moment(text: str) -> int:
    """A point in time, ISO-8601 (local time without an offset) or milliseconds since 1970, as the latter."""
    if text.isascii() and text.isdigit() and 4 < len(text) < 18:
        return int(text)
    try:
        return max(0, int(datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1000))
    except (ValueError, OverflowError):
        wanted = "write 2026-03-01T12:00:00, with +01:00 or Z, or milliseconds since 1970"
        raise click.BadParameter(f"{text!r} is no time: {wanted}") from None


def span(text: str) -> int:
    """A duration, ISO-8601 (``PT1H30M``) or a number with s, m, h or d, in milliseconds."""
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
    """Partitions in short: ``0-3,7``."""
    runs: list[list[int]] = []
    for each in sorted(partitions):
        if runs and each == runs[-1][1] + 1:
            runs[-1][1] = each
        else:
            runs.append([each, each])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def ago(duration: int) -> int:
    """The time so many milliseconds before now, in milliseconds since 1970."""
    return max(0, int(time.time() * 1000) - duration)
