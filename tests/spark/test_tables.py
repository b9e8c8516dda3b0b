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
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog import load_catalog
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyspark.sql import SparkSession

from kafka_native import Producer, Uuid
from kafka_native.mock import MockCluster
from kafka_native.spark import range_reader
from kafka_native.spark.commands import cli
from kafka_native.spark.pipelines import (
    ParquetSettings,
    PipelineError,
    Skipped,
    archive,
    maintain,
    plan_archive,
)
from kafka_native.spark.pipelines import delta as delta_module
from kafka_native.spark.pipelines import iceberg as iceberg_module
from kafka_native.spark.pipelines.archive import _Run
from kafka_native.spark.pipelines.delta import DeltaTarget
from kafka_native.spark.pipelines.iceberg import IcebergTarget
from kafka_native.spark.pipelines.iceberg_files import Merger
from kafka_native.spark.pipelines.lake_schemas import SCHEMA
from kafka_native.spark.pipelines.table_target import TABLE_SCHEMA, TableState, TableTarget
from tests.spark.lakes import DAY_MS, NOON_MS, FakeFrame
from tests.spark.tables import (
    PARTITIONS,
    DeltaTables,
    IcebergTables,
    Tables,
    data_files,
    frame,
    offsets,
    run_of,
)

RECORDS = 300
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


@pytest.fixture(params=[DeltaTables, IcebergTables])
def tables(request: pytest.FixtureRequest, tmp_path: Path) -> Tables:
    found = request.param(tmp_path)
    assert isinstance(found, Tables)
    return found


@pytest.fixture
def delta(tmp_path: Path) -> DeltaTables:
    return DeltaTables(tmp_path)


@pytest.fixture
def iceberg(tmp_path: Path) -> IcebergTables:
    return IcebergTables(tmp_path)


def new_run(target: TableTarget, cluster: MockCluster, *arguments: Any, **more: Any) -> _Run:
    return run_of(target, cluster.bootstrap_servers, *arguments, **more)


def wanted(start: int = 0, end: int = EACH) -> Counter[tuple[str, int, int]]:
    return Counter(
        ("orders", part, offset) for part in range(PARTITIONS) for offset in range(start, end)
    )


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
    with pytest.raises(PipelineError, match=r"table has offsets of orders \[0\] up to 40 already"):
        new_run(tables.target(), cluster).commit(frame(20, EACH, "new"), 0)
    new_run(tables.target(), cluster, "skip").commit(frame(20, EACH, "new"), 0)
    assert offsets(tables.read()) == wanted()


@pytest.mark.parametrize(
    ("first", "second", "added"),
    [
        (("a", pa.string()), ("b", pa.int32()), ["a", "b"]),
        (("b", pa.int32()), ("a", pa.string()), ["a", "b"]),
        (("a", pa.string()), ("a", pa.string()), ["a"]),
        (("a", pa.string()), ("a", pa.int64()), []),
        (("a", pa.int64()), ("a", pa.string()), []),
    ],
)
def test_two_archives_add_columns_at_once(
    tables: Tables,
    monkeypatch: pytest.MonkeyPatch,
    first: tuple[str, pa.DataType],
    second: tuple[str, pa.DataType],
    added: list[str],
) -> None:
    """The second one has compared its columns already when the first one adds its own."""
    tables.target().prepare()
    module = iceberg_module if isinstance(tables, IcebergTables) else delta_module
    compare, compared = module.lacks_columns, []

    def late(*arguments: Any) -> bool:
        compared.append(arguments)
        found = compare(*arguments)
        if len(compared) == last:
            prepared(first)
        return found

    def prepared(column: tuple[str, pa.DataType]) -> None:
        target = tables.target()
        target.use_columns(pa.schema([*SCHEMA, column]))
        target.prepare()

    last = 2 if isinstance(tables, IcebergTables) else 1  # the last comparison before the commit
    monkeypatch.setattr(module, "lacks_columns", late)
    if added:
        prepared(second)
    else:
        with pytest.raises(PipelineError, match=r"other columns: a changes from"):
            prepared(second)
    assert len(compared) > last
    assert sorted({"a", "b"} & set(tables.columns())) == (added or ["a"])
    prepared(first)


