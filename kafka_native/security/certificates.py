"""Reads certificates, keys and keystores, and explains why one can't be read."""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_der_private_key,
    load_pem_private_key,
    pkcs12,
)

from kafka_native.cleaning import clean

from .sources import Material, refuse

PrivateKey = Any  # cryptography's own union of key types isn't public

_BLOCK: Final = re.compile(rb"-----BEGIN ([A-Z0-9 ]{1,40})-----.*?-----END \1-----", re.DOTALL)
_CERTIFICATE: Final = (b"CERTIFICATE", b"X509 CERTIFICATE")
_CRL: Final = (b"X509 CRL",)
_KEY: Final = b"PRIVATE KEY"
_DER: Final = 0x30
_HEADER: Final = rb"\x30(?:[\x00-\x80]|\x81.|\x82..|\x83...|\x84....)"
"""Tag and length of a DER sequence."""
_PKCS12: Final = re.compile(_HEADER + rb"\x02\x01\x03", re.DOTALL)
"""The beginning of a PKCS#12 store: its version is 3."""
_ENCRYPTED_KEY: Final = re.compile(_HEADER + _HEADER + rb"\x06", re.DOTALL)
"""The beginning of an encrypted PKCS#8 key: the name of the encryption."""
_JKS: Final = b"\xfe\xed\xfe\xed"


class Identity(NamedTuple):
    """The client's certificate, its chain and its key."""

    certificate: x509.Certificate
    chain: list[x509.Certificate]
    """The certificates between the client's and an authority, in order."""
    key: PrivateKey
    source: str
    """The properties that they come from, for error texts."""


def certificate_blocks(material: Material, *more: bytes) -> list[bytes]:
    """Return the certificates of a PEM text as PEM blocks; at least one.

    :param more: Other labels that also mean a certificate.
    :raises KafkaException: There is no certificate.
    """
    blocks = blocks_of(material.content, *_CERTIFICATE, *more)
    if not blocks:
        refuse(f"{material}: no certificate in PEM form in it", _conversion_hint(material))
    return blocks


def is_binary(material: Material) -> bool:
    """Return True for bytes of the configuration in DER or PKCS#12 form. Files are PEM texts."""
    return not material.path and material.content[:1] == bytes([_DER])


def is_keystore(material: Material) -> bool:
    """Return True for bytes of the configuration that are a PKCS#12 store."""
    return is_binary(material) and _PKCS12.match(material.content) is not None


def binary_certificates(material: Material, password: str) -> list[x509.Certificate]:
    """Return the certificate in DER form, or those of a PKCS#12 store: its own one first.

    :raises KafkaException: There is no certificate, or the bytes can't be read.
    """
    if is_keystore(material):
        store = _open_store(material, password or None, "ssl.key.password")
        own = [] if store.cert is None else [store.cert.certificate]
        others = [each.certificate for each in store.additional_certs]
        if not own and not others:
            refuse(f"{material}: there is no certificate in it")
        return [*own, *(_chain(own[0], others) if own and store.key is not None else others)]
    try:
        return [x509.load_der_x509_certificate(material.content)]
    except Exception:  # cryptography raises many kinds: InvalidVersion, KeyError ...
        refuse(
            f"{material}: neither a certificate in DER form nor a PKCS#12 store",
            "several certificates need PEM or PKCS#12 form",
        )


def certificates(material: Material, password: str = "") -> list[x509.Certificate]:
    """Return the certificates of a property in their order; at least one.

    :param password: The one of a PKCS#12 store.
    :raises KafkaException: There is no certificate, or one can't be read.
    """
    if is_binary(material):
        return binary_certificates(material, password)
    blocks = certificate_blocks(material)
    found = []
    for number, block in enumerate(blocks, 1):
        try:
            found.append(x509.load_pem_x509_certificate(block))
        except Exception as error:  # cryptography raises many kinds: InvalidVersion, KeyError ...
            refuse(f"{material}: certificate {number} of {len(blocks)} can't be read: {error}")
    return found


def revocation_lists(material: Material) -> list[x509.CertificateRevocationList]:
    """Return the revocation lists of a PEM text; at least one.

    :raises KafkaException: There is no list, or one can't be read.
    """
    blocks = blocks_of(material.content, *_CRL)
    if not blocks:
        refuse(f"{material}: no revocation list in PEM form in it", _conversion_hint(material))
    try:
        return [x509.load_pem_x509_crl(block) for block in blocks]
    except Exception as error:  # cryptography raises many kinds: InvalidVersion, KeyError ...
        refuse(f"{material}: a revocation list can't be read: {error}")


def private_key(material: Material, password: str) -> PrivateKey:
    """Return the first private key of a PEM text, or the one in DER or PKCS#12 form.

    :param password: The passphrase, or empty. An unencrypted key doesn't need it.
    :raises KafkaException: There is no key, or it can't be read or decrypted. The error contains
        nothing of the key.
    """
    if is_keystore(material):
        return keystore(material, password or None, "ssl.key.password").key
    if is_binary(material):
        return _binary_key(material, password)
    blocks = [match[0] for match in _BLOCK.finditer(material.content) if match[1].endswith(_KEY)]
    if not blocks:
        refuse(f"{material}: no private key in PEM form in it", _conversion_hint(material))
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


