"""Spark's own Kafka connector, fetched once through Maven: what ours is held against, in tests and in benchmarks."""

from __future__ import annotations

from pathlib import Path

from tests import downloads
from tests.broker import java

VERSION = "4.2.0"
JARS = downloads.JarSet(f"spark-connector-{VERSION}", Path(__file__).parent / "connector-pom.xml", "copy")


def missing() -> str | None:
    """Why the connector can't be had here; None if it can."""
    return java.missing()


def jars() -> Path:
    """The folder with the connector's jars and those that Spark doesn't bring along."""
    return downloads.jars(JARS)


def options() -> dict[str, str]:
    """What a session needs to know the format `kafka`. It counts for the first session of a process only."""
    return {"spark.driver.extraClassPath": f"{jars()}/*", "spark.executor.extraClassPath": f"{jars()}/*"}
