"""AdminClient: share groups and streams groups, on the mock cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafka_native import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from kafka_native.admin import (
    AdminClient,
    SharePartitionOffsetInfo,
    StreamsGroupTopologyDescription,
    StreamsGroupTopologyDescriptionStatus,
    StreamsTaskOffset,
    StreamsTopicInfo,
    StreamsTopologyGlobalStore,
    StreamsTopologyNode,
    StreamsTopologyNodeType,
    StreamsTopologySubtopology,
)
from kafka_native.aio import AIOAdminClient
from kafka_native.mock.faults import CLOSE_CONNECTION
from kafka_native.protocol import ApiKey
from kafka_native.protocol.streams import (
    Endpoint,
    KeyValue,
    StreamsGroupDescribeResponse,
    TaskIds,
    TaskOffset,
    TopicInfo,
    TopologyDescription,
    TopologyNode,
)
from tests.aio.support import run
from tests.waiting import WAIT_S

from .admin_support import cluster_and_admin, expect_error, expect_success, result_of
from .share_support import new_group, sharing, take, values
from .support import Client, fill, partitions_of


def listed(
    admin: AdminClient, **how: Any
) -> dict[str, tuple[ConsumerGroupType, ConsumerGroupState]]:
    return {
        each.group_id: (each.type, each.state)
        for each in result_of(admin.list_consumer_groups(**how)).valid
    }


# --- share groups ---


def test_share_groups_are_described_with_their_members(client: Client, admin: AdminClient) -> None:
    topic, group = client.topic(2), new_group(client)
    with sharing(client, group, topic, client_id="sharer") as consumer:
        consumer.poll(0.2)
        described = admin.describe_share_groups([group, "nobody"])
        expect_error(described["nobody"], KafkaError.GROUP_ID_NOT_FOUND)
        found = result_of(described[group])
        assert (found.group_id, found.group_state) == (group, ConsumerGroupState.STABLE)
        assert found.coordinator.id == client.cluster.coordinator_of(group).id
        assert found.group_epoch == found.target_assignment_epoch == 1
        assert found.authorized_operations is None
        (member,) = found.members
        assert member.consumer_id == client.cluster.share.members(group)[0]
        assert member.client_id == "sharer"
        assert member.assignment.topic_partitions == partitions_of(topic, 2)
        for api, calls in (
            (ApiKey.SHARE_GROUP_DESCRIBE, admin.describe_share_groups),
            (
                ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
                lambda names: admin.list_share_group_offsets({names[0]: None}),
            ),
        ):
            moved = [KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS]
            client.cluster.push_request_errors(api, moved)
            assert result_of(calls([group])[group])
            client.cluster.push_request_errors(api, [KafkaError.GROUP_AUTHORIZATION_FAILED])
            expect_error(calls([group])[group], KafkaError.GROUP_AUTHORIZATION_FAILED)


def test_groups_are_listed_by_their_type(client: Client, admin: AdminClient) -> None:
    topic, group = client.topic(), new_group(client)
    kinds = {ConsumerGroupType.SHARE, ConsumerGroupType.STREAMS}
    client.cluster.set_streams_group(
        StreamsGroupDescribeResponse.Group(group_id="app", group_state="NotReady")
    )
    client.cluster.set_committed("classic", {(topic, 0): 1})
    with sharing(client, group, topic) as consumer:
        consumer.poll(0.2)
        share = (ConsumerGroupType.SHARE, ConsumerGroupState.STABLE)
        streams = (ConsumerGroupType.STREAMS, ConsumerGroupState.NOT_READY)
        others = listed(admin, types=kinds)
        assert (others[group], others["app"]) == (share, streams)
        assert "classic" not in others
        consumers = listed(admin)
        assert not {group, "app"} & consumers.keys()
        assert "classic" in consumers
        shared = {ConsumerGroupType.SHARE}
        assert group in listed(admin, types=shared, states={ConsumerGroupState.STABLE})
        assert group not in listed(admin, types=shared, states={ConsumerGroupState.EMPTY})
        (one,) = admin.list_groups(group, WAIT_S)
        assert (one.type, one.state) == (share[0], "Stable")
        assert (one.protocol_type, one.error) == ("share", None)
        assert {group, "app"} <= {
            each.id for each in admin.list_groups(timeout=WAIT_S, types=kinds)
        }
        assert admin.list_groups(group, WAIT_S, states={ConsumerGroupState.EMPTY}) == []
        with pytest.raises(ValueError, match="UNKNOWN type"):
            admin.list_groups(types={ConsumerGroupType.UNKNOWN})


def test_share_group_offsets_are_listed_altered_deleted(client: Client, admin: AdminClient) -> None:
    topic, group = client.topic(2), new_group(client)
    fill(client, topic, 5, partition=0)
    first, second, unknown = (TopicPartition(topic, number) for number in (0, 1, 7))
    with sharing(client, group, topic) as consumer:
        assert len(take(consumer, 5)) == 5
        consumer.commit_sync()
        expect_error(
            admin.alter_share_group_offsets(group, {first: 0})[first], KafkaError.NON_EMPTY_GROUP
        )
        expect_error(
            admin.delete_share_group_offsets(group, [topic])[topic], KafkaError.NON_EMPTY_GROUP
        )
        expect_error(admin.delete_share_groups([group])[group], KafkaError.NON_EMPTY_GROUP)
    found = admin.list_share_group_offsets({group: [first, unknown], "nobody": None})
    assert result_of(found["nobody"]) == {}
    offsets = result_of(found[group])
    assert offsets[first] == SharePartitionOffsetInfo(5, 0, 0)
    assert offsets[unknown] is None
    every = result_of(admin.list_share_group_offsets({group: None})[group])
    assert every.keys() == {first, second}
    client.cluster.push_request_errors(
        ApiKey.ALTER_SHARE_GROUP_OFFSETS, [KafkaError.NOT_COORDINATOR]
    )
    altered = admin.alter_share_group_offsets(group, {first: 2, unknown: 0, second: -1})
    expect_success(altered[first])
    expect_error(altered[unknown], KafkaError.UNKNOWN_TOPIC_OR_PART)
    expect_error(altered[second], KafkaError._INVALID_ARG)
    assert result_of(admin.list_share_group_offsets({group: [first]})[group])[first].lag == 3
    with sharing(client, group, topic) as consumer:
        assert values(take(consumer, 3)) == [b"2", b"3", b"4"], "it starts at the altered offset"
    gone = admin.delete_share_group_offsets(group, [topic, "no-topic"])
    expect_success(gone[topic])
    expect_error(gone["no-topic"], KafkaError.UNKNOWN_TOPIC_OR_PART)
    found = admin.list_share_group_offsets({group: [first], "nobody": [first]})
    assert result_of(found[group]) == {first: None}
    with sharing(client, group, topic) as consumer:
        assert len(take(consumer, 5)) == 5, "it starts again at the beginning"
    expect_success(admin.delete_share_groups([group])[group])
    expect_error(admin.delete_share_groups([group])[group], KafkaError.GROUP_ID_NOT_FOUND)
    client.cluster.push_request_errors(ApiKey.DELETE_SHARE_GROUP_OFFSETS, [CLOSE_CONNECTION])
    expect_error(admin.delete_share_group_offsets(group, [topic])[topic], KafkaError._TRANSPORT)


# --- streams groups ---


def application(group: str, topic: str, *members: str) -> StreamsGroupDescribeResponse.Group:
    """Return the description of an application that counts words."""
    kind = StreamsGroupDescribeResponse.Group
    counts = TopicInfo(
        name="counts", partitions=2, topic_configs=[KeyValue(key="cleanup.policy", value="compact")]
    )
    part = kind.Topology.Subtopology(
        subtopology_id="0", source_topics=[topic], state_changelog_topics=[counts]
    )
    tasks = kind.Member.Assignment(active_tasks=[TaskIds(subtopology_id="0", partitions=[0, 1])])
    return kind(
        group_id=group,
        group_state="Stable" if members else "Empty",
        group_epoch=3,
        assignment_epoch=2,
        topology=kind.Topology(epoch=4, subtopologies=[part]),
        members=[
            kind.Member(
                member_id=name,
                member_epoch=2,
                client_id="counter",
                process_id="one",
                user_endpoint=Endpoint(host="here", port=80),
                client_tags=[KeyValue(key="zone", value="a")],
                task_offsets=[TaskOffset(subtopology_id="0", partition=1, offset=9)],
                assignment=tasks,
            )
            for name in members
        ],
    )


def test_streams_groups_have_members_and_a_topology(client: Client, admin: AdminClient) -> None:
    topic = client.topic(2)
    client.cluster.set_streams_group(application("counts", topic, "m"))
    described = admin.describe_streams_groups(
        ["counts", "nobody"], include_authorized_operations=True
    )
    expect_error(described["nobody"], KafkaError.GROUP_ID_NOT_FOUND)
    found = result_of(described["counts"])
    assert (found.group_state, found.topology_epoch) == (ConsumerGroupState.STABLE, 4)
    assert (found.group_epoch, found.target_assignment_epoch) == (3, 2)
    (part,) = found.subtopologies
    assert (part.source_topics, part.repartition_sink_topics) == ([topic], [])
    assert part.state_changelog_topics == {
        "counts": StreamsTopicInfo(2, 0, {"cleanup.policy": "compact"})
    }
    (member,) = found.members
    assert (member.member_id, member.user_endpoint) == ("m", ("here", 80))
    assert member.client_tags == {"zone": "a"}
    assert member.task_offsets == [StreamsTaskOffset("0", 1, 9)]
    assert member.assignment.active_tasks == {"0": [0, 1]}
    assert member.target_assignment.active_tasks == member.assignment.warmup_tasks == {}
    as_consumers = result_of(admin.describe_consumer_groups(["counts"])["counts"])
    assert as_consumers.state is ConsumerGroupState.DEAD
    client.cluster.push_request_errors(ApiKey.STREAMS_GROUP_DESCRIBE, [KafkaError.NOT_COORDINATOR])
    assert result_of(admin.describe_streams_groups(["counts"])["counts"]).members == found.members


def test_streams_groups_have_a_description_of_their_nodes(
    client: Client, admin: AdminClient
) -> None:
    group = application("described", client.topic(2), "m")
    client.cluster.set_streams_group(group)
    found = result_of(admin.describe_streams_groups(["described"])["described"])
    status = StreamsGroupTopologyDescriptionStatus
    assert (found.topology_description, found.topology_description_status) == (
        None,
        status.NOT_REQUESTED,
    )
    assert found.assignor_name is None
    call = admin.describe_streams_groups(["described"], include_topology_description=True)
    assert result_of(call["described"]).topology_description_status is status.NOT_STORED
    source = TopologyNode(name="in", node_type=1, source_topics=["t"], successors=["count"])
    counter = TopologyNode(name="count", node_type=2, stores=["counts"], successors=["out"])
    sink = TopologyNode(name="out", node_type=3, sink_topic="totals")
    group.topology_description = TopologyDescription(
        subtopologies=[
            TopologyDescription.Subtopology(subtopology_id="0", nodes=[source, counter, sink])
        ],
        global_stores=[
            TopologyDescription.GlobalStore(source=source, processor=TopologyNode(node_type=9))
        ],
    )
    group.topology_description_status, group.assignor_name = 3, "sticky"
    call = admin.describe_streams_groups(["described"], include_topology_description=True)
    found = result_of(call["described"])
    assert (found.topology_description_status, found.assignor_name) == (status.AVAILABLE, "sticky")
    kind = StreamsTopologyNodeType
    first = StreamsTopologyNode("in", kind.SOURCE, ["t"], None, [], ["count"])
    unknown = StreamsTopologyNode("", kind.UNKNOWN, [], None, [], [])
    assert found.topology_description == StreamsGroupTopologyDescription(
        [
            StreamsTopologySubtopology(
                "0",
                [
                    first,
                    StreamsTopologyNode("count", kind.PROCESSOR, [], None, ["counts"], ["out"]),
                    StreamsTopologyNode("out", kind.SINK, [], "totals", [], []),
                ],
            )
        ],
        [StreamsTopologyGlobalStore(first, unknown)],
    )
    group.topology_description_status = 77
    call = admin.describe_streams_groups(["described"], include_topology_description=True)
    assert result_of(call["described"]).topology_description_status is status.ERROR


def test_older_brokers_have_no_description_of_nodes() -> None:
    older = {ApiKey.STREAMS_GROUP_DESCRIBE: 0}
    with cluster_and_admin(1, max_versions=older) as (cluster, admin):
        cluster.set_streams_group(application("counts", "t", "m"))
        assert result_of(admin.describe_streams_groups(["counts"])["counts"]).members
        call = admin.describe_streams_groups(["counts"], include_topology_description=True)
        expect_error(call["counts"], KafkaError._UNSUPPORTED_FEATURE)


def test_streams_offsets_change_in_empty_groups(client: Client, admin: AdminClient) -> None:
    topic = client.topic(2)
    places = [TopicPartition(topic, 0, 3), TopicPartition(topic, 1, 4)]
    asked = [ConsumerGroupTopicPartitions("moved", places)]
    client.cluster.set_streams_group(application("moved", topic, "m"))
    refused = result_of(admin.alter_streams_group_offsets(asked)["moved"]).topic_partitions
    assert {each.error.code() for each in refused} == {KafkaError.UNKNOWN_MEMBER_ID}
    expect_error(admin.delete_streams_groups(["moved"])["moved"], KafkaError.NON_EMPTY_GROUP)
    client.cluster.set_streams_group(application("moved", topic))
    done = result_of(admin.alter_streams_group_offsets(asked)["moved"]).topic_partitions
    assert [each.error for each in done] == [None, None]
    expect_success(admin.delete_streams_group_offsets("moved", places[:1])[places[0]])
    (left,) = result_of(
        admin.list_streams_group_offsets([ConsumerGroupTopicPartitions("moved")])["moved"]
    ).topic_partitions
    assert (left.partition, left.offset) == (1, 4)
    expect_success(admin.delete_streams_groups(["moved"])["moved"])
    assert "moved" not in listed(admin, types={ConsumerGroupType.STREAMS})


# --- bad input, older brokers, AIOAdminClient ---


PLACE = TopicPartition("t", 0)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda admin: admin.describe_share_groups([]), ValueError, "non-empty list"),
        (lambda admin: admin.describe_streams_groups("name"), TypeError, "expected a list of str"),
        (lambda admin: admin.list_share_group_offsets({}), ValueError, "non-empty mapping"),
        (lambda admin: admin.list_share_group_offsets(["g"]), TypeError, "expected a mapping"),
        (
            lambda admin: admin.list_share_group_offsets({"": None}),
            ValueError,
            "'group_id' cannot be empty",
        ),
        (lambda admin: admin.list_share_group_offsets({"g": []}), ValueError, "non-empty list"),
        (lambda admin: admin.alter_share_group_offsets("g", {}), ValueError, "non-empty list"),
        (
            lambda admin: admin.alter_share_group_offsets("g", [PLACE]),
            TypeError,
            "expected a mapping",
        ),
        (
            lambda admin: admin.alter_share_group_offsets("g", {PLACE: "1"}),
            TypeError,
            "an offset must be an int",
        ),
        (
            lambda admin: admin.delete_share_group_offsets("g", [1]),
            TypeError,
            "expected a list of str",
        ),
    ],
)
def test_arguments_are_checked_before_any_request(
    client: Client,
    admin: AdminClient,
    call: Callable[[AdminClient], Any],
    error: type[Exception],
    text: str,
) -> None:
    with pytest.raises(error, match=text):
        call(admin)


def test_an_offset_beyond_int64_fails_alone(client: Client, admin: AdminClient) -> None:
    topic, group = client.topic(2), new_group(client)
    with sharing(client, group, topic) as consumer:
        consumer.poll(0.2)
    low, high = TopicPartition(topic, 0), TopicPartition(topic, 1)
    futures = admin.alter_share_group_offsets(group, {low: 1, high: 1 << 63})
    expect_success(futures[low])
    expect_error(futures[high], KafkaError._INVALID_ARG)


def test_brokers_without_share_groups_are_an_unsupported_feature() -> None:
    gone = {int(key): -1 for key in (ApiKey.SHARE_GROUP_DESCRIBE, ApiKey.STREAMS_GROUP_DESCRIBE)}
    with cluster_and_admin(brokers=1, max_versions=gone) as (_, admin):
        for call in (admin.describe_share_groups, admin.describe_streams_groups):
            with pytest.raises(KafkaException, match="GroupDescribe") as error:
                result_of(call(["g"])["g"])
            assert error.value.args[0].code() == KafkaError._UNSUPPORTED_FEATURE


def test_the_asyncio_client_does_the_same(client: Client, topic: str) -> None:
    client.cluster.set_streams_group(application("aio", topic, "m"))

    async def main() -> None:
        async with AIOAdminClient({"bootstrap.servers": client.bootstrap}) as admin:
            assert (await admin.describe_streams_groups(["aio"])["aio"]).group_id == "aio"
            with pytest.raises(KafkaException):
                await admin.describe_share_groups(["aio"])["aio"]
            assert await admin.list_share_group_offsets({"aio": None})["aio"] == {}
            (one,) = await admin.list_groups("aio", WAIT_S, types={ConsumerGroupType.STREAMS})
            assert one.type is ConsumerGroupType.STREAMS

    run(main())
