"""The error texts of failed handshakes."""

from __future__ import annotations

import warnings
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography import x509
from hypothesis import example, given, settings
from hypothesis import strategies as st
from OpenSSL import SSL

from kafka_native.cleaning import clean
from kafka_native.security.certificates import subject
from kafka_native.security.tls import TlsContext
from tests.security.certificates import DAY, NOW, hostile, issued, revocation_list
from tests.security.handshakes import (
    HOST,
    PORT,
    chain_of,
    der_of,
    der_of_pem,
    key_of,
    pem,
    server,
    shake,
    tls,
)

AUTHORITY = trustme.CA(organization_name="Authority")
SOME_CERTIFICATES = [
    hostile([HOST, "b2.example"], "broker"),
    hostile([], "broker"),
    der_of(AUTHORITY.issue_cert(HOST, "10.0.0.1", "somebody@example.org")),
    der_of(AUTHORITY.create_child_ca().issue_cert("2001:db8::1")),
]
BROKER = AUTHORITY.issue_cert(HOST, "10.0.0.1")


def error_text(
    context: TlsContext,
    leaf: trustme.LeafCert = BROKER,
    *,
    host: str = HOST,
    listener: SSL.Context | None = None,
) -> str:
    """Return the error text of a real failed handshake."""
    outcome = shake(context, listener or server(leaf), host)
    assert not outcome.succeeded
    return context.explain(outcome.reason, outcome.verify_error, host, PORT, der_of(leaf))


def trusting(**more: Any) -> TlsContext:
    return tls(
        {
            "ssl.ca.pem": pem(AUTHORITY),
            **{name.replace("_", "."): value for name, value in more.items()},
        }
    )


def test_other_host() -> None:
    text = error_text(trusting(), host="b3")
    assert text.startswith("the certificate of b3:9093 is for b1.example, 10.0.0.1, not b3: ")
    assert "ssl.endpoint.identification.algorithm=none" in text
    assert text.lower().endswith("(openssl: hostname mismatch)")
    assert "the certificate of [::1]:9093 is for b1.example, 10.0.0.1, not ::1" in error_text(
        trusting(), host="::1"
    )


