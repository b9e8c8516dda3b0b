"""Profiles topics: sizes, keys, throughput, compression and lag.

The result is a JSON document, and `profile_report` makes an HTML page of it. Tasks measure ranges
of offsets (`measurements`), and the driver merges the results. Nothing is written to Kafka.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypedDict

from kafka_native import Consumer, TopicPartition
from kafka_native.cleaning import escaped_data
from kafka_native.spark.offset_reader import OffsetReader
from kafka_native.spark.offsets import Key
from kafka_native.spark.options import SourceOptions
from kafka_native.spark.pipelines.measurements import (
    PARTS,
    KeyCounts,
    Measured,
    Sizes,
    measure_task,
    width_of,
)
from kafka_native.spark.pipelines.session import (
    PipelineError,
    Work,
    WorkCounter,
    cause_of,
    map_ranges,
    topic_options,
    watch,
)
from kafka_native.spark.pipelines.snapshot import PartitionRange, fixed_range_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["PartitionProfile", "Profile", "TopicProfile", "plan_profile", "profile"]

_FEW_KEYS: Final = 10
"""Up to this number of keys, the report shows each one."""
TOP_KEYS: Final = 50
SHARES: Final = (0.5, 0.9, 0.95, 0.99, 0.999)
TOP_SHARES: Final = (1, 10, 100, 1000)
_OFFSETS_TIMEOUT_S: Final = 30.0


class PartitionProfile(TypedDict):
    """The profile of a partition. Times are in milliseconds since 1970; None: no timestamps."""

    partition: int
    start: int
    end: int
    records: int
    bytes: int
    tombstones: int
    without_key: int
    first_ms: int | None
    last_ms: int | None
    lag: dict[str, int | None]
    """The lag of each group; None: the group has committed no offset."""


class TopicProfile(TypedDict):
    """The profile of a topic, in the form of JSON."""

    records: int
    bytes: int
    tombstones: int
    sizes: dict[str, dict[str, Any]]
    """For key, value, headers and record: count, bytes, min, mean, max, percentiles, histogram.

    A histogram's entries are size, width and count.
    """
    keys: dict[str, Any]
    """Counts of records with and without a key, and facts about frequent keys.

    There is the number of distinct keys (None: more than are counted). Each frequent key has its
    text, its bytes in hex and its count. Counts may be too low by up to ``too_low_by``. Shares of
    the most frequent keys are of the records with a key. ``standing_out`` is the number of keys
    that are clearly more frequent than an average one, among the counted frequent keys; if there
    are few keys, of all keys.
    """
    values: dict[str, Any]
    """The formats that sampled values look like.

    There is the number of samples, that of each format, and the schema ids of values with a
    registry's framing, with the format and the number of samples of each.
    """
    times: dict[str, Any]
    """The width of buckets in milliseconds, and each bucket's start, records and bytes."""
    compression: dict[str, Any]
    """The bytes of the samples, and the ratio of each codec."""
    partitions: list[PartitionProfile]


class Profile(TypedDict):
    """The profile of one or more topics."""

    made: str
    """The time of the profile: ISO 8601 in UTC."""
    topics: dict[str, TopicProfile]


def profile(
    session: SparkSession,
    config: Mapping[str, str],
    *,
    topics: Sequence[str] = (),
    pattern: str = "",
    starting: str = "earliest",
    groups: Sequence[str] = (),
    min_partitions: int | None = None,
    show: Callable[[Work], None] | None = None,
) -> Profile:
    """Measure topics from a start to their current ends.

    :param session: The Spark session, from `open_session`.
    :param config: The client's configuration, with ``bootstrap.servers``.
    :param topics: The topics.
    :param pattern: Or a regular expression that whole topic names match.
    :param starting: The start: ``earliest``, offsets as JSON, or a time in milliseconds since 1970.
    :param groups: Consumer groups whose lag is measured, from their committed offsets.
    :param min_partitions: The smallest number of tasks. The ranges of large partitions are split.
    :param show: Called with the progress several times a second, on a separate thread.
    :return: Figures in the form of JSON. `profile_report.html_of` makes a page of them.
    :raises PipelineError: A task failed.
    :raises KafkaException: The cluster doesn't answer, or a topic doesn't exist.
    """
    planned = plan_profile(config, topics=topics, pattern=pattern, starting=starting)
    measured = _measure(session, config, planned, min_partitions, show)
    lags = _lags(
        SourceOptions.parse(topic_options(config, topics, pattern)).consumer, planned, groups
    )
    found: Profile = {
        "made": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "topics": {},
    }
    for topic in sorted({each.topic for each in planned}):
        own = [each for each in planned if each.topic == topic]
        found["topics"][topic] = _topic(own, measured, lags)
    return found


def plan_profile(
    config: Mapping[str, str],
    *,
    topics: Sequence[str] = (),
    pattern: str = "",
    starting: str = "earliest",
) -> list[PartitionRange]:
    """The offsets that `profile` would read of each partition. The arguments are the same."""
    where = {"startingTimestamp" if starting.isdigit() else "startingOffsets": starting}
    own = {**where, "startingOffsetsByTimestampStrategy": "latest"}
    options = SourceOptions.parse(topic_options(config, topics, pattern, **own))
    assert options.starting is not None
    with OffsetReader(options) as cluster:
        keys = cluster.partitions()
        starts, ends = cluster.resolve(options.starting, keys, starting=True), cluster.latest(keys)
    return [PartitionRange(*key, min(starts[key], ends[key]), ends[key]) for key in keys]


