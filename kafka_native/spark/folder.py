"""A folder for our own small JSON files, which are complete or missing after a crash."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from pathlib import Path, PurePosixPath
from typing import Any, Final

import pyarrow.fs

from kafka_native._reference.property import without_secrets
from kafka_native.spark.errors import PipelineError

__all__ = ["Folder", "checked_topic", "loaded", "shortened", "shown"]

TOPIC_SIZE_MAX: Final = 140
"""The bytes of a topic in a file's name. File systems allow 255 for a whole name."""
_TOPIC: Final = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}")
_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_S3: Final = re.compile(r"^s3[an]:", re.I)
_LOCAL: Final = re.compile(r"^file:/(?!/)")  # Hadoop writes file:/path


class Folder:
    """A folder on a file system that pyarrow knows. Paths are relative to it, separated by ``/``.

    :param path: A folder, or a URI such as ``s3://...``, ``gs://...``, ``hdfs://...``. Hadoop's
        names ``s3a:`` and ``s3n:`` mean ``s3:``.
    :param filesystem: The ``pyarrow.fs.FileSystem`` (or an fsspec one) of ``path``; None: chosen by
        ``path``.
    """

    def __init__(self, path: str | os.PathLike[str], *, filesystem: Any = None) -> None:
        """Store the location. Nothing is read or made.

        :raises ValueError: The URI is wrong.
        """
        self._given = os.fspath(path)
        self.uri = shown(self._given)
        """The name for people. The login of a URI isn't shown."""
        if filesystem is not None:
            self.fs, self.root = pyarrow.fs._ensure_filesystem(filesystem), self._given
        elif _URI.match(self._given):
            given = _S3.sub("s3:", self._given)
            try:
                self.fs, self.root = pyarrow.fs.FileSystem.from_uri(given)
            except ValueError as error:
                text = str(error).replace(given, self.uri)
                raise ValueError(text) from None  # the error itself has the login
        else:
            path = _LOCAL.sub("/", self._given)
            self.fs, self.root = pyarrow.fs.LocalFileSystem(), str(Path(path).absolute())
        self.root = self.root.rstrip("/")

    @property
    def is_local(self) -> bool:
        """Whether the file system is local. There, writes are also synced to the disk."""
        return isinstance(self.fs, pyarrow.fs.LocalFileSystem)

    def full(self, path: str) -> str:
        """The path in the file system."""
        return f"{self.root}/{path}"

    def absolute(self, path: str) -> str:
        """The path for other programs, with the original URI."""
        return (
            f"{self._given.partition('?')[0].rstrip('/')}/{path}"
            if "://" in self._given
            else self.full(path)
        )

    def make(self, path: str = "") -> None:
        """Make a folder and its parents, if they don't exist."""
        self.fs.create_dir(self.full(path).rstrip("/"), recursive=True)

    def exists(self, path: str) -> bool:
        """Whether the file or folder exists."""
        found: bool = self.fs.get_file_info(self.full(path)).type != pyarrow.fs.FileType.NotFound
        return found

    def names(self, path: str = "", suffix: str = ".json") -> set[str]:
        """The names of the files in a folder with this suffix."""
        selector = pyarrow.fs.FileSelector(self.full(path).rstrip("/"), allow_not_found=True)
        names = {each.base_name for each in self.fs.get_file_info(selector)}
        return {name for name in names if name.endswith(suffix) and not name.startswith(".")}

    def read(self, path: str) -> bytes:
        """Return the content of a file."""
        with self.fs.open_input_stream(self.full(path)) as stream:
            data: bytes = stream.read()
        return data

    def content(self, path: str) -> dict[str, Any]:
        """Return the JSON object of a file.

        :raises PipelineError: The content isn't a JSON object.
        """
        return loaded(self.read(path), path)

    def write(self, path: str, content: object) -> None:
        """Write or replace a JSON file. Readers see the old or the new file as a whole."""
        self.write_bytes(path, (json.dumps(content, indent=1) + "\n").encode())

    def write_bytes(self, path: str, data: bytes) -> None:
        """Write or replace a file. Readers see the old or the new file as a whole."""
        if not self.is_local:  # an object store shows an object after its close
            with self.fs.open_output_stream(self.full(path)) as stream:
                stream.write(data)
            return
        target = Path(self.full(path))
        temporary = target.with_name(f".{target.name}.{os.getpid()}")  # names() skips it
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
        self.sync(str(PurePosixPath(path).parent))

    def move(self, source: str, target: str) -> None:
        """Move a file. It may have been moved already, by a killed driver or another one."""
        try:
            self.fs.move(self.full(source), self.full(target))
        except OSError as error:
            if not self.exists(target):
                raise PipelineError(
                    f"{target} is gone from {self.uri}, {source} can't take its place"
                ) from error

    def delete(self, path: str) -> None:
        """Delete a file. It may have been deleted already, by a killed driver or another one."""
        try:
            self.fs.delete_file(self.full(path))
        except OSError:
            if self.exists(path):
                raise

    def sync(self, path: str) -> None:
        """Sync a folder's names to the disk, on a local file system."""
        if not self.is_local:
            return
        _sync(self.full(path), os.O_RDONLY | os.O_DIRECTORY)

    def sync_file(self, path: str) -> None:
        """Sync a file's content to the disk, on a local file system."""
        if self.is_local:
            _sync(self.full(path), os.O_RDONLY)

    def remove(self, path: str) -> None:
        """Remove a folder and its content, if it exists."""
        if self.is_local:
            # A killed task may still write into it. The next removal deletes the rest.
            shutil.rmtree(self.full(path), ignore_errors=True)
        elif self.exists(path):
            self.fs.delete_dir(self.full(path))


def _sync(path: str, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def shown(name: str) -> str:
    """The name of a folder for people: a URI without its login and query."""
    return without_secrets(name) if "://" in name else name


def shortened(name: str, size_max: int = TOPIC_SIZE_MAX) -> str:
    """A topic or another text for a file's name. A long one is cut, and ends with a digest.

    :param name: The text. Topics have up to 249 characters, which leaves too few for the rest.
    :param size_max: The largest number of bytes of the result.
    """
    data = name.encode()
    if len(data) <= size_max:
        return name
    digest = f"~{hashlib.sha256(data).hexdigest()[:16]}"
    return data[: size_max - len(digest)].decode(errors="ignore") + digest


def checked_topic(topic: str) -> str:
    """Check that a topic's name is safe as a part of a path. All paths with topics use it.

    :raises PipelineError: The name is invalid in Apache Kafka; a path with it might lead elsewhere.
    """
    if not _TOPIC.fullmatch(topic):
        raise PipelineError(f"topic {topic!r}: no folder or file can be named so")
    return topic


def loaded(data: bytes, name: str) -> dict[str, Any]:
    """Parse the JSON object of a file.

    :raises PipelineError: The content isn't a JSON object.
    """
    try:
        found = json.loads(data)
    except ValueError as error:
        raise PipelineError(f"{name} is damaged: {error}") from error
    if not isinstance(found, dict):
        raise PipelineError(f"{name} is damaged: it is no JSON object")
    return found
