"""OpenID Connect on a real Apache Kafka, which checks tokens with the keys of a local provider."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
import jwt
import pytest

import kafka_native
from tests.broker.certificates import Authority
from tests.broker.cluster import TEST_OPTIONS, Cluster, Listener, quiet
from tests.broker.identity_provider import (
    AUDIENCE,
    CLIENT_ID,
    ELSEWHERE,
    JWT_BEARER,
    SECRET,
    IdentityProvider,
)
from tests.broker.sasl import assert_all_comes_back_until
from tests.broker.support import TopicMaker, read, running
from tests.waiting import wait_for

pytestmark = [pytest.mark.broker, pytest.mark.slow]

SECURITY = "org.apache.kafka.common.security.oauthbearer"
ROBOT = "robot"
SESSION_MS = 6000
TOKEN_S = 4.0
CLIENT_CREDENTIALS = "client_credentials"
GRANTS = {"client_credentials": CLIENT_CREDENTIALS, "jwt_bearer": JWT_BEARER}


class OidcBroker(NamedTuple):
    """A cluster, its certificate authority, and the provider that it trusts."""

    cluster: Cluster
    authority: Authority
    provider: IdentityProvider

    def conf(self, listener: str = "OIDC", **more: Any) -> dict[str, Any]:
        """Return the properties of a client that trusts both, without a way to get tokens."""
        return {
            "bootstrap.servers": self.cluster.listeners[listener],
            "security.protocol": "sasl_ssl",
            "ssl.ca.location": self.authority.ca,
            "sasl.mechanism": "OAUTHBEARER",
            **more,
        }

    def oidc(self, grant: str, listener: str = "OIDC", **more: Any) -> dict[str, Any]:
        """Return the properties of a client of the provider, which librdkafka has too."""
        prefix = "sasl.oauthbearer"
        by_grant = {
            CLIENT_CREDENTIALS: {
                f"{prefix}.client.id": CLIENT_ID,
                f"{prefix}.client.secret": SECRET,
            },
            JWT_BEARER: {
                f"{prefix}.grant.type": JWT_BEARER,
                f"{prefix}.assertion.private.key.pem": self.provider.assertion_key(),
                f"{prefix}.assertion.claim.aud": self.provider.issuer,
                f"{prefix}.assertion.claim.iss": ROBOT,
                f"{prefix}.assertion.claim.sub": ROBOT,
            },
        }
        endpoint = {
            f"{prefix}.method": "oidc",
            f"{prefix}.token.endpoint.url": self.provider.url,
            "https.ca.location": self.provider.ca,
        }
        return self.conf(listener, **endpoint, **by_grant[grant], **more)


def listener(authority: Authority, provider: IdentityProvider, **more: str) -> Listener:
    """Return a listener that checks signature, issuer and audience."""
    # Without its own subject claim the broker's login module ignores these options, and the broker
    # doesn't start.
    trusted = f'ssl.truststore.type="PEM" ssl.truststore.location="{provider.ca}"'
    values = {
        "sasl.jaas.config": f"{SECURITY}.OAuthBearerLoginModule required "
        'unsecuredLoginStringClaim_sub="b" '
        f"{trusted};",
        "sasl.server.callback.handler.class": f"{SECURITY}.OAuthBearerValidatorCallbackHandler",
        "sasl.oauthbearer.jwks.endpoint.url": provider.keys_url,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": provider.issuer,
        "sasl.oauthbearer.clock.skew.seconds": "0",
        **more,
    }
    return Listener(
        "SASL_SSL",
        {
            **authority.listener(),
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            **{f"oauthbearer.{name}": value for name, value in values.items()},
        },
    )


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OidcBroker]:
    """Yield one broker. Sessions are long on one listener, and short on the other."""
    authority = Authority(tmp_path_factory.mktemp("brokers"))
    with IdentityProvider(tmp_path_factory.mktemp("provider")) as provider:
        listeners = {
            "OIDC": listener(authority, provider),
            "SESSIONS": listener(
                authority, provider, **{"connections.max.reauth.ms": str(SESSION_MS)}
            ),
        }
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={provider.keys_url}"
        users = {
            "super.users": ";".join(f"User:{name}" for name in ("ANONYMOUS", CLIENT_ID, ROBOT))
        }
        options = [*TEST_OPTIONS, allowed]
        with running(1, java_options=options, changes=users, listeners=listeners) as cluster:
            yield OidcBroker(cluster, authority, provider)


@pytest.mark.parametrize("grant", GRANTS.values(), ids=GRANTS.keys())
@pytest.mark.parametrize("module", [kafka_native, confluent_kafka], ids=["ours", "theirs"])
def test_messages_are_written_and_read_with_the_providers_tokens(
    module: Any, grant: str, secured: OidcBroker, new_topic: TopicMaker
) -> None:
    topic, before = new_topic(secured.cluster), secured.provider.issued(grant)
    conf = secured.oidc(grant, **{"sasl.oauthbearer.scope": "messages"})
    conf = conf if module is kafka_native else quiet(conf)
    reports: list[Any] = []
    producer = module.Producer(conf)
    producer.produce(topic, b"hello", on_delivery=lambda error, message: reports.append(error))
    assert producer.flush(60) == 0
    assert reports == [None]
    consumer = module.Consumer({**conf, "group.id": "oidc", "auto.offset.reset": "earliest"})
    try:
        assert [record.value for record in read(consumer, topic, [0], 1)] == [b"hello"]
    finally:
        consumer.close()
    assert secured.provider.issued(grant) == before + 2, "a token for each client"


@pytest.mark.parametrize("grant", GRANTS.values(), ids=GRANTS.keys())
def test_tokens_that_expire_soon_are_renewed_while_messages_flow(
    grant: str, secured: OidcBroker, new_topic: TopicMaker, caplog: pytest.LogCaptureFixture
) -> None:
    """The broker ends a connection whose token expires. It gets another token in time, and no
    message is lost or duplicated.
    """
    caplog.set_level(logging.DEBUG, logger="kafka_native.renewed")
    topic, before = new_topic(secured.cluster), secured.provider.issued(grant)
    conf = secured.oidc(grant, "SESSIONS", **{"client.id": "renewed", "debug": "security"})
    once = {
        **conf,
        "enable.idempotence": True,
    }  # a machine that is too slow to renew in time duplicates nothing
    group = {"group.id": f"renewed-{topic}", "auto.offset.reset": "earliest"}

    def is_renewed(seen: int) -> bool:
        return (
            sum("has renewed its session" in message for message in caplog.messages) >= 6
            and seen > 0
        )

    secured.provider.lifetime_s = TOKEN_S
    try:
        with (
            kafka_native.Producer(once) as producer,
            kafka_native.Consumer({**conf, **group}) as consumer,
        ):
            consumer.subscribe([topic])
            assert_all_comes_back_until(is_renewed, "renewed sessions", producer, consumer, topic)
    finally:
        secured.provider.lifetime_s = 300.0
    assert secured.provider.issued(grant) >= before + 4
    assert SECRET not in caplog.text


def refusal(module: Any, conf: dict[str, Any]) -> str:
    """Return the authentication error that error_cb gets."""
    errors: list[Any] = []
    producer = module.Producer({**conf, "error_cb": errors.append, "log_level": 0})
    producer.produce("nobody-reads-this", b"x")

    def authentication_errors() -> list[Any]:
        producer.poll(0.1)
        return [error for error in errors if error.code() == module.KafkaError._AUTHENTICATION]

    try:
        return str(wait_for(authentication_errors, "an authentication error")[0].str())
    finally:
        if module is kafka_native:
            producer.close(0)


WRONG = {
    "secret": (
        {"sasl.oauthbearer.client.secret": "an0ther-secret"},
        "answers 401: invalid_client, no client of this",
    ),
    "audience": ({"sasl.oauthbearer.scope": ELSEWHERE}, "invalid_token"),
    "authority": ({"https.ca.location": None}, "certificate verify failed"),
    "path": ({"sasl.oauthbearer.token.endpoint.url": None}, "refused"),
}


@pytest.mark.parametrize("what", WRONG)
def test_each_problem_is_reported(what: str, secured: OidcBroker, tmp_path: Path) -> None:
    """It also prints the words of confluent_kafka."""
    changes, words = WRONG[what]
    nowhere = {
        "https.ca.location": Authority(tmp_path).ca,
        "sasl.oauthbearer.token.endpoint.url": "https://127.0.0.1:1/",
    }
    conf = secured.oidc(CLIENT_CREDENTIALS) | {
        name: value or nowhere[name] for name, value in changes.items()
    }
    ours = refusal(kafka_native, conf)
    print(f"{what}: ours: {ours}\n{what}: theirs: {refusal(confluent_kafka, conf)}")
    assert words in ours
    assert SECRET not in ours
    assert "an0ther-secret" not in ours


FORGED = {
    "issuer": {"iss": "https://elsewhere.invalid"},
    "audience": {"aud": ELSEWHERE},
    "expired": {"exp": time.time() - 60},
    "nobody": {"sub": None},
}


@pytest.mark.parametrize("what", [*FORGED, "signature"])
def test_tokens_that_are_not_for_this_broker_are_refused_by_it(
    what: str, secured: OidcBroker
) -> None:
    """The application supplies the token, so only the broker checks it."""
    token = secured.provider.token(**FORGED.get(what, {}))
    if what == "signature":
        token = jwt.encode(
            jwt.decode(token, options={"verify_signature": False}), "k" * 32, "HS256"
        )
    error = refusal(kafka_native, secured.conf(oauth_cb=lambda _: (token, time.time() + 300)))
    assert "invalid_token" in error
    assert token not in error
