"""Credentials reach the registry, and nothing else."""

from __future__ import annotations

import base64
import logging
import pickle
import ssl
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import kafka_native.schema_registry as ours
from kafka_native.schema_registry import Schema, SchemaRegistryError
from kafka_native.schema_registry.authentication import FetchedToken
from kafka_native.schema_registry.config import parse
from kafka_native.schema_registry.error import OAuthTokenError
from kafka_native.schema_registry.retries import RetryPolicy
from kafka_native.schema_registry.steps import Response, Send
from tests.registry.client.conftest import NO_WAIT, Caller
from tests.registry.client.server import Answer, Server, SyncCaller
from tests.waiting import WAIT_S

theirs = pytest.importorskip("confluent_kafka.schema_registry")
trustme = pytest.importorskip("trustme")

GOOD = Answer(body={"schema": '"int"'})
SECRET = "s3cr:et/%ä"
Connect = Callable[..., Caller]
CLOUD = {"bearer.auth.logical.cluster": "lsrc-1", "bearer.auth.identity.pool.id": ["p1", "p2"]}
STATIC = {
    "bearer.auth.credentials.source": "STATIC_TOKEN",
    "bearer.auth.token": "word",
    **CLOUD,
}


def oauth(issuer: Server) -> dict[str, Any]:
    return {
        "bearer.auth.credentials.source": "OAUTHBEARER",
        "bearer.auth.client.id": "me",
        "bearer.auth.client.secret": SECRET,
        "bearer.auth.scope": "read write",
        "bearer.auth.issuer.endpoint.url": f"{issuer.url}/token?a=b",
        **CLOUD,
    }


def token(word: str, **more: Any) -> Answer:
    return Answer(body={"access_token": word, "expires_in": 300, "token_type": "Bearer", **more})


def credentials(server: Server) -> list[dict[str, str]]:
    names = {"authorization", "target-sr-cluster", "confluent-identity-pool-id"}
    return [
        {name.lower(): value for name, value in each.headers.items() if name.lower() in names}
        for each in server.requests
    ]


def test_basic_authentication(server: Server, connect: Connect) -> None:
    server.answer(GOOD)
    connect({"basic.auth.user.info": f"me:{SECRET}"})("get_schema", 1)
    (sent,) = credentials(server)
    assert base64.b64decode(sent["authorization"].removeprefix("Basic ")).decode() == f"me:{SECRET}"


def test_credentials_in_the_url(server: Server, other_server: Server, connect: Connect) -> None:
    for each in (server, other_server):
        each.answer(GOOD)
    url = f"http://me:a%3Ab%40c@{server.address},{other_server.url}"
    connect({"url": url})("get_schema", 1)
    server.answer(Answer(503, b""))
    connect({"url": url})("get_schema", 1)
    (first,), (second,) = credentials(server), credentials(other_server)
    assert base64.b64decode(first["authorization"].removeprefix("Basic ")) == b"me:a:b@c"
    assert second == first


@pytest.mark.parametrize(
    "conf",
    [{"basic.auth.user.info": "me:word"}, STATIC],
    ids=["basic", "static"],
)
def test_credentials_are_those_of_confluent_kafka(
    server: Server, connect: Connect, conf: dict[str, Any]
) -> None:
    server.answer(GOOD)
    with theirs.SchemaRegistryClient({"url": server.url, **conf}) as client:
        client.get_schema(1)
    connect(conf)("get_schema", 1)
    first, second = credentials(server)
    assert first == second
    assert first


def test_a_token_of_an_identity_provider(
    server: Server, other_server: Server, connect: Connect
) -> None:
    server.answer(GOOD)
    other_server.answer(token("word"))
    caller = connect(oauth(other_server))
    caller("get_schema", 1)
    caller("get_schema", 2)
    (request,) = other_server.requests
    assert (request.method, request.path) == ("POST", "/token")
    assert request.body == "grant_type=client_credentials&scope=read+write"
    sent = base64.b64decode(request.headers["Authorization"].removeprefix("Basic ")).decode()
    assert sent == "me:s3cr%3Aet%2F%25%C3%A4"  # RFC 6749, section 2.3.1
    expected = {
        "authorization": "Bearer word",
        "target-sr-cluster": "lsrc-1",
        "confluent-identity-pool-id": "p1,p2",
    }
    assert credentials(server) == [expected, expected]


