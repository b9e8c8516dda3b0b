"""Coordinator look-ups: on demand, again after errors, and on a separate connection."""

from __future__ import annotations

import pytest

from kafka_native.control.brokers.coordinator import Coordinator
from kafka_native.control.brokers.pool import COORDINATORS
from kafka_native.control.errors import COORDINATOR_LOST_ERRORS
from kafka_native.control.requests import Backoff, Call
from kafka_native.errors import STATUS_STALE, KafkaError
from kafka_native.protocol.coordinator import FindCoordinatorResponse
from kafka_native.protocol.groups import HeartbeatRequest, HeartbeatResponse

from .fakes import Cluster, api_versions, event


class CoordinatorCluster:
    """A coordinator on a pool whose bootstrap broker is up."""

    def __init__(self, offer: dict[int, tuple[int, int]] | None = None) -> None:
        self.cluster = Cluster()
        self.coordinator = Coordinator(
            self.cluster.pool,
            "g",
            timeout_s=10,
            query_interval_s=600,
            backoff=Backoff(0.1, 1.0, lambda low, high: 1.0),
            clock=self.cluster.clock,
        )
        self.found: list[int | None] = []
        self.refusals: list[KafkaError] = []
        self.coordinator.on_found.append(lambda: self.found.append(self.coordinator.target))
        self.coordinator.on_refused.append(self.refusals.append)
        self.cluster.bring_up(0, None if offer is None else api_versions(offer))

    def ask(self) -> Call | None:
        """Return the request that is due now, if any."""
        calls, _ = self.coordinator.poll(self.cluster.clock.now)
        return calls[0] if calls else None

    def answer(self, node: int = 7, code: int = 0) -> None:
        call = self.ask()
        assert call is not None
        one = FindCoordinatorResponse.Coordinator(
            key="g", node_id=node, host="c", port=9, error_code=code
        )
        call.on_reply(FindCoordinatorResponse(coordinators=[one]))


@pytest.mark.parametrize("version", [0, 3, 4, 6])
def test_every_version_asks_for_the_key_and_finds_the_node(version: int) -> None:
    rig = CoordinatorCluster({10: (0, version)})
    assert rig.ask() is None, "no manager needs it yet"
    assert rig.coordinator.want(0.0) is None
    call = rig.ask()
    assert call is not None
    rig.cluster.pool.send(call)
    one = {"node_id": 7, "host": "c", "port": 9}
    reply = FindCoordinatorResponse(**one)
    if version >= 4:
        reply = FindCoordinatorResponse(
            coordinators=[FindCoordinatorResponse.Coordinator(key="g", **one)]
        )
    assert rig.cluster.engine.submitted[-1].version == version
    rig.cluster.answer(reply)
    assert rig.found == [COORDINATORS + 7]
    assert rig.cluster.engine.brokers[-1] == (7, "c", 9)


def test_errors_are_retried_with_back_off_and_a_refusal_is_reported_once() -> None:
    rig = CoordinatorCluster()
    rig.coordinator.want(0.0)
    for code in (KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.GROUP_AUTHORIZATION_FAILED, 30):
        rig.answer(code=code)
        assert rig.ask() is None
        rig.cluster.clock.now += 1.0
    assert [error.code() for error in rig.refusals] == [KafkaError.GROUP_AUTHORIZATION_FAILED]
    rig.answer()
    assert rig.coordinator.refused is None
    assert rig.found == [COORDINATORS + 7]


def test_lost_coordinator_is_looked_for_at_once_and_then_with_back_off() -> None:
    rig = CoordinatorCluster()
    rig.coordinator.want(0.0)
    rig.answer()
    assert rig.coordinator.note(KafkaError(KafkaError.NOT_COORDINATOR))
    assert rig.coordinator.target is None
    rig.answer()  # the same broker again
    assert rig.coordinator.note(KafkaError(KafkaError._TRANSPORT))
    assert rig.ask() is None, "no hot loop with a broker that names itself and refuses"
    rig.cluster.clock.now += 0.2
    rig.answer(node=8)
    assert rig.found == [COORDINATORS + 7, COORDINATORS + 7, COORDINATORS + 8]
    assert not rig.coordinator.note(KafkaError(KafkaError.UNKNOWN_MEMBER_ID))
    assert rig.coordinator.note(KafkaError(KafkaError.COORDINATOR_LOAD_IN_PROGRESS))
    assert rig.coordinator.target == COORDINATORS + 8, "it is the right one"


