"""The class that Spark registers as the data source ``kafka_native``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from kafka_native.spark.errors import OptionError
from kafka_native.spark.options import COLUMNS, RANGE_COLUMNS, SourceOptions, lowered, redacted

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType


class KafkaNativeDataSource(DataSource):
    """Kafka topics as source and sink of batch queries and streams.

        spark.dataSource.register(KafkaNativeDataSource)
        frame = spark.read.format("kafka_native").option("subscribe", "greetings")
        frame.option("kafka.bootstrap.servers", "localhost:9092").load()

    Options, columns and offsets are those of Spark's own connector, ``format("kafka")``.
    docs/guide/spark.md lists the additional ones.
    """

    @classmethod
    def name(cls) -> str:
        """The name for ``format()``: ``kafka_native``."""
        return "kafka_native"

    def schema(self) -> str:
        """The columns of the source, which depend on the options.

        :raises OptionError: An option is invalid. Or the schema is for a table of CREATE TABLE: its
            options wouldn't be there when it is read.
        """
        if any(name.startswith("option.") for name in lowered(self.options)):
            raise OptionError(
                "USING kafka_native",
                "Spark passes the options of a table to no Python source: write CREATE TEMPORARY "
                "VIEW name USING kafka_native OPTIONS (...) in place of CREATE TABLE",
            )
        return ", ".join(
            f"`{name}` {kind}" for name, kind in _kinds(SourceOptions.parse(self.options)).items()
        )

    def reader(self, schema: StructType) -> DataSourceReader:
        """Make the reader of ``spark.read``."""
        from kafka_native.spark import batch

        return batch.batch_reader(self._source_options(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Make the reader of ``spark.readStream``."""
        from kafka_native.spark import stream_reader

        return stream_reader.StreamReader(self._source_options(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Make the writer of ``frame.write``."""
        from kafka_native.spark import writers

        return writers.batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Make the writer of ``frame.writeStream``."""
        from kafka_native.spark import writers

        return writers.stream_writer(self.options, schema, overwrite)

    def __repr__(self) -> str:
        """The options, with secrets replaced."""
        return f"KafkaNativeDataSource({redacted(lowered(self.options))})"

    def _source_options(self, schema: StructType) -> SourceOptions:
        """The parsed options. A schema with other columns than the source's is an error."""
        options = SourceOptions.parse(self.options)
        kinds = _kinds(options)
        asked = {field.name: field.dataType.simpleString() for field in schema.fields}
        if asked != kinds or list(asked) != list(kinds):
            raise OptionError(
                "schema", "the columns are fixed: leave schema() out, and choose some with columns="
            )
        return options


def _kinds(options: SourceOptions) -> Mapping[str, str]:
    """The columns in their order, with Spark's names of the types."""
    return (
        RANGE_COLUMNS
        if options.rows == "ranges"
        else {name: COLUMNS[name] for name in options.columns}
    )
