"""The pipelines survive kill -9 of the driver with all its processes, and of a single executor.

The mock cluster delays a response in the middle of a batch. At the kill a part of the batch is
written and nothing is committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from kafka_native import Producer
from kafka_native.mock import MockCluster
from kafka_native.protocol import ApiKey
from kafka_native.spark import producers, range_reader
from kafka_native.spark.pipelines import Lake, Range, archive, replay
from kafka_native.spark.pipelines.manifests import LOG
from kafka_native.spark.pipelines.mirror import mirror, translate_offset
from kafka_native.spark.pipelines.snapshot import snapshot
from tests.spark.killing import ALL_RESPONSES, CLUSTER, Gate, closed_gate, running
from tests.spark.lakes import NOON_MS, records, stage

pytestmark = pytest.mark.slow

PARTITIONS = 2
RECORDS = 100
"""In each partition."""
FIRST = 50
"""Records of each partition that an earlier run has processed."""
HELD = 75
"""The offset in partition 1 at which a response is delayed."""
FIRST_MS = 1_600_000_000_000

Rows = list[tuple[Any, ...]]


def with_topic(close_idle: Callable[[], object]) -> Iterator[MockCluster]:
    """Yield a cluster, and close its clients in this process before its end."""
    with MockCluster(brokers=2, auto_create_topics=False) as cluster:
        cluster.create_topic("t", PARTITIONS)
        yield cluster
        close_idle()


@pytest.fixture
def source() -> Iterator[MockCluster]:
    yield from with_topic(range_reader.close_idle)


@pytest.fixture
def target() -> Iterator[MockCluster]:
    yield from with_topic(producers.close_idle)


def conf(cluster: MockCluster) -> dict[str, str]:
    return {"bootstrap.servers": cluster.bootstrap_servers}


def fill(cluster: MockCluster, start: int, end: int) -> None:
    """Produce in batches of ten, so that tasks get a part and wait for the next one."""
    with Producer({**conf(cluster), "batch.num.messages": 10, "linger.ms": 1000}) as producer:
        for partition in range(PARTITIONS):
            for number in range(start, end):
                headers = [("n", b"%d" % number)] if number % 3 == 0 else None
                value = f"{partition}-{number:03}"
                producer.produce(
                    "t",
                    value,
                    f"k{number % 7}",
                    partition,
                    timestamp=FIRST_MS + number,
                    headers=headers,
                )


def stored(cluster: MockCluster, partition: int) -> Rows:
    found = cluster.messages("t", partition)
    return [(each.key, each.value, each.timestamp, list(each.headers)) for each in found]


# --- archive: exactly once ---


def archived(lake: Lake, partition: int) -> list[tuple[int, bytes]]:
    """Return the lake's records of a partition."""
    rows = lake.dataset().to_table(["partition", "offset", "value"]).sort_by("offset").to_pylist()
    return [(row["offset"], row["value"]) for row in rows if row["partition"] == partition]


def assert_archived_once(lake: Lake, source: MockCluster) -> None:
    for partition in range(PARTITIONS):
        wanted = [(record.offset, record.value) for record in source.messages("t", partition)]
        assert len(wanted) == RECORDS
        assert archived(lake, partition) == wanted
    assert lake.gaps() == []
    listed = {str(path) for path in Path(lake.root).glob("topic=*/**/*.parquet")}
    assert listed == set(lake.paths()), "a listing of the folders shows the same files"
    assert list(Path(lake.root, LOG).glob("staging/**/*.staged")) == []


def hold_fetch(source: MockCluster, gate: Gate) -> None:
    """Delay the responses for partition 1 from HELD on."""
    mark = b"1-%03d" % HELD

    def rewrite(frame: bytes) -> bytes:
        if mark in frame:
            gate.hold()
        return frame

    source.rewrite_responses(ApiKey.FETCH, rewrite, count=ALL_RESPONSES)


def archive_command(source: MockCluster, lake: Lake) -> list[object]:
    """Return a command that writes at once, and fetches one batch at a time."""
    small = ["--row-group-rows", "10", "--config", "fetch.message.max.bytes=1"]
    where = ["--bootstrap", source.bootstrap_servers, "--topics", "t", "--lake", lake.root]
    return ["archive", *where, *small]


