"""``kafka-native topics``: list, describe, create, alter and delete topics; offsets and records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import click

from kafka_native import KafkaError, KafkaException, TopicCollection, TopicPartition
from kafka_native.admin import (
    AdminClient,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    TopicDescription,
)
from kafka_native.cli import completion, patterns
from kafka_native.cli.administration import (
    Outcomes,
    administration,
    assignment,
    errors_of,
    make_sure,
    moment,
    report,
    report_errors,
    yes_option,
)
from kafka_native.cli.connection import Connection, connected
from kafka_native.cli.texts import time_text
from kafka_native.terminal.output import Output, json_option

INTERNAL = ("__consumer_offsets", "__transaction_state", "__share_group_state")
"""The internal topics of Kafka."""
OWN_CONFIG = (ConfigSource.DYNAMIC_TOPIC_CONFIG, ConfigSource.DYNAMIC_TOPIC_CONFIG.value)
END, BEGINNING = -1, -2
QUERIED_ENDS = {"-1": END, "-2": BEGINNING}
"""kcat's numbers in place of a time, and Kafka's in ListOffsets."""

settings_option = click.option(
    "-c",
    "--topic-config",
    "settings",
    multiple=True,
    type=assignment,
    metavar="NAME=VALUE",
    help="A setting of the topic; repeatable.",
)
dry_run_option = click.option(
    "--dry-run", is_flag=True, help="Change nothing; check whether it would work."
)
names_argument = click.argument(
    "topics", nargs=-1, required=True, metavar="TOPIC...", shell_complete=completion.topics
)


@click.group("topics")
def command() -> None:
    """List, describe, create, change and delete topics."""


@command.command("list")
@click.argument("pattern", default="*")
@click.option("-a", "--all", "everything", is_flag=True, help="Kafka's own topics, too.")
@connected()
@json_option
def list_topics(connection: Connection, output: Output, pattern: str, everything: bool) -> None:
    """List the topics whose names match PATTERN: orders-* or ^orders-[0-9]+."""
    matches = patterns.matcher(pattern)
    with administration(connection) as admin:
        found = admin.list_topics(timeout=connection.timeout_s)
    records = []
    for name, topic in sorted(found.topics.items()):
        if not matches(name) or (name in INTERNAL and not everything):
            continue
        partitions = topic.partitions.values()
        records.append(
            {
                "topic": name,
                "partitions": len(partitions),
                "replicas": max((len(each.replicas) for each in partitions), default=0),
                "under_replicated": sum(len(each.isrs) < len(each.replicas) for each in partitions),
                "without_leader": sum(each.leader < 0 for each in partitions),
                "internal": name in INTERNAL,
                "error": None if topic.error is None else topic.error.str(),
            }
        )
    headings = {"topic": "topic", "partitions": "partitions", "replicas": "replicas"}
    headings |= {"under_replicated": "under-replicated", "without_leader": "without leader"}
    output.rows(records, headings)


@command.command("describe")
@names_argument
@connected()
@json_option
def describe(connection: Connection, output: Output, topics: tuple[str, ...]) -> None:
    """Show topics with their partitions and their changed settings."""
    names = list(dict.fromkeys(topics))
    with administration(connection) as admin:
        timeout_s = connection.timeout_s
        described = Outcomes(
            admin.describe_topics(TopicCollection(names), request_timeout=timeout_s)
        )
        there = [ConfigResource("topic", name) for name in described]
        configs = Outcomes(
            admin.describe_configs(there, request_timeout=timeout_s) if there else {}
        )
    own = {
        resource.name: {
            name: entry.value for name, entry in sorted(found.items()) if entry.source in OWN_CONFIG
        }
        for resource, found in configs.items()
    }
    refused = {each.name: why for each, why in configs.errors.items()}
    records = [_topic_record(topic, own.get(name)) for name, topic in described.items()]
    if output.as_json:
        output.document(records)
    else:
        for record in records:
            _show_topic(output, record, refused.get(record["topic"]))
    report_errors(output, "topic", described.errors)


def _topic_record(
    topic: TopicDescription, settings: dict[str, str | None] | None
) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "id": str(topic.topic_id),
        "internal": topic.is_internal,
        "settings": settings,
        "partitions": [
            {
                "partition": each.id,
                "leader": each.leader.id
                if each.leader is not None and each.leader.id >= 0
                else None,
                "replicas": [node.id for node in each.replicas],
                "isr": [node.id for node in each.isr],
            }
            for each in topic.partitions
        ],
    }


def _show_topic(output: Output, record: dict[str, Any], refused: str | None) -> None:
    output.say(
        f"topic {record['topic']}, id {record['id']}, {len(record['partitions'])} partitions"
    )
    for name, value in (record["settings"] or {}).items():
        output.say(f"  {name}={value}")
    if refused is not None:
        output.say(f"  its settings can't be read: {refused}")
    headings = {
        "partition": "partition",
        "leader": "leader",
        "replicas": "replicas",
        "isr": "in sync",
    }
    output.rows(record["partitions"], headings)


@command.command("create")
@names_argument
@click.option(
    "-p", "--partitions", type=click.IntRange(1), help="Partitions (default: the broker's)."
)
@click.option(
    "-r",
    "--replication-factor",
    type=click.IntRange(1),
    help="Replicas of each (default: the broker's).",
)
@settings_option
@click.option("--if-not-exists", is_flag=True, help="A topic that exists already is no error.")
@dry_run_option
@connected()
@json_option
def create(
    connection: Connection,
    output: Output,
    topics: tuple[str, ...],
    partitions: int | None,
    replication_factor: int | None,
    settings: tuple[tuple[str, str], ...],
    if_not_exists: bool,
    dry_run: bool,
) -> None:
    """Create topics."""
    wanted = [
        NewTopic(
            name,
            -1 if partitions is None else partitions,
            -1 if replication_factor is None else replication_factor,
            config=dict(settings),
        )
        for name in dict.fromkeys(topics)
    ]
    with administration(connection) as admin:
        futures = admin.create_topics(
            wanted, validate_only=dry_run, request_timeout=connection.timeout_s
        )
        outcomes: dict[str, str | None] = errors_of(futures)
    if if_not_exists:
        outcomes |= _forgiven(futures, KafkaError.TOPIC_ALREADY_EXISTS, outcomes)
    report(output, "topic", outcomes, "created", dry_run=dry_run)


def _forgiven(
    futures: dict[str, Any], code: int, outcomes: dict[str, str | None]
) -> dict[str, str | None]:
    """The failed topics whose error is allowed by an option, with None for success."""
    failed = [name for name, why in outcomes.items() if why is not None]
    return {name: None for name in failed if _code(futures[name].exception()) == code}


def _code(error: BaseException | None) -> int | None:
    return error.args[0].code() if isinstance(error, KafkaException) else None


@command.command("delete")
@names_argument
@click.option("--if-exists", is_flag=True, help="A topic that doesn't exist is no error.")
@yes_option
@connected()
@json_option
def delete(
    connection: Connection, output: Output, topics: tuple[str, ...], if_exists: bool, yes: bool
) -> None:
    """Delete topics with all their messages."""
    names = list(dict.fromkeys(topics))
    make_sure(f"Delete {', '.join(names)} with all messages?", yes)
    with administration(connection) as admin:
        futures = admin.delete_topics(names, request_timeout=connection.timeout_s)
        outcomes = errors_of(futures)
    if if_exists:
        outcomes |= _forgiven(futures, KafkaError.UNKNOWN_TOPIC_OR_PART, outcomes)
    report(output, "topic", outcomes, "deleted")


@command.command("alter")
@names_argument
@click.option(
    "-p",
    "--partitions",
    type=click.IntRange(1),
    required=True,
    help="The new number of partitions.",
)
@dry_run_option
@connected()
@json_option
def alter(
    connection: Connection, output: Output, topics: tuple[str, ...], partitions: int, dry_run: bool
) -> None:
    """Increase the number of partitions of topics.

    A key may go to another partition than before.
    """
    wanted = [NewPartitions(name, partitions) for name in dict.fromkeys(topics)]
    with administration(connection) as admin:
        futures = admin.create_partitions(
            wanted, validate_only=dry_run, request_timeout=connection.timeout_s
        )
        outcomes = errors_of(futures)
    report(output, "topic", outcomes, f"given {partitions} partitions", dry_run=dry_run)


@command.command("offsets")
@click.argument(
    "topics",
    nargs=-1,
    required=True,
    metavar="TOPIC[:PARTITION[:TIME]]...",
    shell_complete=completion.topics,
)
@click.option(
    "--time",
    "since",
    type=moment,
    metavar="TIME",
    help="Also the first offset of this time or later.",
)
@connected()
@json_option
def offsets(
    connection: Connection, output: Output, topics: tuple[str, ...], since: int | None
) -> None:
    """Show the first and the end offset of partitions, and how many offsets lie between."""
    query = OffsetQuery.read(topics, since)
    with administration(connection) as admin:
        timeout_s = connection.timeout_s
        described = Outcomes(
            admin.describe_topics(TopicCollection(query.names), request_timeout=timeout_s)
        )
        partitions = [
            TopicPartition(name, each.id)
            for name, topic in described.items()
            for each in topic.partitions
        ]
        missing = query.missing(described, {(each.topic, each.partition) for each in partitions})
        partitions = [each for each in partitions if query.covers(each)]
        first, errors = offsets_of(
            admin, dict.fromkeys(partitions, OffsetSpec.earliest()), timeout_s
        )
        end, more = offsets_of(admin, dict.fromkeys(partitions, OffsetSpec.latest()), timeout_s)
        # Brokers before Kafka 3.0 don't know the newest timestamp: its errors are ignored.
        newest, _ = offsets_of(
            admin, dict.fromkeys(partitions, OffsetSpec.max_timestamp()), timeout_s
        )
        times = {
            each: OffsetSpec.latest()
            if time == END
            else OffsetSpec.earliest()
            if time == BEGINNING
            else OffsetSpec.for_timestamp(time)
            for each in partitions
            if (time := query.time(each)) is not None
        }
        at, later = offsets_of(admin, times, timeout_s)
        more |= later | missing
    records: list[dict[str, Any]] = []
    for each in partitions:
        place = (each.topic, each.partition)
        low, high, newer = (found.get(place) for found in (first, end, newest))
        record = {
            "topic": each.topic,
            "partition": each.partition,
            "first": None if low is None else low.offset,
            "end": None if high is None else high.offset,
            "messages": None if low is None or high is None else high.offset - low.offset,
            "newest": None if newer is None else time_text(newer.timestamp),
        }
        if query.has_times:
            found = at.get(place)
            record["at"] = None if found is None or found.offset < 0 else found.offset
        records.append(record)
    headings = {
        "topic": "topic",
        "partition": "partition",
        "first": "first",
        "end": "end",
        "messages": "messages",
    }
    headings |= {"newest": "newest"} | ({"at": "at time"} if query.has_times else {})
    output.rows(records, headings)
    if not output.as_json and len(records) > 1:
        count = sum(record["messages"] or 0 for record in records)
        output.say(f"{count} messages, compacted and deleted ones included")
    report_errors(
        output,
        "topic",
        described.errors | {f"{t} [{p}]": why for (t, p), why in (errors | more).items()},
    )


class OffsetQuery:
    """The partitions and the times whose offsets the user asks for."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._times: dict[tuple[str, int | None], int | None] = {}

    @classmethod
    def read(cls, texts: Iterable[str], since: int | None) -> OffsetQuery:
        """Parse TOPIC, TOPIC:PARTITION and TOPIC:PARTITION:TIME.

        As in kcat, the times -1 and -2 mean the end and the beginning of the partition.

        :param since: The time for texts without one, in milliseconds since 1970.
        :raises click.BadParameter: A text has no such form, or a partition has two times.
        """
        found = cls()
        for text in texts:
            topic, _, rest = text.partition(":")
            number, _, time = rest.partition(":")
            if rest and not (number.isascii() and number.isdigit() and len(number) < 10):
                raise click.BadParameter(f"{text!r}: write TOPIC:PARTITION or TOPIC:PARTITION:TIME")
            place = (topic, int(number) if number else None)
            at = (QUERIED_ENDS.get(time) or moment(time)) if time else since
            if found._times.setdefault(place, at) != at:
                raise click.BadParameter(f"{text!r}: only one time for each partition")
            found.names = list(dict.fromkeys([*found.names, topic]))
        return found

    @property
    def has_times(self) -> bool:
        """Whether the user asks for the offset of a time."""
        return any(time is not None for time in self._times.values())

    def covers(self, place: TopicPartition) -> bool:
        """Whether the user asks for this partition."""
        return (place.topic, None) in self._times or (place.topic, place.partition) in self._times

    def time(self, place: TopicPartition) -> int | None:
        """The time whose offset the user asks for, in milliseconds since 1970."""
        whole = self._times.get((place.topic, None))
        return self._times.get((place.topic, place.partition), whole)

    def missing(
        self, topics: Mapping[str, Any], there: set[tuple[str, int]]
    ) -> dict[tuple[str, int], str]:
        """The named partitions that their topic doesn't have, with an error text."""
        wanted = [
            (topic, number)
            for topic, number in self._times
            if number is not None and topic in topics
        ]
        return {each: "there is no such partition" for each in wanted if each not in there}


