"""Clients of secured clusters: librdkafka as a second implementation, and the protocol by hand."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import ssl
import time
from typing import Any

import confluent_kafka

from kafka_native.mock import ListenerSecurity, MockCluster
from kafka_native.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
)
from tests.mock.wire import Wire
from tests.waiting import WAIT_S

COUNT = 40
QUIET = {"log_level": 0, "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100}


def settings(cluster: MockCluster, security: ListenerSecurity, **own: Any) -> dict[str, Any]:
    """Return librdkafka's properties for a cluster."""
    found = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "security.protocol": security.protocol,
        **QUIET,
    }
    if security.has_tls:
        found["ssl.ca.pem"] = cluster.ca_pem
    return {**found, **own}


def produce_and_consume(cluster: MockCluster, conf: dict[str, Any]) -> None:
    """Produce and consume with librdkafka in a group, and compare the messages."""
    cluster.create_topic("a", 2)
    # a retry must not duplicate messages
    producer = confluent_kafka.Producer({**conf, "enable.idempotence": True})
    for number in range(COUNT):
        producer.produce("a", b"%d" % number * 100, partition=number % 2)
    assert producer.flush(WAIT_S) == 0
    consumer = confluent_kafka.Consumer({**conf, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["a"])
    found: list[bytes | None] = []
    deadline = time.monotonic() + WAIT_S
    while len(found) < COUNT and time.monotonic() < deadline:
        for message in consumer.consume(COUNT, 0.2):
            assert message.error() is None
            found.append(message.value())
    consumer.close()
    assert sorted(found, key=lambda value: int((value or b"")[: len(value or b"") // 100])) == [
        b"%d" % number * 100 for number in range(COUNT)
    ]


def refusal(conf: dict[str, Any], *codes: int) -> confluent_kafka.KafkaError:
    """Return librdkafka's first error with one of these codes, for a client that can't connect."""
    errors: list[confluent_kafka.KafkaError] = []
    producer = confluent_kafka.Producer({**conf, "error_cb": errors.append})
    deadline = time.monotonic() + WAIT_S
    while not (wanted := [error for error in errors if error.code() in codes]):
        assert time.monotonic() < deadline, errors
        producer.poll(0.05)
    return wanted[0]


class TlsWire(Wire):
    """A connection over TLS, with Python's ssl module."""

    def __init__(self, cluster: MockCluster, context: ssl.SSLContext, **options: Any) -> None:
        super().__init__(cluster)
        try:
            self.tls = context.wrap_socket(self.socket, server_hostname="localhost", **options)
        except BaseException:
            self.socket.close()
            raise
        self.socket = self.tls


def trusting(cluster: MockCluster) -> ssl.SSLContext:
    """Return a client's TLS context for a cluster."""
    return ssl.create_default_context(cadata=cluster.ca_pem)


# --- SASL by hand ---


def handshake(wire: Wire, mechanism: str, version: int = 1) -> Any:
    return wire.ask(SaslHandshakeRequest(mechanism=mechanism), version)


def authenticate(wire: Wire, token: bytes, version: int = 2) -> SaslAuthenticateResponse:
    response: SaslAuthenticateResponse = wire.ask(
        SaslAuthenticateRequest(auth_bytes=token), version
    )
    return response


def log_in(wire: Wire, user: str = "alice", password: str = "secret") -> SaslAuthenticateResponse:
    """Authenticate with PLAIN."""
    assert handshake(wire, "PLAIN").error_code == 0
    return authenticate(wire, f"\0{user}\0{password}".encode())


class ScramClient:
    """A SCRAM client that checks nothing, so that tests see the broker's messages."""

    def __init__(self, mechanism: str, user: str, password: str, extension: str = "") -> None:
        self.hash = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}[mechanism]
        self.password = password.encode()
        self.bare = f"n={user},r=fyko+d2lbbFgONRv9qkxdawL{extension}"
        self.signature = b""

    def first(self) -> bytes:
        return f"n,,{self.bare}".encode()

    def last(self, challenge: bytes) -> bytes:
        fields = dict(part.split("=", 1) for part in challenge.decode().split(","))
        salted = hashlib.pbkdf2_hmac(
            self.hash, self.password, base64.b64decode(fields["s"]), int(fields["i"])
        )
        without = f"c={base64.b64encode(b'n,,').decode()},r={fields['r']}"
        message = f"{self.bare},{challenge.decode()},{without}".encode()
        key = hmac.digest(salted, b"Client Key", self.hash)
        mask = hmac.digest(hashlib.new(self.hash, key).digest(), message, self.hash)
        proof = bytes(one ^ other for one, other in zip(key, mask, strict=True))
        self.signature = hmac.digest(
            hmac.digest(salted, b"Server Key", self.hash), message, self.hash
        )
        return f"{without},p={base64.b64encode(proof).decode()}".encode()

    def verifies(self, final: bytes) -> bool:
        return final == b"v=" + base64.b64encode(self.signature)


def unsecured_jwt(subject: str = "alice", lifetime_s: float = 3600, **claims: Any) -> str:
    """Return an unsigned token."""
    now = time.time()
    parts = ({"alg": "none"}, {"sub": subject, "iat": now, "exp": now + lifetime_s, **claims})
    return (
        ".".join(
            base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
            for part in parts
        )
        + "."
    )
