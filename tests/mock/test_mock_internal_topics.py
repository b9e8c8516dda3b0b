"""Internal topics and features, as a cluster of Apache Kafka 4.4 lists them."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_native.errors import ErrorCode
from kafka_native.mock import MockCluster
from kafka_native.protocol.coordinator import FindCoordinatorRequest
from kafka_native.protocol.metadata import DescribeTopicPartitionsRequest, MetadataRequest
from kafka_native.protocol.share import ShareGroupHeartbeatRequest
from kafka_native.protocol.versions import ApiVersionsRequest
from tests.mock.test_mock_settings import TOPIC, shown
from tests.mock.wire import Wire, batch, produce, produce_request


def listed(wire: Wire) -> dict[str, tuple[bool, int]]:
    topics = wire.ask(MetadataRequest(topics=None), 12).topics
    return {each.name: (each.is_internal, len(each.partitions)) for each in topics}


def find(wire: Wire, kind: int) -> Any:
    request = FindCoordinatorRequest(key_type=kind, coordinator_keys=["x"])
    return wire.ask(request, 6).coordinators[0].error_code


def test_internal_topics_appear_when_their_coordinators_are_used(
    cluster: MockCluster, wire: Wire
) -> None:
    cluster.create_topic("a")
    assert listed(wire) == {"a": (False, 1)}
    assert find(wire, 0) == 0
    assert listed(wire) == {"a": (False, 1), "__consumer_offsets": (True, 50)}
    assert find(wire, 1) == 0
    heartbeat = ShareGroupHeartbeatRequest(
        group_id="g", member_id="m", subscribed_topic_names=["a"]
    )
    coordinator = cluster.coordinator_of("g")
    assert coordinator is not None
    with Wire(cluster, coordinator.id) as other:
        assert other.ask(heartbeat).error_code == 0
    assert listed(wire) == {
        "a": (False, 1),
        "__consumer_offsets": (True, 50),
        "__transaction_state": (True, 50),
        "__share_group_state": (True, 50),
    }
    found = shown(wire, TOPIC, "__consumer_offsets")
    own = {key: each.value for key, each in found.items() if each.config_source == 1}
    assert own == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "104857600",
    }
    topic = DescribeTopicPartitionsRequest.Topic(name="__consumer_offsets")
    request = DescribeTopicPartitionsRequest(topics=[topic], response_partition_limit=1)
    assert wire.ask(request).topics[0].is_internal


def test_clients_cannot_write_to_internal_topics(wire: Wire) -> None:
    assert find(wire, 0) == 0
    answer = produce(wire, "__consumer_offsets", 0, batch(b"x"))
    assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    request = produce_request("__transaction_state", 0, batch(b"x"))
    metadata = MetadataRequest(topics=[MetadataRequest.Topic(name="__transaction_state")])
    topic = wire.ask(metadata, 12).topics[0]
    assert (topic.is_internal, len(topic.partitions)) == (True, 50)
    refused = wire.ask(request, 12).responses[0].partition_responses[0]
    assert refused.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_cluster_can_do_without_internal_topics() -> None:
    with MockCluster(1, internal_topics=False) as cluster, Wire(cluster) as wire:
        assert find(wire, 0) == find(wire, 1) == 0
        assert listed(wire) == {}


@pytest.mark.parametrize("version", [1, 2])
def test_features_are_those_of_a_new_cluster(version: int) -> None:
    with MockCluster(1, transaction_version=version) as cluster, Wire(cluster) as wire:
        found = wire.ask(
            ApiVersionsRequest(client_software_name="a", client_software_version="1"), 4
        )
        levels = {each.name: each.max_version_level for each in found.finalized_features}
        supported = {each.name for each in found.supported_features}
    assert levels == {
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "metadata.version": 33,
        "share.version": 2,
        "streams.version": 1,
        "transaction.version": version,
    }
    assert supported == levels.keys() | {"kraft.version"}
