"""Shared parts of the commands: options of Spark and Kafka, progress, summary."""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from rich.progress import BarColumn, Progress, SpinnerColumn, TimeElapsedColumn

from kafka_native import KafkaException
from kafka_native.config import read_properties
from kafka_native.spark.offset_reader import OffsetReader
from kafka_native.spark.options import SourceOptions
from kafka_native.spark.pipelines import session
from kafka_native.spark.pipelines.lake import Lake
from kafka_native.spark.pipelines.session import PipelineError, Work, open_session
from kafka_native.spark.pipelines.table_target import TableTarget
from kafka_native.spark.pipelines.tables import table_target
from kafka_native.terminal.lines import echo, escaped_children
from kafka_native.terminal.output import CleanTable, printer, styled
from kafka_native.terminal.progress import CleanTextColumn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka_native.spark.pipelines.manifests import Range
    from kafka_native.spark.pipelines.snapshot import PartitionRange

Command = TypeVar("Command", bound=Callable[..., Any])

MIB = 1 << 20
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}

_TRACES = f"{__name__}.traces"
_STACK_FRAME = re.compile(
    r"\s+at [\w.$/<>]+\(|\s+\.\.\. \d+ (more|common frames)"
    r"|Traceback \(most recent call last\)"
    r'|  File "|    \S|    +[\^~]'
)
"""Lines of stack traces of Java and Python."""


def pairs(
    _context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]
) -> dict[str, str]:
    """Parse ``name=value``, which may repeat. Errors don't show the text: it may be a secret."""
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name.strip() or not equals:
            raise click.BadParameter("write NAME=VALUE", param=parameter)
        found[name.strip()] = value
    return found


def names(
    _context: click.Context, _parameter: click.Parameter, text: str | None
) -> tuple[str, ...]:
    """Parse ``a,b`` to a tuple."""
    return tuple(filter(None, (each.strip() for each in (text or "").split(","))))


def size(_context: click.Context, parameter: click.Parameter, text: str | int | None) -> int | None:
    """Parse a size such as ``64m`` to bytes. k, m and g are powers of 1024."""
    if text is None or isinstance(text, int):
        return text
    match = re.fullmatch(r"\s*([0-9]{1,15})\s*([kmg]?)i?b?\s*", text.lower())
    if match is None or int(match[1]) < 1:
        raise click.BadParameter(f"{text!r}: write a size such as 512k, 64m or 1g", param=parameter)
    return int(match[1]) * _UNITS[match[2]]


def seconds(
    _context: click.Context, parameter: click.Parameter, text: str | float | None
) -> float | None:
    """Parse a duration such as ``30s`` to seconds."""
    if text is None or isinstance(text, (int, float)):
        return text
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|min|h)?\s*", text.lower())
    if match is None:
        raise click.BadParameter(
            f"{text!r}: write a duration such as 500ms, 30s or 5m", param=parameter
        )
    return float(match[1]) * _SECONDS[match[2] or "s"]


def kafka_config(
    bootstrap: str | None, config: Mapping[str, str], file: Path | None
) -> dict[str, str]:
    """Merge the client's configuration: file, ``--config``, ``--bootstrap``. Later ones override.

    :raises click.BadParameter: A line of the file isn't ``name=value``.
    :raises click.UsageError: No broker is named.
    """
    try:
        given = read_properties(file.read_text(encoding="utf-8")) if file else {}
    except ValueError as error:
        raise click.BadParameter(f"{file}, {error}") from None
    merged = {**given, **config}
    if bootstrap:
        merged["bootstrap.servers"] = bootstrap
    if not merged.get("bootstrap.servers", "").strip():
        raise click.UsageError("no broker is named: write --bootstrap host:port")
    return merged


