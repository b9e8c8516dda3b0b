"""A client that every broker refuses gets the reason at once, without a JVM."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
import trustme

from kafka_native import Consumer, KafkaError, KafkaException
from kafka_native.mock import ListenerSecurity, MockCluster
from kafka_native.spark import exactly_once, producers, range_reader
from kafka_native.spark.client_pool import admitted
from kafka_native.spark.offset_reader import OffsetReader
from kafka_native.spark.options import SinkOptions, SourceOptions
from kafka_native.spark.pipelines.mirror import plan_mirror
from kafka_native.spark.ranges import OffsetRange
from kafka_native.spark.writers import write_rows

RIGHT, WRONG = "the right one", "s3cret-but-wrong"
TOPIC = "orders"


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    security = ListenerSecurity("sasl_ssl", mechanisms=["SCRAM-SHA-512"], users={"alice": RIGHT})
    with MockCluster(brokers=2, security=security) as made:
        made.create_topic(TOPIC, 1)
        yield made


def properties(cluster: MockCluster, password: str) -> dict[str, str]:
    """Return properties as a Spark job has them, without ``kafka.``."""
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    return {
        "bootstrap.servers": cluster.bootstrap_servers,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": f'{module} required username="alice" password="{password}";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": cluster.ca_pem,
    }


def source(given: dict[str, str]) -> SourceOptions:
    options = {f"kafka.{name}": value for name, value in given.items()}
    return SourceOptions.parse({**options, "subscribe": TOPIC, "fetchOffset.retryIntervalMs": "10"})


def sink(given: dict[str, str], **more: str) -> SinkOptions:
    return SinkOptions.parse(
        {**{f"kafka.{name}": value for name, value in given.items()}, "topic": TOPIC, **more}
    )


def plan(given: dict[str, str]) -> object:
    with OffsetReader(source(given)) as cluster:
        return cluster.latest(cluster.partitions())


def fetch(given: dict[str, str]) -> object:
    return list(range_reader.read_range(source(given), OffsetRange(TOPIC, 0, 0, 1)))


def write(given: dict[str, str]) -> object:
    return write_rows(
        producers.borrowed, [pa.record_batch({"value": pa.array([b"x"])})], sink(given)
    )


def begin(given: dict[str, str]) -> object:
    return exactly_once.begin(sink(given, **{"kafka.transactional.id": "orders-once"}))


@pytest.mark.parametrize("work", [plan, write, fetch, begin])
def test_a_wrong_password_is_the_error(
    work: Callable[[dict[str, str]], object], cluster: MockCluster, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(KafkaException) as raised:
        work(properties(cluster, WRONG))
    error: KafkaError = raised.value.args[0]
    assert error.code() == KafkaError._AUTHENTICATION
    assert "SASL authentication of user 'alice' with SCRAM-SHA-512 failed" in error.str()
    assert WRONG not in f"{raised.value}{caplog.text}"
    if work is not fetch:  # there is no record to fetch
        assert work(properties(cluster, RIGHT))
        producers.close_idle()


def test_a_certificate_that_is_not_trusted_is_the_error(cluster: MockCluster) -> None:
    stranger = trustme.CA().cert_pem.bytes().decode()
    for work in (plan, write):
        with pytest.raises(KafkaException) as raised:
            work({**properties(cluster, RIGHT), "ssl.truststore.certificates": stranger})
        assert raised.value.args[0].code() == KafkaError._SSL
        assert "can't be verified" in raised.value.args[0].str()


def test_a_mirror_plan_raises_the_refusal_of_its_target(cluster: MockCluster) -> None:
    with MockCluster(brokers=1) as origin:
        origin.create_topic(TOPIC, 1)
        where: dict[str, Any] = {"topics": [TOPIC]}
        plain = {"bootstrap.servers": origin.bootstrap_servers}
        [route] = plan_mirror(plain, properties(cluster, RIGHT), **where)
        assert route.target_partitions == 1
        with pytest.raises(KafkaException) as raised:
            plan_mirror(plain, properties(cluster, WRONG), **where)
    assert raised.value.args[0].code() == KafkaError._AUTHENTICATION


def test_client_waits_for_brokers_that_are_down(cluster: MockCluster) -> None:
    """A broker that is down refuses no client, so the client waits as long as the options allow."""
    given = sink(properties(cluster, RIGHT)).producer
    down = {"bootstrap.servers": "127.0.0.1:1"}
    consumer = admitted(Consumer({"log_level": 0, **down}))
    consumer.close()
    some = f"127.0.0.1:1,{given['bootstrap.servers']}"
    with producers.borrowed(
        sink({**properties(cluster, RIGHT), "bootstrap.servers": some})
    ) as producer:
        assert TOPIC in producer.list_topics(timeout=30).topics
    producers.close_idle()
