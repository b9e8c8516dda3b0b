"""The effect of each ssl.* property on a handshake."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)
from OpenSSL import SSL, crypto

from kafka_native.config import parse
from kafka_native.errors import KafkaException
from kafka_native.security import authorities, openssl
from tests.security.certificates import DAY, NOW, PASSWORD, encrypted, keystore, revocation_list
from tests.security.handshakes import HOST, chain_of, key_of, pem, server, shake, tls


@pytest.fixture(scope="module")
def own(authority: trustme.CA) -> trustme.LeafCert:
    """Return a client's certificate, two authorities below the root."""
    below = authority.create_child_ca().create_child_ca()
    return below.issue_cert(
        "client@example.org", common_name="the client", organization_name="Client"
    )


# --- the client's own certificate ---


@pytest.mark.parametrize("form", [PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL])
def test_encrypted_key(
    authority: trustme.CA,
    broker: trustme.LeafCert,
    own: trustme.LeafCert,
    tmp_path: Path,
    form: PrivateFormat,
) -> None:
    (tmp_path / "own.key").write_text(encrypted(own, form))
    (tmp_path / "own.pem").write_text(chain_of(own))
    properties = {
        "ssl.ca.pem": pem(authority),
        "ssl.certificate.location": str(tmp_path / "own.pem"),
        "ssl.key.location": str(tmp_path / "own.key"),
    }
    assert shake(
        tls({**properties, "ssl.key.password": PASSWORD}), server(broker, clients=authority)
    ).succeeded
    with pytest.raises(
        KafkaException, match=r"own\.key: the key is encrypted.*hint: set ssl\.key\.password"
    ):
        tls(properties)


def test_own_certificate_from_texts(
    authority: trustme.CA, broker: trustme.LeafCert, own: trustme.LeafCert
) -> None:
    properties = {
        "ssl.ca.pem": pem(authority),
        "ssl.certificate.pem": chain_of(own),
        "ssl.key.pem": key_of(own),
    }
    outcome = shake(tls(properties), server(broker, clients=authority))
    assert outcome.succeeded
    assert len(outcome.client_names) == 3, "the client sends the intermediate authorities too"
    # A password for an unencrypted key has no effect.
    assert shake(
        tls({**properties, "ssl.key.password": "x"}), server(broker, clients=authority)
    ).succeeded


def in_form(form: str, own: trustme.LeafCert, authority: trustme.CA) -> dict[str, Any]:
    """Return the properties of a client's certificate whose values have this form."""
    certificate = x509.load_pem_x509_certificate(own.cert_chain_pems[0].bytes())
    key: Any = load_pem_private_key(own.private_key_pem.bytes(), None)
    root = x509.load_pem_x509_certificate(authority.cert_pem.bytes()).public_bytes(Encoding.DER)
    der, plain = certificate.public_bytes(Encoding.DER), NoEncryption()
    return {
        "pem": {
            "ssl.ca.pem": pem(authority).encode(),
            "ssl.certificate.pem": chain_of(own).encode(),
            "ssl.key.pem": key_of(own).encode(),
        },
        "der": {
            "ssl.ca.pem": root,
            "ssl.certificate.pem": der,
            "ssl.key.pem": key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, plain),
        },
        "traditional der": {
            "ssl_ca": memoryview(root),
            "ssl_certificate": bytearray(der),
            "ssl_key": key.private_bytes(Encoding.DER, PrivateFormat.TraditionalOpenSSL, plain),
        },
        "encrypted der": {
            "ssl.ca.pem": root,
            "ssl.certificate.pem": der,
            "ssl.key.pem": key.private_bytes(
                Encoding.DER, PrivateFormat.PKCS8, BestAvailableEncryption(PASSWORD.encode())
            ),
            "ssl.key.password": PASSWORD,
        },
        "pkcs12": {
            "ssl.ca.pem": pkcs12.serialize_key_and_certificates(
                None,
                None,
                None,
                [x509.load_pem_x509_certificate(authority.cert_pem.bytes())],
                plain,
            ),
            "ssl.certificate.pem": keystore(own),
            "ssl.key.password": PASSWORD,
        },
        "pkcs12 without a password": {
            "ssl.ca.pem": root,
            "ssl.certificate.pem": keystore(own, None),
        },
        "pkcs12 twice": {
            "ssl_ca": root,
            "ssl_certificate": keystore(own),
            "ssl_key": keystore(own),
            "ssl.key.password": PASSWORD,
        },
    }[form]


