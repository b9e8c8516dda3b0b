"""archive: tasks on the mock cluster, the driver's side without Spark, whole runs, and kill -9."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from kafka_native import Producer, Uuid
from kafka_native.mock import MockCluster
from kafka_native.spark import range_reader
from kafka_native.spark.options import SourceOptions
from kafka_native.spark.pipelines import (
    Gap,
    Lake,
    ParquetSettings,
    PipelineError,
    Range,
    Skipped,
    archive,
    plan_archive,
)
from kafka_native.spark.pipelines import session as sessions
from kafka_native.spark.pipelines.archive import ArchiveTask, _Run
from kafka_native.spark.pipelines.manifests import LOG
from kafka_native.spark.ranges import OffsetRange
from tests.spark.lakes import NOON_MS, FakeFrame

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_S = 200.0
"""For a test that starts a JVM, on a busy machine."""


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    with MockCluster(brokers=2) as cluster:
        cluster.create_topic("orders", partitions=3)
        yield cluster
    range_reader.close_idle()


def fill(
    cluster: MockCluster, count: int, topic: str = "orders", partitions: int = 3, **conf: Any
) -> None:
    """Produce numbers to the partitions in turn, some without key, value or headers."""
    with Producer({"bootstrap.servers": cluster.bootstrap_servers, **conf}) as producer:
        for number in range(count):
            producer.produce(
                topic,
                None if number % 7 == 0 else b"v%d" % number,
                None if number % 3 == 0 else b"k%d" % number,
                partition=number % partitions,
                timestamp=NOON_MS + number,
                headers=[("h", b"%d" % number), ("h", None)] if number % 5 == 0 else None,
            )
        assert producer.flush(60) == 0


def options_of(cluster: MockCluster, **more: str) -> SourceOptions:
    given = {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "subscribe": "orders",
        "rows": "ranges",
        **more,
    }
    return SourceOptions.parse(given)


def offsets_in(lake: Lake) -> Counter[tuple[str, int, int]]:
    """Return how often each record is in the lake."""
    columns = lake.dataset().to_table(["topic", "partition", "offset"]).to_pydict()
    return Counter(zip(columns["topic"], columns["partition"], columns["offset"], strict=True))


def stored(cluster: MockCluster, *topics: str) -> Counter[tuple[str, int, int]]:
    """Return the expected content of the lake: each record once."""
    found: Counter[tuple[str, int, int]] = Counter()
    for topic in topics:
        for partition in range(len(cluster.topics[topic].partitions)):
            found.update(
                (topic, partition, record.offset) for record in cluster.messages(topic, partition)
            )
    return found


# --- tasks ---


def test_task_writes_whole_records_of_its_range(cluster: MockCluster, tmp_path: Path) -> None:
    fill(cluster, 300)
    lake = Lake(tmp_path)
    lake.prepare()
    result = ArchiveTask(lake, options_of(cluster), "q", 0)(OffsetRange("orders", 1, 10, 60))
    assert result["records"] == 50
    assert lake.files() == []
    publish(lake, [result])
    rows = lake.dataset().to_table().sort_by("offset").to_pylist()
    assert [row["offset"] for row in rows] == list(range(10, 60))
    for row in rows:
        number = row["offset"] * 3 + 1
        assert row["value"] == (None if number % 7 == 0 else b"v%d" % number)
        assert row["key"] == (None if number % 3 == 0 else b"k%d" % number)
        assert row["timestamp"].timestamp() * 1000 == NOON_MS + number
        assert row["timestamp_type"] == 0
        headers = (
            [{"key": "h", "value": b"%d" % number}, {"key": "h", "value": None}]
            if number % 5 == 0
            else None
        )
        assert row["headers"] == headers


def publish(lake: Lake, results: list[dict[str, Any]], query: str = "q", batch: int = 0) -> None:
    from kafka_native.spark.pipelines import LakeFile

    files = [LakeFile(**one) for each in results for one in each["files"]]
    ranges = [Range(**one) for each in results for one in each["ranges"]]
    lake.publish(
        query, batch, ranges, files, [Skipped(**one) for each in results for one in each["skipped"]]
    )


def test_failed_attempt_leaves_nothing_in_the_lake(
    cluster: MockCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(cluster, 300)
    lake = Lake(tmp_path)
    lake.prepare()
    task = ArchiveTask(
        lake, options_of(cluster, batchRows="10"), "q", 0, ParquetSettings(row_group_rows=10)
    )
    module = sys.modules[ArchiveTask.__module__]
    read = module.read_range

    def broken(*arguments: Any) -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(read(*arguments)):
            if number == 3:
                raise OSError("the disk is full")
            yield batch

    with monkeypatch.context() as patched:
        patched.setattr(module, "read_range", broken)
        with pytest.raises(OSError, match="disk is full"):
            task(OffsetRange("orders", 0, 0, 100))
    staged_files = list((Path(lake.root) / LOG / "staging").glob("**/*.staged"))
    assert len(staged_files) == 1
    again = task(OffsetRange("orders", 0, 0, 100))
    publish(lake, [again])
    lake.sweep("q", 0)
    assert not staged_files[0].exists()
    assert offsets_in(lake) == Counter(("orders", 0, offset) for offset in range(100))


def test_offsets_already_in_the_lake_are_refused_or_skipped(
    cluster: MockCluster, tmp_path: Path
) -> None:
    fill(cluster, 300)
    lake = Lake(tmp_path)
    lake.prepare()
    publish(
        lake,
        [ArchiveTask(lake, options_of(cluster), "old", 0)(OffsetRange("orders", 0, 0, 40))],
        "old",
    )
    with pytest.raises(
        PipelineError, match=r"the lake has offsets of orders \[0\] up to 40 already"
    ):
        ArchiveTask(lake, options_of(cluster), "new", 0, ends=lake.ends())(
            OffsetRange("orders", 0, 20, 100)
        )
    skipping = ArchiveTask(lake, options_of(cluster), "new", 0, ends=lake.ends(), overlap="skip")
    results = [
        skipping(OffsetRange("orders", 0, 20, 30)),
        skipping(OffsetRange("orders", 0, 30, 100)),
    ]
    assert [each["records"] for each in results] == [0, 60]
    publish(lake, results, "new")
    assert offsets_in(lake) == Counter(("orders", 0, offset) for offset in range(100))
    assert lake.gaps() == []


def test_overlap_skip_archives_the_offsets_that_the_lake_lacks(
    cluster: MockCluster, tmp_path: Path
) -> None:
    """Those before the lake's first offset, and those in a gap."""
    fill(cluster, 900)
    lake = Lake(tmp_path)
    lake.prepare()
    begun = ArchiveTask(lake, options_of(cluster), "old", 0)
    publish(lake, [begun(OffsetRange("orders", 0, *each)) for each in ((200, 220), (250, 300))])
    lake.compact(1)
    with pytest.raises(PipelineError, match=r"up to 220 already, .* add 0 to 300"):
        ArchiveTask(lake, options_of(cluster), "new", 0, ends=lake.ends())(
            OffsetRange("orders", 0, 0, 300)
        )
    before = ArchiveTask(lake, options_of(cluster), "new", 0, ends=lake.ends())
    publish(lake, [before(OffsetRange("orders", 0, 0, 10))], "new")
    task = ArchiveTask(lake, options_of(cluster), "new", 1, ends=lake.ends(), overlap="skip")
    result = task(OffsetRange("orders", 0, 5, 300))
    assert [(each["start"], each["end"]) for each in result["ranges"]] == [(10, 200), (220, 250)]
    publish(lake, [result], "new", 1)
    assert offsets_in(lake) == Counter(("orders", 0, offset) for offset in range(300))
    assert lake.gaps() == []


