"""The interface between `archive` and the place that it writes to: a lake, or a table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from kafka_native.spark.folder import Folder
from kafka_native.spark.offsets import Key
from kafka_native.spark.pipelines.manifests import LOG, LakeFile, Manifest, Range, Skipped
from kafka_native.spark.pipelines.parquet import ParquetSettings
from kafka_native.spark.pipelines.session import PipelineError

__all__ = ["ArchiveTarget", "Published", "checkpoint_below"]


@dataclass(frozen=True)
class Published:
    """What a target has when a batch begins."""

    has_batch: bool
    """Whether the batch is published, or will be without its tasks."""
    ends: Mapping[Key, int]
    """The offset after the last published one, by topic and partition."""
    topic_ids: Mapping[str, str]
    """The known ids of the archived topics."""


class FileWriter(Protocol):
    """Writes one range's records to files that no reader sees before their batch is published."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Add records, with the source's columns, in the order of their offsets."""

    def close(self) -> list[LakeFile]:
        """Finish all files and sync them to the disk."""

    def abort(self) -> None:
        """Close the open files. A later sweep removes them."""


class ArchiveTarget(ABC):
    """A place that `archive` writes to.

    The driver calls all methods but `range_writer()` and `archived()`, which each attempt of a task
    may call. So an object must be picklable after `prepare()`.

    A batch has the id of its query and a number. Once `publish()` has returned, `published()` has
    this batch, whenever and wherever a process is killed. Its files, its ends and its topic ids
    become visible in one step.
    """

    uri: str
    """The name of the target, for people."""
    kind: str = "lake"
    """A noun for errors: ``lake`` or ``table``."""

    @abstractmethod
    def use_columns(self, columns: pa.Schema) -> None:
        """Take the columns of the files that the next run writes. Call it before `prepare()`.

        :param columns: They begin with partition, offset and timestamp; the topic isn't one.
        """

    @abstractmethod
    def prepare(self) -> None:
        """Make the target or check it. Then finish what a killed driver has decided.

        :raises PipelineError: The target exists and can't take the records.
        """

    def check_columns(  # noqa: B027
        self, is_archived: Callable[[str], bool], optional: Collection[str] = ()
    ) -> None:
        """Check that the records of topics may have the columns of `use_columns()`.

        :param is_archived: Whether the run reads a topic.
        :param optional: The names of columns that the target may have in addition.
        :raises PipelineError: The target has other columns of such a topic.
        """

    @abstractmethod
    def default_checkpoint(self) -> str:
        """Return the name of the folder where Spark keeps the query's checkpoint.

        :raises PipelineError: The target is on no local file system, so there is no default.
        """

    @abstractmethod
    def published(self, query: str, batch: int) -> Published:
        """Return what is published, also by other programs, when a batch begins.

        :param query: The query's id.
        :param batch: The batch's number in the query.
        """

    @abstractmethod
    def ends(self) -> Mapping[Key, int]:
        """Return the offset after the last published one, by topic and partition."""

    def archived(self, ends: Mapping[Key, int]) -> Mapping[Key, list[tuple[int, int]]]:
        """Return the archived offsets of partitions, in order. A task may call it, too.

        A target that stores only its ends has no gaps: it returns all offsets before them.

        :param ends: The partitions, and the end of each of them in `ends()`.
        """
        return {key: [(0, end)] for key, end in ends.items()}

    @abstractmethod
    def topic_ids(self) -> Mapping[str, str]:
        """Return the known ids of the archived topics."""

    @abstractmethod
    def range_writer(
        self,
        query: str,
        batch: int,
        attempt: str,
        topic: str,
        partition: int,
        settings: ParquetSettings,
    ) -> FileWriter:
        """Return a writer for the records of one range, in a task.

        :param query: The query's id.
        :param batch: The batch's number in the query.
        :param attempt: A text that differs for each attempt of a task.
        :param topic: The records' topic.
        :param partition: The records' partition.
        :param settings: The settings of the files.
        """

    def file_of(self, entry: Mapping[str, Any]) -> LakeFile:
        """Return a writer's file from its fields, which were sent as JSON."""
        return LakeFile(**entry)

    @abstractmethod
    def publish(
        self,
        query: str,
        batch: int,
        ranges: Iterable[Range],
        files: Iterable[LakeFile],
        skipped: Iterable[Skipped] = (),
        topic_ids: Mapping[str, str] | None = None,
        *,
        left_out: int = 0,
    ) -> Manifest:
        """Publish the files of a batch.

        :param query: The query's id. It stays the same as long as its checkpoint exists.
        :param batch: The batch's number in the query.
        :param ranges: The offsets that were read.
        :param files: The files of the successful attempts.
        :param skipped: The offsets that couldn't be read.
        :param topic_ids: The known ids of the topics.
        :param left_out: The records that don't decode and are in none of the files.
        :raises PipelineError: The batch is published already.
        """

    @abstractmethod
    def sweep(self, query: str, batch: int | None = None) -> None:
        """Remove the files of failed attempts, of one or all published batches of a query."""

    def compact(self) -> int:
        """Compact the target's own records of batches, if it has many. It is fast.

        :return: How many records moved.
        """
        return 0


def checkpoint_below(folder: Folder, target: str) -> str:
    """Return the name of the default folder of Spark's checkpoint, below a target's folder.

    :param target: The target in the words of an error.
    :raises PipelineError: The folder is on no local file system.
    """
    if not folder.is_local:
        raise PipelineError(
            f"{target} is on no local file system: say where Spark shall keep its checkpoint"
        )
    # Hadoop doesn't decode such a name: with %20 it would be another folder.
    return f"file:{folder.root}/{LOG}/checkpoints/archive"
