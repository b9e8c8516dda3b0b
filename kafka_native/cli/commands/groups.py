"""``kafka-native groups``: consumer groups, their members, lag and offsets."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import click
from rich.live import Live

from kafka_native import ConsumerGroupState, ConsumerGroupType, KafkaException
from kafka_native.admin import ConsumerGroupDescription
from kafka_native.cli import completion, group_kinds, group_offsets
from kafka_native.cli.administration import (
    Outcomes,
    administration,
    ago,
    errors_of,
    make_sure,
    moment,
    numbers,
    report,
    report_errors,
    span,
    topic_partitions,
    yes_option,
)
from kafka_native.cli.connection import Connection, connected
from kafka_native.cli.errors import Failed, line_of
from kafka_native.cli.group_offsets import IDLE, Group, Offsets, Target
from kafka_native.terminal.output import Output, json_option, printer, styled_lines, table_of

STATES = {
    "preparing-rebalance": ConsumerGroupState.PREPARING_REBALANCING,
    "completing-rebalance": ConsumerGroupState.COMPLETING_REBALANCING,
    "stable": ConsumerGroupState.STABLE,
    "dead": ConsumerGroupState.DEAD,
    "empty": ConsumerGroupState.EMPTY,
    "assigning": ConsumerGroupState.ASSIGNING,
    "reconciling": ConsumerGroupState.RECONCILING,
    "not-ready": ConsumerGroupState.NOT_READY,
}
STATE_NAMES = {state: name for name, state in STATES.items()} | {
    ConsumerGroupState.UNKNOWN: "unknown"
}
TYPES = {
    "consumer": ConsumerGroupType.CONSUMER,
    "classic": ConsumerGroupType.CLASSIC,
    "share": ConsumerGroupType.SHARE,
    "streams": ConsumerGroupType.STREAMS,
}
LAG_HEADINGS = {
    "group": "group",
    "topic": "topic",
    "partition": "partition",
    "committed": "committed",
    "end": "end",
    "lag": "lag",
    "client_id": "client",
    "host": "host",
}
RESETS = (
    "to_earliest",
    "to_latest",
    "to_current",
    "to_offset",
    "to_datetime",
    "by_duration",
    "shift_by",
)

names_argument = click.argument(
    "groups", nargs=-1, required=True, metavar="GROUP...", shell_complete=completion.groups
)
group_argument = click.argument("group", shell_complete=completion.groups)
topics_option = click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    type=topic_partitions,
    metavar="TOPIC[:PARTITION,...]",
    shell_complete=completion.topics,
    help="Only these partitions (default: all with an offset).",
)


@click.group("groups")
def command() -> None:
    """List and describe groups, show their lag, reset and delete offsets."""


@command.command("list")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(list(STATES)),
    help="Only groups in this state; repeatable.",
)
@click.option(
    "--type",
    "types",
    multiple=True,
    type=click.Choice(list(TYPES)),
    help="Only groups of this type; repeatable (default: consumer groups).",
)
@connected()
@json_option
def list_groups(
    connection: Connection, output: Output, states: tuple[str, ...], types: tuple[str, ...]
) -> None:
    """List consumer groups, or groups of the types that you name."""
    with administration(connection) as admin:
        found = admin.list_consumer_groups(
            states={STATES[each] for each in states} or None,
            types={TYPES[each] for each in types} or None,
            request_timeout=connection.timeout_s,
        ).result()
    records = [
        {
            "group": each.group_id,
            "state": state_name(getattr(each, "state", None)),
            "type": getattr(each, "type", None),
            "simple": each.is_simple_consumer_group,
        }
        for each in sorted(found.valid or [], key=lambda each: each.group_id)
    ]
    output.rows(records, {"group": "group", "state": "state", "type": "type"})
    report_errors(output, "broker", {str(n): str(why) for n, why in enumerate(found.errors or [])})


def state_name(state: ConsumerGroupState | None) -> str | None:
    """A state's name in the options."""
    return None if state is None else STATE_NAMES[state]


@command.command("describe")
@names_argument
@connected()
@json_option
def describe(connection: Connection, output: Output, groups: tuple[str, ...]) -> None:
    """Show groups with their members and the partitions of each."""
    names = list(dict.fromkeys(groups))
    with administration(connection) as admin:
        described = Outcomes(
            admin.describe_consumer_groups(names, request_timeout=connection.timeout_s)
        )
        records = [_group_record(each) for each in described.values() if not _is_missing(each)]
        missing = [name for name, each in described.items() if _is_missing(each)]
        others, errors = group_kinds.described(admin, missing, connection.timeout_s)
    records += [{**record, "state": state_name(record["state"])} for record in others]
    if output.as_json:
        output.document(records)
    else:
        for record in records:
            _show_group(output, record)
    report_errors(output, "group", errors | described.errors)


def _is_missing(group: ConsumerGroupDescription | Group) -> bool:
    return group.state is ConsumerGroupState.DEAD