@pytest.mark.parametrize(
    "form",
    [
        "pem",
        "der",
        "traditional der",
        "encrypted der",
        "pkcs12",
        "pkcs12 without a password",
        "pkcs12 twice",
    ],
)
def test_own_certificate_from_bytes(
    authority: trustme.CA, broker: trustme.LeafCert, form: str
) -> None:
    # a certificate in DER form has no chain, so the root has to issue it
    direct = authority.issue_cert("client@example.org", common_name="the client")
    properties = in_form(form, direct, authority)
    outcome = shake(tls(properties), server(broker, clients=authority))
    assert outcome.succeeded
    assert outcome.client_names[0].startswith("CN=the client")
    shown = repr(parse(properties, "producer"))
    for value in properties.values():
        content = value.encode() if isinstance(value, str) else bytes(value)
        assert repr(content[2:14])[2:-1] not in shown


@pytest.mark.parametrize("form", ["pem", "pkcs12"])
def test_bytes_have_the_intermediate_authorities_too(
    authority: trustme.CA, broker: trustme.LeafCert, own: trustme.LeafCert, form: str
) -> None:
    outcome = shake(tls(in_form(form, own, authority)), server(broker, clients=authority))
    assert outcome.succeeded
    assert len(outcome.client_names) == 3


@pytest.mark.parametrize("password", [PASSWORD, None])
def test_keystore(
    authority: trustme.CA,
    broker: trustme.LeafCert,
    own: trustme.LeafCert,
    tmp_path: Path,
    password: str | None,
) -> None:
    (tmp_path / "own.p12").write_bytes(keystore(own, password))
    properties: dict[str, Any] = {
        "ssl.ca.pem": pem(authority),
        "ssl.keystore.location": str(tmp_path / "own.p12"),
    }
    if password is not None:
        properties["ssl.keystore.password"] = password
    outcome = shake(tls(properties), server(broker, clients=authority))
    assert outcome.succeeded, outcome
    assert "CN=the client" in outcome.client_names[0]
    assert len(outcome.client_names) == 3


def test_broker_refuses_a_client_without_certificate(
    authority: trustme.CA, broker: trustme.LeafCert
) -> None:
    outcome = shake(tls({"ssl.ca.pem": pem(authority)}), server(broker, clients=authority))
    assert "certificate required" in outcome.reason


def test_expired_own_certificate_is_remarked_on(authority: trustme.CA) -> None:
    old = authority.issue_cert("client", not_before=NOW - 10 * DAY, not_after=NOW - 3 * DAY)
    context = tls(
        {
            "ssl.ca.pem": pem(authority),
            "ssl.certificate.pem": chain_of(old),
            "ssl.key.pem": key_of(old),
        }
    )
    (remark,) = context.remarks
    assert f"expired on {NOW - 3 * DAY:%Y-%m-%d}" in remark
    assert "ssl.certificate.pem" in remark


# --- trusted authorities ---


def test_ca_directory_of_pem_files(
    authority: trustme.CA, broker: trustme.LeafCert, tmp_path: Path
) -> None:
    (tmp_path / "one.crt").write_text(pem(trustme.CA()))
    (tmp_path / "two.pem").write_text(pem(trustme.CA()) + pem(authority))
    (tmp_path / "key.pem").write_text(key_of(broker))
    (tmp_path / "readme.txt").write_text("ignored")
    assert shake(tls({"ssl.ca.location": str(tmp_path)}), server(broker)).succeeded
    (tmp_path / "two.pem").unlink()
    assert not shake(tls({"ssl.ca.location": str(tmp_path)}), server(broker)).succeeded


def test_ca_directory_with_hashed_names(
    authority: trustme.CA, broker: trustme.LeafCert, tmp_path: Path
) -> None:
    own = crypto.X509.from_cryptography(x509.load_pem_x509_certificate(authority.cert_pem.bytes()))
    (tmp_path / f"{own.subject_name_hash():08x}.0").write_text(pem(authority))
    assert shake(tls({"ssl.ca.location": str(tmp_path)}), server(broker)).succeeded
    assert not shake(
        tls({"ssl.ca.location": str(tmp_path)}), server(trustme.CA().issue_cert(HOST))
    ).succeeded


