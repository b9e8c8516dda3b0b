"""Compacted manifests of a lake: the same batches, each once, whatever ends or moves meanwhile."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_native.spark.folder import Folder
from kafka_native.spark.pipelines import compacted_manifests, manifest_log
from kafka_native.spark.pipelines.compacted_manifests import SUMMARY
from kafka_native.spark.pipelines.lake import Lake
from kafka_native.spark.pipelines.manifest_log import COMPACTED, MANIFESTS
from kafka_native.spark.pipelines.manifests import Range, Skipped, partition_folder
from kafka_native.spark.pipelines.session import PipelineError
from tests.spark.lakes import records, stage


class KilledError(Exception):
    """The process ends here."""


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path / "lake")
    lake.prepare()
    return lake


def publish(lake: Lake, numbers: range, query: str = "q") -> None:
    """Publish batches of 10 offsets. Some have files, some skip offsets, and one is empty."""
    for batch in numbers:
        start = 10 * batch
        ranges = [Range("orders", batch % 3, start, start + 10)]
        skipped = [Skipped("orders", 1, start, start + 3, "gone")] if batch % 4 == 3 else []
        offsets = range(start, start + 10)
        files = stage(lake, records(offsets), query=query, batch=batch) if batch % 5 == 0 else []
        lake.publish(
            query, batch, [] if batch == 7 else ranges, files, skipped, {"orders": f"id-{batch}"}
        )


def seen(lake: Lake) -> list[Any]:
    """Return everything that a reader can ask for."""
    manifests = [
        (*each.key, each.planned, each.files, dict(each.topic_ids)) for each in lake.manifests()
    ]
    batches = {(query, batch) for query in ("q", "other") for batch in range(100)}
    published = sorted(each for each in batches if lake.is_published(*each))
    return [manifests, published, lake.files(), lake.ends(), lake.topic_ids(), lake.gaps()]


def names(lake: Lake, folder: str) -> set[str]:
    return {each.name for each in (Path(lake.root) / folder).glob("*")}


def test_compacted_manifests_are_the_same_batches(lake: Lake) -> None:
    publish(lake, range(20))
    before = seen(lake)
    assert lake.compact(21) == 0
    assert seen(lake) == before
    assert lake.compact(20) == 20
    assert names(lake, MANIFESTS) == set()
    assert len(names(lake, COMPACTED)) == 1
    for reader in (lake, Lake(lake.root)):
        assert seen(reader) == before
    publish(lake, range(20, 23))
    assert [each.batch for each in Lake(lake.root).manifests()] == list(range(23))
    with pytest.raises(PipelineError, match="published already"):
        lake.publish("q", 5, [Range("orders", 0, 0, 10)], [])


def test_nothing_is_chosen_from_compacted_manifests(lake: Lake) -> None:
    publish(lake, range(20))
    lake.compact(1)
    assert lake.files(topics=[]) == lake.files(dates=[]) == []
    assert lake.archived({}) == {}
    assert lake.archived({("orders", 0): 50, ("bills", 7): 5}) == {
        ("orders", 0): [(0, 10), (30, 40)],
        ("bills", 7): [],
    }


def test_archived_offsets_are_known_without_reading_the_entries(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(lake, range(20))
    ends, topic_ids = lake.ends(), lake.topic_ids()
    lake.compact(1)
    monkeypatch.delattr(compacted_manifests, "read_rows")
    started = Lake(lake.root)
    started.prepare()
    assert (started.ends(), started.topic_ids()) == (ends, topic_ids)
    assert started.is_published("q", 7)
    assert not started.is_published("q", 20)


@pytest.mark.parametrize("merges", [False, True])
def test_process_may_end_at_any_step_of_a_compaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, merges: bool
) -> None:
    monkeypatch.setattr(manifest_log, "FILES_MAX", 3)
    left = 0

    def dies(method: Any) -> Any:
        def call(self: Folder, path: str, *arguments: Any) -> Any:
            nonlocal left
            if path.startswith((MANIFESTS, COMPACTED)):
                left -= 1
                if left < 0:
                    raise KilledError
            return method(self, path, *arguments)

        return call

    for steps in range(30):
        lake = Lake(tmp_path / str(steps))
        lake.prepare()
        for first in (0, 2) if merges else ():
            publish(lake, range(first, first + 2))
            lake.compact(1)
        publish(lake, range(4, 7))
        before = seen(lake)
        left = steps
        with monkeypatch.context() as patched:
            patched.setattr(Folder, "write_bytes", dies(Folder.write_bytes))
            patched.setattr(Folder, "delete", dies(Folder.delete))
            try:
                lake.compact(1)
                ended = True
            except KilledError:
                ended = False
        assert seen(Lake(lake.root)) == before
        restarted = Lake(lake.root)
        restarted.compact(1)
        assert seen(restarted) == before
        assert names(lake, MANIFESTS) == set()
        if ended:
            break
    assert steps == (1 + 3 + 1 + 3 if merges else 1 + 3)


def test_files_of_a_level_are_merged(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_log, "FILES_MAX", 2)
    for first in range(0, 28, 2):
        publish(lake, range(first, first + 2))
        lake.compact(1)
    levels = sorted(name.partition("-")[0] for name in names(lake, COMPACTED))
    assert levels == ["1", "2", "3"]  # 14 files are 8 + 4 + 2
    assert [each.batch for each in Lake(lake.root).manifests()] == list(range(28))
    assert Lake(lake.root).compact(1) == 0


@pytest.mark.parametrize("at", [MANIFESTS, COMPACTED])
def test_reader_sees_each_batch_while_another_process_compacts(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    """The other process compacts after the reader has listed a folder."""
    monkeypatch.setattr(manifest_log, "FILES_MAX", 2)
    publish(lake, range(10))
    lake.compact(1)
    publish(lake, range(10, 20))
    before = seen(lake)
    listed = Folder.names
    compacted = False

    def then_compacts(self: Folder, path: str = "", suffix: str = ".json") -> set[str]:
        nonlocal compacted
        found = listed(self, path, suffix)
        if path == at and not compacted:
            compacted = True
            Lake(lake.root).compact(1)
        return found

    for ask in range(len(before)):
        reader = Lake(lake.root)
        compacted = False
        publish(lake, range(20 + ask, 21 + ask))
        expected = seen(lake)
        monkeypatch.setattr(Folder, "names", then_compacts)
        assert seen(reader) == expected
        assert compacted
        monkeypatch.setattr(Folder, "names", listed)


def test_two_processes_may_compact_the_same_manifests(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files have some batches in common. These count once."""
    monkeypatch.setattr(manifest_log, "FILES_MAX", 3)
    publish(lake, range(6))
    first, second = Lake(lake.root), Lake(lake.root)
    with monkeypatch.context() as patched:
        patched.setattr(Folder, "delete", lambda self, path: None)
        first.compact(1)
        for name in names(lake, COMPACTED):
            (Path(lake.root) / COMPACTED / name).rename(Path(lake.root) / name)
        for batch in range(3):
            (Path(lake.root) / MANIFESTS / f"q-{batch:010d}.json").unlink()
        publish(lake, range(6, 9))
        second.compact(1)
        for path in Path(lake.root).glob("*.parquet"):
            path.rename(Path(lake.root) / COMPACTED / path.name)
    assert len(names(lake, COMPACTED)) == 2
    expected = [each.batch for each in Lake(lake.root).manifests()]
    assert expected == list(range(9))
    assert not [each for each in Lake(lake.root).gaps() if each.kind == "twice"]
    publish(lake, range(9, 10))
    merging = Lake(lake.root)
    merging.compact(1)
    assert [name[0] for name in names(lake, COMPACTED)] == ["1"]
    assert [each.batch for each in Lake(lake.root).manifests()] == list(range(10))


