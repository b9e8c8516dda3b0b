"""``kafka-native doctor -r``: a schema registry that can't be used, and payloads of topics."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_native import Producer
from kafka_native.cli.diagnosis import EXIT_CODES
from kafka_native.cli.registry_diagnosis import appearance
from kafka_native.mock import MockCluster, MockSchemaRegistry
from kafka_native.schema_registry import Schema, SchemaRegistryClient
from tests.cli.running import invoke, properties
from tests.cli.test_doctor import SHORT_S, Report
from tests.harness.servers import answering
from tests.hostile import MARKS, check
from tests.waiting import WAIT_S


@pytest.fixture
def registry() -> Iterator[MockSchemaRegistry]:
    with MockSchemaRegistry() as running:
        yield running


def registry_step(*arguments: str, limit: str = "30") -> dict[str, Any]:
    """Return the failed step of a run for a registry alone."""
    return Report(*arguments, limit=limit).failed_at("registry")


# --- the registry ---


def test_a_registry_that_answers(registry: MockSchemaRegistry) -> None:
    found = Report("-r", registry.url)
    assert found.status == 0
    statuses = {kind: {step["status"] for step in found.steps(kind)} for kind in EXIT_CODES}
    assert statuses == {kind: {"ok" if kind == "registry" else "skipped"} for kind in EXIT_CODES}
    assert "AVRO" in found.steps("registry")[-1]["text"]
    shown = invoke("doctor", "-r", registry.url)
    assert "skipped  metadata" not in shown.stdout, "the cluster isn't asked for"
    assert shown.exit_code == 0


def test_registry_and_cluster_together(cluster: MockCluster, registry: MockSchemaRegistry) -> None:
    found = Report("-r", registry.url, "-b", cluster.bootstrap_servers)
    assert found.status == 0
    assert {step["status"] for step in found.steps("metadata")} == {"ok"}
    assert found.only("payloads")["text"] == "none is named: write --topic"


def test_no_such_name() -> None:
    step = registry_step("-r", "http://registry.invalid:8081")
    assert "registry.invalid can't be resolved" in step["text"]


def test_nothing_listens(registry: MockSchemaRegistry) -> None:
    registry.listener_down(0)
    step = registry_step("-r", registry.url)
    assert "refuses the connection" in step["text"]
    assert "8081 is the usual port" in step["advice"]


def test_a_brokers_port(cluster: MockCluster) -> None:
    step = registry_step("-r", f"http://{cluster.address(1)}", limit="3")
    assert "is it the port of a Kafka broker" in step["cause"]


def test_a_registry_that_never_answers(registry: MockSchemaRegistry) -> None:
    registry.faults.delay(3600, count=9)
    step = registry_step("-r", registry.url, limit=SHORT_S)
    # On a busy machine even the connection may take longer.
    assert "no registry answered" in step["text"] or "didn't answer within" in step["text"]


@pytest.mark.parametrize(
    ("status", "text", "cause"),
    [
        (403, "forbids the request", "no permission"),
        (404, "there is no schema registry at", "lacks a path"),
        (500, "the registry answers HTTP 500", ""),
    ],
)
def test_statuses(registry: MockSchemaRegistry, status: int, text: str, cause: str) -> None:
    registry.faults.fail(status, count=9)
    step = registry_step("-r", registry.url)
    assert text in step["text"]
    assert cause in step["cause"]


def test_an_old_registry_without_types_is_fine(registry: MockSchemaRegistry) -> None:
    registry.faults.fail(404, path="/schemas/types")
    assert Report("-r", registry.url).status == 0


def test_another_web_server() -> None:
    page = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\n<html>"

    def answer(connection: socket.socket) -> None:
        if connection.recv(4096):
            connection.sendall(page)

    with answering(answer) as address:
        step = registry_step("-r", f"http://{address}")
    assert "isn't a schema registry" in step["text"]


def test_logins(registry: MockSchemaRegistry) -> None:
    with MockSchemaRegistry(users={"ann": "Secret-1"}) as guarded:
        step = registry_step("-r", guarded.url)
        assert "wants a log-in" in step["text"]
        assert "schema.registry.basic.auth.user.info=USER:PASSWORD" in step["advice"]
        wrong = properties("schema.registry.basic.auth.user.info=ann:Secret-2")
        refused = Report("-r", guarded.url, *wrong)
        assert "refuses the credentials" in refused.failed_at("registry")["text"]
        assert "Secret-2" not in refused.output
        in_url = guarded.url.replace("//", "//ann:Secret-1@")
        good = Report("-r", in_url)
        assert good.status == 0, good.output
        assert "Secret-1" not in good.output
        both = Report("-r", f"{in_url},{guarded.url}")
        assert both.status == 0, "the credentials are for both URLs"
        assert "warning" not in {step["status"] for step in both.steps("registry")}


def test_one_of_two_registries_is_enough(registry: MockSchemaRegistry) -> None:
    found = Report("-r", f"http://127.0.0.1:1,{registry.url}")
    assert found.status == 0
    [warned] = [step for step in found.steps("registry") if step["status"] == "warning"]
    assert warned["text"].endswith("(another registry does)")


def test_wrong_properties() -> None:
    step = registry_step("-r", "http://a", *properties("schema.registry.nosuch=x"))
    assert "unrecognized properties: nosuch" in step["text"]
    refused = invoke("doctor", "-r", "ftp://a:secret@b")
    assert refused.exit_code == 2
    assert "http:// or https://" in refused.output
    assert "secret" not in refused.output


def test_https_and_http(registry: MockSchemaRegistry, tmp_path: Path) -> None:
    step = registry_step("-r", registry.url.replace("http:", "https:"))
    assert step["advice"] == "write http:// in place of https://"
    with MockSchemaRegistry(tls=True) as encrypted:
        step = registry_step("-r", encrypted.url.replace("https:", "http:"))
        assert step["advice"] == "write https:// in place of http://"
        step = registry_step("-r", encrypted.url)
        assert "isn't accepted" in step["text"]
        assert "ssl.ca.location" in step["advice"]
        authority = properties(
            f"schema.registry.ssl.ca.location={encrypted.save_ca(tmp_path / 'ca.pem')}"
        )
        good = Report("-r", encrypted.url, *authority)
        assert good.status == 0, good.output
        assert "TLSv1." in good.steps("registry")[1]["text"]
        off = properties("schema.registry.ssl.ca.location=false")
        assert Report("-r", encrypted.url, *off).status == 0
        other = encrypted.url.replace("127.0.0.1", "127.1")  # the same address as another name
        step = registry_step("-r", other, *authority)
        assert step["cause"] == "the certificate is for other names"


def test_a_client_certificate_is_missing(tmp_path: Path) -> None:
    with MockSchemaRegistry(tls=True, client_certificates="required") as strict:
        authority = properties(
            f"schema.registry.ssl.ca.location={strict.save_ca(tmp_path / 'ca.pem')}"
        )
        step = registry_step("-r", strict.url, *authority)
        assert "certificate of the client" in step["cause"]
        assert "ssl.certificate.location" in step["advice"]


def test_a_missing_package(registry: MockSchemaRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Any:
        raise ImportError("pip install 'kafka-native[registry]'")

    monkeypatch.setattr("kafka_native.schema_registry.transports._httpx", missing)
    step = registry_step("-r", registry.url)
    assert "pip install 'kafka-native[registry]'" in step["text"]


# --- payloads ---


@pytest.fixture
def client(registry: MockSchemaRegistry) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry.url}) as made:
        made.register_schema("t-value", Schema('"string"', "AVRO"))
        yield made


def send(cluster: MockCluster, *values: bytes | None) -> None:
    cluster.create_topic("t", 2)
    with Producer({"bootstrap.servers": cluster.bootstrap_servers}) as producer:
        for number, value in enumerate(values):
            producer.produce("t", value, partition=number % 2)
        assert producer.flush(WAIT_S) == 0


def payloads(cluster: MockCluster, registry: MockSchemaRegistry) -> Report:
    return Report("-b", cluster.bootstrap_servers, "-r", registry.url, "-t", "t")


GOOD = b"\0\0\0\0\x01\x02x"


def test_good_payloads(
    cluster: MockCluster, registry: MockSchemaRegistry, client: SchemaRegistryClient
) -> None:
    send(cluster, *[GOOD] * 20, None)
    found = payloads(cluster, registry)
    assert found.status == 0, found.output
    step = found.only("payloads")
    assert step["text"] == "9 values with schema id 1 (avro)", "five of each partition, one null"
    assert step["details"] == {"schemas": {"id 1": "avro"}, "values": 9}


def test_a_topic_without_values(
    cluster: MockCluster, registry: MockSchemaRegistry, client: SchemaRegistryClient
) -> None:
    send(cluster)
    assert payloads(cluster, registry).only("payloads")["text"] == "no values to check"


def test_payloads_without_framing_are_a_warning(
    cluster: MockCluster, registry: MockSchemaRegistry, client: SchemaRegistryClient
) -> None:
    send(cluster, b'{"id": 1}', None, GOOD)
    found = payloads(cluster, registry)
    assert found.status == 0
    step = found.only("payloads")
    assert step["status"] == "warning"
    assert step["text"] == (
        "1 of 2 values without schema framing, the first: t [0] at offset 0: it looks like JSON"
    )
    assert "serializer" in step["cause"]


@pytest.mark.parametrize(
    ("value", "text", "cause"),
    [
        (b"\0\0\0\0\x4d\x02x", "t [0] at offset 1: Schema 77 not found", "another registry"),
        (b"\0\0\0\0\x01\x04x", "t [0] at offset 1: value, schema id 1: ", "damaged"),
    ],
)
def test_payloads_that_can_not_be_decoded(
    cluster: MockCluster,
    registry: MockSchemaRegistry,
    client: SchemaRegistryClient,
    value: bytes,
    text: str,
    cause: str,
) -> None:
    send(cluster, GOOD, GOOD, value)
    step = payloads(cluster, registry).failed_at("payloads")
    assert step["text"].startswith(text)
    assert cause in step["cause"]


def test_payloads_need_the_registry(cluster: MockCluster, registry: MockSchemaRegistry) -> None:
    send(cluster, GOOD)
    registry.faults.fail(500, count=9)
    found = payloads(cluster, registry)
    assert found.failed_at("registry")
    assert found.only("payloads")["text"] == "a step before it has failed"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "it is empty"),
        (b"Obj\x01\x04", "it looks like an Avro container file"),
        (b"\xc3\x01\0\0", "it looks like Avro's single-object encoding"),
        (b"\x1f\x8b\x08", "it looks like gzip"),
        (b"\0\x01", "it begins like framing, but has only 2 bytes"),
        (b' {"a": 1}', "it looks like JSON"),
        (b"[1, 2]", "it looks like JSON"),
        (b"{a", "it begins like JSON, but isn't JSON"),
        (b"[" * 100_000, "it begins like JSON, but isn't JSON"),
        ("größe\n".encode(), "it looks like text"),
        (b"\x06abc\xff", "perhaps Avro or Protobuf"),
    ],
)
def test_appearance(data: bytes, text: str) -> None:
    assert appearance(data).startswith(text)


def test_hostile_answers_are_escaped(registry: MockSchemaRegistry) -> None:
    registry.faults.fail(500, count=9, message=MARKS)
    for more in ([], ["--json"]):
        done = invoke("doctor", "-r", registry.url, *more)
        check(done.stdout)
        check(done.stderr)
