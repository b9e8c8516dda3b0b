"""The lake's log and its files, without Spark and without Kafka."""

from __future__ import annotations

import datetime
import json
import pickle
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_native.spark.folder import Folder
from kafka_native.spark.pipelines.lake import Gap, Lake
from kafka_native.spark.pipelines.lake_schemas import SCHEMA
from kafka_native.spark.pipelines.manifests import (
    LOG,
    NO_DATE,
    Manifest,
    Range,
    Skipped,
    manifest_name,
)
from kafka_native.spark.pipelines.parquet import ParquetSettings, RangeWriter, by_date
from kafka_native.spark.pipelines.session import PipelineError
from tests.spark.lakes import DAY_MS, NOON_MS, records, stage


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path / "lake")
    lake.prepare()
    return lake


def on_disk(lake: Lake) -> set[str]:
    """Return the Parquet files that a listing of folders shows."""
    root = Path(lake.root)
    return {str(path.relative_to(root)) for path in root.glob("topic=*/**/*.parquet")}


def test_published_records_have_every_column(lake: Lake) -> None:
    wanted = records(range(100))
    files = stage(lake, wanted)
    lake.publish("q", 0, [Range("orders", 0, 0, 100)], files)
    found = lake.dataset().to_table().sort_by("offset")
    assert found.select(SCHEMA.names).to_pylist() == [
        dict(zip(SCHEMA.names, row.values(), strict=True)) for row in wanted.to_pylist()
    ]
    assert set(found["topic"].to_pylist()) == {"orders"}
    assert set(found["date"].to_pylist()) == {datetime.date(2024, 10, 4)}
    assert on_disk(lake) == {each.path for each in lake.files()}


def test_duckdb_reads_the_published_files(lake: Lake) -> None:
    duckdb = pytest.importorskip("duckdb", reason="DuckDB isn't installed")
    lake.publish("q", 0, [Range("orders", 0, 0, 100)], stage(lake, records(range(100))))
    stage(lake, records(range(100)), batch=1)
    wanted = [("orders", datetime.date(2024, 10, 4), 100, 99)]
    for files in (lake.paths(), f"{lake.root}/topic=*/**/*.parquet"):
        found = duckdb.read_parquet(files, hive_partitioning=True)
        assert found.aggregate('topic, date, count(*), max("offset")').fetchall() == wanted


def test_staged_files_are_invisible_to_readers(lake: Lake) -> None:
    files = stage(lake, records(range(10)))
    assert len(files) == 1
    assert lake.files() == []
    assert on_disk(lake) == set()
    assert not list(Path(lake.root).glob("**/*.parquet"))
    with pytest.raises(PipelineError, match="no published files"):
        lake.dataset()


def test_files_have_the_columns_that_their_writer_gets(lake: Lake) -> None:
    tags = pa.map_(pa.string(), pa.int32())
    value = pa.struct([("id", pa.int64()), ("tags", pa.list_(tags)), ("at", pa.timestamp("us"))])
    schema = SCHEMA.set(SCHEMA.get_field_index("value"), pa.field("value", value))
    rows = [{"id": number, "tags": [[("a", number)], None]} for number in range(10)]
    given = records(range(10))
    columns = dict(zip(given.schema.names, given.columns, strict=True))
    columns |= {"value": pa.array(rows, value)}
    writer = RangeWriter(
        lake, f"{LOG}/staging/q/0/a", "q-0", "orders", 0, ParquetSettings(), schema
    )
    writer.write(pa.RecordBatch.from_pydict(columns))
    [file] = writer.close()
    found = pq.ParquetFile(lake.full(file.staged))
    assert found.schema_arrow.equals(schema)
    assert found.read()["value"].to_pylist() == pa.array(rows, value).to_pylist()
    group = found.metadata.row_group(0)
    leaves = {
        column.path_in_schema: column for column in map(group.column, range(group.num_columns))
    }
    assert leaves["value.id"].statistics.max == 9
    assert "RLE_DICTIONARY" in leaves["value.tags.list.element.key_value.key"].encodings
    with pytest.raises(PipelineError, match="the source gave the columns"):
        writer.write(pa.RecordBatch.from_pydict({"offset": [1]}))


