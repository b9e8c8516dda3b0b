"""``kafka-native consume``: messages to stdout, as lines, JSON, Arrow or Parquet."""

from __future__ import annotations

import codecs
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from kafka_native import Consumer, Message
from kafka_native.cli import (
    column_files,
    completion,
    envelope,
    formats,
    offset_bounds,
    patterns,
    texts,
    typed_messages,
)
from kafka_native.cli.connection import Connection, connected
from kafka_native.cli.effects import refuse_without_effect
from kafka_native.cli.errors import Failed, ended_by_signals
from kafka_native.cli.reader import Reader, column_problems
from kafka_native.cli.registry import registry_client, rule_config
from kafka_native.cli.typed_messages import (
    FORMATS,
    Column,
    PackedColumn,
    SchemaColumn,
    TypedReader,
    has_schemas,
)
from kafka_native.terminal.lines import fitting, fitting_json, remark

if TYPE_CHECKING:
    from kafka_native.schema_registry import SchemaRegistryClient

VALUE_FORMS = (*texts.FORMS, "json")
NULL = b"NULL"
KCATS, OWN = "kcat", "own"
"""The names of the members of JSON envelopes."""


def partitions(
    _context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]
) -> list[int]:
    """Parse ``-p 0,2-4``, which may repeat, to numbers."""
    found: list[int] = []
    for text in ",".join(given).split(",") if given else ():
        first, dash, last = text.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or len(text) > 20:
            raise click.BadParameter(f"{text!r}: write 0, or 0,2 or 0-3")
        found += range(int(first), min(int(last or first), int(first) + 100_000) + 1)
    return found


def fields(
    _context: click.Context, _parameter: click.Parameter, text: str | None
) -> list[str] | None:
    """Parse ``id,customer.city`` to names."""
    return None if text is None else [each.strip() for each in text.split(",")]


def subject_option(which: str) -> Callable[[Any], Any]:
    """Make the option for the subject whose latest schema is that of a column."""
    return click.option(
        f"--{which}-subject",
        metavar="SUBJECT",
        shell_complete=completion.subjects,
        help=f"The column has the latest schema of this subject. Default: TOPIC-{which}.",
    )


