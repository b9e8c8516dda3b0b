"""``python -m tests.shared_classes``: archives from which the tests' JVMs map their classes (class data sharing).

A test run starts hundreds of JVMs that live for seconds. Most of what they do is to load the same classes: with an
archive of them a tool, or a Spark session, takes half of the CPU. An archive is written by a JVM that ends; one that
doesn't fit (another Java, other jars) is passed over by the JVM, without a word.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

from tests.waiting import PROGRAM_S

ROOT = Path(__file__).resolve().parents[1]
# Lives for seconds: the first compiler and the simplest collector start fastest on two cores.
LEAN = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
QUIET = ["-Xlog:disable", "-Xlog:all=error:stderr"]  # warnings would go to stdout


@functools.cache
def archive(name: str) -> Path:
    """The archive for ``broker``, ``tool`` or ``spark``; there may be none yet. Another Java has others."""
    java = Path(shutil.which("java") or "java").resolve()
    made = java.stat().st_mtime_ns if java.exists() else 0
    return ROOT / "build" / "classes" / f"{name}-{hashlib.sha256(f'{java} {made}'.encode()).hexdigest()[:10]}.jsa"


def options(name: str) -> list[str]:
    """What a JVM is told so that it uses an archive; nothing if there is none."""
    path = archive(name)
    return [f"-XX:SharedArchiveFile={path}", *QUIET] if path.exists() else []


def for_spark(environment: dict[str, str]) -> dict[str, str]:
    """The same environment, in which Spark's drivers live for seconds, too."""
    lean = " ".join([*LEAN, *options("spark")])
    return environment | {"SPARK_SUBMIT_OPTS": lean, "SPARK_LAUNCHER_OPTS": " ".join(LEAN)}


def write_spark(partial: Path) -> None:
    """By the driver of a session in which all is done once."""
    environment = for_spark(dict(os.environ)) | {"PYSPARK_PYTHON": sys.executable}
    environment["SPARK_SUBMIT_OPTS"] += " ".join(["", f"-XX:ArchiveClassesAtExit={partial}", *QUIET])
    run([sys.executable, "-m", "tests.spark.smoke"], environment)


def write_broker(partial: Path) -> None:
    """By a broker that starts and stops."""
    from tests.broker.cluster import TEST_OPTIONS, start

    with closing(start(1, [*TEST_OPTIONS, f"-XX:ArchiveClassesAtExit={partial}", *QUIET])) as cluster:
        for broker in cluster.brokers.values():
            broker.stop()  # with its leave, rather than killed


def write_tool(partial: Path) -> None:
    """By a tool that asks a broker."""
    from tests.broker import java
    from tests.broker.cluster import start

    with closing(start(1)) as cluster:
        ask = [java.TOPICS, "--bootstrap-server", cluster.bootstrap, "--list"]
        run(java.java_command(*ask, options=[*LEAN, f"-XX:ArchiveClassesAtExit={partial}", *QUIET]))


def run(command: list[str], environment: dict[str, str] | None = None) -> None:
    """Until the JVM has ended, too, for it has the pipes."""
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=PROGRAM_S
    )
    if done.returncode:
        raise RuntimeError(f"{command[:3]} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")


def write_missing(name: str, write: Callable[[Path], None]) -> None:
    """The tests pass without an archive, too: what fails here is only said."""
    path = archive(name)
    if path.exists():
        return
    partial = path.with_suffix(".partial")
    path.parent.mkdir(parents=True, exist_ok=True)
    partial.unlink(missing_ok=True)
    try:
        write(partial)
        partial.rename(path)
    except Exception as error:
        print(f"going on without an archive of classes for {name}: {error}", file=sys.stderr)


def write_kafka() -> None:
    """The tool asks a broker that has its archive."""
    write_missing("broker", write_broker)
    write_missing("tool", write_tool)


def main() -> None:
    """Writes the archives that aren't there, each by one JVM on one core."""
    if shutil.which("java") is None:
        return
    with ThreadPoolExecutor() as pool:
        for done in [pool.submit(write_missing, "spark", write_spark), pool.submit(write_kafka)]:
            done.result()


if __name__ == "__main__":
    main()