def test_batch_asks_for_the_newest_version_once(
    cluster: MockCluster, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def count(kind: type, name: str) -> None:
        real = getattr(kind, name)
        monkeypatch.setattr(kind, name, lambda self: asked.append(self) or real(self))

    count(DeltaTable, "update_incremental")
    count(Table, "refresh")
    run = new_run(tables.target(), cluster)
    run.commit(frame(0, 20), 0)
    for batch, start in enumerate((20, 40, 60), 1):
        asked.clear()
        run.commit(frame(start, start + 20), batch)
        assert len(asked) == 1
    assert offsets(tables.read()) == wanted(0, 80)
    other = new_run(tables.target(), cluster, "skip")
    other.commit(frame(60, 90, "other"), 0)
    run.commit(frame(90, EACH), 4)  # it sees what the other one has published
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
                kill_at(patched, type(tables.target()), step, survived, after)
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
    assert data_files(tables) == tables.listed(), "the next batch has removed all other files"


def kill_at(
    patched: pytest.MonkeyPatch, type_: type, step: str, survived: int, after: bool
) -> None:
    calls = 0
    owner = next(each for each in type_.__mro__ if step in vars(each))
    original = getattr(owner, step)

    def killed(self: object, *arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls > survived and not after:
            raise KilledError
        result = original(self, *arguments, **named)
        if calls > survived:
            raise KilledError
        return result

    patched.setattr(owner, step, killed)


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


def narrowed(tables: Tables, schema: pa.Schema) -> TableTarget:
    """Return a target for these columns, of which the topic is one."""
    target = tables.target()
    target.use_columns(schema.remove(schema.get_field_index("topic")))
    return target


def test_column_that_is_new_is_added_and_another_change_is_refused(
    cluster: MockCluster, tables: Tables
) -> None:
    schema = tables.target().schema
    without_headers = schema.remove(schema.get_field_index("headers"))
    new_run(narrowed(tables, without_headers), cluster).commit(frame(0, 40), 0)
    new_run(tables.target(), cluster).commit(frame(40, EACH), 1)
    table = tables.read()
    assert offsets(table) == wanted()
    headers = [row["headers"] for row in table.to_pylist() if row["offset"] >= 40]
    assert sum(each is not None for each in headers) == 36
    assert all(row["headers"] is None for row in table.to_pylist() if row["offset"] < 40)
    changed = schema.set(schema.get_field_index("key"), pa.field("key", pa.string()))
    with pytest.raises(PipelineError, match="key changes from binary to"):
        narrowed(tables, changed).prepare()


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


# --- maintain ---


@pytest.mark.parametrize("partition_by", [None, ("hour",), ()])
def test_maintain_merges_small_files(
    cluster: MockCluster, tables: Tables, partition_by: tuple[str, ...] | None
) -> None:
    run = new_run(tables.target(partition_by=partition_by), cluster)
    for batch in range(5):
        run.commit(frame(20 * batch, 20 * batch + 20), batch)
    before, rows = tables.listed(), sorted_rows(tables.read())
    done = maintain(tables.target())
    assert (done.merged, done.deleted) == (len(before), 0)
    assert len(tables.listed()) == done.made < len(before)
    assert sorted_rows(tables.read()) == rows
    assert tables_state(tables).ends == {("orders", each): EACH for each in range(PARTITIONS)}
    again = maintain(tables.target(), keep_s=0)
    assert (again.merged, again.deleted) == (0, len(before))
    assert data_files(tables) | tables.listed() == tables.listed()
    assert sorted_rows(tables.read()) == rows
    late = new_run(tables.target(), cluster)
    late.commit(frame(80, EACH), 4)
    assert late.result.repeated == 1


@pytest.mark.parametrize("partition_by", [("day",), ("topic",)])
def test_maintain_merges_only_files_of_one_topic(
    cluster: MockCluster, iceberg: IcebergTables, partition_by: tuple[str, ...]
) -> None:
    """Also in a table that isn't partitioned by topic. A file stays in the order of its offsets."""
    cluster.create_topic("bills", partitions=1)
    with Producer({"bootstrap.servers": cluster.bootstrap_servers}) as producer:
        for number in range(EACH):
            producer.produce("bills", b"%d" % number, partition=0, timestamp=NOON_MS)
    run = new_run(iceberg.target(partition_by=partition_by), cluster)
    for batch in range(4):
        place = (batch * 20, batch * 20 + 20)
        run.commit(FakeFrame([("bills", 0, *place), ("orders", 0, *place)]), batch)  # type: ignore[arg-type]
    before = iceberg.listed()
    assert maintain(iceberg.target()).merged == len(before)
    for path in iceberg.listed():
        table = pq.ParquetFile(path).read()
        assert len(table["topic"].unique()) == 1
        assert table["offset"].to_pylist() == sorted(table["offset"].to_pylist())


def sorted_rows(table: pa.Table) -> list[dict[str, Any]]:
    order = [("partition", "ascending"), ("offset", "ascending")]
    return list(table.select(TABLE_SCHEMA.names).sort_by(order).to_pylist())


def test_maintain_leaves_new_and_large_files(cluster: MockCluster, tables: Tables) -> None:
    run = new_run(tables.target(), cluster)
    for batch in range(2):
        run.commit(frame(50 * batch, 50 * batch + 50), batch)
    assert maintain(tables.target(), before="2024-10-04").merged == 0
    assert maintain(tables.target(), settings=ParquetSettings(file_bytes=1000)).merged == 0
    assert maintain(tables.target(), before="2024-10-05").merged == PARTITIONS * 2


def test_maintain_deletes_old_files_of_killed_runs(cluster: MockCluster, tables: Tables) -> None:
    run = new_run(tables.target(), cluster)
    run.commit(frame(0, 50), 0)
    with pytest.raises(Exception, match="can't be read"):
        run.commit(FakeFrame([("orders", 0, 50, 60), ("orders", 1, 50, 5000)]), 1)  # type: ignore[arg-type]
    assert data_files(tables) > tables.listed()
    assert maintain(tables.target()).deleted == 0
    maintain(tables.target(), keep_s=0)
    assert data_files(tables) | tables.listed() == tables.listed()
    new_run(tables.target(), cluster).commit(frame(50, EACH), 1)
    assert offsets(tables.read()) == wanted()


def test_maintain_command(cluster: MockCluster, iceberg: IcebergTables) -> None:
    run = new_run(iceberg.target(), cluster)
    for batch in range(2):
        run.commit(frame(50 * batch, 50 * batch + 50), batch)
    options = [f"--table-option={name}={value}" for name, value in iceberg.options.items()]
    arguments = ["maintain", "--table", "iceberg:local/ns.orders", *options, "--keep", "0s"]
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 0, done.output
    assert "12 files, which became 6" in done.output
    assert "12 replaced files" in done.output
    assert offsets(iceberg.read()) == wanted()


def test_maintain_leaves_the_columns_as_they_are(cluster: MockCluster, tables: Tables) -> None:
    """The table has fewer columns than one of raw records."""
    schema = TABLE_SCHEMA.remove(TABLE_SCHEMA.get_field_index("value"))
    run = new_run(narrowed(tables, schema), cluster)
    for batch in range(2):
        run.commit(frame(50 * batch, 50 * batch + 50), batch)
    before = tables.columns()
    assert maintain(tables.target()).merged == 4 * PARTITIONS
    assert tables.columns() == before
    assert "value" not in before


def test_maintain_needs_a_table(tables: Tables) -> None:
    with pytest.raises(PipelineError, match="there is no table"):
        maintain(tables.target())


def produce_hundred(cluster: MockCluster, topic: str) -> None:
    with Producer({"bootstrap.servers": cluster.bootstrap_servers}) as producer:
        for number in range(100):
            producer.produce(topic, b"%d" % number, partition=number % 2)


# --- Delta ---


def test_delta_table_is_read_by_others(cluster: MockCluster, delta: DeltaTables) -> None:
    new_run(delta.target(), cluster).commit(frame(0, EACH), 0)
    path = delta.table
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


def test_delta_table_by_hour_has_the_hour(cluster: MockCluster, delta: DeltaTables) -> None:
    target = delta.target(partition_by=("topic", "day", "hour"))
    new_run(target, cluster).commit(frame(0, EACH), 0)
    table = DeltaTable(delta.table)
    assert table.metadata().partition_columns == ["topic", "date", "hour"]
    assert set(delta.read()["hour"].to_pylist()) == {12}


def test_delta_transaction_names_the_query_and_old_states_are_deleted(
    cluster: MockCluster, delta: DeltaTables
) -> None:
    run = new_run(delta.target(), cluster)
    for batch in range(5):
        run.commit(frame(20 * batch, 20 * batch + 20), batch)
    table = DeltaTable(delta.table)
    assert table.transaction_version("query") == 4
    states = list((delta.table / "_kafka_native" / "states").iterdir())
    assert len(states) == 2
    [newest] = table.history(1)
    assert newest["kafka.query"] == "query"
    assert newest["kafka.ranges"].startswith("orders [0] 80-100, ")


def test_delta_state_of_a_refused_commit_is_deleted_by_maintain(
    cluster: MockCluster, delta: DeltaTables
) -> None:
    first, second = (new_run(delta.target(), cluster) for _ in range(2))
    commit = second._target._commit  # type: ignore[attr-defined]

    def late(*arguments: Any) -> None:
        first.commit(FakeFrame([("orders", 0, 0, EACH)], "first"), 0)  # type: ignore[arg-type]
        second._target._commit = commit  # type: ignore[attr-defined]
        commit(*arguments)

    second._target._commit = late  # type: ignore[attr-defined]
    second.commit(FakeFrame([("orders", 1, 0, EACH)], "second"), 0)  # type: ignore[arg-type]
    states = delta.table / "_kafka_native" / "states"
    assert len(list(states.iterdir())) == 3
    maintain(delta.target(), keep_s=0)
    assert len(list(states.iterdir())) == 2
    assert tables_state(delta).batches == {"first": 0, "second": 0}


def test_delta_keeps_its_facts_when_the_log_is_cleaned_up(
    cluster: MockCluster, delta: DeltaTables
) -> None:
    new_run(delta.target(), cluster).commit(frame(0, EACH), 0)
    path = delta.table
    write_deltalake(path, pa.table({"offset": [5]}), mode="append", schema_mode="merge")
    table = DeltaTable(path)
    table.optimize.compact()
    table.create_checkpoint()
    for old in (path / "_delta_log").glob("*.json"):
        if int(old.stem) < table.version():
            old.unlink()
    again = new_run(delta.target(), cluster)
    again.commit(frame(0, EACH), 0)
    assert again.result.repeated == 1


def test_delta_table_that_lost_its_state_is_refused(
    cluster: MockCluster, delta: DeltaTables
) -> None:
    new_run(delta.target(), cluster).commit(frame(0, EACH), 0)
    [state] = (delta.table / "_kafka_native" / "states").iterdir()
    assert json.loads(state.read_text())["batches"] == {"query": 0}
    state.unlink()
    with pytest.raises(PipelineError, match="has lost the file"):
        new_run(delta.target(), cluster).commit(frame(0, EACH), 0)


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        ({"x": [1]}, "has no column 'topic'"),
        (
            {"topic": ["a"], "partition": [1], "offset": [1]},
            "partition changes from int64 to int32",
        ),
    ],
)
def test_delta_table_of_another_program_is_checked(
    delta: DeltaTables, columns: dict[str, Any], error: str
) -> None:
    write_deltalake(delta.table, pa.table(columns))
    with pytest.raises(PipelineError, match=error):
        delta.target().prepare()


