"""Topics of a real Apache Kafka grow or are recreated while streams and pipelines read them."""

from __future__ import annotations

import threading
from ast import literal_eval
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from kafka_native import Producer
from kafka_native.admin import AdminClient, NewPartitions
from kafka_native.spark.kept_state import KeptState
from kafka_native.spark.pipelines import Lake, archive
from kafka_native.spark.pipelines.mirror import TRANSLATION, mirror
from kafka_native.spark.pipelines.translation import Translations
from tests.broker.cluster import Cluster
from tests.broker.support import (
    Record,
    TopicMaker,
    create,
    delete,
    end_of,
    flush,
    our_producer,
    their_consumer,
)
from tests.spark.streams import completed, started, wait_for
from tests.spark.support import FORMAT, RUNS_AFTER_A_KILL, source_options
from tests.waiting import WAIT_S

pytestmark = [pytest.mark.slow, pytest.mark.broker]

PARTITIONS = 3
EACH = 100
"""Records that each partition gets before the topic grows again."""
PAUSE_S = 0.005

Row = tuple[int, int, bytes]
"""Partition, offset and value."""


def grow(cluster: Cluster, topic: str, partitions: int) -> None:
    """Return when the controller has the partitions. Brokers get them a moment later."""
    with AdminClient(cluster.conf()) as admin:
        admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(60)


class Writer:
    """Writes to each partition in its own thread, and to a new one as soon as it exists."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._cluster, self._topic = cluster, topic
        self._partitions = 1
        self._ended = threading.Event()
        self._errors: list[Any] = []
        self._delivered: Counter[int] = Counter()
        self._thread = threading.Thread(target=self._run, name="writer")

    def _run(self) -> None:
        def report(error: Any, message: Any) -> None:
            self._errors += [] if error is None else [error]
            self._delivered[message.partition()] += error is None

        with ExitStack() as producers:
            known: list[Producer] = []
            number = 0
            while not self._ended.wait(PAUSE_S):
                # new producers: other tests cover long-lived ones
                while len(known) < self._partitions:
                    known.append(
                        producers.enter_context(our_producer(self._cluster, on_delivery=report))
                    )
                for partition, producer in enumerate(known):
                    producer.produce(
                        self._topic, b"%d-%d" % (partition, number), partition=partition
                    )
                    producer.poll(0)
                number += 1
            for producer in known:
                flush(producer)

    def wait(self) -> None:
        """Wait until each partition has got some more records."""
        wanted = {
            partition: self._delivered[partition] + EACH for partition in range(self._partitions)
        }
        wait_for(
            lambda: all(self._delivered[each] >= count for each, count in wanted.items()), "records"
        )

    def grow_twice(self, reached: Callable[[int], bool], *also: tuple[Cluster, str]) -> None:
        """Write, and add a partition each time the reader has reached all of them.

        :param reached: Return whether the reader has reached this number of partitions or has ended.
        :param also: Other topics, which get the partition first.
        """
        self._thread.start()
        try:
            wait_for(lambda: reached(1), "the first partition")
            for count in range(2, PARTITIONS + 1):
                for cluster, topic in (*also, (self._cluster, self._topic)):
                    grow(cluster, topic, count)
                self._partitions = count
                self.wait()
                wait_for(lambda count=count: reached(count), f"{count} partitions")  # type: ignore[misc]
                self.wait()
        finally:
            self._ended.set()
            self._thread.join()
        assert self._errors == []


def records_of(cluster: Cluster, topic: str) -> list[Record]:
    """Return another client's records up to the end of each partition."""
    found = []
    with closing(their_consumer(cluster, enable_partition_eof=True)) as witness:
        for partition in range(PARTITIONS):
            end_of(witness, topic, partition)  # its leader answers
            witness.assign(
                [confluent_kafka.TopicPartition(topic, partition, confluent_kafka.OFFSET_BEGINNING)]
            )
            while True:
                [message] = witness.consume(1, WAIT_S)
                if message.error() is not None:
                    assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF, (
                        message.error()
                    )
                    break
                found.append(Record.of(message))
    assert {each.partition for each in found} == set(range(PARTITIONS))
    return found


