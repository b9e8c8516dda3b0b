"""``kafka-native produce``: messages from stdin and files."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import click

from kafka_native.cli import completion, envelope, splitter, texts, typed_messages
from kafka_native.cli.connection import Connection, connected
from kafka_native.cli.effects import refuse_without_effect
from kafka_native.cli.errors import Failed
from kafka_native.cli.registry import reference_option, registry_client, rule_config
from kafka_native.cli.sender import SendCounts, Sender, sending
from kafka_native.cli.typed_messages import SchemaChoice, TypedWriter
from kafka_native.config import PROPERTIES
from kafka_native.terminal.output import Output, json_option, remarks

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
STDIN = "-"
LIMIT = "message.max.bytes"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class InputOptions:
    """The options for the form of the input and the parts of its messages."""

    topic: str | None
    partition: int | None
    key: bytes | None
    key_delimiter: bytes | None
    headers: list[tuple[str, bytes | None]]
    empty_is_null: bool
    key_as: str
    value_as: str
    as_envelopes: bool
    typed: Mapping[str, TypedWriter]
    """What makes the bytes of ``key`` and ``value`` with ``-s``."""

    def send(self, sender: Sender, lines: list[bytes], number: int) -> None:
        """Send a message for each line.

        :param number: The number of messages before these, for error texts.
        :raises Failed: A line can't be parsed. The messages before it are sent.
        """
        if not self.as_envelopes and self.key_as == self.value_as == "raw" and not self.typed:
            self._send_pairs(sender, *self._cut(lines))
            return
        if self.as_envelopes:
            rows, error = _read(lines, self._row)
            self._send_rows(sender, rows)
            done = len(rows)
        else:
            pairs, error = _read(lines, self._decoded)
            self._send_pairs(sender, [value for _, value in pairs], [key for key, _ in pairs])
            done = len(pairs)
        if error is not None:
            raise Failed(f"message {number + done + 1:,} of the input: {error}")

    def _cut(self, lines: list[bytes]) -> tuple[list[bytes | None], list[bytes | None] | None]:
        if self.key_delimiter is None:
            return list(lines), None
        # In a line without the delimiter, all of the line is the value, and the key is null.
        cut = [line.partition(self.key_delimiter) for line in lines]
        return [value if found else key for key, found, value in cut], [
            key if found else None for key, found, _ in cut
        ]

    def _decoded(self, line: bytes) -> tuple[bytes | None, bytes | None]:
        """Decode a line to key and value; ValueError if one hasn't the form of its option."""
        [value], keys = self._cut([line])
        key = None if keys is None else keys[0]
        return None if key is None else self._part("key", key), self._part("value", value or b"")

    def _part(self, name: str, text: bytes) -> bytes | None:
        writer = self.typed.get(name)
        if writer is None:
            return _in_form(name, text, self.key_as if name == "key" else self.value_as)
        if not text and self.empty_is_null:
            return None
        assert self.topic is not None, "the command has checked it"
        return writer.read(self.topic, text)

    def _row(self, line: bytes) -> envelope.Row:
        return envelope.read(line, self._member if self.typed else envelope.bytes_of)

    def _member(self, name: str, topic: str | None, data: Any) -> bytes | None:
        """The bytes of a key or value in an envelope."""
        writer, topic = self.typed.get(name), self.topic or topic
        if writer is None:
            return envelope.bytes_of(name, topic, data)
        if topic is None:
            raise ValueError("an envelope names no topic, and there is no -t")
        return writer.write(topic, data)

    def _send_pairs(
        self, sender: Sender, values: list[bytes | None], keys: list[bytes | None] | None
    ) -> None:
        if self.empty_is_null:
            values = [value or None for value in values]
            keys = keys and [key or None for key in keys]
        if self.key is not None:
            keys = [self.key if key is None else key for key in keys or [None] * len(values)]
        columns: dict[str, Any] = {
            "keys": keys,
            "partition": -1 if self.partition is None else self.partition,
        }
        if self.headers:
            columns["headers"] = [self.headers] * len(values)
        assert self.topic is not None, "the command has checked it"
        sender.send(self.topic, values, **columns)

    def _send_rows(self, sender: Sender, rows: Sequence[envelope.Row]) -> None:
        for topic, group in groupby(rows, key=lambda row: self.topic or row.topic):
            if topic is None:
                raise Failed("an envelope names no topic, and there is no -t")
            same = list(group)
            sender.send(
                topic,
                [row.value for row in same],
                keys=[self.key if row.key is None else row.key for row in same],
                partition=[
                    row.partition if self.partition is None else self.partition for row in same
                ],
                headers=[[*(row.headers or ()), *self.headers] or None for row in same],
                timestamps=[row.timestamp for row in same],
            )


