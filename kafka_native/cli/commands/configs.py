"""``kafka-native configs``: show and change settings of topics, brokers and groups."""

from __future__ import annotations

import re

import click

from kafka_native.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
)
from kafka_native.cli.administration import Outcomes, administration, report_errors
from kafka_native.cli.connection import Connection, connected
from kafka_native.cli.errors import Failed
from kafka_native.terminal.output import Output, json_option

KINDS = ("topic", "broker", "group")
EVERY_BROKER = "default"
"""The name in place of a broker's id, for the settings of all brokers."""
SIGNS = {"": AlterConfigOpType.SET, "+": AlterConfigOpType.APPEND, "-": AlterConfigOpType.SUBTRACT}
_CHANGE = re.compile(
    r"(?P<name>[A-Za-z0-9._]+(?:-[A-Za-z0-9._]+)*)(?P<sign>[+-]?)=(?P<value>.*)", re.DOTALL
)
DEFAULT = (ConfigSource.DEFAULT_CONFIG, ConfigSource.DEFAULT_CONFIG.value)

kind_argument = click.argument("kind", type=click.Choice(KINDS), metavar="topic|broker|group")
name_argument = click.argument("name")
dry_run_option = click.option(
    "--dry-run", is_flag=True, help="Change nothing: only show what would be changed."
)


@click.group("configs")
def command() -> None:
    """Show and change settings of topics, brokers and groups.

    NAME is a topic, a group or a broker's id. `broker default` has the settings of all brokers.
    """


@command.command("describe")
@kind_argument
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option("-a", "--all", "everything", is_flag=True, help="Also show defaults.")
@click.option(
    "-k", "--key", "keys", multiple=True, help="Only this setting, even if it is the default."
)
@connected()
@json_option
def describe(
    connection: Connection,
    output: Output,
    kind: str,
    names: tuple[str, ...],
    everything: bool,
    keys: tuple[str, ...],
) -> None:
    """Show the changed settings and where each comes from."""
    wanted = [_resource(kind, name) for name in dict.fromkeys(names)]
    with administration(connection) as admin:
        found = Outcomes(admin.describe_configs(wanted, request_timeout=connection.timeout_s))
    records = [
        _record(kind, resource, entry)
        for resource, entries in found.items()
        for name, entry in sorted(entries.items())
        if (
            name in keys
            if keys
            else everything or not (entry.is_default or entry.source in DEFAULT)
        )
    ]
    headings = {
        "resource": kind,
        "name": "name",
        "value": "value",
        "source": "source",
        "read_only": "read-only",
    }
    output.rows(records, headings)
    errors = {_shown(each): why for each, why in found.errors.items()}
    if not errors:
        known = {record["name"] for record in records}
        errors = {key: "there is no such setting" for key in keys if key not in known}
    report_errors(output, kind, errors)


def _resource(kind: str, name: str) -> ConfigResource:
    return ConfigResource(kind, "" if (kind, name) == ("broker", EVERY_BROKER) else name)


def _shown(resource: ConfigResource) -> str:
    return resource.name or EVERY_BROKER


def _record(kind: str, resource: ConfigResource, entry: ConfigEntry) -> dict[str, object]:
    source = entry.source
    return {
        "kind": kind,
        "resource": _shown(resource),
        "name": entry.name,
        "value": entry.value,
        "source": (
            source.name if isinstance(source, ConfigSource) else ConfigSource(source).name
        ).lower(),
        "default": entry.is_default,
        "read_only": entry.is_read_only,
        "sensitive": entry.is_sensitive,
    }


def change(text: str) -> ConfigEntry:
    """Parse ``NAME=VALUE``, or for lists ``NAME+=VALUE`` or ``NAME-=VALUE``."""
    match = _CHANGE.fullmatch(text)
    if match is None:
        raise click.BadParameter(f"{text!r} isn't NAME=VALUE, NAME+=VALUE or NAME-=VALUE")
    return ConfigEntry(match["name"], match["value"], incremental_operation=SIGNS[match["sign"]])


@command.command("set")
@kind_argument
@name_argument
@click.argument("changes", nargs=-1, required=True, type=change, metavar="NAME=VALUE...")
@dry_run_option
@connected()
@json_option
def set_configs(
    connection: Connection,
    output: Output,
    kind: str,
    name: str,
    changes: tuple[ConfigEntry, ...],
    dry_run: bool,
) -> None:
    """Change settings; other settings stay. NAME+=VALUE adds to a list, NAME-=VALUE removes."""
    _alter(connection, output, _resource(kind, name), changes, dry_run)


@command.command("unset")
@kind_argument
@name_argument
@click.argument("keys", nargs=-1, required=True, metavar="SETTING...")
@dry_run_option
@connected()
@json_option
def unset(
    connection: Connection,
    output: Output,
    kind: str,
    name: str,
    keys: tuple[str, ...],
    dry_run: bool,
) -> None:
    """Delete settings. Then the default or the broker's setting takes effect."""
    changes = [
        ConfigEntry(key, None, incremental_operation=AlterConfigOpType.DELETE) for key in keys
    ]
    _alter(connection, output, _resource(kind, name), tuple(changes), dry_run)


def _alter(
    connection: Connection,
    output: Output,
    resource: ConfigResource,
    changes: tuple[ConfigEntry, ...],
    dry_run: bool,
) -> None:
    kind = resource.restype.name.lower()
    twice = [
        each.name
        for number, each in enumerate(changes)
        if each.name in [one.name for one in changes[:number]]
    ]
    if twice:
        raise click.UsageError(f"{twice[0]} is given twice")
    for each in changes:
        resource.add_incremental_config(each)
    with administration(connection) as admin:
        timeout_s = connection.timeout_s
        before = _entries(admin, kind, resource.name, timeout_s)
        done = admin.incremental_alter_configs(
            [resource], validate_only=dry_run, request_timeout=timeout_s
        )
        done[resource].result()
    records = [change_record(before.get(each.name), each) for each in changes]
    if output.as_json:
        output.document(
            {"kind": kind, "resource": _shown(resource), "dry_run": dry_run, "changes": records}
        )
        return
    would = "would change" if dry_run else "changed"
    output.say(f"{kind} {_shown(resource)}: {would}")
    output.rows(records, {"name": "name", "before": "before", "after": "after"})


def _entries(admin: AdminClient, kind: str, name: str, timeout_s: float) -> dict[str, ConfigEntry]:
    resource = ConfigResource(kind, name)
    found = Outcomes(admin.describe_configs([resource], request_timeout=timeout_s))
    for why in found.errors.values():
        raise Failed(f"{kind} {_shown(resource)}: {why}")
    return found[resource]


def change_record(before: ConfigEntry | None, change: ConfigEntry) -> dict[str, object]:
    """A setting before and after the change.

    Secret values are hidden: brokers don't return them.
    """
    secret = before is not None and before.is_sensitive
    now = None if before is None else before.value
    parts = [each for each in (now or "").split(",") if each]
    operation, value = change.incremental_operation, change.value or ""
    if operation is AlterConfigOpType.DELETE:
        after = "(default)"
    elif operation is AlterConfigOpType.SET:
        after = value
    elif operation is AlterConfigOpType.APPEND:
        after = ",".join([*parts, *(each for each in value.split(",") if each not in parts)])
    else:
        after = ",".join(each for each in parts if each not in value.split(","))
    return {
        "name": change.name,
        "before": "(secret)" if secret else now,
        "after": "(secret)" if secret and operation is not AlterConfigOpType.DELETE else after,
    }
