"""Warnings of a client about logins that others can read and use, to brokers or to a provider."""

from __future__ import annotations

import logging
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_native import KafkaException, Producer
from kafka_native.config import PROPERTIES, parse
from kafka_native.security.sasl import MECHANISMS, mechanism_of
from tests.client.log_support import PlainLogger

SASL = {"bootstrap.servers": "127.0.0.1:1", "security.protocol": "sasl_plaintext"}
URL, TYPE, CONFIG = (
    f"sasl.oauthbearer.{name}"
    for name in ("token.endpoint.url", "metadata.authentication.type", "config")
)
USER = {"sasl.username": "alice", "sasl.password": "s3cret-word"}
OIDC = {
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.client.id": "app",
    "sasl.oauthbearer.client.secret": "s3cret-word",
    URL: "https://127.0.0.1:1/token",
}
OWN: dict[str, dict[str, Any]] = {
    "PLAIN": USER,
    "SCRAM-SHA-256": USER,
    "SCRAM-SHA-512": USER,
    "OAUTHBEARER": {"oauth_cb": lambda config: ("t", 2e9)},
    "AWS_MSK_IAM": {},
    "GSSAPI": {},
}
EXPOSED = {
    "PLAIN": "sees the password",
    "OAUTHBEARER": "sees the token, which anyone can use until it expires",
    "AWS_MSK_IAM": "sees the signed request, which anyone can use for 15 minutes",
}


@pytest.fixture(autouse=True)
def kerberos(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        sys.modules, "gssapi", SimpleNamespace(exceptions=SimpleNamespace(GSSError=OSError))
    )


def warnings_of(**conf: Any) -> list[str]:
    """Return the warnings in the log while a client is made."""
    logger = PlainLogger()
    with Producer({**SASL, **conf, "logger": logger, "error_cb": lambda error: None}):
        pass
    return [
        call[-1]
        for call in logger.calls
        if call[0] == logging.WARNING and "without TLS" in call[-1]
    ]


@pytest.mark.parametrize("name", MECHANISMS)
def test_warning_of_each_mechanism_names_the_exposed_secret(name: str) -> None:
    own = {"sasl.mechanism": name, **OWN[name]}
    warned = warnings_of(**own)
    if name in EXPOSED:
        assert len(warned) == 1
        assert (
            f"SASL {name} without TLS: anyone who can read the network traffic {EXPOSED[name]}"
            in warned[0]
        )
    else:
        assert warned == []
    assert warnings_of(**{**own, "security.protocol": "sasl_ssl"}) == []


def test_warning_for_a_providers_token_but_not_for_an_unsigned_one() -> None:
    assert len(warnings_of(**{"sasl.mechanism": "OAUTHBEARER", **OIDC})) == 1
    unsecured = {"enable.sasl.oauthbearer.unsecure.jwt": True, CONFIG: "principal=alice"}
    assert warnings_of(**{"sasl.mechanism": "OAUTHBEARER", **unsecured}) == []


# --- the provider ---

ENCRYPTED = {"sasl.mechanism": "OAUTHBEARER", "security.protocol": "sasl_ssl", **OIDC}


@pytest.mark.parametrize(
    ("url", "warned"),
    [
        ("http://provider.example/token", True),
        ("http://10.0.0.7:8080/token", True),
        ("http://[2001:db8::1]/token", True),
        ("http://localhost.example/token", True),
        ("https://provider.example/token", False),
        ("http://localhost:8080/token", False),
        ("http://127.0.0.1:8080/token", False),
        ("http://[::1]/token", False),
        ("http://169.254.169.254/token", False),
    ],
)
def test_a_secret_that_goes_to_a_provider_without_tls(url: str, warned: bool) -> None:
    mechanism = mechanism_of(
        parse({**SASL, **ENCRYPTED, URL: f"{url}?key=s3cret-word"}, "producer")
    )
    remarks = mechanism.remarks(encrypted=True)
    text = (
        f"{URL} is {url}, without TLS: anyone who can read the network traffic sees the login "
        "and the token"
    )
    assert remarks == ([text] if warned else [])


def test_warning_is_logged_once_for_a_client() -> None:
    own = {**ENCRYPTED, URL: "http://192.0.2.1:9/token"}
    for _ in range(2):
        [text] = warnings_of(**own)
        assert "http://192.0.2.1:9/token, without TLS" in text
        assert "s3cret" not in text


