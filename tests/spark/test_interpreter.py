"""Spark's Python workers use the installed PySpark, never its zip files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from kafka_native.spark import worker_python

HOME = Path(pyspark.__file__).parent
SCRIPT = (
    "import json, pyspark, sys; print(json.dumps([pyspark.__file__, sys.executable, "
    "sys.argv[1:], sys.path]))"
)


def answer(python: str, *paths: str) -> list[str | list[str]]:
    """Return the output of a process that is started as Spark starts its workers."""
    zips = sorted(map(str, (HOME / "python" / "lib").glob("*.zip")))
    assert len(zips) == 2, "pyspark.zip, and Py4J's"
    drivers = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([*zips, *paths, *drivers])}
    done = subprocess.run(
        [python, "-c", SCRIPT, "a b", "*"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    assert isinstance(found, list)
    return found


def test_installed_pyspark_is_found_and_the_rest_of_the_path_is_kept(tmp_path: Path) -> None:
    folder, archive = tmp_path / "with space [x]*", tmp_path / "users.zip"
    folder.mkdir()
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("theirs.py", "")
    found, executable, arguments, path = answer(worker_python(), str(folder), str(archive))
    assert found == str(HOME / "__init__.py")
    assert executable == sys.executable
    assert arguments == ["a b", "*"]
    assert [each for each in path if str(tmp_path) in each] == [str(folder), str(archive)]


def test_plain_python_finds_the_zip_file() -> None:
    """Without this result the other tests would prove nothing."""
    found, *_ = answer(sys.executable)
    assert found == str(HOME / "python" / "lib" / "pyspark.zip" / "pyspark" / "__init__.py")


def test_another_spark_has_its_own_pyspark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert worker_python.__wrapped__() == sys.executable


def test_pyspark_that_a_worker_would_not_find(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setattr(pyspark, "__file__", str(tmp_path / "pyspark" / "__init__.py"))
    assert worker_python.__wrapped__() == sys.executable
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert worker_python.__wrapped__() != sys.executable


def test_file_is_its_owners_and_gone_when_the_process_ends() -> None:
    program = """
import os, stat
from kafka_native.spark import worker_python
python = worker_python()
for path in python, os.path.dirname(python):
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o700
child = os.fork()
if child == 0:
    raise SystemExit  # runs what is registered for the end
assert os.waitpid(child, 0)[1] == 0 and os.path.exists(python)
print(python)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() != worker_python()
    assert not Path(done.stdout.strip()).parent.exists()


def source_of_paths() -> type[DataSource]:
    """Return a source with one row: the paths of PySpark in the planning process and in the worker.

    The class is defined here so that it is pickled with its code: neither process can import tests.
    """

    class Paths(DataSource, DataSourceReader):
        @classmethod
        def name(cls) -> str:
            return "source_of_paths"

        def schema(self) -> str:
            return "planner string, worker string"

        def reader(self, schema: object) -> DataSourceReader:
            return self

        def partitions(self) -> list[InputPartition]:
            return [InputPartition(pyspark.__file__)]

        def read(self, partition: InputPartition) -> Iterator[tuple[str, str]]:
            yield partition.value, pyspark.__file__

    return Paths


def test_spark_plans_and_runs_with_the_installed_pyspark(spark: SparkSession) -> None:
    spark.dataSource.register(source_of_paths())
    (row,) = spark.read.format("source_of_paths").load().collect()
    assert tuple(row) == (str(HOME / "__init__.py"),) * 2
