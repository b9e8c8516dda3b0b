"""The guide's snippets run in order on the mock cluster."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from kafka_native import Producer
from kafka_native._native import codec_core
from kafka_native.mock import ListenerSecurity, MockCluster, MockSchemaRegistry
from kafka_native.schema_registry import Schema, SchemaRegistryClient, rule_registry
from tests.harness.tunnels import Socks5
from tests.mock.secured import unsecured_jwt
from tests.security.token_endpoint import TokenEndpoint

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide"


@pytest.mark.parametrize(
    ("page", "snippets_min"),
    [
        ("consuming.md", 7),
        ("asyncio.md", 5),
        ("monitoring.md", 4),
        ("transactions.md", 3),
        ("share-groups.md", 6),
        ("streams-groups.md", 2),
        ("avro-columns.md", 1),
        ("avro-objects.md", 1),
        ("protobuf-columns.md", 2),
        ("produce-typed-columns.md", 2),
    ],
)
def test_the_snippets_of_the_guide_run(page: str, snippets_min: int) -> None:
    with MockCluster(brokers=2, two_phase_commit=True) as cluster:
        cluster.create_topic("greetings", 3)
        cluster.create_topic("answers", 1)
        cluster.share.settings.auto_offset_reset = "earliest"
        with Producer({"bootstrap.servers": cluster.bootstrap_servers}) as producer:
            for number in range(3000):
                producer.produce("greetings", f"hello {number}", partition=number % 3)
        assert run_snippets(page, {"bootstrap": cluster.bootstrap_servers}) >= snippets_min


def test_the_snippets_about_typed_columns_run() -> None:
    schema = """{"type": "record", "name": "Order", "fields": [
        {"name": "city", "type": "string"}, {"name": "price", "type": "int"}]}"""
    with MockCluster(brokers=1) as cluster, MockSchemaRegistry() as registry:
        with SchemaRegistryClient({"url": registry.url}) as client:
            for topic in ("orders", "broken"):
                cluster.create_topic(topic, 2)
                number = client.register_schema(f"{topic}-value", Schema(schema))
        with Producer({"bootstrap.servers": cluster.bootstrap_servers}) as producer:
            producer.produce("broken", b"bad", partition=0)
            for price in range(1000):
                record = b"\6Rom" + bytes([2 * (price % 50)])
                value = b"\0" + number.to_bytes(4, "big") + record
                producer.produce("orders", value, partition=price % 2)
        names: dict[str, Any] = {}
        addresses = {
            "http://localhost:8081": registry.url,
            "localhost:9092": cluster.bootstrap_servers,
        }
        assert run_snippets("typed-columns.md", names, addresses) >= 4
    assert names["totals"] == [sum(range(0, 50, 2)) * 20, sum(range(1, 50, 2)) * 20]


def test_the_snippets_about_data_contracts_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule_registry, "_global_instance", rule_registry.RuleRegistry())
    assert run_snippets("data-contracts.md", {}) >= 2


def test_the_snippets_about_typed_messages_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(rule_registry, "_global_instance", rule_registry.RuleRegistry())
    names: dict[str, Any] = {}
    with MockCluster(brokers=1) as cluster, MockSchemaRegistry() as registry:
        cluster.create_topic("users", 1)
        addresses = {
            "http://localhost:8081": registry.url,
            "localhost:9092": cluster.bootstrap_servers,
        }
        assert run_snippets("typed-messages.md", names, addresses) == 6
        assert asyncio.run(names["serialized"]({"name": "Ada"})) == names["payload"]
    assert capsys.readouterr().out == "{'name': 'Ada'}\n"


def test_the_snippet_about_the_schema_registry_runs() -> None:
    with MockSchemaRegistry(listeners=2) as registry:
        written = "https://registry-1:8081,https://registry-2:8081"
        assert run_snippets("schema-registry.md", {}, {written: ",".join(registry.urls)}) == 1


def run_snippets(page: str, names: dict[str, Any], addresses: Mapping[str, str] = {}) -> int:
    """Run a page's snippets with these names, and return their number.

    :param addresses: What stands in place of the addresses on the page.
    """
    text = (GUIDE / page).read_text(encoding="utf-8")
    for written, used in addresses.items():
        assert written in text
        text = text.replace(written, used)
    snippets = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    for number, snippet in enumerate(snippets):
        exec(compile(snippet, f"{page}, snippet {number}", "exec"), names)
    return len(snippets)


@pytest.mark.skipif(not codec_core.HAS_JSON, reason="this build has no simdjson (libsimdjson-dev)")
def test_the_snippet_about_json_columns_runs() -> None:
    assert run_snippets("json-columns.md", {}) == 1
    assert run_snippets("produce-json-columns.md", {}) == 1


def test_the_snippet_about_the_mock_registry_runs() -> None:
    assert run_snippets("mock-registry.md", {}) == 1


def test_the_snippet_about_proxies_runs() -> None:
    with MockCluster(brokers=2) as cluster, Socks5((b"alice", b"s3cret")) as proxy:
        cluster.create_topic("greetings", 1)
        assert (
            run_snippets(
                "proxies.md", {"bootstrap": cluster.bootstrap_servers, "proxy": proxy.address}
            )
            == 1
        )
        assert cluster.watermarks("greetings", 0) == (0, 1)
        assert len(proxy.asked) >= 2


def private_key() -> str:
    """Return the key that signs an assertion, in PEM form."""
    key = rsa.generate_private_key(65537, 2048)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def test_the_snippets_about_sasl_run() -> None:
    mechanisms = ["SCRAM-SHA-512", "OAUTHBEARER"]
    security = ListenerSecurity("sasl_plaintext", mechanisms=mechanisms, users={"alice": "s3cret"})
    with (
        MockCluster(brokers=1, security=security) as cluster,
        TokenEndpoint(
            lambda asked: (200, {"access_token": unsecured_jwt("my-service")})
        ) as endpoint,
    ):
        cluster.create_topic("greetings", 1)
        names: dict[str, Any] = {
            "bootstrap": cluster.bootstrap_servers,
            "password": "s3cret",
            "issue_token": unsecured_jwt,
        }
        names |= {
            "token_endpoint": endpoint.url,
            "client_secret": "s3cret",
            "private_key": private_key(),
        }
        assert run_snippets("sasl.md", names) == 6
        assert [each.form["grant_type"].rpartition(":")[2] for each in endpoint.asked] == [
            "client_credentials",
            "jwt-bearer",
        ]
        principals = {login.principal for login in cluster.logins if login.error is None}
        assert principals == {"User:alice", "User:my-service"}
        assert cluster.watermarks("greetings", 0) == (0, 6)
