"""One Spark session for all tests of this folder, and a mock cluster beside it.

A session takes seconds to start and a gigabyte: tests share it. Those that need another kind of
session, such as local-cluster, run a program of their own.
"""

from __future__ import annotations

import itertools
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kafka_native.mock import MockCluster, MockSchemaRegistry
from kafka_native.schema_registry import SchemaRegistryClient
from kafka_native.spark import (
    KafkaNativeDataSource,
    exactly_once,
    producers,
    range_reader,
    typed_sink,
    worker_python,
)
from tests.broker.cluster import Cluster
from tests.broker.support import TopicMaker, delete_topics, shared_or_skip
from tests.spark import jvm
from tests.spark.support import Kafka

HERE = Path(__file__).parent
ROOT = HERE.resolve().parents[1]


@pytest.hookimpl(tryfirst=True)  # before -m selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test that uses a session as slow: a session takes seconds to start."""
    for item in items:
        if item.path.is_relative_to(HERE) and "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(autouse=True, scope="module")
def idle_clients() -> Iterator[None]:
    """Close the clients that workers keep for the next task at the end of the file."""
    yield
    producers.close_idle()
    range_reader.close_idle()
    exactly_once.close_idle()
    typed_sink.close_idle()


def make_session(master: str = "local[2, 2]", **conf: str) -> SparkSession:
    """Make a small and quiet session with the data source. A failed task is retried once."""
    os.environ["PYSPARK_PYTHON"], os.environ["PYSPARK_DRIVER_PYTHON"] = (
        worker_python(),
        sys.executable,
    )
    paths = [str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(each for each in paths if each))
    builder = SparkSession.builder.master(master).appName("kafka_native tests")
    settings = {
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        # sessions that tests start as programs use TCP
        "spark.python.unix.domain.socket.enabled": "true",
        **{name.replace("_", "."): value for name, value in conf.items()},
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    session.dataSource.register(KafkaNativeDataSource)
    return session


def connector(request: pytest.FixtureRequest) -> dict[str, str]:
    """Return the settings for Spark's own connector, if a test of this run needs it."""
    wanted = any("connected" in getattr(item, "fixturenames", ()) for item in request.session.items)
    return jvm.options() if wanted and not jvm.missing() else {}


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    if shutil.which("java") is None:
        pytest.skip("no Spark: java is not installed")
    session = make_session(**connector(request))
    try:
        yield session
    finally:
        session.stop()


@pytest.fixture(scope="session")
def mock_cluster() -> Iterator[MockCluster]:
    """Yield three brokers in this process."""
    with MockCluster(brokers=3) as cluster:
        yield cluster


@pytest.fixture
def kafka(spark: SparkSession, mock_cluster: MockCluster) -> Kafka:
    """Return topics of the mock cluster and the way in which Spark reads them."""
    return Kafka(mock_cluster, spark)


@pytest.fixture(scope="session")
def connected(spark: SparkSession) -> SparkSession:
    """Return a session that also has Spark's own connector."""
    why = jvm.missing()
    if why:
        pytest.skip(f"no connector of Spark's: {why}")
    return spark


@pytest.fixture(scope="module")
def apache() -> Cluster:
    """Return a real Apache Kafka of one broker."""
    return shared_or_skip(1)


@pytest.fixture(scope="module")
def kafka3() -> Cluster:
    """Return three brokers, whose metadata may differ for a moment."""
    return shared_or_skip(3)


@pytest.fixture
def new_topic(request: pytest.FixtureRequest) -> Iterator[TopicMaker]:
    """Yield a function that makes topics with unique names. Delete them after the test."""
    made: list[tuple[Cluster, str]] = []
    yield TopicMaker(request.node.name, made)
    delete_topics(made)


@pytest.fixture
def no_consumer_left() -> Iterator[None]:
    """Close the consumers that readers keep, after each test of modules that ask for it."""
    yield
    range_reader.close_idle()


@pytest.fixture(scope="module")
def cluster() -> Iterator[MockCluster]:
    """Yield one broker without automatic topic creation."""
    with MockCluster(brokers=1, auto_create_topics=False) as running:
        yield running
        range_reader.close_idle()


# --- typed records ---

_typed_topics = itertools.count()


@pytest.fixture(scope="module")
def registry() -> Iterator[MockSchemaRegistry]:
    with MockSchemaRegistry() as running:
        yield running


@pytest.fixture
def client(registry: MockSchemaRegistry) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry.url}) as made:
        yield made


@pytest.fixture
def topic(mock_cluster: MockCluster) -> str:
    """Return a topic without records."""
    name = f"typed-{next(_typed_topics)}"
    mock_cluster.create_topic(name, 1)
    return name
