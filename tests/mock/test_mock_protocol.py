"""Each version of each API has a response. Other requests close the connection, not the broker."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable

import pytest

from kafka_native.errors import ErrorCode
from kafka_native.mock import MockCluster
from kafka_native.mock.versions import ADVERTISED
from kafka_native.protocol import ApiKey, decode_response, encode_request, registry
from kafka_native.protocol.configs import DescribeConfigsRequest, IncrementalAlterConfigsRequest
from kafka_native.protocol.coordinator import FindCoordinatorRequest
from kafka_native.protocol.group_admin import DeleteGroupsRequest, DescribeGroupsRequest
from kafka_native.protocol.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from kafka_native.protocol.metadata import DescribeTopicPartitionsRequest, MetadataRequest
from kafka_native.protocol.offsets import (
    DeleteRecordsRequest,
    ListOffsetsRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    OffsetForLeaderEpochRequest,
)
from kafka_native.protocol.partitions import (
    AlterPartitionReassignmentsRequest,
    AlterReplicaLogDirsRequest,
    DescribeLogDirsRequest,
)
from kafka_native.protocol.quorum import DescribeQuorumRequest, UpdateFeaturesRequest
from kafka_native.protocol.quotas import AlterClientQuotasRequest, DescribeClientQuotasRequest
from kafka_native.protocol.schema import ZERO_UUID, Request
from kafka_native.protocol.topics import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
)
from kafka_native.protocol.versions import ApiVersionsRequest, ApiVersionsResponse
from tests.mock.wire import Closed, Wire, batch, fetch_request, produce_request

Make = Callable[[int, str, bytes], Request]


def topic_id_from(first: int, version: int, topic_id: bytes) -> bytes:
    return topic_id if version >= first else ZERO_UUID


def make_produce(version: int, topic: str, topic_id: bytes) -> Request:
    request = produce_request(topic, 0, batch(b"a") if version >= 3 else b"\0" * 20)
    request.topic_data[0].topic_id = topic_id_from(13, version, topic_id)
    return request


def make_fetch(version: int, topic: str, topic_id: bytes) -> Request:
    session = (0, 0) if version >= 7 else (0, -1)
    wanted = {0: 0, 1: 0, 9: 0}  # with records, led by another broker, unknown
    return fetch_request(
        topic, wanted, topic_id=topic_id_from(13, version, topic_id), session=session
    )


def make_commit(version: int, topic: str, topic_id: bytes) -> Request:
    part = OffsetCommitRequest.Topic.Partition(
        partition_index=0, committed_offset=1, committed_metadata="x"
    )
    by_id = topic_id_from(10, version, topic_id)
    return OffsetCommitRequest(
        group_id="g",
        topics=[OffsetCommitRequest.Topic(name=topic, topic_id=by_id, partitions=[part])],
    )


def make_offset_fetch(version: int, topic: str, topic_id: bytes) -> Request:
    if version < 8:
        topics = [OffsetFetchRequest.Topic(name=topic, partition_indexes=[0, 1])]
        return OffsetFetchRequest(group_id="g", topics=topics)
    by_id = topic_id_from(10, version, topic_id)
    wanted = OffsetFetchRequest.Group.Topic(name=topic, topic_id=by_id, partition_indexes=[0])
    groups = [OffsetFetchRequest.Group(group_id="g", topics=topics) for topics in ([wanted], None)]
    return OffsetFetchRequest(groups=groups)


def make_coordinator(version: int, topic: str, topic_id: bytes) -> Request:
    return (
        FindCoordinatorRequest(coordinator_keys=["g"])
        if version >= 4
        else FindCoordinatorRequest(key="g")
    )


def make_leave(version: int, topic: str, topic_id: bytes) -> Request:
    if version < 3:
        return LeaveGroupRequest(group_id="g", member_id="m")
    return LeaveGroupRequest(group_id="g", members=[LeaveGroupRequest.Member(member_id="m")])


def make_delete_topics(version: int, topic: str, topic_id: bytes) -> Request:
    if version < 6:
        return DeleteTopicsRequest(topic_names=["none"])
    return DeleteTopicsRequest(topics=[DeleteTopicsRequest.Topic(topic_id=b"1" * 16)])


def make_metadata(version: int, topic: str, topic_id: bytes) -> Request:
    topics = [
        MetadataRequest.Topic(name=topic),
        MetadataRequest.Topic(name="new"),
        MetadataRequest.Topic(name="?"),
    ]
    if version >= 10:
        topics.append(MetadataRequest.Topic(topic_id=b"1" * 16, name=None))
        topics.append(MetadataRequest.Topic(topic_id=topic_id, name=None))
    return MetadataRequest(topics=topics)


def make_join(version: int, topic: str, topic_id: bytes) -> Request:
    protocols = [JoinGroupRequest.Protocol(name="range", metadata=b"x")]
    return JoinGroupRequest(
        group_id="g", session_timeout_ms=20, protocol_type="consumer", protocols=protocols
    )


def make_list_offsets(version: int, topic: str, topic_id: bytes) -> Request:
    parts = [
        ListOffsetsRequest.Topic.Partition(partition_index=0, timestamp=time)
        for time in (-1, -2, 1000)
    ]
    return ListOffsetsRequest(topics=[ListOffsetsRequest.Topic(name=topic, partitions=parts)])


def make_reassignments(version: int, topic: str, topic_id: bytes) -> Request:
    kind = AlterPartitionReassignmentsRequest.Topic
    parts = [
        kind.Partition(partition_index=index, replicas=nodes)
        for index, nodes in ((0, [2, 3]), (1, None), (9, []))
    ]
    return AlterPartitionReassignmentsRequest(topics=[kind(name=topic, partitions=parts)])


def make_quotas(version: int, topic: str, topic_id: bytes) -> Request:
    kind = AlterClientQuotasRequest.Entry
    entities = [[kind.Entity(entity_type=of, entity_name=None)] for of in ("user", "nobody")]
    ops = [kind.Op(key="producer_byte_rate", value=1e9)]
    return AlterClientQuotasRequest(entries=[kind(entity=entity, ops=ops) for entity in entities])


def make_log_dirs(version: int, topic: str, topic_id: bytes) -> Request:
    kind = AlterReplicaLogDirsRequest.Dir
    topics = [kind.Topic(name=name, partitions=[0]) for name in (topic, "none")]
    return AlterReplicaLogDirsRequest(dirs=[kind(path="/mock/broker-1/data-1", topics=topics)])


MAKE: dict[ApiKey, Make] = {
    ApiKey.PRODUCE: make_produce,
    ApiKey.FETCH: make_fetch,
    ApiKey.LIST_OFFSETS: make_list_offsets,
    ApiKey.METADATA: make_metadata,
    ApiKey.OFFSET_COMMIT: make_commit,
    ApiKey.OFFSET_FETCH: make_offset_fetch,
    ApiKey.FIND_COORDINATOR: make_coordinator,
    ApiKey.JOIN_GROUP: make_join,
    ApiKey.HEARTBEAT: lambda *_: HeartbeatRequest(group_id="g"),
    ApiKey.LEAVE_GROUP: make_leave,
    ApiKey.SYNC_GROUP: lambda *_: SyncGroupRequest(group_id="g"),
    ApiKey.DESCRIBE_GROUPS: lambda *_: DescribeGroupsRequest(groups=["g", "none", ""]),
    ApiKey.CREATE_TOPICS: lambda version, *_: CreateTopicsRequest(
        topics=[
            CreateTopicsRequest.Topic(name=f"new-{version}", num_partitions=1, replication_factor=1)
        ]
    ),
    ApiKey.DELETE_TOPICS: make_delete_topics,
    ApiKey.DELETE_RECORDS: lambda _, topic, *__: DeleteRecordsRequest(
        topics=[
            DeleteRecordsRequest.Topic(
                name=topic,
                partitions=[DeleteRecordsRequest.Topic.Partition(partition_index=0, offset=0)],
            )
        ]
    ),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: lambda _, topic, *__: OffsetForLeaderEpochRequest(
        topics=[
            OffsetForLeaderEpochRequest.Topic(
                topic=topic,
                partitions=[
                    OffsetForLeaderEpochRequest.Topic.Partition(partition=0, leader_epoch=0)
                ],
            )
        ]
    ),
    ApiKey.DESCRIBE_CONFIGS: lambda _, topic, *__: DescribeConfigsRequest(
        resources=[
            DescribeConfigsRequest.Resource(
                resource_type=kind, resource_name=name, configuration_keys=None
            )
            for kind, name in ((2, topic), (4, "1"), (2, "none"), (99, ""))
        ]
    ),
    ApiKey.CREATE_PARTITIONS: lambda _, topic, *__: CreatePartitionsRequest(
        topics=[
            CreatePartitionsRequest.Topic(name=name, count=1, assignments=None)
            for name in (topic, "none")
        ]
    ),
    ApiKey.DELETE_GROUPS: lambda *_: DeleteGroupsRequest(groups_names=["none"]),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: lambda _, topic, *__: IncrementalAlterConfigsRequest(
        resources=[
            IncrementalAlterConfigsRequest.Resource(
                resource_type=2,
                resource_name=name,
                configs=[
                    IncrementalAlterConfigsRequest.Resource.Config(name="retention.ms", value="5")
                ],
            )
            for name in (topic, "none")
        ]
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: make_reassignments,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: lambda *_: DescribeClientQuotasRequest(
        components=[
            DescribeClientQuotasRequest.Component(entity_type="user", match_type=2, match=None)
        ]
    ),
    ApiKey.ALTER_CLIENT_QUOTAS: make_quotas,
    ApiKey.DESCRIBE_QUORUM: lambda *_: DescribeQuorumRequest(
        topics=[
            DescribeQuorumRequest.Topic(
                topic_name="__cluster_metadata",
                partitions=[
                    DescribeQuorumRequest.Topic.Partition(partition_index=index) for index in (0, 1)
                ],
            )
        ]
    ),
    ApiKey.UPDATE_FEATURES: lambda *_: UpdateFeaturesRequest(
        feature_updates=[
            UpdateFeaturesRequest.FeatureUpdate(feature=name, max_version_level=2)
            for name in ("transaction.version", "none")
        ]
    ),
    ApiKey.DESCRIBE_LOG_DIRS: lambda *_: DescribeLogDirsRequest(topics=None),
    ApiKey.ALTER_REPLICA_LOG_DIRS: make_log_dirs,
    ApiKey.OFFSET_DELETE: lambda *_: OffsetDeleteRequest(group_id="g"),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: lambda _, topic, *__: DescribeTopicPartitionsRequest(
        topics=[DescribeTopicPartitionsRequest.Topic(name=name) for name in (topic, "none")],
        response_partition_limit=1,
    ),
}


@pytest.mark.parametrize("key", ADVERTISED, ids=lambda key: key.name)
def test_every_advertised_version_is_answered(key: ApiKey, cluster: MockCluster) -> None:
    cluster.create_topic("a", 3)
    cluster.append_raw("a", 0, batch(b"v"))
    coordinator = cluster.coordinator_of("g")
    assert coordinator is not None
    first, last = ADVERTISED[key]
    make = MAKE.get(key, lambda *_: registry.request(key)())
    for version in range(first, last + 1):
        with Wire(cluster) as one, Wire(cluster, coordinator.id) as other:
            for wire in (one, other):
                response = wire.ask(make(version, "a", cluster.topic_id("a")), version)
                assert response.api_key == key


def test_api_versions_lists_what_is_advertised(wire: Wire) -> None:
    response: ApiVersionsResponse = wire.ask(ApiVersionsRequest(), 4)
    assert {
        one.api_key: (one.min_version, one.max_version) for one in response.api_keys
    } == ADVERTISED
    assert response.error_code == 0


def test_a_client_that_expects_another_broker_starts_again(
    cluster: MockCluster, wire: Wire
) -> None:
    own, none = cluster.cluster_id, None
    expected = {
        (own, 1): ErrorCode.NO_ERROR,
        (none, -1): ErrorCode.NO_ERROR,
        (own, 2): ErrorCode.REBOOTSTRAP_REQUIRED,
        ("another", 1): ErrorCode.REBOOTSTRAP_REQUIRED,
        (own, -1): ErrorCode.INVALID_REQUEST,
        (none, 1): ErrorCode.INVALID_REQUEST,
    }
    for (cluster_id, node_id), code in expected.items():
        request = ApiVersionsRequest(cluster_id=cluster_id, node_id=node_id)
        response = wire.ask(request, 5)
        assert (response.error_code, bool(response.api_keys)) == (code, code == 0)
        assert wire.ask(request, 4).error_code == 0, "older versions have no ids"


def test_newer_api_versions_is_refused_in_version_0(wire: Wire) -> None:
    frame = bytearray(encode_request(ApiVersionsRequest(), 4, 7, "me"))
    frame[2:4] = (99).to_bytes(2, "big")
    wire.send_frame(bytes(frame))
    number, response = decode_response(ApiKey.API_VERSIONS, 0, wire.read_frame())
    assert isinstance(response, ApiVersionsResponse)
    assert (number, response.error_code) == (7, 35)
    assert ApiKey.METADATA in {one.api_key for one in response.api_keys}
    assert wire.ask(ApiVersionsRequest(), 0).error_code == 0  # the connection is still good


def test_old_broker_advertises_and_accepts_fewer_versions() -> None:
    with MockCluster(
        1, max_versions={ApiKey.FETCH: 11, ApiKey.API_VERSIONS: 2, ApiKey.DESCRIBE_CLUSTER: -1}
    ) as old:
        with Wire(old) as wire:
            offered = {
                one.api_key: one.max_version for one in wire.ask(ApiVersionsRequest(), 2).api_keys
            }
            assert offered[ApiKey.FETCH] == 11
            assert ApiKey.DESCRIBE_CLUSTER not in offered
            assert wire.ask(ApiVersionsRequest(), 3).error_code == 35
            wire.send(fetch_request("a", {0: 0}), 12)
            assert wire.is_closed()
        with Wire(old) as wire:
            assert wire.ask(fetch_request("a", {0: 0}), 11).error_code == 0


def test_broker_without_api_versions_closes() -> None:
    with MockCluster(1, max_versions={ApiKey.API_VERSIONS: -1}) as old, Wire(old) as wire:
        wire.send(ApiVersionsRequest(), 0)
        assert wire.is_closed()


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\xff\xff\xff\xff" + b"x" * 20,
        b"\x7f\xff\xff\xff" + b"x" * 20,
        b"\x00\x00\x00\x00",
        b"\x00\x00\x00\x07" + b"x" * 7,
        b"\x00\x00\x00\x08" + b"\x00\x03\x00\x09\x00\x00\x00\x01",
        b"\x00\x00\x00\x0c" + b"\x00\x00\x00\x09\x00\x00\x00\x01\xff\xff\x00\xff",
        b"\x00\x00\x00\x10" + b"\x00\x03\x00\x01\x00\x00\x00\x01\xff\xff\x7f\xff\xff\xff\x00\x00",
        b"\x00\x00\x00\x0a" + b"\x03\xe8\x00\x00\x00\x00\x00\x01\xff\xff",
    ],
)
def test_garbage_gets_a_closed_connection(garbage: bytes, cluster: MockCluster) -> None:
    with Wire(cluster) as wire:
        wire.socket.sendall(garbage)
        assert wire.is_closed()
    with Wire(cluster) as wire:
        assert wire.ask(MetadataRequest(topics=None)).brokers


def test_large_announced_frame_takes_no_memory_before_it_arrives(cluster: MockCluster) -> None:
    with Wire(cluster) as wire:
        wire.socket.sendall((90 << 20).to_bytes(4, "big") + b"\x00\x03")
        wire.socket.shutdown(socket.SHUT_WR)
        assert wire.is_closed()


def test_frame_larger_than_the_first_buffer_arrives_whole() -> None:
    data = batch(bytes(9 << 20))
    with MockCluster(1, message_max_bytes=20 << 20) as cluster, Wire(cluster) as wire:
        cluster.create_topic("a")
        response = wire.ask(produce_request("a", 0, data), 12)
        assert response.responses[0].partition_responses[0].error_code == 0
        assert cluster.messages("a", 0)[0].value == bytes(9 << 20)


def test_split_frames_are_put_together(cluster: MockCluster) -> None:
    frame = encode_request(MetadataRequest(topics=None), 12, 5, "me")
    with Wire(cluster) as wire:
        for byte in len(frame).to_bytes(4, "big") + frame:
            wire.socket.sendall(bytes([byte]))
        number, _ = decode_response(ApiKey.METADATA, 12, wire.read_frame())
        assert number == 5


def test_requests_are_listed(cluster: MockCluster) -> None:
    with Wire(cluster, 2) as wire:
        wire.ask(MetadataRequest(topics=None), 9)
    [seen] = cluster.requests
    assert seen[:-1] == (2, ApiKey.METADATA, 9, 1, "wire")
    assert abs(seen.time - time.monotonic()) < 60
    cluster.clear_requests()
    assert cluster.requests == []


def test_close_ends_every_thread_and_connection() -> None:
    before = threading.active_count()
    cluster = MockCluster(3)
    wires = [Wire(cluster, broker) for broker in cluster.broker_ids]
    wires[0].send(fetch_request("a", {}, max_wait_ms=60_000, min_bytes=1), 12)  # waits in a thread
    cluster.close()
    cluster.close()
    for wire in wires:
        with pytest.raises(Closed):
            wire.read_frame()
        wire.socket.close()
    assert threading.active_count() == before


def test_cluster_needs_a_broker() -> None:
    with pytest.raises(ValueError, match="at least one broker"):
        MockCluster(0)


def test_taken_port_is_an_error_and_leaves_nothing_behind() -> None:
    with MockCluster(1) as first:
        port = int(first.bootstrap_servers.rpartition(":")[2])
        before = threading.active_count()
        with pytest.raises(OSError, match="in use"):
            MockCluster(1, port=port)
        assert threading.active_count() == before
