"""A certificate authority for TLS listeners of Apache Kafka. Brokers and clients read its PEM
files.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509 import load_pem_x509_certificate

from tests.broker.cluster import HOST

HERE = (HOST, "localhost")


class Authority:
    """Issues certificates and keeps them as files in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._authority = trustme.CA()
        self.ca = str(folder / "ca.pem")
        """What clients and brokers trust."""
        self._authority.cert_pem.write_to_path(self.ca)

    def listener(
        self, client_auth: str = "none", hosts: Sequence[str] = HERE, **more: str
    ) -> dict[str, str]:
        """Return the TLS properties of a listener.

        ``client_auth``: none, requested or required. ``hosts``: the names in its certificate.
        """
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._keystore(hosts)),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.ca,
            "ssl.client.auth": client_auth,
            **{name.replace("_", "."): value for name, value in more.items()},
        }

    def broker(self, name: str, path: Path, hosts: Sequence[str] = HERE) -> int:
        """Write a keystore with a broker's certificate, and return its serial number.

        Its principal is User:CN=name,... Certificates of one name have the same principal:
        otherwise Kafka's brokers wouldn't follow each other.
        """
        leaf = self._authority.issue_cert(
            *hosts, common_name=name, organization_unit_name="brokers"
        )
        path.write_bytes(_java_key(leaf) + _chain(leaf))
        return load_pem_x509_certificate(leaf.cert_chain_pems[0].bytes()).serial_number

    def client(self, name: str) -> tuple[str, str]:
        """Return two files: a client's certificate with its chain, and its key.

        To Kafka its principal is User:CN=name,...
        """
        leaf = self._authority.issue_cert(f"{name}@client.invalid", common_name=name)
        certificate, key = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        certificate.write_bytes(_chain(leaf))
        key.write_bytes(_java_key(leaf))
        return str(certificate), str(key)

    def client_conf(self, name: str) -> dict[str, Any]:
        """Return the properties of a client with its own certificate."""
        certificate, key = self.client(name)
        return {"ssl.certificate.location": certificate, "ssl.key.location": key}

    def _keystore(self, hosts: Sequence[str]) -> Path:
        path = self._folder / f"broker-{len(list(self._folder.glob('broker-*')))}.pem"
        self.broker("broker", path, hosts)
        return path


def _chain(leaf: trustme.LeafCert) -> bytes:
    return b"".join(blob.bytes() for blob in leaf.cert_chain_pems)


def _java_key(leaf: trustme.LeafCert) -> bytes:
    """Return the key as PKCS#8, the only form that Java reads."""
    key = load_pem_private_key(leaf.private_key_pem.bytes(), None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