@click.command("consume")
@click.argument("topics", nargs=-1, metavar="[TOPIC]...", shell_complete=completion.topics)
@click.option(
    "-t",
    "--topic",
    metavar="TOPIC",
    shell_complete=completion.topics,
    help="The topic, in place of the argument.",
)
@click.option(
    "-G",
    "--group",
    metavar="GROUP",
    shell_complete=completion.groups,
    help="Join this group, with any number of topics; orders-* and ^orders-[0-9]+ are patterns.",
)
@click.option(
    "-p",
    "--partition",
    "numbers",
    multiple=True,
    callback=partitions,
    metavar="N,N-M",
    help="Only these partitions.",
)
@click.option(
    "-o",
    "--offset",
    "offsets",
    multiple=True,
    metavar="PLACE",
    help="Where to begin: like --from, or s@MS (a time). e@MS: where to end.",
)
@click.option(
    "--from",
    "begin",
    metavar="PLACE",
    help="beginning (the default without a group), end, stored, an offset, -N (before the end), a "
    "time, 90m (ago).",
)
@click.option(
    "--to",
    "end",
    metavar="PLACE",
    help="Where to end (exclusive), in the forms of --from; end is the current end.",
)
@click.option(
    "-e",
    "--exit/--follow",
    "exits",
    help="Stop at the end of all partitions (-G: also after -m seconds without any), or wait for "
    "more (default).",
)
@click.option(
    "-c", "--count", "count_max", type=click.IntRange(1), metavar="N", help="Stop after N messages."
)
@click.option(
    "-f",
    "--format",
    "text",
    metavar="FORMAT",
    help="The format of a message: %k key, %s value, %o offset ...",
)
@click.option(
    "-J", "envelopes", flag_value=KCATS, help="JSON on each line, with kcat's names of members."
)
@click.option(
    "--json",
    "--envelope",
    "envelopes",
    flag_value=OWN,
    help="JSON on each line: topic, partition, offset, timestamp, headers, key, value.",
)
@click.option("--arrow", metavar="FILE", help="Write an Arrow IPC stream; -: to stdout.")
@click.option("--parquet", metavar="FILE", help="Write a Parquet file.")
@click.option(
    "--columns",
    default=column_files.DEFAULT,
    callback=column_files.columns,
    metavar="NAME[:TYPE],...",
    help="The columns of --arrow and --parquet.",
)
@click.option(
    "-K", "--key-delimiter", metavar="DELIM", help="Print the key and this before each value."
)
@click.option(
    "-D",
    "--delimiter",
    default="\\n",
    show_default=True,
    metavar="DELIM",
    help="Print this after each message.",
)
@click.option(
    "-Z", "--null", "shows_null", is_flag=True, help="Print a null as NULL. Default: as nothing."
)
@click.option(
    "--key-as",
    type=click.Choice(texts.FORMS),
    default="raw",
    show_default=True,
    help="How to print keys.",
)
@click.option(
    "--value-as",
    type=click.Choice(VALUE_FORMS),
    default="raw",
    show_default=True,
    help="How to print values; json (with -J, --json): as JSON inside the envelope.",
)
@typed_messages.option(packed=True)
@click.option(
    "--fields",
    callback=fields,
    metavar="NAME,...",
    help="With -s and --arrow or --parquet: only these fields of values; a.b is a field of a.",
)
@click.option(
    "--flatten", is_flag=True, help="With -s and --arrow or --parquet: each field becomes a column."
)
@click.option(
    "--message",
    metavar="NAME",
    help="The message type of Protobuf values. Default: the first one of the schema.",
)
@subject_option("value")
@subject_option("key")
@click.option(
    "--raw",
    "is_raw",
    is_flag=True,
    help="Don't escape the control characters of messages on a terminal.",
)
@click.option("-u", "--unbuffered", is_flag=True, help="Write each message at once.")
@click.option(
    "-E",
    "--keep-going",
    is_flag=True,
    help="Go on after an error of a partition, and after a message that -s can't decode.",
)
@click.option("-q", "--quiet", is_flag=True, help="No remarks on stderr.")
@connected(registry=True)
def command(connection: Connection, topics: tuple[str, ...], **options: Any) -> None:
    """Print the messages of TOPIC or of a group's topics, and wait for new ones.

    In a group, printed messages are committed, also on Ctrl+C. Ends with status 1 on an error of a
    partition.
    """
    names = [*([options["topic"]] if options["topic"] else []), *topics]
    begin, end = offset_bounds.chosen(options["offsets"], options["begin"], options["end"])
    _check(names, options, begin, end)
    is_stored = begin is not None and begin.kind == "stored"
    if is_stored and options["group"] is None and not connection.properties.get("group.id"):
        raise click.UsageError("stored is the offset of a group: write -X group.id=GROUP, or -G")
    kind = "parquet" if options["parquet"] else "arrow"
    path = options[kind]
    stores = options["group"] is not None or is_stored
    with ExitStack() as stack:
        client = None
        if has_schemas(options["formats"]):
            client = stack.enter_context(registry_client(connection))
        typed = None
        if options["formats"] and path is None:
            typed = _typed_reader(stack, connection, client, options)
        write = _writer(options, typed)
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
            reader.subscribe([patterns.for_subscription(name) for name in names])
        else:
            reader.assign(names[0], options["numbers"], begin or offset_bounds.BEGINNING, end)
        # The file closes before the consumer, so the consumer commits what the file has.
        file = (
            None
            if path is None
            else stack.enter_context(column_files.column_file(path, kind, options["columns"]))
        )
        with ended_by_signals(reader.stop):
            if file is None:
                _print(reader.batches(options["count_max"]), write, reader, typed)
            else:
                decoding = {} if client is None else _decoding(client, names, options)
                reader.write_columns(file, options["columns"], options["count_max"], decoding)
                if file.failed:
                    raise Failed(
                        f"{file.failed:,} keys or values couldn't be decoded: the columns "
                        "key_error and value_error have the reasons"
                    )


