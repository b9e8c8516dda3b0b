"""Where certificates and keys come from: files, remembered as they were, and texts in the configuration."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from typing import Final, NoReturn

from kafka_native.errors import KafkaError, KafkaException

FILE_BYTES_MAX: Final = 16 * 1024 * 1024
"""More than any list of authorities has; what is longer isn't read."""

_Stamp = tuple[int, int, int]


def refuse(text: str, hint: str | None = None) -> NoReturn:
    """Raise what is wrong with the configuration."""
    raise KafkaException(KafkaError(KafkaError._INVALID_ARG, text), hint=hint)


@dataclass(frozen=True)
class Material:
    """What a property stands for, and how messages call it. The content is in no repr: it may be a key."""

    name: str
    """The property."""
    path: str
    """The file; empty for a text in the configuration."""
    content: bytes = field(repr=False)

    def __str__(self) -> str:
        return f"{self.name}={self.path}" if self.path else self.name


class Files:
    """The files and directories that something was made of."""

    def __init__(self) -> None:
        """None yet."""
        self._stamps: dict[str, _Stamp | None] = {}

    def read(self, name: str, path: str) -> Material:
        """The content of a property's file, which is watched from now on.

        :raises KafkaException: With the property and the path, if it can't be read or is no file.
        """
        self.watch(path)  # before it is read: what changes meanwhile is seen later
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
        """Remember what this file or directory is like."""
        self._stamps[path] = _stamp(path)

    def changed(self) -> bool:
        """Whether one of them is another one by now, or is gone."""
        return any(_stamp(path) != before for path, before in self._stamps.items())


def _open(path: str, flags: int) -> int:
    """Opens a file; a FIFO without waiting for somebody to write into it."""
    return os.open(path, flags | os.O_NONBLOCK)


def _stamp(path: str) -> _Stamp | None:
    """What differs when a file is replaced or written; None where there is none. Symbolic links are followed."""
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
    return None if os.path.isabs(path) else f"it is looked for in {os.getcwd()}"
