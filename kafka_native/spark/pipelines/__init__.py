"""Direct pipelines: Spark schedules and commits, Python tasks fetch and write, no row crosses into the JVM."""

from __future__ import annotations

from kafka_native.spark.pipelines.archive import ArchiveResult, archive, plan_archive
from kafka_native.spark.pipelines.lake import Gap, Lake, LakeFile, Manifest, Range
from kafka_native.spark.pipelines.parquet import ParquetSettings
from kafka_native.spark.pipelines.session import PipelineError, Work

__all__ = [
    "ArchiveResult",
    "Gap",
    "Lake",
    "LakeFile",
    "Manifest",
    "ParquetSettings",
    "PipelineError",
    "Range",
    "Work",
    "archive",
    "plan_archive",
]
