"""Keys and passwords of TLS are in no output of a client, with everything logged."""

from __future__ import annotations

import gc
import traceback
from collections.abc import Iterator
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

from kafka_native import KafkaException, Producer
from kafka_native.mock import ListenerSecurity, MockCluster
from tests.waiting import poll_until

from .log_support import PlainLogger
from .support import deliver

PASSWORD = "s3cret-word"
LOCKED = BestAvailableEncryption(PASSWORD.encode())
WAYS = ("files", "texts", "keystore")


@pytest.fixture(scope="module")
def cluster() -> Iterator[MockCluster]:
    with MockCluster(
        brokers=1, security=ListenerSecurity("ssl", client_certificates="required")
    ) as running:
        running.create_topic("t", 1)
        yield running


def identity(cluster: MockCluster, folder: Path, way: str) -> tuple[dict[str, Any], list[str]]:
    """Return a client certificate in one of the possible forms, and its secrets."""
    own = cluster.certificates.client("alice")
    key: Any = load_pem_private_key(own.key_pem.encode(), None)
    locked = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, LOCKED).decode()
    secrets = [PASSWORD, own.key_pem.splitlines()[1], locked.splitlines()[1]]
    if way == "texts":
        conf = {
            "ssl.certificate.pem": own.certificate_pem,
            "ssl.key.pem": locked,
            "ssl.key.password": PASSWORD,
        }
    elif way == "files":
        (folder / "own.pem").write_text(own.certificate_pem)
        (folder / "own.key").write_text(locked)
        paths = {
            "ssl.certificate.location": str(folder / "own.pem"),
            "ssl.key.location": str(folder / "own.key"),
        }
        conf = {**paths, "ssl.key.password": PASSWORD}
    else:
        certificate = x509.load_pem_x509_certificate(own.certificate_pem.encode())
        (folder / "own.p12").write_bytes(
            pkcs12.serialize_key_and_certificates(b"own", key, certificate, None, LOCKED)
        )
        conf = {"ssl.keystore.location": str(folder / "own.p12"), "ssl.keystore.password": PASSWORD}
    return {"ssl.ca.pem": cluster.ca_pem, **conf}, secrets


@pytest.mark.parametrize("way", WAYS)
def test_no_output_has_a_secret(
    cluster: MockCluster, tmp_path: Path, way: str, capfd: pytest.CaptureFixture[str]
) -> None:
    own, secrets = identity(cluster, tmp_path, way)
    logger = PlainLogger()
    outputs: list[Any] = []
    conf = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "security.protocol": "ssl",
        "reconnect.backoff.ms": 1,
        "reconnect.backoff.max.ms": 20,
        "debug": "all",
        "logger": logger,
        "statistics.interval.ms": 50,
        "stats_cb": outputs.append,
        "error_cb": outputs.append,
        **own,
    }
    with Producer(conf) as producer:
        deliver(producer, "t", b"x")
        cluster.present_certificate("expired")
        cluster.disconnect(1)
        producer.produce("t", b"x")
        poll_until(lambda: any("expired on" in str(each) for each in outputs), producer)
        cluster.present_certificate("good")
        assert producer.flush(60) == 0
        poll_until(lambda: any(isinstance(each, str) for each in outputs), producer)
        outputs += [repr(producer), producer.metrics()]
    name = "ssl.keystore.password" if way == "keystore" else "ssl.key.password"
    for line in (f"{name} = [redacted]", "TlsContext("):
        assert any(line in text for text in logger.texts()), "the log is complete"
    for wrong in ({name: f"{PASSWORD}-not"}, {name: ""}):
        with pytest.raises(KafkaException) as caught:
            Producer({**conf, **wrong})
        outputs += [repr(caught.value), "".join(traceback.format_exception(caught.value))]
    gc.collect()
    printed = capfd.readouterr()
    everything = "\n".join(
        [*logger.texts(), *map(str, outputs), *map(repr, outputs), printed.out, printed.err]
    )
    assert len(everything) > 2000
    assert [secret for secret in secrets if secret in everything] == []
