"""enable.metrics.push (KIP-714): clients push the subscribed metrics. It delays nothing else."""

from __future__ import annotations

import asyncio
import itertools
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from kafka_native import Consumer, KafkaError, Producer, ShareConsumer, TopicPartition
from kafka_native.admin import AdminClient
from kafka_native.aio import AIOConsumer, AIOProducer
from kafka_native.client_core import LAST_PUSH_S
from kafka_native.control.telemetry import SPECS, full_name
from kafka_native.mock import CLOSE_CONNECTION, MockCluster, PushedMetrics
from kafka_native.protocol import ApiKey
from tests.waiting import WAIT_S, wait_for

from .log_support import captured_log
from .support import Client, fill, raises_code, takes

GET, PUSH = ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY
OFTEN_MS = 100
PRODUCER, CONSUMER = "org.apache.kafka.producer.", "org.apache.kafka.consumer."


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    """Yield brokers that accept metrics, with a subscription to all."""
    with MockCluster(brokers=2, client_metrics=True) as running:
        running.subscribe_metrics(["*"], OFTEN_MS)
        yield running


def receivers(cluster: MockCluster, *keys: int) -> list[int]:
    """Return the brokers that got these requests, in order."""
    return [each.broker for each in cluster.requests if each.api_key in keys]


def pushes(cluster: MockCluster, count: int = 1) -> list[PushedMetrics]:
    """Return at least so many pushes."""
    return wait_for(lambda: len(cluster.pushed_metrics) >= count and cluster.pushed_metrics)


def deliver_numbers(producer: Producer, topic: str, count: int = 10) -> None:
    for number in range(count):
        producer.produce(topic, str(number), partition=number % 2)
    assert producer.flush(WAIT_S) == 0


def seen(cluster: MockCluster) -> dict[str, Any]:
    """Return the newest value of each metric that was ever pushed."""
    return {metric.name: metric for push in cluster.pushed_metrics for metric in push.metrics}


# --- what is pushed ---


def test_a_producer_pushes_its_metrics(client: Client, cluster: MockCluster) -> None:
    topic = client.topic(2)
    with client.producer(**{"client.rack": "r1", "client.id": "shop"}) as producer:
        deliver_numbers(producer, topic)
        last = full_name("producer", SPECS["producer"][-1])
        wait_for(lambda: last in seen(cluster) or deliver_numbers(producer, topic))
        expected = {
            full_name("producer", spec) for spec in SPECS["producer"] if "throttle" not in spec.name
        }
        assert set(seen(cluster)) == expected
        cluster.throttle_responses(cluster.leader(topic, 0), 20)
        deliver_numbers(producer, topic)
        wait_for(lambda: f"{PRODUCER}produce.throttle.time.max" in seen(cluster))
    final = cluster.pushed_metrics[-1]
    assert final.client_id == "shop"
    assert final.resource == {"client_rack": "r1"}
    assert final.scope[0] == producer._client.name
    throttled = seen(cluster)[f"{PRODUCER}produce.throttle.time.max"]
    assert (throttled.kind, throttled.value, throttled.unit) == ("gauge", 20, "ms")
    first = cluster.pushed_metrics[0]
    nodes = {
        metric.labels.get("node_id") for push in cluster.pushed_metrics for metric in push.metrics
    }
    assert nodes == {None, 1, 2}
    assert first.value(f"{PRODUCER}connection.creation.total") >= 1
    assert 0 < seen(cluster)[f"{PRODUCER}request.latency.avg"].value < WAIT_S * 1000


