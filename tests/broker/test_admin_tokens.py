"""Delegation tokens on a real Apache Kafka. Its own tool sees them, and their end."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_native import KafkaError, KafkaException
from kafka_native.admin import (
    AdminClient,
    KafkaPrincipal,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from tests.broker.cluster import Cluster, Listener
from tests.broker.support import admin_of, running
from tests.waiting import WAIT_S, wait_for

pytestmark = [pytest.mark.broker, pytest.mark.slow]

ALICE, BOB = KafkaPrincipal("User", "alice"), KafkaPrincipal("User", "bob")
MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
TOOL = "org.apache.kafka.tools.DelegationTokenCommand"
DAY_MS = 24 * 3600 * 1000
LISTENER = Listener(
    "SASL_PLAINTEXT",
    {
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "scram-sha-256.sasl.jaas.config": f"{MODULE} required;",
    },
)


@pytest.fixture(scope="module")
def tokens() -> Iterator[Cluster]:
    """Yield one broker with delegation tokens and two users."""
    changes = {
        "super.users": "User:ANONYMOUS;User:alice",
        "delegation.token.secret.key": "for tests",
    }
    with running(3, changes=changes, listeners={"SASL": LISTENER}) as cluster:
        with admin_of(cluster) as admin:
            info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
            names = [ALICE.name, BOB.name]
            upsertions = [
                UserScramCredentialUpsertion(name, info, f"{name}-secret".encode())
                for name in names
            ]
            for future in admin.alter_user_scram_credentials(list(upsertions)).values():
                future.result(WAIT_S)
        yield cluster


def conf(cluster: Cluster, username: str, password: str, **more: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": cluster.listeners["SASL"],
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": username,
        "sasl.password": password,
        "log_level": 0,
        **more,
    }


def test_tokens_are_created_used_renewed_and_expired(
    tokens: Cluster, tool: Callable[..., bytes], tmp_path: Path
) -> None:
    login = f'{MODULE} required username="alice" password="alice-secret";'
    settings = tmp_path / "client.properties"
    settings.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\nsasl.jaas.config={login}\n"
    )
    where = ["--bootstrap-server", tokens.listeners["SASL"], "--command-config", str(settings)]
    described = ["--describe", "--owner-principal", "User:bob"]
    with (
        AdminClient(conf(tokens, "alice", "alice-secret")) as alice,
        AdminClient(conf(tokens, "bob", "bob-secret")) as bob,
    ):
        token = alice.create_delegation_token(
            owner=BOB, renewers=[ALICE], max_lifetime_ms=3 * DAY_MS
        ).result(WAIT_S)
        info = token.token_info
        assert (info.owner, info.token_requester, info.renewers) == (BOB, ALICE, [ALICE])
        assert info.max_timestamp == info.issue_timestamp + 3 * DAY_MS
        seen = wait_for(
            lambda: alice.describe_delegation_token([BOB]).result(WAIT_S),
            "the token in the metadata",
        )
        assert seen == [token]
        table = tool(TOOL, *where, *described).decode()
        row = next(line.split() for line in table.splitlines() if info.token_id in line)
        assert base64.b64decode(row[1]) == token.hmac
        assert "User:bob" in row

        holds = {"sasl.scram.tokenauth": True}
        with AdminClient(conf(tokens, info.token_id, token.hmac_as_base64, **holds)) as holder:
            assert holder.list_topics(timeout=WAIT_S).brokers
            with pytest.raises(KafkaException) as refused:
                holder.create_delegation_token().result(WAIT_S)
            assert refused.value.args[0].code() == KafkaError.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED

        renewed = bob.renew_delegation_token(token.hmac, renew_time_period_ms=2 * DAY_MS).result(
            WAIT_S
        )
        assert renewed > info.expiry_timestamp
        alice.expire_delegation_token(token.hmac).result(WAIT_S)
        wait_for(
            lambda: info.token_id not in tool(TOOL, *where, *described).decode(), "the token's end"
        )
        with pytest.raises(KafkaException) as gone:
            bob.renew_delegation_token(token.hmac).result(WAIT_S)
        assert gone.value.args[0].code() == KafkaError.DELEGATION_TOKEN_NOT_FOUND
        with (
            AdminClient(conf(tokens, info.token_id, token.hmac_as_base64, **holds)) as refused,
            pytest.raises(KafkaException),
        ):
            refused.list_topics(timeout=2)
