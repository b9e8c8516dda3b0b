"""Small JSON files that belong to a stream, in the folder ``kafka_native`` of its checkpoint.

Spark's own files in a checkpoint are the same with every connector, so a query may change its
connector. What only this source needs is here: the ids of topics, the schemas of typed columns, and
the skipped offsets. Spark never reads or removes this folder.

PySpark tells a source nothing about the checkpoint. So the user names it in the source's option
``checkpointLocation``, too. Each file has the id of Spark's query: a new checkpoint in the same
folder doesn't see the files of the old one.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any, Final

from kafka_native.spark.errors import OptionError

__all__ = ["KeptState", "SkippedOffsets", "skipped_offsets"]

FOLDER: Final = "kafka_native"
OPTION: Final = "checkpointLocation"
_SKIPPED: Final = "skipped"


@dataclass(frozen=True, order=True)
class SkippedOffsets:
    """Offsets of a partition that the query didn't read (``failOnDataLoss=false``)."""

    topic: str
    partition: int
    start: int
    end: int | None
    """The offset after the last skipped one; None: unknown, because the partition is gone."""
    reason: str
    time_ms: int
    """The time at which the loss was noticed, in milliseconds since 1970."""
    topic_id: str = ""
    """The id of the topic; empty if brokers send none."""


class KeptState:
    """The files of one stream. Each write replaces a file as a whole, also after a crash.

    :param checkpoint: The checkpoint's folder, or its URI as pyarrow knows it.
    :param filesystem: The ``pyarrow.fs.FileSystem`` of the folder; None: chosen by ``checkpoint``.
    """

    def __init__(self, checkpoint: str | os.PathLike[str], *, filesystem: Any = None) -> None:
        """Store the location. Nothing is read or written."""
        from kafka_native.spark.folder import Folder  # it imports pyarrow.fs: 40 ms

        self._folder = Folder(checkpoint, filesystem=filesystem)

    @cached_property
    def query(self) -> str:
        """Spark's id of the query. It stays the same as long as the checkpoint exists.

        :raises OptionError: The folder isn't the checkpoint of a query that has been started.
        """
        if not self._folder.exists("metadata"):
            raise OptionError(
                OPTION,
                f"{self._folder.uri} isn't the checkpoint of a running query: write the folder "
                f"that writeStream has as its {OPTION}, with its scheme if it isn't local",
            )
        return str(self._folder.content("metadata").get("id", ""))

    def read(self, name: str) -> dict[str, Any] | None:
        """Return the content of a file; None if this query hasn't written it.

        :param name: The file's path in the folder without ``.json``, such as ``topics/orders``.
        :raises PipelineError: The file is damaged.
        """
        path = _path(name)
        if not self._folder.exists(path):
            return None
        content = self._folder.content(path)
        return content if content.pop("query", None) == self.query else None

    def write(self, name: str, content: Mapping[str, Any]) -> None:
        """Write or replace a file. It is on the disk when the call returns.

        :param name: The file's path in the folder without ``.json``.
        :param content: An object for JSON. The key ``query`` is reserved.
        """
        path, whole = _path(name), {**content, "query": self.query}
        self._folder.make(path.rpartition("/")[0])
        self._folder.write(path, whole)

    def remove(self, folder: str) -> None:
        """Remove a subfolder and its files, if it exists."""
        self._folder.remove(f"{FOLDER}/{folder}")

    def names(self, folder: str) -> list[str]:
        """The names of the files in a subfolder, sorted, for `read`."""
        found = self._folder.names(f"{FOLDER}/{folder}")
        return sorted(f"{folder}/{name.removesuffix('.json')}" for name in found)

    def add_skipped(self, skipped: SkippedOffsets) -> None:
        """Record skipped offsets. A repetition by another attempt of a task changes nothing."""
        identity = [skipped.topic, skipped.partition, skipped.start, skipped.end, skipped.topic_id]
        name = f"{_SKIPPED}/{hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:32]}"
        if self.read(name) is None:
            self.write(name, asdict(skipped))

    def skipped(self) -> list[SkippedOffsets]:
        """All recorded skipped offsets, sorted by topic, partition and offset."""
        return self.new_skipped(set())

    def new_skipped(self, seen: set[str]) -> list[SkippedOffsets]:
        """The recorded skipped offsets of further files, sorted as in `skipped`.

        :param seen: The names of the files that don't count. The call adds the new ones.
        """
        known = {each.name for each in fields(SkippedOffsets)}
        names = [name for name in self.names(_SKIPPED) if name not in seen]
        contents = [self.read(name) for name in names]
        seen.update(names)
        found = [
            SkippedOffsets(**{name: value for name, value in each.items() if name in known})
            for each in contents
            if each is not None
        ]
        return sorted(
            found, key=lambda each: (each.topic, each.partition, each.start, each.time_ms)
        )


def skipped_offsets(
    checkpoint: str | os.PathLike[str], *, filesystem: Any = None
) -> list[SkippedOffsets]:
    """The offsets that a stream has skipped (``failOnDataLoss=false``), sorted by partition.

    :param checkpoint: The stream's checkpoint, which was also its source's ``checkpointLocation``.
    :param filesystem: The ``pyarrow.fs.FileSystem`` of the folder; None: chosen by ``checkpoint``.
    :raises OptionError: The folder isn't the checkpoint of a query.
    """
    return KeptState(checkpoint, filesystem=filesystem).skipped()


def _path(name: str) -> str:
    return f"{FOLDER}/{name}.json"
