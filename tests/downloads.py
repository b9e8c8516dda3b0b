"""Foreign programs that tests download while they run, each with its required SHA-256.

``downloads.sha256`` is the table: one line a file, as ``sha256sum`` writes it, named SET/FILE. Each
process checks a set of jars before its first use. A file that pip installs has its requirement in
place of the file's name, and pip checks it. After a version has changed, ``make write-hashes``
writes the lines of jars again. Read the difference before you commit it.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.waiting import PROGRAM_S

ROOT = Path(__file__).resolve().parents[1]
# A sanitized tree uses the jars of its original tree: Maven doesn't run under a sanitizer's
# runtime.
BUILD = Path(os.environ.get("KN_DOWNLOADS") or ROOT / "build")
TABLE = Path(__file__).with_name("downloads.sha256")
# Without a version Maven chooses the plugin's version. --strict-checksums fails for damaged files.
MAVEN = ["mvn", "-q", "-B", "--strict-checksums"]
PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"


@dataclass(frozen=True)
class JarSet:
    """Jars that a goal of Maven's dependency plugin copies, according to a pom."""

    name: str
    pom: Path
    goal: str
    properties: tuple[str, ...] = ()


class WrongDownload(Exception):
    """A file has another hash than in the table."""


def read_table() -> dict[str, dict[str, str]]:
    """Return the SHA-256 of each file, by set and name."""
    sets: dict[str, dict[str, str]] = {}
    for line in TABLE.read_text(encoding="ascii").splitlines():
        digest, _, name = line.partition("  ")
        folder, _, file = name.partition("/")
        sets.setdefault(folder, {})[file] = digest
    return sets


def sha256(path: Path) -> str:
    """Return a file's digest in hexadecimal digits."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def check(folder: Path, expected: Mapping[str, str]) -> None:
    """Raise WrongDownload unless a folder has exactly these files with these digests."""
    if not expected:
        raise WrongDownload(
            f"{TABLE.name} has no hashes for {folder}: 'make write-hashes' writes them"
        )
    found = {path.name: sha256(path) for path in folder.iterdir()}
    wrong = [
        f"  {name}: expected {expected.get(name, 'no such file')}, found "
        f"{found.get(name, 'no such file')}"
        for name in sorted({*expected, *found})
        if expected.get(name) != found.get(name)
    ]
    if wrong:
        advice = (
            "Nothing was deleted. Find out why, then remove the folder (and Maven's own copy) to "
            "fetch it again."
        )
        raise WrongDownload(
            "\n".join([f"{folder} is not what {TABLE.name} names:", *wrong, advice])
        )


@functools.cache
def jars(wanted: JarSet) -> Path:
    """Return the folder of a set of jars. It is fetched once, and checked once in each process."""
    folder = fetch(wanted)
    check(folder, read_table().get(wanted.name, {}))
    return folder


def fetch(wanted: JarSet) -> Path:
    """Return the folder of a set of jars, unchecked. Parallel test runs wait for each other."""
    libraries = BUILD / wanted.name / "libs"
    libraries.parent.mkdir(parents=True, exist_ok=True)
    with (libraries.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not libraries.exists():
            partial = libraries.with_name("libs.partial")
            shutil.rmtree(partial, ignore_errors=True)
            command = [
                *MAVEN,
                "-f",
                str(wanted.pom),
                f"{PLUGIN}:{wanted.goal}",
                f"-DoutputDirectory={partial}",
            ]
            command += [f"-D{one}" for one in wanted.properties]
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=PROGRAM_S
            )
            if done.returncode:
                raise RuntimeError(
                    f"Maven could not fetch {wanted.name}:\n{done.stdout}{done.stderr}"
                )
            partial.rename(libraries)
    return libraries


def pip_install(name: str, target: Path, timeout_s: float) -> None:
    """Install a set's packages into a folder. Pip refuses other hashes and unlisted packages."""
    command = pip_command(sys.executable, "install", name, target.parent)
    subprocess.run([*command, "--target", str(target)], check=True, timeout=timeout_s)


def pip_command(interpreter: str, action: str, name: str, folder: Path) -> list[str]:
    """Return the command that installs or downloads a set, whose list is written to a folder."""
    requirements = folder / f"{name}.txt"
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        f"{requirement} --hash=sha256:{digest}"
        for requirement, digest in read_table()[name].items()
    ]
    requirements.write_text("\n".join([*lines, ""]), encoding="ascii")
    # Build isolation would fetch build tools without hashes. So the interpreter's own setuptools
    # builds source archives.
    checked = ["--require-hashes", "--no-build-isolation", "-r", str(requirements)]
    return [interpreter, "-m", "pip", action, "-q", "--disable-pip-version-check", *checked]


def write_table(folders: Mapping[str, Path]) -> None:
    """Write the digests of these sets. The lines of pip's sets, which have no folder here, stay."""
    sets = {name: files for name, files in read_table().items() if name.startswith("pip-")}
    for name, folder in folders.items():
        sets[name] = {file.name: sha256(file) for file in folder.iterdir()}
    lines = [
        f"{digest}  {name}/{file}"
        for name in sorted(sets)
        for file, digest in sorted(sets[name].items())
    ]
    partial = TABLE.with_suffix(".partial")
    partial.write_text("\n".join([*lines, ""]), encoding="ascii")
    os.replace(partial, TABLE)
