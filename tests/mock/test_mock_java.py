"""Java's own tools produce to the mock cluster and consume from it, unchanged."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from kafka_native.mock import MockCluster
from tests.broker import java
from tests.mock.wire import batch
from tests.waiting import wait_for

pytestmark = [
    pytest.mark.broker,
    pytest.mark.slow,
    pytest.mark.skipif(java.missing() is not None, reason=str(java.missing())),
]

TOPICS = "org.apache.kafka.tools.TopicCommand"
PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
COUNT = 200


def test_java_tools_create_a_topic_fill_it_and_read_it(cluster: MockCluster) -> None:
    where = ("--bootstrap-server", cluster.bootstrap_servers)
    java.java_tool(TOPICS, *where, "--create", "--topic", "a", "--partitions", "4")
    described = java.java_tool(TOPICS, *where, "--describe", "--topic", "a").decode()
    assert "PartitionCount: 4" in described
    assert "Leader: 3" in described
    lines = [f"key-{number}\tvalue-{number}" for number in range(COUNT)]
    text = "\n".join(lines).encode()
    options = ("--reader-property", "parse.key=true", "--compression-codec", "zstd")
    java.java_tool(PRODUCER, *where, "--topic", "a", *options, input=text)
    assert sum(cluster.watermarks("a", index)[1] for index in range(4)) == COUNT
    ends = ("--max-messages", str(COUNT), "--timeout-ms", "120000")
    show = ("--formatter-property", "print.key=true")
    read = java.java_tool(
        CONSUMER, *where, "--topic", "a", "--group", "g", "--from-beginning", *ends, *show
    )
    assert sorted(read.decode().splitlines()) == sorted(lines)
    group = cluster.groups.find("g")
    assert group is not None
    assert sum(stored.offset for stored in group.offsets.values()) == COUNT


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_java_members_share_a_topic_and_continue_where_they_stopped(
    protocol: str, cluster: MockCluster
) -> None:
    cluster.create_topic("a", 4)
    command = [
        "--bootstrap-server",
        cluster.bootstrap_servers,
        "--topic",
        "a",
        "--group",
        "g",
        "--from-beginning",
    ]
    command += ["--consumer-property", f"group.protocol={protocol}"]

    def read(count: int) -> list[str]:
        ends = ("--max-messages", str(count), "--timeout-ms", "120000")
        lines = java.java_tool(CONSUMER, *command, *ends).decode().splitlines()
        return [
            line for line in lines if line.startswith(("first-", "later-"))
        ]  # without log lines

    def fill(name: str) -> list[str]:
        for number in range(COUNT):
            cluster.append_raw("a", number % 4, batch(f"{name}-{number}".encode()))
        return sorted(f"{name}-{number}" for number in range(COUNT))

    with ThreadPoolExecutor(2) as pool:
        readers = [pool.submit(read, COUNT // 2) for _ in range(2)]
        wait_for(
            lambda: _owns(cluster) == [2, 2] or any(reader.done() for reader in readers),
            "two each",
            150,
        )
        first = fill("first")
        found = [reader.result(150) for reader in readers]
    assert cluster.group("g").type == protocol
    assert sorted(found[0] + found[1]) == first  # each message once
    assert all(found), "one reader got no messages"
    later = fill("later")
    assert sorted(read(COUNT)) == later
    assert cluster.group("g").members == {}
    assert sum(stored.offset for stored in cluster.group("g").offsets.values()) == 2 * COUNT


def _owns(cluster: MockCluster) -> list[int]:
    """Return the number of partitions of each member, or nothing before the group is stable."""
    if cluster.groups.find("g") is None or (group := cluster.group("g")).state != "Stable":
        return []
    return [len(member.assignment) for member in group.members.values()]
