"""The sources of certificates and keys: files, and texts in the configuration.

`Files` also notices when one of the files changes.
"""

from __future__ import annotations

import os
import stat
from typing import Final, NamedTuple, NoReturn

from kafka_native.errors import KafkaError, KafkaException

FILE_BYTES_MAX: Final = 16 * 1024 * 1024
"""The maximum size of a file. Every list of authorities is smaller."""

_Stamp = tuple[int, int, int]


def refuse(text: str, hint: str | None = None) -> NoReturn:
    """Raise a KafkaException with ``_INVALID_ARG``."""
    raise KafkaException(KafkaError(KafkaError._INVALID_ARG, text), hint=hint)


class Material(NamedTuple):
    """The content of a property, with its source for error texts.

    The repr doesn't show the content, because it may be a key.
    """

    name: str
    """The name of the property."""
    path: str
    """The path of the file; empty for a text in the configuration."""
    content: bytes

    def __repr__(self) -> str:
        return f"Material(name={self.name!r}, path={self.path!r})"

    def __str__(self) -> str:
        return f"{self.name}={self.path}" if self.path else self.name


class Files:
    """The files and directories that a TLS context was made of."""

    def __init__(self) -> None:
        """Make an empty set of files."""
        self._stamps: dict[str, _Stamp | None] = {}

    def read(self, name: str, path: str) -> Material:
        """Return the content of a property's file, and watch the file from now on.

        :raises KafkaException: The file can't be read, or the path is not a regular file. The error
            names the property and the path.
        """
        self.watch(path)  # Before the read, so that a concurrent change is noticed later
        try:
            with open(path, "rb", opener=_open) as file:
                found = os.fstat(file.fileno())
                if not stat.S_ISREG(found.st_mode):
                    refuse(f"{name}={path}: not a regular file")
                if found.st_size > FILE_BYTES_MAX:
                    refuse(f"{name}={path}: longer than {FILE_BYTES_MAX // 2**20} MiB")
                return Material(name, path, file.read(FILE_BYTES_MAX))
        except (OSError, ValueError) as error:
            refuse(f"{name}={path}: {_why(error)}", _relative(path))

    def watch(self, path: str) -> None:
        """Remember the current state of this file or directory."""
        self._stamps[path] = _stamp(path)

    def changed(self) -> bool:
        """Return True if one of the files or directories has changed or is gone."""
        return any(_stamp(path) != before for path, before in self._stamps.items())


def _open(path: str, flags: int) -> int:
    """Open a file. The open of a FIFO doesn't wait for a writer."""
    return os.open(path, flags | os.O_NONBLOCK)


def _stamp(path: str) -> _Stamp | None:
    """Return values that change when the file changes, or None if it doesn't exist.

    The function follows symbolic links.
    """
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return (found.st_mtime_ns, found.st_size, found.st_ino)


def _why(error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError):
        return "no such file"
    if isinstance(error, PermissionError):
        return f"user {os.geteuid()} may not read it"
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)


def _relative(path: str) -> str | None:
    return None if os.path.isabs(path) else f"the path is relative to {os.getcwd()}"
