"""``kafka-native transactions`` on the mock cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kafka_native import KafkaException, Producer
from kafka_native.cli.commands.transactions import STATES
from kafka_native.mock import MockCluster
from tests.cli.running import invoke
from tests.waiting import WAIT_S

LONG_AGO_MS = 1_000_000


@contextmanager
def transaction(
    cluster: MockCluster, name: str, topic: str, *partitions: int
) -> Iterator[Producer]:
    """Yield a producer with an open transaction and an old message in each partition."""
    with Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": name}
    ) as producer:
        producer.init_transactions(WAIT_S)
        producer.begin_transaction()
        for partition in partitions:
            producer.produce(topic, b"x", partition=partition, timestamp=LONG_AGO_MS)
        assert producer.flush(WAIT_S) == 0
        yield producer


def cli(cluster: MockCluster, *words: str, status: int = 0) -> str:
    result = invoke("transactions", *words, "-b", cluster.bootstrap_servers)
    assert result.exit_code == status, result.output
    return result.stdout if status == 0 else result.stderr


def cli_json(cluster: MockCluster, *words: str) -> Any:
    return json.loads(cli(cluster, *words, "--json"))


def test_transactions_are_listed_and_described(cluster: MockCluster) -> None:
    cluster.create_topic("a", 3)
    with transaction(cluster, "open", "a", 0, 2), transaction(cluster, "done", "a", 1) as other:
        other.commit_transaction(WAIT_S)
        listed = cli_json(cluster, "list")
        assert [(each["id"], each["state"]) for each in listed] == [
            ("done", "complete-commit"),
            ("open", "ongoing"),
        ]
        assert [each["id"] for each in cli_json(cluster, "list", "--state", "ongoing")] == ["open"]
        assert [each["id"] for each in cli_json(cluster, "list", "--id-pattern", "d.*")] == ["done"]
        assert cli_json(cluster, "list", "--longer-than", "1h") == []
        assert [
            each["id"]
            for each in cli_json(cluster, "list", "--producer-id", str(listed[0]["producer_id"]))
        ] == ["done"]
        (found,) = cli_json(cluster, "describe", "open")
        assert (found["state"], found["producer_id"]) == ("ongoing", listed[1]["producer_id"])
        assert found["partitions"] == [
            {"topic": "a", "partition": 0},
            {"topic": "a", "partition": 2},
        ]
        assert found["started"]
        assert cli(cluster, "describe", "open").splitlines()[1].split()[-1] == "a:0,2"
        assert cli(cluster, "describe", "open", "nothing", status=1).startswith(
            "Error: transactional id nothing: "
        )


def test_a_hanging_transaction_is_found_and_aborted(cluster: MockCluster) -> None:
    cluster.create_topic("a", 2)
    with transaction(cluster, "hangs", "a", 0), transaction(cluster, "fine", "a", 1):
        assert cli_json(cluster, "hanging") == []
        cluster.hang_transaction("hangs")
        (found,) = cli_json(cluster, "hanging", "-t", "a:0")
        assert (found["topic"], found["partition"], found["start_offset"]) == ("a", 0, 0)
        assert found["last_write"] == "1970-01-01T00:16:40.000+00:00"
        assert cli_json(cluster, "hanging", "-t", "a:1") == []
        assert cli_json(cluster, "hanging", "--max-transaction-timeout", "36500d") == []
        assert cli(cluster, "hanging", "-t", "nowhere", status=1).startswith(
            "Error: topic nowhere: "
        )
        log = cluster.topics["a"].partitions[0].log
        assert "say --yes" in cli(cluster, "abort", "a", "0", "--start-offset", "0", status=2)
        assert "no open transaction begins at 7" in cli(
            cluster, "abort", "a", "0", "--start-offset", "7", "-y", status=1
        )
        assert log.last_stable_offset == 0
        output = cli(cluster, "abort", "a", "0", "--start-offset", "0", "-y")
        assert output == "transaction a [0] at 0: aborted\n"
        assert log.last_stable_offset == log.end_offset
        assert cli_json(cluster, "hanging") == []


def test_producers_are_fenced(cluster: MockCluster) -> None:
    cluster.create_topic("a")
    with transaction(cluster, "bank", "a", 0) as producer:
        assert "say --yes" in cli(cluster, "fence", "bank", status=2)
        assert cli(cluster, "fence", "bank", "-y") == "transactional id bank: fenced\n"
        with pytest.raises(KafkaException):
            producer.commit_transaction(WAIT_S)
    assert cluster.topics["a"].partitions[0].log.last_stable_offset == 2


def test_states_have_the_names_of_options() -> None:
    assert {
        "empty",
        "ongoing",
        "prepare-commit",
        "complete-abort",
        "prepare-epoch-fence",
        "dead",
    } <= set(STATES)
