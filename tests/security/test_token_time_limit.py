"""A token request ends within a time limit, whatever the provider, network or resolver does."""

from __future__ import annotations

import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme

from kafka_native import Producer
from kafka_native.config import parse
from kafka_native.mock import ListenerSecurity, MockCluster
from kafka_native.security import aws_msk_iam, http_request, time_limit
from kafka_native.security.mechanisms import SaslError
from kafka_native.security.sasl import mechanism_of
from tests.waiting import wait_for

from . import slow_server
from .slow_server import END_S, SlowServer
from .token_endpoint import TokenEndpoint

LIMIT_S = 0.7
LATE_S = 4.0
"""Less than the scripts take, and enough for a busy machine."""
OIDC = {
    "bootstrap.servers": "h:1",
    "security.protocol": "sasl_plaintext",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
}
CLIENT = {"sasl.oauthbearer.client.id": "app", "sasl.oauthbearer.client.secret": "s3cret-word"}
URL, TYPE, CONFIG = (
    f"sasl.oauthbearer.{name}"
    for name in ("token.endpoint.url", "metadata.authentication.type", "config")
)
assert LATE_S < END_S


@pytest.fixture(autouse=True)
def short_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_limit, "FETCH_S", LIMIT_S)


@contextmanager
def in_time(min_s: float = LIMIT_S) -> Iterator[None]:
    """Check that the block fails when the limit is over, not earlier and not much later."""
    began = time.monotonic()
    with pytest.raises(SaslError, match=r"in 0\.7 s"):
        yield
    took_s = time.monotonic() - began
    assert min_s - 0.1 <= took_s < LATE_S


def fetch(**conf: Any) -> None:
    mechanism_of(parse({**OIDC, **CLIENT, **conf}, "producer")).refresh()


@pytest.mark.parametrize(
    "script",
    [
        slow_server.silent,
        slow_server.dripping_status,
        slow_server.dripping_headers,
        slow_server.dripping_body,
        slow_server.dripping_chunks,
        slow_server.continuing,
    ],
    ids=lambda script: script.__name__,
)
@pytest.mark.parametrize("kind", ["http", "https", "azure"])
def test_an_answer_that_does_not_end(kind: str, script: slow_server.Script, tmp_path: Path) -> None:
    context, ca_file = None, tmp_path / "ca.pem"
    conf: dict[str, Any] = {TYPE: "azure_imds"} if kind == "azure" else {}
    if kind == "https":
        authority, context = trustme.CA(), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        authority.issue_cert("127.0.0.1").configure_cert(context)
        authority.cert_pem.write_to_path(ca_file)
        conf = {"https.ca.location": str(ca_file)}
    url = f"{'http' if context is None else 'https'}://127.0.0.1"
    with SlowServer(script, context) as server, in_time():
        fetch(**{URL: f"{url}:{server.port}/token", **conf})


def test_a_tls_handshake_that_does_not_end() -> None:
    with SlowServer(slow_server.dripping_handshake) as server, in_time():
        fetch(**{URL: f"https://127.0.0.1:{server.port}/token"})


@contextmanager
def full_listener() -> Iterator[int]:
    """Yield the port of a listener that neither accepts nor refuses further connections."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


def test_addresses_that_do_not_answer_share_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    with full_listener() as port:
        address = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))
        monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: [address] * 9)
        with in_time():
            fetch(**{URL: f"http://provider.example:{port}/token"})


@pytest.mark.parametrize("protocol", [socket.IPPROTO_TCP, 255], ids=["silent", "impossible"])
def test_an_address_without_an_answer_leaves_time_for_the_next_one(
    protocol: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one: this machine can't connect to it, like IPv6 where that is turned off."""
    monkeypatch.setattr(time_limit, "FETCH_S", 3.0)
    answer = {"access_token": "opaque", "expires_in": 300}
    with full_listener() as silent, TokenEndpoint(lambda asked: (200, answer)) as endpoint:
        kind = (socket.AF_INET, socket.SOCK_STREAM)
        found = [
            (*kind, protocol, "", ("127.0.0.1", silent)),
            (*kind, socket.IPPROTO_TCP, "", ("127.0.0.1", endpoint.port)),
        ]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: found)
        fetch(**{URL: f"http://provider.example:{endpoint.port}/token"})
        assert len(endpoint.asked) == 1


