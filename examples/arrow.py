"""Reads records as Arrow columns with pyarrow, in batches and as a stream.

Needs `pip install 'kafka-native[arrow]'`.
"""

from __future__ import annotations

import os
from uuid import uuid4

import pyarrow
import pyarrow.compute

from kafka_native import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

TOPIC = f"example-arrow-{uuid4().hex[:8]}"
BOOTSTRAP = os.environ.get("BOOTSTRAP", "localhost:9092")
COUNT = 10_000


def fill() -> None:
    """Produce temperatures as text, with ten cities as keys."""
    with Producer({"bootstrap.servers": BOOTSTRAP}) as producer:
        for number in range(COUNT):
            producer.produce(TOPIC, f"{number % 35}", key=f"city {number % 10}")


def main() -> None:
    """Read a batch with chosen types, then the same records as a stream that pyarrow groups."""
    fill()
    with Consumer(
        {"bootstrap.servers": BOOTSTRAP, "group.id": TOPIC, "enable.auto.commit": False}
    ) as consumer:
        partitions = [
            TopicPartition(TOPIC, number)
            for number in consumer.list_topics(TOPIC).topics[TOPIC].partitions
        ]
        consumer.assign(
            [TopicPartition(each.topic, each.partition, OFFSET_BEGINNING) for each in partitions]
        )

        batch = consumer.consume_arrow(
            100, timeout=10, columns={"offset": None, "key": "string", "value": "string"}
        )
        table = pyarrow.table(batch)
        print(
            f"{batch.num_rows} rows of {batch.nbytes} bytes: {table.schema.names}, "
            f"{table.schema.types}"
        )
        consumer.commit(
            offsets=[TopicPartition(*key, offset) for key, offset in batch.positions.items()]
        )

        consumer.seek_to_beginning()
        stream = consumer.arrow_stream(
            2_000, timeout=2.0, columns={"key": "string", "value": "string"}
        )
        table = pyarrow.RecordBatchReader.from_stream(stream).read_all()
        table = table.set_column(
            1, "degrees", pyarrow.compute.cast(table.column("value"), pyarrow.int64())
        )
        hottest = (
            table.group_by("key")
            .aggregate([("degrees", "max"), ("degrees", "count")])
            .sort_by("key")
        )
        print(f"{table.num_rows} rows, {hottest.num_rows} cities")
        print(hottest.slice(0, 1).to_pylist()[0])


if __name__ == "__main__":
    main()
