"""The direct pipelines as contestants: rows don't come to the JVM at all."""

from __future__ import annotations

from typing import Any

from bench.spark import Work


def archive(spark: Any, work: Work) -> None:
    """All that is there to a lake of Parquet files, with the compression that Spark's own have by default."""
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
    )


def mirror(spark: Any, work: Work) -> None:
    """All that is there to another topic."""
    from kafka_native.spark.pipelines.mirror import mirror as run

    config = {"bootstrap.servers": work.bootstrap}
    target = {**config, "compression.type": work.codec}
    run(spark, config, target, f"{work.folder}/checkpoint", topics=[work.source], to=work.target)
