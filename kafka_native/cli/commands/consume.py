"""``kafka-native consume``: messages to stdout, as lines, JSON, Arrow or Parquet."""

from __future__ import annotations

import codecs
import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import click

from kafka_native import Consumer, Message
from kafka_native.cli import column_files, completion, envelope, formats, offset_bounds, texts
from kafka_native.cli.connection import Connection, connected
from kafka_native.cli.errors import ended_by_signals
from kafka_native.cli.reader import Reader
from kafka_native.terminal.lines import fitting, fitting_json, remark

VALUE_FORMS = (*texts.FORMS, "json")
NULL = b"NULL"


def partitions(
    _context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]
) -> list[int]:
    """``-p 0,2-4``, repeated, as numbers."""
    found: list[int] = []
    for text in ",".join(given).split(",") if given else ():
        first, dash, last = text.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or len(text) > 20:
            raise click.BadParameter(f"{text!r}: write 0, or 0,2 or 0-3")
        found += range(int(first), min(int(last or first), int(first) + 100_000) + 1)
    return found


@click.command("consume")
@click.argument("topics", nargs=-1, metavar="[TOPIC]...", shell_complete=completion.topics)
@click.option(
    "-t",
    "--topic",
    metavar="TOPIC",
    shell_complete=completion.topics,
    help="Which topic; as the argument.",
)
@click.option(
    "-G", "--group", metavar="GROUP", shell_complete=completion.groups,
    help="As a member of this group, of any number of topics or ^patterns.",
)  # fmt: skip
@click.option(
    "-p",
    "--partition",
    "numbers",
    multiple=True,
    callback=partitions,
    metavar="N,N-M",
    help="Only these.",
)
@click.option(
    "-o", "--offset", "offsets", multiple=True, metavar="PLACE",
    help="Where to begin: as --from, or s@MS (a time); e@MS: where to end.",
)  # fmt: skip
@click.option(
    "--from", "begin", metavar="PLACE",
    help="beginning (the default, but for groups), end, stored, an offset, -N (before the end), a time, 90m (ago).",
)  # fmt: skip
@click.option(
    "--to",
    "end",
    metavar="PLACE",
    help="Where to end: the same, as it is now; what is there isn't read.",
)
@click.option(
    "-e",
    "--exit/--follow",
    "exits",
    help="Leave at the end of all partitions, or wait for more (default).",
)
@click.option(
    "-c", "--count", "most", type=click.IntRange(1), metavar="N", help="So many messages at most."
)
@click.option(
    "-f",
    "--format",
    "text",
    metavar="FORMAT",
    help="How to print one: %k key, %s value, %o offset ...",
)
@click.option(
    "-J", "--json", "--envelope", "as_envelopes", is_flag=True, help="JSON envelopes, one a line."
)
@click.option("--arrow", metavar="FILE", help="Into an Arrow IPC stream; -: stdout.")
@click.option("--parquet", metavar="FILE", help="Into a Parquet file.")
@click.option(
    "--columns", default=column_files.DEFAULT, callback=column_files.columns, metavar="NAME[:TYPE],...",
    help="The columns of --arrow and --parquet.",
)  # fmt: skip
@click.option(
    "-K", "--key-delimiter", metavar="DELIM", help="Print the key and this before each value."
)
@click.option(
    "-D",
    "--delimiter",
    default="\\n",
    show_default=True,
    metavar="DELIM",
    help="Print this behind each.",
)
@click.option(
    "-Z", "--null", "shows_null", is_flag=True, help="Print nulls as NULL, not as nothing."
)
@click.option(
    "--key-as",
    type=click.Choice(texts.FORMS),
    default="raw",
    show_default=True,
    help="How to print keys.",
)
@click.option(
    "--value-as", type=click.Choice(VALUE_FORMS), default="raw", show_default=True,
    help="How to print values; json (with -J): JSON inside of the envelope.",
)  # fmt: skip
@click.option(
    "--raw",
    "is_raw",
    is_flag=True,
    help="Print to a terminal as to a file: control characters of messages, too.",
)
@click.option("-u", "--unbuffered", is_flag=True, help="A write for each message.")
@click.option("-E", "--keep-going", is_flag=True, help="A partition's error doesn't end it.")
@click.option("-q", "--quiet", is_flag=True, help="No remarks on stderr.")
@connected()
def command(connection: Connection, topics: tuple[str, ...], **options: Any) -> None:
    """Print the messages of TOPIC, or of a group's topics, and go on with those to come.

    In a group, what has been printed is committed, also on Ctrl+C. Ends with status 1 on an error of a partition.
    """
    names = [*([options["topic"]] if options["topic"] else []), *topics]
    begin, end = offset_bounds.chosen(options["offsets"], options["begin"], options["end"])
    _check(names, options, begin, end)
    kind = "parquet" if options["parquet"] else "arrow"
    path = options[kind]
    write = _writer(options)
    stores = options["group"] is not None or (begin is not None and begin.kind == "stored")
    with ExitStack() as stack:
        consumer = stack.enter_context(
            Consumer(_config(connection, options["group"], begin, stores=stores))
        )
        reader = Reader(
            consumer,
            exits=options["exits"],
            keeps_going=options["keep_going"],
            stores=stores,
            timeout_s=connection.timeout_s,
        )
        if not options["quiet"]:
            reader.warn = remark
            reader.remark = reader.warn if sys.stderr.isatty() else reader.remark
        if options["group"]:
            reader.subscribe(names)
        else:
            reader.assign(names[0], options["numbers"], begin or offset_bounds.BEGINNING, end)
        # The file is closed before the consumer, which commits what is in it.
        file = (
            None
            if path is None
            else stack.enter_context(column_files.column_file(path, kind, options["columns"]))
        )
        with ended_by_signals(reader.stop):
            if file is None:
                for messages in reader.batches(options["most"]):
                    write(messages)
            else:
                reader.write_columns(file, options["columns"], options["most"])


