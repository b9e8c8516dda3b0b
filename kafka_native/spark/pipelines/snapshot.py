"""Snapshots of compacted topics: Parquet tables of the newest value of each key.

Tasks reduce ranges of offsets to the newest record of each key (`latest`). A key is always in the
same partition, so only the ranges of one partition are merged. The finished files are moved to
their places at the end. Only during this moment can readers see a mix of two snapshots.
``_snapshot.json`` is written last and has the offsets of the snapshot.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import pyarrow.parquet as pq

from kafka_native.spark.folder import Folder, checked_topic, loaded
from kafka_native.spark.offset_reader import OffsetReader
from kafka_native.spark.offsets import Key, flat, nested, offsets_json
from kafka_native.spark.options import SourceOptions
from kafka_native.spark.pipelines import latest
from kafka_native.spark.pipelines.session import (
    PipelineError,
    Work,
    WorkCounter,
    cause_of,
    map_ranges,
    range_options,
    topic_options,
    watch,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "MANIFEST",
    "PartitionRange",
    "Snapshot",
    "fixed_range_options",
    "plan_snapshot",
    "snapshot",
]

MANIFEST: Final = "_snapshot.json"
"""The file with the snapshot's offsets and form."""
_UNFINISHED: Final = "_unfinished"


@dataclass(frozen=True)
class PartitionRange:
    """The offsets to read of a partition."""

    topic: str
    partition: int
    start: int
    """The first existing offset; in an update, the end of the previous snapshot."""
    end: int
    """The first offset that isn't read."""
    updates: bool = False
    """Whether it continues the previous snapshot."""
    topic_id: str = field(default="", compare=False)
    """The topic's id. A recreated topic has another one. Empty: brokers send none."""


@dataclass
class Snapshot:
    """The results of a snapshot."""

    output: str
    partitions: list[PartitionRange]
    records: int = 0
    """Records read, including tombstones and records without a key."""
    bytes: int = 0
    keys: int = 0
    """Keys in the table."""
    without_key: int = 0
    """Records without a key, which were skipped."""
    tombstones: int = 0


def snapshot(
    session: SparkSession,
    config: Mapping[str, str],
    output: str,
    *,
    topics: Sequence[str] = (),
    pattern: str = "",
    null_keys: str = "error",
    headers: bool = False,
    key_type: str = "binary",
    value_type: str = "binary",
    update: bool = False,
    min_partitions: int | None = None,
    show: Callable[[Work], None] | None = None,
) -> Snapshot:
    """Write the newest value of each key, up to the current ends of the topics.

    The files are ``OUTPUT/topic=NAME/part-PPPPP.parquet`` with the columns key, value, partition,
    offset and timestamp. Each partition has a file, even without any key. A task holds the newest
    rows of one partition in memory, about twice. Only one run at a time may write to an output.

    :param session: The Spark session, from `open_session`.
    :param config: The client's configuration, with ``bootstrap.servers``. Only here
        ``isolation.level`` is ``read_committed`` by default: records of aborted transactions are no
        values.
    :param output: A folder that all executors share, or a URI that pyarrow knows.
    :param topics: The topics.
    :param pattern: Or a regular expression that whole topic names match.
    :param null_keys: What to do with records without a key: ``error`` or ``skip``.
    :param headers: Whether to add a column of headers.
    :param key_type: ``binary`` or ``string`` (UTF-8).
    :param value_type: ``binary`` or ``string`` (UTF-8).
    :param update: Read only records after the snapshot in ``output``, and update it. Run it more
        often than ``delete.retention.ms``. Otherwise tombstones that it needs may be gone.
    :param min_partitions: The smallest number of tasks. The ranges of large partitions are split.
    :param show: Called with the progress several times a second, on a separate thread.
    :raises PipelineError: A record has no key (``null_keys``), isn't UTF-8, or a task failed.
    :raises KafkaException: The cluster doesn't answer, or a topic doesn't exist.
    """
    form = _form(null_keys, headers, key_type, value_type)
    config = _of_committed(config)
    planned = plan_snapshot(
        config, output, topics=topics, pattern=pattern, update=update, form=form
    )
    home = Folder(output)
    home.remove(_UNFINISHED)  # the files of killed runs
    unfinished = f"{_UNFINISHED}/{uuid4().hex}"
    home.make(unfinished)
    made = Snapshot(home.uri, planned)
    try:
        _make(session, config, made, form, home, unfinished, min_partitions, show)
        _publish(home, unfinished, made, form)
    finally:
        home.remove(unfinished)
    return made


def plan_snapshot(
    config: Mapping[str, str],
    output: str,
    *,
    topics: Sequence[str] = (),
    pattern: str = "",
    update: bool = False,
    form: latest.Form | None = None,
) -> list[PartitionRange]:
    """The offsets that `snapshot` would read of each partition. Nothing is read.

    :raises PipelineError: A topic's name can't be a folder's. Or, with ``update``, the existing
        snapshot has other columns.
    """
    options = SourceOptions.parse(topic_options(_of_committed(config), topics, pattern))
    with OffsetReader(options) as cluster:
        keys = cluster.partitions()
        starts, ends = cluster.earliest(keys), cluster.latest(keys)
        topic_ids = cluster.topic_ids
    before, ids_before = _before(output, form) if update else ({}, {})
    found = []
    for key in keys:
        checked_topic(key[0])
        topic_id = topic_ids.get(key[0], "")
        is_same = "" in (topic_id, ids_before.get(key[0], "")) or topic_id == ids_before[key[0]]
        # After the current end, before the first offset, or of another topic: rebuild the table.
        goes_on = is_same and key in before and starts[key] <= before[key] <= ends[key]
        found.append(
            PartitionRange(
                *key, before[key] if goes_on else starts[key], ends[key], goes_on, topic_id
            )
        )
    return found


