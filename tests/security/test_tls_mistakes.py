"""An error of an ssl.* property names the property, and shows no secret."""

from __future__ import annotations

import base64
import os
import pickle
import ssl
import traceback
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trustme
from cryptography.hazmat.primitives.asymmetric import x25519
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from kafka_native.errors import KafkaError, KafkaException
from kafka_native.security import openssl
from tests.security.certificates import PASSWORD, encrypted, keystore, revocation_list
from tests.security.handshakes import chain_of, der_of, key_of, pem, tls

AUTHORITY = trustme.CA()
OWN = AUTHORITY.issue_cert(
    "client@example.org", common_name="the client", organization_name="Client"
)
OTHER = AUTHORITY.issue_cert("other@example.org")
KEY_BODY = key_of(OWN).splitlines()[1]
X25519 = (
    x25519.X25519PrivateKey.generate()
    .private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    .decode()
)


def refused(properties: dict[str, Any]) -> str:
    """Return the error's text. Neither it nor a traceback contains a secret."""
    with pytest.raises(KafkaException) as caught:
        tls({"ssl.ca.pem": pem(AUTHORITY), **properties})
    assert caught.value.args[0].code() in (KafkaError._INVALID_ARG, KafkaError._SSL)
    text = str(caught.value)
    for shown in (
        "".join(traceback.format_exception(caught.value)),
        repr(caught.value),
        pickle.dumps(caught.value),
    ):
        for secret in (PASSWORD, KEY_BODY):
            assert secret not in str(shown)
    return text


NEEDS_CURVES = pytest.mark.skipif(
    not hasattr(openssl.lib, "SSL_CTX_set1_curves_list"),
    reason="this cryptography has no SSL_CTX_set1_curves_list",
)
LOCATIONS = ["ssl.ca.location", "ssl.crl.location", "ssl.keystore.location"]
PAIRS = {
    "ssl.certificate.location": {"ssl.key.pem": key_of(OWN)},
    "ssl.key.location": {"ssl.certificate.pem": chain_of(OWN)},
}


@pytest.mark.parametrize("name", [*LOCATIONS, *PAIRS])
def test_missing_and_irregular_files(tmp_path: Path, name: str) -> None:
    properties = PAIRS.get(name, {})
    path = tmp_path / "x.pem"
    assert f"{name}={path}: no such file" in refused({**properties, name: str(path)})
    assert f"the path is relative to {os.getcwd()}" in refused({**properties, name: "not-here.pem"})
    os.mkfifo(path)
    assert f"{name}={path}: not a regular file" in refused({**properties, name: str(path)})
    if name != "ssl.ca.location":
        assert f"{name}={tmp_path}: Is a directory" in refused({**properties, name: str(tmp_path)})
    assert f"{name}=a\\x00b: embedded null" in refused({**properties, name: "a\0b"})


def test_file_that_is_too_long(tmp_path: Path) -> None:
    path = tmp_path / "x.pem"
    with path.open("wb") as file:
        file.truncate(16 * 2**20 + 1)
    assert f"ssl.ca.location={path}: longer than 16 MiB" in refused({"ssl.ca.location": str(path)})


@pytest.mark.parametrize("name", [*LOCATIONS, *PAIRS])
@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (b"", "it is empty"),
        (b"hello", "a PEM text begins with -----BEGIN"),
        (
            b"\xfe\xed\xfe\xed\0\0\0\2",
            "it is a Java keystore: keytool -importkeystore -srckeystore ",
        ),
        (
            pem(AUTHORITY).replace("\n", "\\n").encode()[:200],
            "its line ends are a backslash and an n",
        ),
    ],
)
def test_files_with_other_content(tmp_path: Path, name: str, content: bytes, cause: str) -> None:
    path = tmp_path / "x.pem"
    path.write_bytes(content)
    text = refused({**PAIRS.get(name, {}), name: str(path)})
    assert f"{name}={path}: " in text
    assert cause in text


