"""``kafka-native acls``: list, create and delete permissions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from kafka_native import KafkaException
from kafka_native.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)
from kafka_native.cli.administration import (
    Outcomes,
    administration,
    make_sure,
    report_errors,
    yes_option,
)
from kafka_native.cli.connection import Connection, connected
from kafka_native.cli.errors import line_of
from kafka_native.terminal.output import Output, json_option

Command = TypeVar("Command", bound=Callable[..., Any])

CLUSTER = "kafka-cluster"
"""The name of the only resource of kind cluster."""
KINDS = {
    "topics": ResourceType.TOPIC,
    "groups": ResourceType.GROUP,
    "transactional_ids": ResourceType.TRANSACTIONAL_ID,
    "delegation_tokens": ResourceType.DELEGATION_TOKEN,
    "user_principals": ResourceType.USER,
}
KIND_NAMES = {each: each.name.lower().replace("_", "-") for each in KINDS.values()}
KIND_NAMES[ResourceType.BROKER] = "cluster"  # librdkafka's name of the kind
OPERATIONS = {
    each.name.lower().replace("_", "-"): each
    for each in AclOperation
    if each not in (AclOperation.UNKNOWN, AclOperation.ANY)
}
HEADINGS = {
    "kind": "resource",
    "name": "name",
    "pattern": "pattern",
    "principal": "principal",
    "host": "host",
    "operation": "operation",
    "permission": "permission",
}


@dataclass(frozen=True, slots=True)
class Resources:
    """The kinds and names of the resources that the options name."""

    found: tuple[tuple[ResourceType, str], ...]


def resource_options(command: Command) -> Command:
    """Add ``--topic`` and similar options. The command gets ``resources: Resources``."""

    @functools.wraps(command)
    def call(*args: Any, cluster: bool, **more: Any) -> Any:
        found = [(kind, name) for option, kind in KINDS.items() for name in more.pop(option)]
        found += [(ResourceType.BROKER, CLUSTER)] if cluster else []
        return command(*args, resources=Resources(tuple(dict.fromkeys(found))), **more)

    options = (
        click.option("-t", "--topic", "topics", multiple=True, metavar="NAME", help="This topic."),
        click.option("-g", "--group", "groups", multiple=True, metavar="NAME", help="This group."),
        click.option(
            "--transactional-id",
            "transactional_ids",
            multiple=True,
            metavar="NAME",
            help="This transactional id.",
        ),
        click.option(
            "--delegation-token",
            "delegation_tokens",
            multiple=True,
            metavar="ID",
            help="This delegation token.",
        ),
        click.option(
            "--user-principal",
            "user_principals",
            multiple=True,
            metavar="USER:NAME",
            help="The tokens of this user.",
        ),
        click.option("--cluster", is_flag=True, help="The cluster itself."),
    )
    for option in reversed(options):
        call = option(call)
    return call  # type: ignore[return-value]


def filter_options(command: Command) -> Command:
    """Add the options that filter permissions. The command gets ``filters``: one per resource."""

    @functools.wraps(command)
    def call(
        *args: Any,
        resources: Resources,
        pattern: str,
        principal: str | None,
        host: str | None,
        operation: str | None,
        permission: str | None,
        **more: Any,
    ) -> Any:
        kinds = resources.found or ((ResourceType.ANY, None),)
        filters = [
            AclBindingFilter(
                kind,
                name,  # type: ignore[arg-type]
                pattern,
                principal,  # type: ignore[arg-type]
                host,  # type: ignore[arg-type]
                AclOperation.ANY if operation is None else OPERATIONS[operation],
                permission or "any",
            )
            for kind, name in kinds
        ]
        return command(*args, filters=filters, **more)

    options = (
        click.option(
            "--pattern",
            type=click.Choice(["any", "match", "literal", "prefixed"]),
            default="any",
            show_default=True,
            help="The pattern type of names; match: all permissions that apply to the name.",
        ),
        click.option("--principal", metavar="User:NAME", help="Only this principal."),
        click.option("--host", help="Only this host; '*' finds permissions for any host."),
        click.option(
            "--operation", type=click.Choice(list(OPERATIONS)), help="Only this operation."
        ),
        click.option(
            "--permission", type=click.Choice(["allow", "deny"]), help="Only this permission type."
        ),
    )
    for option in reversed(options):
        call = option(call)
    return resource_options(call)  # type: ignore[return-value]


@click.group("acls")
def command() -> None:
    """List, create and delete permissions (ACLs)."""


@command.command("list")
@filter_options
@connected()
@json_option
def list_acls(connection: Connection, output: Output, filters: list[AclBindingFilter]) -> None:
    """List permissions. Options restrict the list, for example to the named resources."""
    with administration(connection) as admin:
        calls = [
            admin.describe_acls(each, request_timeout=connection.timeout_s) for each in filters
        ]
        found = sorted({acl for call in calls for acl in call.result()})
    output.rows([_record(each) for each in found], HEADINGS)


def _record(acl: AclBinding) -> dict[str, object]:
    return {
        "kind": KIND_NAMES.get(acl.restype, acl.restype.name.lower()),
        "name": acl.name,
        "pattern": acl.resource_pattern_type,
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation.name.lower().replace("_", "-"),
        "permission": acl.permission_type,
    }


def _line(acl: AclBinding) -> str:
    record = _record(acl)
    where = "" if acl.host == "*" else f" from {acl.host}"
    prefix = "*" if acl.resource_pattern_type is ResourcePatternType.PREFIXED else ""
    what = f"{record['operation']} {record['kind']} {acl.name}{prefix}"
    return f"{acl.permission_type.name.lower()} {acl.principal}{where} to {what}"


@command.command("create")
@resource_options
@click.option("--prefixed", is_flag=True, help="The names are prefixes of names.")
@click.option(
    "--principal",
    "principals",
    multiple=True,
    required=True,
    metavar="User:NAME",
    help="The principal; repeatable.",
)
@click.option(
    "--host",
    "hosts",
    multiple=True,
    default=["*"],
    show_default=True,
    help="The client's host; repeatable.",
)
@click.option(
    "--operation",
    "operations",
    multiple=True,
    required=True,
    type=click.Choice(list(OPERATIONS)),
    help="The operation; repeatable.",
)
@click.option("--deny", is_flag=True, help="Deny the operation. Default: allow it.")
@connected()
@json_option
def create(
    connection: Connection,
    output: Output,
    resources: Resources,
    prefixed: bool,
    principals: tuple[str, ...],
    hosts: tuple[str, ...],
    operations: tuple[str, ...],
    deny: bool,
) -> None:
    """Allow or deny operations on resources: one permission for each combination."""
    if not resources.found:
        raise click.UsageError("name a resource: --topic, --group, --transactional-id or --cluster")
    permission = AclPermissionType.DENY if deny else AclPermissionType.ALLOW
    pattern = ResourcePatternType.PREFIXED if prefixed else ResourcePatternType.LITERAL
    wanted = [
        AclBinding(kind, name, pattern, principal, host, OPERATIONS[operation], permission)
        for kind, name in resources.found
        for principal in dict.fromkeys(principals)
        for host in dict.fromkeys(hosts)
        for operation in dict.fromkeys(operations)
    ]
    with administration(connection) as admin:
        made = Outcomes(admin.create_acls(wanted, request_timeout=connection.timeout_s))
    _report(output, list(made), {_line(each): why for each, why in made.errors.items()}, "created")


@command.command("delete")
@filter_options
@click.option(
    "-a",
    "--all",
    "everything",
    is_flag=True,
    help="Delete all permissions, if no other option names any.",
)
@yes_option
@connected()
@json_option
def delete(
    connection: Connection,
    output: Output,
    filters: list[AclBindingFilter],
    everything: bool,
    yes: bool,
) -> None:
    """Delete the permissions that `acls list` shows for the same options. It asks first."""
    if not everything and filters == [_anything()]:
        raise click.UsageError("say which permissions, or --all")
    with administration(connection) as admin:
        timeout_s = connection.timeout_s
        calls = [admin.describe_acls(each, request_timeout=timeout_s) for each in filters]
        found = sorted({acl for call in calls for acl in call.result()})
        if not found:
            output.remark("there is no such permission")
            _report(output, [], {}, "deleted")
            return
        if not yes:
            for each in found:
                output.remark(_line(each))
        make_sure(f"Delete {len(found)} permissions?", yes)
        gone: list[AclBinding] = []
        errors: dict[str, str] = {}
        # Delete exactly the permissions shown, not others that were created since.
        exact = [_exactly(each) for each in found]
        for future in admin.delete_acls(exact, request_timeout=timeout_s).values():
            try:
                gone += future.result()
            except KafkaException as error:
                errors[f"permission {len(errors) + 1}"] = line_of(error)
    _report(output, gone, errors, "deleted")


def _anything() -> AclBindingFilter:
    return AclBindingFilter("any", None, "any", None, None, "any", "any")  # type: ignore[arg-type]


def _exactly(acl: AclBinding) -> AclBindingFilter:
    return AclBindingFilter(
        acl.restype,
        acl.name,
        acl.resource_pattern_type,
        acl.principal,
        acl.host,
        acl.operation,
        acl.permission_type,
    )


def _report(output: Output, acls: list[AclBinding], errors: dict[str, str], done: str) -> None:
    if output.as_json:
        output.document([_record(each) for each in acls])
    for each in acls:
        output.say(f"{done}: {_line(each)}")
    report_errors(output, "acl", errors)
