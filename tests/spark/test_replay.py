"""replay: the order of reading, tasks on the mock cluster, progress, and whole runs with Spark."""

from __future__ import annotations

import dataclasses
import datetime
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from kafka_native.admin import AdminClient, NewTopic
from kafka_native.errors import KafkaError
from kafka_native.mock import MockCluster
from kafka_native.protocol import ApiKey
from kafka_native.spark import producers
from kafka_native.spark.errors import OptionError
from kafka_native.spark.folder import Folder
from kafka_native.spark.options import SinkOptions
from kafka_native.spark.pipelines import (
    Lake,
    PipelineError,
    Range,
    plan_replay,
    replay,
    replay_dead_letters,
    target,
)
from kafka_native.spark.pipelines.lanes import Lane, lanes_of, read_lane
from kafka_native.spark.pipelines.replay import (
    Progress,
    ReplayTask,
    _LaneSender,
    _progress_file,
    _sink,
)
from kafka_native.spark.pipelines.time_window import TimeWindow
from tests.spark.lakes import DAY_MS, NOON_MS, records, stage
from tests.waiting import WAIT_S

MODULE = sys.modules[ReplayTask.__module__]


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    with MockCluster(brokers=2) as cluster:
        cluster.create_topic("orders", partitions=3)
        cluster.create_topic("copy", partitions=3)
        yield cluster
        producers.close_idle()


def make_lake(path: Path, partitions: int = 3, count: int = 100) -> Lake:
    """Return records with alternating dates, so that offsets alternate between two files."""
    lake = Lake(path)
    lake.prepare()
    for partition in range(partitions):
        stamps = [NOON_MS + offset % 2 * DAY_MS for offset in range(count)]
        files = stage(
            lake,
            records(range(count), list(stamps), partition),
            query=f"q{partition}",
            row_group_rows=10,
        )
        lake.publish(f"q{partition}", 0, [Range("orders", partition, 0, count)], files)
    return lake


def offsets_of(folder: Folder, lane: Lane, position: int = 0) -> list[int]:
    found = []
    for next_position, batch in read_lane(folder, lane, position):
        found += batch.column("offset").to_pylist()
        assert next_position == found[-1] + 1
    return found


def make_task(
    cluster: MockCluster, source: Folder, checkpoint: Path, lanes: list[Lane], **more: Any
) -> ReplayTask:
    sink = SinkOptions.parse({"kafka.bootstrap.servers": cluster.bootstrap_servers})
    Progress(Folder(checkpoint)).prepare({"source": source.root})
    return ReplayTask(source, tuple(lanes), sink, Folder(checkpoint), **more)


# --- lanes ---


def test_records_of_a_lake_come_in_the_order_of_their_offsets(tmp_path: Path) -> None:
    lake = make_lake(tmp_path, partitions=2)
    lanes = lanes_of(lake.root)
    assert [(lane.topic, lane.partition, len(lane.pieces), lane.rows) for lane in lanes] == [
        ("orders", 0, 2, 100),
        ("orders", 1, 2, 100),
    ]
    for lane in lanes:
        for position in (0, 1, 37, 50, 99, 100):
            assert offsets_of(lake, lane, position) == list(range(position, 100))
    assert [lane.rows for lane in lanes_of(lake.root, dates=["2024-10-05"])] == [50, 50]
    with pytest.raises(PipelineError, match="no records"):
        lanes_of(lake.root, topics=["bills"])


def test_unpublished_files_are_not_replayed(tmp_path: Path) -> None:
    lake = make_lake(tmp_path, partitions=1)
    folder = Path(lake.root) / "topic=orders/date=2024-10-04"
    pq.write_table(pa.table({"value": [b"stray"]}), folder / "stray.parquet")
    assert lanes_of(lake.root)[0].rows == 100


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=5)


