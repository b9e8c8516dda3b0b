"""Rows that Spark's tasks write to a real Apache Kafka arrive. Another client reads them.

Spark's JVM takes no part.
"""

from __future__ import annotations

import pyarrow as pa

from kafka_native.spark import producers
from kafka_native.spark.options import SinkOptions
from kafka_native.spark.writers import write_rows
from tests.broker.cluster import Cluster
from tests.broker.support import TopicMaker, read, their_consumer

ROWS = 20_000
BATCH_ROWS = 5_000
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def rows(start: int) -> pa.RecordBatch:
    """Return rows with numbers as keys. Every third value is a tombstone, every second row has a
    partition and headers.
    """
    numbers = range(start, start + BATCH_ROWS)
    columns = {
        "key": pa.array([f"key-{number}" for number in numbers]),
        "value": pa.array(
            [None if number % 3 == 0 else b"%d" % number for number in numbers], pa.binary()
        ),
        "partition": pa.array([1 if number % 2 else None for number in numbers], pa.int32()),
        "headers": pa.array(
            [[{"key": "n", "value": b"x"}] if number % 2 else None for number in numbers], HEADERS
        ),
    }
    return pa.RecordBatch.from_pydict(columns)


def test_rows_of_a_task_arrive_once(kafka: Cluster, new_topic: TopicMaker) -> None:
    topic = new_topic(kafka, 2)
    given = {
        "kafka.bootstrap.servers": kafka.bootstrap,
        "topic": topic,
        "kafka.compression.type": "lz4",
    }
    try:
        batches = (rows(start) for start in range(0, ROWS, BATCH_ROWS))
        assert write_rows(producers.borrowed, batches, SinkOptions.parse(given)) == ROWS
    finally:
        producers.close_idle()
    consumer = their_consumer(kafka)
    try:
        found = {record.key: record for record in read(consumer, topic, [0, 1], ROWS)}
    finally:
        consumer.close()
    assert len(found) == ROWS
    for number in range(ROWS):
        record = found[f"key-{number}".encode()]
        assert record.value == (None if number % 3 == 0 else b"%d" % number)
        assert record.headers == ((("n", b"x"),) if number % 2 else ())
        assert record.partition == 1 or number % 2 == 0
