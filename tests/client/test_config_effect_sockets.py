"""Properties of sockets: the system's view of the sockets that a client opened."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from collections.abc import Iterator

import pytest

from kafka_native import Producer
from kafka_native.control.brokers.bootstrap import canonical_servers
from kafka_native.mock import MockCluster

from .support import Client, deliver

OPTIONS = {
    "socket.send.buffer.bytes": (socket.SOL_SOCKET, socket.SO_SNDBUF),
    "socket.receive.buffer.bytes": (socket.SOL_SOCKET, socket.SO_RCVBUF),
    "socket.keepalive.enable": (socket.SOL_SOCKET, socket.SO_KEEPALIVE),
    "socket.nagle.disable": (socket.IPPROTO_TCP, socket.TCP_NODELAY),
}


# Another thread may close a socket meanwhile. TSan reports that as a race.
without_tsan = pytest.mark.skipif(
    os.environ.get("KN_SANITIZE") == "thread",
    reason="inspects descriptors that other threads close, a race for TSan",
)


def client_sockets(cluster: MockCluster) -> Iterator[socket.socket]:
    """Yield this process's sockets that are connected to a broker of the cluster."""
    brokers = {cluster.address(broker) for broker in cluster.broker_ids}
    for entry in map(int, os.listdir("/dev/fd")):
        # OSError: it isn't connected, or was closed meanwhile
        with contextlib.suppress(OSError):
            if not stat.S_ISSOCK(os.fstat(entry).st_mode):
                continue
            with socket.socket(fileno=os.dup(entry)) as copy:
                if copy.family == socket.AF_INET and "{}:{}".format(*copy.getpeername()) in brokers:
                    yield copy


def option_of(cluster: MockCluster, client: Client, name: str, value: object) -> set[int]:
    """Return a socket option's values when the property is set."""
    topic = client.topic()
    with client.producer(**{name: value}) as producer:
        deliver(producer, topic, b"")
        found = {each.getsockopt(*OPTIONS[name]) for each in client_sockets(cluster)}
    assert found
    return found


@without_tsan
@pytest.mark.parametrize("name", ["socket.keepalive.enable", "socket.nagle.disable"])
def test_option_is_on_or_off(name: str):
    for value in (True, False):
        with MockCluster(brokers=1) as cluster:
            options = option_of(cluster, Client(cluster), name, value)
            assert {bool(each) for each in options} == {value}


@without_tsan
@pytest.mark.parametrize("name", ["socket.send.buffer.bytes", "socket.receive.buffer.bytes"])
def test_buffers_have_the_size(name: str):
    with MockCluster(brokers=1) as cluster:
        [found] = option_of(cluster, Client(cluster), name, 20_000)
    assert found in (20_000, 40_000)  # Linux adds its own overhead


def test_bootstrap_servers_get_canonical_names_if_configured(
    monkeypatch: pytest.MonkeyPatch,
):
    with MockCluster(brokers=1) as cluster:
        host, _, port = cluster.bootstrap_servers.partition(":")
        at = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, int(port)))
        monkeypatch.setattr(
            socket, "getaddrinfo", lambda name, *_: [at] if name == "brokers.invalid" else []
        )
        monkeypatch.setattr(socket, "getnameinfo", lambda address, _: (address[0], str(address[1])))
        conf = {
            "bootstrap.servers": f"brokers.invalid:{port}",
            "client.dns.lookup": "resolve_canonical_bootstrap_servers_only",
        }
        with Producer(conf) as producer:
            assert len(producer.list_topics(timeout=20).brokers) == 1


def test_bootstrap_server_without_a_name_stays_and_is_reported():
    reported: list[str] = []
    servers = [("nobody.invalid", 1), ("127.0.0.1", 2)]
    found = canonical_servers(servers, "v4", lambda host, error: reported.append(host))
    assert reported == ["nobody.invalid"]
    assert found[0] == servers[0]
    assert found[1][1] == 2
