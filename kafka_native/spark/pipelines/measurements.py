"""The measurements of the profile's tasks. Results can be merged; no record is kept."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from kafka_native._native.records import compress, features
from kafka_native.spark.options import SourceOptions
from kafka_native.spark.pipelines.value_kinds import ValueKinds
from kafka_native.spark.range_reader import read_range
from kafka_native.spark.ranges import OffsetRange

__all__ = ["Compression", "KeyCounts", "Measured", "Sizes", "Timeline", "measure_task"]

COLUMNS: Final = ("key", "value", "headers", "timestamp", "offset")
PARTS: Final = ("key", "value", "headers", "record")
"""The parts whose sizes are measured. A record is key, value and headers, without the format."""
KEYS_MAX: Final = 10_000
"""The number of keys that are counted. Up to this number counts are exact."""
KEY_MAX_BYTES: Final = 512
"""The length up to which keys are compared."""
BUCKETS_MAX: Final = 2000
FIRST_WIDTH_MS: Final = 1000
SAMPLE_BYTES: Final = 64 << 10
SAMPLES_MAX: Final = 8
CODECS: Final = ("lz4", "zstd", "gzip")
"""The codecs whose compressed sizes are measured."""
SAMPLE_VALUES: Final = 200
"""The number of values of a sample whose format is guessed."""
_EXACT_BITS: Final = 8
_PENDING_ROWS: Final = 100_000


def measure_task(source: SourceOptions, range_: OffsetRange) -> dict[str, Any]:
    """Measure a range, as a task of `map_ranges`. Returns the result in the form of JSON."""
    measured = Measured()
    for batch in read_range(source, range_, COLUMNS):
        measured.add(batch)
    return {
        "topic": range_.topic,
        "partition": range_.partition,
        "records": measured.records,
        "bytes": measured.sizes["record"].total,
        "measured": measured.to_json(),
    }


class Sizes:
    """Counts values by size in bytes: exactly below 256, to within 1 % above."""

    def __init__(self) -> None:
        """Start without values."""
        self.counts: dict[int, int] = {}
        self.count = 0
        self.total = 0
        self.smallest = 0
        self.largest = 0

    def add(self, sizes: pa.Array) -> None:
        """Count sizes. Nulls are ignored."""
        found = pc.value_counts(sizes.drop_null())
        for size, count in zip(
            found.field("values").to_pylist(), found.field("counts").to_pylist(), strict=True
        ):
            self._add(size, count)

    def _add(self, size: int, count: int) -> None:
        bucket = floor_of(size)
        self.counts[bucket] = self.counts.get(bucket, 0) + count
        self.smallest = min(self.smallest, size) if self.count else size
        self.largest = max(self.largest, size)
        self.count += count
        self.total += size * count

    def merge(self, other: Sizes) -> None:
        """Add the counts of another object."""
        if not other.count:
            return
        self.smallest = min(self.smallest, other.smallest) if self.count else other.smallest
        self.largest = max(self.largest, other.largest)
        self.count += other.count
        self.total += other.total
        for bucket, count in other.counts.items():
            self.counts[bucket] = self.counts.get(bucket, 0) + count

    @property
    def mean(self) -> float:
        """The mean size; 0 without values."""
        return self.total / self.count if self.count else 0.0

    def percentile(self, share: float) -> int:
        """The size at a percentile (``share`` is 0 to 1), to within 1 %; 0 without values."""
        wanted = share * self.count
        seen = 0
        for bucket, count in sorted(self.counts.items()):
            seen += count
            if seen >= wanted:
                return min(max(bucket + width_of(bucket) // 2, self.smallest), self.largest)
        return self.largest

    def to_json(self) -> list[Any]:
        """Return the state in the form of JSON, for `from_json`."""
        return [self.count, self.total, self.smallest, self.largest, sorted(self.counts.items())]

    @classmethod
    def from_json(cls, data: list[Any]) -> Sizes:
        """Restore the state that `to_json` returned."""
        made = cls()
        made.count, made.total, made.smallest, made.largest, counts = data
        made.counts = dict(counts)
        return made


def floor_of(size: int) -> int:
    """The smallest size in the bucket of a size."""
    shift = max(0, size.bit_length() - _EXACT_BITS)
    return size >> shift << shift


def width_of(bucket: int) -> int:
    """The number of sizes in a bucket."""
    return 1 << max(0, bucket.bit_length() - _EXACT_BITS)


class KeyCounts:
    """Counts the most frequent keys: a Misra-Gries summary. Two summaries can be merged.

    Counts are exact up to KEYS_MAX keys. With more keys, a count may be too low by up to ``slack``.
    ``slack`` is at most one KEYS_MAX-th of all records.
    """

    _SCHEMA: Final = pa.schema([("key", pa.large_binary()), ("count", pa.int64())])

    def __init__(self, keys_max: int = KEYS_MAX) -> None:
        """Start without keys. ``keys_max``: the number of keys to keep."""
        self._max = keys_max
        self._kept: pa.Table = self._SCHEMA.empty_table()
        self._pending: list[pa.Table] = []
        self._rows = 0
        self.slack = 0
        self.total = 0
        """The number of records with a key."""
        self.nulls = 0

    def add(self, keys: pa.Array) -> None:
        """Count the keys of a batch."""
        self.nulls += keys.null_count
        keys = keys.drop_null()
        if not len(keys):
            return
        self.total += len(keys)
        if (pc.max(pc.binary_length(keys)).as_py() or 0) > KEY_MAX_BYTES:
            keys = pc.binary_slice(keys, 0, KEY_MAX_BYTES)
        found = pc.value_counts(keys)
        self._take(pa.table([found.field("values"), found.field("counts")], names=["key", "count"]))

    def _take(self, counts: pa.Table) -> None:
        self._pending.append(counts.cast(self._SCHEMA))
        self._rows += counts.num_rows
        if self._rows >= max(_PENDING_ROWS, 4 * self._max):
            self._reduce()

    def _reduce(self) -> None:
        if not self._pending:
            return
        rows = pa.concat_tables([self._kept, *self._pending])
        self._pending, self._rows = [], 0
        grouped = rows.group_by("key", use_threads=False).aggregate([("count", "sum")])
        counted = pa.table([grouped["key"], grouped["count_sum"]], names=["key", "count"])
        if counted.num_rows > self._max:
            order = pc.sort_indices(counted["count"], sort_keys=[("count", "descending")])
            counted = counted.take(order[: self._max + 1])
            floor = counted["count"][self._max].as_py()
            self.slack += floor
            counts = pc.subtract(counted["count"], floor)
            counted = counted.set_column(1, "count", counts).filter(pc.greater(counts, 0))
        self._kept = counted.combine_chunks()

    def merge(self, other: KeyCounts) -> None:
        """Add the counts of another object."""
        other._reduce()
        self.total += other.total
        self.nulls += other.nulls
        self.slack += other.slack
        if other._kept.num_rows:
            self._take(other._kept)

    @property
    def distinct(self) -> int:
        """The number of kept keys. These are all keys if ``slack`` is 0."""
        self._reduce()
        return int(self._kept.num_rows)

    def top(self, count: int) -> list[tuple[bytes, int]]:
        """The most frequent keys with their minimum counts. Equal counts are sorted by key."""
        self._reduce()
        rows = zip(self._kept["key"].to_pylist(), self._kept["count"].to_pylist(), strict=True)
        return sorted(rows, key=lambda row: (-row[1], row[0]))[:count]

    def to_json(self) -> dict[str, Any]:
        """Return the state in the form of JSON, for `from_json`."""
        self._reduce()
        keys = [base64.b64encode(key).decode() for key in self._kept["key"].to_pylist()]
        counts = self._kept["count"].to_pylist()
        return {
            "total": self.total,
            "nulls": self.nulls,
            "slack": self.slack,
            "keys": keys,
            "counts": counts,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> KeyCounts:
        """Restore the state that `to_json` returned."""
        made = cls()
        made.total, made.nulls, made.slack = data["total"], data["nulls"], data["slack"]
        keys = [base64.b64decode(key) for key in data["keys"]]
        made._kept = pa.table({"key": keys, "count": data["counts"]}, schema=cls._SCHEMA)
        return made


class Timeline:
    """Records and bytes by time, in buckets. The width doubles when there are too many buckets."""

    def __init__(self) -> None:
        """Start without records."""
        self.width_ms = FIRST_WIDTH_MS
        self.buckets: dict[int, tuple[int, int]] = {}
        """Records and bytes by bucket number, which is the time divided by the width."""
        self.first_ms: int | None = None
        self.last_ms: int | None = None

    def add(self, times_us: pa.Array, sizes: pa.Array) -> None:
        """Count records by timestamp, in microseconds since 1970; null or below 0: none."""
        table = pa.table([pc.divide(times_us, 1000), sizes], names=["ms", "size"])
        table = table.filter(pc.greater_equal(times_us, 0))
        if not table.num_rows:
            return
        edges = pc.min_max(table["ms"]).as_py()
        self._span(edges["min"], edges["max"])
        table = table.set_column(0, "bucket", pc.divide(table["ms"], self.width_ms))
        found = table.group_by("bucket", use_threads=False).aggregate(
            [("size", "count"), ("size", "sum")]
        )
        columns = (found[name].to_pylist() for name in ("bucket", "size_count", "size_sum"))
        self._add(zip(*columns, strict=True))

    def _span(self, first_ms: int, last_ms: int) -> None:
        self.first_ms = first_ms if self.first_ms is None else min(self.first_ms, first_ms)
        self.last_ms = last_ms if self.last_ms is None else max(self.last_ms, last_ms)

    def _add(self, found: Iterable[tuple[int, int, int]]) -> None:
        for bucket, count, size in found:
            counts, sizes = self.buckets.get(bucket, (0, 0))
            self.buckets[bucket] = counts + count, sizes + size
        while len(self.buckets) > BUCKETS_MAX:
            self._widen()

    def _widen(self) -> None:
        self.width_ms *= 2
        old, self.buckets = self.buckets, {}
        # Rounds towards zero, like pyarrow's division.
        halves = (
            (bucket // 2 if bucket >= 0 else -(-bucket // 2), *both) for bucket, both in old.items()
        )
        self._add(halves)

    def merge(self, other: Timeline) -> None:
        """Add the counts of another object. The result has the larger bucket width."""
        while self.width_ms < other.width_ms:
            self._widen()
        while other.width_ms < self.width_ms:
            other._widen()
        if other.first_ms is not None and other.last_ms is not None:
            self._span(other.first_ms, other.last_ms)
        self._add((bucket, count, size) for bucket, (count, size) in other.buckets.items())

    def to_json(self) -> list[Any]:
        """Return the state in the form of JSON, for `from_json`."""
        return [
            self.width_ms,
            self.first_ms,
            self.last_ms,
            [[at, *both] for at, both in sorted(self.buckets.items())],
        ]

    @classmethod
    def from_json(cls, data: list[Any]) -> Timeline:
        """Restore the state that `to_json` returned."""
        made = cls()
        made.width_ms, made.first_ms, made.last_ms, buckets = data
        made.buckets = {at: (count, size) for at, count, size in buckets}
        return made


@dataclass
class Compression:
    """The compressed sizes of samples. A sample is consecutive keys and values of a small batch."""

    raw: int = 0
    """The bytes of the samples."""
    packed: dict[str, int] = field(default_factory=dict)
    """The compressed bytes by codec."""

    def add(self, batch: pa.RecordBatch) -> None:
        """Add a sample: the first records of a batch."""
        rows = batch.slice(0, 2000)
        sample = bytearray()
        for key, value in zip(
            rows.column("key").to_pylist(), rows.column("value").to_pylist(), strict=True
        ):
            sample += (key or b"") + (value or b"")
            if len(sample) >= SAMPLE_BYTES:
                break
        if not sample:
            return
        data = bytes(sample[: 4 * SAMPLE_BYTES])
        self.raw += len(data)
        for codec, size in _packed(data).items():
            self.packed[codec] = self.packed.get(codec, 0) + size

    def merge(self, other: Compression) -> None:
        """Add the samples of another object."""
        self.raw += other.raw
        for codec, size in other.packed.items():
            self.packed[codec] = self.packed.get(codec, 0) + size


def _packed(data: bytes) -> dict[str, int]:
    """The sizes of a sample with Kafka's codecs, at their default levels.

    A codec without a library is left out.
    """
    found = features()
    return {codec: len(compress(codec, data)) for codec in CODECS if found[codec]}


class Measured:
    """All measurements of a range, a partition or a topic."""

    def __init__(self) -> None:
        """Start without records."""
        self.records = 0
        self.tombstones = 0
        """The number of records without a value."""
        self.sizes = {part: Sizes() for part in PARTS}
        self.keys = KeyCounts()
        self.times = Timeline()
        self.compression = Compression()
        self.values = ValueKinds()
        self._batches = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Measure a batch with the columns key, value, headers and timestamp."""
        if not batch.num_rows:
            return
        key, value = batch.column("key"), batch.column("value")
        sizes = {
            "key": pc.binary_length(key),
            "value": pc.binary_length(value),
            "headers": _header_sizes(batch),
        }
        whole = [pc.cast(pc.fill_null(each, 0), pa.int64()) for each in sizes.values()]
        sizes["record"] = pc.add(pc.add(whole[0], whole[1]), whole[2])
        for part, each in sizes.items():
            self.sizes[part].add(each)
        self.records += batch.num_rows
        self.tombstones += value.null_count
        self.keys.add(key)
        self.times.add(batch.column("timestamp").cast(pa.int64()), sizes["record"])
        # Samples get rarer: they are taken from the batches 1, 2, 4, 8 ...
        self._batches += 1
        if self._batches & (self._batches - 1) == 0 and self._batches.bit_length() <= SAMPLES_MAX:
            self.compression.add(batch)
            self.values.add(value.slice(0, SAMPLE_VALUES).to_pylist())

    def merge(self, other: Measured) -> None:
        """Add the measurements of another object, which can't be used afterwards."""
        self.records += other.records
        self.tombstones += other.tombstones
        for part, sizes in self.sizes.items():
            sizes.merge(other.sizes[part])
        self.keys.merge(other.keys)
        self.times.merge(other.times)
        self.compression.merge(other.compression)
        self.values.merge(other.values)

    def to_json(self) -> dict[str, Any]:
        """Return the state in the form of JSON, for `from_json`."""
        return {
            "records": self.records,
            "tombstones": self.tombstones,
            "sizes": {part: sizes.to_json() for part, sizes in self.sizes.items()},
            "keys": self.keys.to_json(),
            "times": self.times.to_json(),
            "compression": [self.compression.raw, self.compression.packed],
            "values": self.values.to_json(),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Measured:
        """Restore the state that `to_json` returned."""
        made = cls()
        made.records, made.tombstones = data["records"], data["tombstones"]
        made.sizes = {part: Sizes.from_json(each) for part, each in data["sizes"].items()}
        made.keys = KeyCounts.from_json(data["keys"])
        made.times = Timeline.from_json(data["times"])
        made.compression = Compression(*data["compression"])
        made.values = ValueKinds.from_json(data["values"])
        return made


def _header_sizes(batch: pa.RecordBatch) -> pa.Array:
    """The bytes of each record's header names and values; null without headers."""
    headers = batch.column("headers")
    if headers.null_count == len(headers):
        return pa.nulls(len(headers), pa.int64())
    each = headers.flatten()
    sizes = pc.add(
        pc.binary_length(each.field("key")), pc.fill_null(pc.binary_length(each.field("value")), 0)
    )
    parents = pc.list_parent_indices(headers)
    table = pa.table([parents, sizes], names=["record", "size"])
    sums = table.group_by("record", use_threads=False).aggregate([("size", "sum")])
    found = dict(zip(sums["record"].to_pylist(), sums["size_sum"].to_pylist(), strict=True))
    return pa.array([found.get(number) for number in range(len(headers))], pa.int64())
