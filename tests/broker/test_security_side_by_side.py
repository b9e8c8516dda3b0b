"""TLS and SASL on a real Apache Kafka with confluent_kafka and with ours: the same clients get in,
the others get the same errors.

At the end it prints the table of all cases: ``pytest -s
tests/broker/test_security_side_by_side.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from tests.broker.certificates import Authority
from tests.broker.cluster import Cluster, Listener
from tests.broker.sasl import MECHANISMS, add_user, every_mechanism
from tests.broker.support import TopicMaker, running
from tests.compat.outcomes import DELIVERS, Outcomes, bearer, login, printed, side_by_side

pytestmark = [pytest.mark.broker, pytest.mark.slow]

SASL = every_mechanism("alice", "secret")
PROTOCOLS = {
    "PLAINTEXT": "plaintext",
    "SASL": "sasl_plaintext",
    "PLAINONLY": "sasl_plaintext",
    "SASLTLS": "sasl_ssl",
}


class Listeners(NamedTuple):
    """A broker with a listener for each kind of security, and its certificate authority."""

    cluster: Cluster
    authority: Authority
    strangers: Authority
    """An authority that the broker doesn't know."""

    def conf(self, listener: str, **client: Any) -> dict[str, Any]:
        """Return the properties that the listener requires, changed by ``client``."""
        servers = (
            self.cluster.bootstrap if listener == "PLAINTEXT" else self.cluster.listeners[listener]
        )
        protocol = PROTOCOLS.get(listener, "ssl")
        trusted = {} if protocol.endswith("plaintext") else {"ssl.ca.location": self.authority.ca}
        return {"bootstrap.servers": servers, "security.protocol": protocol, **trusted, **client}


@pytest.fixture(scope="module")
def listeners(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listeners]:
    authority, strangers = (
        Authority(tmp_path_factory.mktemp(name)) for name in ("known", "strangers")
    )
    named = {
        f"TLS1{minor}": Listener(
            "SSL", authority.listener() | {"ssl.enabled.protocols": f"TLSv1.{minor}"}
        )
        for minor in (2, 3)
    }
    named |= {
        "TLS": Listener("SSL", authority.listener()),
        "MUTUAL": Listener("SSL", authority.listener("required")),
        "ELSEWHERE": Listener("SSL", authority.listener(hosts=("kafka.example",))),
        "SASL": Listener("SASL_PLAINTEXT", SASL),
        "PLAINONLY": Listener("SASL_PLAINTEXT", SASL | {"sasl.enabled.mechanisms": "PLAIN"}),
        "SASLTLS": Listener("SASL_SSL", authority.listener() | SASL),
    }
    may = "User:ANONYMOUS;User:alice;User:CN=alice,O=trustme"
    changes = {"super.users": may, "allow.everyone.if.no.acl.found": "true"}
    with running(1, changes=changes, listeners=named) as cluster:
        add_user(cluster, "alice", "secret")
        yield Listeners(cluster, authority, strangers)


table = pytest.fixture(scope="module")(printed)


class Case(NamedTuple):
    """A listener, a client, and the result: ``DELIVERS``, or the name of the error that error_cb
    gets.

    ``client``: its differences from the listener's requirements. ``theirs``: the error of
    confluent_kafka, if it is less specific.
    """

    name: str
    listener: str
    client: dict[str, Any]
    comes: str
    theirs: str | None = None


PASSWORDS = MECHANISMS[:3]
UNCHECKED = {"ssl.endpoint.identification.algorithm": "none"}
UNVERIFIED = {"enable.ssl.certificate.verification": False}
SASL_CLIENT = {"security.protocol": "sasl_plaintext"}
CASES = [
    Case("plaintext", "PLAINTEXT", {}, DELIVERS),
    Case("TLS", "TLS", {}, DELIVERS),
    Case("TLS 1.2 alone", "TLS12", {}, DELIVERS),
    Case("TLS 1.3 alone", "TLS13", {}, DELIVERS),
    Case("TLS, unknown CA", "TLS", {"trusts": "strangers"}, "_SSL"),
    Case("TLS, unknown CA, unverified", "TLS", {"trusts": "strangers", **UNVERIFIED}, DELIVERS),
    Case("TLS, wrong host", "ELSEWHERE", {}, "_SSL"),
    Case("TLS, wrong host, names unchecked", "ELSEWHERE", UNCHECKED, DELIVERS),
    Case("mutual TLS", "MUTUAL", {"certificate": "authority"}, DELIVERS),
    Case("mutual TLS, unknown CA", "MUTUAL", {"certificate": "strangers"}, "_SSL", "_TRANSPORT"),
    Case("mutual TLS without a certificate", "MUTUAL", {}, "_SSL", "_TRANSPORT"),
    Case(
        "TLS client, plaintext listener",
        "PLAINTEXT",
        {"security.protocol": "ssl"},
        "_SSL",
        "_TRANSPORT",
    ),
    Case(
        "plaintext client, TLS listener",
        "TLS",
        {"security.protocol": "plaintext"},
        "_ALL_BROKERS_DOWN",
    ),
    *(Case(f"{how}, SASL_PLAINTEXT", "SASL", login(how), DELIVERS) for how in PASSWORDS),
    *(Case(f"{how}, SASL_SSL", "SASLTLS", login(how), DELIVERS) for how in PASSWORDS),
    *(
        Case(f"{how}, wrong password", "SASL", login(how, password="no"), "_AUTHENTICATION")
        for how in PASSWORDS
    ),
    Case("SCRAM, no such user", "SASL", login("SCRAM-SHA-256", user="eve"), "_AUTHENTICATION"),
    Case("mechanism isn't enabled", "PLAINONLY", login("SCRAM-SHA-256"), "_AUTHENTICATION"),
    Case("OAUTHBEARER, SASL_PLAINTEXT", "SASL", bearer(3600), DELIVERS),
    Case("OAUTHBEARER, SASL_SSL", "SASLTLS", bearer(3600), DELIVERS),
    Case("OAUTHBEARER, expired token", "SASL", bearer(-10), "_AUTHENTICATION"),
    Case("SASL_SSL, unknown CA", "SASLTLS", {"trusts": "strangers", **login()}, "_SSL"),
    Case(
        "SASL client, plaintext listener",
        "PLAINTEXT",
        {**SASL_CLIENT, **login()},
        "_AUTHENTICATION",
    ),
    Case(
        "plaintext client, SASL listener",
        "SASL",
        {"security.protocol": "plaintext"},
        "_ALL_BROKERS_DOWN",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_both_connect_or_get_the_same_error(
    case: Case, listeners: Listeners, table: list[Outcomes], new_topic: TopicMaker
) -> None:
    client = dict(case.client)
    if trusts := client.pop("trusts", None):
        client["ssl.ca.location"] = getattr(listeners, trusts).ca
    if whose := client.pop("certificate", None):
        client |= getattr(listeners, whose).client_conf("alice")
    conf = listeners.conf(case.listener, **client)
    table.append(
        side_by_side(case.name, conf, new_topic(listeners.cluster), case.comes, case.theirs)
    )
    assert table[-1] == (case.name, case.theirs or case.comes, case.comes)