def test_der_is_recognised(tmp_path: Path) -> None:
    path = tmp_path / "x.der"
    path.write_bytes(der_of(OWN))
    assert "it seems to be in DER form" in refused({"ssl.ca.location": str(path)})
    assert "it can't be opened: it needs a password" in refused(
        {"ssl.keystore.location": str(path)}
    )


def test_certificate_in_place_of_a_key_and_the_reverse() -> None:
    text = refused({"ssl.certificate.pem": key_of(OWN), "ssl.key.pem": key_of(OWN)})
    assert "ssl.certificate.pem: no certificate in PEM form in it" in text
    assert "what it holds: ec private key" in text or "what it holds: private key" in text
    text = refused({"ssl.certificate.pem": chain_of(OWN), "ssl.key.pem": chain_of(OWN)})
    assert "ssl.key.pem: no private key in PEM form in it" in text
    assert "what it holds: certificate" in text


OWN_KEY: Any = load_pem_private_key(OWN.private_key_pem.bytes(), None)
DER_KEY = OWN_KEY.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
LOCKED_KEY = OWN_KEY.private_bytes(
    Encoding.DER, PrivateFormat.PKCS8, BestAvailableEncryption(PASSWORD.encode())
)


@pytest.mark.parametrize(
    ("properties", "cause"),
    [
        ({"ssl.ca.pem": b"0"}, "ssl.ca.pem: neither a certificate in DER form nor a PKCS#12 store"),
        ({"ssl.ca.pem": DER_KEY}, "ssl.ca.pem: neither a certificate in DER form"),
        ({"ssl.ca.pem": b"nothing"}, "ssl.ca.pem: no certificate in PEM form in it"),
        ({"ssl_ca": DER_KEY}, "ssl.ca.pem: neither a certificate in DER form"),
        ({"ssl_ca": b"0", "ssl.ca.pem": "x"}, "`ssl_ca` and `ssl.ca.pem` are mutually exclusive"),
        (
            {"ssl.ca.pem": keystore(OWN)},
            "ssl.ca.pem: it can't be opened: it needs a password: set ",
        ),
        (
            {"ssl.ca.pem": der_of(OWN) + der_of(OTHER)},
            "hint: several certificates need PEM or PKCS#12 form",
        ),
        (
            {"ssl.certificate.pem": der_of(OWN)},
            "ssl.certificate.pem: there is no key for it",
        ),
        (
            {"ssl.certificate.pem": der_of(OWN), "ssl.key.pem": der_of(OWN)},
            "ssl.key.pem: neither a private key in DER form nor a PKCS#12 store",
        ),
        (
            {"ssl.certificate.pem": DER_KEY, "ssl.key.pem": DER_KEY},
            "ssl.certificate.pem: neither a certificate in DER form",
        ),
        (
            {"ssl.certificate.pem": der_of(OWN), "ssl.key.pem": LOCKED_KEY},
            "ssl.key.pem: the key is encrypted",
        ),
        (
            {
                "ssl.certificate.pem": der_of(OWN),
                "ssl.key.pem": LOCKED_KEY,
                "ssl.key.password": "wrong",
            },
            "ssl.key.pem: the key can't be decrypted: wrong ssl.key.password, or damaged",
        ),
        (
            {"ssl.certificate.pem": der_of(OTHER), "ssl.key.pem": DER_KEY},
            "the key of ssl.key.pem isn't the one of the certificate of ssl.certificate.pem",
        ),
        (
            {"ssl.certificate.pem": keystore(OWN)},
            "ssl.certificate.pem: it can't be opened: it needs a password: set ssl.key.password",
        ),
        (
            {"ssl.certificate.pem": keystore(OWN), "ssl.key.password": "wrong"},
            "ssl.certificate.pem: it can't be opened: wrong ssl.key.password, or damaged",
        ),
        (
            {"ssl.certificate.pem": keystore(OWN, with_key=False), "ssl.key.password": PASSWORD},
            "ssl.certificate.pem: there is no private key in it",
        ),
    ],
)
def test_bytes_with_other_content(properties: dict[str, Any], cause: str) -> None:
    text = refused({"ssl.ca.pem": None, **properties} if "ssl_ca" in properties else properties)
    assert cause in text
    assert DER_KEY[30:50].hex() not in text
    assert repr(DER_KEY[30:40])[2:-1] not in text


