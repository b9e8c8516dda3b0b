"""The programs of the guide's pages about Spark run on mock clusters."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from pyspark.sql import SparkSession

from kafka_native import Producer
from kafka_native.mock import ListenerSecurity, MockCluster, MockSchemaRegistry
from kafka_native.schema_registry import Schema, SchemaRegistryClient
from kafka_native.schema_registry.avro import AvroSerializer
from kafka_native.serialization import MessageField, SerializationContext
from kafka_native.spark.pipelines.translation import Piece, Translations
from tests.examples import pages
from tests.spark.streams import completed
from tests.spark.support import connect_missing

ORDER = """{"type": "record", "name": "Order", "fields": [
    {"name": "id", "type": "long"}, {"name": "customer", "type": "string"},
    {"name": "price", "type": "int"}]}"""
SPARK = "docs/guide/spark.md"
SCRAM = ListenerSecurity("sasl_ssl", mechanisms=["SCRAM-SHA-512"], users={"alice": "s3cret"})


def produce_orders(cluster: MockCluster, registry: MockSchemaRegistry) -> None:
    """Produce 100 typed orders and one that doesn't decode."""
    context = SerializationContext("orders", MessageField.VALUE)
    with (
        SchemaRegistryClient({"url": registry.url}) as client,
        Producer({"bootstrap.servers": cluster.bootstrap_servers}) as producer,
    ):
        client.register_schema("orders-value", Schema(ORDER, "AVRO"))
        serializer = AvroSerializer(client, ORDER)
        day = int(datetime(2026, 11, 21, tzinfo=timezone.utc).timestamp() * 1000)
        for number in range(100):
            order = {"id": number, "customer": f"customer {number}", "price": number + 50}
            producer.produce("orders", serializer(order, context), timestamp=day)


def produce_texts(cluster: MockCluster, *topics: str) -> None:
    with Producer({"bootstrap.servers": cluster.bootstrap_servers}) as producer:
        for topic in topics:
            for number in range(100):
                producer.produce(topic, f"value {number}", f"key {number % 40}")


@pytest.mark.usefixtures("spark")
def test_the_page_about_pipelines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with (
        MockCluster(brokers=1) as here,
        MockCluster(brokers=1) as other,
        MockSchemaRegistry() as registry,
    ):
        here.create_topic("orders", 1)
        here.create_topic("orders-7", 2)
        other.create_topic("eu.orders", 1)
        other.create_topic("eu.orders-7", 2)
        produce_orders(here, registry)
        with Producer({"bootstrap.servers": here.bootstrap_servers}) as producer:
            producer.produce("orders", b"not Avro")
        produce_texts(here, "orders-7", "profiles", "clicks")
        Translations(str(tmp_path / "mirror" / "translation")).write(
            0, [Piece("orders", 3, "orders", 0, 9, 7, 16)]
        )
        addresses = {
            "old:9092": here.bootstrap_servers,
            "new:9092": other.bootstrap_servers,
            "localhost:9092": here.bootstrap_servers,
            "http://localhost:8081": registry.url,
            "/data": str(tmp_path),
            "clicks.html": f"{tmp_path}/clicks.html",
        }
        pages.run("docs/guide/pipelines.md", addresses)
    output = capsys.readouterr().out
    assert "101 2\n" in output  # a file for each date
    assert "100 rows, 1 dead letters" in output
    assert re.search("100 records in [2-4] files; 2 partitions", output)
    assert "0 files became 0" in output
    assert "1 records of 1 files; []" in output
    assert "202 records in 1 batches" in output  # with the replayed one
    assert "40 keys of 100 records" in output
    assert "'count': 3" in output
    assert "<svg" in (tmp_path / "clicks.html").read_text(encoding="utf-8")


@contextmanager
def secured(security: ListenerSecurity, folder: Path) -> Iterator[MockCluster]:
    """A cluster with TLS, and the files that the page names."""
    with MockCluster(brokers=2, security=security) as cluster:
        cluster.create_topic("orders", 2)
        (folder / "ca.pem").write_text(cluster.ca_pem)
        yield cluster


