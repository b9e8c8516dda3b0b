"""The ssl.* properties in use: which brokers a client trusts, and its own certificate."""

from __future__ import annotations

from pathlib import Path

import pytest
import trustme

from kafka_native._native.engine import tls_functions
from kafka_native.security.openssl import address_of
from kafka_native.security.tls import TlsContext
from tests.security.handshakes import HOST, chain_of, key_of, pem, server, shake, tls


def test_addresses_of_every_function_of_the_transport() -> None:
    addresses = {name: address_of(name) for name in tls_functions()}
    assert all(address > 4096 for address in addresses.values())
    assert len(set(addresses.values())) == len(addresses)


def test_client_trusts_the_ca_file(
    authority: trustme.CA, broker: trustme.LeafCert, tmp_path: Path
) -> None:
    path = tmp_path / "ca.pem"
    path.write_text(pem(authority))
    outcome = shake(tls({"ssl.ca.location": str(path)}), server(broker))
    assert outcome.succeeded, outcome
    assert outcome.version == "TLSv1.3"
    path.write_text(pem(trustme.CA()))
    outcome = shake(tls({"ssl.ca.location": str(path)}), server(broker))
    assert outcome.reason == "certificate verify failed"
    assert outcome.verify_error in (19, 20)


@pytest.mark.parametrize("host", [HOST, "10.0.0.1", "2001:db8::1"])
def test_certificate_has_to_name_the_host(
    authority: trustme.CA, broker: trustme.LeafCert, host: str
) -> None:
    context = tls({"ssl.ca.pem": pem(authority)})
    assert context.identifies_hosts
    assert shake(context, server(broker), host).succeeded


@pytest.mark.parametrize(
    ("host", "verify_error"), [("b3", 62), ("b1.example.org", 62), ("10.0.0.2", 64), ("::1", 64)]
)
def test_certificate_of_another_host_is_refused(
    authority: trustme.CA, broker: trustme.LeafCert, host: str, verify_error: int
) -> None:
    outcome = shake(tls({"ssl.ca.pem": pem(authority)}), server(broker), host)
    assert (outcome.reason, outcome.verify_error) == ("certificate verify failed", verify_error)


def test_names_are_not_checked_without_endpoint_identification(
    authority: trustme.CA, broker: trustme.LeafCert
) -> None:
    properties = {"ssl.ca.pem": pem(authority), "ssl.endpoint.identification.algorithm": "none"}
    context = tls(properties)
    assert context.verifies
    assert not context.identifies_hosts
    assert shake(context, server(broker), "b3").succeeded
    assert not shake(context, server(trustme.CA().issue_cert("b3")), "b3").succeeded


def test_every_broker_is_accepted_without_verification(broker: trustme.LeafCert) -> None:
    context = tls({"enable.ssl.certificate.verification": False})
    assert not context.identifies_hosts
    assert shake(context, server(broker), "b3").succeeded
    assert any("enable.ssl.certificate.verification=false" in text for text in context.remarks)


def test_client_certificate_of_pem_files(
    authority: trustme.CA, broker: trustme.LeafCert, tmp_path: Path
) -> None:
    own = authority.create_child_ca().issue_cert("client@example.org", common_name="the client")
    (tmp_path / "own.pem").write_text(chain_of(own))
    (tmp_path / "own.key").write_text(key_of(own))
    properties = {
        "ssl.ca.pem": pem(authority),
        "ssl.certificate.location": str(tmp_path / "own.pem"),
        "ssl.key.location": str(tmp_path / "own.key"),
    }
    outcome = shake(tls(properties), server(broker, clients=authority))
    assert outcome.succeeded, outcome
    assert "CN=the client" in outcome.client_names[0]
    assert len(outcome.client_names) == 2, "the client sends the intermediate authority too"


def test_pointer_is_the_context(authority: trustme.CA) -> None:
    first, second = tls({"ssl.ca.pem": pem(authority)}), tls({"ssl.ca.pem": pem(authority)})
    assert first.pointer > 4096
    assert first.pointer == first.pointer != second.pointer
    assert isinstance(first, TlsContext)