def test_ca_file_and_text_are_both_trusted(
    authority: trustme.CA, broker: trustme.LeafCert, tmp_path: Path
) -> None:
    (tmp_path / "ca.pem").write_text(pem(trustme.CA()))
    context = tls({"ssl.ca.location": str(tmp_path / "ca.pem"), "ssl.ca.pem": pem(authority)})
    assert shake(context, server(broker)).succeeded
    assert context.authorities.where() == f"ssl.ca.location={tmp_path / 'ca.pem'} and ssl.ca.pem"


def test_intermediate_authority_is_trusted_without_its_root(authority: trustme.CA) -> None:
    below = authority.create_child_ca()
    assert shake(tls({"ssl.ca.pem": pem(below)}), server(below.issue_cert(HOST))).succeeded
    assert not shake(tls({"ssl.ca.pem": pem(below)}), server(authority.issue_cert(HOST))).succeeded


def test_system_locations_are_tried_in_order(
    authority: trustme.CA, broker: trustme.LeafCert, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing, empty, broken, good = (
        str(tmp_path / name) for name in ("missing", "empty", "broken.pem", "good.pem")
    )
    os.mkdir(empty)
    Path(broken).write_text("nothing")
    Path(good).write_text(pem(authority))
    _no_environment(monkeypatch)
    monkeypatch.setattr(authorities, "CA_LOCATIONS", (missing, empty, broken, good))
    for properties in ({}, {"ssl.ca.location": "probe"}):
        context = tls(properties)
        assert shake(context, server(broker)).succeeded
        assert context.authorities.trusted == [good]
        assert [location.split(":")[0] for location in context.authorities.tried] == [
            missing,
            empty,
            broken,
        ]
    monkeypatch.setenv("SSL_CERT_FILE", broken)
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    assert tls({}).authorities.trusted == [str(tmp_path)]
    assert tls({"ssl.ca.pem": pem(trustme.CA())}).authorities.trusted == ["ssl.ca.pem"], (
        "configured authorities replace those of the system"
    )


def test_certifi_is_the_last_resort(monkeypatch: pytest.MonkeyPatch) -> None:
    certifi = pytest.importorskip("certifi")
    _no_environment(monkeypatch)
    monkeypatch.setattr(authorities, "CA_LOCATIONS", ("/nowhere/ca.pem",))
    assert (
        tls({}).authorities.where()
        == f"{certifi.where()} (ssl.ca.location isn't set; tried: /nowhere/ca.pem)"
    )


def test_no_authorities_at_all_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    _no_environment(monkeypatch)
    monkeypatch.setattr(authorities, "CA_LOCATIONS", ("/nowhere/ca.pem",))
    monkeypatch.setattr(authorities, "_certifi", list)
    with pytest.raises(KafkaException, match=r"tried: /nowhere/ca\.pem.*set ssl\.ca\.location"):
        tls({})
    assert not tls({"enable.ssl.certificate.verification": False}).authorities.trusted


def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in authorities.ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)


def test_revocation_list(authority: trustme.CA, broker: trustme.LeafCert, tmp_path: Path) -> None:
    path = tmp_path / "crl.pem"
    properties = {"ssl.ca.pem": pem(authority), "ssl.crl.location": str(path)}
    path.write_text(revocation_list(authority, authority.issue_cert("other")))
    assert shake(tls(properties), server(broker)).succeeded
    path.write_text(
        revocation_list(trustme.CA(organization_name="Other")) + revocation_list(authority, broker)
    )
    assert shake(tls(properties), server(broker)).verify_error == 23
    path.write_text(revocation_list(trustme.CA(organization_name="Other")))
    assert shake(tls(properties), server(broker)).verify_error == 3, (
        "without a list of this issuer every broker is refused"
    )
    path.write_text(revocation_list(authority, days=-2))
    assert shake(tls(properties), server(broker)).verify_error == 12
    # A CA in the file of revocation lists isn't trusted.
    path.write_text(revocation_list(authority) + pem(authority))
    other = {"ssl.ca.pem": pem(trustme.CA()), "ssl.crl.location": str(path)}
    assert not shake(tls(other), server(broker)).succeeded


