"""Without memory the engine refuses a call. The control plane repeats it, and no caller hangs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafka_native._native.enums import STATUS_NOMEM
from kafka_native.control.producer.produce_router import ProduceRouter
from kafka_native.control.producer.transactions import State
from kafka_native.control.requests import NO_MEMORY_S
from kafka_native.errors import KafkaError
from kafka_native.protocol.groups import HeartbeatRequest

from .fakes import TOPIC_ID, Cluster, event
from .test_coordinator import CoordinatorCluster
from .test_fetches import ConsumerCluster
from .test_transactions import World


def fail_once(owner: Any, name: str) -> None:
    """The next call raises MemoryError. The later ones work."""
    works: Callable[..., Any] = getattr(owner, name)

    def fails(*arguments: Any, **how: Any) -> None:
        setattr(owner, name, works)
        raise MemoryError

    setattr(owner, name, fails)


def test_partitions_are_set_again():
    cluster = Cluster()
    router = ProduceRouter(cluster.engine, cluster.metadata, cluster.pool)  # type: ignore[arg-type]
    cluster.bring_up(0)
    topic = cluster.engine.topic("t")
    answers: list[Any] = []
    router.ask("t", cluster.clock.now + 60, answers.append, cluster.clock.now)
    cluster.turn(router)
    fail_once(topic, "set_partitions")
    cluster.answer(cluster.metadata_reply("t", [(1, 5)]))
    assert (topic.partitions, answers) == (None, [])
    cluster.turn(router)
    assert topic.partitions == (TOPIC_ID, [cluster.handle_of(1)], [5])
    assert answers == [1]


def test_partitions_are_not_set_for_a_topic_that_failed_meanwhile():
    cluster = Cluster()
    router = ProduceRouter(cluster.engine, cluster.metadata, cluster.pool)  # type: ignore[arg-type]
    cluster.bring_up(0)
    topic = cluster.engine.topic("t")
    router.on_topic_wanted(event(token=1), cluster.clock.now)
    cluster.turn(router)
    fail_once(topic, "set_partitions")
    cluster.answer(cluster.metadata_reply("t", [(1, 5)]))
    router._on_failure(
        cluster.metadata.topics["t"], KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    )
    cluster.turn(router)
    assert topic.partitions is None


def test_call_that_could_not_be_sent_is_sent_later():
    cluster = Cluster()
    cluster.bring_up(0)
    fail_once(cluster.engine, "submit")
    replies = cluster.call()
    _, at = cluster.pool.poll(cluster.clock.now)
    assert cluster.engine.submitted == []
    assert at == cluster.clock.now + NO_MEMORY_S
    cluster.clock.now = at
    cluster.pool.poll(at)
    cluster.answer(cluster.metadata_reply("t", []))
    assert len(replies) == 1


def test_call_that_could_not_be_sent_ends_at_its_deadline():
    cluster = Cluster()
    cluster.bring_up(0)
    fail_once(cluster.engine, "submit")
    replies = cluster.call(timeout_s=0.01)
    cluster.clock.now += 0.01
    cluster.pool.poll(cluster.clock.now)
    assert [reply.code() for reply in replies] == [KafkaError._TRANSPORT]


def test_connection_whose_handshake_could_not_be_sent_is_closed():
    cluster = Cluster()
    fail_once(cluster.engine, "submit")
    cluster.pool.on_connected(event(broker=0))
    assert cluster.engine.closed == [(0, 1, STATUS_NOMEM)]


@pytest.mark.parametrize("ends", ["connection", "request"])
def test_lack_of_memory_counts_as_a_failed_connection(ends: str):
    """So code that retries after a failed connection does so here."""
    cluster = Cluster()
    cluster.bring_up(0)
    target = None
    if ends == "connection":
        cluster.pool.update(1, "b1", 9092, None)
        target = 1
    replies = cluster.call(target=target)
    if ends == "connection":
        cluster.pool.on_disconnected(
            event(broker=cluster.handle_of(1), status=STATUS_NOMEM, attempts=1)
        )
    else:
        token = cluster.engine.submitted[0].token
        cluster.pool.on_reply(event(token=token, status=STATUS_NOMEM))
    assert [reply.code() for reply in replies] == [KafkaError._TRANSPORT]


def test_heartbeat_that_could_not_begin_is_reported():
    cluster = Cluster()
    cluster.pool.update(1, "b1", 9092, None)
    handle = cluster.handle_of(1)
    cluster.bring_up(handle)
    replies: list[Any] = []
    fail_once(cluster.engine, "heartbeat")
    cluster.pool.heartbeat(1, HeartbeatRequest(), 3.0, 9.0, replies.append)
    assert [reply.code() for reply in replies] == [KafkaError._TRANSPORT]
    cluster.pool.stop_heartbeat(1)  # there is none, and none is expected


def test_node_is_requested_again_after_a_lack_of_memory():
    cluster = Cluster()
    router = ProduceRouter(cluster.engine, cluster.metadata, cluster.pool)  # type: ignore[arg-type]
    cluster.bring_up(0)
    topic = cluster.engine.topic("t")
    router.on_topic_wanted(event(token=1), cluster.clock.now)
    cluster.turn(router)
    fail_once(cluster.engine, "broker_add")
    cluster.answer(cluster.metadata_reply("t", [(1, 5)]))
    assert topic.partitions == (TOPIC_ID, [-1], [5])
    cluster.clock.now += 1
    cluster.turn(router)
    cluster.answer(cluster.metadata_reply("t", [(1, 5)]))
    assert topic.partitions == (TOPIC_ID, [cluster.handle_of(1)], [5])


def test_coordinator_is_requested_again_after_a_lack_of_memory():
    rig = CoordinatorCluster()
    rig.coordinator.want(rig.cluster.clock.now)
    fail_once(rig.cluster.engine, "broker_add")
    rig.answer()
    assert rig.found == []
    rig.cluster.clock.now += 1
    rig.answer()
    assert len(rig.found) == 1


def test_partition_is_fetched_later_after_a_lack_of_memory():
    cluster = ConsumerCluster()
    fail_once(cluster.engine, "cursor")
    cluster.assign(("t", 0, 42))
    assert cluster.engine.cursors == []
    cluster.wait(1)
    [cursor] = cluster.engine.cursors
    assert cursor is not None
    assert cursor.log == [("start", cluster.handle_of(1), 42, 5)]


def test_transaction_that_could_not_begin_has_not_begun():
    world = World().ready()
    fail_once(world, "transaction_begin")
    with pytest.raises(MemoryError):
        world.manager.begin()
    assert world.manager.state is State.READY
    assert world.manager.begin() is None
    assert world.log[-1] == ("begin", 1)