@pytest.mark.parametrize("outage_s", [0.5, 3.0, 9.0])
def test_a_new_coordinator_is_found_a_tenth_of_the_outage_after_its_election(
    outage_s: float,
) -> None:
    rig = CoordinatorCluster()
    clock = rig.cluster.clock
    rig.coordinator.want(clock.now)
    rig.answer()
    began, looked = clock.now, 0
    while clock.now - began < outage_s:
        rig.coordinator.note(KafkaError(KafkaError._TRANSPORT))
        clock.now = max(clock.now, rig.coordinator.due)
        rig.answer(node=7 if clock.now - began < outage_s else 8)
        looked += 1
    assert rig.coordinator.target == COORDINATORS + 8
    assert clock.now - began <= outage_s * 1.1 + 0.11
    assert looked < 35, "brokers in an outage have enough to do"


def test_delays_of_a_failover_reach_their_limit_from_the_shortest_first_one() -> None:
    backoff = Backoff(0.001, 300.0, lambda low, high: 1.0).for_failover()
    delays = [backoff.next_s() for _ in range(2000)]
    assert delays == sorted(delays)
    assert delays[-1] == 300.0


def test_another_coordinator_is_found_by_asking_from_time_to_time() -> None:
    rig = CoordinatorCluster()
    rig.coordinator.want(0.0)
    rig.answer()
    rig.cluster.clock.now += 599
    assert rig.ask() is None
    rig.cluster.clock.now += 2
    rig.answer(node=8)
    assert rig.found == [COORDINATORS + 7, COORDINATORS + 8]


def test_calls_that_any_broker_may_answer_stay_off_the_connection_to_the_coordinator() -> None:
    cluster = Cluster()
    replies: list[object] = []
    target = cluster.pool.coordinator(7, "c", 9)
    cluster.call(HeartbeatRequest(group_id="g"), target, timeout_s=1000.0, replies=replies)
    cluster.call(HeartbeatRequest(group_id="any"), timeout_s=1000.0, replies=replies)
    cluster.bring_up(1)
    assert [sent.handle for sent in cluster.engine.submitted] == [1]
    cluster.bring_up(0)
    assert [sent.handle for sent in cluster.engine.submitted] == [1, 0]


def test_heartbeat_on_a_closed_connection_is_a_lost_connection() -> None:
    cluster = Cluster()
    target = cluster.pool.coordinator(7, "c", 9)
    replies: list[object] = []
    cluster.bring_up(1)
    cluster.pool.heartbeat(target, HeartbeatRequest(group_id="g"), 3.0, 10.0, replies.append)
    cluster.pool.on_reply(
        event(broker=1, token=cluster.engine.heartbeats[-1].token, status=STATUS_STALE)
    )
    [error] = replies
    assert isinstance(error, KafkaError)
    assert error.code() in COORDINATOR_LOST_ERRORS, (
        "the coordinator is looked up, and no error reaches the application"
    )


def test_heartbeat_reports_new_results_until_it_fails_or_is_stopped() -> None:
    cluster = Cluster()
    target = cluster.pool.coordinator(7, "c", 9)
    replies: list[object] = []
    cluster.pool.heartbeat(target, HeartbeatRequest(group_id="g"), 3.0, 10.0, replies.append)
    assert [type(reply) for reply in replies] == [KafkaError], "there is no connection"
    cluster.bring_up(1)
    cluster.pool.heartbeat(target, HeartbeatRequest(group_id="g"), 3.0, 10.0, replies.append)
    [heartbeat] = cluster.engine.heartbeats
    assert (heartbeat.handle, heartbeat.interval_ms, heartbeat.timeout_ms) == (1, 3000, 10_000)
    for code in (0, KafkaError.REBALANCE_IN_PROGRESS):
        body = HeartbeatResponse(error_code=code).encode(heartbeat.version)
        cluster.pool.on_reply(event(broker=1, token=heartbeat.token, body=body))
        assert isinstance(replies[-1], HeartbeatResponse)
        assert replies[-1].error_code == code
    cluster.pool.on_reply(event(broker=1, token=heartbeat.token, status=-10))
    assert isinstance(replies[-1], KafkaError)
    count = len(replies)
    cluster.pool.on_reply(event(broker=1, token=heartbeat.token, status=-10))
    cluster.pool.heartbeat(target, HeartbeatRequest(group_id="g"), 3.0, 10.0, replies.append)
    cluster.pool.stop_heartbeat(target)
    body = HeartbeatResponse().encode(heartbeat.version)
    cluster.pool.on_reply(event(broker=1, token=cluster.engine.heartbeats[-1].token, body=body))
    assert len(replies) == count, "it ended, and after that it was stopped"
    assert cluster.engine.heartbeats_stopped == [1]
