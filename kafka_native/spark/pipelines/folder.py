"""A folder that a pipeline keeps its own notes in: small JSON files that are there whole or not at all."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path, PurePosixPath
from typing import Any, Final

import pyarrow.fs

from kafka_native.spark.pipelines.session import PipelineError

__all__ = ["Folder", "checked_topic", "loaded"]

_TOPIC: Final = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}")


class Folder:
    """A folder on a file system that pyarrow knows. Paths are below it, with ``/`` between their parts.

    :param path: A folder, or a URI such as ``s3://...``, ``gs://...``, ``hdfs://...``.
    :param filesystem: A ``pyarrow.fs.FileSystem`` (or an fsspec one) that ``path`` is on; None: as ``path`` says.
    """

    def __init__(self, path: str | os.PathLike[str], *, filesystem: Any = None) -> None:
        """Only remembers where it is: nothing is read or made."""
        self.uri = os.fspath(path)
        if filesystem is not None:
            self.fs, self.root = pyarrow.fs._ensure_filesystem(filesystem), self.uri
        elif re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", self.uri):
            self.fs, self.root = pyarrow.fs.FileSystem.from_uri(self.uri)
        else:
            self.fs, self.root = pyarrow.fs.LocalFileSystem(), str(Path(self.uri).absolute())
        self.root = self.root.rstrip("/")

    @property
    def is_local(self) -> bool:
        """Whether it is on a local file system, where what is written is also synced to the disk."""
        return isinstance(self.fs, pyarrow.fs.LocalFileSystem)

    def full(self, path: str) -> str:
        """A path as the file system wants it."""
        return f"{self.root}/{path}"

    def absolute(self, path: str) -> str:
        """A path as other readers understand it: with the URI that was given."""
        return f"{self.uri.partition('?')[0].rstrip('/')}/{path}" if "://" in self.uri else self.full(path)

    def make(self, path: str = "") -> None:
        """Makes a folder and those above it, unless they are there."""
        self.fs.create_dir(self.full(path).rstrip("/"), recursive=True)

    def exists(self, path: str) -> bool:
        """Whether there is such a file or folder."""
        found: bool = self.fs.get_file_info(self.full(path)).type != pyarrow.fs.FileType.NotFound
        return found

    def names(self, path: str = "") -> set[str]:
        """The JSON files in a folder."""
        selector = pyarrow.fs.FileSelector(self.full(path).rstrip("/"), allow_not_found=True)
        names = {each.base_name for each in self.fs.get_file_info(selector)}
        return {name for name in names if name.endswith(".json")}

    def read(self, path: str) -> bytes:
        """Returns the content of a file."""
        with self.fs.open_input_stream(self.full(path)) as stream:
            data: bytes = stream.read()
        return data

    def write(self, path: str, content: object) -> None:
        """Writes or replaces a JSON file, which others see whole or not at all."""
        data = (json.dumps(content, indent=1) + "\n").encode()
        if not self.is_local:  # object stores show an object once it is closed
            with self.fs.open_output_stream(self.full(path)) as stream:
                stream.write(data)
            return
        target = Path(self.full(path))
        temporary = target.with_name(f".{target.name}.{os.getpid()}")  # names() doesn't see it
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
        self.sync(str(PurePosixPath(path).parent))

    def move(self, source: str, target: str) -> None:
        """Moves a file; it is well if that has been done already, by a driver that was killed or by another one."""
        try:
            self.fs.move(self.full(source), self.full(target))
        except OSError as error:
            if not self.exists(target):
                raise PipelineError(f"{target} is gone from {self.uri}, {source} can't take its place") from error

    def sync(self, path: str) -> None:
        """Makes the names in a folder last, where that has to be said."""
        if not self.is_local:
            return
        handle = os.open(self.full(path), os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def remove(self, path: str) -> None:
        """Removes a folder with all that is in it, as far as it is there."""
        if self.is_local:
            # somebody who isn't quite dead yet may still be writing into it: what he adds meanwhile goes next time
            shutil.rmtree(self.full(path), ignore_errors=True)
        elif self.exists(path):
            self.fs.delete_dir(self.full(path))


def checked_topic(topic: str) -> str:
    """The name of a topic as a part of a path: all paths of topics that a cluster names are made with it.

    :raises PipelineError: Apache Kafka has no topic of this name, and a path with it might lead elsewhere.
    """
    if not _TOPIC.fullmatch(topic):
        raise PipelineError(f"topic {topic!r}: no folder or file can be named so")
    return topic


def loaded(data: bytes, name: str) -> dict[str, Any]:
    """The JSON object in a file.

    :raises PipelineError: There is none.
    """
    try:
        found = json.loads(data)
    except ValueError as error:
        raise PipelineError(f"{name} is damaged: {error}") from error
    if not isinstance(found, dict):
        raise PipelineError(f"{name} is damaged: it is no JSON object")
    return found