def test_overlap_skip_reports_lost_offsets_that_the_lake_lacks(
    cluster: MockCluster, tmp_path: Path
) -> None:
    fill(cluster, 900)
    cluster.move_log_start("orders", 0, 120)
    lake = Lake(tmp_path)
    lake.prepare()
    publish(
        lake,
        [ArchiveTask(lake, options_of(cluster), "old", 0)(OffsetRange("orders", 0, 200, 250))],
        "old",
    )
    options = options_of(cluster, failOnDataLoss="false")
    task = ArchiveTask(lake, options, "new", 0, ends=lake.ends(), overlap="skip")
    publish(lake, [task(OffsetRange("orders", 0, 100, 300))], "new")
    [_, manifest] = lake.manifests()
    assert manifest.skipped == (Skipped("orders", 0, 100, 120),)
    assert manifest.ranges == (Range("orders", 0, 120, 200), Range("orders", 0, 250, 300))


def test_lost_offsets_are_listed_as_skipped_and_not_as_read(
    cluster: MockCluster, tmp_path: Path
) -> None:
    """Offsets lost at the start, at the end, all of them, and those that the planner skips."""
    fill(cluster, 300, **{"batch.num.messages": 10})
    cluster.move_log_start("orders", 0, 40)
    cluster.truncate("orders", 1, 50)
    cluster.move_log_start("orders", 2, 100)
    lake = Lake(tmp_path)
    lake.prepare()
    options = options_of(cluster, **{"failOnDataLoss": "false", "fetchOffset.numRetries": "1"})
    task = ArchiveTask(lake, options, "q", 0)
    wanted = [
        OffsetRange("orders", 0, 10, 90),
        OffsetRange("orders", 1, 20, 100),
        OffsetRange("orders", 2, 0, 100),
        OffsetRange("bills", 7, 5, 9, lost="deleted before it was read"),
    ]
    publish(lake, [task(each) for each in wanted])
    [manifest] = Lake(tmp_path).manifests()
    assert manifest.ranges == (Range("orders", 0, 40, 90), Range("orders", 1, 20, 50))
    assert manifest.skipped == (
        Skipped("bills", 7, 5, 9),
        Skipped("orders", 0, 10, 40),
        Skipped("orders", 1, 50, 100),
        Skipped("orders", 2, 0, 100),
    )
    assert "begins at offset 40" in manifest.skipped[1].reason
    assert manifest.skipped_offsets == 4 + 30 + 50 + 100
    assert offsets_in(lake) == Counter(
        [
            *(("orders", 0, offset) for offset in range(40, 90)),
            *(("orders", 1, offset) for offset in range(20, 50)),
        ]
    )
    assert lake.ends() == {
        ("bills", 7): 9,
        ("orders", 0): 90,
        ("orders", 1): 100,
        ("orders", 2): 100,
    }
    assert lake.gaps() == [
        Gap(each.topic, each.partition, each.start, each.end, "skipped")
        for each in manifest.skipped
    ]
    assert [(gap.reason, gap.time_ms) for gap in lake.gaps()] == [
        (each.reason, manifest.published_ms) for each in manifest.skipped
    ]


