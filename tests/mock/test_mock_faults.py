"""Faults happen as often as a test sets them, and only where it sets them."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from kafka_native.errors import ErrorCode
from kafka_native.mock import CLOSE_CONNECTION, MockCluster
from kafka_native.mock.versions import ADVERTISED
from kafka_native.protocol import ApiKey
from kafka_native.protocol.metadata import MetadataRequest
from kafka_native.protocol.versions import ApiVersionsRequest
from tests.mock.test_mock_protocol import MAKE
from tests.mock.wire import TIMEOUT, Closed, Wire, batch, fetch_request, fetched, produce
from tests.waiting import wait_for

# Their responses have no error for the whole request, and none for parts that a test can name.
WITHOUT_ERROR_FIELD = {
    ApiKey.DESCRIBE_LOG_DIRS,
    ApiKey.DESCRIBE_GROUPS,
    ApiKey.DELETE_RECORDS,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.DELETE_GROUPS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS,
}


def test_each_pushed_error_is_one_response(cluster: MockCluster, wire: Wire) -> None:
    cluster.create_topic("a")
    pushed = [ErrorCode.NOT_ENOUGH_REPLICAS, 0, ErrorCode.REQUEST_TIMED_OUT]
    cluster.push_request_errors(ApiKey.PRODUCE, pushed)
    answers = [produce(wire, "a", 0, batch(b"x")).error_code for _ in range(4)]
    assert answers == [*pushed, 0]
    assert cluster.watermarks("a", 0) == (0, 2)


def test_pushed_errors_can_be_for_one_broker(cluster: MockCluster, wire: Wire) -> None:
    cluster.create_topic("a", 2)
    cluster.push_request_errors(ApiKey.FETCH, [ErrorCode.KAFKA_STORAGE_ERROR], broker=2)
    assert fetched(wire.ask(fetch_request("a", {0: 0}), 12))[0].error_code == 0
    with Wire(cluster, 2) as other:
        part = fetched(other.ask(fetch_request("a", {1: 0}), 12))[1]
        assert part.error_code == ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize(
    "code", [ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH]
)
def test_pushed_session_errors_are_about_the_whole_fetch(
    code: ErrorCode, cluster: MockCluster, wire: Wire
) -> None:
    cluster.create_topic("a")
    cluster.push_request_errors(ApiKey.FETCH, [code])
    assert wire.ask(fetch_request("a", {0: 0}, session=(0, 0)), 12).error_code == code


@pytest.mark.parametrize("key", sorted(set(MAKE) - WITHOUT_ERROR_FIELD), ids=lambda key: key.name)
def test_pushed_errors_fit_every_version(key: ApiKey, cluster: MockCluster) -> None:
    cluster.create_topic("a")
    first, last = ADVERTISED[key]
    if key == ApiKey.PRODUCE:
        first = 3
    code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    for version in range(first, last + 1):
        cluster.push_request_errors(key, [code])
        with Wire(cluster) as wire:
            response = wire.ask(MAKE[key](version, "a", cluster.topic_id("a")), version)
        assert f"error_code={code.value}" in repr(response).replace(repr(code), str(code.value))


def test_pushed_close_closes(cluster: MockCluster) -> None:
    cluster.push_request_errors(ApiKey.METADATA, [CLOSE_CONNECTION])
    with Wire(cluster) as wire:
        wire.send(MetadataRequest(topics=None), 12)
        assert wire.is_closed()
    with Wire(cluster) as wire:
        assert wire.ask(MetadataRequest(topics=None), 12).brokers


def test_delay_applies_to_each_response_alone(cluster: MockCluster, wire: Wire) -> None:
    cluster.delay_responses(1, 1.0)
    start = time.monotonic()
    numbers = [wire.send(MetadataRequest(topics=None), 12) for _ in range(5)]
    for number in numbers:
        wire.receive(MetadataRequest(), 12, number)
    assert 1.0 <= time.monotonic() - start < 5.0
    cluster.delay_responses(1, 10 * TIMEOUT)
    cluster.delay_responses(1, 0)
    wire.ask(MetadataRequest(topics=None), 12)


def test_delayed_connection_closes_at_once(cluster: MockCluster) -> None:
    cluster.delay_responses(1, 30)
    with Wire(cluster) as wire:
        wire.send(MetadataRequest(topics=None), 12)
        time.sleep(0.05)
        start = time.monotonic()
        cluster.broker_down(1)
        assert time.monotonic() - start < 20


@pytest.mark.parametrize("after", [0, 3, 4, 9])
def test_close_in_the_middle_of_a_frame(after: int, cluster: MockCluster) -> None:
    cluster.create_topic("a")
    cluster.close_mid_frame(1, after, api_key=ApiKey.PRODUCE)
    with Wire(cluster) as wire:
        assert wire.ask(ApiVersionsRequest(), 0).error_code == 0
        with pytest.raises(Closed):
            produce(wire, "a", 0, batch(b"x"))
    assert cluster.watermarks("a", 0) == (
        0,
        1,
    )  # the append is done, although the client got no response
    with Wire(cluster) as wire:
        assert produce(wire, "a", 0, batch(b"x")).base_offset == 1


def test_oversized_announcement(cluster: MockCluster, wire: Wire) -> None:
    cluster.oversize_next_response(1, 2_000_000_000)
    wire.send(MetadataRequest(topics=None), 12)
    assert wire.socket.recv(4) == (2_000_000_000).to_bytes(4, "big")
    with pytest.raises(ValueError, match="32 bits"):
        cluster.oversize_next_response(1, 1 << 32)


def test_responses_are_rewritten(cluster: MockCluster, wire: Wire) -> None:
    cluster.rewrite_responses(ApiKey.METADATA, lambda frame: b"\0\0\0\1" + frame[-1:], count=2)
    for _ in range(2):
        wire.send(MetadataRequest(topics=None), 12)
        assert len(wire.read_frame()) == 1
        assert wire.ask(ApiVersionsRequest(), 0).error_code == 0
    assert wire.ask(MetadataRequest(topics=None), 12).brokers


def test_disconnect_closes_and_allows_reconnects(cluster: MockCluster) -> None:
    with Wire(cluster) as wire:
        wire.ask(ApiVersionsRequest(), 0)
        assert cluster.connection_count(1) == 1
        cluster.disconnect(1)
        assert wire.is_closed()
    with Wire(cluster) as wire:
        assert wire.ask(ApiVersionsRequest(), 0).error_code == 0


def test_faults_are_kept_for_open_connections(cluster: MockCluster, wire: Wire) -> None:
    """A waiting fetch of a closed consumer must not use up faults: no client would see them."""
    cluster.create_topic("a")
    with Wire(cluster) as gone:
        gone.send(fetch_request("a", {0: 0}, max_wait_ms=30_000), 12)
        wait_for(lambda: cluster.state.waiters)
    cluster.push_request_errors(
        ApiKey.FETCH, [ErrorCode.KAFKA_STORAGE_ERROR], topic="a", partition=0
    )
    cluster.corrupt_next_fetch("a", 0)
    cluster.edit_responses(ApiKey.FETCH, lambda response: setattr(response, "throttle_time_ms", 77))
    good = batch(b"x")
    assert produce(wire, "a", 0, good).error_code == 0
    wait_for(lambda: cluster.connection_count(1) == 1)
    first = wire.ask(fetch_request("a", {0: 0}), 12)
    assert first.throttle_time_ms == 77
    assert fetched(first)[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    second, third = (fetched(wire.ask(fetch_request("a", {0: 0}), 12))[0].records for _ in range(2))
    assert [bytes(data or b"")[-1:] == good[-1:] for data in (second, third)] == [False, True]


def test_clear_removes_all_faults(cluster: MockCluster, wire: Wire) -> None:
    cluster.create_topic("a")
    cluster.push_request_errors(ApiKey.METADATA, [CLOSE_CONNECTION])
    cluster.close_mid_frame(1, 1)
    cluster.delay_responses(1, 30)
    cluster.hide_topic("a", 5)
    cluster.corrupt_next_fetch("a", 0)
    cluster.faults.clear()
    assert [topic.name for topic in wire.ask(MetadataRequest(topics=None), 12).topics] == ["a"]


def test_a_throttle_may_be_for_any_broker(cluster: MockCluster, wire: Wire) -> None:
    cluster.create_topic("a")
    cluster.throttle_responses(None, 50, count=2)
    times = [wire.ask(fetch_request("a", {0: 0}), 12).throttle_time_ms for _ in range(3)]
    assert times == [50, 50, 0]


@pytest.mark.parametrize("broker", [0, 9])
def test_a_fault_of_a_broker_that_does_not_exist_is_refused(
    cluster: MockCluster, broker: int
) -> None:
    calls: list[Callable[[], None]] = [
        lambda: cluster.push_request_errors(ApiKey.PRODUCE, [1], broker=broker),
        lambda: cluster.delay_responses(broker, 1),
        lambda: cluster.throttle_responses(broker, 50),
        lambda: cluster.close_mid_frame(broker, 1),
        lambda: cluster.oversize_next_response(broker, 1),
        lambda: cluster.mix_up_responses(broker),
        lambda: cluster.edit_responses(ApiKey.FETCH, lambda _: None, broker=broker),
        lambda: cluster.rewrite_responses(ApiKey.FETCH, lambda frame: frame, broker=broker),
        lambda: cluster.remove_broker(broker),
        lambda: cluster.broker_down(broker),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=f"there is no broker {broker}"):
            call()


def test_a_fault_of_an_unknown_api_is_refused(cluster: MockCluster) -> None:
    with pytest.raises(ValueError, match="Produce"):
        cluster.push_request_errors("Produce", [1])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="999"):
        cluster.delay_responses(None, 1, 999)
    with pytest.raises(ValueError, match="Produce"):
        MockCluster(max_versions={"Produce": 3})  # type: ignore[dict-item]