def test_delta_table_with_foreign_partitions_is_refused(delta: DeltaTables) -> None:
    rows = pa.table({"topic": ["a"], "partition": pa.array([1], pa.int32()), "offset": [1]})
    write_deltalake(delta.table, rows, partition_by=["partition"])
    with pytest.raises(PipelineError, match="is partitioned by partition, and archive"):
        delta.target().prepare()


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
    options = {**IcebergTables(tmp_path).options, "secret": "hush-hush"}
    other = IcebergTarget("local", "ns.orders", catalog_options=options)
    other.prepare()
    assert b"hush-hush" not in pickle.dumps(other)


# --- Iceberg ---


def test_iceberg_table_is_read_by_others(cluster: MockCluster, iceberg: IcebergTables) -> None:
    new_run(iceberg.target(), cluster).commit(frame(0, EACH), 0)
    table = iceberg.open()
    found = table.scan(row_filter="partition = 1 and offset >= 90").to_arrow()
    assert offsets(found) == Counter(("orders", 1, each) for each in range(90, EACH))
    assert offsets(table.scan().to_arrow()) == wanted()
    # one of two days: the partitions are hidden behind the timestamp
    day = "timestamp < '2024-10-05T00:00:00+00:00'"
    assert len(list(table.scan(row_filter=day).plan_files())) == PARTITIONS
    assert table.scan(row_filter=day).count() == RECORDS // 2
    lazy = polars.scan_iceberg(table).filter(polars.col("offset") >= 90)
    assert lazy.collect().height == 10 * PARTITIONS
    connection = table.scan().to_duckdb("orders")
    query = 'select topic, count(*), max("offset") from orders group by topic'
    assert connection.execute(query).fetchall() == [("orders", RECORDS, EACH - 1)]