def test_a_group_consumer_pushes_its_metrics(client: Client, cluster: MockCluster) -> None:
    topic = client.topic(2)
    fill(client, topic, 20)
    conf = {"group.id": "readers", "group.instance.id": "one", "auto.offset.reset": "earliest"}
    with client.consumer(**conf) as consumer:
        consumer.subscribe([topic])
        assert len(consumer.consume(20, WAIT_S)) == 20
        consumer.commit(asynchronous=False)

        def everything() -> bool:
            consumer.poll(0.01)
            return {full_name("consumer", spec) for spec in SPECS["consumer"]} <= set(seen(cluster))

        wait_for(everything)
        found = seen(cluster)
        member = consumer._client.telemetry.sampler.resource["group_member_id"]
        consumer.pause(consumer.assignment())
    assert found[f"{CONSUMER}coordinator.assigned.partitions"].value == 2
    assert 0 < found[f"{CONSUMER}poll.idle.ratio.avg"].value <= 1
    assert found[f"{CONSUMER}coordinator.rebalance.latency.max"].value >= 0
    assert found[f"{CONSUMER}fetch.manager.fetch.latency.max"].value >= 1
    last = cluster.pushed_metrics[-1]
    assert last.resource == {
        "group_id": "readers",
        "group_instance_id": "one",
        "group_member_id": member,
    }
    assert last.terminating
    kinds = {name: metric.kind for name, metric in found.items() if name.startswith(CONSUMER)}
    assert {name for name, kind in kinds.items() if kind == "sum"} == {
        f"{CONSUMER}connection.creation.total",
        f"{CONSUMER}coordinator.rebalance.latency.total",
    }


def test_poll_idle_ratio_distinguishes_idle_and_busy_consumers(
    client: Client, cluster: MockCluster
) -> None:
    with client.consumer() as consumer:
        consumer.assign([TopicPartition(client.topic(), 0)])
        name = f"{CONSUMER}poll.idle.ratio.avg"

        def newest() -> float:
            return float(cluster.pushed_metrics[-1].value(name) or 0)

        wait_for(lambda: consumer.poll(0.02) is None and cluster.pushed_metrics and newest() > 0.5)
        wait_for(lambda: newest() < 0.1)  # the consumer doesn't poll


@pytest.mark.parametrize("delta", [True, False])
def test_sums_are_deltas_or_since_the_start(
    client: Client, cluster: MockCluster, delta: bool
) -> None:
    cluster.subscribe_metrics([f"{PRODUCER}connection"], OFTEN_MS, delta=delta)
    with client.producer() as producer:
        deliver_numbers(producer, client.topic(2))
        found = pushes(cluster, 4)
    [totals] = [[m for p in found for m in p.metrics if m.name.endswith(".total")]]
    assert {total.delta for total in totals} == {delta}
    values = [total.value for total in totals]
    if delta:
        assert values[0] >= 1
        assert values[-1] == 0
        assert all(
            later.start_ns == earlier.time_ns for earlier, later in itertools.pairwise(totals)
        )
    else:
        assert values == sorted(values)
        assert values[-1] >= 1
        assert len({total.start_ns for total in totals}) == 1


def test_only_subscribed_metrics_are_pushed(client: Client, cluster: MockCluster) -> None:
    cluster.subscribe_metrics([f"{PRODUCER}connection.creation.rate", "com."], OFTEN_MS)
    with client.producer() as producer:
        deliver_numbers(producer, client.topic(2))
        found = pushes(cluster, 2)
    assert {metric.name for push in found for metric in push.metrics} == {
        f"{PRODUCER}connection.creation.rate"
    }


@pytest.mark.parametrize("codec", ["zstd", "lz4", "gzip", "snappy"])
def test_the_brokers_first_codec_is_used(client: Client, cluster: MockCluster, codec: str) -> None:
    others = [each for each in ("gzip", "zstd") if each != codec]
    cluster.subscribe_metrics(["*"], OFTEN_MS, compression=[codec, *others])
    with client.producer() as producer:
        deliver_numbers(producer, client.topic(2))
        assert {push.compression for push in pushes(cluster)} == {codec}


