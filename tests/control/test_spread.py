"""connections.per.broker: which data connection serves a partition."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest

from kafka_native.control.brokers.spread import Spread

from .fakes import Cluster


def test_each_topic_and_each_node_is_spread_evenly():
    spread = Spread(4)
    # node 1 leads every third partition, as in a cluster of three brokers
    chosen = {
        (topic, partition): spread.choose(1, topic, partition)
        for topic, partition in product("abc", range(0, 30, 3))
    }
    for topic in "abc":
        loads = Counter(number for (name, _), number in chosen.items() if name == topic)
        assert sorted(loads.values()) == [2, 2, 3, 3]
    assert sorted(Counter(chosen.values()).values()) == [7, 7, 8, 8]
    assert [spread.choose(1, *key) for key in chosen] == list(chosen.values()), "each keeps its own"
    assert spread.choose(2, "a", 0) == 0


def test_topics_of_one_partition_are_spread_too():
    spread = Spread(3)
    assert [spread.choose(1, f"t{number}", 0) for number in range(6)] == [0, 1, 2, 0, 1, 2]


class SpreadCluster(Cluster):
    """Node 7 has three data connections, each with a partition."""

    def __init__(self) -> None:
        super().__init__(data_connections=3)
        self.pool.update(7, "b7", 9092, None)
        self.handles = self.partition_handles()

    def partition_handles(self) -> list[int]:
        return [self.pool.data_handle(7, "t", partition) for partition in range(3)]


def test_partitions_keep_their_connections():
    cluster = SpreadCluster()
    assert cluster.handles == [1, 2, 3]
    assert cluster.partition_handles() == cluster.handles
    assert [broker.name for broker in cluster.pool.brokers()][1:] == [
        "b7:9092/7",
        "b7:9092/data 2 of 7",
        "b7:9092/data 3 of 7",
    ]
    assert cluster.pool.data_handle(8, "t", 0) == -1


def test_data_connection_has_a_handshake_of_its_own_and_gets_no_other_calls():
    cluster = SpreadCluster()
    for handle in cluster.handles:
        cluster.bring_up(handle)
    assert [opened[0] for opened in cluster.engine.opened] == cluster.handles
    cluster.call()
    cluster.call(target=7)
    assert {sent.handle for sent in cluster.engine.submitted} == {4}, "a control connection"


def test_all_data_connections_are_in_their_nodes_rack():
    cluster = Cluster(data_connections=2, client_rack="here")
    cluster.pool.update(7, "b7", 9092, "here")
    handles = [cluster.pool.data_handle(7, "t", partition) for partition in range(2)]
    assert len(set(handles)) == 2
    assert [cluster.engine.in_client_rack[handle] for handle in handles] == [True, True]
    cluster.pool.update(7, "b7", 9092, "there")
    assert [cluster.engine.in_client_rack[handle] for handle in handles] == [False, False]


def test_data_connections_move_with_their_node():
    cluster = SpreadCluster()
    assert cluster.pool.update(7, "new", 9093, None)
    assert sorted(cluster.engine.stopped) == cluster.handles
    moved = cluster.partition_handles()
    assert not set(moved) & set(cluster.handles)
    assert {cluster.engine.brokers[handle] for handle in moved} == {(7, "new", 9093)}


def test_data_connections_end_with_their_node():
    cluster = SpreadCluster()
    cluster.pool.remove_missing({8})
    assert sorted(cluster.engine.stopped) == cluster.handles
    assert cluster.partition_handles() == [-1, -1, -1]


def test_broken_data_connection_alone_is_no_outage():
    cluster = SpreadCluster()
    cluster.bring_up(1)
    cluster.lose("cut", broker=2)
    assert not cluster.pool.all_down()
    assert not cluster.pool.rebootstrapping


def test_without_memory_the_nodes_own_connection_serves_the_partition(
    monkeypatch: pytest.MonkeyPatch,
):
    cluster = Cluster(data_connections=3)
    cluster.pool.update(7, "b7", 9092, None)

    def refuse(*_: object) -> int:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(cluster.engine, "broker_add", refuse)
        assert [cluster.pool.data_handle(7, "t", number) for number in range(3)] == [1, 1, 1]
    assert [cluster.pool.data_handle(7, "t", number) for number in range(3)] == [1, 2, 3]
