"""Look-up of offsets, and the metadata of topics."""

from __future__ import annotations

import pytest

from kafka_native.errors import ErrorCode
from kafka_native.mock import MockCluster
from kafka_native.protocol.configs import DescribeConfigsRequest, IncrementalAlterConfigsRequest
from kafka_native.protocol.metadata import DescribeTopicPartitionsRequest, MetadataRequest
from kafka_native.protocol.offsets import (
    DeleteRecordsRequest,
    ListOffsetsRequest,
    OffsetForLeaderEpochRequest,
)
from kafka_native.protocol.topics import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
)
from tests.mock.wire import Wire, batch, check


def look_up(
    wire: Wire, timestamp: int, version: int = 7, partition: int = 0
) -> tuple[int, int, int]:
    part = ListOffsetsRequest.Topic.Partition(partition_index=partition, timestamp=timestamp)
    request = ListOffsetsRequest(topics=[ListOffsetsRequest.Topic(name="a", partitions=[part])])
    answer = wire.ask(request, version).topics[0].partitions[0]
    return answer.error_code, answer.offset, answer.timestamp


def test_offsets_by_position_and_by_time(cluster: MockCluster, wire: Wire) -> None:
    cluster.create_topic("a", 2)
    assert look_up(wire, -3) == (0, -1, -1)
    cluster.append_raw("a", 0, batch(b"0", b"1", b"2", timestamp=1000))
    cluster.append_raw("a", 0, batch(b"3", b"4", timestamp=5000, codec="gzip"))
    cluster.append_raw("a", 0, batch(b"5", timestamp=2000))
    assert look_up(wire, -2) == (0, 0, -1)
    assert look_up(wire, -1) == (0, 6, -1)
    assert look_up(wire, -3) == (0, 4, 5001)
    assert look_up(wire, -4, 8) == (0, 0, -1)
    assert look_up(wire, -5, 9) == (0, -1, -1)
    assert look_up(wire, -6, 11) == (0, -1, -1)
    assert [look_up(wire, time) for time in (0, 1001, 1002, 1003, 5001)] == [
        (0, 0, 1000),
        (0, 1, 1001),
        (0, 2, 1002),
        (0, 3, 5000),
        (0, 4, 5001),
    ]
    assert look_up(wire, 5002) == (0, -1, -1)
    assert look_up(wire, -1, partition=1)[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert look_up(wire, -1, partition=2)[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert look_up(wire, -77)[0] == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize(("timestamp", "first"), [(-3, 7), (-4, 8), (-5, 9), (-6, 11)])
def test_special_timestamps_have_a_first_version(
    timestamp: int, first: int, cluster: MockCluster, wire: Wire
) -> None:
    cluster.create_topic("a")
    assert look_up(wire, timestamp, first - 1) == (ErrorCode.UNSUPPORTED_VERSION, -1, -1)
    assert look_up(wire, timestamp, first)[0] == ErrorCode.NO_ERROR


def test_deleted_records_move_the_beginning(cluster: MockCluster, wire: Wire) -> None:
    cluster.create_topic("a")
    for _ in range(3):
        cluster.append_raw("a", 0, batch(b"x", b"y"))

    def delete(offset: int) -> tuple[int, int]:
        part = DeleteRecordsRequest.Topic.Partition(partition_index=0, offset=offset)
        answer = wire.ask(
            DeleteRecordsRequest(topics=[DeleteRecordsRequest.Topic(name="a", partitions=[part])])
        )
        return answer.topics[0].partitions[0].error_code, answer.topics[0].partitions[
            0
        ].low_watermark

    assert delete(3) == (0, 3)
    assert len(cluster.batches("a", 0)) == 2
    assert look_up(wire, -2)[1] == 3
    assert look_up(wire, 0)[1] == 3
    assert delete(2) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert delete(-1) == (0, 6)
    assert cluster.watermarks("a", 0) == (6, 6)


def test_epochs_have_an_end(cluster: MockCluster, wire: Wire) -> None:
    cluster.create_topic("a")
    cluster.append_raw("a", 0, batch(b"x", b"y"))
    for _ in range(3):
        cluster.move_leader("a", 0, 1)
    cluster.append_raw("a", 0, batch(b"z"))

    ends = [end_of_epoch(wire, epoch) for epoch in (0, 1, 2, 3)]
    assert ends == [(0, 2), (0, 2), (0, 2), (3, 3)]


def test_log_that_is_truncated_to_nothing_knows_where_its_epochs_ended(
    cluster: MockCluster, wire: Wire
) -> None:
    cluster.create_topic("a")
    cluster.append_raw("a", 0, batch(b"x", b"y"))
    cluster.truncate("a", 0, 0)
    assert [end_of_epoch(wire, epoch) for epoch in (0, 1)] == [(0, 0), (1, 0)]
    cluster.append_raw("a", 0, batch(b"z"))
    assert [end_of_epoch(wire, epoch) for epoch in (0, 1)] == [(0, 0), (1, 1)]


def end_of_epoch(wire: Wire, epoch: int) -> tuple[int, int]:
    """Return OffsetForLeaderEpoch's answer: the largest epoch up to this one, and its end."""
    part = OffsetForLeaderEpochRequest.Topic.Partition(partition=0, leader_epoch=epoch)
    topics = [OffsetForLeaderEpochRequest.Topic(topic="a", partitions=[part])]
    answer = wire.ask(OffsetForLeaderEpochRequest(topics=topics)).topics[0].partitions[0]
    return answer.leader_epoch, answer.end_offset


def metadata(wire: Wire, *names: str, create: bool = False, version: int = 12) -> dict[str, object]:
    topics = [MetadataRequest.Topic(name=name) for name in names] or None
    response = wire.ask(MetadataRequest(topics=topics, allow_auto_topic_creation=create), version)
    return {topic.name: topic for topic in response.topics}


def test_metadata_spread_leaders_over_brokers(cluster: MockCluster, wire: Wire) -> None:
    cluster.create_topic("a", 4)
    response = wire.ask(MetadataRequest(topics=None), 12)
    assert [
        f"{one.host}:{one.port}" for one in response.brokers
    ] == cluster.bootstrap_servers.split(",")
    check(response, controller_id=1, cluster_id=cluster.cluster_id)
    (topic,) = response.topics
    assert topic.topic_id == cluster.topic_id("a")
    assert [(one.leader_id, one.leader_epoch, one.replica_nodes) for one in topic.partitions] == [
        (1, 0, [1, 2, 3]),
        (2, 0, [2, 3, 1]),
        (3, 0, [3, 1, 2]),
        (1, 0, [1, 2, 3]),
    ]


def test_topics_are_created_on_request_if_allowed(cluster: MockCluster, wire: Wire) -> None:
    check(metadata(wire, "new")["new"], error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)  # type: ignore[arg-type]
    check(metadata(wire, "new", create=True)["new"], error_code=0)  # type: ignore[arg-type]
    check(metadata(wire, "new")["new"], error_code=0)  # type: ignore[arg-type]
    check(metadata(wire, "a b", create=True)["a b"], error_code=ErrorCode.INVALID_TOPIC_EXCEPTION)  # type: ignore[arg-type]
    with MockCluster(1, auto_create_topics=False) as strict, Wire(strict) as other:
        unknown = metadata(other, "new", create=True)["new"]
        check(unknown, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)  # type: ignore[arg-type]


def test_hidden_topic_is_back_after_this_number_of_replies(
    cluster: MockCluster, wire: Wire
) -> None:
    cluster.create_topic("a")
    cluster.create_topic("b")
    cluster.hide_topic("a", 2)
    assert set(metadata(wire)) == {"b"}
    check(metadata(wire, "a")["a"], error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)  # type: ignore[arg-type]
    assert set(metadata(wire)) == {"a", "b"}


def test_broker_down_and_up(cluster: MockCluster) -> None:
    cluster.create_topic("a", 3)
    cluster.create_topic("lonely", 1, replication_factor=1)
    with Wire(cluster, 1) as old:
        cluster.broker_down(1)
        assert old.is_closed()
    with pytest.raises(ConnectionRefusedError):
        Wire(cluster, 1)
    with Wire(cluster, 2) as wire:
        response = wire.ask(MetadataRequest(topics=None), 12)
        assert [one.node_id for one in response.brokers] == [2, 3]
        assert response.controller_id == 2
        first, lonely = response.topics[0].partitions[0], response.topics[1].partitions[0]
        check(first, leader_id=2, leader_epoch=1, isr_nodes=[2, 3], offline_replicas=[1])
        check(lonely, error_code=ErrorCode.LEADER_NOT_AVAILABLE, leader_id=-1)
        cluster.broker_up(1)
        cluster.broker_up(1)
        response = wire.ask(MetadataRequest(topics=None), 12)
        check(
            response.topics[0].partitions[0], leader_id=2, isr_nodes=[1, 2, 3], offline_replicas=[]
        )
        check(response.topics[1].partitions[0], error_code=0, leader_id=1, leader_epoch=2)
    with Wire(cluster, 1) as again:
        assert again.ask(MetadataRequest(topics=None), 12).controller_id == 1


def create(
    wire: Wire, *, name: str = "a", count: int = 2, factor: int = -1, **options: object
) -> int:
    topic = CreateTopicsRequest.Topic(name=name, num_partitions=count, replication_factor=factor)
    for key, value in options.items():
        setattr(topic, key, value)
    answer = wire.ask(CreateTopicsRequest(topics=[topic])).topics[0]
    assert (answer.error_message is None) == (answer.error_code == 0)
    return int(answer.error_code)


def test_create_topics_checks_its_arguments(cluster: MockCluster, wire: Wire) -> None:
    assert create(wire, count=-1) == 0
    assert cluster.leader("a", 0) == 1
    assert create(wire) == ErrorCode.TOPIC_ALREADY_EXISTS
    assert create(wire, name="..") == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert create(wire, name="b", count=0) == ErrorCode.INVALID_PARTITIONS
    assert create(wire, name="b", factor=4) == ErrorCode.INVALID_REPLICATION_FACTOR
    wrong = [CreateTopicsRequest.Topic.Config(name="colour", value="red")]
    assert create(wire, name="b", configs=wrong) == ErrorCode.INVALID_CONFIG
    nodes = [CreateTopicsRequest.Topic.Assignment(partition_index=0, broker_ids=[3, 9])]
    assert create(wire, name="b", assignments=nodes) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    nodes = [CreateTopicsRequest.Topic.Assignment(partition_index=0, broker_ids=[3, 1])]
    assert create(wire, name="b", count=-1, assignments=nodes) == 0
    assert cluster.leader("b", 0) == 3
    topic = CreateTopicsRequest.Topic(name="c", num_partitions=2, replication_factor=1)
    answer = wire.ask(CreateTopicsRequest(topics=[topic], validate_only=True)).topics[0]
    check(answer, error_code=0, num_partitions=2, replication_factor=1)
    assert set(cluster.topics) == {"a", "b"}


def test_topics_grow_and_are_deleted(cluster: MockCluster, wire: Wire) -> None:
    cluster.create_topic("a", 2)
    cluster.create_topic("b")

    def grow(count: int) -> int:
        topic = CreatePartitionsRequest.Topic(name="a", count=count, assignments=None)
        return int(wire.ask(CreatePartitionsRequest(topics=[topic])).results[0].error_code)

    assert [grow(4), grow(4)] == [0, ErrorCode.INVALID_PARTITIONS]
    assert [cluster.leader("a", index) for index in range(4)] == [1, 2, 3, 1]
    by_id = DeleteTopicsRequest.Topic(topic_id=cluster.topic_id("a"))
    names = [DeleteTopicsRequest.Topic(name="b"), DeleteTopicsRequest.Topic(name="none"), by_id]
    answers = wire.ask(DeleteTopicsRequest(topics=names)).responses
    assert [one.error_code for one in answers] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0]
    assert cluster.topics == {}
    with pytest.raises(ValueError, match="not a valid topic name"):
        cluster.create_topic("")
    with pytest.raises(ValueError, match="no topic"):
        cluster.create_partitions("a", 9)


def test_topic_partitions_come_in_pages(cluster: MockCluster, wire: Wire) -> None:
    cluster.create_topic("a", 3)
    cluster.create_topic("b", 2)
    seen, cursor, pages = [], None, 0
    while pages == 0 or cursor is not None:
        request = DescribeTopicPartitionsRequest(response_partition_limit=2, cursor=cursor)
        response = wire.ask(request)
        seen += [
            (topic.name, part.partition_index)
            for topic in response.topics
            for part in topic.partitions
        ]
        following, pages = response.next_cursor, pages + 1
        cursor = None
        if following is not None:
            cursor = DescribeTopicPartitionsRequest.Cursor(
                topic_name=following.topic_name, partition_index=following.partition_index
            )
    assert seen == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1)]
    assert pages == 3


def test_settings_are_shown_and_changed(cluster: MockCluster, wire: Wire) -> None:
    cluster.create_topic("a")

    def shown() -> dict[str, tuple[str, int]]:
        resource = DescribeConfigsRequest.Resource(
            resource_type=2, resource_name="a", configuration_keys=None
        )
        result = wire.ask(DescribeConfigsRequest(resources=[resource])).results[0]
        return {one.name: (one.value, one.config_source) for one in result.configs}

    def change(name: str, operation: int, value: str | None) -> int:
        config = IncrementalAlterConfigsRequest.Resource.Config(
            name=name, config_operation=operation, value=value
        )
        resource = IncrementalAlterConfigsRequest.Resource(
            resource_type=2, resource_name="a", configs=[config]
        )
        return int(
            wire.ask(IncrementalAlterConfigsRequest(resources=[resource])).responses[0].error_code
        )

    assert shown()["retention.ms"] == ("604800000", 5)
    assert change("retention.ms", 0, "1") == 0
    assert shown()["retention.ms"] == ("1", 1)
    assert change("retention.ms", 1, None) == 0
    assert shown()["retention.ms"] == ("604800000", 5)
    assert change("colour", 0, "red") == ErrorCode.INVALID_CONFIG
