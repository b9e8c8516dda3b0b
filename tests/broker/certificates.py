"""An authority for listeners of Apache Kafka with TLS, in the PEM files that brokers and clients read."""

from __future__ import annotations

from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from tests.broker.cluster import HOST


class Authority:
    """Issues certificates and keeps them as files of a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._authority = trustme.CA()
        self.ca = str(folder / "ca.pem")
        """What clients and brokers trust."""
        self._authority.cert_pem.write_to_path(self.ca)

    def listener(self, client_auth: str = "none", **more: str) -> dict[str, str]:
        """The TLS properties of a listener; ``client_auth``: none, requested or required."""
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self._keystore(self._authority.issue_cert(HOST, "localhost")),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.ca,
            "ssl.client.auth": client_auth,
            **{name.replace("_", "."): value for name, value in more.items()},
        }

    def client(self, name: str) -> tuple[str, str]:
        """A client's certificate with its chain, and its key: two files. Its principal is User:CN=name,... to Kafka."""
        leaf = self._authority.issue_cert(f"{name}@client.invalid", common_name=name)
        certificate, key = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        certificate.write_bytes(b"".join(blob.bytes() for blob in leaf.cert_chain_pems))
        key.write_bytes(_java_key(leaf))
        return str(certificate), str(key)

    def _keystore(self, leaf: trustme.LeafCert) -> str:
        path = self._folder / f"broker-{len(list(self._folder.glob('broker-*')))}.pem"
        path.write_bytes(_java_key(leaf) + b"".join(blob.bytes() for blob in leaf.cert_chain_pems))
        return str(path)


def _java_key(leaf: trustme.LeafCert) -> bytes:
    """The key in the one form that Java reads, PKCS#8."""
    key = load_pem_private_key(leaf.private_key_pem.bytes(), None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