def test_asyncio_clients_push_too(client: Client, cluster: MockCluster) -> None:
    topic = client.topic(2)
    conf = {"bootstrap.servers": client.bootstrap, "auto.offset.reset": "earliest"}

    async def main() -> None:
        async with AIOProducer(conf) as producer:
            await (await producer.produce(topic, "v"))
            assert bytes(await producer.client_instance_id(WAIT_S)) == cluster_id(producer)
        async with AIOConsumer({**conf, "group.id": "g"}) as consumer:
            await consumer.subscribe([topic])
            assert await consumer.poll(WAIT_S) is not None
            assert bytes(await consumer.client_instance_id(WAIT_S)) == cluster_id(consumer)
            deadline = time.monotonic() + WAIT_S
            while not idle():
                assert time.monotonic() < deadline
                await consumer.poll(0.02)

    def cluster_id(aio: Any) -> bytes:
        found: bytes = aio._core._client.telemetry._id
        return found

    def idle() -> bool:
        return any(
            (push.value(f"{CONSUMER}poll.idle.ratio.avg") or 0) > 0.5
            for push in cluster.pushed_metrics
        )

    asyncio.run(main())
    last = {push.client_instance_id: push for push in cluster.pushed_metrics}
    assert len(last) == 2
    assert all(push.terminating for push in last.values())


def test_share_consumers_push_and_have_an_id(client: Client, cluster: MockCluster) -> None:
    conf = {"bootstrap.servers": client.bootstrap, "group.id": "shared"}
    with ShareConsumer(conf) as consumer:
        consumer.subscribe([client.topic(2)])
        consumer.poll(0)
        found = consumer.client_instance_id(WAIT_S)
        pushes(cluster)
    last = {push.client_instance_id: push for push in cluster.pushed_metrics}
    assert list(last) == [bytes(found)]
    assert last[bytes(found)].terminating


# --- without pushes ---


def test_nothing_is_sent_to_brokers_without_client_metrics() -> None:
    with MockCluster(brokers=1) as old:
        client = Client(old)
        with client.producer() as producer:
            deliver_numbers(producer, client.topic(2))
            with raises_code(KafkaError._UNSUPPORTED_FEATURE):
                producer.client_instance_id(WAIT_S)
        assert receivers(old, GET, PUSH) == []


def test_nothing_is_sent_if_pushes_are_disabled(client: Client, cluster: MockCluster) -> None:
    with client.producer(**{"enable.metrics.push": False}) as producer:
        deliver_numbers(producer, client.topic(2))
        with raises_code(KafkaError._STATE, match=r"enable\.metrics\.push is false"):
            producer.client_instance_id(WAIT_S)
    assert receivers(cluster, GET, PUSH) == []
    with client.producer() as producer:  # on by default
        deliver_numbers(producer, client.topic(2))
        pushes(cluster)


def test_nothing_is_pushed_before_a_subscription(client: Client, cluster: MockCluster) -> None:
    cluster.subscribe_metrics([], OFTEN_MS)
    with client.producer() as producer:
        deliver_numbers(producer, client.topic(2))
        wait_for(lambda: len(receivers(cluster, GET)) >= 3)
        assert receivers(cluster, PUSH) == []
        cluster.subscribe_metrics(["*"], OFTEN_MS)
        pushes(cluster)
    assert len(set(receivers(cluster, PUSH))) == 1


def test_unused_client_opens_no_connection(client: Client, cluster: MockCluster) -> None:
    with client.producer():
        time.sleep(0.3)
        assert cluster.requests == []


def test_an_admin_client_pushes_nothing_and_has_an_id(client: Client, cluster: MockCluster) -> None:
    with AdminClient({"bootstrap.servers": client.bootstrap}) as admin:
        admin.list_topics(timeout=WAIT_S)
        assert receivers(cluster, GET) == []
        found = admin.client_instance_id(WAIT_S)
        assert found == admin.client_instance_id(WAIT_S)
        assert len(receivers(cluster, GET)) == 1
    assert receivers(cluster, PUSH) == []


# --- the id ---


