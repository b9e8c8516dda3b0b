"""A stream switches from Spark's connector to ours and back on one checkpoint."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from tests.broker.cluster import Cluster
from tests.broker.support import TopicMaker, flush, our_producer
from tests.spark.streams import completed
from tests.spark.support import needs_limits

JVM, OURS = "kafka", "kafka_native"
PARTITIONS = 3

pytestmark = [pytest.mark.slow, pytest.mark.broker, pytest.mark.timeout(900)]  # three streams


class Job:
    """A stream that starts again for each batch of records, with either format."""

    def __init__(self, spark: SparkSession, kafka: Cluster, topic: str, folder: Path) -> None:
        self._spark, self._kafka, self._topic = spark, kafka, topic
        self._checkpoint = folder / "checkpoint"
        # batches with their values, in order of arrival
        self.seen: list[tuple[int, list[str]]] = []
        self._written = 0

    def produce(self, count: int) -> list[str]:
        """Produce more records to all partitions, and return their values."""
        values = [f"{number:06}" for number in range(self._written, self._written + count)]
        self._written += count
        producer = our_producer(self._kafka)
        for value in values:
            producer.produce(self._topic, value, partition=int(value) % PARTITIONS)
        flush(producer)
        return values

    def start(
        self, format_: str, then: Callable[[DataFrame, int], None] | None = None
    ) -> StreamingQuery:
        """Start the stream over all current records."""
        reader = self._spark.readStream.format(format_).option(
            "kafka.bootstrap.servers", self._kafka.bootstrap
        )
        frame = reader.option("subscribe", self._topic).option("startingOffsets", "earliest").load()
        writer = frame.writeStream.foreachBatch(then or self._keep).option(
            "checkpointLocation", str(self._checkpoint)
        )
        return writer.trigger(availableNow=True).start()

    def run(self, format_: str) -> None:
        """Run to the end of the current records."""
        completed(lambda: self.start(format_))

    def _keep(self, frame: DataFrame, number: int) -> None:
        self.seen.append(
            (number, sorted(bytes(row.value).decode() for row in frame.select("value").collect()))
        )

    def offsets(self) -> list[dict[str, int]]:
        """Return the ends of the planned batches, from the JSON lines of the checkpoint."""
        files = [path for path in (self._checkpoint / "offsets").iterdir() if path.name.isdigit()]
        found = []
        for path in sorted(files, key=lambda path: int(path.name)):
            last = json.loads(path.read_text().splitlines()[-1])
            assert list(last) == [self._topic]
            found.append(last[self._topic])
        return found


@pytest.fixture
def job(connected: SparkSession, apache: Cluster, new_topic: TopicMaker, tmp_path: Path) -> Job:
    """Return a stream on a new topic."""
    return Job(connected, apache, new_topic(apache, partitions=PARTITIONS), tmp_path)


@pytest.mark.parametrize(
    "order", [(JVM, OURS, JVM), (OURS, JVM, OURS)], ids=["from-jvm", "from-ours"]
)
def test_a_stream_changes_its_format_and_back(job: Job, order: tuple[str, ...]) -> None:
    wanted = []
    for number, format_ in enumerate(order):
        wanted.append((number, job.produce(30 * (number + 1))))
        job.run(format_)
    assert job.seen == wanted
    ends = job.offsets()
    assert ends == [{str(number): end for number in range(PARTITIONS)} for end in (10, 30, 60)]
    assert all(before[each] < after[each] for before, after in pairwise(ends) for each in before)


@needs_limits
@pytest.mark.parametrize("order", [(JVM, OURS), (OURS, JVM)], ids=["from-jvm", "from-ours"])
def test_a_failed_batch_is_repeated_by_the_other_format(job: Job, order: tuple[str, ...]) -> None:
    def fail(frame: DataFrame, number: int) -> None:
        raise RuntimeError("the sink is out of order")

    first, then = order
    done = job.produce(30)
    job.run(first)
    planned = job.produce(30)
    with pytest.raises(Exception, match="the sink is out of order"):
        completed(lambda: job.start(first, fail))
    later = job.produce(30)
    job.run(then)
    # The planned batch has its logged range, though there are more records now.
    assert job.seen == [(0, done), (1, planned), (2, later)]
    assert job.offsets() == [
        {str(number): end for number in range(PARTITIONS)} for end in (10, 20, 30)
    ]
