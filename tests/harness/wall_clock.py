"""The wall clock of a process, which jumps while the process runs. Its monotonic clock doesn't."""

from __future__ import annotations

import functools
import os
import struct
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Path(__file__).with_name("wall_clock.c")
BUILD = ROOT / "build" / "wall_clock"


@functools.cache
def library() -> Path:
    """Return the library to preload, compiled if it is older than its source."""
    target = BUILD / "libwallclock.so"
    if not target.exists() or target.stat().st_mtime < SOURCE.stat().st_mtime:
        BUILD.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=BUILD) as folder:
            made = Path(folder, target.name)
            command = [os.environ.get("CC", "cc"), "-O1", "-shared", "-fPIC", "-o", made, SOURCE]
            subprocess.run(command, check=True)
            made.replace(target)
    return target


class WallClock:
    """The clock of one process."""

    def __init__(self, path: Path) -> None:
        """``path`` is the file that tells the process how far its clock is off."""
        self._path = path
        path.write_bytes(struct.pack("q", 0))

    @property
    def environment(self) -> dict[str, str]:
        """The environment of the process."""
        preloaded = os.environ.get("LD_PRELOAD")
        libraries = str(library()) + (f":{preloaded}" if preloaded else "")
        return {**os.environ, "LD_PRELOAD": libraries, "KN_WALL_CLOCK": str(self._path)}

    def jump(self, seconds: int) -> None:
        """Set the clock so many seconds before or after the true time."""
        with self._path.open("r+b") as file:  # the process has mapped this file
            file.write(struct.pack("q", seconds))