def _config(
    connection: Connection,
    group: str | None,
    begin: offset_bounds.OffsetBound | None,
    *,
    stores: bool,
) -> dict[str, Any]:
    options: dict[str, Any] = {
        "group.id": group,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
    }
    if not stores:
        options["enable.auto.commit"] = False
    if group is None:
        # Offsets that retention has removed meanwhile: go on with the first that is there.
        return connection.config("consumer", options, auto_offset_reset="earliest")
    if begin is not None and begin.kind != "stored":
        options["auto.offset.reset"] = begin.kind
    return connection.config("consumer", options)


def _check(
    names: list[str],
    options: dict[str, Any],
    begin: offset_bounds.OffsetBound | None,
    end: offset_bounds.OffsetBound | None,
) -> None:
    """What can't go together is wrong usage."""
    if not names:
        raise click.UsageError("which topic? write -t TOPIC")
    if options["group"] is None and len(names) > 1:
        raise click.UsageError("several topics are for a group: write -G GROUP")
    if options["group"] is not None:
        if options["numbers"] or end is not None:
            raise click.UsageError(
                "a group shares out partitions and has no end: no -p, --to or e@ beside -G"
            )
        if begin is not None and begin.kind not in ("beginning", "end", "stored"):
            raise click.UsageError(
                "a group begins where it has committed, or else at the beginning or the end"
            )
    outputs = ("as_envelopes", "text", "arrow", "parquet")
    if sum(bool(options[name]) for name in outputs) > 1:
        raise click.UsageError("one of -J, -f, --arrow and --parquet")
    if options["arrow"] == column_files.STDOUT and _escapes(options):
        raise click.UsageError(
            "--arrow - isn't for a terminal: send it to a file or a pipe, or say --raw"
        )
    if options["value_as"] == "json" and not options["as_envelopes"]:
        raise click.UsageError("--value-as json is for -J")


def _writer(options: dict[str, Any]) -> Callable[[list[Message]], None]:
    """What takes messages to stdout: one write for all that have come, so that a reader gets them at once."""
    render = _render(options)
    out = sys.stdout.buffer

    def write(messages: list[Message]) -> None:
        out.write(render(messages))
        out.flush()

    def write_each(messages: list[Message]) -> None:
        for message in messages:
            write([message])

    return write_each if options["unbuffered"] else write


def _escapes(options: dict[str, Any]) -> bool:
    """Whether what comes from a message is printed with escapes: files and pipes get the bytes that it has."""
    return sys.stdout.isatty() and not options["is_raw"]


def _render(options: dict[str, Any]) -> formats.Render:
    forms = {
        "key_as": options["key_as"],
        "value_as": options["value_as"],
        "escapes": _escapes(options),
    }
    if options["as_envelopes"]:
        encode, end = envelope.writer(**forms), texts.unescaped(options["delimiter"])
        if forms["escapes"]:
            out = sys.stdout
            return lambda messages: b"".join(
                [
                    fitting_json(encode(message), out).encode(out.encoding) + end
                    for message in messages
                ]
            )
        return lambda messages: b"".join([encode(message).encode() + end for message in messages])
    text = options["text"]
    if text is None:
        key, end = options["key_delimiter"], options["delimiter"].replace("%", "%%")
        text = f"%s{end}" if key is None else f"%k{key.replace('%', '%%')}%s{end}"
    render = formats.render_of(text, null=NULL if options["shows_null"] else b"", **forms)
    return _for_terminal(render) if forms["escapes"] else render


def _for_terminal(render: formats.Render) -> formats.Render:
    """In the terminal's encoding: bytes of UTF-8 are control characters to a terminal that has another one."""
    out = sys.stdout
    if codecs.lookup(out.encoding).name == "utf-8":
        return render
    return lambda messages: fitting(
        render(messages).decode("utf-8", "backslashreplace"), out
    ).encode(out.encoding)
