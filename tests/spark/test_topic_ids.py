"""A stream notices a topic that was recreated while it didn't run, by the ids that it keeps."""

from __future__ import annotations

import json
import logging
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kafka_native.spark.errors import DataLossError, OptionError
from kafka_native.spark.kept_state import FOLDER, KeptState, SkippedOffsets
from kafka_native.spark.offsets import Key
from kafka_native.spark.stream_reader import DISCOVERY_S, Planner
from tests.spark.fake_cluster import Clock, FakeCluster, at, planner

CRASHES = ("end chosen", "end recorded", "ranges planned", "batch read")
"""The steps of a micro-batch after which a driver may be killed."""


class CrashError(Exception):
    """The driver was killed."""


class Query:
    """Runs a planner as Spark does, with a checkpoint that outlives the driver."""

    def __init__(self, folder: Path, cluster: FakeCluster, **options: Any) -> None:
        self.folder, self.cluster, self.clock = folder, cluster, Clock()
        self.options = {"checkpointLocation": str(folder), **options}
        self.ends: list[dict[Key, int]] = []  # Spark's offset log
        self.committed = 0
        self.read: Counter[tuple[str, int]] = Counter()  # topic id and offset
        self.plan: Planner | None = None
        folder.mkdir(exist_ok=True)
        (folder / "metadata").write_text(json.dumps({"id": "q"}))

    def start(self) -> None:
        """Start the query, also after a crash."""
        self.plan = planner(self.cluster, self.clock, **self.options)

    def _start_of(self, batch: int) -> dict[Key, int]:
        assert self.plan is not None
        return self.ends[batch - 1] if batch else self.plan.initial()

    def batch(self, crash: str = "", limit: int | None = None) -> None:
        """Run one batch: the recorded one if it isn't committed, else a new one."""
        assert self.plan is not None
        self.clock.now += DISCOVERY_S
        batch = self.committed
        start = self._start_of(batch)
        if len(self.ends) == batch:
            end = self.plan.latest(start, limit)
            if end == start and batch:
                return
            self._crash(crash, "end chosen")
            self.ends.append(end)
            self._crash(crash, "end recorded")
        ranges = self.plan.ranges(start, self.ends[batch])
        self._crash(crash, "ranges planned")
        for each in ranges:
            now = self.cluster.topic_ids.get(each.topic, "")
            if each.topic_id == now:  # a task skips a range of another topic
                self.read.update((now, offset) for offset in range(each.start, each.end))
        self._crash(crash, "batch read")
        self.committed += 1

    def drain(self) -> None:
        """Run batches until there is nothing to read."""
        while True:
            before = self.committed
            self.batch()
            if self.committed == before:
                return

    def _crash(self, wanted: str, here: str) -> None:
        if wanted == here:
            raise CrashError


@pytest.fixture
def cluster() -> FakeCluster:
    found = FakeCluster(t_0=200)
    found.topic_ids = {"t": "first"}
    return found


def recreate(cluster: FakeCluster, length: int, topic_id: str = "second") -> None:
    cluster.grow(t_0=length)
    cluster.topic_ids = {"t": topic_id}


def test_topic_recreated_between_two_runs_ends_the_query(
    tmp_path: Path, cluster: FakeCluster
) -> None:
    query = Query(tmp_path, cluster)
    query.start()
    query.drain()
    recreate(cluster, 300)
    for _ in range(2):  # a second start doesn't forget it
        query.start()
        with pytest.raises(DataLossError, match=r"t \[0\]: the topic was deleted and recreated"):
            query.batch()
    assert {topic_id for topic_id, _ in query.read} == {"first"}
    query.options["failOnDataLoss"] = "false"
    query.start()
    query.drain()
    assert set(query.read) == {("first", each) for each in range(200)} | {
        ("second", each) for each in range(300)
    }


@pytest.mark.parametrize("length", [0, 1, 100, 200, 201, 300])
def test_recreated_topic_is_read_once_and_the_loss_is_recorded(
    tmp_path: Path, cluster: FakeCluster, length: int
) -> None:
    query = Query(tmp_path, cluster, failOnDataLoss="false")
    query.start()
    query.drain()
    recreate(cluster, length)
    query.start()
    query.drain()
    query.start()
    query.drain()
    wanted = Counter({("first", each): 1 for each in range(200)})
    wanted.update(("second", each) for each in range(length))
    assert query.read == wanted
    if length:
        [found] = KeptState(tmp_path).skipped()
        assert found == SkippedOffsets(
            "t", 0, 200, None, "the topic was deleted and recreated", found.time_ms, "first"
        )


@pytest.mark.parametrize("limit", [None, 70])
@pytest.mark.parametrize("crash", CRASHES)
@pytest.mark.parametrize("length", [1, 100, 200, 300])
def test_driver_killed_in_the_batch_of_the_change_loses_nothing(
    tmp_path: Path, cluster: FakeCluster, length: int, crash: str, limit: int | None
) -> None:
    query = Query(tmp_path, cluster, failOnDataLoss="false")
    query.start()
    query.drain()
    recreate(cluster, length)
    query.start()
    with pytest.raises(CrashError):
        query.batch(crash, limit)
    for _ in range(3):
        query.start()
        query.batch(limit=limit)
    query.drain()
    read = {offset for topic_id, offset in query.read if topic_id == "second"}
    assert read == set(range(length))
    assert KeptState(tmp_path).skipped()


@pytest.mark.parametrize("crash", CRASHES)
def test_driver_killed_before_the_change_notices_it_too(
    tmp_path: Path, cluster: FakeCluster, crash: str
) -> None:
    query = Query(tmp_path, cluster)
    query.start()
    with pytest.raises(CrashError):
        query.batch(crash)
    recreate(cluster, 300)
    query.start()
    with pytest.raises(DataLossError, match="recreated"):
        query.batch()


