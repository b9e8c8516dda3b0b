"""Truncated logs, logs that begin later, and followers that serve consumers of their rack."""

from __future__ import annotations

import pytest

from kafka_native.errors import ErrorCode
from kafka_native.mock import MockCluster
from kafka_native.protocol.fetch import FetchRequest, FetchResponse
from kafka_native.protocol.metadata import MetadataRequest
from kafka_native.protocol.offsets import ListOffsetsRequest, OffsetForLeaderEpochRequest
from tests.mock.wire import Wire, batch, fetch_request, fetched, produce, values


def end_of(wire: Wire, epoch: int, current: int) -> tuple[int, int, int]:
    """Return the error, epoch and end offset of an OffsetForLeaderEpoch."""
    part = OffsetForLeaderEpochRequest.Topic.Partition(
        partition=0, leader_epoch=epoch, current_leader_epoch=current
    )
    topic = OffsetForLeaderEpochRequest.Topic(topic="a", partitions=[part])
    found = wire.ask(OffsetForLeaderEpochRequest(topics=[topic])).topics[0].partitions[0]
    return found.error_code, found.leader_epoch, found.end_offset


def fetch(
    wire: Wire, offset: int, rack: str = "", epoch: int = -1, session: tuple[int, int] = (0, -1)
) -> FetchResponse:
    request: FetchRequest = fetch_request("a", {0: offset}, epoch=epoch, session=session)
    request.rack_id = rack
    response: FetchResponse = wire.ask(request, 12)
    return response


