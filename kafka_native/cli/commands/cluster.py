"""``kafka-native cluster``: the cluster, its brokers, its controller and its features."""

from __future__ import annotations

import click

from kafka_native.admin import FeatureUpdate, UpgradeType
from kafka_native.cli.administration import (
    administration,
    assignment,
    errors_of,
    make_sure,
    report,
    yes_option,
)
from kafka_native.cli.connection import Connection, connected
from kafka_native.cli.default_group import DefaultGroup
from kafka_native.terminal.output import Output, json_option

DOWNGRADES = {"safe": UpgradeType.SAFE_DOWNGRADE, "unsafe": UpgradeType.UNSAFE_DOWNGRADE}


@click.group("cluster", cls=DefaultGroup, default="describe")
def command() -> None:
    """Show the cluster (describe, the default) and its features, and update features."""


@command.command("describe")
@click.option(
    "--fenced", is_flag=True, help="Also list fenced brokers: registered, not active (Kafka 4.0)."
)
@connected()
@json_option
def describe(connection: Connection, output: Output, fenced: bool) -> None:
    """Show the cluster's id, its brokers with their racks, and its controller."""
    with administration(connection) as admin:
        found = admin.describe_cluster(
            include_fenced_brokers=fenced, request_timeout=connection.timeout_s
        ).result()
    controller = None if found.controller is None else found.controller.id
    brokers = [
        {
            "broker": each.id,
            "host": each.host,
            "port": each.port,
            "rack": each.rack,
            "controller": each.id == controller,
            "fenced": each.is_fenced,
        }
        for each in sorted(found.nodes, key=lambda node: node.id)
    ]
    if output.as_json:
        output.document(
            {"cluster_id": found.cluster_id, "controller": controller, "brokers": brokers}
        )
        return
    output.say(f"cluster {found.cluster_id or 'without an id'}, {len(brokers)} brokers")
    headings = {
        "broker": "broker",
        "host": "host",
        "port": "port",
        "rack": "rack",
        "controller": "controller",
    }
    output.rows(brokers, headings | ({"fenced": "fenced"} if fenced else {}))


@command.command("features")
@connected()
@json_option
def features(connection: Connection, output: Output) -> None:
    """Show the features of the cluster: the level in use and the supported levels."""
    with administration(connection) as admin:
        found = admin.describe_features(request_timeout=connection.timeout_s).result()
    records = []
    for name in sorted({*found.finalized_features, *found.supported_features}):
        runs, could = found.finalized_features.get(name), found.supported_features.get(name)
        records.append(
            {
                "feature": name,
                "level": 0 if runs is None else runs.max_version_level,
                "lowest": None if could is None else could.min_version,
                "highest": None if could is None else could.max_version,
            }
        )
    output.rows(
        records, {"feature": "feature", "level": "level", "lowest": "lowest", "highest": "highest"}
    )


def _level(text: str) -> tuple[str, int]:
    name, level = assignment(text)
    if not (level.isascii() and level.isdigit() and len(level) < 6 and int(level) < 1 << 15):
        raise click.BadParameter(f"{text!r}: a level is a number, 0 to 32767")
    return name, int(level)


@command.command("update-features")
@click.argument("updates", nargs=-1, required=True, type=_level, metavar="FEATURE=LEVEL...")
@click.option(
    "--downgrade",
    type=click.Choice(list(DOWNGRADES)),
    help="Allow lower levels; safe loses no metadata.",
)
@click.option("--dry-run", is_flag=True, help="Change nothing; check whether it would work.")
@yes_option
@connected()
@json_option
def update_features(
    connection: Connection,
    output: Output,
    updates: tuple[tuple[str, int], ...],
    downgrade: str | None,
    dry_run: bool,
    yes: bool,
) -> None:
    """Set the levels of features for the whole cluster. Level 0 disables one: a downgrade."""
    names = ", ".join(f"{name}={level}" for name, level in updates)
    if len({name for name, _ in updates}) < len(updates):
        raise click.UsageError("a feature is named twice")
    kind = UpgradeType.UPGRADE if downgrade is None else DOWNGRADES[downgrade]
    if downgrade is None and not all(level for _, level in updates):
        raise click.UsageError("level 0 ends a feature: say --downgrade safe")
    if not dry_run:
        make_sure(f"Update {names}? Not every update can be taken back.", yes)
    wanted = {name: FeatureUpdate(level, kind) for name, level in updates}
    with administration(connection) as admin:
        done = admin.update_features(
            wanted, validate_only=dry_run, request_timeout=connection.timeout_s
        )
        outcomes = errors_of(done)
    report(output, "feature", outcomes, "updated", dry_run=dry_run)
