"""Claims: two archives of one lake don't publish what doesn't fit.

An archive checks its columns against those of the published files when it starts, and its offsets
when a batch begins. Another archive may check before these files are published. So an archive that
publishes a topic's first file with new columns, or new offsets, does it in this order:

1. It writes a claim, a small file in ``_kafka_native/claims`` or ``_kafka_native/range_claims``.
2. It reads the claims of others, and what is decided and published.
3. It publishes, and removes its claim.

Of two archives, at least one finds the claim or the files of the other. File systems and object
stores need no further guarantee for that. Published files that don't fit are an error. A claim that
doesn't fit may still be withdrawn: the archive withdraws its own, and tries again.
"""

from __future__ import annotations

import random
import time
import uuid
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, Generic, TypeVar

import pyarrow as pa

from kafka_native.spark.folder import Folder
from kafka_native.spark.offsets import Key
from kafka_native.spark.pipelines.lake_schemas import merged
from kafka_native.spark.pipelines.manifests import LOG, Batch, Range, manifest_name, overlaps
from kafka_native.spark.pipelines.session import PipelineError

__all__ = ["CLAIMS", "RANGE_CLAIMS", "ColumnClaims", "RangeClaims"]

CLAIMS: Final = f"{LOG}/claims"
RANGE_CLAIMS: Final = f"{LOG}/range_claims"
"""A folder of its own: earlier versions know only columns in the other one."""
_TRIES: Final = 10
_WAIT_S: Final = 0.05
_WAIT_MAX_S: Final = 1.0

Names = Mapping[str, set[str]]
"""The names of the columns of each topic's files."""
T = TypeVar("T")


class _Claims(ABC, Generic[T]):
    """The claims of one kind, of one driver. ``T`` is what a claim has.

    :param folder: The lake's folder.
    :param place: The folder of the claims, below the lake's folder.
    """

    def __init__(self, folder: Folder, place: str) -> None:
        """Claim nothing yet."""
        self._folder = folder
        self._place = place

    @abstractmethod
    def _packed(self, claim: T) -> dict[str, Any]:
        """The content of a claim's file."""

    @abstractmethod
    def _unpacked(self, content: Mapping[str, Any]) -> T:
        """The claim of a file. It may raise any of the errors of a wrong structure."""

    @abstractmethod
    def _check_decided(self, claim: T) -> None:
        """Check a claim against what is decided or published.

        :raises PipelineError: It doesn't fit.
        """

    @abstractmethod
    def _conflict(self, claim: T, others: Sequence[T]) -> str:
        """Why a claim doesn't fit others; empty: it does."""

    @contextmanager
    def _held(self, name: str, claim: T) -> Iterator[None]:
        """Hold a claim that fits all others."""
        path = f"{self._place}/{name}"
        try:
            self._claim(path, claim)
            yield
        finally:
            self._folder.delete(path)

    def _claim(self, path: str, claim: T) -> None:
        self._folder.make(self._place)
        for number in range(_TRIES):
            self._folder.write(path, self._packed(claim))
            # First the claims: a claim is removed when its files are decided.
            others = self._others(path)
            self._check_decided(claim)
            conflict = self._conflict(claim, others)
            if not conflict:
                return
            self._folder.delete(path)
            wait_s = min(_WAIT_MAX_S, _WAIT_S * 2**number)
            time.sleep(wait_s * random.uniform(0.5, 1))
        raise PipelineError(
            f"another archive is about to publish files in the lake {self._folder.uri}: "
            f"{conflict}. If none runs, delete its folder {self._place}"
        )

    def _others(self, path: str) -> list[T]:
        found = []
        for name in self._folder.names(self._place):
            other = f"{self._place}/{name}"
            if other != path:
                with suppress(FileNotFoundError):  # it was withdrawn
                    content = self._folder.content(other)
                    try:
                        found.append(self._unpacked(content))
                    except (KeyError, TypeError, ValueError) as error:
                        raise PipelineError(
                            f"{other} is damaged: {type(error).__name__} {error}"
                        ) from error
        return found


