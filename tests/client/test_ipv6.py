"""A cluster that is reached over IPv6."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from kafka_native import KafkaError, Producer
from kafka_native.mock import MockCluster

from .support import Client, read_all


def pump(source: socket.socket, target: socket.socket) -> None:
    """Carries bytes one way until the source ends."""
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


def relay(listener: socket.socket, host: str, port: int) -> None:
    """Carries every connection on to another address."""
    while True:
        try:
            near, _ = listener.accept()
        except OSError:
            return
        far = socket.create_connection((host, port))
        for one, other in ((near, far), (far, near)):
            threading.Thread(target=pump, args=(one, other), daemon=True).start()


@pytest.fixture
def ipv6_bootstrap(cluster: MockCluster) -> Iterator[str]:
    """The first broker's port, on ::1."""
    try:
        listener = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError as reason:
        pytest.skip(f"no IPv6 here: {reason}")
    host, _, port = cluster.address(1).rpartition(":")
    with listener:
        threading.Thread(target=relay, args=(listener, host, int(port)), daemon=True).start()
        yield f"[::1]:{listener.getsockname()[1]}"


@pytest.mark.parametrize("family", ["any", "v6"])
def test_bootstrap_over_ipv6(client: Client, ipv6_bootstrap: str, family: str) -> None:
    errors: list[KafkaError] = []
    topic = client.topic()
    conf = {"bootstrap.servers": ipv6_bootstrap, "broker.address.family": family, "error_cb": errors.append}
    with Producer(conf) as producer:
        if family == "v6":  # the brokers advertise 127.0.0.1, so only the bootstrap server can be reached
            assert len(producer.list_topics(topic, 10).brokers) == 3
            return
        producer.produce(topic, b"x")
        assert producer.flush(10) == 0
    assert errors == []
    assert len(read_all(client, topic, 1)) == 1


def test_family_v4_does_not_reach_an_ipv6_server(ipv6_bootstrap: str) -> None:
    errors: list[KafkaError] = []
    conf = {"bootstrap.servers": ipv6_bootstrap, "broker.address.family": "v4", "error_cb": errors.append}
    with Producer(conf) as producer:
        producer.produce("t", b"x")
        while not errors:
            producer.poll(0.2)
        producer.close(0)
    assert errors[0].code() in (KafkaError._RESOLVE, KafkaError._TRANSPORT)
    assert "::1" in errors[0].str()
