"""TLS: whom a client trusts, what it shows of itself, and what it says when a handshake fails."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from kafka_native import KafkaError, KafkaException, Producer
from kafka_native.mock import ListenerSecurity, MockCluster

# Certificates take files; this cluster, which is gone at the end, has an authority of its own that issues them.
folder = Path(tempfile.mkdtemp())
cluster = MockCluster(brokers=1, security=ListenerSecurity("ssl", client_certificates="required"))
cluster.create_topic("greetings", 1)
(folder / "ca.pem").write_text(cluster.ca_pem)
certificate, key = cluster.certificates.client("alice").save(folder, "alice")

conf: dict[str, Any] = {
    "bootstrap.servers": cluster.bootstrap_servers,
    "security.protocol": "ssl",
    "ssl.ca.location": str(folder / "ca.pem"),
    "ssl.certificate.location": certificate,
    "ssl.key.location": key,
}

# 1. Both sides know whom they talk to.
with Producer(conf) as producer:
    producer.produce("greetings", "for the broker's eyes only")
    producer.flush(30)
seen = cluster.handshakes[0]
print(f"{seen.version} with {seen.subject}")

# 2. A file that isn't there, a key that isn't the certificate's, a wrong password: an exception at once.
try:
    Producer({**conf, "ssl.key.location": str(folder / "nobody.key")})
except KafkaException as error:
    print("refused:", error.args[0].str().replace(str(folder), "..."))


def first_error() -> str:
    """What error_cb is told first."""
    errors: list[KafkaError] = []
    lonely = Producer({**conf, "error_cb": errors.append})
    lonely.produce("greetings", "a reason to connect")
    while not errors:
        lonely.poll(1)
    lonely.close(0)
    return f"{errors[0].name()} {errors[0].str()}"


# 3. A broker that can't prove who it is: no connection, and the reason.
cluster.present_certificate("wrong_host")
print("broker:", first_error())
cluster.present_certificate("unknown_ca")
print("broker:", first_error())

cluster.close()
