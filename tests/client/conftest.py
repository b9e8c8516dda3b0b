"""One mock cluster for all tests of the client. A test that breaks brokers repairs them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafka_native.admin import AdminClient
from kafka_native.mock import MockCluster, MockSchemaRegistry
from kafka_native.schema_registry import SchemaRegistryClient

from .admin_support import admin_of
from .bank import Bank
from .share_support import new_group
from .support import Client


@pytest.fixture(scope="module")
def cluster() -> Iterator[MockCluster]:
    with MockCluster(brokers=3) as running:
        yield running


@pytest.fixture
def repaired_cluster(cluster: MockCluster) -> Iterator[None]:
    """Repair the cluster after each test of a module that uses this fixture."""
    yield
    cluster.faults.clear()
    for broker in cluster.broker_ids:
        cluster.logs.set_rack(broker, None)


@pytest.fixture
def client(cluster: MockCluster) -> Client:
    return Client(cluster)


@pytest.fixture
def topic(client: Client) -> str:
    """Return a new topic of one partition."""
    return client.topic()


@pytest.fixture
def group(client: Client) -> str:
    """Return a new share group."""
    return new_group(client)


@pytest.fixture
def bank(cluster: MockCluster, request: pytest.FixtureRequest) -> Iterator[Bank]:
    with Bank(cluster, request.node.name) as made:
        yield made


@pytest.fixture
def admin(client: Client) -> Iterator[AdminClient]:
    with admin_of(client) as made:
        yield made


@pytest.fixture
def server() -> Iterator[MockSchemaRegistry]:
    """Run a schema registry of the test's own."""
    with MockSchemaRegistry() as registry:
        yield registry


@pytest.fixture
def registry(server: MockSchemaRegistry) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": server.url}) as client:
        yield client
