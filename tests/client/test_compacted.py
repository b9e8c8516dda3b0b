"""Compacted topics as tables."""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kafka_native import (
    CompactedTable,
    CompactedTopic,
    KafkaError,
    KafkaException,
    Message,
    TableChange,
)
from kafka_native._native import primitives
from kafka_native.mock import MockCluster
from tests.waiting import WAIT_S, wait_for

from .support import Client, assigned


def message(key: bytes | None, value: bytes | None, error: KafkaError | None = None) -> Message:
    return Message("t", 0, 0, key, value, error=error)


def test_changes_are_returned_in_order() -> None:
    table = CompactedTable()
    changes = table.apply(
        [
            message(b"a", b"1"),
            message(b"b", b"1"),
            message(b"a", b"2"),
            message(b"a", None),
            message(b"b", b"1"),
        ]
    )
    assert changes == [
        TableChange(b"a", None, b"1"),
        TableChange(b"b", None, b"1"),
        TableChange(b"a", b"1", b"2"),
        TableChange(b"a", b"2", None),
        TableChange(b"b", b"1", b"1"),
    ]
    kinds = [(change.is_insert, change.is_update, change.is_delete) for change in changes]
    insert, update, delete = (True, False, False), (False, True, False), (False, False, True)
    assert kinds == [insert, insert, update, delete, update]
    assert table == {b"b": b"1"}


def test_empty_value_is_no_tombstone() -> None:
    table = CompactedTable()
    assert table.apply(message(b"a", b"")) == [TableChange(b"a", None, b"")]
    [change] = table.apply([message(b"a", b"")])
    assert change.is_update
    assert table[b"a"] == b""


def test_a_message_knows_whether_it_is_a_tombstone() -> None:
    assert message(b"a", None).is_tombstone()
    assert message(None, None).is_tombstone()
    assert not message(b"a", b"").is_tombstone()
    assert not Message("t", 0, error=KafkaError(KafkaError._PARTITION_EOF)).is_tombstone()
    changed = message(b"a", None)
    changed.set_value(b"1")
    assert not changed.is_tombstone()


def test_consumed_messages_know_whether_they_are_tombstones(client: Client) -> None:
    topic = client.topic()
    with client.producer() as producer:
        for value in (b"1", None, b""):
            producer.produce(topic, value, b"k")
    with assigned(client, topic) as consumer:
        found: list[bool] = []
        while len(found) < 3:
            found += [each.is_tombstone() for each in consumer.consume(3, WAIT_S)]
    assert found == [False, True, False]


def test_tombstone_of_an_unknown_key_changes_nothing_but_is_counted() -> None:
    table = CompactedTable()
    assert table.apply([message(b"a", None)]) == []
    assert (table.records_processed, table.tombstones_processed) == (1, 1)


def test_messages_without_key_and_errors_are_left_out() -> None:
    table = CompactedTable()
    eof = KafkaError(KafkaError._PARTITION_EOF)
    assert table.apply([message(None, b"x"), message(b"a", b"1", eof), message(None, None)]) == []
    table.ingest([message(None, b"x"), message(b"a", b"1", eof)])
    assert len(table) == table.records_processed == 0
    assert table.apply(None) == []


def test_ingest_has_the_same_outcome_as_apply() -> None:
    each = [message(b"k%d" % (n % 7), None if n % 5 == 0 else b"%d" % n) for n in range(100)]
    applied, ingested = CompactedTable(), CompactedTable()
    applied.apply(each)
    ingested.ingest(iter(each))
    assert applied == ingested
    assert applied.records_processed == ingested.records_processed == 100
    assert applied.tombstones_processed == ingested.tombstones_processed == 20


def test_table_is_a_mapping() -> None:
    table = CompactedTable()
    table.ingest([message(b"a", b"1"), message(b"b", b"2")])
    assert dict(table) == dict(table.items()) == {b"a": b"1", b"b": b"2"}
    assert list(table) == list(table.keys()) == [b"a", b"b"]
    assert list(table.values()) == [b"1", b"2"]
    assert b"a" in table
    assert b"c" not in table
    assert table.get(b"c") is None
    assert table.get(b"c", b"0") == b"0"
    assert table
    assert not CompactedTable()
    with pytest.raises(KeyError):
        table[b"c"]
    with pytest.raises(TypeError):
        table[b"a"] = b"3"  # type: ignore[index]


def test_copies_and_snapshots_are_independent() -> None:
    table = CompactedTable()
    table.ingest([message(b"a", b"1"), message(b"b", None)])
    snapshot, twins = table.snapshot(), [table.copy(), copy.copy(table)]
    table.apply(message(b"a", b"2"))
    assert snapshot == {b"a": b"1"}
    for twin in twins:
        assert twin == snapshot
        assert twin != table
        assert twin.tombstones_processed == 1


def test_tables_are_equal_by_their_entries_alone() -> None:
    one, other = CompactedTable(), CompactedTable()
    one.ingest([message(b"a", b"1"), message(b"a", b"2")])
    other.ingest(message(b"a", b"2"))
    assert one == other
    other.ingest(message(b"b", b"2"))
    assert one != other
    assert one != 5