def test_a_refused_token_is_renewed_once(
    server: Server, other_server: Server, connect: Connect
) -> None:
    server.answer(Answer(401, {"error_code": 40101, "message": "old"}), GOOD)
    other_server.answer(token("one"), token("two"))
    assert connect(oauth(other_server))("get_schema", 1) == Schema('"int"')
    assert [each["authorization"] for each in credentials(server)] == ["Bearer one", "Bearer two"]
    server.answer(Answer(401, {"error_code": 40101, "message": "no"}))
    with pytest.raises(SchemaRegistryError, match="no"):
        connect(oauth(other_server))("get_schema", 1)
    assert len(server.requests) == 2


def test_threads_whose_token_is_refused_at_once_share_a_new_one(
    server: Server, other_server: Server
) -> None:
    refused = threading.Barrier(3)

    class ByToken(Answer):
        def write(self, handler: Any) -> None:
            if handler.headers["Authorization"] == "Bearer one":
                refused.wait(WAIT_S)
                Answer(401, {"error_code": 40101, "message": "old"}).write(handler)
            else:
                GOOD.write(handler)

    server.answer(GOOD)
    other_server.answer(token("one"), token("two"))
    caller = SyncCaller({"url": server.url, **NO_WAIT, **oauth(other_server)})
    caller("get_schema", 0)
    server.answer(ByToken())
    found: list[Any] = []

    def ask(number: int) -> None:
        found.append(caller("get_schema", number))

    threads = [threading.Thread(target=ask, args=(number,)) for number in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    caller.close()
    assert found == [Schema('"int"')] * 3


def test_a_token_is_kept_for_most_of_its_lifetime() -> None:
    now = [1000.0]
    request = Send("POST", "https://issuer/token", {})
    source = FetchedToken(request, None, None, RetryPolicy(0, 0, 0), lambda: now[0])

    def fetch(word: str) -> str:
        call = source.token()
        try:
            next(call)
            call.send(
                Response(200, {}, f'{{"access_token": "{word}", "expires_in": "100"}}'.encode())
            )
        except StopIteration as end:
            return str(end.value)
        raise AssertionError("one answer is enough")

    assert fetch("a") == "a"
    now[0] = 1079.0
    assert fetch("b") == "a"
    now[0] = 1081.0
    assert fetch("c") == "c"


def test_the_identity_provider_is_asked_again(
    server: Server, other_server: Server, connect: Connect
) -> None:
    server.answer(GOOD)
    other_server.answer(Answer(503, b""), token("word"))
    assert connect(oauth(other_server))("get_schema", 1) == Schema('"int"')


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (Answer(400, {"error": "invalid_scope", "error_description": "no such"}), "no such"),
        (Answer(401, b"<html>"), "HTTP 401"),
        (Answer(503, b"[]"), "HTTP 503"),
        (Answer(200, b"[" * 100_000), "has no access_token"),
        (Answer(200, {"token": "abc"}), "has no access_token"),
        (Answer(200, ["abc"]), "has no access_token"),
        (Answer(200, {"access_token": "abc", "expires_in": "soon"}), "has no access_token"),
        (Answer(200, b"x", {"Content-Encoding": "gzip"}), "encoded as gzip"),
    ],
)
def test_the_identity_provider_refuses(
    server: Server, other_server: Server, connect: Connect, answer: Answer, text: str
) -> None:
    other_server.answer(answer)
    with pytest.raises(OAuthTokenError) as caught:
        connect(oauth(other_server))("get_schema", 1)
    shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value)
    assert text in shown
    assert f"{other_server.url}/token" in shown
    assert SECRET not in shown
    assert "abc" not in shown
    assert server.requests == []


