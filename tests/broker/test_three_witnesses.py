"""Byte-for-byte comparison with librdkafka and Java, both ways, on partitions with different
leaders.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import kafka_native
from tests.broker.cluster import Cluster
from tests.broker.support import (
    CODECS,
    TopicMaker,
    flush,
    leaders,
    our_consumer,
    our_producer,
    read,
    their_consumer,
    their_producer,
)
from tests.broker.test_witnesses import (
    ALL_COUNT,
    ALL_EXPECTED,
    Tool,
    by_partition,
    check_lines,
    console_consumer,
    write_with_all_codecs,
)
from tests.waiting import wait_for

LINES = 300


def spread_topic(kafka3: Cluster, new_topic: TopicMaker) -> str:
    """Return a topic with one partition for each codec. All three brokers lead some."""
    topic = new_topic(kafka3, len(CODECS))
    # This broker may learn of the topic a moment later than the one that new_topic asked.
    assert (
        set(wait_for(lambda: leaders(kafka3, topic), "leaders").values()) == {1, 2, 3}
        or not kafka3.brokers
    )
    return topic


def acks_all(make: Callable[..., Any]) -> Callable[..., Any]:
    return lambda cluster, **config: make(cluster, acks="all", **config)


def test_librdkafka_and_java_read_our_messages(
    kafka3: Cluster, new_topic: TopicMaker, tool: Tool
) -> None:
    topic = spread_topic(kafka3, new_topic)
    write_with_all_codecs(acks_all(our_producer), kafka3, topic)
    witness = their_consumer(kafka3, check_crcs=True)
    assert by_partition(read(witness, topic, range(len(CODECS)), ALL_COUNT)) == ALL_EXPECTED
    witness.close()
    check_lines(console_consumer(tool, kafka3, topic, ALL_COUNT))


def test_we_read_librdkafkas_messages(kafka3: Cluster, new_topic: TopicMaker) -> None:
    topic = spread_topic(kafka3, new_topic)
    write_with_all_codecs(acks_all(their_producer), kafka3, topic)
    with our_consumer(kafka3, check_crcs=True) as consumer:
        assert by_partition(read(consumer, topic, range(len(CODECS)), ALL_COUNT)) == ALL_EXPECTED


def test_ours_and_java_agree_where_keys_belong(
    kafka3: Cluster, new_topic: TopicMaker, tool: Tool
) -> None:
    # Java's producer is idempotent and has its own partitioner: murmur2 of the key.
    topic = spread_topic(kafka3, new_topic)
    keys = [f"key {number}" for number in range(LINES)]
    tool(
        "org.apache.kafka.tools.ConsoleProducer",
        *("--bootstrap-server", kafka3.bootstrap, "--topic", topic, "--compression-codec", "zstd"),
        *("--reader-property", "parse.key=true"),
        input="".join(f"{key}\tjava {key}\n" for key in keys).encode(),
    )
    with our_producer(kafka3, acks="all", partitioner="murmur2") as producer:
        for key in keys:
            producer.produce(topic, f"ours {key}", key)
        flush(producer)
    with our_consumer(kafka3) as consumer:
        found = read(consumer, topic, range(len(CODECS)), LINES * 2)
    for partition, records in by_partition(found).items():
        assert [record.offset for record in records] == list(range(len(records))), partition
    places: dict[str, dict[str, int]] = {"java": {}, "ours": {}}
    for record in found:
        writer, _, key = (record.value or b"").decode().partition(" ")
        assert key.encode() == record.key
        places[writer][key] = record.partition
    assert places["ours"] == places["java"]
    assert sorted(places["java"]) == sorted(keys)
    assert {record.timestamp_type for record in found} == {kafka_native.TIMESTAMP_CREATE_TIME}
