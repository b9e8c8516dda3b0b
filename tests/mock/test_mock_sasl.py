"""SASL of the mock cluster, tested with librdkafka and with the protocol by hand."""

from __future__ import annotations

import calendar
import json
import random
import time
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaError

from kafka_native.errors import ErrorCode
from kafka_native.mock import (
    AwsKey,
    Certificates,
    DelegationToken,
    ListenerSecurity,
    MockCluster,
    aws_iam,
)
from kafka_native.mock.sasl import Login
from kafka_native.protocol import ApiKey
from kafka_native.protocol.metadata import MetadataRequest
from kafka_native.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from kafka_native.protocol.schema import Request
from kafka_native.protocol.users import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
)
from kafka_native.protocol.versions import ApiVersionsRequest
from tests.mock.secured import (
    ScramClient,
    authenticate,
    handshake,
    log_in,
    produce_and_consume,
    refusal,
    settings,
    unsecured_jwt,
)
from tests.mock.wire import Wire
from tests.waiting import WAIT_S

PASSWORD = "s,e=cret \u00fc"
USERS = {"alice": "secret", "bob": "geheim", "d,o=t": PASSWORD}
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS = ("PLAIN", *SCRAM, "OAUTHBEARER", "AWS_MSK_IAM", "GSSAPI")


@pytest.fixture(scope="module")
def certificates() -> Certificates:
    return Certificates()


def secured(protocol: str = "sasl_plaintext", **own: Any) -> ListenerSecurity:
    return ListenerSecurity(protocol, **{"mechanisms": MECHANISMS, "users": USERS, **own})


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    tokens = {"token-1": DelegationToken("alice", "aG1hYw==")}
    with MockCluster(1, security=secured(delegation_tokens=tokens)) as running:
        yield running


def metadata(wire: Wire) -> int:
    """Send a request that needs authentication, and return the number of brokers."""
    return len(wire.ask(MetadataRequest(topics=None), 12).brokers)


# --- librdkafka ---


@pytest.mark.parametrize("protocol", ["sasl_plaintext", "sasl_ssl"])
@pytest.mark.parametrize("mechanism", ["PLAIN", *SCRAM])
def test_librdkafka_logs_in(mechanism: str, protocol: str, certificates: Certificates) -> None:
    security = secured(protocol, certificates=certificates)
    with MockCluster(2, security=security) as cluster:
        own = {"sasl.mechanism": mechanism, "sasl.username": "d,o=t", "sasl.password": PASSWORD}
        produce_and_consume(cluster, settings(cluster, security, **own))
        assert {(one.mechanism, one.principal, one.error) for one in cluster.logins} == {
            (mechanism, "User:d,o=t", None)
        }


@pytest.mark.parametrize("protocol", ["sasl_plaintext", "sasl_ssl"])
def test_librdkafka_logs_in_by_oauth_cb(protocol: str, certificates: Certificates) -> None:
    security = secured(protocol, certificates=certificates)

    def token(config: str) -> tuple[str, float, str, dict[str, str]]:
        return unsecured_jwt("carol"), time.time() + 3600, "carol", {"traceId": "123"}

    with MockCluster(1, security=security) as cluster:
        produce_and_consume(
            cluster,
            settings(cluster, security, **{"sasl.mechanism": "OAUTHBEARER", "oauth_cb": token}),
        )
        login = cluster.logins[0]
        assert (login.principal, login.extensions) == ("User:carol", {"traceId": "123"})


def test_librdkafka_logs_in_by_its_own_unsecured_token() -> None:
    security = secured()
    own = {
        "sasl.mechanism": "OAUTHBEARER",
        "enable.sasl.oauthbearer.unsecure.jwt": True,
        "sasl.oauthbearer.config": "principal=dave extension_a=b",
    }
    with MockCluster(1, security=security) as cluster:
        produce_and_consume(cluster, settings(cluster, security, **own))
        assert (cluster.logins[0].principal, cluster.logins[0].extensions) == (
            "User:dave",
            {"a": "b"},
        )


@pytest.mark.parametrize("mechanism", ["PLAIN", *SCRAM])
def test_librdkafka_reports_a_wrong_password(mechanism: str) -> None:
    security = secured()
    with MockCluster(1, security=security) as cluster:
        own = {"sasl.mechanism": mechanism, "sasl.username": "alice", "sasl.password": "wrong"}
        error = refusal(settings(cluster, security, **own), KafkaError._AUTHENTICATION)
        assert f"invalid credentials for {mechanism}" in str(error)
        assert cluster.logins[0].principal is None


