"""Spark's own Kafka connector and Avro functions, fetched once through Maven.

Tests and benchmarks compare the package with them. They fit one release of Spark, so each release has
jars of its own.
"""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

from tests import downloads
from tests.broker import java

VERSIONS = {"4.0": "4.0.1", "4.1": "4.1.1", "4.2": "4.2.0"}
"""The connector for each release of Spark: the last one that every mirror of Maven Central has."""


def connector_jars(version: str) -> downloads.JarSet:
    """Return the connector's jars of a version, and those that Spark lacks."""
    pom = Path(__file__).parent / "connector-pom.xml"
    return downloads.JarSet(f"spark-connector-{version}", pom, "copy", (f"spark={version}",))


def avro_jars(version: str) -> downloads.JarSet:
    """Return the jars of `from_avro` and `to_avro` of a version."""
    pom = Path(__file__).parent / "avro-pom.xml"
    return downloads.JarSet(f"spark-avro-{version}", pom, "copy", (f"spark={version}",))


JARS = tuple(
    jars for version in VERSIONS.values() for jars in (connector_jars(version), avro_jars(version))
)
"""The jars of all releases."""


def release() -> str:
    """Return the release of the PySpark that is imported here, such as 4.2."""
    return ".".join(metadata.version("pyspark").split(".")[:2])


def missing() -> str | None:
    """Return why the connector is missing here, or None."""
    if release() not in VERSIONS:
        return f"no jars of Spark {release()} are known to be on Maven Central"
    return java.missing()


def options() -> dict[str, str]:
    """Return settings for the format `kafka`, `from_avro` and `to_avro`.

    The first session of a process needs them.
    """
    version = VERSIONS[release()]
    folders = [downloads.jars(connector_jars(version)), downloads.jars(avro_jars(version))]
    paths = ":".join(f"{folder}/*" for folder in folders)
    return {"spark.driver.extraClassPath": paths, "spark.executor.extraClassPath": paths}