def _in_form(what: str, text: bytes, form: str) -> bytes:
    try:
        return texts.FROM_FORM[form](text)
    except ValueError:
        raise ValueError(f"the {what} isn't valid {form}") from None


def _read(lines: list[bytes], read: Callable[[bytes], T]) -> tuple[list[T], ValueError | None]:
    """Parse lines up to the first bad one; also return its error."""
    found: list[T] = []
    for line in lines:
        try:
            found.append(read(line))
        except ValueError as error:
            return found, error
    return found, None


def form_option(which: str) -> Callable[[Any], Any]:
    """Make the option ``--key-as`` or ``--value-as``."""
    text = f"The form of {which}s in the input: bytes as they are, or hex or base64 of them."
    return click.option(
        f"--{which}-as", type=click.Choice(texts.FORMS), default="raw", show_default=True, help=text
    )


def schema_options(which: str, *prefixes: str) -> Callable[[Any], Any]:
    """Make the options for the file with a schema, and for the references in it."""
    text = f"The schema of {which}s, to register if it is new. Default: the latest one."

    def decorate(command: Any) -> Any:
        for option in (
            reference_option(
                *(f"--{prefix}reference" for prefix in prefixes),
                f"{which}_references",
                help=f"A schema that the schema of {which}s refers to; repeatable.",
            ),
            click.option(
                *(f"--{prefix}schema" for prefix in prefixes),
                f"{which}_schema",
                metavar="FILE",
                type=click.Path(exists=True, dir_okay=False),
                help=text,
            ),
        ):
            command = option(command)
        return command

    return decorate