def test_a_token_of_azure(server: Server, other_server: Server, connect: Connect) -> None:
    server.answer(GOOD)
    other_server.answer(token("word", expires_in="300"))
    conf = {
        "bearer.auth.credentials.source": "OAUTHBEARER_AZURE_IMDS",
        "bearer.auth.issuer.endpoint.url": f"{other_server.url}/imds",
        "bearer.auth.issuer.endpoint.query": "resource=api",
        **CLOUD,
    }
    connect(conf)("get_schema", 1)
    (request,) = other_server.requests
    assert (request.method, request.path, request.query) == (
        "GET",
        "/imds",
        (("resource", "api"),),
    )
    assert request.headers["Metadata"] == "true"
    assert credentials(server)[0]["authorization"] == "Bearer word"


@pytest.mark.parametrize("is_coroutine", [False, True])
def test_a_token_of_a_function(server: Server, connect: Connect, is_coroutine: bool) -> None:
    server.answer(GOOD)
    seen: list[dict[str, Any]] = []

    def provide(config: dict[str, Any]) -> dict[str, Any]:
        seen.append(config)
        return {"bearer.auth.token": f"word{len(seen)}", **CLOUD}

    async def provide_later(config: dict[str, Any]) -> dict[str, Any]:
        return provide(config)

    caller = connect(
        {
            "bearer.auth.credentials.source": "CUSTOM",
            "bearer.auth.custom.provider.function": provide_later if is_coroutine else provide,
            "bearer.auth.custom.provider.config": {"a": 1},
        }
    )
    if is_coroutine and isinstance(caller.client, ours.SchemaRegistryClient):
        with pytest.raises(TypeError, match="needs the asyncio client"):
            caller("get_schema", 1)
        return
    caller("get_schema", 1)
    caller("get_schema", 2)
    assert seen == [{"a": 1}, {"a": 1}]
    assert [each["authorization"] for each in credentials(server)] == [
        "Bearer word1",
        "Bearer word2",
    ]


def test_a_function_without_a_token(server: Server, connect: Connect) -> None:
    conf = {
        "bearer.auth.credentials.source": "CUSTOM",
        "bearer.auth.custom.provider.function": lambda config: {"token": SECRET},
        "bearer.auth.custom.provider.config": {},
    }
    with pytest.raises(ValueError, match=r"bearer\.auth\.token") as caught:
        connect(conf)("get_schema", 1)
    assert SECRET not in str(caught.value)
    assert server.requests == []


@pytest.mark.parametrize(
    "conf",
    [
        {"url": f"http://me:{'s3cret'}@127.0.0.1:1"},
        {"basic.auth.user.info": "me:s3cret"},
        {**STATIC, "bearer.auth.token": "s3cret"},
    ],
    ids=["url", "basic", "static"],
)
def test_secrets_are_not_shown(
    connect: Connect, conf: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    caller = connect({"url": "http://127.0.0.1:1", "max.retries": 1, **conf})
    with pytest.raises(SchemaRegistryError) as caught:
        caller("get_schema", 1)
    parsed = caller.client._parsed
    shown = [
        "".join(traceback.format_exception(caught.value)),
        repr(caught.value),
        repr(caller.client),
        repr(parsed),
        repr(parsed.authentication),
        caplog.text,
    ]
    encoded = base64.b64encode(b"me:s3cret").decode()
    assert not [each for each in shown if "s3cret" in each or encoded in each]


@pytest.mark.parametrize("word", ["s3cret\n", " s3cret ", "s3cr\xe9t", "s3\0cret"])
@pytest.mark.parametrize("is_fetched", [False, True])
def test_a_token_that_no_header_can_have_is_not_shown(
    server: Server, other_server: Server, connect: Connect, word: str, is_fetched: bool
) -> None:
    """For instance one from a file, with its line end."""
    server.answer(GOOD)
    other_server.answer(token(word))
    conf = oauth(other_server) if is_fetched else {**STATIC, "bearer.auth.token": word}
    with pytest.raises(SchemaRegistryError, match="header Authorization has a line end") as caught:
        connect(conf)("get_schema", 1)
    shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value)
    assert "s3" not in shown
    assert server.requests == []


def test_an_error_can_be_pickled() -> None:
    error = pickle.loads(pickle.dumps(SchemaRegistryError(404, 40401, "gone")))
    assert (error.http_status_code, error.error_code, error.error_message) == (404, 40401, "gone")
    other = pickle.loads(pickle.dumps(OAuthTokenError("gone", 400, "text")))
    assert (other.message, other.status_code, other.response_text) == ("gone", 400, "text")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Path]]:
    folder = tmp_path_factory.mktemp("authority")
    one = trustme.CA()
    one.cert_pem.write_to_path(str(folder / "ca.pem"))
    client = one.issue_cert("client@example.org")
    client.private_key_and_cert_chain_pem.write_to_path(str(folder / "client.pem"))
    client.private_key_pem.write_to_path(str(folder / "key.pem"))
    return one, folder


