"""AWS_MSK_IAM: signatures equal to botocore's, which the mock cluster's check accepts."""

from __future__ import annotations

import calendar
import json
import time
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from kafka_native import KafkaException
from kafka_native.config import parse
from kafka_native.mock import AwsKey, aws_iam
from kafka_native.security import aws_msk_iam
from kafka_native.security.aws_msk_iam import (
    AwsCredentials,
    AwsMskIam,
    from_environment,
    region_of,
    signed_payload,
)
from kafka_native.security.mechanisms import SaslError
from kafka_native.security.sasl import mechanism_of

NOW = calendar.timegm((2026, 1, 2, 3, 4, 5))
HOST = "b-1.mine.abc123.c2.kafka.eu-west-1.amazonaws.com"
SECRET = "s3cret/word+of=AWS"


@pytest.mark.parametrize("session_token", [None, "a/b+c=="])
def test_check_of_the_mock_cluster_accepts_the_signature(session_token: str | None) -> None:
    credentials = AwsCredentials("AKIDEXAMPLE", SECRET, session_token)
    payload = signed_payload(credentials, HOST, "eu-west-1", "agent", NOW)
    keys = {"AKIDEXAMPLE": AwsKey(SECRET, session_token)}
    properties = aws_iam.check(json.dumps(payload).encode(), keys, NOW + 899).properties
    assert properties == {"host": HOST, "user-agent": "agent", "region": "eu-west-1"}
    with pytest.raises(ValueError, match="expired"):
        aws_iam.check(json.dumps(payload).encode(), keys, NOW + 901)
    with pytest.raises(ValueError, match="signature"):
        aws_iam.check(json.dumps({**payload, "host": "other"}).encode(), keys, NOW)


@pytest.mark.parametrize("session_token", [None, "a/b+c=="])
def test_signature_is_botocores(session_token: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    auth = pytest.importorskip(
        "botocore.auth", reason="botocore isn't installed: nothing to compare with"
    )
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(NOW))
    payload = signed_payload(
        AwsCredentials("AKIDEXAMPLE", SECRET, session_token), HOST, "eu-west-1", "agent", NOW
    )
    request = AWSRequest("GET", f"https://{HOST}/?Action=kafka-cluster%3AConnect")
    request.context["timestamp"] = moment
    signer = auth.SigV4QueryAuth(
        Credentials("AKIDEXAMPLE", SECRET, session_token), "kafka-cluster", "eu-west-1", 900
    )
    monkeypatch.setattr(auth, "get_current_datetime", lambda: _datetime(NOW), raising=False)
    signer.add_auth(request)
    query = {
        name.lower(): value[0] for name, value in parse_qs(urlsplit(request.url).query).items()
    }
    if query["x-amz-date"] != moment:
        pytest.skip("this botocore signs another time: nothing to compare with")
    assert {name: value for name, value in payload.items() if name in query} == query


def _datetime(seconds: float) -> Any:
    from datetime import datetime, timezone

    return datetime.fromtimestamp(seconds, timezone.utc).replace(tzinfo=None)


def exchange(credentials: Any = None, host: str = HOST, region: str = "") -> Any:
    made = AwsMskIam(
        credentials or (lambda: AwsCredentials("AK", SECRET)), "agent", region, clock=lambda: NOW
    )
    return made, made.exchange(host, 9098)


def test_exchange_is_one_message_and_an_answer() -> None:
    mechanism, ours = exchange()
    assert (
        json.loads(ours.begin())["x-amz-credential"]
        == "AK/20260102/eu-west-1/kafka-cluster/aws4_request"
    )
    assert ours.respond(b'{"version":"2020_10_22","request-id":"1"}') is None
    assert ours.done
    assert mechanism.user == "AK"


@pytest.mark.parametrize("answer", [b"", b"{}", b"nonsense", b"[" * 100_000, b'{"version":"1"}'])
def test_other_answers_are_errors(answer: bytes) -> None:
    _, ours = exchange()
    ours.begin()
    with pytest.raises(SaslError, match="isn't Amazon MSK's"):
        ours.respond(answer)
    assert not ours.done


@pytest.mark.parametrize(
    ("host", "environment", "region"),
    [
        (HOST, {"AWS_REGION": "us-east-1"}, "eu-west-1"),
        ("boot-x.c1.kafka-serverless.us-west-2.amazonaws.com", {}, "us-west-2"),
        ("b-1.x.c1.kafka.cn-north-1.amazonaws.com.cn", {}, "cn-north-1"),
        ("vpce-1", {"AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "x"}, "us-east-1"),
        ("vpce-1", {"AWS_DEFAULT_REGION": "us-east-2"}, "us-east-2"),
    ],
)
def test_region_is_in_the_name_or_the_environment(
    host: str, environment: dict[str, str], region: str
) -> None:
    assert region_of(host, environment) == region


def test_missing_region_is_an_error() -> None:
    with pytest.raises(SaslError, match=r"sasl\.aws\.region"):
        region_of("vpce-1", {})


def test_credentials_of_the_environment() -> None:
    found = from_environment(
        {"AWS_ACCESS_KEY_ID": "AK", "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_SESSION_TOKEN": ""}
    )
    assert (found.access_key, found.secret_key, found.session_token) == ("AK", SECRET, None)
    for missing in ({}, {"AWS_ACCESS_KEY_ID": "AK"}, {"AWS_SECRET_ACCESS_KEY": SECRET}):
        with pytest.raises(SaslError, match="pip install botocore") as caught:
            from_environment(missing)
        assert SECRET not in str(caught.value)


def test_credentials_come_from_botocores_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("botocore.session", reason="botocore isn't installed")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AK2")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    assert aws_msk_iam.chain()().access_key == "AK2"


def test_region_property_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AK")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    conf = {
        "bootstrap.servers": "h:1",
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": "AWS_MSK_IAM",
    }
    mechanism = mechanism_of(parse({**conf, "sasl.aws.region": "ap-south-1"}, "producer"))
    payload = json.loads(mechanism.exchange("h", 1).begin())
    assert "/ap-south-1/" in payload["x-amz-credential"]
    assert SECRET not in json.dumps(payload)


def test_error_of_an_unknown_mechanism_lists_the_known_ones() -> None:
    conf = {"bootstrap.servers": "h:1", "security.protocol": "sasl_plaintext"}
    with pytest.raises(
        KafkaException, match=r'SASL mechanism: aws_msk".*did you mean "AWS_MSK_IAM"'
    ):
        mechanism_of(parse({**conf, "sasl.mechanism": "aws_msk"}, "producer"))
    with pytest.raises(KafkaException, match="one of PLAIN, SCRAM-SHA-256"):
        mechanism_of(parse({**conf, "sasl.mechanism": "XYZ"}, "producer"))
    with pytest.raises(KafkaException, match="exactly one"):
        parse({**conf, "sasl.mechanism": "PLAIN,GSSAPI"}, "producer")


def test_nothing_shows_a_secret() -> None:
    credentials = AwsCredentials("AK", SECRET, "t0ken")
    mechanism, ours = exchange(lambda: credentials)
    ours.begin()
    for each in (mechanism, ours, credentials):
        assert SECRET not in f"{each!r} {each}"
        assert "t0ken" not in f"{each!r} {each}"
    assert {SECRET, "t0ken"} < set(mechanism.secrets()), "and the signature"
