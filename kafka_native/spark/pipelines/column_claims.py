"""Claims of new columns, so that two archives of one lake don't publish columns that don't fit.

An archive checks its columns against those of the published files when it starts. Another archive
may start before these files are published. So an archive that publishes a topic's first file with
new columns does it in this order:

1. It writes a claim, a small file in ``_kafka_native/claims``.
2. It reads the claims of others, and the columns of decided and published files.
3. It publishes, and removes its claim.

Of two archives, at least one finds the claim or the files of the other. File systems and object
stores need no further guarantee for that. Published columns that don't fit are an error. A claim
that doesn't fit may still be withdrawn: the archive withdraws its own, and tries again.
"""

from __future__ import annotations

import random
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final

import pyarrow as pa

from kafka_native.spark.folder import Folder
from kafka_native.spark.pipelines.lake_schemas import merged
from kafka_native.spark.pipelines.manifests import LOG
from kafka_native.spark.pipelines.session import PipelineError

__all__ = ["CLAIMS", "ColumnClaims"]

CLAIMS: Final = f"{LOG}/claims"
_TRIES: Final = 10
_WAIT_S: Final = 0.05
_WAIT_MAX_S: Final = 1.0

Names = Mapping[str, set[str]]
"""The names of the columns of each topic's files."""


class ColumnClaims:
    """The claims of one driver.

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
        self._folder = folder
        self._names = names
        self._schema_of = schema_of
        self._published: set[tuple[str, str]] = set()

    @contextmanager
    def claimed(self, columns: Iterable[tuple[str, str]]) -> Iterator[None]:
        """Claim columns until their files are decided.

        :param columns: Topics, and the names of the columns of their files.
        :raises PipelineError: Another archive has columns of such a topic that don't fit.
        """
        wanted = set(columns) - self._published
        known = self._names() if wanted else {}
        new = sorted((topic, name) for topic, name in wanted if name not in known.get(topic, ()))
        if not new:
            yield
        else:
            path = f"{CLAIMS}/{uuid.uuid4().hex}.json"
            try:
                self._claim(path, new)
                yield
            finally:
                self._folder.delete(path)
        self._published |= wanted

    def _claim(self, path: str, columns: list[tuple[str, str]]) -> None:
        """Write a claim that fits all others."""
        self._folder.make(CLAIMS)
        for number in range(_TRIES):
            self._folder.write(path, {"columns": columns})
            # First the claims: a claim is removed when its files are decided.
            claims = self._claims_of_others(path)
            conflict = self._conflict(columns, self._names())
            if conflict:
                raise PipelineError(
                    f"another archive has meanwhile published files in the lake "
                    f"{self._folder.uri}: {conflict}. Keep one schema, or use another folder"
                )
            conflict = self._conflict(columns, claims)
            if not conflict:
                return
            self._folder.delete(path)
            wait_s = min(_WAIT_MAX_S, _WAIT_S * 2**number)
            time.sleep(wait_s * random.uniform(0.5, 1))
        raise PipelineError(
            f"another archive is about to publish files in the lake {self._folder.uri}: "
            f"{conflict}. If none runs, delete its folder {CLAIMS}"
        )

    def _claims_of_others(self, path: str) -> Names:
        found: dict[str, set[str]] = defaultdict(set)
        for name in self._folder.names(CLAIMS):
            other = f"{CLAIMS}/{name}"
            if other != path:
                with suppress(FileNotFoundError):  # it was withdrawn
                    for topic, columns in self._claimed_in(other):
                        found[topic].add(columns)
        return found

    def _claimed_in(self, path: str) -> list[tuple[str, str]]:
        try:
            return [
                (str(topic), str(name)) for topic, name in self._folder.content(path)["columns"]
            ]
        except (KeyError, TypeError, ValueError) as error:
            raise PipelineError(f"{path} is damaged: {type(error).__name__} {error}") from error

    def _conflict(self, columns: list[tuple[str, str]], others: Names) -> str:
        """Why files with these columns can't be read together; empty: they can."""
        for topic, name in columns:
            names = sorted({name, *others.get(topic, ())})
            schemas = [self._schema_of(each) for each in names]
            try:
                merged(schemas)
            except PipelineError as error:
                return f"topic {topic}: {error}"
        return ""