@click.command("produce")
@click.argument("words", nargs=-1, metavar="[TOPIC] [FILE]...", shell_complete=completion.topics)
@click.option(
    "-t", "--topic", metavar="TOPIC", shell_complete=completion.topics,
    help="The topic, in place of the argument. -J needs none if each envelope names one.",
)  # fmt: skip
@click.option(
    "-p",
    "--partition",
    type=click.IntRange(-1),
    metavar="N",
    help="Send all messages to this partition (-1: by the key).",
)
@click.option(
    "-k",
    "--key",
    callback=texts.argument,
    metavar="KEY",
    help="The key of messages without a key.",
)
@click.option(
    "-K",
    "--key-delimiter",
    callback=texts.delimiter,
    metavar="DELIM",
    help="This separates the key from the value in a message.",
)
@click.option(
    "-D",
    "--delimiter",
    default="\\n",
    show_default=True,
    callback=texts.delimiter,
    metavar="DELIM",
    help="This ends a message in the input; \\n, \\t, \\0 and \\xNN are escapes.",
)
@click.option(
    "-H", "--header", "headers", multiple=True, callback=texts.headers, metavar="NAME=VALUE",
    help="A header for each message; repeatable. NAME alone: a null value.",
)  # fmt: skip
@click.option(
    "-Z", "--null", "empty_is_null", is_flag=True, help="Empty values and keys are nulls."
)
@click.option("-z", "--compression", type=click.Choice(CODECS), help="compression.codec.")
@click.option(
    "-l", "--lines", is_flag=True, help="Split each FILE like stdin. Default: one message."
)
@click.option(
    "-J",
    "--envelope",
    "as_envelopes",
    is_flag=True,
    help="Each message is a JSON envelope, as consume -J prints it.",
)
@form_option("key")
@form_option("value")
@typed_messages.option(packed=False)
@schema_options("value", "", "value-")
@schema_options("key", "key-")
@click.option(
    "--message",
    metavar="NAME",
    help="The message type of Protobuf values. Default: the first one of the schema.",
)
@click.option(
    "-c", "--count", "count_max", type=click.IntRange(1), metavar="N", help="Stop after N messages."
)
@click.option("-q", "--quiet", is_flag=True, help="No progress and no count on stderr.")
# kcat has -e for both modes.
@click.option("-e", "--exit", "unused_exit", is_flag=True, hidden=True)
@connected(registry=True)
@json_option
def command(connection: Connection, output: Output, words: tuple[str, ...], **options: Any) -> None:
    """Send messages to TOPIC: each line of stdin, or each FILE as one.

    With -t or -J, all arguments are files. Input of any length is read as fast as the cluster takes
    it. With -X transactional.id=ID all of it is one transaction. Ends with status 1 if a message
    wasn't delivered.
    """
    files = words
    if words and options["topic"] is None and not options["as_envelopes"]:
        options["topic"], files = words[0], words[1:]
    for file in files:
        _check_file(file)
    refuse_without_effect(
        [
            ("lines", bool(files), "-l is for FILEs; the lines of stdin are messages already"),
            ("delimiter", options["lines"] or not files, "-D is for stdin, and for FILEs with -l"),
            ("key_as", options["key_delimiter"] is not None, "--key-as is for the keys of -K"),
        ]
    )
    input_options = _input_options(options)
    config = connection.config("producer", {"compression.codec": options["compression"]})
    limit = int(config.get(LIMIT) or str(PROPERTIES[LIMIT].default))
    shown = not options["quiet"] and sys.stderr.isatty()
    counts = SendCounts()
    try:
        with ExitStack() as stack:
            # A file that can't be read is an error before the first request to the cluster.
            streams = [stack.enter_context(_opened(file)) for file in files or (STDIN,)]
            input_options = _typed(stack, connection, input_options, options)
            sender = stack.enter_context(
                sending(
                    config,
                    input_options.topic,
                    connection.timeout_s,
                    counts,
                    input_options.partition,
                )
            )
            progress = stack.enter_context(
                _progress(counts, shown and not any(each.isatty() for each in streams))
            )
            for lines in _blocks(
                streams, options, split=options["lines"] or not files, limit=limit
            ):
                wanted = (
                    lines
                    if options["count_max"] is None
                    else lines[: options["count_max"] - counts.taken]
                )
                input_options.send(sender, wanted, counts.taken)
                progress()
                if counts.taken == options["count_max"]:
                    break
    finally:
        if output.as_json:
            output.document(counts.described())
    if shown:
        output.remark(
            f"{texts.count(counts.delivered, 'message')}, {counts.bytes:,} bytes in "
            f"{counts.seconds:.1f} s"
        )


def _input_options(options: dict[str, Any]) -> InputOptions:
    input_options = InputOptions(
        **{name: options[name] for name in InputOptions.__dataclass_fields__ if name != "typed"},
        typed={},
    )
    _check_schema_options(options)
    if input_options.topic is None and not input_options.as_envelopes:
        raise click.UsageError("which topic? write TOPIC or -t TOPIC")
    has_raw_option = (
        input_options.key_delimiter
        or input_options.empty_is_null
        or {input_options.key_as, input_options.value_as} != {"raw"}
    )
    if input_options.as_envelopes and has_raw_option:
        raise click.UsageError(
            "-J has key and value in the envelope: it excludes -K, -Z, --key-as and --value-as"
        )
    return input_options


