"""Snapshots: a task's part, the merge of parts, and whole runs compared with CompactedTable."""

from __future__ import annotations

import importlib
import itertools
import json
import os
import pickle
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import SparkSession

from kafka_native import CompactedTable, Consumer, Producer, TopicPartition
from kafka_native.mock import MockCluster
from kafka_native.spark import range_reader
from kafka_native.spark.folder import Folder
from kafka_native.spark.options import SourceOptions
from kafka_native.spark.pipelines import latest
from kafka_native.spark.pipelines import snapshot as snapshots
from kafka_native.spark.pipelines.latest import Form, Latest, NullKeyError, merge_task, part_task
from kafka_native.spark.pipelines.manifests import partition_folder
from kafka_native.spark.pipelines.session import PipelineError
from kafka_native.spark.pipelines.snapshot import plan_snapshot, snapshot
from kafka_native.spark.ranges import OffsetRange

_numbers = itertools.count()


def fill(
    cluster: MockCluster, count: int, keys: int, partitions: int = 1, seed: int = 1, topic: str = ""
) -> str:
    """Produce updates and tombstones of some keys."""
    chance = random.Random(seed)
    if not topic:
        topic = f"profiles-{next(_numbers)}"
        cluster.create_topic(topic, partitions)
    with Producer({"bootstrap.servers": cluster.bootstrap_servers}) as producer:
        for number in range(count):
            value = None if chance.random() < 0.2 else b"value %d" % number
            producer.produce(topic, value, b"key %d" % chance.randrange(keys))
    return topic


def compacted(cluster: MockCluster, topic: str, partitions: int = 1) -> dict[bytes, bytes]:
    """Return the content of a CompactedTable."""
    table = CompactedTable()
    with Consumer({"bootstrap.servers": cluster.bootstrap_servers}) as consumer:
        for number in range(partitions):
            place = TopicPartition(topic, number, 0)
            end = consumer.get_watermark_offsets(place, 10)[1]
            consumer.assign([place])
            while end and consumer.position([place])[0].offset < end:
                table.apply(consumer.consume(10_000, 0.2))
    return dict(table)


def source_of(cluster: MockCluster, topic: str) -> SourceOptions:
    given = {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "subscribe": topic,
        "batchRows": "100",
    }
    return SourceOptions.parse(given)


def rows_of(*rows: tuple[Any, ...], start: int = 0) -> Any:
    """Return a batch of keys and values."""
    columns = {
        "key": pa.array([row[0] for row in rows], pa.binary()),
        "value": pa.array([row[1] for row in rows], pa.binary()),
        "partition": pa.array([0] * len(rows), pa.int32()),
        "offset": pa.array(range(start, start + len(rows)), pa.int64()),
        "timestamp": pa.array([1] * len(rows), latest.TIMESTAMP),
    }
    return pa.record_batch(columns)


def test_newest_of_each_key_in_order_of_offsets() -> None:
    kept = Latest(Form())
    kept.add(rows_of((b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"", b"4")))
    kept.add(rows_of((b"b", None), (b"c", b"5"), (b"", b""), start=4))
    assert kept.table(tombstones=False).select(["key", "value", "offset"]).to_pylist() == [
        {"key": b"a", "value": b"3", "offset": 2},
        {"key": b"c", "value": b"5", "offset": 5},
        {"key": b"", "value": b"", "offset": 6},
    ]
    assert kept.table(tombstones=True)["offset"].to_pylist() == [2, 4, 5, 6]
    assert (kept.records, kept.tombstones, kept.without_key) == (7, 1, 0)


def test_record_without_key_is_an_error_that_says_where() -> None:
    with pytest.raises(NullKeyError, match=r"orders \[1\] has a record without a key at offset 8"):
        Latest(Form()).add(rows_of((b"a", b"1"), (None, b"2"), start=7), "orders [1]")


def test_records_without_key_can_be_skipped() -> None:
    kept = Latest(Form(null_keys="skip"))
    kept.add(rows_of((None, b"1"), (b"a", b"2"), (None, None)))
    kept.add(rows_of((None, b"1"), start=3))
    assert kept.table(tombstones=False)["key"].to_pylist() == [b"a"]
    assert kept.without_key == 3


