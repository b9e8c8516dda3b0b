"""Spark's own Kafka connector, fetched once through Maven: what ours is held against, in tests and in benchmarks."""

from __future__ import annotations

from pathlib import Path

from tests.broker import java

VERSION = "4.2.0"
POM = Path(__file__).parent / "connector-pom.xml"


def missing() -> str | None:
    """Why the connector can't be had here; None if it can."""
    return java.missing()


def jars() -> Path:
    """The folder with the connector's jars and those that Spark doesn't bring along."""
    return java.fetched(f"spark-connector-{VERSION}", POM, "dependency:copy")


def options() -> dict[str, str]:
    """What a session needs to know the format `kafka`. It counts for the first session of a process only."""
    return {"spark.driver.extraClassPath": f"{jars()}/*", "spark.executor.extraClassPath": f"{jars()}/*"}
