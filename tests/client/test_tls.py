"""TLS end to end: our clients and the mock cluster, whose TLS is Python's own."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography import x509
from OpenSSL import SSL

from kafka_native import KafkaError, KafkaException, Producer
from kafka_native.mock import Identity, ListenerSecurity, MockCluster
from kafka_native.mock.tls import TlsListener
from kafka_native.security import cipher_suites
from kafka_native.security.certificates import subject
from tests.client.support import Client, deliver, fill, read_all
from tests.harness.proxy import Fates, Proxy, harmless
from tests.security.certificates import issued, revocation_list
from tests.waiting import WAIT_S

ADVICE = "give the broker a certificate with subjectAltName=IP:127.0.0.1"


class Secured(Client):
    """Clients that trust the cluster's authority."""

    def settings(self, **conf: Any) -> dict[str, Any]:
        return {
            "security.protocol": "ssl",
            "ssl.ca.pem": self.cluster.ca_pem,
            "reconnect.backoff.max.ms": 100,
            **conf,
        }

    def producer(self, **conf: Any) -> Producer:
        return super().producer(**self.settings(**conf))

    def consumer(self, **conf: Any) -> Any:
        return super().consumer(**self.settings(**conf))


@contextmanager
def secured(brokers: int = 1, **how: Any) -> Iterator[Secured]:
    with MockCluster(brokers, security=ListenerSecurity("ssl", **how)) as cluster:
        yield Secured(cluster)


@pytest.fixture(scope="module")
def client() -> Iterator[Secured]:
    with secured(2) as found:
        yield found


def until(producer: Producer, condition: Callable[[], bool]) -> None:
    """Serve callbacks and request metadata until a condition holds."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, "the condition never held"
        with suppress(KafkaException):
            producer.list_topics(timeout=0.5)
        producer.poll(0)


def error_of(client: Secured, code: int = KafkaError._SSL, **conf: Any) -> KafkaError:
    """Return the producer's first error with this code."""
    errors: list[KafkaError] = []
    with client.producer(error_cb=errors.append, **conf) as producer:
        until(producer, lambda: any(error.code() == code for error in errors))
    return next(error for error in errors if error.code() == code)


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_messages_of_all_sizes_come_back_over_tls(version: str) -> None:
    with secured(tls_versions=(version, version)) as client:
        topic = client.topic()
        values = [b"x" * size for size in (0, 1, 100, 16383, 16384, 16385, 70_000, 900_000)] * 3
        with client.producer(**{"linger.ms": 1}) as producer:
            for value in values:
                producer.produce(topic, value)
        assert [message.value() for message in read_all(client, topic, len(values))] == values
        assert {seen.version for seen in client.cluster.handshakes if not seen.error} == {version}


def test_server_name_is_sent_for_names_and_not_for_addresses(client: Secured, topic: str) -> None:
    fill(client, topic, 10)
    seen = client.cluster.handshakes[-1]
    assert seen.error is None
    assert seen.server_name in (None, "localhost")


def test_more_than_a_sockets_buffer_is_written_and_read(client: Secured) -> None:
    topic = client.topic(4)
    with client.producer(**{"socket.send.buffer.bytes": 8192, "linger.ms": 50}) as producer:
        for number in range(3000):
            producer.produce(topic, b"%05d" % number * 300)
    found = read_all(client, topic, 3000, **{"socket.receive.buffer.bytes": 8192})
    assert sorted(message.value() or b"" for message in found) == [
        b"%05d" % number * 300 for number in range(3000)
    ]


def test_another_authority_is_refused_by_name_and_nothing_is_sent(client: Secured) -> None:
    with secured() as other:
        error = error_of(client, **{"ssl.ca.pem": other.cluster.ca_pem})
    assert "is none of the CAs of ssl.ca.pem" in error.str()
    assert error.retriable() is False


def test_flaws_of_the_certificate_are_named(client: Secured) -> None:
    flaws = {
        "expired": "expired on",
        "not_yet_valid": "isn't valid before",
        "wrong_host": "is for",
        "unknown_ca": "none of the CAs",
    }
    try:
        for flaw, words in flaws.items():
            client.cluster.present_certificate(flaw)  # type: ignore[arg-type]  # the names of a Literal
            assert words in error_of(client).str()
    finally:
        client.cluster.present_certificate("good")


def test_wrong_host_is_accepted_without_identification(client: Secured) -> None:
    client.cluster.present_certificate("wrong_host")
    try:
        topic = client.topic()
        fill(client, topic, 1, **{"ssl.endpoint.identification.algorithm": "none"})
    finally:
        client.cluster.present_certificate("good")