def _group_record(group: ConsumerGroupDescription) -> dict[str, Any]:
    return {
        "group": group.group_id,
        "state": state_name(group.state),
        "type": group.type,
        "assignor": group.partition_assignor or None,
        "coordinator": group.coordinator.id,
        "members": [
            {
                "member": each.member_id,
                "client_id": each.client_id,
                "host": each.host,
                "instance": each.group_instance_id,
                "partitions": [
                    {"topic": place.topic, "partition": place.partition}
                    for place in each.assignment.topic_partitions
                ],
            }
            for each in group.members
        ],
    }


def _show_group(output: Output, record: dict[str, Any]) -> None:
    assignor = f", assignor {record['assignor']}" if record["assignor"] else ""
    text = (
        f"group {record['group']}: {record['state']}, type {record['type'].name.lower()}{assignor}"
    )
    output.say(f"{text}, coordinator {record['coordinator']}, {len(record['members'])} members")
    rows = []
    for member in record["members"]:
        topics: dict[str, list[int]] = {}
        for place in member["partitions"]:
            topics.setdefault(place["topic"], []).append(place["partition"])
        topics |= member.get("tasks", {})  # a streams group's tasks, by subtopology
        reads = " ".join(f"{topic}:{numbers(parts)}" for topic, parts in sorted(topics.items()))
        rows.append({**member, "reads": reads or None})
    if rows:
        headings = {
            "member": "member",
            "client_id": "client",
            "host": "host",
            "instance": "instance",
            "reads": "reads",
        }
        output.rows(rows, headings)


# --- lag ---


@command.command("lag")
@names_argument
@click.option(
    "--watch",
    is_flag=False,
    flag_value=2.0,
    type=click.FloatRange(0.1, 3600),
    metavar="[SECONDS]",
    help="Repeat every 2 seconds, or every SECONDS, until Ctrl+C.",
)
@connected()
@json_option
def lag(
    connection: Connection, output: Output, groups: tuple[str, ...], watch: float | None
) -> None:
    """Show the lag of groups: the distance to the ends of their partitions."""
    names = list(dict.fromkeys(groups))
    with administration(connection) as admin:
        offsets = Offsets(admin, connection.timeout_s)
        if watch is None:
            _show_lag(output, *_lag(offsets, names, keeps_going=len(names) > 1))
        else:
            _watch_lag(output, offsets, names, watch)