def test_other_authority(tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    path.write_text(pem(trustme.CA()))
    text = error_text(
        tls({"ssl.ca.location": str(path)}), AUTHORITY.create_child_ca().issue_cert(HOST)
    )
    assert text.startswith("the certificate of b1.example:9093 can't be verified: its issuer '")
    assert (
        f"is none of the CAs of ssl.ca.location={path}; set ssl.ca.location to the CA's certificate"
        in text
    )
    assert "O=Authority" in error_text(tls({"ssl.ca.location": str(path)}))


def test_self_signed() -> None:
    context = trusting()
    text = context.explain("certificate verify failed", 18, HOST, PORT, hostile([HOST], "itself"))
    assert text.startswith(
        "the certificate of b1.example:9093, CN=itself, is self-signed and none of ssl.ca.pem: "
    )


def test_expired() -> None:
    leaf = AUTHORITY.issue_cert(
        HOST, common_name="old", not_before=NOW - 9 * DAY, not_after=NOW - 2 * DAY
    )
    text = error_text(trusting(), leaf)
    assert "CN=old" in text
    assert f" expired on {NOW - 2 * DAY:%Y-%m-%d}" in text


def test_not_yet_valid() -> None:
    first = NOW + timedelta(days=2)
    text = error_text(
        trusting(), AUTHORITY.issue_cert(HOST, not_before=first, not_after=first + DAY)
    )
    assert f"isn't valid before {first:%Y-%m-%d %H:%M} UTC: is this machine's clock right?" in text


def test_expired_above() -> None:
    text = trusting().explain("certificate verify failed", 10, HOST, PORT, der_of(BROKER))
    assert text.startswith("a certificate above the certificate of b1.example:9093, which '")
    assert "has expired" in text


def test_revoked(tmp_path: Path) -> None:
    path = tmp_path / "crl.pem"
    path.write_text(revocation_list(AUTHORITY, BROKER))
    assert f"is revoked, says ssl.crl.location={path}" in error_text(
        trusting(ssl_crl_location=str(path))
    )
    path.write_text(revocation_list(trustme.CA(organization_name="Other")))
    assert f"ssl.crl.location={path} has no list of its issuer" in error_text(
        trusting(ssl_crl_location=str(path))
    )
    path.write_text(revocation_list(AUTHORITY, days=-1))
    assert f"in ssl.crl.location={path} is too old" in error_text(
        trusting(ssl_crl_location=str(path))
    )


def test_revoked_above(tmp_path: Path) -> None:
    """The transport passes the broker's certificate, then the CA that causes the error."""
    path, below = tmp_path / "crl.pem", AUTHORITY.create_child_ca()
    own = x509.load_pem_x509_certificate(below.cert_pem.bytes())
    both = der_of(below.issue_cert(HOST)) + der_of_pem(pem(below))
    path.write_text(revocation_list(AUTHORITY))
    context = trusting(ssl_crl_location=str(path), ssl_crl_check="chain")
    whose = subject(own)
    texts = {error: context.explain("", error, HOST, PORT, both) for error in (23, 3, 12, 8, 2)}
    lists = f"ssl.crl.location={path}"
    assert texts[23].startswith(
        f"{whose}, a CA above the certificate of b1.example:9093, is revoked, says {lists}"
    )
    assert (
        f"{lists} has no list of '{clean(own.issuer.rfc4514_string())}', which issued the CA "
        f"'{whose}'" in texts[3]
    )
    assert "or set ssl.crl.check=leaf, which checks the broker's own certificate alone" in texts[3]
    assert (
        f"the list of the CA '{clean(own.issuer.rfc4514_string())}' in {lists} is too old"
        in texts[12]
    )
    assert "isn't signed by a trusted CA of this name: ssl.ca.location needs that CA" in texts[8]
    assert "ssl.crl.check=chain needs all CAs up to the root, and '" in texts[2]


def test_expired_above_is_named() -> None:
    old = chain_of(
        AUTHORITY.issue_cert(
            "x", common_name="old CA", not_before=NOW - 9 * DAY, not_after=NOW - 2 * DAY
        )
    )
    both = der_of(BROKER) + der_of_pem(old)
    text = trusting().explain("certificate verify failed", 10, HOST, PORT, both)
    assert text.startswith("a certificate above the certificate of b1.example:9093, CN=old CA")
    assert f" expired on {NOW - 2 * DAY:%Y-%m-%d}" in text


def test_certificate_with_a_common_name_alone() -> None:
    der = der_of_pem(issued(AUTHORITY, HOST, [])[0])
    text = trusting().explain("certificate verify failed", 62, HOST, PORT, der)
    assert text.startswith(
        "the certificate of b1.example:9093, CN=b1.example, names no host in its subjectAltName"
    )
    assert (
        "give the broker a certificate with subjectAltName=DNS:b1.example, or set ssl.endpoint"
        in text
    )
    assert "subjectAltName=IP:10.0.0.1" in trusting().explain("", 64, "10.0.0.1", PORT, der)


@pytest.mark.parametrize(
    "flaw", ["the negotiated cipher suite has no encryption", "the peer showed no certificate"]
)
def test_handshake_that_protects_nothing(flaw: str) -> None:
    text = trusting().explain(flaw, 0, HOST, PORT, b"")
    assert (
        text == "the TLS of b1.example:9093 protects nothing, so nothing is sent to it (OpenSSL: "
        f"{flaw})"
    )


@pytest.mark.parametrize(
    "reason", ["ee key too small", "dh key too small", "modulus too small", "ca md too weak"]
)
def test_key_that_is_too_weak(reason: str) -> None:
    assert "ssl.cipher.suites=DEFAULT@SECLEVEL=1" in trusting().explain(reason, 0, HOST, PORT, b"")


@pytest.mark.parametrize("reason", ["record too small", "length too small", "data too small"])
def test_peers_cannot_cause_the_advice_to_weaken_tls(reason: str) -> None:
    """A peer can cause a "too small" failure with an empty record."""
    text = trusting().explain(reason, 0, HOST, PORT, b"")
    assert "SECLEVEL" not in text
    assert text == f"the TLS handshake with b1.example:9093 failed (OpenSSL: {reason})"


def test_listener_without_tls() -> None:
    context = trusting()
    outcome = shake(context, None)
    text = context.explain(outcome.reason, outcome.verify_error, HOST, PORT, b"")
    assert text.startswith(
        "b1.example:9093 doesn't speak TLS: a PLAINTEXT listener? security.protocol=plaintext"
    )


@pytest.mark.parametrize("reason", ["unexpected eof while reading", ""])
def test_connection_that_ends(reason: str) -> None:
    text = trusting().explain(reason, 0, HOST, PORT, b"")
    assert text.startswith(
        "b1.example:9093 ended the connection in the middle of the TLS handshake: a "
        "PLAINTEXT listener?"
    )


@pytest.mark.parametrize("version", [SSL.TLS1_2_VERSION, SSL.TLS1_3_VERSION])
def test_broker_wants_a_client_certificate(version: int) -> None:
    listener = server(BROKER, clients=AUTHORITY)
    listener.set_max_proto_version(version)
    text = error_text(trusting(), listener=listener)
    what = "set ssl.keystore.location, or ssl.certificate.location and ssl.key.location"
    assert (
        f"wants a client certificate, {what}" in text
        or f"wants a client certificate: {what}" in text
    )


@pytest.mark.parametrize("reason", ["sslv3 alert bad certificate", "ssl/tls alert bad certificate"])
def test_broker_in_java_wants_a_client_certificate(reason: str) -> None:
    text = trusting().explain(reason, 0, HOST, PORT, b"")
    assert text.startswith("b1.example:9093 wants a client certificate: set ssl.keystore.location")


def test_broker_refuses_the_client_certificate() -> None:
    other = trustme.CA(organization_name="Somebody")
    own = other.issue_cert("client", common_name="the client", organization_name="Client")
    context = tls(
        {
            "ssl.ca.pem": pem(AUTHORITY),
            "ssl.certificate.pem": chain_of(own),
            "ssl.key.pem": key_of(own),
        }
    )
    text = error_text(context, listener=server(BROKER, clients=AUTHORITY))
    assert text.startswith("b1.example:9093 refuses the client's certificate, CN=the client")
    assert "of ssl.certificate.pem and ssl.key.pem; its truststore needs the issuer '" in text
    assert "O=Somebody" in text


def test_no_common_suite_or_version() -> None:
    listener = server(BROKER)
    listener.set_max_proto_version(SSL.TLS1_2_VERSION)
    listener.set_cipher_list(b"ECDHE-ECDSA-AES256-GCM-SHA384")
    text = error_text(
        trusting(ssl_cipher_suites="ECDHE-ECDSA-AES128-GCM-SHA256"), listener=listener
    )
    assert text.startswith(
        "b1.example:9093 and this client don't agree: see what ssl.cipher.suites leaves to offer"
    )
    listener = server(BROKER)
    listener.set_max_proto_version(SSL.TLS1_2_VERSION)
    text = error_text(trusting(ssl_cipher_suites="TLS_AES_128_GCM_SHA256"), listener=listener)
    assert text.startswith(
        "b1.example:9093 and this client have no version of TLS in common: see what "
        "ssl.cipher.suites"
    )


def test_unknown_alert_is_quoted() -> None:
    text = trusting().explain("tlsv1 alert internal error", 0, HOST, PORT, b"")
    assert (
        text
        == "the TLS handshake with b1.example:9093 failed (OpenSSL: tlsv1 alert internal error)"
    )


def test_result_of_verification_is_ignored_where_it_is_off() -> None:
    context = tls({"enable.ssl.certificate.verification": False})
    text = context.explain("tlsv13 alert certificate required", 20, HOST, PORT, der_of(BROKER))
    assert text.startswith("b1.example:9093 wants a client certificate")


@pytest.mark.parametrize(
    "error", [62, 64, 10, 9, 20, 18, 19, 23, 3, 12, 26, 66, 1, 7, 99, -1, 2**31 - 1]
)
@pytest.mark.parametrize(
    "certificate", [b"", b"\x30\x80garbage", der_of(BROKER)[:200], b"\x30" * 100_000]
)
def test_certificates_that_cannot_be_read(error: int, certificate: bytes) -> None:
    text = trusting().explain("certificate verify failed", error, HOST, PORT, certificate)
    assert "b1.example:9093" in text
    assert len(text) < 600


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 255)), min_size=1, max_size=8),
    st.sampled_from(range(4)),
)
@example([(14, 83)], 0)  # a version that doesn't exist
def test_damaged_certificates_raise_no_exceptions(
    changes: list[tuple[int, int]], which: int
) -> None:
    certificate = bytearray(SOME_CERTIFICATES[which])
    for index, value in changes:
        certificate[index % len(certificate)] = value
    context = trusting()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for error in (62, 10, 9, 20, 18):
            assert context.explain("", error, HOST, PORT, bytes(certificate)).isprintable()


def test_names_of_a_hostile_certificate_are_cut_and_cleaned() -> None:
    names = [f"{i}\x1b[31m\r\n{'x' * 100}" for i in range(200)]
    common_name = "evil\u202e\n%s\x00"
    text = trusting().explain(
        "certificate verify failed", 62, "b\x1b3", PORT, hostile(names, common_name)
    )
    assert text.isprintable()
    assert len(text) < 900
    assert " and 195 more" in text
    text = trusting().explain("certificate verify failed", 20, HOST, PORT, hostile([], common_name))
    assert text.isprintable()
    assert "evil" in text
    text = trusting().explain("certificate verify failed", 62, HOST, PORT, hostile([], common_name))
    assert text.isprintable()
    assert "evil" in text