def _print(
    batches: Iterator[list[Message]],
    write: Callable[[list[Message]], None],
    reader: Reader,
    typed: TypedReader | None,
) -> None:
    """Print messages until the reader ends.

    :raises Failed: A message couldn't be decoded. The messages before it are printed.
    """
    for messages in batches:
        if typed is None:
            write(messages)
            continue
        converted, failure = typed.convert(messages)
        write(converted)
        if failure is not None:
            reader.store_messages(converted)
            raise failure
    if typed is not None:
        typed.finish()


def _decoding(
    client: SchemaRegistryClient, names: list[str], options: dict[str, Any]
) -> dict[str, Any]:
    """The arguments of `Consumer.consume_arrow` for ``-s``."""
    from kafka_native import codecs

    found: dict[str, Any] = {
        "flatten": options["flatten"],
        "on_error": "column" if options["keep_going"] else "raise",
    }
    for name, kind in options["formats"].items():
        codec = {"avro": codecs.Avro, "json": codecs.Json, "protobuf": codecs.Protobuf}[kind]
        subject = options[f"{name}_subject"] or f"{names[0]}-{name}"
        more: dict[str, Any] = {}
        if name == "value":
            more["fields"] = options["fields"]
            if options["message"]:
                more["message"] = options["message"]
        with column_problems(is_typed=True):
            found[name] = codec(client, subject=subject, **more)
    return found


def _typed_reader(
    stack: ExitStack,
    connection: Connection,
    client: SchemaRegistryClient | None,
    options: dict[str, Any],
) -> TypedReader:
    """Make what ``-s`` needs. The stack closes the executors of rules."""
    kinds = options["formats"].items()
    columns: dict[str, Column] = {
        name: PackedColumn(name, kind) for name, kind in kinds if kind not in FORMATS
    }
    if client is not None:
        from kafka_native.cli.rules import command_rules

        rules = stack.enter_context(command_rules(client, rule_config(connection)))
        columns |= {
            name: SchemaColumn(name, kind, client, rules) for name, kind in kinds if kind in FORMATS
        }
    return TypedReader(
        [columns[name] for name in sorted(columns)],
        keeps_going=options["keep_going"],
        keeps_failed=options["envelopes"] is not None,
        warn=(lambda _text: None) if options["quiet"] else remark,
        as_kcat=options["envelopes"] == KCATS,
    )


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
        # If retention has removed the offset, go on with the first offset that exists.
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
    """Reject options that don't go together."""
    if not names:
        raise click.UsageError("which topic? write -t TOPIC")
    if options["group"] is None and len(names) > 1:
        raise click.UsageError("several topics are for a group: write -G GROUP")
    if options["group"] is None and patterns.is_pattern(names[0]):
        raise click.UsageError("patterns of topics are for a group: write -G GROUP")
    if options["group"] is not None:
        if options["numbers"] or end is not None:
            raise click.UsageError(
                "a group assigns partitions and has no end: -G excludes -p, --to and e@"
            )
        if begin is not None and begin.kind not in ("beginning", "end", "stored"):
            raise click.UsageError(
                "a group begins at its committed offset; without one, at the beginning or the end"
            )
    outputs = ("envelopes", "text", "arrow", "parquet")
    if sum(bool(options[name]) for name in outputs) > 1:
        raise click.UsageError("one of -J, --json, -f, --arrow and --parquet")
    if options["arrow"] == column_files.STDOUT and _escapes(options):
        raise click.UsageError(
            "--arrow - isn't for a terminal: send it to a file or a pipe, or say --raw"
        )
    for name in options["formats"]:
        if options[f"{name}_as"] != "raw":
            raise click.UsageError(f"-s {name}=... prints text: it excludes --{name}-as")
    _check_typed_columns(names, options)
    _check_effects(options)
    if options["value_as"] == "json" and not options["envelopes"]:
        raise click.UsageError("--value-as json is for -J and --json")


