"""Reading of ranges from a real Apache Kafka: transactions leave offsets without a record."""

from __future__ import annotations

import confluent_kafka
import pytest

from kafka_native.spark import range_reader
from kafka_native.spark.batch import BatchReader
from kafka_native.spark.options import SourceOptions
from kafka_native.spark.ranges import OffsetRange
from tests.broker.cluster import Cluster
from tests.broker.support import TopicMaker, their_producer
from tests.spark.support import source_options

pytestmark = [pytest.mark.usefixtures("no_consumer_left"), pytest.mark.broker, pytest.mark.slow]

EACH = 10
"""Records of a transaction. Its marker is also a record, which no reader sees."""


def transactions(kafka: Cluster, topic: str) -> None:
    """Write three transactions, the second aborted: records at 0-9, 11-20 and 22-31."""
    producer: confluent_kafka.Producer = their_producer(kafka, transactional_id=topic)
    producer.init_transactions(60)
    for number in range(3):
        producer.begin_transaction()
        for each in range(EACH):
            producer.produce(topic, f"{number}-{each}")
        if number == 1:
            producer.flush(60)
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)


def offsets(options: SourceOptions, range_: OffsetRange) -> list[int]:
    batches = range_reader.read_range(options, range_, ["offset"])
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


def test_a_range_ends_at_its_last_offset_with_or_without_a_record(
    apache: Cluster, new_topic: TopicMaker
) -> None:
    topic = new_topic(apache)
    transactions(apache, topic)
    seen = {
        "read_uncommitted": [*range(10), *range(11, 21), *range(22, 32)],
        "read_committed": [*range(10), *range(22, 32)],
    }
    for isolation, expected in seen.items():
        options = SourceOptions.parse(
            source_options(apache.bootstrap, topic, **{"kafka.isolation.level": isolation})
        )
        [whole] = BatchReader(options).partitions()
        assert whole == OffsetRange(topic, 0, 0, 33)
        assert offsets(options, whole) == expected
        # all edges: before, in and after offsets without a record
        for end in range(1, 34):
            assert offsets(options, OffsetRange(topic, 0, 0, end)) == [
                each for each in expected if each < end
            ]
        pieces = [
            offsets(options, OffsetRange(topic, 0, start, start + 3)) for start in range(0, 33, 3)
        ]
        assert [each for piece in pieces for each in piece] == expected
