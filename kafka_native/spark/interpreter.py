"""Which Python Spark starts for its workers: this one, without the zip files that make each start slow."""

from __future__ import annotations

import atexit
import functools
import os
import shlex
import shutil
import site
import sys
import tempfile
from pathlib import Path
from typing import Final

import pyspark

__all__ = ["worker_python"]

_SCRIPT: Final = """\
#!/bin/sh
# Python with the PySpark that is installed, not with the zip files of it that Spark puts in front.
kept=
set -f
IFS=:
for each in $PYTHONPATH; do
    case $each in
        */python/lib/pyspark.zip | */python/lib/py4j-*.zip) ;;
        *) kept=${kept:+$kept:}$each ;;
    esac
done
PYTHONPATH=$kept
export PYTHONPATH
exec PYTHON "$@"
"""


@functools.cache
def worker_python() -> str:
    """What ``PYSPARK_PYTHON`` should be before a session on this machine is built: an executable file.

    Spark runs its workers with a zip file of PySpark in front of everything else, and Python compiles what it imports
    from a zip file anew in each process: about a second for the worker that plans a stream. The file runs this Python
    with the same PySpark as it is installed, which is compiled already. It is removed when this process ends.

    :return: The file; ``sys.executable`` where that wouldn't find the PySpark of this process, or needs no help.
    """
    python = sys.executable
    home = Path(pyspark.__file__).resolve().parent
    # Another SPARK_HOME may hold another version, which the JVM's workers have to be.
    ours = Path(os.environ.get("SPARK_HOME", home)).resolve() == home
    if not (python and os.name == "posix" and ours and _is_found(home.parent)):
        return python
    folder = Path(tempfile.mkdtemp(prefix="kafka-native-python-"))
    atexit.register(_remove, folder, os.getpid())
    script = folder / "python"
    script.write_text(_SCRIPT.replace('PYTHON "$@"', f'{shlex.quote(python)} "$@"'))
    script.chmod(0o700)
    return str(script) if os.access(script, os.X_OK) else python  # a mount may forbid it


def _is_found(packages: Path) -> bool:
    """Whether a new process of this Python looks for packages in this folder."""
    places = [
        *site.getsitepackages(),
        site.getusersitepackages(),
        *os.environ.get("PYTHONPATH", "").split(os.pathsep),
    ]
    return any(place and Path(place).resolve() == packages for place in places)


def _remove(folder: Path, owner: int) -> None:
    """Not in a forked child: the file is its parent's."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)