def _measure(
    session: SparkSession,
    config: Mapping[str, str],
    planned: list[PartitionRange],
    min_partitions: int | None,
    show: Callable[[Work], None] | None,
) -> dict[Key, Measured]:
    """Measure each partition that has records to read."""
    busy = [each for each in planned if each.end > each.start]
    found: dict[Key, Measured] = {}
    if not busy:
        return found
    options = fixed_range_options(config, busy, minPartitions=min_partitions)
    counter = WorkCounter(session)
    total = sum(each.end - each.start for each in busy)
    try:
        with watch(lambda: counter.work(total=total), show):
            frame = session.read.format("kafka_native").options(**options).load()
            results = map_ranges(
                frame, partial(measure_task, SourceOptions.parse(options)), counter
            )
    except Exception as error:
        raise PipelineError(f"the profile has failed: {cause_of(error)}") from error
    for result in results:
        found.setdefault((result["topic"], result["partition"]), Measured()).merge(
            Measured.from_json(result["measured"])
        )
    return found


def _lags(
    config: Mapping[str, Any], planned: list[PartitionRange], groups: Sequence[str]
) -> dict[Key, dict[str, Any]]:
    """The lag of each group by partition."""
    found: dict[Key, dict[str, Any]] = {(each.topic, each.partition): {} for each in planned}
    for group in groups:
        with Consumer({**config, "group.id": group}) as consumer:
            committed = consumer.committed(
                [TopicPartition(*key) for key in found], _OFFSETS_TIMEOUT_S
            )
        at = {(each.topic, each.partition): each.offset for each in committed}
        for each in planned:
            key = each.topic, each.partition
            found[key][group] = None if at[key] < 0 else max(0, each.end - at[key])
    return found


# --- figures ---


def _topic(
    planned: list[PartitionRange],
    measured: Mapping[Key, Measured],
    lags: Mapping[Key, dict[str, Any]],
) -> TopicProfile:
    partitions = [
        _partition(
            each,
            measured.get((each.topic, each.partition), Measured()),
            lags[each.topic, each.partition],
        )
        for each in planned
    ]
    whole = Measured()
    for each in planned:
        if (each.topic, each.partition) in measured:
            whole.merge(measured[each.topic, each.partition])
    return {
        "records": whole.records,
        "bytes": whole.sizes["record"].total,
        "tombstones": whole.tombstones,
        "sizes": {part: _sizes(whole.sizes[part]) for part in PARTS},
        "keys": _keys(whole),
        "values": _values(whole),
        "times": _times(whole),
        "compression": _compression(whole),
        "partitions": partitions,
    }


def _partition(
    planned: PartitionRange, measured: Measured, lag: dict[str, Any]
) -> PartitionProfile:
    return {
        "partition": planned.partition,
        "start": planned.start,
        "end": planned.end,
        "records": measured.records,
        "bytes": measured.sizes["record"].total,
        "tombstones": measured.tombstones,
        "without_key": measured.keys.nulls,
        "first_ms": measured.times.first_ms,
        "last_ms": measured.times.last_ms,
        "lag": lag,
    }


def _sizes(sizes: Sizes) -> dict[str, Any]:
    return {
        "count": sizes.count,
        "bytes": sizes.total,
        "min": sizes.smallest,
        "mean": round(sizes.mean, 2),
        "max": sizes.largest,
        "percentiles": {f"{100 * share:g}": sizes.percentile(share) for share in SHARES},
        "histogram": [
            [bucket, width_of(bucket), count] for bucket, count in sorted(sizes.counts.items())
        ],
    }


def _keys(measured: Measured) -> dict[str, Any]:
    keys = measured.keys
    top = keys.top(max(TOP_SHARES))
    total = max(1, keys.total)
    return {
        "with_key": keys.total,
        "without_key": keys.nulls,
        "distinct": keys.distinct if keys.slack == 0 else None,
        "too_low_by": keys.slack,
        "standing_out": _standing_out(keys),
        "top": [
            {"key": escaped_data(key), "hex": key.hex(), "count": count}
            for key, count in top[:TOP_KEYS]
        ],
        "top_shares": {
            str(number): round(sum(count for _, count in top[:number]) / total, 6)
            for number in TOP_SHARES
        },
    }


def _standing_out(keys: KeyCounts) -> int:
    """The number of keys with clearly more records than an average key has by chance.

    If there are too many keys to count, a count up to ``slack`` may be chance. If there are few
    keys, each counts.
    """
    if not keys.total or (keys.slack == 0 and keys.distinct <= _FEW_KEYS):
        return keys.distinct
    average = keys.total / max(1, keys.distinct)
    least = max(3 * average, average + 4 * math.sqrt(average), keys.slack)
    return sum(count > least for _, count in keys.top(max(TOP_SHARES)))


def _values(measured: Measured) -> dict[str, Any]:
    values = measured.values
    schemas = [
        {"id": schema_id, "format": name, "samples": count}
        for schema_id, (name, count) in values.schemas.items()
    ]
    return {"sampled": values.sampled, "formats": values.kinds, "schemas": schemas}


def _times(measured: Measured) -> dict[str, Any]:
    times = measured.times
    buckets = [[bucket * times.width_ms, *both] for bucket, both in sorted(times.buckets.items())]
    return {
        "width_ms": times.width_ms,
        "first_ms": times.first_ms,
        "last_ms": times.last_ms,
        "buckets": buckets,
    }


def _compression(measured: Measured) -> dict[str, Any]:
    sample = measured.compression
    ratios = {
        codec: round(sample.raw / max(1, size), 2) for codec, size in sorted(sample.packed.items())
    }
    return {"sample_bytes": sample.raw, "ratios": ratios}
