"""AdminClient: deleting offsets and removing members, on the mock cluster."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_native import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from kafka_native.admin import AdminClient
from kafka_native.mock import MockCluster
from kafka_native.mock.faults import CLOSE_CONNECTION
from kafka_native.protocol import ApiKey
from tests.waiting import poll_until

from .admin_support import (
    admin_of,
    code_of,
    expect_error,
    expect_success,
    invalid_calls,
    member,
    result_of,
    stable,
)
from .support import Client, fill, filled


def committed(admin: Any, group: str) -> dict[TopicPartition, int]:
    found = result_of(
        admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group]
    )
    return {each: each.offset for each in found.topic_partitions}


def test_offsets_are_deleted_except_for_topics_that_members_read(client: Client) -> None:
    read, other = client.topic(), client.topic(2)
    fill(client, read, 3)
    places = [TopicPartition(other, 0), TopicPartition(other, 1)]
    with admin_of(client) as admin:
        offsets = [TopicPartition(each.topic, each.partition, 5) for each in places]
        result_of(
            admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions("forgets", offsets)])[
                "forgets"
            ]
        )
    with admin_of(client) as admin, member(client, "forgets", read):
        kept, unknown = TopicPartition(read, 0), TopicPartition(other, 7)
        futures = admin.delete_consumer_group_offsets("forgets", [places[0], kept, unknown])
        expect_success(futures[places[0]])
        expect_error(futures[kept], KafkaError.GROUP_SUBSCRIBED_TO_TOPIC)
        assert result_of(futures[unknown]) is None, "there is nothing to forget"
        assert committed(admin, "forgets") == {kept: 1, places[1]: 5}
        client.cluster.push_request_errors(
            ApiKey.OFFSET_DELETE,
            [KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS],
        )
        expect_success(admin.delete_consumer_group_offsets("forgets", [places[1]])[places[1]])
        assert committed(admin, "forgets") == {kept: 1}
        gone = admin.delete_consumer_group_offsets("nobody", places)
        assert {code_of(each) for each in gone.values()} == {KafkaError.GROUP_ID_NOT_FOUND}
        client.cluster.push_request_errors(ApiKey.OFFSET_DELETE, [CLOSE_CONNECTION])
        expect_error(
            admin.delete_consumer_group_offsets("forgets", [places[1]])[places[1]],
            KafkaError._TRANSPORT,
        )


def test_static_members_are_removed_by_their_names(client: Client, admin: AdminClient) -> None:
    topic = filled(client, 1)
    conf = {"group.instance.id": "one", "session.timeout.ms": 45_000}
    with member(client, "static", topic, **conf):
        pass  # a closed static member stays in its group until its session ends
    described = result_of(admin.describe_consumer_groups(["static"])["static"])
    assert [each.group_instance_id for each in described.members] == ["one"]
    futures = admin.remove_members_from_consumer_group(
        "static", ["one", "two"], reason="it is switched off"
    )
    expect_success(futures["one"])
    expect_error(futures["two"], KafkaError.UNKNOWN_MEMBER_ID)
    assert result_of(admin.describe_consumer_groups(["static"])["static"]).members == []


def test_all_members_are_removed_and_live_ones_rejoin(client: Client, admin: AdminClient) -> None:
    topic = filled(client, 2)
    with member(client, "removed", topic) as consumer:
        (one,) = stable(admin, "removed", 1).members
        removed = result_of(admin.remove_members_from_consumer_group("removed"))
        assert removed == {one.member_id: None}
        poll_until(lambda: consumer.memberid() not in (None, "", one.member_id), consumer)
        (again,) = stable(admin, "removed", 1).members
        assert again.member_id == consumer.memberid()
        assert result_of(admin.remove_members_from_consumer_group("nobody-there")) == {}
        client.cluster.push_request_errors(
            ApiKey.LEAVE_GROUP, [KafkaError.GROUP_AUTHORIZATION_FAILED]
        )
        refused = admin.remove_members_from_consumer_group("removed", ["one"])
        expect_error(refused["one"], KafkaError.GROUP_AUTHORIZATION_FAILED)


def test_an_older_broker_without_static_members_is_an_error() -> None:
    cluster = MockCluster(brokers=1, max_versions={int(ApiKey.LEAVE_GROUP): 2})
    with cluster, admin_of(Client(cluster)) as admin:
        futures = admin.remove_members_from_consumer_group("old", ["one"])
        with pytest.raises(KafkaException, match="LeaveGroup") as error:
            result_of(futures["one"])
        assert error.value.args[0].code() == KafkaError._UNSUPPORTED_FEATURE


@invalid_calls(
    {
        "delete_consumer_group_offsets": [
            ({"group_id": "", "partitions": []}, ValueError, "'group_id' cannot be empty"),
            ({"group_id": "g", "partitions": []}, ValueError, "non-empty list"),
            ({"group_id": 5, "partitions": []}, TypeError, "'group_id' must be a string"),
        ],
        "remove_members_from_consumer_group": [
            ({"group_id": "g", "members": []}, ValueError, "non-empty list"),
            ({"group_id": "g", "members": [""]}, ValueError, "cannot be empty"),
            ({"group_id": "g", "reason": 5}, TypeError, "reason must be a str"),
        ],
    }
)
def test_arguments_are_checked_before_any_request(
    client: Client,
    admin: AdminClient,
    call: str,
    argument: dict[str, Any],
    error: type[Exception],
    text: str,
) -> None:
    with pytest.raises(error, match=text):
        getattr(admin, call)(**argument)
