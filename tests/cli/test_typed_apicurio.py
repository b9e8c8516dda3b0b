"""Typed values and schemas with Apicurio Registry, which others wrote."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_native.mock import MockCluster
from tests.broker import java
from tests.cli.running import invoke
from tests.cli.typed_support import LINES, ORDER, PERSON
from tests.mock import apicurio

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if why := java.missing():
        pytest.skip(f"no Apicurio Registry: {why}")
    with apicurio.running(tmp_path_factory.mktemp("apicurio")) as running:
        yield running


def schemas(url: str, words: str, stdin: str = "") -> Any:
    return invoke("schemas", *words.split(), "-r", url, stdin=stdin.encode())


def test_schemas(url: str) -> None:
    done = schemas(url, "register shop-value - --type avro", ORDER)
    assert done.stdout.startswith("shop-value: version 1, id ")
    assert "shop-value" in schemas(url, "list --long").stdout
    shown = schemas(url, "show shop-value")
    assert json.loads(shown.stdout) == json.loads(ORDER)
    assert "compatible" in schemas(url, "check shop-value - --type avro", ORDER).stdout
    assert schemas(url, "show nosuch").exit_code == 1


@pytest.mark.parametrize(
    ("kind", "schema", "line"), [("avro", ORDER, LINES[1]), ("json", PERSON, '{"name":"Ada"}')]
)
def test_values(
    url: str, cluster: MockCluster, tmp_path: Path, kind: str, schema: str, line: str
) -> None:
    cluster.create_topic(kind, 1)
    file = tmp_path / "schema"
    file.write_text(schema)
    words = ["-s", f"value={kind}", "-r", url, "-b", cluster.bootstrap_servers]
    done = invoke("produce", "-t", kind, "--schema", str(file), *words, stdin=line.encode())
    assert done.exit_code == 0, done.output
    assert invoke("consume", kind, "-e", "-q", *words).stdout == f"{line}\n"
    examined = invoke("doctor", "--json", "-t", kind, *words[2:])
    assert examined.exit_code == 0, examined.output
    payloads = json.loads(examined.stdout)["steps"][-1]
    assert payloads["text"].startswith("1 value with schema id ")


def test_doctor_wants_the_path(url: str) -> None:
    done = invoke("doctor", "-r", url.partition("/apis")[0])
    assert done.exit_code == 21
    assert "/apis/ccompat/v7" in done.stdout
