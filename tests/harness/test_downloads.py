"""Tests use only downloads whose hashes are in the table."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import downloads
from tests.broker import cluster, java, old_kafka
from tests.broker.matrix import brokers
from tests.codecs import java_avro
from tests.compat.programs import PROGRAMS
from tests.mock import apicurio
from tests.packaging.requirements import WITNESSES, read
from tests.spark import jvm, spark_tables, versions
from tests.tidy import tree
from tests.waiting import PROGRAM_S

ALL_JARS = [
    java.STREAMS_JARS,
    apicurio.JARS,
    java_avro.JARS,
    *jvm.JARS,
    spark_tables.JARS,
    *map(brokers.jars_of, brokers.RELEASES),
]
WANTED = downloads.JarSet("kafka-x", Path("pom.xml"), "copy")
COMMANDS = "mvn|pip|cargo|npm|curl|wget"
FETCHES = re.compile(
    rf"""["'](?:{COMMANDS})["']\s*[,\]]|urlopen\(|urlretrieve\(|spark\.jars\.packages"""
)
MAY_FETCH = {
    "tests/downloads.py": "where the hashes are checked",
    "tests/packaging/test_wheel.py": "installs what a user would get",
}
VERSION = re.compile(r"<version>([^<]*)</version>")
VARIABLES = ("${kafka}", "${spark}")
EXACT = re.compile(r"[0-9]+(?:\.[0-9]+)*(?:\.Final)?")
SHA256 = re.compile(r"[0-9a-f]{64}")