def test_librdkafka_reports_an_expired_token() -> None:
    security = secured()

    def token(config: str) -> tuple[str, float, str, dict[str, str]]:
        return unsecured_jwt("carol", lifetime_s=-10), time.time() + 3600, "carol", {}

    with MockCluster(1, security=security) as cluster:
        conf = settings(cluster, security, **{"sasl.mechanism": "OAUTHBEARER", "oauth_cb": token})
        error = refusal(conf, KafkaError._AUTHENTICATION)
        assert "expired" in str(error)


@pytest.mark.parametrize("how", ["refuse", "close", "malformed", "wrong_signature", "other_nonce"])
def test_librdkafka_reconnects_after_a_broken_authentication(how: str) -> None:
    security = secured()
    with MockCluster(1, security=security) as cluster:
        cluster.break_authentication(how)
        own = {
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "alice",
            "sasl.password": "secret",
        }
        produce_and_consume(cluster, settings(cluster, security, **own))


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_librdkafka_logs_in_again_while_it_produces(mechanism: str) -> None:
    security = secured(session_lifetime_ms=600)
    own = {
        "sasl.mechanism": mechanism,
        "sasl.username": "alice",
        "sasl.password": "secret",
        "linger.ms": 0,
    }
    with MockCluster(1, security=security) as cluster:
        cluster.create_topic("a")
        producer = confluent_kafka.Producer(
            {**settings(cluster, security, **own), "enable.idempotence": True}
        )
        sent = 0
        deadline = time.monotonic() + WAIT_S
        while sum(one.again for one in cluster.logins) < 2:
            assert time.monotonic() < deadline
            producer.produce("a", b"%d" % sent)
            producer.poll(0.01)
            sent += 1
        assert producer.flush(WAIT_S) == 0
        assert [record.value for record in cluster.messages("a", 0)] == [
            b"%d" % one for one in range(sent)
        ]


# --- before authentication ---


