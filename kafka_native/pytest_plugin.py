"""Fixtures of pytest: a Kafka cluster, a topic and a schema registry for tests of applications.

pytest finds this plugin by itself where kafka_native is installed. The mock cluster is imported
when a test first needs it. docs/guide/testing.md is the guide.

The marker ``kafka`` has the settings of a test's cluster::

    @pytest.mark.kafka(brokers=3, topics={"orders": 4}, tls=True)

- ``topics``: names with their numbers of partitions, or names alone.
- ``partitions``: of the topic of `kafka_topic`; the default is 1.
- ``tls=True``: brokers with TLS, whose certificate `kafka_config` trusts.
- Other arguments are those of `kafka_native.mock.MockCluster`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, get_args

import pytest

if TYPE_CHECKING:
    from kafka_native.mock import MockCluster, MockSchemaRegistry

Scope = Literal["function", "class", "module", "session"]

MARKER = "kafka"
NAME_MAX = 200
"""Kafka's limit for topics is 249 characters."""
ADMIN_S = 30.0
REAL = "the tests run with --kafka-bootstrap: only a mock cluster "

_numbers = itertools.count(1)
_clusters: dict[str, MockCluster] = {}
"""The clusters of running tests, by their bootstrap servers."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the option and the setting of the plugin."""
    group = parser.getgroup("kafka", "Kafka (kafka_native)")
    group.addoption(
        "--kafka-bootstrap",
        metavar="HOST:PORT",
        help="run tests that need no mock cluster on this Kafka cluster",
    )
    parser.addini(
        "kafka_scope",
        "how long a cluster lives: for a function (default), class, module or session",
        default="function",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker, and check the setting."""
    config.addinivalue_line(
        "markers",
        "kafka(brokers=3, topics={}, partitions=1, tls=False, ...): the Kafka cluster of a test",
    )
    scope = config.getini("kafka_scope")
    if scope not in get_args(Scope):
        raise pytest.UsageError(f"kafka_scope is one of {', '.join(get_args(Scope))}, not {scope}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuse markers of a test whose cluster others share."""
    for item in items:
        marker = item.get_closest_marker(MARKER)
        if marker is None or config.getini("kafka_scope") == "function":
            continue
        owner = _owner(item, config)
        if owner is None or owner.get_closest_marker(MARKER) is not marker:
            raise pytest.UsageError(
                f"{item.nodeid}: with kafka_scope={config.getini('kafka_scope')}, tests share a "
                "cluster. Set its marker for all of them (pytestmark), or use kafka_scope=function"
            )


def _owner(item: pytest.Item, config: pytest.Config) -> pytest.Item | pytest.Collector | None:
    """The node whose tests share a cluster; None: the session."""
    scope = config.getini("kafka_scope")
    if scope == "session":
        return None
    of_class = item.getparent(pytest.Class) if scope == "class" else None
    return of_class or item.getparent(pytest.Module)


def _scope(fixture_name: str, config: pytest.Config) -> Scope:
    found: Scope = config.getini("kafka_scope")
    return found


def _settings(request: pytest.FixtureRequest) -> dict[str, Any]:
    marker = request.node.get_closest_marker(MARKER)
    if marker is None:
        return {}
    if marker.args:
        raise pytest.UsageError(f"mark.kafka takes named arguments, not {marker.args}")
    return dict(marker.kwargs)


def _bootstrap_option(config: pytest.Config) -> str | None:
    found: str | None = config.getoption("--kafka-bootstrap")
    return found


@pytest.fixture(scope=_scope)
def kafka_cluster(request: pytest.FixtureRequest) -> Iterator[MockCluster]:
    """A mock cluster with the settings of ``@pytest.mark.kafka``; three brokers by default.

    With ``--kafka-bootstrap``, tests that use it are skipped.
    """
    if _bootstrap_option(request.config):
        pytest.skip(REAL + "has this fixture")
    from kafka_native.mock import ListenerSecurity, MockCluster

    settings = _settings(request)
    settings.pop("partitions", None)
    topics = settings.pop("topics", {})
    if settings.pop("tls", False):
        settings["security"] = ListenerSecurity(protocol="ssl")
    with MockCluster(**settings) as cluster:
        for name in topics:
            cluster.create_topic(name, topics[name] if isinstance(topics, Mapping) else 1)
        servers = cluster.bootstrap_servers  # a test may change the address of a broker
        _clusters[servers] = cluster
        try:
            yield cluster
        finally:
            del _clusters[servers]


@pytest.fixture(scope=_scope)
def kafka_bootstrap(request: pytest.FixtureRequest) -> str:
    """The ``bootstrap.servers`` of the cluster: of `kafka_cluster`, or ``--kafka-bootstrap``.

    Your own fixture of this name can start another cluster. Then `kafka_topic` is made there.
    """
    given = _bootstrap_option(request.config)
    if given is not None:
        return given
    cluster: MockCluster = request.getfixturevalue("kafka_cluster")
    return cluster.bootstrap_servers


@pytest.fixture(scope=_scope)
def kafka_config(kafka_bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The properties that a client of this package or of librdkafka needs for the cluster.

    They are ``bootstrap.servers`` and, with TLS or SASL, ``security.protocol`` and
    ``ssl.ca.location``. Users of SASL add their credentials.
    """
    config = {"bootstrap.servers": kafka_bootstrap}
    cluster = _clusters.get(kafka_bootstrap)
    if cluster is None:
        return config
    protocol = cluster.state.settings.security_protocol.lower()
    if protocol != "plaintext":
        config["security.protocol"] = protocol
    if protocol.endswith("ssl"):
        path = tmp_path_factory.mktemp("kafka") / "ca.pem"
        path.write_text(cluster.security.ca_pem)
        config["ssl.ca.location"] = str(path)
    return config


@pytest.fixture
def kafka_topic(request: pytest.FixtureRequest, kafka_config: dict[str, Any]) -> Iterator[str]:
    """The name of a new topic, which no other test uses. It is deleted after the test."""
    marker = request.node.get_closest_marker(MARKER)
    partitions = 1 if marker is None else marker.kwargs.get("partitions", 1)
    plain = re.sub(r"[^a-zA-Z0-9._-]+", "-", request.node.name)[:NAME_MAX].strip("-")
    name = f"{plain}-{next(_numbers)}"
    cluster = _clusters.get(kafka_config["bootstrap.servers"])
    if cluster is None:
        yield from _real_topic(kafka_config, name, partitions)
        return
    cluster.create_topic(name, partitions)
    yield name
    if name in cluster.topics:
        cluster.delete_topic(name)


def _real_topic(config: dict[str, Any], name: str, partitions: int) -> Iterator[str]:
    import uuid

    from kafka_native import KafkaError, KafkaException
    from kafka_native.admin import AdminClient, NewTopic

    name = f"{name}-{uuid.uuid4().hex[:8]}"
    with AdminClient(config) as admin:
        admin.create_topics([NewTopic(name, partitions)])[name].result(ADMIN_S)
        yield name
        try:
            admin.delete_topics([name])[name].result(ADMIN_S)
        except KafkaException as error:  # the test may have deleted it
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise


@pytest.fixture
def kafka_faults(kafka_cluster: MockCluster) -> Iterator[MockCluster]:
    """The mock cluster, for a test that makes faults. They end with the test.

    So the next test finds a healthy cluster also if it is shared.
    """
    yield kafka_cluster
    kafka_cluster.end_faults()


@pytest.fixture(scope=_scope)
def kafka_registry() -> Iterator[MockSchemaRegistry]:
    """An empty mock schema registry. Clients use its ``url``."""
    from kafka_native.mock import MockSchemaRegistry

    with MockSchemaRegistry() as registry:
        yield registry
