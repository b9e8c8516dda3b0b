"""The snippets of the guide's page on TLS run in order, with files of the named paths."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)

from kafka_native.mock import ListenerSecurity, MockCluster
from kafka_native.mock.certificates import Identity

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "security.md"


def save(folder: Path, ca_pem: str, own: Identity) -> None:
    """Save the files. The key and the keystore are encrypted with ``a password``."""
    key: Any = load_pem_private_key(own.key_pem.encode(), None)
    certificate = x509.load_pem_x509_certificate(own.certificate_pem.encode())
    locked = BestAvailableEncryption(b"a password")
    (folder / "ca.pem").write_text(ca_pem)
    (folder / "client.pem").write_text(own.certificate_pem)
    (folder / "plain.key").write_text(own.key_pem)
    (folder / "client.key").write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, locked)
    )
    keystore = pkcs12.serialize_key_and_certificates(b"client", key, certificate, None, locked)
    (folder / "client.p12").write_bytes(keystore)


def test_snippets_of_the_page_on_tls_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snippets = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(snippets) == 5
    monkeypatch.chdir(tmp_path)
    with MockCluster(
        brokers=1, security=ListenerSecurity("ssl", client_certificates="requested")
    ) as cluster:
        cluster.create_topic("greetings", 1)
        save(tmp_path, cluster.ca_pem, cluster.certificates.client("alice"))
        names: dict[str, Any] = {"bootstrap": cluster.bootstrap_servers}
        for number, snippet in enumerate(snippets):
            before = len(cluster.handshakes)
            exec(compile(snippet, f"{PAGE.name}, snippet {number}", "exec"), names)
            assert len(names["producer"]) == 0
            seen = [each for each in cluster.handshakes[before:] if each.error is None]
            assert {"CN=alice" in (each.subject or "") for each in seen} == {number > 0}
        names["producer"].close()
