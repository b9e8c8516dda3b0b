"""TLS on a real Apache Kafka. confluent_kafka uses the same listeners for comparison."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
import pytest

import kafka_native
from kafka_native import KafkaError
from tests.broker.certificates import Authority
from tests.broker.cluster import Cluster, Listener, quiet
from tests.broker.support import TopicMaker, read, running
from tests.harness.tunnels import HttpConnect, Socks5, Tunnels
from tests.waiting import wait_for

pytestmark = [pytest.mark.broker, pytest.mark.slow]

SASL_PLAIN = {
    "sasl.enabled.mechanisms": "PLAIN",
    "plain.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule "
    'required user_alice="s3cret";',
}


class TlsBroker(NamedTuple):
    cluster: Cluster
    authority: Authority

    def conf(self, listener: str, **more: Any) -> dict[str, Any]:
        """Return the properties of a client that trusts the authority."""
        return {
            "bootstrap.servers": self.cluster.listeners[listener],
            "security.protocol": "ssl",
            "ssl.ca.location": self.authority.ca,
            **more,
        }


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsBroker]:
    """Yield one broker with a listener for each way to do TLS."""
    authority = Authority(tmp_path_factory.mktemp("certificates"))
    older = {"ssl.enabled.protocols": "TLSv1.2", "ssl.protocol": "TLSv1.2"}
    mutual = authority.listener("required") | {
        "ssl.principal.mapping.rules": "RULE:^CN=([^,]*),.*$/$1/,DEFAULT"
    }
    listeners = {
        "TLS": Listener("SSL", authority.listener()),
        "OLDER": Listener("SSL", authority.listener() | older),
        "MUTUAL": Listener("SSL", mutual),
        "MUTUALOLDER": Listener("SSL", mutual | older),
        "SASLTLS": Listener("SASL_SSL", authority.listener() | SASL_PLAIN),
    }
    with running(
        1, changes={"super.users": "User:ANONYMOUS;User:alice"}, listeners=listeners
    ) as cluster:
        yield TlsBroker(cluster, authority)


def round_trip(module: Any, config: dict[str, Any], topic: str) -> None:
    """Write messages of several sizes, and read them with the same client library."""
    if module is confluent_kafka:
        config = quiet(config)
    values = [b"a" * size for size in (1, 1000, 16_384, 100_000, 900_000)]
    producer = module.Producer(config)
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(60) == 0
    consumer = module.Consumer({**config, "group.id": "tls", "auto.offset.reset": "earliest"})
    try:
        assert [record.value for record in read(consumer, topic, [0], len(values))] == values
    finally:
        consumer.close()


@pytest.mark.parametrize("listener", ["TLS", "OLDER", "MUTUAL", "MUTUALOLDER", "SASLTLS"])
@pytest.mark.parametrize("module", [kafka_native, confluent_kafka], ids=["ours", "theirs"])
def test_messages_are_written_and_read_over_each_listener(
    module: Any, listener: str, secured: TlsBroker, new_topic: TopicMaker
) -> None:
    more: dict[str, Any] = (
        secured.authority.client_conf("alice") if listener.startswith("MUTUAL") else {}
    )
    if listener == "SASLTLS":
        login = {"sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": "s3cret"}
        more = {"security.protocol": "sasl_ssl", **login}
    round_trip(module, secured.conf(listener, **more), new_topic(secured.cluster))


@pytest.mark.parametrize("listener", ["PLAINTEXT", "TLS"])
@pytest.mark.parametrize("kind", [Socks5, HttpConnect])
def test_messages_are_written_and_read_through_a_proxy(
    kind: type[Tunnels], listener: str, secured: TlsBroker, new_topic: TopicMaker
) -> None:
    conf = secured.conf("TLS")
    if listener == "PLAINTEXT":
        conf = {"bootstrap.servers": secured.cluster.bootstrap}
    with kind((b"alice", b"s3cret")) as proxy:
        round_trip(
            kafka_native,
            {**conf, "proxy.url": proxy.url("alice", "s3cret")},
            new_topic(secured.cluster),
        )
        assert {f"{host}:{port}" for host, port in proxy.asked} == {conf["bootstrap.servers"]}


def first_error(config: dict[str, Any]) -> KafkaError:
    """Return the first error that error_cb gets."""
    errors: list[KafkaError] = []
    producer = kafka_native.Producer({**config, "error_cb": errors.append})
    try:
        producer.produce("nobody-reads-this", b"x")
        wait_for(lambda: [producer.poll(0.1), errors][1], "an error")
    finally:
        producer.close(0)
    return errors[0]


@pytest.mark.parametrize("listener", ["MUTUAL", "MUTUALOLDER"])
def test_error_without_a_certificate_asks_for_one(listener: str, secured: TlsBroker) -> None:
    error = first_error(secured.conf(listener))
    assert error.code() == KafkaError._SSL
    assert "wants a client certificate" in error.str()


@pytest.mark.parametrize("listener", ["MUTUAL", "MUTUALOLDER"])
def test_certificate_of_another_authority_is_named(
    listener: str, secured: TlsBroker, tmp_path: Path
) -> None:
    error = first_error(secured.conf(listener, **Authority(tmp_path).client_conf("alice")))
    assert error.code() == KafkaError._SSL
    assert "refuses the client's certificate, CN=alice" in error.str()


def test_another_authority_is_not_trusted(secured: TlsBroker, tmp_path: Path) -> None:
    error = first_error(secured.conf("TLS", **{"ssl.ca.location": Authority(tmp_path).ca}))
    assert error.code() == KafkaError._SSL
    assert "is none of the CAs of ssl.ca.location=" in error.str()


def test_plaintext_listener_is_recognised(secured: TlsBroker) -> None:
    error = first_error(secured.conf("TLS", **{"bootstrap.servers": secured.cluster.bootstrap}))
    assert error.code() == KafkaError._SSL
    assert "a PLAINTEXT listener? security.protocol=plaintext" in error.str()


def test_tls_listener_is_recognised(secured: TlsBroker) -> None:
    error = first_error(secured.conf("TLS", **{"security.protocol": "plaintext"}))
    assert error.code() == KafkaError._BAD_MSG
    assert "security.protocol" in error.str()
    assert "TLS" in error.str()


def test_versions_and_suites_without_overlap_are_errors(secured: TlsBroker) -> None:
    error = first_error(secured.conf("OLDER", **{"ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"}))
    assert error.code() == KafkaError._SSL
    assert "see what ssl.cipher.suites leaves to offer" in error.str()
