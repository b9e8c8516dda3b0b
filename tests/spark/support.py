"""Common parts of the tests of the Spark data source."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import pytest
from pyspark.sql import DataFrameReader, SparkSession, datasource
from pyspark.sql.streaming import DataStreamReader

from tests.client.support import Client

FORMAT = "kafka_native"
FIRST_MS = 1_700_000_000_000
"""The timestamp of the first record of `Kafka.fill()`. Each further one is a second later."""

HAS_LIMITS = find_spec("pyspark.sql.streaming.datasource") is not None
"""Whether sources of PySpark can limit micro-batches, and know Trigger.AvailableNow."""

RUNS_AFTER_A_KILL = 1 if HAS_LIMITS else 2
"""So many runs with AvailableNow reach the end: with PySpark 4.0 and 4.1, one only repeats a batch."""

needs_limits = pytest.mark.skipif(
    not HAS_LIMITS,
    reason="with PySpark 4.0 and 4.1, AvailableNow or the first micro-batch has no limit",
)

needs_filters = pytest.mark.skipif(
    not hasattr(datasource, "EqualTo"), reason="PySpark 4.0 passes no filters to readers"
)
needs_stream_writer = pytest.mark.skipif(
    not hasattr(datasource, "DataSourceStreamArrowWriter"),
    reason="streams of typed columns need PySpark 4.1",
)

CONNECT_MODULES = ("grpc", "grpc_status", "zstandard")
"""Modules of the packages that Spark Connect needs."""


@dataclass
class Kafka(Client):
    """A cluster and a session, with helpers for tests."""

    spark: SparkSession

    def options(self, topic: str, **options: Any) -> dict[str, str]:
        """Return the options of a source. ``kafka.`` properties come as ``**{"kafka.x": ...}``."""
        return source_options(self.bootstrap, topic, **options)

    def read(self, topic: str, **options: Any) -> DataFrameReader:
        """Return ``spark.read`` of a topic. Call load()."""
        return self.spark.read.format(FORMAT).options(**self.options(topic, **options))

    def read_stream(self, topic: str, **options: Any) -> DataStreamReader:
        """Return ``spark.readStream`` of a topic. Call load()."""
        return self.spark.readStream.format(FORMAT).options(**self.options(topic, **options))

    def produce(self, topic: str, records: Iterable[dict[str, Any]], **conf: Any) -> None:
        """Produce records from keywords of ``produce()``, and return when all are written."""
        with self.producer(**conf) as producer:
            for record in records:
                producer.produce(topic, **record)
            assert producer.flush(30) == 0

    def fill(
        self, topic: str, count: int, *, partition: int = 0, start: int = 0, **conf: Any
    ) -> None:
        """Produce the numbers from ``start`` on as texts, each with a key and a header."""
        self.produce(
            topic, (numbered(number, partition) for number in range(start, start + count)), **conf
        )


def numbered(number: int, partition: int) -> dict[str, Any]:
    """Return the record of `Kafka.fill()` for a number."""
    return {
        "value": str(number).encode(),
        "key": f"key-{number}".encode(),
        "partition": partition,
        "timestamp": FIRST_MS + number * 1000,
        "headers": [("number", str(number).encode())],
    }


def source_options(bootstrap: str, topic: str, **options: Any) -> dict[str, str]:
    """Return the options of a source that reads one topic."""
    base = {"kafka.bootstrap.servers": bootstrap}
    if not {"assign", "subscribePattern"} & set(options):
        base["subscribe"] = topic
    return {**base, **{name: str(value) for name, value in options.items()}}


def connect_missing() -> str | None:
    """Return why Spark Connect is missing here, or None."""
    if shutil.which("java") is None:
        return "java is not installed"
    missing = [name for name in CONNECT_MODULES if find_spec(name) is None]
    return f"pip install 'pyspark[connect]': no {missing[0]}" if missing else None
