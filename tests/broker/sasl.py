"""SASL on listeners of a real Apache Kafka: their properties, and users with SCRAM credentials."""

from __future__ import annotations

from collections.abc import Iterable

from kafka_native.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from tests.broker.cluster import Cluster

MODULES = "org.apache.kafka.common.security"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
BOTH_SCRAM = (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)


def every_mechanism(user: str, password: str) -> dict[str, str]:
    """A listener's properties for all of them; for PLAIN with this user."""
    return {
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "plain.sasl.jaas.config": f'{MODULES}.plain.PlainLoginModule required user_{user}="{password}";',
        "scram-sha-256.sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required;",
        "scram-sha-512.sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required;",
        "oauthbearer.sasl.jaas.config": f"{MODULES}.oauthbearer.OAuthBearerLoginModule required "
        'unsecuredLoginStringClaim_sub="broker";',
    }


def add_user(cluster: Cluster, user: str, password: str, mechanisms: Iterable[ScramMechanism] = BOTH_SCRAM) -> None:
    """Gives a user SCRAM credentials, one at a time: Kafka takes no more of a user in a request."""
    with AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin:
        for mechanism in mechanisms:
            upsertion = UserScramCredentialUpsertion(user, ScramCredentialInfo(mechanism, 4096), password.encode())
            admin.alter_user_scram_credentials([upsertion])[user].result(30)
