"""The broker pool and the metadata of a role, on a fake engine: what they leave to their host."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_native.control.brokers.pool import PoolSettings
from kafka_native.control.brokers.role_pool import NO_HANDLE, RolePool
from kafka_native.control.brokers.versions import ApiRanges
from kafka_native.control.metadata import Metadata
from kafka_native.control.requests import Call
from kafka_native.errors import KafkaError
from kafka_native.protocol.fetch import FetchRequest
from kafka_native.protocol.metadata import MetadataRequest

from .fakes import Cluster, FakeEngine, event


class Role:
    """A role of a cluster's client, with an engine of its own."""

    def __init__(self, host: Cluster) -> None:
        self.host = host
        self.engine = FakeEngine()
        self.errors: list[KafkaError] = []
        self.changes = 0
        self.pool = RolePool(
            self.engine,  # type: ignore[arg-type]
            host.pool,
            PoolSettings(client_version="1.0", handshake_timeout_s=10.0),
            on_error=lambda error, level: self.errors.append(error),
            clock=host.clock,
        )
        self.pool.on_change = self._change
        self.metadata = Metadata(
            self.pool,
            refresh_s=300,
            fast_s=0.1,
            fast_max_s=1.0,
            propagation_s=30,
            timeout_s=60,
            clock=host.clock,
            host=host.metadata,
        )
        self.pool.attach()
        self.metadata.attach()

    def _change(self) -> None:
        self.changes += 1

    def call(self, message: Any, target: int | None = None, **how: Any) -> list[Any]:
        """Send a call, and return the list that gets its reply."""
        replies: list[Any] = []
        self.pool.send(Call(message, target, self.host.clock.now + 60, replies.append, **how))
        return replies


def cluster() -> Cluster:
    """Return a client that knows the nodes of its cluster."""
    host = Cluster()
    host.metadata.want("t", host.clock.now)
    host.go()
    host.bring_up(0)
    host.answer_metadata((1, 0))
    return host


def test_a_role_knows_the_nodes_without_a_thread_for_each() -> None:
    host = cluster()
    role = Role(host)
    assert role.pool.nodes.keys() == host.pool.nodes.keys()
    assert role.engine.brokers == []
    assert role.pool.nodes[1].handle == NO_HANDLE
    assert role.pool.data_handle(1, "t", 0) == 0
    assert [node for node, _, _ in role.engine.brokers] == [1]
    assert role.pool.data_handle(1, "t", 0) == 0
    assert role.pool.data_handle(9, "t", 0) == NO_HANDLE


def test_calls_go_through_the_host() -> None:
    host = cluster()
    role = Role(host)
    replies = role.call(MetadataRequest(topics=[]))
    assert role.engine.submitted == []
    assert role.changes == 0
    host.answer_metadata(name="other")
    assert len(replies) == 1
    assert role.changes == 1


def test_the_host_asks_another_broker_than_the_one_that_a_role_avoids() -> None:
    host = cluster()
    host.pool.on_disconnected(event(broker=0, peer_closed=1))  # a host keeps no bootstrap server
    role = Role(host)
    role.pool.data_handle(1, "t", 0)
    role.pool.nodes[1].ranges = ApiRanges({})  # it is connected
    role.pool.avoid(1)
    host.engine.connects.clear()
    role.call(MetadataRequest(topics=[]))
    assert host.engine.connects == [host.handle_of(2)]


def test_data_and_coordinators_have_connections_of_the_role() -> None:
    role = Role(cluster())
    role.call(FetchRequest(), 2, is_data=True)
    target = role.pool.coordinator(3, "node3", 9092)
    role.call(MetadataRequest(topics=[]), target)
    assert role.engine.connects == [0, 1]
    assert [node for node, _, _ in role.engine.brokers] == [2, 3]


def test_the_end_of_a_role_fails_its_calls_at_the_host_once() -> None:
    host = cluster()
    role = Role(host)
    assert role.pool in host.pool.roles
    replies = role.call(MetadataRequest(topics=[]))
    role.pool.fail_all(KafkaError(KafkaError._DESTROY))
    role.pool.detach()
    assert [each.code() for each in replies] == [KafkaError._DESTROY]
    host.answer_metadata(name="other")
    assert len(replies) == 1
    assert role.pool not in host.pool.roles


def test_a_failing_connection_of_one_role_is_no_rebootstrap() -> None:
    host = cluster()
    role = Role(host)
    for node in role.pool.nodes:
        handle = role.pool.data_handle(node, "t", 0)
        role.pool.on_disconnected(event(broker=handle, status=-8, attempts=1, text="reset"))
    assert role.errors
    assert not host.pool.rebootstrapping


def test_a_rebootstrap_of_the_host_closes_the_connections_of_its_roles() -> None:
    host = cluster()
    role = Role(host)
    handle = role.pool.data_handle(1, "t", 0)
    role.pool.on_connected(event(broker=handle))
    role.metadata.want("t", host.clock.now)
    role.pool.rebootstrap()
    assert host.pool.rebootstrapping
    assert role.pool.rebootstrapping
    assert [closed for closed, _, _ in role.engine.closed] == [handle]
    assert role.changes > 0


def test_the_host_asks_for_the_topics_of_its_roles_and_passes_the_reply_on() -> None:
    host = cluster()
    first, second = Role(host), Role(host)
    first.metadata.want("t", host.clock.now)
    second.metadata.want("t", host.clock.now)
    host.go()
    assert len(host.engine.submitted) == 1
    host.answer_metadata((2, 5))
    for role in (first, second):
        assert role.metadata.poll(host.clock.now)[0] == []
        leader = role.metadata.leader("t", 0)
        assert leader is not None
        assert (leader.leader, leader.epoch) == (2, 5)


def test_a_defect_of_one_role_keeps_no_reply_from_the_others() -> None:
    host = cluster()
    first, second = Role(host), Role(host)

    def fail(topic: object) -> None:
        raise ValueError

    first.metadata.on_topic.append(fail)
    first.metadata.want("t", host.clock.now)
    second.metadata.want("t", host.clock.now)
    host.go()
    host.answer_metadata((3, 1))
    assert second.metadata.topics["t"].known
    host.metadata.refresh(host.clock.now)
    host.wait(1)
    assert len(host.engine.submitted) == 1, "no request counts as in flight any more"


def test_a_role_that_has_left_gets_no_metadata() -> None:
    host = cluster()
    role = Role(host)
    role.metadata.want("t", host.clock.now)
    role.metadata.detach()
    host.metadata.refresh(host.clock.now)
    host.wait(1)
    host.answer_metadata((2, 7))
    assert not role.metadata.topics["t"].known
    role.metadata.refresh(host.clock.now)
    host.go()
    assert host.engine.submitted == []


def test_without_memory_for_a_connection_the_node_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = cluster()
    role = Role(host)
    lost: list[int] = []
    role.pool.on_node_lost = lambda: lost.append(1)

    def fail(*_: object) -> int:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(role.engine, "broker_add", fail)
        assert role.pool.data_handle(1, "t", 0) == NO_HANDLE
    assert lost == [1]
    role.pool.update(1, "node1", 9092, None)
    assert role.pool.data_handle(1, "t", 0) == 0
