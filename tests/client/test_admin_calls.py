"""AdminClient: cluster, settings, groups, offsets, records, and where requests go."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from kafka_native import (
    OFFSET_END,
    OFFSET_INVALID,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from kafka_native.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitionReassignment,
    NewTopic,
    OffsetSpec,
    base,
)
from kafka_native.control import operations
from kafka_native.mock import MockCluster
from kafka_native.mock.faults import CLOSE_CONNECTION
from kafka_native.protocol import ApiKey
from tests.waiting import WAIT_S

from .admin_support import (
    admin_of,
    changed,
    cluster_and_admin,
    expect_error,
    expect_success,
    member,
    result_of,
    stable,
)
from .support import Client, check_refused, fill, filled, partitions_of


def test_the_cluster_and_its_topics_are_described(client: Client, admin: AdminClient) -> None:
    topic = client.topic(2)
    cluster = result_of(admin.describe_cluster(include_authorized_operations=True))
    assert [node.id for node in cluster.nodes] == [1, 2, 3]
    assert cluster.controller.id == client.cluster.controller_id()
    assert cluster.cluster_id == admin.list_topics(timeout=WAIT_S).cluster_id
    described = admin.describe_topics(TopicCollection([topic, "never-was"]))
    found = result_of(described[topic])
    assert (found.name, found.is_internal) == (topic, False)
    assert [each.id for each in found.partitions] == [0, 1]
    assert bytes(found.topic_id) == client.cluster.topic_id(topic)
    assert found.partitions[0].leader.id == client.cluster.leader(topic, 0)
    assert {node.id for node in found.partitions[0].isr} == {1, 2, 3}
    expect_error(described["never-was"], KafkaError.UNKNOWN_TOPIC_OR_PART)
    assert admin.describe_topics(TopicCollection([])) == {}
    with pytest.raises(TypeError):
        admin.describe_topics([topic])  # type: ignore[arg-type]


def test_a_partition_without_a_leader_is_described_without_one() -> None:
    with cluster_and_admin() as (cluster, admin):
        cluster.create_topic("single", 2, replication_factor=1)
        down = cluster.leader("single", 0)
        cluster.broker_down(down)
        described = admin.describe_topics(TopicCollection(["single"]))["single"]
        without, other = result_of(described).partitions
        assert without.leader is None
        assert [node.id for node in without.replicas] == [down]
        assert other.leader.id == cluster.leader("single", 1)


def test_a_cluster_without_describe_cluster_is_described_by_its_metadata() -> None:
    with cluster_and_admin(max_versions={ApiKey.DESCRIBE_CLUSTER: -1}) as (old, admin):
        cluster = result_of(admin.describe_cluster())
        assert [node.id for node in cluster.nodes] == old.broker_ids
        assert cluster.controller.id == old.controller_id()


def test_settings_are_described_and_changed(client: Client, topic: str, admin: AdminClient) -> None:
    resource = ConfigResource("topic", topic)
    before = result_of(admin.describe_configs([resource])[resource])["retention.ms"]
    assert (before.is_default, before.source) == (True, ConfigSource.DEFAULT_CONFIG.value)
    tried = admin.incremental_alter_configs(
        [changed("topic", topic, retention_ms="7000")], validate_only=True
    )
    expect_success(tried[resource])
    assert "retention.ms" not in client.cluster.topics[topic].configs
    missing = changed("topic", "never-was", retention_ms="7000")
    done = admin.incremental_alter_configs([changed("topic", topic, retention_ms="7000"), missing])
    expect_success(done[resource])
    expect_error(done[missing], KafkaError.UNKNOWN_TOPIC_OR_PART)
    after = result_of(admin.describe_configs([resource])[resource])["retention.ms"]
    assert (after.value, after.is_default) == ("7000", False)
    assert after.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    expect_success(
        admin.incremental_alter_configs([changed("topic", topic, retention_ms=None)])[resource]
    )
    unset = result_of(admin.describe_configs([resource])[resource])["retention.ms"]
    assert unset.value == before.value


def test_a_broker_is_asked_for_its_own_settings(client: Client, admin: AdminClient) -> None:
    brokers = [ConfigResource("broker", "2"), ConfigResource("broker", "3")]
    bad = [
        ConfigResource("broker", "77"),
        ConfigResource("broker", "x"),
        ConfigResource("transactional_id", "t"),
    ]
    client.cluster.clear_requests()
    futures = admin.describe_configs([*brokers, *bad])
    for resource in brokers:
        assert "message.max.bytes" in result_of(futures[resource])
    expect_error(futures[bad[0]], KafkaError._UNKNOWN_BROKER)
    for resource in bad[1:]:
        expect_error(futures[resource], KafkaError._INVALID_ARG)
    requests = client.cluster.requests_of(ApiKey.DESCRIBE_CONFIGS)
    assert {each.broker for each in requests} == {2, 3}
    client.cluster.clear_requests()
    futures = admin.describe_configs([ConfigResource("topic", client.topic())], broker=3)
    result_of(futures.popitem()[1])  # the caller may change the dict
    assert [seen.broker for seen in client.cluster.requests_of(ApiKey.DESCRIBE_CONFIGS)] == [3]


def test_an_impossible_broker_id_fails_alone(client: Client, admin: AdminClient) -> None:
    topic = ConfigResource("topic", client.topic())
    ids = [ConfigResource("broker", each) for each in (str(1 << 31), "1" * 5000)]
    futures = admin.describe_configs([topic, *ids])
    assert "retention.ms" in result_of(futures[topic])
    for each in ids:
        expect_error(futures[each], KafkaError._INVALID_ARG)


def test_bad_settings(client: Client, admin: AdminClient) -> None:
    check_refused(admin.describe_configs, TypeError, None, ["x"], "x")
    with pytest.raises(ValueError, match="incremental_configs"):
        admin.incremental_alter_configs([ConfigResource("topic", "t", {"retention.ms": "1"})])
    for entry in (
        ConfigEntry("n", "v"),
        ConfigEntry("n", None, incremental_operation=AlterConfigOpType.SET),
    ):
        with pytest.raises(TypeError):
            admin.incremental_alter_configs(
                [ConfigResource("topic", "t", incremental_configs=[entry])]
            )


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_groups_are_listed_described_and_deleted(
    client: Client, admin: AdminClient, protocol: str
) -> None:
    topic, group = client.topic(2), f"group-{protocol}"
    fill(client, topic, 3, partition=0)
    kind = ConsumerGroupType[protocol.upper()]
    conf = {"group.protocol": protocol, "client.id": "the reader"}
    with member(client, group, topic, **conf) as consumer:
        described = stable(admin, group, 2)
        listed = result_of(
            admin.list_consumer_groups(states={ConsumerGroupState.STABLE}, types={kind})
        )
        assert listed.errors == []
        (found,) = [each for each in listed.valid if each.group_id == group]
        assert (found.state, found.type) == (ConsumerGroupState.STABLE, kind)
        assert not found.is_simple_consumer_group
        assert described.type is kind
        (one,) = described.members
        assert (one.member_id, one.client_id) == (consumer.memberid(), "the reader")
        assert one.assignment.topic_partitions == partitions_of(topic, 2)
        assert described.coordinator.id in {1, 2, 3}
        nobody = admin.describe_consumer_groups([group, "nobody"])["nobody"]
        assert result_of(nobody).state is ConsumerGroupState.DEAD
        expect_error(admin.delete_consumer_groups([group])[group], KafkaError.NON_EMPTY_GROUP)
    gone = admin.delete_consumer_groups([group, "nobody"])
    expect_success(gone[group])
    expect_error(gone["nobody"], KafkaError.GROUP_ID_NOT_FOUND)
    assert group not in {each.group_id for each in result_of(admin.list_consumer_groups()).valid}


def test_list_groups_has_the_members(client: Client, admin: AdminClient) -> None:
    topic = filled(client, 1)
    with member(client, "listed", topic) as consumer:
        stable(admin, "listed", 1)
        (found,) = admin.list_groups("listed", WAIT_S)
        assert (found.id, found.state, found.protocol_type) == ("listed", "Stable", "consumer")
        assert [each.id for each in found.members] == [consumer.memberid()]
        assert found.members[0].assignment
        assert "listed" in {each.id for each in admin.list_groups(timeout=WAIT_S)}
        assert admin.list_groups("nobody", WAIT_S) == []


def test_list_groups_asks_again_when_a_connection_ends(client: Client, admin: AdminClient) -> None:
    topic = filled(client, 1)
    with member(client, "listed-twice", topic):
        stable(admin, "listed-twice", 1)
        for key in (ApiKey.LIST_GROUPS, ApiKey.DESCRIBE_GROUPS):
            client.cluster.push_request_errors(key, [CLOSE_CONNECTION])
            (found,) = admin.list_groups("listed-twice", WAIT_S)
            assert (found.error, len(found.members)) == (None, 1)


def test_groups_of_a_broker_that_leaves_meanwhile_are_listed() -> None:
    with MockCluster(brokers=3) as cluster:
        client = Client(cluster)
        group = next(name for name in map(str, range(100)) if _coordinator(cluster, name) == 3)
        with (
            member(client, group, filled(client, 1), **{"group.protocol": "consumer"}),
            admin_of(client, **{"retry.backoff.ms": 500}) as admin,
            ThreadPoolExecutor(1) as pool,
        ):
            port = int(cluster.address(3).rpartition(":")[2])
            loading = [KafkaError.COORDINATOR_LOAD_IN_PROGRESS]
            cluster.push_request_errors(ApiKey.LIST_GROUPS, loading, broker=2)
            listing = pool.submit(admin.list_groups, None, WAIT_S)
            cluster.wait_for_requests(ApiKey.LIST_GROUPS, 3)
            cluster.remove_broker(3)  # the next metadata don't have it
            (found,) = listing.result(WAIT_S)
            assert found.id == group
            assert found.broker is not None
            assert (found.broker.id, found.broker.port) == (3, port)


def _coordinator(cluster: MockCluster, group: str) -> int:
    found = cluster.coordinator_of(group)
    assert found is not None
    return found.id


def test_a_refusal_to_list_groups_is_among_the_errors(client: Client, admin: AdminClient) -> None:
    client.cluster.push_request_errors(
        ApiKey.LIST_GROUPS, [KafkaError.CLUSTER_AUTHORIZATION_FAILED], broker=2
    )
    (error,) = result_of(admin.list_consumer_groups()).errors
    assert error.args[0].code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED


def test_coordinators_share_lookups_also_after_a_move(client: Client, admin: AdminClient) -> None:
    groups = [f"together-{number}" for number in range(8)]

    def moved(reply: Any) -> None:
        for each in reply.results:
            each.error_code = KafkaError.NOT_COORDINATOR

    client.cluster.clear_requests()
    client.cluster.edit_responses(ApiKey.DELETE_GROUPS, moved, broker=1)
    for future in admin.delete_consumer_groups(groups).values():
        expect_error(future, KafkaError.GROUP_ID_NOT_FOUND)
    asked = client.cluster.requests_of(ApiKey.DELETE_GROUPS)
    assert {each.broker for each in asked} == {1, 2, 3}
    assert [each.broker for each in asked].count(1) == 2
    assert len(client.cluster.requests_of(ApiKey.FIND_COORDINATOR)) == 2


@pytest.mark.parametrize("version", [3, 7, 9, 10])
def test_committed_offsets_are_listed(version: int) -> None:
    versions = {ApiKey.OFFSET_FETCH: version, ApiKey.FIND_COORDINATOR: 3}
    with MockCluster(brokers=3, max_versions=versions) as cluster:
        client = Client(cluster)
        topic = client.topic(2)
        fill(client, topic, 3, partition=1)
        with member(client, "kept", topic):
            pass
        with admin_of(client) as admin:
            found = result_of(
                admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("kept")])["kept"]
            )
            places = {(each.topic, each.partition): each.offset for each in found.topic_partitions}
            assert places[topic, 1] >= 1
            wanted = [*partitions_of(topic, 2), TopicPartition("never-was", 4)]
            asked = ConsumerGroupTopicPartitions("kept", wanted)
            found = result_of(admin.list_consumer_group_offsets([asked])["kept"])
            assert found.topic_partitions == wanted
            offsets = [each.offset for each in found.topic_partitions]
            assert offsets == [OFFSET_INVALID, places[topic, 1], OFFSET_INVALID]
            nobody = ConsumerGroupTopicPartitions("nobody")
            found = result_of(admin.list_consumer_group_offsets([nobody])["nobody"])
            assert found.topic_partitions == []


@pytest.mark.parametrize("version", [5, 7, 8, 9])
def test_groups_of_one_coordinator_share_a_request(version: int) -> None:
    groups = [f"together-{number}" for number in range(20)]
    with MockCluster(brokers=3, max_versions={ApiKey.OFFSET_FETCH: version}) as cluster:
        topic = Client(cluster).topic(2)
        for number, group in enumerate(groups):
            cluster.set_committed(group, {(topic, 1): number})
        with admin_of(Client(cluster)) as admin:
            wanted = [
                ConsumerGroupTopicPartitions(
                    group, None if group[-1] == "0" else [TopicPartition(topic, 1)]
                )
                for group in groups
            ]
            cluster.push_request_errors(ApiKey.OFFSET_FETCH, [KafkaError.NOT_COORDINATOR])
            twice = ConsumerGroupTopicPartitions("twice", [TopicPartition(topic, 0)] * 2)
            futures = admin.list_consumer_group_offsets(
                [*wanted, twice, ConsumerGroupTopicPartitions("nobody")]
            )
            for number, group in enumerate(groups):
                (found,) = result_of(futures[group]).topic_partitions
                assert (found.partition, found.offset) == (1, number)
            assert result_of(futures["nobody"]).topic_partitions == []
            with pytest.raises(KafkaException, match="Duplicate partitions"):
                result_of(futures["twice"])
            requests = [each for each in cluster.requests if each.api_key == ApiKey.OFFSET_FETCH]
            assert {each.version for each in requests} == {version}
            if version >= 8:
                assert len(requests) <= 2 * 3, "one for each broker, and again if it was refused"
            else:
                assert len(requests) >= len(groups)


def test_offsets_are_altered_in_a_group_without_members(client: Client, admin: AdminClient) -> None:
    topic = client.topic(2)
    fill(client, topic, 3, partition=0)
    wanted = [
        TopicPartition(topic, 0, 2, "noted", 0),
        TopicPartition(topic, 1, 0),
        TopicPartition("never-was", 0, 1),
    ]

    def moved(reply: Any) -> None:
        for each in reply.topics:
            for partition in each.partitions:
                partition.error_code = KafkaError.NOT_COORDINATOR

    client.cluster.edit_responses(ApiKey.OFFSET_COMMIT, moved)
    done = result_of(
        admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions("moved", wanted)])["moved"]
    )
    errors = [each.error and each.error.code() for each in done.topic_partitions]
    assert errors == [None, None, KafkaError.UNKNOWN_TOPIC_OR_PART]
    found = result_of(
        admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("moved")])["moved"]
    )
    kept = sorted((each.partition, each.offset, each.metadata) for each in found.topic_partitions)
    assert kept == [(0, 2, "noted"), (1, 0, None)]
    with member(client, "busy", topic):
        stable(admin, "busy", 2)
        asked = ConsumerGroupTopicPartitions("busy", wanted[:1])
        (refused,) = result_of(admin.alter_consumer_group_offsets([asked])["busy"]).topic_partitions
        assert refused.error.code() == KafkaError.UNKNOWN_MEMBER_ID


def test_bad_requests_for_committed_offsets(client: Client, admin: AdminClient) -> None:
    one = ConsumerGroupTopicPartitions
    bad: Any
    for bad in (None, ["g"], [one(1)], [one("g", ["x"])]):  # type: ignore[arg-type, list-item]
        with pytest.raises(TypeError):
            admin.list_consumer_group_offsets(bad)
    wrong = [
        one(""),
        one("g", []),
        one("g", [TopicPartition("t", 0, 5)]),
        one("g", [TopicPartition("t", -1)]),
    ]
    for bad in ([], *([each] for each in wrong), [one("g"), one("")]):
        with pytest.raises(ValueError, match=r"group|partition"):
            admin.list_consumer_group_offsets(bad)
    two: Any = [one(name, [TopicPartition("t", 0, 5)]) for name in ("g", "h")]
    with pytest.raises(ValueError, match="single consumer group"):
        admin.alter_consumer_group_offsets(two)


def test_offsets_are_found_when_a_leader_has_moved(client: Client, admin: AdminClient) -> None:
    topic = client.topic(2)
    fill(client, topic, 10, partition=0)
    first, second, missing = (TopicPartition(topic, number) for number in (0, 1, 9))
    nowhere = TopicPartition("never-was", 0)
    client.cluster.push_request_errors(
        ApiKey.LIST_OFFSETS, [KafkaError.NOT_LEADER_FOR_PARTITION], topic=topic, partition=0
    )
    spec = {first: OffsetSpec.latest(), second: OffsetSpec.earliest()}
    spec |= {missing: OffsetSpec.latest(), nowhere: OffsetSpec.latest()}
    found = admin.list_offsets(spec, isolation_level=IsolationLevel.READ_COMMITTED)
    assert result_of(found[first]).offset == 10
    assert result_of(found[second]).offset == 0
    expect_error(found[missing], KafkaError._UNKNOWN_PARTITION)
    expect_error(found[nowhere], KafkaError.UNKNOWN_TOPIC_OR_PART)
    assert result_of(admin.list_offsets({first: OffsetSpec.for_timestamp(1)})[first]).offset == 0
    newest = result_of(admin.list_offsets({first: OffsetSpec.max_timestamp()})[first])
    assert newest.timestamp > 0
    assert admin.list_offsets({}) == {}


def test_an_older_broker_is_not_asked_for_the_highest_timestamp() -> None:
    with cluster_and_admin(max_versions={ApiKey.LIST_OFFSETS: 6}) as (old, admin):
        place = TopicPartition(Client(old).topic(), 0)
        future = admin.list_offsets({place: OffsetSpec.max_timestamp()})[place]
        expect_error(future, KafkaError._UNSUPPORTED_FEATURE)
        assert old.requests_of(ApiKey.LIST_OFFSETS) == []


def test_records_are_deleted(client: Client, admin: AdminClient) -> None:
    topic = client.topic(2)
    fill(client, topic, 10, partition=0)
    some, beyond = TopicPartition(topic, 0, 4), TopicPartition(topic, 1, 99)
    futures = admin.delete_records([some, beyond])
    assert result_of(futures[some]).low_watermark == 4
    assert client.cluster.watermarks(topic, 0) == (4, 10)
    expect_error(futures[beyond], KafkaError.OFFSET_OUT_OF_RANGE)
    whole = TopicPartition(topic, 0, OFFSET_END)
    assert result_of(admin.delete_records([whole])[whole]).low_watermark == 10
    bad: Any
    check_refused(admin.delete_records, TypeError, None, ["x"], {})
    for bad in (TopicPartition(topic, -1, 1), TopicPartition("", 0, 1)):
        with pytest.raises(ValueError, match="partition"):
            admin.delete_records([bad])


def test_partitions_may_be_changed_once_a_call_has_returned(
    client: Client, admin: AdminClient
) -> None:
    topic = client.topic(2)
    fill(client, topic, 10, partition=0)
    place = TopicPartition(topic, 0, 4)
    deleted = admin.delete_records([place])
    place.offset, place.partition = 9, 1
    assert result_of(deleted[TopicPartition(topic, 0)]).low_watermark == 4

    place = TopicPartition(topic, 0, 5)
    group = ConsumerGroupTopicPartitions("reused", [place])
    altered = admin.alter_consumer_group_offsets([group])["reused"]
    place.offset = 8
    group.topic_partitions = [TopicPartition(topic, 1, 8)]
    (found,) = result_of(altered).topic_partitions
    assert (found.partition, found.offset, found.error) == (0, 5, None)

    place.offset = OFFSET_INVALID
    group.topic_partitions = [place]
    listed = admin.list_consumer_group_offsets([group])["reused"]
    group.topic_partitions.clear()
    assert [each.offset for each in result_of(listed).topic_partitions] == [5]

    # a call that returns futures by partition
    calls: dict[str, Callable[[TopicPartition], dict[TopicPartition, Future[Any]]]] = {
        "list_offsets": lambda each: admin.list_offsets({each: OffsetSpec.latest()}),
        "describe_producers": lambda each: admin.describe_producers([each]),
        "delete_offsets": lambda each: admin.delete_consumer_group_offsets("reused", [each]),
        "reassign": lambda each: admin.alter_partition_reassignments(
            {each: NewPartitionReassignment([1, 2, 3])}
        ),
        "alter_share": lambda each: admin.alter_share_group_offsets("shared", {each: 1}),
    }
    for name, call in calls.items():
        place = TopicPartition(topic, 0)
        futures = call(place)
        place.partition = 1
        assert [*futures] == [TopicPartition(topic, 0)], name
        error = futures[TopicPartition(topic, 0)].exception(WAIT_S)
        assert error is None or isinstance(error, KafkaException), name


def test_a_partition_missing_from_the_response_fails(client: Client, admin: AdminClient) -> None:
    place = TopicPartition(client.topic(), 0)
    client.cluster.edit_responses(ApiKey.LIST_OFFSETS, lambda reply: reply.topics.clear())
    expect_error(admin.list_offsets({place: OffsetSpec.latest()})[place], KafkaError._BAD_MSG)


# --- large requests ---


def test_too_long_names_fail_alone_without_a_request(client: Client, admin: AdminClient) -> None:
    name, longer = client.topic(), "x" * 0x8000  # Kafka's strings end at 32767 bytes
    made = admin.create_topics(
        [NewTopic("fits", 1), NewTopic(longer, 1), NewTopic("huge", 1, config={"a": longer})]
    )
    expect_success(made["fits"])
    for each in (longer, "huge"):
        expect_error(made[each], KafkaError._INVALID_ARG)
        with pytest.raises(KafkaException, match="too long"):
            result_of(made[each])
    assert "huge" not in client.cluster.topics
    found = admin.describe_consumer_groups(["there", longer])
    assert result_of(found["there"]).state is ConsumerGroupState.DEAD
    expect_error(found[longer], KafkaError._INVALID_ARG)
    assert name in admin.list_topics(timeout=WAIT_S).topics


def test_requests_are_split_at_the_maximum_size(
    client: Client, admin: AdminClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = 1000
    monkeypatch.setattr(operations, "REQUEST_MAX_BYTES", limit)
    monkeypatch.setattr(base, "REQUEST_MAX_BYTES", limit)
    names = [f"large-{number}" for number in range(40)]
    sizes: list[int] = []
    client.cluster.edit_responses(
        ApiKey.CREATE_TOPICS, lambda message: sizes.append(len(message.topics)), count=100
    )
    topics = [
        NewTopic(each, 1, config={"cleanup.policy": "compact" + ",compact" * 8}) for each in names
    ]
    made = admin.create_topics(
        [*topics, NewTopic("alone", 1, config={"cleanup.policy": "x" * limit})]
    )
    assert [result_of(made[each]) for each in names] == [None] * 40
    expect_error(made["alone"], KafkaError.MSG_SIZE_TOO_LARGE)
    assert {*names} <= client.cluster.topics.keys()
    assert len(sizes) > 3
    assert sum(sizes) == 40
    assert "alone" not in client.cluster.topics


def test_fenced_brokers_are_described_on_request() -> None:
    with cluster_and_admin(brokers=3) as (cluster, admin):
        cluster.remove_broker(3)
        assert {each.id for each in result_of(admin.describe_cluster()).nodes} == {1, 2}
        found = result_of(admin.describe_cluster(include_fenced_brokers=True)).nodes
        assert {each.id: each.is_fenced for each in found} == {1: False, 2: False, 3: True}
    with cluster_and_admin(1, max_versions={ApiKey.DESCRIBE_CLUSTER: 1}) as (_, admin):
        expect_error(admin.describe_cluster(include_fenced_brokers=True), KafkaError._INVALID_ARG)
        assert len(result_of(admin.describe_cluster()).nodes) == 1
