"""AdminClient.of: admin calls on the handle of an existing client, on the mock cluster."""

from __future__ import annotations

import gc
import threading
from typing import Any

import pytest

from kafka_native import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from kafka_native.admin import AdminClient, NewTopic
from kafka_native.mock import MockCluster
from kafka_native.protocol import ApiKey
from tests.waiting import WAIT_S

from .admin_support import admin_of, expect_success, result_of
from .support import Client


@pytest.mark.parametrize("kind", ["producer", "consumer", "admin"])
def test_calls_use_the_owners_connections(kind: str) -> None:
    with MockCluster(brokers=1) as cluster:
        client = Client(cluster)
        makers: dict[str, Any] = {
            "producer": client.producer,
            "consumer": client.consumer,
            "admin": admin_of,
        }
        conf = {"client.id": "the-owner", **({"group.id": "of"} if kind == "consumer" else {})}
        with makers[kind](client, **conf) if kind == "admin" else makers[kind](**conf) as owner:
            with AdminClient.of(owner) as first:  # opens every connection
                expect_success(first.create_topics([NewTopic("first", 1)])["first"])
            threads, connections = threading.active_count(), cluster.connection_count(1)
            with AdminClient.of(owner) as admin:
                expect_success(admin.create_topics([NewTopic("made", 2)])["made"])
                assert len(admin.list_topics("made", timeout=WAIT_S).topics["made"].partitions) == 2
                assert admin.cluster_id(WAIT_S) == cluster.cluster_id
                assert threading.active_count() <= threads, (
                    "the bootstrap connection may have ended meanwhile"
                )
                assert cluster.connection_count(1) <= connections
                assert {each.client_id for each in cluster.requests_of(ApiKey.CREATE_TOPICS)} == {
                    "the-owner"
                }
                assert f"#{kind}-" in admin.metrics().name
                assert admin.poll(1000) == 0, "only the owner runs callbacks"
                assert "the-owner" in repr(admin)
                assert "open" in repr(admin)
            assert "closed" in repr(admin)
            with pytest.raises(RuntimeError, match="AdminClient has been closed"):
                admin.list_consumer_groups()
            assert "made" in owner.list_topics(timeout=WAIT_S).topics, "the owner is still open"


def test_a_producer_and_a_consumer_work_beside_their_admin_calls(client: Client) -> None:
    topic = client.topic()
    with client.producer() as producer, client.consumer(**{"group.id": "beside"}) as consumer:
        admins = [AdminClient.of(producer), AdminClient.of(consumer), AdminClient.of(consumer)]
        consumer.assign([TopicPartition(topic, 0, 0)])
        futures = []
        for number in range(200):
            producer.produce(topic, str(number))
            if number % 10 == 0:
                futures += [admin.list_consumer_groups() for admin in admins]
        assert producer.flush(WAIT_S) == 0
        assert len(consumer.consume(200, WAIT_S)) == 200
        assert [result_of(each).errors for each in futures] == [[]] * len(futures)


def test_open_operations_fail_when_the_owner_closes_and_not_before() -> None:
    with MockCluster(brokers=1) as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        admin = AdminClient.of(producer)
        admin.list_topics(timeout=WAIT_S)
        cluster.delay_responses(1, 60.0, ApiKey.DESCRIBE_CLUSTER)
        future = admin.describe_cluster()
        cluster.wait_for_requests(ApiKey.DESCRIBE_CLUSTER, 1)
        admin.close()
        assert not future.done()
        producer.close()
        with pytest.raises(KafkaException) as gone:
            result_of(future)
        assert gone.value.args[0].code() == KafkaError._DESTROY
        with pytest.raises(RuntimeError, match="closed"):
            AdminClient.of(producer)
        other = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        left = AdminClient.of(other)
        other.close()
        with pytest.raises(RuntimeError, match="Handle has been closed"):
            left.list_consumer_groups()


def test_an_admin_client_keeps_its_owner_alive(client: Client) -> None:
    admin = AdminClient.of(client.producer())
    gc.collect()
    assert result_of(admin.describe_cluster()).cluster_id == client.cluster.cluster_id
    owner = admin._owner
    assert isinstance(owner, Producer)
    del admin
    gc.collect()
    owner.list_topics(timeout=WAIT_S)
    owner.close()


def test_only_a_client_has_a_handle(client: Client) -> None:
    class Uninitialized(Consumer):
        def __init__(self) -> None:
            pass

    for nothing in (None, "producer", {"bootstrap.servers": "localhost"}):
        with pytest.raises(
            TypeError, match="a Client, Producer, Consumer or AdminClient is expected"
        ):
            AdminClient.of(nothing)
    with pytest.raises(RuntimeError, match="not initialised"):
        AdminClient.of(Uninitialized())


def test_of_returns_an_instance_of_the_subclass(client: Client) -> None:
    class Mine(AdminClient):
        """A subclass of the application."""

    with client.producer() as producer, Mine.of(producer) as admin:
        assert isinstance(admin, Mine)