def test_revoked_intermediate(authority: trustme.CA, tmp_path: Path) -> None:
    """With ssl.crl.check=chain a revoked intermediate invalidates the certificates below it."""
    below = authority.create_child_ca()
    leaf, path = below.issue_cert(HOST), tmp_path / "crl.pem"
    chain = {"ssl.ca.pem": pem(authority), "ssl.crl.location": str(path), "ssl.crl.check": "chain"}
    leaf_alone = {**chain, "ssl.crl.check": "leaf"}
    path.write_text(revocation_list(authority) + revocation_list(below))
    assert shake(tls(chain), server(leaf)).succeeded
    path.write_text(revocation_list(authority, below) + revocation_list(below))
    assert shake(tls(chain), server(leaf)).verify_error == 23
    assert shake(tls(leaf_alone), server(leaf)).succeeded, (
        "the broker's own certificate isn't revoked"
    )
    path.write_text(revocation_list(authority) + revocation_list(below, leaf))
    assert shake(tls(chain), server(leaf)).verify_error == 23
    assert shake(tls(leaf_alone), server(leaf)).verify_error == 23


def test_list_that_is_missing_for_a_chain(authority: trustme.CA, tmp_path: Path) -> None:
    below = authority.create_child_ca()
    leaf, path = below.issue_cert(HOST), tmp_path / "crl.pem"
    chain = {"ssl.ca.pem": pem(authority), "ssl.crl.location": str(path), "ssl.crl.check": "chain"}
    path.write_text(revocation_list(below))
    assert shake(tls(chain), server(leaf)).verify_error == 3, (
        "without a list of the root every broker is refused"
    )
    assert shake(tls({**chain, "ssl.crl.check": "leaf"}), server(leaf)).succeeded
    path.write_text(revocation_list(authority, days=-2) + revocation_list(below))
    assert shake(tls(chain), server(leaf)).verify_error == 12
    # A trusted authority without its root: no list says whether it is revoked.
    path.write_text(revocation_list(authority) + revocation_list(below))
    assert shake(tls({**chain, "ssl.ca.pem": pem(below)}), server(leaf)).verify_error == 2
    assert shake(tls({**chain, "ssl.ca.pem": pem(below) + pem(authority)}), server(leaf)).succeeded
    with pytest.raises(
        KafkaException, match=r"ssl\.crl\.check=chain.*hint: set ssl\.crl\.location"
    ):
        tls({"ssl.ca.pem": pem(authority), "ssl.crl.check": "chain"})


# --- versions, suites, curves, signatures ---


def test_versions_are_1_2_and_1_3(authority: trustme.CA, broker: trustme.LeafCert) -> None:
    listener = server(broker)
    listener.set_max_proto_version(SSL.TLS1_2_VERSION)
    outcome = shake(tls({"ssl.ca.pem": pem(authority)}), listener)
    assert (outcome.succeeded, outcome.version) == (True, "TLSv1.2")
    # A client that offers at most TLS 1.1 has no usable version.
    context = tls({"ssl.ca.pem": pem(authority), "ssl.cipher.suites": "ALL@SECLEVEL=0"})
    context.context.set_max_proto_version(SSL.TLS1_1_VERSION)
    assert "no protocols available" in shake(context, server(broker)).reason


def test_renegotiation_is_off(authority: trustme.CA) -> None:
    options = openssl.lib.SSL_CTX_get_options(tls({"ssl.ca.pem": pem(authority)}).context._context)
    assert options & SSL.OP_NO_RENEGOTIATION


def test_cipher_suites(authority: trustme.CA, broker: trustme.LeafCert) -> None:
    older, newer = "ECDHE-ECDSA-AES128-GCM-SHA256", "TLS_CHACHA20_POLY1305_SHA256"
    both = {"ssl.ca.pem": pem(authority), "ssl.cipher.suites": f"{newer}:{older}"}
    listener = server(broker)
    assert shake(tls(both), listener).cipher == newer
    listener = server(broker)
    listener.set_max_proto_version(SSL.TLS1_2_VERSION)
    assert shake(tls(both), listener).cipher == older
    listener = server(broker)
    listener.set_max_proto_version(SSL.TLS1_2_VERSION)
    listener.set_cipher_list(b"ECDHE-ECDSA-AES256-GCM-SHA384")
    assert "handshake failure" in shake(tls(both), listener).reason
    # Suites of TLS 1.3 only leave TLS 1.2 out.
    outcome = shake(tls({**both, "ssl.cipher.suites": newer}), listener)
    assert "protocol version" in outcome.reason or "handshake failure" in outcome.reason


