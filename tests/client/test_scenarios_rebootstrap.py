"""Brokers that vanish, move or belong to a lost cluster: the client finds the existing ones."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from kafka_native import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from kafka_native._reference.error_codes import ErrorCode
from kafka_native.mock import ListenerSecurity, MockCluster
from kafka_native.protocol import ApiKey
from tests.harness.proxy import Proxy
from tests.waiting import WAIT_S, wait_for

from .support import Client, deliver, errors_into, fill, raises_code

CONF = {"reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 50, "error_cb": lambda error: None}


@dataclass
class Moving:
    """Two clusters with a topic of the same name, and an address that leads to one of them."""

    old: MockCluster
    new: MockCluster
    door: Proxy

    def move(self) -> None:
        """Let the address lead new connections to the new cluster."""
        self.door.target = self.new.address(1)
        self.door.cut_all()

    def stop_old(self) -> None:
        for broker in self.old.broker_ids:
            self.old.broker_down(broker)

    def restart_old(self) -> None:
        for broker in self.old.broker_ids:
            self.old.broker_up(broker)

    def stored(self, cluster: MockCluster) -> list[bytes | None]:
        return [record.value for record in cluster.messages("t", 0)]


@pytest.fixture
def moving() -> Iterator[Moving]:
    with (
        MockCluster(brokers=2) as old,
        MockCluster(brokers=2) as new,
        Proxy(old.address(1)) as door,
    ):
        for cluster in (old, new):
            cluster.create_topic("t", 1)
        yield Moving(old, new, door)


@pytest.mark.parametrize("is_listed", [False, True])
def test_clients_follow_a_leader_to_another_address(client: Client, is_listed: bool) -> None:
    """The leader epoch stays: only the address is new."""
    topic = client.topic()
    leader = client.cluster.leader(topic, 0)
    with (
        Proxy(client.cluster.address(leader)) as door,
        client.producer(**CONF) as producer,
        client.consumer(**CONF) as consumer,
    ):
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        deliver(producer, topic, b"first")
        messages = consumer.consume(1, WAIT_S)
        client.cluster.advertise(leader, door.address)
        for each in (producer, consumer):
            each.list_topics(topic if is_listed else client.topic(), WAIT_S)
        deliver(producer, topic, b"second")
        messages += consumer.consume(1, WAIT_S)
    client.cluster.advertise(leader, None)
    assert [message.value() for message in messages] == [b"first", b"second"]


def producer_of(moving: Moving, **conf: object) -> Producer:
    own = {"bootstrap.servers": moving.door.address, "linger.ms": 0, "retry.backoff.ms": 10}
    return Producer({**own, **CONF, **conf})


@pytest.mark.parametrize("idempotence", [False, True])
def test_client_moves_to_the_cluster_behind_the_bootstrap_server(
    moving: Moving, idempotence: bool
) -> None:
    with producer_of(moving, **{"enable.idempotence": idempotence}) as producer:
        deliver(producer, "t", b"old")
        moving.move()
        moving.stop_old()
        deliver(producer, "t", b"new")
    assert (moving.stored(moving.old), moving.stored(moving.new)) == ([b"old"], [b"new"])


def test_strategy_none_waits_for_the_known_brokers(moving: Moving) -> None:
    with producer_of(moving, **{"metadata.recovery.strategy": "none"}) as producer:
        deliver(producer, "t", b"1")
        moving.move()
        failed: list[KafkaError] = []
        moving.stop_old()
        producer.produce("t", b"2", on_delivery=errors_into(failed))
        assert producer.flush(0.5) == 1
        moving.restart_old()
        assert producer.flush(15) == 0
    assert failed == [None]
    assert moving.stored(moving.old) == [b"1", b"2"]
    assert moving.new.requests == []


def test_missing_metadata_lead_back_to_the_bootstrap_server(moving: Moving) -> None:
    conf = {
        "metadata.recovery.rebootstrap.trigger.ms": 300,
        "topic.metadata.refresh.interval.ms": 50,
    }
    with producer_of(moving, **conf) as producer:
        deliver(producer, "t", b"old")
        moving.old.delay_responses(None, 60, ApiKey.METADATA)
        moving.move()
        wait_for(
            lambda: bool(moving.new.requests_of(ApiKey.METADATA)), "a request to the new cluster"
        )
        deliver(producer, "t", b"new")
    assert moving.stored(moving.new)[-1:] == [b"new"]


def test_metadata_in_time_keep_the_cluster(moving: Moving) -> None:
    conf = {
        "metadata.recovery.rebootstrap.trigger.ms": 2000,
        "topic.metadata.refresh.interval.ms": 20,
    }
    with producer_of(moving, **conf) as producer:
        deliver(producer, "t", b"1")
        moving.move()
        start = time.monotonic()
        seen = len(moving.old.requests_of(ApiKey.METADATA))
        wait_for(
            lambda: (
                time.monotonic() > start + 2.5
                and len(moving.old.requests_of(ApiKey.METADATA)) > seen + 3
            ),
            "several refreshes",
        )
        deliver(producer, "t", b"2")
    assert moving.stored(moving.old) == [b"1", b"2"]
    assert moving.new.requests == []


def test_rebootstrap_required_leads_back_to_the_bootstrap_server(moving: Moving) -> None:
    with producer_of(moving, **{"topic.metadata.refresh.interval.ms": 50}) as producer:
        deliver(producer, "t", b"old")
        moving.move()
        moving.old.push_request_errors(ApiKey.METADATA, [ErrorCode.REBOOTSTRAP_REQUIRED])
        wait_for(
            lambda: bool(moving.new.requests_of(ApiKey.METADATA)), "a request to the new cluster"
        )
        deliver(producer, "t", b"new")
    assert (moving.stored(moving.old), moving.stored(moving.new)) == ([b"old"], [b"new"])


def test_list_topics_goes_to_the_bootstrap_server_after_rebootstrap_required(
    moving: Moving,
) -> None:
    moving.new.create_topic("only-here", 1)
    with producer_of(moving) as producer:
        assert "only-here" not in producer.list_topics(timeout=10).topics
        moving.move()
        moving.old.push_request_errors(ApiKey.METADATA, [ErrorCode.REBOOTSTRAP_REQUIRED])
        assert "only-here" in producer.list_topics(timeout=10).topics


def test_list_topics_fails_without_a_recovery_strategy(moving: Moving) -> None:
    with producer_of(moving, **{"metadata.recovery.strategy": "none"}) as producer:
        moving.old.push_request_errors(ApiKey.METADATA, [ErrorCode.REBOOTSTRAP_REQUIRED] * 2)
        with raises_code(KafkaError.REBOOTSTRAP_REQUIRED, match="Failed to get metadata"):
            producer.list_topics(timeout=10)


def test_consumer_continues_at_its_position_in_the_other_cluster(moving: Moving) -> None:
    for cluster, first in ((moving.old, 0), (moving.new, 100)):
        with Producer({"bootstrap.servers": cluster.bootstrap_servers}) as producer:
            for number in range(first, first + (5 if cluster is moving.old else 10)):
                producer.produce("t", str(number), partition=0)
    conf = {"bootstrap.servers": moving.door.address, **CONF}
    with Consumer(conf) as consumer:
        consumer.assign([TopicPartition("t", 0, 0)])
        assert [int(message.value()) for message in consumer.consume(5, 10)] == list(range(5))
        moving.move()
        moving.stop_old()
        found = consumer.consume(5, 15)
    assert [message.error() for message in found] == [None] * 5
    assert [int(message.value()) for message in found] == list(range(105, 110))


def test_whole_cluster_that_restarts_is_found_again(moving: Moving) -> None:
    moving.door.target = moving.old.address(1)
    with producer_of(moving) as producer:
        for number in range(3):
            deliver(producer, "t", str(number))
            moving.stop_old()
            producer.poll(0.05)
            moving.restart_old()
        deliver(producer, "t", b"3")
    assert moving.stored(moving.old) == [b"0", b"1", b"2", b"3"]


# --- an address that leads to another broker (KIP-1242) ---


@dataclass
class Misled:
    """Three clusters with a topic of the same name.

    The bootstrap server and the address that the old cluster's broker advertises are doors, which
    lead to other clusters later.
    """

    old: MockCluster
    new: MockCluster
    stranger: MockCluster
    bootstrap: Proxy
    advertised: Proxy
    conf: dict[str, object]

    def producer(self, **conf: object) -> Producer:
        own = {"bootstrap.servers": self.bootstrap.address, "linger.ms": 0, "retry.backoff.ms": 10}
        return Producer({**own, **CONF, **self.conf, **conf})

    def mislead(self) -> None:
        """Let the broker's address lead to the stranger, and the bootstrap server to the new."""
        self.bootstrap.target = self.new.address(1)
        self.advertised.target = self.stranger.address(1)
        self.advertised.cut_all()

    def stored(self) -> dict[str, list[bytes | None]]:
        clusters = {"old": self.old, "new": self.new, "stranger": self.stranger}
        return {
            name: [record.value for record in each.messages("t", 0)]
            for name, each in clusters.items()
        }


