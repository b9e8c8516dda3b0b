"""Clients behind a proxy: every connection goes through it, and errors name it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kafka_native import KafkaError, Producer
from kafka_native.admin import AdminClient
from kafka_native.mock import ListenerSecurity, MockCluster
from tests.client.log_support import PlainLogger
from tests.client.support import Client, errors_into, read_all
from tests.harness.tunnels import Canned, HttpConnect, Socks5, Tunnels
from tests.waiting import poll_until, wait_for

USER, SECRET = "alice", "s3cret-w%rd"
QUOTED = "s3cret-w%25rd"
LOGIN = (USER.encode(), SECRET.encode())
BASIC = "YWxpY2U6czNjcmV0LXclcmQ="
KINDS = [Socks5, HttpConnect]
QUICK = {"reconnect.backoff.ms": 1, "reconnect.backoff.max.ms": 20}
BOUND = b"\x00\x01" + bytes(6)


@contextmanager
def hidden(
    protocol: str = "plaintext", brokers: int = 2
) -> Iterator[tuple[MockCluster, dict[str, str]]]:
    """Yield a cluster whose brokers' names only a proxy can resolve."""
    names = {f"broker-{number}.invalid": "127.0.0.1" for number in range(1, brokers + 1)}
    names["localhost"] = "127.0.0.1"
    with MockCluster(brokers, security=ListenerSecurity(protocol)) as cluster:
        for number, server in enumerate(cluster.bootstrap_servers.split(","), 1):
            # the certificates' only name
            name = "localhost" if protocol == "ssl" else f"broker-{number}.invalid"
            cluster.advertise(number, f"{name}:{server.rpartition(':')[2]}")
        yield cluster, names


def round_trip(cluster: MockCluster, conf: dict[str, Any]) -> None:
    """Produce to and consume from each broker, and make an admin call."""
    client = Client(cluster)
    topic = client.topic(4)
    with client.producer(**conf) as producer:
        for number in range(100):
            producer.produce(topic, b"%d" % number, partition=number % 4)
        assert producer.flush(60) == 0
    assert len(read_all(client, topic, 100, **conf)) == 100
    with AdminClient({"bootstrap.servers": cluster.bootstrap_servers, **conf}) as admin:
        assert topic in admin.list_topics(timeout=20).topics