@pytest.mark.parametrize(
    "requests",
    [
        [MetadataRequest(topics=None)],
        [ApiVersionsRequest(), ApiVersionsRequest()],
        [ApiVersionsRequest(), SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret")],
        [SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret")],
        [SaslHandshakeRequest(mechanism="PLAIN"), MetadataRequest(topics=None)],
        [SaslHandshakeRequest(mechanism="PLAIN"), ApiVersionsRequest()],
        [SaslHandshakeRequest(mechanism="PLAIN"), SaslHandshakeRequest(mechanism="PLAIN")],
    ],
    ids=lambda requests: "-".join(type(one).__name__.removesuffix("Request") for one in requests),
)
def test_early_requests_close_the_connection(requests: list[Request], cluster: MockCluster) -> None:
    with Wire(cluster) as wire:
        for request in requests[:-1]:
            assert wire.ask(request).error_code == 0
        wire.send(requests[-1], requests[-1].max_version)
        assert wire.is_closed()
    with Wire(cluster) as wire:
        assert wire.ask(ApiVersionsRequest()).error_code == 0
        assert log_in(wire).error_code == 0
        assert metadata(wire) == 1
        assert wire.ask(ApiVersionsRequest()).error_code == 0  # now as often as the client wants


def test_ids_are_checked_after_the_authentication(cluster: MockCluster) -> None:
    other = ApiVersionsRequest(cluster_id="another", node_id=1)
    with Wire(cluster) as wire:
        assert wire.ask(other).error_code == 0
        assert log_in(wire).error_code == 0
        assert wire.ask(other).error_code == ErrorCode.REBOOTSTRAP_REQUIRED
        own = ApiVersionsRequest(cluster_id=cluster.cluster_id, node_id=1)
        assert wire.ask(own).error_code == 0


def test_frames_before_authentication_are_limited(cluster: MockCluster) -> None:
    with Wire(cluster) as wire:
        wire.socket.sendall((600_000).to_bytes(4, "big"))
        assert wire.is_closed()


def test_response_to_an_unknown_mechanism_lists_the_known_ones(cluster: MockCluster) -> None:
    with Wire(cluster) as wire:
        response = handshake(wire, "DIGEST-MD5")
        assert (response.error_code, tuple(response.mechanisms)) == (
            ErrorCode.UNSUPPORTED_SASL_MECHANISM,
            MECHANISMS,
        )
        assert wire.is_closed()
    assert "DIGEST-MD5" in str(cluster.logins[-1].error)


def test_a_refusal_closes_the_connection_and_may_be_delayed(cluster: MockCluster) -> None:
    with Wire(cluster) as wire:
        cluster.delay_responses(1, 0.3, ApiKey.SASL_AUTHENTICATE)
        start = time.monotonic()
        response = log_in(wire, password="wrong")
        assert time.monotonic() - start >= 0.3
        assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert "wrong" not in (response.error_message or "")
        assert wire.is_closed()


def test_cluster_without_sasl_refuses_sasl() -> None:
    with MockCluster(1) as plain:
        with Wire(plain) as wire:
            assert handshake(wire, "PLAIN").error_code == ErrorCode.ILLEGAL_SASL_STATE
            assert authenticate(wire, b"").error_code == ErrorCode.ILLEGAL_SASL_STATE
            assert metadata(wire) == 1
        for act in (
            lambda: plain.logins,
            lambda: plain.set_password("a", "b"),
            lambda: plain.expired_sessions,
        ):
            with pytest.raises(ValueError, match="no SASL"):
                act()


def test_tokens_of_handshake_version_0_come_without_requests(cluster: MockCluster) -> None:
    with Wire(cluster) as wire:
        assert handshake(wire, "SCRAM-SHA-256", 0).error_code == 0
        client = ScramClient("SCRAM-SHA-256", "alice", "secret")
        wire.send_frame(client.first())
        wire.send_frame(client.last(wire.read_frame()))
        assert client.verifies(wire.read_frame())
        assert metadata(wire) == 1
    with Wire(cluster) as wire:
        assert handshake(wire, "PLAIN", 0).error_code == 0
        wire.send_frame(b"\0alice\0wrong")
        assert wire.is_closed()


# --- sessions ---


def test_a_session_ends_unless_it_is_renewed() -> None:
    with MockCluster(1, security=secured(session_lifetime_ms=200)) as cluster:
        with Wire(cluster) as wire:
            assert log_in(wire).session_lifetime_ms == 200
            time.sleep(0.25)
            assert log_in(wire).error_code == 0  # late, but the client may still authenticate
            assert [one.again for one in cluster.logins] == [False, True]
            time.sleep(0.25)
            wire.send(MetadataRequest(topics=None), 12)
            assert wire.is_closed()
            assert cluster.expired_sessions == 1
        cluster.set_session_lifetime(0)
        with Wire(cluster) as wire:
            assert log_in(wire).session_lifetime_ms == 0
            assert metadata(wire) == 1


def test_a_session_ends_with_its_token(cluster: MockCluster) -> None:
    for limit, lifetime in ((0, 3600), (5000, 3600), (7_200_000, 3600)):
        cluster.set_session_lifetime(limit)
        with Wire(cluster) as wire:
            assert handshake(wire, "OAUTHBEARER").error_code == 0
            token = f"n,,\x01auth=Bearer {unsecured_jwt(lifetime_s=lifetime)}\x01\x01".encode()
            session_ms = authenticate(wire, token).session_lifetime_ms
        assert session_ms == 5000 if limit == 5000 else 3_500_000 < session_ms <= 3_600_000


def test_a_session_keeps_its_user(cluster: MockCluster) -> None:
    with Wire(cluster) as wire:
        log_in(wire)
        response = log_in(wire, "bob", "geheim")
        assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert wire.is_closed()
    with Wire(cluster) as wire:
        log_in(wire)
        assert handshake(wire, "SCRAM-SHA-256").error_code == 0
        wire.send(
            SaslAuthenticateRequest(
                auth_bytes=ScramClient("SCRAM-SHA-256", "alice", "secret").first()
            ),
            2,
        )
        assert wire.is_closed()
    with Wire(cluster) as wire:
        log_in(wire)
        handshake(wire, "PLAIN")
        wire.send(MetadataRequest(topics=None), 12)
        assert wire.is_closed()


# --- mechanisms ---


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"alice\0secret",
        b"\0alice\0",
        b"\0\0secret",
        b"bob\0alice\0secret",
        b"\0\xff\0x",
        b"\0nobody\0x",
    ],
)
def test_plain_accepts_users_and_passwords_only(token: bytes, cluster: MockCluster) -> None:
    with Wire(cluster) as wire:
        handshake(wire, "PLAIN")
        assert authenticate(wire, token).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_passwords_change(cluster: MockCluster) -> None:
    def code(user: str, password: str) -> int:
        with Wire(cluster) as wire:
            return log_in(wire, user, password).error_code

    assert code("alice", "secret") == 0
    cluster.set_password("alice", "other")
    cluster.set_password("eve", "new")
    assert (code("alice", "secret"), code("alice", "other"), code("eve", "new")) == (58, 0, 0)
    cluster.set_password("eve", None)
    assert code("eve", "new") == 58


