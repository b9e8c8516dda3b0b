"""Replaying dead letters: the files, their marks, and the command, on the mock cluster."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from kafka_native import Consumer, TopicPartition
from kafka_native.mock import MockCluster
from kafka_native.spark.commands import cli
from kafka_native.spark.dead_letters import HEADERS, SCHEMA, UNFINISHED, add_headers, file_name
from kafka_native.spark.errors import PipelineError
from kafka_native.spark.pipelines import dead_letter_files, dead_letters, replay_dead_letters
from kafka_native.spark.pipelines.dead_letters import REPLAYED
from kafka_native.spark.ranges import OffsetRange
from tests.waiting import WAIT_S

_numbers = itertools.count()
FIRST_MS = 1_700_000_000_000


@pytest.fixture
def topic(mock_cluster: MockCluster) -> str:
    """Return a topic with two partitions."""
    name = f"replayed-{next(_numbers)}"
    mock_cluster.create_topic(name, 2)
    return name


def letter(topic: str, partition: int, offset: int, **more: Any) -> dict[str, Any]:
    """Return a dead letter."""
    row: dict[str, Any] = dict.fromkeys(SCHEMA.names)
    row |= {
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "timestamp": (FIRST_MS + offset) * 1000,
        "timestamp_type": 0,
        "key": b"k",
        "value": b"%d/%d" % (partition, offset),
        "headers": [("a", b"1")],
        "field": "value",
        "error": "bad",
    }
    return row | more


def write(
    folder: Path, topic: str, partition: int, *offsets: int, topic_id: str = "", **more: Any
) -> Path:
    """Write a file of dead letters."""
    rows = [letter(topic, partition, offset, **more) for offset in offsets]
    columns = [
        pa.array([row[each.name] for row in rows], each.type)
        if each.name != "headers"
        else pa.array(
            [[{"key": key, "value": value} for key, value in row["headers"]] for row in rows],
            each.type,
        )
        for each in SCHEMA
    ]
    range_ = OffsetRange(topic, partition, offsets[0], offsets[-1] + 1, topic_id=topic_id)
    path = folder / file_name(range_)
    pq.write_table(pa.table(columns, schema=SCHEMA), path)
    return path


def config(cluster: MockCluster) -> dict[str, str]:
    return {"bootstrap.servers": cluster.bootstrap_servers}


def messages(cluster: MockCluster, topic: str) -> list[Any]:
    """Return the messages of a topic, by partition and offset."""
    found: list[Any] = []
    with Consumer(config(cluster)) as consumer:
        for partition in (0, 1):
            place = TopicPartition(topic, partition, 0)
            end = consumer.get_watermark_offsets(place, WAIT_S)[1]
            consumer.assign([place])
            found += consumer.consume(end, WAIT_S) if end else []
    return found


def test_records_go_back_in_order_and_name_their_place(
    mock_cluster: MockCluster, topic: str, tmp_path: Path
) -> None:
    write(tmp_path, topic, 0, 100, 101)
    write(tmp_path, topic, 0, 5, 7, 9)
    write(tmp_path, topic, 1, 3)
    unfinished = tmp_path / UNFINISHED
    unfinished.mkdir()
    write(unfinished, topic, 1, 8)
    done = replay_dead_letters(config(mock_cluster), tmp_path)
    assert (done.files, done.records, done.targets) == (3, 6, (topic,))
    found = messages(mock_cluster, topic)
    assert [each.value() for each in found] == [b"0/5", b"0/7", b"0/9", b"0/100", b"0/101", b"1/3"]
    assert [each.timestamp()[1] for each in found[:2]] == [FIRST_MS + 5, FIRST_MS + 7]
    assert found[0].key() == b"k"
    assert found[0].headers() == [
        ("a", b"1"),
        ("__kafka_native.replayed.topic", topic.encode()),
        ("__kafka_native.replayed.partition", b"0"),
        ("__kafka_native.replayed.offset", b"5"),
    ]


def test_a_file_is_replayed_once(mock_cluster: MockCluster, topic: str, tmp_path: Path) -> None:
    first = write(tmp_path, topic, 0, 1, 2)
    assert replay_dead_letters(config(mock_cluster), tmp_path).records == 2
    assert list((tmp_path / REPLAYED).iterdir()) == [tmp_path / REPLAYED / first.name]
    assert not first.exists()
    write(tmp_path, topic, 0, 3)
    assert replay_dead_letters(config(mock_cluster), tmp_path).records == 1
    assert replay_dead_letters(config(mock_cluster), tmp_path).records == 0
    assert [each.value() for each in messages(mock_cluster, topic)] == [b"0/1", b"0/2", b"0/3"]


def test_a_record_of_several_files_is_replayed_once(
    mock_cluster: MockCluster, topic: str, tmp_path: Path
) -> None:
    """A batch query that runs again, when the topic has grown, reads other ranges."""
    write(tmp_path, topic, 0, 1, 4)
    write(tmp_path, topic, 0, 1, 2, 4, 7)
    write(tmp_path, topic, 0, 7, 8)
    write(tmp_path, topic, 1, 4)
    write(tmp_path, topic, 0, 4, topic_id="a/b", value=b"recreated")
    done = replay_dead_letters(config(mock_cluster), tmp_path)
    assert (done.files, done.records) == (5, 7)
    found = messages(mock_cluster, topic)
    assert [each.value() for each in found] == [
        b"0/1", b"0/4", b"0/2", b"0/7", b"0/8", b"recreated", b"1/4"
    ]  # fmt: skip


def test_a_file_whose_records_are_refused_stays(
    mock_cluster: MockCluster, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "_CHUNK_ROWS", 1)  # each file is acknowledged by itself
    good = write(tmp_path, topic, 0, 1)
    bad = write(tmp_path, topic, 0, 2, value=b"x" * 3000)
    last = write(tmp_path, topic, 0, 3)
    small = {**config(mock_cluster), "message.max.bytes": "2000"}
    with pytest.raises(PipelineError, match=r"message\.max\.bytes"):
        replay_dead_letters(small, tmp_path)
    assert sorted(tmp_path.glob("*.parquet")) == [bad, last]
    assert list((tmp_path / REPLAYED).iterdir()) == [tmp_path / REPLAYED / good.name]
    assert replay_dead_letters(config(mock_cluster), tmp_path).records == 2
    assert [each.offset() for each in messages(mock_cluster, topic)] == [0, 1, 2]


def test_records_go_to_other_topics_and_partitions(
    mock_cluster: MockCluster, topic: str, tmp_path: Path
) -> None:
    mock_cluster.create_topic(f"{topic}-fixed", 1)
    write(tmp_path, topic, 1, 1, timestamp=-1000)
    write(tmp_path, f"{topic}-other", 0, 1)
    fixed = f"{topic}-fixed"
    with pytest.raises(PipelineError, match=f"topic {fixed} has 1 partitions"):
        replay_dead_letters(config(mock_cluster), tmp_path, rename={topic: fixed}, topics=[topic])
    done = replay_dead_letters(
        config(mock_cluster), tmp_path, rename={topic: fixed}, topics=[topic], partitions="hash"
    )
    assert (done.records, done.targets) == (1, (fixed,))
    assert [each.topic for each in dead_letter_files(tmp_path)] == [f"{topic}-other"]
    done = replay_dead_letters(
        config(mock_cluster), tmp_path, topic=topic, timestamps="now", rate=1000
    )
    assert [each.value() for each in messages(mock_cluster, topic)] == [b"0/1"]


def test_a_timestamp_of_0_stays(mock_cluster: MockCluster, topic: str, tmp_path: Path) -> None:
    write(tmp_path, topic, 0, 1, timestamp=0)
    replay_dead_letters(config(mock_cluster), tmp_path)
    [message] = messages(mock_cluster, topic)
    assert message.timestamp()[1] == 0


def test_a_folder_without_dead_letters_is_refused(
    mock_cluster: MockCluster, topic: str, tmp_path: Path
) -> None:
    with pytest.raises(PipelineError, match="nowhere doesn't exist"):
        replay_dead_letters(config(mock_cluster), tmp_path / "nowhere")
    with pytest.raises(PipelineError, match="rate: write a number above 0"):
        replay_dead_letters(config(mock_cluster), tmp_path, rate=0)
    pq.write_table(pa.table({"value": [b"v"]}), tmp_path / "a.parquet")
    with pytest.raises(PipelineError, match=r"a\.parquet is no file of dead letters"):
        dead_letter_files(tmp_path)
    (tmp_path / "a.parquet").write_bytes(b"text")
    with pytest.raises(PipelineError, match=r"a\.parquet is no Parquet file"):
        dead_letter_files(tmp_path)


def test_the_command(mock_cluster: MockCluster, topic: str, tmp_path: Path) -> None:
    write(tmp_path, topic, 0, 1, 2)
    write(tmp_path, topic, 0, 1002)
    where = ["replay", "--bootstrap", mock_cluster.bootstrap_servers]
    letters = ["--dead-letters", str(tmp_path)]
    done = CliRunner().invoke(cli, [*where, *letters, "--dry-run"])
    assert "3 dead letters in 2 files; nothing was produced." in done.output
    assert "1,002" in done.output
    assert messages(mock_cluster, topic) == []
    done = CliRunner().invoke(cli, [*where, *letters])
    assert done.exit_code == 0, done.output
    assert len(messages(mock_cluster, topic)) == 3
    done = CliRunner().invoke(cli, [*where, *letters])
    assert "none: everything was replayed before" in done.output
    done = CliRunner().invoke(cli, [*where, *letters, "--checkpoint", "x"])
    assert "--dead-letters takes no --source, --checkpoint" in done.output
    done = CliRunner().invoke(cli, [*where, "--source", "x"])
    assert "write --source and --checkpoint, or --dead-letters" in done.output


def test_headers_are_added_behind_those_of_the_record() -> None:
    kind = SCHEMA.field("headers").type
    headers = pa.array([None, [{"key": "a", "value": b"1"}, {"key": "a", "value": None}], []], kind)
    added = {"x": pa.array([1, None, 3]), "y": pa.array(["p", "q", None])}
    for part in (slice(0, 3), slice(1, 3)):
        found = add_headers(headers[part], {name: each[part] for name, each in added.items()})
        assert [[(each["key"], each["value"]) for each in row] for row in found.to_pylist()] == [
            [("x", b"1"), ("y", b"p")],
            [("a", b"1"), ("a", None), ("y", b"q")],
            [("x", b"3")],
        ][part]
    assert set(HEADERS) <= set(SCHEMA.names)