def use_tls(server: Server, authority: Any, *, mutual: bool = False) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost", "127.0.0.1").configure_cert(context)
    if mutual:
        authority.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
    server.use_tls(context)


def test_tls_is_verified(server: Server, connect: Connect, authority: tuple[Any, Path]) -> None:
    one, folder = authority
    use_tls(server, one)
    server.answer(GOOD)
    error = None
    with pytest.raises(SchemaRegistryError) as caught:
        connect({"url": server.url, "max.retries": 0})("get_schema", 1)
    error = caught.value
    assert "CERTIFICATE_VERIFY_FAILED" in error.error_message
    assert server.requests == []
    for location in (str(folder / "ca.pem"), False):
        conf = {"url": server.url, "ssl.ca.location": location}
        assert connect(conf)("get_schema", 1) == Schema('"int"')


def test_mutual_tls(server: Server, connect: Connect, authority: tuple[Any, Path]) -> None:
    one, folder = authority
    use_tls(server, one, mutual=True)
    server.answer(GOOD)
    conf = {"url": server.url, "ssl.ca.location": str(folder / "ca.pem"), "max.retries": 0}
    with pytest.raises(SchemaRegistryError, match="no registry answered"):
        connect(conf)("get_schema", 1)
    certificate = {"ssl.certificate.location": str(folder / "client.pem")}
    assert connect({**conf, **certificate})("get_schema", 1) == Schema('"int"')
    key = {**certificate, "ssl.key.location": str(folder / "key.pem")}
    assert connect({**conf, **key})("get_schema", 1) == Schema('"int"')