def rows_of(cluster: Cluster, topic: str) -> Counter[Row]:
    """Return all records of a topic."""
    return Counter(
        (each.partition, each.offset, each.value or b"") for each in records_of(cluster, topic)
    )


def values_of(cluster: Cluster, topic: str) -> dict[int, list[bytes | None]]:
    """Return the values of each partition, in order."""
    found: dict[int, list[bytes | None]] = {}
    for each in records_of(cluster, topic):
        found.setdefault(each.partition, []).append(each.value)
    return found


class Background:
    """A call in its own thread. `result()` waits for its result or exception."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call, self._result, self._error = call, None, None
        self._thread = threading.Thread(target=self._run, name="background")
        self._thread.start()

    def _run(self) -> None:
        try:
            self._result = self._call()
        except BaseException as error:
            self._error = error

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def result(self) -> Any:
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._result


@pytest.mark.parametrize("fail", ["true", "false"])
def test_stream_reads_partitions_that_were_just_added(
    kafka3: Cluster, new_topic: TopicMaker, spark: SparkSession, tmp_path: Path, fail: str
) -> None:
    topic = new_topic(kafka3)
    batches: dict[int, Counter[Row]] = {}  # a stopped batch runs again

    def take(frame: DataFrame, batch_id: int) -> None:
        rows = frame.select("partition", "offset", "value").collect()
        batches[batch_id] = Counter((row.partition, row.offset, bytes(row.value)) for row in rows)

    options = source_options(
        kafka3.bootstrap, topic, startingOffsets="earliest", failOnDataLoss=fail
    )
    stream = spark.readStream.format(FORMAT).options(**options).load()
    writer = stream.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path))
    query = started(writer.trigger(processingTime="100 milliseconds").start)

    def reached(partitions: int) -> bool:
        done = query.lastProgress
        ends = (
            literal_eval(done.sources[0].endOffset)[topic]  # JSON, or a dictionary of Python
            if done and done.sources[0].endOffset
            else {}
        )
        return not query.isActive or len(ends) >= partitions

    try:
        Writer(kafka3, topic).grow_twice(reached)
        assert query.isActive, query.exception()
    finally:
        query.stop()
    for _ in range(RUNS_AFTER_A_KILL):
        completed(writer.trigger(availableNow=True).start)
    assert sum(batches.values(), Counter()) == rows_of(kafka3, topic)


def test_archive_has_the_records_of_partitions_that_were_just_added(
    kafka3: Cluster, new_topic: TopicMaker, spark: SparkSession, tmp_path: Path
) -> None:
    topic, lake, stop = new_topic(kafka3), Lake(tmp_path), threading.Event()
    where: dict[str, Any] = {
        "topics": [topic],
        "session": spark,
        "options": {"failOnDataLoss": "false"},
    }
    continuous: dict[str, Any] = {"trigger": "continuous", "interval_s": 0.1, "stop": stop}
    archiving = Background(lambda: archive(kafka3.conf(), lake, **where, **continuous))
    try:
        seen = Lake(tmp_path)
        Writer(kafka3, topic).grow_twice(
            lambda count: not archiving.running or len(seen.ends()) >= count
        )
        assert archiving.running
    finally:
        stop.set()
    first = archiving.result()
    later = [archive(kafka3.conf(), lake, **where) for _ in range(RUNS_AFTER_A_KILL)]
    columns = lake.dataset().to_table(["partition", "offset", "value"]).to_pydict()
    found = Counter(zip(columns["partition"], columns["offset"], columns["value"], strict=True))
    assert found == rows_of(kafka3, topic)
    assert lake.gaps() == []
    assert [each.skipped_offsets for each in (first, *later)] == [0] * (1 + len(later))


@pytest.mark.parametrize("once", [False, True])
def test_mirror_copies_partitions_that_were_just_added(
    kafka3: Cluster, new_topic: TopicMaker, spark: SparkSession, tmp_path: Path, once: bool
) -> None:
    """Each partition is added to the target first."""
    topic, copy, stop = new_topic(kafka3), new_topic(kafka3), threading.Event()
    to, checkpoint = kafka3.conf(**({"transactional.id": copy} if once else {})), str(tmp_path)
    where: dict[str, Any] = {"topics": [topic], "to": copy}
    mirroring = Background(
        lambda: mirror(spark, kafka3.conf(), to, checkpoint, **where, every_s=0.1, stop=stop.is_set)
    )
    done = Translations(f"{checkpoint}/{TRANSLATION}")
    try:
        Writer(kafka3, topic).grow_twice(
            lambda count: not mirroring.running or len(done.load()) >= count, (kafka3, copy)
        )
        assert mirroring.running
    finally:
        stop.set()
    mirroring.result()
    for _ in range(RUNS_AFTER_A_KILL):
        mirror(spark, kafka3.conf(), to, checkpoint, **where)
    assert values_of(kafka3, copy) == values_of(kafka3, topic)


def fill(cluster: Cluster, topic: str, numbers: range) -> None:
    with our_producer(cluster) as producer:
        for number in numbers:
            producer.produce(topic, b"%d" % number)
        flush(producer)


def test_stream_reads_a_recreated_topic_from_its_beginning(
    kafka3: Cluster, new_topic: TopicMaker, spark: SparkSession, tmp_path: Path
) -> None:
    topic = new_topic(kafka3)
    fill(kafka3, topic, range(10))
    batches: dict[int, list[int]] = {}

    def take(frame: DataFrame, batch_id: int) -> None:
        batches[batch_id] = [int(row.value) for row in frame.select("value").collect()]

    def seen() -> list[int]:
        return [number for batch in sorted(batches) for number in batches[batch]]

    options = source_options(
        kafka3.bootstrap,
        topic,
        subscribePattern=topic,
        startingOffsets="earliest",
        failOnDataLoss="false",
    )
    stream = spark.readStream.format(FORMAT).options(**options).load()
    writer = stream.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path))
    query = started(writer.trigger(processingTime="100 milliseconds").start)
    try:
        wait_for(lambda: not query.isActive or len(seen()) == 10, "the first records")
        delete(kafka3, topic)
        create(kafka3, topic)
        fill(kafka3, topic, range(100, 160))
        wait_for(
            lambda: not query.isActive or len(seen()) >= 70,
            "the records of the new topic",
            lambda: str(seen()),
        )
        assert query.isActive, query.exception()
    finally:
        query.stop()
    assert seen() == [*range(10), *range(100, 160)]


def test_topic_recreated_between_two_runs_loses_no_record_silently(
    kafka3: Cluster, new_topic: TopicMaker, spark: SparkSession, tmp_path: Path
) -> None:
    topic = new_topic(kafka3)
    fill(kafka3, topic, range(200))
    seen: list[int] = []

    def run(**more: str) -> str:
        options = source_options(
            kafka3.bootstrap,
            topic,
            startingOffsets="earliest",
            checkpointLocation=str(tmp_path),
            **more,
        )
        stream = spark.readStream.format(FORMAT).options(**options).load()
        writer = stream.writeStream.option("checkpointLocation", str(tmp_path)).foreachBatch(
            lambda frame, _: seen.extend(int(row.value) for row in frame.select("value").collect())
        )
        try:
            completed(writer.trigger(availableNow=True).start)
        except StreamingQueryException as error:
            return str(error)
        return ""

    assert run() == ""
    delete(kafka3, topic)
    create(kafka3, topic)
    fill(kafka3, topic, range(1000, 1300))
    assert "the topic was deleted and recreated" in run()
    assert seen == list(range(200))
    for _ in range(1 + RUNS_AFTER_A_KILL):
        assert run(failOnDataLoss="false") == ""
    assert seen == [*range(200), *range(1000, 1300)]
    assert {each.topic for each in KeptState(tmp_path).skipped()} == {topic}
