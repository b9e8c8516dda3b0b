"""Certificates that trustme can't make."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)

PASSWORD = "marked-secret"
NOW = datetime.now(timezone.utc)
DAY = timedelta(days=1)


def encrypted(leaf: trustme.LeafCert, form: PrivateFormat = PrivateFormat.PKCS8) -> str:
    """Return a key as a PEM text, encrypted with PASSWORD."""
    key: Any = load_pem_private_key(leaf.private_key_pem.bytes(), None)
    return str(
        key.private_bytes(Encoding.PEM, form, BestAvailableEncryption(PASSWORD.encode())).decode()
    )


def keystore(
    leaf: trustme.LeafCert, password: str | None = PASSWORD, *, with_key: bool = True
) -> bytes:
    """Return a PKCS#12 keystore. Its CA certificates are in the wrong order."""
    key: Any = load_pem_private_key(leaf.private_key_pem.bytes(), None)
    own, *above = [x509.load_pem_x509_certificate(each.bytes()) for each in leaf.cert_chain_pems]
    encryption = NoEncryption() if password is None else BestAvailableEncryption(password.encode())
    return pkcs12.serialize_key_and_certificates(
        b"client",
        key if with_key else None,
        own if with_key else None,
        [*reversed(above)] or [own],
        encryption,
    )


def revocation_list(
    authority: trustme.CA, *revoked: trustme.LeafCert | trustme.CA, days: int = 1
) -> str:
    """Return the authority's revocation list, for certificates and lower authorities.

    ``days`` is the time until the next list.
    """
    own = x509.load_pem_x509_certificate(authority.cert_pem.bytes())
    key: Any = load_pem_private_key(authority.private_key_pem.bytes(), None)
    builder = x509.CertificateRevocationListBuilder().issuer_name(own.subject)
    builder = builder.last_update(NOW - 10 * DAY).next_update(NOW + days * DAY)
    for each in revoked:
        text = each.cert_pem if isinstance(each, trustme.CA) else each.cert_chain_pems[0]
        number = x509.load_pem_x509_certificate(text.bytes()).serial_number
        entry = (
            x509.RevokedCertificateBuilder()
            .serial_number(number)
            .revocation_date(NOW - DAY)
            .build()
        )
        builder = builder.add_revoked_certificate(entry)
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM).decode()


def issued(
    authority: trustme.CA, common_name: str, names: list[x509.GeneralName], key: Any = None
) -> tuple[str, str]:
    """Return an authority's certificate with these alternative names, and its key, both as PEM."""
    key = key or ec.generate_private_key(ec.SECP256R1())
    above = x509.load_pem_x509_certificate(authority.cert_pem.bytes())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(above.subject)
        .public_key(key.public_key())
    )
    builder = (
        builder.serial_number(x509.random_serial_number())
        .not_valid_before(NOW - DAY)
        .not_valid_after(NOW + DAY)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    signing: Any = load_pem_private_key(authority.private_key_pem.bytes(), None)
    certificate = builder.sign(signing, hashes.SHA256())
    own_key = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return certificate.public_bytes(Encoding.PEM).decode(), own_key.decode()


def hostile(names: list[str], common_name: str) -> bytes:
    """Return a certificate in DER form with any names."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name)])
    builder = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    )
    builder = builder.serial_number(7).not_valid_before(NOW - DAY).not_valid_after(NOW + DAY)
    if names:
        builder = builder.add_extension(
            x509.SubjectAlternativeName([x509.DNSName(n) for n in names]), critical=False
        )
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.DER)
