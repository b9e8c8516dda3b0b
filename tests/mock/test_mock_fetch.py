"""Fetch: slices, limits, long polls, sessions, leaders, raw bytes."""

from __future__ import annotations

import threading
import time

import pytest

from kafka_native._native import records
from kafka_native.errors import ErrorCode
from kafka_native.mock import MockCluster
from kafka_native.protocol.fetch import FetchRequest
from tests.mock.wire import Wire, batch, fetch_request, fetched, produce, values


@pytest.fixture
def topic(cluster: MockCluster) -> str:
    cluster.create_topic("a", 4)  # broker 1 leads partitions 0 and 3
    return "a"


def append(cluster: MockCluster, partition: int, *values: bytes, size: int = 0) -> None:
    """Append one batch for each value."""
    for value in values:
        cluster.append_raw("a", partition, batch(value + bytes(size)))


def test_records_are_returned_as_stored(topic: str, cluster: MockCluster, wire: Wire) -> None:
    data = batch(b"a", b"b", codec="lz4")
    produce(wire, topic, 0, data)
    produce(wire, topic, 0, data)
    for version in range(4, 18):
        by_id = cluster.topic_id(topic) if version >= 13 else bytes(16)
        part = fetched(wire.ask(fetch_request(topic, {0: 0}, topic_id=by_id), version))[0]
        assert bytes(part.records or b"") == b"".join(cluster.batches(topic, 0))
        assert (part.error_code, part.high_watermark, part.last_stable_offset) == (0, 4, 4)


def test_fetch_begins_with_the_batch_that_holds_the_offset(
    topic: str, cluster: MockCluster, wire: Wire
) -> None:
    for _ in range(3):
        cluster.append_raw(topic, 0, batch(b"a", b"b"))
    part = fetched(wire.ask(fetch_request(topic, {0: 3}), 12))[0]
    assert [one.base_offset for one in records.decode_batches(part.records or b"")] == [2, 4]
    part = fetched(wire.ask(fetch_request(topic, {0: 6}), 12))[0]
    assert (part.error_code, part.records) == (0, b"")


def test_offsets_out_of_range(topic: str, cluster: MockCluster, wire: Wire) -> None:
    append(cluster, 0, b"a")
    for offset in (-1, 2):
        part = fetched(wire.ask(fetch_request(topic, {0: offset}), 12))[0]
        assert part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_limits_leave_batches_out_but_never_the_first(
    topic: str, cluster: MockCluster, wire: Wire
) -> None:
    append(cluster, 0, b"0", b"1", b"2", size=1000)
    append(cluster, 3, b"3", b"4", size=1000)
    part = fetched(wire.ask(fetch_request(topic, {0: 0}, partition_max_bytes=10), 12))[0]
    assert len(values(part)) == 1
    parts = fetched(wire.ask(fetch_request(topic, {0: 0, 3: 0}, partition_max_bytes=2500), 12))
    assert [len(values(parts[index])) for index in (0, 3)] == [2, 2]
    parts = fetched(wire.ask(fetch_request(topic, {0: 0, 3: 0}, max_bytes=100), 12))
    assert [len(values(parts[index])) for index in (0, 3)] == [1, 0]


def test_partial_batches_where_the_cluster_cuts_them() -> None:
    with MockCluster(1, partial_batches=True) as cluster, Wire(cluster) as wire:
        cluster.create_topic("a")
        append(cluster, 0, b"0", b"1", size=1000)
        part = fetched(wire.ask(fetch_request("a", {0: 0}, partition_max_bytes=1500), 12))[0]
        assert len(part.records or b"") == 1500
        assert len(values(part)) == 1


def test_many_small_batches_in_one_response(topic: str, cluster: MockCluster, wire: Wire) -> None:
    append(cluster, 0, *[b"%d" % number for number in range(2000)])
    part = fetched(wire.ask(fetch_request(topic, {0: 0}), 12))[0]
    assert values(part) == [b"%d" % number for number in range(2000)]


