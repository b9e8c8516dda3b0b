"""Batch queries on the mock cluster."""

from __future__ import annotations

from tests.spark.support import Kafka


def test_all_records_come_with_the_connectors_columns(kafka: Kafka) -> None:
    topic = kafka.topic(2)
    kafka.fill(topic, 25, partition=0)
    kafka.fill(topic, 10, partition=1, start=100)
    frame = kafka.read(topic).load()
    assert frame.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int>"
    )
    rows = frame.orderBy("partition", "offset").collect()
    assert [(row.partition, row.offset) for row in rows] == [(0, n) for n in range(25)] + [(1, n) for n in range(10)]
    assert [bytes(row.value) for row in rows[25:]] == [b"%d" % n for n in range(100, 110)]
