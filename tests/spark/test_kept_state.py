"""The state beside a stream's checkpoint, without Spark and without Kafka."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.fs
import pytest

from kafka_native.spark.errors import OptionError, PipelineError
from kafka_native.spark.folder import Folder
from kafka_native.spark.kept_state import FOLDER, KeptState, SkippedOffsets


def begin(checkpoint: Path, query: str = "q-1") -> KeptState:
    """Return the state of a checkpoint as Spark makes it when a query starts."""
    checkpoint.mkdir(exist_ok=True)
    (checkpoint / "metadata").write_text(json.dumps({"id": query}))
    return KeptState(checkpoint)


def test_content_is_read_back_by_the_next_process(tmp_path: Path) -> None:
    state = begin(tmp_path)
    assert state.read("schemas/value") is None
    state.write("schemas/value", {"id": 7, "schema": '"string"'})
    state.write("schemas/value", {"id": 8, "schema": "große"})
    assert KeptState(str(tmp_path)).read("schemas/value") == {"id": 8, "schema": "große"}
    assert KeptState(tmp_path.as_uri()).names("schemas") == ["schemas/value"]
    assert sorted(each.name for each in tmp_path.iterdir()) == [FOLDER, "metadata"]


def test_hadoop_spelling_of_a_local_path_is_the_same_folder(tmp_path: Path) -> None:
    begin(tmp_path).write("a", {"x": 1})
    assert KeptState(f"file:{tmp_path}").read("a") == {"x": 1}


def test_other_file_systems_hold_the_state_too(tmp_path: Path) -> None:
    begin(tmp_path)
    remote = pyarrow.fs.SubTreeFileSystem(str(tmp_path.parent), pyarrow.fs.LocalFileSystem())
    state = KeptState(tmp_path.name, filesystem=remote)
    state.write("topics/a", {"x": 1})
    assert KeptState(tmp_path).read("topics/a") == {"x": 1}


def test_new_checkpoint_in_the_same_folder_does_not_see_the_old_state(tmp_path: Path) -> None:
    begin(tmp_path).write("a", {"x": 1})
    state = begin(tmp_path, "q-2")
    assert state.read("a") is None
    state.write("a", {"x": 2})
    assert state.read("a") == {"x": 2}


def test_folder_that_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"checkpointLocation: .* isn't the checkpoint"):
        KeptState(tmp_path).write("a", {})
    assert list(tmp_path.iterdir()) == []


def test_damaged_file_is_an_error(tmp_path: Path) -> None:
    state = begin(tmp_path)
    state.write("a", {})
    (tmp_path / FOLDER / "a.json").write_text('{"half')
    with pytest.raises(PipelineError, match=r"kafka_native/a\.json is damaged"):
        state.read("a")


def test_skipped_offsets_are_recorded_once_and_sorted(tmp_path: Path) -> None:
    state = begin(tmp_path)
    late = SkippedOffsets("t" * 249, 1, 50, None, "the topic was deleted", 2000)
    early = SkippedOffsets("orders", 0, 0, 10, "retention", 1000, "id-1")
    state.add_skipped(late)
    state.add_skipped(early)
    state.add_skipped(SkippedOffsets("orders", 0, 0, 10, "retention, found again", 9000, "id-1"))
    assert KeptState(tmp_path).skipped() == [early, late]


@pytest.mark.parametrize("scheme", ["s3a", "s3n", "S3A"])
def test_s3_schemes_of_hadoop_mean_s3(scheme: str) -> None:
    uri = f"{scheme}://bucket/lake?region=eu-north-1"
    folder = Folder(uri)
    assert isinstance(folder.fs, pyarrow.fs.S3FileSystem)
    assert folder.root == "bucket/lake"
    # Spark needs its own spelling
    assert folder.absolute("x") == f"{scheme}://bucket/lake/x"
