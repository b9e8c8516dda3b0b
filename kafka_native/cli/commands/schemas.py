"""``kafka-native schemas``: list, show, compare, check and register the schemas of a registry."""

from __future__ import annotations

import difflib
import json
import sys
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar
from uuid import UUID

import click

from kafka_native.cli import completion
from kafka_native.cli.administration import numbers
from kafka_native.cli.connection import Connection, connected
from kafka_native.cli.errors import FAILED_STATUS, Failed
from kafka_native.cli.registry import Reference, reference_option, registry_client
from kafka_native.terminal import lines
from kafka_native.terminal.output import Output, json_option

if TYPE_CHECKING:
    from kafka_native.schema_registry import RegisteredSchema, Schema, SchemaRegistryClient

Command = TypeVar("Command", bound=Callable[..., Any])

TYPES = ("avro", "json", "protobuf")
TYPE_OF_SUFFIX = {".avsc": "avro", ".avro": "avro", ".json": "json", ".proto": "protobuf"}
STDIN = "-"
LATEST: Final = "latest"
Version = int | Literal["latest"]


def version(text: str) -> Version:
    """Parse a version: a number, or ``latest``."""
    if text == LATEST:
        return LATEST
    if text.isascii() and text.isdigit() and len(text) < 10:
        return int(text)
    raise click.BadParameter(f"{text!r} is no version: write a number, or {LATEST}")


def schema_id(text: str) -> int | str:
    """Parse an id, a number, or a GUID."""
    if text.isascii() and text.isdigit() and len(text) < 11:
        return int(text)
    try:
        return str(UUID(text))
    except ValueError:
        raise click.BadParameter(f"{text!r} is neither a number nor a GUID") from None


def schema_options(command: Command) -> Command:
    """Add the arguments and options of commands that read a schema from a file."""
    for option in (
        click.option("--normalize", is_flag=True, help="Let the registry normalize the schema."),
        reference_option(
            "--reference", "references", help="A schema that FILE refers to; repeatable."
        ),
        click.option(
            "--type",
            "kind",
            type=click.Choice(TYPES),
            help="The type of the schema (default: by the suffix .avsc, .json or .proto).",
        ),
        click.argument("file", metavar="FILE", type=click.Path(dir_okay=False, allow_dash=True)),
        subject_argument,
    ):
        command = option(command)
    return command


subject_argument = click.argument("subject", shell_complete=completion.subjects)


@click.group("schemas")
def command() -> None:
    """List, show, compare, check and register the schemas of a schema registry."""


@command.command("list")
@click.argument("pattern", default="*", shell_complete=completion.subjects)
@click.option(
    "-l",
    "--long",
    "is_long",
    is_flag=True,
    help="Also the latest version: one request per subject.",
)
@click.option("-a", "--all", "everything", is_flag=True, help="List deleted subjects, too.")
@connected(registry=True, cluster=False)
@json_option
def list_subjects(
    connection: Connection, output: Output, pattern: str, is_long: bool, everything: bool
) -> None:
    """List the subjects whose names match PATTERN. * and ? are wildcards."""
    headings = {"subject": "subject"}
    with registry_client(connection) as client:
        present = set(client.get_subjects())
        names = client.get_subjects(deleted=True) if everything else present
        records: list[dict[str, object]] = []
        for name in sorted(each for each in names if fnmatchcase(each, pattern)):
            record: dict[str, object] = {"subject": name}
            if everything:
                record["deleted"] = name not in present
            if is_long and name in present:
                record |= _described(client.get_latest_version(name))
            records.append(record)
    if everything:
        headings["deleted"] = "deleted"
    if is_long:
        headings |= {"version": "version", "id": "id", "type": "type"}
    output.rows(records, headings)