def _lag(
    offsets: Offsets, names: Sequence[str], *, keeps_going: bool
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """The records of groups, and the errors of others.

    :param keeps_going: The error of a group is one of the errors. Otherwise it is raised.
    """
    records: list[dict[str, Any]] = []
    errors: dict[str, str] = {}
    for name in names:
        try:
            group, found, missing = group_offsets.lag(offsets, name)
        except KafkaException as error:
            if not keeps_going:
                raise
            errors[name] = line_of(error)
            continue
        records += found
        errors |= {f"{topic} [{partition}]": why for (topic, partition), why in missing.items()}
        if _is_missing(group) and not found:
            errors[name] = "there is no such group"
    return records, errors


def _show_lag(output: Output, records: list[dict[str, Any]], errors: dict[str, str]) -> None:
    if output.as_json:
        output.document({"total": total(records), "partitions": records})
    else:
        output.rows(records, LAG_HEADINGS)
        output.say(f"total lag: {total(records)}")
    report_errors(output, "lag", errors)


def total(records: Sequence[dict[str, Any]]) -> int:
    """The sum of the known lags."""
    return sum(record["lag"] or 0 for record in records)


def _watch_lag(output: Output, offsets: Offsets, names: Sequence[str], every_s: float) -> None:
    """Print the lag repeatedly.

    A terminal shows one table that changes. Otherwise each round prints a line, with ``--json`` a
    JSON document.
    """
    live = sys.stdout.isatty() and not output.as_json
    before: tuple[float, int] | None = None
    with Live(console=printer(), auto_refresh=False) if live else nullcontext() as screen:
        while True:
            # Only the first round ends with an error: the cluster may be back in the next one.
            records, errors = _lag(offsets, names, keeps_going=before is not None)
            now, lag_total = time.time(), total(records)
            change = (
                "" if before is None else f", {(lag_total - before[1]) / (now - before[0]):+.0f}/s"
            )
            moment = time.strftime("%H:%M:%S", time.localtime(now))
            lines = [
                f"{moment} total lag: {lag_total}{change}",
                *(f"Error: {name}: {why}" for name, why in errors.items()),
            ]
            if isinstance(screen, Live):
                made = table_of(records, LAG_HEADINGS)
                made.caption, made.caption_justify = styled_lines(lines), "left"
                screen.update(made, refresh=True)
            elif output.as_json:
                output.line(
                    {"time": now, "total": lag_total, "partitions": records, "errors": errors}
                )
            else:
                for line in lines:
                    output.say(line)
            before = now, lag_total
            time.sleep(every_s)


# --- offsets ---


@command.command("reset-offsets")
@group_argument
@topics_option
@click.option("--to-earliest", is_flag=True, help="To the first message.")
@click.option("--to-latest", is_flag=True, help="To the end.")
@click.option("--to-current", is_flag=True, help="To the committed offset, or the nearest one.")
@click.option("--to-offset", type=click.IntRange(0), help="To this offset.")
@click.option(
    "--to-datetime", type=moment, metavar="TIME", help="To the first message of this time or later."
)
@click.option(
    "--by-duration",
    type=span,
    metavar="DURATION",
    help="To the first message that is at most this old.",
)
@click.option(
    "--shift-by", type=int, metavar="N", help="Forward by N offsets; back if N is negative."
)
@click.option("--execute", is_flag=True, help="Commit the offsets. Default: only show them.")
@connected()
@json_option
def reset_offsets(
    connection: Connection,
    output: Output,
    group: str,
    topics: tuple[tuple[str, tuple[int, ...]], ...],
    execute: bool,
    **how: Any,
) -> None:
    """Show the offsets that a reset of GROUP would commit; with --execute commit them.

    The group must have no members. New offsets stay within the partition's limits.
    """
    target = _target(how)
    with administration(connection) as admin:
        offsets = Offsets(admin, connection.timeout_s)
        described, offsets = offsets.of(group)
        if described.state not in IDLE:
            state = state_name(described.state)
            raise Failed(
                f"group {group} is {state}, with {len(described.members)} members: stop them first"
            )
        committed = offsets.committed(group)
        places = group_offsets.chosen(offsets, committed, topics)
        if not places:
            raise Failed(f"group {group} has no offsets: name the topics, -t TOPIC")
        records = group_offsets.reset(offsets, places, committed, target)
        errors: dict[str, str] = {}
        if execute:
            wanted = {
                (each["topic"], each["partition"]): each["new"]
                for each in records
                if each["new"] is not None
            }
            done = offsets.commit(group, wanted) if wanted else {}
            errors = {
                f"{topic} [{number}]": why
                for (topic, number), why in done.items()
                if why is not None
            }
    headings = {"topic": "topic", "partition": "partition", "committed": "committed", "new": "new"}
    headings |= {"change": "change", "remark": "remark"}
    if output.as_json:
        output.document({"group": group, "executed": execute, "partitions": records})
    else:
        output.rows(records, headings)
        output.say(f"group {group}: {_result(execute, errors)}")
    report_errors(output, "offset", errors)


def _result(execute: bool, errors: dict[str, str]) -> str:
    if not execute:
        return "nothing is changed without --execute"
    return "not all offsets are committed" if errors else "done"


def _target(how: dict[str, Any]) -> Target:
    # 0 is a value, and equal to False
    given = {
        name: value
        for name, value in how.items()
        if name in RESETS and value is not None and value is not False
    }
    if len(given) != 1:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in RESETS)
        raise click.UsageError(f"write exactly one of {options}")
    ((name, value),) = given.items()
    if name == "by_duration":
        return Target("time", ago(value))
    if name == "to_datetime":
        return Target("time", value)
    if name in ("to_current", "shift_by"):
        return Target("shift", 0 if name == "to_current" else value)
    return Target(name.removeprefix("to_"), 0 if value is True else value)


@command.command("delete-offsets")
@group_argument
@click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    required=True,
    type=topic_partitions,
    metavar="TOPIC[:PARTITION,...]",
    shell_complete=completion.topics,
    help="Only the offsets of these; repeatable.",
)
@yes_option
@connected()
@json_option
def delete_offsets(
    connection: Connection,
    output: Output,
    group: str,
    topics: tuple[tuple[str, tuple[int, ...]], ...],
    yes: bool,
) -> None:
    """Delete the committed offsets of GROUP for topics that no member reads."""
    with administration(connection) as admin:
        offsets = Offsets(admin, connection.timeout_s)
        places = group_offsets.chosen(offsets, {}, topics)
        named = ", ".join(f"{topic} [{number}]" for topic, number in places)
        make_sure(f"Forget the offsets of group {group} of {named}?", yes)
        outcomes = offsets.of(group)[1].forget(group, places)
    report(output, "offset", outcomes, "forgotten")


@command.command("delete")
@names_argument
@yes_option
@connected()
@json_option
def delete(connection: Connection, output: Output, groups: tuple[str, ...], yes: bool) -> None:
    """Delete groups without members, with their committed offsets."""
    names = list(dict.fromkeys(groups))
    make_sure(f"Delete {', '.join(names)} with all committed offsets?", yes)
    with administration(connection) as admin:
        outcomes = errors_of(
            admin.delete_consumer_groups(names, request_timeout=connection.timeout_s)
        )
    report(output, "group", outcomes, "deleted")
