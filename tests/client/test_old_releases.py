"""Clusters that act as Kafka's first releases: message sets, and missing features."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from kafka_native import OFFSET_END, KafkaError, KafkaException, TopicPartition
from kafka_native._native import records
from kafka_native.admin import AdminClient, ConfigResource, NewTopic, ResourceType
from kafka_native.mock import MockCluster
from kafka_native.mock.versions import of_release, ranges
from kafka_native.protocol import ApiKey
from kafka_native.protocol.releases import RELEASES
from tests.waiting import WAIT_S, poll_until

from .support import Client, code_of, deliver, errors_into, fill, read_all

COUNT = 200
MAGIC = {"0.10.0": 1, "0.10.1": 1, "0.10.2": 1, "0.11.0": 2}


def old_cluster(release: str) -> MockCluster:
    return MockCluster(brokers=2, max_versions=of_release(release))


def conf_for(release: str) -> dict[str, Any]:
    """Return the configuration of a client of such a cluster."""
    if release.startswith(("0.8.", "0.9.")):
        return {"api.version.request": False, "broker.version.fallback": release}
    return {}


def headers_of(cluster: MockCluster, topic: str) -> list[records.BatchHeader]:
    """Return the headers of the batches in partition 0."""
    raw = cluster.batches(topic, 0)
    return [header for each in raw for header in records.batch_headers(each, check_crcs=True)]


@pytest.fixture(scope="module", params=list(RELEASES))
def release(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def cluster(release: str) -> Iterator[MockCluster]:
    with old_cluster(release) as running:
        yield running


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
def test_round_trip_in_the_form_of_the_release(
    cluster: MockCluster, client: Client, topic: str, release: str, codec: str
):
    with client.producer(
        **conf_for(release), **{"compression.type": codec, "linger.ms": 20}
    ) as producer:
        for number in range(COUNT):
            producer.produce(
                topic,
                f"value {number} " * 3,
                f"key {number}",
                headers=[("h", b"x")],
                timestamp=1000 + number,
            )
    headers = headers_of(cluster, topic)
    magic = MAGIC.get(release, 0)
    assert {header.magic for header in headers} == {magic}
    assert {header.codec for header in headers} == {codec}
    messages = read_all(client, topic, COUNT, **conf_for(release))
    assert [message.offset() for message in messages] == list(range(COUNT))
    assert [message.value() for message in messages] == [
        f"value {number} ".encode() * 3 for number in range(COUNT)
    ]
    assert [message.key() for message in messages] == [
        f"key {number}".encode() for number in range(COUNT)
    ]
    assert messages[7].timestamp() == ((1, 1007) if magic else (0, 0))
    assert {bool(message.headers()) for message in messages} == {magic == 2}


def test_end_and_tail_are_found(cluster: MockCluster, client: Client, topic: str, release: str):
    fill(client, topic, 10, partition=0, **conf_for(release))
    for start, first in [(OFFSET_END, 10), (-2003, 7)]:
        with client.consumer(**conf_for(release), **{"enable.partition.eof": True}) as consumer:
            consumer.assign([TopicPartition(topic, 0, start)])
            found = []
            while not found or found[-1].error() is None:
                found += consumer.consume(1, 10)
            assert [message.offset() for message in found] == [*range(first, 10), 10]
            assert found[-1].error() == KafkaError._PARTITION_EOF


def test_all_topics_are_listed(cluster: MockCluster, client: Client, topic: str, release: str):
    with client.consumer(**conf_for(release)) as consumer:
        assert topic in consumer.list_topics(timeout=10).topics


def test_idempotence_is_refused_before_0_11(cluster: MockCluster, client: Client, release: str):
    topic = client.topic()
    reports: list[Any] = []
    with client.producer(
        **conf_for(release), **{"enable.idempotence": True, "error_cb": lambda error: None}
    ) as producer:
        try:
            producer.produce(topic, b"x", on_delivery=errors_into(reports))
        except KafkaException as error:  # the response arrived earlier
            reports.append(error.args[0])
        assert producer.flush(10) == 0
        fatal = producer.fatal_error()
    if release == "0.11.0":
        assert (reports, fatal) == ([None], None)
    else:
        assert fatal is not None
        assert fatal.code() == KafkaError._UNSUPPORTED_FEATURE
        possible = (KafkaError._UNSUPPORTED_FEATURE, KafkaError._PURGE_QUEUE, KafkaError._FATAL)
        assert reports[0].code() in possible
        assert cluster.watermarks(topic, 0) == (0, 0)


def test_zstd_is_refused_for_message_sets(
    cluster: MockCluster, client: Client, topic: str, release: str
):
    reports: list[Any] = []
    with client.producer(**conf_for(release), **{"compression.type": "zstd"}) as producer:
        deliver(producer, topic, b"x" * 100, on_delivery=errors_into(reports))
    if release == "0.11.0":  # the client sends it uncompressed
        assert reports == [None]
    else:
        assert [error.code() for error in reports] == [KafkaError._UNSUPPORTED_FEATURE]
        assert "zstd" in reports[0].str()


# --- brokers that close the connection instead of a response ---


def test_closed_connection_is_explained_within_the_fallbacks_time():
    config = {"broker.version.fallback": "0.9.0.1", "api.version.fallback.ms": 60_000}
    with old_cluster("0.9.0") as cluster:
        client = Client(cluster)
        topic = client.topic(2)
        for partition in (0, 1):
            fill(client, topic, 25, partition=partition, **config)
        assert len(read_all(client, topic, 50, **config)) == 50
        # Three clients, each with a bootstrap connection to one broker: five of eight connections
        # send the request.
        counts = [
            len(cluster.requests_of(ApiKey.API_VERSIONS, each)) for each in cluster.broker_ids
        ]
        assert min(counts) >= 1
        assert sum(counts) <= 6


def test_error_without_a_fallback_names_the_property():
    errors: list[KafkaError] = []
    with old_cluster("0.8.2") as cluster:
        client = Client(cluster)
        with client.producer(error_cb=errors.append) as producer:
            producer.produce(client.topic(), b"not delivered")
            poll_until(lambda: errors, producer)
            producer.purge()
    assert errors[0].code() == KafkaError._TRANSPORT
    assert "broker.version.fallback" in errors[0].str()


def test_upgraded_broker_gets_api_versions_after_the_fallbacks_time():
    with old_cluster("0.9.0") as cluster:
        client = Client(cluster)
        topic = client.topic()
        with client.producer(
            **{"broker.version.fallback": "0.9.0", "api.version.fallback.ms": 300}
        ) as producer:
            deliver(producer, topic, b"old", partition=0)
            cluster.state.settings.versions = ranges({}, client_metrics=False, two_phase=False)
            time.sleep(0.35)  # longer than the fallback's time
            for broker in cluster.broker_ids:
                cluster.disconnect(broker)
            deliver(producer, topic, b"new", partition=0)
        assert [header.magic for header in headers_of(cluster, topic)] == [0, 2]


# --- calls that an old release lacks, or knows in an older form ---


def test_transactions_before_0_11_are_refused_at_once(
    cluster: MockCluster, client: Client, release: str
):
    config = {"transactional.id": f"id-{release}", "error_cb": lambda error: None}
    with client.producer(**conf_for(release), **config) as producer:
        if release == "0.11.0":
            producer.init_transactions(WAIT_S)
            return
        needs = r"transactions need Apache Kafka 0\.11"
        code = code_of(lambda: producer.init_transactions(WAIT_S), needs)
    assert code == KafkaError._UNSUPPORTED_FEATURE


def test_topics_before_0_10_1_are_not_created_and_the_error_comes_at_once(
    cluster: MockCluster, client: Client, release: str
):
    topic = f"created-on-{release}"
    with AdminClient({"bootstrap.servers": client.bootstrap, **conf_for(release)}) as admin:
        [future] = admin.create_topics([NewTopic(topic, 1, 1)]).values()
        if release in ("0.10.1", "0.10.2", "0.11.0"):
            assert future.result(WAIT_S) is None
            return
        assert code_of(lambda: future.result(WAIT_S)) == KafkaError._UNSUPPORTED_FEATURE


def test_abort_without_the_epoch_of_kip_360():
    """Before 2.5 InitProducerId has no field for the current producer id."""
    with old_cluster("0.11.0") as cluster:
        client = Client(cluster)
        topic = client.topic(1)
        lingers = {"linger.ms": 30_000, "message.timeout.ms": 60_000}
        with client.producer(**{"transactional.id": "id", **lingers}) as producer:
            producer.init_transactions(WAIT_S)
            for value in (b"first", b"second"):
                producer.begin_transaction()
                producer.produce(topic, b"never sent")
                producer.abort_transaction(WAIT_S)
                producer.begin_transaction()
                producer.produce(topic, value)
                producer.commit_transaction(WAIT_S)
        messages = read_all(client, topic, 2)
    assert [message.value() for message in messages] == [b"first", b"second"]


def test_configs_are_described_in_the_oldest_form():
    with old_cluster("0.11.0") as cluster:
        client = Client(cluster)
        resource = ConfigResource(ResourceType.TOPIC, client.topic())
        with AdminClient({"bootstrap.servers": client.bootstrap}) as admin:
            [future] = admin.describe_configs([resource]).values()
            assert "retention.ms" in future.result(WAIT_S)


def test_offsets_of_a_transaction_without_the_member_of_kip_447():
    with old_cluster("0.11.0") as cluster:
        client = Client(cluster)
        topic = client.topic(1)
        config = {"group.id": "group", "enable.auto.commit": False}
        with (
            client.producer(**{"transactional.id": "id"}) as producer,
            client.consumer(**config) as consumer,
        ):
            consumer.subscribe([topic])
            poll_until(consumer.assignment, consumer)
            producer.init_transactions(WAIT_S)
            producer.begin_transaction()
            offsets = [TopicPartition(topic, 0, 3)]
            member = consumer.consumer_group_metadata()
            producer.send_offsets_to_transaction(offsets, member, WAIT_S)
            producer.commit_transaction(WAIT_S)
            [committed] = consumer.committed(offsets, WAIT_S)
    assert committed.offset == 3