def _typed(
    stack: ExitStack, connection: Connection, given: InputOptions, options: dict[str, Any]
) -> InputOptions:
    """Add the writers for ``-s``. The schemas of the topic are found before a message is read.

    :raises Failed: A schema can't be used.
    """
    if not options["formats"]:
        return given
    texts_of = {name: _schema_text(options[f"{name}_schema"]) for name in ("key", "value")}
    from kafka_native.cli.rules import command_rules

    client = stack.enter_context(registry_client(connection))
    rules = stack.enter_context(command_rules(client, rule_config(connection)))
    writers = {}
    for name, kind in options["formats"].items():
        message = options["message"] if name == "value" else None
        choice = SchemaChoice(kind, texts_of[name], message, options[f"{name}_references"])
        writers[name] = TypedWriter(name, choice, client, rules)
    key = given.key
    try:
        if given.topic is not None:
            for writer in writers.values():
                writer.prepare(given.topic)
            if key is not None and "key" in writers:
                key = writers["key"].read(given.topic, key)
    except ValueError as error:
        raise Failed(str(error)) from error
    return replace(given, typed=writers, key=key)


def _schema_text(file: str | None) -> str | None:
    if file is None:
        return None
    try:
        return Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise Failed(f"{file}: not UTF-8") from None


def _check_schema_options(options: dict[str, Any]) -> None:
    """Reject options for schemas that don't go together."""
    kinds = options["formats"]
    for name in ("key", "value"):
        if name in kinds and options[f"{name}_as"] != "raw":
            raise click.UsageError(f"-s {name}=... reads JSON: it excludes --{name}-as")
        if name not in kinds and options[f"{name}_schema"]:
            raise click.UsageError(f"--{name}-schema is for -s {name}=FORMAT")
        if options[f"{name}_references"] and not options[f"{name}_schema"]:
            raise click.UsageError(
                f"--{name}-reference is for --{name}-schema FILE: a registered schema has its own"
            )
    if options["message"] and kinds.get("value") != "protobuf":
        raise click.UsageError("--message is for -s value=protobuf")
    if "key" in kinds and options["key"] is not None and options["topic"] is None:
        raise click.UsageError("-k with a schema needs the topic: write -t TOPIC")


def _check_file(file: str) -> None:
    """Reject a FILE that doesn't exist or is a folder, as wrong usage."""
    kind = click.Path(exists=True, dir_okay=False, allow_dash=True)
    context = click.get_current_context()
    [argument] = [each for each in context.command.params if isinstance(each, click.Argument)]
    kind.convert(file, argument, context)


@contextmanager
def _opened(file: str) -> Iterator[BinaryIO]:
    if file == STDIN:
        yield sys.stdin.buffer
    else:
        with Path(file).open("rb") as stream:
            yield stream


def _blocks(
    streams: Sequence[BinaryIO], options: dict[str, Any], *, split: bool, limit: int
) -> Iterator[list[bytes]]:
    if options["as_envelopes"] or options["formats"]:
        limit = (limit + splitter.FRAME_BYTES) * splitter.ESCAPED_RATIO_MAX
    elif options["key_as"] != "raw" or options["value_as"] != "raw":
        limit *= 2  # hex
    for stream in streams:
        if not split:
            yield [splitter.whole(stream, limit)]
            continue
        for lines in splitter.split(stream, options["delimiter"], limit + splitter.FRAME_BYTES):
            yield [line for line in lines if line.strip()] if options["as_envelopes"] else lines


@contextmanager
def _progress(counts: SendCounts, wanted: bool) -> Iterator[Callable[[], None]]:
    """Show a progress line on stderr. Call the yielded function to update it."""
    if not wanted:
        yield lambda: None
        return
    from rich.progress import Progress, SpinnerColumn, TimeElapsedColumn

    from kafka_native.terminal.progress import CleanTextColumn

    columns = (SpinnerColumn(), CleanTextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=remarks(), transient=True) as bar:
        task = bar.add_task("waiting for input", total=None)

        def show() -> None:
            rate = counts.taken / max(bar.tasks[0].elapsed or 0.0, 1e-9)
            failed = f", {counts.failed:,} failed" if counts.failed else ""
            text = (
                f"{texts.count(counts.taken, 'message')}, {counts.bytes >> 20:,} MiB, "
                f"{rate:,.0f} messages/s{failed}"
            )
            bar.update(task, description=text)

        yield show
