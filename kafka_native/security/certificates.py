"""Certificates, keys and keystores: reading them, and saying what is wrong with one that can't be read."""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    pkcs12,
)

from kafka_native.cleaning import clean

from .sources import Material, refuse

PrivateKey = Any  # cryptography's own union of kinds of keys isn't public

_BLOCK: Final = re.compile(rb"-----BEGIN ([A-Z0-9 ]{1,40})-----.*?-----END \1-----", re.DOTALL)
_CERTIFICATE: Final = (b"CERTIFICATE", b"X509 CERTIFICATE")
_CRL: Final = (b"X509 CRL",)
_KEY: Final = b"PRIVATE KEY"
_DER: Final = 0x30
_JKS: Final = b"\xfe\xed\xfe\xed"


class Identity(NamedTuple):
    """What a client shows of itself."""

    certificate: x509.Certificate
    chain: list[x509.Certificate]
    """Those between it and an authority, in order."""
    key: PrivateKey
    source: str
    """The properties it is from, for messages."""


def certificate_blocks(material: Material, *more: bytes) -> list[bytes]:
    """The certificates of a PEM text, each one still in this form; at least one.

    :param more: Other labels that are certificates, too.
    :raises KafkaException: If there is none.
    """
    blocks = blocks_of(material.content, *_CERTIFICATE, *more)
    if not blocks:
        refuse(f"{material}: no certificate in PEM form in it", _what_instead(material))
    return blocks


def certificates(material: Material) -> list[x509.Certificate]:
    """The certificates of a PEM text, in its order; at least one.

    :raises KafkaException: If there is none, or one can't be read.
    """
    blocks = certificate_blocks(material)
    found = []
    for number, block in enumerate(blocks, 1):
        try:
            found.append(x509.load_pem_x509_certificate(block))
        except Exception as error:  # cryptography has many: InvalidVersion, KeyError ...
            refuse(f"{material}: certificate {number} of {len(blocks)} can't be read: {error}")
    return found


def revocation_lists(material: Material) -> list[x509.CertificateRevocationList]:
    """The revocation lists of a PEM text; at least one.

    :raises KafkaException: If there is none, or one can't be read.
    """
    blocks = blocks_of(material.content, *_CRL)
    if not blocks:
        refuse(f"{material}: no revocation list in PEM form in it", _what_instead(material))
    try:
        return [x509.load_pem_x509_crl(block) for block in blocks]
    except (ValueError, UnsupportedAlgorithm) as error:
        refuse(f"{material}: a revocation list can't be read: {error}")


def private_key(material: Material, password: str) -> PrivateKey:
    """The first private key of a PEM text.

    :param password: Its passphrase, empty for none; not needed for a key that isn't encrypted.
    :raises KafkaException: If there is none, or it can't be read or decrypted. Nothing of the key is in the error.
    """
    blocks = [match[0] for match in _BLOCK.finditer(material.content) if match[1].endswith(_KEY)]
    if not blocks:
        refuse(f"{material}: no private key in PEM form in it", _what_instead(material))
    encrypted = b"ENCRYPTED" in blocks[0][:200]
    if encrypted and not password:
        refuse(f"{material}: the key is encrypted", "set ssl.key.password")
    try:
        return load_pem_private_key(blocks[0], password.encode() if encrypted else None)
    except UnsupportedAlgorithm as error:
        refuse(f"{material}: the key's kind, or its encryption, isn't supported: {error}")
    except (ValueError, TypeError):
        if encrypted:
            refuse(
                f"{material}: the key can't be decrypted: wrong ssl.key.password, or a damaged file"
            )
        refuse(f"{material}: the key can't be read: is the file damaged?")


def keystore(material: Material, password: str | None) -> Identity:
    """Key, certificate and chain of a PKCS#12 file.

    :param password: None: there is none.
    :raises KafkaException: If it is no such file, the password is another one, or something is missing in it.
    """
    if material.content[:1] != bytes([_DER]):
        refuse(f"{material}: not a PKCS#12 keystore", _what_instead(material))
    try:
        store = pkcs12.load_pkcs12(
            material.content, None if password is None else password.encode()
        )
    except UnsupportedAlgorithm as error:
        refuse(
            f"{material}: it is encrypted in a way that isn't supported: {error}",
            "export it anew, with AES-256",
        )
    except (ValueError, TypeError):
        what = (
            "it needs a password: set ssl.keystore.password"
            if password is None
            else "wrong ssl.keystore.password"
        )
        refuse(f"{material}: it can't be opened: {what}, or a damaged file")
    if store.key is None or store.cert is None:
        refuse(
            f"{material}: there is no {'private key' if store.key is None else 'certificate of the key'} in it"
        )
    own = store.cert.certificate
    return Identity(
        own,
        _chain(own, [each.certificate for each in store.additional_certs]),
        store.key,
        str(material),
    )


def identity(chain: Material, key: Material, password: str) -> Identity:
    """A certificate with its chain, and the key for it.

    :raises KafkaException: If one of them can't be read, or they don't belong together.
    """
    own, *rest = certificates(chain)
    secret = private_key(key, password)
    if not belongs(secret, own):
        hint = (
            "it has to be the first one of the file"
            if any(belongs(secret, each) for each in rest)
            else None
        )
        refuse(
            f"the key of {key} isn't the one of the certificate of {chain}, {subject(own)}", hint
        )
    return Identity(own, rest, secret, f"{chain} and {key}")


def belongs(key: PrivateKey, certificate: x509.Certificate) -> bool:
    """Whether the key is the certificate's."""
    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    try:
        return bool(
            key.public_key().public_bytes(*form) == certificate.public_key().public_bytes(*form)
        )
    except (ValueError, UnsupportedAlgorithm):  # a certificate for a kind of key that isn't known
        return False


def blocks_of(content: bytes, *labels: bytes) -> list[bytes]:
    """The PEM blocks with one of these labels."""
    return [match[0] for match in _BLOCK.finditer(content) if match[1] in labels]


def subject(certificate: x509.Certificate) -> str:
    """Whose certificate it is, readable and short."""
    return clean(certificate.subject.rfc4514_string()) or "without a name"


def _chain(own: x509.Certificate, others: list[x509.Certificate]) -> list[x509.Certificate]:
    """Those of the others that lead on from a certificate, one after the other: keystores have no order."""
    found: list[x509.Certificate] = []
    last = own
    while last.issuer != last.subject:
        following = [each for each in others if each.subject == last.issuer and each not in found]
        if not following:
            break
        last = following[0]
        found.append(last)
    return found


def _what_instead(material: Material) -> str | None:
    """What it seems to be, and what to do with it."""
    content, path = material.content, material.path or "FILE"
    labels = {match[1] for match in _BLOCK.finditer(content)}
    if content.startswith(_JKS):
        command = f"keytool -importkeystore -srckeystore {path} -destkeystore client.p12 -deststoretype pkcs12"
        return f"it is a Java keystore: {command}"
    if labels:
        held = ", ".join(sorted(each.decode().lower() for each in labels))
        return f"what it holds: {held}"
    if not content.strip():
        return "it is empty"
    if content[:1] == bytes([_DER]):
        return "it seems to be in DER form, or a PKCS#12 keystore: convert it with openssl x509, or openssl pkcs12"
    if b"-----BEGIN" in content and rb"\n" in content:
        return r"its line ends are a backslash and an n: put real ones in their place"
    return "a PEM text begins with -----BEGIN and ends with -----END"
