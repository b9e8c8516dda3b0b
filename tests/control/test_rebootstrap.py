"""A new start from the bootstrap servers (KIP-899, KIP-1102): its triggers, and the data that the
client forgets.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafka_native.errors import STATUS_PROTOCOL, KafkaError
from kafka_native.protocol import ApiKey
from kafka_native.protocol.metadata import MetadataResponse
from kafka_native.protocol.versions import ApiVersionsRequest, ApiVersionsResponse

from .fakes import Cluster, api_versions, event
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


# --- connections that lead to another broker (KIP-1242) ---


def asked(cluster: Cluster, handle: int) -> tuple[int, str | None, int]:
    """Connect, and return the version and the ids of the handshake's request."""
    cluster.pool.on_connected(event(broker=handle))
    sent = cluster.engine.submitted[-1]
    assert (sent.api_key, sent.handle) == (ApiKey.API_VERSIONS, handle)
    message = ApiVersionsRequest.decode(sent.body, sent.version)
    return sent.version, message.cluster_id, message.node_id


def reply(cluster: Cluster, response: ApiVersionsResponse, version: int | None = None) -> None:
    sent = cluster.engine.submitted.pop()
    body = response.encode(sent.version if version is None else version)
    cluster.pool.on_reply(event(broker=sent.handle, token=sent.token, body=body))


def identified(**how: Any) -> Cluster:
    """Return a client whose bootstrap server is up and has named the cluster."""
    cluster = Cluster(**how)
    cluster.metadata.want("t", cluster.clock.now)
    cluster.go()
    assert asked(cluster, BOOT) == (5, None, -1), "any broker will do"
    reply(cluster, api_versions())
    answer = cluster.metadata_reply("t", [(1, 5), (2, 6)])
    answer.cluster_id = "ours"
    cluster.answer(answer)
    return cluster


def test_connections_to_nodes_name_the_cluster_and_the_node() -> None:
    cluster = identified()
    assert asked(cluster, 2) == (5, "ours", 2)
    reply(cluster, api_versions())
    assert cluster.pool.is_up(2)
    target = cluster.pool.coordinator(1, "b1", 9092)
    cluster.call(target=target)
    assert asked(cluster, cluster.engine.connects[-1]) == (5, "ours", 1)


def test_another_broker_at_the_address_leads_back_to_the_bootstrap_servers() -> None:
    cluster = identified()
    replies = cluster.call(target=1)
    asked(cluster, 1)
    reply(cluster, ApiVersionsResponse(error_code=KafkaError.REBOOTSTRAP_REQUIRED))
    assert cluster.pool.rebootstrapping
    assert (1, 1, STATUS_PROTOCOL) in cluster.engine.closed, "the next attempt has a back-off"
    assert cluster.errors == []
    assert any("this isn't node 1 of cluster ours" in line for line in cluster.lines)
    [error] = replies
    assert error == KafkaError._TRANSPORT, "its caller retries it"
    assert asked(cluster, 2) == (5, None, -1), "the cluster isn't known now"
    assert asked(cluster, BOOT) == (5, None, -1)
    reply(cluster, api_versions())
    cluster.wait(2)
    answer = cluster.metadata_reply("t", [(1, 5), (2, 6)])
    answer.cluster_id = "another"
    cluster.engine.submitted = [each for each in cluster.engine.submitted if each.api_key == 3]
    cluster.answer(answer)
    assert not cluster.pool.rebootstrapping
    assert asked(cluster, 1) == (5, "another", 1)


@pytest.mark.parametrize("how", [{"rebootstraps": False}, {"checks_cluster": False}])
def test_the_check_is_optional_and_needs_the_strategy(how: dict[str, bool]) -> None:
    cluster = identified(**how)
    assert asked(cluster, 1) == (5, None, -1)
    reply(cluster, ApiVersionsResponse(error_code=KafkaError.REBOOTSTRAP_REQUIRED))
    assert not cluster.pool.rebootstrapping, "no ids were sent, so this is an error like others"
    assert cluster.errors == [KafkaError.REBOOTSTRAP_REQUIRED]


def test_the_next_connections_begin_with_the_version_of_the_last_broker() -> None:
    cluster = identified()
    old = api_versions()
    [own] = [each for each in old.api_keys if each.api_key == ApiKey.API_VERSIONS]
    own.max_version = 4
    assert asked(cluster, 1) == (5, "ours", 1)
    refusal = ApiVersionsResponse(error_code=KafkaError.UNSUPPORTED_VERSION, api_keys=old.api_keys)
    reply(cluster, refusal, 0)
    assert cluster.engine.submitted[-1].version == 4
    reply(cluster, old)
    assert asked(cluster, 2) == (4, None, -1)
    reply(cluster, api_versions())  # an upgraded broker
    target = cluster.pool.coordinator(1, "b1", 9092)
    cluster.call(target=target)
    assert asked(cluster, cluster.engine.connects[-1]) == (5, "ours", 1)
