"""A mock cluster, and a mock registry with schemas, for the commands."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafka_native.mock import MockCluster, MockSchemaRegistry
from kafka_native.schema_registry import Schema, SchemaRegistryClient
from tests.cli.typed_support import LINES, ORDER, PERSON, POINT, UNFRAMED, Shell, framed


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    with MockCluster(brokers=2) as running:
        yield running


@pytest.fixture
def registry() -> Iterator[MockSchemaRegistry]:
    with MockSchemaRegistry() as running:
        yield running


@pytest.fixture
def client(registry: MockSchemaRegistry) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry.url}) as made:
        made.register_schema("orders-value", Schema(ORDER, "AVRO"))
        made.register_schema("points-value", Schema(POINT, "PROTOBUF"))
        made.register_schema("people-value", Schema(PERSON, "JSON"))
        yield made


@pytest.fixture
def shell(
    cluster: MockCluster, registry: MockSchemaRegistry, client: SchemaRegistryClient
) -> Shell:
    return Shell(cluster, registry)


@pytest.fixture
def damaged(shell: Shell) -> Shell:
    """Fill orders: two good messages around one of each kind that can't be decoded."""
    shell.produce("orders", "-s", "value=avro", stdin=LINES[0])
    shell.send("orders", [UNFRAMED, framed(77, b"x"), framed(1, b"\x02\x02"), framed(2, b"\0")])
    shell.produce("orders", "-s", "value=avro", stdin=LINES[1])
    return shell
