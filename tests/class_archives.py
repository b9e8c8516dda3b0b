"""``python -m tests.class_archives`` writes class data archives for the tests' JVMs.

`shared_classes` says what they are for. A JVM writes an archive when it ends.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

from tests.broker import java
from tests.broker.cluster import TEST_OPTIONS, start
from tests.shared_classes import LEAN, QUIET, ROOT, archive, for_spark
from tests.waiting import PROGRAM_S


def write_spark(partial: Path) -> None:
    """Write the archive with the driver of a session that does everything once."""
    environment = for_spark(dict(os.environ)) | {"PYSPARK_PYTHON": sys.executable}
    environment["SPARK_SUBMIT_OPTS"] += " ".join(
        ["", f"-XX:ArchiveClassesAtExit={partial}", *QUIET]
    )
    run([sys.executable, "-m", "tests.spark.smoke"], environment)


def write_broker(partial: Path) -> None:
    """Write the archive with a broker that starts and stops."""
    with closing(
        start(1, [*TEST_OPTIONS, f"-XX:ArchiveClassesAtExit={partial}", *QUIET])
    ) as cluster:
        for broker in cluster.brokers.values():
            broker.stop()  # a normal stop, not a kill


def write_tool(partial: Path) -> None:
    """Write the archive with a tool that queries a broker."""
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
