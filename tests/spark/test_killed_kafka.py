"""Pipelines on a real Apache Kafka are killed by kill -9 when a part of the work is done.

The pipeline then runs again, and another client reads the result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from pyspark.sql import SparkSession

from kafka_native.spark.pipelines import Lake, archive
from kafka_native.spark.pipelines.mirror import mirror, translate_offset
from tests.broker.cluster import Cluster
from tests.broker.support import (
    Record,
    TopicMaker,
    end_of,
    flush,
    read,
    their_consumer,
    their_producer,
)
from tests.spark.killing import running
from tests.spark.support import needs_limits

pytestmark = [pytest.mark.slow, pytest.mark.broker]

PARTITIONS = 2
RECORDS = 10_000
"""In each partition."""
RATE = 2000


@pytest.fixture
def topic(apache: Cluster, new_topic: TopicMaker) -> str:
    name = new_topic(apache, PARTITIONS)
    producer = their_producer(apache, queue_buffering_max_messages=PARTITIONS * RECORDS)
    for number in range(RECORDS):
        for partition in range(PARTITIONS):
            producer.produce(name, f"{partition}-{number}", f"k{number % 9}", partition)
    flush(producer)
    return name


@pytest.fixture
def witness(apache: Cluster) -> Iterator[confluent_kafka.Consumer]:
    consumer = their_consumer(apache)
    yield consumer
    consumer.close()


def partition_of(witness: confluent_kafka.Consumer, topic: str, partition: int) -> list[Record]:
    """Return all records of a partition."""
    return read(witness, topic, [partition], end_of(witness, topic, partition))


def rows_of(records: list[Record]) -> list[tuple[Any, ...]]:
    """Return the parts of records that a mirror keeps."""
    return [(each.key, each.value, each.timestamp) for each in records]


@needs_limits
def test_archive_that_was_killed_has_each_record_once(
    apache: Cluster,
    topic: str,
    witness: confluent_kafka.Consumer,
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    lake = Lake(tmp_path / "lake")
    where = ["--bootstrap", apache.bootstrap, "--topics", topic, "--lake", lake.root]
    with running(
        tmp_path / "output", "local[2]", "archive", *where, "--max-records-per-batch", 200
    ) as command:
        command.wait_until(lambda: len(lake.manifests()) >= 2, "two of a hundred batches")
        command.kill()
    done = sum(each.records for each in lake.manifests())
    assert done < PARTITIONS * RECORDS
    again = archive({"bootstrap.servers": apache.bootstrap}, lake, topics=[topic], session=spark)
    assert again.records <= PARTITIONS * RECORDS - done, (
        "a batch with an intent is finished, not read again"
    )
    found = lake.dataset().to_table(["partition", "offset", "value"]).to_pylist()
    there = Counter((row["partition"], row["offset"], row["value"]) for row in found)
    wanted = [
        each for partition in range(PARTITIONS) for each in partition_of(witness, topic, partition)
    ]
    assert len(wanted) == PARTITIONS * RECORDS
    assert there == Counter((each.partition, each.offset, each.value) for each in wanted)
    assert lake.gaps() == []


def test_mirror_that_was_killed_misses_nothing_and_keeps_the_order(
    apache: Cluster,
    topic: str,
    witness: confluent_kafka.Consumer,
    new_topic: TopicMaker,
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    copy, checkpoint = new_topic(apache, PARTITIONS), tmp_path / "checkpoint"
    where = ["--bootstrap", apache.bootstrap, "--topics", topic]
    where += ["--to", copy, "--checkpoint", checkpoint]
    with running(tmp_path / "output", "local[2]", "mirror", *where, "--rate", RATE) as command:
        command.wait_until(
            lambda: all(end_of(witness, copy, each) for each in range(PARTITIONS)), "some records"
        )
        command.kill()
    done = [end_of(witness, copy, partition) for partition in range(PARTITIONS)]
    assert done[1] < RECORDS
    conf = {"bootstrap.servers": apache.bootstrap}
    assert (
        mirror(spark, conf, conf, str(checkpoint), topics=[topic], to=copy).records
        == PARTITIONS * RECORDS
    )
    for partition in range(PARTITIONS):
        wanted = rows_of(partition_of(witness, topic, partition))
        found = rows_of(partition_of(witness, copy, partition))
        assert len(found) > RECORDS
        assert list(dict.fromkeys(found)) == wanted
        for offset in (0, done[partition], RECORDS - 1):
            place = translate_offset(str(checkpoint), topic, partition, offset)
            assert place is not None
            assert set(wanted[offset:]) <= set(found[place:])