@command.command("show")
@click.argument("subject", required=False, shell_complete=completion.subjects)
@click.option(
    "-V", "--version", "number", type=version, metavar="N", help="The version (default: latest)."
)
@click.option(
    "--id", "schema_id", type=schema_id, metavar="ID", help="The schema of an id, or of a GUID."
)
@connected(registry=True, cluster=False)
@json_option
def show(
    connection: Connection,
    output: Output,
    subject: str | None,
    number: Version | None,
    schema_id: int | str | None,
) -> None:
    """Print the schema of SUBJECT, or of an id. Remarks go to stderr."""
    if (subject is None) == (schema_id is None):
        raise click.UsageError("write a SUBJECT, or --id ID")
    if subject is None and number is not None:
        raise click.UsageError("--version is for a SUBJECT")
    with registry_client(connection) as client:
        if subject is not None:
            schema, record, remark = _of_subject(client, subject, number or LATEST)
        elif isinstance(schema_id, int):
            schema, record, remark = _of_id(client, schema_id)
        else:
            schema = client.get_schema_by_guid(str(schema_id))
            record = {"guid": schema_id, **_details(schema)}
            remark = f"{schema_id}, {_type(schema)}"
    if output.as_json:
        output.document(record)
        return
    output.remark(remark)
    for each in schema.references or ():
        output.remark(f"refers to {each.name}: {each.subject} version {each.version}")
    _print(schema)


def _of_subject(
    client: SchemaRegistryClient, subject: str, number: Version
) -> tuple[Schema, dict[str, object], str]:
    """A version of a subject: the schema, the JSON document, and the remark."""
    found = client.get_version(subject, number)
    versions = client.get_versions(subject)
    record = {**_described(found), **_details(found.schema), "versions": versions}
    remark = (
        f"{subject}: version {found.version} of {numbers(versions)}, id {found.schema_id}, "
        f"{_type(found.schema)}"
    )
    return found.schema, record, remark


def _of_id(client: SchemaRegistryClient, schema_id: int) -> tuple[Schema, dict[str, object], str]:
    """The schema of an id: the schema, the JSON document, and the remark."""
    schema = client.get_schema(schema_id)
    used = [
        {"subject": each.subject, "version": each.version}
        for each in client.get_schema_versions(schema_id)
    ]
    places = ", ".join(f"{each['subject']} version {each['version']}" for each in used)
    remark = f"id {schema_id}, {_type(schema)}: {places or 'in no subject'}"
    return schema, {"id": schema_id, **_details(schema), "used": used}, remark


@command.command("diff")
@subject_argument
@click.argument("first", metavar="A", type=version)
@click.argument("second", metavar="B", type=version)
@connected(registry=True, cluster=False)
@json_option
def diff(
    connection: Connection, output: Output, subject: str, first: Version, second: Version
) -> None:
    """Show the differences from version A of SUBJECT to version B."""
    with registry_client(connection) as client:
        old, new = (client.get_version(subject, each) for each in (first, second))
    names = [f"{subject} version {each.version}" for each in (old, new)]
    before, after = _readable(old.schema), _readable(new.schema)
    found = list(difflib.unified_diff(before, after, names[0], names[1], lineterm=""))
    if output.as_json:
        output.document(
            {
                "subject": subject,
                "versions": [old.version, new.version],
                "equal": not found,
                "diff": found,
            }
        )
    elif found:
        lines.echo(*found)
    else:
        output.say(f"{names[0]} and version {new.version} have the same schema")


@command.command("check")
@schema_options
@click.option(
    "-V",
    "--version",
    "number",
    type=version,
    metavar="N",
    help="Compare with this version (default: those of the subject's compatibility level).",
)
@connected(registry=True, cluster=False)
@json_option
def check(
    connection: Connection,
    output: Output,
    subject: str,
    file: str,
    number: Version | None,
    normalize: bool,
    **how: Any,
) -> None:
    """Check whether the schema in FILE is compatible with SUBJECT. Nothing is registered.

    Prints the registry's reasons, and ends with status 1, if the schema isn't compatible.
    """
    with registry_client(connection) as client:
        schema = _schema_in(file, **how)
        _check_that_it_exists(client, subject)
        reasons = client.explain_compatibility(subject, schema, number, normalize)
        level = _level(client, subject)
    if output.as_json:
        output.document(
            {"subject": subject, "compatible": not reasons, "level": level, "messages": reasons}
        )
    for reason in reasons:
        output.say(reason)
    output.say(f"{subject}: {'not ' if reasons else ''}compatible ({level})")
    if reasons:
        raise click.exceptions.Exit(FAILED_STATUS)


