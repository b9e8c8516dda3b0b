"""Tokens of a provider: both grants, over HTTP and HTTPS, and all invalid answers."""

from __future__ import annotations

import base64
import socket
import ssl
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
import trustme
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from kafka_native import KafkaError, KafkaException, Producer
from kafka_native.config import parse
from kafka_native.mock import ListenerSecurity, MockCluster
from kafka_native.security import authorities, oidc
from kafka_native.security.mechanisms import SaslError
from kafka_native.security.oauthbearer import OAuthBearer, Token
from kafka_native.security.oidc import JWT_BEARER, PYJWT_MISSING_TEXT
from kafka_native.security.sasl import mechanism_of

from .slow_server import SlowServer
from .token_endpoint import Asked, TokenEndpoint

SECRET = "s3cret-word"
PASSPHRASE = "s3cret-passphrase"
NOW = int(time.time())
EXPIRES = NOW + 86_400  # a whole run of the tests may take an hour from here
SIGNED = jwt.encode({"sub": "alice", "azp": "app", "exp": EXPIRES}, "key" * 20, "HS256")
OIDC = {
    "bootstrap.servers": "h:1",
    "security.protocol": "sasl_plaintext",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
}
CLIENT = {"sasl.oauthbearer.client.id": "app", "sasl.oauthbearer.client.secret": SECRET}


@pytest.fixture
def endpoint() -> Iterator[TokenEndpoint]:
    with TokenEndpoint(lambda asked: (200, {"access_token": SIGNED})) as running:
        yield running


def mechanism(url: str, **more: Any) -> OAuthBearer:
    """Return the mechanism of a client with these properties."""
    made = mechanism_of(
        parse({**OIDC, "sasl.oauthbearer.token.endpoint.url": url, **more}, "producer")
    )
    assert isinstance(made, OAuthBearer)
    return made


def token_of(url: str, **more: Any) -> Token:
    return mechanism(url, **{**CLIENT, **more}).token()


def failure(endpoint: TokenEndpoint, status: int, body: Any) -> str:
    endpoint.answer = lambda asked: (status, body)
    with pytest.raises(SaslError) as caught:
        token_of(endpoint.url)
    assert SECRET not in str(caught.value)
    return str(caught.value)


def test_client_credentials_with_scope_and_extensions(endpoint: TokenEndpoint) -> None:
    token = token_of(
        endpoint.url,
        **{
            "sasl.oauthbearer.scope": "read write",
            "sasl.oauthbearer.extensions": "logicalCluster=lkc,id=p",
        },
    )
    [asked] = endpoint.asked
    assert asked.path == "/token"
    assert asked.form == {"grant_type": "client_credentials", "scope": "read write"}
    assert (
        asked.headers["Authorization"]
        == f"Basic {base64.b64encode(f'app:{SECRET}'.encode()).decode()}"
    )
    assert (token.value, token.expires, token.principal) == (SIGNED, EXPIRES, "alice")
    assert token.extensions == {"logicalCluster": "lkc", "id": "p"}


