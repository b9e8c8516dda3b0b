"""archive into Delta and Iceberg tables: tasks, commits, kills at each step, and other readers."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from kafka_native import Producer, Uuid
from kafka_native.mock import MockCluster
from kafka_native.spark import range_reader
from kafka_native.spark.options import SourceOptions
from kafka_native.spark.pipelines import (
    ParquetSettings,
    PipelineError,
    Skipped,
    archive,
    plan_archive,
)
from kafka_native.spark.pipelines.archive import _Run
from kafka_native.spark.pipelines.delta import DeltaTarget
from kafka_native.spark.pipelines.table_target import TableState, TableTarget
from kafka_native.spark.pipelines.table_writer import DATA
from tests.spark.lakes import DAY_MS, NOON_MS, FakeFrame

RECORDS = 300
PARTITIONS = 3
EACH = RECORDS // PARTITIONS


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    with MockCluster(brokers=1) as cluster:
        cluster.create_topic("orders", partitions=PARTITIONS)
        fill(cluster, RECORDS)
        yield cluster
    range_reader.close_idle()


def fill(cluster: MockCluster, count: int) -> None:
    """Produce numbers to the partitions in turn, on two days, some without a key or headers."""
    with Producer({"bootstrap.servers": cluster.bootstrap_servers}) as producer:
        for number in range(count):
            producer.produce(
                "orders",
                None if number % 7 == 0 else b"v%d" % number,
                None if number % 3 == 0 else b"k%d" % number,
                partition=number % PARTITIONS,
                timestamp=NOON_MS + number + number % 2 * DAY_MS,
                headers=[("h", b"%d" % number)] if number % 5 == 0 else None,
            )
        assert producer.flush(60) == 0


class Tables:
    """Makes targets of one table, and reads it as other programs do."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def target(self, **more: Any) -> TableTarget:
        return DeltaTarget(self.folder / "table", **more)

    def read(self) -> pa.Table:
        return pa.table(DeltaTable(self.folder / "table").to_pyarrow_table())

    @property
    def data(self) -> Path:
        return self.folder / "table" / DATA


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    return Tables(tmp_path)


class NoCounter:
    def add(self, records: int, size_bytes: int) -> None:
        pass


def new_run(target: TableTarget, cluster: MockCluster, overlap: Any = "error", **more: Any) -> _Run:
    target.prepare()
    settings = ParquetSettings(**more.pop("settings", {}))
    given = {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "subscribe": "orders",
        "rows": "ranges",
        **more,
    }
    options = SourceOptions.parse(given)
    return _Run(target, options, settings, overlap, NoCounter())  # type: ignore[arg-type]


def frame(start: int, end: int, query: str = "query", **more: Any) -> Any:
    """Return a batch with the same offsets of all partitions."""
    return FakeFrame([("orders", each, start, end) for each in range(PARTITIONS)], query, **more)


def offsets(table: pa.Table) -> Counter[tuple[str, int, int]]:
    columns = table.select(["topic", "partition", "offset"]).to_pydict()
    return Counter(zip(columns["topic"], columns["partition"], columns["offset"], strict=True))


def wanted(start: int = 0, end: int = EACH) -> Counter[tuple[str, int, int]]:
    return Counter(
        ("orders", part, offset) for part in range(PARTITIONS) for offset in range(start, end)
    )


def data_files(tables: Tables) -> set[Path]:
    return set(tables.data.glob("**/*.parquet"))


def test_table_has_whole_records(cluster: MockCluster, tables: Tables) -> None:
    run = new_run(tables.target(), cluster)
    run.commit(frame(0, 40), 0)
    run.commit(frame(40, EACH), 1)
    assert (run.result.batches, run.result.records) == (2, RECORDS)
    rows = tables.read().to_pylist()
    assert len(rows) == RECORDS
    for row in rows:
        number = row["offset"] * PARTITIONS + row["partition"]
        assert row["topic"] == "orders"
        assert row["value"] == (None if number % 7 == 0 else b"v%d" % number)
        assert row["key"] == (None if number % 3 == 0 else b"k%d" % number)
        stamp = NOON_MS + number + number % 2 * DAY_MS
        assert row["timestamp"] == datetime.fromtimestamp(stamp / 1000, timezone.utc)
        headers = [{"key": "h", "value": b"%d" % number}] if number % 5 == 0 else None
        assert row["headers"] == headers


