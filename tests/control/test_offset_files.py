"""offset.store.method=file: names, contents, state after a failure, and the number of disk
syncs.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from kafka_native.control.consumer.commits import CommitManager, OffsetFiles
from kafka_native.control.group.membership import Member
from kafka_native.control.positions import NO_POSITION, OffsetPosition
from kafka_native.errors import KafkaError
from kafka_native.types import OFFSET_STORED, TopicPartition

from .fakes import Clock, Cluster, fetch_manager

KEY = ("orders", 3)


def files(
    path: Path, group: str = "", sync: float = -1.0, clock: Clock | None = None
) -> OffsetFiles:
    return OffsetFiles(str(path), group, sync_interval_s=sync, clock=clock or Clock())


def test_names_and_contents_are_librdkafkas(tmp_path):
    assert files(tmp_path).write(KEY, OffsetPosition(42)) is None
    assert (tmp_path / "orders-3.offset").read_text() == "42\n"
    assert files(tmp_path, "a/b").write(KEY, OffsetPosition(7)) is None
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "orders-3-a%2Fb.offset",
        "orders-3.offset",
    ]
    assert files(tmp_path).read(KEY) == OffsetPosition(42)
    assert files(tmp_path, "a/b").read(KEY) == OffsetPosition(7)
    assert files(tmp_path).read(("orders", 4)) == NO_POSITION


def test_path_of_a_file_holds_one_partition(tmp_path):
    store = files(tmp_path / "position")
    assert store.write(KEY, OffsetPosition(42)) is None
    assert (tmp_path / "position").read_text() == "42\n"
    assert store.write(("orders", 4), OffsetPosition(1)) == KafkaError._FS
    assert files(tmp_path / "position").read(KEY) == OffsetPosition(42)


@pytest.mark.parametrize("text", [b"", b"x", b"-5", b"1" * 100, b"9" * 20, b"12 13", b"\xff\xfe"])
def test_file_that_holds_something_else_is_an_error_and_no_offset(tmp_path, text):
    (tmp_path / "orders-3.offset").write_bytes(text)
    assert files(tmp_path).read(KEY) == KafkaError._FS


@pytest.mark.parametrize("text", ["42", "42\n", " 42 \n"])
def test_files_of_others_are_read(tmp_path, text):
    (tmp_path / "orders-3.offset").write_text(text)
    assert files(tmp_path).read(KEY) == OffsetPosition(42)


def test_full_disk_is_a_clear_error_and_the_old_offset_stays(tmp_path, monkeypatch):
    store = files(tmp_path)
    store.write(KEY, OffsetPosition(42))

    def full(self: Path, target: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    error = store.write(KEY, OffsetPosition(43))
    assert error == KafkaError._FS
    assert error is not None
    assert "No space left" in error.str()
    assert "orders-3.offset" in error.str()
    assert [path.name for path in tmp_path.iterdir()] == ["orders-3.offset"]
    assert store.read(KEY) == OffsetPosition(42)


def test_path_that_cannot_be_written_is_a_clear_error(tmp_path):
    error = files(tmp_path / "missing" / "file").write(KEY, OffsetPosition(1))
    assert error == KafkaError._FS
    assert error is not None
    assert "missing" in error.str()


@pytest.mark.parametrize(("interval", "expected"), [(0.0, 4), (-1.0, 0), (10.0, 0)])
def test_disk_syncs_follow_the_configured_interval(tmp_path, monkeypatch, interval, expected):
    clock, synced = Clock(), []
    monkeypatch.setattr(os, "fsync", synced.append)
    store = files(tmp_path, sync=interval, clock=clock)
    store.write(KEY, OffsetPosition(1))
    store.write(KEY, OffsetPosition(2))
    assert len(synced) == expected  # the file and its directory
    clock.now += 11
    store.poll(clock.now)
    assert len(synced) == (2 if interval > 0 else expected)
    assert store.poll(clock.now) == float("inf")


def test_closing_syncs_unsynced_offsets(tmp_path, monkeypatch):
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    store = files(tmp_path, sync=10.0)
    store.write(KEY, OffsetPosition(1))
    store.close()
    assert len(synced) == 2


class LocalConsumer(Cluster):
    """A consumer without a group that keeps its offsets in files."""

    def __init__(self, path: Path, **how: Any) -> None:
        super().__init__()
        self.committed: list[Any] = []
        self.fetches = fetch_manager(self)
        self.commits = CommitManager(
            Member(""),
            None,
            self.fetches,
            auto_commit=True,
            interval_s=5,
            timeout_s=60,
            on_commit=lambda error, partitions: self.committed.append(error),
            files=files(path, clock=self.clock),
            clock=self.clock,
        )
        self.managers = (self.fetches, self.commits)
        self.bring_up(0)
        self.fetches.assign([("orders", 0, OFFSET_STORED)], self.clock.now)
        self.go()
        self.answer(self.metadata_reply("orders", [(1, 5)]))
        self.bring_up(1)
        self.go()


def test_consumer_without_a_group_continues_at_its_files_offsets(tmp_path):
    (tmp_path / "orders-0.offset").write_text("12")
    cluster = LocalConsumer(tmp_path)
    cursor = cluster.engine.cursors[0]
    assert cursor.log == [("start", cluster.handle_of(1), 12, 5)]
    cursor.position = 30
    cluster.clock.now += 6
    cluster.go()
    assert (tmp_path / "orders-0.offset").read_text() == "30\n"
    done: list[int] = []
    cursor.position = 31
    cluster.commits.flush([("orders", 0)], lambda: done.append(1))
    assert done == [1]
    assert (tmp_path / "orders-0.offset").read_text() == "31\n"
    outcome: list[Any] = []
    cluster.commits.commit([TopicPartition("orders", 0, 5)], outcome.append, 0.0)
    assert [each.error for each in outcome[0]] == [None]
    cluster.commits.fetch_committed([("orders", 0)], outcome.append, 0.0)
    assert outcome[1][0].offset == 5
    assert cluster.committed == [None] * 3


def test_unreadable_file_is_reported_and_no_message_is_skipped(tmp_path):
    (tmp_path / "orders-0.offset").write_text("twelve")
    cluster = LocalConsumer(tmp_path)
    assert [error.code() for *_, error in cluster.partition_errors] == [KafkaError._FS]
    assert cluster.engine.cursors == []
    (tmp_path / "orders-0.offset").write_text("12")
    cluster.clock.now += 1
    cluster.go()
    cluster.go()
    assert cluster.engine.cursors[0].log == [("start", cluster.handle_of(1), 12, 5)]


def test_offset_that_could_not_be_written_is_written_the_next_time(tmp_path, monkeypatch):
    cluster = LocalConsumer(tmp_path)
    cluster.engine.submitted.clear()
    assigned = cluster.fetches.assigned["orders", 0]
    assigned.stored = OffsetPosition(9)
    with monkeypatch.context() as broken:
        broken.setattr(
            Path, "replace", lambda self, target: (_ for _ in ()).throw(OSError(28, "full"))
        )
        cluster.clock.now += 6
        cluster.go()
        assert cluster.committed == [KafkaError._FS]
    cluster.clock.now += 6
    cluster.go()
    assert (tmp_path / "orders-0.offset").read_text() == "9\n"