def test_warnings_for_endpoints_of_cloud_services() -> None:
    base = {**SASL, **ENCRYPTED}
    azure = {TYPE: "azure_imds", CONFIG: "query=resource=x"}
    assert mechanism_of(parse({**base, **azure, URL: ""}, "producer")).remarks(encrypted=True) == []
    assert mechanism_of(parse({**base, **azure, URL: "http://h/t"}, "producer")).remarks(
        encrypted=True
    )
    pytest.importorskip("botocore")
    for endpoint, warned in (
        ("http://sts.example", True),
        ("https://sts.example", False),
        ("", False),
    ):
        aws = {TYPE: "aws_iam", CONFIG: f"region=eu-north-1,audience=x,sts_endpoint={endpoint}"}
        assert (
            bool(mechanism_of(parse({**base, **aws}, "producer")).remarks(encrypted=True)) is warned
        )


# --- log-ins in URLs ---

URLS_WITH_LOGIN = [
    "https://alice:s3cret-word@127.0.0.1:1/token",
    "https://s3cret-word@127.0.0.1:1/token",
    "http://alice:s3cret%2Fword@127.0.0.1:1/",
    "https://alice:s3cret/word@127.0.0.1:1/",
    "https://alice:12/s3cret@127.0.0.1/",
    "https://alice:s3cret#word@127.0.0.1/",
    "https://alice:s3cret word@127.0.0.1/",
    "https://[s3cret@127.0.0.1/",
]


@pytest.mark.parametrize("url", URLS_WITH_LOGIN)
@pytest.mark.parametrize("kind", ["oidc", "azure", "aws"])
def test_a_login_in_an_endpoints_url_is_refused_and_not_shown(url: str, kind: str) -> None:
    logger = PlainLogger()
    own: dict[str, Any] = {**ENCRYPTED, URL: url}
    if kind == "azure":
        own |= {TYPE: "azure_imds"}
    if kind == "aws":
        own |= {
            TYPE: "aws_iam",
            CONFIG: f"region=eu-north-1,audience=x,sts_endpoint={url}",
            URL: "",
        }
    with pytest.raises(KafkaException) as caught:
        Producer({**SASL, **own, "debug": "all", "logger": logger})
    seen = f"{caught.value!r} {caught.value} {caught.value.__context__!r} {''.join(logger.texts())}"
    assert "s3cret" not in seen
    assert URL in seen or "sts_endpoint" in seen


@pytest.mark.parametrize("url", URLS_WITH_LOGIN)
def test_a_login_in_an_unused_url_is_not_shown(url: str) -> None:
    """Other security protocols ignore the URL, but debug=conf shows it."""
    logger = PlainLogger()
    own = {
        "bootstrap.servers": "127.0.0.1:1",
        URL: f"{url}?code=s3cret-code",
        "debug": "all",
        "logger": logger,
    }
    with Producer(own) as producer:
        seen = (
            f"{producer!r} {producer.metrics()} {parse(own, 'producer')!r} "
            f"{''.join(logger.texts())}"
        )
    assert "s3cret" not in seen


@pytest.mark.parametrize(
    "servers", ["alice:s3cret@h:1", "SASL_SSL://alice:s3cret@h:1", "h:1,s3cret@h"]
)
def test_a_login_before_a_bootstrap_server_is_refused_and_not_shown(servers: str) -> None:
    with pytest.raises(KafkaException, match="a user or a password before its host") as caught:
        parse({"bootstrap.servers": servers}, "producer")
    assert "s3cret" not in f"{caught.value!r} {caught.value}"


# --- other properties with secrets ---


def test_a_private_key_in_any_property_is_not_shown() -> None:
    pem = "-----BEGIN PRIVATE KEY-----\ns3cret\n-----END PRIVATE KEY-----\n"
    for declared in PROPERTIES.values():
        if declared.kind == "string":
            assert "s3cret" not in str(declared.shown(pem)), declared.name


def test_a_callback_is_shown_by_its_name() -> None:
    """The repr of a partial contains its arguments."""
    from functools import partial

    def fetch(config: str, password: str) -> Any:
        return None

    logger = PlainLogger()
    conf = {
        **SASL,
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": partial(fetch, password="s3cret-word"),
    }
    with Producer({**conf, "debug": "all", "logger": logger, "error_cb": lambda error: None}):
        pass
    seen = f"{parse(conf, 'producer')!r} {''.join(logger.texts())}"
    assert "s3cret" not in seen
    assert "oauth_cb = partial" in seen


def test_kinits_command_is_marked_as_secret() -> None:
    conf = {
        **SASL,
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.kinit.cmd": "echo s3cret-word | kinit app; exit 1",
    }
    logger = PlainLogger()
    with Producer({**conf, "debug": "all", "logger": logger, "error_cb": lambda error: None}):
        pass
    seen = f"{parse(conf, 'producer')!r} {''.join(logger.texts())}"
    assert "s3cret" not in seen
    assert "sasl.kerberos.kinit.cmd = [redacted]" in seen
