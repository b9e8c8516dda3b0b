"""What the clients do when a registry doesn't answer, or answers wrongly."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler

import pytest

from kafka_native.schema_registry import Schema, SchemaRegistryError
from kafka_native.schema_registry.retries import RetryPolicy, retry_after_s
from kafka_native.schema_registry.steps import Response
from kafka_native.schema_registry.transports import RESPONSE_MAX_BYTES
from tests.registry.client.conftest import Caller
from tests.registry.client.server import Answer, Cut, Server
from tests.waiting import WAIT_S

GOOD = Answer(body={"schema": '"int"'})
NOBODY = "http://127.0.0.1:1"
Connect = Callable[..., Caller]


def refused(caller: Caller, name: str = "get_schema", *args: object) -> SchemaRegistryError:
    with pytest.raises(SchemaRegistryError) as caught:
        caller(name, *(args or (1,)))
    return caught.value


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_a_temporary_error_is_retried(server: Server, connect: Connect, status: int) -> None:
    server.answer(Answer(status, {"error_code": 50001, "message": "later"}), GOOD)
    assert connect()("get_schema", 1) == Schema('"int"')
    assert len(server.requests) == 2


def test_a_cut_answer_is_retried(server: Server, connect: Connect) -> None:
    server.answer(Cut(), GOOD)
    assert connect()("get_schema", 1) == Schema('"int"')
    assert len(server.requests) == 2


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 422, 501])
def test_a_final_error_is_raised_at_once(server: Server, connect: Connect, status: int) -> None:
    server.answer(Answer(status, {"error_code": status * 100 + 1, "message": "not here"}))
    error = refused(connect())
    assert (error.http_status_code, error.error_code) == (status, status * 100 + 1)
    assert error.error_message == "not here"
    assert str(error) == f"not here (HTTP status code {status}, SR code {status}01)"
    assert len(server.requests) == 1


def test_retries_end(server: Server, connect: Connect) -> None:
    server.answer(Answer(503, {"error_code": 50301, "message": "busy"}))
    error = refused(connect({"max.retries": 2}))
    assert error.http_status_code == 503
    assert error.error_code == 50301
    assert error.error_message.startswith("busy (tried before: ")
    assert error.error_message.endswith(f"(tried before: {server.url}: HTTP 503 (2 times))")
    assert len(server.requests) == 3


def test_an_error_names_every_address_that_was_tried(connect: Connect) -> None:
    error = refused(connect({"url": f"{NOBODY},{NOBODY}/second", "max.retries": 1}))
    assert error.http_status_code == SchemaRegistryError.UNKNOWN
    assert "/schemas/ids/1" in error.error_message
    assert error.error_message.count(NOBODY) == 2
    assert error.error_message.count("/second") == 1
    assert error.error_message.count("(2 times)") == 2
    assert error.__cause__ is not None


def test_the_next_registry_answers(server: Server, other_server: Server, connect: Connect) -> None:
    server.answer(Answer(500, b"down"))
    other_server.answer(GOOD)
    caller = connect({"url": f"{NOBODY}, {server.url}/ ,{other_server.url}"})
    assert caller("get_schema", 1) == Schema('"int"')
    assert (len(server.requests), len(other_server.requests)) == (1, 1)
    # The client stays with the registry that answered.
    caller("get_schema", 2)
    assert (len(server.requests), len(other_server.requests)) == (1, 2)


def test_a_path_in_the_base_url_is_kept(server: Server, connect: Connect) -> None:
    server.answer(GOOD)
    connect({"url": f"{server.url}/apis/ccompat/v7/"})("get_schema", 1)
    assert server.requests[0].path == "/apis/ccompat/v7/schemas/ids/1"


class Silent(Answer):
    """Sends the beginning of a body, then nothing until the test ends."""

    def __init__(self) -> None:
        super().__init__()
        self.is_over = threading.Event()

    def write(self, handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        handler.wfile.write(b"{")
        handler.wfile.flush()
        self.is_over.wait(WAIT_S)
        handler.close_connection = True


def test_a_silent_registry_is_given_up(server: Server, connect: Connect) -> None:
    silent = Silent()
    server.answer(silent)
    try:
        error = refused(connect({"timeout": 0.1, "max.retries": 0}))
    finally:
        silent.is_over.set()
    assert "timeout" in error.error_message.lower()


class Endless(Answer):
    """Sends a body without a length, until the client closes the connection."""

    def write(self, handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
        while True:
            handler.wfile.write(chunk)


def test_a_huge_answer_is_refused(server: Server, connect: Connect) -> None:
    server.answer(Endless())
    error = refused(connect())
    assert f"larger than {RESPONSE_MAX_BYTES} bytes" in error.error_message
    assert len(server.requests) == 1


@pytest.mark.parametrize("length", [str(RESPONSE_MAX_BYTES + 1), "9" * 40])
def test_a_huge_length_is_refused(server: Server, connect: Connect, length: str) -> None:
    server.answer(Answer(body=b"{}", headers={"Content-Length": length}))
    error = refused(connect({"max.retries": 0}))
    assert error.http_status_code == SchemaRegistryError.UNKNOWN


def test_a_compressed_answer_is_refused(server: Server, connect: Connect) -> None:
    server.answer(Answer(body=b"x", headers={"Content-Encoding": "gzip"}))
    assert "encoded as gzip" in refused(connect()).error_message


@pytest.mark.parametrize(
    ("name", "args", "body"),
    [
        ("get_schema", (1,), b"<html>"),
        ("get_schema", (1,), b""),
        ("get_schema", (1,), b"\xff"),
        ("get_schema", (1,), b"[" * 200_000),
        ("get_schema", (1,), b"9" * 5000),
        ("get_schema", (1,), b"[]"),
        ("get_schema", (1,), b"{}"),
        ("get_schema", (1,), b'{"schema": 1}'),
        ("get_schema", (1,), b'{"schema": "x", "references": {}}'),
        ("get_schema", (1,), b'{"schema": "x", "references": [1]}'),
        ("get_schema", (1,), b'{"schema": "x", "ruleSet": {"domainRules": [{"kind": "?"}]}}'),
        ("get_schema", (1,), b'{"schema": "x", "metadata": {"tags": {"a": "b"}}}'),
        ("get_latest_version", ("s",), b'{"schema": "x", "version": "1"}'),
        ("get_latest_version", ("s",), b'{"schema": "x", "id": true}'),
        ("get_subjects", (), b'{"a": 1}'),
        ("get_subjects", (), b"[1]"),
        ("get_versions", ("s",), b'["1"]'),
        ("get_mode", ("s",), b"{}"),
        ("get_compatibility", (), b'{"compatibilityLevel": 3}'),
        ("get_config", (), b'{"compatibility": "SOME"}'),
        ("delete_version", ("s", 1), b'"1"'),
    ],
)
def test_an_answer_of_a_wrong_shape(
    server: Server, connect: Connect, name: str, args: tuple[object, ...], body: bytes
) -> None:
    server.answer(Answer(body=body))
    caller = connect()
    with pytest.raises(SchemaRegistryError, match="wrong shape") as caught:
        caller(name, *args)
    assert server.requests[0].path in caught.value.error_message
    assert len(server.requests) == 1


def test_registering_needs_an_id(server: Server, connect: Connect) -> None:
    server.answer(Answer(body={}))
    error = refused(connect(), "register_schema", "s", Schema('"int"'))
    assert "id is missing" in error.error_message


@pytest.mark.parametrize("body", [b"<html>oops</html>", b"[]", b'{"error_code": "x"}', b""])
def test_an_error_without_the_registrys_form(server: Server, connect: Connect, body: bytes) -> None:
    server.answer(Answer(404, body))
    error = refused(connect())
    assert (error.http_status_code, error.error_code) == (404, -1)
    assert "GET /schemas/ids/1: HTTP 404" in error.error_message


def test_a_long_error_is_shortened(server: Server, connect: Connect) -> None:
    server.answer(Answer(404, b"x" * 100_000))
    assert len(str(refused(connect()))) < 500


def test_a_redirect_on_the_same_host_keeps_the_credentials(
    server: Server, connect: Connect
) -> None:
    server.answer(Answer(307, b"", {"Location": "/moved/schemas/ids/1?a=b"}), GOOD)
    connect({"basic.auth.user.info": "u:p"})("get_schema", 1)
    first, second = server.requests
    assert second.path == "/moved/schemas/ids/1"
    assert second.headers["Authorization"] == first.headers["Authorization"]


def test_a_redirect_to_another_host_loses_the_credentials(
    server: Server, other_server: Server, connect: Connect
) -> None:
    location = f"http://name:word@{other_server.address}/schemas/ids/1"
    server.answer(Answer(302, b"", {"Location": location}))
    other_server.answer(GOOD)
    token = {
        "bearer.auth.credentials.source": "STATIC_TOKEN",
        "bearer.auth.token": "secret",
        "bearer.auth.logical.cluster": "lsrc-1",
        "bearer.auth.identity.pool.id": "pool-1",
    }
    assert connect(token)("get_schema", 1) == Schema('"int"')
    assert server.requests[0].headers["Authorization"] == "Bearer secret"
    sent = {name.lower() for name in other_server.requests[0].headers}
    assert not sent & {"authorization", "target-sr-cluster", "confluent-identity-pool-id"}


@pytest.mark.parametrize("location", ["ftp://127.0.0.1/x", "file:///etc/passwd", "http://[x"])
def test_a_redirect_to_another_protocol_is_refused(
    server: Server, connect: Connect, location: str
) -> None:
    server.answer(Answer(302, b"", {"Location": location}))
    assert "isn't followed" in refused(connect()).error_message


@pytest.mark.parametrize("location", ["http://127.0.0.1:99999/x", "http://a:b:c/", "http://\xe9:/"])
def test_a_redirect_to_an_impossible_address(
    server: Server, connect: Connect, location: str
) -> None:
    server.answer(Answer(302, b"", {"Location": location}))
    error = refused(connect({"max.retries": 0}))
    assert isinstance(error, SchemaRegistryError)
    assert error.http_status_code in (302, -1)


class Trickle(Answer):
    """Sends one byte at a time, and never the last one."""

    def write(self, handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "30000000")
        handler.end_headers()
        while True:
            handler.wfile.write(b" ")
            handler.wfile.flush()


def test_a_trickling_answer_is_given_up(server: Server, connect: Connect) -> None:
    server.answer(Trickle())
    error = refused(connect({"timeout": 0.05, "max.retries": 0}))
    assert "timeout" in error.error_message.lower()


def test_texts_of_a_registry_are_printable(server: Server, connect: Connect) -> None:
    evil = "a\x1b[2J\r\nERROR forged \u202e" + "b" * 100_000
    for answer in (
        Answer(404, {"error_code": 40401, "message": evil}),
        Answer(404, evil.encode()),
        Answer(302, b"", {"Location": "ftp://a\x7fb/"}),
        Answer(200, {"schema": "x", "metadata": {"properties": {evil: 3}}}),
        Answer(200, {"schema": "x", "ruleSet": {"domainRules": [{"kind": evil}]}}),
        Answer(200, b"x", {"Content-Encoding": "\x7f" * 1000}),
    ):
        server.answer(answer)
        text = str(refused(connect({"max.retries": 0})))
        assert text.isprintable()
        assert len(text) < 10_000


def test_a_write_is_redirected_only_as_it_is(server: Server, connect: Connect) -> None:
    moved = {"Location": "/moved"}
    server.answer(Answer(302, b"", moved))
    error = refused(connect(), "register_schema", "s", Schema('"int"'))
    assert error.http_status_code == 302
    server.answer(Answer(308, b"", moved), Answer(body={"id": 3}))
    assert connect()("register_schema", "s", Schema('"int"')) == 3
    assert [each.method for each in server.requests] == ["POST", "POST"]
    assert server.requests[0].body == server.requests[1].body


def test_redirects_end(server: Server, connect: Connect) -> None:
    server.answer(Answer(307, b"", {"Location": "/again"}))
    assert refused(connect()).http_status_code == 307
    assert len(server.requests) == 6


def test_a_long_retry_after_is_not_waited_for(server: Server, connect: Connect) -> None:
    server.answer(Answer(429, {"error_code": 42901, "message": "slow"}, {"Retry-After": "3600"}))
    error = refused(connect())
    assert error.http_status_code == 429
    assert "Retry-After is 3600 s" in error.error_message
    assert len(server.requests) == 1


def test_a_short_retry_after_is_honoured(server: Server, connect: Connect) -> None:
    server.answer(Answer(503, b"", {"Retry-After": "0"}), GOOD)
    assert connect({"retries.max.wait.ms": 2000})("get_schema", 1) == Schema('"int"')
    assert RetryPolicy(3, 10, 5000).wait_s(0, 4.0) == 4.0


def test_waits_double_up_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("random.random", lambda: 1.0)
    policy = RetryPolicy(9, 100, 1000)
    assert [policy.wait_s(retries) for retries in (0, 1, 2, 3, 4, 5000)] == [
        0.1,
        0.2,
        0.4,
        0.8,
        1.0,
        1.0,
    ]
    assert policy.allows(1.0)
    assert not policy.allows(1.1)


@pytest.mark.parametrize(
    "value", ["", "soon", "-1", "Fri, 99 Foo 2020", "Wed, 21 Oct 2015 07:28:00 GMT"]
)
def test_a_useless_retry_after_means_no_wait(value: str) -> None:
    assert retry_after_s(Response(503, {"retry-after": value}, b"")) == 0.0


def test_a_retry_after_may_be_a_date() -> None:
    response = Response(503, {"retry-after": "Wed, 21 Oct 2099 07:28:00 GMT"}, b"")
    assert retry_after_s(response) > 1e6


def test_a_body_is_sent_again(server: Server, connect: Connect) -> None:
    server.answer(Answer(503, b""), Answer(body={"id": 3}))
    schema = Schema(json.dumps("x" * 100_000))
    assert connect()("register_schema", "s", schema) == 3
    assert server.requests[0].body == server.requests[1].body == schema.to_dict()
