"""Groups' offsets and members on a real Apache Kafka. kafka-consumer-groups.sh checks the results."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable

import pytest

from kafka_native import KafkaError, KafkaException, TopicPartition
from kafka_native.admin import AdminClient
from kafka_native.aio import AIOAdminClient, AIOProducer
from tests.broker.cluster import Cluster
from tests.broker.java import GROUPS
from tests.broker.support import TopicMaker, admin_of, flush, our_consumer, our_producer, output_of
from tests.waiting import WAIT_S, wait_for


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_offsets_are_forgotten_and_members_removed(
    kafka3: Cluster, new_topic: TopicMaker, tool: Callable[..., bytes], protocol: str
) -> None:
    topic, group = new_topic(kafka3, 2), f"admin-{uuid.uuid4().hex[:8]}"
    with our_producer(kafka3) as producer, AdminClient.of(producer) as admin:
        for number in range(4):
            producer.produce(topic, b"x", partition=number % 2)
        flush(producer)
        member = {
            "group_instance_id": "one",
            "group_protocol": protocol,
            "enable_auto_commit": False,
        }
        with our_consumer(kafka3, group_id=group, **member) as consumer:
            consumer.subscribe([topic])
            wait_for(lambda: consumer.poll(0.5), "a message")
            places = [TopicPartition(topic, 0, 1), TopicPartition(topic, 1, 1)]
            consumer.commit(offsets=places, asynchronous=False)
            refused = admin.delete_consumer_group_offsets(group, places)
            for future in refused.values():
                with pytest.raises(KafkaException) as error:
                    future.result(WAIT_S)
                assert error.value.args[0].code() == KafkaError.GROUP_SUBSCRIBED_TO_TOPIC
            left = members(admin, group)
        if protocol == "classic":  # a closed static member stays until its session ends
            assert members(admin, group) == left
            futures = admin.remove_members_from_consumer_group(
                group, ["one", "two"], reason="a test"
            )
            assert futures["one"].result(WAIT_S) is None
            with pytest.raises(KafkaException) as unknown:
                futures["two"].result(WAIT_S)
            assert unknown.value.args[0].code() == KafkaError.UNKNOWN_MEMBER_ID
        wait_for(lambda: not members(admin, group), "an empty group")
        (forgotten, kept) = places
        assert (
            admin.delete_consumer_group_offsets(group, [forgotten])[forgotten].result(WAIT_S)
            is None
        )

        def offsets() -> dict[int, str]:
            lines = [
                line.split()
                for line in output_of(
                    tool, kafka3, GROUPS, "--describe", "--group", group
                ).splitlines()
            ]
            return {int(line[2]): line[3] for line in lines if line[:2] == [group, topic]}

        # A coordinator that has just moved may return the commits that it knew as a follower.
        wait_for(lambda: offsets() == {kept.partition: "1"}, "one offset")


def members(admin: AdminClient, group: str) -> list[str]:
    """Return the member ids of a group."""
    return [
        each.member_id
        for each in admin.describe_consumer_groups([group])[group].result(WAIT_S).members
    ]


def test_all_members_are_removed(kafka3: Cluster, new_topic: TopicMaker) -> None:
    topic, group = new_topic(kafka3), f"admin-{uuid.uuid4().hex[:8]}"
    with (
        our_consumer(kafka3, group_id=group) as consumer,
        admin_of(kafka3) as admin,
    ):
        consumer.subscribe([topic])
        wait_for(lambda: (consumer.poll(0.2), consumer.assignment())[1], "an assignment")
        before = consumer.memberid()
        assert admin.remove_members_from_consumer_group(group).result(WAIT_S) == {before: None}
        wait_for(
            lambda: (consumer.poll(0.2), consumer.memberid() not in (None, "", before))[1],
            "a new member id",
        )


def test_the_asyncio_client_has_the_same_answers(kafka3: Cluster) -> None:
    async def main() -> None:
        conf = {"bootstrap.servers": kafka3.bootstrap}
        async with AIOProducer(conf) as producer, AIOAdminClient.of(producer) as admin:
            described = await admin.describe_cluster()
            assert described.cluster_id == await admin.cluster_id(WAIT_S)
            assert (await admin.list_transactions()).errors == []
            nothing = admin.describe_transactions(["never-was"])["never-was"]
            with pytest.raises(KafkaException):
                await nothing

    asyncio.run(main())