def half_staged(lake: Lake) -> bool:
    """Return whether both partitions are partly or fully written, and not published."""
    return len(list(Path(lake.root, LOG).glob("staging/**/*.staged"))) == PARTITIONS


def test_archive_whose_driver_is_killed_has_each_record_once(
    source: MockCluster, spark: SparkSession, tmp_path: Path
) -> None:
    lake = Lake(tmp_path / "lake")
    fill(source, 0, FIRST)
    archive(conf(source), lake, topics=["t"], session=spark)
    fill(source, FIRST, RECORDS)
    with closed_gate() as gate:
        hold_fetch(source, gate)
        with running(tmp_path / "output", "local[2]", *archive_command(source, lake)) as command:
            command.wait_until(lambda: bool(gate.port) and half_staged(lake), "half a batch")
            command.kill()
    assert [len(archived(lake, partition)) for partition in range(PARTITIONS)] == [
        FIRST
    ] * PARTITIONS
    again = archive(conf(source), lake, topics=["t"], session=spark)
    assert again.records == PARTITIONS * (RECORDS - FIRST)
    assert_archived_once(lake, source)


def test_archive_continues_after_an_executor_is_killed(source: MockCluster, tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    fill(source, 0, RECORDS)
    with closed_gate() as gate:
        hold_fetch(source, gate)
        with running(tmp_path / "output", CLUSTER, *archive_command(source, lake)) as command:
            command.wait_until(lambda: bool(gate.port) and half_staged(lake), "half a batch")
            command.kill_executor(gate.port)
            gate.open()
            command.wait_for_success()
    assert_archived_once(lake, source)


# --- mirror: at least once, in order ---


def assert_mirrored(source: MockCluster, target: MockCluster, checkpoint: Path) -> None:
    """Check that no record is lost or foreign, and that translated offsets skip nothing."""
    for partition in range(PARTITIONS):
        wanted, found = stored(source, partition), stored(target, partition)
        assert len(wanted) == RECORDS
        assert without_repetitions(found) == wanted
        for offset in range(RECORDS):
            place = translate_offset(str(checkpoint), "t", partition, offset)
            assert place is not None
            rest = found[place:]
            assert all(row in rest for row in wanted[offset:])


def hold_produce(target: MockCluster, gate: Gate) -> None:
    """Delay the acknowledgements of writes to partition 1 from HELD on."""

    def edit(answer: Any) -> None:
        parts = [part for topic in answer.responses for part in topic.partition_responses]
        if any(part.index == 1 and part.base_offset >= HELD for part in parts):
            gate.hold()

    target.edit_responses(ApiKey.PRODUCE, edit, count=ALL_RESPONSES)


def mirror_command(source: MockCluster, target: MockCluster, checkpoint: Path) -> list[object]:
    """Return a command that writes in batches of ten records."""
    to = ["--to-bootstrap", target.bootstrap_servers, "--to-config", "batch.num.messages=10"]
    where = ["--bootstrap", source.bootstrap_servers, "--topics", "t"]
    return ["mirror", *where, "--checkpoint", checkpoint, *to]


def one_is_mirrored(target: MockCluster) -> bool:
    """Return whether all of partition 0 is copied."""
    return len(stored(target, 0)) == RECORDS


def without_repetitions(rows: Rows) -> Rows:
    found: Rows = []
    for row in rows:
        if row not in found:
            found.append(row)
    return found


def test_mirror_whose_driver_is_killed_copies_the_batch_again(
    source: MockCluster, target: MockCluster, spark: SparkSession, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "checkpoint"
    fill(source, 0, FIRST)
    mirror(spark, conf(source), conf(target), str(checkpoint), topics=["t"])
    fill(source, FIRST, RECORDS)
    with closed_gate() as gate:
        hold_produce(target, gate)
        with running(
            tmp_path / "output", "local[2]", *mirror_command(source, target, checkpoint)
        ) as command:
            command.wait_until(lambda: bool(gate.port) and one_is_mirrored(target), "half a batch")
            command.kill()
        gate.drain()
    done = [len(stored(target, partition)) for partition in range(PARTITIONS)]
    assert done[0] == RECORDS
    assert HELD < done[1] <= RECORDS
    again = mirror(spark, conf(source), conf(target), str(checkpoint), topics=["t"])
    assert again.records == PARTITIONS * (RECORDS - FIRST)
    for partition in range(PARTITIONS):
        wanted = stored(source, partition)
        found = stored(target, partition)
        assert found == wanted[: done[partition]] + wanted[FIRST:]
        ends = [
            translate_offset(str(checkpoint), "t", partition, offset) for offset in (FIRST, RECORDS)
        ]
        assert ends == [done[partition], len(found)], "offsets translate to the second copy"
    assert_mirrored(source, target, checkpoint)


def test_mirror_continues_after_an_executor_is_killed(
    source: MockCluster, target: MockCluster, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "checkpoint"
    fill(source, 0, RECORDS)
    with closed_gate() as gate:
        hold_produce(target, gate)
        with running(
            tmp_path / "output", CLUSTER, *mirror_command(source, target, checkpoint)
        ) as command:
            command.wait_until(lambda: bool(gate.port) and one_is_mirrored(target), "half a batch")
            command.kill_executor(gate.port)
            gate.open()
            command.wait_for_success()
    assert stored(target, 0) == stored(source, 0), "its executor was not killed"
    assert len(stored(target, 1)) > HELD + RECORDS, "copied in part, and then again"
    assert_mirrored(source, target, checkpoint)


# --- replay: at least once, repeats one second at most; snapshot: the old or the new one ---


def test_replay_whose_driver_is_killed_continues_after_the_acknowledged_records(
    target: MockCluster, spark: SparkSession, tmp_path: Path
) -> None:
    lake, checkpoint = Lake(tmp_path / "lake"), tmp_path / "checkpoint"
    lake.prepare()
    for partition in range(PARTITIONS):
        files = stage(lake, records(range(RECORDS), partition=partition), query=f"q{partition}")
        lake.publish(f"q{partition}", 0, [Range("orders", partition, 0, RECORDS)], files)
    where = ["--source", lake.root, "--checkpoint", checkpoint, "--rename", "orders=t"]
    to = ["--bootstrap", target.bootstrap_servers, "--config", "batch.num.messages=10"]
    with closed_gate() as gate:
        hold_produce(target, gate)
        with running(tmp_path / "output", "local[2]", "replay", *where, *to) as command:
            noted = checkpoint / "lane-orders-0.json"
            command.wait_until(lambda: bool(gate.port) and noted.exists(), "one of two partitions")
            command.kill()
    again = replay(conf(target), lake.root, checkpoint, rename={"orders": "t"}, session=spark)
    assert (again.lanes, again.records) == (1, RECORDS)
    for partition in range(PARTITIONS):
        stamps = [stamp for _, _, stamp, _ in without_repetitions(stored(target, partition))]
        assert stamps == [NOON_MS + offset for offset in range(RECORDS)]
    assert len(stored(target, 0)) == RECORDS, "the checkpoint has the progress of this partition"
    assert len(stored(target, 1)) > RECORDS


def entries(output: Path) -> dict[tuple[int, bytes], bytes]:
    rows = pq.read_table(output / "topic=t").to_pylist()
    return {(row["partition"], row["key"]): row["value"] for row in rows}


def unfinished(output: Path) -> list[Path]:
    return list(output.glob("_unfinished/*/*"))


def newest(source: MockCluster) -> dict[tuple[int, bytes], bytes]:
    stored_rows = (
        (partition, row) for partition in range(PARTITIONS) for row in stored(source, partition)
    )
    return {(partition, row[0]): row[1] for partition, row in stored_rows}


def test_snapshot_whose_driver_is_killed_keeps_the_previous_one(
    source: MockCluster, spark: SparkSession, tmp_path: Path
) -> None:
    output = tmp_path / "table"
    fill(source, 0, FIRST)
    snapshot(spark, conf(source), str(output), topics=["t"])
    before = entries(output)
    assert before == newest(source)
    fill(source, FIRST, RECORDS)
    with closed_gate() as gate:
        hold_fetch(source, gate)
        where = ["--bootstrap", source.bootstrap_servers, "--topics", "t", "--output", output]
        with running(tmp_path / "output", "local[2]", "snapshot", *where) as command:
            command.wait_until(
                lambda: bool(gate.port) and bool(unfinished(output)), "one of two parts"
            )
            command.kill()
    assert entries(output) == before
    snapshot(spark, conf(source), str(output), topics=["t"])
    assert entries(output) == newest(source)
    assert unfinished(output) == [], "the files of the killed run are deleted"