DAMAGED = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


def test_damaged_files(tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    path.write_text(pem(AUTHORITY) + DAMAGED)
    assert f"ssl.ca.location={path}: " in refused({"ssl.ca.location": str(path)})
    assert "ssl.ca.pem: certificate 2 of 2 can't be read: " in refused(
        {"ssl.ca.pem": pem(AUTHORITY) + DAMAGED}
    )
    text = refused({"ssl.certificate.pem": chain_of(OWN) + DAMAGED, "ssl.key.pem": key_of(OWN)})
    assert "ssl.certificate.pem: certificate 2 of 2 can't be read: " in text
    lines = key_of(OWN).splitlines()
    damaged = "\n".join([lines[0], lines[2], lines[1], *lines[3:]])
    text = refused({"ssl.certificate.pem": chain_of(OWN), "ssl.key.pem": damaged})
    assert "ssl.key.pem: the key can't be read" in text
    (tmp_path / "crl.pem").write_text(DAMAGED.replace("CERTIFICATE", "X509 CRL"))
    assert "a revocation list can't be read" in refused(
        {"ssl.crl.location": str(tmp_path / "crl.pem")}
    )


def test_damage_that_only_openssl_notices(tmp_path: Path) -> None:
    """A broken file also comes up while the client runs, and must not disturb it."""

    def damaged(der: bytes) -> bytes:
        found = der.replace(b"trustme", b"\xff\xff\xff\xff\xff\xff\xff")  # not UTF-8
        assert found != der
        return found

    ca = damaged(ssl.PEM_cert_to_DER_cert(pem(AUTHORITY)))
    assert "ssl.ca.pem: a certificate can't be read: " in refused({"ssl.ca.pem": ca})
    path = tmp_path / "crl.pem"
    begin, end = (f"-----{word} X509 CRL-----" for word in ("BEGIN", "END"))
    der = base64.b64decode(revocation_list(AUTHORITY).replace(begin, "").replace(end, ""))
    version = der.replace(bytes([2, 1, 1, 0x30]), bytes([2, 1, 33, 0x30]), 1)
    assert version != der
    for each in (damaged(der), version):
        path.write_text(f"{begin}\n{base64.encodebytes(each).decode()}{end}\n")
        text = refused({"ssl.crl.location": str(path)})
        assert f"ssl.crl.location={path}: a revocation list can't be read: " in text


def test_password_of_a_key() -> None:
    properties = {"ssl.certificate.pem": chain_of(OWN), "ssl.key.pem": encrypted(OWN)}
    assert "ssl.key.pem: the key is encrypted" in refused(properties)
    text = refused({**properties, "ssl.key.password": f"{PASSWORD}-not"})
    assert "ssl.key.pem: the key can't be decrypted: wrong ssl.key.password" in text


def test_password_of_a_keystore(tmp_path: Path) -> None:
    path = tmp_path / "own.p12"
    path.write_bytes(keystore(OWN))
    properties = {"ssl.keystore.location": str(path)}
    assert f"{path}: it can't be opened: it needs a password: set ssl.keystore.password" in refused(
        properties
    )
    text = refused({**properties, "ssl.keystore.password": f"{PASSWORD}-not"})
    assert f"ssl.keystore.location={path}: it can't be opened: wrong ssl.keystore.password" in text
    path.write_bytes(keystore(OWN, with_key=False))
    text = refused({**properties, "ssl.keystore.password": PASSWORD})
    assert f"ssl.keystore.location={path}: there is no private key in it" in text


def test_key_of_another_certificate() -> None:
    text = refused({"ssl.certificate.pem": chain_of(OWN), "ssl.key.pem": key_of(OTHER)})
    assert (
        "the key of ssl.key.pem isn't the one of the certificate of ssl.certificate.pem, "
        "CN=the client" in text
    )
    assert "first one" not in text
    text = refused(
        {"ssl.certificate.pem": pem(AUTHORITY) + chain_of(OWN), "ssl.key.pem": key_of(OWN)}
    )
    assert "it has to be the first one of the file" in text


def test_key_that_tls_cannot_use() -> None:
    text = refused({"ssl.certificate.pem": chain_of(OWN), "ssl.key.pem": X25519})
    assert "ssl.key.pem" in text


def test_half_an_identity(tmp_path: Path) -> None:
    path = tmp_path / "x.pem"
    path.write_text(chain_of(OWN) + key_of(OWN))
    text = refused({"ssl.certificate.location": str(path)})
    assert f"ssl.certificate.location={path}: there is no key for it" in text
    text = refused({"ssl.key.location": str(path)})
    assert f"ssl.key.location={path}: there is no certificate for it" in text
    # Both may be one file.
    assert tls(
        {
            "ssl.ca.pem": pem(AUTHORITY),
            "ssl.certificate.location": str(path),
            "ssl.key.location": str(path),
        }
    )


def test_contradictions(tmp_path: Path) -> None:
    both = {"ssl.certificate.pem": chain_of(OWN), "ssl.key.pem": key_of(OWN)}
    path = str(tmp_path / "x.pem")
    text = refused({**both, "ssl.certificate.location": path})
    assert "ssl.certificate.location and ssl.certificate.pem: set one of them" in text
    assert "ssl.key.location and ssl.key.pem: set one of them" in refused(
        {**both, "ssl.key.location": path}
    )
    text = refused({**both, "ssl.keystore.location": path})
    assert "ssl.keystore.location and ssl.certificate.pem: set one of them" in text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ssl.cipher.suites", "NONSENSE"),
        ("ssl.cipher.suites", "TLS_NONSENSE"),
        ("ssl.cipher.suites", " , "),
        ("ssl.cipher.suites", "aNULL"),
        ("ssl.cipher.suites", "HIGH\0"),
        pytest.param("ssl.curves.list", "nonsense", marks=NEEDS_CURVES),
        ("ssl.sigalgs.list", "nonsense"),
    ],
)
def test_lists_without_known_names(name: str, value: str) -> None:
    assert f"{name}: " in refused({name: value})
    assert openssl.error_reason() == "", "the queue is empty again"


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("ssl.cipher.suites", "SSL_CTX_set_cipher_list"),
        ("ssl.curves.list", "SSL_CTX_set1_curves_list"),
        ("ssl.sigalgs.list", "SSL_CTX_set1_sigalgs_list"),
    ],
)
def test_missing_function_of_openssl_is_an_error(
    monkeypatch: pytest.MonkeyPatch, name: str, function: str
) -> None:
    _without(monkeypatch, function)
    text = refused({name: "P-256"})
    assert f"{name} can't be set: cryptography " in text
    assert f"has no {function}" in text


