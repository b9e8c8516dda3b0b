"""The names of folders: no login of a URI is shown."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from kafka_native.spark import dead_letters
from kafka_native.spark.commands import cli
from kafka_native.spark.errors import OptionError
from kafka_native.spark.folder import Folder, shortened
from kafka_native.spark.options import DeadLetterTarget
from kafka_native.spark.pipelines import DeltaTarget, Lake, PipelineError, archive, table_target
from kafka_native.spark.pipelines.archive import ArchiveResult

URI = "s3://AK:canary@bucket/path?region=eu-west-1"
UNKNOWN = "nosuch://AK:canary@bucket/path"


def test_long_names_fit_into_the_names_of_files() -> None:
    assert shortened("x" * 100, 100) == "x" * 100
    names = {shortened(name, 100) for name in ("x" * 249, "x" * 248 + "y", "x" * 101)}
    assert {len(each) for each in names} == {100}
    assert len(names) == 3
    cut = shortened("ü" * 100, 100)
    assert cut.startswith("ü" * 41 + "~")
    assert len(cut.encode()) == 99


def test_the_name_of_a_folder_has_no_login() -> None:
    folder = Folder(URI)
    assert folder.uri == "s3://[redacted]@bucket/path?[redacted]"
    assert folder.root == "bucket/path"
    assert folder.fs.region == "eu-west-1"
    # for other programs, which need it
    assert folder.absolute("a.parquet") == "s3://AK:canary@bucket/path/a.parquet"
    assert Folder("/data/a@b:c?d").uri == "/data/a@b:c?d"


@pytest.mark.parametrize("uri", [UNKNOWN, "s3://AK:canary@b p/x", "s3n://AK:can/ary@b/p"])
def test_a_uri_that_is_wrong_is_named_without_its_login(uri: str) -> None:
    with pytest.raises(ValueError, match="URI") as caught:
        Folder(uri)
    assert "ary" not in str(caught.value)


def test_no_error_and_no_result_of_a_pipeline_shows_a_login() -> None:
    with pytest.raises(PipelineError, match=r"the lake s3://\[redacted\]@bucket/path") as caught:
        archive({"bootstrap.servers": "localhost:1"}, URI, topics=["t"])
    assert "canary" not in str(caught.value)
    table = DeltaTarget(URI)
    for error in (table.default_checkpoint, table._opened, lambda: table_target(URI)):
        with pytest.raises(PipelineError, match="table") as caught:
            error()
        assert "canary" not in str(caught.value)
    assert "canary" not in str(ArchiveResult(Lake(URI).uri)) + str(ArchiveResult(table.uri))


def test_the_name_of_dead_letters_has_no_login() -> None:
    target = DeadLetterTarget(UNKNOWN)
    assert str(target) == "nosuch://[redacted]@bucket/path"
    assert "canary" not in repr(target)
    with pytest.raises(OptionError, match=r"no folder nosuch://\[redacted\]@bucket") as caught:
        dead_letters.check_place(target, 1, 0, 1)
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(
    "command",
    [
        ["replay", "--dead-letters", UNKNOWN],
        ["replay", "--source", UNKNOWN, "--checkpoint", "x"],
        ["archive", "--topics", "t", "--lake", UNKNOWN],
        ["maintain", "--lake", UNKNOWN],
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_no_command_shows_a_login(command: list[str]) -> None:
    servers = [] if command[0] == "maintain" else ["--bootstrap", "localhost:1"]
    done = CliRunner().invoke(cli, [*command, *servers, "--dry-run"])
    assert done.exit_code
    assert "canary" not in done.output


def test_summaries_show_no_secret(tmp_path: Path) -> None:
    uri = f"{tmp_path.as_uri()}?token=canary"
    letters = CliRunner().invoke(cli, ["replay", "--dead-letters", uri, "--dry-run"])
    pq.write_table(pa.table({"value": ["v"]}), tmp_path / "a.parquet")
    checkpoint = str(tmp_path / "checkpoint")
    options = ["--source", uri, "--checkpoint", checkpoint, "--topic", "t", "--dry-run"]
    files = CliRunner().invoke(cli, ["replay", *options])
    for done in (letters, files):
        assert done.exit_code == 0, done.output
        assert "nothing was produced" in done.output
        assert "canary" not in done.output
