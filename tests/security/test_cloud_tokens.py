"""Tokens for a machine's cloud identity, from endpoints of the tests."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jwt
import pytest

from kafka_native import KafkaError, KafkaException, Producer
from kafka_native.config import parse
from kafka_native.mock import ListenerSecurity, MockCluster
from kafka_native.security import cloud_tokens
from kafka_native.security.mechanisms import SaslError
from kafka_native.security.oauthbearer import OAuthBearer
from kafka_native.security.sasl import mechanism_of

from .token_endpoint import TokenEndpoint

TYPE, CONFIG = "sasl.oauthbearer.metadata.authentication.type", "sasl.oauthbearer.config"
NOW = int(time.time())
EXPIRES = NOW + 86_400  # a whole run of the tests may take an hour from here
SIGNED = jwt.encode({"sub": "machine-7", "exp": EXPIRES}, "key" * 20, "HS256")
OIDC = {
    "bootstrap.servers": "h:1",
    "security.protocol": "sasl_plaintext",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
}
STS = """<GetWebIdentityTokenResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetWebIdentityTokenResult>
<Expiration>2099-01-01T00:00:00Z</Expiration><WebIdentityToken>{}</WebIdentityToken>
</GetWebIdentityTokenResult><ResponseMetadata><RequestId>1</RequestId></ResponseMetadata></GetWebIdentityTokenResponse>"""
DENIED = b"""<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type>
<Code>AccessDenied</Code><Message>not for this audience</Message></Error><RequestId>1</RequestId></ErrorResponse>"""
KEY, SECRET = "AKIDEXAMPLE", "wJalrXUtnFEMI-s3cret"


@pytest.fixture
def azure() -> Iterator[TokenEndpoint]:
    with TokenEndpoint(
        lambda asked: (200, {"access_token": SIGNED, "expires_in": "86399"})
    ) as running:
        yield running


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[TokenEndpoint]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
    with TokenEndpoint(lambda asked: (200, STS.format(SIGNED).encode())) as running:
        yield running


def mechanism(**more: Any) -> OAuthBearer:
    """Return the mechanism of a client with these properties."""
    made = mechanism_of(parse({**OIDC, **more}, "producer"))
    assert isinstance(made, OAuthBearer)
    return made


def azure_mechanism(endpoint: TokenEndpoint, config: str = "") -> OAuthBearer:
    return mechanism(
        **{TYPE: "azure_imds", "sasl.oauthbearer.token.endpoint.url": endpoint.url, CONFIG: config}
    )


def aws_mechanism(endpoint: TokenEndpoint, more: str = "") -> OAuthBearer:
    own = f"region=eu-north-1,audience=https://kafka.example/x,sts_endpoint=http://127.0.0.1:{endpoint.port}{more}"
    return mechanism(**{TYPE: "aws_iam", CONFIG: own})


def refusal(**conf: Any) -> str:
    """Return the error text of making a client."""
    with pytest.raises(KafkaException) as caught:
        mechanism(**conf)
    assert caught.value.args[0].code() == KafkaError._INVALID_ARG
    return str(caught.value.args[0])


# --- Azure ---


def test_request_to_azure_has_the_query(azure: TokenEndpoint) -> None:
    query = "api-version=2018-02-01&resource=api%3A%2F%2Fkafka&client_id=7"
    token = azure_mechanism(azure, f"query={query}").token()
    assert (token.value, token.principal, token.expires) == (SIGNED, "machine-7", EXPIRES)
    [asked] = azure.asked
    assert asked.headers["Metadata"] == "true"
    assert parse_qs(urlsplit(asked.path).query)["resource"] == ["api://kafka"]
    assert asked.path == f"/token?{query}"
    assert asked.form == {}


def test_azures_service_has_a_default_address() -> None:
    assert cloud_tokens.azure_url("", "query=resource=x") == f"{cloud_tokens.AZURE_URL}?resource=x"
    assert cloud_tokens.azure_url("http://h/t?a=b", "query=c=d") == "http://h/t?a=b&c=d"
    assert cloud_tokens.azure_url("http://h/t", "") == "http://h/t"


def test_azure_needs_a_query() -> None:
    assert "is mandatory for Azure IMDS authentication when `query` isn't set" in refusal(
        **{TYPE: "azure_imds"}
    )
    assert "azure_imds doesn't know 'resource'" in refusal(
        **{TYPE: "azure_imds", CONFIG: "resource=x"}
    )


def test_azures_refusal_is_quoted(azure: TokenEndpoint) -> None:
    text = {"error": "invalid_request", "error_description": "Identity not found"}
    azure.answer = lambda asked: (400, text)
    with pytest.raises(SaslError, match="answers 400: invalid_request, Identity not found"):
        azure_mechanism(azure).token()


def test_a_producer_authenticates_with_azures_token(azure: TokenEndpoint) -> None:
    """The mock cluster accepts unsigned tokens."""
    unsigned = jwt.encode({"sub": "machine-7", "exp": EXPIRES}, "", "none")
    azure.answer = lambda asked: (200, {"access_token": unsigned})
    with MockCluster(
        1, security=ListenerSecurity("sasl_plaintext", mechanisms=["OAUTHBEARER"])
    ) as cluster:
        cluster.create_topic("t", 1)
        conf = {**OIDC, "sasl.oauthbearer.metadata.authentication.type": "azure_imds"}
        conf |= {"sasl.oauthbearer.token.endpoint.url": azure.url}
        with Producer({**conf, "bootstrap.servers": cluster.bootstrap_servers}) as producer:
            producer.produce("t", b"x")
            assert producer.flush(60) == 0
        assert {login.principal for login in cluster.logins} == {"User:machine-7"}


# --- AWS ---


def test_request_to_aws_is_signed(aws: TokenEndpoint) -> None:
    token = aws_mechanism(
        aws, ",duration_seconds=900,signing_algorithm=RS256,tag_team=a\\,b"
    ).token()
    assert (token.value, token.principal, token.expires) == (SIGNED, "machine-7", EXPIRES)
    [asked] = aws.asked
    wanted = {
        "Action": "GetWebIdentityToken",
        "Audience.member.1": "https://kafka.example/x",
        "DurationSeconds": "900",
        "SigningAlgorithm": "RS256",
        "Tags.member.1.Key": "team",
        "Tags.member.1.Value": "a,b",
    }
    assert wanted.items() <= asked.form.items()
    assert f"Credential={KEY}/" in asked.headers["Authorization"]
    assert "/eu-north-1/sts/" in asked.headers["Authorization"]


def test_an_opaque_token_expires_at_the_time_in_awss_answer(aws: TokenEndpoint) -> None:
    aws.answer = lambda asked: (200, STS.format("opaque").encode())
    token = aws_mechanism(aws).token()
    assert (token.value, token.principal) == ("opaque", "")
    assert time.gmtime(token.expires).tm_year == 2099


def test_expiry_in_the_token_wins_over_awss_answer(aws: TokenEndpoint) -> None:
    old = jwt.encode({"sub": "machine-7", "exp": 0.5}, "key" * 20, "HS256")
    aws.answer = lambda asked: (200, STS.format(old).encode())
    with pytest.raises(SaslError, match="the token has expired"):
        aws_mechanism(aws).token()


def test_awss_refusal_is_quoted_without_secrets(aws: TokenEndpoint) -> None:
    aws.answer = lambda asked: (403, DENIED)
    with pytest.raises(
        SaslError, match=r"AWS STS gives no token: .*AccessDenied.*not for this audience"
    ) as caught:
        aws_mechanism(aws).token()
    assert SECRET not in str(caught.value)


def test_missing_aws_credentials_are_named(
    aws: TokenEndpoint, no_aws_keys: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(SaslError, match="AWS STS gives no token: Unable to locate credentials"):
        aws_mechanism(aws).token()


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ("", "region and audience must be in"),
        ("region=x", "audience must be in"),
        ("region=x,audience=y,duration_seconds=59", "duration_seconds is '59', not 60 to 3600"),
        ("region=x,audience=y,duration_seconds=many", "duration_seconds is 'many'"),
        ("region=x,audience=y,signing_algorithm=HS256", "not ES384 or RS256"),
        ("region=x,audience=y,aws_debug=file", "aws_debug is none or console"),
        ("region = x,audience=y", "aws_iam doesn't know 'region '"),
        ("region=x,audience=y,region=z", "has 'region' twice"),
        ("region=x,audience", "'audience' isn't name=value"),
        (
            "region=x,audience=y" + "".join(f",tag_{n}=v" for n in range(51)),
            "51 tags: a token can have at most 50",
        ),
    ],
)
def test_configuration_mistakes_are_errors_at_construction(config: str, text: str) -> None:
    assert text in refusal(**{TYPE: "aws_iam", CONFIG: config})


def test_missing_botocore_is_an_error_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    assert "pip install 'kafka-native[aws]'" in refusal(
        **{TYPE: "aws_iam", CONFIG: "region=x,audience=y"}
    )


def test_an_old_botocore_is_an_error_with_the_command(
    aws: TokenEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = pytest.importorskip(
        "botocore.session", reason="botocore isn't installed: there is no old one either"
    )
    monkeypatch.setattr(session.Session, "create_client", lambda *args, **kwargs: object())
    with pytest.raises(SaslError, match="pip install --upgrade botocore"):
        aws_mechanism(aws).token()


def test_commas_are_escaped() -> None:
    assert cloud_tokens.pairs(r"a=b\,c, d=e=f ,g=") == {"a": "b,c", "d": "e=f", "g": ""}
