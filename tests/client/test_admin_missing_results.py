"""A response that leaves out what was asked for: each part has a result or an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafka_native import (
    ConsumerGroupTopicPartitions,
    ElectionType,
    KafkaError,
    TopicCollection,
    TopicPartition,
)
from kafka_native.admin import AdminClient
from kafka_native.protocol import ApiKey

from .admin_support import admin_of, result_of
from .support import Client, partitions_of

MISSING = KafkaError._BAD_MSG


@pytest.fixture
def admin(client: Client) -> Any:
    with admin_of(client) as admin:
        yield admin


def first_partition_of(topics: Callable[[Any], list[Any]], name: str) -> Callable[[Any], None]:
    """Return a change of a response that leaves its first partition out."""

    def leave_out(response: Any) -> None:
        del getattr(topics(response)[0], name)[0]

    return leave_out


def test_a_missing_partition_of_a_groups_offsets_has_an_error(
    client: Client, admin: AdminClient
) -> None:
    topic = client.topic(3)
    client.cluster.set_committed("kept", {(topic, number): 5 for number in range(3)})
    asked = ConsumerGroupTopicPartitions("kept", partitions_of(topic, 3))
    client.cluster.edit_responses(
        ApiKey.OFFSET_FETCH, first_partition_of(lambda it: it.groups[0].topics, "partitions")
    )
    found = result_of(admin.list_consumer_group_offsets([asked])["kept"]).topic_partitions
    assert found == asked.topic_partitions
    assert [each.error and each.error.code() for each in found] == [MISSING, None, None]
    assert [each.offset for each in found[1:]] == [5, 5]


def test_a_missing_partition_of_a_share_groups_offsets_has_an_error(
    client: Client, admin: AdminClient
) -> None:
    topic = client.topic(2)
    asked = partitions_of(topic, 2)
    client.cluster.edit_responses(
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        first_partition_of(lambda it: it.groups[0].topics, "partitions"),
    )
    found = result_of(admin.list_share_group_offsets({"shared": asked})["shared"])
    assert found.keys() == set(asked)
    assert (found[asked[0]], found[asked[1]]) == (MISSING, None)


@pytest.mark.parametrize("kind", ElectionType)
def test_a_missing_partition_of_an_election_has_an_error(
    client: Client, admin: AdminClient, kind: ElectionType
) -> None:
    asked = partitions_of(client.topic(2), 2)
    client.cluster.edit_responses(
        ApiKey.ELECT_LEADERS,
        first_partition_of(lambda it: it.replica_election_results, "partition_result"),
    )
    future = admin.elect_leaders(kind, asked)
    asked[1].partition = 7  # the application's own object
    found = result_of(future)
    wanted = partitions_of(asked[0].topic, 2)
    assert found.keys() == set(wanted)
    assert (found[wanted[0]], found[wanted[1]]) == (MISSING, KafkaError.ELECTION_NOT_NEEDED)
    assert {each.error for each in found} == set(found.values())


def test_without_a_list_there_is_what_the_broker_returns(
    client: Client, admin: AdminClient
) -> None:
    topic = client.topic(2)
    client.cluster.set_committed("one", {(topic, 0): 5})
    one = ConsumerGroupTopicPartitions("one")
    found = result_of(admin.list_consumer_group_offsets([one])["one"])
    assert found.topic_partitions == [TopicPartition(topic, 0)]
    assert result_of(admin.list_share_group_offsets({"shared": None})["shared"]) == {}


def test_a_missing_topic_of_the_pages_has_an_error(client: Client, admin: AdminClient) -> None:
    names = sorted([client.topic(2), client.topic(2), client.topic(2)])

    def leave_out(response: Any) -> None:
        response.topics[:] = [each for each in response.topics if each.name != names[1]]

    client.cluster.edit_responses(ApiKey.DESCRIBE_TOPIC_PARTITIONS, leave_out, count=2)
    pages = [*admin.describe_topic_partitions(TopicCollection(names), partition_limit=4)]
    assert len(pages) == 2
    assert [each.name for each in pages[1].topics] == names[1:]
    errors = {each.name: each.error for page in pages for each in page.topics}
    assert [errors[name] for name in names] == [None, MISSING, None]