def test_files_outside_a_lake_make_lanes_by_their_partitions(tmp_path: Path) -> None:
    """Spark's own sink writes such files: several partitions in any order, beside other files."""
    rows = [
        {"topic": "orders", "partition": offset % 2, "offset": offset // 2, "value": b"v"}
        for offset in range(40)
    ]
    write(tmp_path / "a.parquet", [row for row in rows if row["offset"] % 2])
    write(tmp_path / "b.parquet", [row for row in reversed(rows) if row["offset"] % 2 == 0])
    write(tmp_path / "_temporary/c.parquet", rows)
    lanes = lanes_of(tmp_path)
    assert [(lane.topic, lane.partition) for lane in lanes] == [("orders", 0), ("orders", 1)]
    for lane in lanes:
        assert offsets_of(Folder(tmp_path), lane) == list(range(20))
        assert offsets_of(Folder(tmp_path), lane, 7) == list(range(7, 20))


def test_each_file_without_offsets_is_a_lane(tmp_path: Path) -> None:
    write(
        tmp_path / "topic=or%20ders/x y.parquet",
        [{"value": b"%d" % number} for number in range(12)],
    )
    write(tmp_path / "topic=bills/b.parquet", [{"value": b"%d" % number} for number in range(3)])
    lanes = lanes_of(tmp_path)
    assert sorted((lane.topic, lane.partition, lane.rows) for lane in lanes) == [
        ("bills", -1, 3),
        ("or ders", -1, 12),
    ]
    assert len({lane.name for lane in lanes}) == 2
    [lane] = [lane for lane in lanes if lane.rows == 12]
    [(next_position, batch)] = read_lane(Folder(tmp_path), lane, 9)
    assert (next_position, batch.column("value").to_pylist()) == (12, [b"9", b"10", b"11"])


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([{"other": 1}], "neither a column value nor a column key"),
        (
            [
                {"value": b"v", "partition": 0, "offset": None},
                {"value": b"v", "partition": 0, "offset": 1},
            ],
            "no order",
        ),
    ],
)
def test_files_that_cannot_be_replayed_are_refused(
    tmp_path: Path, rows: list[dict[str, Any]], why: str
) -> None:
    write(tmp_path / "a.parquet", rows)
    with pytest.raises(PipelineError, match=why):
        lanes_of(tmp_path)
    with pytest.raises(PipelineError, match="doesn't exist"):
        lanes_of(tmp_path / "nowhere")
    (tmp_path / "b.parquet").write_bytes(b"no parquet at all")
    with pytest.raises(PipelineError, match="no Parquet file"):
        lanes_of(tmp_path / "b.parquet")


# --- tasks ---


def test_records_are_replayed_unchanged(cluster: MockCluster, tmp_path: Path) -> None:
    lake = make_lake(tmp_path / "lake")
    lanes = lanes_of(lake)
    task = make_task(cluster, lake, tmp_path / "check", lanes, rename={"orders": "copy"})
    results = [task(number) for number in range(3)]
    assert [(each["lane"], each["records"], each["position"]) for each in results] == [
        (f"orders-{partition}", 100, 100) for partition in range(3)
    ]
    wanted = lake.dataset().to_table().sort_by("offset").to_pylist()
    for partition in range(3):
        found = cluster.messages("copy", partition)
        expected = [row for row in wanted if row["partition"] == partition]
        assert [record.value for record in found] == [row["value"] for row in expected]
        assert [record.key for record in found] == [row["key"] for row in expected]
        assert [record.timestamp for record in found] == [
            round(row["timestamp"].timestamp() * 1000) for row in expected
        ]
        assert [[tuple(header) for header in record.headers] for record in found] == [
            [(header["key"], header["value"]) for header in row["headers"] or []]
            for row in expected
        ]


def test_a_timestamp_of_0_stays(cluster: MockCluster, tmp_path: Path) -> None:
    """It is 1970. A record without a timestamp gets the time of the replay."""
    lake = Lake(tmp_path / "lake")
    lake.prepare()
    files = stage(lake, records(range(4), [0, None, -1, NOON_MS]))
    lake.publish("q", 0, [Range("orders", 0, 0, 4)], files)
    make_task(cluster, lake, tmp_path / "check", lanes_of(lake), topic="copy")(0)
    first, second, third, last = (each.timestamp for each in cluster.messages("copy", 0))
    assert (first, last) == (0, NOON_MS)
    assert min(second, third) > NOON_MS