def test_the_id_stays_the_same_and_is_the_one_that_is_pushed(
    client: Client, cluster: MockCluster
) -> None:
    with client.producer() as producer, client.consumer() as consumer:
        first = producer.client_instance_id(WAIT_S)
        assert consumer.client_instance_id(WAIT_S) != first
        assert uuid.UUID(bytes=bytes(first)).version == 4
        cluster.subscribe_metrics(["*"], OFTEN_MS + 1)
        deliver_numbers(producer, client.topic(2))
        pushes(cluster)
        assert producer.client_instance_id(0) == first
    assert {push.client_instance_id for push in cluster.pushed_metrics} >= {bytes(first)}


def test_client_instance_id_has_a_timeout() -> None:
    with Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}) as producer:
        began = time.monotonic()
        with raises_code(KafkaError._TIMED_OUT):
            producer.client_instance_id(0.2)
        assert time.monotonic() - began >= 0.2
    with pytest.raises(RuntimeError, match="closed"):
        producer.client_instance_id(0)


# --- when something goes wrong ---


def test_another_broker_replaces_the_chosen_one(client: Client, cluster: MockCluster) -> None:
    topic = client.topic(2)
    with client.producer() as producer:
        deliver_numbers(producer, topic)
        chosen = pushes(cluster, 3)[-1].broker
        # at the first push only one broker may be connected
        assert {push.broker for push in cluster.pushed_metrics[1:]} == {chosen}
        cluster.broker_down(chosen)
        other = 3 - chosen
        wait_for(lambda: cluster.pushed_metrics[-1].broker == other or producer.flush(0.01))
        instance = {push.client_instance_id for push in cluster.pushed_metrics}
        assert len(instance) == 1


def test_new_subscription_is_used_at_once(client: Client, cluster: MockCluster) -> None:
    with client.producer() as producer:
        deliver_numbers(producer, client.topic(2))
        before = pushes(cluster)[-1].subscription_id
        cluster.subscribe_metrics([f"{PRODUCER}connection"], OFTEN_MS + 1)
        newest = wait_for(
            lambda: (
                cluster.pushed_metrics[-1].subscription_id != before and cluster.pushed_metrics[-1]
            )
        )
        assert {metric.name for metric in newest.metrics} <= set(seen(cluster))
        assert len(newest.metrics) == 2


@pytest.mark.parametrize(
    "code",
    [
        KafkaError.UNKNOWN_SUBSCRIPTION_ID,
        KafkaError.UNSUPPORTED_COMPRESSION_TYPE,
        KafkaError.THROTTLING_QUOTA_EXCEEDED,
        KafkaError.TELEMETRY_TOO_LARGE,
        KafkaError.INVALID_CONFIG,
        CLOSE_CONNECTION,
    ],
)
def test_pushes_continue_after_an_error_and_messages_are_delivered(
    client: Client, cluster: MockCluster, code: int
) -> None:
    topic = client.topic(2)
    cluster.push_request_errors(PUSH, [code])
    with client.producer() as producer:
        deliver_numbers(producer, topic)
        pushes(cluster, 2)
        deliver_numbers(producer, topic)
    assert sum(len(cluster.messages(topic, number)) for number in range(2)) == 20


@pytest.mark.parametrize(
    "code", [KafkaError.INVALID_REQUEST, KafkaError.UNSUPPORTED_VERSION, KafkaError.INVALID_RECORD]
)
def test_permanent_error_is_warned_of_once(client: Client, cluster: MockCluster, code: int) -> None:
    cluster.push_request_errors(PUSH, [code] * 100)
    with captured_log() as log, client.producer(**{"client.id": log.client_id}) as producer:
        deliver_numbers(producer, client.topic(2))
        log.wait_for("client metrics are sent")
        time.sleep(3 * OFTEN_MS / 1000)
        deliver_numbers(producer, client.topic(2))
    assert len(log.matching("client metrics")) == 1
    assert len(receivers(cluster, PUSH)) == 1


