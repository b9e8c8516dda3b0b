"""Groups of every type, deletion of offsets, cluster features, completion, and mock's JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kafka_native import KafkaError, TopicPartition
from kafka_native.admin import AdminClient
from kafka_native.mock import MockCluster
from kafka_native.protocol import ApiKey
from kafka_native.protocol.streams import StreamsGroupDescribeResponse
from tests.cli.running import run, started
from tests.cli.test_administration import Cli, table
from tests.client.share_support import new_group, sharing, take
from tests.client.support import Client, fill
from tests.client.test_admin_shared_groups import application


@pytest.fixture
def cli(cluster: MockCluster) -> Cli:
    return Cli(cluster)


def test_groups_of_every_type_are_listed_and_described(cli: Cli, cluster: MockCluster) -> None:
    client = Client(cluster)
    topic, group = client.topic(2), new_group(client)
    cluster.set_streams_group(application("counts", topic, "m"))
    cluster.set_committed("plain", {(topic, 0): 1})
    with sharing(client, group, topic, client_id="sharer") as consumer:
        consumer.poll(0.2)
        rows = table(cli("groups", "list", "--type", "share", "--type", "streams"))
        assert [group, "stable", "share"] in rows
        assert ["counts", "stable", "streams"] in rows
        assert "plain" not in {row[0] for row in rows}
        assert group not in {row[0] for row in table(cli("groups", "list"))}
        assert "plain" in {row[0] for row in table(cli("groups", "list"))}
        assert cli.json("groups", "list", "--type", "streams", "--state", "empty") == []
        share, streams, classic = cli.json("groups", "describe", "plain", "counts", group)[::-1]
        if share["group"] != group:
            share, streams = streams, share
        assert (classic["group"], classic["type"]) == ("plain", "classic")
        assert (share["type"], share["state"], share["members"][0]["client_id"]) == (
            "share",
            "stable",
            "sharer",
        )
        assert share["members"][0]["partitions"] == [
            {"topic": topic, "partition": each} for each in (0, 1)
        ]
        assert (streams["type"], streams["subtopologies"]) == ("streams", {"0": [topic]})
        assert streams["members"][0]["tasks"] == {"0": [0, 1]}
        output = cli("groups", "describe", group, "counts")
        assert f"group {group}: stable, type share, coordinator" in output
        assert f"{topic}:0-1" in output
        assert "group counts: stable, type streams" in output
        assert "0:0-1" in output
    cli("groups", "describe", "nobody", status=1)
    assert cli.errors == "Error: group nobody: there is no such group\n"
    cluster.push_request_errors(
        ApiKey.SHARE_GROUP_DESCRIBE, [KafkaError.GROUP_AUTHORIZATION_FAILED]
    )
    cli("groups", "describe", "nobody", status=1)
    assert "authori" in cli.errors.lower()
    assert cli("groups", "delete", group, "--yes") == f"group {group}: deleted\n"


def test_groups_of_a_cluster_without_other_types() -> None:
    gone = dict.fromkeys(map(int, (ApiKey.SHARE_GROUP_DESCRIBE, ApiKey.STREAMS_GROUP_DESCRIBE)), -1)
    with MockCluster(brokers=1, max_versions=gone) as old:
        cli = Cli(old)
        cli("groups", "describe", "nobody", status=1)
        assert cli.errors == "Error: group nobody: there is no such group\n"


def test_states_of_newer_groups_have_names(cli: Cli, cluster: MockCluster) -> None:
    for state, name in (
        ("Assigning", "assigning"),
        ("Reconciling", "reconciling"),
        ("NotReady", "not-ready"),
    ):
        cluster.set_streams_group(
            StreamsGroupDescribeResponse.Group(group_id="app", group_state=state)
        )
        assert ["app", name, "streams"] in table(
            cli("groups", "list", "--type", "streams", "--state", name)
        )
        assert f"group app: {name}, type streams" in cli("groups", "describe", "app")


def test_offsets_are_forgotten(cli: Cli, cluster: MockCluster) -> None:
    topic = Client(cluster).topic(3)
    cluster.set_committed("forgets", {(topic, number): number for number in range(3)})
    cli("groups", "delete-offsets", "forgets", "-t", f"{topic}:0", status=2)
    assert "say --yes" in cli.errors
    output = cli("groups", "delete-offsets", "forgets", "-t", f"{topic}:0,2", "--yes")
    assert output == f"offset {topic} [0]: forgotten\noffset {topic} [2]: forgotten\n"
    assert cluster.group("forgets").offsets.keys() == {(topic, 1)}
    assert (
        cli.json("groups", "delete-offsets", "nobody", "-t", topic, "--yes", status=1)[0]["ok"]
        is False
    )
    cli("groups", "delete-offsets", "forgets", "-t", f"{topic}:9", "--yes", status=1)
    assert "has no partition 9" in cli.errors
    cli("groups", "delete-offsets", "forgets", "--yes", status=2)


def test_offsets_of_share_groups(cli: Cli, cluster: MockCluster) -> None:
    client = Client(cluster)
    topic, group = client.topic(2), new_group(client)
    fill(client, topic, 10, partition=0)
    with sharing(client, group, topic, client_id="sharer") as consumer:
        assert len(take(consumer, 10)) == 10
        (row, other) = cli.json("groups", "lag", group)["partitions"]
        assert (row["topic"], row["partition"], row["lag"], row["client_id"]) == (
            topic,
            0,
            10,
            "sharer",
        )
        assert (other["partition"], other["lag"]) == (1, 0)
        consumer.commit_sync()
        assert table(cli("groups", "lag", group))[1][2:7] == ["0", "10", "10", "0", "sharer"]
        cli("groups", "reset-offsets", group, "--to-earliest", "--execute", status=1)
        assert f"group {group} is stable, with 1 members" in cli.errors
    partition = (f"{topic}:0",)
    assert table(cli("groups", "reset-offsets", group, "-t", *partition, "--shift-by", "-4"))[1][
        2:5
    ] == ["10", "6", "-4"]
    assert cli.json("groups", "lag", group)["partitions"][0]["committed"] == 10, (
        "that was a dry run"
    )
    cli("groups", "reset-offsets", group, "-t", *partition, "--to-offset", "3", "--execute")
    row = cli.json("groups", "lag", group)["partitions"][0]
    assert (row["committed"], row["end"], row["lag"]) == (3, 10, 7)
    cli("groups", "delete-offsets", group, "-t", *partition, "--yes", status=1)
    assert "forgets whole topics" in cli.errors
    assert (
        cli("groups", "delete-offsets", group, "-t", topic, "--yes")
        == f"offset {topic}: forgotten\n"
    )
    assert cli.json("groups", "lag", group)["partitions"] == []
    cluster.push_request_errors(
        ApiKey.SHARE_GROUP_DESCRIBE, [KafkaError.GROUP_AUTHORIZATION_FAILED]
    )
    cli("groups", "lag", group, status=1)
    assert "authori" in cli.errors.lower()


def test_features_are_shown_and_updated() -> None:
    with MockCluster(brokers=1) as own:
        cli = Cli(own)
        before = {each["feature"]: each for each in cli.json("cluster", "features")}
        feature = before["transaction.version"]
        assert feature["lowest"] <= feature["level"] <= feature["highest"] == 2
        assert table(cli("cluster", "features"))[0] == ["feature", "level", "lowest", "highest"]
        down = ["cluster", "update-features", "transaction.version=1"]
        cli(*down, status=2)
        assert "say --yes" in cli.errors
        cli(*down, "--yes", status=1)
        assert "Error: feature transaction.version" in cli.errors, "that is no upgrade"
        output = cli(*down, "--downgrade", "safe", "--dry-run")
        assert output == "feature transaction.version: would be updated\n"
        assert cli.json("cluster", "features") == list(before.values())
        assert (
            cli(*down, "--downgrade", "safe", "--yes") == "feature transaction.version: updated\n"
        )
        assert {each["feature"]: each["level"] for each in cli.json("cluster", "features")}[
            "transaction.version"
        ] == 1
        for wrong in (
            "transaction.version",
            "transaction.version=x",
            "transaction.version=99999",
            "a=0",
        ):
            cli("cluster", "update-features", wrong, "--yes", status=2)


def test_fenced_brokers_are_shown() -> None:
    with MockCluster(brokers=2) as own:
        cli = Cli(own)
        own.remove_broker(2)
        assert [each["broker"] for each in cli.json("cluster")["brokers"]] == [1]
        found = cli.json("cluster", "describe", "--fenced")["brokers"]
        assert [(each["broker"], each["fenced"]) for each in found] == [(1, False), (2, True)]
        assert table(cli("cluster", "--fenced"))[1][-1] == "fenced"


# --- completion ---


def completed(line: str, **environment: str) -> list[str]:
    words = {"_KAFKA_NATIVE_COMPLETE": "bash_complete", "COMP_WORDS": line}
    done = run(**words, COMP_CWORD=str(len(line.split(" ")) - 1), **environment)
    assert done.stderr == b"", "nothing is on stderr"
    return [each.partition(",")[2] for each in done.stdout.decode().splitlines() if each]


def test_names_of_topics_and_groups_are_completed(cluster: MockCluster) -> None:
    cluster.create_topic("finish-a")
    cluster.create_topic("finish-b")
    cluster.set_committed("finishers", {("finish-a", 0): 1})
    cluster.set_streams_group(
        StreamsGroupDescribeResponse.Group(group_id="finish-app", group_state="Empty")
    )
    at = cluster.bootstrap_servers
    assert completed(f"kafka-native topics describe -b {at} fin") == ["finish-a", "finish-b"]
    assert completed("kafka-native metadata -t finish-b", KAFKA_BOOTSTRAP=at) == ["finish-b"]
    assert completed("kafka-native groups lag fin", KAFKA_BOOTSTRAP=at) == [
        "finish-app",
        "finishers",
    ]
    assert completed("kafka-native consume -t fin", KAFKA_BOOTSTRAP=at) == ["finish-a", "finish-b"]
    assert completed("kafka-native consume fin", KAFKA_BOOTSTRAP=at)[:2] == ["finish-a", "finish-b"]


@pytest.mark.parametrize("servers", ["", "127.0.0.1:1", "nobody.invalid:9092"])
def test_nothing_is_completed_without_a_cluster(servers: str) -> None:
    assert completed("kafka-native topics describe x", KAFKA_BOOTSTRAP=servers) == []


# --- the mock cluster's line ---


def test_mock_prints_its_address_as_json() -> None:
    with started("mock", "--brokers", "2", "--topics", "a:2", "--json") as process:
        assert process.stdout is not None
        document = json.loads(process.stdout.readline())
        assert (document["pid"], len(document["bootstrap.servers"].split(","))) == (process.pid, 2)
        done = run("metadata", "--json", "-b", document["bootstrap.servers"])
        assert json.loads(done.stdout)["cluster_id"] == document["cluster_id"]
        process.terminate()
        assert process.wait(30) == 0


@pytest.mark.parametrize("kind", ["classic", "share"])
def test_a_partition_whose_offset_cant_be_read_is_an_error_of_lag_and_reset(
    cli: Cli, cluster: MockCluster, kind: str
) -> None:
    client = Client(cluster)
    topic, group = client.topic(2), new_group(client)
    offsets = {(topic, 0): 1, (topic, 1): 2}

    def fail(response: Any) -> None:
        wanted = response.groups[0].topics[0].partitions
        wanted[0].error_code = KafkaError.COORDINATOR_LOAD_IN_PROGRESS

    if kind == "classic":
        cluster.set_committed(group, offsets)
        api = ApiKey.OFFSET_FETCH
    else:
        with sharing(client, group, topic):
            pass
        with AdminClient({"bootstrap.servers": cluster.bootstrap_servers}) as admin:
            wanted = {TopicPartition(*key): offset for key, offset in offsets.items()}
            for future in admin.alter_share_group_offsets(group, wanted).values():
                future.result()
        api = ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS
    for command in (["lag", group], ["reset-offsets", group, "--to-latest"]):
        cluster.edit_responses(api, fail)
        cli("groups", *command, status=1)
        assert f"{topic} [0]: " in cli.errors