def test_truncated_log_continues_in_a_new_epoch(cluster: MockCluster, wire: Wire) -> None:
    cluster.create_topic("a")
    for value in (b"0", b"1", b"2", b"3"):
        assert produce(wire, "a", 0, batch(value)).error_code == 0
    cluster.truncate("a", 0, 2)
    assert cluster.watermarks("a", 0) == (0, 2)
    assert end_of(wire, 0, 0)[0] == ErrorCode.FENCED_LEADER_EPOCH
    assert end_of(wire, 0, 1) == (0, 0, 2)
    assert fetched(fetch(wire, 4))[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert fetched(fetch(wire, 0, epoch=0))[0].error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert produce(wire, "a", 0, batch(b"new")).base_offset == 2
    assert end_of(wire, 0, 1) == (0, 0, 2)
    assert end_of(wire, 1, 1) == (0, 1, 3)
    assert values(fetched(fetch(wire, 0, epoch=1))[0]) == [b"0", b"1", b"new"]
    with pytest.raises(ValueError, match="offsets 0 to 3"):
        cluster.truncate("a", 0, 9)
    cluster.truncate("a", 0, 1, broker=2)
    assert cluster.leader("a", 0) == 2
    with Wire(cluster, 2) as other:
        assert end_of(other, 1, 2) == (0, 0, 1)


def test_a_batch_that_is_cut_is_gone_as_a_whole(cluster: MockCluster, wire: Wire) -> None:
    cluster.create_topic("a")
    produce(wire, "a", 0, batch(b"0"))
    produce(wire, "a", 0, batch(b"1", b"2", b"3"))
    cluster.truncate("a", 0, 3)
    assert cluster.watermarks("a", 0) == (0, 1)
    assert end_of(wire, 0, 1) == (0, 0, 1)
    assert values(fetched(fetch(wire, 0, epoch=1))[0]) == [b"0"]
    assert produce(wire, "a", 0, batch(b"new")).base_offset == 1


def test_log_that_begins_within_a_batch_may_lose_this_batch(
    cluster: MockCluster, wire: Wire
) -> None:
    """Otherwise new records would be below the start, where nobody finds them."""
    cluster.create_topic("a")
    produce(wire, "a", 0, batch(b"0", b"1", b"2"))
    cluster.move_log_start("a", 0, 1)
    cluster.truncate("a", 0, 2)
    assert cluster.watermarks("a", 0) == (0, 0)
    assert produce(wire, "a", 0, batch(b"new")).base_offset == 0
    assert values(fetched(fetch(wire, 0, epoch=1))[0]) == [b"new"]


def test_lost_batch_can_be_written_again(cluster: MockCluster, wire: Wire) -> None:
    cluster.create_topic("a")
    for sequence in range(3):
        one = batch(b"x", producer_id=5, producer_epoch=0, base_sequence=sequence)
        assert produce(wire, "a", 0, one).base_offset == sequence
    cluster.truncate("a", 0, 1)
    again = batch(b"x", producer_id=5, producer_epoch=0, base_sequence=1)
    assert produce(wire, "a", 0, again).base_offset == 1


def test_log_that_begins_later_is_out_of_range_below(cluster: MockCluster, wire: Wire) -> None:
    cluster.create_topic("a")
    for number in range(4):
        produce(wire, "a", 0, batch(b"%d" % number))
    cluster.move_log_start("a", 0, 3)
    assert fetched(fetch(wire, 1))[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert values(fetched(fetch(wire, 3))[0]) == [b"3"]
    cluster.move_log_start("a", 0, 10)
    assert cluster.watermarks("a", 0) == (10, 10)
    assert produce(wire, "a", 0, batch(b"late")).base_offset == 10
    with pytest.raises(ValueError, match="begins at 10"):
        cluster.move_log_start("a", 0, 2)
    parts = [
        ListOffsetsRequest.Topic.Partition(partition_index=0, timestamp=kind)
        for kind in (-2, -4, -5, -1)
    ]
    found = wire.ask(
        ListOffsetsRequest(topics=[ListOffsetsRequest.Topic(name="a", partitions=parts)]), 10
    ).topics[0]
    assert [one.offset for one in found.partitions] == [10, 10, -1, 11]


def test_leader_redirects_a_consumer_to_the_replica_of_its_rack() -> None:
    with (
        MockCluster(3, racks=["x", "y", "y"]) as cluster,
        Wire(cluster, 1) as leader,
        Wire(cluster, 2) as follower,
    ):
        cluster.create_topic("a", replication_factor=2)
        assert {one.node_id: one.rack for one in leader.ask(MetadataRequest()).brokers} == {
            1: "x",
            2: "y",
            3: "y",
        }
        for number in range(4):
            produce(leader, "a", 0, batch(b"%d" % number))
        for rack, preferred in (("", -1), ("x", -1), ("elsewhere", -1), ("y", 2)):
            part = fetched(fetch(leader, 0, rack))[0]
            assert (part.error_code, part.preferred_read_replica) == (0, preferred)
            assert len(values(part)) == (0 if preferred == 2 else 4)
        assert len(values(fetched(fetch(follower, 0, "y"))[0])) == 4
        session = fetch(leader, 0, "y", session=(0, 0))
        again = fetch(leader, 0, "y", session=(session.session_id, 1))
        assert fetched(again)[0].preferred_read_replica == 2  # also within a session
        # The leader doesn't redirect to a follower without the records.
        cluster.set_follower_lag("a", 0, 2, 3)
        assert fetched(fetch(leader, 2, "y"))[0].preferred_read_replica == -1
        assert fetched(fetch(follower, 2, "y"))[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        part = fetched(fetch(follower, 0, "y"))[0]
        assert (values(part), part.high_watermark) == ([b"0"], 1)
        cluster.set_follower_lag("a", 0, 2, 0)
        cluster.set_rack(2, None)
        assert fetched(fetch(leader, 0, "y"))[0].preferred_read_replica == -1
        with Wire(cluster, 3) as stranger:
            assert (
                fetched(fetch(stranger, 0, "y"))[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            )
        request = fetch_request("a", {0: 0})
        old = fetched(follower.ask(request, 10))[0]
        assert old.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        with pytest.raises(ValueError, match="no replica"):
            cluster.set_follower_lag("a", 0, 3, 1)
