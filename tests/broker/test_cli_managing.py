"""The command line on three real brokers. Kafka's own Java tools check the results."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable
from typing import Any

from tests.broker.cluster import Cluster
from tests.broker.java import ACLS, CONFIGS, GROUPS, SHARE_GROUPS, TOPICS, TRANSACTIONS
from tests.broker.support import TopicMaker, delete, flush, our_consumer, our_producer, output_of
from tests.broker.test_admin_beyond import levels
from tests.broker.test_share_kafka import group_at_start, produce, sharing
from tests.cli.running import invoke
from tests.waiting import wait_for

Tool = Callable[..., bytes]


def cli(kafka: Cluster, *words: str, status: int = 0, stdin: bytes = b"") -> str:
    result = invoke(*words, "-b", kafka.bootstrap, "-m", "60", stdin=stdin)
    assert result.exit_code == status, result.output
    return result.stdout


def cli_json(kafka: Cluster, *words: str) -> Any:
    return json.loads(cli(kafka, *words, "--json"))


def test_topics_and_settings(kafka3: Cluster, tool: Tool) -> None:
    name = f"cli-{uuid.uuid4().hex[:8]}"
    cli(kafka3, "topics", "create", name, "-p", "3", "-r", "2", "-c", "retention.ms=86400000")
    try:
        wait_for(lambda: cli_json(kafka3, "topics", "list", name), "the topic")
        cli(kafka3, "topics", "alter", name, "-p", "4")
        changes = ["retention.ms=3600000", "cleanup.policy+=compact"]
        changed = cli_json(kafka3, "configs", "set", "topic", name, *changes)["changes"]
        assert changed == [
            {"name": "retention.ms", "before": "86400000", "after": "3600000"},
            {"name": "cleanup.policy", "before": "delete", "after": "delete,compact"},
        ]
        said = output_of(tool, kafka3, TOPICS, "--describe", "--topic", name)
        assert re.search(r"PartitionCount: 4\s+ReplicationFactor: 2", said)
        assert "retention.ms=3600000" in said
        assert re.search(r"cleanup\.policy=(delete,compact|compact,delete)", said)
        cli(kafka3, "configs", "set", "topic", name, "cleanup.policy-=delete")
        cli(kafka3, "configs", "unset", "topic", name, "retention.ms")
        said = output_of(
            tool, kafka3, CONFIGS, "--describe", "--entity-type", "topics", "--entity-name", name
        )
        assert "cleanup.policy=compact " in said
        assert "retention.ms" not in said
        own = {
            each["name"]: each["value"]
            for each in cli_json(kafka3, "configs", "describe", "topic", name)
        }
        assert own["cleanup.policy"] == "compact"
        cli(kafka3, "topics", "delete", name, "--yes")
        wait_for(
            lambda: name not in output_of(tool, kafka3, TOPICS, "--list").split(),
            "the end of the topic",
        )
    finally:
        delete(kafka3, name)


def test_lag_and_offsets(kafka3: Cluster, new_topic: TopicMaker, tool: Tool) -> None:
    topic, group = new_topic(kafka3, 2), f"cli-{uuid.uuid4().hex[:8]}"
    with our_producer(kafka3) as producer:
        for number in range(10):
            producer.produce(
                topic, str(number), partition=0, timestamp=1_700_000_000_000 + number * 1000
            )
        flush(producer)
    with our_consumer(
        kafka3, group_id=group, group_protocol="consumer", enable_auto_commit=False
    ) as consumer:
        consumer.subscribe([topic])
        message = wait_for(lambda: consumer.poll(0.2), "a message")
        consumer.commit(message=message, asynchronous=False)
        (listed,) = [
            each
            for each in cli_json(kafka3, "groups", "list", "--type", "consumer")
            if each["group"] == group
        ]
        assert listed["type"] == "consumer"
        lag = wait_for(
            lambda: cli_json(kafka3, "groups", "lag", group)["partitions"][1:], "both partitions"
        )
        assert lag[0]["member"] == consumer.memberid()
        assert cli_json(kafka3, "groups", "lag", group)["total"] == 10 - message.offset() - 1
    wait_for(
        lambda: cli_json(kafka3, "groups", "describe", group)[0]["state"] == "empty",
        "an empty group",
    )

    def java_offset() -> int:
        said = output_of(tool, kafka3, GROUPS, "--describe", "--group", group)
        (row,) = [line.split() for line in said.splitlines() if line.split()[1:3] == [topic, "0"]]
        return int(row[3])

    reset = ("groups", "reset-offsets", group, "-t", f"{topic}:0")
    to_time = (*reset, "--to-datetime", "1700000003000")
    cli(kafka3, *to_time)
    assert java_offset() == message.offset() + 1, "a dry run"
    cli(kafka3, *to_time, "--execute")
    assert java_offset() == 3
    cli(kafka3, *reset, "--shift-by", "4", "--execute")
    assert java_offset() == 7
    cli(kafka3, "topics", "delete-records", topic, "-p", "0", "--before", "5", "-y")
    (first, _) = cli_json(kafka3, "topics", "offsets", topic)
    assert (first["first"], first["end"], first["newest"]) == (
        5,
        10,
        "2023-11-14T22:13:29.000+00:00",
    )
    cli(kafka3, "groups", "delete-offsets", group, "-t", topic, "--yes")
    assert topic not in output_of(tool, kafka3, GROUPS, "--describe", "--group", group, "--offsets")
    cli(kafka3, "groups", "delete", group, "--yes")
    assert group not in output_of(tool, kafka3, GROUPS, "--list").split()


def test_offsets_of_share_groups(kafka3: Cluster, new_topic: TopicMaker, tool: Tool) -> None:
    topic = new_topic(kafka3, 1)
    group = group_at_start(kafka3, topic, tool)
    produce(kafka3, topic, 0, 10)
    with sharing(kafka3, group, topic) as consumer:
        taken: list[object] = []
        wait_for(lambda: [taken.extend(consumer.poll(0.5)), len(taken) >= 10][1], "all messages")
        consumer.commit_sync()
        (listed,) = [
            each
            for each in cli_json(kafka3, "groups", "list", "--type", "share")
            if each["group"] == group
        ]
        assert (listed["state"], listed["type"]) == ("stable", "share")
        assert (
            cli_json(kafka3, "groups", "describe", group)[0]["members"][0]["partitions"][0]["topic"]
            == topic
        )
    wait_for(lambda: cli_json(kafka3, "groups", "lag", group)["total"] == 0, "what was accepted")

    def java() -> list[list[str]]:
        said = output_of(tool, kafka3, SHARE_GROUPS, "--describe", "--group", group)
        return [
            line.split()[1:4] for line in said.splitlines() if line.split()[:2] == [group, topic]
        ]

    cli(kafka3, "groups", "reset-offsets", group, "--to-offset", "4", "--execute")
    assert java() == [[topic, "0", "4"]]
    assert cli_json(kafka3, "groups", "lag", group)["total"] == 6
    cli(kafka3, "groups", "delete-offsets", group, "-t", topic, "--yes")
    assert java() == []
    cli(kafka3, "groups", "delete", group, "--yes")
    assert group not in output_of(tool, kafka3, SHARE_GROUPS, "--list").split()


def test_features(kafka3: Cluster, tool: Tool) -> None:
    shown = {each["feature"]: each["level"] for each in cli_json(kafka3, "cluster", "features")}
    by_tool = levels(tool, kafka3)
    assert {name: str(level) for name, level in shown.items() if name != "metadata.version"} == {
        name: by_tool[name]
        for name in shown
        if name != "metadata.version"  # which the tool shows as a release
    }
    level = shown["share.version"]
    cli(kafka3, "cluster", "update-features", f"share.version={level}", "--yes")
    cli(kafka3, "cluster", "update-features", "share.version=99", "--yes", status=1)
    assert levels(tool, kafka3)["share.version"] == str(level)


def test_permissions_and_users(kafka3: Cluster, tool: Tool) -> None:
    name = f"cli-{uuid.uuid4().hex[:8]}"
    who = ["--principal", f"User:{name}"]
    cli(
        kafka3,
        "acls",
        "create",
        "-t",
        name,
        "--prefixed",
        *who,
        "--operation",
        "read",
        "--host",
        "10.1.2.3",
    )
    cli(kafka3, "acls", "create", "--cluster", *who, "--operation", "describe", "--deny")
    wait_for(lambda: len(cli_json(kafka3, "acls", "list", *who)) == 2, "the permissions")
    said = output_of(tool, kafka3, ACLS, "--list", "--principal", f"User:{name}")
    assert f"resourceType=TOPIC, name={name}, patternType=PREFIXED" in said
    assert f"principal=User:{name}, host=10.1.2.3, operation=READ, permissionType=ALLOW" in said
    assert f"principal=User:{name}, host=*, operation=DESCRIBE, permissionType=DENY" in said
    cli(kafka3, "acls", "delete", *who, "--yes")
    wait_for(lambda: name not in output_of(tool, kafka3, ACLS, "--list"), "no permissions")

    cli(kafka3, "users", "set", name, "--password-stdin", "--iterations", "8192", stdin=b"s3cret\n")
    wait_for(lambda: cli_json(kafka3, "users", "list"), "the user")
    said = output_of(
        tool, kafka3, CONFIGS, "--describe", "--entity-type", "users", "--entity-name", name
    )
    assert "SCRAM-SHA-512=iterations=8192" in said
    cli(kafka3, "users", "delete", name, "--yes")
    wait_for(
        lambda: name not in {each["user"] for each in cli_json(kafka3, "users", "list")}, "no user"
    )


def test_doctor_and_cluster(kafka3: Cluster, new_topic: TopicMaker) -> None:
    topic = new_topic(kafka3, 3)
    found = cli_json(kafka3, "doctor", "-t", topic, "-G", "nobody-yet")
    assert {step["kind"] for step in found["steps"] if step["status"] == "skipped"} == {
        "proxy",
        "tls",
        "sasl",
        "registry",
        "payloads",
    }
    assert {step["status"] for step in found["steps"]} <= {"ok", "skipped"}
    (described,) = [step for step in found["steps"] if step["kind"] == "topic"]
    assert {"READ", "WRITE"} <= set(described["details"]["operations"])
    versions = next(step for step in found["steps"] if step["kind"] == "versions")
    assert versions["details"]["features"]["metadata.version"] > 0
    cluster = cli_json(kafka3, "cluster")
    assert [each["broker"] for each in cluster["brokers"]] == [1, 2, 3]
    assert cluster["controller"] in (1, 2, 3)


def test_transactions(kafka3: Cluster, new_topic: TopicMaker, tool: Tool) -> None:
    topic, name = new_topic(kafka3, 2), f"cli-{uuid.uuid4().hex[:8]}"
    with our_producer(kafka3, transactional_id=name) as producer:
        producer.init_transactions(60)
        producer.begin_transaction()
        producer.produce(topic, b"x", partition=1)
        flush(producer)
        (listed,) = [
            each for each in cli_json(kafka3, "transactions", "list") if each["id"] == name
        ]
        (described,) = cli_json(kafka3, "transactions", "describe", name)
        said = output_of(
            tool, kafka3, TRANSACTIONS, "describe", "--transactional-id", name
        ).splitlines()
        java = dict(zip(said[0].split("\t"), said[1].split("\t"), strict=False))
        java = {key.strip(): value.strip() for key, value in java.items()}
        assert (
            listed["state"] == described["state"] == java["TransactionState"].lower() == "ongoing"
        )
        assert str(described["coordinator"]) == java["CoordinatorId"]
        assert str(described["producer_id"]) == java["ProducerId"]
        assert described["partitions"] == [{"topic": topic, "partition": 1}]
        cli(kafka3, "transactions", "fence", name, "--yes")

        def state() -> str:
            return str(cli_json(kafka3, "transactions", "describe", name)[0]["state"])

        wait_for(lambda: state() in ("complete-abort", "empty"), "the end of the transaction")
    assert cli_json(kafka3, "transactions", "hanging", "-t", topic) == []
