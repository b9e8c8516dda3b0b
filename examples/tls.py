"""TLS: trusted authorities, client certificates, and the errors of failed handshakes.

Needs `pip install 'kafka-native[mock]'`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from kafka_native import KafkaError, KafkaException, Producer
from kafka_native.mock import ListenerSecurity, MockCluster

# A temporary cluster has its own authority, which issues the certificate files.
folder = Path(tempfile.mkdtemp())
cluster = MockCluster(brokers=1, security=ListenerSecurity("ssl", client_certificates="required"))
cluster.create_topic("greetings", 1)
(folder / "ca.pem").write_text(cluster.security.ca_pem)
certificate, key = cluster.security.certificates.client("alice").save(folder, "alice")

conf: dict[str, Any] = {
    "bootstrap.servers": cluster.bootstrap_servers,
    "security.protocol": "ssl",
    "ssl.ca.location": str(folder / "ca.pem"),
    "ssl.certificate.location": certificate,
    "ssl.key.location": key,
}

# 1. Both sides verify each other.
with Producer(conf) as producer:
    producer.produce("greetings", "for the broker's eyes only")
    producer.flush(30)
seen = cluster.security.handshakes[0]
print(f"{seen.version} with {seen.subject}")

# 2. A missing file, a key of another certificate, or a wrong password raises at once.
try:
    Producer({**conf, "ssl.key.location": str(folder / "nobody.key")})
except KafkaException as error:
    print("refused:", error.args[0].str().replace(str(folder), "..."))


def first_error() -> str:
    """Return the first error of error_cb."""
    errors: list[KafkaError] = []
    lonely = Producer({**conf, "error_cb": errors.append})
    lonely.produce("greetings", "a reason to connect")
    while not errors:
        lonely.poll(1)
    lonely.close(0)
    return f"{errors[0].name()} {errors[0].str()}"


# 3. A broker without a valid certificate: no connection, and the reason.
cluster.security.present_certificate("wrong_host")
print("broker:", first_error())
cluster.security.present_certificate("unknown_ca")
print("broker:", first_error())

cluster.close()
