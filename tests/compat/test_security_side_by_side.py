"""TLS and SASL with confluent_kafka and with kafka_native on the same listeners.

Both clients deliver, or get the same error. ``pytest -s tests/compat/test_security_side_by_side.py``
prints the table of all cases.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import confluent_kafka
import pytest

import kafka_native
from kafka_native.mock import Certificates, ListenerSecurity, MockCluster
from tests.compat.outcomes import DELIVERS, Outcomes, bearer, deliver, login, printed

USERS = {"alice": "secret"}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
ALWAYS = 1000


class Case(NamedTuple):
    """A listener, a client, and the outcome: ``DELIVERS``, or the name of an error for error_cb.

    ``theirs`` is confluent_kafka's error where it is less specific.
    """

    name: str
    listener: dict[str, Any]
    client: dict[str, Any]
    outcome: str
    before: Callable[[MockCluster], object] = lambda cluster: None
    theirs: str | None = None


def ssl(**own: Any) -> dict[str, Any]:
    return {"protocol": "ssl", **own}


def sasl(protocol: str = "sasl_plaintext", **own: Any) -> dict[str, Any]:
    return {"protocol": protocol, "mechanisms": MECHANISMS, "users": USERS, **own}


def presented(flaw: Any) -> Callable[[MockCluster], object]:
    return lambda cluster: cluster.present_certificate(flaw)


def broken_authentication(how: Any) -> Callable[[MockCluster], object]:
    return lambda cluster: cluster.break_authentication(how, count=ALWAYS)


UNCHECKED_NAME = {"ssl.endpoint.identification.algorithm": "none"}
UNVERIFIED = {"enable.ssl.certificate.verification": False}
WITH_CERTIFICATE = {"client certificate": "alice"}
"""A placeholder for the two properties of a certificate, which `outcomes` issues."""
CASES = [
    Case("TLS", ssl(), {}, DELIVERS),
    Case("TLS 1.2 alone", ssl(tls_versions=("TLSv1.2", "TLSv1.2")), {}, DELIVERS),
    Case("TLS 1.3 alone", ssl(tls_versions=("TLSv1.3", "TLSv1.3")), {}, DELIVERS),
    *(
        Case(f"TLS, certificate {flaw}", ssl(), {}, "_SSL", presented(flaw))
        for flaw in ("unknown_ca", "expired", "not_yet_valid", "wrong_host")
    ),
    Case(
        "TLS, wrong host, names unchecked", ssl(), UNCHECKED_NAME, DELIVERS, presented("wrong_host")
    ),
    Case("TLS, unknown CA, unverified", ssl(), UNVERIFIED, DELIVERS, presented("unknown_ca")),
    Case(
        "TLS, garbage first",
        ssl(),
        {},
        DELIVERS,
        lambda cluster: cluster.break_handshakes("garbage"),
    ),
    Case("mutual TLS", ssl(client_certificates="required"), WITH_CERTIFICATE, DELIVERS),
    Case(
        "mutual TLS without a certificate",
        ssl(client_certificates="required"),
        {},
        "_SSL",
        theirs="_TRANSPORT",
    ),
    Case(
        "TLS client, plaintext listener",
        {},
        {"security.protocol": "ssl"},
        "_SSL",
        theirs="_TRANSPORT",
    ),
    Case(
        "plaintext client, TLS listener",
        ssl(),
        {"security.protocol": "plaintext"},
        "_ALL_BROKERS_DOWN",
    ),
    *(
        Case(f"{mechanism}, {protocol}", sasl(protocol), login(mechanism), DELIVERS)
        for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
        for protocol in ("sasl_plaintext", "sasl_ssl")
    ),
    *(
        Case(
            f"{mechanism}, wrong password",
            sasl(),
            login(mechanism, password="wrong"),
            "_AUTHENTICATION",
        )
        for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
    ),
    Case("SCRAM, no such user", sasl(), login("SCRAM-SHA-256", user="eve"), "_AUTHENTICATION"),
    Case(
        "SCRAM, wrong signature",
        sasl(),
        login("SCRAM-SHA-256"),
        "_AUTHENTICATION",
        broken_authentication("wrong_signature"),
    ),
    Case(
        "SCRAM, other nonce",
        sasl(),
        login("SCRAM-SHA-256"),
        "_AUTHENTICATION",
        broken_authentication("other_nonce"),
    ),
    Case(
        "SCRAM, malformed challenge",
        sasl(),
        login("SCRAM-SHA-256"),
        "_AUTHENTICATION",
        broken_authentication("malformed"),
    ),
    Case(
        "mechanism isn't enabled",
        sasl(mechanisms=["PLAIN"]),
        login("SCRAM-SHA-256"),
        "_AUTHENTICATION",
    ),
    Case("OAUTHBEARER", sasl(), bearer(3600), DELIVERS),
    Case("OAUTHBEARER, sasl_ssl", sasl("sasl_ssl"), bearer(3600), DELIVERS),
    Case("OAUTHBEARER, expired token", sasl(), bearer(-10), "_AUTHENTICATION"),
    Case(
        "SASL client, plaintext listener",
        {},
        {"security.protocol": "sasl_plaintext", **login()},
        "_AUTHENTICATION",
    ),
    Case(
        "plaintext client, SASL listener",
        sasl(),
        {"security.protocol": "plaintext"},
        "_ALL_BROKERS_DOWN",
    ),
    Case("sasl_ssl, unknown CA", sasl("sasl_ssl"), login(), "_SSL", presented("unknown_ca")),
]


@pytest.fixture(scope="module")
def certificates() -> Certificates:
    return Certificates()


table = pytest.fixture(scope="module")(printed)


def outcomes(case: Case, certificates: Certificates) -> Outcomes:
    """Run both clients, each with its own cluster, because some faults happen once."""
    found = []
    for lib, wanted in (
        (confluent_kafka, case.theirs or case.outcome),
        (kafka_native, case.outcome),
    ):
        security = ListenerSecurity(**case.listener, certificates=certificates)
        with MockCluster(1, security=security) as cluster:
            cluster.create_topic("a")
            case.before(cluster)
            conf = {
                "bootstrap.servers": cluster.bootstrap_servers,
                "security.protocol": security.protocol,
                "ssl.ca.pem": certificates.ca_pem,
                **case.client,
            }
            if conf.pop("client certificate", None):
                alice = certificates.client("alice")
                conf |= {"ssl.certificate.pem": alice.certificate_pem, "ssl.key.pem": alice.key_pem}
            found.append(deliver(lib, conf, "a", wanted))
    return Outcomes(case.name, *found)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_both_deliver_or_get_the_same_error(
    case: Case, certificates: Certificates, table: list[Outcomes]
) -> None:
    table.append(outcomes(case, certificates))
    assert table[-1] == (case.name, case.theirs or case.outcome, case.outcome)