@command.command("register")
@schema_options
@connected(registry=True, cluster=False)
@json_option
def register(
    connection: Connection, output: Output, subject: str, file: str, normalize: bool, **how: Any
) -> None:
    """Register the schema in FILE as a new version of SUBJECT.

    A schema that the subject has already keeps its version.
    """
    with registry_client(connection) as client:
        schema = _schema_in(file, **how)
        schema_id = client.register_schema(subject, schema, normalize)
        found = client.lookup_schema(subject, schema, normalize)
    if output.as_json:
        output.document({**_described(found), "id": schema_id})
    output.say(f"{subject}: version {found.version}, id {schema_id}")


def _check_that_it_exists(client: SchemaRegistryClient, subject: str) -> None:
    """Raise for a subject without versions, with which every schema is compatible.

    :raises SchemaRegistryError: There is no such subject.
    """
    client.get_versions(subject)


def _level(client: SchemaRegistryClient, subject: str) -> str:
    """The compatibility level of a subject: its own, or else the global one."""
    from kafka_native.schema_registry import SchemaRegistryError

    try:
        return client.get_compatibility(subject)
    except SchemaRegistryError as error:
        if error.http_status_code != 404:
            raise
        return client.get_compatibility()


def _schema_in(file: str, kind: str | None, references: tuple[Reference, ...]) -> Schema:
    """Read a schema from a file or stdin."""
    from kafka_native.schema_registry import Schema, SchemaReference

    kind = kind or TYPE_OF_SUFFIX.get(Path(file).suffix.lower())
    if kind is None:
        raise click.UsageError(f"the type of {file} isn't known: write --type")
    data = sys.stdin.buffer.read() if file == STDIN else Path(file).read_bytes()
    try:
        text = data.decode()
        if kind != "protobuf":
            json.loads(text)
    except (ValueError, RecursionError) as error:
        wanted = "UTF-8" if isinstance(error, UnicodeDecodeError) else "JSON"
        raise Failed(f"{file} isn't {wanted}: {error}") from None
    return Schema(text, kind.upper(), [SchemaReference(*each) for each in references])


def _described(found: RegisteredSchema) -> dict[str, object]:
    return {
        "subject": found.subject,
        "version": found.version,
        "id": found.schema_id,
        "guid": found.guid,
        "type": _type(found.schema),
    }


def _details(schema: Schema) -> dict[str, object]:
    document = schema.to_dict()
    return {
        "type": _type(schema),
        "references": document.get("references", []),
        "metadata": document.get("metadata"),
        "rules": document.get("ruleSet"),
        "schema": schema.schema_str,
    }


def _type(schema: Schema) -> str:
    return (schema.schema_type or "AVRO").lower()


def _readable(schema: Schema) -> list[str]:
    """The lines of a schema: JSON with indents, Protobuf as it is."""
    found = _parsed(schema)
    if found is None:
        return (schema.schema_str or "").splitlines()
    return lines.json_text(found, indent=2).splitlines()


def _parsed(schema: Schema) -> Any:
    """The JSON of a schema; None for Protobuf."""
    if _type(schema) == "protobuf":
        return None
    try:
        return json.loads(schema.schema_str or "")
    except (ValueError, RecursionError):
        return None  # a registry may hold anything: show it as it is


def _print(schema: Schema) -> None:
    found = _parsed(schema)
    if found is None:
        lines.echo(*_readable(schema))
    else:  # not as lines: escapes of escapes would be another schema
        lines.print_json(found, indent=2)
