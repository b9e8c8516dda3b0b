"""AdminClient: delegation tokens, and authentication with them, on the mock cluster."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator
from typing import Any

import pytest

from kafka_native import KafkaError, KafkaException
from kafka_native.admin import AdminClient, DelegationToken, KafkaPrincipal, TokenInformation
from kafka_native.mock import ListenerSecurity, MockCluster
from kafka_native.protocol import ApiKey
from kafka_native.protocol.delegation_tokens import (
    CreateDelegationTokenResponse,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from tests.waiting import WAIT_S

from .admin_support import cluster_and_admin, expect_error, invalid_calls, result_of

ALICE, BOB, CAROL = (KafkaPrincipal("User", name) for name in ("alice", "bob", "carol"))
DAY_MS = 24 * 3600 * 1000
CANARY = b"the-canary-hmac"


@pytest.fixture(scope="module")
def cluster() -> Iterator[MockCluster]:
    users = {each.name: f"{each.name}-secret" for each in (ALICE, BOB, CAROL)}
    security = ListenerSecurity("sasl_plaintext", mechanisms=["SCRAM-SHA-256"], users=users)
    with MockCluster(brokers=2, security=security) as running:
        yield running


def conf(cluster: MockCluster, user: KafkaPrincipal, **more: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": cluster.bootstrap_servers,
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": user.name,
        "sasl.password": f"{user.name}-secret",
        "log_level": 0,
        **more,
    }


def login(cluster: MockCluster, token: DelegationToken) -> dict[str, Any]:
    """Return the configuration of a client with a token."""
    secret = {"sasl.username": token.token_info.token_id, "sasl.password": token.hmac_as_base64}
    return conf(cluster, ALICE, **secret, **{"sasl.scram.tokenauth": True})


def test_a_token_is_created_described_used_renewed_and_expired(cluster: MockCluster) -> None:
    with AdminClient(conf(cluster, ALICE)) as alice, AdminClient(conf(cluster, BOB)) as bob:
        token = result_of(alice.create_delegation_token(renewers=[BOB], max_lifetime_ms=2 * DAY_MS))
        info = token.token_info
        assert (info.owner, info.token_requester, info.renewers) == (ALICE, ALICE, [BOB])
        assert abs(info.issue_timestamp - time.time() * 1000) < 1000 * WAIT_S
        assert info.expiry_timestamp == info.issue_timestamp + DAY_MS
        assert info.max_timestamp == info.issue_timestamp + 2 * DAY_MS
        assert result_of(alice.describe_delegation_token()) == [token]
        assert result_of(bob.describe_delegation_token([ALICE])) == [token], "Bob may renew it"
        assert result_of(alice.describe_delegation_token([CAROL])) == []

        with AdminClient(login(cluster, token)) as holder:
            assert holder.list_topics(timeout=WAIT_S).brokers
            assert cluster.logins[-1].principal == "User:alice"
            refused = holder.create_delegation_token()
            expect_error(refused, KafkaError.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)

        assert result_of(bob.renew_delegation_token(token.hmac)) > info.expiry_timestamp - 1
        soon = result_of(bob.renew_delegation_token(token.hmac, renew_time_period_ms=5000))
        assert soon < info.expiry_timestamp
        ended = result_of(alice.expire_delegation_token(token.hmac))
        assert ended <= time.time() * 1000
        assert result_of(alice.describe_delegation_token()) == []
        expect_error(bob.renew_delegation_token(token.hmac), KafkaError.DELEGATION_TOKEN_NOT_FOUND)
        with AdminClient(login(cluster, token)) as expired, pytest.raises(KafkaException):
            expired.list_topics(timeout=0.5)


def test_a_token_for_another_user_and_refused_calls(cluster: MockCluster) -> None:
    with AdminClient(conf(cluster, ALICE)) as alice, AdminClient(conf(cluster, CAROL)) as carol:
        token = result_of(alice.create_delegation_token(owner=BOB))
        assert (token.token_info.owner, token.token_info.token_requester) == (BOB, ALICE)
        expect_error(
            carol.expire_delegation_token(token.hmac), KafkaError.DELEGATION_TOKEN_OWNER_MISMATCH
        )
        expect_error(
            carol.renew_delegation_token(b"unknown"), KafkaError.DELEGATION_TOKEN_NOT_FOUND
        )
        strange = alice.create_delegation_token(renewers=[KafkaPrincipal("Group", "all")])
        expect_error(strange, KafkaError.INVALID_PRINCIPAL_TYPE)
        expiry = alice.expire_delegation_token(token.hmac, expiry_time_period_ms=60_000)
        assert result_of(expiry) > time.time() * 1000
        result_of(alice.expire_delegation_token(token.hmac))


def test_without_sasl_there_are_no_tokens() -> None:
    with cluster_and_admin(brokers=1) as (_, admin):
        for call in (admin.create_delegation_token(), admin.describe_delegation_token()):
            expect_error(call, KafkaError.DELEGATION_TOKEN_AUTH_DISABLED)


def test_an_older_broker_has_no_requester_and_no_tokens_for_others() -> None:
    security = ListenerSecurity(
        "sasl_plaintext", mechanisms=["SCRAM-SHA-256"], users={"alice": "alice-secret"}
    )
    old = {
        int(key): 2 for key in (ApiKey.CREATE_DELEGATION_TOKEN, ApiKey.DESCRIBE_DELEGATION_TOKEN)
    }
    cluster = MockCluster(brokers=1, security=security, max_versions=old)
    with cluster, AdminClient(conf(cluster, ALICE)) as alice:
        token = result_of(alice.create_delegation_token())
        assert token.token_info.token_requester == ALICE
        assert result_of(alice.describe_delegation_token()) == [token]
        expect_error(alice.create_delegation_token(owner=BOB), KafkaError._UNSUPPORTED_FEATURE)


def test_no_repr_and_no_error_shows_an_hmac(cluster: MockCluster) -> None:
    information = TokenInformation("id", ALICE, ALICE, [BOB], 1, 2, 3)
    token = DelegationToken(information, CANARY)
    messages = [
        token,
        CreateDelegationTokenResponse(token_id="id", hmac=CANARY),
        RenewDelegationTokenRequest(hmac=CANARY, renew_period_ms=5),
        ExpireDelegationTokenRequest(hmac=CANARY, expiry_time_period_ms=5),
        DescribeDelegationTokenResponse(
            tokens=[DescribeDelegationTokenResponse.Token(token_id="id", hmac=CANARY)]
        ),
    ]
    for each in messages:
        for text in (repr(each), str(each), f"{[each]}"):
            assert CANARY.decode() not in text
            assert token.hmac_as_base64 not in text
    assert (str(ALICE), pickle.loads(pickle.dumps(token))) == ("User:alice", token)
    with AdminClient(conf(cluster, ALICE)) as alice:
        with pytest.raises(KafkaException) as refused:
            result_of(alice.renew_delegation_token(CANARY))
        assert CANARY.decode() not in str(refused.value)
        with pytest.raises(TypeError) as wrong:
            alice.renew_delegation_token(CANARY.decode())  # type: ignore[arg-type]
        assert CANARY.decode() not in str(wrong.value)


@invalid_calls(
    {
        "create_delegation_token": [
            ({"renewers": ["User:bob"]}, TypeError, "expected a list of KafkaPrincipal"),
            ({"owner": "User:bob"}, TypeError, "expected a list of KafkaPrincipal"),
            ({"owner": KafkaPrincipal("User", "")}, ValueError, "cannot be empty"),
            ({"max_lifetime_ms": -2}, ValueError, "'max_lifetime_ms' must be -1 to"),
        ],
        "renew_delegation_token": [({"hmac": b""}, ValueError, "'hmac' cannot be empty")],
        "expire_delegation_token": [
            ({"hmac": b"x", "expiry_time_period_ms": True}, TypeError, "must be an int, not bool")
        ],
        "describe_delegation_token": [
            ({"owners": "User:bob"}, TypeError, "expected a list of KafkaPrincipal")
        ],
    }
)
def test_arguments_are_checked_before_any_request(
    cluster: MockCluster, call: str, argument: dict[str, Any], error: type[Exception], text: str
) -> None:
    with AdminClient(conf(cluster, ALICE)) as admin, pytest.raises(error, match=text):
        getattr(admin, call)(**argument)