def _check_effects(options: dict[str, Any]) -> None:
    """Reject options that the form of the output makes ineffective."""
    is_file = options["arrow"] or options["parquet"]
    is_text = not (is_file or options["envelopes"])
    refuse_without_effect(
        [
            ("key_delimiter", is_text and options["text"] is None, "-K is for lines, without -f"),
            ("delimiter", not is_file and options["text"] is None, "-D is for lines, without -f"),
            ("shows_null", is_text, "-Z is for text"),
            ("key_as", not is_file, "--key-as is for text and JSON; --columns has types"),
            ("value_as", not is_file, "--value-as is for text and JSON; --columns has types"),
            ("columns", bool(is_file), "--columns is for --arrow and --parquet"),
            ("unbuffered", not is_file, "-u is for text and JSON"),
        ]
    )


def _check_typed_columns(names: list[str], options: dict[str, Any]) -> None:
    """Reject options for typed columns that don't go together."""
    has_file = options["arrow"] or options["parquet"]
    for name in ("key", "value"):
        if options[f"{name}_subject"] and not (name in options["formats"] and has_file):
            raise click.UsageError(f"--{name}-subject is for -s {name}=... with --arrow, --parquet")
    if options["flatten"] and not (options["formats"] and has_file):
        raise click.UsageError("--flatten is for -s with --arrow and --parquet")
    if options["message"] and not (options["formats"].get("value") == "protobuf" and has_file):
        raise click.UsageError(
            "--message is for -s value=protobuf with --arrow and --parquet; elsewhere each message "
            "names its type"
        )
    if options["fields"] and not ("value" in options["formats"] and has_file):
        raise click.UsageError("--fields is for -s value=... with --arrow and --parquet")
    if not has_file:
        return
    for name, kind in options["formats"].items():
        if kind not in FORMATS:
            raise click.UsageError(
                f"-s {name}={kind} is for text: --arrow and --parquet have the {name}'s bytes, "
                f"without -s {name}=..."
            )
        if name not in options["columns"] or options["columns"][name] is not None:
            raise click.UsageError(
                f"-s {name}=... decodes the column {name}: --columns has to name it, without a type"
            )
        is_pattern = len(names) > 1 or names[0].startswith("^")
        if is_pattern and not options[f"{name}_subject"]:
            raise click.UsageError(
                f"several topics may have several schemas: write --{name}-subject"
            )


def _writer(options: dict[str, Any], typed: TypedReader | None) -> Callable[[list[Message]], None]:
    """Make the function that writes messages to stdout.

    It flushes after each batch, so that a reader of the pipe gets the messages at once.
    """
    render = _render(options, typed)
    out = sys.stdout.buffer

    def write(messages: list[Message]) -> None:
        out.write(render(messages))
        out.flush()

    def write_each(messages: list[Message]) -> None:
        for message in messages:
            write([message])

    return write_each if options["unbuffered"] else write


def _escapes(options: dict[str, Any]) -> bool:
    """Whether unprintable characters of messages are escaped. Files and pipes get the bytes."""
    return sys.stdout.isatty() and not options["is_raw"]


def _render(options: dict[str, Any], typed: TypedReader | None) -> formats.Render:
    forms = {
        "key_as": options["key_as"],
        "value_as": options["value_as"],
        "escapes": _escapes(options),
    }
    if options["envelopes"]:
        # A packed value is a text like any other.
        forms |= {
            f"{name}_as": "typed" for name, kind in options["formats"].items() if kind in FORMATS
        }
        more = None if typed is None else typed.members
        as_kcat = options["envelopes"] == KCATS
        encode = envelope.writer(**forms, as_kcat=as_kcat, more=more)
        end = texts.unescaped(options["delimiter"])
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
    """Convert the output to the terminal's encoding.

    In another encoding, the bytes of UTF-8 can be control characters.
    """
    out = sys.stdout
    if codecs.lookup(out.encoding).name == "utf-8":
        return render
    return lambda messages: fitting(
        render(messages).decode("utf-8", "backslashreplace"), out
    ).encode(out.encoding)
