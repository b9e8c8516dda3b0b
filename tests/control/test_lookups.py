"""A look-up without an answer goes to another broker too: frozen brokers keep their connections."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_native.control.brokers.lookups import ANSWER_S
from kafka_native.control.producer.produce_router import ProduceRouter
from kafka_native.control.requests import Call
from kafka_native.errors import STATUS_TRANSPORT, KafkaError
from kafka_native.protocol.metadata import MetadataRequest
from kafka_native.protocol.offsets import ListOffsetsRequest

from .fakes import Cluster, event


def known(*up: int) -> Cluster:
    """Return a cluster whose metadata name the nodes 1 and 2. Those in ``up`` are connected."""
    cluster = Cluster()
    for node_id in (1, 2):
        cluster.pool.update(node_id, f"b{node_id}", 9092, None)
    for node_id in up:
        cluster.bring_up(cluster.handle_of(node_id))
    cluster.engine.submitted.clear()
    cluster.engine.connects.clear()
    return cluster


def wait(cluster: Cluster, seconds: float = ANSWER_S) -> float:
    """Let time pass, and return when the pool wants its next turn."""
    cluster.clock.now += seconds
    _, wake_up = cluster.pool.poll(cluster.clock.now)
    return wake_up


def sent(cluster: Cluster) -> list[Any]:
    """Return the requests since the last call."""
    requests = cluster.engine.submitted[:]
    cluster.engine.submitted.clear()
    return requests


def answer(cluster: Cluster, request: Any, **fields: Any) -> None:
    body = cluster.metadata_reply("t", []).encode(request.version)
    cluster.pool.on_reply(event(token=request.token, **({"body": body} | fields)))


def test_first_answer_counts():
    cluster = known(1, 2)
    replies = cluster.call()
    [first] = sent(cluster)
    assert wait(cluster, ANSWER_S / 2) == pytest.approx(cluster.clock.now + ANSWER_S / 2)
    assert sent(cluster) == []
    wait(cluster, ANSWER_S / 2)
    [second] = sent(cluster)
    assert {cluster.node_of(first), cluster.node_of(second)} == {1, 2}
    answer(cluster, second)
    answer(cluster, first)
    assert len(replies) == 1
    assert not isinstance(replies[0], KafkaError)


def test_failure_counts_only_if_no_other_broker_may_answer():
    cluster = known(1, 2)
    replies = cluster.call()
    wait(cluster)
    first, second = sent(cluster)
    answer(cluster, first, status=STATUS_TRANSPORT, body=None)
    assert replies == []
    answer(cluster, second, status=STATUS_TRANSPORT, body=None)
    [error] = replies
    assert error.code() == KafkaError._TRANSPORT


def test_next_lookups_avoid_a_broker_without_an_answer():
    cluster = known(1, 2)
    cluster.call()
    wait(cluster)
    slow, good = (cluster.node_of(each) for each in sent(cluster))
    for _ in range(3):
        cluster.call()
    assert [cluster.node_of(each) for each in sent(cluster)] == [good] * 3
    assert slow != good


def test_another_broker_is_connected_first():
    cluster = known(1)
    replies = cluster.call()
    [first] = sent(cluster)
    assert wait(cluster) > cluster.clock.now
    assert cluster.engine.connects == [cluster.handle_of(2)]
    cluster.bring_up(cluster.handle_of(2))
    wait(cluster, 0)
    [second] = sent(cluster)
    assert cluster.node_of(second) == 2
    answer(cluster, second)
    assert len(replies) == 1
    assert cluster.node_of(first) == 1


def test_a_leader_that_may_be_cut_off_is_not_asked_for_the_new_one():
    cluster = known(1)
    router = ProduceRouter(cluster.engine, cluster.metadata, cluster.pool)  # type: ignore[arg-type]
    cluster.metadata.want("t", cluster.clock.now)
    cluster.go()
    cluster.answer_metadata((1, 5))
    cluster.engine.topic("t")
    code = KafkaError.REQUEST_TIMED_OUT
    router.on_partition_error(
        event(broker=cluster.handle_of(1), token=1, error_code=code), cluster.clock.now
    )
    cluster.go()
    assert sent(cluster) == []
    assert cluster.engine.connects == [cluster.handle_of(2)]
    cluster.bring_up(cluster.handle_of(2))
    [request] = sent(cluster)
    assert cluster.node_of(request) == 2


def test_a_throttled_broker_is_asked_once_its_throttle_time_is_over():
    cluster = known(1, 2)
    cluster.call()
    [first] = sent(cluster)
    other = cluster.pool.nodes[3 - cluster.node_of(first)]
    other.held_until = cluster.clock.now + 3 * ANSWER_S
    for _ in range(2):
        wait(cluster)
        assert sent(cluster) == []
    wait(cluster)
    [second] = sent(cluster)
    assert cluster.node_of(second) == other.node_id


def test_each_broker_is_asked_once():
    cluster = known(1, 2)
    cluster.call()
    for _ in range(5):
        wait(cluster, 60.0)
    assert len(sent(cluster)) == 2


def test_requests_for_one_broker_and_other_requests_go_out_once():
    cluster = known(1, 2)
    deadline = cluster.clock.now + 60
    cluster.pool.send(Call(MetadataRequest(topics=[]), 1, deadline, lambda reply: None))
    cluster.pool.send(Call(ListOffsetsRequest(), None, deadline, lambda reply: None))
    assert len(sent(cluster)) == 2
    wait(cluster)
    assert sent(cluster) == []


def test_a_closed_pool_asks_nobody():
    cluster = known(1, 2)
    replies = cluster.call()
    sent(cluster)
    cluster.pool.fail_all(KafkaError(KafkaError._DESTROY))
    wait(cluster)
    assert sent(cluster) == []
    assert len(replies) == 1
