"""SASL on listeners of a real Apache Kafka: their properties, and users with SCRAM credentials."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import kafka_native
from kafka_native.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from tests.broker.cluster import Cluster
from tests.waiting import wait_for

MODULES = "org.apache.kafka.common.security"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
BOTH_SCRAM = (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)


def every_mechanism(user: str, password: str) -> dict[str, str]:
    """Return a listener's properties for all mechanisms, with this user for PLAIN."""
    return {
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "plain.sasl.jaas.config": f"{MODULES}.plain.PlainLoginModule required "
        f'user_{user}="{password}";',
        "scram-sha-256.sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required;",
        "scram-sha-512.sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required;",
        "oauthbearer.sasl.jaas.config": f"{MODULES}.oauthbearer.OAuthBearerLoginModule required "
        'unsecuredLoginStringClaim_sub="broker";',
    }


def assert_all_comes_back_until(
    is_enough: Callable[[int], bool],
    what: str,
    producer: kafka_native.Producer,
    consumer: Any,
    topic: str,
) -> None:
    """Write and read numbers until ``is_enough`` is true for the number of read ones.

    Each number is acked once, and read once and in order.
    """
    acked: list[bytes] = []
    seen: list[bytes] = []
    numbers: list[bytes] = []

    def on_delivery(error: kafka_native.KafkaError | None, message: Any) -> None:
        assert error is None
        acked.append(message.value())

    def step() -> bool:
        for _ in range(20):
            numbers.append(b"%d" % len(numbers))
            producer.produce(topic, numbers[-1], on_delivery=on_delivery)
        producer.poll(0)
        seen.extend(message.value() for message in consumer.consume(1000, 0.02))
        return is_enough(len(seen))

    wait_for(step, what)
    assert producer.flush(60) == 0
    wait_for(
        lambda: (
            seen.extend(m.value() for m in consumer.consume(1000, 0.1)) or len(seen) >= len(numbers)
        ),
        "the rest",
    )
    assert acked == seen == numbers


def add_user(
    cluster: Cluster, user: str, password: str, mechanisms: Iterable[ScramMechanism] = BOTH_SCRAM
) -> None:
    """Give a user SCRAM credentials one by one: Kafka accepts only one for a user in a request."""
    with AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin:
        for mechanism in mechanisms:
            upsertion = UserScramCredentialUpsertion(
                user, ScramCredentialInfo(mechanism, 4096), password.encode()
            )
            admin.alter_user_scram_credentials([upsertion])[user].result(30)