def test_position_that_the_old_topic_had_too_is_not_the_old_topics(
    tmp_path: Path, cluster: FakeCluster
) -> None:
    query = Query(tmp_path, cluster, failOnDataLoss="false")
    query.start()
    query.drain()
    recreate(cluster, 100)
    query.start()
    query.batch()
    cluster.grow(t_0=200)  # where the old topic ended
    with pytest.raises(CrashError):
        query.batch("end recorded")
    for length in (200, 260):
        cluster.grow(t_0=length)
        query.start()
        query.drain()
    wanted = Counter({("first", each): 1 for each in range(200)})
    wanted.update(("second", each) for each in range(260))
    assert query.read == wanted
    assert len(KeptState(tmp_path).skipped()) == 1


def test_broker_with_old_metadata_does_not_look_like_another_change(
    tmp_path: Path, cluster: FakeCluster
) -> None:
    query = Query(tmp_path, cluster, failOnDataLoss="false")
    query.start()
    query.drain()
    recreate(cluster, 100)
    query.start()
    query.drain()
    query.start()
    cluster.topic_ids = {"t": "first"}
    query.batch()
    recreate(cluster, 120)
    query.drain()
    assert [count for (topic_id, _), count in query.read.items() if topic_id == "second"] == (
        [1] * 120
    )


def test_assigned_partitions_notice_it_too(tmp_path: Path, cluster: FakeCluster) -> None:
    query = Query(tmp_path, cluster, failOnDataLoss="false", assign='{"t":[0]}')
    query.start()
    query.drain()
    recreate(cluster, 50)
    query.drain()  # while the query runs
    recreate(cluster, 30, "third")
    query.start()
    query.drain()
    assert {each for each in query.read if each[0] != "first"} == {
        *(("second", each) for each in range(50)),
        *(("third", each) for each in range(30)),
    }


def test_changed_servers_find_the_ids_of_the_same_cluster(
    tmp_path: Path, cluster: FakeCluster
) -> None:
    query = Query(tmp_path, cluster)
    query.start()
    query.drain()
    query.options["kafka.bootstrap.servers"] = "elsewhere:9092"
    query.start()
    query.drain()
    recreate(cluster, 300)
    query.options["kafka.bootstrap.servers"] = "third:9092"
    query.start()
    with pytest.raises(DataLossError, match="recreated"):
        query.batch()


def test_two_sources_of_one_query_keep_separate_ids(tmp_path: Path, cluster: FakeCluster) -> None:
    other = FakeCluster(t_0=10)
    other.topic_ids, other.cluster_id = {"t": "elsewhere"}, lambda: "cluster-2"  # type: ignore[method-assign]
    first = Query(tmp_path, cluster)
    second = Query(tmp_path, other, **{"kafka.bootstrap.servers": "other:9092"})
    for query in (first, second, first, second):
        query.start()
        query.drain()
    assert Counter(topic_id for topic_id, _ in second.read) == {"elsewhere": 10}


def test_topic_added_later_gets_its_id_kept(tmp_path: Path, cluster: FakeCluster) -> None:
    query = Query(tmp_path, cluster)
    query.start()
    query.drain()
    cluster.grow(u_0=5)
    cluster.topic_ids["u"] = "u-first"
    query.drain()
    cluster.topic_ids["u"] = "u-second"
    cluster.grow(u_0=9)
    query.start()
    with pytest.raises(DataLossError, match=r"u \[0\]: the topic was deleted and recreated"):
        query.batch()


def test_deleted_topic_is_recorded(tmp_path: Path, cluster: FakeCluster) -> None:
    cluster.grow(u_0=7)
    query = Query(tmp_path, cluster, failOnDataLoss="false")
    query.start()
    query.drain()
    cluster.drop("u")
    query.start()
    query.drain()
    [found] = KeptState(tmp_path).skipped()
    assert (found.topic, found.start, found.end) == ("u", 7, None)
    assert found.reason == "gone, the topic was deleted"


def test_quiet_stream_writes_its_state_once(tmp_path: Path, cluster: FakeCluster) -> None:
    query = Query(tmp_path, cluster)
    query.start()
    query.drain()
    [file] = (tmp_path / FOLDER / "topics").iterdir()
    before = file.stat()
    for end in (210, 220, 230):
        cluster.grow(t_0=end)
        query.drain()
    assert file.stat() == before


def test_stream_without_a_checkpoint_warns_once(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "kafka_native.spark"):
        plan = planner(cluster)
        end = plan.latest(plan.initial())
        plan.ranges(at(t_0=0), end)
        plan.latest(end)
    [warning] = [each.message for each in caplog.records]
    assert "write option checkpointLocation of writeStream as an option of readStream" in warning


def test_folder_that_is_no_checkpoint_ends_the_query(tmp_path: Path, cluster: FakeCluster) -> None:
    plan = planner(cluster, checkpointLocation=str(tmp_path / "elsewhere"))
    with pytest.raises(OptionError, match=r"checkpointLocation: .*elsewhere isn't the checkpoint"):
        plan.latest(plan.initial())


def test_older_pyspark_that_names_the_start_late_notices_it_too(
    tmp_path: Path, cluster: FakeCluster
) -> None:
    query = Query(tmp_path, cluster)
    query.start()
    query.drain()
    recreate(cluster, 300)
    query.start()
    assert query.plan is not None
    end = query.plan.latest(None)
    with pytest.raises(DataLossError, match="recreated"):
        query.plan.ranges(query.ends[-1], end)
