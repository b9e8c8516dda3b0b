"""The fixtures that users get from kafka_native.pytest_plugin, and the guide to them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kafka_native.mock import MockCluster
from tests.examples.pages import blocks
from tests.waiting import PROGRAM_S

BLOCKS = [block.text for block in blocks("docs/guide/testing.md", "python")]
NEEDS_DOCKER = "testcontainers"


def run(folder: Path, *options: str, ini: str = "", **files: str) -> str:
    """Run pytest on these files, as a user does, and return what it prints."""
    (folder / "pytest.ini").write_text(f"[pytest]\n{ini}\n")
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", *options],
        capture_output=True,
        text=True,
        check=False,
        timeout=PROGRAM_S,
        cwd=folder,
    )
    return done.stdout + done.stderr


def test_each_file_of_the_guide_runs_beside_others(tmp_path: Path) -> None:
    found = [block for block in BLOCKS if NEEDS_DOCKER not in block]
    files = {f"test_{number}": block for number, block in enumerate(found)}
    assert len(files) == 6
    assert "7 passed" in (shown := run(tmp_path, "-n", "2", **files)), shown


def test_each_test_has_its_own_cluster_and_registry(tmp_path: Path) -> None:
    shown = run(
        tmp_path,
        test_app="""
from http.client import HTTPConnection

SEEN = []

def test_both(kafka_cluster, kafka_registry):
    kafka_cluster.create_topic("a", 1)
    connection = HTTPConnection(kafka_registry.url.removeprefix("http://"))
    connection.request("GET", "/subjects")
    assert connection.getresponse().read() == b"[]"
    connection.close()
    SEEN.append(kafka_cluster.cluster_id)

def test_next_one_has_its_own(kafka_cluster, kafka_bootstrap):
    assert "a" not in kafka_cluster.topics
    assert kafka_cluster.cluster_id not in SEEN
    assert kafka_bootstrap == kafka_cluster.bootstrap_servers
    assert len(kafka_cluster.broker_ids) == 3
""",
    )
    assert "2 passed" in shown, shown


def test_tests_share_a_cluster_but_neither_topics_nor_faults(tmp_path: Path) -> None:
    shown = run(
        tmp_path,
        ini="kafka_scope = module",
        test_app="""
import pytest

pytestmark = pytest.mark.kafka(brokers=2, topics=["shared"])
SEEN = []

@pytest.mark.parametrize("name", ["first", "second / odd"])
def test_it(kafka_faults, kafka_topic, name):
    assert kafka_faults.broker_ids == [1, 2]
    assert kafka_faults.leader("shared", 0) > 0
    assert kafka_faults.leader(kafka_topic, 0) > 0
    assert not any(topic in kafka_faults.topics for _, topic in SEEN)
    assert all(cluster is kafka_faults for cluster, _ in SEEN)
    assert not kafka_faults.state.fenced_brokers()
    kafka_faults.broker_down(1)
    kafka_faults.remove_broker(2)
    SEEN.append((kafka_faults, kafka_topic))

def test_both_have_run():
    assert len(SEEN) == 2
""",
    )
    assert "3 passed" in shown, shown


def test_a_test_may_move_a_broker_and_close_the_cluster(tmp_path: Path) -> None:
    shown = run(
        tmp_path,
        test_app="""
def test_move(kafka_faults, kafka_topic, kafka_config):
    kafka_faults.broker_down(1)
    kafka_faults.broker_up(1, port=0)
    kafka_faults.advertise(2, "localhost:9092")

def test_close(kafka_cluster, kafka_topic):
    kafka_cluster.close()
""",
    )
    assert "2 passed" in shown, shown
    assert "error" not in shown, shown


@pytest.mark.parametrize("scope", ["class", "module", "session"])
def test_a_marker_of_one_test_is_refused_if_tests_share_the_cluster(
    tmp_path: Path, scope: str
) -> None:
    shown = run(
        tmp_path,
        ini=f"kafka_scope = {scope}",
        test_app="""
import pytest

@pytest.mark.kafka(brokers=1)
def test_it(kafka_cluster):
    pass
""",
    )
    assert f"test_it: with kafka_scope={scope}, tests share a cluster" in shown


def test_wrong_settings_are_refused(tmp_path: Path) -> None:
    assert "kafka_scope is one of function, class" in run(tmp_path, ini="kafka_scope = test")
    shown = run(
        tmp_path,
        test_app="""
import pytest

@pytest.mark.kafka(3)
def test_it(kafka_cluster):
    pass
""",
    )
    assert "mark.kafka takes named arguments, not (3,)" in shown


def test_tests_run_with_another_cluster(tmp_path: Path) -> None:
    with MockCluster(brokers=1) as other:
        shown = run(
            tmp_path,
            f"--kafka-bootstrap={other.bootstrap_servers}",
            test_app="""
from kafka_native import Producer

def test_of_any_cluster(kafka_config, kafka_topic):
    with Producer(kafka_config) as producer:
        producer.produce(kafka_topic, b"tea")

def test_of_a_mock_cluster(kafka_cluster):
    raise AssertionError
""",
        )
        assert "1 passed, 1 skipped" in shown, shown
        assert "only a mock cluster has this fixture" in shown
        assert not [name for name in other.topics if name.startswith("test_of")]


def test_a_test_may_delete_its_topic_from_another_cluster(tmp_path: Path) -> None:
    text = """
from kafka_native.admin import AdminClient

def test_delete(kafka_config, kafka_topic):
    with AdminClient(kafka_config) as admin:
        admin.delete_topics([kafka_topic])[kafka_topic].result(30)
"""
    with MockCluster(brokers=1) as cluster:
        servers = cluster.bootstrap_servers
        shown = run(tmp_path, "--kafka-bootstrap", servers, test_app=text)
    assert "1 passed" in shown, shown
    assert "error" not in shown, shown


def test_a_fixture_of_the_user_starts_the_cluster(tmp_path: Path) -> None:
    """As the guide's one for testcontainers does."""
    shown = run(
        tmp_path,
        conftest="""
import pytest
from kafka_native.mock import MockCluster

@pytest.fixture(scope="session")
def kafka_bootstrap():
    with MockCluster(brokers=1) as cluster:
        yield cluster.bootstrap_servers
""",
        test_app="""
from kafka_native.admin import AdminClient

def test_it(kafka_topic, kafka_config):
    with AdminClient(kafka_config) as admin:
        found = admin.list_topics(timeout=10)
    assert kafka_topic in found.topics
    assert len(found.brokers) == 1
""",
    )
    assert "1 passed" in shown, shown


def test_nothing_is_imported_until_a_test_needs_it(tmp_path: Path) -> None:
    shown = run(
        tmp_path,
        test_app="""
import sys

def test_it():
    own = {name for name in sys.modules if name.startswith("kafka_native")}
    assert own == {"kafka_native", "kafka_native.pytest_plugin"}
""",
    )
    assert "1 passed" in shown, shown


@pytest.mark.broker
@pytest.mark.slow
def test_the_fixture_of_the_guide_starts_a_broker(tmp_path: Path) -> None:
    from tests.broker import cluster

    if not cluster.docker_answers():
        pytest.skip("Docker doesn't answer")
    (conftest,) = (block for block in BLOCKS if NEEDS_DOCKER in block)
    shown = run(tmp_path, conftest=conftest, test_app="def test_it(kafka_topic):\n    pass\n")
    assert "1 passed" in shown, shown