def test_clear_removes_entries_and_counts() -> None:
    table = CompactedTable()
    table.ingest([message(b"a", b"1"), message(b"b", None)])
    table.clear()
    assert (len(table), table.records_processed, table.tombstones_processed) == (0, 0, 0)


def test_repr_shows_no_contents() -> None:
    table = CompactedTable()
    table.ingest(message(b"secret", b"secret"))
    assert "secret" not in repr(table)


# --- topics ---


@pytest.fixture
def opened(client: Client) -> Iterator[Callable[..., CompactedTopic]]:
    made: list[CompactedTopic] = []

    def open_topic(topic: str, **conf: Any) -> CompactedTopic:
        settings = {"bootstrap.servers": client.bootstrap, "fetch.wait.max.ms": 50, **conf}
        made.append(CompactedTopic(settings, topic))
        return made[-1]

    yield open_topic
    for each in made:
        each.close()


def put(client: Client, topic: str, entries: dict[str, str | None], partition: int = -1) -> None:
    with client.producer() as producer:
        for key, value in entries.items():
            producer.produce(topic, value, key, partition=partition)


def until(topic: CompactedTopic, done: Callable[[], bool]) -> list[TableChange]:
    """Poll until the condition is true, and return all changes."""
    changes: list[TableChange] = []
    deadline = time.monotonic() + WAIT_S
    while not done():
        assert time.monotonic() < deadline
        changes += topic.poll(0.2)
    return changes


def test_scan_reads_everything_and_poll_returns_later_changes(client: Client, opened: Any) -> None:
    topic = client.topic(3)
    put(client, topic, {f"k{n}": f"v{n}" for n in range(100)})
    put(client, topic, {"k5": None, "k6": "new"})
    profiles = opened(topic)
    assert not profiles.caught_up
    table = profiles.scan(WAIT_S)
    assert profiles.caught_up
    assert table is profiles.table
    assert len(table) == 99
    assert table[b"k6"] == b"new"
    assert table.tombstones_processed == 1
    put(client, topic, {"k6": None, "k7": "newer", "other": "1"})
    changes = until(profiles, lambda: table.records_processed == 105)
    assert sorted(changes, key=lambda change: change.key) == [
        TableChange(b"k6", b"new", None),
        TableChange(b"k7", b"v7", b"newer"),
        TableChange(b"other", None, b"1"),
    ]


def test_empty_topic_is_scanned_at_once(client: Client, opened: Any) -> None:
    profiles = opened(client.topic(4))
    assert profiles.scan(WAIT_S) == {}
    assert profiles.caught_up
    assert profiles.poll(0) == []


def test_scan_ends_on_a_topic_that_is_written_all_the_time(client: Client, opened: Any) -> None:
    topic = client.topic(1)
    put(client, topic, {f"k{n}": "before" for n in range(500)})
    stop = threading.Event()

    def write() -> None:
        with client.producer() as producer:
            number = 0
            while not stop.is_set():
                number += 1
                producer.produce(topic, "during", f"d{number}")
                producer.poll(0.001)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        table = opened(topic).scan(WAIT_S)
    finally:
        stop.set()
        writer.join()
    assert sum(value == b"before" for value in table.values()) == 500


def test_scan_again_sees_what_was_written_before_it(client: Client, opened: Any) -> None:
    topic = client.topic(2)
    profiles = opened(topic)
    for number in range(5):
        put(client, topic, {"key": str(number)})
        assert profiles.scan(WAIT_S)[b"key"] == str(number).encode()


def test_poll_alone_catches_up_too(client: Client, opened: Any) -> None:
    topic = client.topic(2)
    put(client, topic, {f"k{n}": "v" for n in range(50)})
    profiles = opened(topic)
    changes = until(profiles, lambda: profiles.caught_up)
    assert len(changes) == len(profiles.table) == 50
    assert all(change.is_insert for change in changes)


def test_scan_reaches_an_end_that_was_compacted_away(client: Client, opened: Any) -> None:
    topic = client.topic(1)
    put(client, topic, {"a": "1"})
    [raw] = client.cluster.batches(topic, 0)
    # a batch of five records, of which compaction left the first
    client.cluster.append_raw(topic, 0, with_last_offset_delta(raw, 4))
    assert client.cluster.watermarks(topic, 0) == (0, 6)
    profiles = opened(topic)
    assert profiles.scan(WAIT_S) == {b"a": b"1"}
    assert profiles.caught_up


def with_last_offset_delta(raw: bytes, delta: int) -> bytes:
    """Return a batch that ends after its last record, as compaction leaves it."""
    changed = bytearray(raw)
    changed[23:27] = delta.to_bytes(4, "big")
    changed[17:21] = primitives.crc32c(bytes(changed[21:])).to_bytes(4, "big")
    return bytes(changed)