def test_large_response_arrives_whole(topic: str, cluster: MockCluster, wire: Wire) -> None:
    append(cluster, 0, *[b"%d" % number for number in range(100)], size=100_000)
    wanted = fetch_request(topic, {0: 0}, max_bytes=50 << 20, partition_max_bytes=50 << 20)
    part = fetched(wire.ask(wanted, 12))[0]
    assert part.records == b"".join(cluster.batches(topic, 0))


def test_long_poll_waits_for_enough_bytes(topic: str, cluster: MockCluster, wire: Wire) -> None:
    number = wire.send(fetch_request(topic, {0: 0, 3: 0}, max_wait_ms=10_000, min_bytes=150), 12)
    start = time.monotonic()
    for partition in (0, 3, 0):
        time.sleep(0.05)
        append(cluster, partition, b"x")  # 69 bytes each
    parts = fetched(wire.receive(FetchRequest(), 12, number))
    assert 0.1 < time.monotonic() - start < 5
    assert sum(len(values(part)) for part in parts.values()) == 3


def test_long_poll_ends_when_the_time_is_up(topic: str, wire: Wire) -> None:
    start = time.monotonic()
    part = fetched(wire.ask(fetch_request(topic, {0: 0}, max_wait_ms=100), 12))[0]
    assert 0.1 <= time.monotonic() - start < 5
    assert (part.error_code, part.records) == (0, b"")


def test_long_poll_ends_with_leadership(topic: str, cluster: MockCluster, wire: Wire) -> None:
    number = wire.send(fetch_request(topic, {0: 0}, max_wait_ms=10_000, epoch=0), 12)
    threading.Timer(0.05, cluster.move_leader, (topic, 0, 2)).start()
    part = fetched(wire.receive(FetchRequest(), 12, number))[0]
    assert part.error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_long_poll_ends_with_the_topic(topic: str, cluster: MockCluster, wire: Wire) -> None:
    number = wire.send(fetch_request(topic, {0: 0}, max_wait_ms=10_000), 12)
    threading.Timer(0.05, cluster.delete_topic, (topic,)).start()
    part = fetched(wire.receive(FetchRequest(), 12, number))[0]
    assert part.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_old_leader_names_the_new_one(topic: str, cluster: MockCluster, wire: Wire) -> None:
    cluster.move_leader(topic, 0, 2)
    response = wire.ask(fetch_request(topic, {0: 0}, topic_id=cluster.topic_id(topic)), 16)
    part = fetched(response)[0]
    assert part.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (part.current_leader.leader_id, part.current_leader.leader_epoch) == (2, 1)
    assert [(one.node_id, f"{one.host}:{one.port}") for one in response.node_endpoints] == [
        (2, cluster.address(2))
    ]


def test_leader_epochs_are_compared(topic: str, cluster: MockCluster, wire: Wire) -> None:
    cluster.move_leader(topic, 0, 1)
    expected = {
        0: ErrorCode.FENCED_LEADER_EPOCH,
        1: ErrorCode.NO_ERROR,
        2: ErrorCode.UNKNOWN_LEADER_EPOCH,
    }
    for epoch, code in expected.items():
        assert (
            fetched(wire.ask(fetch_request(topic, {0: 0}, epoch=epoch), 12))[0].error_code == code
        )


def test_session_returns_only_changes(topic: str, cluster: MockCluster, wire: Wire) -> None:
    full = wire.ask(fetch_request(topic, {0: 0, 3: 0}, session=(0, 0)), 12)
    assert full.session_id > 0
    assert set(fetched(full)) == {0, 3}
    number = full.session_id
    assert fetched(wire.ask(fetch_request(topic, {}, session=(number, 1)), 12)) == {}
    append(cluster, 3, b"x")
    news = wire.ask(fetch_request(topic, {}, session=(number, 2)), 12)
    assert news.session_id == number
    assert {index: values(part) for index, part in fetched(news).items()} == {3: [b"x"]}
    moved = wire.ask(fetch_request(topic, {3: 1}, session=(number, 3)), 12)
    assert fetched(moved) == {}
    assert cluster.fetch_session_count(1) == 1


