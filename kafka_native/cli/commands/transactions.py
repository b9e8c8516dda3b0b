"""``kafka-native transactions``: list, describe, fence and abort them, and find hanging ones."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import click

from kafka_native import KafkaException, TopicPartition
from kafka_native.admin import (
    AdminClient,
    HangingTransaction,
    TransactionDescription,
    TransactionState,
)
from kafka_native.cli.administration import (
    Outcomes,
    administration,
    errors_of,
    make_sure,
    numbers,
    report,
    report_errors,
    span,
    topic_partitions,
    yes_option,
)
from kafka_native.cli.connection import Connection, connected
from kafka_native.cli.errors import Failed, line_of
from kafka_native.cli.texts import time_text
from kafka_native.terminal.output import Output, json_option

TIMEOUT_MAX = "15m"
"""The brokers' default of ``transaction.max.timeout.ms``."""

STATES = {
    re.sub(r"(?<=[a-z])(?=[A-Z])", "-", each.value).lower(): each
    for each in TransactionState
    if each is not TransactionState.UNKNOWN
}
STATE_NAMES = {state: name for name, state in STATES.items()} | {
    TransactionState.UNKNOWN: "unknown"
}
HANGING_HEADINGS = {
    "topic": "topic",
    "partition": "partition",
    "producer_id": "producer id",
    "producer_epoch": "epoch",
    "start_offset": "begins at",
    "last_write": "last write",
}

ids_argument = click.argument("ids", nargs=-1, required=True, metavar="TRANSACTIONAL-ID...")
topics_option = click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    type=topic_partitions,
    metavar="TOPIC[:PARTITION,...]",
    help="Check only these partitions (default: all).",
)
timeout_max_option = click.option(
    "--max-transaction-timeout",
    "timeout_max_ms",
    type=span,
    default=TIMEOUT_MAX,
    show_default=True,
    metavar="DURATION",
    help="transaction.max.timeout.ms of the brokers. A transaction with a newer write is skipped.",
)


@click.group("transactions")
def command() -> None:
    """List and describe transactions, find those that hang, end them."""


@command.command("list")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(list(STATES)),
    help="Only ids in this state; repeatable.",
)
@click.option(
    "--producer-id",
    "producers",
    multiple=True,
    type=click.IntRange(0),
    help="Only ids of this producer; repeatable.",
)
@click.option(
    "--longer-than",
    type=span,
    metavar="DURATION",
    help="Only transactions open for longer (Kafka 3.8 or newer).",
)
@click.option(
    "--id-pattern", metavar="REGEX", help="Only ids that match as a whole (Kafka 4.1 or newer)."
)
@connected()
@json_option
def list_transactions(
    connection: Connection,
    output: Output,
    states: tuple[str, ...],
    producers: tuple[int, ...],
    longer_than: int | None,
    id_pattern: str | None,
) -> None:
    """List the transactional ids."""
    with administration(connection) as admin:
        found = admin.list_transactions(
            states={STATES[each] for each in states} or None,
            producer_ids=set(producers) or None,
            duration_ms=-1 if longer_than is None else longer_than,
            transactional_id_pattern=id_pattern,
            request_timeout=connection.timeout_s,
        ).result()
    records = [
        {
            "id": each.transactional_id,
            "state": STATE_NAMES[each.state],
            "producer_id": each.producer_id,
        }
        for each in sorted(found.valid, key=lambda each: each.transactional_id)
    ]
    output.rows(records, {"id": "transactional id", "state": "state", "producer_id": "producer id"})
    report_errors(
        output, "broker", {str(number): line_of(why) for number, why in enumerate(found.errors, 1)}
    )


@command.command("describe")
@ids_argument
@connected()
@json_option
def describe(connection: Connection, output: Output, ids: tuple[str, ...]) -> None:
    """Show the state of transactional ids, and the partitions of their open transactions."""
    with administration(connection) as admin:
        names = list(dict.fromkeys(ids))
        found = Outcomes(admin.describe_transactions(names, request_timeout=connection.timeout_s))
    records = [_record(name, each) for name, each in found.items()]
    if output.as_json:
        output.document(records)
    elif records:
        rows = [
            {**record, "writes": _short(found[record["id"]].topic_partitions)} for record in records
        ]
        headings = {"id": "transactional id", "state": "state", "coordinator": "coordinator"}
        headings |= {
            "producer_id": "producer id",
            "producer_epoch": "epoch",
            "timeout_ms": "timeout ms",
        }
        output.rows(rows, headings | {"started": "started", "writes": "writes to"})
    report_errors(output, "transactional id", found.errors)