def test_iceberg_files_have_statistics_and_ids(
    cluster: MockCluster, iceberg: IcebergTables
) -> None:
    new_run(iceberg.target(partition_by=["hour"]), cluster).commit(frame(0, EACH), 0)
    table = iceberg.open()
    assert [str(each.transform) for each in table.spec().fields] == ["hour"]
    rows = table.inspect.files().to_pylist()
    assert {each["record_count"] for each in rows} == {EACH // 2}
    for row in rows:
        metrics = row["readable_metrics"]
        assert metrics["offset"]["lower_bound"] in (0, 1)
        assert metrics["offset"]["upper_bound"] in (EACH - 2, EACH - 1)
        assert metrics["timestamp"]["lower_bound"].hour == 12
        assert metrics["offset"]["null_value_count"] == 0
        assert row["file_size_in_bytes"] == Path(row["file_path"][len("file://") :]).stat().st_size
    schema = pq.read_schema(next(iter(iceberg.listed())))
    for name in schema.names:
        ids = int(schema.field(name).metadata[b"PARQUET:field_id"])
        assert ids == table.schema().find_field(name).field_id


def test_iceberg_snapshot_names_the_batch(cluster: MockCluster, iceberg: IcebergTables) -> None:
    run = new_run(iceberg.target(), cluster)
    run.commit(frame(0, 40), 0)
    run.commit(frame(40, EACH), 1)
    found = iceberg.open().current_snapshot()
    assert found is not None
    assert found.summary is not None
    assert found.summary["kafka_native.query"] == "query"
    assert found.summary["kafka_native.batch"] == "1"
    assert json.loads(str(found.summary["kafka_native.ends"])) == {
        "orders": {str(each): EACH for each in range(PARTITIONS)}
    }


def test_iceberg_keeps_its_facts_when_snapshots_expire(
    cluster: MockCluster, iceberg: IcebergTables
) -> None:
    new_run(iceberg.target(partition_by=()), cluster).commit(frame(0, EACH), 0)
    table = iceberg.open()
    table.append(table.scan().to_arrow().slice(0, 1))
    mine = table.snapshots()[0].snapshot_id
    table.maintenance.expire_snapshots().by_id(mine).commit()
    assert [each.snapshot_id for each in iceberg.open().snapshots()] != [mine]
    again = new_run(iceberg.target(), cluster)
    again.commit(frame(0, EACH), 0)
    assert again.result.repeated == 1


def test_iceberg_table_with_other_partitions_is_refused(
    cluster: MockCluster, iceberg: IcebergTables
) -> None:
    run = new_run(iceberg.target(), cluster)
    with iceberg.open().update_spec() as spec:
        spec.add_field("partition", "identity", "partition")
    with pytest.raises(PipelineError, match="has other partitions since this run began"):
        run.commit(frame(0, EACH), 0)
    with pytest.raises(PipelineError, match="is partitioned by partition, identity, and archive"):
        iceberg.target().prepare()


def test_iceberg_table_of_another_program_is_filled_and_merged(
    cluster: MockCluster, iceberg: IcebergTables
) -> None:
    """Its partition fields have other names, its columns another order, and it has one more."""
    catalog = load_catalog("local", **iceberg.options)
    catalog.create_namespace("ns")
    columns = [pa.field("note", pa.string()), *reversed(TABLE_SCHEMA)]
    with (
        catalog.create_table_transaction("ns.orders", pa.schema(columns)) as transaction,
        transaction.update_spec() as spec,
    ):
        spec.add_field("timestamp", "day", "d")
        spec.add_field("topic", "identity", "t")
    run = new_run(iceberg.target(), cluster)
    run.commit(frame(0, 50), 0)
    run.commit(frame(50, EACH), 1)
    assert maintain(iceberg.target()).made == 2 * PARTITIONS
    table = iceberg.open()
    assert offsets(table.scan().to_arrow()) == wanted()
    assert table.scan(row_filter="topic = 'orders' and note is null").count() == RECORDS
    assert table.scan(row_filter="topic = 'bills'").count() == 0


def test_iceberg_table_of_another_program_is_checked(iceberg: IcebergTables) -> None:
    catalog = load_catalog("local", **iceberg.options)
    catalog.create_namespace("ns")
    catalog.create_table("ns.orders", pa.schema([("x", pa.int64())]))
    with pytest.raises(PipelineError, match="has no column 'topic'"):
        iceberg.target().prepare()


def test_catalog_that_is_unknown_is_an_error(tmp_path: Path) -> None:
    target = IcebergTarget("nosuch", "ns.orders", catalog_options={"type": "sql"})
    with pytest.raises(PipelineError, match=r"the table nosuch/ns\.orders: "):
        target.prepare()
    with pytest.raises(PipelineError, match="say where Spark shall keep its checkpoint"):
        target.default_checkpoint()


def test_iceberg_target_needs_pyiceberg(hide: Callable[[str], None]) -> None:
    hide("pyiceberg")
    with pytest.raises(ImportError, match=r"pip install 'kafka-native\[iceberg\]'"):
        IcebergTarget("local", "ns.orders")


def test_iceberg_files_are_merged_while_archive_commits(
    cluster: MockCluster, iceberg: IcebergTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch comes between the merge and its commit: both are in the table."""
    run = new_run(iceberg.target(partition_by=()), cluster)
    for batch in range(2):
        run.commit(frame(40 * batch, 40 * batch + 40), batch)
    original = DataFile.from_args.__func__  # type: ignore[attr-defined]
    calls = []

    def late(*arguments: Any, **named: Any) -> Any:
        calls.append(named)
        if len(calls) == 1:
            run.commit(frame(80, EACH), 2)
        return original(DataFile, *arguments, **named)

    with monkeypatch.context() as patched:
        patched.setattr(DataFile, "from_args", late)
        assert maintain(iceberg.target()).merged == 2 * PARTITIONS
    assert offsets(iceberg.read()) == wanted()
    assert len(iceberg.listed()) == 2 * PARTITIONS


def test_iceberg_files_of_two_maintainers_are_merged_once(
    cluster: MockCluster, iceberg: IcebergTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = new_run(iceberg.target(), cluster)
    for batch in range(2):
        run.commit(frame(50 * batch, 50 * batch + 50), batch)
    original = Merger._replace
    calls = []

    def late(self: Merger, *arguments: Any) -> bool:
        calls.append(arguments)
        if len(calls) == 1:
            maintain(iceberg.target())
        return original(self, *arguments)

    monkeypatch.setattr(Merger, "_replace", late)
    assert maintain(iceberg.target()).merged == 0
    assert offsets(iceberg.read()) == wanted()


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_iceberg_merge_that_is_killed_leaves_each_record_once(
    cluster: MockCluster, iceberg: IcebergTables, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    """The process ends before or after the commit of each merge in turn."""
    run = new_run(iceberg.target(), cluster)
    for batch in range(2):
        run.commit(frame(50 * batch, 50 * batch + 50), batch)
    for survived in range(2 * PARTITIONS):
        with monkeypatch.context() as patched:
            kill_at(patched, Merger, "_replace", survived % 2, after)
            with pytest.raises(KilledError):
                maintain(iceberg.target())
        assert offsets(iceberg.read()) == wanted()
        if len(iceberg.listed()) == 2 * PARTITIONS:
            break
    maintain(iceberg.target(), keep_s=0)
    assert offsets(iceberg.read()) == wanted()
    assert len(iceberg.listed()) == 2 * PARTITIONS
    assert data_files(iceberg) == iceberg.listed()


def test_iceberg_merge_stops_at_a_damaged_file(
    cluster: MockCluster, iceberg: IcebergTables
) -> None:
    run = new_run(iceberg.target(partition_by=()), cluster)
    for batch in range(2):
        run.commit(frame(50 * batch, 50 * batch + 50), batch)
    damaged = sorted(iceberg.listed())[0]
    pq.write_table(pq.ParquetFile(damaged).read().slice(1), damaged)
    with pytest.raises(PipelineError, match="should have 100: one is damaged"):
        maintain(iceberg.target())