def test_a_token_is_cached_until_it_is_refreshed(endpoint: TokenEndpoint) -> None:
    ours = mechanism(endpoint.url, **CLIENT)
    ours.refresh()
    for _ in range(3):
        assert ours.token().value == SIGNED
    assert len(endpoint.asked) == 1
    assert NOW + 60_000 < ours.refresh_at < EXPIRES
    assert SECRET in ours.secrets()
    assert SIGNED in ours.secrets()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b'{"access_token":"t0ken-of-somebody"}', "its answer isn't HTTP"),
        (b"t0ken-of-somebody/1.1 200 OK\r\n\r\n", "its answer isn't HTTP"),
        (b"HTTP/t0ken-of-somebody 200 OK\r\n\r\n", "its answer isn't HTTP"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n{}\r\n0\r\n\r\n",
            "non-negative",
        ),
    ],
    ids=["HTTP/0.9", "another protocol", "another version", "a negative chunk"],
)
def test_answers_that_are_not_http_are_not_shown(answer: bytes, words: str) -> None:
    """The client doesn't know a token in such an answer as a secret yet."""

    def script(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(answer)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(65536):  # a socket that is closed before would reset the connection
            pass

    with SlowServer(script) as server, pytest.raises(SaslError, match=words) as caught:
        token_of(f"http://127.0.0.1:{server.port}/token")
    assert "t0ken" not in "".join(traceback.format_exception(caught.value))


def test_the_subject_may_be_another_claim(endpoint: TokenEndpoint) -> None:
    assert token_of(endpoint.url, **{"sasl.oauthbearer.sub.claim.name": "azp"}).principal == "app"


def test_expiry_is_truncated_to_seconds_as_by_brokers(endpoint: TokenEndpoint) -> None:
    """Brokers truncate the expiry to whole seconds."""
    endpoint.answer = lambda asked: (
        200,
        {"access_token": jwt.encode({"exp": EXPIRES + 0.9}, "key" * 20, "HS256")},
    )
    assert token_of(endpoint.url).expires == EXPIRES


EMPTY = base64.urlsafe_b64encode(b'{"alg":"none"}').decode().rstrip("=")


def test_a_token_of_the_first_second_has_expired(endpoint: TokenEndpoint) -> None:
    endpoint.answer = lambda asked: (
        200,
        {"access_token": jwt.encode({"exp": 0.5}, "key" * 20, "HS256")},
    )
    with pytest.raises(SaslError, match="has expired"):
        token_of(endpoint.url)


@pytest.mark.parametrize(
    ("token", "words"),
    [
        ("\ud800", "no expires_in"),
        (f"{EMPTY}.{'A' * 5}.", "no expires_in"),
        (f"{EMPTY}.{base64.urlsafe_b64encode(b'[' * 300_000).decode()}.", "no expires_in"),
    ],
    ids=["half of a character", "no JSON", "a deep list"],
)
def test_a_token_that_cannot_be_decoded_is_refused(
    token: str, words: str, endpoint: TokenEndpoint
) -> None:
    endpoint.answer = lambda asked: (200, {"access_token": token})
    with pytest.raises(SaslError, match=words):
        token_of(endpoint.url)


@pytest.mark.parametrize("expires_in", [300, "300", 300.5])
def test_an_opaque_token_lasts_for_expires_in(endpoint: TokenEndpoint, expires_in: Any) -> None:
    endpoint.answer = lambda asked: (200, {"access_token": "opaque", "expires_in": expires_in})
    token = token_of(endpoint.url)
    assert token.principal == ""
    assert NOW + 299 <= token.expires <= time.time() + 301


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (
            401,
            {"error": "invalid_client", "error_description": "no\nsuch"},
            "answers 401: invalid_client, no?such",
        ),
        (500, b"<html>", "answers 500"),
        (302, {}, "answers 302"),
        (200, b"not json", "answers 200"),
        (200, b"[" * 100_000, "answers 200"),
        (200, [1], "answers 200"),
        (200, {}, "without an access_token"),
        (200, {"access_token": 5}, "without an access_token"),
        (200, {"access_token": "a b", "expires_in": 5}, "characters that no token has"),
        (200, {"access_token": "opaque"}, "doesn't say when it expires"),
        (200, {"access_token": "opaque", "expires_in": -1}, "doesn't say when it expires"),
        (200, {"access_token": "opaque", "expires_in": "soon"}, "doesn't say when it expires"),
        (200, {"access_token": jwt.encode({"exp": 5}, "key" * 20, "HS256")}, "has expired"),
        (200, b"x" * ((1 << 20) + 1), "more than 1048576 bytes"),
    ],
)
def test_answers_without_a_token_are_quoted_in_errors(
    endpoint: TokenEndpoint, status: int, body: Any, words: str
) -> None:
    assert words in failure(endpoint, status, body)
    assert len(endpoint.asked) == 1, "redirects aren't followed"


def test_error_of_a_missing_endpoint_hides_secrets_in_its_url() -> None:
    with pytest.raises(SaslError) as caught:
        token_of(f"http://127.0.0.1:1/token?key={SECRET}")
    assert "http://127.0.0.1:1/token" in str(caught.value)
    assert "refused" in str(caught.value)
    assert SECRET not in str(caught.value)