@pytest.fixture(params=["plaintext", "sasl_plaintext"])
def misled(request: pytest.FixtureRequest) -> Iterator[Misled]:
    security = ListenerSecurity(request.param, users={"user": "password"})
    conf: dict[str, object] = {"security.protocol": request.param}
    if security.has_sasl:
        conf |= {"sasl.mechanism": "PLAIN", "sasl.username": "user", "sasl.password": "password"}
    with (
        MockCluster(1, security=security) as old,
        MockCluster(1, security=security) as new,
        MockCluster(1, security=security) as stranger,
        Proxy(old.address(1)) as bootstrap,
        Proxy(old.address(1)) as advertised,
    ):
        old.advertise(1, advertised.address)
        for cluster in (old, new, stranger):
            cluster.create_topic("t", 1)
        yield Misled(old, new, stranger, bootstrap, advertised, conf)


def test_connection_to_another_cluster_leads_back_to_the_bootstrap_server(misled: Misled) -> None:
    with misled.producer() as producer:
        deliver(producer, "t", b"1")
        misled.mislead()
        deliver(producer, "t", b"2")
    assert misled.stored() == {"old": [b"1"], "new": [b"2"], "stranger": []}


def test_without_the_check_another_cluster_is_taken(misled: Misled) -> None:
    with misled.producer(**{"metadata.cluster.check.enable": False}) as producer:
        deliver(producer, "t", b"1")
        misled.mislead()
        deliver(producer, "t", b"2")
    assert misled.stored() == {"old": [b"1"], "new": [], "stranger": [b"2"]}


