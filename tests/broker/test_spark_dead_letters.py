"""Rows that a real Apache Kafka refuses are dead letters, and the others are written.

Spark's JVM takes no part.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import datasource

from kafka_native.spark import exactly_once, producers
from kafka_native.spark.options import SinkOptions
from kafka_native.spark.sink_dead_letters import RowLetters, publish
from kafka_native.spark.writers import write_rows
from tests.broker.cluster import Cluster
from tests.broker.support import TopicMaker
from tests.spark.micro_batches import TypedBatches, seen

ROWS = 800
LARGE_EVERY, KEYLESS_EVERY = 77, 20
QUICK = {"kafka.batch.num.messages": "50", "kafka.max.request.size": "1000000"}


@pytest.fixture
def topic(kafka: Cluster, new_topic: TopicMaker) -> Iterator[str]:
    """Return a topic that refuses large records and those without keys."""
    yield new_topic(kafka, 1, cleanup_policy="compact", max_message_bytes="20000")
    producers.close_idle()
    exactly_once.close_idle()


def is_good(number: int) -> bool:
    return bool(number % LARGE_EVERY and number % KEYLESS_EVERY)


def rows(start: int) -> pa.Table:
    """Return rows in order, of which some are refused."""
    numbers = range(start, start + ROWS)
    return pa.table({
        "key": [str(each) if each % KEYLESS_EVERY else None for each in numbers],
        "value": [str(each) + "x" * 30_000 * (each % LARGE_EVERY == 0) for each in numbers],
        "partition": pa.array([0] * ROWS, pa.int32()),
    })  # fmt: skip


def numbers_in(folder: Path) -> list[int]:
    paths = folder.glob("*.parquet")
    values = [each for path in paths for each in pq.read_table(path)["value"].to_pylist()]
    return sorted(int(each.rstrip(b"x")) for each in values)


def test_rows_that_kafka_refuses_are_dead_letters(
    kafka: Cluster, topic: str, tmp_path: Path
) -> None:
    given = {"kafka.bootstrap.servers": kafka.bootstrap, "topic": topic, **QUICK}
    options = SinkOptions.parse({**given, "deadLetters": str(tmp_path)})
    assert options.dead_letters is not None
    with RowLetters(options, "name") as letters:
        written = write_rows(producers.borrowed, rows(0).to_batches(), options, letters=letters)
    publish(options.dead_letters, "name", letters.parts)
    good = [each for each in range(ROWS) if is_good(each)]
    assert (written, letters.rows) == (len(good), ROWS - len(good))
    assert seen(kafka.bootstrap, topic, 1) == {0: [str(each) for each in good]}
    assert numbers_in(tmp_path) == [each for each in range(ROWS) if not is_good(each)]


@pytest.mark.skipif(
    not hasattr(datasource, "DataSourceStreamArrowWriter"), reason="needs PySpark 4.1"
)
def test_a_transaction_goes_on_without_refused_rows(
    kafka: Cluster, topic: str, new_topic: TopicMaker, tmp_path: Path
) -> None:
    """Batches behind a refused one are in flight: they get its sequence numbers."""
    options = {"kafka.bootstrap.servers": kafka.bootstrap, "topic": topic, **QUICK}
    options["kafka.transactional.id"] = topic
    dead = new_topic(kafka, 2)
    in_folder = TypedBatches({**options, "deadLetters": str(tmp_path)})
    in_folder.run(0, rows(0), commits=False)
    in_folder.run(0, rows(0))
    TypedBatches({**options, "deadLetters": dead}).run(1, rows(ROWS))
    TypedBatches({**options, "deadLetters": dead}).run(1, rows(ROWS))
    good = [str(each) for each in range(2 * ROWS) if is_good(each)]
    assert seen(kafka.bootstrap, topic, 1) == {0: good}
    assert numbers_in(tmp_path) == [each for each in range(ROWS) if not is_good(each)]
    letters = [each for values in seen(kafka.bootstrap, dead, 2).values() for each in values]
    found = sorted(int(each.rstrip("x")) for each in letters)
    assert found == [each for each in range(ROWS, 2 * ROWS) if not is_good(each)]
