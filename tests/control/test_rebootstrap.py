"""A new start from the bootstrap servers (KIP-899, KIP-1102): its triggers, and the data that the
client forgets.
"""

from __future__ import annotations

from typing import Any

from kafka_native.errors import KafkaError
from kafka_native.protocol.metadata import MetadataResponse

from .fakes import Cluster, event
from .test_metadata import ProducerCluster

CONTROL = 3  # the control connection that a metadata request opens
BOOT = 0  # the bootstrap server's handle; those of brokers 1 and 2 are 1 and 2


class KnownTopicCluster(ProducerCluster):
    """A producer that knows a topic. Broker 1 leads partition 0, broker 2 leads partition 1."""

    def __init__(self, **how: Any) -> None:
        super().__init__((1, 5), (2, 6), **how)
        for handle in (1, 2):
            self.bring_up(handle)
        self.pool.poll(self.clock.now)
        assert self.engine.closed == [(BOOT, 1, 0)]  # not needed any more
        self.pool.on_disconnected(event(broker=BOOT))
        self.engine.closed.clear()


def lose(cluster: Cluster, *handles: int) -> None:
    for handle in handles:
        cluster.lose("b:9092: refused", broker=handle)
        cluster.metadata.on_broker_down(cluster.clock.now)


def leaders(cluster: Cluster) -> list[int]:
    partitions = cluster.engine.topic("t").partitions
    assert partitions is not None
    return partitions[1]


def test_a_remaining_broker_is_asked_and_nothing_is_forgotten() -> None:
    cluster = KnownTopicCluster()
    lose(cluster, 1)
    cluster.go()
    assert not cluster.pool.rebootstrapping
    assert leaders(cluster) == [1, 2]
    assert [cluster.node_of(sent) for sent in cluster.engine.submitted] == [2]


def test_last_broker_lost_forgets_leaders_and_asks_the_bootstrap_server_alone() -> None:
    cluster = KnownTopicCluster()
    cluster.engine.connects.clear()
    lose(cluster, 1, 2)
    assert cluster.pool.rebootstrapping
    assert leaders(cluster) == [-1, -1]
    for _ in range(5):
        cluster.wait(2)
        cluster.pool.poll(cluster.clock.now)
    assert set(cluster.engine.connects) == {BOOT}
    cluster.bring_up(BOOT)
    [sent] = cluster.engine.submitted
    assert sent.handle == BOOT
    cluster.answer_metadata((2, 1), (1, 1))  # another cluster's epochs may be lower
    assert not cluster.pool.rebootstrapping
    assert leaders(cluster) == [2, 1]
    assert len(cluster.engine.brokers) == 3  # the same brokers: no additional thread


def test_brokers_of_another_cluster_replace_the_known_ones() -> None:
    cluster = KnownTopicCluster()
    lose(cluster, 1, 2)
    cluster.wait(2)
    cluster.bring_up(BOOT)
    reply = cluster.metadata_reply("t", [(1, 0)], nodes=0)
    reply.brokers = [MetadataResponse.Broker(node_id=1, host="elsewhere", port=9092)]
    cluster.answer(reply)
    assert sorted(cluster.engine.stopped) == [1, 2]
    assert leaders(cluster)[0] == cluster.handle_of(1) == 3


def test_old_broker_that_comes_back_meanwhile_is_not_asked() -> None:
    cluster = KnownTopicCluster()
    lose(cluster, 1, 2)
    cluster.wait(2)
    cluster.bring_up(1)
    assert cluster.engine.submitted == []
    cluster.go()
    assert cluster.engine.submitted == []
    cluster.bring_up(BOOT)
    assert [sent.handle for sent in cluster.engine.submitted] == [BOOT]


def test_strategy_none_keeps_the_known_brokers() -> None:
    cluster = KnownTopicCluster(rebootstraps=False)
    cluster.engine.connects.clear()
    lose(cluster, 1, 2)
    for _ in range(5):
        cluster.wait(2)
        cluster.pool.poll(cluster.clock.now)
    assert not cluster.pool.rebootstrapping
    assert leaders(cluster) == [1, 2]
    assert set(cluster.engine.connects) <= {1, 2}
    assert cluster.engine.connects


def ask(cluster: Cluster) -> None:
    cluster.metadata.refresh(cluster.clock.now)
    cluster.wait(2)


def test_error_code_of_the_reply_starts_again_at_once() -> None:
    cluster = KnownTopicCluster()
    ask(cluster)
    cluster.answer(MetadataResponse(error_code=KafkaError.REBOOTSTRAP_REQUIRED))
    assert cluster.pool.rebootstrapping
    assert sorted(cluster.engine.closed) == [(1, 1, 0), (2, 1, 0), (CONTROL, 1, 0)]
    assert leaders(cluster) == [-1, -1]
    cluster.wait(2)
    assert cluster.engine.submitted == []
    cluster.bring_up(BOOT)
    cluster.answer_metadata((1, 5), (2, 6))
    assert leaders(cluster) == [1, 2]


def test_error_code_is_retried_as_usual_with_strategy_none() -> None:
    cluster = KnownTopicCluster(rebootstraps=False)
    ask(cluster)
    cluster.answer(MetadataResponse(error_code=KafkaError.REBOOTSTRAP_REQUIRED))
    assert cluster.engine.closed == []
    assert leaders(cluster) == [1, 2]
    cluster.wait(2)
    assert len(cluster.engine.submitted) == 1


def test_missing_metadata_start_again_after_the_trigger_time() -> None:
    cluster = KnownTopicCluster(trigger_s=10)
    ask(cluster)
    asked_at = cluster.clock.now
    _, wake_up = cluster.metadata.poll(cluster.clock.now)
    assert wake_up == asked_at + 10
    cluster.clock.now = asked_at + 9
    cluster.go()
    assert not cluster.pool.rebootstrapping
    cluster.clock.now = asked_at + 10
    cluster.go()
    assert cluster.pool.rebootstrapping
    assert sorted(cluster.engine.closed) == [(1, 1, 0), (2, 1, 0), (CONTROL, 1, 0)]


def test_time_counts_from_the_first_attempt_and_ends_with_success() -> None:
    cluster = KnownTopicCluster(trigger_s=10)
    ask(cluster)
    for _ in range(3):
        cluster.answer(MetadataResponse(error_code=KafkaError.BROKER_NOT_AVAILABLE))
        cluster.wait(3)
    assert not cluster.pool.rebootstrapping
    cluster.answer_metadata((1, 5), (2, 6))
    cluster.wait(50)
    assert not cluster.pool.rebootstrapping
    assert cluster.engine.closed == []
