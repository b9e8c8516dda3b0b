"""A cluster that is reached over IPv6."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from kafka_native import KafkaError, Producer
from kafka_native.mock import MockCluster
from tests.harness.proxy import Proxy

from .support import Client, deliver, read_all


@pytest.fixture
def ipv6_bootstrap(cluster: MockCluster) -> Iterator[str]:
    """Yield an address on ::1 that leads to the first broker."""
    try:
        proxy = Proxy(cluster.address(1), host="::1", family=socket.AF_INET6)
    except OSError as reason:
        pytest.skip(f"no IPv6 here: {reason}")
    with proxy:
        yield proxy.address


@pytest.mark.parametrize("family", ["any", "v6"])
def test_bootstrap_over_ipv6(client: Client, topic: str, ipv6_bootstrap: str, family: str) -> None:
    errors: list[KafkaError] = []
    conf = {
        "bootstrap.servers": ipv6_bootstrap,
        "broker.address.family": family,
        "error_cb": errors.append,
    }
    with Producer(conf) as producer:
        # the brokers advertise 127.0.0.1, so only the bootstrap server can be reached
        if family == "v6":
            assert len(producer.list_topics(topic, 10).brokers) == 3
            return
        deliver(producer, topic, b"x")
    assert errors == []
    assert len(read_all(client, topic, 1)) == 1


def test_family_v4_does_not_reach_an_ipv6_server(ipv6_bootstrap: str) -> None:
    errors: list[KafkaError] = []
    conf = {
        "bootstrap.servers": ipv6_bootstrap,
        "broker.address.family": "v4",
        "error_cb": errors.append,
    }
    with Producer(conf) as producer:
        producer.produce("t", b"x")
        while not errors:
            producer.poll(0.2)
        producer.close(0)
    assert errors[0].code() in (KafkaError._RESOLVE, KafkaError._TRANSPORT)
    assert "::1" in errors[0].str()