def _with_options(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Make a decorator that adds options. Help lists them in this order."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def _config_options(prefix: str, clients: str, *short: str) -> Callable[[Command], Command]:
    """Add ``--config`` and ``--config-file`` for one cluster."""
    return _with_options(
        click.option(
            f"--{prefix}config",
            *short,
            multiple=True,
            callback=pairs,
            metavar="KEY=VALUE",
            help=f"A property of {clients}; repeatable.",
        ),
        click.option(
            f"--{prefix}config-file",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="A properties file with the same; the right place for secrets.",
        ),
    )


kafka_options = _with_options(
    click.option(
        "--bootstrap", envvar="BOOTSTRAP", help="Bootstrap servers: host:port, separated by commas."
    ),
    _config_options("", "the Kafka clients", "-X"),
)
"""Adds ``--bootstrap``, ``--config`` and ``--config-file``, with parameters of these names."""


def table_options(help_text: str) -> Callable[[Command], Command]:
    """Add ``--table`` and ``--table-option``, with parameters ``table`` and ``table_options``."""
    return _with_options(
        click.option("--table", help=help_text),
        click.option(
            "--table-option",
            "table_options",
            multiple=True,
            callback=pairs,
            metavar="KEY=VALUE",
            help="An option of the Delta table's object store, or of the Iceberg catalog; "
            "repeatable.",
        ),
    )


def archive_target(
    lake: str | None,
    table: str | None,
    options: Mapping[str, str],
    partition_by: Sequence[str] = (),
) -> Lake | TableTarget:
    """The lake or the table that a command names.

    :raises click.UsageError: Both or none is named, or options of a table come with a lake.
    :raises click.ClickException: A package is missing.
    """
    if (lake is None) == (table is None):
        raise click.UsageError("write either --lake or --table")
    if table is not None:
        try:
            return table_target(table, partition_by=partition_by or None, options=options)
        except ImportError as error:  # it has the line for pip
            raise click.ClickException(str(error)) from error
    assert lake is not None
    if options or partition_by:
        raise click.UsageError("--table-option and --partition-by are for a --table")
    return Lake(lake)


target_options = _with_options(
    click.option("--to-bootstrap", help="Brokers of the target (default: those of the source)."),
    _config_options("to-", "the target's clients"),
)
"""Adds the same options for a target cluster. Their names and parameters begin with ``to``."""

topic_options = _with_options(
    click.option("--topics", callback=names, metavar="A,B", help="The topics."),
    click.option(
        "--pattern", default="", metavar="REGEX", help="Or topics whose whole name matches."
    ),
)
"""Adds ``--topics`` and ``--pattern``: ``topics: tuple[str, ...]`` and ``pattern: str``."""

min_tasks_option = click.option(
    "--min-tasks",
    type=click.IntRange(1),
    help="Split partitions into at least this number of tasks.",
)


def stream_options(interval: str) -> Callable[[Command], Command]:
    """Add ``--interval`` with this default, and ``--start``: ``float`` and ``str`` parameters."""
    return _with_options(
        click.option(
            "--interval",
            default=interval,
            show_default=True,
            callback=seconds,
            help="The interval of continuous.",
        ),
        click.option(
            "--start",
            default="earliest",
            show_default=True,
            help="The start with a new checkpoint: earliest, latest or offsets as JSON.",
        ),
    )


def _keep_traces(context: click.Context, _parameter: click.Parameter, shows: bool) -> None:
    context.meta[_TRACES] = shows


def run_options(done: str) -> Callable[[Command], Command]:
    """Add ``--dry-run``, ``--traces``, ``--master`` and ``--conf``.

    ``done``: a past participle such as "read".

    The parameters are ``dry_run: bool``, ``master: str`` and ``conf: dict[str, str]``.
    """
    dry_run_help = f"Print what would be {done}, and do nothing."
    return _with_options(
        click.option("--dry-run", is_flag=True, help=dry_run_help),
        click.option(
            "--traces",
            is_flag=True,
            expose_value=False,
            callback=_keep_traces,
            help="Also print the stack traces of Spark and its workers.",
        ),
        click.option("--master", default="local[*]", show_default=True, help="Spark's master."),
        click.option(
            "--conf",
            multiple=True,
            callback=pairs,
            metavar="KEY=VALUE",
            help="Spark's configuration; repeatable.",
        ),
    )


@contextmanager
def reported_in_a_line() -> Iterator[None]:
    """Turn errors that a user can act on into one line and status 1."""
    try:
        yield
    except KafkaException as error:
        raise click.ClickException(error.args[0].str()) from error
    except (PipelineError, ValueError) as error:
        raise click.ClickException(str(error)) from error


@contextmanager
def stopping() -> Iterator[threading.Event]:
    """Yield an event that SIGTERM or Ctrl+C sets, without ending the process.

    A second signal acts as it would without this.
    """
    stop = threading.Event()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def caught(number: int, _frame: object) -> None:
        signal.signal(number, before[signal.Signals(number)] or signal.SIG_DFL)
        stop.set()

    for number in before:
        signal.signal(number, caught)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)


