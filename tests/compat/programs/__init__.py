"""Programs of others that are written for confluent_kafka, each with exact versions.

A program runs in an environment of its own: once on confluent_kafka, once on kafka_native under
``kafka_native.compat``, each on a mock cluster of its own. Either a script in ``use`` uses the
program, or the program's own tests run, from its source archive.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent


@dataclass(frozen=True)
class OwnTests:
    """The tests in a program's source archive."""

    arguments: tuple[str, ...]
    """What pytest gets: files and options."""
    folder: str = ""
    """The folder in the archive in which pytest runs."""
    path: tuple[str, ...] = ()
    """Folders in the archive from which the tests import."""


@dataclass(frozen=True)
class Program:
    """A package on PyPI."""

    name: str
    version: str
    use: str = ""
    """The script in ``use``."""
    launcher: str = ""
    """The program's command that starts the script: Python's command follows."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Environment variables."""
    tests: OwnTests | None = None

    @property
    def packages(self) -> str:
        """The set of all packages in the program's environment, in the table of downloads."""
        return f"pip-program-{self.name}"

    @property
    def sources(self) -> str:
        """The set with the program's source archive."""
        return f"pip-source-{self.name}"


ARROYO_TESTS = "tests/backends tests/test_kip848_e2e.py tests/processing/strategies/test_produce.py"
KOMBU_TESTS = "t/unit/transport/test_confluentkafka.py t/integration/test_kafka.py"
NO_SERVER = "not failed and not Failover"
"""Leaves out kombu's tests that wait twelve seconds for a server that doesn't exist."""
DATADOG_SETTINGS = {
    "DD_DATA_STREAMS_ENABLED": "true",
    "DD_INSTRUMENTATION_TELEMETRY_ENABLED": "false",
    "DD_KAFKA_PROPAGATION_ENABLED": "true",
    "DD_REMOTE_CONFIGURATION_ENABLED": "false",
    "DD_TRACE_AGENT_URL": "http://127.0.0.1:1",  # no agent
}

PROGRAMS = (
    Program(
        "sentry-arroyo",
        "2.48.0",
        "use_arroyo.py",
        tests=OwnTests(("-p", "arroyo_support", *ARROYO_TESTS.split())),
    ),
    Program(
        "newrelic",
        "14.1.0",
        "use_newrelic.py",
        tests=OwnTests(
            ("-p", "newrelic_support", "."),
            "tests/messagebroker_confluentkafka",
            ("tests",),
        ),
    ),
    Program(
        "kombu",
        "5.7.0",
        "use_kombu.py",
        tests=OwnTests(("-p", "kombu_support", "-k", NO_SERVER, *KOMBU_TESTS.split())),
    ),
    Program("dagster-kafka", "1.3.1", "use_dagster.py", tests=OwnTests(("tests",))),
    Program("opentelemetry-instrumentation-confluent-kafka", "0.66b1", tests=OwnTests(("tests",))),
    Program("quixstreams", "3.28.1", "use_quixstreams.py"),
    Program("faststream", "0.7.8", "use_faststream.py"),
    Program(
        "ddtrace", "4.16.0", "use_ddtrace.py", launcher="ddtrace-run", settings=DATADOG_SETTINGS
    ),
    Program("bytewax", "0.21.1", "use_bytewax.py"),
    Program("apache-airflow-providers-apache-kafka", "2.1.0", "use_airflow.py"),
)