def _binary_key(material: Material, password: str) -> PrivateKey:
    """Return a private key in DER form: PKCS#8, or the traditional form of its kind."""
    encrypted = _ENCRYPTED_KEY.match(material.content) is not None
    if encrypted and not password:
        refuse(f"{material}: the key is encrypted", "set ssl.key.password")
    try:
        return load_der_private_key(material.content, password.encode() if encrypted else None)
    except UnsupportedAlgorithm as error:
        refuse(f"{material}: the key's kind, or its encryption, isn't supported: {error}")
    except (ValueError, TypeError):
        if encrypted:
            refuse(f"{material}: the key can't be decrypted: wrong ssl.key.password, or damaged")
        refuse(f"{material}: neither a private key in DER form nor a PKCS#12 store")


def _open_store(
    material: Material, password: str | None, password_name: str
) -> pkcs12.PKCS12KeyAndCertificates:
    """Return the content of a PKCS#12 store. Its errors contain nothing of it.

    A store that isn't encrypted needs no password, and ignores one.
    """
    store = None
    for each in (None, b"") if password is None else (password.encode(), None):
        try:
            store = store or pkcs12.load_pkcs12(material.content, each)
        except UnsupportedAlgorithm as error:
            refuse(
                f"{material}: it is encrypted in a way that isn't supported: {error}",
                "export it again, with AES-256",
            )
        except (ValueError, TypeError):
            continue  # the other password
    if store is None:
        what = (
            f"it needs a password: set {password_name}"
            if password is None
            else f"wrong {password_name}"
        )
        damaged = "a damaged file" if material.path else "damaged"
        refuse(f"{material}: it can't be opened: {what}, or {damaged}")
    return store


def keystore(
    material: Material, password: str | None, password_name: str = "ssl.keystore.password"
) -> Identity:
    """Return the key, the certificate and the chain of a PKCS#12 store.

    :param password: None for a keystore without a password.
    :param password_name: The property of the password, for error texts.
    :raises KafkaException: The file is not a PKCS#12 keystore, the password is wrong, or a part is
        missing.
    """
    if material.content[:1] != bytes([_DER]):
        refuse(f"{material}: not a PKCS#12 keystore", _conversion_hint(material))
    store = _open_store(material, password, password_name)
    if store.key is None or store.cert is None:
        missing = "private key" if store.key is None else "certificate of the key"
        refuse(f"{material}: there is no {missing} in it")
    own = store.cert.certificate
    return Identity(
        own,
        _chain(own, [each.certificate for each in store.additional_certs]),
        store.key,
        str(material),
    )


def identity(chain: Material, key: Material, password: str) -> Identity:
    """Return a certificate with its chain and its key.

    :raises KafkaException: One of them can't be read, or the key doesn't belong to the certificate.
    """
    own, *rest = certificates(chain, password)
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
    """Return True if the key is the certificate's."""
    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    try:
        return bool(
            key.public_key().public_bytes(*form) == certificate.public_key().public_bytes(*form)
        )
    except (ValueError, UnsupportedAlgorithm):  # The certificate has an unknown kind of key
        return False


def blocks_of(content: bytes, *labels: bytes) -> list[bytes]:
    """Return the PEM blocks with one of these labels."""
    return [match[0] for match in _BLOCK.finditer(content) if match[1] in labels]


def subject(certificate: x509.Certificate) -> str:
    """Return the certificate's subject, readable and short."""
    return clean(certificate.subject.rfc4514_string()) or "without a name"


def _chain(own: x509.Certificate, others: list[x509.Certificate]) -> list[x509.Certificate]:
    """Return the certificates above ``own`` in order. A keystore doesn't order them."""
    found: list[x509.Certificate] = []
    last = own
    while last.issuer != last.subject:
        following = [each for each in others if each.subject == last.issuer and each not in found]
        if not following:
            break
        last = following[0]
        found.append(last)
    return found


def _conversion_hint(material: Material) -> str | None:
    """Return a hint: the format of the content, and how to convert it."""
    content, path = material.content, material.path or "FILE"
    labels = {match[1] for match in _BLOCK.finditer(content)}
    if content.startswith(_JKS):
        command = (
            f"keytool -importkeystore -srckeystore {path} -destkeystore client.p12 "
            "-deststoretype pkcs12"
        )
        return f"it is a Java keystore: {command}"
    if labels:
        held = ", ".join(sorted(each.decode().lower() for each in labels))
        return f"what it holds: {held}"
    if not content.strip():
        return "it is empty"
    if content[:1] == bytes([_DER]):
        return (
            "it seems to be in DER form, or a PKCS#12 keystore: convert it with openssl x509, or "
            "openssl pkcs12, or pass its bytes as ssl.ca.pem, ssl.certificate.pem or ssl.key.pem"
        )
    if b"-----BEGIN" in content and rb"\n" in content:
        return r"its line ends are a backslash and an n: put real ones in their place"
    return "a PEM text begins with -----BEGIN and ends with -----END"