def _record(name: str, found: TransactionDescription) -> dict[str, Any]:
    started = found.transaction_start_time_ms
    return {
        "id": name,
        "state": STATE_NAMES[found.state],
        "coordinator": found.coordinator_id,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "timeout_ms": found.transaction_timeout_ms,
        "started": None if started is None else time_text(started),
        "partitions": [
            {"topic": each.topic, "partition": each.partition} for each in found.topic_partitions
        ],
    }


def _short(partitions: Iterable[TopicPartition]) -> str | None:
    topics: dict[str, list[int]] = {}
    for each in partitions:
        topics.setdefault(each.topic, []).append(each.partition)
    return " ".join(f"{topic}:{numbers(parts)}" for topic, parts in sorted(topics.items())) or None


@command.command("hanging")
@topics_option
@timeout_max_option
@connected()
@json_option
def hanging(
    connection: Connection,
    output: Output,
    topics: tuple[tuple[str, tuple[int, ...]], ...],
    timeout_max_ms: int,
) -> None:
    """Find hanging transactions: open in a partition, but unknown to their coordinator.

    A consumer of committed messages can't read past one. `transactions abort` ends it.
    """
    with administration(connection) as admin:
        found = admin.find_hanging_transactions(
            _partitions(admin, topics, connection.timeout_s),
            max_transaction_timeout_ms=timeout_max_ms,
            request_timeout=connection.timeout_s,
        ).result()
    records = [
        {
            "topic": each.topic_partition.topic,
            "partition": each.topic_partition.partition,
            "producer_id": each.producer.producer_id,
            "producer_epoch": each.producer.producer_epoch,
            "coordinator_epoch": each.producer.coordinator_epoch,
            "start_offset": each.producer.current_transaction_start_offset,
            "last_write": time_text(each.producer.last_timestamp),
        }
        for each in found.valid
    ]
    output.rows(records, HANGING_HEADINGS)
    report_errors(
        output,
        "partition",
        {f"{at.topic} [{at.partition}]": line_of(why) for at, why in found.errors.items()},
    )


def _partitions(
    admin: AdminClient, topics: tuple[tuple[str, tuple[int, ...]], ...], timeout_s: float
) -> list[TopicPartition] | None:
    """The named partitions; None if none is named."""
    if not topics:
        return None
    places: dict[tuple[str, int], None] = {}
    for topic, wanted in topics:
        found = admin.list_topics(topic, timeout_s).topics[topic]
        if found.error is not None:
            raise Failed(f"topic {topic}: {found.error.str()}")
        places |= dict.fromkeys((topic, number) for number in wanted or sorted(found.partitions))
    return [TopicPartition(*place) for place in places]


@command.command("abort")
@click.argument("topic")
@click.argument("partition", type=click.IntRange(0))
@click.option(
    "--start-offset",
    type=click.IntRange(0),
    required=True,
    help="Its first offset: see `transactions hanging`.",
)
@yes_option
@connected()
@json_option
def abort(
    connection: Connection, output: Output, topic: str, partition: int, start_offset: int, yes: bool
) -> None:
    """Abort the transaction in PARTITION of TOPIC that begins at an offset.

    It is for hanging transactions: it doesn't ask the coordinator. If the coordinator knows the
    transaction, wait until it ends, or use `transactions fence`.
    """
    place, timeout_s = TopicPartition(topic, partition), connection.timeout_s
    with administration(connection) as admin:
        producers = admin.describe_producers([place], request_timeout=timeout_s)[place].result()
        open_here = [
            each for each in producers if each.current_transaction_start_offset == start_offset
        ]
        if not open_here:
            raise Failed(f"{topic} [{partition}]: no open transaction begins at {start_offset}")
        producer = open_here[0]
        make_sure(
            f"Abort the transaction of producer {producer.producer_id} at {topic} [{partition}]?",
            yes,
        )
        spec = HangingTransaction(place, producer).abort_spec
        why: str | None = None
        try:
            admin.abort_transaction(spec, request_timeout=timeout_s).result()
        except KafkaException as error:
            why = line_of(error)
    report(output, "transaction", {f"{topic} [{partition}] at {start_offset}": why}, "aborted")


@command.command("fence")
@ids_argument
@yes_option
@connected()
@json_option
def fence(connection: Connection, output: Output, ids: tuple[str, ...], yes: bool) -> None:
    """Fence the producers of transactional ids.

    Their open transactions are aborted, and the producers can't go on.
    """
    names = list(dict.fromkeys(ids))
    make_sure(f"Fence the producers of {', '.join(names)}?", yes)
    with administration(connection) as admin:
        outcomes = errors_of(admin.fence_producers(names, request_timeout=connection.timeout_s))
    report(output, "transactional id", outcomes, "fenced")