def test_a_resolver_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: time.sleep(END_S))
    with in_time():
        fetch(**{URL: "http://provider.example/token"})


def test_a_resolver_that_hangs_gets_few_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each refresh stops waiting for a resolver that never answers."""
    release = threading.Event()
    monkeypatch.setattr(time_limit, "FETCH_S", 0.02)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: release.wait(60) and [])
    before = threading.active_count()
    mechanism = mechanism_of(
        parse({**OIDC, **CLIENT, URL: "http://provider.example/token"}, "producer")
    )
    try:
        for _ in range(20):
            with pytest.raises(SaslError):
                mechanism.refresh()
        assert threading.active_count() - before <= 4
        with pytest.raises(SaslError, match="haven't ended"):
            mechanism.refresh()
    finally:
        release.set()
    wait_for(lambda: threading.active_count() == before)
    with pytest.raises(SaslError, match=r"provider\.example/token"):
        mechanism.refresh()  # it tries again as soon as a thread is free


@pytest.mark.parametrize(
    "script", [slow_server.silent, slow_server.dripping_headers, slow_server.dripping_body]
)
def test_awss_token_service(script: slow_server.Script, aws_keys: None) -> None:
    with SlowServer(script) as server:
        config = f"region=eu-north-1,audience=x,sts_endpoint=http://127.0.0.1:{server.port}"
        with in_time():
            fetch(**{TYPE: "aws_iam", CONFIG: config})


def test_a_proxy_on_the_way_to_awss_token_service(
    aws_keys: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """botocore reads the proxy from the environment."""
    with SlowServer(slow_server.dripping_headers) as server:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{server.port}")
        with in_time():
            fetch(
                **{
                    TYPE: "aws_iam",
                    CONFIG: "region=eu-north-1,audience=x,sts_endpoint=http://sts.example",
                }
            )
        # The request goes on in its thread. botocore repeats it once after a slow read.
        wait_for(lambda: server.connections > 0, "a connection to the proxy")
        assert server.connections in (1, 2)


def test_awss_token_service_answers_with_too_much(
    aws_keys: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time_limit, "FETCH_S", 20.0)
    with TokenEndpoint(lambda asked: (200, b"x" * (http_request.RESPONSE_MAX_BYTES + 1))) as server:
        config = f"region=eu-north-1,audience=x,sts_endpoint=http://127.0.0.1:{server.port}"
        with pytest.raises(SaslError, match="more than 1048576 bytes"):
            fetch(**{TYPE: "aws_iam", CONFIG: config})
        assert len(server.asked) == 1


def test_aws_credentials_that_do_not_come(
    no_aws_keys: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A role's credentials also come over HTTP, from the machine or the container."""
    pytest.importorskip("botocore")
    with SlowServer(slow_server.dripping_body) as server:
        monkeypatch.setenv(
            "AWS_CONTAINER_CREDENTIALS_FULL_URI", f"http://127.0.0.1:{server.port}/credentials"
        )
        exchange = aws_msk_iam.AwsMskIam(aws_msk_iam.chain(), "agent", "eu-north-1").exchange(
            "h", 1
        )
        with in_time():
            exchange.begin()
        config = f"region=eu-north-1,audience=x,sts_endpoint=http://127.0.0.1:{server.port}"
        with in_time():
            fetch(**{TYPE: "aws_iam", CONFIG: config})


