"""Faults, TLS, listeners and recorded requests of the mock registry."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from kafka_native.mock import Certificates, MockSchemaRegistry
from tests.mock.registry_calls import call, record
from tests.waiting import WAIT_S


@pytest.fixture
def registry() -> Iterator[MockSchemaRegistry]:
    with MockSchemaRegistry() as running:
        yield running


BODY = {"schema": record("id")}


def test_failures_are_used_up_by_the_requests_that_fit(registry: MockSchemaRegistry) -> None:
    url = registry.url
    registry.faults.fail(500, 2, path="/subjects/*/versions", method="POST", error_code=50001)
    registry.faults.fail(429, headers={"Retry-After": "7"}, path="/subjects")
    assert call(url, "GET", "/contexts").status == 200
    for _ in range(2):
        answer = call(url, "POST", "/subjects/a/versions?normalize=true", BODY)
        assert (answer.status, answer.body["error_code"]) == (500, 50001)
    assert call(url, "POST", "/subjects/a/versions", BODY).status == 200
    assert call(url, "GET", "/subjects").headers["Retry-After"] == "7"
    assert call(url, "GET", "/subjects").body == ["a"]


def test_request_can_take_effect_although_it_fails(registry: MockSchemaRegistry) -> None:
    registry.faults.fail(503, done=True)
    assert call(registry.url, "POST", "/subjects/a/versions", BODY).status == 503
    assert call(registry.url, "GET", "/subjects").body == ["a"]


def test_answer_can_be_anything(registry: MockSchemaRegistry) -> None:
    registry.faults.fail(200, body=b"<html>", content_type="text/html")
    answer = call(registry.url, "GET", "/subjects")
    assert (answer.body, answer.headers["Content-Type"]) == ("<html>", "text/html")


@pytest.mark.parametrize("done", [True, False])
def test_connection_is_cut(registry: MockSchemaRegistry, done: bool) -> None:
    registry.faults.cut(done=done)
    with pytest.raises(http.client.RemoteDisconnected):
        call(registry.url, "POST", "/subjects/a/versions", BODY)
    assert call(registry.url, "GET", "/subjects").body == (["a"] if done else [])


def test_answer_is_cut_in_the_middle(registry: MockSchemaRegistry) -> None:
    whole = call(registry.url, "GET", "/schemas/types")
    head = sum(len(f"{name}: {value}\r\n") for name, value in whole.headers.items())
    registry.faults.cut(head + len("HTTP/1.1 200 OK\r\n\r\n") + 5)
    with pytest.raises(http.client.IncompleteRead):
        call(registry.url, "GET", "/schemas/types")


def test_delay_ends_with_the_registry(registry: MockSchemaRegistry) -> None:
    registry.faults.delay(3600)
    outcome: list[type[BaseException]] = []

    def ask() -> None:
        try:
            call(registry.url, "GET", "/subjects")
        except (http.client.HTTPException, OSError) as error:
            outcome.append(type(error))

    thread = threading.Thread(target=ask)
    thread.start()
    registry.wait_for_requests(1, timeout=WAIT_S)
    registry.close()
    thread.join(WAIT_S)
    assert len(outcome) == 1


def test_clear_removes_faults_and_a_fault_needs_a_request(registry: MockSchemaRegistry) -> None:
    registry.faults.fail(500)
    registry.faults.clear()
    assert call(registry.url, "GET", "/subjects").status == 200
    with pytest.raises(ValueError, match="count is 0"):
        registry.faults.fail(500, 0)


def test_requests_are_recorded(registry: MockSchemaRegistry) -> None:
    call(registry.url, "POST", "/subjects/a%2Fb/versions?normalize=true", BODY, {"X-One": "1"})
    (seen,) = registry.wait_for_requests(1, timeout=WAIT_S)
    assert (seen.method, seen.path) == ("POST", "/subjects/a%2Fb/versions")
    assert (seen.query, seen.headers["x-one"]) == ({"normalize": ["true"]}, "1")
    assert b"Order" in seen.body
    registry.clear_requests()
    assert registry.requests == []
    with pytest.raises(TimeoutError, match="0 of 1"):
        registry.wait_for_requests(1, timeout=0)


def test_listeners_share_schemas_and_go_down_alone() -> None:
    with MockSchemaRegistry(listeners=2) as registry:
        one, two = registry.urls
        call(one, "POST", "/subjects/a/versions", BODY)
        assert call(two, "GET", "/subjects").body == ["a"]
        registry.faults.fail(500, listener=1)
        assert call(one, "GET", "/subjects").status == 200
        assert call(two, "GET", "/subjects").status == 500
        registry.listener_down(1)
        with pytest.raises(ConnectionRefusedError):
            call(two, "GET", "/subjects")
        with pytest.raises(ValueError, match="isn't up"):
            registry.listener_down(1)
        registry.listener_up(1)
        assert call(two, "GET", "/subjects").body == ["a"]
        with pytest.raises(ValueError, match="isn't down"):
            registry.listener_up(1)


def test_closing_ends_connections_that_are_kept(registry: MockSchemaRegistry) -> None:
    place = urlsplit(registry.url)
    assert place.hostname is not None
    connection = http.client.HTTPConnection(place.hostname, place.port, timeout=WAIT_S)
    connection.request("GET", "/subjects")
    assert connection.getresponse().read() == b"[]"
    assert connection.sock is not None  # kept for the next request
    registry.close()
    assert connection.sock.recv(1) == b""
    connection.close()


@pytest.mark.parametrize("tls", [False, True])
def test_closing_ends_the_threads(tls: bool, capfd: pytest.CaptureFixture[str]) -> None:
    others = registry_threads()
    registry = MockSchemaRegistry(tls=tls, listeners=2)
    context = ssl.create_default_context(cadata=registry.ca_pem) if tls else None
    kept = []
    for url in registry.urls * 5:
        place = urlsplit(url)
        assert place.hostname is not None
        connection = (
            http.client.HTTPConnection(place.hostname, place.port, timeout=WAIT_S)
            if context is None
            else http.client.HTTPSConnection(
                place.hostname, place.port, timeout=WAIT_S, context=context
            )
        )
        connection.request("GET", "/subjects")
        assert connection.getresponse().read() == b"[]"
        kept.append(connection)
    assert len(registry_threads() - others) == 12
    registry.close()
    assert registry_threads() <= others
    for connection in kept:
        connection.close()
    assert capfd.readouterr().err == ""


def registry_threads() -> set[threading.Thread]:
    return {each for each in threading.enumerate() if each.name.startswith("mock schema registry")}


def test_tls_with_an_authority_and_client_certificates(tmp_path: object) -> None:
    authority = Certificates()
    arguments = {"tls": True, "certificates": authority, "client_certificates": "required"}
    with MockSchemaRegistry(**arguments) as registry:  # type: ignore[arg-type]
        assert registry.url.startswith("https://")
        assert registry.certificates is authority
        bare = ssl.create_default_context(cadata=registry.ca_pem)
        with pytest.raises(OSError, match=r"."):
            call(registry.url, "GET", "/subjects", context=bare)
        known = ssl.create_default_context(cadata=registry.ca_pem)
        known.load_cert_chain(*authority.client("ada").save(str(tmp_path), "ada"))
        assert call(registry.url, "GET", "/subjects", context=known).body == []
        with pytest.raises(ssl.SSLCertVerificationError):
            call(registry.url, "GET", "/subjects", context=ssl.create_default_context())


def test_tls_with_an_authority_of_its_own(tmp_path: object) -> None:
    with MockSchemaRegistry(tls=True) as registry:
        path = registry.save_ca(f"{tmp_path}/ca.pem")
        context = ssl.create_default_context(cafile=path)
        assert call(registry.url, "GET", "/subjects", context=context).body == []


def test_arguments_are_checked() -> None:
    for arguments in (
        {"listeners": 0},
        {"client_certificates": "required"},
        {"tls": True, "client_certificates": "maybe"},
    ):
        with pytest.raises(ValueError, match=r"listeners|certificates"):
            MockSchemaRegistry(**arguments)  # type: ignore[arg-type]
    with MockSchemaRegistry() as registry:
        with pytest.raises(OSError, match="in use"):
            MockSchemaRegistry(port=urlsplit(registry.url).port or 0)
        with pytest.raises(ValueError, match="no TLS"):
            _ = registry.ca_pem
        with pytest.raises(ValueError, match="no authority"):
            _ = registry.certificates


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"POST /subjects/a HTTP/1.1\r\nContent-Length: -5\r\n\r\n", b"400"),
        (b"POST /subjects/a HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", b"400"),
        (b"POST /subjects/a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", b"400"),
        (b"POST /subjects/a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n", b"413"),
        (
            (
                b"POST /subjects/a/versions HTTP/1.1\r\nConnection: close\r\n"
                b'Transfer-Encoding: chunked\r\n\r\n14\r\n{"schema":"\\"int\\""} \r\n0\r\n\r\n'
            ),
            b"200",
        ),
        (b"GET /subjects HTTP/1.0\r\n\r\n", b"200"),
        (b"nonsense\r\n\r\n", b"400"),
    ],
)
def test_bytes_that_no_client_library_sends(
    registry: MockSchemaRegistry, request_bytes: bytes, status: bytes
) -> None:
    place = urlsplit(registry.url)
    with socket.create_connection((place.hostname, place.port), timeout=WAIT_S) as connection:
        connection.sendall(request_bytes)
        answer = b""
        while part := connection.recv(65536):
            answer += part
    assert status in answer[:300]
    assert call(registry.url, "GET", "/contexts").status == 200
