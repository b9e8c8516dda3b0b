"""The package with other PySparks than the one that the tests use: ``make test-spark-versions``.

A smoke test runs with each version, and all tests of this folder but the kills with one version of
each release. Each version is installed into its own folder in build/, which later runs use again.
The folder comes first in the module path.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests import downloads

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = ("4.0.1", "4.0.5", "4.1.4", "4.2.1", "4.3.0")
TESTED = ("4.0.5", "4.1.4", "4.3.0")
"""The last ones of the releases that ``make test`` doesn't have."""
TIMEOUT_S = 600
TESTS_TIMEOUT_S = 7200


def installed(version: str) -> Path:
    """Return the folder with this PySpark and its Py4J."""
    folder = ROOT / "build" / f"pyspark-{version}"
    if not folder.exists():
        partial = folder.with_name(folder.name + ".partial")
        shutil.rmtree(partial, ignore_errors=True)
        downloads.pip_install(f"pip-pyspark-{version}", partial, TIMEOUT_S)
        partial.rename(folder)
    return folder


def environment(version: str) -> dict[str, str]:
    """Return the environment of a process that uses this PySpark. It is installed if need be."""
    path = os.pathsep.join([str(installed(version)), str(ROOT)])
    found = {**os.environ, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable}
    found.pop("PYSPARK_DRIVER_PYTHON", None)
    found.pop("SPARK_HOME", None)
    return found


def passes(version: str) -> bool:
    """Return whether the smoke test passes with this PySpark. Its output is printed."""
    command = [sys.executable, "-m", "tests.spark.smoke"]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=environment(version),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    sys.stdout.write(done.stdout)
    if done.returncode or f"PySpark {version}:" not in done.stdout:
        sys.stdout.write(done.stderr[-6000:])
        print(f"PySpark {version}: FAILED")
        return False
    return True


def passes_tests(version: str) -> bool:
    """Return whether the tests of this folder pass with this PySpark. Kills aren't among them."""
    print(f"PySpark {version}: the tests of tests/spark", flush=True)
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider"]
    command += ["--ignore-glob=*killed*", "tests/spark"]
    done = subprocess.run(command, cwd=ROOT, env=environment(version), timeout=TESTS_TIMEOUT_S)
    return done.returncode == 0


def main(*arguments: str) -> int:
    """Test the named versions, or all. With ``--smoke`` run only the smoke test."""
    names = [each for each in arguments if each != "--smoke"]
    failed = [version for version in names or VERSIONS if not passes(version)]
    if "--smoke" not in arguments:
        tested = [each for each in names or TESTED if each not in failed]
        failed += [version for version in tested if not passes_tests(version)]
    if failed:
        print(f"failed with PySpark {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
