"""Common parts of the direct pipelines' tests: records, lakes, and a fake of Spark's part."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from kafka_native.spark.pipelines.lake import Lake
from kafka_native.spark.pipelines.lake_schemas import COLUMNS, SCHEMA
from kafka_native.spark.pipelines.manifests import LOG, LakeFile
from kafka_native.spark.pipelines.parquet import ParquetSettings, RangeWriter

DAY_MS = 86_400_000
NOON_MS = 20_000 * DAY_MS + DAY_MS // 2
"""2024-10-04, 12:00 UTC."""


def records(
    offsets: range, stamps_ms: list[int | None] | None = None, partition: int = 0
) -> pa.RecordBatch:
    """Return a batch as the source returns it."""
    stamps = stamps_ms or [NOON_MS + offset for offset in offsets]
    count = len(offsets)
    values = {
        "partition": [partition] * count,
        "offset": list(offsets),
        "timestamp": [None if each is None else each * 1000 for each in stamps],
        "timestampType": [0] * count,
        "key": [b"k%d" % (offset % 3) if offset % 2 else None for offset in offsets],
        "value": [b"v%d" % offset if offset % 5 else None for offset in offsets],
        "headers": [
            [{"key": "h", "value": b"x"}] if offset % 4 == 0 else None for offset in offsets
        ],
    }
    arrays = [
        pa.array(values[name], field.type) for name, field in zip(COLUMNS, SCHEMA, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list(COLUMNS))


def stage(
    lake: Lake,
    *batches: pa.RecordBatch,
    query: str = "q",
    batch: int = 0,
    topic: str = "orders",
    schema: pa.Schema = SCHEMA,
    **settings: int,
) -> list[LakeFile]:
    """Stage a batch, as a task does."""
    folder = f"{LOG}/staging/{query}/{batch}/attempt"
    partition = batches[0].column(0)[0].as_py()
    writer = RangeWriter(
        lake, folder, f"{query}-{batch}", topic, partition, ParquetSettings(**settings), schema
    )
    for each in batches:
        writer.write(each)
    return writer.close()


class FakeFrame:
    """A frame of ranges whose tasks run here in sequence: the driver's view of Spark."""

    def __init__(
        self,
        ranges: list[tuple[str, int, int, int]],
        query: str = "query",
        topic_id: str | None = None,
    ) -> None:
        self.ranges = ranges
        self._rest = {"topic_id": topic_id, "lost": None}
        context = SimpleNamespace(
            getLocalProperty=lambda name: query if name == "sql.streaming.queryId" else None
        )
        self.sparkSession = SimpleNamespace(sparkContext=context)
        self._work: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]] | None = None

    def mapInArrow(self, work: Any, schema: str) -> FakeFrame:
        assert schema == "result string"
        self._work = work
        return self

    def collect(self) -> list[SimpleNamespace]:
        assert self._work is not None
        return [
            SimpleNamespace(**row)
            for batch in self._work(iter(self._batches()))
            for row in batch.to_pylist()
        ]

    def toArrow(self) -> pa.Table:
        return pa.Table.from_batches(self._batches())

    def _batches(self) -> list[pa.RecordBatch]:
        names = ["topic", "partition", "start_offset", "end_offset"]
        return [
            pa.RecordBatch.from_pylist([{**dict(zip(names, each, strict=True)), **self._rest}])
            for each in self.ranges
        ]