def scram(wire: Wire, client: ScramClient, mechanism: str) -> tuple[bytes, Any]:
    """Run an exchange to its end. Return the first challenge and the last response."""
    handshake(wire, mechanism)
    challenge = authenticate(wire, client.first())
    assert challenge.error_code == 0, challenge.error_message
    return challenge.auth_bytes, authenticate(wire, client.last(challenge.auth_bytes))


@pytest.mark.parametrize("mechanism", SCRAM)
def test_scram_is_mutual(mechanism: str, cluster: MockCluster) -> None:
    client = ScramClient(mechanism, "d=2Co=3Dt", PASSWORD)
    with Wire(cluster) as wire:
        _, last = scram(wire, client, mechanism)
        assert last.error_code == 0
        assert client.verifies(last.auth_bytes)
        assert metadata(wire) == 1
    assert cluster.logins[-1].principal == "User:d,o=t"


def test_scram_serves_delegation_tokens(cluster: MockCluster) -> None:
    for extension, code in ((",tokenauth=true", 0), ("", 58)):
        client = ScramClient("SCRAM-SHA-512", "token-1", "aG1hYw==", extension)
        with Wire(cluster) as wire:
            handshake(wire, "SCRAM-SHA-512")
            response = authenticate(wire, client.first())
            if response.error_code == 0:
                response = authenticate(wire, client.last(response.auth_bytes))
            assert response.error_code == code
    assert (cluster.logins[0].principal, cluster.logins[0].extensions) == (
        "User:alice",
        {"tokenauth": "true"},
    )


def test_admin_operations_change_scram_users(cluster: MockCluster) -> None:
    with Wire(cluster) as wire:
        log_in(wire)
        listed = wire.ask(DescribeUserScramCredentialsRequest(users=None))
        assert {(one.user, len(one.credential_infos)) for one in listed.results} == {
            (user, 2) for user in USERS
        }
        gone = AlterUserScramCredentialsRequest.Deletion(name="bob", mechanism=1)
        assert (
            wire.ask(AlterUserScramCredentialsRequest(deletions=[gone])).results[0].error_code == 0
        )
    with Wire(cluster) as wire:
        handshake(wire, "SCRAM-SHA-256")
        assert authenticate(wire, b"n,,n=bob,r=abc").error_code == 58
    with Wire(cluster) as wire:
        assert (
            scram(wire, ScramClient("SCRAM-SHA-512", "bob", "geheim"), "SCRAM-SHA-512")[
                1
            ].error_code
            == 0
        )


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"\xff",
        b"n,,n=alice",
        b"p=tls-unique,,n=alice,r=abc",
        b"n,a=bob,n=alice,r=abc",
        b"n,,n=a=lice,r=x",
    ],
)
def test_scram_refuses_wrong_first_messages(first: bytes, cluster: MockCluster) -> None:
    with Wire(cluster) as wire:
        handshake(wire, "SCRAM-SHA-256")
        assert authenticate(wire, first).error_code == 58


@pytest.mark.parametrize(
    "damage", [(b"c=", b"c=A"), (b"c=biws", b"c=eSws"), (b",r=fyko", b",r=fykO"), (b",p=", b",p=A")]
)
def test_scram_refuses_changed_last_messages(
    damage: tuple[bytes, bytes], cluster: MockCluster
) -> None:
    client = ScramClient("SCRAM-SHA-256", "alice", "secret")
    with Wire(cluster) as wire:
        handshake(wire, "SCRAM-SHA-256")
        last = client.last(authenticate(wire, client.first()).auth_bytes)
        assert damage[0] in last
        assert authenticate(wire, last.replace(*damage, 1)).error_code == 58
        assert wire.is_closed()


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"exp": None}, "exp is no time"),
        ({"exp": True}, "exp is no time"),
        ({"exp": 10**400}, "exp is no time"),
        ({"exp": float("inf")}, "exp is no time"),
        ({"exp": 1}, "has expired"),
        ({"nbf": 9e11}, "isn't valid yet"),
        ({"sub": ""}, "no subject"),
        ({"sub": 1}, "no subject"),
    ],
)
def test_oauthbearer_reports_the_reason_in_a_second_response(
    claims: dict[str, Any], reason: str, cluster: MockCluster
) -> None:
    with Wire(cluster) as wire:
        handshake(wire, "OAUTHBEARER")
        response = authenticate(
            wire, f"n,,\x01auth=Bearer {unsecured_jwt(**claims)}\x01\x01".encode()
        )
        assert (response.error_code, json.loads(response.auth_bytes)) == (
            0,
            {"status": "invalid_token"},
        )
        last = authenticate(wire, b"\x01")
        assert last.error_code == 58
        assert reason in (last.error_message or "")


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"n,,\x01\x01",
        b"n,,\x01auth=Basic x\x01\x01",
        b"n,,\x01auth=Bearer x\x01auth=Bearer y\x01\x01",
        b"n,,\x01a1=b\x01auth=Bearer x\x01\x01",
        b"n,,\x01auth=Bearer x\x01",
    ],
)
def test_oauthbearer_refuses_wrong_messages(token: bytes, cluster: MockCluster) -> None:
    with Wire(cluster) as wire:
        handshake(wire, "OAUTHBEARER")
        assert authenticate(wire, token).error_code == 58