def test_batch_is_published_once(lake: Lake) -> None:
    files = stage(lake, records(range(10)))
    assert not lake.is_published("q", 0)
    lake.publish("q", 0, [Range("orders", 0, 0, 10)], files)
    assert lake.is_published("q", 0)
    with pytest.raises(PipelineError, match="published already"):
        lake.publish("q", 0, [Range("orders", 0, 0, 10)], stage(lake, records(range(10))))
    assert not lake.is_published("other", 0)


@pytest.mark.parametrize("moved", [0, 1, 2, 3])
def test_batch_with_an_intent_is_finished_by_the_next_driver(
    lake: Lake, moved: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver ends after it moved 0 to 3 files, or before it renames the intent."""
    days = [NOON_MS + offset // 10 * DAY_MS for offset in range(30)]
    files = stage(lake, records(range(30), list(days)))
    assert len(files) == 3
    moves: list[str] = []

    class KilledError(Exception):
        pass

    move = Lake.move

    def killed(self: Lake, source: str, target: str) -> None:
        if len(moves) == moved:
            raise KilledError
        moves.append(target)
        move(self, source, target)

    with monkeypatch.context() as patched:
        patched.setattr(Lake, "move", killed)
        with pytest.raises(KilledError):
            lake.publish("q", 7, [Range("orders", 0, 0, 30)], files)
    restarted = Lake(lake.root)
    assert restarted.files() == []
    assert restarted.is_published("q", 7)  # the intent exists: the batch must not be read again
    restarted.prepare()
    assert restarted.dataset().count_rows() == 30
    assert restarted.ends() == {("orders", 0): 30}
    assert restarted.recover() == []
    assert not list((Path(lake.root) / LOG / "intents").iterdir())


def test_an_intent_that_its_own_run_finishes_in_the_meantime_is_no_error(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = Lake.names

    def also_finished(self: Lake, path: str) -> set[str]:
        return names(self, path) | ({"finished-1.json"} if path.endswith("intents") else set())

    monkeypatch.setattr(Lake, "names", also_finished)
    assert lake.recover() == []


def test_sweep_removes_attempts_of_its_query_only(lake: Lake) -> None:
    stage(lake, records(range(10)), query="mine", batch=1)
    stage(lake, records(range(10)), query="mine", batch=2)
    stage(lake, records(range(10)), query="other", batch=1)
    staging = Path(lake.root) / LOG / "staging"
    lake.sweep("mine", 1)
    assert {path.name for path in (staging / "mine").iterdir()} == {"2"}
    lake.sweep("mine")  # another run may be writing the files of batch 2
    assert {path.name for path in (staging / "mine").iterdir()} == {"2"}
    lake.publish("mine", 2, [Range("orders", 0, 0, 10)], [])
    lake.sweep("mine")
    assert list((staging / "mine").iterdir()) == []
    lake.remove_staged("mine")
    assert {path.name for path in staging.iterdir()} == {"other"}
    lake.sweep("never-was")


def test_a_batch_whose_files_another_run_has_removed_is_not_decided(lake: Lake) -> None:
    files = stage(lake, records(range(10)), batch=5)
    lake.sweep("q", 5)
    with pytest.raises(PipelineError, match="another run with the same checkpoint"):
        lake.publish("q", 5, [Range("orders", 0, 0, 10)], files)
    again = Lake(lake.root)
    again.prepare()
    assert not again.is_published("q", 5)
    again.publish("q", 5, [Range("orders", 0, 0, 10)], stage(again, records(range(10)), batch=5))
    assert again.dataset().count_rows() == 10


def test_a_second_run_of_a_checkpoint_leaves_the_files_of_the_first(lake: Lake) -> None:
    files = stage(lake, records(range(10)), batch=5)
    second = Lake(lake.root)
    second.prepare()
    second.sweep("q")  # as a run begins
    lake.publish("q", 5, [Range("orders", 0, 0, 10)], files)
    assert lake.dataset().count_rows() == 10


def test_gaps_between_ranges_and_offsets_read_twice_are_found(lake: Lake) -> None:
    for batch, (start, end) in enumerate([(5, 10), (10, 20), (25, 30), (28, 40)]):
        # As an earlier version has written it: publish() refuses offsets that are there.
        manifest = Manifest("q", batch, batch, (Range("orders", 1, start, end),), ())
        lake.write(f"{LOG}/manifests/{manifest_name('q', batch)}", asdict(manifest))
    assert lake.gaps() == [Gap("orders", 1, 20, 25, "missing"), Gap("orders", 1, 28, 30, "twice")]
    assert lake.ends() == {("orders", 1): 40}


def test_skipped_offsets_are_listed_as_skipped_gaps(lake: Lake) -> None:
    lake.publish("q", 0, [Range("orders", 1, 5, 10)], [], [Skipped("orders", 1, 10, 15, "gone")])
    lake.publish("q", 1, [Range("orders", 1, 15, 20)], [])
    again = Lake(lake.root)
    assert again.gaps() == [Gap("orders", 1, 10, 15, "skipped")]
    assert again.ends() == {("orders", 1): 20}
    assert [each.skipped_offsets for each in again.manifests()] == [5, 0]
    assert again.manifests()[0].skipped[0].reason == "gone"


def test_manifest_without_skipped_offsets_is_read(lake: Lake) -> None:
    lake.publish("q", 0, [Range("orders", 0, 0, 10)], [])
    path = Path(lake.root) / LOG / "manifests" / "q-0000000000.json"
    content = json.loads(path.read_text())
    del content["skipped"]
    path.write_text(json.dumps(content))
    assert Lake(lake.root).ends() == {("orders", 0): 10}


def test_manifest_that_names_a_file_elsewhere_is_refused(lake: Lake) -> None:
    lake.publish("q", 0, [Range("orders", 0, 0, 10)], stage(lake, records(range(10))))
    path = Path(lake.root) / LOG / "manifests" / "q-0000000000.json"
    content = json.loads(path.read_text())
    content["files"][0]["path"] = "topic=orders/date=2024-10-04/../../../secret.parquet"
    path.write_text(json.dumps(content))
    with pytest.raises(PipelineError, match="isn't where files of the lake are"):
        Lake(lake.root).files()


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"query": "q", "batch": 0}', "\x00"])
def test_damaged_manifest_is_reported(lake: Lake, content: str) -> None:
    (Path(lake.root) / LOG / "manifests" / "q-0000000000.json").write_text(content)
    with pytest.raises(PipelineError, match=r"q-0000000000\.json is damaged"):
        lake.files()


def test_lake_of_another_layout_is_left_alone(lake: Lake) -> None:
    (Path(lake.root) / LOG / "lake.json").write_text('{"layout": 99}')
    with pytest.raises(PipelineError, match="layout 99"):
        Lake(lake.root).prepare()


def test_files_are_chosen_by_topic_and_date(lake: Lake) -> None:
    files = stage(
        lake, records(range(20), [NOON_MS + offset // 10 * DAY_MS for offset in range(20)])
    )
    lake.publish("q", 0, [Range("orders", 0, 0, 20)], files)
    assert [each.date for each in lake.files("orders")] == ["2024-10-04", "2024-10-05"]
    assert [each.records for each in lake.files(dates=["2024-10-05"])] == [10]
    assert lake.files("bills") == []
    assert lake.paths() == [f"{lake.root}/{each.path}" for each in files]


def test_a_lake_can_be_sent_to_a_worker(lake: Lake) -> None:
    lake.publish("q", 0, [Range("orders", 0, 0, 10)], stage(lake, records(range(10))))
    found = pickle.loads(pickle.dumps(lake))
    assert found.files() == lake.files()


@pytest.mark.parametrize("name", ["lake", "my lake", "ü", "100%20"])
def test_default_checkpoint_is_in_the_folder_of_the_lake(tmp_path: Path, name: str) -> None:
    """Spark decodes no part of its name, and our files are beside it."""
    lake = Lake(tmp_path / name)
    checkpoint = lake.default_checkpoint()
    assert checkpoint.removeprefix("file:") == f"{tmp_path / name}/{LOG}/checkpoints/archive"
    assert Folder(checkpoint).root == f"{lake.root}/{LOG}/checkpoints/archive"


def test_a_lake_on_another_file_system(tmp_path: Path) -> None:
    """Any file system that isn't local: fsync and atomic renames aren't used there."""
    fs = pa.fs.SubTreeFileSystem(str(tmp_path), pa.fs.LocalFileSystem())
    lake = Lake("far/away", filesystem=fs)
    assert not lake.is_local
    lake.prepare()
    lake.publish("q", 0, [Range("orders", 0, 0, 10)], stage(lake, records(range(10))))
    lake.sweep("q")
    lake.prepare()
    assert lake.dataset().count_rows() == 10
    assert not list((tmp_path / "far/away" / LOG / "staging/q").iterdir())


# --- files ---


def test_records_are_split_by_the_date_of_their_timestamp() -> None:
    stamps = [0, DAY_MS - 1, DAY_MS, -1, None, 5, 10**13, 9 * 10**15]
    found = {date: part.column(1).to_pylist() for date, part in by_date(records(range(8), stamps))}
    assert found == {
        "1970-01-01": [0, 1, 5],
        "1970-01-02": [2],
        NO_DATE: [3, 4, 7],
        "2286-11-20": [6],
    }
    assert list(by_date(records(range(0)))) == []


def test_row_groups_and_files_respect_their_limits(lake: Lake) -> None:
    batches = [records(range(start, start + 100)) for start in range(0, 1000, 100)]
    [file] = stage(lake, *batches, row_group_rows=250)
    found = pq.ParquetFile(f"{lake.root}/{file.staged}")
    assert [
        found.metadata.row_group(number).num_rows for number in range(found.num_row_groups)
    ] == [200] * 5
    assert file.row_groups == 5
    [file] = stage(lake, records(range(1000)), row_group_rows=400)
    found = pq.ParquetFile(f"{lake.root}/{file.staged}")
    assert [
        found.metadata.row_group(number).num_rows for number in range(found.num_row_groups)
    ] == [400, 400, 200]
    files = stage(lake, *batches, row_group_rows=100, file_bytes=1)
    assert [(each.first_offset, each.last_offset, each.records) for each in files] == [
        (start, start + 99, 100) for start in range(0, 1000, 100)
    ]
    assert [file.row_groups for file in stage(lake, *batches, row_group_bytes=1)] == [10]


def test_timestamps_all_over_the_calendar_open_few_files(lake: Lake) -> None:
    stamps = [NOON_MS + offset % 50 * DAY_MS for offset in range(200)]
    files = stage(
        lake,
        *(
            records(range(start, start + 20), stamps[start : start + 20])
            for start in range(0, 200, 20)
        ),
    )
    assert sum(each.records for each in files) == 200
    assert len({each.path for each in files}) == len(files)
    lake.publish("q", 0, [Range("orders", 0, 0, 200)], files)
    assert sorted(lake.dataset().to_table()["offset"].to_pylist()) == list(range(200))


@pytest.mark.parametrize("compression", ["zstd", "snappy", "lz4", "gzip", "none"])
def test_compressions(lake: Lake, compression: str) -> None:
    [file] = stage(lake, records(range(50)), compression=compression, level=3)  # type: ignore[arg-type]
    assert pq.read_table(f"{lake.root}/{file.staged}").num_rows == 50
    with pytest.raises(ValueError, match="compression 'zip'"):
        ParquetSettings("zip")
    with pytest.raises(ValueError, match="row_group_rows is 0"):
        ParquetSettings(row_group_rows=0)