def test_records_of_a_time_window_alone_are_replayed(cluster: MockCluster, tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    lake.prepare()
    stamps = [NOON_MS + offset * 1000 for offset in range(100)]
    files = stage(lake, records(range(100), [*stamps[:50], None, *stamps[51:]]))
    lake.publish("q", 0, [Range("orders", 0, 0, 100)], files)
    lanes, window = lanes_of(lake), TimeWindow(NOON_MS + 40_000, NOON_MS + 60_000)
    window.check(lanes)
    before = len(cluster.messages("copy", 0))
    task = make_task(cluster, lake, tmp_path / "check", lanes, topic="copy", window=window)
    result = task(0)
    found = cluster.messages("copy", 0)[before:]
    assert [each.timestamp for each in found] == [*stamps[40:50], *stamps[51:60]]
    assert result["records"] == 19
    assert task(0)["records"] == 0  # what is outside of the window stays outside


@pytest.mark.parametrize("kind", [pa.timestamp("s"), pa.timestamp("ns", "UTC"), pa.int64()])
def test_time_windows_know_the_units_of_timestamps(kind: pa.DataType) -> None:
    times = pa.array([1, 2, None, 3, -1], pa.timestamp("s"))
    column = (
        times.cast(pa.timestamp("ms")).cast(pa.int64()) if kind == pa.int64() else times.cast(kind)
    )
    batch = pa.record_batch({"timestamp": column, "number": [1, 2, 9, 3, 9]})

    def cut(*limits: int | None) -> list[int]:
        return TimeWindow(*limits).cut(batch)["number"].to_pylist()  # type: ignore[no-any-return]

    assert cut(2000, None) == [2, 3]
    assert cut(None, 2000) == [1]
    assert cut(1001, 3000) == [2]
    assert cut(-5000, 2000) == [1], "records without a timestamp have -1 ms"
    assert cut() == [1, 2, 9, 3, 9]
    with pytest.raises(PipelineError, match="starts at 3 ms, after its end at 2 ms"):
        TimeWindow(3, 2)


def test_files_without_offsets_have_no_time_window(tmp_path: Path) -> None:
    pq.write_table(pa.table({"value": [b"a"]}), tmp_path / "a.parquet")
    with pytest.raises(PipelineError, match=r"a\.parquet has no columns timestamp, partition and"):
        TimeWindow(1).check(lanes_of(tmp_path))


def test_partitions_can_be_chosen_by_the_key(cluster: MockCluster, tmp_path: Path) -> None:
    lake = make_lake(tmp_path / "lake")
    task = make_task(
        cluster,
        lake,
        tmp_path / "check",
        lanes_of(lake),
        topic="copy",
        partitions="hash",
        timestamps="now",
    )
    for number in range(3):
        task(number)
    partitions_by_key: dict[bytes | None, set[int]] = {}
    for partition in range(3):
        for record in cluster.messages("copy", partition):
            partitions_by_key.setdefault(record.key, set()).add(partition)
            assert record.timestamp > NOON_MS + 10 * DAY_MS
    assert all(
        len(partitions) == 1 for key, partitions in partitions_by_key.items() if key is not None
    )
    assert sum(len(cluster.messages("copy", partition)) for partition in range(3)) == 300


def test_records_go_to_topic_that_their_column_names(cluster: MockCluster, tmp_path: Path) -> None:
    rows = [
        {"topic": ["orders", "bills"][number % 2], "value": b"%d" % number} for number in range(20)
    ]
    write(tmp_path / "data/a.parquet", rows)
    folder = Folder(tmp_path / "data")
    task = make_task(
        cluster, folder, tmp_path / "check", lanes_of(folder), rename={"bills": "copy"}
    )
    assert task(0)["position"] == 20
    for name, first in (("orders", 0), ("copy", 1)):
        values = [
            record.value for partition in range(3) for record in cluster.messages(name, partition)
        ]
        assert sorted(values, key=int) == [b"%d" % number for number in range(first, 20, 2)]


@pytest.mark.parametrize("topic", [None, "copy"])
def test_only_records_of_chosen_topics_are_replayed(
    cluster: MockCluster, tmp_path: Path, topic: str | None
) -> None:
    """Also those of files whose column names their topic."""
    names = ["orders", "bills", None, "bills"]
    rows = [{"topic": names[number % 4], "value": b"%d" % number} for number in range(40)]
    write(tmp_path / "data/a.parquet", rows)
    write(tmp_path / "data/b.parquet", [{"value": b"no topic"}])
    write(tmp_path / "data/topic=bills/c.parquet", [{"value": b"bill"}])
    folder = Folder(tmp_path / "data")
    lanes = lanes_of(folder, ["orders"])
    assert [each.pieces[0].path for each in lanes] == ["a.parquet"]
    task = make_task(
        cluster, folder, tmp_path / "check", lanes, topic=topic, topics=frozenset(["orders"])
    )
    assert task(0)["records"] == 10
    found = [
        record.value
        for partition in range(3)
        for record in cluster.messages(topic or "orders", partition)
    ]
    assert sorted(found, key=int) == [b"%d" % number for number in range(0, 40, 4)]
    assert task(0)["records"] == 0


def run_killed(
    task: ReplayTask,
    monkeypatch: pytest.MonkeyPatch,
    on_write: Callable[[int], None] = lambda position: None,
) -> int:
    """Kill a task right after it has written its progress for the third time.

    :param on_write: Called with each position that is written.
    :return: The last of them.
    """
    original = Progress.write
    produce = _LaneSender._produce
    written: list[int] = []

    def at_once(self: _LaneSender, part: pa.RecordBatch, end: int) -> None:
        """Each chunk is acknowledged before the next one is sent."""
        produce(self, part, end)
        assert self._producer.flush(30) == 0

    class KilledError(Exception):
        pass

    def killed(self: Progress, lane: Lane, position: int, number: int) -> None:
        original(self, lane, position, number)
        written.append(position)
        on_write(position)
        if len(written) == 3:
            raise KilledError

    with monkeypatch.context() as patched:
        patched.setattr(Progress, "write", killed)
        patched.setattr(MODULE, "_RECORD_S", 0.0)
        patched.setattr(MODULE, "CHUNK_ROWS", 20)
        patched.setattr(_LaneSender, "_produce", at_once)
        with pytest.raises(KilledError):
            task(0)
    return written[-1]


def test_killed_task_continues_after_the_acknowledged_records(
    cluster: MockCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = make_lake(tmp_path / "lake", partitions=1, count=1000)
    task = make_task(cluster, lake, tmp_path / "check", lanes_of(lake), topic="copy")

    def is_acknowledged(position: int) -> None:
        assert position <= len(cluster.messages("copy", 0))

    written = run_killed(task, monkeypatch, is_acknowledged)
    assert 0 < written < 1000
    assert task(0)["records"] == 1000 - written
    found = [record.value for record in cluster.messages("copy", 0) if record.value is not None]
    assert set(found) == {b"v%d" % offset for offset in range(1000) if offset % 5}
    assert Progress(Folder(tmp_path / "check")).read(task.lanes[0]) == 1000
    assert task(0)["records"] == 0


def test_progress_never_passes_a_record_that_was_refused(
    cluster: MockCluster, tmp_path: Path
) -> None:
    lake = make_lake(tmp_path / "lake", partitions=1)
    task = make_task(cluster, lake, tmp_path / "check", lanes_of(lake), topic="copy")
    refused = [KafkaError.TOPIC_AUTHORIZATION_FAILED] * 50
    cluster.push_request_errors(ApiKey.PRODUCE, refused, topic="copy", partition=0)
    with pytest.raises(
        PipelineError, match=r"orders-0: \d+ records weren't delivered: .*authorization"
    ):
        task(0)
    assert Progress(Folder(tmp_path / "check")).read(task.lanes[0]) == 0
    cluster.faults.clear()
    assert task(0)["records"] == 100


def refused_task(cluster: MockCluster, tmp_path: Path, target: str) -> ReplayTask:
    """Return a task whose topic takes no record without a key, and no large one."""
    lake = make_lake(tmp_path / "lake", partitions=1)
    with AdminClient({"bootstrap.servers": cluster.bootstrap_servers}) as admin:
        topic = NewTopic("compacted", 1, config={"cleanup.policy": "compact"})
        admin.create_topics([topic])["compacted"].result(WAIT_S)
    task = make_task(cluster, lake, tmp_path / "check", lanes_of(lake), topic="compacted")
    sink = _sink({"bootstrap.servers": cluster.bootstrap_servers}, target)
    return dataclasses.replace(task, sink=sink)


def refused_rows(folder: Path) -> list[dict[str, Any]]:
    return [row for path in folder.glob("*.parquet") for row in pq.read_table(path).to_pylist()]


def test_a_killed_run_keeps_its_refused_records(
    cluster: MockCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "refused"
    task = refused_task(cluster, tmp_path, str(folder))
    run_killed(task, monkeypatch)
    assert refused_rows(folder)
    task(0)
    (tmp_path / "another").mkdir()
    other = dataclasses.replace(task, checkpoint=Folder(tmp_path / "another"))
    other(0)  # of another checkpoint, into the same folder
    kept = Counter(each["value"] for each in refused_rows(folder))
    whole = Counter(
        row["value"]
        for _, batch in read_lane(task.source, task.lanes[0])
        for row in batch.to_pylist()
        if row["key"] is None
    )
    assert kept == whole + whole


def test_records_that_the_target_refuses_go_to_a_folder(
    cluster: MockCluster, tmp_path: Path
) -> None:
    folder = tmp_path / "refused"
    task = refused_task(cluster, tmp_path, str(folder))
    done = task(0)
    stored = cluster.messages("compacted", 0)
    refused = [row for path in folder.glob("*.parquet") for row in pq.read_table(path).to_pylist()]
    assert (done["records"], done["refused"]) == (len(stored), len(refused))
    assert len(stored) + len(refused) == 100
    assert refused
    assert all(each["key"] is None and "INVALID_RECORD" in each["error"] for each in refused)
    assert {(each["topic"], each["partition"]) for each in refused} == {("compacted", 0)}
    source = {
        (row["timestamp"], row["value"])
        for _, batch in read_lane(task.source, task.lanes[0])
        for row in batch.to_pylist()
        if row["key"] is None
    }
    assert {(each["timestamp"], each["value"]) for each in refused} == source
    assert Progress(Folder(tmp_path / "check")).read(task.lanes[0]) == 100
    cluster.create_topic("open", 1)
    config = {"bootstrap.servers": cluster.bootstrap_servers}
    again = replay_dead_letters(config, folder, topic="open")
    assert again.records == len(cluster.messages("open", 0)) == len(refused)


def test_refused_records_of_a_topic_with_the_longest_name(
    cluster: MockCluster, tmp_path: Path
) -> None:
    rows = [
        {"topic": "x" * 249, "partition": 1234567890, "offset": offset, "value": b"v", "key": key}
        for offset, key in enumerate([b"k", None])
    ]
    write(tmp_path / "files/a.parquet", rows)
    (tmp_path / "files" / ("y" * 200) / ("z" * 200)).mkdir(parents=True)
    write(tmp_path / "files" / ("y" * 200) / ("z" * 200) / "a.parquet", [{"value": b"v"}])
    source, folder = Folder(tmp_path / "files"), tmp_path / "refused"
    task = dataclasses.replace(
        refused_task(cluster, tmp_path, str(folder)),
        source=source,
        lanes=tuple(lanes_of(source)),
        partitions="hash",
    )
    assert [task(number)["refused"] for number in (0, 1)] == [1, 1]
    assert len(refused_rows(folder)) == 2


def test_records_that_the_target_refuses_go_to_a_topic(
    cluster: MockCluster, tmp_path: Path
) -> None:
    cluster.create_topic("refused", 1)
    done = refused_task(cluster, tmp_path, "refused")(0)
    assert done["refused"] == len(cluster.messages("refused", 0)) > 0


def test_an_impossible_target_of_refused_records(cluster: MockCluster, tmp_path: Path) -> None:
    lake = make_lake(tmp_path / "lake", partitions=1)
    config = {"bootstrap.servers": cluster.bootstrap_servers}
    for where, text in (
        ("copy", "refused: the records go to topic copy themselves"),
        ("no topic", "refused: .* is neither a topic nor a folder"),
    ):
        with pytest.raises(PipelineError, match=text):
            replay(config, lake.root, tmp_path / "check", topic="copy", refused=where)


def test_target_of_refused_records_is_checked_if_a_column_names_the_topics(
    cluster: MockCluster, tmp_path: Path
) -> None:
    """Not only when the first record is refused, perhaps hours later."""
    cluster.auto_create_topics = False
    write(tmp_path / "data/a.parquet", [{"topic": "orders", "value": b"v"}])
    (tmp_path / "file").touch()
    config = {"bootstrap.servers": cluster.bootstrap_servers}
    for where, text in (
        ("nowhere", "deadLetters: topic nowhere doesn't exist: make it first"),
        (f"{tmp_path}/file/", "deadLetters: no folder"),
    ):
        with pytest.raises(OptionError, match=text):
            replay(config, tmp_path / "data", tmp_path / "check", refused=where, master="none such")
    assert not cluster.requests_of(ApiKey.PRODUCE)


def test_rate_delays_early_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock moves only while the task waits, so 1000 records at 100 a second take 10 s."""
    clock = SimpleNamespace(now=0.0)
    sent: list[tuple[float, int]] = []

    class FakeProducer:
        def poll(self, timeout: float) -> int:
            clock.now += timeout
            return 0

        def flush(self, timeout: float) -> int:
            return 0

        def produce_arrow(self, topic: str, data: Any, *, on_delivery: Any, **more: Any) -> int:
            sent.append((clock.now, data.num_rows))
            on_delivery(SimpleNamespace(error=None, failed=[]))
            return int(data.num_rows)

    for module in (MODULE, target):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock.now))
    lake = make_lake(tmp_path, partitions=1, count=1000)
    [lane] = lanes_of(lake)
    sink = SinkOptions.parse({"kafka.bootstrap.servers": "nowhere:1"})
    task = ReplayTask(lake, (lane,), sink, Folder(tmp_path / "check"), topic="copy", rate=100.0)
    positions: list[int] = []
    sender = _LaneSender(
        FakeProducer(), task, lane, 0, lambda position, records: positions.append(position)
    )  # type: ignore[arg-type]
    for next_position, batch in read_lane(lake, lane):
        sender.send(batch, next_position)
    sender.finish()
    assert clock.now == pytest.approx(10.0)
    total = 0
    for when, rows in sent:
        assert total <= when * 100 + 1e-6
        assert rows <= 25
        total += rows
    assert (total, sender.records, positions[-1]) == (1000, 1000, 1000)
    assert positions == sorted(positions)


# --- before the start ---


@pytest.mark.parametrize(
    "topic",
    [
        *("x/../../y", "/y", "..", "or ders", "€", " ac", "a%2Fb", "a/b", "\0", "\n"),
        *("x" * 249, "ü" * 125, "/" * 84),
    ],
)
def test_progress_file_stays_in_its_folder_for_any_topic_name(tmp_path: Path, topic: str) -> None:
    write(
        tmp_path / "files/a.parquet", [{"topic": topic, "partition": 0, "offset": 0, "value": b"v"}]
    )
    [lane] = lanes_of(tmp_path / "files")
    checkpoint = tmp_path / "checkpoint"
    progress = Progress(Folder(checkpoint))
    progress.prepare({"source": "x"})
    before = {*tmp_path.rglob("*")}
    progress.write(lane, 7, 7)
    assert progress.read(lane) == 7
    [made] = {*tmp_path.rglob("*")} - before
    assert made.parent == checkpoint
    assert made.name.isprintable()


def test_lanes_of_different_topics_have_different_names() -> None:
    topics = ["€", " ac", "a/b", "a%2Fb", "a%2fb", "a b", "a-0", "a", "é", "e\u0301"]
    topics += ["x" * 249, "x" * 248 + "y"]
    for names in (Lane.name.fget, _progress_file):
        assert len({names(Lane(topic, 0, (), ())) for topic in topics}) == len(topics)
    assert _progress_file(Lane("x" * 230, 3, (), ())) == f"lane-{'x' * 230}-3.json"
    for topic in ("orders.eu_1-x", "or ders"):
        assert Lane(topic, 3, (), ()).name == f"{topic}-3", "existing checkpoints stay valid"


def test_checkpoint_of_another_replay_is_refused(tmp_path: Path) -> None:
    progress = Progress(Folder(tmp_path))
    progress.prepare({"source": "/a", "topic": None})
    progress.prepare({"source": "/a", "topic": None})
    with pytest.raises(PipelineError, match=r"belongs to a replay with source '/a', not '/b'"):
        progress.prepare({"source": "/b", "topic": None})
    (tmp_path / "lane-x-0.json").write_text('{"position": "far"}')
    with pytest.raises(PipelineError, match="damaged"):
        progress.read(Lane("x", 0, (), ()))


@pytest.mark.parametrize(
    ("first", "second", "what"),
    [
        ({"topics": ["orders"]}, {}, r"topics \['orders'\], not None"),
        ({"topics": ["orders"]}, {"topics": ["orders", "bills"]}, r"topics \['orders'\], not"),
        ({}, {"topics": ["orders"]}, r"topics None, not \['orders'\]"),
        ({"end_ms": NOON_MS}, {}, f"end_ms {NOON_MS}, not None"),
        ({}, {"start_ms": 1}, "start_ms None, not 1"),
    ],
)
def test_checkpoint_knows_which_records_were_left_out(
    cluster: MockCluster, tmp_path: Path, first: Any, second: Any, what: str
) -> None:
    """They count as done. So a run that wants them has to use another checkpoint."""
    common = {"topic": "orders", "value": b"v"}
    rows = [{**common, "partition": 0, "offset": 1, "timestamp": datetime.datetime(2024, 1, 1)}]
    write(tmp_path / "data/a.parquet", [common] if "topics" in {**first, **second} else rows)
    config = {"bootstrap.servers": cluster.bootstrap_servers}

    def no_session() -> Any:
        raise PipelineError("begins")

    def begin(given: dict[str, Any]) -> None:
        replay(config, tmp_path / "data", tmp_path / "check", session=no_session, **given)

    for _ in range(2):
        with pytest.raises(PipelineError, match="begins"):
            begin(first)
    with pytest.raises(PipelineError, match=f"belongs to a replay with {what}"):
        begin(second)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"topic": "narrow"}, "topic narrow has 1 partitions, and the records come from 3"),
        ({"topic": "nowhere"}, "topic nowhere doesn't exist"),
        ({"rate": 0}, "above 0"),
    ],
)
def test_impossible_replays_are_refused_before_producing(
    cluster: MockCluster, tmp_path: Path, more: dict[str, Any], why: str
) -> None:
    cluster.create_topic("narrow", partitions=1)
    cluster.auto_create_topics = False
    lake = make_lake(tmp_path / "lake")
    config = {"bootstrap.servers": cluster.bootstrap_servers, "allow.auto.create.topics": "false"}
    with pytest.raises(PipelineError, match=why):
        replay(config, lake, tmp_path / "check", master="none such", **more)
    assert not cluster.requests_of(ApiKey.PRODUCE)


def test_dry_run_needs_neither_spark_nor_kafka(tmp_path: Path) -> None:
    lake = make_lake(tmp_path / "lake")
    check = tmp_path / "check"
    Progress(Folder(check)).prepare({})
    lanes = lanes_of(lake)
    Progress(Folder(check)).write(lanes[0], 100, 100)
    Progress(Folder(check)).write(lanes[1], 40, 40)
    plan = plan_replay(lake.root, check, rename={"orders": "copy"})
    assert [(each.target, each.position, each.done) for each in plan] == [
        ("copy", 100, True),
        ("copy", 40, False),
        ("copy", 0, False),
    ]


# --- with Spark ---


def test_replay_with_spark(spark: SparkSession, mock_cluster: MockCluster, tmp_path: Path) -> None:
    mock_cluster.create_topic("replayed", partitions=3)
    lake = make_lake(tmp_path / "lake")
    config = {"bootstrap.servers": mock_cluster.bootstrap_servers}
    shown: list[Any] = []
    arguments: dict[str, Any] = {"topic": "replayed", "session": spark}
    result = replay(config, lake.root, tmp_path / "check", on_progress=shown.append, **arguments)
    assert (result.records, result.lanes, result.targets) == (300, 3, {"replayed": 3})
    assert (shown[-1].records, shown[-1].total) == (300, 300)
    for partition in range(3):
        values = [record.value for record in mock_cluster.messages("replayed", partition)]
        assert values == [b"v%d" % offset if offset % 5 else None for offset in range(100)]
    again = replay(config, lake.root, tmp_path / "check", **arguments)
    assert (again.records, again.lanes) == (0, 0)
    assert datetime.date(2024, 10, 4).isoformat() in {each.date for each in lake.files()}
