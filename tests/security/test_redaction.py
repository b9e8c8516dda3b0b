"""Secrets that a provider or a broker repeats, in every encoding, never appear in visible texts."""

from __future__ import annotations

import base64
import html
import json
import logging
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus, urlencode

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_native import KafkaError, Producer
from kafka_native.config import parse
from kafka_native.mock import ListenerSecurity, MockCluster
from kafka_native.security.aws_msk_iam import AwsCredentials, AwsMskIam
from kafka_native.security.mechanisms import Credentials, Mechanism, SaslError, shown
from kafka_native.security.oauthbearer import OAuthBearer, Token
from kafka_native.security.oidc import JWT_BEARER
from kafka_native.security.plain import Plain as PlainMechanism
from kafka_native.security.sasl import mechanism_of
from tests.client.log_support import PlainLogger
from tests.waiting import wait_for

from .slow_server import SlowServer
from .token_endpoint import Asked, TokenEndpoint

SECRET = 's3cret/"w&rd" é+\\=<%>~end'
"""Each of its characters has another form in some encoding."""
PARTS = ("s3cret", "w&rd", "rd", "~end")
CLIENT_ID = "the-app"
LOGIN = f"{CLIENT_ID}:{SECRET}"
QUERY_SECRET = "query-s3cret"
OIDC = {
    "bootstrap.servers": "h:1",
    "security.protocol": "sasl_plaintext",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.client.id": CLIENT_ID,
    "sasl.oauthbearer.client.secret": SECRET,
}
URL = "sasl.oauthbearer.token.endpoint.url"
UNCHANGED: Callable[[str], str] = str
SPELLINGS: dict[str, Callable[[str], str]] = {
    "unchanged": UNCHANGED,
    "quote": quote,
    "quote, all": partial(quote, safe=""),
    "quote_plus": quote_plus,
    "quote in lower case": lambda text: (
        quote(text, safe="").replace("%2F", "%2f").replace("%C3%A9", "%c3%a9")
    ),
    "quoted twice": lambda text: quote(quote(text, safe=""), safe=""),
    "form": lambda text: urlencode({"x": text}),
    "json": json.dumps,
    "json as text": partial(json.dumps, ensure_ascii=False),
    "json, slashes too": lambda text: json.dumps(text).replace("/", "\\/"),
    "json in json": lambda text: json.dumps(json.dumps(text)),
    "json, quoted": lambda text: quote(json.dumps(text)),
    "html": html.escape,
    "html, numbers": lambda text: "".join(
        each if each.isalnum() and each.isascii() else f"&#{ord(each)};" for each in text
    ),
    "repr": repr,
    "repr of bytes": lambda text: repr(text.encode()),
    "latin-1": lambda text: text.encode().decode("latin-1"),
    "ascii": lambda text: text.encode().decode("ascii", "replace"),
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64url": lambda text: base64.urlsafe_b64encode(text.encode()).decode().rstrip("="),
    "base64, quoted": lambda text: quote(base64.b64encode(text.encode()).decode(), safe=""),
    "base64 within": lambda text: base64.b64encode(f"x{text}yz".encode()).decode(),
    "hex": lambda text: text.encode().hex(),
}


def traces(text: str, *secrets: str) -> list[str]:
    """Return the parts of secrets in a text: eight consecutive characters in any encoding."""
    found = []
    for secret in secrets:
        for name, spelled in SPELLINGS.items():
            form = spelled(secret).strip("'\"")
            found += [name for at in range(len(form) - 7) if form[at : at + 8] in text]
    return found


@pytest.mark.parametrize("name", SPELLINGS)
def test_each_spelling_of_a_secret_is_redacted(name: str) -> None:
    spelled = SPELLINGS[name](SECRET)
    text = shown(f"before {spelled} after", [SECRET])
    assert traces(f"before {spelled} after", SECRET), "otherwise the test proves nothing"
    assert traces(text, SECRET) == []
    assert text.startswith("before ")
    assert text.endswith(" after")
    assert not any(part in text for part in PARTS)


@settings(deadline=None)
@given(st.text(min_size=1, max_size=40), st.sampled_from(sorted(SPELLINGS)))
def test_any_secret_in_any_spelling(secret: str, name: str) -> None:
    try:
        spelled = SPELLINGS[name](secret)
    except UnicodeError:  # halves of characters
        return
    if len(secret) >= 8:
        assert spelled not in shown(f"<<{spelled}>>", [secret])
    else:
        shown(f"<<{spelled}>>", [secret])


