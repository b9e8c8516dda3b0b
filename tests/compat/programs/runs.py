"""Runs a program on confluent_kafka and on kafka_native at the same time."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from xml.etree import ElementTree

from kafka_native.compat import DROP_IN_PATH
from kafka_native.mock import MockCluster
from tests.compat.programs import HERE, Program
from tests.compat.programs.environments import python, sources
from tests.waiting import PROGRAM_S

TOPIC = "programs"
TOPICS = (TOPIC, f"{TOPIC}-out", f"{TOPIC}-replies", f"{TOPIC}-batch")
SWITCHES: dict[str, tuple[str, ...]] = {
    "confluent_kafka": (),
    "kafka_native": ("-m", "kafka_native.compat"),
}
"""The arguments of the interpreter that select a library."""

T = TypeVar("T")


@dataclass(frozen=True)
class Outcome:
    """The end of a run: what the program printed, and each of its own tests."""

    output: str
    tests: dict[str, str]
    log: str

    @property
    def passed(self) -> int:
        """The number of tests that passed."""
        return sum(result == "passed" for result in self.tests.values())


def on_both(run: Callable[[str, Path], T]) -> tuple[T, T]:
    """Return the results with confluent_kafka and with kafka_native: each in its own folder."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor() as pool:
        runs = []
        for library in SWITCHES:
            own = Path(folder, library)
            own.mkdir()
            runs.append(pool.submit(run, library, own))
        theirs, ours = [each.result() for each in runs]
    return theirs, ours


def use(program: Program, environment: Path, library: str, folder: Path) -> Outcome:
    """Run the script that uses a program."""
    with MockCluster(brokers=1) as cluster:
        for topic in TOPICS:
            cluster.create_topic(topic, 1)
        servers = cluster.bootstrap_servers
        command = [python(environment), *SWITCHES[library], str(HERE / "use" / program.use)]
        path: tuple[str, ...] = ()
        if program.launcher:
            launcher = str(Path(python(environment)).with_name(program.launcher))
            command = [launcher, command[0], command[-1]]
            # The launcher's code imports confluent_kafka before ours could run.
            path = () if library == "confluent_kafka" else (DROP_IN_PATH,)
        command += [servers, TOPIC]
        done = _run(command, folder, folder, servers, path=path, settings=program.settings)
    output = done.stdout if done.returncode == 0 else f"{done.stdout}exit {done.returncode}\n"
    return Outcome(output, {}, done.stderr)


def run_own_tests(program: Program, environment: Path, library: str, folder: Path) -> Outcome:
    """Run the tests of a program's source archive."""
    tests = program.tests
    assert tests is not None
    report = folder / "report.xml"
    command = [python(environment), *SWITCHES[library], "-m", "pytest", "-q"]
    command += ["-p", "no:cacheprovider", "--timeout=100", f"--junit-xml={report}"]
    copied = _copied(sources(environment), folder)
    with MockCluster(brokers=1) as cluster:
        path = tuple(str(copied / each) for each in tests.path)
        done = _run(
            [*command, *tests.arguments],
            copied / tests.folder,
            folder,
            cluster.bootstrap_servers,
            path=path,
        )
    return Outcome("", _outcomes(report), done.stdout + done.stderr)


def _copied(archive: Path, folder: Path) -> Path:
    """Copy the sources: both runs write into them, bytecode for example."""
    target = folder / archive.name
    subprocess.run(["cp", "-R", str(archive), str(target)], check=True)
    return target


def _outcomes(report: Path) -> dict[str, str]:
    """Return the result of each test in a JUnit report."""
    found: dict[str, str] = {}
    if not report.exists():
        return found
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        kinds = {child.tag for child in case} & {"failure", "error", "skipped"}
        result = next((kind for kind in ("failure", "error", "skipped") if kind in kinds), "passed")
        # A test with an error in its teardown occurs twice.
        if found.get(name, "passed") == "passed":
            found[name] = result
    return found


def _run(
    command: list[str],
    folder: Path,
    home: Path,
    servers: str,
    *,
    path: tuple[str, ...] = (),
    settings: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    given = {
        "HOME": str(home),
        "DEFAULT_BROKERS": servers,
        "BOOTSTRAP_SERVERS": servers,
        "DAGSTER_DISABLE_TELEMETRY": "1",
        "PYTHONPATH": os.pathsep.join([str(HERE / "support"), *path]),
    }
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **given, **(settings or {})},
        capture_output=True,
        text=True,
        timeout=PROGRAM_S,
        check=False,
    )
