"""Direct pipelines: Spark schedules and commits, Python tasks read and write.

No row enters the JVM.
"""

from __future__ import annotations

from kafka_native.spark.pipelines.archive import ArchiveResult, archive, plan_archive
from kafka_native.spark.pipelines.archive_target import ArchiveTarget
from kafka_native.spark.pipelines.dead_letters import (
    DeadLetterFile,
    ReplayedLetters,
    dead_letter_files,
    replay_dead_letters,
)
from kafka_native.spark.pipelines.delta import DeltaTarget
from kafka_native.spark.pipelines.iceberg import IcebergTarget
from kafka_native.spark.pipelines.lake import Gap, Lake
from kafka_native.spark.pipelines.maintain import MaintainResult, Merge, maintain, plan_merges
from kafka_native.spark.pipelines.manifests import LakeFile, Manifest, Range, Skipped
from kafka_native.spark.pipelines.parquet import ParquetSettings
from kafka_native.spark.pipelines.replay import LanePlan, ReplayResult, plan_replay, replay
from kafka_native.spark.pipelines.session import PipelineError, Work
from kafka_native.spark.pipelines.table_target import TableState, TableTarget
from kafka_native.spark.pipelines.tables import table_target

__all__ = [
    "ArchiveResult",
    "ArchiveTarget",
    "DeadLetterFile",
    "DeltaTarget",
    "Gap",
    "IcebergTarget",
    "Lake",
    "LakeFile",
    "LanePlan",
    "MaintainResult",
    "Manifest",
    "Merge",
    "ParquetSettings",
    "PipelineError",
    "Range",
    "ReplayResult",
    "ReplayedLetters",
    "Skipped",
    "TableState",
    "TableTarget",
    "Work",
    "archive",
    "dead_letter_files",
    "maintain",
    "plan_archive",
    "plan_merges",
    "plan_replay",
    "replay",
    "replay_dead_letters",
    "table_target",
]