def test_the_identity_provider_is_verified(
    server: Server,
    other_server: Server,
    connect: Connect,
    authority: tuple[Any, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, folder = authority
    use_tls(other_server, one)
    server.answer(GOOD)
    other_server.answer(token("word"))
    # The registry's authorities aren't those of the identity provider.
    conf = {**oauth(other_server), "ssl.ca.location": str(folder / "ca.pem"), "max.retries": 0}
    with pytest.raises(OAuthTokenError, match="CERTIFICATE_VERIFY_FAILED"):
        connect(conf)("get_schema", 1)
    assert other_server.requests == []
    monkeypatch.setenv("SSL_CERT_FILE", str(folder / "ca.pem"))
    assert connect(conf)("get_schema", 1) == Schema('"int"')


def test_a_proxy(server: Server, other_server: Server, connect: Connect) -> None:
    other_server.answer(GOOD)
    conf = {"url": "http://registry.example:8081", "proxy": other_server.url}
    assert connect(conf)("get_schema", 1) == Schema('"int"')
    assert other_server.requests[0].headers["Host"] == "registry.example:8081"
    assert server.requests == []


@pytest.mark.parametrize(
    ("conf", "error", "text"),
    [
        ({"url": None}, ValueError, "url is missing"),
        ({"url": 3}, TypeError, "url must be a str, not int"),
        ({"url": " , "}, ValueError, "no address"),
        ({"url": "registry:8081"}, ValueError, "http:// or https://"),
        ({"url": "httpx://registry"}, ValueError, "http:// or https://"),
        ({"url": "http://"}, ValueError, "http:// or https://"),
        ({"url": "http://a:99999"}, ValueError, "http:// or https://"),
        ({"url": "http://me:s3/cret@a"}, ValueError, "http:// or https://"),
        ({"url": "http://[a"}, ValueError, "http:// or https://"),
        ({"url": "http://a?b=c"}, ValueError, "query"),
        ({"url": "mock:a"}, ValueError, "mock://"),
        ({"max.retry": 3}, ValueError, "unrecognized properties: max.retry"),
        ({"max.retries": "3"}, TypeError, "max.retries must be a number, not str"),
        ({"max.retries": True}, TypeError, "max.retries must be a number, not bool"),
        ({"max.retries": -1}, ValueError, "max.retries must not be -1"),
        ({"timeout": 0}, ValueError, "timeout must not be 0"),
        ({"timeout": float("nan")}, ValueError, "timeout must not be nan"),
        ({"timeout": float("inf")}, ValueError, "timeout must not be inf"),
        ({"cache.capacity": "x"}, TypeError, "cache.capacity"),
        ({"cache.latest.ttl.sec": "x"}, TypeError, "cache.latest.ttl.sec"),
        ({"retries.wait.ms": "x"}, TypeError, "retries.wait.ms"),
        ({"retries.max.wait.ms": -5}, ValueError, "retries.max.wait.ms"),
        ({"basic.auth.user.info": "me"}, ValueError, "username:password"),
        ({"basic.auth.user.info": 3}, TypeError, "basic.auth.user.info"),
        (
            {"basic.auth.user.info": "a:b", "url": "http://c:d@e"},
            ValueError,
            "basic.auth.user.info or credentials in url",
        ),
        ({**STATIC, "basic.auth.user.info": "a:b"}, ValueError, "basic authentication"),
        ({**STATIC, "bearer.auth.token": None}, ValueError, "also needs bearer.auth.token"),
        ({**STATIC, "bearer.auth.token": 3}, TypeError, "bearer.auth.token must be a str"),
        ({**STATIC, "bearer.auth.logical.cluster": 3}, TypeError, "logical.cluster"),
        ({**STATIC, "bearer.auth.identity.pool.id": [3]}, TypeError, "identity.pool.id"),
        ({"bearer.auth.credentials.source": "OTHER"}, ValueError, "OAUTHBEARER_AZURE_IMDS"),
        ({"bearer.auth.credentials.source": "OAUTHBEARER"}, ValueError, "bearer.auth.client.id"),
        ({"bearer.auth.credentials.source": "CUSTOM"}, TypeError, "must be a function"),
        (
            {
                "bearer.auth.credentials.source": "CUSTOM",
                "bearer.auth.custom.provider.function": print,
            },
            TypeError,
            "config must be a dict",
        ),
        (
            {"bearer.auth.credentials.source": "OAUTHBEARER_AZURE_IMDS"},
            ValueError,
            "endpoint.query",
        ),
        ({"ssl.key.location": "x"}, ValueError, "need ssl.certificate.location"),
        ({"ssl.ca.location": "/no/such/file"}, ValueError, "/no/such/file can't be read"),
        ({"ssl.ca.location": 3}, TypeError, "ssl.ca.location must be a str, not int"),
        ({"ssl.certificate.location": "/no/such/file"}, ValueError, "can't be loaded"),
        ({"proxy": 3}, TypeError, "proxy must be a str"),
        ({"proxy": "me:s3cret@proxy:3128"}, ValueError, "proxy must be an http://"),
        ({"proxy": "http://me:s3cret@proxy:x"}, ValueError, "proxy must be an http://"),
    ],
)
def test_wrong_properties(conf: dict[str, Any], error: type[Exception], text: str) -> None:
    given = {"url": "http://localhost", **conf}
    before = dict(given)
    with pytest.raises(error) as caught:
        parse(given)
    assert text in str(caught.value)
    assert "s3" not in "".join(traceback.format_exception(caught.value)).partition("Error: ")[2]
    assert given == before


def test_none_means_the_default() -> None:
    names = ["timeout", "max.retries", "cache.capacity", "cache.latest.ttl.sec", "proxy"]
    config = parse({"url": "http://localhost", **dict.fromkeys(names)})
    assert config.timeout_s == 60
    assert config.retries == RetryPolicy(3, 1000, 20_000)
    assert config.cache_capacity == 1000
    assert config.cache_latest_ttl_s is None


def test_a_closed_client_can_be_closed_again() -> None:
    conf = {"url": "http://127.0.0.1:1", **NO_WAIT}
    with ours.SchemaRegistryClient(conf) as client:
        assert client.config() is conf
        assert repr(client) == "SchemaRegistryClient(url='http://127.0.0.1:1')"
    client.close()
    with pytest.raises(RuntimeError, match="closed"):
        client.get_schema(1)
