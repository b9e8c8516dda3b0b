"""The environments below build/programs, made when a test needs them, and kept."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
import tarfile
import venv
from pathlib import Path

import pytest

from tests import downloads
from tests.compat.programs import Program
from tests.waiting import PROGRAM_S

ROOT = Path(__file__).resolve().parents[3]
FOLDER = downloads.BUILD / "programs"
UNREACHABLE = (
    "(from versions: none)",
    "ConnectionError",
    "ConnectTimeout",
    "Max retries exceeded",
    "NameResolutionError",
    "ReadTimeout",
)
"""Texts in pip's output if the package index can't be reached."""


class IndexUnreachable(Exception):
    """Pip can't reach the package index."""


def environment_or_skip(program: Program) -> Path:
    """Return a program's `environment()`. Skip the test if the package index can't be reached."""
    if sys.version_info < (3, 11):
        pytest.skip("the versions of programs of others are for Python 3.11 and later")
    try:
        return environment(program)
    except IndexUnreachable as error:
        pytest.skip(f"{program.name} can't be fetched: {error}")


def environment(program: Program) -> Path:
    """Return the folder with a program's environment and sources. Parallel tests wait for it."""
    folder = FOLDER / program.name
    folder.mkdir(parents=True, exist_ok=True)
    wanted = _state(program)
    ready = folder / "ready"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not ready.exists() or ready.read_text(encoding="ascii") != wanted:
            ready.unlink(missing_ok=True)
            _install(program, folder)
            if program.tests is not None:
                _unpack_sources(program, folder)
            ready.write_text(wanted, encoding="ascii")
    return folder


def python(folder: Path) -> str:
    """Return the interpreter of an environment."""
    return str(folder / "venv" / "bin" / "python")


def sources(folder: Path) -> Path:
    """Return the unpacked source archive of a program."""
    (found,) = (folder / "sources").iterdir()
    return found


def _state(program: Program) -> str:
    """Return a text that changes when the environment has to be made again."""
    parts = [
        str(ROOT),
        sys.version,
        program.requirements.read_text(encoding="ascii"),
        str(downloads.read_table().get(_source_set(program))),
    ]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _install(program: Program, folder: Path) -> None:
    target = folder / "venv"
    shutil.rmtree(target, ignore_errors=True)
    venv.create(target, with_pip=True)
    _pip(folder, "install", "-r", str(program.requirements))
    (packages,) = target.glob("lib/python*/site-packages")
    (packages / "kafka_native.pth").write_text(f"{ROOT}\n", encoding="utf-8")


def _unpack_sources(program: Program, folder: Path) -> None:
    """Fetch the source archive, which has the tests. Pip checks its hash."""
    ((requirement, digest),) = downloads.read_table()[_source_set(program)].items()
    wanted = folder / "source.txt"
    wanted.write_text(f"{requirement} --hash=sha256:{digest}\n", encoding="ascii")
    archives, target = folder / "archives", folder / "sources"
    for each in (archives, target):
        shutil.rmtree(each, ignore_errors=True)
    # Without build isolation pip reads the metadata with the environment's own build tools.
    options = ("--no-deps", "--no-binary=:all:", "--no-build-isolation", "--require-hashes")
    _pip(folder, "download", *options, "-d", str(archives), "-r", str(wanted))
    (archive,) = archives.iterdir()
    with tarfile.open(archive) as file:
        file.extractall(target, filter="data")


def _source_set(program: Program) -> str:
    return f"pip-source-{program.name}"


def _pip(folder: Path, *arguments: str) -> None:
    command = [python(folder), "-m", "pip", *arguments, "-q", "--disable-pip-version-check"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PROGRAM_S, check=False, cwd=folder
    )
    if done.returncode:
        if any(text in done.stderr for text in UNREACHABLE):
            raise IndexUnreachable(done.stderr.strip().splitlines()[-1])
        raise RuntimeError(f"{' '.join(command)}:\n{done.stdout}{done.stderr}")