def moment_ms(_context: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    """Parse milliseconds since 1970, or a date or time in ISO 8601, which is UTC by default."""
    if text is None or re.fullmatch("[0-9]{1,18}", text):
        return None if text is None else int(text)
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise click.BadParameter(
            f"{text!r}: write milliseconds since 1970, or a time such as 2026-11-21T08:30",
            param=parameter,
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    return round(moment.timestamp() * 1000)


time_options = _with_options(
    click.option(
        "--start-time",
        callback=moment_ms,
        metavar="TIME",
        help="Only records from this time on: milliseconds since 1970, or ISO 8601 in UTC.",
    ),
    click.option(
        "--end-time", callback=moment_ms, metavar="TIME", help="Only records before this time."
    ),
)
"""Adds ``--start-time`` and ``--end-time``: ``int | None`` parameters in milliseconds."""


def check_topics(config: Mapping[str, str], topics: Sequence[str], pattern: str = "") -> None:
    """Check that named topics exist, before Spark starts: that takes much longer.

    :raises KafkaException: A topic doesn't exist, or no broker answers.
    :raises OptionError: A property is invalid.
    """
    if topics and not pattern:
        options = SourceOptions.parse(session.topic_options(config, topics, None))
        with OffsetReader(options) as cluster:
            cluster.partitions()


def is_stack_frame(line: str) -> bool:
    """Whether a line of Spark or a worker belongs to a stack trace, below the error's own text."""
    return _STACK_FRAME.match(line) is not None


@contextmanager
def spark_session(name: str, master: str, conf: Mapping[str, str]) -> Iterator[SparkSession]:
    """Open a Spark session with `open_session`. Escape the stderr of Spark and its workers.

    Stack traces are left out unless ``--traces`` is given: the error is one line at the end.
    """
    context = click.get_current_context(silent=True)
    shows_all = context is not None and bool(context.meta.get(_TRACES))
    with ExitStack() as stack:
        with escaped_children(
            "spark", lambda line: not shows_all and is_stack_frame(line)
        ):  # here the JVM starts, which later starts the workers
            opened = stack.enter_context(open_session(name, master, conf))
        yield opened


@contextmanager
def progress(title: str) -> Iterator[Callable[[Work], None]]:
    """Show a progress line. Call the yielded function to update it."""
    description, text_column = (
        CleanTextColumn("{task.description}"),
        CleanTextColumn("{task.fields[text]}"),
    )
    columns = (SpinnerColumn(), description, BarColumn(), text_column, TimeElapsedColumn())
    with Progress(*columns, console=printer(), transient=True) as bar:
        task = bar.add_task(title, total=None, text="starting")

        def show(work: Work) -> None:
            total = work.total or None
            text = f"{work.records:,} records, {work.bytes / MIB:,.1f} MiB{work.note}"
            bar.update(task, total=total, completed=work.records if total else 0, text=text)

        yield show


def show_ranges(
    ranges: Sequence[Range | PartitionRange], title: str, unit: str = "partitions"
) -> None:
    """Print the ranges of a dry run."""
    table = CleanTable("topic", "partition", "from offset", "to offset", "offsets", title=title)
    for each in ranges:
        cells = (each.partition, each.start, each.end, each.end - each.start)
        table.add_row(each.topic, *(f"{cell:,}" for cell in cells))
    printer().print(table)
    offsets = sum(each.end - each.start for each in ranges)
    echo(f"{len(ranges)} {unit}, {offsets:,} offsets; nothing was read.")


def summary(title: str, lines: Sequence[tuple[str, str]]) -> None:
    """Print the title and the table at the end of a run."""
    console = printer()
    # Not a title of the table, because rich wraps that to the table's width.
    console.print(styled((title, "table.title")))
    table = CleanTable(show_header=False, box=None, pad_edge=False)
    for name, value in lines:
        table.add_row(name, value)
    console.print(table)


def rates(records: int, size_bytes: int, elapsed_s: float) -> list[tuple[str, str]]:
    """Lines for the summary: records, bytes, time and rate."""
    elapsed = max(elapsed_s, 1e-9)
    return [
        ("records", f"{records:,}"),
        ("bytes", f"{size_bytes / MIB:,.1f} MiB"),
        ("time", f"{elapsed_s:,.1f} s"),
        ("rate", f"{records / elapsed:,.0f} records/s, {size_bytes / MIB / elapsed:,.1f} MiB/s"),
    ]