def test_repeated_batch_is_skipped(cluster: MockCluster, tables: Tables) -> None:
    new_run(tables.target(), cluster).commit(frame(0, EACH), 0)
    again = new_run(tables.target(), cluster)
    again.commit(frame(0, EACH), 0)
    assert (again.result.batches, again.result.repeated) == (0, 1)
    assert offsets(tables.read()) == wanted()


def test_offsets_in_the_table_are_refused_or_skipped(cluster: MockCluster, tables: Tables) -> None:
    new_run(tables.target(), cluster).commit(frame(0, 40, "old"), 0)
    with pytest.raises(PipelineError, match=r"the table has orders \[0\] up to offset 40 already"):
        new_run(tables.target(), cluster).commit(frame(20, EACH, "new"), 0)
    new_run(tables.target(), cluster, "skip").commit(frame(20, EACH, "new"), 0)
    assert offsets(tables.read()) == wanted()


def test_two_queries_publish_at_once(cluster: MockCluster, tables: Tables) -> None:
    """The second commit finds the first one, and refuses the same offsets."""
    first, second, third = (new_run(tables.target(), cluster) for _ in range(3))
    commit = second._target._commit  # type: ignore[attr-defined]

    def late(*arguments: Any) -> None:
        if not offsets(tables.read()):
            first.commit(frame(0, 40, "first"), 0)
        commit(*arguments)

    second._target._commit = late  # type: ignore[attr-defined]
    with pytest.raises(PipelineError, match=r"up to offset 40 meanwhile"):
        second.commit(frame(0, EACH, "second"), 0)
    third.commit(frame(40, EACH, "third"), 7)
    assert offsets(tables.read()) == wanted()


def test_two_queries_with_other_offsets_are_both_published(
    cluster: MockCluster, tables: Tables
) -> None:
    first, second = (new_run(tables.target(), cluster) for _ in range(2))
    commit = second._target._commit  # type: ignore[attr-defined]
    calls = []

    def late(*arguments: Any) -> None:
        calls.append(arguments)
        if len(calls) == 1:
            first.commit(FakeFrame([("orders", 0, 0, EACH)], "first"), 0)  # type: ignore[arg-type]
        commit(*arguments)

    second._target._commit = late  # type: ignore[attr-defined]
    rest = [("orders", 1, 0, EACH), ("orders", 2, 0, EACH)]
    second.commit(FakeFrame(rest, "second"), 0)  # type: ignore[arg-type]
    assert len(calls) == 2
    assert offsets(tables.read()) == wanted()
    assert tables_state(tables).batches == {"first": 0, "second": 0}


def tables_state(tables: Tables) -> TableState:
    target = tables.target()
    target.prepare()
    return target.state()


class KilledError(BaseException):
    pass


STEPS = ("range_writer", "_sync", "_commit", "sweep", "state")


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", STEPS)
def test_driver_killed_at_a_step_loses_and_doubles_nothing(
    cluster: MockCluster, tables: Tables, monkeypatch: pytest.MonkeyPatch, step: str, after: bool
) -> None:
    """Each call of a step kills the driver in turn, and Spark runs the batch again."""
    kills = 0
    for batch in range(3):
        for survived in range(20):
            with monkeypatch.context() as patched:
                kill_at(patched, step, survived, after)
                try:
                    run = new_run(tables.target(), cluster)
                    run.commit(frame(30 * batch, 30 * batch + 30), batch)
                    break
                except KilledError:
                    kills += 1
            assert offsets(tables.read()) in (wanted(0, 30 * batch), wanted(0, 30 * batch + 30))
        else:
            pytest.fail("no run finished")
    assert kills >= 3
    assert offsets(tables.read()) == wanted(0, 90)
    new_run(tables.target(), cluster).commit(frame(90, EACH), 3)
    assert offsets(tables.read()) == wanted()
    assert data_files(tables) == listed(tables), "the next batch has removed all other files"