def test_connection_to_another_node_leads_to_the_address_in_new_metadata() -> None:
    with MockCluster(2) as cluster, Proxy(cluster.address(2)) as door:
        cluster.create_topic("t", 2)
        cluster.advertise(2, door.address)
        conf = {"bootstrap.servers": cluster.address(1), "linger.ms": 0, **CONF}
        with Producer(conf) as producer:
            producer.produce("t", b"1", partition=1)
            assert producer.flush(WAIT_S) == 0
            cluster.advertise(2, None)
            door.target = cluster.address(1)
            door.cut_all()
            producer.produce("t", b"2", partition=1)
            assert producer.flush(WAIT_S) == 0
        assert [record.value for record in cluster.messages("t", 1)] == [b"1", b"2"]


# --- one broker of several ---


def test_broker_that_leaves_metadata_is_disconnected_and_its_partitions_are_served_elsewhere(
    cluster: MockCluster, client: Client
) -> None:
    topic = client.topic(partitions=3)
    with client.producer(**{"topic.metadata.refresh.interval.ms": 50, "linger.ms": 0}) as producer:
        for partition in range(3):
            producer.produce(topic, b"1", partition=partition)
        assert producer.flush(10) == 0
        # The connection to the bootstrap server is closed, and the mock broker notices it later.
        wait_for(
            lambda: cluster.connection_count(3) == 1, "the connection to the third broker only"
        )
        try:
            cluster.remove_broker(3)
            wait_for(
                lambda: cluster.connection_count(3) == 0, "the connection to the broker that left"
            )
            for partition in range(3):
                producer.produce(topic, b"2", partition=partition)
            assert producer.flush(10) == 0
            assert 3 not in producer.list_topics(topic, 10).brokers
            assert cluster.connection_count(3) == 0
        finally:
            cluster.broker_up(3)
        cluster.move_leader(topic, 2, 3)
        deliver(producer, topic, b"3", partition=2)
        assert cluster.connection_count(3) == 1
    for partition in range(3):
        values = [record.value for record in cluster.messages(topic, partition)]
        assert values == [b"1", b"2", b"3"][: 2 + (partition == 2)]


def test_request_to_a_broker_that_left_goes_to_another(
    cluster: MockCluster, client: Client
) -> None:
    """A broker also leaves metadata for a moment if its heartbeat to the controller is late."""
    topic = client.topic(partitions=3)
    for partition in range(3):
        fill(client, topic, 5, partition=partition)
    cluster.delay_responses(3, 5.0, ApiKey.LIST_OFFSETS)
    try:
        with client.consumer(**{"topic.metadata.refresh.interval.ms": 50}) as consumer:
            consumer.assign([TopicPartition(topic, number, 0) for number in range(2)])
            # of two brokers, which can answer metadata requests
            assert len(consumer.consume(10, WAIT_S)) == 10
            cluster.clear_requests()
            consumer.assign([TopicPartition(topic, 2, OFFSET_BEGINNING)])
            cluster.wait_for_requests(ApiKey.LIST_OFFSETS, broker=3)
            cluster.remove_broker(3)
            found = consumer.consume(5, WAIT_S)
            assert [message.error() for message in found] == [None] * 5
    finally:
        cluster.delay_responses(3, 0, ApiKey.LIST_OFFSETS)
        cluster.broker_up(3)


def test_client_connects_to_the_new_port_of_a_broker(
    cluster: MockCluster, client: Client, topic: str
) -> None:
    with client.producer(**{"linger.ms": 0}) as producer:
        for number in range(3):
            deliver(producer, topic, str(number), partition=0)
            leader = cluster.leader(topic, 0)
            before = cluster.address(leader)
            cluster.broker_down(leader)
            cluster.broker_up(leader, port=0)
            assert cluster.address(leader) != before
            cluster.move_leader(topic, 0, leader)
        deliver(producer, topic, b"3", partition=0)
    assert [record.value for record in cluster.messages(topic, 0)] == [b"0", b"1", b"2", b"3"]