def test_lake_of_old_topic_refuses_recreated_topic(cluster: MockCluster, tmp_path: Path) -> None:
    """The new topic's offsets belong to other records, even where overlaps are skipped."""
    lake = Lake(tmp_path)
    fill(cluster, 300)
    archive_part(lake, cluster, 0, 0, 100)
    assert Lake(tmp_path).topic_ids() == {
        "orders": str(Uuid.from_bytes(cluster.topic_id("orders")))
    }
    cluster.delete_topic("orders")
    cluster.create_topic("orders", partitions=3)
    fill(cluster, 600)
    for start in (50, 100):
        with pytest.raises(Exception, match="topic orders was deleted and recreated since"):
            archive_part(lake, cluster, 1, start, 200)


def archive_part(lake: Lake, cluster: MockCluster, batch: int, start: int, end: int) -> None:
    """Archive a part of the first partition as one batch."""
    frame = FakeFrame(
        [("orders", 0, start, end)], topic_id=str(Uuid.from_bytes(cluster.topic_id("orders")))
    )
    new_run(lake, cluster, overlap="skip").commit(frame, batch)  # type: ignore[arg-type]


def test_run_counts_what_it_skipped(cluster: MockCluster, tmp_path: Path) -> None:
    fill(cluster, 300)
    cluster.move_log_start("orders", 1, 30)
    run = new_run(Lake(tmp_path), cluster, failOnDataLoss="false")
    run.commit(FakeFrame([("orders", partition, 0, 100) for partition in range(3)]), 0)  # type: ignore[arg-type]
    assert (run.result.records, run.result.skipped_offsets) == (270, 30)