def offsets_of(
    admin: AdminClient, asked: Mapping[TopicPartition, OffsetSpec], timeout_s: float
) -> tuple[dict[tuple[str, int], Any], dict[tuple[str, int], str]]:
    """The offsets of partitions, and the errors of the other partitions."""
    found = (
        Outcomes(admin.list_offsets(dict(asked), request_timeout=timeout_s))
        if asked
        else Outcomes({})
    )
    known = {(each.topic, each.partition): info for each, info in found.items()}
    return known, {(each.topic, each.partition): why for each, why in found.errors.items()}


@command.command("delete-records")
@click.argument("topic")
@click.option(
    "-p",
    "--partition",
    "partitions",
    multiple=True,
    type=click.IntRange(0),
    help="Only these partitions (default: all).",
)
@click.option(
    "--before", required=True, metavar="OFFSET|end", help="Delete the messages before this offset."
)
@yes_option
@connected()
@json_option
def delete_records(
    connection: Connection,
    output: Output,
    topic: str,
    partitions: tuple[int, ...],
    before: str,
    yes: bool,
) -> None:
    """Delete the messages of TOPIC before an offset, or all of them (--before end)."""
    if before != "end" and not (before.isascii() and before.isdigit() and len(before) < 19):
        raise click.BadParameter("write an offset, or end", param_hint="--before")
    offset = -1 if before == "end" else int(before)
    with administration(connection) as admin:
        call = admin.describe_topics(TopicCollection([topic]), request_timeout=connection.timeout_s)
        known = [each.id for each in call[topic].result().partitions]
        wanted = sorted(set(partitions)) or known
        make_sure(f"Delete the messages of {topic} {wanted} before {before}?", yes)
        places = [TopicPartition(topic, number, offset) for number in wanted]
        deleted = Outcomes(admin.delete_records(places, request_timeout=connection.timeout_s))
    records = [
        {"topic": each.topic, "partition": each.partition, "first": info.low_watermark}
        for each, info in sorted(deleted.items(), key=lambda item: item[0].partition)
    ]
    output.rows(records, {"topic": "topic", "partition": "partition", "first": "begins at"})
    report_errors(
        output, "partition", {str(each.partition): why for each, why in deleted.errors.items()}
    )