def test_lost_subscription_is_requested_again(client: Client, cluster: MockCluster) -> None:
    cluster.push_request_errors(GET, [CLOSE_CONNECTION])
    with client.producer() as producer:
        wait_for(
            lambda: deliver_numbers(producer, client.topic(2)) or len(receivers(cluster, GET)) > 1
        )
        pushes(cluster)


def test_hostile_subscription_does_no_harm(client: Client, cluster: MockCluster) -> None:
    def lie(message: Any) -> None:
        message.push_interval_ms = -(1 << 31)
        message.telemetry_max_bytes = -1
        message.accepted_compression_types = [127, -128, 5, 99]
        names = [f"x{number}" for number in range(10_000)]
        message.requested_metrics = ["*" * 1000, "", "\0", *names]
        message.client_instance_id = bytes(16)

    cluster.edit_responses(GET, lie)
    with client.producer() as producer:
        assert bytes(producer.client_instance_id(WAIT_S)) != bytes(16)
        deliver_numbers(producer, client.topic(2))
        assert producer._client.telemetry is not None
    assert all(push.compression == "none" for push in cluster.pushed_metrics)


# --- the end ---


def client_of(kind: str, client: Client, topic: str) -> Any:
    """Return a client with a subscription and something to push."""
    opened: Producer | Consumer
    if kind == "producer":
        opened = client.producer()
        deliver_numbers(opened, topic)
    else:
        opened = client.consumer(**{"group.id": "g"} if kind == "member" else {})
        opened.assign([TopicPartition(topic, 0), TopicPartition(topic, 1)])
        opened.poll(0.05)
    wait_for(lambda: opened._client.telemetry._subscription)
    return opened


@pytest.mark.parametrize("kind", ["producer", "consumer", "member"])
def test_close_pushes_a_last_time_and_waits_for_no_fetch(
    client: Client, cluster: MockCluster, kind: str
) -> None:
    cluster.subscribe_metrics(["*"], 60_000)
    opened = client_of(kind, client, client.topic(2))
    opened.close()
    [push] = cluster.pushed_metrics
    assert push.terminating
    assert push.metrics


@pytest.mark.parametrize("kind", ["producer", "consumer"])
def test_close_does_not_wait_long_for_a_broker_that_is_silent(
    client: Client, cluster: MockCluster, kind: str
) -> None:
    cluster.subscribe_metrics(["*"], 60_000)
    opened = client_of(kind, client, client.topic(2))
    cluster.delay_responses(None, 20.0, PUSH)
    with takes(less_than_s=15.0):  # a wait for the answer would have taken 20
        opened.close()
    assert LAST_PUSH_S < 1.0


def test_close_without_waiting_pushes_nothing(client: Client, cluster: MockCluster) -> None:
    cluster.subscribe_metrics(["*"], 60_000)
    opened = client_of("producer", client, client.topic(2))
    opened.close(0)
    assert receivers(cluster, PUSH) == []


@pytest.mark.parametrize("make", [Producer, Consumer])
def test_client_without_a_connection_closes_at_once(make: Any) -> None:
    make({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}).close()


# --- secrets ---


def test_pushed_metrics_have_no_secret_and_no_topic(client: Client, cluster: MockCluster) -> None:
    topic = "topic-canary"
    cluster.create_topic(topic, 2)
    conf = {"sasl.username": "user-canary", "sasl.password": "password-canary", "group.id": "g"}
    conf |= {
        "ssl.key.password": "key-canary",
        "sasl.oauthbearer.client.secret": "oauth-canary",
        "debug": "telemetry",
    }
    with client.consumer(**conf) as consumer, client.producer() as producer:
        deliver_numbers(producer, topic)
        consumer.subscribe([topic])
        wait_for(
            lambda: (
                consumer.poll(0.01) is None
                and len({push.scope[0] for push in cluster.pushed_metrics}) == 2
            )
        )
    assert "canary" not in repr(cluster.pushed_metrics)