class ColumnClaims(_Claims[list[tuple[str, str]]]):
    """The claims of columns: topics, and the names of the columns of their files.

    :param folder: The lake's folder.
    :param names: Returns the names of the columns of all files, decided or published.
    :param schema_of: Returns the columns with a name.
    """

    def __init__(
        self,
        folder: Folder,
        names: Callable[[], Names],
        schema_of: Callable[[str], pa.Schema],
    ) -> None:
        """Claim nothing yet."""
        super().__init__(folder, CLAIMS)
        self._names = names
        self._schema_of = schema_of
        self._published: set[tuple[str, str]] = set()

    @contextmanager
    def claimed(self, columns: Iterable[tuple[str, str]]) -> Iterator[None]:
        """Claim columns until their files are decided. Known ones need no claim.

        :param columns: Topics, and the names of the columns of their files.
        :raises PipelineError: Another archive has columns of such a topic that don't fit.
        """
        wanted = set(columns) - self._published
        known = self._names() if wanted else {}
        new = sorted((topic, name) for topic, name in wanted if name not in known.get(topic, ()))
        if not new:
            yield
        else:
            with self._held(f"{uuid.uuid4().hex}.json", new):
                yield
        self._published |= wanted

    def _packed(self, claim: list[tuple[str, str]]) -> dict[str, Any]:
        return {"columns": claim}

    def _unpacked(self, content: Mapping[str, Any]) -> list[tuple[str, str]]:
        return [(str(topic), str(name)) for topic, name in content["columns"]]

    def _check_decided(self, claim: list[tuple[str, str]]) -> None:
        conflict = self._misfit(claim, self._names())
        if conflict:
            raise PipelineError(
                f"another archive has meanwhile published files in the lake "
                f"{self._folder.uri}: {conflict}. Keep one schema, or use another folder"
            )

    def _conflict(
        self, claim: list[tuple[str, str]], others: Sequence[list[tuple[str, str]]]
    ) -> str:
        found: dict[str, set[str]] = defaultdict(set)
        for other in others:
            for topic, name in other:
                found[topic].add(name)
        return self._misfit(claim, found)

    def _misfit(self, columns: list[tuple[str, str]], others: Names) -> str:
        """Why files with these columns can't be read together; empty: they can."""
        for topic, name in columns:
            names = sorted({name, *others.get(topic, ())})
            schemas = [self._schema_of(each) for each in names]
            try:
                merged(schemas)
            except PipelineError as error:
                return f"topic {topic}: {error}"
        return ""


class RangeClaims(_Claims[tuple[str, list[Range]]]):
    """The claims of offsets: a query's id, and the offsets of its next batch.

    :param folder: The lake's folder.
    :param ends: Returns the ends of all partitions, decided or published.
    :param archived: Returns the decided or published offsets of partitions with these ends.
    """

    def __init__(
        self,
        folder: Folder,
        ends: Callable[[], Mapping[Key, int]],
        archived: Callable[[Mapping[Key, int]], Mapping[Key, list[tuple[int, int]]]],
    ) -> None:
        """Claim nothing yet."""
        super().__init__(folder, RANGE_CLAIMS)
        self._ends = ends
        self._archived = archived

    @contextmanager
    def claimed(self, batch: Batch, ranges: Iterable[Range]) -> Iterator[None]:
        """Claim offsets until their batch is decided. `maintain` has none, and needs no claim.

        A batch that is repeated after a crash replaces its claim.

        :param batch: The batch's query and number.
        :param ranges: The offsets, read or skipped.
        :raises PipelineError: Another archive has published some of them, or is about to do it.
        """
        wanted = sorted(ranges)
        if not wanted:
            yield
        else:
            with self._held(manifest_name(*batch), (batch[0], wanted)):
                yield

    def _packed(self, claim: tuple[str, list[Range]]) -> dict[str, Any]:
        query, ranges = claim
        return {"query": query, "ranges": [vars(each) for each in ranges]}

    def _unpacked(self, content: Mapping[str, Any]) -> tuple[str, list[Range]]:
        return str(content["query"]), [Range(**each) for each in content["ranges"]]

    def _check_decided(self, claim: tuple[str, list[Range]]) -> None:
        ends = self._ends()
        known = [
            each for each in claim[1] if each.start < ends.get((each.topic, each.partition), 0)
        ]
        if not known:
            return
        keys = {(each.topic, each.partition) for each in known}
        archived = self._archived({key: ends[key] for key in keys})
        for each in known:
            for start, end in overlaps(each, archived[each.topic, each.partition]):
                raise PipelineError(
                    f"the lake {self._folder.uri} has {each.topic} [{each.partition}] from "
                    f"offset {start} to {end} meanwhile, and this batch has {each.start} to "
                    f"{each.end}: another archive copies the same topic into this lake"
                )

    def _conflict(
        self, claim: tuple[str, list[Range]], others: Sequence[tuple[str, list[Range]]]
    ) -> str:
        query, ranges = claim
        theirs = [each for other, those in others if other != query for each in those]
        for mine in ranges:
            for each in theirs:
                same = (each.topic, each.partition) == (mine.topic, mine.partition)
                if same and overlaps(mine, [(each.start, each.end)]):
                    return f"offsets {each.start} to {each.end} of {each.topic} [{each.partition}]"
        return ""
