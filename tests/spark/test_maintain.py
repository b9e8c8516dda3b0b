"""``maintain``: files are merged and manifests compacted, and the records stay the same."""

from __future__ import annotations

import importlib
import os
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from kafka_native.spark.commands.maintain import command
from kafka_native.spark.folder import Folder
from kafka_native.spark.pipelines.lake import Lake
from kafka_native.spark.pipelines.lanes import lanes_of, read_lane
from kafka_native.spark.pipelines.maintain import Merge, maintain, plan_merges
from kafka_native.spark.pipelines.manifest_log import COMPACTED
from kafka_native.spark.pipelines.manifests import LOG, Range
from kafka_native.spark.pipelines.parquet import ParquetSettings
from kafka_native.spark.pipelines.session import PipelineError, now_ms
from tests.spark.lakes import DAY_MS, NOON_MS, records, stage
from tests.spark.test_manifest_log import KilledError

# The package has the function of this name.
maintain_module = importlib.import_module("kafka_native.spark.pipelines.maintain")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path / "lake")
    lake.prepare()
    return lake


def publish(lake: Lake, *batches: int, day: int = 0, partitions: int = 2) -> None:
    """Publish batches of 10 records in each partition."""
    for batch in batches:
        offsets = range(10 * batch, 10 * batch + 10)
        stamps: list[int | None] = [NOON_MS + day * DAY_MS + offset for offset in offsets]
        files = [
            each
            for number in range(partitions)
            for each in stage(lake, records(offsets, stamps, number), batch=batch)
        ]
        ranges = [
            Range("orders", number, offsets.start, offsets.stop) for number in range(partitions)
        ]
        lake.publish("q", batch, ranges, files)


def content(lake: Lake) -> list[dict[str, Any]]:
    order = [("partition", "ascending"), ("offset", "ascending")]
    return list(lake.dataset().to_table().sort_by(order).to_pylist())


def listed(lake: Lake) -> set[str]:
    """Return the files that a listing of the folders shows."""
    root = Path(lake.root)
    return {str(path.relative_to(root)) for path in root.glob("topic=*/**/*.parquet")}


def test_small_files_of_a_date_become_one_a_partition(lake: Lake) -> None:
    publish(lake, 0, 1, 2)
    publish(lake, 3, 4, day=1)
    before, ends = content(lake), lake.ends()
    result = maintain(lake)
    assert (result.merged, result.made, result.records) == (10, 4, 100)
    assert (result.deleted, result.manifests) == (10, 9)
    for reader in (lake, Lake(lake.root)):
        assert content(reader) == before
        assert [(each.first_offset, each.last_offset) for each in reader.files()] == [
            (0, 29),
            (30, 49),
        ] * 2
        assert (reader.ends(), reader.gaps()) == (ends, [])
        assert listed(reader) == {each.path for each in reader.files()}
    again = maintain(lake)
    assert (again.merged, again.deleted, again.manifests) == (0, 0, 0)


def test_merged_lake_goes_on_and_is_replayed(lake: Lake) -> None:
    publish(lake, 0, 1)
    maintain(lake)
    publish(lake, 2, 3)
    assert lake.is_published("q", 1)
    maintain(lake)
    assert len(lake.files()) == 2
    lanes = lanes_of(lake.root)
    offsets = [
        offset
        for lane in lanes
        for _, batch in read_lane(Folder(lake.root), lane)
        for offset in batch["offset"].to_pylist()
    ]
    assert offsets == list(range(40)) * 2


def test_replaced_files_stay_for_a_while_if_wanted(lake: Lake) -> None:
    publish(lake, 0, 1)
    before, paths = content(lake), lake.paths()
    assert maintain(lake, keep_s=3600).deleted == 0
    assert all(Path(path).exists() for path in paths)
    assert content(lake) == before
    assert maintain(lake).deleted == 4
    assert not any(Path(path).exists() for path in paths)
    assert content(lake) == before