def test_new_partitions_are_read_from_their_beginning(client: Client, opened: Any) -> None:
    topic = client.topic(1)
    put(client, topic, {"old": "1"})
    profiles = opened(topic, **{"topic.metadata.refresh.interval.ms": 100})
    profiles.scan(WAIT_S)
    client.cluster.create_partitions(topic, 3)
    put(client, topic, {"new": "2"}, partition=2)
    changes = until(profiles, lambda: b"new" in profiles.table)
    assert changes == [TableChange(b"new", None, b"2")]
    until(profiles, lambda: profiles.caught_up)
    assert profiles.table.records_processed == 2, "nothing is read twice"


def test_recreated_topic_replaces_the_table(client: Client, opened: Any) -> None:
    topic = client.topic(2)
    with client.producer() as producer:
        for key in ("a", "b", "c"):
            producer.produce(topic, b"old", key)
    table = opened(topic)
    assert table.scan(WAIT_S) == {b"a": b"old", b"b": b"old", b"c": b"old"}
    client.cluster.delete_topic(topic)
    client.cluster.create_topic(topic, 1)
    with client.producer() as producer:
        producer.produce(topic, b"new", "b")
        producer.produce(topic, b"new", "d")
    changes = until(table, lambda: table.table == {b"b": b"new", b"d": b"new"})
    shown = {change.key: change.new_value for change in changes}
    assert shown == {b"a": None, b"b": b"new", b"c": None, b"d": b"new"}
    assert table.scan(WAIT_S) == {b"b": b"new", b"d": b"new"}


def test_after_a_scan_of_a_recreated_topic_poll_removes_no_key_of_the_table(
    client: Client, opened: Any
) -> None:
    topic = client.topic(1)
    put(client, topic, {"a": "old", "b": "old"})
    table = opened(topic)
    table.scan(WAIT_S)
    client.cluster.delete_topic(topic)
    client.cluster.create_topic(topic, 1)
    put(client, topic, {"b": "new"})
    wait_for(lambda: table.scan(WAIT_S) == {b"b": b"new"})
    copy = table.table.snapshot()
    put(client, topic, {"c": "new"})
    for change in until(table, lambda: b"c" in table.table):
        copy[change.key] = change.new_value
    assert copy == {b"b": b"new", b"c": b"new"} == table.table


def test_missing_topic_is_a_clear_error(opened: Any) -> None:
    profiles = opened("no-such-topic")
    with pytest.raises(KafkaException) as caught:
        profiles.scan(WAIT_S)
    codes = (KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_OR_PART)
    assert caught.value.args[0].code() in codes
    assert not profiles.caught_up


def test_scan_that_times_out_raises_and_continues_later(client: Client, opened: Any) -> None:
    topic = client.topic(2)
    put(client, topic, {f"k{n}": "v" for n in range(20)})
    profiles = opened(topic)
    client.cluster.delay_responses(None, 60.0, api_key=1)
    try:
        with pytest.raises(
            KafkaException, match="of 2 partitions aren't read to their ends"
        ) as caught:
            profiles.scan(1.0)
    finally:
        client.cluster.delay_responses(None, 0.0, api_key=1)
        client.cluster.advance(60)
    assert caught.value.args[0].code() == KafkaError._TIMED_OUT
    assert len(profiles.scan(WAIT_S)) == 20


def test_damaged_batch_is_an_error_and_its_partition_continues(client: Client, opened: Any) -> None:
    topic = client.topic(1)
    put(client, topic, {"a": "1"})
    profiles = opened(topic)
    client.cluster.corrupt_next_fetch(topic, 0)
    with pytest.raises(KafkaException, match="CRC32C"):
        profiles.scan(WAIT_S)
    assert not profiles.caught_up
    assert profiles.scan(WAIT_S) == {b"a": b"1"}


def test_table_of_an_existing_consumer_and_its_parts(client: Client) -> None:
    topic = client.topic(2)
    put(client, topic, {"a": "1", "b": "2"})
    consumer = client.consumer(**{"enable.partition.eof": True, "auto.offset.reset": "latest"})
    profiles = CompactedTopic.from_consumer(consumer, topic)
    profiles.scan(WAIT_S)
    assert profiles.consumer is consumer
    same, table = profiles.into_parts()
    assert same is consumer
    assert table == {b"a": b"1", b"b": b"2"}
    put(client, topic, {"c": "3"})
    wait_for(lambda: table.ingest(consumer.consume(None, 0.2)) or b"c" in table)
    consumer.close()


def test_with_block_closes_and_the_table_stays(client: Client) -> None:
    topic = client.topic(1)
    put(client, topic, {"a": "1"})
    with CompactedTopic(
        {"bootstrap.servers": client.bootstrap, "auto.offset.reset": "latest"}, topic
    ) as profiles:
        profiles.scan(WAIT_S)
    profiles.close()
    assert profiles.table == {b"a": b"1"}
    with pytest.raises(RuntimeError, match="closed"):
        profiles.poll(0)


def test_nothing_is_committed_or_joined(cluster: MockCluster, client: Client, opened: Any) -> None:
    topic = client.topic(1)
    put(client, topic, {"a": "1"})
    cluster.clear_requests()
    opened(topic, **{"group.id": "g"}).scan(WAIT_S)
    asked = {request.api_key for request in cluster.requests}
    assert 1 in asked
    assert not asked & {8, 11, 68}
