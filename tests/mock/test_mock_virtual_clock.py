"""A cluster with a virtual clock: time stands still until a test moves it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kafka_native import Consumer, Producer, TopicPartition
from kafka_native.errors import ErrorCode
from kafka_native.mock import MockCluster, VirtualClock
from kafka_native.protocol import ApiKey
from kafka_native.protocol.metadata import MetadataRequest
from tests.mock import test_mock_groups as classic
from tests.mock.test_mock_consumer_groups import Member
from tests.mock.test_mock_settings import share_group
from tests.mock.wire import Wire, batch, fetch_request, produce
from tests.waiting import WAIT_S, wait_for

NOON = 1_700_000_000.0


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(NOON)


@pytest.fixture
def cluster(clock: VirtualClock) -> Iterator[MockCluster]:
    with MockCluster(brokers=1, clock=clock) as running:
        running.create_topic("a", 1)
        yield running


def test_time_stands_still(clock: VirtualClock) -> None:
    assert clock.time_ms() == NOON * 1000
    before = clock.now()
    assert clock.now() == before
    clock.advance(1.5)
    assert clock.now() == before + 1.5
    assert clock.time_ms() == NOON * 1000 + 1500
    with pytest.raises(ValueError, match="forward"):
        clock.advance(-1)


def test_append_times_are_the_clocks(cluster: MockCluster, wire: Wire) -> None:
    cluster.create_topic("stamped", configs={"message.timestamp.type": "LogAppendTime"})
    for _ in range(2):
        assert produce(wire, "stamped", 0, batch(b"x")).error_code == 0
        cluster.advance(60)
    assert [each.timestamp for each in cluster.messages("stamped", 0)] == [
        NOON * 1000,
        NOON * 1000 + 60_000,
    ]


def test_old_records_are_deleted(cluster: MockCluster, wire: Wire) -> None:
    cluster.create_topic("kept")
    for name in ("short", "compacted"):
        policy = "compact" if name == "compacted" else "delete"
        cluster.create_topic(name, configs={"retention.ms": "3600000", "cleanup.policy": policy})
    for name in ("kept", "short", "compacted"):
        for second in (0, 1800):
            data = batch(b"x", timestamp=int((NOON + second) * 1000))
            cluster.append_raw(name, 0, data)
    cluster.advance(3600)
    assert cluster.watermarks("short", 0) == (0, 2)
    cluster.advance(1)
    assert cluster.watermarks("short", 0) == (1, 2)
    cluster.advance(1800)
    assert cluster.watermarks("short", 0) == (2, 2)
    assert cluster.watermarks("kept", 0) == cluster.watermarks("compacted", 0) == (0, 2)


def test_sessions_end_when_the_time_has_come(cluster: MockCluster, clock: VirtualClock) -> None:
    member = Member(cluster, "1", "a")
    member.join()
    cluster.advance(45)
    assert member.heartbeat().error_code == 0
    clock.advance(45.001)
    assert member.heartbeat().error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_ends_when_the_time_has_come(
    clock: VirtualClock, pool: ThreadPoolExecutor
) -> None:
    with MockCluster(1, clock=clock, rebalance_delay=600) as cluster:
        member = classic.Member(cluster, pool, session_ms=1_800_000, rebalance_ms=1_800_000)
        joining = member.start_join()
        wait_for(lambda: _is_waiting(cluster), "the member that waits for others")
        assert not joining.done()
        clock.advance(600)
        assert joining.result(WAIT_S).error_code == 0


def _is_waiting(cluster: MockCluster) -> bool:
    group = cluster.state.groups.find(classic.GROUP)
    return group is not None and bool(group.members)


def test_share_locks_end_when_the_time_has_come(cluster: MockCluster, wire: Wire) -> None:
    member = share_group(cluster, wire, "g", auto_offset_reset="earliest")
    assert produce(wire, "a", 0, batch(b"x")).error_code == 0
    assert member.fetch()[1] == [(0, 0, 1)]
    cluster.advance(29.999)
    assert member.fetch()[1] == []
    cluster.advance(0.001)
    assert member.fetch()[1] == [(0, 0, 2)]


def test_a_delayed_response_is_sent_when_the_time_has_come(
    cluster: MockCluster, pool: ThreadPoolExecutor
) -> None:
    cluster.delay_responses(1, 60, ApiKey.METADATA)
    with Wire(cluster) as wire:
        asking = pool.submit(wire.ask, MetadataRequest(topics=[]), 12)
        cluster.wait_for_requests(ApiKey.METADATA, 1, timeout=WAIT_S)
        assert not asking.done()
        cluster.advance(60)
        assert asking.result(WAIT_S).brokers


def test_a_fetch_gets_its_answer_while_the_time_stands_still(
    cluster: MockCluster, wire: Wire
) -> None:
    request = fetch_request("a", {0: 0}, max_wait_ms=20)
    answer: Any = wire.ask(request, 12)
    assert answer.responses[0].partitions[0].error_code == 0


def test_clusters_share_a_clock(cluster: MockCluster, clock: VirtualClock) -> None:
    with MockCluster(1, clock=clock) as other:
        for each in (cluster, other):
            each.create_topic("short", configs={"retention.ms": "1000"})
            each.append_raw("short", 0, batch(b"x", timestamp=int(NOON * 1000)))
        clock.advance(2)
        assert cluster.watermarks("short", 0) == other.watermarks("short", 0) == (1, 1)
    clock.advance(1)  # the closed cluster takes no part


def test_an_application_runs_on_a_virtual_clock(cluster: MockCluster) -> None:
    servers = {"bootstrap.servers": cluster.bootstrap_servers}
    with Producer({**servers, "transactional.id": "t", "transaction.timeout.ms": 60_000}) as one:
        one.init_transactions()
        one.begin_transaction()
        one.produce("a", b"lost")
        assert one.flush(WAIT_S) == 0
        with Consumer({**servers, "isolation.level": "read_committed"}) as consumer:
            consumer.assign([TopicPartition("a", 0, 0)])
            assert consumer.poll(0.2) is None
            cluster.advance(61)  # the transaction ends
            with Producer(servers) as other:
                other.produce("a", b"kept")
                assert other.flush(WAIT_S) == 0
            message = consumer.poll(WAIT_S)
            assert message is not None
            assert message.value() == b"kept"