def test_common_name_alone_is_refused_with_advice() -> None:
    authority = trustme.CA()
    given = Identity(
        *issued(authority, "127.0.0.1", []), ca_pem=authority.cert_pem.bytes().decode()
    )
    with secured(certificates=given) as client:
        host = client.cluster.address(1).rpartition(":")[0]
        error = error_of(client)
        assert (
            "names no host in its subjectAltName, and the common name isn't taken for one: "
            f"{ADVICE}" in error.str()
        )
        assert host in error.str()
        fill(client, client.topic(), 1, **{"ssl.endpoint.identification.algorithm": "none"})


def test_revoked_intermediate_is_refused_by_name_with_crl_check_chain(tmp_path: Path) -> None:
    root = trustme.CA(organization_name="Root")
    below = root.create_child_ca()
    leaf, ca_pem = below.issue_cert("127.0.0.1", "localhost"), root.cert_pem.bytes().decode()
    chain = "".join(each.bytes().decode() for each in leaf.cert_chain_pems)
    path = tmp_path / "crl.pem"
    conf = {"ssl.crl.location": str(path), "ssl.crl.check": "chain"}
    with secured(
        certificates=Identity(chain, leaf.private_key_pem.bytes().decode(), ca_pem)
    ) as client:
        path.write_text(revocation_list(root) + revocation_list(below))
        fill(client, client.topic(), 1, **conf)
        path.write_text(revocation_list(root, below) + revocation_list(below))
        text = error_of(client, **conf).str()
        own = subject(x509.load_pem_x509_certificate(below.cert_pem.bytes()))
        assert f": {own}, a CA above the certificate of " in text
        assert f"is revoked, says ssl.crl.location={path}" in text
        path.write_text(revocation_list(below))
        text = error_of(client, **conf).str()
        assert (
            f"which issued the CA '{own}' above it: add that list, or set ssl.crl.check=leaf"
            in text
        )
        fill(client, client.topic(), 1, **{**conf, "ssl.crl.check": "leaf"})


