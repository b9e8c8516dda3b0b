"""Brokers that don't support ApiVersions: api.version.*, broker.version.fallback."""

from __future__ import annotations

import pytest

from kafka_native.control.brokers.versions import Fallback
from kafka_native.errors import STATUS_TIMED_OUT, STATUS_TRANSPORT, KafkaError
from kafka_native.protocol import ApiKey, releases
from kafka_native.protocol.groups import LeaveGroupRequest
from kafka_native.protocol.metadata import MetadataRequest
from kafka_native.protocol.offsets import ListOffsetsRequest
from kafka_native.protocol.schema import Request
from kafka_native.protocol.versions import ApiVersionsRequest

from .fakes import Cluster, event

TEN_MINUTES = Fallback.of("0.9.0.1", ask=True, for_s=600.0)
NEVER_ASK = Fallback.of("0.8.2.2", ask=False, for_s=0.0)


def ask(cluster: Cluster, status: int) -> None:
    """Connect, send ApiVersions, and end the connection instead of an answer."""
    cluster.pool.on_connected(event())
    sent = cluster.engine.submitted.pop()
    assert sent.api_key == ApiVersionsRequest.api_key
    cluster.pool.on_reply(event(token=sent.token, status=status))
    cluster.pool.on_disconnected(event(status=status, attempts=1, text="boot0:9092: gone"))


@pytest.mark.parametrize("status", [STATUS_TRANSPORT, STATUS_TIMED_OUT])
def test_broker_that_closes_or_is_silent_gets_the_fallback_at_the_next_connection(status: int):
    cluster = Cluster(fallback=TEN_MINUTES)
    replies = cluster.call(timeout_s=1000.0)
    ask(cluster, status)
    assert cluster.engine.connects == [0, 0]  # once more, at once
    assert (cluster.errors, replies) == ([], [])
    cluster.pool.on_connected(event(generation=2))
    assert cluster.engine.opened == [(0, 2, 1, 1)]
    [sent] = cluster.engine.submitted
    assert (sent.api_key, sent.version) == (ApiKey.METADATA, 0)
    cluster.answer(cluster.metadata_reply("t", [], topic_id=bytes(16)))
    assert [broker.node_id for broker in replies[0].brokers] == [1, 2]  # type: ignore[attr-defined]


def test_versions_are_requested_again_when_the_fallback_expires():
    cluster = Cluster(fallback=TEN_MINUTES)
    cluster.call(timeout_s=1000.0)
    ask(cluster, STATUS_TRANSPORT)
    cluster.clock.now += 599.0
    cluster.pool.on_connected(event(generation=2))
    assert len(cluster.engine.opened) == 1
    cluster.pool.on_disconnected(event())
    cluster.clock.now += 1.0
    cluster.engine.submitted.clear()
    cluster.bring_up(0)  # the answer of a broker that was upgraded meanwhile
    assert cluster.engine.opened[1:] == [(0, 1, 13, 18)]


def test_broker_that_once_returned_its_versions_never_gets_the_fallback():
    cluster = Cluster(fallback=TEN_MINUTES)
    cluster.bring_up(0)
    cluster.lose("boot0:9092: it was stopped")
    ask(cluster, STATUS_TRANSPORT)  # it is shutting down, or a proxy before it is
    assert [error.code() for error in cluster.errors] == [
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
    ]
    cluster.bring_up(0)
    assert cluster.engine.opened == [(0, 1, 13, 18)] * 2


def test_failed_connect_causes_no_fallback():
    cluster = Cluster(fallback=TEN_MINUTES)
    cluster.call(timeout_s=1000.0)
    cluster.lose("boot0:9092: refused")
    assert cluster.errors[0].code() == KafkaError._TRANSPORT
    cluster.pool.on_connected(event())
    assert cluster.engine.submitted.pop().api_key == ApiKey.API_VERSIONS


def test_failures_after_the_fallback_are_reported():
    cluster = Cluster(fallback=TEN_MINUTES)
    cluster.call(timeout_s=1000.0)
    ask(cluster, STATUS_TRANSPORT)
    cluster.pool.on_disconnected(
        event(status=STATUS_TRANSPORT, attempts=2, text="boot0:9092: refused")
    )
    assert [error.code() for error in cluster.errors] == [
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
    ]


@pytest.mark.parametrize("fallback", [Fallback(), Fallback.of("0.9.0", ask=True, for_s=0.0)])
def test_without_a_fallback_the_error_says_what_may_be_wrong(fallback: Fallback):
    cluster = Cluster(fallback=fallback)
    cluster.call(timeout_s=1000.0)
    ask(cluster, STATUS_TRANSPORT)
    assert "broker.version.fallback" in cluster.errors[0].str()
    cluster.pool.on_connected(event(generation=2))
    assert cluster.engine.submitted.pop().api_key == ApiKey.API_VERSIONS
    assert cluster.engine.opened == []


def test_no_broker_is_asked_for_versions_if_that_is_turned_off():
    cluster = Cluster(fallback=NEVER_ASK)
    cluster.call(MetadataRequest(topics=None), timeout_s=1000.0)
    cluster.pool.on_connected(event())
    assert cluster.engine.opened == [(0, 1, 0, 0)]
    [sent] = cluster.engine.submitted
    assert (sent.version, sent.body) == (0, b"\0\0\0\0")  # an empty list: all topics


def test_newer_fallback_versions_do_not_turn_off_the_request():
    for version in ("0.10.0", "0.10.2.1", "0.11.0", "1.0", "4.3.1"):
        assert Fallback.of(version, ask=False, for_s=600.0) == Fallback()


@pytest.mark.parametrize(
    ("version", "release"),
    [
        ("0.9.0.1", "0.9.0"),
        ("0.9", "0.9.0"),
        ("0.8.2.2", "0.8.2"),
        ("0.8.1", "0.8.1"),
        ("0.8", "0.8.0"),
    ],
)
def test_versions_of_old_releases_are_known(version: str, release: str):
    assert releases.fixed_ranges(version) == releases.RELEASES[release]


def test_releases_before_0_8_are_refused():
    with pytest.raises(ValueError, match=r"0\.7\.2"):
        releases.fixed_ranges("0.7.2")


@pytest.mark.parametrize(
    ("message", "version"),
    [
        (MetadataRequest(topics=None, allow_auto_topic_creation=False), 0),
        (MetadataRequest(topics=None, allow_auto_topic_creation=False), 3),
        (ListOffsetsRequest(replica_id=-1, isolation_level=1), 0),
        (ListOffsetsRequest(replica_id=-1, isolation_level=1), 1),
    ],
)
def test_fields_that_an_old_version_lacks_are_left_out_for_that_broker_alone(
    message: Request, version: int
):
    before = message.encode(message.max_version)
    assert message.for_version(version).encode(version)
    assert message.encode(message.max_version) == before
    assert message.for_version(message.max_version) is message


@pytest.mark.parametrize("version", range(LeaveGroupRequest.max_version + 1))
def test_leaving_names_the_member_where_this_version_looks_for_it(version: int) -> None:
    message = LeaveGroupRequest(
        group_id="g", member_id="m", members=[LeaveGroupRequest.Member(member_id="m")]
    )
    sent = LeaveGroupRequest.decode(message.for_version(version).encode(version), version)
    assert (sent.member_id, [each.member_id for each in sent.members]) == (
        ("", ["m"]) if version >= 3 else ("m", [])
    )