def test_session_forgets_and_adds_partitions(topic: str, cluster: MockCluster, wire: Wire) -> None:
    number = wire.ask(fetch_request(topic, {0: 0}, session=(0, 0)), 12).session_id
    append(cluster, 0, b"x")
    request = fetch_request(topic, {3: 0}, session=(number, 1))
    request.forgotten_topics_data = [FetchRequest.ForgottenTopic(topic=topic, partitions=[0])]
    assert set(fetched(wire.ask(request, 12))) == {3}
    append(cluster, 0, b"y")
    assert fetched(wire.ask(fetch_request(topic, {}, session=(number, 2)), 12)) == {}


def test_session_serves_partitions_in_turn(topic: str, cluster: MockCluster, wire: Wire) -> None:
    for partition in (0, 3):
        append(cluster, partition, b"1", b"2", size=1000)
    number = wire.ask(
        fetch_request(topic, {0: 0, 3: 0}, session=(0, 0), max_bytes=1), 12
    ).session_id
    served = []
    for epoch in (1, 2, 3):
        parts = fetched(
            wire.ask(fetch_request(topic, {}, session=(number, epoch), max_bytes=1), 12)
        )
        served += [index for index, part in parts.items() if part.records]
    assert served == [3, 0, 3]


@pytest.mark.parametrize(
    ("session", "code"),
    [
        ((12345, 1), ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        ((None, 5), ErrorCode.INVALID_FETCH_SESSION_EPOCH),
    ],
)
def test_wrong_sessions_are_refused(
    session: tuple[int | None, int], code: ErrorCode, topic: str, cluster: MockCluster, wire: Wire
) -> None:
    known = wire.ask(fetch_request(topic, {0: 0}, session=(0, 0)), 12).session_id
    number, epoch = session
    response = wire.ask(
        fetch_request(topic, {}, session=(known if number is None else number, epoch)), 12
    )
    assert (response.error_code, response.responses) == (code, [])


def test_session_ends_on_request_when_cleared_and_at_the_limit(
    topic: str, cluster: MockCluster
) -> None:
    with MockCluster(1, fetch_session_limit=2) as small, Wire(small) as wire:
        small.create_topic("a")
        numbers = [
            wire.ask(fetch_request("a", {0: 0}, session=(0, 0)), 12).session_id for _ in range(3)
        ]
        gone = wire.ask(fetch_request("a", {}, session=(numbers[0], 1)), 12)
        assert gone.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        assert wire.ask(fetch_request("a", {0: 0}, session=(numbers[1], -1)), 12).session_id == 0
        assert small.fetch_session_count(1) == 1
        small.clear_fetch_sessions(1)
        gone = wire.ask(fetch_request("a", {}, session=(numbers[2], 1)), 12)
        assert gone.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    with MockCluster(1, fetch_session_limit=0) as none, Wire(none) as wire:
        none.create_topic("a")
        assert wire.ask(fetch_request("a", {0: 0}, session=(0, 0)), 12).session_id == 0


def test_corrupt_fetch_is_wrong_once_and_only_on_the_wire(
    topic: str, cluster: MockCluster, wire: Wire
) -> None:
    append(cluster, 0, b"x", b"y")
    cluster.corrupt_next_fetch(topic, 0)
    part = fetched(wire.ask(fetch_request(topic, {0: 0}), 12))[0]
    with pytest.raises(records.RecordError, match="checksum"):
        values(part)
    assert values(fetched(wire.ask(fetch_request(topic, {0: 0}), 12))[0]) == [b"x", b"y"]


def test_appended_bytes_get_offsets_or_stay_unchanged(
    topic: str, cluster: MockCluster, wire: Wire
) -> None:
    assert cluster.append_raw(topic, 0, batch(b"a", b"b") + batch(b"c")) == 0
    assert cluster.append_raw(topic, 0, b"anything", record_count=2) == 3
    assert cluster.append_raw(topic, 0, batch(b"d")) == 5
    assert cluster.watermarks(topic, 0) == (0, 6)
    part = fetched(wire.ask(fetch_request(topic, {0: 3}), 12))[0]
    assert bytes(part.records or b"").startswith(b"anything")
    assert values(fetched(wire.ask(fetch_request(topic, {0: 5}), 12))[0]) == [b"d"]
    with pytest.raises(ValueError, match="record_count"):
        cluster.append_raw(topic, 0, batch(b"e")[:-1])
