"""A data source of Apache Spark for Kafka: ``format("kafka_native")``.

    from kafka_native.spark import KafkaNativeDataSource

    spark.dataSource.register(KafkaNativeDataSource)

It needs PySpark 4.0 or newer and pyarrow: ``pip install 'kafka-native[spark]'``. See
docs/guide/spark.md.
"""

from __future__ import annotations

try:
    import pyarrow  # noqa: F401
    import pyspark.sql.datasource  # noqa: F401
except ImportError as _missing:
    raise ImportError(
        "kafka_native.spark needs PySpark 4.0 or newer and pyarrow: pip install "
        f"'kafka-native[spark]' ({_missing})"
    ) from None

from kafka_native.spark.datasource import KafkaNativeDataSource
from kafka_native.spark.interpreter import worker_python
from kafka_native.spark.kept_state import SkippedOffsets, skipped_offsets
from kafka_native.spark.partitioning import by_partition
from kafka_native.spark.progress import BatchProgress, ProgressListener, SourceLag
from kafka_native.spark.task_reports import TaskReport

__all__ = [
    "BatchProgress",
    "KafkaNativeDataSource",
    "ProgressListener",
    "SkippedOffsets",
    "SourceLag",
    "TaskReport",
    "by_partition",
    "skipped_offsets",
    "worker_python",
]