def kill_at(patched: pytest.MonkeyPatch, step: str, survived: int, after: bool) -> None:
    calls = 0
    for owner in (DeltaTarget, TableTarget):
        if step in vars(owner):
            original = getattr(owner, step)
            break

    def killed(self: TableTarget, *arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls > survived and not after:
            raise KilledError
        result = original(self, *arguments)
        if calls > survived:
            raise KilledError
        return result

    patched.setattr(owner, step, killed)


def listed(tables: Tables) -> set[Path]:
    """Return the files that the table lists."""
    return {
        Path(each.removeprefix("file://"))
        for each in DeltaTable(tables.folder / "table").file_uris()
    }


def test_failed_attempt_is_never_visible(cluster: MockCluster, tables: Tables) -> None:
    run = new_run(tables.target(), cluster)
    with pytest.raises(Exception, match="can't be read"):
        run.commit(FakeFrame([("orders", 0, 0, 10), ("orders", 1, 0, 5000)]), 0)  # type: ignore[arg-type]
    assert tables.read().num_rows == 0
    orphans = data_files(tables)
    assert orphans
    new_run(tables.target(), cluster).commit(frame(0, EACH), 0)
    assert offsets(tables.read()) == wanted()
    assert not orphans & data_files(tables)


def test_skipped_offsets_are_known(cluster: MockCluster, tables: Tables) -> None:
    cluster.move_log_start("orders", 1, 30)
    run = new_run(tables.target(), cluster, failOnDataLoss="false")
    run.commit(frame(0, EACH), 0)
    assert (run.result.records, run.result.skipped_offsets) == (270, 30)
    target = tables.target()
    target.prepare()
    assert target.skipped() == (Skipped("orders", 1, 0, 30),)
    assert "begins at offset 30" in target.skipped()[0].reason
    assert target.ends() == {("orders", each): EACH for each in range(PARTITIONS)}


def test_recreated_topic_is_refused(cluster: MockCluster, tables: Tables) -> None:
    def topic_id() -> str:
        return str(Uuid.from_bytes(cluster.topic_id("orders")))

    new_run(tables.target(), cluster).commit(frame(0, 50, topic_id=topic_id()), 0)
    assert tables_state(tables).topic_ids == {"orders": topic_id()}
    cluster.delete_topic("orders")
    cluster.create_topic("orders", partitions=PARTITIONS)
    fill(cluster, RECORDS)
    with pytest.raises(Exception, match="topic orders was deleted and recreated since"):
        new_run(tables.target(), cluster, "skip").commit(frame(50, 99, topic_id=topic_id()), 1)


def test_files_have_the_target_size(cluster: MockCluster, tables: Tables) -> None:
    small = {"row_group_rows": 10, "file_bytes": 1}
    run = new_run(tables.target(partition_by=()), cluster, settings=small, batchRows="10")
    run.commit(frame(0, EACH), 0)
    assert len(data_files(tables)) == RECORDS // 10
    assert offsets(tables.read()) == wanted()


def test_column_that_is_new_is_added_and_another_change_is_refused(
    cluster: MockCluster, tables: Tables
) -> None:
    schema = tables.target().schema
    without_headers = schema.remove(schema.get_field_index("headers"))
    new_run(tables.target(schema=without_headers), cluster).commit(frame(0, 40), 0)
    new_run(tables.target(), cluster).commit(frame(40, EACH), 1)
    table = tables.read()
    assert offsets(table) == wanted()
    headers = [row["headers"] for row in table.to_pylist() if row["offset"] >= 40]
    assert sum(each is not None for each in headers) == 36
    assert all(row["headers"] is None for row in table.to_pylist() if row["offset"] < 40)
    changed = schema.set(schema.get_field_index("key"), pa.field("key", pa.string()))
    with pytest.raises(PipelineError, match=r"column 'key' of the table .* is (large_)?binary"):
        tables.target(schema=changed).prepare()


def test_configuration_is_not_in_the_table(cluster: MockCluster, tables: Tables) -> None:
    run = new_run(tables.target(), cluster, **{"kafka.client.id": "hush-hush"})
    run.commit(frame(0, EACH), 0)
    for path in tables.folder.glob("**/*"):
        assert path.is_dir() or b"hush-hush" not in path.read_bytes()


def test_partition_by_is_checked(tables: Tables) -> None:
    with pytest.raises(PipelineError, match="partition by 'key': write topic, day, hour"):
        tables.target(partition_by=("topic", "key"))
    tables.target(partition_by=("topic", "hour")).prepare()
    tables.target().prepare()
    with pytest.raises(PipelineError, match="is partitioned by topic, hour: leave out partition"):
        tables.target(partition_by=("topic",)).prepare()


def test_state_is_kept_as_json() -> None:
    state = TableState(
        {"q": 7}, {("a.b", 0): 5, ("a.b", 12): 9}, {"a.b": "x"}, (Skipped("a.b", 0, 1, 2, "why"),)
    )
    again = TableState.from_json(state.to_json(), "here")
    assert (again, again.skipped[0].reason) == (state, "why")
    with pytest.raises(PipelineError, match="here is damaged"):
        TableState.from_json("{}", "here")


def test_archive_into_a_table_continues(
    spark: SparkSession, mock_cluster: MockCluster, tables: Tables
) -> None:
    """Whole runs with Spark: a plan, two runs, and a new topic of the same name."""
    config = {"bootstrap.servers": mock_cluster.bootstrap_servers}
    topic = f"into-{tables.folder.name}"
    arguments: dict[str, Any] = {"topics": [topic], "session": spark}
    mock_cluster.create_topic(topic, partitions=2)
    for _ in range(2):
        produce_hundred(mock_cluster, topic)
        plan = plan_archive(config, tables.target(), **arguments)
        assert sum(each.end - each.start for each in plan) == 100
        checkpoint = str(tables.folder / "checkpoint")
        done = archive(config, tables.target(), checkpoint=checkpoint, **arguments)
        assert done.records == 100
    assert set(offsets(tables.read()).values()) == {1}
    assert tables.read().num_rows == 200
    assert plan_archive(config, tables.target(), **arguments) == []
    mock_cluster.delete_topic(topic)
    mock_cluster.create_topic(topic, partitions=2)
    produce_hundred(mock_cluster, topic)
    with pytest.raises(PipelineError, match="was deleted and recreated since"):
        plan_archive(config, tables.target(), **arguments)


def produce_hundred(cluster: MockCluster, topic: str) -> None:
    with Producer({"bootstrap.servers": cluster.bootstrap_servers}) as producer:
        for number in range(100):
            producer.produce(topic, b"%d" % number, partition=number % 2)


# --- Delta ---


def test_delta_table_is_read_by_others(cluster: MockCluster, tables: Tables) -> None:
    new_run(tables.target(), cluster).commit(frame(0, EACH), 0)
    path = tables.folder / "table"
    table = DeltaTable(path)
    assert table.metadata().partition_columns == ["topic", "date"]
    days = [date(2024, 10, 4), date(2024, 10, 5)]
    found = duckdb.arrow(table.to_pyarrow_dataset()).aggregate("date, count(*)").order("date")
    assert found.fetchall() == [(each, RECORDS // 2) for each in days]
    lazy = polars.scan_delta(path).filter(polars.col("offset") >= 90)
    assert lazy.collect().height == 10 * PARTITIONS
    filtered = table.to_pyarrow_table(filters=[("date", "=", days[0]), ("partition", "=", 1)])
    assert filtered.num_rows == EACH // 2
    actions = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    assert {(each["num_records"], each["null_count.offset"]) for each in actions} == {(50, 0)}
    low = datetime.fromtimestamp(NOON_MS / 1000, timezone.utc)
    assert min(each["min.timestamp"] for each in actions) == low


def test_delta_table_by_hour_has_the_hour(cluster: MockCluster, tables: Tables) -> None:
    target = tables.target(partition_by=("topic", "day", "hour"))
    new_run(target, cluster).commit(frame(0, EACH), 0)
    table = DeltaTable(tables.folder / "table")
    assert table.metadata().partition_columns == ["topic", "date", "hour"]
    assert set(tables.read()["hour"].to_pylist()) == {12}


def test_delta_transaction_names_the_query_and_old_states_are_deleted(
    cluster: MockCluster, tables: Tables
) -> None:
    run = new_run(tables.target(), cluster)
    for batch in range(5):
        run.commit(frame(20 * batch, 20 * batch + 20), batch)
    table = DeltaTable(tables.folder / "table")
    assert table.transaction_version("query") == 4
    states = list((tables.folder / "table" / "_kafka_native" / "states").iterdir())
    assert len(states) == 2
    [newest] = table.history(1)
    assert newest["kafka.query"] == "query"
    assert newest["kafka.ranges"].startswith("orders [0] 80-100, ")


def test_delta_keeps_its_facts_when_the_log_is_cleaned_up(
    cluster: MockCluster, tables: Tables
) -> None:
    new_run(tables.target(), cluster).commit(frame(0, EACH), 0)
    path = tables.folder / "table"
    write_deltalake(path, pa.table({"offset": [5]}), mode="append", schema_mode="merge")
    table = DeltaTable(path)
    table.optimize.compact()
    table.create_checkpoint()
    for old in (path / "_delta_log").glob("*.json"):
        if int(old.stem) < table.version():
            old.unlink()
    again = new_run(tables.target(), cluster)
    again.commit(frame(0, EACH), 0)
    assert again.result.repeated == 1


def test_delta_table_that_lost_its_state_is_refused(cluster: MockCluster, tables: Tables) -> None:
    new_run(tables.target(), cluster).commit(frame(0, EACH), 0)
    [state] = (tables.folder / "table" / "_kafka_native" / "states").iterdir()
    assert json.loads(state.read_text())["batches"] == {"query": 0}
    state.unlink()
    with pytest.raises(PipelineError, match="has lost the file"):
        new_run(tables.target(), cluster).commit(frame(0, EACH), 0)


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        ({"x": [1]}, "has no column 'topic'"),
        ({"topic": ["a"], "partition": [1], "offset": [1]}, "column 'partition' of the table"),
    ],
)
def test_delta_table_of_another_program_is_checked(
    tables: Tables, columns: dict[str, Any], error: str
) -> None:
    write_deltalake(tables.folder / "table", pa.table(columns))
    with pytest.raises(PipelineError, match=error):
        tables.target().prepare()


def test_delta_table_with_foreign_partitions_is_refused(tables: Tables) -> None:
    rows = pa.table({"topic": ["a"], "partition": pa.array([1], pa.int32()), "offset": [1]})
    write_deltalake(tables.folder / "table", rows, partition_by=["partition"])
    with pytest.raises(PipelineError, match="is partitioned by partition, and archive"):
        tables.target().prepare()


def test_delta_target_needs_deltalake(
    monkeypatch: pytest.MonkeyPatch, hide: Callable[[str], None], tmp_path: Path
) -> None:
    hide("deltalake")
    with pytest.raises(ImportError, match=r"pip install 'kafka-native\[delta\]'"):
        DeltaTarget(tmp_path)


@pytest.fixture
def hide(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a function that makes a package look as if it isn't installed."""
    return lambda name: monkeypatch.setitem(__import__("sys").modules, name, None)


def test_tasks_get_no_credentials(tmp_path: Path) -> None:
    target = DeltaTarget(tmp_path / "t", storage_options={"secret": "hush-hush"})
    target.prepare()
    assert b"hush-hush" not in pickle.dumps(target)
