"""Reads tables with Spark: ``python -m tests.spark.spark_tables DELTA|ICEBERG FOLDER JARS QUERY ...``.

Iceberg and Delta publish their jars for a release of Spark after that release. So the tests run this
program with an older PySpark than theirs, see `read_by_spark`. The result of the query number N is
the file ``N.parquet`` in the folder.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests import downloads
from tests.broker import java
from tests.spark import versions
from tests.waiting import PROGRAM_S

PYSPARK = "4.0.5"
JARS = downloads.JarSet("spark-tables-4.0", Path(__file__).parent / "tables-pom.xml", "copy")
TABLES = {"delta": "delta.`{folder}/table`", "iceberg": "local.ns.orders"}
"""The names in Spark of the tables of `DeltaTables` and `IcebergTables`."""


def missing() -> str | None:
    """Return why Spark can't read tables here, or None."""
    if why := java.missing():
        return why
    try:
        downloads.jars(JARS)
        versions.installed(PYSPARK)
    except (RuntimeError, subprocess.SubprocessError) as error:
        return f"PySpark {PYSPARK} or its jars can't be downloaded: {error}"
    return None


def read_by_spark(kind: str, folder: Path, *queries: str) -> list[pa.Table]:
    """Return the rows of queries. They name the table ``{table}``.

    :param kind: ``delta`` or ``iceberg``.
    :param folder: The folder of the tests' tables.
    """
    jars = str(downloads.jars(JARS))
    command = [sys.executable, "-m", __name__, kind, str(folder), jars, *queries]
    done = subprocess.run(
        command,
        cwd=versions.ROOT,
        env=versions.environment(PYSPARK),
        capture_output=True,
        text=True,
        timeout=PROGRAM_S,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    return [pq.read_table(folder / f"{number}.parquet") for number in range(len(queries))]


def settings(folder: str, jars: str) -> dict[str, str]:
    """Return the settings of a session that knows the tables of a folder."""
    catalog = "spark.sql.catalog.local"
    return {
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraClassPath": f"{jars}/*",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.type": "jdbc",
        f"{catalog}.uri": f"jdbc:sqlite:{folder}/catalog.db",
        f"{catalog}.jdbc.schema-version": "V1",
        f"{catalog}.warehouse": f"file://{folder}",
    }


def main(kind: str, folder: str, jars: str, *queries: str) -> None:
    """Run the queries in a session of their own."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("tables")
    for name, value in settings(folder, jars).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    table = TABLES[kind].format(folder=folder)
    for number, query in enumerate(queries):
        rows = spark.sql(query.replace("{table}", table)).toArrow()
        pq.write_table(rows, os.path.join(folder, f"{number}.parquet"))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
