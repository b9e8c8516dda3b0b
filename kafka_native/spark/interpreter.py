"""A Python executable for Spark's workers that starts faster: without PySpark's zip files."""

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
    """An executable file for ``PYSPARK_PYTHON``. Set it before you build a session on this machine.

    Spark puts zip files of PySpark first in its workers' path. Python compiles modules from a zip
    file again in each process, which takes about a second for the worker that plans a stream. The
    file runs this Python with the installed PySpark, which is compiled already. It is removed when
    this process ends.

    :return: The file's path. It is ``sys.executable`` if the installed PySpark wouldn't be found,
        or if the file isn't needed.
    """
    python = sys.executable
    home = Path(pyspark.__file__).resolve().parent
    # Another SPARK_HOME may have another version. The JVM and its workers need the same one.
    ours = Path(os.environ.get("SPARK_HOME", home)).resolve() == home
    if not (python and os.name == "posix" and ours and _is_found(home.parent)):
        return python
    folder = Path(tempfile.mkdtemp(prefix="kafka-native-python-"))
    atexit.register(_remove, folder, os.getpid())
    script = folder / "python"
    script.write_text(_SCRIPT.replace('PYTHON "$@"', f'{shlex.quote(python)} "$@"'))
    script.chmod(0o700)
    return str(script) if os.access(script, os.X_OK) else python  # a noexec mount forbids it


def _is_found(packages: Path) -> bool:
    """Whether a new process of this Python searches a folder for packages."""
    places = [
        *site.getsitepackages(),
        site.getusersitepackages(),
        *os.environ.get("PYTHONPATH", "").split(os.pathsep),
    ]
    return any(place and Path(place).resolve() == packages for place in places)


def _remove(folder: Path, owner: int) -> None:
    """Remove the folder, unless this is a forked child: its parent needs the folder."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)
