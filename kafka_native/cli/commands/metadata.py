"""``kafka-native metadata``: brokers, topics and partitions in one broker's metadata."""

from __future__ import annotations

import click

from kafka_native.admin import AdminClient
from kafka_native.cli import completion
from kafka_native.cli.connection import Connection, connected
from kafka_native.cli.errors import Failed
from kafka_native.errors import KafkaError
from kafka_native.terminal.output import Output, json_option
from kafka_native.types import ClusterMetadata, TopicMetadata


@click.command("metadata")
@click.option("-t", "--topic", shell_complete=completion.topics, help="Only this topic.")
@connected()
@json_option
def command(connection: Connection, output: Output, topic: str | None) -> None:
    """Print the brokers, topics and partitions that a broker knows, like kcat -L.

    Ends with status 1 if TOPIC doesn't exist.
    """
    with AdminClient(connection.config("producer")) as admin:
        found = admin.list_topics(topic, connection.timeout_s)
    if topic is not None and (error := found.topics[topic].error) is not None:
        raise Failed(f"topic {topic}: {error.str()}")
    if output.as_json:
        output.document(described(found))
        return
    output.say(
        f"Cluster {found.cluster_id or '(without an id)'}, from broker {found.orig_broker_name}"
    )
    brokers = [
        {
            "id": each.id,
            "at": f"{each.host}:{each.port}",
            "note": "controller" * (each.id == found.controller_id),
        }
        for each in sorted(found.brokers.values(), key=lambda each: each.id)
    ]
    output.rows(brokers, {"id": "broker", "at": "address", "note": ""})
    partitions = [
        {"topic": name, **partition}
        for name in sorted(found.topics)
        for partition in _partitions(found.topics[name])
    ]
    headings = {
        name: name for name in ("topic", "partition", "leader", "replicas", "isrs", "error")
    }
    output.say("")
    output.rows(partitions, headings, f"{len(found.topics)} topics, {len(partitions)} partitions")


def described(found: ClusterMetadata) -> dict[str, object]:
    """The metadata with kcat's names, for JSON."""
    return {
        "originating_broker": {"id": found.orig_broker_id, "name": found.orig_broker_name},
        "cluster_id": found.cluster_id,
        "controllerid": found.controller_id,
        "brokers": [
            {"id": each.id, "name": f"{each.host}:{each.port}"} for each in found.brokers.values()
        ],
        "topics": [
            {"topic": name, "error": _text(topic.error), "partitions": _partitions(topic)}
            for name, topic in sorted(found.topics.items())
        ],
    }


def _partitions(topic: TopicMetadata) -> list[dict[str, object]]:
    return [
        {
            "partition": each.id,
            "leader": each.leader,
            "replicas": each.replicas,
            "isrs": each.isrs,
            "error": _text(each.error),
        }
        for each in sorted(topic.partitions.values(), key=lambda each: each.id)
    ]


def _text(error: KafkaError | None) -> str | None:
    return None if error is None else error.str()