def test_missing_function_of_the_transport_is_an_error() -> None:
    with pytest.raises(KafkaException) as caught:
        openssl.address_of("SSL_nonsense")
    assert caught.value.args[0] == KafkaError._SSL
    assert "has no SSL_nonsense (pyOpenSSL " in str(caught.value)
    assert "pip install --upgrade cryptography pyOpenSSL" in str(caught.value)


def _without(monkeypatch: pytest.MonkeyPatch, function: str) -> None:
    """Remove a function, as in an older cryptography package."""
    own = openssl.lib
    monkeypatch.setattr(
        openssl, "lib", SimpleNamespace(**{n: getattr(own, n) for n in dir(own) if n != function})
    )


def test_repr_has_no_secret(tmp_path: Path) -> None:
    properties = {
        "ssl.ca.pem": pem(AUTHORITY),
        "ssl.certificate.pem": chain_of(OWN),
        "ssl.key.pem": encrypted(OWN),
        "ssl.key.password": PASSWORD,
    }
    context = tls(properties)
    shown = repr(context) + repr(vars(context)) + str(context.identity)
    assert "CN=the client" in shown
    assert PASSWORD not in shown
    assert encrypted(OWN).splitlines()[1] not in shown
    assert context.identity is not None
    assert context.identity.key is None
