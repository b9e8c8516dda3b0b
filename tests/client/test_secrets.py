"""All secrets at once, in another process: its output and its process data have none of them."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    pkcs12,
)
from cryptography.hazmat.primitives.serialization import load_pem_private_key as load_key
from cryptography.x509 import load_pem_x509_certificates as load_certificates

from kafka_native.mock import Certificates, ListenerSecurity, MockCluster
from tests.harness.tunnels import HttpConnect

ROOT = Path(__file__).resolve().parents[2]
PASSWORD, WRONG, KEY_PASSWORD, STORE_PASSWORD, PROXY_PASSWORD, CLIENT_SECRET, IN_CONFIG = (
    f"canary-{name}-0f1e2d3c"
    for name in ("sasl", "wrong", "key", "store", "proxy", "oidc", "oauthbearer")
)
SECRETS = (PASSWORD, WRONG, KEY_PASSWORD, STORE_PASSWORD, PROXY_PASSWORD, CLIENT_SECRET, IN_CONFIG)


def encrypted(identity: Any, folder: Path) -> tuple[str, str, str]:
    """Return a client's encrypted key, its body, and an encrypted keystore with both."""
    key = load_key(identity.key_pem.encode(), None)
    pem = key.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(KEY_PASSWORD.encode())
    ).decode()
    chain = load_certificates(identity.certificate_pem.encode())
    store = folder / "client.p12"
    encryption = BestAvailableEncryption(STORE_PASSWORD.encode())
    store.write_bytes(
        pkcs12.serialize_key_and_certificates(b"me", key, chain[0], chain[1:], encryption)
    )  # type: ignore[arg-type]
    return pem, pem.splitlines()[1], str(store)


@pytest.mark.slow
def test_no_output_has_a_secret(tmp_path: Path) -> None:
    certificates = Certificates()
    security = ListenerSecurity(
        "sasl_ssl",
        mechanisms=("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"),
        users={"alice": PASSWORD},
        certificates=certificates,
    )
    identity = certificates.client("alice")
    pem, body, store = encrypted(identity, tmp_path)
    login = (b"alice", PROXY_PASSWORD.encode())
    with MockCluster(1, security=security) as cluster, HttpConnect(login) as proxy:
        shared = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "security.protocol": "sasl_ssl",
            "ssl.ca.pem": certificates.ca_pem,
            "proxy.url": proxy.url("alice", PROXY_PASSWORD),
            "sasl.username": "alice",
            "socket.connection.setup.timeout.ms": 5000,
        }
        key = {
            "ssl.key.pem": pem,
            "ssl.key.password": KEY_PASSWORD,
            "ssl.certificate.pem": identity.certificate_pem,
        }
        keystore = {"ssl.keystore.location": store, "ssl.keystore.password": STORE_PASSWORD}
        oidc = {
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": "alice",
            "sasl.oauthbearer.client.secret": CLIENT_SECRET,
            "sasl.oauthbearer.token.endpoint.url": "https://127.0.0.1:9/token",
        }
        unsecured = {
            "sasl.mechanism": "OAUTHBEARER",
            "enable.sasl.oauthbearer.unsecure.jwt": True,
            "sasl.oauthbearer.config": f"principal=alice secret={IN_CONFIG}",
        }
        plain = {"sasl.mechanism": "PLAIN", "sasl.password": PASSWORD}
        good = [
            {**shared, **keystore, **plain},
            {**shared, **key, "sasl.mechanism": "SCRAM-SHA-256", "sasl.password": PASSWORD},
            {**shared, **unsecured},
        ]
        bad = [
            {**shared, **keystore, "sasl.mechanism": "SCRAM-SHA-256", "sasl.password": WRONG},
            {**shared, **keystore, "ssl.keystore.password": WRONG, **plain},
            {**shared, **key, "ssl.key.password": WRONG, **plain},
            {**shared, "proxy.url": proxy.url("alice", WRONG), **plain},
            {**shared, "ssl.ca.pem": Certificates().ca_pem, **plain},
            {**shared, **oidc},
        ]
        everything = output_of(good, bad)
    assert "is authenticated" in everything
    assert "[redacted]" in everything
    assert "finished" in everything
    for secret in (*SECRETS, body):
        for form in (
            secret,
            base64.b64encode(f"alice:{secret}".encode()).decode(),
            secret.encode().hex(),
        ):
            assert form not in everything


def output_of(good: list[dict[str, Any]], bad: list[dict[str, Any]]) -> str:
    """Return the program's output, and the process data that others can see."""
    command = [sys.executable, "-m", "tests.client.secretive"]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True
    ) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        program.stdin.write(
            json.dumps([(each, True) for each in good] + [(each, False) for each in bad]) + "\n"
        )
        program.stdin.flush()
        lines = []
        for line in program.stdout:
            lines.append(line)
            if line == "finished\n":
                break
        seen = [Path(f"/proc/{program.pid}/{name}") for name in ("cmdline", "environ", "comm")]
        lines += [path.read_bytes().decode(errors="replace") for path in seen if path.exists()]
        lines += [path.read_text() for path in Path(f"/proc/{program.pid}/task").glob("*/comm")]
        rest, _ = program.communicate()
    assert program.returncode == 0, rest
    return "".join([*lines, rest])


def test_other_values_are_in_the_output() -> None:
    with MockCluster(1) as cluster:
        everything = output_of(
            [{"bootstrap.servers": cluster.bootstrap_servers, "client.id": PASSWORD}], []
        )
    assert PASSWORD in everything