@pytest.fixture
def fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield a folder of two jars that was fetched earlier. The table has their hashes."""
    folder = tmp_path / WANTED.name / "libs"
    folder.mkdir(parents=True)
    for name in ("a.jar", "b.jar"):
        (folder / name).write_bytes(name.encode() * 1000)
    table = tmp_path / "table.sha256"
    table.touch()
    monkeypatch.setattr(downloads, "BUILD", tmp_path)
    monkeypatch.setattr(downloads, "TABLE", table)
    downloads.write_table({WANTED.name: folder})
    yield folder
    downloads.jars.cache_clear()


def test_jars_with_the_right_hashes_are_used(fetched: Path) -> None:
    assert downloads.jars(WANTED) == fetched


@pytest.mark.parametrize("damage", ["changed", "added", "removed"])
def test_a_damaged_jar_is_refused_and_kept(fetched: Path, damage: str) -> None:
    right = downloads.sha256(fetched / "a.jar")
    if damage == "changed":
        with (fetched / "a.jar").open("r+b") as file:
            file.write(b"A")
        name, expected, found = "a.jar", right, downloads.sha256(fetched / "a.jar")
    elif damage == "added":
        shutil.copy(fetched / "a.jar", fetched / "c.jar")
        name, expected, found = "c.jar", "no such file", right
    else:
        (fetched / "a.jar").unlink()
        name, expected, found = "a.jar", right, "no such file"
    before = sorted(fetched.iterdir())
    for _ in range(2):  # the refusal isn't forgotten
        with pytest.raises(
            downloads.WrongDownload, match=f"  {name}: expected {expected}, found {found}\n"
        ) as caught:
            downloads.jars(WANTED)
        assert str(fetched) in str(caught.value)
        assert "b.jar" not in str(caught.value)
    assert sorted(fetched.iterdir()) == before


def test_jars_that_arrive_damaged_are_refused(
    fetched: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(fetched)
    programs = tmp_path / "bin"
    programs.mkdir()
    maven = programs / "mvn"
    maven.write_text(
        '#!/bin/sh\necho "$@" >> "$0.calls"\n'
        "for one; do case $one in -DoutputDirectory=*) into=${one#*=} ;; esac; done\n"
        'mkdir -p "$into" && echo other > "$into/a.jar" && echo other > "$into/b.jar"\n'
    )
    maven.chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=":")
    with pytest.raises(downloads.WrongDownload, match=r"a\.jar: expected .*\n  b\.jar: expected "):
        downloads.jars(WANTED)
    called = (programs / "mvn.calls").read_text()
    assert "--strict-checksums" in called
    assert re.search(r"maven-dependency-plugin:[0-9.]+:copy ", called)


def test_a_set_without_hashes_is_refused(fetched: Path) -> None:
    downloads.TABLE.write_text("")
    with pytest.raises(
        downloads.WrongDownload, match=r"has no hashes for .*: 'make write-hashes' writes them"
    ):
        downloads.jars(WANTED)


def test_writing_hashes_keeps_those_of_pip(fetched: Path) -> None:
    line = f"{'0' * 64}  pip-x/x==1\n"
    downloads.TABLE.write_text(line)
    downloads.write_table({WANTED.name: fetched})
    assert line in downloads.TABLE.read_text()
    assert set(downloads.read_table()) == {"pip-x", WANTED.name}


def test_pip_refuses_another_file(
    fetched: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    wheel = tmp_path / "x-1-py3-none-any.whl"
    wheel.write_bytes(b"not what was released")
    downloads.TABLE.write_text(f"{'0' * 64}  pip-x/x @ {wheel.as_uri()}\n")
    with pytest.raises(subprocess.CalledProcessError):
        downloads.pip_install("pip-x", tmp_path / "installed", PROGRAM_S)
    said = capfd.readouterr().err
    assert f"Expected sha256 {'0' * 64}" in said
    assert downloads.sha256(wheel) in said


def test_the_matrix_has_the_release_of_the_other_tests_and_the_old_ones() -> None:
    assert brokers.RELEASES[-1] == java.KAFKA_VERSION
    assert set(old_kafka.VERSIONS) < set(brokers.RELEASES)
    assert java.JARS in ALL_JARS


def test_every_set_has_hashes() -> None:
    table = downloads.read_table()
    jars = {one.name for one in ALL_JARS}
    sparks = {f"pip-pyspark-{version}" for version in versions.VERSIONS}
    programs = {program.packages for program in PROGRAMS}
    sources = {program.sources for program in PROGRAMS if program.tests}
    assert set(table) == jars | sparks | programs | sources
    assert all(SHA256.fullmatch(digest) for files in table.values() for digest in files.values())
    for version in versions.VERSIONS:
        assert f"pyspark=={version}" in table[f"pip-pyspark-{version}"]
    for program in PROGRAMS:
        wanted = f"{program.name}=={program.version}"
        assert wanted in table[program.packages]
        assert not program.tests or [*table[program.sources]] == [wanted]


@pytest.mark.parametrize("pom", sorted({one.pom for one in ALL_JARS}), ids=lambda pom: pom.name)
def test_poms_name_exact_versions(pom: Path) -> None:
    found = VERSION.findall(pom.read_text())
    assert len(found) >= 2
    assert [one for one in found if not EXACT.fullmatch(one) and one not in VARIABLES] == []


def test_all_poms_are_checked_sets() -> None:
    assert {tree.ROOT / path for path in tree.files() if path.name.endswith("pom.xml")} == {
        one.pom for one in ALL_JARS
    }


def test_the_image_is_named_by_its_digest() -> None:
    assert re.fullmatch(rf"apache/kafka:{java.KAFKA_VERSION}@sha256:[0-9a-f]{{64}}", cluster.IMAGE)


def test_go_modules_have_checksums() -> None:
    modules = [path for path in tree.files() if path.name == "go.mod"]
    assert modules
    for path in modules:
        sums = tree.text_of(path.with_name("go.sum"))
        required = re.findall(r"^(?:require)?\s+(\S+) (v\S+)", tree.text_of(path), re.M)
        assert len(required) > 1
        assert [
            f"{name} {version}" for name, version in required if f"{name} {version} h1:" not in sums
        ] == []


def test_rust_crates_have_checksums() -> None:
    crates = [path for path in tree.files() if path.name == "Cargo.toml"]
    assert crates
    for path in crates:
        packages = tree.text_of(path.with_name("Cargo.lock")).split("[[package]]")[1:]
        fetched = [text for text in packages if "\nsource = " in text]
        assert len(fetched) > 1
        assert [
            text for text in fetched if not re.search(r'^checksum = "\w{64}"$', text, re.M)
        ] == []


def test_no_other_kind_of_download_is_declared() -> None:
    unchecked = ("package.json", "requirements.txt")
    assert [path for path in tree.files() if path.name in unchecked] == []


def test_other_clients_have_exact_versions() -> None:
    pinned = {one.name: one for one in read() if one.where == "test" and one.is_exact}
    assert sorted(name for name in WITNESSES if name not in pinned) == []


def test_nothing_else_fetches() -> None:
    found = [
        str(path)
        for path in tree.sources(".py")
        if path.parts[0] in ("tests", "bench", "examples") and FETCHES.search(tree.text_of(path))
    ]
    assert sorted(found) == sorted(MAY_FETCH)