def test_suites_without_certificates_are_never_offered(authority: trustme.CA) -> None:
    context = tls(
        {"ssl.ca.pem": pem(authority), "ssl.cipher.suites": "ALL:COMPLEMENTOFDEFAULT@SECLEVEL=0"}
    )
    offered = SSL.Connection(context.context, None).get_cipher_list()
    assert offered
    assert not [name for name in offered if "NULL" in name or name.startswith(("ADH-", "AECDH-"))]


def test_unknown_suites_are_remarked_on(authority: trustme.CA) -> None:
    suites = (
        "TLS_AES_128_GCM_SHA256,TLS_NONSENSE, ECDHE-RSA-AES128-GCM-SHA256:NONSENSE-SHA:!RC4:HIGH"
    )
    (remark,) = tls({"ssl.ca.pem": pem(authority), "ssl.cipher.suites": suites}).remarks
    assert remark.endswith(" has no TLS_NONSENSE, NONSENSE-SHA")


def test_curves(authority: trustme.CA, broker: trustme.LeafCert) -> None:
    if not hasattr(openssl.lib, "SSL_CTX_set1_curves_list"):
        pytest.skip("this cryptography has no SSL_CTX_set1_curves_list")
    listener = server(broker)
    assert openssl.lib.SSL_CTX_set1_curves_list(listener._context, b"P-384") == 1
    properties = {"ssl.ca.pem": pem(authority)}
    assert shake(tls({**properties, "ssl.curves.list": "X25519:P-384"}), listener).succeeded
    assert not shake(tls({**properties, "ssl.curves.list": "X25519:P-256"}), listener).succeeded


def test_signature_algorithms(authority: trustme.CA, broker: trustme.LeafCert) -> None:
    properties = {"ssl.ca.pem": pem(authority)}
    assert shake(tls({**properties, "ssl.sigalgs.list": "ECDSA+SHA256"}), server(broker)).succeeded
    outcome = shake(tls({**properties, "ssl.sigalgs.list": "RSA-PSS+SHA256"}), server(broker))
    assert "handshake failure" in outcome.reason


# --- files that change ---


def test_changed_files_are_noticed(
    authority: trustme.CA, own: trustme.LeafCert, tmp_path: Path
) -> None:
    paths = {
        "ssl.ca.location": (tmp_path / "ca.pem", pem(authority)),
        "ssl.crl.location": (tmp_path / "crl.pem", revocation_list(authority)),
        "ssl.certificate.location": (tmp_path / "own.pem", chain_of(own)),
        "ssl.key.location": (tmp_path / "own.key", key_of(own)),
    }
    for path, text in paths.values():
        path.write_text(text)
    properties = {name: str(path) for name, (path, _) in paths.items()}
    for path, text in paths.values():
        context = tls(properties)
        assert not context.changed()
        new = tmp_path / "new"
        new.write_text(text + "\n")
        new.replace(path)
        assert context.changed(), path
        assert not tls(properties).changed()
    context = tls(properties)
    (tmp_path / "own.key").unlink()
    assert context.changed(), "a deleted file has changed too"


def test_change_behind_a_symbolic_link_is_noticed(authority: trustme.CA, tmp_path: Path) -> None:
    """Kubernetes swaps the files of a secret like this."""
    for version in ("v1", "v2"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "ca.pem").write_text(pem(authority))
    (tmp_path / "data").symlink_to("v1")
    context = tls({"ssl.ca.location": str(tmp_path / "data" / "ca.pem")})
    assert not context.changed()
    (tmp_path / "next").symlink_to("v2")
    (tmp_path / "next").replace(tmp_path / "data")
    assert context.changed()


def test_new_file_in_a_directory_is_noticed(authority: trustme.CA, tmp_path: Path) -> None:
    (tmp_path / "one.pem").write_text(pem(authority))
    context = tls({"ssl.ca.location": str(tmp_path)})
    assert not context.changed()
    (tmp_path / "two.pem").write_text(pem(trustme.CA()))
    assert context.changed()