def test_memory_depends_on_the_keys_not_the_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latest, "STEP_ROWS", 100)
    kept = Latest(Form())
    largest = 0
    for number in range(100):
        kept.add(rows_of(*((b"%d" % (each % 30), b"x") for each in range(40)), start=number * 40))
        largest = max(largest, kept._rows + kept._kept.num_rows)
    assert largest <= 30 + 100 + 40
    assert kept.table(tombstones=False).num_rows == 30


def test_merged_parts_equal_the_compacted_table(cluster: MockCluster, tmp_path: Path) -> None:
    topic = fill(cluster, 900, 100)
    source, home = source_of(cluster, topic), Folder(tmp_path)
    results = [
        part_task(source, Form(), home, ".", OffsetRange(topic, 0, at, at + 300))
        for at in (0, 300, 600)
    ]
    assert [each["records"] for each in results] == [300] * 3
    parts = {(topic, 0): [each["path"] for each in results]}
    merged = merge_task(Form(), home, ".", parts, OffsetRange(topic, 0, 0, 900))
    table = pq.read_table(tmp_path / merged["path"])
    found = dict(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True))
    assert found == compacted(cluster, topic)
    assert merged["keys"] == table.num_rows == len(found)
    assert table["offset"].to_pylist() == sorted(table["offset"].to_pylist())
    assert str(table.schema.field("key").type) == "binary"


BAD_TOPICS = [
    "x/../../y",
    "../y",
    "..",
    ".",
    "",
    "a/b",
    "a\\b",
    "a\n",
    "a\0",
    "a b",
    "x" * 250,
    "\u202e",
]


@pytest.mark.parametrize("topic", BAD_TOPICS)
def test_invalid_topic_names_make_no_paths(topic: str) -> None:
    """A broker could name a topic so that its files are outside the folder."""
    makers: list[Callable[[], str]] = [
        lambda: snapshots.file_of(topic, 0),
        lambda: latest.part_path("/lake", OffsetRange(topic, 0, 0, 1)),
        lambda: latest.final_path("/lake", topic, 0),
        lambda: partition_folder(topic, "2026-01-01"),
    ]
    for make in makers:
        with pytest.raises(PipelineError, match="no folder or file can be named so"):
            make()


def test_a_topic_name_with_a_path_is_refused_before_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafka_native.mock.state.is_valid_name", bool)
    monkeypatch.setattr("kafka_native.mock.handlers.metadata.is_valid_name", bool)
    with MockCluster(brokers=1, auto_create_topics=False) as hostile:
        hostile.create_topic("x/../../y", 1)
        conf = {"bootstrap.servers": hostile.bootstrap_servers}
        session: Any = None  # it isn't used
        output = tmp_path / "a" / "b"
        for call in (lambda: plan_snapshot(conf, str(output), pattern=".*"),
                     lambda: snapshot(session, conf, str(output), pattern=".*")):  # fmt: skip
            with pytest.raises(
                PipelineError, match=r"'x/\.\./\.\./y': no folder or file can be named so"
            ):
                call()
        range_reader.close_idle()
    assert not list(tmp_path.rglob("*"))


def test_strings_and_headers(cluster: MockCluster, tmp_path: Path) -> None:
    topic = f"profiles-{next(_numbers)}"
    cluster.create_topic(topic, 1)
    with Producer({"bootstrap.servers": cluster.bootstrap_servers}) as producer:
        producer.produce(topic, "Ærø", "å", headers=[("a", b"1"), ("a", None)])
        producer.produce(topic, b"\xff", b"b")
    form = Form(headers=True, key_type="string", value_type="string")

    def make(end: int) -> Any:
        home, range_ = Folder(tmp_path), OffsetRange(topic, 0, 0, end)
        result = part_task(source_of(cluster, topic), form, home, ".", range_)
        return merge_task(form, home, ".", {(topic, 0): [result["path"]]}, range_)

    [row] = pq.read_table(tmp_path / make(1)["path"]).to_pylist()
    assert (row["key"], row["value"]) == ("å", "Ærø")
    assert row["headers"] == [{"key": "a", "value": b"1"}, {"key": "a", "value": None}]
    with pytest.raises(ValueError, match=rf"{topic} \[0\]: a key or value isn't UTF-8"):
        make(2)


