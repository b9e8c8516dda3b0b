"""``kafka-native doctor`` on a real Apache Kafka with TLS and a login: each problem is found in its
step.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.broker.certificates import Authority
from tests.broker.cluster import Cluster, Listener
from tests.broker.support import TopicMaker, running
from tests.cli.test_doctor import Report
from tests.harness.tunnels import HttpConnect, Socks5, Tunnels

pytestmark = [pytest.mark.broker, pytest.mark.slow]

SECRET = "s3cret-word"
LOGIN = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="{SECRET}";'
SASL = {"sasl.enabled.mechanisms": "PLAIN", "plain.sasl.jaas.config": LOGIN}
ELSEWHERE = "b1.elsewhere.invalid"
"""The broker's host by a name that its certificate lacks."""


class SecuredBroker(NamedTuple):
    cluster: Cluster
    authority: Authority

    def found(self, *more: str, **properties: str) -> Report:
        """Return the doctor's result for alice's connection. ``properties`` replace the right ones."""
        right = {
            "bootstrap.servers": self.cluster.listeners["SASLTLS"],
            "security.protocol": "sasl_ssl",
            "ssl.ca.location": self.authority.ca,
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": SECRET,
        }
        changed = {name.replace("_", "."): value for name, value in properties.items()}
        options = [
            part for name, value in (right | changed).items() for part in ("-X", f"{name}={value}")
        ]
        found = Report(*options, *more)
        assert SECRET not in found.output
        return found


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """Yield one broker, where alice may do everything."""
    authority = Authority(tmp_path_factory.mktemp("certificates"))
    listeners = {"SASLTLS": Listener("SASL_SSL", authority.listener() | SASL)}
    users = {"super.users": "User:ANONYMOUS;User:alice"}
    with running(1, changes=users, listeners=listeners) as cluster:
        yield SecuredBroker(cluster, authority)


def test_all_good(secured: SecuredBroker, new_topic: TopicMaker) -> None:
    found = secured.found("-t", new_topic(secured.cluster), "-G", "nobody-yet")
    assert found.status == 0, found.output
    statuses = {step["kind"]: step["status"] for step in found.document["steps"]}
    assert {statuses.pop(kind) for kind in ("proxy", "registry", "payloads")} == {"skipped"}
    assert set(statuses.values()) == {"ok"}
    assert found.only("tls")["text"].startswith("TLSv1.3, ")
    assert found.only("sasl")["text"] == "alice is logged in with PLAIN"


def test_wrong_password(secured: SecuredBroker) -> None:
    found = secured.found(sasl_password="an0ther-secret")
    failed = found.failed_at("sasl")
    assert "refuses user 'alice' with PLAIN: " in failed["text"]
    assert failed["cause"].startswith("a wrong password")
    assert "an0ther-secret" not in found.output


def test_mechanism_that_the_listener_lacks(secured: SecuredBroker) -> None:
    failed = secured.found(sasl_mechanism="SCRAM-SHA-256").failed_at("sasl")
    assert failed["text"] == "the broker has no SASL mechanism SCRAM-SHA-256: it offers PLAIN"
    assert failed["advice"] == "set sasl.mechanism=PLAIN"


def test_unknown_authority(secured: SecuredBroker, tmp_path: Path) -> None:
    other = Authority(tmp_path)
    failed = secured.found(ssl_ca_location=other.ca).failed_at("tls")
    assert f"is none of the CAs of ssl.ca.location={other.ca}" in failed["text"]
    assert failed["cause"].startswith("it has shown 1. ")


@pytest.mark.parametrize("kind", [Socks5, HttpConnect])
def test_wrong_host_behind_a_proxy(kind: type[Tunnels], secured: SecuredBroker) -> None:
    port = secured.cluster.listeners["SASLTLS"].rpartition(":")[2]
    with kind((b"carol", b"pr0xy-secret"), names={ELSEWHERE: "127.0.0.1"}) as proxy:
        url = proxy.url("carol", "pr0xy-secret")
        found = secured.found(bootstrap_servers=f"{ELSEWHERE}:{port}", proxy_url=url)
        failed = found.failed_at("tls")
        assert "is for " in failed["text"]
        assert f"not {ELSEWHERE}" in failed["text"]
        assert {step["status"] for step in found.steps("proxy")} == {"ok"}
        assert "pr0xy-secret" not in found.output
        good = secured.found(proxy_url=url)
        assert good.status == 0, good.output


@pytest.mark.parametrize(
    ("listener", "protocol", "kind", "words"),
    [
        ("PLAINTEXT", "sasl_ssl", "tls", "speaks Kafka without TLS and without a log-in"),
        ("SASLTLS", "sasl_plaintext", "versions", "the listener wants TLS"),
        ("SASLTLS", "ssl", "metadata", "the listener wants a log-in, with one of PLAIN"),
    ],
)
def test_protocol_of_another_listener(
    listener: str, protocol: str, kind: str, words: str, secured: SecuredBroker
) -> None:
    server = secured.cluster.listeners.get(listener, secured.cluster.bootstrap)
    failed = secured.found(bootstrap_servers=server, security_protocol=protocol).failed_at(kind)
    assert words in failed["cause"]
