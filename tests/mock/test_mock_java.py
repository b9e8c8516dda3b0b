"""Java's own tools produce to the mock cluster and consume from it, unchanged."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from kafka_native.mock import MockCluster
from kafka_native.mock.group_verbs import MemberInfo
from tests.broker import java
from tests.mock.wire import batch

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(java.missing() is not None, reason=str(java.missing())),
    pytest.mark.timeout(400),  # the first run fetches the jars
]

TOPICS = "org.apache.kafka.tools.TopicCommand"
PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
COUNT = 200


def test_java_tools_make_a_topic_fill_it_and_read_it(cluster: MockCluster) -> None:
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
    read = java.java_tool(CONSUMER, *where, "--topic", "a", "--group", "g", "--from-beginning", *ends, *show)
    assert sorted(read.decode().splitlines()) == sorted(lines)
    group = cluster.groups.find("g")
    assert group is not None
    assert sum(stored.offset for stored in group.offsets.values()) == COUNT


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_java_members_share_a_topic_and_go_on_where_they_stopped(protocol: str, cluster: MockCluster) -> None:
    cluster.create_topic("a", 4)
    command = ["--bootstrap-server", cluster.bootstrap_servers, "--topic", "a", "--group", "g", "--from-beginning"]
    command += ["--consumer-property", f"group.protocol={protocol}"]

    def read() -> list[str]:
        ends = ("--timeout-ms", "8000")
        said = java.java_tool(CONSUMER, *command, *ends).decode().splitlines()
        return [line for line in said if line.startswith(("first-", "later-"))]  # without what log4j says of the end

    def fill(name: str) -> list[str]:
        for number in range(COUNT):
            cluster.append_raw("a", number % 4, batch(f"{name}-{number}".encode()))
        return sorted(f"{name}-{number}" for number in range(COUNT))

    with ThreadPoolExecutor(2) as pool:
        readers = [pool.submit(read) for _ in range(2)]
        deadline = time.monotonic() + 50
        while not any(reader.done() for reader in readers):
            assert time.monotonic() < deadline
            group = cluster.group("g") if cluster.groups.find("g") else None
            if group and group.state == "Stable" and sorted(map(len, map(_owned, group.members.values()))) == [2, 2]:
                break
            time.sleep(0.05)
        first = fill("first")
        found = [reader.result(60) for reader in readers]
    assert group is not None
    assert group.type == protocol
    assert sorted(found[0] + found[1]) == first  # each message once
    assert all(found), "one of them got nothing"
    later = fill("later")
    assert sorted(read()) == later
    assert cluster.group("g").members == {}
    assert sum(stored.offset for stored in cluster.group("g").offsets.values()) == 2 * COUNT


def _owned(member: MemberInfo) -> list[tuple[str, int]]:
    return member.assignment
