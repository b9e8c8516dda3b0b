"""The guide's snippets about secured clusters run on mock clusters with TLS."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from pyspark.sql import SparkSession

from kafka_native import Producer
from kafka_native.mock import ListenerSecurity, MockCluster
from tests.spark.conftest import ROOT
from tests.spark.streams import completed


def snippets() -> list[str]:
    guide = (ROOT / "docs" / "guide" / "spark.md").read_text(encoding="utf-8")
    text = guide.partition("\n### Secured clusters\n")[2].partition("\n### ")[0]
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def run(snippet: str, cluster: MockCluster, folder: Path, names: dict[str, Any]) -> None:
    cluster.create_topic("orders", 2)
    (folder / "ca.pem").write_text(cluster.ca_pem)
    replacements = {
        "kafka.example:9093": cluster.bootstrap_servers,
        "kafka.example:9094": cluster.bootstrap_servers,
    }
    for example, real in {**replacements, "/etc/kafka": str(folder)}.items():
        snippet = snippet.replace(example, real)
    exec(compile(snippet, "spark.md, secured clusters", "exec"), names)


def test_passwords(spark: SparkSession, tmp_path: Path) -> None:
    security = ListenerSecurity("sasl_ssl", mechanisms=["SCRAM-SHA-512"], users={"alice": "s3cret"})
    frame = spark.range(100).selectExpr("CAST(id AS string) AS value")
    names: dict[str, Any] = {"spark": spark, "frame": frame, "password": "s3cret"}
    with MockCluster(brokers=2, security=security) as cluster:
        try:
            run(snippets()[0], cluster, tmp_path, names)
            found = sorted(int(bytes(row.value)) for row in names["orders"].collect())
        finally:
            spark.conf.unset("spark.sql.redaction.options.regex")
        assert found == list(range(100))
        assert {login.principal for login in cluster.logins} == {"User:alice"}


def test_certificates(spark: SparkSession, tmp_path: Path) -> None:
    """The key is encrypted. One file with both, as in Java, works too."""
    with MockCluster(
        brokers=2, security=ListenerSecurity("ssl", client_certificates="required")
    ) as cluster:
        own = cluster.certificates.client("alice")
        key: Any = load_pem_private_key(own.key_pem.encode(), None)
        locked = key.private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"s3cret")
        ).decode()
        (tmp_path / "client.pem").write_text(own.certificate_pem)
        (tmp_path / "client.key").write_text(locked)
        (tmp_path / "both.pem").write_text(locked + own.certificate_pem)
        names: dict[str, Any] = {"spark": spark, "password": "s3cret"}
        run(snippets()[1], cluster, tmp_path, names)
        java = {
            "kafka.bootstrap.servers": cluster.bootstrap_servers,
            "kafka.security.protocol": "SSL",
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.truststore.location": str(tmp_path / "ca.pem"),
            "kafka.ssl.keystore.type": "PEM",
            "kafka.ssl.keystore.location": str(tmp_path / "both.pem"),
            "kafka.ssl.key.password": "s3cret",
        }
        config = {name.removeprefix("kafka."): value for name, value in names["certified"].items()}
        with Producer(config) as producer:
            producer.produce("orders", b"read by a stream")
            assert producer.flush(30) == 0
        writer = names["stream"].writeStream.format("noop").trigger(availableNow=True)
        query = completed(writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start)
        assert query.exception() is None
        rows = (
            spark.read.format("kafka_native")
            .options(**java)
            .option("subscribe", "orders")
            .load()
            .collect()
        )
        assert [bytes(row.value) for row in rows] == [b"read by a stream"]
        done = [seen for seen in cluster.handshakes if seen.error is None]
        assert done
        assert all("CN=alice" in (seen.subject or "") for seen in done)
