"""The releases that wheels link: hashes, licenses, and a core that contains them."""

from __future__ import annotations

import hashlib
import io
import subprocess
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from dev import codec_sources
from dev.elf import Elf
from tests.harness.builds import ROOT, load_setup

# A folder that `python -m dev.codec_sources` has filled.
SOURCES = ROOT / "build" / "codec-sources"


@pytest.fixture
def release() -> codec_sources.Release:
    return codec_sources.RELEASES[0]


def archive_of(release: codec_sources.Release, folder: Path, name: str = "lib/a.c") -> str:
    """Write an archive with one file, and return its digest."""
    path = folder / f"{release.folder}.tar.gz"
    with tarfile.open(path, "w:gz") as made:
        entry = tarfile.TarInfo(f"{release.folder}/{name}")
        entry.size = 4
        made.addfile(entry, io.BytesIO(b"text"))
    return hashlib.sha256(path.read_bytes()).hexdigest()


def fetch(release: codec_sources.Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(codec_sources, "RELEASES", [release])
    target = tmp_path / "unpacked"
    monkeypatch.setattr(sys, "argv", ["fetch", str(target), "--archives", str(tmp_path)])
    codec_sources.main()
    return target


def test_an_archive_with_the_right_hash_is_unpacked(
    release: codec_sources.Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = replace(release, sha256=archive_of(release, tmp_path))
    target = fetch(right, tmp_path, monkeypatch)
    assert (target / release.folder / "lib" / "a.c").read_text() == "text"
    assert [path.name for path in target.iterdir()] == [release.folder]


def test_another_archive_is_refused(
    release: codec_sources.Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = archive_of(release, tmp_path)
    with pytest.raises(SystemExit, match=f"expected SHA-256 {release.sha256}, found {found}"):
        fetch(release, tmp_path, monkeypatch)
    assert list((tmp_path / "unpacked").iterdir()) == []


def test_no_file_is_written_outside_of_the_folder(
    release: codec_sources.Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = replace(release, sha256=archive_of(release, tmp_path, "../../outside.c"))
    with pytest.raises(tarfile.TarError):
        fetch(right, tmp_path, monkeypatch)
    assert not (tmp_path / "outside.c").exists()


def test_setup_has_a_recipe_for_each_release() -> None:
    recipes = load_setup().SOURCE_LIBRARIES.values()
    assert {recipe.folder for recipe in recipes} == {
        f"{release.name}-*" for release in codec_sources.RELEASES
    }


def test_each_release_has_its_license_in_the_package() -> None:
    names = {path.stem for path in (ROOT / "licenses").glob("*.txt")}
    assert names == {release.name for release in codec_sources.RELEASES}


def test_a_missing_release_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KN_CODEC_SOURCES", str(tmp_path))
    with pytest.raises(SystemExit, match=r"one folder libdeflate-\* is needed, found 0"):
        load_setup().Codecs()


def test_a_build_without_libraries_says_so_once(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KN_WITHOUT", "gzip,snappy,lz4,zstd")
    load_setup().Codecs()
    (warning,) = [line for line in capfd.readouterr().err.splitlines() if "warning" in line]
    assert "no C library for gzip, snappy, lz4, zstd" in warning
    assert "kafka-native[codecs]" in warning
    assert "libzstd-dev" in warning


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the core of a build with the releases inside."""
    if not SOURCES.is_dir():
        pytest.skip(f"no codec sources: `python -m dev.codec_sources {SOURCES}` fetches them")
    folder = tmp_path_factory.mktemp("static")
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setenv("KN_CODEC_SOURCES", str(SOURCES))
    monkeypatch.setenv("KN_ONLY", "records")
    monkeypatch.setenv("KN_OPTIMIZE", "-O1")
    try:
        subprocess.run(
            [
                sys.executable,
                "setup.py",
                "-q",
                "build_ext",
                f"--build-temp={folder / 'temp'}",
                f"--build-lib={folder / 'lib'}",
            ],
            cwd=ROOT,
            check=True,
        )
    finally:
        monkeypatch.undo()
    (core,) = folder.glob("lib/kafka_native/_native/libkafka_native_core.*")
    return core


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads ELF files")
def test_the_core_contains_the_libraries_and_hides_them(built: Path) -> None:
    exported = {symbol.name for symbol in Elf(built).symbols if symbol.address}
    assert exported
    assert {name for name in exported if not name.startswith("kn_")} == set()
    needed = subprocess.run(["ldd", str(built)], capture_output=True, text=True, check=True).stdout
    for name in ("deflate", "snappy", "lz4", "zstd", "simdjson", "stdc++"):
        assert f"lib{name}." not in needed


@pytest.mark.slow
def test_licenses_are_those_of_the_releases(built: Path) -> None:
    for release in codec_sources.RELEASES:
        original = SOURCES / release.folder / release.license
        copy = ROOT / "licenses" / f"{release.name}.txt"
        assert copy.read_text() == original.read_text(), release.name
