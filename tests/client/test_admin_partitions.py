"""AdminClient: replicas and log directories of partitions, and topics page by page."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kafka_native import KafkaError, KafkaException, TopicCollection, TopicPartition
from kafka_native.admin import (
    AdminClient,
    NewPartitionReassignment,
    NewTopic,
    PartitionReassignment,
    ReplicaInfo,
    ReplicaLogDirInfo,
    TopicPartitionReplica,
    TopicPartitionsCursor,
)
from kafka_native.mock import CLOSE_CONNECTION
from kafka_native.mock.handlers.log_dirs import TOTAL_BYTES, directories
from kafka_native.protocol import ApiKey
from tests.waiting import WAIT_S

from .admin_support import (
    admin_of,
    cluster_and_admin,
    expect_error,
    expect_success,
    result_of,
)
from .support import Client, check_refused, fill


def replicas_of(client: Client, topic: str, number: int = 0) -> list[int]:
    return client.cluster.topics[topic].partitions[number].replicas


# --- reassignments ---


def test_partitions_and_leaders_move_to_other_brokers(client: Client, admin: AdminClient) -> None:
    client.cluster.create_topic("moved", 2, replication_factor=1)
    first, second = TopicPartition("moved", 0), TopicPartition("moved", 1)
    nowhere = TopicPartition("never-was", 0)
    done = admin.alter_partition_reassignments(
        {
            first: NewPartitionReassignment([3, 2]),
            second: NewPartitionReassignment([2, 99]),
            nowhere: NewPartitionReassignment([1]),
        }
    )
    expect_success(done[first])
    expect_error(done[second], KafkaError.INVALID_REPLICA_ASSIGNMENT)
    expect_error(done[nowhere], KafkaError.UNKNOWN_TOPIC_OR_PART)
    found = admin.list_topics("moved", timeout=WAIT_S).topics["moved"].partitions
    assert (found[0].replicas, found[0].leader) == ([3, 2], 3)
    assert found[1].replicas == [2]
    assert result_of(admin.list_partition_reassignments()) == {}


def test_moves_under_way_are_listed_and_can_be_cancelled(client: Client) -> None:
    client.cluster.create_topic("slow", 2, replication_factor=2)
    first, second = TopicPartition("slow", 0), TopicPartition("slow", 1)
    before = replicas_of(client, "slow")
    client.cluster.hold_reassignments()
    try:
        with admin_of(client) as admin:
            moves = {each: NewPartitionReassignment([3]) for each in (first, second)}
            for future in admin.alter_partition_reassignments(moves).values():
                expect_success(future)
            listed = result_of(admin.list_partition_reassignments())
            move = PartitionReassignment((3, 2), (), (2,))
            assert listed == {first: PartitionReassignment((3, 1, 2), (3,), (1, 2)), second: move}
            assert result_of(admin.list_partition_reassignments([second])) == {second: move}
            expect_success(admin.alter_partition_reassignments({first: None})[first])
            assert replicas_of(client, "slow") == before
            expect_error(
                admin.alter_partition_reassignments({first: None})[first],
                KafkaError.NO_REASSIGNMENT_IN_PROGRESS,
            )
            client.cluster.finish_reassignments()
            assert result_of(admin.list_partition_reassignments()) == {}
            assert replicas_of(client, "slow", 1) == [3]
    finally:
        client.cluster.finish_reassignments()


def test_replica_count_is_kept_but_not_by_old_brokers(client: Client, admin: AdminClient) -> None:
    client.cluster.create_topic("fixed", 1, replication_factor=2)
    place = TopicPartition("fixed", 0)
    move = {place: NewPartitionReassignment([3])}
    refused = admin.alter_partition_reassignments(move, allow_replication_factor_change=False)
    expect_error(refused[place], KafkaError.INVALID_REPLICATION_FACTOR)
    assert replicas_of(client, "fixed") == [1, 2]
    with cluster_and_admin(max_versions={ApiKey.ALTER_PARTITION_REASSIGNMENTS: 0}) as (old, admin):
        old.create_topic("fixed", 1, replication_factor=2)
        expect_error(
            admin.alter_partition_reassignments(move, allow_replication_factor_change=False)[place],
            KafkaError._INVALID_ARG,
        )
        expect_success(admin.alter_partition_reassignments(move)[place])
        assert old.topics["fixed"].partitions[0].replicas == [3]


def test_reassignments_follow_the_controller(client: Client, admin: AdminClient) -> None:
    client.cluster.create_topic("again", 1, replication_factor=1)
    place = TopicPartition("again", 0)
    client.cluster.clear_requests()
    client.cluster.push_request_errors(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS, [KafkaError.NOT_CONTROLLER, 0]
    )
    expect_success(
        admin.alter_partition_reassignments({place: NewPartitionReassignment([2])})[place]
    )
    seen = client.cluster.requests_of(ApiKey.ALTER_PARTITION_REASSIGNMENTS)
    assert [each.broker for each in seen] == [client.cluster.controller_id()] * 2
    client.cluster.push_request_errors(ApiKey.ALTER_PARTITION_REASSIGNMENTS, [CLOSE_CONNECTION])
    lost = admin.alter_partition_reassignments({place: NewPartitionReassignment([3])})[place]
    expect_error(lost, KafkaError._TRANSPORT)
    assert len(client.cluster.requests_of(ApiKey.ALTER_PARTITION_REASSIGNMENTS)) == 3


def test_invalid_reassignments_are_refused() -> None:
    bad: Any
    for bad in ([], [1, 1], [-1], [1 << 31]):
        with pytest.raises(ValueError, match=r"broker"):
            NewPartitionReassignment(bad)
    check_refused(NewPartitionReassignment, TypeError, ["1"], [True], [None])
    text = "NewPartitionReassignment(target_replicas=(1, 2))"
    assert repr(NewPartitionReassignment([1, 2])) == text


# --- log directories ---


def test_log_directories_have_sizes_and_replicas_move(client: Client, admin: AdminClient) -> None:
    client.cluster.create_topic("stored", 1, replication_factor=2)
    fill(client, "stored", 50)
    size = client.cluster.topics["stored"].partitions[0].log.size_bytes
    place = TopicPartition("stored", 0)
    described = admin.describe_log_dirs([1, 2, 3])
    for broker in (1, 2):
        first, second = directories(broker)
        found = result_of(described[broker])
        assert found[first].replica_infos[place] == ReplicaInfo(size, 0, False)
        assert place not in found[second].replica_infos
        assert (found[first].error, found[first].total_bytes) == (None, TOTAL_BYTES)
        assert 0 < found[first].usable_bytes <= TOTAL_BYTES - size
    assert all(place not in each.replica_infos for each in result_of(described[3]).values())

    unknown, fine, elsewhere = (TopicPartitionReplica("stored", 0, broker) for broker in (1, 2, 3))
    moved = admin.alter_replica_log_dirs(
        {fine: directories(2)[1], elsewhere: directories(3)[1], unknown: "/nowhere"}
    )
    expect_success(moved[fine])
    expect_error(moved[unknown], KafkaError.LOG_DIR_NOT_FOUND)
    expect_error(moved[elsewhere], KafkaError.REPLICA_NOT_AVAILABLE)  # without a retry
    after = result_of(admin.describe_log_dirs([2])[2])
    assert [place in after[path].replica_infos for path in directories(2)] == [False, True]


def test_log_directories_of_an_unknown_broker_fail(client: Client, admin: AdminClient) -> None:
    described = admin.describe_log_dirs([1, 77])
    assert set(result_of(described[1])) == set(directories(1))
    expect_error(described[77], KafkaError._UNKNOWN_BROKER)
    replica = TopicPartitionReplica("stored", 0, 77)
    expect_error(admin.alter_replica_log_dirs({replica: "/x"})[replica], KafkaError._UNKNOWN_BROKER)


def test_replicas_are_found_in_their_directories(client: Client, admin: AdminClient) -> None:
    client.cluster.create_topic("found", 2, replication_factor=2)
    fill(client, "found", 50)
    here, there, nowhere, unknown = (
        TopicPartitionReplica("found", 0, broker) for broker in (1, 2, 3, 77)
    )
    other = TopicPartitionReplica("found", 1, 2)
    expect_success(admin.alter_replica_log_dirs({there: directories(2)[1]})[there])
    described = admin.describe_replica_log_dirs([here, there, nowhere, unknown, other])
    assert result_of(described[here]) == ReplicaLogDirInfo(directories(1)[0], 0, None, -1)
    assert result_of(described[there]) == ReplicaLogDirInfo(directories(2)[1], 0, None, -1)
    assert result_of(described[other]) == ReplicaLogDirInfo(directories(2)[0], 0, None, -1)
    assert result_of(described[nowhere]) == ReplicaLogDirInfo(None, -1, None, -1)
    expect_error(described[unknown], KafkaError._UNKNOWN_BROKER)

    def moving(message: Any) -> None:
        topic = message.results[0].topics[0]
        copy = type(topic.partitions[0])(partition_index=0, offset_lag=7, is_future_key=True)
        message.results[1].topics = [type(topic)(name="found", partitions=[copy])]

    client.cluster.edit_responses(ApiKey.DESCRIBE_LOG_DIRS, moving)
    found = result_of(admin.describe_replica_log_dirs([here])[here])
    assert found == ReplicaLogDirInfo(directories(1)[0], 0, directories(1)[1], 7)

    def offline(message: Any) -> None:
        first = message.results[0]
        first.error_code, first.topics = KafkaError.KAFKA_STORAGE_ERROR, []

    client.cluster.edit_responses(ApiKey.DESCRIBE_LOG_DIRS, offline)
    expect_error(admin.describe_replica_log_dirs([here])[here], KafkaError.KAFKA_STORAGE_ERROR)
    with pytest.raises(TypeError, match="list of TopicPartitionReplica"):
        admin.describe_replica_log_dirs([TopicPartition("found", 0)])  # type: ignore[list-item]


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_log_directories_of_older_brokers(version: int) -> None:
    versions = {ApiKey.DESCRIBE_LOG_DIRS: version, ApiKey.ALTER_REPLICA_LOG_DIRS: 1}
    with cluster_and_admin(1, max_versions=versions) as (old, admin):
        old.create_topic("stored")
        found = result_of(admin.describe_log_dirs([1])[1])[directories(1)[0]]
        assert TopicPartition("stored", 0) in found.replica_infos
        assert found.total_bytes == (TOTAL_BYTES if version >= 4 else None)
        replica = TopicPartitionReplica("stored", 0, 1)
        expect_success(admin.alter_replica_log_dirs({replica: directories(1)[1]})[replica])
        old.edit_responses(ApiKey.DESCRIBE_LOG_DIRS, lambda message: message.results.clear())
        expect_error(admin.describe_log_dirs([1])[1], KafkaError.CLUSTER_AUTHORIZATION_FAILED)


def test_an_offline_log_directory_has_its_error(client: Client, admin: AdminClient) -> None:
    def fail(message: Any) -> None:
        message.results[0].error_code = KafkaError.KAFKA_STORAGE_ERROR

    client.cluster.edit_responses(ApiKey.DESCRIBE_LOG_DIRS, fail)
    found = result_of(admin.describe_log_dirs([1])[1])
    assert found[directories(1)[0]].error.code() == KafkaError.KAFKA_STORAGE_ERROR
    assert found[directories(1)[1]].error is None


# --- topics page by page ---


def test_topics_come_in_pages(client: Client, admin: AdminClient) -> None:
    names = [client.topic(count) for count in (3, 1, 4)]
    pages = list(
        admin.describe_topic_partitions(TopicCollection([*names, "never-was"]), partition_limit=2)
    )
    sizes = [sum(len(topic.partitions) for topic in page.topics) for page in pages[:4]]
    assert sizes == [2, 2, 2, 2]
    found: dict[str, list[int]] = {}
    for page in pages:
        for topic in page.topics:
            found.setdefault(topic.name, []).extend(each.id for each in topic.partitions)
            if topic.error is not None:
                assert topic.name == "never-was"
                assert topic.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    ids = {names[0]: [0, 1, 2], names[1]: [0], names[2]: [0, 1, 2, 3], "never-was": []}
    assert found == ids
    assert pages[0].next_cursor == TopicPartitionsCursor(sorted(names)[0], 2)
    assert pages[-1].next_cursor is None
    (partition,) = [each for each in pages[0].topics[-1].partitions if not each.id]
    assert partition.leader == client.cluster.leader(pages[0].topics[-1].name, 0)
    assert (partition.eligible_leader_replicas, partition.error) == ((), None)
    everything = [each.name for page in admin.describe_topic_partitions() for each in page.topics]
    assert set(names) <= set(everything)


def test_a_failed_page_is_requested_again(client: Client) -> None:
    name = client.topic(3)
    with admin_of(client) as admin:
        admin.list_topics()  # connects the client
        pages = admin.describe_topic_partitions(
            TopicCollection([name]), partition_limit=2, request_timeout=1.0
        )
        assert len(next(pages).topics[0].partitions) == 2
        client.cluster.delay_responses(None, 3.0, ApiKey.DESCRIBE_TOPIC_PARTITIONS)
        try:
            with pytest.raises(KafkaException) as late:
                next(pages)
            assert late.value.args[0].code() == KafkaError._TIMED_OUT
        finally:
            client.cluster.delay_responses(None, 0, ApiKey.DESCRIBE_TOPIC_PARTITIONS)
    with admin_of(client) as admin:
        pages = admin.describe_topic_partitions(TopicCollection([name]), partition_limit=2)
        next(pages)
        client.cluster.push_request_errors(ApiKey.DESCRIBE_TOPIC_PARTITIONS, [CLOSE_CONNECTION])
        assert [each.id for each in next(pages).topics[0].partitions] == [2], (
            "the client has repeated the request"
        )
        with pytest.raises(StopIteration):
            next(pages)


def test_a_page_that_repeats_its_cursor_is_an_error(client: Client, admin: AdminClient) -> None:
    name = client.topic(6)

    def stay(message: Any) -> None:
        message.next_cursor.partition_index = 2

    pages = admin.describe_topic_partitions(TopicCollection([name]), partition_limit=2)
    next(pages)
    client.cluster.edit_responses(ApiKey.DESCRIBE_TOPIC_PARTITIONS, stay)
    with pytest.raises(KafkaException) as bad:
        next(pages)
    assert bad.value.args[0].code() == KafkaError._BAD_MSG


def test_pages_can_be_awaited(client: Client, admin: AdminClient) -> None:
    name = client.topic(3)

    async def ids(admin: AdminClient) -> list[int]:
        pages = admin.describe_topic_partitions(TopicCollection([name]), partition_limit=1)
        return [
            each.id async for page in pages for topic in page.topics for each in topic.partitions
        ]

    assert asyncio.run(ids(admin)) == [0, 1, 2]


def test_a_broker_without_pages_returns_everything_in_one() -> None:
    versions = {ApiKey.DESCRIBE_TOPIC_PARTITIONS: -1}
    with cluster_and_admin(1, max_versions=versions) as (old, admin):
        for name, count in (("b", 3), ("a", 1)):
            old.create_topic(name, count)
        for asked in (None, TopicCollection(["b", "a"])):
            (page,) = admin.describe_topic_partitions(asked, partition_limit=1)
            counts = {each.name: len(each.partitions) for each in page.topics}
            assert list(counts.items()) == [("a", 1), ("b", 3)]
            assert page.topics[0].partitions[0].eligible_leader_replicas is None


# --- metadata of created topics (KIP-525) ---


def test_created_topics_are_returned_with_metadata(client: Client, admin: AdminClient) -> None:
    new = [NewTopic("created", 3, 2, config={"retention.ms": "5000"}), NewTopic("created", 1)]
    tried = result_of(
        admin.create_topics(new[:1], validate_only=True, include_metadata=True)["created"]
    )
    assert (tried.num_partitions, tried.topic_id) == (3, None)
    made = result_of(admin.create_topics(new[:1], include_metadata=True)["created"])
    assert (made.error, made.num_partitions, made.replication_factor) == (None, 3, 2)
    assert bytes(made.topic_id) == client.cluster.topic_id("created")
    retention = made.config["retention.ms"]
    assert (retention.value, retention.is_default) == ("5000", False)
    assert made.config["cleanup.policy"].is_default

    def hide(message: Any) -> None:
        (topic,) = message.topics
        topic.topic_config_error_code = KafkaError.TOPIC_AUTHORIZATION_FAILED
        topic.num_partitions, topic.replication_factor, topic.configs = -1, -1, None

    client.cluster.edit_responses(ApiKey.CREATE_TOPICS, hide)
    hidden = result_of(
        admin.create_topics([NewTopic("hidden", 1)], include_metadata=True)["hidden"]
    )
    assert hidden.error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert (hidden.num_partitions, hidden.config) == (None, {})
    again = admin.create_topics(new[:1], include_metadata=True)["created"]
    expect_error(again, KafkaError.TOPIC_ALREADY_EXISTS)
    with cluster_and_admin(1, max_versions={ApiKey.CREATE_TOPICS: 4}) as (old, admin):
        made = result_of(admin.create_topics([NewTopic("old", 1)], include_metadata=True)["old"])
        assert made.error.code() == KafkaError._UNSUPPORTED_FEATURE
        assert "old" in old.topics


def test_invalid_arguments_are_refused(client: Client, admin: AdminClient) -> None:
    place, replica = TopicPartition("a", 0), TopicPartitionReplica("a", 0, 1)
    call: Any
    for call, wrong in {
        admin.alter_partition_reassignments: [None, [place], {"a": None}, {place: [1]}],
        admin.list_partition_reassignments: [place, ["a"]],
        admin.describe_log_dirs: [None, 1, ["1"], [1.0]],
        admin.alter_replica_log_dirs: [None, {place: "/x"}, {replica: 1}],
        admin.describe_topic_partitions: [["a"], "a"],
    }.items():
        check_refused(call, TypeError, *wrong)
    for call, wrong in {
        admin.alter_partition_reassignments: [
            {},
            {TopicPartition("a", -1): None},
            {TopicPartition(""): None},
        ],
        admin.list_partition_reassignments: [[TopicPartition("a", -1)]],
        admin.describe_log_dirs: [[], [-1], [1 << 31]],
        admin.alter_replica_log_dirs: [
            {},
            {replica: ""},
            {TopicPartitionReplica("", 0, 1): "/x"},
        ],
        admin.describe_topic_partitions: [TopicCollection([])],
    }.items():
        check_refused(call, ValueError, *wrong, match=r".")
    with pytest.raises(ValueError, match="partition_limit"):
        admin.describe_topic_partitions(partition_limit=0)