def _of_committed(config: Mapping[str, str]) -> dict[str, str]:
    return {"isolation.level": "read_committed", **config}


def _form(null_keys: str, headers: bool, key_type: str, value_type: str) -> latest.Form:
    if null_keys not in ("error", "skip"):
        raise ValueError(f"null_keys is {null_keys!r}: write error or skip")
    for kind in (key_type, value_type):
        if kind not in ("binary", "string"):
            raise ValueError(f"{kind!r} isn't a type of keys and values: write binary or string")
    return latest.Form(null_keys, headers, key_type, value_type)


def fixed_range_options(
    config: Mapping[str, str], ranges: Sequence[PartitionRange], **own: Any
) -> dict[str, str]:
    """Options of the source with fixed partitions and offsets."""
    assigned: dict[str, list[int]] = {}
    for each in ranges:
        assigned.setdefault(each.topic, []).append(each.partition)
    settled = {
        "assign": json.dumps(assigned),
        "startingOffsets": offsets_json(
            {(each.topic, each.partition): each.start for each in ranges}
        ),
        "endingOffsets": offsets_json({(each.topic, each.partition): each.end for each in ranges}),
    }
    return range_options(config, {**settled, **own})


def _make(
    session: SparkSession,
    config: Mapping[str, str],
    made: Snapshot,
    form: latest.Form,
    home: Folder,
    unfinished: str,
    min_partitions: int | None,
    show: Callable[[Work], None] | None,
) -> None:
    """Run both rounds of tasks: the parts, then a file for each partition with new records."""
    busy = [each for each in made.partitions if each.end > each.start]
    if not busy:
        return
    counter = WorkCounter(session)
    total = sum(each.end - each.start for each in busy)
    options = fixed_range_options(config, busy, minPartitions=min_partitions)
    source = SourceOptions.parse(options)
    try:
        with watch(lambda: counter.work(total=total), show):
            frame = session.read.format("kafka_native").options(**options).load()
            results = map_ranges(
                frame, partial(latest.part_task, source, form, home, unfinished), counter
            )
        parts: dict[Key, list[str]] = {
            (each.topic, each.partition): [file_of(each.topic, each.partition)]
            if each.updates
            else []
            for each in busy
        }
        for result in sorted(results, key=lambda each: int(each["start"])):
            parts[result["topic"], result["partition"]].append(result["path"])
        whole = (
            session.read.format("kafka_native").options(**fixed_range_options(config, busy)).load()
        )
        map_ranges(whole, partial(latest.merge_task, form, home, unfinished, parts))
    except Exception as error:
        raise PipelineError(f"the snapshot has failed: {cause_of(error)}") from error
    made.records = sum(each["records"] for each in results)
    made.bytes = sum(each["bytes"] for each in results)
    made.without_key = sum(each["without_key"] for each in results)
    made.tombstones = sum(each["tombstones"] for each in results)


def _publish(home: Folder, unfinished: str, made: Snapshot, form: latest.Form) -> None:
    """Move the files to their places, delete files of older snapshots, and write the manifest."""
    wanted: dict[str, set[str]] = {}
    for each in made.partitions:
        key = each.topic, each.partition
        file, final = file_of(*key), latest.final_path(unfinished, *key)
        folder, _, name = file.rpartition("/")
        wanted.setdefault(folder, set()).add(name)
        home.make(folder)
        if each.end > each.start:
            home.fs.move(home.full(final), home.full(file))
        elif not each.updates:
            latest.write_final(home, final, form.gathered.empty_table(), form, key)
            home.fs.move(home.full(final), home.full(file))
        with home.fs.open_input_file(home.full(file)) as source:
            made.keys += pq.read_metadata(source).num_rows
    for folder, names in wanted.items():
        for name in home.names(folder, ".parquet") - names:
            home.delete(f"{folder}/{name}")
        home.sync(folder)
    home.sync("")
    offsets = {(each.topic, each.partition): each.end for each in made.partitions}
    topic_ids = {each.topic: each.topic_id for each in made.partitions}
    described = {
        "offsets": nested(offsets),
        "topic_ids": topic_ids,
        "form": asdict(form),
        "keys": made.keys,
    }
    home.write(MANIFEST, described)


def file_of(topic: str, partition: int) -> str:
    """The path of a partition's file, below the table's folder."""
    return f"topic={checked_topic(topic)}/part-{partition:05}.parquet"


def _before(output: str, form: latest.Form | None) -> tuple[dict[Key, int], dict[str, str]]:
    """The end of the existing snapshot, and the known ids of its topics."""
    home = Folder(output)
    if not home.exists(MANIFEST):
        return {}, {}
    described = loaded(home.read(MANIFEST), f"{MANIFEST} of {home.uri}")
    if form is not None and described["form"] != asdict(form):
        raise PipelineError(
            f"the snapshot in {home.uri} was made with other options: "
            f"{json.dumps(described['form'])}"
        )
    return flat(described["offsets"], MANIFEST), described.get("topic_ids", {})
