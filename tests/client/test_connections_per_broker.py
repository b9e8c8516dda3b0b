"""connections.per.broker: the partitions of a broker are spread over several connections."""

from __future__ import annotations

from collections import defaultdict

import pytest

from kafka_native import Consumer, KafkaError, Producer
from kafka_native.mock import ListenerSecurity, MockCluster
from tests.waiting import WAIT_S, wait_for

from .support import Client, assigned, errors_into

CONNECTIONS = 3
SPREAD = {"connections.per.broker": CONNECTIONS}
PARTITIONS = 12


def served(client: Producer | Consumer, api: str) -> int:
    """Return how many connections have carried such requests."""
    return sum(broker.req.get(api, 0) > 0 for broker in client.metrics().brokers.values())


def produce_rounds(producer: Producer, topic: str, rounds: int) -> None:
    """Produce the numbers from 0 on to each partition."""
    for number in range(rounds):
        for partition in range(PARTITIONS):
            producer.produce(topic, str(number), partition=partition)
        producer.poll(0)


def stored(cluster: MockCluster, topic: str) -> list[list[int]]:
    return [
        [int(record.value or b"") for record in cluster.messages(topic, partition)]
        for partition in range(PARTITIONS)
    ]


def test_messages_take_every_connection_and_stay_in_order(client: Client) -> None:
    topic = client.topic(PARTITIONS)
    with client.producer(**SPREAD) as producer:
        produce_rounds(producer, topic, 200)
        assert producer.flush(WAIT_S) == 0
        assert served(producer, "Produce") == 3 * CONNECTIONS
    assert stored(client.cluster, topic) == [list(range(200))] * PARTITIONS
    found: defaultdict[int, list[int]] = defaultdict(list)
    with assigned(client, topic, PARTITIONS, **SPREAD) as consumer:
        while sum(map(len, found.values())) < 200 * PARTITIONS:
            for message in consumer.consume(500, 0.1):
                assert message.error() is None
                found[message.partition()].append(int(message.value()))
        assert served(consumer, "Fetch") == 3 * CONNECTIONS
    assert all(numbers == list(range(200)) for numbers in found.values())


def test_order_and_exactly_once_hold_while_connections_break_and_leaders_move(
    client: Client,
) -> None:
    topic, reports = client.topic(PARTITIONS), list[KafkaError | None]()
    conf = {**SPREAD, "enable.idempotence": True, "on_delivery": errors_into(reports)}
    with client.producer(**conf, **{"linger.ms": 0}) as producer:
        for turn in range(30):
            for number in range(turn * 10, turn * 10 + 10):
                for partition in range(PARTITIONS):
                    producer.produce(topic, str(number), partition=partition)
            producer.poll(0.01)
            client.cluster.disconnect(turn % 3 + 1)
            client.cluster.move_leader(topic, turn % PARTITIONS, (turn // 2) % 3 + 1)
        assert producer.flush(WAIT_S) == 0
    assert set(reports) == {None}
    assert stored(client.cluster, topic) == [list(range(300))] * PARTITIONS


def test_transactions_are_atomic_over_all_connections(client: Client) -> None:
    topic = client.topic(PARTITIONS)
    with client.producer(**SPREAD, **{"transactional.id": topic}) as producer:
        producer.init_transactions(WAIT_S)
        for is_committed in (False, True):
            producer.begin_transaction()
            produce_rounds(producer, topic, 5)
            if is_committed:
                producer.commit_transaction(WAIT_S)
            else:
                producer.flush(WAIT_S)
                producer.abort_transaction(WAIT_S)
    with assigned(client, topic, PARTITIONS, **SPREAD) as consumer:
        messages = []
        wait_for(lambda: len(messages.extend(consumer.consume(500, 0.1)) or messages) >= 60)
    assert len(messages) == 5 * PARTITIONS
    assert all(message.error() is None for message in messages)


def test_each_connection_has_its_own_tls_and_sasl_handshake() -> None:
    security = ListenerSecurity("sasl_ssl", mechanisms=["SCRAM-SHA-256"], users={"alice": "secret"})
    with MockCluster(1, security=security) as cluster:
        cluster.create_topic("t", PARTITIONS)
        conf = {
            **SPREAD,
            "bootstrap.servers": cluster.bootstrap_servers,
            "security.protocol": "sasl_ssl",
            "ssl.ca.pem": cluster.ca_pem,
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": "alice",
            "sasl.password": "secret",
        }
        with Producer(conf) as producer:
            produce_rounds(producer, "t", 3)
            assert producer.flush(WAIT_S) == 0
            assert served(producer, "Produce") == CONNECTIONS
        # and the bootstrap connection; a control connection may come, too
        assert len(cluster.handshakes) >= CONNECTIONS + 1
        assert len(cluster.logins) >= CONNECTIONS + 1
        assert all(login.error is None for login in cluster.logins)


@pytest.mark.parametrize("connections", [1, 16])
def test_one_partition_uses_one_connection(client: Client, connections: int) -> None:
    topic = client.topic()
    with client.producer(**{"connections.per.broker": connections}) as producer:
        producer.produce(topic, b"alone")
        assert producer.flush(WAIT_S) == 0
        assert served(producer, "Produce") == 1
        assert not any("data" in name for name in producer.metrics().brokers)
