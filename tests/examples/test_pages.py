"""Every Python block of every page runs as it stands, or continues the program above it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)

from kafka_native import Producer
from kafka_native._native import codec_core
from kafka_native.mock import ListenerSecurity, MockCluster, MockSchemaRegistry
from kafka_native.mock.certificates import Identity
from kafka_native.schema_registry import Schema, SchemaRegistryClient
from tests.examples import pages
from tests.examples.pages import ROOT, Block
from tests.harness.tunnels import Socks5
from tests.mock.secured import unsecured_jwt
from tests.security.token_endpoint import TokenEndpoint

Setup = Callable[[Path], AbstractContextManager[dict[str, str]]]
"""Starts what the page needs in a folder, and says what stands in place of its addresses."""

RUN_ELSEWHERE = {
    "docs/guide/from-aiokafka.md": "tests/compat/test_guides_of_others.py",
    "docs/guide/from-kafka-python.md": "tests/compat/test_guides_of_others.py",
    "docs/guide/pipelines.md": "tests/spark/test_guide.py",
    "docs/guide/spark.md": "tests/spark/test_guide.py",
    "docs/guide/testing.md": "tests/plugin/test_pytest_plugin.py",
    "docs/tutorial/orders-to-iceberg.md": "tests/spark/test_tutorial.py",
}
TUTORIALS = {
    "docs/tutorial/exactly-once.md": {"orders": 1, "invoices": 1},
    "docs/tutorial/first-pipeline.md": {"orders": 2},
}
PAGES = [page for page in pages.pages() if pages.programs(page)]
RUN_HERE = [page for page in PAGES if page not in RUN_ELSEWHERE and page not in TUTORIALS]
PRINTED = {
    "README.md": "b'hello'\n",
    "docs/index.md": "b'hello'\n",
    "docs/guide/data-contracts.md": "rule positive of subject orders-value failed: the message",
    "docs/guide/typed-columns.md": "[12000, 12500]\n",
    "docs/guide/typed-messages.md": "{'name': 'Ada'}\nTrue\n",
}
"""What a page promises to print."""


@contextmanager
def plain(folder: Path) -> Iterator[dict[str, str]]:
    """A cluster with some topics, and a registry."""
    with MockCluster(brokers=3, two_phase_commit=True) as cluster, MockSchemaRegistry() as registry:
        cluster.share.settings.auto_offset_reset = "earliest"
        for topic, partitions in (("greetings", 3), ("answers", 1), ("user-profiles", 1)):
            cluster.create_topic(topic, partitions)
        with Producer({"bootstrap.servers": cluster.bootstrap_servers}) as producer:
            for number in range(3000):
                producer.produce("greetings", f"hello {number}", partition=number % 3)
            for number in range(10):
                producer.produce("measurements", b"20.5", key=f"sensor {number}")
            producer.produce("user-profiles", b"Ada", key=b"user-123")
        servers = ("localhost", "old-broker", "b1.example", "b7.example", "b8.example")
        addresses = dict.fromkeys((f"{each}:9092" for each in servers), cluster.bootstrap_servers)
        yield {**addresses, "http://localhost:8081": registry.url}


@contextmanager
def empty(folder: Path) -> Iterator[dict[str, str]]:
    with MockCluster(brokers=3) as cluster:
        yield {"localhost:9092": cluster.bootstrap_servers}


@contextmanager
def typed_orders(folder: Path) -> Iterator[dict[str, str]]:
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
        yield {"http://localhost:8081": registry.url, "localhost:9092": cluster.bootstrap_servers}


@contextmanager
def two_registries(folder: Path) -> Iterator[dict[str, str]]:
    with MockSchemaRegistry(listeners=2) as registry:
        yield {"https://registry-1:8081,https://registry-2:8081": ",".join(registry.urls)}


@contextmanager
def proxy(folder: Path) -> Iterator[dict[str, str]]:
    with MockCluster(brokers=2) as cluster, Socks5((b"alice", b"s3cret")) as proxy:
        cluster.create_topic("greetings", 1)
        yield {"localhost:9092": cluster.bootstrap_servers, "proxy.example:1080": proxy.address}
        assert cluster.watermarks("greetings", 0) == (0, 1)
        assert len(proxy.asked) >= 2


@contextmanager
def sasl(folder: Path) -> Iterator[dict[str, str]]:
    mechanisms = ["SCRAM-SHA-512", "OAUTHBEARER"]
    security = ListenerSecurity("sasl_plaintext", mechanisms=mechanisms, users={"alice": "s3cret"})
    key = rsa.generate_private_key(65537, 2048)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "private.pem").write_bytes(pem)
    (folder / "token.jwt").write_text(unsecured_jwt())
    token = {"access_token": unsecured_jwt("my-service")}
    with (
        MockCluster(brokers=1, security=security) as cluster,
        TokenEndpoint(lambda asked: (200, token)) as endpoint,
    ):
        cluster.create_topic("greetings", 1)
        yield {
            "localhost:9092": cluster.bootstrap_servers,
            "https://login.example.com/token": endpoint.url,
        }
        assert [each.form["grant_type"].rpartition(":")[2] for each in endpoint.asked] == [
            "client_credentials",
            "jwt-bearer",
        ]
        principals = {login.principal for login in cluster.logins if login.error is None}
        assert principals == {"User:alice", "User:my-service"}
        assert cluster.watermarks("greetings", 0) == (0, 6)


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


@contextmanager
def tls(folder: Path) -> Iterator[dict[str, str]]:
    security = ListenerSecurity("ssl", client_certificates="requested")
    with MockCluster(brokers=1, security=security) as cluster:
        cluster.create_topic("greetings", 1)
        save(folder, cluster.ca_pem, cluster.certificates.client("alice"))
        yield {"localhost:9092": cluster.bootstrap_servers}
        assert cluster.watermarks("greetings", 0) == (0, 3)
        subjects = [each.subject for each in cluster.handshakes if each.error is None]
        named = ["CN=alice" in (subject or "") for subject in subjects]
        assert named == sorted(named)  # only the first program has no certificate
        assert set(named) == {False, True}


SETUPS: dict[str, Setup] = {
    "docs/guide/admin.md": empty,
    "docs/guide/proxies.md": proxy,
    "docs/guide/sasl.md": sasl,
    "docs/guide/schema-registry.md": two_registries,
    "docs/guide/security.md": tls,
    "docs/guide/typed-columns.md": typed_orders,
}
"""Pages that need more than a plain cluster."""


@pytest.mark.parametrize("page", RUN_HERE)
def test_the_programs_of_the_page_run(page: str, tmp_path: Path) -> None:
    if "json-columns" in page and not codec_core.HAS_JSON:
        pytest.skip("this build has no simdjson (libsimdjson-dev)")
    with SETUPS.get(page, plain)(tmp_path) as addresses:
        printed = pages.run_alone(page, addresses, tmp_path)
    assert PRINTED.get(page, "") in printed


@pytest.mark.parametrize("page", TUTORIALS)
def test_the_tutorial_runs(page: str, tmp_path: Path) -> None:
    topics = TUTORIALS[page]
    named = ",".join(f"{topic}:{partitions}" for topic, partitions in topics.items())
    assert f"kafka-native mock --port 9092 --topics {named}\n" in (ROOT / page).read_text()
    with MockCluster(brokers=1) as cluster:
        for topic, partitions in topics.items():
            cluster.create_topic(topic, partitions)
        pages.check_commands(page, {"localhost:9092": cluster.bootstrap_servers}, tmp_path)


@pytest.mark.parametrize("page", sorted(RUN_ELSEWHERE))
def test_other_pages_are_run_by_another_test(page: str) -> None:
    assert page in PAGES
    assert Path(page).name in (ROOT / RUN_ELSEWHERE[page]).read_text(encoding="utf-8")


def test_setups_belong_to_pages() -> None:
    assert {*SETUPS, *PRINTED} - {*RUN_HERE} == set()
    assert {*TUTORIALS} - {*PAGES} == set()


def undefined_names(programs: list[list[Block]], folder: Path) -> list[str]:
    """Return the names that programs use and don't define, with the line where the program begins."""
    for program in programs:
        text = "".join(block.text for block in program)
        (folder / f"line_{program[0].line}.py").write_text(text, encoding="utf-8")
    ruff = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "--quiet"]
    done = subprocess.run(
        [*ruff, "--select", "F821", "--output-format", "concise", "."],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.parametrize("page", PAGES)
def test_no_block_uses_a_name_that_its_program_does_not_define(page: str, tmp_path: Path) -> None:
    assert undefined_names(pages.programs(page), tmp_path) == []


def is_python(text: str) -> bool:
    try:
        compile(text, "block", "exec")
    except SyntaxError:
        return False
    return True


@pytest.mark.parametrize("page", pages.pages())
def test_blocks_name_their_language(page: str) -> None:
    """A block that is no Python program has no language, or another one."""
    for block in pages.blocks(page):
        assert block.language in {"", *pages.LANGUAGES}, f"{page}:{block.line}"
        if block.language == "":
            assert not is_python(block.text), f"{page}:{block.line}"


def test_blocks_are_found_in_lists_and_continue_the_one_above(tmp_path: Path) -> None:
    text = "- a\n\n  ```python\n  x = 1\n  ```\n\n```python\n# continues the program above\ny = x\n```\n"
    blocks = [match.groups()[1:] for match in pages.FENCE.finditer(text)]
    assert blocks == [("python", "  x = 1\n"), ("python", "# continues the program above\ny = x\n")]
    program = [Block("a.md", 3, "python", "x = 1\n"), Block("a.md", 7, "python", "y = x + z\n")]
    assert not program[0].continues
    assert Block("a.md", 7, "python", blocks[1][1]).continues
    [found] = undefined_names([program], tmp_path)
    assert found.startswith("line_3.py:2")
    assert "`z`" in found