@pytest.fixture
def tidy(spark: SparkSession) -> Iterator[SparkSession]:
    """The session. Its queries and settings of the page end with the test."""
    yield spark
    for query in spark.streams.active:
        query.stop()
    spark.conf.unset("spark.sql.redaction.options.regex")


def test_the_page_about_spark(
    tidy: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (
        MockCluster(brokers=1) as cluster,
        MockSchemaRegistry() as registry,
        secured(SCRAM, tmp_path) as other,
    ):
        for topic, partitions in (("orders", 12), ("greetings", 1), ("readings", 1)):
            cluster.create_topic(topic, partitions)
        produce_orders(cluster, registry)
        produce_texts(cluster, "greetings", "readings")
        addresses = {
            "localhost:9092": cluster.bootstrap_servers,
            "http://localhost:8081": registry.url,
            "kafka.example:9093": other.bootstrap_servers,
            "/etc/kafka": str(tmp_path),
            "/lake": f"{tmp_path}/lake",
            "/checkpoints": f"{tmp_path}/checkpoints",
            "start_http_server(8000)": "start_http_server(0)",
        }
        first, _connect, last = pages.programs(SPARK)
        names = pages.run_program(first, addresses)
        try:
            assert [(row.id, row.customer) for row in names["repaired"].collect()] == [
                (2, "unknown")
            ]
            assert sum(other.watermarks("orders", each)[1] for each in (0, 1)) == 100
            assert names["query"].exception() is None
        finally:
            tidy.streams.removeListener(names["listener"])
            for query in tidy.streams.active:
                query.stop()
        pages.run_program(last, addresses)
    assert "price" in capsys.readouterr().out


@pytest.mark.slow
def test_the_program_for_spark_connect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if why := connect_missing():
        pytest.skip(f"no Spark Connect: {why}")
    monkeypatch.setenv("SPARK_TESTING", "1")  # PySpark's own: the server takes any free port
    pages.run_alone(SPARK, {"sc://spark.example.com": "local[2]"}, tmp_path, only=1)


def blocks_on_secured_clusters() -> list[pages.Block]:
    """Return the blocks of the section: a password, a certificate."""
    return [block for block in pages.blocks(SPARK, "python") if "/etc/kafka" in block.text]


def run(block: pages.Block, cluster: MockCluster, folder: Path, names: dict[str, Any]) -> None:
    addresses = {
        "kafka.example:9093": cluster.bootstrap_servers,
        "kafka.example:9094": cluster.bootstrap_servers,
        "/etc/kafka": str(folder),
    }
    exec(block.compiled(addresses), names)


def test_passwords(tidy: SparkSession, tmp_path: Path) -> None:
    frame = tidy.range(100).selectExpr("CAST(id AS string) AS key", "CAST(id AS string) AS value")
    names: dict[str, Any] = {"spark": tidy, "frame": frame}
    with secured(SCRAM, tmp_path) as cluster:
        run(blocks_on_secured_clusters()[0], cluster, tmp_path, names)
        found = sorted(int(bytes(row.value)) for row in names["orders"].collect())
        assert found == list(range(100))
        assert {login.principal for login in cluster.logins} == {"User:alice"}


def test_certificates(spark: SparkSession, tmp_path: Path) -> None:
    """The key is encrypted. One file with both, as in Java, works too."""
    security = ListenerSecurity("ssl", client_certificates="required")
    with secured(security, tmp_path) as cluster:
        own = cluster.certificates.client("alice")
        key: Any = load_pem_private_key(own.key_pem.encode(), None)
        locked = key.private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"s3cret")
        ).decode()
        (tmp_path / "client.pem").write_text(own.certificate_pem)
        (tmp_path / "client.key").write_text(locked)
        (tmp_path / "both.pem").write_text(locked + own.certificate_pem)
        names: dict[str, Any] = {"spark": spark}
        run(blocks_on_secured_clusters()[1], cluster, tmp_path, names)
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