def test_a_body_that_does_not_end_is_not_read_to_its_end() -> None:
    def endless(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        end = time.monotonic() + END_S
        while time.monotonic() < end:
            connection.sendall(b"10000\r\n" + b"x" * 65536 + b"\r\n")

    with SlowServer(endless) as server, pytest.raises(SaslError, match="more than 1048576 bytes"):
        fetch(**{URL: f"http://127.0.0.1:{server.port}/token"})


@pytest.mark.parametrize("size", [b"-1", b"-ffff"])
def test_a_chunk_of_a_negative_size_is_not_read_to_the_end_of_the_connection(
    size: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time_limit, "FETCH_S", END_S)
    sent_bytes = 0

    def endless(connection: socket.socket) -> None:
        nonlocal sent_bytes
        connection.recv(65536)
        connection.sendall(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + size + b"\r\n"
        )
        end = time.monotonic() + LATE_S
        while time.monotonic() < end:
            connection.sendall(b"x" * 65536)
            sent_bytes += 65536

    with SlowServer(endless) as server, pytest.raises(SaslError):
        fetch(**{URL: f"http://127.0.0.1:{server.port}/token"})
    assert sent_bytes < 32 << 20, "the client takes no more than its limit and the socket's buffers"


def test_compressed_answers_are_not_unpacked() -> None:
    """A few compressed bytes may become gigabytes."""
    import gzip

    packed = gzip.compress(b'{"access_token": "opaque", "expires_in": 300}')

    def answer(connection: socket.socket) -> None:
        asked.append(connection.recv(65536))
        head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(packed)}\r\n\r\n"
        connection.sendall(head.encode() + packed)

    asked: list[bytes] = []
    with SlowServer(answer) as server, pytest.raises(SaslError, match="answers 200"):
        fetch(**{URL: f"http://127.0.0.1:{server.port}/token"})
    assert b"accept-encoding: identity\r\n" in asked[0].lower()


def test_a_client_is_closed_while_its_provider_drips(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_limit, "FETCH_S", 30.0)
    security = ListenerSecurity("sasl_plaintext", mechanisms=["OAUTHBEARER"])
    with (
        SlowServer(slow_server.dripping_headers) as server,
        MockCluster(1, security=security) as cluster,
    ):
        conf = {**OIDC, **CLIENT, URL: f"http://127.0.0.1:{server.port}/token"}
        producer = Producer(
            {**conf, "bootstrap.servers": cluster.bootstrap_servers, "error_cb": lambda error: None}
        )
        wait_for(lambda: server.connections == 1)
        began = time.monotonic()
        producer.close(0)
        assert time.monotonic() - began < LATE_S


GEVENT_PROGRAM = """
from gevent import monkey

monkey.patch_all()
import sys
from kafka_native.config import parse
from kafka_native.security import time_limit
from kafka_native.security.sasl import mechanism_of
from kafka_native.threads import Event, Thread

time_limit.FETCH_S = 0.7
conf = {"bootstrap.servers": "h:1", "security.protocol": "sasl_plaintext", "sasl.mechanism": "OAUTHBEARER"}
conf |= {"sasl.oauthbearer.method": "oidc", "sasl.oauthbearer.token.endpoint.url": sys.argv[1]}
conf |= {"sasl.oauthbearer.client.id": "app", "sasl.oauthbearer.client.secret": "s3cret-word"}
mechanism, ended = mechanism_of(parse(conf, "producer")), Event()

def fetch():
    try:
        mechanism.refresh()
        print("token", flush=True)
    except Exception as error:
        print(error, flush=True)
    finally:
        ended.set()

Thread(fetch, "security").start()
ended.wait(10)
"""


def test_under_gevent() -> None:
    """The security thread is a system thread there too."""
    pytest.importorskip("gevent")

    def fetched(port: int) -> str:
        command = [sys.executable, "-c", GEVENT_PROGRAM, f"http://localhost:{port}/token"]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=True
        ).stdout

    with TokenEndpoint(
        lambda asked: (200, {"access_token": "opaque", "expires_in": 300})
    ) as endpoint:
        assert fetched(endpoint.port) == "token\n"
    with SlowServer(slow_server.dripping_headers) as server:
        assert "no whole answer in 0.7 s" in fetched(server.port)