def test_a_secret_at_the_cut_of_a_text_is_redacted_whole() -> None:
    for before in range(480, 505):
        assert "s3cr" not in shown("x" * before + SECRET, [SECRET])


@pytest.mark.parametrize(
    "secret", ["é" * 30 + "x", "\\" * 30 + "x", '\\"' * 30 + "x", "%25" * 20 + "x", "&" * 30 + "x"]
)
@pytest.mark.parametrize("name", ["unchanged", "ascii", "json in json", "quoted twice", "html"])
def test_near_repetitions_of_a_secret_do_not_take_long(secret: str, name: str) -> None:
    """The text almost repeats the secret, many times."""
    nearly = SPELLINGS[name](secret[:-1]).strip("'\"")
    began = time.process_time()
    for text in (nearly * 50, nearly[:1] * 100_000):
        shown(text, [secret])
    assert time.process_time() - began < 5


@pytest.mark.parametrize("sign", ["\\", "%5c", "%25"])
def test_a_text_of_a_megabyte_takes_no_time(sign: str) -> None:
    """A search holds the GIL. A provider controls the text and, with its tokens, secrets."""
    text = sign * ((1 << 20) // len(sign))
    began = time.process_time()
    result = shown(text, ["~+/-._" * 20 + "~" * number for number in range(16)])
    assert time.process_time() - began < 1
    assert result == f"a text of {len(text)} characters"


KAFKA_ERROR = (
    "SASL authentication failed: Invalid username or password (kafka) for user 'alice' on a "
    "broker, 100% sure"
)


@pytest.mark.parametrize(
    "secret", ["a", "e", "n", "\n", "on", "pass", "red", "ü", "üü", "%", "+", "\\", "0", " ", ""]
)
def test_a_short_secret_does_not_break_words(secret: str) -> None:
    """Redacted parts of words would reveal the secret."""
    result = shown(KAFKA_ERROR, [secret])
    assert result.replace("[redacted]", "").split()[:7] == KAFKA_ERROR.split()[:7]
    assert len(result) <= len(KAFKA_ERROR) + 10


@pytest.mark.parametrize(
    "text",
    ["<%s>", "password=%s&y", "%%00alice%%00%s", r"\u0000%s", r"alice\n%s", "pw_%s", "'%s'", "%s"],
)
@pytest.mark.parametrize("secret", ["x", "kafka", "a%b", "ü"])
def test_a_short_secret_is_found_where_it_stands_alone(secret: str, text: str) -> None:
    assert shown(text % secret, [secret]) == text % "[redacted]"


def test_the_placeholder_is_not_redacted_again() -> None:
    assert shown("the pass-word and e", ["pass-word", "redacted", "[redacted]", *"redact[]"]) == (
        "the [redacted] and [redacted]"
    )


def test_a_very_long_secret_takes_no_time() -> None:
    long = "a/b+" * 300_000
    assert shown(f"<{long}>", [long]) == "<[redacted]>"


# --- the provider ---


def echoes(asked: Asked) -> str:
    """Return the whole request."""
    return (
        f"{asked.path} {asked.headers} {asked.headers.get('Authorization')} {asked.form} "
        f"{urlencode(asked.form)}"
    )


def status_line(result: bytes) -> bytes:
    return b"HTTP/1.1 " + result.replace(b"\r\n", b" ") + b"\r\n\r\n"


KINDS: dict[str, Callable[[Asked], tuple[int, Any]]] = {
    "error": lambda asked: (401, {"error": echoes(asked)}),
    "description": lambda asked: (
        400,
        {"error": "invalid_client", "error_description": echoes(asked)},
    ),
    "structure": lambda asked: (
        400,
        {"error": {"request": asked.headers, "form": asked.form, "path": asked.path}},
    ),
    "list": lambda asked: (
        500,
        {"error": [json.dumps(asked.headers), quote(json.dumps(asked.form))]},
    ),
    "cut": lambda asked: (
        400,
        {"error": "x" * 470 + asked.headers.get("Authorization", "") + echoes(asked)},
    ),
    "token": lambda asked: (200, {"access_token": echoes(asked), "expires_in": 5}),
    "no token": lambda asked: (200, {"error": "pending", "error_description": echoes(asked)}),
    "page": lambda asked: (500, f"<html>{echoes(asked)}".encode()),
}


def conf_of(grant: str, url: str, folder: Path) -> tuple[dict[str, Any], list[str]]:
    """Return a configuration, and its secrets."""
    conf: dict[str, Any] = {**OIDC, URL: f"{url}?code={QUERY_SECRET}&resource=api://kafka"}
    if grant == "client_credentials":
        return conf, [SECRET, LOGIN, base64.b64encode(LOGIN.encode()).decode(), QUERY_SECRET]
    key = ec.generate_private_key(ec.SECP256R1())
    assertion = jwt.encode({"iss": "app"}, key, "ES256")
    ready = folder / "assertion"
    ready.write_text(assertion)
    own = {"sasl.oauthbearer.grant.type": JWT_BEARER, "sasl.oauthbearer.assertion.file": str(ready)}
    return {**conf, **own}, [assertion, *assertion.split("."), QUERY_SECRET]


def everything(error: BaseException) -> str:
    """Return all visible parts of an exception."""
    return "".join([repr(error), str(error), *traceback.format_exception(error), *chain(error)])


def chain(error: BaseException | None) -> list[str]:
    return (
        [] if error is None else [repr(error), *chain(error.__cause__), *chain(error.__context__)]
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("grant", ["client_credentials", "jwt-bearer"])
def test_a_provider_that_repeats_what_it_got(grant: str, kind: str, tmp_path: Path) -> None:
    with TokenEndpoint(KINDS[kind]) as endpoint:
        conf, secrets = conf_of(grant, endpoint.url, tmp_path)
        mechanism = mechanism_of(parse(conf, "producer"))
        with pytest.raises(SaslError) as caught:
            mechanism.refresh()
        assert traces(echoes(endpoint.asked[0]), *secrets)
    assert traces(everything(caught.value), *secrets) == []
    assert "answers" in str(caught.value) or "token" in str(caught.value)
    assert traces(f"{mechanism!r} {mechanism.secrets()!r}", *secrets) == []


@pytest.mark.parametrize("head", [b"HTTP/1.1 ", b"", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: "])
def test_a_server_that_answers_with_the_request_itself(head: bytes, tmp_path: Path) -> None:
    """The library's own errors contain the text that they couldn't parse."""
    with SlowServer(
        lambda connection: connection.sendall(head + connection.recv(65536).replace(b"\r\n", b" "))
    ) as server:
        conf, secrets = conf_of(
            "client_credentials", f"http://127.0.0.1:{server.port}/token", tmp_path
        )
        with pytest.raises(SaslError) as caught:
            mechanism_of(parse(conf, "producer")).refresh()
    assert traces(everything(caught.value), *secrets) == []


@pytest.mark.parametrize("kind", ["description", "structure"])
def test_no_log_line_and_no_error_of_a_client_has_secrets(kind: str, tmp_path: Path) -> None:
    logger, errors = PlainLogger(), []
    security = ListenerSecurity("sasl_plaintext", mechanisms=["OAUTHBEARER"])
    with TokenEndpoint(KINDS[kind]) as endpoint, MockCluster(1, security=security) as cluster:
        conf, secrets = conf_of("client_credentials", endpoint.url, tmp_path)
        conf |= {"bootstrap.servers": cluster.bootstrap_servers, "debug": "all", "logger": logger}
        with Producer({**conf, "error_cb": errors.append}) as producer:
            wait_for(lambda: producer.poll(0.05) is None or errors)
            wait_for(lambda: [producer.poll(0.05), errors][1])
            seen = f"{producer!r} {producer.metrics()}"
    assert errors[0].code() == KafkaError._AUTHENTICATION
    assert traces("".join(logger.texts()) + "".join(map(repr, errors)) + seen, *secrets) == []
    assert "invalid_client" in errors[0].str() or kind == "structure"


# --- brokers ---


def test_a_broker_that_repeats_the_token_at_the_cut() -> None:
    token = Token(f"{'t0ken' * 20}", 2e9, "alice")
    mechanism = OAuthBearer(lambda: token)
    exchange = mechanism.exchange("h", 1)
    exchange.begin()
    exchange.respond(json.dumps({"status": "x" * 470, "auth": f"Bearer {token.value}"}).encode())
    assert "t0ken" not in exchange.problem
    mechanism.on_refused()
    assert "t0ken" not in shown(f"again {token.value}", mechanism.secrets()), (
        "a refused token stays secret"
    )


def test_a_broker_that_repeats_plains_message() -> None:
    mechanism: Mechanism = PlainMechanism(Credentials("alice", "pass/word+1"))
    result = base64.b64encode(mechanism.exchange("h", 1).begin()).decode()
    mechanism.set_credentials(Credentials("alice", "another"))
    text = shown(f"can't be read: {result} {quote('pass/word+1', safe='')}", mechanism.secrets())
    assert traces(text, "pass/word+1") == []


def test_a_broker_that_repeats_awss_request() -> None:
    credentials = AwsCredentials("AKID", "aws/s3cret+key", "session/t0ken+of==")
    mechanism = AwsMskIam(lambda: credentials, "agent", "eu-north-1")
    exchange = mechanism.exchange("h", 1)
    sent = json.loads(exchange.begin())
    secrets = (credentials.secret_key, credentials.session_token or "", sent["x-amz-signature"])
    with pytest.raises(SaslError) as caught:
        exchange.respond(json.dumps({"got": sent, "url": urlencode(sent)}).encode())
    assert traces(everything(caught.value), *secrets) == []


def test_exceptions_of_oauth_cb(caplog: pytest.LogCaptureFixture) -> None:
    """oauth_cb gets sasl.oauthbearer.config, and its HTTP library may repeat it in an error."""
    config = "client_secret=s3cret/of mine"

    def oauth_cb(config: str) -> Any:
        raise ValueError(f"401 for http://h/?{quote_plus(config)}")

    errors: list[KafkaError] = []
    conf = {
        "bootstrap.servers": "127.0.0.1:1",
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": "OAUTHBEARER",
    }
    caplog.set_level(logging.DEBUG)
    own = {
        "oauth_cb": oauth_cb,
        "sasl.oauthbearer.config": config,
        "error_cb": errors.append,
        "debug": "all",
    }
    with Producer({**conf, **own}) as producer:
        wait_for(
            lambda: [
                producer.poll(0.05),
                [e for e in errors if e.code() == KafkaError._AUTHENTICATION],
            ][1]
        )
    assert traces("".join(map(str, errors)) + caplog.text, config) == []


@pytest.mark.parametrize("in_file", [False, True])
def test_a_service_of_aws_credentials_that_repeats_its_token(
    in_file: bool, no_aws_keys: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("botocore")
    from kafka_native.security.aws_msk_iam import chain as aws_chain

    token, variable = "c0ntainer/t0ken+of==", "AWS_CONTAINER_AUTHORIZATION_TOKEN"
    (tmp_path / "token").write_text(token)
    monkeypatch.setenv(
        f"{variable}_FILE" if in_file else variable, str(tmp_path / "token") if in_file else token
    )
    with TokenEndpoint(lambda asked: (403, f"refused: {asked.headers}".encode())) as endpoint:
        monkeypatch.setenv(
            "AWS_CONTAINER_CREDENTIALS_FULL_URI", f"http://127.0.0.1:{endpoint.port}/credentials"
        )
        mechanism = AwsMskIam(aws_chain(), "agent", "eu-north-1")
        with pytest.raises(Exception, match="refused") as caught:
            mechanism.exchange("h", 1).begin()
    assert traces(str(caught.value), token)
    assert traces(shown(str(caught.value), mechanism.secrets()), token) == []


def test_a_token_service_of_aws_that_repeats_what_it_got(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("botocore")
    secrets = ("aws/s3cret+key", "session/t0ken+of==")
    for name, value in zip(("SECRET_ACCESS_KEY", "SESSION_TOKEN"), secrets, strict=True):
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKID")
    error = "<ErrorResponse><Error><Code>Denied</Code><Message>{}</Message></Error></ErrorResponse>"
    for answer in (
        lambda asked: (403, error.format(html.escape(echoes(asked))).encode()),
        lambda asked: (200, echoes(asked).encode()),
        lambda asked: (200, f"<x>{html.escape(echoes(asked))}</x>".encode()),
    ):
        with TokenEndpoint(answer) as endpoint:
            config = f"region=eu-north-1,audience=x,sts_endpoint=http://127.0.0.1:{endpoint.port}"
            own = {
                "sasl.oauthbearer.metadata.authentication.type": "aws_iam",
                "sasl.oauthbearer.config": config,
            }
            with pytest.raises(SaslError, match="AWS STS") as caught:
                mechanism_of(parse({**OIDC, **own}, "producer")).refresh()
            assert traces(echoes(endpoint.asked[0]), *secrets)
        assert traces(everything(caught.value), *secrets) == []