def test_large_files_overlaps_and_todays_files_stay(lake: Lake) -> None:
    publish(lake, 0, 1)
    size = max(each.bytes for each in lake.files())
    assert plan_merges(lake, file_bytes=size) == []
    assert len(plan_merges(lake, file_bytes=2 * size + 2)) == 2
    assert plan_merges(lake, before="2024-10-04") == []
    today = datetime.now(timezone.utc).timestamp() * 1000 - NOON_MS
    publish(lake, 2, 3, day=int(today // DAY_MS) + 1)
    assert [len(each.files) for each in plan_merges(lake)] == [2, 2]
    lake.publish("twice", 0, [], stage(lake, records(range(15, 25)), query="twice"))
    assert [len(each.files) for each in plan_merges(lake)] == [2, 2]


def test_merged_file_has_about_the_size(lake: Lake) -> None:
    publish(lake, *range(8))
    before = content(lake)
    size = max(each.bytes for each in lake.files())
    maintain(lake, settings=ParquetSettings(file_bytes=3 * size + 2))
    assert [(each.first_offset, each.last_offset) for each in lake.files()] == [
        (0, 29),
        (30, 59),
        (60, 79),
    ] * 2
    assert content(lake) == before


def fails_after(left: list[int], method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that raises `KilledError` after so many calls of all such methods."""

    def call(self: Folder, *arguments: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise KilledError
        return method(self, *arguments)

    return call


def test_process_may_end_at_any_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for steps in range(100):
        lake = Lake(tmp_path / str(steps))
        lake.prepare()
        publish(lake, 0, 1, partitions=1)
        before = content(lake)
        left = [steps]
        with monkeypatch.context() as patched:
            for name in ("write_bytes", "move", "delete", "remove"):
                patched.setattr(Folder, name, fails_after(left, getattr(Folder, name)))
            try:
                maintain(lake)
                break
            except KilledError:
                pass
        restarted = Lake(lake.root)
        assert content(restarted) == before
        maintain(restarted)
        assert content(restarted) == before
        assert len(restarted.files()) == 1
        assert listed(restarted) == {each.path for each in restarted.files()}
        assert restarted.gaps() == []
    assert steps > 6


def test_of_two_merges_of_the_same_files_one_counts(lake: Lake) -> None:
    publish(lake, 0, 1, 2)
    before = content(lake)
    [merge, _] = plan_merges(lake)
    for query, files in (("first", merge.files), ("second", merge.files[1:])):
        offsets = range(files[0].first_offset, files[-1].last_offset + 1)
        made = stage(lake, records(offsets), query=query)
        lake.publish(query, 0, [], made, replaced=[each.path for each in files])
    for _ in range(2):
        assert content(Lake(lake.root)) == before
        lake.compact(1)
    assert maintain(lake).deleted == 3 + 1 + 3
    assert content(lake) == before
    assert listed(lake) == {each.path for each in lake.files()}


def test_damaged_file_stops_the_merge_and_nothing_is_lost(lake: Lake) -> None:
    publish(lake, 0, 1)
    first = lake.files()[0]
    table = pq.read_table(lake.full(first.path))
    pq.write_table(table.slice(0, 9), lake.full(first.path))
    paths = listed(lake)
    with pytest.raises(PipelineError, match=r"has 19 records .* list 20 records .* is damaged"):
        maintain(lake)
    assert listed(lake) == paths
    assert len(lake.files()) == 4


def test_files_with_other_columns_stay(lake: Lake) -> None:
    publish(lake, 0, 1)
    for each in lake.files():
        table = pq.read_table(lake.full(each.path))
        pq.write_table(table.append_column("more", pa.nulls(table.num_rows)), lake.full(each.path))
    assert maintain(lake).merged == 0
    assert len(lake.files()) == 4


def test_old_staging_folders_are_removed(lake: Lake) -> None:
    stage(lake, records(range(10)), query="ended")
    stage(lake, records(range(10)), query="running")
    staging = Path(lake.root) / LOG / "staging"
    for path in [staging / "ended", *(staging / "ended").rglob("*")]:
        os.utime(path, (1, 1))
    assert maintain(lake).staged == 1
    assert [path.name for path in staging.iterdir()] == ["running"]


def test_manifest_cannot_delete_a_file_outside_the_lake(lake: Lake, tmp_path: Path) -> None:
    outside = tmp_path / "mine.parquet"
    outside.write_bytes(b"x")
    publish(lake, 0)
    for path in ("../mine.parquet", "topic=a/date=b/../../../mine.parquet", "topic=a/date=b/x"):
        lake.publish(f"q{len(path)}", 0, [], [], replaced=[path])
        with pytest.raises(PipelineError, match="isn't where files of the lake are"):
            maintain(Lake(lake.root))
        (Path(lake.root) / LOG / "manifests" / f"q{len(path)}-0000000000.json").unlink()
    assert outside.exists()


def test_command(lake: Lake, tmp_path: Path) -> None:
    publish(lake, 0, 1)
    planned = CliRunner().invoke(command, ["--lake", lake.root, "--dry-run"])
    assert "4 files" in planned.output
    assert "would become 2" in planned.output
    assert len(lake.files()) == 4
    done = CliRunner().invoke(command, ["--lake", lake.root])
    assert (done.exit_code, len(lake.files())) == (0, 2)
    assert "4 files, which became 2" in done.output
    other = CliRunner().invoke(command, ["--lake", str(tmp_path / "none")])
    assert other.exit_code != 0
    assert "there is no lake" in other.output + str(other.exception)
    assert CliRunner().invoke(command, ["--lake", lake.root, "--before", "today"]).exit_code == 2


# --- forgetting replaced files ---


def rows_of(lake: Lake) -> Counter[str]:
    """Count the rows of the compacted manifests by their kind."""
    kinds: Counter[str] = Counter()
    for name in lake.names(COMPACTED, ".parquet"):
        kinds.update(pq.read_table(lake.full(f"{COMPACTED}/{name}"))["kind"].to_pylist())
    return kinds


def state_of(lake: Lake) -> list[Any]:
    """Return what readers see of a lake."""
    batches = [lake.is_published("q", number) for number in range(6)]
    return [content(lake), lake.files(), lake.ends(), lake.gaps(), lake.schemas(), batches]


def settle(lake: Lake) -> None:
    """Make all compacted files old."""
    for name in lake.names(COMPACTED, ".parquet"):
        os.utime(lake.full(f"{COMPACTED}/{name}"), (1, 1))


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `maintain` forget files that an earlier run has deleted."""
    monkeypatch.setattr(maintain_module, "FORGET_S", 0.0)


@pytest.mark.usefixtures("forgetful")
def test_replaced_files_are_forgotten_by_later_runs(lake: Lake) -> None:
    publish(lake, *range(4))
    maintain(lake)
    state = state_of(lake)
    assert rows_of(lake) == {"batch": 6, "range": 8, "file": 10, "replaced": 8}
    maintain(lake)
    assert rows_of(lake) == {"batch": 6, "range": 8, "file": 2, "replaced": 8}
    maintain(lake)
    assert rows_of(lake)["replaced"] == 8  # the compacted files are too young
    settle(lake)
    maintain(lake)
    assert rows_of(lake) == {"batch": 6, "range": 8, "file": 2}
    for each in (lake, Lake(lake.root)):
        assert state_of(each) == state
        assert each.replaced() == {}


def test_files_are_forgotten_a_week_after_they_were_deleted(lake: Lake) -> None:
    publish(lake, 0, 1)
    for _ in range(2):
        settle(lake)
        maintain(lake)
        assert rows_of(lake) == {"batch": 4, "range": 4, "file": 6, "replaced": 4}


@pytest.mark.usefixtures("forgetful")
def test_files_that_are_kept_are_not_forgotten(lake: Lake) -> None:
    publish(lake, 0, 1)
    maintain(lake, keep_s=3600)
    settle(lake)
    maintain(lake, keep_s=3600)
    assert (rows_of(lake)["file"], rows_of(lake)["replaced"]) == (6, 4)
    assert maintain(lake).deleted == 4
    maintain(lake)
    assert rows_of(lake)["file"] == 2


@pytest.mark.usefixtures("forgetful")
def test_process_may_end_while_it_forgets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for steps in range(100):
        lake = Lake(tmp_path / str(steps))
        lake.prepare()
        publish(lake, 0, 1, partitions=1)
        maintain(lake)
        publish(lake, 2, partitions=1)
        lake.compact(1)
        state = state_of(lake)
        settle(lake)
        left = [steps]
        with monkeypatch.context() as patched:
            for name in ("write_bytes", "move", "delete", "remove"):
                patched.setattr(Folder, name, fails_after(left, getattr(Folder, name)))
            try:
                lake.forget_replacements(now_ms() + 1)
                lake.forget_files(list(lake.replaced()))
                break
            except KilledError:
                pass
        again = Lake(lake.root)
        assert state_of(again) == state
        for _ in range(2):
            settle(again)
            maintain(again, before="2000-01-01")
        assert state_of(again) == state
        assert (again.replaced(), rows_of(again)["replaced"]) == ({}, 0)
    assert steps > 1


@pytest.mark.usefixtures("forgetful")
def test_rows_that_another_process_writes_again_do_no_harm(lake: Lake) -> None:
    publish(lake, 0, 1)
    lake.compact(1)
    before = {name: lake.read(f"{COMPACTED}/{name}") for name in lake.names(COMPACTED, ".parquet")}
    maintain(lake)
    state = state_of(lake)
    for name, data in before.items():  # as a slow compaction does
        lake.write_bytes(f"{COMPACTED}/{name}", data)
    assert state_of(Lake(lake.root)) == state
    maintain(lake)
    settle(lake)
    maintain(lake)
    assert state_of(Lake(lake.root)) == state
    assert lake.replaced() == {}


@pytest.mark.usefixtures("forgetful")
def test_merges_that_do_not_count_stay_void(lake: Lake) -> None:
    """The second merge replaces one more file, which stays a part of the lake."""
    publish(lake, 0, 1, 2, partitions=1)
    files = lake.files()
    second = Merge(tuple(files[1:]))
    settings = ParquetSettings()
    maintain_module._merge(lake, Merge(tuple(files[:2])), settings, "first", 0)
    maintain_module._merge(lake, second, settings, "second", 0)
    state = state_of(lake)
    assert [each.first_offset for each in lake.files()] == [0, 20]
    for _ in range(3):
        maintain(lake, before="2000-01-01")
        settle(lake)
        assert state_of(Lake(lake.root)) == state
    assert rows_of(lake)["file"] == 2


def test_files_that_another_run_has_merged_and_deleted_meanwhile_do_no_harm(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(lake, 0, 1, 2)
    before = content(lake)
    planned = plan_merges(lake)
    assert maintain(Lake(lake.root)).deleted == 6
    with monkeypatch.context() as patched:
        patched.setattr(maintain_module, "plan_merges", lambda *_, **__: planned)
        assert maintain(lake).merged == 0
    assert content(Lake(lake.root)) == before
    assert not list((Path(lake.root) / LOG / "staging").glob("maintain-*"))


def test_a_missing_file_is_an_error(lake: Lake) -> None:
    publish(lake, 0, 1)
    lake.delete(lake.files()[0].path)
    with pytest.raises(FileNotFoundError):
        maintain(lake)
    assert len(Lake(lake.root).files()) == 4
