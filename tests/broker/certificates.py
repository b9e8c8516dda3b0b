"""An authority for listeners of Apache Kafka with TLS, in the PEM files that brokers and clients
read.
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
    """Issues certificates and keeps them as files of a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._authority = trustme.CA()
        self.ca = str(folder / "ca.pem")
        """What clients and brokers trust."""
        self._authority.cert_pem.write_to_path(self.ca)

    def listener(
        self, client_auth: str = "none", hosts: Sequence[str] = HERE, **more: str
    ) -> dict[str, str]:
        """The TLS properties of a listener; ``client_auth``: none, requested or required;
        ``hosts``: its names.
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
        """Writes a keystore with a broker's certificate; its serial number.

        Its principal is User:CN=name,...: the same for each of a name, or Kafka won't have them
        follow each other.
        """
        leaf = self._authority.issue_cert(
            *hosts, common_name=name, organization_unit_name="brokers"
        )
        path.write_bytes(_java_key(leaf) + _chain(leaf))
        return load_pem_x509_certificate(leaf.cert_chain_pems[0].bytes()).serial_number

    def client(self, name: str) -> tuple[str, str]:
        """A client's certificate with its chain, and its key: two files.

        Its principal is User:CN=name,... to Kafka.
        """
        leaf = self._authority.issue_cert(f"{name}@client.invalid", common_name=name)
        certificate, key = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        certificate.write_bytes(_chain(leaf))
        key.write_bytes(_java_key(leaf))
        return str(certificate), str(key)

    def client_conf(self, name: str) -> dict[str, Any]:
        """The properties of a client with a certificate of its own."""
        certificate, key = self.client(name)
        return {"ssl.certificate.location": certificate, "ssl.key.location": key}

    def _keystore(self, hosts: Sequence[str]) -> Path:
        path = self._folder / f"broker-{len(list(self._folder.glob('broker-*')))}.pem"
        self.broker("broker", path, hosts)
        return path


def _chain(leaf: trustme.LeafCert) -> bytes:
    return b"".join(blob.bytes() for blob in leaf.cert_chain_pems)


def _java_key(leaf: trustme.LeafCert) -> bytes:
    """The key in the one form that Java reads, PKCS#8."""
    key = load_pem_private_key(leaf.private_key_pem.bytes(), None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
