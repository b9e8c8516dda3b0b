"""Java's own tools produce to the mock cluster and consume from it, unchanged."""

from __future__ import annotations

import pytest

from kafka_native.mock import MockCluster
from tests.broker import java

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
    ends = ("--max-messages", str(COUNT), "--timeout-ms", "20000")
    show = ("--formatter-property", "print.key=true")
    read = java.java_tool(CONSUMER, *where, "--topic", "a", "--group", "g", "--from-beginning", *ends, *show)
    assert sorted(read.decode().splitlines()) == sorted(lines)
    group = cluster.groups.find("g")
    assert group is not None
    assert sum(stored.offset for stored in group.offsets.values()) == COUNT
