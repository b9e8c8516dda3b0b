"""The direct pipelines as contestants: no row enters the JVM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.spark import Work

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def archive(spark: SparkSession, work: Work, **options: str) -> None:
    """Archive all records to a lake of Parquet files, with the default compression of Spark."""
    from kafka_native.spark.pipelines.archive import archive as run
    from kafka_native.spark.pipelines.parquet import ParquetSettings

    config, checkpoint = {"bootstrap.servers": work.bootstrap}, f"{work.folder}/checkpoint"
    settings = ParquetSettings(compression="snappy")
    run(
        config,
        f"{work.folder}/table",
        topics=[work.source],
        session=spark,
        checkpoint=checkpoint,
        settings=settings,
        options=options,
    )


def mirror(spark: SparkSession, work: Work) -> None:
    """Copy all records to another topic."""
    from kafka_native.spark.pipelines.mirror import mirror as run

    config = {"bootstrap.servers": work.bootstrap}
    target = {**config, "compression.type": work.codec}
    run(spark, config, target, f"{work.folder}/checkpoint", topics=[work.source], to=work.target)