# Signed by botocore's SigV4QueryAuth.
SIGNED = {
    "version": "2020_10_22",
    "host": "b-1.example.kafka.eu-west-1.amazonaws.com",
    "user-agent": "golden",
    "action": "kafka-cluster:Connect",
    "x-amz-algorithm": "AWS4-HMAC-SHA256",
    "x-amz-credential": "AKIDEXAMPLE/20260102/eu-west-1/kafka-cluster/aws4_request",
    "x-amz-date": "20260102T030405Z",
    "x-amz-expires": "900",
    "x-amz-signedheaders": "host",
    "x-amz-signature": "e762533e3199b1ddf6ec2213246911f9b7898630eed44ef6acbe3d4236ec5322",
}
SIGNED_WITH_TOKEN = {
    **SIGNED,
    "x-amz-security-token": "session/token+==",
    "x-amz-signature": "afeada566a21b8324b9f091792519573dd626789fbafb1e7050e2cc120e9f029",
}
AWS_SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
NOW = calendar.timegm((2026, 1, 2, 3, 4, 5))


@pytest.mark.parametrize(
    ("signed", "token"), [(SIGNED, None), (SIGNED_WITH_TOKEN, "session/token+==")]
)
def test_aws_signatures_are_botocores(signed: dict[str, str], token: str | None) -> None:
    keys = {"AKIDEXAMPLE": AwsKey(AWS_SECRET, token)}
    found = aws_iam.check(json.dumps(signed).encode(), keys, NOW + 1)
    assert (found.key_id, found.properties["host"], found.properties["region"]) == (
        "AKIDEXAMPLE",
        SIGNED["host"],
        "eu-west-1",
    )
    assert AWS_SECRET not in repr(keys)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"host": "b-2.example"}, "signature"),
        ({"x-amz-signature": "0" * 64}, "signature"),
        ({"x-amz-expires": "899"}, "signature"),
        ({"x-amz-expires": "1"}, "expired"),
        ({"x-amz-expires": "86400"}, "1 to 900"),
        (
            {"x-amz-credential": "AKIDOTHER/20260102/eu-west-1/kafka-cluster/aws4_request"},
            "is unknown",
        ),
        ({"x-amz-credential": "AKIDEXAMPLE/20260102/eu-west-1/s3/aws4_request"}, "credential"),
        ({"x-amz-security-token": "x"}, "is unknown"),
        ({"x-amz-date": "20260103T030405Z"}, "different days"),
        ({"x-amz-date": "yesterday"}, "YYYY"),
        ({"action": "kafka-cluster:Alter"}, "action"),
        ({"version": 1}, "strings"),
        ({"user-agent": ""}, "lacks user-agent"),
    ],
)
def test_wrong_aws_requests_are_refused(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        aws_iam.check(
            json.dumps({**SIGNED, **change}).encode(), {"AKIDEXAMPLE": AwsKey(AWS_SECRET)}, NOW + 2
        )


@pytest.mark.parametrize("mechanism", ["AWS_MSK_IAM", "GSSAPI"])
def test_wrong_and_unsupported_tokens_are_refused(mechanism: str, cluster: MockCluster) -> None:
    with Wire(cluster) as wire:
        assert handshake(wire, mechanism).error_code == 0
        assert authenticate(wire, b"[" * 100_000).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


# --- faults, and secrets ---


@pytest.mark.parametrize(
    ("how", "challenge"),
    [
        ("few_iterations", b"i=1"),
        ("many_iterations", b"i=2147483647"),
        ("other_nonce", b"r="),
        ("mandatory_extension", b"m=unheard-of,"),
        ("malformed", b"\xff\xfe"),
        ("oversized", b"A" * (4 << 20)),
        ("endless", b"r=more"),
    ],
)
def test_challenges_can_be_broken(how: str, challenge: bytes, cluster: MockCluster) -> None:
    cluster.break_authentication(how)
    client = ScramClient("SCRAM-SHA-256", "alice", "secret")
    with Wire(cluster) as wire:
        handshake(wire, "SCRAM-SHA-256")
        found = authenticate(wire, client.first()).auth_bytes
        assert challenge in found
        assert found.startswith(b"r=fyko") == (how in ("few_iterations", "many_iterations"))
        if how == "endless":
            assert all(authenticate(wire, b"x").auth_bytes == found for _ in range(50))


def test_refusal_close_and_a_wrong_signature(cluster: MockCluster) -> None:
    for how in ("refuse", "close", "wrong_signature"):
        cluster.break_authentication(how)
    with Wire(cluster) as wire:
        assert log_in(wire).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    with Wire(cluster) as wire:
        handshake(wire, "PLAIN")
        wire.send(SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret"), 2)
        assert wire.is_closed()
    client = ScramClient("SCRAM-SHA-512", "alice", "secret")
    with Wire(cluster) as wire:
        last = scram(wire, client, "SCRAM-SHA-512")[1]
        assert last.error_code == 0
        assert not client.verifies(last.auth_bytes)
    cluster.break_authentication("refuse", count=5)
    cluster.faults.clear()
    with Wire(cluster) as wire:
        assert log_in(wire).error_code == 0


def test_secrets_are_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    marked = "MARKED-SECRET"
    security = secured(
        users={"alice": marked},
        delegation_tokens={"t": DelegationToken("alice", marked)},
        aws_keys={"AKID": AwsKey(marked, marked)},
    )
    caplog.set_level(0)
    with MockCluster(1, security=security) as cluster:
        for password in (marked, f"not-{marked}"):
            with Wire(cluster) as wire:
                log_in(wire, password=password)
        with Wire(cluster) as wire:
            handshake(wire, "OAUTHBEARER")
            authenticate(wire, f"n,,\x01auth=Bearer {marked}\x01\x01".encode())
        seen = repr((security, cluster.logins, cluster.requests, vars(cluster)))
    assert marked not in seen
    assert marked not in caplog.text
    assert "fails an authentication" in caplog.text


def test_pushed_errors_are_in_sasl_responses(cluster: MockCluster) -> None:
    cluster.push_request_errors(ApiKey.SASL_HANDSHAKE, [ErrorCode.ILLEGAL_SASL_STATE])
    cluster.push_request_errors(ApiKey.SASL_AUTHENTICATE, [ErrorCode.SASL_AUTHENTICATION_FAILED])
    with Wire(cluster) as wire:
        assert handshake(wire, "PLAIN").error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert log_in(wire).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert authenticate(wire, b"\0alice\0secret").error_code == 0
        assert metadata(wire) == 1


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_damaged_tokens_are_answered_or_end_the_authentication(
    mechanism: str, cluster: MockCluster
) -> None:
    scram = ScramClient("SCRAM-SHA-256", "alice", "secret").first()
    good = {
        "PLAIN": b"\0alice\0secret",
        "OAUTHBEARER": f"n,,\x01auth=Bearer {unsecured_jwt()}\x01a=b\x01\x01".encode(),
        "AWS_MSK_IAM": json.dumps(SIGNED).encode(),
    }.get(mechanism, scram)
    dice = random.Random(mechanism)
    ends = set()
    for _ in range(300):
        login = Login(cluster.sasl, 1)
        assert login.handshake(mechanism, 1) == 0
        challenge = b""
        for _ in range(3):
            token = bytearray(dice.choice((good, challenge or good, b"c=biws,r=x,p=eA==")))
            for _ in range(dice.randint(0, 3)):
                token[dice.randrange(len(token))] = dice.choice(b'\0\x01\xff,=.{["eyJ')
            answer = login.step(
                bytes(token[: dice.choice((len(token), dice.randint(0, len(token))))])
            )
            if answer is None or login.has_failed:
                break
            challenge = answer.token
        ends.add((login.has_failed, login.principal))
    assert ends <= {(True, "User:ANONYMOUS"), (False, "User:ANONYMOUS"), (False, "User:alice")}
    assert (True, "User:ANONYMOUS") in ends