@pytest.mark.parametrize("protocol", ["plaintext", "ssl"])
@pytest.mark.parametrize("login", [None, LOGIN], ids=["open", "login"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_connection_goes_through_the_proxy(
    kind: type[Tunnels], login: Any, protocol: str
) -> None:
    with hidden(protocol) as (cluster, names), kind(login, names=names) as proxy:
        url = proxy.url(USER, QUOTED) if login else proxy.url()
        conf = {"proxy.url": url, "security.protocol": protocol}
        if protocol == "ssl":
            conf["ssl.ca.pem"] = cluster.ca_pem
        round_trip(cluster, conf)
        hosts = {tuple(server.rsplit(":", 1)) for server in cluster.bootstrap_servers.split(",")}
        assert {(host, str(port)) for host, port in proxy.asked} == hosts, (
            "in the brokers' own names"
        )
        assert set(proxy.logins) == ({LOGIN} if login else set())
        if protocol == "ssl":
            assert {seen.server_name for seen in cluster.handshakes} == {"localhost"}


def test_client_resolves_names_with_socks5(cluster: MockCluster) -> None:
    with Socks5() as proxy:
        for number, server in enumerate(cluster.bootstrap_servers.split(","), 1):
            cluster.advertise(number, f"localhost:{server.rpartition(':')[2]}")
        try:
            round_trip(
                cluster, {"proxy.url": proxy.url(scheme="socks5"), "broker.address.family": "v4"}
            )
        finally:
            for number in (1, 2, 3):
                cluster.advertise(number, None)
        assert {host for host, _ in proxy.asked} == {"127.0.0.1"}


def test_certificate_must_be_the_brokers_and_not_the_proxys() -> None:
    with hidden("ssl", 1) as (cluster, names), Socks5(names=names) as proxy:
        port = cluster.bootstrap_servers.rpartition(":")[2]
        cluster.advertise(1, f"broker-1.invalid:{port}")
        conf = {"security.protocol": "ssl", "ssl.ca.pem": cluster.ca_pem}
        error = first_error(
            {"bootstrap.servers": cluster.bootstrap_servers, "proxy.url": proxy.url(), **conf}
        )
        assert error.code() == KafkaError._SSL
        assert "not broker-1.invalid" in error.str()


@pytest.mark.parametrize("kind", KINDS)
def test_no_message_is_lost_when_the_proxy_breaks_and_restarts(kind: type[Tunnels]) -> None:
    with hidden() as (cluster, names):
        client = Client(cluster)
        topic = client.topic(2)
        proxy = kind(LOGIN, names=names)
        port, count = proxy.port, 4000
        reports: list[KafkaError | None] = []
        conf = {
            "proxy.url": proxy.url(USER, QUOTED),
            "linger.ms": 1,
            "batch.num.messages": 20,
            **QUICK,
        }
        with client.producer(**conf) as producer:
            for number in range(count):
                producer.produce(
                    topic, b"%d" % number, partition=number % 2, on_delivery=errors_into(reports)
                )
                if number % 500 == 250:
                    poll_until(lambda: len(proxy.asked), producer)
                    proxy.cut_all()
                if number == count // 2:
                    proxy.__exit__(None, None, None)
            proxy = kind(LOGIN, names=names, port=port)
            assert producer.flush(60) == 0
        assert reports == [None] * count
        found = read_all(client, topic, count, **conf)
        proxy.__exit__(None, None, None)
    for partition in (0, 1):
        values = [
            int(message.value() or b"") for message in found if message.partition() == partition
        ]
        assert values == list(range(partition, count, 2)), "once, and in order"


def first_error(conf: dict[str, Any]) -> KafkaError:
    """Return the first error of error_cb."""
    errors: list[KafkaError] = []
    with Producer({**QUICK, **conf, "error_cb": errors.append}) as producer:
        producer.produce("t", b"a reason to connect")
        poll_until(lambda: errors, producer)
        producer.purge()
    return errors[0]


def error_behind(url: str, **conf: Any) -> str:
    found = first_error({"bootstrap.servers": "b1.invalid:9092", "proxy.url": url, **conf})
    assert found.code() == KafkaError._TRANSPORT
    return found.str()


SOCKS_WORDS = {
    1: "it has failed, and its log says why",
    2: "its rules don't allow connections to this broker",
    3: "it has no route to the broker's network",
    4: "it can't reach the broker's host",
    5: "the broker refuses its connection",
    6: "the broker is too far away",
    7: "it makes no connections for clients",
    8: "try the other one of socks5:// and socks5h://",
}


@pytest.mark.parametrize(("code", "words"), SOCKS_WORDS.items())
def test_error_has_the_socks5_code_and_the_proxys_address(code: int, words: str) -> None:
    with Socks5(refuse=lambda host: code) as proxy:
        text = error_behind(proxy.url())
        assert text.startswith(
            f"b1.invalid:9092/bootstrap: connect failed: proxy {proxy.address}: "
        )
        assert words in text
        assert f"(SOCKS5 says {code})" in text


@pytest.mark.parametrize("code", [403, 404, 405, 500, 502, 503, 504])
def test_error_has_the_http_status_and_the_proxys_address(code: int) -> None:
    with HttpConnect(refuse=lambda host: code) as proxy:
        text = error_behind(proxy.url())
        assert f"proxy {proxy.address}: " in text
        assert f"(HTTP says {code})" in text
        assert "the Proxy" not in text, "no word of the proxy's response"


@pytest.mark.parametrize("kind", KINDS)
def test_error_of_a_missing_or_wrong_login_names_the_property(kind: type[Tunnels]) -> None:
    with kind(LOGIN) as proxy:
        assert "it wants a login: set proxy.url to" in error_behind(proxy.url())
        text = error_behind(proxy.url(USER, "an0ther-secret"))
        assert "it refuses the user and password of proxy.url" in text
        assert "an0ther-secret" not in text


def test_proxy_of_the_other_kind_is_recognized() -> None:
    with Socks5(patience_s=1.0) as socks, HttpConnect(patience_s=1.0) as http:
        assert "does it speak HTTP?" in error_behind(socks.url(scheme="http"))
        assert "does it speak SOCKS5?" in error_behind(http.url(scheme="socks5h"))
    with Canned(b"\x05\xff") as canned:
        assert "it speaks SOCKS5, not HTTP" in error_behind(f"http://{canned.address}")
    with Canned(b"HTTP/1.1 400 Bad Request\r\n\r\n") as canned:
        assert "it speaks HTTP, not SOCKS5" in error_behind(
            f"socks5://{canned.address}", **{"bootstrap.servers": "127.0.0.1:1"}
        )


def test_error_names_an_unreachable_proxy() -> None:
    with Socks5() as proxy:
        address = proxy.address
    assert f"proxy {address}: Connection refused" in error_behind(f"socks5h://{address}")
    error = first_error(
        {"bootstrap.servers": "b1.invalid:9092", "proxy.url": "socks5h://proxy.invalid:1080"}
    )
    assert "cannot resolve the proxy's name" in error.str()


OPEN = {"http": b"HTTP/1.1 200 OK\r\n\r\n", "socks5h": b"\x05\x00" + b"\x05\x00" + BOUND}
SILENT = {"socket.connection.setup.timeout.ms": 1000}


@pytest.mark.parametrize("scheme", OPEN)
def test_silent_proxy_ends_with_the_setup_timeout(scheme: str) -> None:
    with Canned(OPEN[scheme][:-1], stays=True) as proxy:
        assert f"proxy {proxy.address}: no answer within 1000 ms" in error_behind(
            f"{scheme}://{proxy.address}", **SILENT
        )


@pytest.mark.parametrize("scheme", OPEN)
def test_silent_broker_behind_the_proxy_ends_with_the_setup_timeout(scheme: str) -> None:
    with (
        Canned(OPEN[scheme], stays=True) as proxy,
        MockCluster(1, security=ListenerSecurity("ssl")) as cluster,
    ):
        tls = {"security.protocol": "ssl", "ssl.ca.pem": cluster.ca_pem}
        text = error_behind(f"{scheme}://{proxy.address}", **SILENT, **tls)
        assert "no answer of the broker behind it within 1000 ms" in text


HOSTILE = {
    "socks5h": [
        b"\x05",
        b"\x05\x02",
        b"\x05\x00\x05",
        b"\x05\x00\x05\x00\x00\x03\xff" + b"a" * 100,
        b"\x05\x00\x05\x00\x00\x09" + b"a" * 300,
        b"\x00" * 100_000,
        b"\xff" * 100_000,
    ],
    "http": [
        b"HTTP/1.1 200",
        b"HTTP/1.1 200 OK\r\n" + b"X: " + b"y" * 1_000_000,
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 100_000,
        b"HTTP/1.1 200 OK\r\n\r\n" + b"z" * 1_000_000,
        b"HTTP/1.1 -20 OK\r\n\r\n",
        b"\r\n\r\n",
        b"\x00" * 100_000,
    ],
}


@pytest.mark.parametrize("piece_bytes", [1000, 1 << 20])
@pytest.mark.parametrize(
    ("scheme", "response"),
    [(scheme, each) for scheme, responses in HOSTILE.items() for each in responses],
)
def test_hostile_proxy_is_refused_and_the_client_continues(
    scheme: str, response: bytes, piece_bytes: int, client: Client
) -> None:
    threads = threading.active_count()
    with Canned(response, piece_bytes=piece_bytes) as proxy:
        text = error_behind(f"{scheme}://{proxy.address}")
        assert f"proxy {proxy.address}: " in text
        assert proxy.received, "the client sent something"
    wait_for(lambda: threading.active_count() <= threads)


def all_output(conf: dict[str, Any]) -> list[str]:
    """Return all output of a client besides its log, until a delivery or an error."""
    outputs: list[Any] = []
    conf = {
        **QUICK,
        **conf,
        "statistics.interval.ms": 50,
        "stats_cb": outputs.append,
        "error_cb": outputs.append,
    }
    with Producer(conf) as producer:
        producer.produce("t", b"x")
        poll_until(
            lambda: not len(producer) or any(type(each) is KafkaError for each in outputs), producer
        )
        before = len(outputs)
        poll_until(lambda: len(outputs) > before, producer)
        outputs += [producer, producer.metrics()]
        producer.purge()
    return [text for each in outputs for text in (str(each), repr(each))]


def test_no_output_has_a_secret(capfd: pytest.CaptureFixture[str]) -> None:
    logger = PlainLogger()
    outputs: list[str] = []
    echo = b"HTTP/1.1 403 " + SECRET.encode() + BASIC.encode() + b"\r\n\r\n"
    with (
        hidden() as (cluster, names),
        HttpConnect(LOGIN, names=names) as http,
        Socks5(LOGIN, names=names) as socks,
        HttpConnect((b"x", b"y")) as other,
        Canned(echo) as echoing,
    ):
        cluster.create_topic("t", 1)
        conf = {"bootstrap.servers": cluster.bootstrap_servers, "debug": "all", "logger": logger}
        urls = [each.url(USER, QUOTED) for each in (http, socks, other)]
        for url in [*urls, f"http://{USER}:{QUOTED}@{echoing.address}"]:
            outputs += all_output({**conf, "proxy.url": url})
        shown = f"connections go through Proxy(http://[redacted]@{http.address})"
    printed = capfd.readouterr()
    everything = "\n".join([*logger.texts(), *outputs, printed.out, printed.err])
    for line in (
        "proxy.url = [redacted]",
        shown,
        "it refuses the user and password",
        "(HTTP says 403)",
        "txmsgs=1,",
    ):
        assert line in everything, "the output is complete"
    assert [secret for secret in (SECRET, QUOTED, BASIC) if secret in everything] == []


def test_log_names_the_proxy_of_a_connection() -> None:
    logger = PlainLogger()
    with hidden(brokers=1) as (cluster, names), Socks5(names=names) as proxy:
        conf = {"proxy.url": proxy.url(), "debug": "broker", "logger": logger}
        with Client(cluster).producer(**conf) as producer:
            producer.list_topics(timeout=20)
        assert any(f"(proxy {proxy.address})" in text for text in logger.texts())
