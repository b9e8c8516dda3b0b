"""The environments below build/programs, made when a test needs them, and kept."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
from pathlib import Path

import pytest

from tests import downloads
from tests.compat.programs import Program
from tests.waiting import PROGRAM_S

ROOT = Path(__file__).resolve().parents[3]
FOLDER = downloads.BUILD / "programs"
PLATFORM = "Python 3.11, linux-x86_64"
"""Where the packages in the table of downloads run."""
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
    here = f"Python {sys.version_info.major}.{sys.version_info.minor}, {sysconfig.get_platform()}"
    if here != PLATFORM:
        pytest.skip(f"the hashes of programs of others are for {PLATFORM}, this is {here}")
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
    table = downloads.read_table()
    sets = [table.get(name) for name in (program.packages, program.sources)]
    return hashlib.sha256(repr((str(ROOT), sys.version, sets)).encode()).hexdigest()


def _install(program: Program, folder: Path) -> None:
    target = folder / "venv"
    shutil.rmtree(target, ignore_errors=True)
    venv.create(target, with_pip=True)
    _pip(folder, "install", program.packages)
    (packages,) = target.glob("lib/python*/site-packages")
    (packages / "kafka_native.pth").write_text(f"{ROOT}\n", encoding="utf-8")


def _unpack_sources(program: Program, folder: Path) -> None:
    """Fetch the source archive, which has the tests."""
    archives, target = folder / "archives", folder / "sources"
    for each in (archives, target):
        shutil.rmtree(each, ignore_errors=True)
    _pip(folder, "download", program.sources, "--no-deps", "--no-binary=:all:", "-d", str(archives))
    (archive,) = archives.iterdir()
    with tarfile.open(archive) as file:
        file.extractall(target, filter="data")


def _pip(folder: Path, action: str, name: str, *options: str) -> None:
    command = [*downloads.pip_command(python(folder), action, name, folder), *options]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PROGRAM_S, check=False, cwd=folder
    )
    if done.returncode:
        if any(text in done.stderr for text in UNREACHABLE):
            raise IndexUnreachable(done.stderr.strip().splitlines()[-1])
        raise RuntimeError(f"{' '.join(command)}:\n{done.stdout}{done.stderr}")
