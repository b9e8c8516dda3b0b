"""Spark's own Kafka connector and Avro functions, fetched once through Maven, for comparisons and benchmarks."""

from __future__ import annotations

from pathlib import Path

from tests import downloads
from tests.broker import java

VERSION = "4.2.0"
JARS = downloads.JarSet(
    f"spark-connector-{VERSION}", Path(__file__).parent / "connector-pom.xml", "copy"
)
AVRO_JARS = downloads.JarSet(
    f"spark-avro-{VERSION}", Path(__file__).parent / "avro-pom.xml", "copy"
)


def missing() -> str | None:
    """Return why the connector is missing here, or None."""
    return java.missing()


def jars() -> Path:
    """Return the folder with the connector's jars and those that Spark lacks."""
    return downloads.jars(JARS)


def options() -> dict[str, str]:
    """Return settings for the format `kafka`, `from_avro` and `to_avro`.

    The first session of a process needs them.
    """
    paths = f"{jars()}/*:{downloads.jars(AVRO_JARS)}/*"
    return {"spark.driver.extraClassPath": paths, "spark.executor.extraClassPath": paths}