def test_connection_with_a_null_cipher_is_refused(
    client: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenSSL would negotiate it only by mistake. The transport checks the result."""
    suite, made = "ECDHE-ECDSA-NULL-SHA:@SECLEVEL=0", TlsListener._make

    def unencrypted(listener: TlsListener, identity: Identity) -> Any:
        context = made(listener, identity)
        context.set_ciphers(suite)
        return context

    def demand(context: SSL.Context, _: str) -> list[str]:
        context.set_cipher_list(suite.encode())
        return []

    monkeypatch.setattr(TlsListener, "_make", unencrypted)
    monkeypatch.setattr(cipher_suites, "restrict", demand)
    monkeypatch.setattr(cipher_suites, "check_offered", lambda context: None)
    with secured(tls_versions=("TLSv1.2", "TLSv1.2")) as weak:
        error = error_of(weak)
        assert "protects nothing, so nothing is sent to it" in error.str()
        assert "the negotiated cipher suite has no encryption" in error.str()
        assert weak.cluster.handshakes[0].cipher == "ECDHE-ECDSA-NULL-SHA"
        assert not any(seen.resumed for seen in weak.cluster.handshakes)


def test_weak_settings_are_warned_of_once_a_client(client: Secured, tmp_path: Path) -> None:
    lines: list[str] = []
    path = tmp_path / "ca.pem"
    path.write_text(client.cluster.ca_pem)
    conf: dict[str, Any] = {
        "ssl.ca.pem": None,
        "ssl.ca.location": str(path),
        "ssl.endpoint.identification.algorithm": "none",
        "ssl.cipher.suites": "DEFAULT@SECLEVEL=1",
        "logger": _logger(lines),
    }
    topic = client.topic()
    with client.producer(**conf) as producer:
        deliver(producer, topic, b"1", partition=0)
        path.write_text(client.cluster.ca_pem + "\n")
        for broker in client.cluster.broker_ids:
            client.cluster.disconnect(broker)
        until(producer, lambda: any("certificates have changed" in line for line in lines))
    for name in ("ssl.endpoint.identification.algorithm=none", "@SECLEVEL=1"):
        assert len([line for line in lines if line.startswith("WARNING") and name in line]) == 1, (
            lines
        )


def _logger(lines: list[str]) -> logging.Logger:
    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(f"{record.levelname} {record.getMessage()}")

    logger = logging.Logger("of this test", logging.INFO)
    logger.addHandler(Collector())
    return logger


def test_certificate_verification_can_be_disabled(
    client: Secured, caplog: pytest.LogCaptureFixture
) -> None:
    client.cluster.present_certificate("unknown_ca")
    try:
        fill(client, client.topic(), 1, **{"enable.ssl.certificate.verification": False})
    finally:
        client.cluster.present_certificate("good")
    assert any("enable.ssl.certificate.verification=false" in line for line in caplog.messages)


@pytest.mark.parametrize(
    ("how", "words"), [("close", "middle of the TLS handshake"), ("garbage", "doesn't speak TLS")]
)
def test_broken_handshake_is_explained_and_retried(client: Secured, how: Any, words: str) -> None:
    client.cluster.break_handshakes(how, count=1)
    errors: list[KafkaError] = []
    with client.producer(error_cb=errors.append) as producer:
        producer.list_topics(timeout=WAIT_S)
        until(producer, lambda: any(words in error.str() for error in errors))


def test_a_handshake_without_an_answer_ends_with_the_setup_timeout(client: Secured) -> None:
    client.cluster.break_handshakes("silence", count=1)
    errors: list[KafkaError] = []
    conf = {"socket.connection.setup.timeout.ms": 1000, "error_cb": errors.append}
    with client.producer(**conf) as producer:
        producer.list_topics(timeout=WAIT_S)
        until(producer, lambda: any("no answer within 1000 ms" in error.str() for error in errors))


def test_tls_on_a_plaintext_port_and_the_reverse_are_explained(client: Secured) -> None:
    with MockCluster(1) as plain:
        error = error_of(client, **{"bootstrap.servers": plain.bootstrap_servers})
        assert "security.protocol=plaintext" in error.str()
    error = error_of(client, KafkaError._TRANSPORT, **{"security.protocol": "plaintext"})
    assert "another security.protocol?" in error.str()  # Python's TLS just closes


@pytest.mark.parametrize(
    ("protocol", "code"), [("ssl", KafkaError._SSL), ("plaintext", KafkaError._TRANSPORT)]
)
def test_first_connection_finds_a_port_of_another_protocol(
    client: Secured, protocol: str, code: int
) -> None:
    connections: list[Fates] = []

    def fates() -> Fates:
        connections.append(harmless())
        return connections[-1]

    with (
        MockCluster(1) as plain,
        Proxy((plain if protocol == "ssl" else client.cluster).address(1), fates) as proxy,
    ):
        hours = {"reconnect.backoff.ms": 3_600_000, "reconnect.backoff.max.ms": 3_600_000}
        conf = {"bootstrap.servers": proxy.address, "security.protocol": protocol, **hours}
        assert "security.protocol" in error_of(client, code, **conf).str()
        assert len(connections) == 1


def test_clients_show_their_certificate(tmp_path: Path) -> None:
    with secured(client_certificates="required") as client:
        error = error_of(client)
        assert "ssl.keystore.location" in error.str()
        alice = client.cluster.certificates.client("alice")
        own = {"ssl.certificate.pem": alice.certificate_pem, "ssl.key.pem": alice.key_pem}
        fill(client, client.topic(), 3, **own)
        assert "alice" in (client.cluster.handshakes[-1].subject or "")


def test_a_session_is_resumed_at_reconnect(client: Secured, topic: str) -> None:
    with client.producer() as producer:
        deliver(producer, topic, b"1", partition=0)
        before = len(client.cluster.handshakes)
        for broker in client.cluster.broker_ids:
            client.cluster.disconnect(broker)
        deliver(producer, topic, b"2", partition=0)
        until(producer, lambda: any(seen.resumed for seen in client.cluster.handshakes[before:]))


def test_rotated_files_are_used_at_reconnect_without_a_restart(tmp_path: Path) -> None:
    with secured() as client, secured() as other:
        path = tmp_path / "ca.pem"
        path.write_text(client.cluster.ca_pem)
        topic = client.topic()
        with client.producer(**{"ssl.ca.pem": None, "ssl.ca.location": str(path)}) as producer:
            deliver(producer, topic, b"1")
            path.write_text("half written")
            client.cluster.disconnect(1)
            producer.produce(topic, b"2")
            assert producer.flush(WAIT_S) == 0  # the client still uses the good files
            new = tmp_path / "new.pem"
            new.write_text(other.cluster.ca_pem)
            os.replace(new, path)
            client.cluster.rotate_certificate(other.cluster.certificates.broker())
            client.cluster.disconnect(1)
            deliver(producer, topic, b"3")
        assert [seen.error for seen in client.cluster.handshakes][-1] is None


def test_constructor_reports_mistakes() -> None:
    conf = {"security.protocol": "ssl", "ssl.ca.location": "/nowhere.pem"}
    with pytest.raises(KafkaException, match=r"ssl\.ca\.location=/nowhere\.pem: no such file"):
        Producer({"bootstrap.servers": "h:1", **conf})