# --- HTTPS ---


def test_https_is_verified_with_the_configured_authorities(
    authority: trustme.CA, tmp_path: Path
) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    ca_file = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(ca_file)
    with TokenEndpoint(lambda asked: (200, {"access_token": SIGNED}), context) as endpoint:
        assert token_of(endpoint.url, **{"https.ca.location": str(ca_file)}).value == SIGNED
        assert token_of(endpoint.url, **{"https.ca.pem": ca_file.read_text()}).value == SIGNED
        for strange in (
            {},
            {"https.ca.pem": trustme.CA().cert_pem.bytes().decode()},
            {"https.ca.location": "probe"},
        ):
            with pytest.raises(SaslError, match="certificate verify failed"):
                token_of(endpoint.url, **strange)
    with TokenEndpoint(lambda asked: (200, {}), _for_another_host(authority)) as endpoint:  # noqa: SIM117
        with pytest.raises(SaslError, match=r"certificate|127\.0\.0\.1"):
            token_of(endpoint.url, **{"https.ca.location": str(ca_file)})


def _for_another_host(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("other.example").configure_cert(context)
    return context


@pytest.fixture
def https(authority: trustme.CA) -> Iterator[TokenEndpoint]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with TokenEndpoint(lambda asked: (200, {"access_token": SIGNED}), context) as running:
        yield running


@pytest.mark.parametrize("conf", [{}, {"https.ca.location": "probe"}], ids=["default", "probe"])
def test_the_systems_authorities_are_found_where_pythons_openssl_doesnt_look(
    conf: dict[str, str],
    https: TokenEndpoint,
    authority: trustme.CA,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    empty, bundle = tmp_path / "empty.pem", tmp_path / "ca.pem"
    empty.touch()
    authority.cert_pem.write_to_path(str(bundle))
    for name in authorities.ENVIRONMENT:
        monkeypatch.setenv(name, "/nowhere")
    monkeypatch.setattr(authorities, "CA_LOCATIONS", ("/nowhere/ca.pem", str(empty), str(bundle)))
    assert token_of(https.url, **conf).value == SIGNED


def test_a_directory_of_authorities_needs_no_hashed_names(
    https: TokenEndpoint, authority: trustme.CA, tmp_path: Path
) -> None:
    (tmp_path / "other.crt").write_text("no certificate")
    with pytest.raises(KafkaException, match="no certificate in PEM form in this directory"):
        token_of(https.url, **{"https.ca.location": str(tmp_path)})
    authority.cert_pem.write_to_path(str(tmp_path / "ours.crt"))
    assert token_of(https.url, **{"https.ca.location": str(tmp_path)}).value == SIGNED


def test_replaced_authorities_are_used_for_the_next_token(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    before, now = trustme.CA(), trustme.CA()
    before.cert_pem.write_to_path(str(file))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    now.issue_cert("127.0.0.1").configure_cert(context)
    answer = {"access_token": SIGNED}
    with TokenEndpoint(lambda asked: (200, answer), context) as endpoint:
        ours = mechanism(endpoint.url, **CLIENT, **{"https.ca.location": str(file)})
        with pytest.raises(SaslError, match="certificate verify failed"):
            ours.refresh()
        file.write_text("half writt")
        with pytest.raises(SaslError, match=r"https\.ca\.location .* can't be read"):
            ours.refresh()
        now.cert_pem.write_to_path(str(file))
        ours.refresh()


@pytest.mark.parametrize(
    ("conf", "words"),
    [
        (
            {"https.ca.location": "/nowhere/ca.pem"},
            "https.ca.location /nowhere/ca.pem can't be read",
        ),
        ({"https.ca.pem": "nonsense"}, "https.ca.pem can't be read"),
        ({"https.ca.pem": "x", "https.ca.location": "y"}, "mutually exclusive"),
        ({"sasl.oauthbearer.token.endpoint.url": "ftp://x"}, "an http or https URL"),
        ({"sasl.oauthbearer.token.endpoint.url": ""}, "token.endpoint.url` is mandatory"),
        ({"sasl.oauthbearer.client.id": ""}, "client.id` is mandatory"),
        ({"sasl.oauthbearer.client.secret": ""}, "client.secret` is mandatory"),
        ({"sasl.oauthbearer.extensions": "a"}, "key=value"),
        ({"sasl.oauthbearer.grant.type": JWT_BEARER}, "private.key.pem` is mandatory"),
    ],
)
def test_wrong_configuration_is_refused_at_construction(conf: dict[str, Any], words: str) -> None:
    with pytest.raises(KafkaException) as caught:
        mechanism("http://h/token", **{**CLIENT, **conf})
    assert caught.value.args[0].code() == KafkaError._INVALID_ARG
    assert words in caught.value.args[0].str()


def test_a_missing_library_is_one_line_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "jwt", None)
    with pytest.raises(KafkaException, match=r"pip install 'kafka-native\[oauth\]'") as caught:
        mechanism("http://h/token", **CLIENT)
    assert PYJWT_MISSING_TEXT in caught.value.args[0].str()


# --- assertions ---


def pem(key: Any, passphrase: str = "") -> str:
    how = BestAvailableEncryption(passphrase.encode()) if passphrase else NoEncryption()
    return str(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, how).decode())


RSA = rsa.generate_private_key(65537, 2048)
EC = ec.generate_private_key(ec.SECP256R1())
PREFIX = "sasl.oauthbearer.assertion."


def assertion_of(asked: Asked) -> str:
    assert asked.form["grant_type"] == JWT_BEARER
    assert "Authorization" not in asked.headers
    return asked.form["assertion"]


def test_an_assertion_is_signed_with_its_claims(endpoint: TokenEndpoint) -> None:
    claims = {"aud": "https://provider", "iss": "app", "sub": "service"}
    conf = {
        "sasl.oauthbearer.grant.type": JWT_BEARER,
        "sasl.oauthbearer.scope": "kafka",
        "sasl.oauthbearer.assertion.private.key.pem": pem(RSA, PASSPHRASE),
        "sasl.oauthbearer.assertion.private.key.passphrase": PASSPHRASE,
        "sasl.oauthbearer.assertion.claim.exp.seconds": 120,
        "sasl.oauthbearer.assertion.claim.nbf.seconds": 30,
        "sasl.oauthbearer.assertion.claim.jti.include": True,
        "sasl.oauthbearer.assertion.claim.aud": claims["aud"],
        "sasl.oauthbearer.assertion.claim.iss": claims["iss"],
        "sasl.oauthbearer.assertion.claim.sub": claims["sub"],
    }
    ours = mechanism(endpoint.url, **conf)
    assert ours.token().value == SIGNED
    ours.refresh()
    first, second = (
        jwt.decode(assertion_of(asked), RSA.public_key(), ["RS256"], audience="https://provider")
        for asked in endpoint.asked
    )
    assert first.items() >= claims.items()
    assert first["exp"] - first["iat"] == 120
    assert first["iat"] - first["nbf"] == 30
    assert first["jti"] != second["jti"]
    assert endpoint.asked[0].form["scope"] == "kafka"
    assert PASSPHRASE in ours.secrets()


def test_a_template_and_a_key_are_read_from_files_each_time(
    endpoint: TokenEndpoint, tmp_path: Path
) -> None:
    key_file, template = tmp_path / "key.pem", tmp_path / "template.json"
    key_file.write_text(pem(EC))
    template.write_text('{"header": {"kid": "k1"}, "payload": {"iss": "template", "tenant": "t"}}')
    ours = mechanism(
        endpoint.url,
        **{
            "sasl.oauthbearer.grant.type": JWT_BEARER,
            "sasl.oauthbearer.assertion.algorithm": "ES256",
            "sasl.oauthbearer.assertion.private.key.file": str(key_file),
            "sasl.oauthbearer.assertion.jwt.template.file": str(template),
            "sasl.oauthbearer.assertion.claim.iss": "property",
        },
    )
    ours.refresh()
    another = ec.generate_private_key(ec.SECP256R1())
    key_file.write_text(pem(another))
    ours.refresh()
    for key, asked in zip((EC, another), endpoint.asked, strict=True):
        claims = jwt.decode(assertion_of(asked), key.public_key(), ["ES256"])
        assert (claims["iss"], claims["tenant"]) == ("property", "t")
        assert "jti" not in claims
        assert jwt.get_unverified_header(assertion_of(asked))["kid"] == "k1"
    key_file.unlink()
    with pytest.raises(SaslError, match="No such file"):
        ours.refresh()


def test_a_ready_assertion_is_sent_unchanged(endpoint: TokenEndpoint, tmp_path: Path) -> None:
    ready = tmp_path / "assertion"
    ready.write_text("some.signed.assertion\n")
    token_of(
        endpoint.url,
        **{
            "sasl.oauthbearer.grant.type": JWT_BEARER,
            "sasl.oauthbearer.assertion.file": str(ready),
        },
    )
    assert assertion_of(endpoint.asked[0]) == "some.signed.assertion"


@pytest.mark.parametrize(
    ("conf", "words"),
    [
        ({"private.key.pem": "nonsense"}, "no key"),
        ({"private.key.pem": pem(RSA, PASSPHRASE)}, "can't be signed"),
        (
            {"private.key.pem": pem(RSA, PASSPHRASE), "private.key.passphrase": SECRET},
            "wrong or missing passphrase",
        ),
        ({"private.key.pem": pem(EC)}, "can't be signed with RS256"),
        ({"private.key.file": "/nowhere"}, "private.key.file /nowhere: No such file"),
        ({"private.key.pem": pem(RSA), "private.key.file": "x"}, "mutually exclusive"),
        ({"private.key.pem": pem(RSA), "file": "x"}, "mutually exclusive"),
        ({"file": "/nowhere"}, "No such file"),
        ({"private.key.pem": pem(RSA), "jwt.template.file": __file__}, "isn't JSON"),
    ],
)
def test_unusable_keys_and_templates_are_refused_at_construction(
    conf: dict[str, str], words: str
) -> None:
    with pytest.raises(KafkaException) as caught:
        mechanism(
            "http://h/token",
            **{
                "sasl.oauthbearer.grant.type": JWT_BEARER,
                **{f"{PREFIX}{name}": value for name, value in conf.items()},
            },
        )
    assert words in caught.value.args[0].str()
    assert PASSPHRASE not in str(caught.value)
    assert SECRET not in str(caught.value)


def test_files_that_are_too_long_or_no_text_are_refused(tmp_path: Path) -> None:
    long, binary = tmp_path / "long", tmp_path / "binary"
    long.write_bytes(b"x" * (oidc.FILE_MAX_BYTES + 1))
    binary.write_bytes(b"\xff")
    with pytest.raises(SaslError, match="more than"):
        oidc.read(str(long), "x")
    with pytest.raises(SaslError, match="isn't a text"):
        oidc.read(str(binary), "x")


# --- with a producer ---


def test_a_producer_authenticates_with_the_providers_token() -> None:
    """The mock cluster accepts unsigned tokens."""
    unsigned = jwt.encode({"sub": "alice", "exp": time.time() + 600}, "", "none")
    security = ListenerSecurity("sasl_plaintext", mechanisms=["OAUTHBEARER"])
    with (
        TokenEndpoint(lambda asked: (200, {"access_token": unsigned})) as endpoint,
        MockCluster(1, security=security) as cluster,
    ):
        cluster.create_topic("t", 1)
        conf = {**OIDC, **CLIENT, "bootstrap.servers": cluster.bootstrap_servers}
        with Producer({**conf, "sasl.oauthbearer.token.endpoint.url": endpoint.url}) as producer:
            producer.produce("t", b"x")
            assert producer.flush(60) == 0
        assert {login.principal for login in cluster.logins} == {"User:alice"}
        assert len(endpoint.asked) == 1
