"""Other clients produce to the mock cluster and consume from it, unchanged."""

from __future__ import annotations

import asyncio
import time
import warnings
from collections.abc import Callable
from typing import NamedTuple

import aiokafka
import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from kafka_native.errors import ErrorCode
from kafka_native.mock import MockCluster
from kafka_native.protocol import ApiKey
from tests.waiting import WAIT_S

# newer Pythons warn about how kafka-python reads its schemas
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka

COUNT = 60
PARTITIONS = 4


class Sent(NamedTuple):
    """A message, in all its parts."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: int


SENT = [
    Sent(
        number % PARTITIONS,
        None if number % 3 == 0 else b"key-%d" % number,
        None if number % 15 == 4 else b"value-%d" % number * (1 + number % 7),
        (("first", b"1"), ("empty", b""), ("first", b"2")) if number % 2 else (),
        1_700_000_000_000 + number,
    )
    for number in range(COUNT)
]


def by_partition(messages: list[Sent]) -> list[list[Sent]]:
    return [[one for one in messages if one.partition == index] for index in range(PARTITIONS)]


# --- producing, and reading from the cluster's own log ---


def produce_confluent(bootstrap: str, topic: str, codec: str) -> None:
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": bootstrap,
            "compression.type": codec,
            "linger.ms": 5,
            "log.connection.close": False,
        }
    )
    failed: list[confluent_kafka.KafkaError] = []
    for one in SENT:
        producer.produce(
            topic,
            one.value,
            one.key,
            one.partition,
            timestamp=one.timestamp,
            headers=list(one.headers),
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
    assert producer.flush(WAIT_S) == 0
    assert failed == []


def produce_kafka_python(bootstrap: str, topic: str, codec: str) -> None:
    producer = kafka.KafkaProducer(
        bootstrap_servers=bootstrap.split(","),
        compression_type=None if codec == "none" else codec,
        linger_ms=5,
    )
    sent = [
        producer.send(
            topic,
            one.value,
            key=one.key,
            partition=one.partition,
            timestamp_ms=one.timestamp,
            headers=list(one.headers),
        )
        for one in SENT
    ]
    for future in sent:
        future.get(WAIT_S)
    producer.close()


def produce_aiokafka(bootstrap: str, topic: str, codec: str) -> None:
    async def run() -> None:
        kind = None if codec == "none" else codec
        async with aiokafka.AIOKafkaProducer(
            bootstrap_servers=bootstrap, compression_type=kind, linger_ms=5, enable_idempotence=True
        ) as producer:
            sent = [
                await producer.send(
                    topic,
                    one.value,
                    one.key,
                    one.partition,
                    timestamp_ms=one.timestamp,
                    headers=list(one.headers),
                )
                for one in SENT
            ]
            await asyncio.wait_for(asyncio.gather(*sent), WAIT_S)

    asyncio.run(run())


PRODUCERS = {
    "confluent": produce_confluent,
    "kafka-python": produce_kafka_python,
    "aiokafka": produce_aiokafka,
}


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("client", PRODUCERS)
def test_clients_produce(client: str, codec: str, cluster: MockCluster) -> None:
    cluster.create_topic("a", PARTITIONS)
    PRODUCERS[client](cluster.bootstrap_servers, "a", codec)
    stored = [
        Sent(index, one.key, one.value, tuple(one.headers), one.timestamp)
        for index in range(PARTITIONS)
        for one in cluster.messages("a", index)
    ]
    assert by_partition(stored) == by_partition(SENT)


# --- consuming ---


def consume_confluent(bootstrap: str, topic: str, group: str) -> list[Sent]:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    found: list[Sent] = []
    deadline = time.monotonic() + WAIT_S
    while len(found) < COUNT and time.monotonic() < deadline:
        for one in consumer.consume(COUNT, 0.5):
            assert one.error() is None
            headers = tuple(one.headers() or ())
            found.append(Sent(one.partition(), one.key(), one.value(), headers, one.timestamp()[1]))
    consumer.commit(asynchronous=False)
    consumer.close()
    return found


def consume_kafka_python(bootstrap: str, topic: str, group: str) -> list[Sent]:
    consumer = kafka.KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap.split(","),
        group_id=group,
        auto_offset_reset="earliest",
        consumer_timeout_ms=int(WAIT_S * 1000),
    )
    found: list[Sent] = []
    for one in consumer:
        found.append(Sent(one.partition, one.key, one.value, tuple(one.headers), one.timestamp))
        if len(found) == COUNT:
            break
    consumer.commit()
    consumer.close()
    return found


def consume_aiokafka(bootstrap: str, topic: str, group: str) -> list[Sent]:
    async def run() -> list[Sent]:
        found: list[Sent] = []
        async with aiokafka.AIOKafkaConsumer(
            topic, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest"
        ) as consumer:
            while len(found) < COUNT:
                one = await asyncio.wait_for(consumer.getone(), WAIT_S)
                found.append(
                    Sent(one.partition, one.key, one.value, tuple(one.headers), one.timestamp)
                )
            await consumer.commit()
        return found

    return asyncio.run(run())


CONSUMERS: dict[str, Callable[[str, str, str], list[Sent]]] = {
    "confluent": consume_confluent,
    "kafka-python": consume_kafka_python,
    "aiokafka": consume_aiokafka,
}


@pytest.mark.parametrize("client", CONSUMERS)
def test_clients_consume_in_a_group_and_commit(client: str, cluster: MockCluster) -> None:
    cluster.create_topic("a", PARTITIONS)
    produce_confluent(cluster.bootstrap_servers, "a", "lz4")
    found = CONSUMERS[client](cluster.bootstrap_servers, "a", "group")
    assert by_partition(found) == by_partition(SENT)
    group = cluster.groups.find("group")
    assert group is not None
    assert {key: stored.offset for key, stored in group.offsets.items()} == {
        ("a", index): len(SENT) // PARTITIONS for index in range(PARTITIONS)
    }
    assert group.members == {}  # it left


@pytest.mark.parametrize(
    "protocol", [{"heartbeat.interval.ms": 100}, {"group.protocol": "consumer"}]
)
def test_two_consumers_share_the_partitions_of_a_topic(
    protocol: dict[str, object], cluster: MockCluster
) -> None:
    cluster.create_topic("a", PARTITIONS)
    cluster.set_heartbeat_interval(0.1)
    conf = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "group", **protocol}
    consumers = [confluent_kafka.Consumer({**conf, "client.id": name}) for name in ("one", "two")]
    for consumer in consumers:
        consumer.subscribe(["a"])
    deadline = time.monotonic() + WAIT_S
    while [len(consumer.assignment()) for consumer in consumers] != [2, 2]:
        assert time.monotonic() < deadline
        for consumer in consumers:
            consumer.poll(0.05)
    numbers = {one.partition for consumer in consumers for one in consumer.assignment()}
    assert numbers == set(range(PARTITIONS))
    for consumer in consumers:
        consumer.close()


# --- faults ---


def test_confluent_follows_a_leader_that_moves(cluster: MockCluster) -> None:
    cluster.create_topic("a", 1)
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 0}
    )
    for number in range(30):
        producer.produce("a", b"%d" % number)
        producer.poll(0)
        if number % 10 == 5:
            assert producer.flush(WAIT_S) == 0
            cluster.move_leader("a", 0, 1 + (cluster.leader("a", 0) % 3))
    assert producer.flush(WAIT_S) == 0
    assert [record.value for record in cluster.messages("a", 0)] == [
        b"%d" % number for number in range(30)
    ]


def test_confluent_survives_a_broker_that_restarts(cluster: MockCluster) -> None:
    cluster.create_topic("a", 3)
    quiet = {"log_level": 0, "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 50}
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 0, **quiet}
    )

    def send(first: int) -> None:
        for number in range(first, first + 30):
            producer.produce("a", b"%d" % number, partition=number % 3)
        assert producer.flush(WAIT_S) == 0

    send(0)
    cluster.broker_down(2)
    send(30)
    cluster.broker_up(2)
    cluster.move_leader("a", 0, 2)
    send(60)
    stored = [[int(one.value or b"") for one in cluster.messages("a", index)] for index in range(3)]
    assert stored == [list(range(index, 90, 3)) for index in range(3)]


def test_confluent_retries_pushed_errors(cluster: MockCluster) -> None:
    cluster.create_topic("a", 1)
    cluster.push_request_errors(
        ApiKey.PRODUCE, [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT]
    )
    cluster.close_mid_frame(1, 7, api_key=ApiKey.FETCH)
    quiet = {"log_level": 0, "reconnect.backoff.ms": 20, "retry.backoff.ms": 20}
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers, **quiet})
    producer.produce("a", b"x")
    assert producer.flush(WAIT_S) == 0
    assert [record.value for record in cluster.messages("a", 0)] == [b"x"]
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "g",
            **quiet,
            "check.crcs": True,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition("a", 0, 0)])
    message = consumer.poll(WAIT_S)
    assert message is not None
    assert message.value() == b"x"
    consumer.close()


def test_confluent_notices_a_wrong_checksum(cluster: MockCluster) -> None:
    cluster.create_topic("a", 1)
    produce = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers})
    produce.produce("a", b"x")
    assert produce.flush(WAIT_S) == 0
    cluster.corrupt_next_fetch("a", 0)
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "g",
            "check.crcs": True,
            "log_level": 0,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition("a", 0, 0)])
    message = consumer.poll(WAIT_S)
    assert message is not None
    error = message.error()
    assert error is not None
    assert error.code() == confluent_kafka.KafkaError._BAD_MSG
    consumer.close()


def test_confluent_administrates(cluster: MockCluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([NewTopic("a", 2, 3)])["a"].result(WAIT_S)
    admin.create_partitions([NewPartitions("a", 5)])["a"].result(WAIT_S)
    assert len(admin.list_topics("a", WAIT_S).topics["a"].partitions) == 5
    described = admin.describe_cluster().result(WAIT_S)
    assert [node.id for node in described.nodes] == [1, 2, 3]
    assert described.cluster_id == cluster.cluster_id
    resource = confluent_kafka.admin.ConfigResource("topic", "a")
    shown = admin.describe_configs([resource])[resource].result(WAIT_S)
    assert shown["max.message.bytes"].value == "1048588"
    admin.delete_topics(["a"])["a"].result(WAIT_S)
    assert cluster.topics == {}
