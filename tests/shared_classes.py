"""``python -m tests.shared_classes`` writes class data archives for the tests' JVMs.

A test run starts hundreds of JVMs that live for seconds and mostly load the same classes. With an
archive (class data sharing) a tool, or a Spark session, needs half of the CPU time. A JVM writes an
archive when it ends. A JVM ignores an archive of another Java or of other jars without a message.
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
    """Return the archive for ``broker``, ``tool`` or ``spark``. It may not exist.

    Each Java has its own.
    """
    java = Path(shutil.which("java") or "java").resolve()
    made = java.stat().st_mtime_ns if java.exists() else 0
    return (
        ROOT
        / "build"
        / "classes"
        / f"{name}-{hashlib.sha256(f'{java} {made}'.encode()).hexdigest()[:10]}.jsa"
    )


def options(name: str) -> list[str]:
    """Return the options with which a JVM uses an archive, or none without an archive."""
    path = archive(name)
    return [f"-XX:SharedArchiveFile={path}", *QUIET] if path.exists() else []


def for_spark(environment: dict[str, str]) -> dict[str, str]:
    """Return the environment with options for Spark drivers that live for seconds."""
    lean = " ".join([*LEAN, *options("spark")])
    return environment | {"SPARK_SUBMIT_OPTS": lean, "SPARK_LAUNCHER_OPTS": " ".join(LEAN)}


def write_spark(partial: Path) -> None:
    """Write the archive with the driver of a session that does everything once."""
    environment = for_spark(dict(os.environ)) | {"PYSPARK_PYTHON": sys.executable}
    environment["SPARK_SUBMIT_OPTS"] += " ".join(
        ["", f"-XX:ArchiveClassesAtExit={partial}", *QUIET]
    )
    run([sys.executable, "-m", "tests.spark.smoke"], environment)


def write_broker(partial: Path) -> None:
    """Write the archive with a broker that starts and stops."""
    from tests.broker.cluster import TEST_OPTIONS, start

    with closing(
        start(1, [*TEST_OPTIONS, f"-XX:ArchiveClassesAtExit={partial}", *QUIET])
    ) as cluster:
        for broker in cluster.brokers.values():
            broker.stop()  # a normal stop, not a kill


def write_tool(partial: Path) -> None:
    """Write the archive with a tool that queries a broker."""
    from tests.broker import java
    from tests.broker.cluster import start

    with closing(start(1)) as cluster:
        ask = [java.TOPICS, "--bootstrap-server", cluster.bootstrap, "--list"]
        run(java.java_command(*ask, options=[*LEAN, f"-XX:ArchiveClassesAtExit={partial}", *QUIET]))


def run(command: list[str], environment: dict[str, str] | None = None) -> None:
    """Run a command, and wait for the end of the JVM too, because it holds the pipes."""
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=PROGRAM_S,
    )
    if done.returncode:
        raise RuntimeError(
            f"{command[:3]} ended with "
            f"{done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
        )


def write_missing(name: str, write: Callable[[Path], None]) -> None:
    """Write an archive that is missing. A failure is only printed: tests pass without archives."""
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
    """Write the archives of broker and tool. The tool's broker uses its archive."""
    write_missing("broker", write_broker)
    write_missing("tool", write_tool)


def main() -> None:
    """Write the missing archives, each with one JVM on one core."""
    if shutil.which("java") is None:
        return
    with ThreadPoolExecutor() as pool:
        for done in [pool.submit(write_missing, "spark", write_spark), pool.submit(write_kafka)]:
            done.result()


if __name__ == "__main__":
    main()