def test_configuration_is_neither_in_the_lake_nor_in_reprs(
    cluster: MockCluster, tmp_path: Path
) -> None:
    fill(cluster, 30)
    lake = Lake(tmp_path)
    lake.prepare()
    task = ArchiveTask(lake, options_of(cluster, **{"kafka.client.id": "hush-hush"}), "q", 0)
    publish(lake, [task(OffsetRange("orders", 0, 0, 10))])
    assert "hush-hush" not in repr(task)
    for path in Path(lake.root).glob("**/*"):
        assert path.is_dir() or b"hush-hush" not in path.read_bytes()


# --- the driver's side ---


class NoCounter:
    def add(self, records: int, size_bytes: int) -> None:
        pass


def new_run(lake: Lake, cluster: MockCluster, overlap: Any = "error", **more: str) -> _Run:
    lake.prepare()
    return _Run(lake, options_of(cluster, **more), ParquetSettings(), overlap, NoCounter())  # type: ignore[arg-type]


def test_repeated_batch_is_skipped(cluster: MockCluster, tmp_path: Path) -> None:
    fill(cluster, 300)
    frame = FakeFrame([("orders", partition, 0, 100) for partition in range(3)])
    new_run(Lake(tmp_path), cluster).commit(frame, 0)  # type: ignore[arg-type]
    again = new_run(Lake(tmp_path), cluster)
    again.commit(frame, 0)  # type: ignore[arg-type]
    assert (again.result.batches, again.result.repeated) == (0, 1)
    assert offsets_in(Lake(tmp_path)) == stored(cluster, "orders")


@pytest.mark.parametrize("at", ["write", "move", "sweep"])
def test_driver_killed_while_it_publishes_loses_and_doubles_nothing(
    cluster: MockCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    """Each access to the lake's log kills the driver in turn, and Spark runs the batch again."""
    fill(cluster, 300)
    frame = FakeFrame([("orders", partition, 0, 100) for partition in range(3)])
    original = getattr(Lake, at)

    class KilledError(Exception):
        pass

    for accesses in range(20):
        calls = 0
        run = new_run(Lake(tmp_path), cluster)

        def killed(self: Lake, *arguments: Any, limit: int = accesses) -> Any:
            nonlocal calls
            calls += 1
            if calls > limit:
                raise KilledError
            return original(self, *arguments)

        with monkeypatch.context() as patched:
            patched.setattr(Lake, at, killed)
            try:
                run.commit(frame, 0)  # type: ignore[arg-type]
                break
            except KilledError:
                pass
    else:
        pytest.fail("no run finished")
    assert accesses > 0
    assert offsets_in(Lake(tmp_path)) == stored(cluster, "orders")
    assert Lake(tmp_path).gaps() == []


def test_error_of_a_task_is_raised_and_publishes_nothing(
    cluster: MockCluster, tmp_path: Path
) -> None:
    fill(cluster, 30)
    run = new_run(Lake(tmp_path), cluster)
    with pytest.raises(Exception, match="can't be read"):
        run.commit(FakeFrame([("orders", 0, 0, 10), ("orders", 1, 0, 5000)]), 0)  # type: ignore[arg-type]
    assert run.failure is not None
    assert Lake(tmp_path).files() == []


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("boom", "boom"),
        (
            (
                "Job aborted\n  kafka_native.spark.errors.X: "
                "no\nkafka_native.spark.errors.DataLossError: gone.\n\nat x"
            ),
            "gone.",
        ),
        ("Traceback\nTimeoutError: no record came\n", "no record came"),
    ],
)
def test_cause_is_found_in_the_text_of_sparks_error(text: str, cause: str) -> None:
    assert sessions.cause_of(RuntimeError(text)) == cause


