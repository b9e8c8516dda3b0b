"""The wall clock of a process, which jumps while the process runs. Its monotonic clock doesn't."""

from __future__ import annotations

import os
import struct
from pathlib import Path

from tests.harness.builds import preloaded_library

SOURCE = Path(__file__).with_name("wall_clock.c")


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
        libraries = str(preloaded_library(SOURCE)) + (f":{preloaded}" if preloaded else "")
        return {**os.environ, "LD_PRELOAD": libraries, "KN_WALL_CLOCK": str(self._path)}

    def jump(self, seconds: int) -> None:
        """Set the clock so many seconds before or after the true time."""
        with self._path.open("r+b") as file:  # the process has mapped this file
            file.write(struct.pack("q", seconds))
