"""Programs of others that tests download while they run, each with the SHA-256 that it must have.

``downloads.sha256`` is the table: one line a file, as ``sha256sum`` writes it, named SET/FILE. A set of jars is checked
in each process before its first use. What pip installs has its requirement in place of the file's name, and pip checks
it. After a version has changed, ``make write-hashes`` writes the lines of jars anew; read the difference before you
commit it.
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
# A sanitized tree has the jars of the tree that it was copied from: Maven doesn't run under a sanitizer's runtime.
BUILD = Path(os.environ.get("KN_DOWNLOADS") or ROOT / "build")
TABLE = Path(__file__).with_name("downloads.sha256")
# Maven chooses the plugin's version itself unless it is named. --strict-checksums: what is damaged on its way fails.
MAVEN = ["mvn", "-q", "-B", "--strict-checksums"]
PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"


@dataclass(frozen=True)
class JarSet:
    """Jars that a goal of Maven's dependency plugin copies, as a pom says."""

    name: str
    pom: Path
    goal: str
    properties: tuple[str, ...] = ()


class WrongDownload(Exception):
    """A file isn't the one that the table names."""


def read_table() -> dict[str, dict[str, str]]:
    """The SHA-256 of each file, by set and name."""
    sets: dict[str, dict[str, str]] = {}
    for line in TABLE.read_text(encoding="ascii").splitlines():
        digest, _, name = line.partition("  ")
        folder, _, file = name.partition("/")
        sets.setdefault(folder, {})[file] = digest
    return sets


def sha256(path: Path) -> str:
    """A file's digest in hexadecimal digits."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def check(folder: Path, expected: Mapping[str, str]) -> None:
    """Raises WrongDownload unless a folder has exactly these files with these digests; it changes nothing."""
    if not expected:
        raise WrongDownload(f"{TABLE.name} has no hashes for {folder}: 'make write-hashes' writes them")
    found = {path.name: sha256(path) for path in folder.iterdir()}
    wrong = [
        f"  {name}: expected {expected.get(name, 'no such file')}, found {found.get(name, 'no such file')}"
        for name in sorted({*expected, *found})
        if expected.get(name) != found.get(name)
    ]
    if wrong:
        advice = "Nothing was deleted. Find out why, then remove the folder (and Maven's own copy) to fetch it again."
        raise WrongDownload("\n".join([f"{folder} is not what {TABLE.name} names:", *wrong, advice]))


@functools.cache
def jars(wanted: JarSet) -> Path:
    """The folder with a set of jars, fetched the first time, checked once in each process."""
    folder = fetch(wanted)
    check(folder, read_table().get(wanted.name, {}))
    return folder


def fetch(wanted: JarSet) -> Path:
    """The folder with a set of jars, not checked yet; test runs side by side wait for each other."""
    libraries = BUILD / wanted.name / "libs"
    libraries.parent.mkdir(parents=True, exist_ok=True)
    with (libraries.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not libraries.exists():
            partial = libraries.with_name("libs.partial")
            shutil.rmtree(partial, ignore_errors=True)
            command = [*MAVEN, "-f", str(wanted.pom), f"{PLUGIN}:{wanted.goal}", f"-DoutputDirectory={partial}"]
            command += [f"-D{one}" for one in wanted.properties]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PROGRAM_S)
            if done.returncode:
                raise RuntimeError(f"Maven could not fetch {wanted.name}:\n{done.stdout}{done.stderr}")
            partial.rename(libraries)
    return libraries


def pip_install(name: str, target: Path, timeout_s: float) -> None:
    """Installs a set's packages into a folder; pip refuses other hashes, and packages that the table doesn't have."""
    requirements = target.with_name(f"{name}.txt")
    requirements.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"{requirement} --hash=sha256:{digest}" for requirement, digest in read_table()[name].items()]
    requirements.write_text("\n".join([*lines, ""]), encoding="ascii")
    # Isolation would fetch what builds a source archive without hashes; the tests' own setuptools does it.
    checked = ["--require-hashes", "--no-build-isolation"]
    command = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", *checked]
    subprocess.run([*command, "--target", str(target), "-r", str(requirements)], check=True, timeout=timeout_s)


def write_table(folders: Mapping[str, Path]) -> None:
    """Writes the digests of these sets; those of pip's sets, which have no folder here, are kept."""
    sets = {name: files for name, files in read_table().items() if name.startswith("pip-")}
    for name, folder in folders.items():
        sets[name] = {file.name: sha256(file) for file in folder.iterdir()}
    lines = [f"{digest}  {name}/{file}" for name in sorted(sets) for file, digest in sorted(sets[name].items())]
    partial = TABLE.with_suffix(".partial")
    partial.write_text("\n".join([*lines, ""]), encoding="ascii")
    os.replace(partial, TABLE)


def main() -> int:
    """``python -m tests.downloads``: fetches and checks all sets of jars; ``--write-hashes``: writes their hashes."""
    from tests.broker import java, old_kafka
    from tests.spark import jvm

    if sys.argv[1:] not in ([], ["--write-hashes"]):
        print("usage: python -m tests.downloads [--write-hashes]", file=sys.stderr)
        return 2
    if why := java.missing():
        print(f"jars can't be fetched: {why}", file=sys.stderr)
        return 1
    sets = [java.JARS, jvm.JARS, *map(old_kafka.jars_of, old_kafka.VERSIONS)]
    if sys.argv[1:]:
        write_table({one.name: fetch(one) for one in sets})
    for one in sets:
        print(f"{one.name}: {len(list(jars(one).iterdir()))} files are those that {TABLE.name} names")
    return 0


if __name__ == "__main__":
    sys.exit(main())
