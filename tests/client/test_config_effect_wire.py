"""Properties whose value goes to the broker: the contents of the client's requests."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from kafka_native import KafkaError, KafkaException, Producer
from kafka_native._native.records import batch_headers
from kafka_native.admin import AdminClient
from kafka_native.control.brokers.versions import software_version
from kafka_native.mock import MockCluster
from kafka_native.mock.handlers import Incoming
from kafka_native.mock.versions import of_release
from kafka_native.protocol import ApiKey
from kafka_native.protocol.fetch import FetchRequest
from kafka_native.protocol.groups import ConsumerGroupHeartbeatRequest, JoinGroupRequest
from kafka_native.protocol.produce import ProduceRequest
from kafka_native.protocol.versions import ApiVersionsRequest
from kafka_native.types import version
from tests.waiting import poll_until, wait_for

from .support import Client, assigned, fill, filled, read_all

pytestmark = pytest.mark.usefixtures("repaired_cluster")


class Requests:
    """Every request that the brokers have read, decoded."""

    def __init__(self) -> None:
        self.received: list[Any] = []

    def first(self, kind: type[Any], poll: Callable[[], Any] = lambda: time.sleep(0.005)) -> Any:
        """Wait for the first request of this kind, and return it."""
        deadline = time.monotonic() + 30
        while not (found := [each for each in self.received if isinstance(each, kind)]):
            assert time.monotonic() < deadline, f"no {kind.__name__}"
            poll()
        return found[0]


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> Requests:
    found = Requests()
    handle = Incoming.handle

    def note(incoming: Incoming) -> Any:
        found.received.append(incoming.request)
        return handle(incoming)

    monkeypatch.setattr(Incoming, "handle", note)
    return found


def test_client_id_is_in_every_request(cluster: MockCluster, client: Client, topic: str):
    cluster.clear_requests()
    fill(client, topic, 1, **{"client.id": "my-client"})
    assert {each.client_id for each in cluster.requests} == {"my-client"}


@pytest.mark.parametrize(
    ("conf", "name", "of_version"),
    [
        ({}, "kafka-native", software_version(version())),
        (
            {"client.software.name": "my lib", "client.software.version": "v1.2+x"},
            "my-lib",
            "v1.2-x",
        ),
        ({"client.software.name": ".a."}, "a", software_version(version())),
        (
            {"client.software.name": "", "client.software.version": ""},
            "kafka-native",
            software_version(version()),
        ),
    ],
)
def test_brokers_get_the_name_and_version_of_the_library(
    client: Client, requests: Requests, conf: dict[str, Any], name: str, of_version: str
):
    with AdminClient({"bootstrap.servers": client.bootstrap, **conf}) as admin:
        admin.describe_features().result()
        sent = [each for each in requests.received if isinstance(each, ApiVersionsRequest)]
    assert len(sent) >= 2
    assert {each.client_software_name for each in sent} == {name}
    assert {each.client_software_version for each in sent} == {of_version}


@pytest.mark.parametrize("name", ["client.software.name", "client.software.version"])
def test_name_of_the_library_needs_a_letter_or_a_digit(name: str):
    with pytest.raises(KafkaException, match=f'Invalid value "[.]+" .*{name}.*a letter or a digit'):
        Producer({name: "..."})


@pytest.mark.parametrize("name", ["bootstrap.servers", "metadata.broker.list"])
def test_brokers_to_start_from(client: Client, name: str):
    with Producer({name: client.bootstrap}) as producer:
        assert len(producer.list_topics(timeout=20).brokers) == 3


@pytest.mark.parametrize(
    ("name", "value", "field"),
    [
        ("fetch.min.bytes", 7, "min_bytes"),
        ("fetch.wait.max.ms", 77, "max_wait_ms"),
        ("fetch.max.bytes", 2_000_000, "max_bytes"),
        ("client.rack", "here", "rack_id"),
    ],
)
def test_fetch_has_the_configured_value(
    client: Client, topic: str, requests: Requests, name: str, value: Any, field: str
):
    with assigned(client, topic, **{name: value}):
        assert getattr(requests.first(FetchRequest), field) == value


@pytest.mark.parametrize("name", ["fetch.message.max.bytes", "max.partition.fetch.bytes"])
def test_fetch_has_the_configured_partition_limit(client: Client, requests: Requests, name: str):
    topic = client.topic()
    with assigned(client, topic, **{name: 3000}):
        request = requests.first(FetchRequest)
    assert [each.partition_max_bytes for each in request.topics[0].partitions] == [3000]


def test_a_single_partition_may_fill_a_fetch(client: Client, topic: str, requests: Requests):
    with assigned(client, topic):
        request = requests.first(FetchRequest)
    assert [each.partition_max_bytes for each in request.topics[0].partitions] == [4 << 20]


@pytest.mark.parametrize(("level", "number"), [("read_uncommitted", 0), ("read_committed", 1)])
def test_isolation_level_is_in_the_fetch(
    client: Client, topic: str, requests: Requests, level: str, number: int
):
    with assigned(client, topic, **{"isolation.level": level}):
        assert requests.first(FetchRequest).isolation_level == number


def test_response_over_the_limit_is_not_read(cluster: MockCluster, client: Client, topic: str):
    errors: list[KafkaError] = []
    conf = {
        "receive.message.max.bytes": 1_100_000,
        "fetch.max.bytes": 1_000_000,
        "error_cb": errors.append,
    }
    # the consumer of an earlier test may get some of the ten
    cluster.oversize_next_response(None, 1_200_000, ApiKey.FETCH, count=10)
    with assigned(client, topic, **conf) as consumer:
        wait_for(lambda: consumer.poll(0.05) or errors)
    assert "receive.message.max.bytes" in errors[0].str()


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_produce_has_acks_and_timeout(client: Client, requests: Requests, acks: int):
    conf = {"acks": acks, "request.timeout.ms": 12_345}
    fill(client, client.topic(), 1, **conf)
    request = requests.first(ProduceRequest)
    assert (request.acks, request.timeout_ms) == (acks, 12_345)


def test_compression_level_makes_batches_smaller(cluster: MockCluster, client: Client):
    value = b"".join(b"%d," % (number * number) for number in range(5000))
    sizes = []
    for level in (1, 9):
        topic = client.topic()
        conf = {"compression.type": "gzip", "compression.level": level}
        with client.producer(**conf) as producer:
            producer.produce(topic, value)
        sizes.append(len(b"".join(cluster.batches(topic, 0))))
    assert sizes[0] > sizes[1]


@pytest.mark.parametrize(("name", "value"), [("batch.num.messages", 10), ("batch.size", 1500)])
def test_batches_end_at_the_limit(cluster: MockCluster, client: Client, name: str, value: int):
    topic = client.topic()
    with client.producer(**{"linger.ms": 1000, name: value}) as producer:
        for _ in range(100):
            producer.produce(topic, bytes(100), partition=0)
    batches = cluster.batches(topic, 0)
    assert sum(header.record_count for batch in batches for header in batch_headers(batch)) == 100
    for batch in batches:
        [header] = batch_headers(batch)
        assert (header.record_count if name == "batch.num.messages" else header.size_bytes) <= value
    assert len(batches) >= 7


def test_partitioner_places_keys(cluster: MockCluster, client: Client):
    keys = [f"key-{number}" for number in range(50)]
    places = {}
    for partitioner in ("consistent", "murmur2", "fnv1a"):
        topic = client.topic(partitions=7)
        with client.producer(partitioner=partitioner) as producer:
            for key in keys:
                producer.produce(topic, b"", key=key)
        places[partitioner] = [
            sorted(m.key or b"" for m in cluster.messages(topic, number)) for number in range(7)
        ]
    assert places["consistent"] != places["murmur2"] != places["fnv1a"] != places["consistent"]


def join_request(client: Client, requests: Requests, **conf: Any) -> JoinGroupRequest:
    """Return the JoinGroup of a classic member."""
    with client.consumer(**{"group.id": f"group-{time.monotonic_ns()}", **conf}) as consumer:
        consumer.subscribe([client.topic()])
        request: JoinGroupRequest = requests.first(JoinGroupRequest, lambda: consumer.poll(0.05))
        return request


def test_join_group_has_the_members_settings(client: Client, requests: Requests):
    conf = {
        "session.timeout.ms": 12_000,
        "max.poll.interval.ms": 34_000,
        "group.instance.id": "me",
        "group.protocol.type": "connect",
        "partition.assignment.strategy": "sticky",
    }
    request = join_request(client, requests, **conf)
    assert (request.session_timeout_ms, request.rebalance_timeout_ms) == (12_000, 34_000)
    assert (request.group_instance_id, request.protocol_type) == ("me", "connect")
    assert [each.name for each in request.protocols] == ["sticky"]


def test_member_of_a_consumer_group_names_its_assignor(client: Client, requests: Requests):
    topic = client.topic()
    conf = {"group.protocol": "consumer", "group.remote.assignor": "range", "client.rack": "here"}
    with client.consumer(**{"group.id": f"group-{time.monotonic_ns()}", **conf}) as consumer:
        consumer.subscribe([topic])
        request = requests.first(ConsumerGroupHeartbeatRequest, lambda: consumer.poll(0.05))
    assert (request.server_assignor, request.rack_id) == ("range", "here")


@pytest.mark.parametrize("commits", [True, False])
def test_offsets_are_committed_only_if_configured(client: Client, commits: bool):
    topic = filled(client, 10)
    client.cluster.clear_requests()
    conf = {
        "group.id": f"group-{time.monotonic_ns()}",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": commits,
    }
    with client.consumer(**conf) as consumer:
        consumer.subscribe([topic])
        assert len(consumer.consume(10, 30)) == 10
        consumer.poll(0)
    assert bool(client.cluster.requests_of(ApiKey.OFFSET_COMMIT)) is commits


def test_blacklisted_topics_do_not_match(client: Client):
    left, taken = client.topic(), client.topic()
    owned: list[str] = []
    conf = {"group.id": f"group-{time.monotonic_ns()}", "topic.blacklist": f"nothing,^{left}$"}
    with client.consumer(**conf) as consumer:
        on_assign = lambda _, partitions: owned.extend(each.topic for each in partitions)  # noqa: E731
        consumer.subscribe([f"^({left}|{taken})$"], on_assign=on_assign)
        poll_until(lambda: owned, consumer)
    assert owned == [taken]


@pytest.mark.parametrize("creates", [True, False])
def test_consumer_creates_topics_only_if_configured(client: Client, creates: bool):
    name = f"not-there-{time.monotonic_ns()}"
    errors: list[KafkaError] = []
    conf = {"allow.auto.create.topics": creates, "topic.metadata.propagation.max.ms": 300}
    with assigned(client, name, **conf) as consumer:

        def is_reported_or_created() -> bool:
            message = consumer.poll(0.05)
            errors.extend([message.error()] if message is not None and message.error() else [])  # type: ignore[list-item]
            return bool(errors) or name in client.cluster.topics

        wait_for(is_reported_or_created)
    assert (name in client.cluster.topics) is creates
    codes = [] if creates else [KafkaError.UNKNOWN_TOPIC_OR_PART]
    assert [error.code() for error in errors] == codes


@pytest.mark.parametrize("checks", [True, False])
def test_checksums_are_checked_only_if_configured(client: Client, topic: str, checks: bool):
    with client.producer() as producer:
        # the cluster damages the last byte
        producer.produce(topic, b"", headers={"last": b"bytes"})
    client.cluster.corrupt_next_fetch(topic, 0)
    conf = {"check.crcs": checks, "fetch.error.backoff.ms": 10}
    with assigned(client, topic, **conf) as consumer:
        message = consumer.poll(30)
    assert message is not None
    error = message.error()
    assert (error is not None and error.code() == KafkaError._BAD_MSG) is checks


def test_no_api_versions_request_is_sent_if_turned_off():
    conf = {"api.version.request": False, "broker.version.fallback": "0.9.0"}
    with MockCluster(brokers=1, max_versions=of_release("0.9.0")) as cluster:
        client = Client(cluster)
        topic = filled(client, 5, **conf)
        assert len(read_all(client, topic, 5, **conf)) == 5
        assert cluster.requests_of(ApiKey.API_VERSIONS) == []
        assert {each.version for each in cluster.requests_of(ApiKey.PRODUCE)} == {1}
