"""offset.store.method=file: each partition's offset in a file of its own, as librdkafka's old consumer kept them.

A file holds the offset as decimal text. It is written beside and put in place by a rename, so that a reader, or this
client after a crash, finds the old offset or the new one and nothing in between. How often the disk is made to keep
it is offset.store.sync.interval.ms.

Thread: the control thread only. It writes to the file system, which the other managers don't: that is what this setting
asks for.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from kafka_native.control.positions import NO_POSITION, Key, OffsetPosition
from kafka_native.control.requests import NEVER
from kafka_native.errors import KafkaError

ESCAPED = str.maketrans({"/": "%2F", ":": "%3A", "\\": "%5C", "\0": "%00"})
"""What a file's name can't have, or not everywhere; librdkafka's escapes."""

FILE_MAX_BYTES = 64
"""A file that is longer holds something else."""


class OffsetFiles:
    """The offset files of one client."""

    def __init__(
        self, path: str, group_id: str, *, sync_interval_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """``path``: offset.store.path, a directory, or a file that takes the offset of the one partition consumed.

        ``sync_interval_s``: how often written files are synced to disk; 0 at once, negative never.
        """
        self._path = Path(path)
        self._group_id = group_id
        self._interval_s = sync_interval_s
        self._clock = clock
        self._unsynced: set[Path] = set()
        self._sync_at = NEVER
        self._owner: Key | None = None

    def path_of(self, key: Key) -> Path | KafkaError:
        """The file of a partition: TOPIC-PARTITION.offset, or TOPIC-PARTITION-GROUP.offset in the directory."""
        if not self._path.is_dir():
            if self._owner not in (None, key):
                text = f"offset.store.path {self._path} is a file: it can't hold a second partition's offset"
                return KafkaError(KafkaError._FS, text)
            self._owner = key
            return self._path
        parts = [key[0], str(key[1]), *([self._group_id] if self._group_id else [])]
        return self._path / ("-".join(parts).translate(ESCAPED) + ".offset")

    def read(self, key: Key) -> OffsetPosition | KafkaError:
        """The offset in the file, `NO_POSITION` if there is no file."""
        path = self.path_of(key)
        if isinstance(path, KafkaError):
            return path
        try:
            with path.open("rb") as file:
                text = file.read(FILE_MAX_BYTES + 1)
        except FileNotFoundError:
            return NO_POSITION
        except OSError as error:
            return _failure("read", path, error)
        digits = text.strip()
        if len(text) > FILE_MAX_BYTES or not digits.isdigit() or int(digits) >= 1 << 63:
            return KafkaError(
                KafkaError._FS, f"{path} holds no offset: remove it to start where auto.offset.reset says"
            )
        return OffsetPosition(int(digits))

    def write(self, key: Key, place: OffsetPosition) -> KafkaError | None:
        """Replaces the offset in the file. After an error the old one is still there."""
        path = self.path_of(key)
        if isinstance(path, KafkaError):
            return path
        beside = path.with_name(path.name + ".new")
        try:
            with beside.open("wb") as file:
                file.write(b"%d\n" % place.offset)
                file.flush()
                if self._interval_s == 0:
                    os.fsync(file.fileno())
            beside.replace(path)
            if self._interval_s == 0:
                _sync_directory(path.parent)
        except OSError as error:
            beside.unlink(missing_ok=True)
            return _failure("write", path, error)
        if self._interval_s > 0:
            self._unsynced.add(path)
            self._sync_at = min(self._sync_at, self._clock() + self._interval_s)
        return None

    def poll(self, now: float) -> float:
        """Syncs what is due; when to ask again."""
        if now >= self._sync_at:
            self._sync()
        return self._sync_at

    def _sync(self) -> None:
        self._sync_at = NEVER
        paths, self._unsynced = self._unsynced, set()
        for path in sorted(paths):
            try:
                with path.open("rb") as file:
                    os.fsync(file.fileno())
            except OSError:
                # The next write of this partition tells what is wrong; try again with it, or at the interval's end.
                self._unsynced.add(path)
        for directory in {path.parent for path in paths}:
            try:
                _sync_directory(directory)
            except OSError:
                self._unsynced.update(path for path in paths if path.parent == directory)
        if self._unsynced:
            self._sync_at = self._clock() + self._interval_s

    def close(self) -> None:
        """Syncs what isn't yet, once."""
        if self._unsynced:
            self._sync()
            self._sync_at = NEVER


def _sync_directory(directory: Path) -> None:
    """Makes the disk keep renames."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _failure(what: str, path: Path, error: OSError) -> KafkaError:
    return KafkaError(KafkaError._FS, f"can't {what} offset file {path}: {error.strerror or error}")