@pytest.fixture
def conf(cluster: MockCluster) -> dict[str, str]:
    return {"bootstrap.servers": cluster.bootstrap_servers}


def entries(folder: Path, topic: str) -> dict[Any, Any]:
    table = pq.read_table(folder / f"topic={topic}")
    assert len(set(table["key"].to_pylist())) == table.num_rows
    return dict(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True))


class LocalReader:
    """Spark's part of a snapshot: its tasks run here, in sequence."""

    @property
    def read(self) -> LocalReader:
        return self

    def format(self, name: str) -> LocalReader:
        return self

    def options(self, **given: str) -> LocalReader:
        starts, ends = (json.loads(given[f"{name}ingOffsets"]) for name in ("start", "end"))
        self._ranges = [
            OffsetRange(topic, int(partition), start, ends[topic][partition])
            for topic, those in starts.items()
            for partition, start in those.items()
        ]
        return self

    def load(self) -> list[OffsetRange]:
        return self._ranges


@pytest.fixture
def local(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a session whose tasks run in this process."""
    module = importlib.import_module("kafka_native.spark.pipelines.snapshot")
    monkeypatch.setattr(
        module,
        "map_ranges",
        lambda frame, task, counter=None: [
            pickle.loads(CloudPickleSerializer().dumps(task))(each) for each in frame
        ],
    )
    monkeypatch.setattr(module, "WorkCounter", lambda session: None)
    return LocalReader()


def test_output_may_be_a_uri_with_a_query(
    cluster: MockCluster, conf: dict[str, str], local: Any, tmp_path: Path
) -> None:
    """The query has the region of a bucket, for instance. Each task reads and writes there, too."""
    topic = fill(cluster, 300, 50, partitions=2)
    output = f"{(tmp_path / 'out').as_uri()}?region=eu-west-1"
    made = snapshot(local, conf, output, topics=[topic])
    assert made.records == 300
    assert entries(tmp_path / "out", topic) == compacted(cluster, topic, 2)
    fill(cluster, 100, 70, seed=2, topic=topic)
    assert snapshot(local, conf, output, topics=[topic], update=True).records == 100
    assert entries(tmp_path / "out", topic) == compacted(cluster, topic, 2)
    assert list(tmp_path.iterdir()) == [tmp_path / "out"]


def test_snapshot_of_a_topic_with_the_longest_name(
    cluster: MockCluster, conf: dict[str, str], local: Any, tmp_path: Path
) -> None:
    topics = ["x" * 249, "x" * 248 + "y"]
    for topic in topics:
        cluster.create_topic(topic, 2)
        fill(cluster, 100, 20, topic=topic)
    snapshot(local, conf, str(tmp_path), topics=topics)
    for topic in topics:
        assert entries(tmp_path, topic) == compacted(cluster, topic, 2)


def test_files_are_synced_before_the_manifest_lists_them(
    cluster: MockCluster,
    conf: dict[str, str],
    local: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also those of empty partitions, and the names of files and folders."""
    topic = fill(cluster, 1, 1, partitions=2)
    synced: set[int] = set()
    missing: list[str] = []
    write = Folder.write

    def look(self: Folder, path: str, content: object) -> None:
        missing.extend(
            each.name
            for each in (tmp_path, *tmp_path.rglob("*"))
            if "_unfinished" not in str(each) and each.stat().st_ino not in synced
        )
        write(self, path, content)

    monkeypatch.setattr("os.fsync", lambda file: synced.add(os.fstat(file).st_ino))
    monkeypatch.setattr(Folder, "write", look)
    snapshot(local, conf, str(tmp_path), topics=[topic])
    assert len(list(tmp_path.rglob("*.parquet"))) == 2
    assert missing == []


# --- on Spark ---


def test_snapshot_equals_the_compacted_table(
    cluster: MockCluster, conf: dict[str, str], spark: SparkSession, tmp_path: Path
) -> None:
    topic = fill(cluster, 3000, 200, partitions=3)
    made = snapshot(spark, conf, str(tmp_path), topics=[topic], min_partitions=7)
    expected = compacted(cluster, topic, 3)
    assert entries(tmp_path, topic) == expected
    assert (made.records, made.keys) == (3000, len(expected))
    assert made.tombstones > 0
    by_spark = spark.read.parquet(str(tmp_path)).collect()
    assert {bytes(row.key): bytes(row.value) for row in by_spark} == expected
    assert {row.topic for row in by_spark} == {topic}
    left = sorted(each.name for each in tmp_path.rglob("*.parquet"))
    assert left == [f"part-{number:05}.parquet" for number in range(3)]


def test_a_snapshot_has_no_value_of_an_aborted_transaction(
    cluster: MockCluster, conf: dict[str, str], spark: SparkSession, tmp_path: Path
) -> None:
    topic = fill(cluster, 0, 1)
    with Producer({**conf, "transactional.id": topic}) as producer:
        producer.init_transactions(10)
        for value, end in (
            (b"committed", producer.commit_transaction),
            (b"aborted", producer.abort_transaction),
        ):
            producer.begin_transaction()
            producer.produce(topic, value, b"key")
            producer.flush(10)
            end(10)
    snapshot(spark, conf, str(tmp_path), topics=[topic])
    assert entries(tmp_path, topic) == compacted(cluster, topic) == {b"key": b"committed"}


def test_snapshot_continues_where_it_ended(
    cluster: MockCluster, conf: dict[str, str], spark: SparkSession, tmp_path: Path
) -> None:
    topic = fill(cluster, 300, 50, partitions=2)
    cluster.create_topic(f"{topic}-empty", 1)
    where: dict[str, Any] = {"pattern": f"{topic}.*", "key_type": "string", "update": True}
    snapshot(spark, conf, str(tmp_path), **where)
    fill(cluster, 100, 70, seed=2, topic=topic)
    [one, two, empty] = plan_snapshot(conf, str(tmp_path), pattern=f"{topic}.*", update=True)
    assert (one.updates, two.updates, one.end - one.start + two.end - two.start) == (
        True,
        True,
        100,
    )
    assert (empty.start, empty.end) == (0, 0)
    made = snapshot(spark, conf, str(tmp_path), **where)
    assert made.records == 100
    assert {key.encode(): value for key, value in entries(tmp_path, topic).items()} == compacted(
        cluster, topic, 2
    )
    assert entries(tmp_path, f"{topic}-empty") == {}
    with pytest.raises(PipelineError, match="was made with other options"):
        snapshot(spark, conf, str(tmp_path), pattern=f"{topic}.*", update=True)


def test_snapshot_of_a_recreated_topic_starts_again(
    cluster: MockCluster, conf: dict[str, str], spark: SparkSession, tmp_path: Path
) -> None:
    topic = fill(cluster, 100, 10)
    snapshot(spark, conf, str(tmp_path), topics=[topic], update=True)
    cluster.delete_topic(topic)
    cluster.create_topic(topic, 1)
    with Producer(conf) as producer:
        for number in range(150):  # more than there were
            producer.produce(topic, b"new", b"new %d" % number)
    made = snapshot(spark, conf, str(tmp_path), topics=[topic], update=True)
    assert made.records == 150
    assert entries(tmp_path, topic) == {b"new %d" % number: b"new" for number in range(150)}


def test_failed_snapshot_keeps_the_previous_one(
    cluster: MockCluster, conf: dict[str, str], spark: SparkSession, tmp_path: Path
) -> None:
    topic = fill(cluster, 100, 10)
    snapshot(spark, conf, str(tmp_path), topics=[topic])
    before = entries(tmp_path, topic)
    with Producer(conf) as producer:
        producer.produce(topic, b"x", b"key 1")
        producer.produce(topic, b"without key")
    with pytest.raises(
        PipelineError, match=rf"{topic} \[0\] has a record without a key at offset 101"
    ):
        snapshot(spark, conf, str(tmp_path), topics=[topic])
    assert entries(tmp_path, topic) == before
    assert not list(tmp_path.rglob("part-*-*"))
    made = snapshot(spark, conf, str(tmp_path), topics=[topic], null_keys="skip")
    assert made.without_key == 1
    assert entries(tmp_path, topic) == {**before, b"key 1": b"x"}
