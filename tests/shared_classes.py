"""Archives of class data for the tests' JVMs: their options. `class_archives` writes them.

A test run starts hundreds of JVMs that live for seconds and mostly load the same classes. With an
archive (class data sharing) a tool, or a Spark session, needs half of the CPU time. A JVM ignores
an archive of another Java or of other jars without a message.
"""

from __future__ import annotations

import functools
import hashlib
import shutil
from pathlib import Path

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