@pytest.mark.parametrize("damage", ["cut", "empty", "other", "summary"])
def test_damaged_compacted_file_is_an_error(lake: Lake, damage: str) -> None:
    publish(lake, range(5))
    lake.compact(1)
    [path] = (Path(lake.root) / COMPACTED).iterdir()
    data = path.read_bytes()
    if damage in ("cut", "empty"):
        path.write_bytes(data[:-9] if damage == "cut" else b"")
    elif damage == "other":
        pq.write_table(pa.table({"a": [1]}), path)
    else:
        pq.write_table(pq.read_table(path).replace_schema_metadata({SUMMARY: b"{}"}), path)
    with pytest.raises(PipelineError, match=rf"{path.name} is damaged"):
        Lake(lake.root).ends()
    with pytest.raises(PipelineError, match=rf"{path.name} is damaged"):
        Lake(lake.root).files()


def test_compacted_file_cannot_name_a_file_outside_the_lake(lake: Lake) -> None:
    publish(lake, range(1))
    lake.compact(1)
    [path] = (Path(lake.root) / COMPACTED).iterdir()
    inside = partition_folder("orders", lake.files()[0].date).encode()
    with path.open("rb") as file:
        table = compacted_manifests.read_rows(file, path.name)
    rows = table.to_pylist()
    for row in rows:
        if row["kind"] == "file":
            row["text"] = row["text"].replace(inside.decode(), inside.decode() + "/../..")
    moved = table.from_pylist(rows, compacted_manifests.SCHEMA)
    path.write_bytes(compacted_manifests.pack(moved, 0))
    with pytest.raises(PipelineError, match="isn't where files of the lake are"):
        Lake(lake.root).files()


def test_random_compactions_change_nothing(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_log, "FILES_MAX", 2)
    chance = random.Random(7)
    drivers = [Lake(lake.root) for _ in range(3)]
    for batch in range(40):
        publish(chance.choice(drivers), range(batch, batch + 1), chance.choice(["q", "other"]))
        if chance.random() < 0.4:
            chance.choice(drivers).compact(chance.choice([1, 3]))
    for driver in [*drivers, Lake(lake.root)]:
        # Batches of two queries may be published in the same millisecond.
        assert sorted(each.batch for each in driver.manifests()) == list(range(40))
        assert seen(driver) == seen(drivers[0])


def test_lake_of_the_layout_before_is_read_and_renewed(lake: Lake) -> None:
    publish(lake, range(3))
    lake.write("_kafka_native/lake.json", {"layout": 1, "made_by": "kafka_native"})
    again = Lake(lake.root)
    again.prepare()
    assert again.content("_kafka_native/lake.json")["layout"] == 3
    assert [each.batch for each in again.manifests()] == [0, 1, 2]