def test_query_whose_worker_started_too_slowly_is_started_again() -> None:
    class FakeQuery:
        def __init__(self) -> None:
            queries.append(self)
            self.stopped = False

        def awaitTermination(self, timeout_s: float) -> bool:
            if len(queries) < 3:
                raise RuntimeError("Python worker failed to connect back.")
            return True

        def stop(self) -> None:
            self.stopped = True

    queries: list[FakeQuery] = []
    start: Any = FakeQuery
    sessions.run_query(start, lambda: False, lambda: None)
    assert [each.stopped for each in queries] == [True] * 3
    queries.clear()
    with pytest.raises(RuntimeError, match="connect back"):
        sessions.run_query(start, lambda: False, lambda: "a batch has failed")
    assert [each.stopped for each in queries] == [True]


# --- with Spark ---


def test_archive_continues_where_it_ended(
    spark: SparkSession, mock_cluster: MockCluster, tmp_path: Path
) -> None:
    config = {"bootstrap.servers": mock_cluster.bootstrap_servers}
    folder = tmp_path / "a lake, ü %20"
    for name in ("bills-eu", "bills-us"):
        mock_cluster.create_topic(name, partitions=2)
        fill(mock_cluster, 200, name, 2)
    shown: list[Any] = []
    arguments: dict[str, Any] = {"pattern": "bills-.*", "session": spark}
    plan = plan_archive(config, folder, **arguments)
    assert [(each.topic, each.partition, each.start, each.end) for each in plan] == [
        (topic, partition, 0, 100) for topic in ("bills-eu", "bills-us") for partition in (0, 1)
    ]
    limits = {"maxOffsetsPerTrigger": 300}
    first = archive(config, folder, options=limits, on_progress=shown.append, **arguments)
    assert (first.records, first.batches >= 1) == (400, True)
    assert shown[-1].records == 400
    fill(mock_cluster, 50, "bills-eu", 2)
    assert sum(each.end - each.start for each in plan_archive(config, folder, **arguments)) == 50
    second = archive(config, folder, **arguments)
    assert (second.records, second.query) == (50, first.query)
    lake = Lake(folder)
    assert (folder / LOG / "checkpoints" / "archive" / "metadata").exists()
    assert list(tmp_path.iterdir()) == [folder]
    assert offsets_in(lake) == stored(mock_cluster, "bills-eu", "bills-us")
    assert lake.gaps() == []
    # the two other ways in which the guide reads a lake
    for frame in (
        spark.read.option("basePath", lake.root).parquet(*lake.paths()),
        spark.read.parquet(lake.root),
    ):
        counts = {row["topic"]: row["count"] for row in frame.groupBy("topic").count().collect()}
        assert counts == {"bills-eu": 250, "bills-us": 200}
    mock_cluster.delete_topic("bills-eu")
    mock_cluster.create_topic("bills-eu", partitions=2)
    fill(mock_cluster, 300, "bills-eu", 2)
    for call in (plan_archive, archive):
        with pytest.raises(PipelineError, match="topic bills-eu was deleted and recreated since"):
            call(config, folder, **arguments)


def test_archive_of_a_time_window(
    mock_cluster: MockCluster, spark: SparkSession, tmp_path: Path
) -> None:
    topic = "by-time"
    mock_cluster.create_topic(topic, 1)
    conf = {"bootstrap.servers": mock_cluster.bootstrap_servers}
    with Producer(conf) as producer:
        for number in range(100):
            producer.produce(topic, b"%d" % number, timestamp=NOON_MS + number * 1000)
    window = {"start_ms": NOON_MS + 20_000, "end_ms": NOON_MS + 70_000}
    plan = plan_archive(conf, tmp_path, topics=[topic], session=spark, **window)
    assert plan == [Range(topic, 0, 20, 70)]
    for wanted in (50, 0):
        result = archive(conf, tmp_path, topics=[topic], session=spark, **window)
        assert result.records == wanted
    assert sorted(Lake(tmp_path).dataset().to_table()["offset"].to_pylist()) == [*range(20, 70)]
    with pytest.raises(PipelineError, match="an end by time needs trigger available-now"):
        archive(conf, tmp_path, topics=[topic], session=spark, trigger="continuous", **window)
